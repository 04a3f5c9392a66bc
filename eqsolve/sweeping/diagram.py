"""`phase_diagram`: what the long run is over a grid of parameters, and where that changes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eqsolve.arguments import callback, checked, flag, number, path, table, text
from eqsolve.compile.forms import FIXED_POINT
from eqsolve.compile.plan import binder_of, make_task
from eqsolve.curves.stationary import rest_of, stationary, why_not_stationary
from eqsolve.errors import EqsolveError, ModelError, SolverError, UsageError, demand_known
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.printing import latex_names
from eqsolve.language.symbols import Correlation
from eqsolve.language.system import FixedPoint
from eqsolve.options import documented
from eqsolve.passes.rewrite.indices import all_indices, written_out
from eqsolve.progress import watching
from eqsolve.results.result import BOUNDARY, PhaseDiagram
from eqsolve.solvers.fixed_point.solve import FixedPointSolution, solve_problem
from eqsolve.solvers.options import Options
from eqsolve.solving import solve_as_asked
from eqsolve.sweeping import run as grids
from eqsolve.sweeping.run import Answer, GridRun, Journal, Record, SweepPoint, lay_out_points, recorded

Unknowns = dict[str, float]
_LATE = 1e3  # the time up to which correlations are followed to see whether they age
_BEGIN = {"status": "ok", "class": "not decided", "unknowns": {}}
_SAME = 0.01  # of a correlation at equal times: what differs by less is the same


@documented
@checked(
    model=read_model, axes=table, observable=text, lyapunov=flag, tolerance=number, out=path, progress=callback, params=table,
)  # fmt: skip
def phase_diagram(
    model: Model | str, axes: Mapping[str, Any] | None = None, *, observable: str | None = None,
    lyapunov: bool = False, tolerance: float = 1e-6, workers: Any = 1,
    out: str | os.PathLike[str] | None = None, rtol: float | None = None,
    budget: float | str | None = None, progress: Any = None,
    params: Mapping[str, Any] | None = None, **parameters: Any,
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
        As in ``sweep``: a diagram that was stopped goes on from the points kept next to ``out``.
    """
    began = time.perf_counter()
    assert isinstance(model, Model)
    grid, fixed = grids.grid_of("phase_diagram", model, axes, params, parameters, workers, out)
    if len(grid) > 2 or not all(isinstance(value, float) for axis in grid for value in axis.labels):
        raise UsageError("a phase diagram has one axis or two, of numbers; set the others")
    if not 0 < tolerance < 1:
        raise UsageError(f"tolerance must lie between 0 and 1, got {tolerance:g}")
    if model.is_indexed:
        makers = {name for sources in model.tables.values() for name in sources.arguments}
        makers |= {index.size.name for index in all_indices(model) if not index.size.is_Integer}
        if wrong := [axis.name for axis in grid if axis.name in makers]:
            raise UsageError(
                f"`{wrong[0]}` makes tables, or is the size of an index, of model `{model.name}`: members "
                "are written out once for a phase diagram; take other axes, or solve on a grid (sweep)"
            )
        model, fixed = written_out(model, fixed)
    points = lay_out_points(grid)
    settled, first = grids.same_settings(model, fixed, points, grid)
    rule = LongRun.of(model, {**fixed, **first.settings}, observable, lyapunov, rtol, tolerance)
    options = Options.make(rtol=1e-3 if rtol is None else rtol, budget=budget, t_max=1.0)
    run = _Diagram(model, grid, fixed, options, progress, work=rule.at_point, rule=rule)
    asked = {"rtol": rtol, "tolerance": tolerance, "observable": observable, "lyapunov": lyapunov}
    identity = {} if out is None else grids.identify(run, **asked)
    if out is not None and isinstance(there := grids.finished(out, identity), PhaseDiagram):
        return there
    with contextlib.nullcontext() if out is None else Journal(Path(out), identity) as journal:
        with watching(progress, count="point") as run.progress:
            run.go(points, journal, None, workers)
            run.cells = np.arange(len(points)).reshape([len(axis) for axis in grid])
            run.find_edges()
            run.work = rule.between
            pairs = [SweepPoint(len(points) + k, points[edge[2]].settings) for k, edge in enumerate(run.edges)]
            run.go([*points, *pairs], journal, None, workers)
        run.total, edges = len(points), run.look_beyond()
        seconds = time.perf_counter() - began
        result = grids.package(run, settled, seconds, identity, PhaseDiagram, **edges)
        result.stats["observable"] = observable or ("lyapunov" if rule.exponents else "")
        result.latex.update(latex_names(filter(None, (model, rule.limit))))
        if out is not None:
            result.save(out)
        assert isinstance(result, PhaseDiagram)
        return result


