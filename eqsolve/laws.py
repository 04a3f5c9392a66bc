"""Laws of random constants, by name."""

from eqsolve.language.laws import *  # noqa: F403
from eqsolve.language.laws import __all__ as __all__
