"""`phase_diagram`: what the long run is over a grid of parameters, and where that changes."""

from __future__ import annotations

import contextlib
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
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.printing import latex_names
from eqsolve.options import documented
from eqsolve.progress import watching
from eqsolve.results.result import BOUNDARY, PhaseDiagram
from eqsolve.solvers.fixed_point.solve import FixedPointSolution, solve_problem
from eqsolve.solvers.options import Options
from eqsolve.sweeping.points import Record, SweepPoint, lay_out_points
from eqsolve.sweeping.run import Answer, GridRun, Journal, finished, grid_of, identify, package, same_settings

Place = tuple[float, dict[str, float]]  # a value of a parameter, and the unknowns there
_BLANK: Record = {"status": "ok", "class": "not decided", "solved": False, "searched": True, "several": False}


@documented
@checked(
    model=read_model, axes=table, observable=text, lyapunov=flag, tolerance=number, out=path,
    progress=callback, params=table,
)  # fmt: skip
def phase_diagram(
    model: Model | str, axes: Mapping[str, Any] | None = None, *, observable: str | None = None,
    lyapunov: bool = False, tolerance: float = 1e-6, workers: Any = 1,
    out: str | os.PathLike[str] | None = None, rtol: float | None = None, budget: float | str | None = None,
    progress: Any = None, params: Mapping[str, Any] | None = None, **parameters: Any,
) -> PhaseDiagram:  # fmt: skip
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
    rtol
        Relative tolerance of stationary states, as in ``stationary``.
    {options: budget}
    workers, out, progress, params, **parameters
        As in ``sweep``: a diagram that was stopped goes on from the points kept beside ``out``.
    """
    began = time.perf_counter()
    assert isinstance(model, Model)
    grid, fixed = grid_of("phase_diagram", model, axes, params, parameters, workers, out)
    if len(grid) > 2 or not all(isinstance(value, float) for axis in grid for value in axis.labels):
        raise UsageError("a phase diagram has one axis or two, of numbers; set the others")
    if not 0 < tolerance < 1:
        raise UsageError(f"tolerance must lie between 0 and 1, got {tolerance:g}")
    points = lay_out_points(grid)
    settled, first = same_settings(model, fixed, points, grid)
    rule = LongRun.of(model, {**fixed, **first.settings}, observable, lyapunov, rtol, tolerance)
    options = Options.make(rtol=1e-3 if rtol is None else rtol, budget=budget, t_max=1.0)
    cells = np.arange(len(points)).reshape([len(axis) for axis in grid])
    run = _Diagram(model, grid, fixed, options, progress, work=rule.at_point, limit=rule.limit, cells=cells)
    asked = {"rtol": rtol, "tolerance": tolerance, "observable": observable, "lyapunov": lyapunov}
    identity = {} if out is None else identify(run, **asked)
    if out is not None and isinstance(there := finished(out, identity), PhaseDiagram):
        return there
    with contextlib.nullcontext() if out is None else Journal(Path(out), identity) as journal:
        with watching(progress, count="point") as run.progress:
            run.go(lay_out_points(grid, "rows" if rule.limit else ""), journal, None, workers)
            if any(record.get("several") for record in run.records.values()):
                for index in [index for index, it in run.records.items() if not it.get("searched")]:
                    del run.records[index]
                    (journal.done if journal is not None else {}).pop(index, None)
                run.go(points, journal, None, workers)
            run.find_edges()
            run.work = rule.between
            places = [points[edge.pair[0]].settings for edge in run.edges]
            pairs = [SweepPoint(cells.size + k, it) for k, it in enumerate(places)]
            run.go([*points, *pairs], journal, None, workers)
        run.total, edges = cells.size, run.look_beyond()
        seconds = time.perf_counter() - began
        result = package(run, settled, seconds, identity, PhaseDiagram, **edges)
        result.stats["observable"] = observable or ("lyapunov" if rule.exponents else "")
        result.latex.update(latex_names(filter(None, (model, rule.limit))))
        if out is not None:
            result.save(out)
        assert isinstance(result, PhaseDiagram)
        return result


@contextlib.contextmanager
def _recorded() -> Iterator[Record]:
    """Give a record to work on; what goes wrong is its message."""
    began, record = time.perf_counter(), {**_BLANK, "message": "", "values": {}, "errors": {}}
    try:
        yield record
    except EqsolveError as error:
        record["message"] = str(error)
    except Exception as error:  # a defect at one point must not cost the others
        record |= {"status": "failed", "message": f"unexpected {type(error).__name__}: {error}"}
    record["seconds"] = time.perf_counter() - began


@dataclass(frozen=True)
class Edge:
    """Two neighbours of a grid between which the long run changes, and what tells where."""

    along: str
    kind: str  # "stability" or "lyapunov", which change sign; or a fixed point "ends"
    inside: Place  # the one with a fixed point, if only one has
    outside: float
    before: Place  # the neighbour of the former on the other side, or itself
    pair: tuple[int, int]


@dataclass(frozen=True)
class LongRun:
    """How the long run is told at a point, and the place where it changes between two."""

    system: Model | None  # that has stationary states
    limit: FixedPoint | None
    states: bool  # whether stationary states are found everywhere
    gaussian: bool  # whether they cost little
    exponents: bool
    rtol: float | None
    tolerance: float

    @classmethod
    def of(cls, model: Any, at: Record, shown: str | None, lyapunov: bool, *rest: Any) -> LongRun:
        """Return how points of a model are judged, where what is asked for can be had."""
        limit, gaussian = (model if isinstance(model, FixedPoint) else None), False
        reason = why_not = f"model `{model.name}` is a {model.kind}"
        moving: list[str] = []
        if model.kind in ("System", "Flow"):
            try:
                limit = model.long_time()
            except ModelError as error:
                reason = str(error)
            plan = (task := make_task(model, at, None)).plan
            if not (why_not := why_not_stationary(task)):
                gaussian = not plan.why_not_gaussian()
                kernels = [head.name for head in getattr(plan.model, "kernels", ())]
                moving = ["lyapunov", *plan.model.observables]
                moving += [form.format(name) for form in ("{}0", "tau_{}") for name in kernels]
        if limit is None and why_not:
            raise UsageError(f"there is no phase diagram: {reason}; no stationary state: {why_not}")
        if lyapunov and why_not:
            raise UsageError(f"model `{model.name}` has no Lyapunov exponent: {why_not}")
        resting = [*(it.name for it in limit.unknowns), *limit.observables] if limit else []
        wanted = [] if shown is None else [shown]
        demand_known(wanted, resting + moving, f"model `{model.name}` ends in no `{{}}`", "it has")
        states = lyapunov or limit is None or not set(wanted) <= set(resting)
        system, exponents = None if why_not else model, lyapunov or shown == "lyapunov"
        return cls(system, limit, states, gaussian, exponents, *rest)

    def fixed_point(self, settings: Record, start: Any, scans: Any = None) -> FixedPointSolution:
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

    def stationary(self, settings: Record, options: Options) -> Any:
        assert self.system is not None
        asked: Any = {"rtol": self.rtol, "budget": options.budget, "progress": False}
        return stationary(self.system, params=settings, **asked)

    def at_point(self, _: Model, settings: Record, options: Options, start: Any, scans: Any = None) -> Answer:
        """Return the class of a point; a ``start`` {} says that the neighbour has none."""
        with _recorded() as record:
            if self.limit is not None:
                record["searched"] = start is None
                try:
                    self._rest(record, self.fixed_point(settings, start, 1 if start == {} else scans))
                except SolverError as error:
                    record |= {"message": str(error), "searched": True}
            if self.states or (self.gaussian and not record["solved"]):
                self._state(record, self.stationary(settings, options))
        return record, None

    def _rest(self, record: Record, found: FixedPointSolution) -> None:
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

    def _state(self, record: Record, found: Any) -> None:
        if found.grid is None:
            record["message"] = "; ".join(filter(None, [record["message"], found.message]))
            return
        for name in found.names:
            key = f"{name}0" if found.variables[name].dims else name
            for part, entry in (("values", name), ("errors", f"{name}_error")):
                record[part][key] = float(found.variables[entry].values.flat[0])
        moves = not found.source.still
        record |= {"class": "fluctuating" if moves else "still", "message": found.message}
        if self.exponents:
            value, error = found.lyapunov()
            record["values"]["lyapunov"], record["errors"]["lyapunov"] = value, error
            if moves and value > error:
                record |= {"class": "chaotic", "message": ""}
            elif moves and value > -error:
                record |= {"class": "not decided", "message": "its Lyapunov exponent may be zero"}
        elif moves:
            record["message"] = "whether it is chaotic was not asked for: lyapunov=True"

    def between(self, _: Model, settings: Record, options: Options, edge: Edge) -> Answer:
        """Return where the long run changes between two neighbours, its error, and the kind."""

        def fixed(place: float, start: Any, scans: Any = None) -> FixedPointSolution:
            return self.fixed_point({**settings, edge.along: place}, start, scans)

        def indicator(place: float) -> Any:
            if edge.kind == "lyapunov":
                return self.stationary({**settings, edge.along: place}, options).lyapunov()
            found = fixed(place, edge.inside[1])
            return found.values["stability"], found.errors["stability"]

        with _recorded() as record:
            width = self.tolerance * abs(edge.outside - edge.inside[0])
            if edge.kind == "ends":
                place, error, kind = _end_of(fixed, edge, width)
            else:
                place, error, kind = *_root(indicator, edge.inside[0], edge.outside, width), edge.kind
            record |= {"place": place, "error": error, "along": edge.along, "kind": kind}
        return record, None


@dataclass
class _Diagram(GridRun):
    """The points of a diagram, and after them the neighbours between which it changes."""

    limit: FixedPoint | None = None
    cells: Any = None  # the indices of the points, over the axes
    edges: list[Edge] = field(default_factory=list)

    def arguments(self, point: SweepPoint) -> tuple[Any, ...]:
        """Return what to work with; the last point of a row is searched for all fixed points."""
        given = self.model, {**self.fixed, **point.settings}, self.options
        if point.index >= self.cells.size:
            return *given, self.edges[point.index - self.cells.size]
        if point.before is None or (point.index + 1) % len(self.axes[-1]) == 0:
            return *given, None
        return *given, self.unknowns(point.before)

    def unknowns(self, index: int) -> dict[str, float]:
        """Return the fixed point found at a point; nothing where there is none."""
        record = self.records[index]
        names = [item.name for item in self.limit.unknowns] if self.limit is not None else []
        return {name: record["values"][name] for name in names if record.get("solved")}

    def place(self, index: int) -> dict[str, float]:
        """Return the values of the axes at a point."""
        places = np.unravel_index(index, self.cells.shape)
        return {axis.name: float(axis.labels[k]) for axis, k in zip(self.axes, places, strict=True)}

    def neighbours(self) -> Iterator[tuple[str, int, int, int]]:
        """Yield points, after the one before (or themselves) and before the next, both ways."""
        for place, axis in enumerate(self.axes):
            for line in np.moveaxis(self.cells, place, -1).reshape(-1, len(axis)).tolist():
                for way in (line, line[::-1]):
                    yield from ((axis.name, *it) for it in zip(way[:1] + way, way, way[1:], strict=False))

    def find_edges(self) -> None:
        """Try points without a fixed point again from neighbours; list where the class changes."""
        self.records = records = {index: _BLANK | it for index, it in self.records.items()}
        waiting = {(here, there) for _, _, here, there in self.neighbours()}
        while ready := {it for it in waiting if [records[k]["solved"] for k in it] == [True, False]}:
            waiting -= ready
            for known, index in sorted(ready):
                if not records[index]["solved"]:
                    *given, _ = self.arguments(self.points[index])
                    record, _ = self.work(*given, self.unknowns(known), 0)
                    records[index] = record if record["solved"] else records[index]
        for along, behind, here, there in self.neighbours():
            ranks = [(not records[k]["solved"], k) for k in (here, there)]
            if ranks[0] < ranks[1] and (kind := _kind(records[here], records[there])):
                ends = [(self.place(k)[along], self.unknowns(k)) for k in (here, there, behind)]
                before = ends[2] if ends[2][1] else ends[0]
                self.edges.append(Edge(along, kind, ends[0], ends[1][0], before, (here, there)))

    def look_beyond(self) -> dict[str, Any]:
        """Return boundaries by columns; points are unbounded where all ways to them grow."""
        from scipy.ndimage import label

        records = [self.records[index] for index in range(self.cells.size)]
        unknown = np.array([not it["solved"] and it["class"] == "not decided" for it in records])
        regions = label(unknown.reshape(self.cells.shape))[0].ravel()
        ways: dict[int, dict[str, str]] = {}
        rows: list[Record] = []
        for index, edge in enumerate(self.edges, self.cells.size):
            if "place" in (found := self.records[index]):
                rows.append({**found, **self.place(edge.pair[0]), edge.along: found["place"]})
                if edge.kind == "ends" and (region := max(regions[list(edge.pair)])):
                    ways.setdefault(region, {})[found["kind"]] = f"{edge.along} = {found['place']:.6g}"
        for record, region in zip(records, regions, strict=True):
            told = sorted(ways.get(region, {}).items(), key=lambda it: it[0] == "grows")
            if told and told[0][0] == "grows":
                why = f"the fixed point grows without bound, as at {told[0][1]}"
                record |= {"class": "unbounded", "message": why}
            elif told:
                record["message"] = "the fixed point {} at {}; ".format(*told[0]) + record["message"]
        numbers = dict.fromkeys([*(axis.name for axis in self.axes), "error"], float)
        kinds = {**numbers, "along": object, "kind": object}
        return {BOUNDARY + key: ("boundary", np.array([row[key] for row in rows], kind)) for key, kind in kinds.items()}


def _kind(one: Record, other: Record) -> str:
    """Return what tells where the long run changes between two points, if it does."""
    pairs = {key: [it["values"].get(key, np.nan) for it in (one, other)] for key in ("stability", "lyapunov")}
    signs = {key: a * b <= 0 for key, (a, b) in pairs.items() if not np.isnan(a + b)}
    moving = not signs and {"still", "fluctuating"} == {one["class"], other["class"]}
    if signs.get("stability") or one["solved"] != other["solved"]:
        return "stability" if signs.get("stability") else "ends"
    return "lyapunov" if signs.get("lyapunov", moving) else ""


def _root(function: Callable[..., Any], one: float, other: float, width: float) -> tuple[float, float]:
    """Return the root of a number that changes sign, or the middle of its bracket, and the error."""
    from scipy.optimize import brentq

    seen: dict[float, tuple[float, float]] = {}
    try:
        root = float(brentq(lambda x: seen.setdefault(x, function(x))[0], one, other, xtol=width / 2))
    except (ValueError, EqsolveError) as error:
        above, below = ([p for p in seen if (seen[p][0] > 0) is side] for side in (True, False))
        if not (above and below):
            raise SolverError(f"no change of sign between the neighbours: {error}") from None
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
