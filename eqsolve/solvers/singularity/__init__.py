"""Convergence rates: the rightmost singularity of a transform."""

from eqsolve.compile.plan import Facts
from eqsolve.solvers.contract import Wanted

SOLVER = "eqsolve.solvers.singularity.solve:SingularitySolver"


def fit(facts: Facts, wanted: Wanted) -> float:
    """Return how well it fits."""
    return 9.0 if facts.kind != "System" else 0.0
