"""`solve`: check, bind, choose a solver and say why, run it, and record where the numbers come from."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve._version import __version__
from eqsolve.arguments import callback, checked, flag, got, is_uncertain, names, number, offers, path, table, text
from eqsolve.errors import EqsolveError, ModelError, SolverError, UsageError, did_you_mean, logger
from eqsolve.files.checkpoint import Checkpoint
from eqsolve.language.indices import counts
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.printing import latex_names
from eqsolve.language.system import FixedPoint, Flow, System
from eqsolve.numerics.arrays import DIFFERENCE, GENERIC, member_names
from eqsolve.numerics.backend import choose_backend
from eqsolve.options import documented, refuse_idle
from eqsolve.progress import Bar, part_of, watching
from eqsolve.results.arrays import LazyArray
from eqsolve.results.derivatives import (
    refuse_kinks,
    width_limit,
    with_derivatives,
    with_differences,
    with_scalar_derivatives,
    with_spread,
)
from eqsolve.results.result import Result
from eqsolve.solvers.cluster import Cluster, connect
from eqsolve.solvers.contract import HandOver, Wanted
from eqsolve.solvers.options import Options

if TYPE_CHECKING:
    from eqsolve.compile.plan import Plan, Task
    from eqsolve.solvers.contract import Solver


# --- Warm starts: values by name, or the result of the same model at other parameters.
#
# A start changes how a solution is found; the error estimates are those of the new solution. Of a
# fixed point the values of the unknowns are taken, of a stochastic system the means of its last
# iteration (``Result.source``). Solvers that march in time once, or search a whole region, have no
# use for one.
def read_start(value: Any, what: str) -> Result | dict[str, Any]:
    """Return a result, or values by name: what ``start=`` takes."""
    if isinstance(value, Result):
        return value
    if not isinstance(value, Mapping):
        takes = "a Result of the same model, or values of its unknowns by name, such as {'q': 0.3}"
        raise UsageError(f"{what}= takes {takes}, got {got(value)}")
    return table(value, what)


def take_start(
    start: Result | Mapping[str, Any] | None, plan: Plan, signature: str, solver: Solver
) -> tuple[Mapping[str, float] | None, Any]:
    """Return initial values, and the iteration's state of a solve at other parameters; other models are refused."""
    kind, names = plan.facts.kind, plan.facts.functions
    if not isinstance(start, Result):
        if start is not None and kind == "System":
            raise UsageError(
                f"start=: model `{plan.name}` is a System; values by name are for fixed points and rates, "
                "a System takes a Result of the same model, or nothing"
            )
        for name, value in (start or {}).items():
            if kind == "FixedPoint" and name not in names:
                near = did_you_mean(name, names) or f" (it has: {', '.join(sorted(names))})"
                raise UsageError(f"start=: model `{plan.name}` has no unknown `{name}`{near}")
            number(value, f"start of `{name}`")
        return start, None
    if start.provenance.get("signature") != signature or start.kind == "sweep":
        other = " with other equations" * (start.kind != "sweep" and start.model == plan.name)
        raise UsageError(
            f"start=: expected the Result of one solve of model `{plan.name}` ({kind}), at any parameters; "
            f"got a {start.kind} of `{start.model}`{other}"
        )
    if kind == "FixedPoint":
        data = start.dataset
        values = {name: float(data[name]) for name in names if name in data and not data[name].dims}
        return {name: value for name, value in values.items() if math.isfinite(value)} or None, None
    if not solver.starts(plan):
        logger.info("%s: the start is not used: solver %s cannot use an initial guess", plan.name, solver.name)
        return None, None
    if start.source is None:
        raise UsageError(
            f"start=: this result of `{start.model}` holds no means to begin with: it was read from a file, or its iteration "
            "did not settle; expected a Result as solve() returns it"
        )
    return None, start.source


