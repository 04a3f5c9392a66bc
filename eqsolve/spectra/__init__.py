"""Limiting spectral laws of random matrices, usable on their own."""

from eqsolve.spectra.marchenko_pastur import MarchenkoPastur, SpectrumError

__all__ = ["MarchenkoPastur", "SpectrumError"]
