"""What solutions of a stochastic system report, how far two of them are apart, and what that is in units of the tolerance."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from eqsolve.numerics.arrays import Array, error_share, over_groups, over_neighbours
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid, recovered_degree
from eqsolve.numerics.relations import Kernels, Pointwise
from eqsolve.numerics.rows import RowStore, StepRows
from eqsolve.results.arrays import LazyArray
from eqsolve.results.result import Kernel, PathSet, Result, dynamics_result
from eqsolve.solvers.marching import neglected
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.iterate import PathSolution
from eqsolve.solvers.paths.sweep import Engine, Means, Sample
from eqsolve.solvers.tolerance import KERNEL_FLOOR, allowance, excess

if TYPE_CHECKING:
    from eqsolve.solvers.gaussian.solve import LawMarch

    Solution: TypeAlias = PathSolution | LawMarch


Errors = dict[str, Array]

# times the larger of two differences is stated: a normal error exceeds it in a fifth of cases
_MARGIN = 1.5
_ATOMS = 8  # values of a constant that are strata of their own
_LOOKED = 12  # nodes at which sampled paths are compared with a solution
_DEVIATIONS = 8.0  # standard errors: what is measured on Gaussian and heavy-tailed constants is in the tests
_LIKELY = 0.3  # of the root mean square of a curve's relative error: the least stated at any time


@dataclass(frozen=True, eq=False)
class Curves:
    """Everything a solution reports, on its own grid."""

    single: dict[str, Array]
    tables: dict[str, Array]
    values: dict[str, Array]  # of responses, continued across the diagonal
    sizes: dict[str, float]  # of the terms averaged or added up in the observables, before they cancel

    @property
    def all(self) -> dict[str, Array]:
        return {**self.single, **self.tables, **self.values}

    def filled(self, found: Mapping[str, Array]) -> Curves:
        """Return the same curves with other values."""
        single, tables, values = ({name: found[name] for name in part} for part in (self.single, self.tables, self.values))
        return Curves(single, tables, values, self.sizes)


@dataclass(frozen=True, eq=False)
class ErrorControl:
    """Compares solutions of one system under one set of options."""

    engine: Engine
    options: Options
    kinks: bool = False  # whether averages of functions with a kink are controlled as others are
    # order of errors with cusps in covariances: 2 where noises act other than by integrals, else 3
    # where paths are not linear: between nodes interpolation leaves a variance of h³
    cusps: int | None = None

    def curves(self, solved: Solution) -> Curves:
        key = self, solved.averages
        if key not in solved.kernels.derived:
            absolute = dict(solved.kernels.means)
            for item in solved.averages:
                absolute |= item.sizes
            solved.kernels.derived[key] = self._curves(solved.grid, solved.kernels, absolute)
        return solved.kernels.derived[key]

    def _curves(
        self, grid: OperatorGrid, kernels: Kernels, absolute: Mapping[str, Array] | None = None, *, whole: bool = True
    ) -> Curves:
        """Return what kernels report; not ``whole`` functions of one time alone, unless kernels are controlled too."""
        observables = self.engine.program.observables
        single = kernels.functions | {name: kernels.observed(item) for name, item in observables}
        if not (whole or self.options.kernels or self.engine.program.kinked.issuperset(name for name, _ in observables)):
            return Curves(single, {}, {}, {})
        values = {name: grid.values(matrix, extend=True) for name, matrix in kernels.operators.items()}
        sizes = {}
        if absolute is not None:
            large = Kernels(grid, absolute, kernels.complete(), kernels.operators, dict(kernels.functions))
            for made in self.engine.program.definitions:
                if made.kind == "function" and not (made.differential or made.own) and isinstance(made.rest, Pointwise):
                    large.functions[made.name] = np.abs(large.vector(made.rest))
            sizes = {name: sum(_largest(large.vector(t)) for t in item.terms) for name, item in observables}
        return Curves(single, dict(kernels.complete()), values, sizes)

    def size(self, name: str, curves: Curves, grid: OperatorGrid) -> float:
        """Return the largest size; of a response without its diagonal blocks, which are extrapolated."""
        values = np.abs(curves.all[name])
        if name in curves.values:
            apart = np.zeros_like(values, dtype=bool)
            for part in grid.blocks:
                apart[part, : part.start] = True
            values = values[apart]
        return float(values.max(initial=0.0))

    def curves_of_means(self, grid: OperatorGrid, means: Means, *, whole: bool = True) -> Curves:
        """Return the curves of given means; without ``whole`` only controlled ones."""
        return self._curves(grid, self.engine.kernels(grid, means), whole=whole)

    def curve_changes(self, before: Curves, grid: OperatorGrid, means: Means) -> Errors:
        """Return how far all curves move when the means do."""
        return self.distances(before, self._curves(grid, self.engine.kernels(grid, means)))

    def change_in_tolerances(self, before: Curves, grid: OperatorGrid, means: Means) -> float:
        """Return how many tolerances the controlled outputs move by when the means do."""
        return self.worst(before, self.distances(before, self._curves(grid, self.engine.kernels(grid, means), whole=False)))

    def distances(self, before: Curves, after: Curves) -> Errors:
        """Return how far the curves of two solutions on one grid are apart."""
        known = before.all
        return {name: _smear(np.abs(values - known[name])) for name, values in after.all.items()}

    def error_of_changes(self, curves: Curves, changes: list[Errors], margin: float = _MARGIN) -> Errors:
        """Return the error that some independent changes of a solution show: margin × the largest of them.

        Where all changes happen to be small, a part of their relative size at other times counts.
        """
        made, values = {}, curves.all
        for name in changes[0]:
            largest = np.max([change[name] for change in changes], axis=0)
            sizes = np.abs(values[name])
            scale = np.maximum(sizes, KERNEL_FLOOR * sizes.max(initial=0.0)) + 1e-300
            typical = float(np.sqrt(np.mean((largest / scale) ** 2)))
            made[name] = margin * np.maximum(largest, _LIKELY * typical * scale)
            if is_known(largest):
                made[name].flat[0] = 0.0
        return made

    def panel_errors(self, solved: Solution, other: Solution) -> Errors:
        """Return the error of a solution's panels that one on other panels, of another order, shows.

        They are compared on the nodes of both: between its own nodes a solution is less good than
        on them.
        """
        made, between = self.panel_differences(other, solved), self.panel_differences(solved, other)
        assert solved.grid.panels is not None
        slowly = 1.0 + error_share(other.grid.size / solved.grid.size, self.cusps) if self.cusps else 1.0
        here, there = (solved.grid.panels.locate(grid.nodes) for grid in (solved.grid, other.grid))
        for name, values in between.items():
            known = is_known(made[name])
            made[name] = np.maximum(made[name], over_groups(values, there, here))
            if known:
                made[name].flat[0] = 0.0
        return self.error_of_changes(self.curves(solved), [made], slowly)

    def panel_differences(self, base: Solution, dense: Solution, ratios: Array | None = None) -> Errors:
        """Return how far two solutions on panels are apart; with ``ratios``, the error of the second.

        Panels that are r times denser, as ``ratios`` tell, leave SAFETY/(r^p − 1) of the difference
        with p = m + 1, at most ``cusps``; for responses near the diagonal see ``recovered_degree``.
        """
        final, middle = self.curves(dense), self.curves(base)
        assert dense.grid.panels is not None
        assert base.grid.panels is not None
        forward = base.grid.panels.interpolation(dense.grid.nodes)
        factor = slow = np.ones(dense.grid.size)
        if ratios is not None:
            local = ratios[base.grid.panels.locate(dense.grid.nodes)]
            factor = error_share(local, self._order(dense.grid.panels.order + 1))
            slow = error_share(local, self._order(recovered_degree(dense.grid.panels.order) + 1))
        pairs = np.maximum(factor[:, None], factor[None, :])
        errors = {}
        for name, values in final.single.items():
            before = base.grid.panels.interpolate(middle.single[name], dense.grid.nodes)
            errors[name] = factor * _smear(np.abs(values - before))
            for panel, *_ in dense.grid.panels.behind_jumps(values):  # between nodes there polynomials have one node less
                errors[name][dense.grid.blocks[panel + 1]] += neglected(dense.grid.panels, values)[panel]
        for name, table in final.tables.items():
            errors[name] = pairs * _smear(np.abs(table - forward @ middle.tables[name] @ forward.T))
        if final.values:
            for part in dense.grid.blocks:
                pairs[part, part] = np.maximum(slow[part, None], slow[None, part])
            rough = RowStore.from_tables(base.grid.panels, middle.values).tables(dense.grid.nodes)
            errors |= {name: pairs * _smear(np.abs(np.tril(table) - rough[name])) for name, table in final.values.items()}
        return errors

    def _order(self, order: int) -> int:
        return min(order, self.cusps or order)

    def keep_errors(self, errors: Errors, before: Errors, base: Solution, dense: Solution) -> Errors:
        """Return errors of panels; of responses on panels of both solutions, at least ``before``.

        Differences do not show the error of panels that both have.
        """
        if not before or base.grid.panels is None or dense.grid.panels is None:
            return errors
        old, new = base.grid.panels, dense.grid.panels
        here, there = new.locate(dense.grid.nodes), old.locate(dense.grid.nodes)
        same = (old.edges[there] == new.edges[here]) & (old.edges[there + 1] == new.edges[here + 1])
        places = np.clip(np.searchsorted(base.grid.nodes, dense.grid.nodes), 0, base.grid.size - 1)
        kept = {name: before[name][np.ix_(places, places)] * same[:, None] for name in self.curves(dense).values}
        return errors | {name: np.maximum(errors[name], table) for name, table in kept.items()}

    def worst(self, final: Curves, errors: Errors) -> float:
        """Return the largest error in units of the tolerance; kinks apart."""
        return max(self.excesses(final, errors).values(), default=0.0)

    def excesses(self, final: Curves, errors: Errors, *, kinks: bool = False) -> dict[str, float]:
        """Return the error in units of the tolerance of every observable, and of every kernel if asked for.

        Averages of functions with a kink do not choose grids: they are found at the end. Where all
        observables have one, kernels do.
        """
        declared = [name for name, _ in self.engine.program.observables]
        kinked = frozenset() if kinks or self.kinks else self.engine.program.kinked
        watched = [name for name in declared if name not in kinked]
        if not watched and not (declared and final.tables):
            watched = declared or list(final.single)
        values = {name: self.excess(final, errors, name) for name in watched}
        if self.options.kernels or not watched:
            values |= {name: excess(table, errors[name], self.options, KERNEL_FLOOR) for name, table in final.tables.items()}
        return values

    def excess(self, final: Curves, errors: Errors, name: str) -> float:
        """Return the error of one function of time in units of the tolerance."""
        return excess(final.single[name], errors[name], self.options, KERNEL_FLOOR, scale=final.sizes.get(name, 0.0))

    def without_noise(self, curves: Curves, errors: Errors) -> Errors:
        """Return the errors of panels, for averages with kinks capped at the level of smooth ones.

        The excess is sampling noise of few points, which are replaced at the end.
        """
        plan = self.engine.program
        smooth = [name for name, _ in plan.observables if name not in plan.kinked]
        if smooth:
            most = np.max([self.excess_by_time(curves, errors, name) for name in smooth], axis=0)
        elif curves.tables:
            most = np.array(self.worst(curves, errors))
        else:
            return errors
        return errors | {name: np.minimum(errors[name], most * self.allowed(curves, name)) for name in plan.kinked}

    def excess_by_time(self, curves: Curves, errors: Errors, name: str) -> Array:
        """Return an error in units of what is allowed, time by time."""
        return errors[name] / (self.allowed(curves, name) + 1e-300)

    def ratios(self, curves: Curves, errors: Errors, grid: OperatorGrid, share: float) -> Array:
        """Return how much denser each panel should be for its error to be a share of the tolerance."""
        watched = [name for name in self.excesses(curves, errors) if name in curves.single]
        over = np.max([self.excess_by_time(curves, errors, name) for name in watched] or [np.ones(grid.size)], axis=0)
        order = grid.panels.order if grid.panels is not None else 1
        return (np.array([over[part].max() for part in grid.blocks[1:]]) / share) ** (1 / self._order(order + 1))

    def resolution(self, curves: Curves, panels: PanelGrid) -> Array:
        """Return how much denser each panel should be for what polynomials on it leave out to be within the tolerance."""
        watched = [name for name in self.excesses(curves, self.distances(curves, curves)) if name in curves.single]
        relative = [curves.single[name] / (self.allowed(curves, name) + 1e-300) for name in watched]
        relative += [table / (self.options.rtol * np.abs(table).max() + 1e-300) for table in curves.tables.values()]
        left = [neglected(panels, values).reshape(-1, panels.panels).max(axis=0) for values in relative]
        return np.asarray(np.max(left or [np.ones(panels.panels)], axis=0) ** (1 / (panels.order + 1)))

    def allowed(self, curves: Curves, name: str) -> Array:
        """Return the largest error allowed, time by time."""
        return allowance(curves.all[name], self.options, KERNEL_FLOOR, scale=curves.sizes.get(name, 0.0))

    def total(self, solved: Solution, *parts: Errors, rounding: float = 1e-14) -> Errors:
        """Return the sum of errors, and of what the iteration left; a start known in all of them is exact."""
        curves, rest = self.curves(solved), 2.0 * max(solved.residual, 1e-14)
        made: Errors = {}
        for name in parts[0]:
            made[name] = np.sum([part[name] for part in parts], axis=0) + rest * self.size(name, curves, solved.grid)
            if all(is_known(part[name]) for part in parts):
                made[name].flat[0] = rounding * abs(curves.all[name].flat[0])
        return made

    def zero_errors(self, solved: Solution) -> Errors:
        return {name: np.zeros_like(values) for name, values in self.curves(solved).all.items()}


def standard_error(changes: Sequence[Errors], weights: Array) -> Errors:
    """Return the standard error of an average over sets of variances 1/weight, from how far each is from it."""
    shares = weights / (weights.sum() * (len(weights) - 1))
    return {name: np.sqrt(np.tensordot(shares, np.square([item[name] for item in changes]), 1)) for name in changes[0]}


def margin_of(sets: int) -> float:
    """Return the multiple of the standard error over so many sets that is stated as an error.

    The quantile of Student's t distribution with ``sets`` − 1 degrees of freedom that is exceeded
    in size once in seven.
    """
    from scipy.special import stdtrit

    return float(stdtrit(sets - 1, 0.93))


def disagreement(solved: Solution, samples: Sequence[Sample], errors: Errors, curves: Curves) -> str:
    """Return where plain sampled paths contradict a solution's means; nothing where they do not.

    A guard against errors that all refined sets share: the paths are drawn from the whole law.
    Tested are means of one time, and of pairs at equal times, on some nodes: the distance to the
    solution, less the tolerance, may be several standard errors, since tails may be heavy.
    """
    last = solved.grid.size - 1
    nodes = np.unique(np.linspace(min(1, last), last, _LOOKED).astype(int))
    stated = [float(errors[name].max() / np.abs(values).max()) for name, values in curves.single.items() if values.any()]
    scale = min([0.1, max(stated, default=0.0)])
    for item in samples:
        paths = item.follow()
        weights, count = paths.points.weights, paths.shape[1]
        strata = _strata(paths.points.constants, count)
        for mean in item.plan.means:
            if mean.kind == "response" or any(outer is not None for outer in mean.outers):
                continue
            factors = paths.values(mean.factors)
            if mean.joint is not None:
                factors = [mean.join(factors[: len(mean.sides[0])], factors[len(mean.sides[0]) :])]
            pair = mean.kind == "two" and mean.joint is None
            pieces = zip(factors[::2], factors[1::2], strict=True) if pair else [(factors[0], np.ones(1))]
            values = np.sum(
                [first[nodes] * (second[nodes] if second.ndim > 1 else second) for first, second in pieces], axis=0
            )
            found = values @ weights
            spread = np.sqrt(sum(_variance(values[:, part], weights[part]) for part in strata))
            # where no path shows anything, one in all of them might: events may be rare
            spread = np.where(spread > 0, spread, np.abs(values).max() / count)
            known = solved.means[mean.name] if mean.kind == "one" else np.diagonal(solved.means[mean.name])
            sizes = np.maximum(np.abs(values) @ weights, KERNEL_FLOOR * np.abs(known).max())
            allowed = _DEVIATIONS * spread + (scale + 1e-6) * sizes + 1e-12
            off = np.abs(found - known[nodes])
            worst = int(np.argmax(off / allowed))
            if off[worst] > allowed[worst]:
                here, at = nodes[worst], solved.grid.nodes[nodes[worst]]
                return (
                    f"Monte Carlo check: {count} paths give {found[worst]:.4g} ± {spread[worst]:.2g} for {mean.name} "
                    f"at t = {at:.4g}, the solution gives {known[here]:.4g}"
                )
    return ""


def _strata(constants: Mapping[str, Array], count: int) -> list[Array]:
    """Return the paths of every combination of atoms; all together where constants have many values."""
    atoms = [values for values in constants.values() if len(np.unique(values)) <= _ATOMS]
    if not atoms:
        return [np.arange(count)]
    _, labels = np.unique(np.array(atoms), axis=1, return_inverse=True)
    return [np.flatnonzero(labels.ravel() == label) for label in np.unique(labels)]


def _variance(values: Array, weights: Array) -> Array:
    """Return what paths of one stratum add to the variance of an average."""
    share, count = weights.sum(), len(weights)
    centre = (values @ weights) / share
    return np.asarray(share**2 * np.maximum((values**2) @ weights / share - centre**2, 0.0) / count)


def _smear(values: Array) -> Array:
    """Give every node the largest value of its neighbours in each time, so that a chance zero is not taken for accuracy.

    What does not move at the start by more than rounding is known there, and stays as it is.
    """
    out = over_neighbours(values, 3, np.max)
    if is_known(values):
        out.flat[0] = values.flat[0]
    return out


def _largest(values: Array) -> float:
    """Return the largest size; a start without a value, 0/0, does not count."""
    sizes = np.abs(values)
    return float(sizes[1:].max() if len(sizes) > 1 and np.isnan(sizes[0]) else sizes.max())


def is_known(errors: Array) -> bool:
    """Whether a curve's start is exact: nothing but rounding moves it."""
    return bool(errors.flat[0] <= 1e-9 * errors.max(initial=0.0))


