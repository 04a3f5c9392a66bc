"""The solvers there are, by name, and which of them a plan is given to."""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass

from eqsolve.compile.plan import Plan
from eqsolve.errors import UsageError, did_you_mean
from eqsolve.solvers.contract import Solver

__all__ = ["SOLVERS", "Choice", "choose_solver", "find_solver"]

_HOMES = {
    "ode": "eqsolve.solvers.ode.solve:OdeSolver",
    "two_time": "eqsolve.solvers.two_time.solve:TwoTimeSolver",
    "aging": "eqsolve.solvers.aging.solve:AgingSolver",
    "convolution": "eqsolve.solvers.convolution.solve:ConvolutionSolver",
    "operators": "eqsolve.solvers.operators.solve:OperatorsSolver",
    "gaussian": "eqsolve.solvers.gaussian.solve:GaussianSolver",
    "stochastic": "eqsolve.solvers.stochastic.solve:StochasticSolver",
    "steps": "eqsolve.solvers.steps.solve:StepsSolver",
    "sampled": "eqsolve.solvers.sampled.solve:SampledSolver",
    "fixed_point": "eqsolve.solvers.fixed_point.solve:FixedPointSolver",
    "singularity": "eqsolve.solvers.singularity.solve:SingularitySolver",
}
SOLVERS = tuple(_HOMES)


@dataclass(frozen=True)
class Choice:
    """The solver chosen, and the reason in words."""

    solver: Solver
    reason: str

    @property
    def name(self) -> str:
        return self.solver.name


@functools.cache
def find_solver(name: str) -> Solver:
    """Return the solver of that name."""
    if name not in _HOMES:
        raise UsageError(f"there is no solver `{name}`{did_you_mean(name, SOLVERS)} (there are: {', '.join(SOLVERS)})")
    module, kind = _HOMES[name].split(":")
    made: Solver = getattr(importlib.import_module(module), kind)()
    return made


def choose_solver(
    plan: Plan,
    *,
    kernels: bool | None = None,
    discrete: bool = False,
    solver: str | Solver | None = None,
    reason: str = "as asked for",
    without: tuple[str, ...] = (),
) -> Choice:
    """Return the solver that runs a plan, or the one asked for; raise where it cannot.

    ``reason`` is why it is asked for. ``kernels=False`` says that only functions of one time are wanted, ``discrete`` that
    time goes in given steps. Of the solvers named in ``without``, which have handed over, none is chosen.
    """
    own = _own(plan, kernels, discrete, without)
    if solver is None:
        if own is None:
            raise UsageError(f"model `{plan.name}`: there is no solver for it; `eqsolve explain {plan.name}` says why")
        chosen, reason = own, own.why(plan)
        if discrete and chosen.name == "operators":
            reason = "a discrete step of a closed system of compositions, which is exact"
    else:
        chosen = find_solver(solver) if isinstance(solver, str) else solver
        if unfit := chosen.why_not(plan):
            hint = f"; its own solver is `{own.name}`" if own is not None else ""
            raise UsageError(f"solver `{chosen.name}` cannot solve model `{plan.name}`: {unfit}{hint}")
    if chosen.only_discrete and not discrete:
        raise UsageError(f"solver `{chosen.name}` follows discrete time; say how long a step is: step=0.1 (--step 0.1)")
    if discrete and not chosen.discrete:
        raise UsageError(
            f"model `{plan.name}`: a discrete step is solved for stochastic systems and closed systems of compositions, "
            f"so far, and this one is solved by `{chosen.name}`; leave the step out"
        )
    return Choice(chosen, reason)


def _own(plan: Plan, kernels: bool | None, discrete: bool, without: tuple[str, ...] = ()) -> Solver | None:
    """Return the first solver, in the order of preference, that has no objection.

    Where the law of the paths is Gaussian none is followed, in continuous time. Noise that is drawn in every step has as many
    modes as there are steps, so that its paths are sampled. Compositions are cheaper as operators where
    kernels are not wanted, and exact where time goes in steps; an unknown in its own definition is left to the collocation of
    two times. Functions at shifted times are convolutions or delays, which no other solver reads. A solver that cannot be
    meant is not asked, since asking imports it.
    """
    facts = plan.facts
    order = ["fixed_point", "singularity"] if facts.kind != "System" else []
    if facts.processes or facts.noises:
        order += [] if discrete else ["gaussian"]
        order += ["steps"] if discrete and facts.fresh else []
        order += ["sampled" if facts.whites else "stochastic"]
    order += ["convolution"] if facts.shifted else []
    order += [] if facts.implicit and not facts.processes else ["ode"]
    order += ["operators"] if kernels is False or discrete else []
    order += ["two_time"]
    asked = (find_solver(name) for name in order if name not in without)
    return next((solver for solver in asked if not solver.why_not(plan)), None)
