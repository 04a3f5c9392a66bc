"""`phase_diagram`: what the long run is over a grid of parameters, and lines where that changes, found as roots."""

from __future__ import annotations

import itertools
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eqsolve.arguments import callback, checked, flag, number, offers, path, table, text
from eqsolve.compile.forms import FIXED_POINT
from eqsolve.compile.tasks import make_task
from eqsolve.compile.values import binder_of
from eqsolve.curves.stationary import stationary, why_not_stationary
from eqsolve.errors import EqsolveError, ModelError, SolverError, UsageError, demand_known
from eqsolve.language.fixed_point import FixedPoint
from eqsolve.language.flow import Flow
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.system import System
from eqsolve.options import documented
from eqsolve.progress import clock, watching
from eqsolve.results.diagram import MARK, PhaseDiagram
from eqsolve.solvers.fixed_point.solve import FixedPointSolution, solve_problem
from eqsolve.solvers.options import Options
from eqsolve.sweeping.axes import Axis, check_settings, is_axis, read_axes
from eqsolve.sweeping.points import Record, SweepPoint, lay_out_points
from eqsolve.sweeping.run import Answer, GridRun, Journal, finished, identify, kept, package, same_settings

logger = logging.getLogger("eqsolve")

UNDECIDED = "not decided"
Place = tuple[float, dict[str, float]]
"""A value of a parameter, and the unknowns of the fixed point there."""


