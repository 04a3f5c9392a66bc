"""Derivatives of a solved stochastic system along parameters: the linearised equations of the means, at the solution.

The enlarged system (every unknown beside its derivative) has the means of the system alone, which are known, and those of
its derivatives, which one sweep maps affinely onto themselves: D ↦ J D + b, with J the exact linearisation of the sweep in
the means (paths' tangents, and the tangents of these) and b its explicit derivative by the parameter. D = (1 − J)⁻¹ b is found
by Anderson's iteration, which on an affine map is GMRES (Walker & Ni, SIAM J. Numer. Anal. 49, 1715 (2011),
doi:10.1137/10078356X), preconditioned by the mean responses. The grid and the modes are the solution's own.

Errors: sets of finer points that share nothing move the derivatives, each from where the last one left them; how far the
last one did is the error of the points. One sweep on panels of another order gives that of the panels. Both follow how far the
solution itself is moved by the same sets.

Cost: a sweep of the enlarged system is that of about four sweeps of the system; some ten of them on one grid, and one with
each set.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Plan
from eqsolve.compile.values import Values
from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gaussian import Level
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.levels import refine
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.secants import Secants
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options
from eqsolve.solvers.stochastic.iterate import USUAL, Solved, improve, pack, unpack, weigh
from eqsolve.solvers.stochastic.judge import Errors, Judge, is_known
from eqsolve.solvers.stochastic.means import Averages
from eqsolve.solvers.stochastic.modes import Choice
from eqsolve.solvers.stochastic.probing import other_points
from eqsolve.solvers.stochastic.sweep import Design, Engine, Means, Shapes, Work, collect, count_paths, sweep, variation
from eqsolve.solvers.stochastic.transfer import transfer

__all__ = ["Effort", "add_derivatives"]

logger = logging.getLogger("eqsolve")


@dataclass(frozen=True)
class Effort:
    """What is spent on derivatives.

    Attributes
    ----------
    most, stop
        Sweeps, at most, and what the iteration may leave, of the tolerance.
    minds
        How much modes are chosen by how the responses of derivatives vary, beside those of the solution: responses of
        derivatives vary with all that the solution's do, and by more.
    sets
        Sets of other points, at most.
    dearest
        Paths of a set, relative to those of the solution, at most; unless paths × nodes³ is below ``cheap``.
    share
        Of the move before the last that the error is at least.
    """

    most: int = 30
    stop: float = 1e-2
    minds: float = 0.15
    sets: int = 4
    dearest: float = 60.0
    cheap: float = 1e8
    share: float = 0.3


def add_derivatives(
    result: Result, solved: Solved, beside: tuple[Plan, Values], laws: Mapping[str, Any], options: Options,
    effort: Effort | None = None,
) -> Result:  # fmt: skip
    """Return a result with the derivatives of all its functions of time and kernels, as the enlarged system names them."""
    plan, values = beside
    effort = effort or Effort()
    program = at(plan.program("stochastic" if options.step is None else "discrete stochastic"), values.numbers)
    drawn = {name: law.at(values.numbers, values.laws) for name, law in program.laws}
    engine = Engine(program, {**laws, **values.laws, **drawn}, Work(), accuracy=effort.stop * 1e-3 * options.rtol)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found, errors = _solve(engine, solved, options, effort)
    return _attached(result, engine, found, errors, options)


def _solve(engine: Engine, base: Solved, options: Options, effort: Effort) -> tuple[Solved, Errors]:
    """Return the solution with its derivatives, and the errors of everything."""
    judge = Judge(engine, options)
    design = Design(base.averages[0].choice.level, _layouts(engine, base), _padded_shapes(engine, base))
    found = _linear(engine, base, design, effort, options)
    mixed = _mixed(design.shapes, variation(found.averages), effort.minds)
    by_panels = _other_panels(judge, found) if options.step is None else judge.nothing(found)
    final, moved, errors = found, judge.nothing(found), judge.nothing(found)
    level, most = design.level, max(effort.dearest * base.paths, effort.cheap / base.grid.size**3)
    ways = _ways(engine, found)
    for number in range(1, effort.sets + 1) if ways else ():
        finer = replace(_finer(level, ways, number), twist=number)
        if number > 2 and count_paths(engine, final.kernels, Design(finer, None, mixed)) > most:
            break
        level, last = finer, final
        try:
            means = other_points(engine, final, Design(finer, None, mixed))
        except (SolverError, MemoryError) as reason:
            logger.info("derivatives: more points cannot be had: %s", reason)
            break
        final = replace(final, means=means, kernels=engine.kernels(final.grid, means))
        curves = judge.curves(final)
        before, moved = moved, judge.change(curves, final.grid, last.means)
        errors = judge.spread(curves, [moved, {name: effort.share * change for name, change in before.items()}])
        worst = judge.worst(curves, errors)
        logger.info("derivatives: set %d, error %.2g of the tolerance", number, worst)
        if number > 1 and worst + judge.worst(curves, by_panels) <= 1.0:
            break
    curves = judge.curves(final)
    total = {}
    for name, error in by_panels.items():
        total[name] = error + errors[name] + 2 * found.left * judge.size(name, curves, final.grid)
        if is_known(errors[name]) and is_known(error):
            total[name].flat[0] = 1e-13 * abs(curves.all[name].flat[0])
    return final, total


def _layouts(engine: Engine, base: Solved) -> Any:
    """Return the layouts of the points of the solution, by ensemble; None where the ensembles are others."""
    return base.layouts if len(engine.plan.ensembles) == len(base.averages) else None


def _padded_shapes(engine: Engine, base: Solved) -> Shapes | None:
    """Return how responses vary in the solution, for groups of noises that have followers."""
    if len(engine.plan.ensembles) != len(base.averages) or any(item.choice.shapes is None for item in base.averages):
        return None
    size, made = base.grid.size, []
    for plan, item in zip(engine.plan.ensembles, base.averages, strict=True):
        groups = [group for group in engine.plan.covariances if group.noises[0] in plan.noises]
        assert item.choice.shapes is not None
        made.append([_pad(form, len(group.noises) * size) for form, group in zip(item.choice.shapes, groups, strict=True)])
    return tuple(made)


def _pad(form: Array, size: int) -> Array:
    made = np.zeros((size, size))
    made[: len(form), : len(form)] = form
    return made


def _mixed(shapes: Shapes | None, own: Shapes, minds: float) -> Shapes:
    """Return what modes are chosen by: how the solution's responses vary, and a part of how those of its derivatives do."""
    if shapes is None:
        return own
    return tuple(
        [form + minds**2 * mine for form, mine in zip(forms, more, strict=True)]
        for forms, more in zip(shapes, own, strict=True)
    )


