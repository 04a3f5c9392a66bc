"""Limiting spectral laws of random matrices, usable on their own."""

from eqsolve.spectra.marchenko_pastur import Expectation, MarchenkoPastur, SpectrumError

__all__ = ["Expectation", "MarchenkoPastur", "SpectrumError"]