def has_phases(model: Model) -> bool:
    """Whether the long run of a model can be told, without following it in time."""
    with contextlib.suppress(EqsolveError):
        return LongRun.of(model, {}, None, False, None, 1.0).ages is None
    return False


@dataclass(frozen=True)
class LongRun:
    """How the long run is told at a point, and the place where it changes between two."""

    system: Model | None  # that has stationary states
    limit: FixedPoint | None
    states: bool  # whether stationary states are found everywhere
    gaussian: bool  # whether they cost little
    exponents: bool
    ages: Model | None  # that has functions of two times, and is followed in time
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
                gaussian = not plan.why_not_gaussian
                kernels = [head.name for head in getattr(plan.model, "kernels", ())]
                moving = ["lyapunov", *plan.model.observables]
                moving += [form.format(name) for form in ("{}0", "tau_{}") for name in kernels]
        pathless = model.kind == "System" and not model.processes
        pairs = pathless and any(isinstance(head, Correlation) for head in model.kernels)
        if limit is None and why_not and not pairs:
            raise UsageError(f"there is no phase diagram: {reason}; no stationary state: {why_not}")
        if lyapunov and why_not:
            raise UsageError(f"model `{model.name}` has no Lyapunov exponent: {why_not}")
        resting = [*(head.name for head in limit.unknowns), *limit.observables] if limit else []
        wanted = [] if shown is None else [shown]
        demand_known(wanted, resting + moving, f"model `{model.name}` ends in no `{{}}`", "it has")
        states = not why_not and (lyapunov or limit is None or not set(wanted) <= set(resting))
        system, exponents = None if why_not else model, lyapunov or shown == "lyapunov"
        return cls(system, limit, states, gaussian, exponents, model if limit is None and why_not else None, *rest)

    def fixed_point(self, settings: Record, start: Any = None) -> tuple[FixedPointSolution, Unknowns]:
        """Return the fixed point near a start, or searched for, if its numbers are worth it."""
        assert self.limit is not None
        binder = binder_of(self.limit)
        at = binder.read({name: x for name, x in settings.items() if name in self.limit.settable})
        program = binder.plan(at).program(FIXED_POINT)
        solution = solve_problem(program, at, start, scans=int(start is None))
        unknowns = {item.name: solution.values[item.name] for item in self.limit.unknowns}
        for name, x in unknowns.items():
            if (error := solution.errors[name]) > 1e-3 * abs(x) + 1e-12:
                raise SolverError(f"it is not resolved: {name} = {x:.3g} ± {error:.1g}")
        return solution, unknowns

    def stationary(self, settings: Record, options: Options) -> Any:
        assert self.system is not None
        asked: Any = {"rtol": self.rtol, "budget": options.budget, "progress": False}
        return stationary(self.system, params=settings, **asked)

    def at_point(self, _: Model, settings: Record, options: Options, start: Any = None) -> Answer:
        """Return the class of a point."""
        with recorded(**_BEGIN) as record:
            try:
                if self.limit is not None:
                    self._rest(record, *self.fixed_point(settings, start))
            except SolverError as error:
                record["message"] = str(error)
            if self.ages is not None:
                self._age(record, solve_as_asked(self.ages, settings, Options.make(t_max=_LATE, rtol=1e-3)))
            if self.states or (self.gaussian and not record["unknowns"] and start is None):
                self._state(record, self.stationary(settings, options))
        return record, None

    def _rest(self, record: Record, found: FixedPointSolution, unknowns: Unknowns) -> None:
        record |= {"values": dict(found.values), "errors": dict(found.errors), "unknowns": unknowns}
        every = [values.get("stability", np.inf) for values in (found.values, *found.others)]
        if sum(value > 0 for value in every) > 1:
            record["class"] = "several fixed points"
        elif abs(every[0]) <= found.errors.get("stability", 0.0):
            record["message"] = "its stability is zero within its error"
        elif every[0] == np.inf:
            record |= {"class": "fixed point", "message": "its stability is not known"}
        else:
            record["class"] = "still" if every[0] > 0 else "not at rest"

    def _age(self, record: Record, result: Any) -> None:
        """Compare correlations after three waiting times, at lags like these."""
        waits, kinds = _LATE / 5 / np.array([16.0, 4.0, 1.0]), ("still", "fluctuating", "not decided", "aging")
        values = [result.at2([(k * w, j * w) for w in waits]) for k, j in ((5, 4), (2, 1), (1, 1))]
        for name in (head.name for head in getattr(self.ages, "kernels", ()) if isinstance(head, Correlation)):
            late, early, size = (sampled[name].values for sampled in values)
            left = early[1:] / early[:-1]
            record["values"][f"{name}_age"] = float(late[-1] - early[-1])
            record["errors"][f"{name}_age"] = 2e-3 * float(size[-1])
            if abs(late[-1] - early[-1]) < _SAME * size[-1]:
                kind = "still" if abs(early[-1] - size[-1]) < _SAME * size[-1] else "fluctuating"
            else:  # the older the slower; what comes to a stationary state relaxes faster and faster
                kind = "aging" if 0 < left[0] <= left[1] else "not decided"
            if kinds.index(kind) >= kinds.index(record["class"]) or not record["message"]:
                said = f"{name}(tw + {waits[-1]:g}, tw) is {early[-1]:.4g} at tw = {waits[-1]:g} and"
                record |= {"class": kind, "message": f"{said} {late[-1]:.4g} at tw = {4 * waits[-1]:g}"}

    def _state(self, record: Record, state: Any) -> None:
        def put(name: str, value: float, error: float) -> None:
            record["values"][name], record["errors"][name] = value, error

        if state.grid is None:
            record["message"] = "; ".join(filter(None, [record["message"], state.message]))
            record |= {"class": "aging"} if state.status == "aging" else {}
            if self.limit is None and self.gaussian:
                value, error = rest_of(self.system, state.params)
                put("stability", value, error)
                record |= {"class": "not at rest"} if value < -error else {}
            return
        for name in state.names:
            entries = (state.variables[name + end] for end in ("", "_error"))
            put(f"{name}0" if state.variables[name].dims else name, *(float(array.values.flat[0]) for array in entries))
        moves = not state.source.still
        if self.limit is None and self.gaussian and np.isfinite(state.source.stability):
            put("stability", state.source.stability, 1e-9)
        record |= {"class": "fluctuating" if moves else "still", "message": state.message}
        if self.exponents:
            value, error = state.lyapunov()
            put("lyapunov", value, error)
            if moves and value > error:
                record |= {"class": "chaotic", "message": ""}
            elif moves and value > -error:
                record |= {"class": "not decided", "message": "its Lyapunov exponent may be zero"}
        elif moves:
            record["message"] = "whether it is chaotic was not asked for: lyapunov=True"

    def between(
        self, _: Model, settings: Record, options: Options, edge: tuple[str, str], unknowns: Unknowns, other: float
    ) -> Answer:
        """Return where the long run changes between two neighbours, the error, and the kind."""

        def indicator(place: float) -> Any:
            at = {**settings, along: place}
            if kind == "lyapunov":
                return self.stationary(at, options).lyapunov()
            if self.limit is None:
                return rest_of(self.system, at)
            solution, _ = self.fixed_point(at, unknowns)
            return solution.values["stability"], solution.errors["stability"]

        along, kind = edge
        with recorded(**_BEGIN) as record:
            here = float(settings[along])
            width = self.tolerance * abs(other - here)
            if kind == "ends":
                follow = lambda place, start: self.fixed_point({**settings, along: place}, start)[1]  # noqa: E731
                place, error, kind = _end_of(follow, here, unknowns, other, width)
            else:
                place, error = _root(indicator, here, other, width)
            record |= {along: place, "error": error, "along": along, "kind": kind}
        return record, None


