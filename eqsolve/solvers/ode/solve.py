"""Ordinary differential equations with random constants: quadrature nodes moved together by an adaptive integrator.

Method. Every combination of atoms and Gauss nodes of the random constants is a path; all paths, and the one-time
functions that depend on their means, are one system of ODEs. It is integrated by DOP853 (order 8; Hairer, Nørsett &
Wanner 1993, doi:10.1007/978-3-540-78862-1), or by Radau IIA (order 5; Hairer & Wanner 1996,
doi:10.1007/978-3-642-05221-7) when that turns out to be stiff (see ``march``).

Error. The solution reported is compared with one whose steps are 1.25 times as long; the
largest change on a panel and its neighbours is the error there, an overestimate by about 0.8⁻⁸ = 6. (Two
tolerances may give the same steps; so a first integration finds out how long steps can be.) To it
are added what the panels' interpolant misses, and the quadrature error. All are refined until the
tolerance is met.

In discrete time the map y ← y + step · y' is iterated, and once more with rounding errors made larger: what
the two differ by is the error of the steps.

Cost and memory: (number of paths) × (number of steps). Chosen for systems without memory and without Gaussian drives.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.compile.forms import ODE
from eqsolve.compile.ode import WIDTH
from eqsolve.compile.plan import Plan, Values
from eqsolve.errors import BudgetSpentError, SolverError, logger
from eqsolve.numerics.arrays import EPSILON, ROUNDING, Array
from eqsolve.numerics.grids import DRAWN, PanelGrid, over_panels
from eqsolve.results.result import PathSet, Result, dynamics_result
from eqsolve.solvers.contract import Solver, why_not_a
from eqsolve.solvers.marching import RATIO
from eqsolve.solvers.ode import march
from eqsolve.solvers.ode.march import NODES, Integrator, Levels, OdeRun, OdeSystem, Rules, StoppedError
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import allowance, excess, with_partial

_FINEST = 100 * EPSILON  # the smallest relative tolerance that scipy's integrators take
_STABLE = 0.65  # of the steps at the edge of stability: far enough from it for errors to fall with the steps
_MOST_PANELS = 2 * DRAWN  # to begin with; panels are split where the interpolant needs it
_MEMORY = "it has memory (integrals, delays, or functions of two times)"
_PROBES = np.array([0.03, 0.5, 0.92])  # places on a panel where its interpolant is tried


class OdeSolver(Solver):
    __doc__ = __doc__
    name = "ode"
    discrete = True
    families = True

    def why_not(self, plan: Plan) -> str:
        facts = plan.facts
        memory = f"it takes no processes with memory: `{facts.processes[0]}`" if facts.processes else _MEMORY
        noise = f"it takes no noise: `{facts.noises[0]}`" if facts.noises else ""
        return why_not_a("System", plan) or (memory if facts.memory or facts.kernels or facts.shifted_times else noise)

    def why(self, plan: Plan) -> str:
        what = "random constants only" if plan.facts.processes else "no memory"
        return f"ordinary differential equations with {what}: an adaptive integrator on quadrature nodes"

    def solve(self, plan: Plan, values: Values, options: Options) -> Result:
        """Solve a system without memory to the tolerance asked for; what is there before a blow-up comes with the error."""
        program = plan.program(ODE)

        def bound(width: float = 1e-300) -> OdeSystem:
            return march.bind_system(program, {**values.numbers, WIDTH.name: width}, values.laws)

        begin = bound().begin
        options.demand_after(begin)

        def solved(options: Options) -> Result:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # at a singular start, before a blow-up
                plain = options.step is not None or not program.jumps
                solution = _solve(bound(), options) if plain else _last(_by_narrower_ramps(bound, options))
                return _package(plan.name, values, bound(), solution, options)

        try:
            return solved(options)
        except StoppedError as stopped:
            end, text = stopped.time, str(stopped)
        ended = SolverError(text)
        raise with_partial(ended, begin, end, lambda end: solved(replace(options, t_max=end, at=())), lambda _: text) from None


def _solve(system: OdeSystem, options: Options) -> OdeSolution:
    return _last(_by_larger_rules(system, options))


def _last(solutions: Iterator[OdeSolution]) -> OdeSolution:
    """Return the last of better and better solutions, or of those that there are when the budget is spent."""
    best: OdeSolution | None = None
    try:
        for solution in solutions:
            best = solution
    except BudgetSpentError:
        if best is None:
            raise
    assert best is not None
    return best


def _by_larger_rules(system: OdeSystem, options: Options) -> Iterator[OdeSolution]:
    integrator, rules = Integrator(system, options), Levels.first(system, options.seed)
    while True:
        solution, rules = _refine(integrator, rules)
        yield solution
        if solution.excess() <= 1.0 or options.is_short_of_time():
            return
        larger = rules.grown(solution.scout, solution.grid, options)
        if larger is rules:
            return
        rules = larger


def _by_narrower_ramps(bound: Callable[..., OdeSystem], options: Options) -> Iterator[OdeSolution]:
    """Yield solutions with ramps for jumps, narrower and narrower: their limit is Filippov's solution."""
    system = bound()
    paths = Levels.first(system, options.seed).paths(below=False)
    start = system.initial(paths)
    reach = (options.t_max - system.begin) * np.abs(system.slope(system.begin, start, paths))
    width = 0.01 * float(max(np.abs(start).max(), reach.max())) or 0.01
    tolerance = max(min(options.rtol / 100, 1e-6), _FINEST)
    for _ in range(12):
        wide, width = bound(width), width / 10
        solution = _solve(bound(width), options)
        other = Integrator(wide, options).run(solution.run.paths, tolerance)
        known = other.best(wide, solution.grid.nodes)
        for name, values in solution.curves.items():
            change = over_panels(np.abs(values - known[name]), solution.grid.order, beside=True)
            solution.parts.setdefault("jumps", {})[name] = change / 4  # it falls with the width
        yield solution
        if solution.excess("jumps") <= 0.5 or options.is_short_of_time():
            return


