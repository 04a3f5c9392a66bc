"""Systems of one-time functions with memory: convolutions and delays, over many decades of time."""

from eqsolve.compile.plan import Facts
from eqsolve.solvers.contract import Wanted

SOLVER = "eqsolve.solvers.convolution.solve:ConvolutionSolver"


def fit(facts: Facts, wanted: Wanted) -> float:
    """Return how well it fits: functions at shifted times are convolutions or delays, which no other solver reads."""
    return 40.0 if facts.shifted else 0.0
