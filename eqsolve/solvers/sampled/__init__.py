"""Systems with white noise: many paths, advanced together step by step in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eqsolve.compile.plan import Facts
    from eqsolve.solvers.contract import Wanted

SOLVER = "eqsolve.solvers.sampled.solve:SampledSolver"


def fit(facts: Facts, wanted: Wanted) -> float:
    """Return how well it fits: white noise has no smooth modes."""
    return 50.0 if facts.whites else 0.0