# --- The solve.
@documented
@checked(
    model=read_model,
    solver=offers("why_not", "a solver: its name, or an eqsolve.Solver", named=True),
    derivatives=names, progress=callback, resume=flag, params=table, start=read_start,
    scheduler=text,
)  # fmt: skip
def solve(
    model: Model | str, *, t_max: float | None = None, rtol: float = 1e-3, atol: float | None = None,
    at: float | Iterable[float] | None = None, at2: Iterable[tuple[float, float]] | None = None,
    kernels: bool | None = None, order: int | None = None, step: float | None = None, seed: int = 0,
    solver: str | Solver | None = None, precision: int | None = None,
    observables: Iterable[str] | None = None, derivatives: Iterable[str] | None = None,
    start: Result | Mapping[str, float] | None = None, region: tuple[float, float] | None = None,
    device: str = "cpu", budget: float | str | None = None, progress: Any = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None, resume: bool = False,
    threads: int | None = None, scheduler: str | None = None,
    params: Mapping[str, Any] | None = None, **parameters: Any,
) -> Result:  # fmt: skip
    """Solve a model.

    Parameters
    ----------
    model
        A model, its name, or the path of its file; of a flow, the mean-field equations are solved.
    {options: t_max, rtol, atol, at, at2, kernels, order, step, seed, solver, precision, observables, derivatives, start}
    {options: region, device, budget, progress, checkpoint, resume, threads, scheduler}
    params, **parameters
        Values of parameters and laws of random constants, by name. A value with an error bar, ``uncertain(0.3, 0.01)`` or a
        number of the package ``uncertainties``, is carried to the errors of the result, to first order.
    """
    assert isinstance(model, Model)
    given = {**(params or {}), **parameters}
    unsure = {name: value for name, value in given.items() if is_uncertain(value)}
    settings = {name: value.nominal_value if name in unsure else value for name, value in given.items()}
    with watching(progress) as report, connect(scheduler) as client:
        options = Options.make(
            t_max=t_max, rtol=rtol, atol=atol, at=at, at2=at2, kernels=kernels, order=order, step=step, seed=seed,
            solver=solver, precision=precision, observables=observables, derivatives=[*(derivatives or ()), *unsure],
            region=region, device=device, budget=budget, threads=threads, progress=report, cluster=Cluster(client),
        )  # fmt: skip
        result = solve_as_asked(model, settings, options, start=start, checkpoint=checkpoint, resume=resume)
        if client is not None and not options.cluster.sent:
            by = result.stats["solver"]
            logger.warning("solver `%s` had nothing to send to %s, all is solved here", by, scheduler)
    if result.status == "tolerance not met" and not isinstance(progress, Bar):  # the command line says it by itself
        logger.warning("%s: tolerance not met: %s (the errors reached: res.error)", model.name, result.message)
    if not unsure:
        return result
    return with_spread(result, {name: value.std_dev for name, value in unsure.items()})


def solve_as_asked(model: Model, settings: Mapping[str, Any], options: Options, **how: Any) -> Result:
    """Solve as ``_solve`` does; what divides by a parameter that is 0 is named."""
    failure: Exception | None = None
    try:
        result = _solve(model, settings, options, **how)
        items = [result.variables[name] for name in result.names]
        known = [item.values for item in items if not isinstance(getattr(item, "content", None), LazyArray)]
        finite = all(np.isfinite(values).all() for values in known if values.dtype.kind == "f")
    except ZeroDivisionError as error:
        failure, finite = error, False
    if not finite:
        from eqsolve.passes.check.check import zero_divisors

        if problems := tuple(zero_divisors(model, settings)):
            raise ModelError(f"model `{model.name}`: {'; '.join(problems)}", problems=problems)
    if failure is not None:
        raise failure
    return result


