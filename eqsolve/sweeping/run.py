"""`sweep`: every point of a grid solved once, by any executor, nothing lost when it is killed."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eqsolve.arguments import callback, checked, names, number, numbers, offers, path, table, text
from eqsolve.compile.plan import make_task, select_observables
from eqsolve.errors import EqsolveError, ParameterError, SolverError, UsageError, demand_known, logger, quote
from eqsolve.files.atomic import cannot_write
from eqsolve.files.checkpoint import Checkpoint
from eqsolve.language.binding import read_value
from eqsolve.language.laws import Law
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.printing import latex_names
from eqsolve.language.system import FixedPoint, Singularity
from eqsolve.numerics.grids import ROWS
from eqsolve.options import documented, refuse_idle
from eqsolve.passes.check.check import check, refuse_words
from eqsolve.passes.forms.structure import bind_routed, check_routed, models_behind, settable
from eqsolve.progress import NOTE, watching
from eqsolve.results.archive import check_name
from eqsolve.results.archive import open as open_result
from eqsolve.results.derivatives import ALONG, OF, derivative_keys
from eqsolve.results.provenance import derived_names, describe
from eqsolve.results.result import Result, values_and_errors
from eqsolve.results.words import list_settings
from eqsolve.solvers.contract import Wanted
from eqsolve.solvers.options import Options
from eqsolve.solvers.registry import choose_solver
from eqsolve.solving import solve_as_asked
from eqsolve.sweeping.workers import WorkerLostError, Workers

# --- The axes of a sweep: lists of numbers or laws, or ranges such as ``0.01:10:40:log``.

_MOST_POINTS = 100_000
_EXAMPLE = "values such as 0.3,0.5,2 or a range FIRST:LAST:COUNT, with :log for a logarithmic one"


@dataclass(frozen=True)
class Axis:
    """One parameter and its values: as they are set, and as they label the result."""

    name: str
    settings: tuple[float | str, ...]
    labels: tuple[float | str, ...]

    def __len__(self) -> int:
        return len(self.settings)


def is_axis(value: Any) -> bool:
    """Return whether a value is several: a list, an array, or a range such as ``0.1:1:5``."""
    if isinstance(value, str):
        return len(_split(value, ":")) > 1
    return isinstance(value, Iterable) and not isinstance(value, Law)


def read_axes(model: Model, axes: Mapping[str, Any]) -> tuple[Axis, ...]:
    """Return the axes of a sweep of a model; values are checked against the parameter's domain."""
    if not axes:
        raise UsageError(f"a sweep needs at least one axis: {_EXAMPLE}")
    given: dict[str, list[Any]] = {
        str(name): read_text(f"axis `{name}`", value) if isinstance(value, str) else list(value if is_axis(value) else [value])
        for name, value in axes.items()
    }
    if (points := math.prod(map(len, given.values()))) > _MOST_POINTS:
        raise UsageError(f"the grid has {points} points, more than {_MOST_POINTS}")
    return tuple(_axis(model, name, value) for name, value in given.items())


def _axis(model: Model, name: str, given: list[Any]) -> Axis:
    what = f"axis `{name}`"
    if not given:
        raise UsageError(f"{what} has no values; expected {_EXAMPLE}")
    labels: list[float | str] = []
    for entry in given:
        value = read_value(entry, what=what)
        labels.append(str(entry if isinstance(entry, str) else value) if isinstance(value, Law) else float(value))
        check_routed(model, {name: entry if isinstance(entry, str) else labels[-1]})
        if labels[-1] in labels[:-1]:
            raise UsageError(f"{what} has the value {quote(str(labels[-1]))} twice")
    settings = tuple(entry if isinstance(entry, str) else label for entry, label in zip(given, labels, strict=True))
    mixed = len(set(map(type, labels))) > 1
    return Axis(name, settings, tuple(map(str, labels) if mixed else labels))