def _refine(integrator: Integrator, rules: Rules) -> tuple[OdeSolution, Rules]:
    """Shorten the steps until the time-step error meets the tolerance; only the first integration compares rules."""
    options = integrator.options
    tolerance = max(min(options.rtol / 100, 1e-6), _FINEST)
    scout, rules = march.choose_rules(integrator, RATIO * tolerance, rules)
    coarse = integrator.run(rules.paths(below=False), tolerance, finer_than=scout, by=_STABLE, nudge=4 * EPSILON)
    before = np.inf
    for rounds in itertools.count(1):
        try:
            fine = integrator.run(coarse.paths, tolerance, finer_than=coarse)
        except BudgetSpentError:
            if rounds == 1:
                raise
            break
        with np.errstate(over="ignore", invalid="ignore"):
            solution = _compare(integrator.system, fine, coarse, (scout, rules), options)
        # stop where a curve leaves the range of numbers: no refinement brings it back
        for name in solution.scales:
            bad = ~np.isfinite(curve := solution.curves[name])
            if bad.any():
                moment = float(solution.grid.nodes[np.argmax(bad)])
                raise StoppedError(f"`{name}` is {curve[bad][0]} at t = {moment:.6g}: floating-point overflow", moment)
        missing = solution.excess("time steps")
        logger.info("time steps: %d of them; compared with a rougher solution the error is %.2g times the tolerance",
                    len(fine.ends) - 1, missing)  # fmt: skip
        ended = missing <= 0.3 or rounds == 12 or options.step is not None or (tolerance <= _FINEST and missing > 0.3 * before)
        if ended or options.is_short_of_time():
            break
        before, coarse = missing, fine
        tolerance = max(tolerance * min(0.15 / missing, 1 / RATIO), _FINEST)
        if missing > RATIO:
            with contextlib.suppress(BudgetSpentError):
                coarse = integrator.run(coarse.paths, tolerance, finer_than=coarse)
    return solution, rules


@dataclass(frozen=True, eq=False)
class OdeSolution:
    """The integration that is reported, on its panels, with the parts of its error by kinds.

    ``curves`` are functions of time and paths; ``scales`` the natural scales of the former.
    """

    run: OdeRun
    scout: OdeRun
    grid: PanelGrid
    options: Options
    controlled: tuple[str, ...]
    curves: dict[str, Array]
    scales: dict[str, float]
    parts: dict[str, dict[str, Array]]

    def error(self, name: str, *kinds: str) -> Array:
        """Return the error of a curve, of some kinds or of all."""
        return np.sum([self.parts[kind][name] for kind in kinds or self.parts if name in self.parts[kind]], axis=0)

    def excess(self, *kinds: str) -> float:
        """Return the largest error in units of the tolerance."""
        made = ((self.curves[name], self.error(name, *kinds), self.scales[name]) for name in self.controlled)
        return max((excess(curve, error, self.options, scale=scale) for curve, error, scale in made), default=0.0)


def _compare(system: OdeSystem, fine: OdeRun, coarse: OdeRun, scouted: tuple[OdeRun, Rules], options: Options) -> OdeSolution:
    """Lay the finer integration on panels and estimate its error."""
    scales = fine.scales(system)
    grid, curves, missed = _panels(system, fine, options, scales)
    rough, order = coarse.best(system, grid.nodes), grid.order
    step = {name: over_panels(np.abs(values - rough[name]), order, beside=True) for name, values in curves.items()}
    scout, rules = scouted
    by_rule = scout.curves(system, grid.nodes)
    tails = march.TAILS * options.rtol if any(rules.least) else 0.0  # what nodes left out would add, relative to the terms
    rule = {name: over_panels(rules.error(by_rule[name]), order) + tails * scale for name, scale in scales.items()}
    rest = {name: _on_nodes(missed[name], order) + _rounding(values, scales.get(name, 0.0)) for name, values in curves.items()}
    controlled = tuple(system.program.observables) or tuple(scales)
    parts = {"time steps": step, "quadrature": rule, "rounding": rest}
    return OdeSolution(fine, scout, grid, options, controlled, curves, scales, parts)