def _solve(
    model: Model, settings: Mapping[str, Any], options: Options, *,
    start: Result | Mapping[str, float] | None = None, resume: bool = False, warm_start: Any = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None, paths: bool = True,
    tables: Mapping[str, Any] | None = None,
) -> Result:  # fmt: skip
    """Solve as ``solve`` does, its options read.

    ``warm_start`` is the warm start, ``source`` of a result at other parameters; without ``paths`` no sample of them is kept.
    """
    from eqsolve.compile.breaks import break_times
    from eqsolve.compile.forms import BREAKS, COVARIANCES
    from eqsolve.compile.members import with_tables
    from eqsolve.compile.plan import make_task
    from eqsolve.passes.check.check import check, refuse_words
    from eqsolve.passes.forms.structure import models_behind, settable
    from eqsolve.results.provenance import derived_names, describe
    from eqsolve.solvers.registry import choose_solver, find_solver, solver_names

    started = time.perf_counter()
    if not model.generic:
        check(model)
    if model.is_indexed and tables is None:
        again = functools.partial(
            solve_as_asked, start=start, checkpoint=checkpoint, resume=resume, warm_start=warm_start, paths=paths
        )
        return _solve_indexed(model, settings, options, again)
    refuse_words("solve", model, [word for word in settings if not model.knows(word)], settable(model))
    options = options.begun()
    if isinstance(model, Flow) and options.step is None:
        from eqsolve.passes.flow.dmft import without_jumps

        if (smooth := without_jumps(model)) is not model:
            if start is not None or checkpoint is not None:
                raise UsageError(
                    f"the loss gradient of flow `{model.name}` jumps: it takes neither start= nor checkpoint= yet"
                )
            return _solve_jumps(model, smooth, settings, options)
    derivatives = options.derivatives
    called: dict[str, str] = {}
    if any("." in name for name in derivatives):
        from eqsolve.passes.rewrite.sensitivity import name_law_numbers

        model, settings, called = name_law_numbers(model, settings, derivatives)
    along = {called.get(name, name): name for name in derivatives}
    task = make_task(model, settings, options.observables, along, step=options.step)
    if tables is not None:
        task = replace(task, values=with_tables(task.values, tables))
    plan = task.plan
    if derivatives and plan.facts.kind != "System":
        _refuse_laws((task.declared, *models_behind(task.declared)), along)
    if task.switches is not None:
        known = {name: value for name, value in settings.items() if task.switches.knows(name)}
        plain = replace(options, derivatives=(), observables=None, kernels=None, at2=(), solver=None, progress=None)
        refuse_kinks(solve_as_asked(task.switches, known, plain, paths=False))
    if task.reason:
        logger.info("%s: %s", model.name, task.reason)
    refuse_idle(plan.name, plan.facts.kind, sorted(options.given))
    if options.step is None:
        options = options.in_steps_of(task.step)
    wanted = Wanted(options.kernels, options.step is not None)
    choice = choose_solver(plan, wanted, options.solver)
    if task.base is not None and choice.solver.linearises(plan):
        options = replace(options, sensitivity=(plan, task.values))
        task = replace(task, plan=task.base[0], values=task.base[1])
        plan = task.plan
    begin, warm = take_start(start, plan, task.signature, choice.solver)
    options = replace(options, start=begin, warm_start=warm if warm_start is None else warm_start, paths=paths)
    if isinstance(plan.model, System) and options.step is None:
        options = replace(options, breaks=break_times(plan.program(BREAKS), task.values.numbers, options.t_max))
    better = choice.solver.instead(plan, task.values, options) if options.solver is None else None
    if better is not None and better.solver in solver_names():
        if model.generic and not find_solver(better.solver).generic:
            raise _WritingOut
        choice = choose_solver(plan, wanted, better.solver, better.reason)
    if options.device == "gpu":
        if not choice.solver.on_card:
            raise UsageError(
                f"device='gpu': solver `{choice.name}`, which solves model `{plan.name}`, runs on the CPU; "
                "leave device out, or take device='auto'"
            )
        choose_backend("gpu")
    covariances = plan.program(COVARIANCES) if plan.facts.noises else None
    if covariances is not None:
        covariances.demand_declared(task.values.numbers, options.t_max, options.step)
    logger.info("%s: solver %s (%s)", plan.name, choice.name, choice.reason)

    def run(options: Options) -> Result:
        """Run the solver chosen, and those that it hands over to; ``choice`` is the one that ran last."""
        nonlocal choice
        declined: tuple[str, ...] = ()
        while isinstance(outcome := choice.solver.solve(task.plan, task.values, options), HandOver):
            declined = (*declined, choice.name)
            if outcome.solver in declined:
                raise SolverError(f"solvers hand over in a circle: {', '.join(declined)}, {outcome.solver}")
            by = choice.name
            choice = choose_solver(plan, wanted, outcome.solver or None, outcome.reason, declined)
            logger.info("%s: %s; solver %s hands over to %s", plan.name, outcome.reason, by, choice.name)
        if covariances is not None:
            covariances.demand_found(task.values.numbers, outcome)
        return outcome

    def finish(result: Result) -> Result:
        stats = {"solver": choice.name, "seconds": time.perf_counter() - started}
        chosen: dict[str, Any] = {}
        if task.case:  # under the name of the model that chose among several, with its reason
            stats["case"], chosen = task.case, {"model": model.name, "message": task.reason}
        if plan.facts.kind != "System":
            result = _judged(result, task.observables, options)
            if derivatives:
                by_name = {name: result.source.derivatives(inside).items() for inside, name in along.items()}
                reported = {name: {key: pair for key, pair in pairs if key in result.names} for name, pairs in by_name.items()}
                result = with_scalar_derivatives(result, reported)
        elif task.companions:
            result = with_derivatives(result, [replace(item, parameter=along[item.parameter]) for item in task.companions])
        names = latex_names((task.declared, model, *models_behind(task.declared)))
        curves = [name for name in result.names if result.variables[name].dims == ("t",)]
        about = describe(task.declared, options.seed) | derived_names(task.declared, curves)
        return replace(result, stats={**result.stats, **stats}, provenance=about, latex=names, **chosen)

    try:
        identity = _identity(choice.solver, task, options)
        return finish(_run_kept(run, identity, options, checkpoint, resume))
    except SolverError as error:
        from eqsolve.passes.check.system import singular_terms

        if error.partial is not None:
            error.partial = finish(error.partial)
        if isinstance(plan.model, System) and (terms := "; ".join(singular_terms(plan.model))):
            error.args = (f"{error}; {terms}",)
        raise


