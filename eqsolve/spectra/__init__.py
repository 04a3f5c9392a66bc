"""Limiting spectral laws of random matrices, usable on their own."""

from eqsolve.spectra._arguments import SpectrumError
from eqsolve.spectra._quadrature import Expectation
from eqsolve.spectra.marchenko_pastur import MarchenkoPastur

__all__ = ["Expectation", "MarchenkoPastur", "SpectrumError"]
