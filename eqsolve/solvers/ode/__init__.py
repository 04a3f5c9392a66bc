"""Ordinary differential equations, with random constants by quadrature."""

from eqsolve.compile.plan import Facts
from eqsolve.solvers.contract import Wanted

SOLVER = "eqsolve.solvers.ode.solve:OdeSolver"


def fit(facts: Facts, wanted: Wanted) -> float:
    """Return how well it fits: without memory nothing is cheaper."""
    unfit = facts.memory or facts.kernels or facts.shifted or (facts.implicit and not facts.processes)
    return 0.0 if facts.kind != "System" or unfit else 30.0