@dataclass
class _Diagram(GridRun):
    """The points of a diagram, and after them the neighbours between which it changes."""

    rule: Any = None
    cells: Any = None  # the indices of the points, over the axes
    edges: list[tuple[str, str, int, int]] = field(default_factory=list)  # axis, kind, points

    def arguments(self, point: SweepPoint) -> tuple[Any, ...]:
        """Return what to work with: at a point, or between two."""
        given = self.model, {**self.fixed, **point.settings}, self.options
        if self.cells is None or point.index < self.cells.size:
            return given
        *edge, here, there = self.edges[point.index - self.cells.size]
        other = float(self.points[there].settings[edge[0]])
        return *given, edge, self.records[here]["unknowns"], other

    def find_edges(self) -> None:
        """Try points without a fixed point again from neighbours; list where the class changes."""
        records, neighbours = self.records, []
        for place, axis in enumerate(self.axes):
            lines = np.moveaxis(self.cells, place, -1)
            pairs = np.stack([lines[..., :-1].ravel(), lines[..., 1:].ravel()], axis=1).tolist()
            neighbours += [(axis.name, *pair) for one in pairs for pair in (one, one[::-1])]
        waiting = set(neighbours)
        known = {index for index, record in records.items() if record["unknowns"]}
        while ready := {pair for pair in waiting if pair[1] in known and pair[2] not in known}:
            waiting -= ready
            for _, start, index in sorted(ready):
                if index not in known:
                    given = self.arguments(self.points[index])
                    record, _ = self.work(*given, records[start]["unknowns"])
                    if record["unknowns"]:
                        records[index] = record
                        known.add(index)
        for along, here, there in neighbours:
            ranks = [(not records[k]["unknowns"], k) for k in (here, there)]
            if ranks[0] < ranks[1] and (kind := _kind(records[here], records[there])):
                self.edges.append((along, kind, here, there))

    def look_beyond(self) -> dict[str, Any]:
        """Return boundaries by columns; points are unbounded where all ways to them grow."""
        from scipy.ndimage import label

        records = [self.records[index] for index in range(self.cells.size)]
        undecided = np.array([not record["unknowns"] and record["class"] == "not decided" for record in records])
        regions = label(undecided.reshape(self.cells.shape))[0].ravel()
        ways: dict[int, dict[str, str]] = {}
        rows: list[Record] = []
        for index, (along, kind, here, there) in enumerate(self.edges, self.cells.size):
            if "along" in (edge := self.records[index]):
                rows.append({**self.points[here].settings, **edge})
                if kind == "ends" and (region := max(regions[[here, there]])):
                    ways.setdefault(region, {})[edge["kind"]] = f"{along} = {edge[along]:.6g}"
        for record, region in zip(records, regions, strict=True):
            if not (ends := ways.get(region)):
                continue
            how, where = min(ends.items(), key=lambda end: end[0] == "grows")
            if how == "grows":  # nothing else bounds the region
                record |= {"class": "unbounded", "message": f"the fixed point grows without bound, as at {where}"}
            else:
                record["message"] = f"the fixed point {how} at {where}; {record['message']}"
        kinds: dict[str, Any] = {**{axis.name: float for axis in self.axes}, "error": float, "along": object, "kind": object}
        return {BOUNDARY + key: ("boundary", np.array([row[key] for row in rows], kind)) for key, kind in kinds.items()}