def _solve_jumps(model: Flow, smooth: Flow, settings: Mapping[str, Any], options: Options) -> Result:
    """Solve a flow with steps of ever smaller widths where its loss gradients jump, and extrapolate to none."""
    from eqsolve.passes.forms.kinks import JUMP_WIDTH
    from eqsolve.results.provenance import describe
    from eqsolve.solvers.tolerance import KERNEL_FLOOR, find_worst

    inner, results, started = replace(options, rtol=options.rtol / 3), list[Result](), time.perf_counter()
    # errors are of first order in the width, of which three results leave the second
    most = max(3, round(-math.log2(options.rtol)) - 1)
    for place in range(most):
        near = results[-1].source if results else None
        shares = ((1.5**k - 1) / (1.5**most - 1) for k in (place, place + 1))  # steeper steps take more paths
        inner = replace(inner, progress=part_of(options.progress, *shares))
        results.append(solve_as_asked(smooth, {**settings, JUMP_WIDTH.name: 0.5**place}, inner, warm_start=near))
        if len(results) < 3:
            continue
        result = width_limit(results[-3:])
        data = result.dataset
        asked = options.observables or tuple(model.observables) or result.names
        if lost := [name for name in asked if name not in data]:
            raise SolverError(f"`{lost[0]}` grows as the jumps of model `{model.name}` become steeper: it has no limit")
        names = [name for name in asked if data[name].dims == ("t",)]
        values, errors = ({name: data[f"{name}{end}"].values for name in names} for end in ("", "_error"))
        worst = find_worst(names, values, errors, data["t"].values, options, KERNEL_FLOOR)
        logger.info("jumps: width %.2g, the error is %.2g tolerances", 0.5**place, worst.excess)
        if worst.excess <= 1 or not result.is_finished or options.is_short_of_time():
            break
    params = {name: value for name, value in result.params.items() if name != JUMP_WIDTH.name}
    failure = worst.failure(options, "jumps of a loss gradient are smooth steps of smaller and smaller widths: raise rtol")
    stats = {**result.stats, "seconds": time.perf_counter() - started}
    result = replace(result, params=params, stats=stats, provenance=describe(model, options.seed))
    if result.status == "tolerance not met":  # by ``inner``, a third of the one asked for
        result = result.with_status("ok", "")
    return result if failure is None or result.status != "ok" else result.with_status(*failure)


