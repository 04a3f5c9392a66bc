"""One integration of all paths in time, by DOP853 or Radau IIA, with steps shorter than another integration's.

References: Hairer, Nørsett & Wanner, Solving Ordinary Differential Equations I, II.5 (DOP853, order 8); Hairer & Wanner,
Solving Ordinary Differential Equations II, IV.8 (Radau IIA, order 5). Both are scipy's.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.compile.families import over_points
from eqsolve.compile.lowering import at
from eqsolve.compile.ode import OdeProgram
from eqsolve.errors import SolverError, UsageError, logger
from eqsolve.numerics.arrays import ROUNDING, Array, integrator, member_name, member_names
from eqsolve.numerics.backend import memory
from eqsolve.numerics.constants import ConstantPaths, Parts, find_parts, make_paths, sample_paths
from eqsolve.numerics.grids import PanelGrid, lagrange, over_panels, radau
from eqsolve.numerics.laws import NumericLaw, joint_groups
from eqsolve.numerics.secants import solve_krylov
from eqsolve.numerics.sobol import DIMENSIONS
from eqsolve.solvers.marching import RATIO, Pace, longest_step
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import FLOOR, excess

# --- Coefficients that are singular at the start, such as 3/t, 1/√t or log t: the solution that is
# finite there.
#
# On a first panel it is a polynomial that satisfies the equation at Radau nodes: none is the
# start, and where a coefficient is k/t it is the solution that is finite there (de Hoog & Weiss,
# SIAM J. Math. Anal. 16, 775 (1985), doi:10.1137/0516058). Where that is not smooth, as √t, the
# panel is so short that this does not count, and the integrator's steps grow from there.
NODES = 8  # per panel
_RULE = radau(NODES)


class StoppedError(SolverError):
    """A path cannot be continued; ``time`` is where."""

    def __init__(self, message: str, time: float) -> None:
        super().__init__(message)
        self.time = time


@dataclass(frozen=True, eq=False)
class StartPanel:
    """A first panel: its ends, values at the start and at its nodes; of one node, the start alone."""

    begin: float
    end: float
    start: Array
    values: Array

    def __call__(self, places: Array) -> Array:
        weights = lagrange(_RULE.with_start, (np.atleast_1d(places) - self.begin) / (self.end - self.begin))
        values = np.vstack([self.start, self.values]).T @ weights.T
        return values if np.ndim(places) else values[:, 0]


def _refuse(slope: Any, why: str) -> StoppedError:
    said = f"at the start, t = {slope.begin:.6g}, coefficients of the {slope.labels} are singular, and {why}"
    return StoppedError(said, slope.begin)


def start_panel(slope: Any, start: Array, length: float) -> StartPanel:
    """Return the first panel; raise where no finite solution starts there, or more than one."""
    long, short = (_collocate(slope, start, part * length) for part in (1.0, 0.5))
    if long is None or short is None or _is_free(slope, start, length):
        raise _refuse(slope, "the start determines no solution, or more than one")
    moved = [float(np.abs(panel.values - start).max()) for panel in (long, short)]
    if moved[1] > 0.97 * moved[0] and moved[1] > 1e-9 * float(np.abs(start).max()):
        raise _refuse(slope, "no finite solution starts from the values given")
    return long


def start_length(slope: Any, start: Array, span: float) -> float:
    """Return the length of a first panel: one on which the solution is a polynomial, if there is one."""
    for length in (share * span for share in (0.03, 1e-2, 1e-3, 1e-4, 1e-6)):
        long, short = (_collocate(slope, start, part * length) for part in (1.0, 0.5))
        if long is not None and short is not None:
            gap = np.abs(long(slope.begin + length / 2 * _RULE.nodes).T - short.values)
            if float(np.max(gap / (np.abs(start) + np.abs(short.values).max(axis=0) + 1e-300))) < 1e-12:
                return length
    if slope.begin != 0:
        raise _refuse(slope, "the solution is not smooth there; count the time from the start")
    return 1e-30 * span  # so short that even t^(1/3) contributes nothing


def _is_free(slope: Any, start: Array, length: float) -> bool:
    """Whether t ∂y'/∂y has a limit with a positive eigenvalue: solutions apart by that power of t start together."""
    matrices = []
    steps = np.diag(1e-7 * (np.abs(start) + 1e-3 * (float(np.abs(start).max()) or 1.0)))[: 64 if len(start) <= 64 else 0]
    early = 1e-6 * length if length > 1e-9 else length  # so early that what is not singular counts for nothing
    for t in (early, early / 2):
        here = slope(slope.begin + t, start)
        matrices.append(t * np.array([(slope(slope.begin + t, start + row) - here) / row.max() for row in steps]).T)
    first, second = (float(np.abs(matrix).max(initial=0.0)) for matrix in matrices)
    limited = len(steps) > 0 and np.isfinite(first + second) and second <= 1.5 * first
    return bool(limited and np.linalg.eigvals(matrices[1]).real.max() > 1e-2)