def _panels(
    system: OdeSystem, run: OdeRun, options: Options, scales: dict[str, float]
) -> tuple[PanelGrid, dict[str, Array], dict[str, Array]]:
    """Return panels fine enough for the interpolant, the curves and paths on them, and what the interpolant misses."""
    if options.step is not None:
        curves = run.best(system, run.ends)
        return PanelGrid(run.ends, 1), curves, {name: 0 * values[..., 1:] for name, values in curves.items()}
    ends = run.ends if len(run.ends) < _MOST_PANELS else run.ends[:: -(-len(run.ends) // _MOST_PANELS)]
    inside = [moment for moment in options.at if run.ends[0] < moment < run.ends[-1]]
    edges = np.unique(np.concatenate([ends, inside, run.ends[-1:]]))
    close = np.diff(edges) <= 1e-13 * np.max(np.abs(edges))
    edges = np.delete(edges, np.flatnonzero(close) + (np.flatnonzero(close) + 1 < len(edges) - 1))
    while True:
        grid = PanelGrid(edges, NODES, breaks=tuple(edges[np.isclose(edges[:, None], options.breaks, 1e-14, 0).any(axis=1)]))
        places = (edges[:-1, None] + np.diff(edges)[:, None] * _PROBES).ravel()
        curves, tried = (run.best(system, times) for times in (grid.nodes, places))
        columns = np.arange(grid.panels)[:, None] * NODES + np.arange(NODES + 1)
        missed: dict[str, Array] = {}
        split = np.zeros(grid.panels, dtype=bool)
        for name, values in curves.items():
            gap = np.abs(grid.interpolate(values, places) - tried[name])
            missed[name] = gap.reshape(*values.shape[:-1], grid.panels, -1).max(axis=-1)
            if name in scales:
                allowed = np.min(allowance(values, options, scale=scales[name])[columns], axis=1)
                split |= missed[name] > np.maximum(0.1 * allowed, np.min(_rounding(values, scales[name])))
        if not split.any() or grid.panels > 20 * _MOST_PANELS or options.is_short_of_time():
            return grid, curves, missed
        edges = np.sort(np.concatenate([edges, (edges[:-1] + edges[1:])[split] / 2]))


def _rounding(values: Array, scale: float = 0.0) -> Array:
    """Rounding errors that two integrations may share: of the value, and of the largest terms it came from."""
    largest = np.maximum(np.max(np.abs(values), axis=-1, keepdims=True), scale)
    return ROUNDING * np.abs(values) + EPSILON * largest


def _on_nodes(panels: Array, order: int) -> Array:
    """Repeat what is given per panel on its nodes; the start belongs to the first panel."""
    return np.concatenate([panels[..., :1], np.repeat(panels, order, axis=-1)], axis=-1)


def _package(name: str, values: Values, system: OdeSystem, solution: OdeSolution, options: Options) -> Result:
    run, errors = solution.run, {name: solution.error(name) for name in solution.curves}
    parts, paths = system.parts, run.paths
    ensembles: dict[tuple[int, tuple[tuple[str, str], ...]], list[str]] = {}
    for member, (key, constants) in system.constants_behind().items():
        ensembles.setdefault((parts.of((key,)), constants), []).append(member)
    sets = [
        PathSet(
            paths.weights[paths.best[place]] / paths.weights[paths.best[place]].sum(),
            {name: paths.values[coordinate][paths.best[place]] for name, coordinate in constants},
            *({key: table[key] for key in names} for table in (solution.curves, errors)),
        )
        for (place, constants), names in sorted(ensembles.items())
    ]
    failure = None
    if (worst := solution.excess()) > 1.0:
        largest = max(solution.parts, key=solution.excess)
        message = f"the error estimate is {worst:.3g} times the tolerance rtol={options.rtol:g}; {largest} limits it"
        failure = ("tolerance not met", message)
    stats = {
        "method": run.method,
        "calls": run.calls,
        "paths": sum(best.stop - best.start for best in paths.best),
        "steps": len(run.ends) - 1,
        "panels": solution.grid.panels,
    }
    return dynamics_result(
        model=name, params=values.settings, grid=solution.grid, curves={key: solution.curves[key] for key in solution.scales},
        errors=errors, stats=stats, paths=sets, failure=failure,
    )  # fmt: skip
