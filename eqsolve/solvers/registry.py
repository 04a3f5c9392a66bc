"""The solvers there are, and which of them a plan is given to: the one that says it fits best and has no objection.

Solvers of this package, those of installed packages (entry points of the group
``eqsolve.solvers``), and those that a program registers are alike: a name, how well it fits, and
the solver itself. An entry point names a ``Solver``, its class, or a module with ``fit`` and
``SOLVER``, "module:class", so that asking whether it fits does not import the method.
"""

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass

from eqsolve.compile.plan import Facts, Plan
from eqsolve.errors import UsageError, did_you_mean, logger
from eqsolve.solvers.contract import Solver, Wanted

Fit = Callable[[Facts, Wanted], float]


def _without_memory(facts: Facts, wanted: Wanted) -> float:
    unfit = facts.memory or facts.kernels or facts.shifted_times or (facts.implicit and not facts.processes)
    if facts.kind != "System" or unfit:
        return 0.0
    return 45.0 if facts.ode_families else 30.0


# By name: "module:class" in this folder, and ``Solver.fit``, of which the largest is chosen.
BUILTIN: dict[str, tuple[str, Fit]] = {
    "ode": ("ode.solve:OdeSolver", _without_memory),  # nothing is cheaper
    # every closed system, at a higher cost than methods for less
    "two_time": ("two_time.solve:TwoTimeSolver", lambda facts, wanted: 10.0 if facts.kind == "System" else 0.0),
    # the only one for functions at shifted times, and for families
    "convolution": (
        "convolution.solve:ConvolutionSolver", lambda facts, _: 40.0 if facts.shifted_times or facts.has_families else 0.0,
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
        lambda facts, wanted: 55.0 if (wanted.discrete and facts.step_noises) or facts.needs_step_limit else 0.0,
    ),
    "fixed_point": ("fixed_point.solve:FixedPointSolver", lambda facts, wanted: 10.0 if facts.kind != "System" else 0.0),
    "singularity": ("singularity.solve:SingularitySolver", lambda facts, wanted: 9.0 if facts.kind != "System" else 0.0),
}  # fmt: skip

_SAME = {"sampled": "stochastic"}  # once a solver of its own, for white noise
_GROUP = "eqsolve.solvers"


Entry = tuple[Fit, Callable[[], Solver]]
"""A solver that can be chosen: how well it fits, and how it is made."""


@dataclass(frozen=True)
class SolverChoice:
    """The solver chosen, and the reason in words."""

    solver: Solver
    reason: str

    @property
    def name(self) -> str:
        return self.solver.name


REGISTERED: dict[str, Entry] = {}