def _collocate(slope: Any, start: Array, length: float) -> StartPanel | None:
    """Return the collocation polynomial of a panel by Newton's method; None where its linear equations are singular."""
    begin, values = slope.begin, np.tile(start, (len(_RULE.nodes), 1))
    scale = np.maximum(np.abs(start), 1e-3 * float(np.abs(start).max()) or 1.0)

    def residual(moves: Array) -> Array:
        table = values + moves.reshape(values.shape) * scale
        rates = np.array([slope(begin + length * c, row) for c, row in zip(_RULE.nodes, table, strict=True)])
        return np.asarray(((table - start - length * _RULE.integrals @ rates) / scale).ravel())

    for _ in range(20):
        miss = residual(np.zeros(values.size))
        slopes = functools.partial(lambda miss, move: (residual(1e-7 * move) - miss) / 1e-7, miss)
        if values.size <= 256:
            matrix = np.array([slopes(unit) for unit in np.eye(values.size)]).T
            if not np.isfinite(matrix).all() or np.linalg.cond(matrix) > 1e13:
                return None
            step = np.linalg.solve(matrix, -miss)
        else:
            step = solve_krylov(slopes, -miss, np.ones(values.size), most=80, tolerance=1e-8)
        values = values + step.reshape(values.shape) * scale
        if not np.isfinite(values).all():
            return None
        if float(np.abs(step).max()) <= 1e-13 * max(1.0, float(np.abs(values / scale).max())):
            break
    return StartPanel(begin, begin + length, start, values)