def read_text(what: str, text: str) -> list[float | str]:
    """Return the values of a list or a range; ``what`` it is for is named in messages."""
    parts = _split(text, ":")
    if len(parts) == 1:
        entries = [entry.strip() for entry in _split(text, ",")]
        if not all(entries):
            raise UsageError(f"{what}: cannot read {quote(text)}; expected {_EXAMPLE}")
        return list(entries)
    if len(parts) not in (3, 4):
        raise UsageError(f"{what}: cannot read {quote(text)}; expected {_EXAMPLE}")
    try:
        first, last = (float(read_value(part, what=what)) for part in parts[:2])
    except TypeError:  # a law
        raise UsageError(f"{what}: a range goes from a number to a number, got {quote(text)}") from None
    if not (math.isfinite(first) and math.isfinite(last)):
        raise UsageError(f"{what}: a range needs finite ends, got {quote(text)}")
    count = int(parts[2]) if parts[2].strip().isdecimal() else 0
    if not 1 <= count <= _MOST_POINTS:
        raise UsageError(f"{what}: the COUNT in {quote(text)} must be a whole number from 1 to {_MOST_POINTS}")
    scale = parts[3].strip() if len(parts) == 4 else "lin"
    if scale not in ("log", "lin"):
        raise UsageError(f"{what}: a range ends in :log or :lin, got {quote(text)}")
    if count == 1 and first != last:
        raise UsageError(f"{what}: one value cannot reach from {first:g} to {last:g}; raise the COUNT")
    if scale == "log" and first * last <= 0:
        raise UsageError(f"{what}: a logarithmic range needs ends of one sign and not 0, got {quote(text)}")
    return [float(value) for value in (np.geomspace if scale == "log" else np.linspace)(first, last, count)]


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark outside brackets, so that laws keep their commas."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def check_settings(model: Model, axes: tuple[Axis, ...], fixed: Mapping[str, Any]) -> None:
    """Check what is the same at all points."""
    if both := [axis.name for axis in axes if axis.name in fixed]:
        raise UsageError(f"`{both[0]}` is both an axis and set to {fixed[both[0]]}; leave one of them out")
    check_routed(model, fixed)


# --- One point of a sweep: solved anywhere, returned as plain numbers, whatever happens.

Record = dict[str, Any]
_CHAIN = 16  # neighbours solved one from another, however many workers there are


@dataclass(frozen=True)
class SweepPoint:
    """Where a point lies, what is set there, and from which earlier point it may start."""

    index: int
    settings: Mapping[str, float | str]
    before: int | None = None

    @property
    def text(self) -> str:
        return list_settings(self.settings)


def lay_out_points(axes: tuple[Axis, ...], chained: str = "") -> list[SweepPoint]:
    """Return the points, row by row along the last axis; with ``chained``, each knows the neighbour it may start from.

    In "rows" that is the one before in its row, but for every 16th, which starts from nothing: what is followed along a row
    is one solution of several. In a "tree" the first of a row starts from the first of the row before, and every 16th from
    the 16th before it, so that only one point of all starts from nothing.
    """
    names, lengths = [axis.name for axis in axes], [len(axis) for axis in axes]
    cells = (dict(zip(names, cell, strict=True)) for cell in itertools.product(*(axis.settings for axis in axes)))
    return [SweepPoint(index, cell, _neighbour(index, lengths, chained)) for index, cell in enumerate(cells)]


def _neighbour(index: int, lengths: list[int], chained: str) -> int | None:
    """Return the earlier point from which a point starts, whoever solves them."""
    offset = index % lengths[-1]
    if chained and offset % _CHAIN:
        return index - 1
    if chained != "tree" or index == 0:
        return None
    if offset:
        return index - _CHAIN
    stride = lengths[-1]
    for length in reversed(lengths[:-1]):
        if index // stride % length:
            break
        stride *= length
    return index - stride


def chaining(model: Model, settings: Mapping[str, Any], options: Options) -> str:
    """Return how points of a model start from neighbours: in "rows", in a "tree", or not at all."""
    if model.kind == "FixedPoint":
        return "rows"
    if model.kind not in ("System", "Flow") or model.is_indexed:
        return ""
    task = make_task(model, settings, options.observables, step=options.step)
    discrete = options.step is not None or task.step is not None
    return "tree" if choose_solver(task.plan, Wanted(discrete=discrete), options.solver).solver.starts(task.plan) else ""


