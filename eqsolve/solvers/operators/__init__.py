"""Closed systems of compositions: whole kernels as matrices on few nodes."""

from eqsolve.compile.plan import Facts
from eqsolve.solvers.contract import Wanted

SOLVER = "eqsolve.solvers.operators.solve:OperatorsSolver"


def fit(facts: Facts, wanted: Wanted) -> float:
    """Return how well it fits: compositions are cheaper as operators where kernels are not wanted, and exact in steps."""
    return 20.0 if facts.kind == "System" and (wanted.kernels is False or wanted.discrete) else 0.0