# --- Derivatives, initial values and observables of all paths at once. Several quadrature rules of
# different orders stand side by side, so that one integration shows how well they agree.
@dataclass(frozen=True, eq=False)
class OdeSystem:
    """A program with its numbers: the laws of its constants, and which of these meet."""

    program: OdeProgram
    laws: Mapping[str, NumericLaw]
    parts: Parts

    @property
    def begin(self) -> float:
        """The first time."""
        return float(self.program.begin()[0])

    @functools.cached_property
    def width(self) -> int:
        """How many states there are, members of families counted."""
        return sum(math.prod(equation.shape) for equation in self.program.states)

    @functools.cached_property
    def rows(self) -> list[tuple[slice, tuple[int, ...]]]:
        """Where the members of every state are among all states, and the shape of its family."""
        ends = itertools.accumulate((math.prod(equation.shape) for equation in self.program.states), initial=0)
        return [(slice(*pair), item.shape) for pair, item in zip(itertools.pairwise(ends), self.program.states, strict=True)]

    def initial(self, paths: ConstantPaths) -> Array:
        """Return the states at the start, one after the other, each on all paths."""
        given = self.program.starts([np.zeros((1, 1)), *self.constants(paths)])
        return self._stacked(given, (paths.count, 1)).ravel()

    @functools.cached_property
    def constants(self) -> Callable[[ConstantPaths], list[Array]]:
        """Return what gives the random constants on paths, which are asked for again and again."""
        return functools.lru_cache(maxsize=4)(self._constants)

    def _constants(self, paths: ConstantPaths) -> list[Array]:
        """Return the random constants on all paths; of families whose members take the same nodes without copies."""
        constants = []
        for constant in self.program.constants:
            nodes = np.stack([paths.values[name] for name in constant.coordinates])[..., None]
            shape = (*constant.shape, *nodes.shape[1:])
            constants.append(nodes.reshape(shape) if constant.meet else np.broadcast_to(nodes[0], shape))
        return constants

    def _stacked(self, values: Sequence[Any], points: tuple[int, int]) -> Array:
        """Return what belongs to the states, members one after the other, on paths and at moments."""
        whole = np.empty((self.width, *points))
        for (rows, shape), value in zip(self.rows, values, strict=True):
            whole[rows].reshape(*shape, *points)[...] = over_points(value, shape, points) if shape else value
        return whole

    def slope(self, moment: float, state: Array, paths: ConstantPaths) -> Array:
        """Return the derivative of one state, or of several in columns."""
        table = state if state.ndim == 2 else state[:, None]
        moments = np.full(table.shape[1], moment)
        values = self._evaluate(moments, table, paths, self.program.needed)
        slopes = self._stacked(self.program.derivatives(values), (paths.count, table.shape[1]))
        return slopes.reshape(state.shape)

    @functools.cached_property
    def processes(self) -> tuple[str, ...]:
        """The unknowns with a value on every path, members one by one."""
        unknowns = (*self.program.states, *self.program.definitions)
        return tuple(name for item in unknowns if item.process for name in item.members)

    def constants_behind(self) -> dict[str, tuple[str, tuple[tuple[str, str], ...]]]:
        """Return by member of a process its process and its constants: name, coordinate in the rule.

        These are all constants of its part; of families whose members share a coordinate, its own.
        """
        known = {item.key: item for item in self.program.constants}
        made = {}
        for equation in (*self.program.states, *self.program.definitions):
            together = self.parts.constants[self.parts.of((equation.key,))]
            alike = {name: axes for name, axes in equation.constants if axes is not None and known[name].shape}
            rest = [name for name in together if name not in known or not known[name].shape or known[name].meet]
            for name, place in zip(equation.members, np.ndindex(*equation.shape), strict=True):
                own = [(member_name(it, (place[axis] for axis in axes)), it) for it, axes in alike.items()]
                if equation.process:
                    made[name] = equation.key, tuple(sorted([*zip(rest, rest, strict=True), *own]))
        return made

    def curves(self, moments: Array, table: Array, paths: ConstantPaths) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the functions of time, per rule, and the paths of the processes under the best rule."""
        values, points = self._evaluate(moments, table, paths, self.program.reported), (paths.count, len(moments))
        functions: dict[str, Array] = {}
        on_paths: dict[str, Array] = {}
        for equation in (*self.program.states, *self.program.definitions):
            rows = over_points(values[equation.place], equation.shape, points).reshape(-1, *points)
            best = paths.best[self.parts.of((equation.key,))]
            for name, row in zip(equation.members, rows, strict=True):
                (on_paths if equation.process else functions)[name] = row[best] if equation.process else paths.per_rule(row)
        for (name, shape), value in zip(self.program.seen, self.program.outputs(values), strict=True):
            rows = over_points(value, shape, points).reshape(-1, *points)
            functions |= zip(member_names(name, shape), map(paths.per_rule, rows), strict=True)
        return functions, on_paths

    def scales(self, moments: Array, table: Array, paths: ConstantPaths) -> dict[str, float]:
        """Return, per function of time, the largest size of what was averaged and added up to give it.

        A state's is the most that is added to it from one of the moments, the ends of the steps, to the next.
        """
        program, points = self.program, (paths.count, len(moments))
        values = self._evaluate(moments, table, paths, len(program.steps))
        functions = [equation for equation in program.states if not equation.process]
        defined = [equation for equation in program.definitions if not equation.process]
        best = paths.best[0].start

        def at_best(value: Any, shape: tuple[int, ...]) -> Array:
            return over_points(value, shape, points)[..., best, :]

        own = [at_best(np.abs(values[equation.place]), equation.shape) for equation in functions]
        sizes = []
        rates = program.rates([*values, *(it[..., None, :] for it in own)])
        for equation, value, each in zip(functions, own, rates, strict=True):
            rate = at_best(each, equation.shape)
            rate = np.where(np.isfinite(rate), rate, 0.0)
            sizes.append(np.maximum(value, np.max(np.diff(moments) * rate[..., :-1], axis=-1, keepdims=True)))
        shapes = [(equation.key, equation.shape) for equation in (*functions, *defined)] + [*program.seen]
        for (_, shape), size in zip(shapes[len(functions) :], program.sizes, strict=True):
            sizes.append(at_best(size([*values, *(it[..., None, :] for it in sizes)])[0], shape))
        largest: dict[str, float] = {}
        for (name, shape), size in zip(shapes, sizes, strict=True):
            largest |= zip(member_names(name, shape), size.reshape(-1, len(moments)).max(axis=1).tolist(), strict=True)
        return largest

    def contributions(self, moments: Array, table: Array, paths: ConstantPaths) -> list[Array]:
        """Return, per part, the largest share that each path of the best rule has in what any mean adds up."""
        averaged: list[tuple[int, Array]] = []
        self._evaluate(moments, table, paths, self.program.reported, averaged)
        shares = [np.zeros(best.stop - best.start) for best in paths.best]
        for part, value in averaged:
            best = paths.best[part]
            for row in value.reshape(-1, *value.shape[-2:]):
                terms = paths.weights[best, None] * np.abs(np.broadcast_to(row, (paths.count, len(moments)))[best])
                sums = terms.sum(axis=0)
                shares[part] = np.maximum(shares[part], np.max(terms / np.where(sums > 0, sums, 1.0), axis=1))
        return shares

    def _evaluate(
        self, moments: Array, table: Array, paths: ConstantPaths, steps: int, averaged: list[tuple[int, Array]] | None = None
    ) -> list[Array]:
        """Return all quantities at several moments; ``table`` holds the states, one column per moment.

        What is ``averaged`` is collected there, with its part.
        """
        values: list[Array] = [moments[None, :], *self.constants(paths)]
        states = table.reshape(self.width, paths.count, -1)
        values += [states[rows].reshape(*shape, *states.shape[1:]) for rows, shape in self.rows]
        for step in self.program.steps[:steps]:
            results = [np.asarray(function(values)[0], dtype=float) for function in step.functions]
            if step.averaged:
                part, points = self.parts.of(step.members), (paths.count, len(moments))
                factors = [over_points(value, shape, points) for value, shape in zip(results, step.shapes, strict=True)]
                if averaged is not None:
                    averaged.append((part, functools.reduce(_outer, factors)))
                one = len(factors) == 1
                values.append(paths.mean(factors[0], part) if one else paths.mean_of_products(factors[0], factors[1], part))
                continue
            (value,), indices = results, len(step.shapes[0])
            ones = (1,) * max(indices + 2 - value.ndim, 0)
            values.append(value.reshape(*value.shape[:indices], *ones, *value.shape[indices:]))
        return values


def _outer(first: Array, second: Array) -> Array:
    """Return the products of the members of two families, on the same points."""
    one = first.reshape(*first.shape[:-2], *(1,) * (second.ndim - 2), *first.shape[-2:])
    return one * second


def bind_system(program: OdeProgram, numbers: Mapping[str, float], laws: Mapping[str, NumericLaw]) -> OdeSystem:
    """Return a program with numbers of its parameters and laws of its random constants."""
    drawn = {name: law.at(numbers, laws) for name, law in program.laws}
    known = {**laws, **drawn}
    used = {name: known[item.name] for item in program.constants for name in item.coordinates}
    parts = find_parts(program.meetings, used)
    if _largest(used, parts) > _MOST_PRODUCT:  # constants are sampled together
        names = (*used, *itertools.chain.from_iterable(program.meetings))
        parts = Parts((tuple(used),), dict.fromkeys(names, 0))
    return OdeSystem(at(program, numbers), used, parts)


def _largest(laws: Mapping[str, NumericLaw], parts: Parts) -> float:
    """Return how many paths the smallest rules that can be compared have in the largest part."""
    first = [members[0] for members in joint_groups(laws)]
    counts = {name: float(len(laws[name].rule(_ORDERS[_BELOW])[0])) for name in first}
    return max(math.prod(counts.get(name, 1.0) for name in part) for part in parts.constants)


_STIFF = 1.0  # step times the fastest decay rate beyond which that decay, not accuracy, holds the steps down
_PATIENCE = 10_000  # calls until pace and stiffness are examined
_KEPT = 1500, 60  # bytes kept of a step, and of a state in it


class _StiffError(Exception):
    """Stability makes the explicit method's steps too short."""