@contextlib.contextmanager
def recorded(**begin: Any) -> Iterator[Record]:
    """Give a record to work on; what goes wrong is its message."""
    record: Record = {"message": "", "values": {}, "errors": {}, **begin}
    began = time.perf_counter()
    try:
        yield record
    except EqsolveError as error:
        record["message"] = str(error)
    except Exception as error:  # a defect at one point must not cost the others
        record |= {"status": "failed", "message": f"unexpected {type(error).__name__}: {error}"}
    record["seconds"] = time.perf_counter() - began


def solve_point(model: Model, settings: Mapping[str, Any], options: Options, start: Any = None) -> tuple[Record, Any]:
    """Solve one point, and return it with what a neighbour may start from; a failure is a record too, with its reason.

    ``start`` are values of a fixed point's unknowns, or the source of a neighbour's result, for a warm start.
    """
    source, by_name = None, isinstance(start, Mapping)
    first, warm_start = (start, None) if by_name else (None, start)
    with recorded(status="failed") as record:
        try:
            result: Any = solve_as_asked(model, settings, options, start=first, warm_start=warm_start, paths=False)
            if result.status == "interrupted":  # which ends the sweep; the point is solved when it goes on
                raise KeyboardInterrupt
            record |= {"status": result.status, "message": result.message}
            source = result.source if model.kind != "FixedPoint" else None
        except EqsolveError as error:
            result, record["message"] = getattr(error, "partial", None), str(error)
        record |= {} if result is None else _numbers(result, options.at)
    return record, source


def _numbers(result: Result, at: Any) -> Record:
    """Return values and derivatives, and their errors: numbers, or lists over the times, nan where not reached.

    ``marks`` say what is differentiated in a derivative, and along what.
    """
    data = sampled = result.dataset
    dims: tuple[str, ...] = ()
    missing = 0
    if result.grid is not None:
        times = np.asarray(at, dtype=float)
        inside = times <= result.grid.edges[-1] * (1 + 1e-12)
        sampled, dims, missing = result.at(times[inside]), ("t",), int((~inside).sum())
    marks = {key: pair for pair, key in derivative_keys(data).items()}
    names = [key for key in (*result.names, *marks) if data[key].dims == dims]
    numbers = values_and_errors(sampled, names)
    for part in numbers.values() if missing else ():
        part |= {name: [*row, *[math.nan] * missing] for name, row in part.items()}
    return {**numbers, "marks": {key: marks[key] for key in numbers["values"] if key in marks}}


Answer = tuple[Record, Any]


