"""`phase_diagram`: what the long run is over a grid of parameters, and where that changes."""

import itertools
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eqsolve.arguments import callback, checked, flag, number, path, table, text
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
from eqsolve.sweeping.run import (
    Answer,
    GridRun,
    Journal,
    finished,
    identify,
    kept,
    package,
    same_settings,
)

logger = logging.getLogger("eqsolve")
Pair = tuple[float, float]  # a number and its error
Settings = Mapping[str, Any]
Place = tuple[float, dict[str, float]]  # a value of a parameter, and the unknowns there


@documented
@checked(
    model=read_model,
    axes=table,
    observable=text,
    lyapunov=flag,
    tolerance=number,
    out=path,
    progress=callback,
    params=table,
)
def phase_diagram(
    model: Model | str,
    axes: Mapping[str, Any] | None = None,
    *,
    observable: str | None = None,
    lyapunov: bool = False,
    tolerance: float = 1e-6,
    workers: Any = 1,
    out: str | os.PathLike[str] | None = None,
    rtol: float | None = None,
    budget: float | str | None = None,
    progress: Any = None,
    params: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> PhaseDiagram:
    """Say what the long run of a model is over one or two parameters, and where it changes.

    Parameters
    ----------
    model
        A system or flow, whose fixed point at long times is derived and solved, or whose stationary
        state is found where none is derived; or a ``FixedPoint``.
    axes
        Values by parameter, as in ``sweep``: ``phase_diagram(model, gain="0.5:3:40")``.
    observable
        The colour of the picture: a number of the fixed point such as ``"stability"``, or of the
        stationary state, which is then found at each point: ``"lyapunov"``, ``"C0"`` for C at lag
        zero, ``"tau_C"``, an observable.
    lyapunov
        Whether a stationary state and its Lyapunov exponent are found at each point, to tell chaos.
    tolerance
        How near a boundary is found, relative to the distance of the neighbours around it.
    workers, out, progress
        As in ``sweep``: a diagram that was stopped goes on from the points kept beside ``out``.
    {options: budget}
    rtol
        Relative tolerance of stationary states, as in ``stationary``.
    params, **parameters
        Values that are the same everywhere; of ``parameters``, lists and ranges are axes.
    """
    from eqsolve.passes.check.check import check, refuse_words
    from eqsolve.passes.routing import settable
    from eqsolve.results.provenance import describe

    began = time.perf_counter()
    assert isinstance(model, Model)
    check(model)
    refuse_words("phase_diagram", model, parameters, settable(model), ("axes", "workers"))
    more = {name: value for name, value in parameters.items() if is_axis(value)}
    fixed = {**(params or {}), **{name: it for name, it in parameters.items() if name not in more}}
    grid = read_axes(model, {**(axes or {}), **more})
    check_settings(model, grid, fixed)
    if len(grid) > 2 or not all(isinstance(value, float) for axis in grid for value in axis.labels):
        raise UsageError("a phase diagram has one axis or two, of numbers; set the others")
    if not (0 < tolerance < 1 and isinstance(workers, int) and 1 <= workers <= 1024):
        raise UsageError("tolerance lies between 0 and 1, workers is from 1 to 1024")
    points = lay_out_points(grid)
    settled, first = same_settings(model, fixed, points, grid)
    rule = LongRun.of(model, {**fixed, **first.settings}, observable, lyapunov, rtol, tolerance)
    options = Options.make(rtol=1e-3 if rtol is None else rtol, budget=budget, t_max=1.0)
    run = _Points(rule.limit or model, grid, fixed, options, progress, work=rule.at_point)
    about = describe(model, 0)
    asked = [about["signature"], observable, rule.states, rule.exponents, rtol, tolerance]
    identity = {} if out is None else identify(run, diagram=asked)
    if out is not None and isinstance(there := finished(out, identity), PhaseDiagram):
        return there
    aside = None if out is None else Path(out).with_name(Path(out).name + ".boundaries")
    with kept(out, identity) as journal, kept(aside, identity) as further:
        with watching(progress, count="point") as run.progress:
            if rule.states:
                run.forecast(points[len(points) // 2], len(points) / workers, journal)
            run.go(lay_out_points(grid, "rows" if rule.limit else ""), journal, None, workers)
            if any(record["several"] for record in run.records.values()):
                for index in [index for index, it in run.records.items() if not it["searched"]]:
                    del run.records[index]
                    (journal.done if journal is not None else {}).pop(index, None)
                run.go(points, journal, None, workers)
            if rule.limit is not None:
                run.lead_on(rule.limit)
            edges = _Edges(run.model, grid, fixed, options, run.progress, work=rule.between)
            edges.go(edges.lay_out(run, rule), further, None, workers)
        edges.look_beyond(run)
        made = package(run, settled, time.perf_counter() - began, identity)
        names = tuple(axis.name for axis in grid)
        records = [run.records[index] for index in range(run.total)]
        classes = np.array([record["class"] for record in records], dtype=object)
        columns = {"class": (names, classes.reshape(tuple(map(len, grid)))), **edges.columns(names)}
        stats = {**made.stats, "observable": observable or ("lyapunov" if rule.exponents else "")}
        result = PhaseDiagram(
            made.dataset.assign_coords(columns), model=model.name, kind="diagram", stats=stats,
            status=made.status, message=made.message, params=settled, latex=made.latex,
            provenance={**about, "sweep": identity},
        )  # fmt: skip
        if out is not None:
            result.save(out)
        return result


@dataclass(frozen=True)
class LongRun:
    """How the long run is told at a point, and the place where it changes between two."""

    system: System | Flow | None  # that has stationary states
    limit: FixedPoint | None
    states: bool  # whether stationary states are found everywhere
    gaussian: bool  # whether they cost little
    exponents: bool
    rtol: float | None
    tolerance: float

    @classmethod
    def of(
        cls,
        model: Model,
        settings: Mapping[str, Any],
        observable: str | None,
        lyapunov: bool,
        *rest: Any,
    ) -> "LongRun":
        """Return how points of a model are judged, where what is asked for can be had."""
        limit, system, gaussian = (model if isinstance(model, FixedPoint) else None), None, False
        reason = why_not = f"model `{model.name}` is a {model.kind}"
        moving = []
        if isinstance(model, System | Flow):
            try:
                limit = model.long_time()
            except ModelError as error:
                reason = str(error)
            task = make_task(model, settings, None)
            why_not, gaussian = why_not_stationary(task), not task.plan.why_not_gaussian()
            system = None if why_not else model
            names = [head.name for head in getattr(task.plan.model, "kernels", ())]
            moving = [
                *task.plan.model.observables,
                *(f"{it}0" for it in names),
                *(f"tau_{it}" for it in names),
            ]
        if limit is None and system is None:
            raise UsageError(f"there is no phase diagram: {reason}; no stationary state: {why_not}")
        if lyapunov and system is None:
            raise UsageError(f"model `{model.name}` has no Lyapunov exponent: {why_not}")
        resting = [*(it.name for it in limit.unknowns), *limit.observables] if limit else []
        known = [*resting, *(["lyapunov", *moving] if system is not None else [])]
        wanted = [] if observable is None else [observable]
        demand_known(wanted, known, f"model `{model.name}` ends in no `{{}}`", "it has")
        exponents = lyapunov or observable == "lyapunov"
        return cls(
            system,
            limit,
            limit is None or lyapunov or not set(wanted) <= set(resting),
            gaussian,
            exponents,
            *rest,
        )

    def at_point(
        self,
        model: Model,
        settings: Mapping[str, Any],
        options: Options,
        start: Any,
        scans: int | None = None,
    ) -> Answer:
        """Return the class of a point; a ``start`` {} says that the neighbour has none."""
        record: Record = {
            "class": "not decided",
            "solved": False,
            "searched": start is None,
            "several": False,
        }

        def judge() -> None:
            if self.limit is not None:
                self._rest(record, settings, start, 1 if start == {} else scans)
            if self.states or (self.gaussian and self.system and not record["solved"]):
                self._state(record, settings, options)

        return _timed(record, judge)

    def fixed_point(self, settings: Settings, start: Any, scans: Any = None) -> FixedPointSolution:
        """Return the fixed point, if its numbers are worth something."""
        assert self.limit is not None
        binder = binder_of(self.limit)
        at = binder.read({name: it for name, it in settings.items() if name in self.limit.settable})
        found = solve_problem(binder.plan(at).program(FIXED_POINT), at, start or None, scans=scans)
        for name in [item.name for item in self.limit.unknowns]:
            value, error = abs(found.values[name]), found.errors[name]
            if error > 1e-3 * value + 1e-12:
                raise SolverError(f"it is not resolved: {name} = {value:.3g} ± {error:.1g}")
        return found

    def _rest(self, record: Record, settings: Settings, start: Any, scans: int | None) -> None:
        try:
            found = self.fixed_point(settings, start, scans)
        except SolverError as error:
            record |= {"message": str(error), "searched": True}
            return
        record |= {"values": dict(found.values), "errors": dict(found.errors), "solved": True}
        record["several"] = bool(found.others)
        every = [values.get("stability", np.inf) for values in (found.values, *found.others)]
        if sum(value > 0 for value in every) > 1:
            record["class"] = "several fixed points"
        elif abs(every[0]) <= found.errors.get("stability", 0.0):
            record["message"] = "its stability is zero within its error"
        elif every[0] == np.inf:
            record |= {"class": "fixed point", "message": "its stability is not known"}
        else:
            record["class"] = "still" if every[0] > 0 else "not at rest"

    def _state(self, record: Record, settings: Mapping[str, Any], options: Options) -> None:
        found = self.stationary(settings, options)
        if found.grid is None:
            record["message"] = "; ".join(filter(None, [record["message"], found.message]))
            return
        for name in found.names:
            key = f"{name}0" if found.variables[name].dims else name
            for part, entry in (("values", name), ("errors", f"{name}_error")):
                record[part][key] = float(found.variables[entry].values.flat[0])
        record |= {
            "class": "still" if found.source.still else "fluctuating",
            "message": found.message,
        }
        if self.exponents:
            value, error = found.lyapunov()
            record["values"]["lyapunov"], record["errors"]["lyapunov"] = value, error
            if record["class"] == "fluctuating" and value > -error:
                record["class"] = "chaotic" if value > error else "not decided"
                record["message"] = "" if value > error else "its Lyapunov exponent may be zero"
        elif record["class"] == "fluctuating":
            record["message"] = "whether it is chaotic was not asked for: lyapunov=True"

    def stationary(self, settings: Mapping[str, Any], options: Options) -> Any:
        assert self.system is not None
        asked: Any = {"rtol": self.rtol, "budget": options.budget, "progress": False}
        return stationary(self.system, params=settings, **asked)

    def between(self, model: Model, settings: Settings, options: Options, edge: "Edge") -> Answer:
        """Return where the long run changes between two neighbours, its error, and the kind."""
        record: Record = {"kind": edge.kind}
        width = self.tolerance * abs(edge.outside - edge.inside[0])

        def fixed(place: float, start: Any, scans: Any = None) -> FixedPointSolution:
            return self.fixed_point({**settings, edge.along: place}, start, scans)

        def indicator(place: float) -> tuple[float, float]:
            if edge.kind == "stability":
                found = fixed(place, edge.inside[1])
                return found.values["stability"], found.errors["stability"]
            value, error = self.stationary({**settings, edge.along: place}, options).lyapunov()
            return value, error

        def search() -> None:
            if edge.kind == "ends":
                place, error, record["kind"] = _end_of(fixed, edge, width)
            else:
                place, error = _root(indicator, edge.inside[0], edge.outside, width)
            record["values"]["place"], record["errors"]["place"] = place, error

        return _timed(record, search)


def _timed(record: Record, work: Callable[[], None]) -> Answer:
    """Do a piece of work on a record; what goes wrong is its message."""
    began = time.perf_counter()
    record |= {"status": "ok", "message": "", "values": {}, "errors": {}}
    try:
        work()
    except EqsolveError as error:
        record["message"] = str(error)
    except Exception as error:  # a defect at one point must not cost the others
        record |= {"status": "failed", "message": f"unexpected {type(error).__name__}: {error}"}
    return record | {"seconds": time.perf_counter() - began}, None


@dataclass(frozen=True)
class Edge:
    """Two neighbours of a grid between which the long run changes, and what tells where."""

    along: str
    kind: str  # "stability" or "lyapunov", which change sign; or a fixed point "ends"
    inside: Place  # the one with a fixed point, if only one has
    outside: float
    before: Place  # the neighbour of the former on the other side, or itself
    indices: tuple[int, int]


@dataclass
class _Points(GridRun):
    """The points of a diagram; at the last of a row all fixed points are searched for."""

    def arguments(self, point: SweepPoint) -> tuple[Any, ...]:
        *others, start = super().arguments(point)
        if start is not None and (point.index + 1) % len(self.axes[-1]) == 0:
            return *others, None
        return *others, {} if start is None and point.before is not None else start

    def lead_on(self, limit: FixedPoint) -> None:
        """Try points without a fixed point again, from all neighbours that have one."""
        pairs = {
            pair for _, line in _lines(self)
            for pair in (*itertools.pairwise(line), *itertools.pairwise(line[::-1]))
        }  # fmt: skip

        def solved(index: int) -> bool:
            return bool(self.records[index]["solved"])

        while ready := [pair for pair in pairs if solved(pair[0]) and not solved(pair[1])]:
            for known, index in ready:
                pairs.remove((known, index))
                if not solved(index):
                    values = self.records[known]["values"]
                    start = {item.name: values[item.name] for item in limit.unknowns}
                    settings = {**self.fixed, **self.points[index].settings}
                    record, _ = self.work(self.model, settings, self.options, start, 0)
                    self.records[index] = record if record["solved"] else self.records[index]

    def forecast(self, point: SweepPoint, count: float, journal: Journal | None) -> None:
        """Find the state in the middle of the grid, and say how long all of them take."""
        if journal is None or not journal.done:
            self.records[point.index], _ = self.work(*self.arguments(point))
            if journal is not None:
                journal.write(point.index, self.records[point.index])
            if (total := self.records[point.index]["seconds"] * count) > 60:  # seconds
                logger.warning("stationary states at all points: about %s", clock(total))


@dataclass
class _Edges(GridRun):
    """The places where the long run changes, looked for as the points of a sweep are."""

    edges: list[Edge] = field(default_factory=list)

    def arguments(self, point: SweepPoint) -> tuple[Any, ...]:
        return self.model, {**self.fixed, **point.settings}, self.options, self.edges[point.index]

    def lay_out(self, run: GridRun, rule: LongRun) -> list[SweepPoint]:
        """Return a piece of work for every two neighbours between which the long run changes."""
        unknowns = [item.name for item in rule.limit.unknowns] if rule.limit is not None else []
        for axis, line in _lines(run):
            records = [run.records[index] for index in line]
            places: list[Place] = [
                (float(value), {name: it["values"][name] for name in unknowns if it["solved"]})
                for value, it in zip(axis.labels, records, strict=True)
            ]
            for k in range(len(line) - 1):
                if kind := _kind(records[k], records[k + 1], resting=bool(unknowns)):
                    inner, outer, behind = (k, k + 1, k - 1) if places[k][1] else (k + 1, k, k + 2)
                    solved = 0 <= behind < len(line) and places[behind][1]
                    ends = places[inner], places[outer][0], places[behind if solved else inner]
                    self.edges.append(Edge(axis.name, kind, *ends, (line[k], line[k + 1])))
        settings = [run.points[edge.indices[0]].settings for edge in self.edges]
        return [SweepPoint(index, it) for index, it in enumerate(settings)]

    def look_beyond(self, run: GridRun) -> None:
        """Call points unbounded where the fixed point grows without bound on all ways there."""
        from scipy.ndimage import label

        records = [run.records[index] for index in range(run.total)]
        unknown = np.array([not it["solved"] and it["class"] == "not decided" for it in records])
        regions = label(unknown.reshape(tuple(map(len, run.axes))))[0].ravel()
        ways: dict[int, dict[str, str]] = {}
        for index, edge in enumerate(self.edges):
            found = self.records[index]
            if edge.kind == "ends" and found["values"]:
                place = f"{edge.along} = {found['values']['place']:.6g}"
                ways.setdefault(max(regions[list(edge.indices)]), {})[found["kind"]] = place
        for record, region in zip(records, regions, strict=True):
            if region and [*ways.get(region, ())] == ["grows"]:
                where = ways[region]["grows"]
                record |= {
                    "class": "unbounded",
                    "message": f"the fixed point grows without bound, as at {where}",
                }
            elif region and region in ways:
                kind, where = next(pair for pair in ways[region].items() if pair[0] != "grows")
                record["message"] = f"the fixed point {kind} at {where}; {record['message']}"

    def columns(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return the points of all boundaries, by columns."""
        rows: list[dict[str, Any]] = []
        for index, edge in enumerate(self.edges):
            if "place" in (record := self.records[index])["values"]:
                places = {**self.points[index].settings, edge.along: record["values"]["place"]}
                error = {"error": record["errors"]["place"]}
                rows.append({**places, **error, "along": edge.along, "kind": record["kind"]})
        kinds = {**dict.fromkeys((*names, "error"), float), "along": object, "kind": object}
        made = {key: np.array([row[key] for row in rows], kind) for key, kind in kinds.items()}
        return {MARK + key: ("boundary", column) for key, column in made.items()}


def _lines(run: GridRun) -> Iterator[tuple[Axis, list[int]]]:
    """Yield the lines of a grid along each axis, as indices of points."""
    indices = np.arange(run.total).reshape(tuple(map(len, run.axes)))
    for place, axis in enumerate(run.axes):
        lines = np.moveaxis(indices, place, -1).reshape(-1, len(axis))
        yield from ((axis, line) for line in lines.tolist())


def _kind(one: Record, other: Record, *, resting: bool) -> str:
    """Return what tells where the long run changes between two points, if it does."""
    first, second = one["values"], other["values"]
    both = [name for name in ("stability", "lyapunov") if name in first and name in second]
    signs = {name: first[name] * second[name] <= 0 for name in both}
    if signs.get("stability"):
        return "stability"
    if resting and one["solved"] != other["solved"]:
        return "ends"
    moving = {"still", "fluctuating"} == {one["class"], other["class"]}
    return "lyapunov" if signs.get("lyapunov", moving and not signs) else ""


def _root(function: Callable[..., Pair], one: float, other: float, width: float) -> Pair:
    """Return the root of a number that changes sign, and its error."""
    from scipy.optimize import brentq

    seen: dict[float, tuple[float, float]] = {}

    def value(place: float) -> float:
        seen[place] = function(place)
        return seen[place][0]

    try:
        root = float(brentq(value, one, other, xtol=width / 2))
    except ValueError:
        raise SolverError("the indicator has the same sign at both neighbours") from None
    except EqsolveError:
        if len(seen) < 2:
            raise
        above, below = ([p for p in seen if (seen[p][0] > 0) is side] for side in (True, False))
        gap, root = min((abs(p - q), (p + q) / 2) for p in above for q in below)
        return root, gap / 2
    (a, (u, doubt)), (b, (v, _)) = sorted(seen.items(), key=lambda item: abs(item[0] - root))[:2]
    return root, width / 2 + (doubt * abs((b - a) / (v - u)) if v != u else abs(b - a))


def _end_of(solve: Callable[..., Any], edge: Edge, width: float) -> tuple[float, float, str]:
    """Follow a fixed point to where there is none; return the place, its error, and how it ends.

    What grows or vanishes there is extrapolated, or its reciprocal, by a straight line to zero.
    """
    (here, values), before, beyond = edge.inside, edge.before, edge.outside
    for _ in range(60):  # halves of the interval, and a few searches
        was = before[1]
        sizes = [(abs(was[name]), abs(it)) for name, it in values.items() if it and was[name]]
        sizes += [(1 / old, 1 / now) for old, now in sizes]
        zeros = [here + (here - before[0]) * now / (old - now) for old, now in sizes if now < old]
        zeros = [place for place in zeros if min(here, beyond) < place < max(here, beyond)]
        guess = max(zeros, key=lambda place: abs(place - here), default=None)
        narrow = abs(beyond - here) <= width
        trial, ahead = (beyond if narrow else (here + beyond) / 2), values
        if guess is not None and 4 * abs(guess - here) <= width:  # or a power up to the fifth
            break
        if guess is not None and not narrow:  # as powers of the distance to the guess
            trial = here + 0.9 * (guess - here)
            power = np.log(0.1) / np.log((guess - here) / (guess - before[0]))
            grown = {name: it / was[name] for name, it in values.items() if it * was[name] > 0}
            ahead = {name: it * grown.get(name, 1.0) ** power for name, it in values.items()}
        try:
            found = solve(trial, ahead, None if narrow else 0).values
        except SolverError:
            if narrow:
                break
            beyond = trial
            continue
        if trial == edge.outside:
            raise SolverError("there is a fixed point at both ends")
        before, (here, values) = (here, values), (trial, {name: found[name] for name in values})
        beyond = edge.outside if narrow else beyond  # the search has found more
    else:
        raise SolverError(f"it cannot be followed beyond {edge.along} = {here:.6g}")
    ratios = [abs(values[name] / it) for name, it in edge.inside[1].items() if it]
    how = "grows" if max(ratios) > 100 else "vanishes" if min(ratios) < 0.01 else "ends"
    place = (here + beyond) / 2 if guess is None else guess
    return place, abs(place - here) * (1 if guess is None else 4), how