@dataclass(frozen=True, eq=False)
class OdeRun:
    """One integration: the ends of its steps, the states at any times (one column each), and how it was made."""

    paths: ConstantPaths
    ends: Array
    states: Callable[[Array], Array]
    method: str
    calls: int

    def curves(self, system: OdeSystem, moments: Array) -> dict[str, Array]:
        """Return the functions of time, per rule, and the paths under the best one."""
        pieces = [system.curves(part, self.states(part), self.paths) for part in self._pieces(system, moments)]
        both = [single | each for single, each in pieces]
        return {name: np.concatenate([part[name] for part in both], axis=-1) for name in both[0]}

    def best(self, system: OdeSystem, moments: Array) -> dict[str, Array]:
        """Return functions of time and paths under the best rule."""
        curves = self.curves(system, moments)
        return {name: values if name in system.processes else values[-1] for name, values in curves.items()}

    def scales(self, system: OdeSystem) -> dict[str, float]:
        """Return the largest sizes of what was averaged and added up to give functions of time."""
        pieces = self._pieces(system, self.ends, overlap=1)
        scales = [system.scales(part, self.states(part), self.paths) for part in pieces]
        return {name: max(one[name] for one in scales) for name in scales[0]}

    def _pieces(self, system: OdeSystem, moments: Array, overlap: int = 0) -> list[Array]:
        """Cut moments into pieces at which all quantities of all paths can be held at once."""
        shapes = [shape for quantity in system.program.steps for shape in quantity.shapes]
        numbers = self.paths.count * (system.width + sum(map(math.prod, shapes)))
        step = max(2, int(memory() / 800 / numbers))
        begins = range(0, max(len(moments) - overlap, 1), step)
        return [moments[k : k + step + overlap] for k in begins]