def _kind(one: Record, other: Record) -> str:
    """Return which boundary lies between two neighbours; none where nothing changes."""
    products = {key: one["values"].get(key, np.nan) * other["values"].get(key, np.nan) for key in ("stability", "lyapunov")}
    if products["stability"] <= 0:
        return "stability"
    if bool(one["unknowns"]) != bool(other["unknowns"]):
        return "ends"
    moving = np.isnan([*products.values()]).all() and {"still", "fluctuating"} == {one["class"], other["class"]}
    return "lyapunov" if products["lyapunov"] <= 0 or moving else ""


def _root(function: Any, one: float, other: float, width: float) -> tuple[float, float]:
    """Return the root of what changes sign, or the middle of its bracket, and the error."""
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


def _end_of(
    solve: Callable[..., Unknowns], here: float, values: Unknowns, outside: float, width: float
) -> tuple[float, float, str]:
    """Follow a fixed point to where there is none; return the place, its error, and how it ends.

    The secant rule: what vanishes there, or the reciprocal of what grows, is extrapolated by a straight line to zero. Until
    something does, the interval between the last fixed point and the nearest failure is halved.
    """
    first, last, earlier, failed = values, here, values, outside
    for _ in range(60):  # halves of the interval, and a few searches
        sizes = [(abs(earlier[name]), abs(x)) for name, x in values.items() if x and earlier[name]]
        sizes += [(1 / old, 1 / now) for old, now in sizes]
        ends = [here + (here - last) * now / (old - now) for old, now in sizes if now < old]
        forward = [place for place in ends if (place - here) * (outside - place) > 0]
        zeros = sorted((abs(place - here), place) for place in forward)
        inside = [place for far, place in zeros if far < abs(failed - here)]
        guess = inside[-1] if inside else None
        ratios = [abs(values[name] / x) for name, x in first.items() if x]
        how = "grows" if max(ratios) > 100 else "vanishes" if min(ratios) < 0.01 else "ends"
        narrow = abs(failed - here) <= width
        trial, start = (failed if narrow else (here + failed) / 2), values
        if guess is not None and 4 * abs(guess - here) <= width:  # or a power up to the fifth
            break
        if guess is not None and not narrow:  # as powers of the distance to the guess
            trial = here + 0.9 * (guess - here)
            power = np.log(0.1) / np.log((guess - here) / (guess - last))
            grown = {name: x / earlier[name] for name, x in values.items() if x * earlier[name] > 0}
            start = {name: x * grown.get(name, 1.0) ** power for name, x in values.items()}
        try:
            there = solve(trial, None if narrow else start)
        except SolverError:
            failed = trial
            if narrow or (how != "ends" and zeros and abs(failed - here) < 0.1 * zeros[-1][0]):
                guess = None  # there is none, or it cannot be followed though it goes on
                break
            continue
        if trial == outside:
            raise SolverError("there is a fixed point at both ends")
        last, earlier, here, values = here, values, trial, there
        failed = outside if narrow else failed  # the search has found more
    else:
        raise SolverError(f"it cannot be followed beyond {here:.6g}")
    if guess is None and how != "ends" and zeros:  # where it could not be followed to
        return zeros[-1][1], zeros[-1][0], how
    place = (here + failed) / 2 if guess is None else guess
    return place, abs(place - here) * (1 if guess is None else 4), how