class _WritingOut(Exception):
    """The solver chosen needs every member written out."""


def _solve_indexed(model: Model, settings: Mapping[str, Any], options: Options, solve: Callable[..., Result]) -> Result:
    """Solve a model with indices by ``solve``: on arrays where the solver takes families, else with members written out."""
    from eqsolve.passes.rewrite import indices
    from eqsolve.solvers.registry import find_solver

    model, plain = indices.with_laws(indices.sized(model, settings), settings)
    arrays, rest = indices.table_arrays(model, plain)
    axes = indices.family_axes(model)
    alone = all(axis.count == 1 for axis in indices.all_indices(model))  # no index at all is faster then
    precise = options.precision is not None and isinstance(model, FixedPoint)
    solver = find_solver(options.solver) if isinstance(options.solver, str) else options.solver
    on_arrays = not alone and not precise and not indices.why_written_out(model) and (solver is None or solver.families)
    on_arrays = on_arrays and not (options.derivatives and indices.is_ode_family(model))  # exact where written out
    making = {name for sources in model.tables.values() for name in sources.arguments}
    linear, tables, sloped = indices.with_slopes(model, arrays, plain, options.derivatives)
    differenced = tuple(name for name in options.derivatives if on_arrays or name in making.difference(sloped))
    options = replace(options, derivatives=tuple(name for name in options.derivatives if name not in differenced))
    solution: Result | None = None
    if on_arrays:
        drawn = indices.with_draws(model)
        known = {name: value for name, value in rest.items() if name in drawn.settable or name not in model.settable}
        solution = solve(drawn, known, options, tables=arrays)
    elif not alone and (solver is None or solver.generic):
        solution = _solve_generic(model, rest, options, solve, arrays)
    if solution is None:
        expanded = (indices.expand if options.observables else indices.expand_with_pairs)(linear)
        wanted = options.observables
        if wanted is not None:
            shapes = {name: counts(axes.get(name, ())) for name in wanted}
            wanted = tuple(member for name in wanted for member in member_names(name, shapes[name]))
        known = {name: value for name, value in rest.items() if name in expanded.model.settable or name not in model.settable}
        solution = solve(expanded.model, {**known, **expanded.settings(tables)}, replace(options, observables=wanted))
    given = {item.name: model.given(item) for item in model.parameters}
    shown = {**given, **rest}
    params = {name: value for name, value in solution.params.items() if name in model.settable}
    params |= {name: float(shown[name]) for name in given if name not in params and shown[name] is not None}
    for item in (item for item in model.randoms if item.indices):
        law = solution.params.get(item.name, solution.params.get(member_names(item.base, counts(item.axes))[0]))
        params |= {} if law is None else {item.base: law}
    result = replace(solution, params=params)
    # paths of different members have nothing to do with each other: they are not stacked
    sampled = {name for name, item in result.variables.items() if item.dims and item.dims[0].startswith("path")}
    result = replace(result, families=indices.families_in(set(result.names) - sampled, model, settings))
    result = result.with_tables({name: (*map(str, own),) for name, own in indices.table_axes(model).items()}, arrays)
    once = replace(options, derivatives=(), checkpoint=None)
    for name in differenced:
        if not isinstance(middle := result.params.get(name), float | int):
            raise UsageError(f"model `{model.name}` has no parameter `{name}` to differentiate along")
        step = DIFFERENCE * (abs(middle) or 1.0)
        near, values = (linear, {**plain, **tables}) if name in sloped else (model, settings)
        neighbours = [_solve_indexed(near, {**values, name: middle + part * step}, once, solve) for part in (-1, -0.5, 0.5, 1)]
        result = with_differences(result, name, step, neighbours)
    return result


