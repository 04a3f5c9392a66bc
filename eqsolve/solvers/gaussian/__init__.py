"""Systems whose paths are affine in Gaussian drives: a Gaussian law on one grid, no paths."""

from eqsolve.compile.plan import Facts
from eqsolve.solvers.contract import Wanted

SOLVER = "eqsolve.solvers.gaussian.solve:GaussianSolver"


def fit(facts: Facts, wanted: Wanted) -> float:
    """Return how well it fits: where the law of the paths is Gaussian none has to be followed, in continuous time."""
    return 60.0 if facts.driven and not wanted.discrete else 0.0