# --- A solution of a stochastic system as a result: curves, kernels, and a sample of the paths.
def package(
    engine: Engine, solved: PathSolution, curves: Curves, errors: Errors, over: Mapping[str, float], paths: tuple[Sample, ...],
    options: Options, params: Mapping[str, Any], source: Any = None, times: Array | None = None,
) -> Result:  # fmt: skip
    """Return the result; ``over`` are the errors in units of the tolerance, ``source`` is what neighbours may begin with,
    ``times`` are those of functions of two times, by default all nodes."""
    grid = solved.grid.panels or PanelGrid.smooth(solved.grid.nodes)
    kept = [path_set(item, place=place) for place, item in enumerate(paths)]
    stats = {"panels": grid.panels, "paths": solved.paths, "sweeps": engine.work.sweeps, "residual": solved.residual}
    return make_result(engine.program.name, grid, curves, errors, over, kept, options, params, stats, source, times)


def make_result(
    name: str, grid: PanelGrid, curves: Curves, errors: Errors, over: Mapping[str, float], paths: list[PathSet],
    options: Options, params: Mapping[str, Any], stats: Mapping[str, Any], source: Any = None, times: Array | None = None,
) -> Result:  # fmt: skip
    """Return curves with their errors as the result of a model."""
    largest, worst = max(over.items(), key=lambda item: item[1], default=("", 0.0))
    kernels = {key: Kernel(table, errors[key], True) for key, table in curves.tables.items()}
    kernels |= {key: Kernel(np.tril(v), np.tril(errors[key]), False) for key, v in curves.values.items()}
    tables = {**curves.tables, **curves.values}
    if grid.width:
        rows: RowStore | StepRows = StepRows(grid.nodes if times is None else times, tables)
    else:
        rows = RowStore.from_tables(grid, tables, kinked=curves.tables, compared=grid.order > 1)
    reason = f"the error estimate of `{largest}` is {worst:.3g} times the tolerance rtol={options.rtol:g}"
    return dynamics_result(
        model=name, params=params, grid=grid, curves=curves.single, errors=errors, kernels=kernels,
        times=times, rows=rows if kernels else None,
        paths=paths, stats={"nodes": grid.size, **stats},
        failure=None if worst <= 1.0 else ("tolerance not met", reason), source=source,
    )  # fmt: skip


def path_set(sample: Sample, every: int = 1, place: int = 0) -> PathSet:
    """Return every process at some of the nodes, found for all when one of them is looked at.

    Ensembles behind the first are shuffled: they share their quasi-random points, and are
    independent.
    """
    points, shape = sample.points, (len(sample.points.weights), (sample.nodes - 1) // every + 1)
    order = np.random.default_rng(place).permutation(shape[0]) if place else np.arange(shape[0])
    tables = {n: LazyArray(functools.partial(_process, sample, n, every, order), shape) for n in sample.plan.processes}
    return PathSet(points.weights[order], {name: values[order] for name, values in points.constants.items()}, tables)


def _process(sample: Sample, name: str, every: int, order: Array) -> Array:
    return sample.processes[name][order, ::every]
