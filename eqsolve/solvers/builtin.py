"""The solvers of this package: where each stands, and how well it suits a model, told without importing the method."""

from collections.abc import Callable

from eqsolve.compile.plan import Facts
from eqsolve.solvers.contract import Wanted

Fit = Callable[[Facts, Wanted], float]


def _without_memory(facts: Facts, wanted: Wanted) -> float:
    unfit = facts.memory or facts.kernels or facts.shifted or (facts.implicit and not facts.processes)
    return 0.0 if facts.kind != "System" or unfit else 30.0


# By name: "module:class" in this folder, and ``Solver.fit``, of which the largest is chosen.
BUILTIN: dict[str, tuple[str, Fit]] = {
    "ode": ("ode.solve:OdeSolver", _without_memory),  # nothing is cheaper
    # every closed system, at a higher cost than methods for less
    "two_time": ("two_time.solve:TwoTimeSolver", lambda facts, wanted: 10.0 if facts.kind == "System" else 0.0),
    # the only one for functions at shifted times, and for families
    "convolution": (
        "convolution.solve:ConvolutionSolver", lambda facts, wanted: 40.0 if facts.shifted or facts.indexed else 0.0,
    ),
    # cheaper than two_time where kernels are not wanted, and exact in steps
    "operators": (
        "operators.solve:OperatorsSolver",
        lambda facts, wanted: 20.0 if facts.kind == "System" and (wanted.kernels is False or wanted.discrete) else 0.0,
    ),
    # where the law of the paths is Gaussian none has to be followed, in continuous time
    "gaussian": ("gaussian.solve:GaussianSolver", lambda facts, wanted: 60.0 if facts.driven and not wanted.discrete else 0.0),
    "stochastic": ("paths.solve:StochasticSolver", lambda facts, wanted: 50.0 if facts.driven else 0.0),  # path by path
    # noise that is drawn in every step has as many modes as there are steps
    "steps": (
        "paths.steps.solve:StepsSolver",
        lambda facts, wanted: 55.0 if (wanted.discrete and facts.fresh) or facts.refined else 0.0,
    ),
    "fixed_point": ("fixed_point.solve:FixedPointSolver", lambda facts, wanted: 10.0 if facts.kind != "System" else 0.0),
    "singularity": ("singularity.solve:SingularitySolver", lambda facts, wanted: 9.0 if facts.kind != "System" else 0.0),
}  # fmt: skip
