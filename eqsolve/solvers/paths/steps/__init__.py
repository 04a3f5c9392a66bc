"""Systems in discrete time with noise that is drawn in every step: many paths, advanced together, exactly."""

from eqsolve.compile.plan import Facts
from eqsolve.solvers.contract import Wanted

SOLVER = "eqsolve.solvers.paths.steps.solve:StepsSolver"


def fit(facts: Facts, wanted: Wanted) -> float:
    """Return how well it fits: noise that is drawn in every step has as many modes as there are steps."""
    return 55.0 if (wanted.discrete and facts.fresh) or facts.refined else 0.0
