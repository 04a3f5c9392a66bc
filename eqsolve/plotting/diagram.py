"""Phase diagrams: boundaries as lines over one quantity in colours, the classes by name."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError, demand_known
from eqsolve.plotting.choose import read_ways
from eqsolve.plotting.style import COLOURS, LINE
from eqsolve.plotting.sweeps import plot_sweep

if TYPE_CHECKING:
    from eqsolve.results.diagram import PhaseDiagram

_WORDS = {"stability": "stability lost", "lyapunov": "Lyapunov exponent zero", "grows": "grows without bound",
          "vanishes": "correlations vanish", "ends": "fixed point ends"}  # fmt: skip


def plot_diagram(diagram: PhaseDiagram, names: tuple[str, ...], **given: Any) -> Any:
    """Draw one quantity over the axes, the boundaries over it, and the name of each class where it is; return the axes."""
    from dataclasses import replace

    ways = read_ways(**given)
    chosen = [diagram.stats.get("observable"), "stability", "lyapunov", *diagram.names]
    names = names or tuple(name for name in chosen if name in diagram.names)[:1]
    if len(names) != 1:
        raise UsageError(
            "a phase diagram shows one quantity in colours" + ("" if names else ", and none was found at any point")
        )
    demand_known(names, diagram.names, "`{}` is not in the diagram", "to draw there are")
    dims = [str(dim) for dim in diagram.classes.dims]
    axes = plot_sweep(diagram, names, replace(ways, kind="map" if len(dims) == 2 else None))
    found = diagram.boundaries
    across = [dim for dim in dims if dim == ways.x] + [dim for dim in dims if dim != ways.x]
    for (kind, word), colour in zip(_WORDS.items(), ("white", *COLOURS[1:]), strict=False):
        part = found.isel(boundary=np.flatnonzero(found["kind"].values == kind))
        if not part.sizes["boundary"]:
            continue
        if len(dims) == 1:
            for place in part[dims[0]].values:
                axes.axvline(place, color="0.3" if colour == "white" else colour, lw=LINE, ls="--", label=word)
                word = None
            continue
        for piece in _pieces(diagram, part, dims):
            axes.plot(*(piece[:, dims.index(dim)] for dim in across), color=colour, lw=1.5 * LINE, label=word)
            word = None
    for name in dict.fromkeys(diagram.classes.values.ravel()) if len(dims) == 2 else ():
        cells = np.argwhere(diagram.classes.values == name)
        inside = cells[np.argmin(np.abs(cells - np.median(cells, axis=0)).sum(axis=1))]
        places = {dim: float(diagram.dataset[dim].values[at]) for dim, at in zip(dims, inside, strict=True)}
        box = {"boxstyle": "round,pad=0.2", "fc": "white", "alpha": 0.75, "lw": 0}
        axes.text(*(places[dim] for dim in across), name, fontsize=8, ha="center", va="center", bbox=box)
    if axes.get_legend_handles_labels()[0]:
        legend = axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=8, frameon=True)
        legend.get_frame().set(facecolor="0.75", edgecolor="none")
    return axes


def _pieces(diagram: PhaseDiagram, part: Any, dims: list[str]) -> list[Any]:
    """Return the lines of one kind of boundary: points on the sides of a cell of the grid are joined, the nearest first."""
    points = np.stack([part[dim].values for dim in dims], axis=1)
    edges = [np.sort(diagram.dataset[dim].values) for dim in dims]
    scaled = points / [np.ptp(axis) or 1.0 for axis in edges]
    cells: dict[tuple[int, ...], list[int]] = {}
    for index, point in enumerate(points):
        sides = []
        for axis, value in zip(edges, point, strict=True):
            right = int(np.searchsorted(axis, value))
            sides.append([right - 1, right] if right < len(axis) and axis[right] == value else [right - 1])
        for cell in itertools.product(*sides):
            cells.setdefault(cell, []).append(index)
    made = []
    for members in cells.values():
        while len(members) > 1:
            pairs = itertools.combinations(members, 2)
            one, two = min(pairs, key=lambda pair: float(np.sum((scaled[pair[0]] - scaled[pair[1]]) ** 2)))
            made.append(points[[one, two]])
            members = [index for index in members if index not in (one, two)]
    return made