def register(solver: Solver | type[Solver]) -> None:
    """Make a solver one of those that ``solve`` chooses from, ``explain`` tells of, and ``solver="name"`` finds.

    Parameters
    ----------
    solver
        A solver, or its class. It is chosen by itself where its ``fit`` is the largest. Processes that a sweep starts do not
        know it; they know those of installed packages, by an entry point of the group ``eqsolve.solvers``.

    Examples
    --------
    >>> eqsolve.register(RungeKutta)
    >>> eqsolve.solve("my_model", t_max=1, solver="runge_kutta")
    """
    instance = solver() if isinstance(solver, type) else solver
    if not isinstance(instance, Solver):
        raise UsageError(f"register takes an eqsolve.Solver, or its class; got {instance!r}")
    name = getattr(instance, "name", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise UsageError(f"the name of a solver is an identifier such as 'runge_kutta', got {name!r}")
    if name in _known() and name not in REGISTERED:
        raise UsageError(f"there is a solver `{name}` already; give yours another name")
    REGISTERED[name] = instance.fit, lambda: instance


def _known() -> dict[str, Entry]:
    return {**_installed(), **REGISTERED}


@functools.cache
def _installed() -> dict[str, Entry]:
    """Return the solvers of this package, and those of installed ones."""
    from importlib.metadata import entry_points  # sympy imports it, `eqsolve --help` does not

    entries: dict[str, Entry] = {name: (fit, _maker(f"{__package__}.{home}")) for name, (home, fit) in BUILTIN.items()}
    for entry in entry_points(group=_GROUP):
        if entry.name in entries:
            logger.warning("the solver `%s` of %s is left out: there is one of this name already", entry.name, entry.value)
        else:
            entries[entry.name] = _entry(entry.value)
    return entries


def _entry(where: str) -> Entry:
    """Return what an entry point names: a solver, or a module with ``fit`` and ``SOLVER``."""
    if ":" in where:
        make = _maker(where)
        return lambda facts, wanted: make().fit(facts, wanted), make
    home = functools.partial(importlib.import_module, where)
    return lambda facts, wanted: float(home().fit(facts, wanted)), functools.cache(lambda: _load(home().SOLVER))


def _maker(where: str) -> Callable[[], Solver]:
    return functools.cache(lambda: _load(where))


def _load(where: str) -> Solver:
    """Return the solver that stands at "module:class", or "module:solver"."""
    home, _, kind = where.partition(":")
    solver = getattr(importlib.import_module(home), kind)
    return solver() if isinstance(solver, type) else solver


def solver_names() -> tuple[str, ...]:
    """Return the names of all solvers."""
    return tuple(_known())


def find_solver(name: str) -> Solver:
    known, name = _known(), _SAME.get(name, name)
    if name not in known:
        raise UsageError(f"there is no solver `{name}`{did_you_mean(name, known)} (there are: {', '.join(known)})")
    return known[name][1]()


def choose_solver(
    plan: Plan, wanted: Wanted, solver: str | Solver | None = None, reason: str = "as asked for",
    without: tuple[str, ...] = (),
) -> SolverChoice:  # fmt: skip
    """Return the solver that runs a plan, or the one asked for; raise where it cannot.

    ``reason`` is why it is asked for. Of the solvers named in ``without``, which have handed over,
    none is chosen.
    """
    own = _best(plan, wanted, without)
    if solver is None:
        if own is None:
            raise UsageError(f"model `{plan.name}`: there is no solver for it; `eqsolve explain {plan.name}` says why")
        chosen, reason = own, own.why(plan)
    else:
        chosen = find_solver(solver) if isinstance(solver, str) else solver
        if unfit := why_unfit(chosen, plan):
            hint = f"; its own solver is `{own.name}`" if own is not None else ""
            raise UsageError(f"solver `{chosen.name}` cannot solve model `{plan.name}`: {unfit}{hint}")
    if chosen.only_discrete and not wanted.discrete and not plan.facts.needs_step_limit:
        raise UsageError(f"solver `{chosen.name}` follows discrete time; say how long a step is: step=0.1 (--step 0.1)")
    if wanted.discrete and not chosen.discrete:
        raise UsageError(
            f"model `{plan.name}`: a discrete step is solved for systems without memory, with noise, or of compositions "
            f"so far, and this one is solved by `{chosen.name}`; omit step= for continuous time"
        )
    return SolverChoice(chosen, reason)


def _best(plan: Plan, wanted: Wanted, without: tuple[str, ...]) -> Solver | None:
    """Return the solver that fits best of those without objection; they are asked in this order, since asking imports them."""
    fits = {name: fit(plan.facts, wanted) for name, (fit, _) in _known().items() if name not in without}
    for name in sorted((name for name in fits if fits[name] > 0), key=lambda name: -fits[name]):
        solver = find_solver(name)
        if not why_unfit(solver, plan):
            return solver
    return None


def why_unfit(solver: Solver, plan: Plan) -> str:
    """Return why a solver cannot solve a plan; nothing when it can."""
    if plan.facts.has_families and not solver.families:
        return "it takes no families (unknowns with an index)"
    return solver.why_not(plan)
