"""Systems of one-time functions with memory: convolutions and delays, over many decades of time."""

from eqsolve.compile.plan import Facts
from eqsolve.solvers.contract import Wanted

SOLVER = "eqsolve.solvers.convolution.solve:ConvolutionSolver"


def fit(facts: Facts, wanted: Wanted) -> float:
    """Return how well it fits: it alone reads functions at shifted times, and families."""
    return 40.0 if facts.shifted or facts.indexed else 0.0