@documented
@checked(
    model=read_model, axes=table, executor=offers("submit", "a concurrent.futures executor"), out=path, t_max=number,
    at=numbers, progress=callback, params=table, solver=text, observables=names, derivatives=names,
)  # fmt: skip
def sweep(
    model: Model | str, axes: Mapping[str, Any] | None = None, *, executor: Executor | None = None,
    workers: Any = 1, out: str | os.PathLike[str] | None = None, t_max: float | None = None,
    at: float | Iterable[float] | None = None, rtol: float = 1e-3, atol: float | None = None,
    order: int | None = None, step: float | None = None, seed: int = 0, solver: str | None = None,
    observables: Iterable[str] | None = None, derivatives: Iterable[str] | None = None,
    region: tuple[float, float] | None = None, device: str = "cpu",
    budget: float | str | None = None, progress: Any = None,
    params: Mapping[str, Any] | None = None, **parameters: Any,
) -> Result:  # fmt: skip
    """Solve a model at every point of a grid of parameters.

    Parameters
    ----------
    model
        A model, its name, or the path of its file.
    axes
        Values by parameter: ``{"alpha": [0.1, 1], "delta": "0.3:2:10:log"}``; laws for what is random. Shorter, by keywords:
        ``sweep(model, alpha=[0.1, 1], delta="0.3:2:10:log", lam=0.1)``, where lists and ranges are axes and the rest is fixed.
    executor
        Any ``concurrent.futures`` executor, also dask's ``client.get_executor()``.
    workers
        Where no executor is given: the number of worker processes on this machine; 1 stays in this process.
    out
        A file for the result, as of ``Result.save``. Finished points are kept in a file next to it meanwhile, so that the
        same call goes on after a crash without solving anything twice; when a netCDF file holds this very sweep already,
        it is returned, and only points that failed are solved again.
    at, t_max
        Times to report for a dynamics; 25 of them, spread logarithmically up to ``t_max``, unless given.
    {options: rtol, atol, order, step, seed, solver, observables, region, device, budget}
    derivatives
        Axes, along which derivatives are solved for too: ``res.between(alpha=0.37)`` then tells what lies between the points,
        with its error, and few points make a smooth map.
    progress
        Called with (done, total, text) after each point; as in ``solve``, a bar by default, and False keeps silent.
    params, **parameters
        Values and laws that are the same everywhere; of ``parameters``, lists and ranges are axes.

    Returns
    -------
    Result
        Of kind ``"sweep"``: values and errors over the axes (and ``t``); ``res["status"]`` and ``res["message"]`` tell of
        each point whether it was solved. A point that fails is recorded and does not stop the others.
    """
    began = time.perf_counter()
    assert isinstance(model, Model)
    grid, fixed = grid_of("sweep", model, axes, params, parameters, workers, out)
    given = {"t_max": t_max, "at": at, "step": step}
    refuse_idle(model.name, model.kind, [name for name, value in given.items() if value is not None])
    if region is not None and not any(isinstance(item, Singularity) for item in (model, *models_behind(model))):
        refuse_idle(model.name, model.kind, ["region"])
    times, last = _times(model, t_max, at) if model.kind in ("System", "Flow") else (None, None)
    axes_by_name = {axis.name: axis for axis in grid}
    demand_known(derivatives or (), axes_by_name, "derivatives: `{}` is no axis of the sweep", "its axes")
    for name in derivatives or ():
        if not all(isinstance(value, int | float) for value in axes_by_name[name].labels):
            raise UsageError(f"derivatives: the axis `{name}` holds laws, along which there is no derivative")
    if observables is not None and model.kind != "Cases":
        select_observables(model, list(observables))
    options = Options.make(
        t_max=last, at=times, rtol=rtol, atol=atol, order=order, step=step, seed=seed, solver=solver, region=region,
        device=device, budget=budget, observables=observables, derivatives=derivatives,
    )  # fmt: skip
    run = GridRun(model, grid, fixed, options, progress, work=solve_point)
    identity = {} if out is None else identify(run)
    if out is not None and (there := finished(out, identity)) is not None:
        if not _failed(there):
            return there  # before anything is bound or compiled
        run.records = _solved(there)
    settled, first = same_settings(model, fixed, lay_out_points(grid), grid)
    points = lay_out_points(grid, chaining(model, {**fixed, **first.settings}, options))
    with contextlib.nullcontext() if out is None else Journal(Path(out), identity) as journal:
        with watching(progress, count="point") as run.progress:
            run.go(points, journal, executor, workers)
        result = package(run, settled, time.perf_counter() - began, identity)
        if out is not None:
            result.save(out)
        return result


def grid_of(
    verb: str, model: Model, axes: Any, params: Any, parameters: Any, workers: Any, out: Any
) -> tuple[tuple[Axis, ...], dict[str, Any]]:
    """Return the axes asked for and what is the same everywhere, all arguments checked."""
    check(model)
    refuse_words(verb, model, parameters, settable(model), ("axes", "workers"))
    if out is not None:
        check_name(out)
    if not (isinstance(workers, int) and 1 <= workers <= 1024):
        raise UsageError(f"workers must be a whole number from 1 to 1024, got {workers!r}")
    more = {name: v for name, v in parameters.items() if is_axis(v)}
    fixed = {**(params or {}), **{name: v for name, v in parameters.items() if name not in more}}
    if axes is not None and (twice := sorted(set(axes) & set(more))):
        raise UsageError(f"`{twice[0]}` is an axis twice: among the axes, and by a keyword")
    grid = read_axes(model, {**(axes or {}), **more})
    check_settings(model, grid, fixed)
    return grid, fixed


def _times(model: Model, t_max: float | None, at: Any) -> tuple[list[float], float]:
    start = float(model.start)
    if at is None:
        last = 10.0 if t_max is None else float(t_max)
        if not last > start:
            raise UsageError(f"t_max = {last:g} does not lie after the start, {start:g}")
        at = [start, *(start + (last - start) * np.geomspace(1e-3, 1, 3 * ROWS))]
        at[-1] = last
    times = [float(moment) for moment in at]
    if not times or min(times) < start:
        raise UsageError(f"at: times start at {start:g}, got {times}")
    return times, max(times) if t_max is None else t_max


