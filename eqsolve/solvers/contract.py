"""What a solver is.

A solver is an object with a name and three methods: ``why_not``, ``why`` and ``solve``; with a
fourth, ``fit``, it is one of those that the engine chooses from. It never sees a symbol: a plan's
``facts`` tell it what the model is made of, ``plan.program(form)`` gives it array functions with
parameters as arguments (the forms are in ``eqsolve.compile.forms``), and
``eqsolve.compile.lowering.at(program, values.numbers)`` binds these to numbers. Its docstring
gives the order, the cost, the memory, a reference, and when it is chosen. Everything that one
needs to write a solver is in ``eqsolve.solver_kit``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from eqsolve.compile.forms import Form
    from eqsolve.compile.plan import Facts, Plan, Values
    from eqsolve.results.result import Result
    from eqsolve.solvers.options import Options


@dataclass(frozen=True)
class Wanted:
    """What is asked of a solve, as far as it decides which solver fits.

    Attributes
    ----------
    kernels
        Whether functions of two times must meet the tolerance; False: they are not wanted at all.
    discrete
        Whether time goes in given steps.
    """

    kernels: bool | None = None
    discrete: bool = False


@dataclass(frozen=True)
class HandOver:
    """What a solver answers in place of a result when another one is to solve this."""

    reason: str  # in words; logged
    # the name of the other; by default the next in the order of preference that can solve it
    solver: str = ""


def why_not_a(kind: str, plan: Plan) -> str:
    """Return why a solver of one kind of model cannot take a plan, or "" if it can."""
    return "" if plan.facts.kind == kind else f"it solves a {kind}, and this is a {plan.facts.kind}"


def why_not_closed(plan: Plan) -> str:
    """Return why a solver of closed systems cannot take a plan, or "" if it can."""
    processes = plan.facts.processes
    return why_not_a("System", plan) or (f"it takes no random processes: `{processes[0]}`" if processes else "")


def why_not_driven(plan: Plan) -> str:
    """Return why a solver by sample paths cannot take a plan, or "" if it can."""
    if plan.facts.needs_step_limit:
        return "its noise keeps paths positive, in steps whose length goes to zero (solver `steps`)"
    return why_not_a("System", plan) or ("" if plan.facts.driven else "there is neither noise nor memory of paths in it")


class Solver(ABC):
    """Base of all solvers, ours and users'."""

    name: ClassVar[str]
    """How it is asked for: ``solver="name"``."""

    discrete: ClassVar[bool] = False
    """Whether it can solve the discrete-time system of a given step."""

    only_discrete: ClassVar[bool] = False
    """Whether it solves nothing else."""

    on_card: ClassVar[bool] = False
    """Whether it can have its arrays on a graphics card: ``choose_backend(options.device, work)`` says where they are."""

    families: ClassVar[bool] = False
    """Whether it solves indexed families as arrays; for other solvers each member is written out as an unknown."""

    generic: ClassVar[bool] = False
    """Whether it reads only ``plan.program(form)``: families whose members have the same equation are then
    compiled once, by ``plan.program``, for one of them; the solver is given every member as an unknown of its own."""

    def starts(self, plan: Plan) -> bool:
        """Return whether it profits from a warm start: ``Result.source`` of one solve is then
        ``options.warm_start`` of the next."""
        return False

    def linearises(self, plan: Plan) -> bool:
        """Return whether it finds derivatives by parameters at the solution: ``options.sensitivity`` is then the plan
        of the system enlarged by its derivatives, and its values. Others solve that plan itself."""
        return False

    def fit(self, facts: Facts, wanted: Wanted) -> float:
        """Return how well this solver suits a model: of those without objection the engine takes the largest.

        With 0, the default, it runs only when it is asked for, or handed over to. Of the solvers of
        this package `two_time`, which solves every closed system, has 10, `operators` 20, `ode` 30
        (45 for families), `convolution` 40, `stochastic` 50, `steps` 55 and `gaussian` 60; they
        stand in ``eqsolve.solvers.registry``, so that asking imports no solver.
        """
        return 0.0

    def form(self, discrete: bool) -> Form[Any] | None:
        """Return the form of program that it runs, by which ``explain`` tells what the model becomes; None: as declared."""
        return None

    @abstractmethod
    def why_not(self, plan: Plan) -> str:
        """Return why a model cannot be solved, in words that follow "cannot solve model M:"; nothing when it can."""

    @abstractmethod
    def why(self, plan: Plan) -> str:
        """Return what speaks for this solver, for a plan it can solve."""

    def instead(self, plan: Plan, values: Values, options: Options) -> HandOver | None:
        """Return the solver that suits these numbers better, and why; asked where the engine chooses."""
        return None

    @abstractmethod
    def solve(self, plan: Plan, values: Values, options: Options) -> Result | HandOver:
        """Solve to the tolerance in the options, or as well as it goes with the reason in the result's status.

        A solver that finds on the way that another one must do it returns a ``HandOver``, never
        the other's result: the result is then reported under the name of the solver that ran.

        Raises
        ------
        SolverError
            When there is no result; what there is up to a point is its attribute ``partial``.
        """