def _linear(engine: Engine, base: Solved, design: Design, effort: Effort, options: Options) -> Solved:
    """Solve the linearised equations of the means at a solution, with the solution's points."""
    grid, known = base.grid, base.means
    every = {mean.name: mean.kind for item in engine.plan.ensembles for mean in item.means}
    means: Means = {
        name: known[name] if name in known else np.zeros((grid.size,) * (1 if kind == "one" else 2))
        for name, kind in every.items()
    }
    moving = pack(engine, {name: np.full(value.shape, name not in known) for name, value in means.items()}) > 0
    averages: tuple[Averages, ...] | None = None
    secants = Secants(effort.most)
    left = np.inf
    for count in range(1, effort.most + 1):
        averages = sweep(engine, grid, means, design, averages)
        made = collect(averages)
        weights = weigh(engine, grid, made)
        before, after = pack(engine, means), pack(engine, made)
        residual = np.where(moving, after - before, 0.0)
        left = float(np.abs(residual * weights).max(initial=0.0))
        if not math.isfinite(left):
            raise SolverError("the linearised equations of the means do not stay finite")
        image = (before + improve(engine, means, residual, averages, weights))[moving]
        vector = before.copy()
        vector[moving] = secants.next(before[moving], image, weights[moving])
        means = unpack(engine, vector, {name: known.get(name, made[name]) for name in means})
        logger.info("derivatives: sweep %d, residual %.2g", count, left)
        if left <= effort.stop * options.rtol:
            break
    assert averages is not None
    return Solved(grid, means, engine.kernels(grid, means), averages, secants, USUAL.leaves * left)