def same_settings(
    model: Model, fixed: Mapping[str, Any], points: list[SweepPoint], axes: tuple[Axis, ...]
) -> tuple[dict[str, float | str], SweepPoint]:
    """Return the values that are the same everywhere, and a point that can be set.

    Raise when a first few points show that none can be solved.
    """
    problem, names = None, {axis.name for axis in axes}
    for point in points[:: len(axes[-1])][:64]:
        try:
            settings = bind_routed(model, {**fixed, **point.settings}).settings()
            with contextlib.suppress(ParameterError):  # a law may follow what is swept
                last = bind_routed(model, {**fixed, **points[-1].settings}).settings()
                settings = {name: value for name, value in settings.items() if last.get(name) == value}
            return {name: value for name, value in settings.items() if name not in names}, point
        except ParameterError as error:
            problem = problem or error
    assert problem is not None
    raise problem


_WORDS = {"signature": "model, or a changed one", "version": "version of eqsolve"}


def identify(run: GridRun, **more: Any) -> dict[str, Any]:
    """Return what decides the numbers on a grid, ``more`` among it, as it is read back."""
    known = describe(run.model, run.options.seed)
    described = {key: known[key] for key in _WORDS} | {"options": run.options.identity | more}
    described["axes"] = [[axis.name, list(axis.settings)] for axis in run.axes]
    described["fixed"] = {name: str(value) for name, value in run.fixed.items()}
    return dict(json.loads(json.dumps(described, default=str)))


def _differences(there: Any, now: dict[str, Any]) -> str:
    """Return in words what two sweeps differ in: `gamma=0.2, now 0.3`."""
    if not isinstance(there, dict):
        return "of an older eqsolve"
    flat = [{**item["options"], **dict(item["axes"]), **item["fixed"]} for item in (there, now)]
    words = [f"another {word}" for key, word in _WORDS.items() if there[key] != now[key]]
    for name in dict.fromkeys([*flat[0], *flat[1]]):
        old, new = (_short(item.get(name)) for item in flat)
        words += [f"{name}={old}, now {new}"] if flat[0].get(name) != flat[1].get(name) else []
    return "; ".join(words) or "its axes in another order"


def _short(value: Any) -> str:
    if isinstance(value, list):
        few = value if len(value) < 5 else [value[0], "...", value[-1]]
        return ",".join(map(_short, few)) + ("" if few is value else f" ({len(value)} values)")
    return "not set" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def finished(out: str | os.PathLike[str], identity: dict[str, Any]) -> Result | None:
    """Return the result that a file holds, if it is the one asked for; tell of another."""
    if not Path(out).is_file() or Path(out).with_name(Path(out).name + ".journal").exists():
        return None
    try:
        result = open_result(out)
    except UsageError:  # no result, or a damaged one: it is written anew
        return None
    if not isinstance(result, Result) or "sweep" not in result.provenance:
        return None
    there = result.provenance["sweep"]
    if there != identity:
        logger.warning("%s holds another %s (%s); it will be replaced", out, result.kind, _differences(there, identity))
        return None
    again = f", of which {_failed(result)} points failed: they are solved again"
    what = again if _failed(result) else " already, nothing is solved; remove it to solve again"
    logger.log(NOTE, "%s holds this %s%s", out, result.kind, what)
    return result


def _failed(result: Result) -> int:
    return int(result.stats.get("failed", 0)) if result.kind == "sweep" else 0


def _solved(result: Result) -> dict[int, Record]:
    flat = result.dataset.stack(_point=result.dataset["status"].dims)
    marks = {key: pair for pair, key in derivative_keys(result.dataset).items()}
    records = {}
    for index in np.flatnonzero(flat["status"].values != "failed"):
        one = flat.isel(_point=index)
        about = {"status": str(one["status"].item()), "message": str(one["message"].item()), "seconds": float(one["seconds"])}
        records[int(index)] = {**about, **values_and_errors(one, (*result.names, *marks)), "marks": marks}
    return records


