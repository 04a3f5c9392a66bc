"""Processes with memory and Gaussian drives: sweeps over all paths on one grid."""

from eqsolve.compile.plan import Facts
from eqsolve.solvers.contract import Wanted

SOLVER = "eqsolve.solvers.paths.solve:StochasticSolver"


def fit(facts: Facts, wanted: Wanted) -> float:
    """Return how well it fits: processes are followed path by path."""
    return 50.0 if facts.driven else 0.0