class Integrator:
    """Integrates one system over one span of time; remembers that it is stiff once it has turned out to be."""

    def __init__(self, system: OdeSystem, options: Options) -> None:
        self.system, self.begin, self.options = system, system.begin, options
        self.method = "Radau" if system.program.jumps else "DOP853"
        self.runs = 0  # that are done
        self.length = 0.0  # of a first panel, where coefficients are singular at the start

    def run(
        self, paths: ConstantPaths, tolerance: float, finer_than: OdeRun | None = None, by: float = 0.8, nudge: float = 0.0
    ) -> OdeRun:
        """Integrate once, with steps at most ``by`` times another run's; raise StoppedError where a path ends.

        In discrete time steps are given, and all states are multiplied by numbers within ``nudge`` of one.
        """
        with np.errstate(all="ignore"):
            try:
                run = self._iterate(paths, nudge) if self.options.step else self._march(paths, tolerance, finer_than, by)
            except _StiffError:
                logger.info("the system is stiff: the implicit method Radau IIA instead of DOP853")
                self.method = "Radau"
                run = self._march(paths, tolerance, finer_than, by)
        self.runs += 1
        return run

    def _march(self, paths: ConstantPaths, tolerance: float, finer_than: OdeRun | None, by: float) -> OdeRun:
        first_panel = self._begin(paths, finer_than, by)
        slope = _Slope(self.system, paths, raises=self.method == "Radau")
        first, start, end = first_panel.end, first_panel.values[-1], self.options.t_max
        atol = 1e-3 * tolerance * np.maximum(_sizes(slope, first, start, end, paths.count), np.abs(first_panel.start))
        solver = integrator(self.method)(slope, first, start, end, rtol=tolerance, atol=atol, **self._structure(paths))
        ends, pieces = ([self.begin, first], [first_panel]) if self.length else ([first], [])
        next_look, near = _PATIENCE, 16 * ROUNDING * max(abs(self.begin), abs(end))
        pace = Pace(self.begin, end, _PATIENCE)
        most = min(5_000_000, 0.5 * memory() / (_KEPT[0] + _KEPT[1] * len(start)))
        while solver.status == "running":
            stop = next((moment for moment in self.options.breaks if moment > solver.t + near), np.inf)
            limit = stop - solver.t
            if finer_than is not None:
                limit = min(limit, longest_step(finer_than.ends, by, solver.t))
            solver.max_step = max(limit, 100 * np.spacing(solver.t))
            try:
                reason = solver.step()
            except ValueError as error:  # scipy's linear algebra on numbers that overflowed
                raise slope.stopped(solver.t, str(error)) from None
            if solver.status == "failed":
                raise slope.stopped(solver.t, reason)
            ends.append(solver.t)
            pieces.append(solver.dense_output())
            if solver.t >= stop - near:  # the next step begins with the slope behind the break
                solver.f = slope(solver.t + 2 * near, solver.y)
            done = self.runs + (solver.t - self.begin) / (end - self.begin)
            self.options.report_share(done / (done + 1), f"{paths.count} paths, t = {solver.t:.4g}")
            self.options.demand_time(f"at t = {solver.t:.4g} of the first solution")
            if little := pace.stalled(solver.t, slope.calls):
                raise slope.stopped(solver.t, f"the last {_PATIENCE} evaluations {little}")
            if len(pieces) > most:
                raise slope.stopped(solver.t, f"{len(pieces)} steps were needed to get there, more are not kept")
            if self.method == "DOP853" and finer_than is None and slope.calls > next_look:
                if solver.step_size * slope.fastest_decay(solver.t, solver.y) > _STIFF:
                    raise _StiffError
                next_look *= 2
        return OdeRun(paths, np.array(ends), integrator("OdeSolution")(ends, pieces), self.method, slope.calls)

    def _iterate(self, paths: ConstantPaths, nudge: float) -> OdeRun:
        step, slope = self.options.step or 1.0, _Slope(self.system, paths, raises=True)
        ends = self.begin + step * np.arange(round((self.options.t_max - self.begin) / step) + 1)
        states = [self.system.initial(paths)]
        factors = 1 + nudge * np.cos(np.arange(len(states[0])))
        for count, moment in enumerate(ends[:-1]):
            states.append((states[-1] + step * slope(float(moment), states[-1])) * factors)
            if not np.isfinite(states[-1]).all():
                raise slope.stopped(float(moment), "the map diverges")
            done = self.runs + count / len(ends)
            self.options.report_share(done / (done + 1), f"step {count}")
        table = np.array(states).T
        return OdeRun(paths, ends, lambda t: table[:, np.searchsorted(ends, t + step / 4) - 1], "steps", slope.calls)

    def _begin(self, paths: ConstantPaths, finer_than: OdeRun | None, by: float) -> StartPanel:
        """Return the start; where coefficients are singular there, a first panel, ``by`` times as long as another run's."""
        start, slope = self.system.initial(paths), _Slope(self.system, paths, raises=False)
        if not self.length:
            if np.isfinite(slope(self.begin, start)).all():
                return StartPanel(self.begin, self.begin, start, start[None])
            self.length = start_length(slope, start, self.options.t_max - self.begin)
            logger.info("coefficients are singular at the start: a first panel of collocation, up to %.3g", self.length)
        return start_panel(slope, start, self.length if finer_than is None else by * (finer_than.ends[1] - self.begin))

    def _structure(self, paths: ConstantPaths) -> dict[str, Any]:
        """Tell the implicit method how to differentiate: paths that share no mean do not see each other."""
        if self.method == "DOP853":
            return {}
        if self.system.program.coupled or paths.count < 20:
            return {"vectorized": True}
        from scipy.sparse import eye, kron

        kinds = self.system.width
        return {"vectorized": True, "jac_sparsity": kron(np.ones((kinds, kinds)), eye(paths.count), format="csc")}