@documented
@checked(
    model=read_model, axes=table, observable=text, lyapunov=flag, tolerance=number, params=table,
    executor=offers("submit", "a concurrent.futures executor"), out=path, progress=callback,
)  # fmt: skip
def phase_diagram(
    model: Model | str,
    axes: Mapping[str, Any] | None = None,
    *,
    observable: str | None = None,
    lyapunov: bool = False,
    tolerance: float = 1e-6,
    executor: Executor | None = None,
    workers: Any = 1,
    out: str | os.PathLike[str] | None = None,
    rtol: float | None = None,
    budget: float | str | None = None,
    progress: Any = None,
    params: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> PhaseDiagram:
    """Say what the long run of a model is over a grid of one or two parameters, and where it changes.

    Parameters
    ----------
    model
        A system or flow, whose fixed point at long times is derived and solved, or whose stationary state is found where none
        is derived; or a ``FixedPoint``.
    axes
        Values by parameter, as in ``sweep``; shorter by keywords: ``phase_diagram(model, gain="0.5:3:40", D="0:1:30")``.
    observable
        The colour of the picture: any number of the fixed point, ``"stability"`` among them, or of the stationary state:
        ``"lyapunov"``, an observable, ``"C0"`` for C at lag zero, ``"tau_C"``. What only the latter has costs one at each point.
    lyapunov
        Whether a stationary state and its Lyapunov exponent are found at each point, to tell chaos from fluctuations.
    tolerance
        How near a boundary is found, relative to the distance of the neighbours on the grid between which it lies.
    executor, workers, out, progress
        As in ``sweep``: a diagram that was stopped goes on from the points kept beside ``out``.
    {options: budget}
    rtol
        Relative tolerance of stationary states, as in ``stationary``.
    params, **parameters
        Values that are the same everywhere; of ``parameters``, lists and ranges are axes.

    Returns
    -------
    PhaseDiagram
        ``diagram.classes``, ``diagram["stability"]`` and other values over the grid, ``diagram.boundaries``.
    """
    from eqsolve.passes.check.check import check, refuse_words
    from eqsolve.passes.routing import settable
    from eqsolve.results.archive import check_name
    from eqsolve.results.provenance import describe

    began = time.perf_counter()
    assert isinstance(model, Model)
    check(model)
    refuse_words("phase_diagram", model, parameters, settable(model), ("axes", "workers"))
    if out is not None:
        check_name(out)
    more = {name: value for name, value in parameters.items() if is_axis(value)}
    fixed = {**(params or {}), **{name: it for name, it in parameters.items() if name not in more}}
    grid = read_axes(model, {**(axes or {}), **more})
    check_settings(model, grid, fixed)
    if len(grid) > 2 or not all(isinstance(value, float) for axis in grid for value in axis.labels):
        raise UsageError("a phase diagram has one axis or two, of numbers; set the other parameters")
    if not 0 < tolerance < 1:
        raise UsageError(f"tolerance must lie between 0 and 1, got {tolerance:g}")
    settled, first = same_settings(model, fixed, lay_out_points(grid), grid)
    rule = _rule(model, {**fixed, **first.settings}, observable, lyapunov, rtol, tolerance)
    options = Options.make(rtol=1e-3 if rtol is None else rtol, budget=budget, t_max=1.0)
    run = _Points(rule.limit or model, grid, fixed, options, progress, work=rule.at_point)
    asked = [describe(model, 0)["signature"], observable, rule.states, rule.exponents, rtol, tolerance]
    identity = "" if out is None else identify(run, diagram=asked)
    if out is not None and isinstance(there := finished(out, identity), PhaseDiagram):
        return there
    aside = None if out is None else Path(out).with_name(Path(out).name + ".boundaries")
    with kept(out, identity) as journal, kept(aside, identity) as further:
        with watching(progress, count="point") as run.progress:
            if rule.states and executor is None:
                _forecast(run, lay_out_points(grid), journal, workers)
            run.go(lay_out_points(grid, "rows" if rule.limit else ""), journal, executor, workers)
            _search_again(run, journal, executor, workers)
            edges = _Edges(run.model, grid, fixed, options, run.progress, work=rule.between)
            points = edges.lay_out(run, rule)
            edges.go(points, further, executor, workers)
        _say_what_lies_beyond(run, edges)
        made = package(run, settled, time.perf_counter() - began, identity)
        dims = tuple(axis.name for axis in grid)
        records = [run.records[index]["class"] for index in range(run.total)]
        classes = np.array(records, dtype=object).reshape(tuple(map(len, grid)))
        table = made.dataset.assign_coords({"class": (dims, classes), **_boundary_columns(edges, dims)})
        stats = {**made.stats, "boundary points": table.sizes.get("boundary", 0)}
        stats["observable"] = observable or ("lyapunov" if rule.exponents else "")
        result = PhaseDiagram(
            table, model=model.name, kind="diagram", status=made.status, message=made.message, params=settled,
            stats=stats, provenance=describe(model, 0) | {"sweep": identity}, latex=made.latex,
        )  # fmt: skip
        if out is not None:
            result.save(out)
        return result


def _rule(
    model: Model, settings: Mapping[str, Any], observable: str | None, lyapunov: bool, rtol: float | None, tolerance: float
) -> LongRun:
    """Return how points are judged: by a fixed point, stationary states, or both."""
    limit: FixedPoint | None = model if isinstance(model, FixedPoint) else None
    reason = why_not = ""
    gaussian = False
    if isinstance(model, System | Flow):
        try:
            limit = model.long_time()
        except ModelError as error:
            reason = str(error)
        task = make_task(model, settings, None)
        why_not, gaussian = why_not_stationary(task), not task.plan.why_not_gaussian()
        if limit is None and why_not:
            raise UsageError(f"there is no phase diagram: {reason}; nor is a stationary state looked for, since {why_not}")
    elif limit is None:
        raise UsageError(f"model `{model.name}` is a {model.kind}: there are phase diagrams of a System, Flow or FixedPoint")
    system = model if isinstance(model, System | Flow) and not why_not else None
    resting = [*(item.name for item in limit.unknowns), *limit.observables] if limit is not None else []
    moving = ["lyapunov"] if system is not None else []
    if system is not None:
        declared = task.plan.model
        assert isinstance(declared, System)
        names = [head.name for head in declared.kernels]
        moving += [*declared.observables, *(f"{name}0" for name in names), *(f"tau_{name}" for name in names)]
    if lyapunov and system is None:
        why = why_not or f"it is a {model.kind}"
        raise UsageError(f"model `{model.name}` has no Lyapunov exponent: no stationary state is looked for, since {why}")
    if observable is not None:
        known = dict.fromkeys([*resting, *moving])
        demand_known([observable], known, f"model `{model.name}` has no number `{{}}` at long times", "it has")
    exponents = lyapunov or observable == "lyapunov"
    states = limit is None or exponents or (observable is not None and observable not in resting)
    return LongRun(system, limit, states, gaussian, exponents, rtol, tolerance)


@dataclass(frozen=True)
class LongRun:
    """How the long run is told at a point, and the place where it changes between two."""

    system: System | Flow | None
    limit: FixedPoint | None
    states: bool  # whether stationary states are found everywhere
    gaussian: bool  # whether they cost little
    exponents: bool
    rtol: float | None
    tolerance: float

    def at_point(self, model: Model, settings: Mapping[str, Any], options: Options, start: Any) -> Answer:
        """Return the class of a point, and its numbers."""
        began = time.perf_counter()
        record: Record = {"status": "ok", "message": "", "class": UNDECIDED, "values": {}, "errors": {}}
        record |= {"solved": False, "searched": start is None, "several": False}  # {} says: the neighbour has none
        try:
            if self.limit is not None:
                self._rest(record, settings, start)
            if self.system is not None and (self.states or (self.gaussian and not record["solved"])):
                self._state(record, settings, options)
        except EqsolveError as error:
            record["message"] = str(error)
        except Exception as error:  # a defect at one point must not cost the others
            record |= {"status": "failed", "message": f"unexpected {type(error).__name__}: {error}"}
        return record | {"seconds": time.perf_counter() - began}, None

    def fixed_point(
        self, settings: Mapping[str, Any], start: Mapping[str, float] | None, scans: int | None = None
    ) -> FixedPointSolution:
        """Return the fixed point, if its numbers are worth something."""
        assert self.limit is not None
        binder = binder_of(self.limit)
        at = binder.read({name: it for name, it in settings.items() if name in self.limit.settable})
        found = solve_problem(binder.plan(at).program(FIXED_POINT), at, start or None, scans=scans)
        for item in self.limit.unknowns:
            value, error = abs(found.values[item.name]), found.errors[item.name]
            if error > 1e-3 * value + 1e-12:
                raise SolverError(f"the fixed point is not resolved: {item.name} = {value:.3g} ± {error:.1g}")
        return found

    def _rest(self, record: Record, settings: Mapping[str, Any], start: Any) -> None:
        try:
            found = self.fixed_point(settings, start, 1 if start == {} else None)
        except SolverError as error:
            record |= {"message": str(error), "searched": True}
            return
        record |= {"values": dict(found.values), "errors": dict(found.errors), "solved": True, "several": bool(found.others)}
        every = [found.values, *found.others]
        if "stability" not in found.values:
            record["class"] = "several fixed points" if found.others else "fixed point"
            return
        stability, error = found.values["stability"], found.errors["stability"]
        if sum(values["stability"] > 0 for values in every) > 1:
            record["class"] = "several fixed points"
        elif abs(stability) <= error:
            record["message"] = "its stability is zero within its error"
        else:
            record["class"] = "still" if stability > 0 else "not at rest"

    def _state(self, record: Record, settings: Mapping[str, Any], options: Options) -> None:
        assert self.system is not None
        found = stationary(self.system, params=settings, rtol=self.rtol, budget=options.budget, progress=False)
        if found.grid is None:
            record["message"] = "; ".join(filter(None, [record["message"], found.message]))
            return
        every = found.variables
        for name in found._of_dims():
            record["values"][name], record["errors"][name] = float(every[name].values), float(every[f"{name}_error"].values)
        for name in found._of_dims("t"):
            for part, key in (("values", name), ("errors", f"{name}_error")):
                record[part][f"{name}0"] = float(every[key].values[0])
        still = bool(found.source.still)
        record |= {"class": "still" if still else "fluctuating", "message": found.message}
        if self.exponents:
            value, error = found.lyapunov()
            record["values"]["lyapunov"], record["errors"]["lyapunov"] = value, error
            if not still and abs(value) <= error:
                record |= {"class": UNDECIDED, "message": "its Lyapunov exponent is zero within its error"}
            elif not still and value > 0:
                record["class"] = "chaotic"
        elif not still and not record["message"]:
            record["message"] = "whether it is chaotic was not asked for: lyapunov=True"

    def between(self, model: Model, settings: Mapping[str, Any], options: Options, edge: Edge) -> Answer:
        """Return where the long run changes between two neighbours, its error, and the kind of change."""
        began = time.perf_counter()
        record: Record = {"status": "ok", "message": "", "values": {}, "errors": {}, "kind": edge.kind}
        width = self.tolerance * abs(edge.ends[1] - edge.ends[0])
        try:
            if edge.kind == "ends":
                inside = 0 if edge.starts[0] else 1

                def follow(place: float, start: dict[str, float], search: bool) -> dict[str, float]:
                    found = self.fixed_point({**settings, edge.along: place}, start, None if search else 0)
                    return {name: found.values[name] for name in start}

                first = edge.ends[inside], edge.starts[inside]
                before = edge.before if edge.before is not None else first
                place, error, record["kind"] = _end_of(follow, before, first, edge.ends[1 - inside], width)
            else:
                place, error = _root(lambda p: self._indicator(edge, {**settings, edge.along: p}, options), edge.ends, width)
            record["values"]["place"], record["errors"]["place"] = place, error
        except EqsolveError as error:  # (no change of sign, say)
            record["message"] = str(error)
        except Exception as error:
            record |= {"status": "failed", "message": f"unexpected {type(error).__name__}: {error}"}
        return record | {"seconds": time.perf_counter() - began}, None

    def _indicator(self, edge: Edge, settings: Mapping[str, Any], options: Options) -> tuple[float, float]:
        """Return the number whose sign tells the sides of a boundary apart, and its error."""
        if edge.kind == "stability":
            found = self.fixed_point(settings, edge.starts[0])
            return found.values["stability"], found.errors["stability"]
        assert self.system is not None
        state = stationary(self.system, params=settings, rtol=self.rtol, budget=options.budget, progress=False)
        return state.lyapunov()


@dataclass(frozen=True)
class Edge:
    """Two neighbours of a grid between which the long run changes, and what tells where."""

    along: str
    kind: str  # "stability" or "lyapunov", which change sign; "ends" of a fixed point
    ends: tuple[float, float]
    starts: tuple[dict[str, float], dict[str, float]]  # the unknowns of the fixed point
    indices: tuple[int, int]
    before: Place | None = None  # the neighbour of that with a fixed point, on the other side


@dataclass
class _Points(GridRun):
    """The points of a diagram; each knows whether its neighbour has a fixed point."""

    def arguments(self, point: SweepPoint) -> tuple[Any, ...]:
        *others, start = super().arguments(point)
        return *others, {} if start is None and point.before is not None else start


@dataclass
class _Edges(GridRun):
    """The places where the long run changes, looked for as the points of a sweep are."""

    edges: list[Edge] = field(default_factory=list)

    def arguments(self, point: SweepPoint) -> tuple[Any, ...]:
        return self.model, {**self.fixed, **point.settings}, self.options, self.edges[point.index]

    def lay_out(self, run: GridRun, rule: LongRun) -> list[SweepPoint]:
        """Return a piece of work for every two neighbours between which the long run changes."""
        unknowns = [item.name for item in rule.limit.unknowns] if rule.limit is not None else []
        made = []
        for first, second, axis in _neighbours(run.axes):
            records = run.records[first], run.records[second]
            kind = _kind(*records, resting=rule.limit is not None)
            if not kind:
                continue
            settings = run.points[first].settings
            ends = float(settings[axis.name]), float(run.points[second].settings[axis.name])
            starts = [_unknowns(it, unknowns) for it in records]
            behind = first - (second - first) if starts[0] else second + (second - first)
            before = None
            if kind == "ends" and _in_line(run.axes, axis, (first, second), behind):
                values = _unknowns(run.records[behind], unknowns)
                before = (float(run.points[behind].settings[axis.name]), values) if values else None
            self.edges.append(Edge(axis.name, kind, ends, (starts[0], starts[1]), (first, second), before))
            made.append(SweepPoint(len(made), settings))
        return made


def _unknowns(record: Record, names: list[str]) -> dict[str, float]:
    return {name: record["values"][name] for name in names if record["solved"]}


def _in_line(axes: tuple[Axis, ...], axis: Axis, pair: tuple[int, int], third: int) -> bool:
    """Whether a point of the grid lies on the same line along an axis as two neighbours."""
    place, shape = axes.index(axis), tuple(map(len, axes))
    if not 0 <= third < int(np.prod(shape)):
        return False
    cells = [np.unravel_index(index, shape) for index in (*pair, third)]
    return all(len({cell[k] for cell in cells}) == 1 for k in range(len(shape)) if k != place)


def _neighbours(axes: tuple[Axis, ...]) -> Iterator[tuple[int, int, Axis]]:
    shape = tuple(map(len, axes))
    for cell in itertools.product(*map(range, shape)):
        for place, axis in enumerate(axes):
            if cell[place] + 1 < shape[place]:
                other = tuple(at + (k == place) for k, at in enumerate(cell))
                yield int(np.ravel_multi_index(cell, shape)), int(np.ravel_multi_index(other, shape)), axis


def _kind(one: Record, other: Record, *, resting: bool) -> str:
    """Return what tells where the long run changes between two points; nothing where it does not."""
    signs = {
        name: one["values"][name] * other["values"][name] <= 0
        for name in ("stability", "lyapunov") if name in one["values"] and name in other["values"]
    }  # fmt: skip
    if signs.get("stability"):
        return "stability"
    if resting and one["solved"] != other["solved"]:
        return "ends"
    moving = {"still", "fluctuating"} == {one["class"], other["class"]}
    return "lyapunov" if signs.get("lyapunov", moving and not signs) else ""


def _root(function: Callable[[float], tuple[float, float]], ends: tuple[float, float], width: float) -> tuple[float, float]:
    """Return the root of a number that changes sign, and its error; half of what is left where the number cannot be had."""
    from scipy.optimize import brentq

    seen: dict[float, tuple[float, float]] = {}

    def value(place: float) -> float:
        seen[place] = function(place)
        return seen[place][0]

    try:
        root = float(brentq(value, *ends, xtol=width / 2))
    except ValueError:
        raise SolverError("the indicator has the same sign at both neighbours") from None
    except EqsolveError:
        if len(seen) < 2:
            raise
        low, high = (
            min((p for p in seen if (seen[p][0] > 0) is side), key=lambda p: abs(seen[p][0])) for side in (True, False)
        )
        return (low + high) / 2, abs(high - low) / 2
    (a, (u, doubt)), (b, (v, _)) = sorted(seen.items(), key=lambda item: abs(item[0] - root))[:2]
    return root, width / 2 + (doubt * abs((b - a) / (v - u)) if v != u else abs(b - a))


def _end_of(
    follow: Callable[[float, dict[str, float], bool], dict[str, float]],
    before: Place,
    first: Place,
    beyond: float,
    width: float,
) -> tuple[float, float, str]:
    """Follow a fixed point to where there is none; return the place, its error, and how it ends.

    What grows or vanishes there is extrapolated, itself or its reciprocal, by a straight line to zero.
    """
    (here, values), outside = first, beyond
    guess: float | None = None
    while True:
        near = [] if before[0] == here else _zeros(before, (here, values), beyond)
        guess = max(near, key=lambda place: abs(place - here), default=None)
        trial, ahead = (here + beyond) / 2, values
        if guess is not None:  # powers of the distance to the guess
            if abs(guess - here) <= width:
                break
            trial, power = here + 0.9 * (guess - here), np.log(0.1) / np.log((guess - here) / (guess - before[0]))
            grown = {name: it / before[1][name] for name, it in values.items() if it * before[1][name] > 0}
            ahead = {name: it * grown.get(name, 1.0) ** power for name, it in values.items()}
        narrow = abs(beyond - here) <= width
        try:
            found = follow(beyond if narrow else trial, ahead, narrow)
        except SolverError:
            if narrow:
                break
            beyond = trial
            continue
        before, (here, values) = (here, values), (beyond if narrow else trial, found)
        beyond = outside if narrow else beyond  # a search has found more than a start led to
    ratios = [abs(values[name] / it) for name, it in first[1].items() if it]
    how = "grows" if max(ratios) > 100 else "vanishes" if min(ratios) < 0.01 else "ends"
    place = (here + beyond) / 2 if guess is None else guess
    return place, abs(place - here), how


def _zeros(before: Place, now: Place, beyond: float) -> list[float]:
    """Return where unknowns or their reciprocals vanish if they go on as they went, short of a place."""
    found = []
    for name, value in now[1].items():
        was = abs(before[1][name])
        for last, this in ((was, abs(value)), (1 / was if was else 0.0, 1 / abs(value) if value else 0.0)):
            if this < last:
                place = now[0] + (now[0] - before[0]) * this / (last - this)
                if min(now[0], beyond) < place < max(now[0], beyond):
                    found.append(place)
    return found


def _forecast(run: GridRun, points: list[SweepPoint], journal: Journal | None, workers: int) -> None:
    """Find the stationary state in the middle of the grid, and say how long all of them take if it does."""
    if journal is not None and journal.done:
        return
    point = points[len(points) // 2]
    record, _ = run.work(run.model, {**run.fixed, **point.settings}, run.options, None)
    run.records[point.index] = record
    if journal is not None:
        journal.write(point.index, record)
    total = record["seconds"] * (len(points) - 1) / workers
    if total > 60:  # seconds
        logger.warning("%d stationary states, %.2g s for the first: about %s", len(points), record["seconds"], clock(total))


def _search_again(run: GridRun, journal: Journal | None, executor: Executor | None, workers: int) -> None:
    """Search everywhere for all fixed points where one search has found several: neighbours lead to one only."""
    if any(record["several"] for record in run.records.values()):
        for index in [index for index, record in run.records.items() if not record["searched"]]:
            del run.records[index]
            if journal is not None:
                journal.done.pop(index, None)
        run.go(lay_out_points(run.axes), journal, executor, workers)


def _say_what_lies_beyond(run: GridRun, edges: _Edges) -> None:
    """Call points without a fixed point unbounded where it grows without bound on all ways there."""
    from scipy.ndimage import label

    shape = tuple(map(len, run.axes))
    open_ones = [not run.records[k]["solved"] and run.records[k]["class"] == UNDECIDED for k in range(run.total)]
    regions = label(np.array(open_ones).reshape(shape))[0].ravel()
    ways: dict[int, list[tuple[str, str]]] = {}
    for index, edge in enumerate(edges.edges):
        if edge.kind == "ends" and (region := int(max(regions[k] for k in edge.indices))):
            record = edges.records[index]
            place = f"{edge.along} = {record['values'].get('place', np.nan):.6g}"
            ways.setdefault(region, []).append((record["kind"], place))
    for index, region in enumerate(regions):
        if region and (found := ways.get(int(region))):
            record = run.records[index]
            if {kind for kind, _ in found} == {"grows"}:
                record |= {"class": "unbounded", "message": f"the fixed point grows without bound, as at {found[0][1]}"}
            else:
                kind, place = next(pair for pair in found if pair[0] != "grows")
                record["message"] = f"the fixed point {kind} at {place}, at finite numbers; {record['message']}"


def _boundary_columns(edges: _Edges, dims: tuple[str, ...]) -> dict[str, Any]:
    """Return the points of all boundaries by columns."""
    rows = []
    for index, (point, edge) in enumerate(zip(edges.points, edges.edges, strict=True)):
        record = edges.records[index]
        if "place" in record["values"]:
            places = {**point.settings, edge.along: record["values"]["place"]}
            rows.append((*(float(places[dim]) for dim in dims), record["errors"]["place"], edge.along, record["kind"]))
    columns = list(zip(*rows, strict=True)) if rows else [()] * (len(dims) + 3)
    kinds = [*[float] * (len(dims) + 1), object, object]
    names = [*dims, "error", "along", "kind"]
    return {
        MARK + name: ("boundary", np.array(column, dtype=kind))
        for name, column, kind in zip(names, columns, kinds, strict=True)
    }  # fmt: skip