@dataclass
class GridRun:
    """The state of a sweep: what is solved so far, what is under way."""

    model: Model
    axes: tuple[Axis, ...]
    fixed: Mapping[str, Any]
    options: Options
    progress: Any
    records: dict[int, Record] = field(default_factory=dict)
    journal: Journal | None = None
    total: int = 0
    points: list[SweepPoint] = field(default_factory=list)
    after: dict[int, list[int]] = field(default_factory=dict)  # the points that start from one
    starts: dict[int, Any] = field(default_factory=dict)  # until the last one is taken
    work: Callable[..., Answer] = solve_point

    def go(self, points: list[SweepPoint], journal: Journal | None, executor: Executor | None, workers: int) -> None:
        """Solve everything that the journal does not hold."""
        self.journal, self.total, self.points = journal, len(points), points
        for point in points:
            if point.before is not None:
                self.after.setdefault(point.before, []).append(point.index)
        if journal is not None:
            for index, r in self.records.items():
                journal.write(index, r)
            self.records = {index: r for index, r in journal.done.items() if index < self.total} | self.records
        if self.progress is not None:
            self.progress(len(self.records), self.total, "")
        if executor is None and workers == 1:
            for point in points:
                if point.index not in self.records:
                    self._finish(point, *self.work(*self.arguments(point)))
            return
        with Workers(workers) if executor is None else contextlib.nullcontext(executor) as pool:
            self._spread(pool)

    def _spread(self, executor: Executor) -> None:
        """Keep an executor busy: points whose neighbour is solved, those first that most others wait for."""
        waiting = [0] * self.total  # how many points start, one from another, from each
        for point in reversed(self.points):  # a point starts from an earlier one
            if point.before is not None:
                waiting[point.before] += 1 + waiting[point.index]
        undone = [point for point in self.points if point.index not in self.records]
        free = [point.index for point in undone if point.before is None or point.before in self.records]
        ready = [(-waiting[index], index) for index in free]
        heapq.heapify(ready)
        under_way: dict[Future[Answer], SweepPoint] = {}
        again: set[int] = set()  # points whose worker died; each is tried once more
        machines = _machines(executor, {})

        def submit(point: SweepPoint) -> None:
            under_way[executor.submit(self.work, *self.arguments(point))] = point

        try:
            while ready or under_way:
                size = getattr(executor, "_max_workers", None) or sum(machines.values()) or os.cpu_count() or 1
                while ready and len(under_way) < size + 2:
                    submit(self.points[heapq.heappop(ready)[1]])
                done = wait(under_way, timeout=10, return_when=FIRST_COMPLETED).done
                left = _machines(executor, machines)
                for gone in machines.keys() - left:
                    logger.warning("worker %s is gone, %d are left; others do its points", gone, len(left))
                machines = left
                for future in done:
                    point = under_way.pop(future)
                    lost = not future.cancelled() and isinstance(future.exception(), WorkerLostError)
                    if lost and point.index not in again:
                        logger.warning("%s: the process that solved it died; another one tries again", point.text)
                        again.add(point.index)
                        submit(point)
                        continue
                    self._finish(point, *_answer(future))
                    for index in self.after.get(point.index, ()):
                        if index not in self.records:
                            heapq.heappush(ready, (-waiting[index], index))
        except BrokenExecutor as error:
            rest = "" if self.journal is None else f"; {len(self.records)} of {self.total} points are kept, run it again"
            raise SolverError(f"the executor broke down ({error}){rest}") from None
        finally:
            for future in under_way:
                future.cancel()

    def arguments(self, point: SweepPoint) -> tuple[Any, ...]:
        start = None if point.before is None else self.starts.get(point.before)
        if start is None and point.before is not None and isinstance(self.model, FixedPoint):
            before, unknowns = self.records[point.before], {item.name for item in self.model.unknowns}
            if before["status"] == "ok":
                start = {name: value for name, value in before["values"].items() if name in unknowns} or None
        return self.model, {**self.fixed, **point.settings}, self.options, start

    def _finish(self, point: SweepPoint, record: Record, start: Any) -> None:
        self.records[point.index] = record
        if start is not None and any(index not in self.records for index in self.after.get(point.index, ())):
            self.starts[point.index] = start
        if point.before is not None and all(index in self.records for index in self.after[point.before]):
            self.starts.pop(point.before, None)
        if self.journal is not None:
            self.journal.write(point.index, record)
        if record["status"] != "ok":
            logger.warning("%s: %s: %s", point.text, record["status"], record["message"])
        if self.progress is not None:
            self.progress(len(self.records), self.total, f"{point.text}, {record['seconds']:.2g} s, {record['status']}")


