"""Closed two-time systems over many decades."""

from eqsolve.compile.plan import Facts
from eqsolve.solvers.contract import Wanted

SOLVER = "eqsolve.solvers.aging.solve:AgingSolver"


def fit(facts: Facts, wanted: Wanted) -> float:
    """Return how well it fits: it is handed over to, when the times are known."""
    return 0.0
