"""Phases of a curve: plateaus, drops and the times between them."""

from eqsolve.curves.phases import *  # noqa: F403
