"""How far a solution would move: with more points in one way, or with points that share nothing with its own."""

from __future__ import annotations

from dataclasses import replace

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gaussian import refine
from eqsolve.solvers.paths.iterate import Correction, Solved, improve, iterate, pack, unpack, weigh
from eqsolve.solvers.paths.means import Averages
from eqsolve.solvers.paths.recording import recorded
from eqsolve.solvers.paths.sweep import Design, Engine, Means, collect, report, sweep


@recorded()
def other_points(engine: Engine, final: Solved, design: Design) -> Means:
    """Return the means that another set of points asks for: one sweep at the solution, and what its change acts back."""
    swept = sweep(engine, final.grid, final.means, design)
    moved = _balanced(engine, final, final.means, swept)
    if any(value.ndim == 1 for name, value in moved.items() if name in engine.fed):  # that improving leaves alone
        return _balanced(engine, final, moved, sweep(engine, final.grid, moved, design, swept))
    if len(engine.fed) < len(moved):  # what is only reported follows what acts back
        after = report(engine, final.grid, moved, design, swept)
        moved |= {name: value for name, value in after.items() if name not in engine.fed}
    return moved


def corrected(engine: Engine, few: Solved, final: Solved, design: Design, tolerance: float) -> Means:
    """Return the same, with the paths of a solution with few points to say how the means act back, in as many sweeps as
    these need."""
    grid = final.grid
    many, own = (collect(sweep(engine, grid, final.means, design, item)) for item in (None, few.averages))
    correction = Correction(few.averages, {name: value - own[name] for name, value in many.items()})
    return iterate(engine, grid, final.means, design, tolerance, few.how, correction).means


def _balanced(engine: Engine, final: Solved, means: Means, swept: tuple[Averages, ...]) -> Means:
    """Return the means that would be their own image, as far as the responses tell."""
    image = collect(swept)
    before, weights = pack(engine, means), weigh(engine, final.grid, means)
    residual = pack(engine, {name: image[name] for name in means}) - before
    return unpack(engine, before + _step(engine, final, means, residual, swept, weights), image)


def _step(engine: Engine, solved: Solved, means: Means, residual: Array, swept: tuple[Averages, ...], weights: Array) -> Array:
    """Return the change of the means that a residual asks for: by mean responses, or by what past sweeps taught."""
    if any(item.reacts for item in swept):
        return improve(engine, means, residual, swept, weights)
    return solved.secants.extrapolate(residual, residual, weights)


@recorded()
def probe(engine: Engine, solved: Solved, same: tuple[Averages, ...], design: Design, way: str) -> Means:
    """Return how far all means would move with more points in one way, or with modes chosen anew ("choice").

    ``same`` is a sweep with as many points, but modes chosen anew.
    """
    plain = collect(same)
    if way == "choice":
        used, direct = solved.averages, {name: value - solved.means[name] for name, value in plain.items()}
    else:
        used = sweep(engine, solved.grid, solved.means, replace(design, level=refine(design.level, way)))
        direct = {name: value - plain[name] for name, value in collect(used).items()}
    packed = _step(engine, solved, solved.means, pack(engine, direct), used, weigh(engine, solved.grid, solved.means))
    step = unpack(engine, packed, direct)
    fed = engine.fed
    aside = [name for name in step if name not in fed]
    if aside:  # what is only reported follows what acts back
        moved = {name: value + step[name] if name in fed else value for name, value in solved.means.items()}
        after = report(engine, solved.grid, moved, design, same)
        step |= {name: direct[name] + after[name] - plain[name] for name in aside}
    return step