def _sizes(slope: _Slope, begin: float, start: Array, end: float, count: int) -> Array:
    """Return the natural size of every state: its start, or how far its first slope carries it.

    Growth from a tiny start must be followed in relative terms: its errors grow with it. A path
    that does not move at first takes the size of the others.
    """
    first = slope(begin, start)
    if not np.isfinite(first).all():
        raise slope.stopped(begin, "")
    ahead = 1e-6 * (end - begin)
    bend = np.abs(slope(begin + ahead, start + ahead * first) - first) / ahead
    first = np.where(np.abs(first) < ROUNDING * bend * (end - begin), 0.0, first)  # a mean that vanishes, but for rounding
    reach = np.abs(first) * (end - begin)
    reach = np.minimum(reach, np.divide(first**2, bend, out=reach.copy(), where=np.isfinite(bend) & (bend > 0)))
    sizes = np.maximum(np.abs(start), reach)
    for row in sizes.reshape(-1, count):
        row[row == 0] = row.max()
    sizes[sizes == 0] = sizes.max() or 1.0
    return np.maximum(sizes, 1e-200)  # times a tolerance still in the range of numbers


class _Slope:
    """The right-hand side on given paths, counting its calls and remembering where it was not finite."""

    def __init__(self, system: OdeSystem, paths: ConstantPaths, raises: bool) -> None:
        self.system, self.paths, self.raises, self.begin = system, paths, raises, system.begin
        self.labels = ", ".join(equation.label for equation in system.program.states)
        self.calls = 0
        self.trouble: tuple[float, str] | None = None

    def __call__(self, moment: float, state: Array) -> Array:
        self.calls += 1
        slope = self.system.slope(moment, state, self.paths)
        if not np.isfinite(slope).all() and np.isfinite(state).all():
            self.trouble = (moment, self._describe(moment, slope))
            if self.raises:
                raise StoppedError(self.trouble[1], moment)
        return slope

    def _describe(self, moment: float, slope: Array) -> str:
        bad = ~np.isfinite(slope.reshape(len(slope), -1))
        row = int(np.argmax(bad.any(axis=1)))
        owners = [equation for equation in self.system.program.states for _ in equation.members]
        equation = owners[row // self.paths.count]
        value = slope.reshape(len(slope), -1)[row][bad[row]][0]
        return (
            f"the {equation.label} gives {value} at t = {moment:.6g}; "
            f"a function in it{equation.doubtful} is not defined there, or the solution blows up"
        )

    def stopped(self, moment: float, reason: str | None) -> StoppedError:
        """Return the error that says why no path goes on from a moment."""
        if self.trouble is not None and abs(self.trouble[0] - moment) <= 1e-6 * max(abs(moment), 1e-300):
            return StoppedError(self.trouble[1], moment)
        return StoppedError(
            f"the solution of the {self.labels} cannot be continued past t = {moment:.6g} "
            f"({(reason or '').rstrip('.').lower()}); it may blow up, or meet a pole or a jump; end before it",
            moment,
        )

    def fastest_decay(self, moment: float, state: Array) -> float:
        """Estimate the fastest rate of decay of the linearised system by a power iteration; 0 if it oscillates."""
        here = self(moment, state)
        largest = float(np.abs(here).max())
        begin = here / largest if 0 < largest < np.inf else np.zeros_like(here)  # (all of it may have decayed to nothing)
        direction = begin + 1e-3 * np.cos(np.arange(len(here)))
        probe = 1e-7 * max(float(np.abs(state).max()), 1e-6)
        decay = 0.0
        for _ in range(15):
            length = float(np.abs(direction).max())
            if length == 0.0 or not np.isfinite(length):
                break
            direction = direction / length
            image = (self(moment, state + probe * direction) - here) / probe
            size = float(direction @ direction)
            decay = -float(image @ direction) / size
            rate = float(np.linalg.norm(image)) / np.sqrt(size)
            decay = decay if decay > 0.5 * rate else 0.0
            direction = image
        return decay


# --- Gauss rules of the random constants, chosen law by law until the expectations meet the tolerance.
#
# The orders of a law's rules grow by about 2^(1/4). Of every law with a density the four rules
# below the best one are integrated too, and its error is extrapolated. Nodes so far out that they
# add nothing to any mean are left out: of two Gaussians' these are most.

# even ones only: whether a rule has a node in the middle must not change along the sequence
_ORDERS = tuple(2 * round(5 * 2 ** (k / 4)) for k in range(43))  # 10, 12, 14, 16, 20, ..., 14480
_BELOW = 4
_SHARE = 0.6  # of the tolerance, for all quadrature errors together
TAILS = FLOOR / RATIO  # of the tolerance, for the nodes left out
_MOST_PRODUCT = _ORDERS[_BELOW] ** 3.5  # paths: products of three densities, not of four
_SETS = 2 * _BELOW  # independent sets of points where constants are sampled
_FEWEST = 16 * _SETS  # points of one of them, to begin with


@dataclass(frozen=True)
class Levels:
    """The place of each law's best rule in the list of orders, and per part the least weight, in units of the largest."""

    system: OdeSystem
    levels: Mapping[str, int]
    least: tuple[float, ...]

    @classmethod
    def first(cls, system: OdeSystem, seed: int = 0) -> Levels | Draws:
        """Return the smallest rules that can be compared."""
        if _largest(system.laws, system.parts) > _MOST_PRODUCT and len(system.laws) <= DIMENSIONS:
            return Draws(system, _FEWEST, seed)
        levels = {item: _BELOW for item, law in system.laws.items() if law.has_density}
        return cls(system, levels, (0.0,) * len(system.parts.constants))

    def paths(self, *, below: bool) -> ConstantPaths:
        """Return the paths of the best rules, behind those of each law ``below`` its best one."""
        best = {item: _ORDERS[level] for item, level in self.levels.items()}
        steps = range(_BELOW if below else 0, 0, -1)
        rules = [{**best, item: _ORDERS[level - back]} for item, level in self.levels.items() for back in steps]
        return make_paths(self.system.laws, [*rules, best], self.system.parts.constants, self.least)

    def grown(self, run: OdeRun, grid: PanelGrid, options: Options) -> Levels:
        """Return larger rules for laws whose quadrature error is too large; the same if there are none."""
        system = self.system
        estimates = [functools.partial(_law_error, place=place) for place in range(len(self.levels))]
        worst = dict(zip(self.levels, _excesses(system, run, grid, options, estimates), strict=True))
        for item, level in self.levels.items():
            logger.info("mean over `%s`: %d values; compared with fewer the error is %.2g times the tolerance",
                        item, _ORDERS[level], worst[item])  # fmt: skip
        if sum(worst.values()) <= _SHARE:
            return self
        larger = dict(self.levels)
        for item, level in self.levels.items():
            if worst[item] > _SHARE / len(worst):
                larger[item] = self._next(item, level, 2 if worst[item] < 100 else 4)
        if larger == self.levels:
            return self
        shares = system.contributions(run.ends, run.states(run.ends), run.paths)
        weights = [run.paths.weights[best] for best in run.paths.best]
        rules = Levels(
            system, larger, tuple(_least(*pair, TAILS * options.rtol) for pair in zip(weights, shares, strict=True))
        )
        try:
            rules.paths(below=True)
        except UsageError:
            return self  # too many paths: the error estimate tells what the present rules reach
        return rules

    def error(self, values: Array) -> Array:
        """Return the error of ``values`` of the best rules, given per rule and time."""
        errors = [_law_error(values, place) for place in range(len(self.levels))]
        return np.sum(errors, axis=0) + np.zeros(values.shape[1])

    def _next(self, item: str, level: int, steps: int) -> int:
        """Return the level some steps further, as long as the law has other rules."""
        law = self.system.laws[item]
        for _ in range(steps):
            if level + 1 == len(_ORDERS) or len(law.rule(_ORDERS[level + 1])[0]) == len(law.rule(_ORDERS[level])[0]):
                break
            level += 1
        return level


@dataclass(frozen=True)
class Draws:
    """Scrambled Sobol points in place of products of rules, which would be too many.

    Independent scramblings, each with its own expectations, tell the error of all together.
    """

    system: OdeSystem
    count: int  # points of one scrambling
    seed: int
    least: tuple[float, ...] = ()  # no points are left out

    def paths(self, *, below: bool) -> ConstantPaths:
        """Return the paths of all scramblings together, or of each by itself."""
        return sample_paths(self.system.laws, self.count, _SETS, self.seed, apart=below)

    def grown(self, run: OdeRun, grid: PanelGrid, options: Options) -> Draws:
        """Return more points where their error is too large and memory has room for them."""
        system = self.system
        (worst,) = _excesses(system, run, grid, options, [self.error])
        logger.info(
            "means over %d constants: %d points; by %d sets of them the error is %.2g times the tolerance",
            len(system.laws), _SETS * self.count, _SETS, worst,
        )  # fmt: skip
        if worst <= _SHARE:
            return self
        larger = self.count * 2 ** min(3, math.ceil(math.log2(worst / _SHARE)))
        numbers = _SETS * larger * system.width * len(run.ends)
        kept = 4 * _KEPT[1] * numbers  # by two runs, of up to twice as many steps
        return self if kept > memory() / 2 else replace(self, count=larger)

    def error(self, values: Array) -> Array:
        """Return two standard errors of what all scramblings together give."""
        return np.asarray(2 * np.std(values, axis=0, ddof=1) / math.sqrt(_SETS))


def _excesses(
    system: OdeSystem, run: OdeRun, grid: PanelGrid, options: Options, estimates: Sequence[Callable[[Array], Array]]
) -> list[float]:
    """Return the largest error by each estimate, a function of values per rule and time, in units of the tolerance."""
    curves, scales = run.curves(system, grid.nodes), run.scales(system)
    controlled = system.program.observables or tuple(scales)

    def over(name: str, estimate: Callable[[Array], Array]) -> float:
        error = over_panels(estimate(curves[name]), grid.order)
        return excess(curves[name][-1], error, options, scale=scales[name])

    return [max((over(name, estimate) for name in controlled), default=0.0) for estimate in estimates]


def _least(weights: Array, shares: Array, allowed: float) -> float:
    """Return the weight, relative to the largest, below which all nodes together add no more than allowed to any mean.

    It lies in a gap between weights, so that of nodes that mirror each other both are left out, or none.
    """
    order = np.argsort(weights)
    weights, added = weights[order] / weights.max(), np.cumsum(shares[order])
    gaps = (added[:-1] <= allowed) & (weights[1:] > (1 + 1e-6) * weights[:-1])
    last = np.flatnonzero(gaps)
    return float(np.sqrt(weights[last[-1]] * weights[last[-1] + 1])) if len(last) else 0.0


Rules = Levels | Draws


def choose_rules(integrator: Integrator, tolerance: float, rules: Rules) -> tuple[OdeRun, Rules]:
    """Integrate with growing rules until their error is a small part of the tolerance, or no larger rule is there."""
    while True:
        run = integrator.run(rules.paths(below=True), tolerance)
        ends = run.ends[:: -(-len(run.ends) // 50)]  # panels, at most, on which rules are compared
        larger = rules.grown(run, PanelGrid(np.unique(np.append(ends, run.ends[-1])), NODES), integrator.options)
        if larger is rules or integrator.options.is_short_of_time():
            return run, rules
        rules = larger


def _law_error(values: Array, place: int) -> Array:
    """Extrapolate the error that one law's best rule leaves from the changes between its rules."""
    chain = values[[*range(_BELOW * place, _BELOW * (place + 1)), -1]]
    changes = np.abs(np.diff(chain, axis=0))
    largest = np.max(changes, axis=1)
    if not largest.all():
        return np.max(changes, axis=0)
    ratios = largest[1:] / largest[:-1]
    ratio = float(np.max(ratios))
    wandering = np.abs(chain[-1] - chain[0]).sum() < changes.sum() / 2  # changes that do not go one way
    if ratio > 0.9 or (ratio > 0.3 and wandering):  # a kink, what oscillates between nodes, or rounding
        falling = np.max(largest[2:]) < 0.3 * np.max(largest[:2])
        return np.max(np.abs(chain[2 if falling else 1 : -1] - chain[-1]), axis=0)
    if ratio < 0.3:  # exponential convergence
        ratio = float(np.sqrt(ratios[-1] * ratios[-2]))
        return 1.5 * ratio / (1 - ratio) * changes[-1]
    return 1.5 * ratio / (1 - ratio) * np.maximum(changes[-1], ratio * changes[-2])