def _solve_generic(
    model: Model, settings: Mapping[str, Any], options: Options, solve: Callable[..., Result], arrays: Mapping[str, Any]
) -> Result | None:
    """Solve a system whose members are alike, compiled for one that stands for all; None for others."""
    from eqsolve.compile.members import for_members
    from eqsolve.passes.check.indices import by_family
    from eqsolve.passes.rewrite.indices import generic
    from eqsolve.results.provenance import describe

    if not isinstance(model, System) or options.derivatives or (stands := generic(model)) is None:
        return None
    called = dict(zip(model.observables, stands.observables, strict=True))
    wanted = options.observables and tuple(called.get(name, name) for name in options.observables)
    known = {name: value for name, value in settings.items() if name in stands.settable or name not in model.settable}
    try:
        result = solve(stands, known, replace(options, observables=wanted), tables=arrays)
    except _WritingOut:
        return None
    except EqsolveError as error:
        error.args = (by_family(model, str(error)),)
        raise
    params = dict(pair for item in result.params.items() for pair in for_members(item))
    own = {item.base for item in model.names.values()}
    named = [name for eq in stands.equations if GENERIC.sub("", eq.key) not in own for name in for_members(eq.key)]
    about = {**describe(model, options.seed), "signature": result.provenance["signature"], "derived": named}
    return replace(result, params=params, latex=latex_names([model]), provenance=about)


def _refuse_laws(models: Iterable[Model], along: Mapping[str, str]) -> None:
    """Raise where a fixed point or a rate is asked for its derivative along a number in a law: its Jacobian has none."""
    for item, random in [(it, random) for it in models for random in it.randoms]:
        for name in sorted(
            along[it.name] for it in getattr(random.law, "free_symbols", ()) if getattr(it, "name", None) in along
        ):
            raise UsageError(
                f"`{name}` stands in the law of `{random.name}`, model `{item.name}` ({item.location}): the derivative of "
                f"a {type(item).__name__} along it is not known; difference two solves, or differentiate the dynamics"
            )


def _judged(result: Result, names: tuple[str, ...], options: Options) -> Result:
    """Return a result of scalars with the status that the errors of its observables, or else of all values, deserve."""
    data = result.variables
    scalars = [name for name in result.names if not data[name].dims and f"{name}_error" in data]
    largest = max((abs(float(data[name].values)) for name in scalars), default=0.0)
    for name in [name for name in names if name in scalars] or scalars:
        value, error = abs(float(data[name].values)), float(data[f"{name}_error"].values)
        allowed = max(options.rtol * value, 1e-13 * largest) + (options.atol or 0.0)
        if result.status == "ok" and error > allowed:
            text = f"the error of `{name}` is {error / max(allowed, 1e-300):.3g} times the tolerance rtol={options.rtol:g}"
            return result.with_status("tolerance not met", text)
    return result


def _run_kept(
    run: Callable[[Options], Result], identity: dict[str, Any], options: Options,
    checkpoint: str | os.PathLike[str] | Checkpoint | None, resume: bool,
) -> Result:  # fmt: skip
    """Run a solver with a checkpoint, if one is asked for; the file is removed when the run has come to its end.

    Whoever hands over a ``Checkpoint`` instead of a path removes it himself, when the result is safe.
    """
    if checkpoint is None:
        if resume:
            raise UsageError("resume=True goes on from a checkpoint; name its file: checkpoint=F")
        return run(options)
    log = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(path(checkpoint, "checkpoint"), resume=resume)
    log.begin(identity)
    ended = False
    try:
        result = run(replace(options, checkpoint=log))
        ended = result.is_finished
        return result
    except SolverError:
        ended = True
        raise
    finally:
        log.close(remove=ended and log is not checkpoint)


def _identity(solver: Solver, task: Task, options: Options) -> dict[str, Any]:
    tables = {f"table {name}": hashlib.sha256(array.tobytes()).hexdigest() for name, array in task.values.tables.items()}
    return {
        "eqsolve version": __version__, "numpy version": np.__version__, "model": task.plan.name, **options.identity,
        "equations (signature)": task.signature, "parameters": dict(task.values.settings), "observables": task.observables,
        "solver": solver.name, **tables,
    }  # fmt: skip