def _machines(executor: Any, before: dict[str, int]) -> dict[str, int]:
    """Return the threads of dask's workers by address, as before where nobody tells them."""
    with contextlib.suppress(Exception):  # no scheduler of dask's, or one that does not answer
        return dict(executor._client.nthreads())
    return before


def _answer(future: Future[Answer]) -> Answer:
    try:
        return future.result()
    except BrokenExecutor:
        raise
    except (Exception, CancelledError) as error:  # whatever an executor does to a point
        reason = str(error) or type(error).__name__
        return {"status": "failed", "message": reason, "seconds": float("nan"), "values": {}, "errors": {}}, None


def package(
    run: GridRun, settled: dict[str, float | str], seconds: float, identity: dict[str, Any],
    made: type[Result] = Result, **coordinates: Any,
) -> Result:  # fmt: skip
    """Lay the points out over the axes."""
    import xarray as xr

    from eqsolve.passes.rewrite.indices import families_in

    dims, shape = tuple(axis.name for axis in run.axes), tuple(map(len, run.axes))
    records = [run.records[index] for index in range(run.total)]
    times = list(run.options.at)
    more, length = (("t",), (len(times),)) if times else ((), ())
    data: dict[str, Any] = {}
    names = dict.fromkeys(name for record in records for name in record["values"])
    marks = {key: pair for record in records for key, pair in record.get("marks", {}).items()}
    derived = derived_names(run.model, [name for name in names if name not in marks])
    for name in sorted(names, key=lambda name: (name in marks, name in derived.get("derived", ()))):  # what is declared first
        attrs = dict(zip((OF, ALONG), marks.get(name, ()), strict=False))
        for key, part, own in ((name, "values", attrs), (name + "_error", "errors", {})):
            rows = np.array([record[part].get(name, np.full(length, np.nan)) for record in records], dtype=float)
            data[key] = ((*dims, *more), rows.reshape(*shape, *length), own)
    coordinates |= {axis.name: list(axis.labels) for axis in run.axes} | ({"t": times} if times else {})
    for key in ("status", "message", "class", "seconds"):
        if key in records[0]:
            column = np.array([record[key] for record in records], dtype=float if key == "seconds" else object)
            coordinates[key] = (dims, column.reshape(shape))
    bad = [record for record in records if record["status"] != "ok"]
    failed = sum(record["status"] == "failed" for record in bad)
    result = made(
        xr.Dataset(data, coords=coordinates), model=run.model.name, kind="sweep" if made is Result else "diagram",
        params=settled, stats={"points": run.total, "failed": failed, "not met": len(bad) - failed, "seconds": seconds},
        provenance=describe(run.model, run.options.seed) | ({"sweep": identity} if identity else {}) | derived,
        latex=latex_names((run.model, *models_behind(run.model))), families=families_in(data, run.model, settled),
    )  # fmt: skip
    status = f"{len(bad)} of {run.total} points were not solved as asked"
    return result.with_status(status, f"the first of them: {bad[0]['message']}") if bad else result


class Journal(Checkpoint):
    """Finished points in a file next to the result's, with which a killed sweep goes on.

    ``done`` are those found there at the start.
    """

    def __init__(self, out: Path, identity: dict[str, Any]) -> None:
        super().__init__(out.with_name(out.name + ".journal"), resume=True)
        self.begin({"sweep": identity})
        self.done: dict[int, Record] = {key: json.loads(bytes(self.read(key))) for key in self.there}
        if self.done:
            told = "%d finished points found in %s; going on from there"
            logger.log(NOTE, told, len(self.done), self.path)

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, error: Any, *_: object) -> None:
        self.close(remove=error is None)

    def _compare(self, there: dict[str, Any], identity: dict[str, Any]) -> None:
        if there != identity:
            raise UsageError(
                f"{str(self.path)!r} keeps the points of another unfinished sweep "
                f"({_differences(there.get('sweep'), identity['sweep'])}); remove it, or name another file"
            )

    def write(self, index: int, record: Record) -> None:
        """Append a finished point."""
        try:
            self.append(index, json.dumps(record).encode())
        except OSError as error:
            raise cannot_write(self.path, error) from None