def _ways(engine: Engine, solved: Solved) -> list[str]:
    """Return the ways in which there may be more points."""
    rough = [item for item in solved.averages if item.choice.layout.kind != "cubic"]
    ways = ["sample"] if any(item.choice.layout.kind == "sample" for item in rough) else []
    if any(item.choice.layout.kind == "sparse" and item.paths.plan.noises for item in rough):
        ways += ["modes", "sharp"]
    if any(engine.laws[name].has_density for item in rough for name in item.paths.plan.constants):
        ways.append("constants")
    return ways


def _finer(level: Level, ways: list[str], number: int) -> Level:
    for way in ways:
        if way == "sharp" and number % 2:
            continue
        level = refine(level, way, None if number == 1 else 7.5)
    return level


def _other_panels(judge: Judge, solved: Solved) -> Errors:
    """Return the errors of the panels: how far sweeps on panels of another order, balanced, move everything.

    Modes, points and paths are carried there, so that nothing but the panels differs.
    """
    engine, old = judge.engine, solved.grid.panels
    assert old is not None
    order = old.order + 1 if old.order < 8 else old.order - 1
    position = np.linspace(0, old.panels, math.ceil(1.1 * old.size / order) + 1)
    grid = OperatorGrid.from_panels(PanelGrid(np.interp(position, np.arange(old.panels + 1), old.edges), order))
    means = transfer(solved.means, engine.responses, solved.grid, grid)
    forward = old.interpolation(grid.nodes)
    swept: Any = tuple(_carried(item, forward) for item in solved.averages)
    other = Solved(grid, means, engine.kernels(grid, means), solved.averages, Secants(1), 0.0)
    here = collect(sweep(engine, solved.grid, solved.means, Design(solved.averages[0].choice.level), solved.averages))
    asked = {name: here[name] - value for name, value in solved.means.items()}  # what the points ask for is not the panels'
    points = pack(engine, transfer(asked, engine.responses, solved.grid, grid))
    for _ in range(2):
        swept = sweep(engine, grid, other.means, Design(solved.averages[0].choice.level), swept)
        image, weights = collect(swept), weigh(engine, grid, other.means)
        before = pack(engine, other.means)
        residual = pack(engine, {name: image[name] for name in other.means}) - before - points
        moved = unpack(engine, before + improve(engine, other.means, residual, swept, weights), image)
        other = replace(other, means=moved, kernels=engine.kernels(grid, moved), averages=swept)
    return judge.differ(solved, other)


@dataclass(frozen=True, eq=False)
class _Guess:
    """Paths on another grid, as far as a sweep begins with them."""

    unknowns: Array


@dataclass(frozen=True, eq=False)
class _Carried:
    """Modes, points and paths on another grid."""

    choice: Choice
    paths: _Guess


def _carried(item: Averages, forward: Array) -> _Carried:
    width = forward.shape[1]
    factors = tuple(np.kron(np.eye(len(factor) // width), forward) @ factor for factor in item.choice.factors)
    return _Carried(replace(item.choice, factors=factors), _Guess(np.einsum("ij,ujp->uip", forward, item.paths.unknowns)))


def _attached(result: Result, engine: Engine, found: Solved, errors: Errors, options: Options) -> Result:
    """Return the result with every curve and kernel that it does not have yet."""
    curves = Judge(engine, options).curves(found)
    data, grid = result.dataset.copy(deep=False), result.grid
    assert grid is not None
    responses = set(curves.values)
    for name, values in {**curves.single, **curves.tables, **curves.values}.items():
        if name in data:
            continue
        if values.ndim == 1:
            data[name], data[name + "_error"] = ("t", values), ("t", errors[name])
        elif "row" in data.coords and data.sizes["row"] == len(values):
            shown = np.tril(values) if name in responses else values
            data[name] = (("row", "column"), shown, {"symmetric": int(name not in responses)})
            data[name + "_error"] = (("row", "column"), errors[name])
    fields = {**result.__dict__, "dataset": data}
    fields["stats"] = {**result.stats, "sweeps of derivatives": engine.work.sweeps}
    return type(result)(fields.pop("dataset"), **fields)
