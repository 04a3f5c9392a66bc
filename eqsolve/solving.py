"""`solve`: check, bind, choose a solver and say why, run it, and record where the numbers come from."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from eqsolve.arguments import callback, checked, flag, number, pairs, path, table, text
from eqsolve.errors import SolverError, UsageError, did_you_mean
from eqsolve.files.checkpoint import Checkpoint
from eqsolve.language.binding import Binding, bind
from eqsolve.language.fixed_point import Cases, FixedPoint, Singularity
from eqsolve.language.flow import Flow
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.nodes import Int
from eqsolve.language.system import System
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options

__all__ = ["SOLVERS", "Choice", "choose_solver", "decide_solver", "solve", "why_not"]

logger = logging.getLogger("eqsolve")

SOLVERS = ("ode", "two_time", "operators", "stochastic", "fixed_point", "singularity")


@dataclass(frozen=True)
class Choice:
    """The solver chosen for a model, and the reason in words."""

    name: str
    reason: str


def choose_solver(model: Model, *, kernels: bool | None = None) -> Choice:
    """Return the solver that fits a model's structure; ``name`` is empty when there is none yet.

    ``kernels=False`` says that only functions of one time are wanted, which a cheaper solver may give.
    """
    if isinstance(model, FixedPoint):
        return Choice("fixed_point", "scalar equations: a scan, then Newton's method, expectations split at kinks")
    if isinstance(model, Singularity):
        return Choice("singularity", "a transform: followed from the right to its first singularity, then certified")
    if not isinstance(model, System):
        return Choice("", f"there is no solver for a {model.kind}")
    if model.constraints:
        from eqsolve.passes.rewrite.constraints import reduce_constraints

        model = reduce_constraints(model).system
    memory = any(equation.rhs.has(Int) for equation in model.equations)
    implicit = any(eq.rhs.has(eq.target) for eq in model.equations if not eq.is_differential and eq.target is not None)
    if model.noises or (model.processes and (memory or model.kernels)):
        driven = f"driven by {', '.join(noise.name for noise in model.noises)}" if model.noises else "with memory"
        return Choice("stochastic", f"processes {driven}: sweeps over all paths on one grid, modes by quadrature")
    if model.processes or not (memory or model.kernels or implicit):
        what = "random constants only" if model.processes else "no memory"
        return Choice("ode", f"ordinary differential equations with {what}: an adaptive integrator on quadrature nodes")
    if kernels is False:
        from eqsolve.passes.forms.composition import is_composition

        if is_composition(model):
            return Choice("operators", "kernels that enter through compositions, only functions of one time asked for")
    return Choice("two_time", "closed equations of one and two times with memory: collocation on panels")


def decide_solver(
    model: Model, *, kernels: bool | None = None, step: Any = None, solver: str | None = None
) -> Choice:
    """Return the solver that ``solve`` runs under these options; raise where it refuses."""
    choice = choose_solver(model, kernels=kernels)
    if solver is not None:
        if solver not in SOLVERS:
            raise UsageError(f"there is no solver `{solver}`{did_you_mean(solver, SOLVERS)} (there are: {', '.join(SOLVERS)})")
        if unfit := why_not(solver, model):
            hint = f"; its own solver is `{choice.name}`" if choice.name else ""
            raise UsageError(f"solver `{solver}` cannot solve model `{model.name}`: {unfit}{hint}")
        choice = Choice(solver, "as asked for")
    if not choice.name:
        raise UsageError(f"model `{model.name}`: {choice.reason}")
    if step is None or choice.name in ("stochastic", "operators"):
        return choice
    if solver is None and choice.name == "two_time" and not why_not("operators", model):
        return Choice("operators", "a discrete step of a closed system of compositions, which is exact")
    raise UsageError(
        f"model `{model.name}`: a discrete step is solved for stochastic systems and closed systems of compositions, "
        f"so far, and this one is solved by `{choice.name}`; leave the step out"
    )


@checked(
    model=read_model, at2=pairs, kernels=flag, solver=text, progress=callback, resume=flag, params=table, start=table,
)  # fmt: skip
def solve(
    model: Model | str,
    *,
    t_max: float | None = None,
    rtol: float = 1e-3,
    atol: float | None = None,
    at: float | Iterable[float] | None = None,
    at2: Iterable[tuple[float, float]] | None = None,
    kernels: bool | None = None,
    order: int | None = None,
    step: float | None = None,
    seed: int = 0,
    solver: str | None = None,
    precision: int | None = None,
    observables: Iterable[str] | None = None,
    start: Mapping[str, float] | None = None,
    region: tuple[float, float] | None = None,
    progress: Any = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    resume: bool = False,
    params: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> Result:
    """Solve a model.

    Parameters
    ----------
    model
        A model, its name, or the path of its file; of a flow, the mean-field equations are solved.
    t_max
        Last time; the largest time asked for by default.
    rtol, atol
        Tolerance on every observable (and on the kernels, if asked for).
    at, at2
        Times, and pairs of times, to be met exactly by the grid.
    kernels
        Whether the two-time functions themselves must meet the tolerance; true when ``at2`` is given. False says that
        they are not wanted at all: where the structure allows it, the nodes then grow only like log t.
    order
        Nodes per panel; chosen from the tolerance by default.
    step
        Solve the discrete-time system with this step exactly (gradient descent instead of gradient flow), not the
        continuous one; the model's own step by default.
    seed
        Seed of everything random.
    solver
        Name of a solver, to override the choice.
    precision
        Decimal digits, for a fixed point beyond double precision; its values and laws then carry mpmath's numbers.
    observables
        Names of the observables to compute; these must meet the tolerance, or the status is "tolerance not met". All by
        default.
    start
        Values of a fixed point's unknowns near which to look first, such as those at a neighbouring parameter; of a
        `Singularity`, the value of the transform far to the right, when several are bounded there.
    region
        (LOW, HEIGHT): where a `Singularity` is searched for singularities, Re p ≥ LOW and |Im p| ≤ HEIGHT. By default as
        far as the transform's own scale reaches.
    progress
        Called with (done, total, text) while solving.
    checkpoint, resume
        A file that keeps the finished steps, for runs that may be killed; ``resume`` goes on from what it holds, to the
        same numbers as without the interruption. It is removed at the end. There must be no such file yet, unless
        ``resume`` says that it is meant.
    params, **parameters
        Values of parameters and laws of random constants, by name.
    """
    from eqsolve.passes.check.check import RESERVED, check
    from eqsolve.results.provenance import describe

    started = time.perf_counter()
    assert isinstance(model, Model)
    check(model)
    if isinstance(model, Cases):
        return _solve_case(model, {**(params or {}), **parameters}, {
            "t_max": t_max, "rtol": rtol, "atol": atol, "at": at, "at2": at2, "kernels": kernels, "order": order,
            "step": step, "seed": seed, "solver": solver, "precision": precision, "start": start, "progress": progress,
            "checkpoint": checkpoint, "resume": resume, "region": region, "observables": observables,
        })  # fmt: skip
    for word in parameters if not isinstance(model, Singularity) else ():  # whose law may know further names
        if word not in model.names and (near := did_you_mean(word, RESERVED)):
            raise UsageError(f"solve has no option `{word}`, and model `{model.name}` no such parameter{near}")
    _refuse_idle(model, {"t_max": t_max, "at": at, "at2": at2, "step": step, "precision": precision, "start": start})
    settings = {**(params or {}), **parameters}
    declared = model
    if isinstance(model, Flow):
        model, settings = _mean_field(model, settings)
    if isinstance(model, Singularity):
        from eqsolve.passes.routing import bind_singularity

        binding: Binding = bind_singularity(model, settings)
    else:
        binding = bind(model, settings)
    if step is None and isinstance(model, System) and model.step is not None:
        step = binding.number(model.step)
    if isinstance(model, System) and model.constraints:
        from eqsolve.passes.rewrite.constraints import without_constraints

        binding = without_constraints(binding)
    if observables is not None:  # a parameter of those left out may still be set
        from eqsolve.passes.rewrite.observables import select_observables

        model = select_observables(model, observables)
        binding = replace(binding, model=select_observables(binding.model, observables))
    options = Options.make(
        t_max=t_max,
        rtol=rtol,
        atol=atol,
        at=at,
        at2=at2,
        kernels=kernels,
        order=order,
        seed=seed,
        progress=progress,
        step=step,
        precision=precision,
        start=start,
        region=region,
    )
    if region is not None and not isinstance(model, Singularity):
        kind = f"model `{model.name}` is a {model.kind}"
        raise UsageError(f"region= is where a Singularity is searched, and {kind}; leave it out")
    choice = decide_solver(model, kernels=kernels, step=step, solver=solver)
    name = choice.name
    logger.info("%s: solver %s (%s)", model.name, name, choice.reason)

    def finish(result: Result) -> Result:
        stats = {"solver": name, "seconds": time.perf_counter() - started}
        if isinstance(model, FixedPoint | Singularity):
            result = _judged(result, tuple(model.observables), options)
        return result.with_provenance(stats, describe(declared, seed))

    try:
        return finish(_run_kept(name, binding, options, checkpoint, resume))
    except SolverError as error:
        partial = getattr(error, "partial", None)
        if partial is not None:
            error.partial = finish(partial)  # type: ignore[attr-defined]
        raise


def _judged(result: Result, names: tuple[str, ...], options: Options) -> Result:
    """Return a result of scalars with the status that the errors of its observables, or else of all values, deserve."""
    data = result.dataset
    scalars = [name for name in result.names if not data[name].dims and f"{name}_error" in data]
    largest = max((abs(float(data[name])) for name in scalars), default=0.0)
    for name in [name for name in names if name in scalars] or scalars:
        value, error = abs(float(data[name])), float(data[f"{name}_error"])
        allowed = max(options.rtol * value, 1e-13 * largest) + (options.atol or 0.0)
        if result.status == "ok" and error > allowed:
            text = f"the error of `{name}` is {error / allowed:.3g} times the tolerance rtol={options.rtol:g}"
            return result.stopped("tolerance not met", text)
    return result


def _refuse_idle(model: Model, given: Mapping[str, Any]) -> None:
    """Raise for an option that would do nothing."""
    timeless = isinstance(model, FixedPoint | Singularity)
    for name, value in given.items():
        if value is not None and timeless == (name in ("t_max", "at", "at2", "step")):
            why = "has no time" if timeless else f"takes no {name}, which is for fixed points and rates"
            raise UsageError(f"{name}=: model `{model.name}` is a {model.kind} and {why}; leave it out")
    unknowns = {item.name for item in model.unknowns} if isinstance(model, FixedPoint) else None
    for name, value in (given["start"] or {}).items():
        if unknowns is not None and name not in unknowns:
            near = did_you_mean(name, unknowns) or f" (it has: {', '.join(sorted(unknowns))})"
            raise UsageError(f"start=: model `{model.name}` has no unknown `{name}`{near}")
        number(value, f"start of `{name}`")


def _mean_field(flow: Flow, settings: dict[str, Any]) -> tuple[Model, dict[str, Any]]:
    """Return the mean-field system of a flow under its settings; laws go in first, since moments are taken of them."""
    from eqsolve.language.binding import bind_some

    names = {item.name for item in flow.randoms}
    laws = {name: value for name, value in settings.items() if name in names}
    system = (flow.subs(bind_some(flow, laws)) if laws else flow).dmft()
    return system, {name: value for name, value in settings.items() if name not in names}


def _solve_case(model: Cases, settings: Mapping[str, Any], how: Mapping[str, Any]) -> Result:
    """Solve the model that the parameters select, and say which it was."""
    from eqsolve.passes.forms.cases import select_case

    chosen = select_case(model, settings)
    logger.info("%s: %s", model.name, chosen.reason)
    return solve(chosen.model, params=chosen.settings, **how).renamed(model.name, chosen.reason, chosen.model.name)


def why_not(name: str, model: Model) -> str:
    """Return why a solver cannot solve a model; nothing when it can."""
    if name == "singularity":
        return "" if isinstance(model, Singularity) else f"it finds the rate of a Singularity, and this is a {model.kind}"
    if name == "fixed_point":
        return "" if isinstance(model, FixedPoint) else f"it solves a FixedPoint, and this is a {model.kind}"
    if not isinstance(model, System):
        return f"it solves a System, and this is a {model.kind}"
    memory = bool(model.kernels) or any(equation.rhs.has(Int) for equation in model.equations)
    if name == "stochastic":
        return "" if model.noises or (model.processes and memory) else "there is neither noise nor memory of paths in it"
    if model.processes and (memory or name != "ode"):
        return f"it has the process `{model.processes[0].name}`" + (" and memory" if name == "ode" else "")
    if name == "ode" and memory:
        return "it has memory (integrals, or functions of two times)"
    if name == "operators" and choose_solver(model, kernels=False).name != "operators":
        return "its kernels do not enter through compositions only"
    return ""


def _run_kept(
    name: str, binding: Binding, options: Options, checkpoint: str | os.PathLike[str] | Checkpoint | None, resume: bool
) -> Result:
    """Run a solver with a checkpoint, if one is asked for; the file is removed when the run has come to its end.

    Whoever hands over a ``Checkpoint`` instead of a path removes it himself, when the result is safe.
    """
    if checkpoint is None:
        if resume:
            raise UsageError("resume=True goes on from a checkpoint; name its file: checkpoint=F")
        return _run(name, binding, options)
    log = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(path(checkpoint, "checkpoint"), resume=resume)
    log.begin(_identity(name, binding, options))
    ended = False
    try:
        result = _run(name, binding, replace(options, checkpoint=log))
        ended = result.is_finished
        return result
    except SolverError:
        ended = True
        raise
    finally:
        log.close(remove=ended and log is not checkpoint)


def _identity(name: str, binding: Binding, options: Options) -> dict[str, Any]:
    """Return everything that decides the numbers of a run."""
    import numpy

    from eqsolve._version import __version__
    from eqsolve.passes.forms.signature import sign

    model = binding.model
    asked = {item.name: getattr(options, item.name) for item in fields(options)}
    del asked["progress"], asked["checkpoint"]
    about = {"eqsolve version": __version__, "numpy version": numpy.__version__, "model": model.name}
    settings = {"equations (signature)": sign(model), "parameters": binding.settings(), "solver": name}
    return {**about, **settings, **asked}


def _run(name: str, binding: Binding, options: Options) -> Result:
    if name in ("ode", "two_time", "operators", "stochastic"):
        from eqsolve.compile.values import binder_of
        from eqsolve.solvers.contract import Solver
        from eqsolve.solvers.ode.solve import OdeSolver
        from eqsolve.solvers.operators.solve import OperatorsSolver
        from eqsolve.solvers.stochastic.solve import StochasticSolver
        from eqsolve.solvers.two_time.solve import TwoTimeSolver

        binder = binder_of(binding.model)
        values = binder.take(binding)
        solvers: dict[str, Solver] = {
            "ode": OdeSolver(), "two_time": TwoTimeSolver(), "operators": OperatorsSolver(), "stochastic": StochasticSolver()
        }  # fmt: skip
        solver = solvers[name]
        return solver.solve(binder.plan(values), values, options)
    if name == "fixed_point":
        from eqsolve.compile.values import binder_of
        from eqsolve.solvers.fixed_point.solve import FixedPointSolver

        reader = binder_of(binding.model)
        numbers = reader.take(binding)
        return FixedPointSolver().solve(reader.plan(numbers), numbers, options)
    from eqsolve.compile.values import binder_of
    from eqsolve.solvers.singularity.solve import SingularitySolver

    reader = binder_of(binding.model)
    numbers = reader.take(binding)
    return SingularitySolver().solve(reader.plan(numbers), numbers, options)
