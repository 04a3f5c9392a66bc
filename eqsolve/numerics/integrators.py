"""scipy's integrators alone: all of scipy.integrate brings optimisers, a quarter of a second."""

import importlib
import os
import sys
from types import ModuleType
from typing import Any

import scipy

_HOME = "_eqsolve_ivp"


def integrator(name: str) -> Any:
    """Return what scipy.integrate has by a name; explicit methods without importing all of it."""
    if "scipy.integrate" not in sys.modules:
        home = sys.modules.setdefault(_HOME, ModuleType(_HOME))
        home.__path__ = [os.path.join(scipy.__path__[0], "integrate", "_ivp")]
        try:
            for part in ("rk", "common"):
                if hasattr(module := importlib.import_module(f"{_HOME}.{part}"), name):
                    return getattr(module, name)
        except ImportError:  # another scipy, where these are elsewhere
            pass
    return getattr(importlib.import_module("scipy.integrate"), name)
