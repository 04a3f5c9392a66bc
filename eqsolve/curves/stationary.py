"""The stationary state of a system: `stationary`."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from eqsolve.arguments import callback, checked, names, table
from eqsolve.compile.forms import COVARIANCES, DISCRETE, GAUSSIAN, STOCHASTIC
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Task, make_task
from eqsolve.errors import UsageError, logger
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.printing import latex_names
from eqsolve.language.system import Flow, System
from eqsolve.options import documented
from eqsolve.passes.check.check import check
from eqsolve.passes.forms.structure import models_behind
from eqsolve.passes.rewrite.indices import written_out
from eqsolve.progress import watching
from eqsolve.results.arrays import LabelledArray, LabelledArrays
from eqsolve.results.provenance import describe
from eqsolve.results.result import Stationary, cosines
from eqsolve.solvers.options import Options
from eqsolve.solvers.stationary.sampled import TOLERANCE, find_by_sampling
from eqsolve.solvers.stationary.solve import StationarySearch
from eqsolve.solvers.stationary.state import NoStationaryStateError, StationaryState


@documented
@checked(model=read_model, observables=names, progress=callback, params=table)
def stationary(
    model: Model | str, *, rtol: float | None = None, atol: float | None = None,
    step: float | None = None, observables: Iterable[str] | None = None,
    budget: float | str | None = None, progress: Any = None,
    params: Mapping[str, Any] | None = None, **parameters: Any,
) -> Stationary:  # fmt: skip
    """Find the state in which a system ends when it forgets its start: correlations that depend on the lag only.

    Parameters
    ----------
    model
        A system of paths in Gaussian noise, its name, or the path of its file.
    {options: rtol, atol, step, observables, budget, progress}
    params, **parameters
        Values of parameters and laws of random constants, by name.

    Returns
    -------
    Stationary
        Correlations and responses over the lag, ``res["C"]``, means and observables, the correlation time ``tau_C`` of every
        correlation ``C``, and errors of all; ``res.spectrum("C")``, ``res.lyapunov()``. Its status is ``"still"``,
        ``"fluctuating"``, ``"aging"`` or ``"not found"``.

    Examples
    --------
    >>> res = eqsolve.stationary("rnn", gain=2)
    >>> res.status
    'fluctuating'
    """
    assert isinstance(model, Model)
    started = time.perf_counter()
    check(model)
    if not isinstance(model, System | Flow):
        raise UsageError(f"model `{model.name}` is a {model.kind} and has no time, so no stationary state either; solve it")
    model, parameters = written_out(model, {**(params or {}), **parameters})
    with watching(progress) as report:
        options = Options.make(rtol=1e-6, atol=atol, budget=budget, observables=observables, progress=report, t_max=1e300)
        task = make_task(model, parameters, options.observables, step=step)
        options = options.in_steps_of(step if step is not None else task.step).begun()
        if why := why_not_stationary(task):
            raise UsageError(f"model `{model.name}`: stationary() takes systems of paths in Gaussian noise, and {why}")
        span = 10 * (options.step or 1.0)  # a state without end has no last time to test covariances up to
        task.plan.program(COVARIANCES).demand_declared(task.values.numbers, span, options.step)
        allowed = rtol if rtol is not None else TOLERANCE if task.plan.why_not_gaussian else 1e-6
        state = _find(task, replace(options, rtol=Options.make(rtol=allowed, t_max=1.0).rtol))
    seconds = {"seconds": time.perf_counter() - started}
    latex = {**latex_names((task.declared, model, *models_behind(task.declared))), "t": r"\tau"}
    return replace(state, stats={**state.stats, **seconds}, provenance=describe(task.declared, 0), latex=latex)


def why_not_stationary(task: Task) -> str:
    """Return why no stationary state of a task is looked for; nothing where one is."""
    facts = task.plan.facts
    if not facts.noises:
        return "no noise drives its paths" if facts.processes else "it has no paths"
    if facts.needs_step_limit:
        return "its noise of births and deaths is followed in short steps; solve it to a late time"
    if isinstance(task.declared, Flow) and not facts.white_noises and task.plan.why_not_gaussian:
        return "a flow without noise comes to rest: see `model.long_time()`, `eqsolve longtime`"
    if task.plan.why_not_gaussian and any(item.jumping for item in task.plan.program(STOCHASTIC).ensembles):
        return "its forces jump, and are followed in short steps; solve it to a late time"
    if task.plan.why_not_gaussian and any(m.joint for item in task.plan.program(STOCHASTIC).ensembles for m in item.means):
        return "it averages pairs of values that are no sum of products; solve it to a late time"
    model = task.plan.model
    return f"`{model.stepped[0].name}` is drawn step by step" if isinstance(model, System) and model.stepped else ""


def _gaussian(task: Task) -> tuple[Any, dict[str, Any]]:
    """Return the program of Gaussian paths with its numbers, and laws."""
    program = at(task.plan.program(GAUSSIAN), task.values.numbers)
    return program, task.values.all_laws(program.paths)


def rest_of(model: Any, settings: Mapping[str, Any]) -> tuple[float, float]:
    """Return the stability of the state of Gaussian paths in which nothing moves, and its error."""
    options = Options.make(rtol=1e-6, t_max=1e300)
    return StationarySearch(*_gaussian(make_task(model, settings, None)), options).stability_at_rest()


def _find(task: Task, options: Options) -> Stationary:
    plan, numbers = task.plan, task.values.numbers
    about: dict[str, Any] = {"model": plan.name, "kind": "stationary", "params": dict(task.values.settings)}
    state: StationaryState
    try:
        with np.errstate(all="ignore"):
            if sampled := plan.why_not_gaussian:
                logger.info("%s: paths are sampled", sampled)
                paths = at(plan.program(STOCHASTIC if options.step is None else DISCRETE), numbers)
                state = find_by_sampling(paths, task.values.all_laws(paths), options)
            else:
                state = StationarySearch(*_gaussian(task), options).run()
            gain, doubt = state.gain()
    except NoStationaryStateError as reason:
        return Stationary(LabelledArrays({}), status="not found", message=str(reason), **about)
    if gain > 1 + doubt:
        ages, what = not state.still and state.is_balanced(), "nothing moves" if state.still else "correlations have a limit"
        after = "they depend on the waiting time for ever" if ages else "it moves, or correlations last for longer"
        why = f"the state in which {what} is not stable: changes at long lags grow by {gain:.3g} ± {doubt:.1g}; {after}"
        return Stationary(LabelledArrays({}), status="aging" if ages else "not found", message=why, **about)
    grid = state.grid
    data: dict[str, LabelledArray] = {}
    for name, values in state.curves.items():
        data[name] = LabelledArray(("t",), values)
        between = grid.error_between(values) if grid.width else 0.0
        data[f"{name}_error"] = LabelledArray(("t",), state.curve_errors[name] + between)
    single = {name: (value, state.number_errors[name]) for name, value in state.numbers.items()}
    for name in () if state.still else sorted(task.plan.model.kernels, key=str):  # type: ignore[attr-defined]
        values = state.curves[name.name]
        if name.name in data and (spread := values[0] - values[-1]) > 0:
            area, doubt = (
                float(cosines(grid, part, np.zeros(1), options.step)[0]) / 2
                for part in (values - values[-1], state.curve_errors[name.name])
            )
            single[f"tau_{name.name}"] = (area / spread, doubt / spread)
    for key, (value, error) in single.items():
        data[key] = LabelledArray((), np.array(value))
        data[f"{key}_error"] = LabelledArray((), np.array(error))
    worst, over = state.worst_error(options)
    status, message = ("still" if state.still else "fluctuating"), ""
    if over > 1:
        message = f"the error of `{worst}` is {over:.3g} times the tolerance rtol={options.rtol:g} ({status})"
        status = "tolerance not met"
    stats: dict[str, Any] = {"lags": len(grid.nodes), "reach": float(grid.edges[-1]), "residual": state.residual}
    if options.step is not None:
        stats["step"] = options.step
    arrays = LabelledArrays(data, {"t": LabelledArray(("t",), grid.nodes)})
    return Stationary(arrays, status=status, message=message, stats=stats, grid=grid, source=state, **about)
