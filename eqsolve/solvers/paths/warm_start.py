"""Warm start: means of a solution at other parameters, on its panels, as a first guess.

The new solve finds its own errors there, and refines panels where they are too few.
"""

import hashlib
import math
from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.iterate import IterationControls, PathSolution
from eqsolve.solvers.paths.sweep import Engine, Means, Shapes
from eqsolve.solvers.paths.transfer import move_shapes, transfer

WARM_ITERATION = IterationControls(most=15, choose=(0.1,))
"""For a warm start: modes of the other solution, chosen once more at a residual of 0.1.

Where 15 sweeps do not converge, a start from the first panels is cheaper than more of them.
"""

_PACE = 4.0  # first time scales that differ by more: the panels of one say nothing about the other
_LEAST = 0.3  # least exponent by which time is stretched: with less the first panel is too long
_LAST = 0.3  # of a panel: what a cut leaves of it is joined to the panel before when it is shorter


@dataclass(frozen=True, eq=False)
class WarmStart:
    """A solution as the start of another."""

    grid: PanelGrid | tuple[float, ...]  # the nodes; panels, or the steps of a discrete time
    edges: Array  # of the panels that would do for the same solution, as times since the start
    rate: float  # the inverse of the first time scale
    means: Means  # that act back, on the nodes
    shapes: Shapes | None  # how much responses vary there
    observables: tuple[str, ...]  # that were solved for: others number their means otherwise
    sampled: bool = False  # whether few chosen paths did not do

    def __str__(self) -> str:
        digest = hashlib.sha256()
        for value in (_nodes(self.grid), *self.means.values(), *(form for shape in self.shapes or () for form in shape)):
            digest.update(np.ascontiguousarray(value).tobytes())
        return f"a solution ({digest.hexdigest()[:16]})"


@dataclass(frozen=True, eq=False)
class FirstGuess:
    """A first guess on a grid of one's own."""

    grid: OperatorGrid
    means: Means
    shapes: Shapes | None


def make_warm_start(engine: Engine, solved: PathSolution, rate: float, ratios: Array | None) -> WarmStart:
    """Return a warm start.

    ``rate`` is the inverse of the first time scale, ``ratios`` how much denser panels should be.
    """
    panels, means = solved.grid.panels, {name: solved.means[name] for name in solved.means if name in engine.fed}
    edges = np.empty(0)
    if panels is not None and ratios is not None:
        edges = panels.denser(ratios).edges - panels.edges[0]
    names = tuple(name for name, _ in engine.program.observables)
    sampled = any(layout.kind == "single" for layout in solved.layouts)
    return WarmStart(panels or tuple(solved.grid.nodes), edges, rate, means, solved.shapes, names, sampled)


def guess_from_warm_start(
    near: WarmStart, engine: Engine, options: Options, order: int, begin: float, rate: float
) -> FirstGuess | str:
    """Return the first guess that a warm start gives, or why it gives none."""
    if near.observables != tuple(name for name, _ in engine.program.observables):
        return "it was solved for other observables"
    kinds = {mean.name: mean.kind for mean in engine.means}
    ranks = {name: 1 if kind == "one" else 2 for name, kind in kinds.items()}
    if {name: value.ndim for name, value in near.means.items()} != {name: ranks[name] for name in kinds if name in engine.fed}:
        return "its equations have other means"
    nodes = _nodes(near.grid)
    if not math.isclose(nodes[0], begin, abs_tol=1e-12) or nodes[-1] < options.t_max * (1 - 1e-12):
        return f"it reaches from {nodes[0]:g} to {nodes[-1]:g}"
    if options.step is not None or not isinstance(near.grid, PanelGrid):
        if isinstance(near.grid, PanelGrid) or options.step is None:
            return "one of the two is in discrete time"
        grid = OperatorGrid.discrete(options.step, begin, options.t_max)
        if len(grid.nodes) > len(nodes) or not np.allclose(grid.nodes, nodes[: grid.size], rtol=1e-12, atol=0):
            return "it has another step"
        means = {name: value[(slice(grid.size),) * value.ndim] for name, value in near.means.items()}
        return FirstGuess(grid, _complete(means, kinds, grid.size), near.shapes if grid.size == len(nodes) else None)
    if not 1 / _PACE < rate / near.rate < _PACE:
        return f"its first time scale is {rate / near.rate:.3g} times the one here"
    old = OperatorGrid.from_panels(near.grid)
    edges = _edges_until(near.edges, options.t_max - begin, near.rate / rate)
    grid = OperatorGrid.from_panels(PanelGrid.ending_at(options.breaks, begin + edges, order))
    means = transfer(near.means, engine.responses, old, grid)
    return FirstGuess(grid, _complete(means, kinds, grid.size), move_shapes(near.shapes, engine.noises, old, grid))


def _complete(means: Means, kinds: dict[str, str], size: int) -> Means:
    """Return all means in the plan's order; those that are only reported come from the first sweep."""
    return {name: means.get(name, np.zeros((size,) * (1 if kind == "one" else 2))) for name, kind in kinds.items()}


def _edges_until(edges: Array, end: float, slower: float) -> Array:
    """Return panels until ``end``, times since the start, for a first scale ``slower`` times as long.

    They are cut, then stretched evenly in the logarithm of time: as many panels, the first one as
    its time scale asks for.
    """
    inside = edges[edges < end * (1 - 1e-12)]
    if len(inside) > 2 and end - inside[-1] < _LAST * (inside[-1] - inside[-2]):
        inside = inside[:-1]
    made = np.append(inside, end)
    if len(made) > 2:
        power = math.log(end / (made[1] * slower)) / math.log(end / made[1])
        made[1:-1] = end * (made[1:-1] / end) ** max(power, _LEAST)
    return made


def _nodes(grid: PanelGrid | tuple[float, ...]) -> Array:
    return grid.nodes if isinstance(grid, PanelGrid) else np.array(grid)
