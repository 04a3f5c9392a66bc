"""Phase diagrams: boundaries as lines over one quantity in colours, the classes by name."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError, demand_known
from eqsolve.plotting.choose import read_ways
from eqsolve.plotting.style import COLOURS, LINE
from eqsolve.plotting.sweeps import plot_sweep

if TYPE_CHECKING:
    from eqsolve.results.diagram import PhaseDiagram

_WORDS = {
    "stability": "stability lost", "lyapunov": "Lyapunov exponent zero",
    "grows": "grows without bound", "vanishes": "correlations vanish", "ends": "fixed point ends",
}  # fmt: skip


def plot_diagram(diagram: "PhaseDiagram", names: tuple[str, ...], **given: Any) -> Any:
    """Draw one quantity, the boundaries over it, and the names of classes; return the axes."""
    ways = read_ways(**given)
    asked = [diagram.stats.get("observable"), "stability", "lyapunov", *diagram.names]
    names = names or tuple(name for name in asked if name in diagram.names)[:1]
    if len(names) != 1:
        raise UsageError(f"a diagram shows one of: {', '.join(diagram.names) or '(nothing)'}")
    demand_known(names, diagram.names, "`{}` is not in the diagram", "to draw there are")
    dims = [str(dim) for dim in diagram.classes.dims]
    axes = plot_sweep(diagram, names, replace(ways, kind="map" if len(dims) == 2 else None))
    dims.sort(key=lambda dim: dim != ways.x)
    points = diagram.boundaries
    word: str | None
    for (kind, word), colour in zip(_WORDS.items(), COLOURS[1:6], strict=True):
        part = points.isel(boundary=points["kind"].values == kind)
        if len(dims) == 1:
            for place in part[dims[0]].values:
                axes.axvline(place, color=colour, lw=LINE, ls="--", label=word)
                word = None
        elif part.sizes["boundary"]:
            pieces = _pieces(diagram, [part[dim].values for dim in dims], dims)
            axes.plot(*pieces, color=colour, lw=1.5 * LINE, label=word, solid_capstyle="round")
    for name in dict.fromkeys(diagram.classes.values.ravel()) if len(dims) == 2 else ():
        cells = np.argwhere(diagram.classes.transpose(*dims).values == name)
        inside = cells[np.argmin(np.abs(cells - np.median(cells, axis=0)).sum(axis=1))]
        place = [diagram.dataset[dim].values[at] for dim, at in zip(dims, inside, strict=True)]
        box = {"boxstyle": "round,pad=0.2", "fc": "white", "alpha": 0.75, "lw": 0}
        axes.text(*place, name, fontsize=8, ha="center", va="center", bbox=box)
    if axes.get_legend_handles_labels()[0]:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.16), "ncols": 2}
        axes.legend(fontsize=8, frameon=False, **below)
    return axes


def _pieces(diagram: "PhaseDiagram", columns: list[Any], dims: list[str]) -> Any:
    """Return lines between points in or beside one cell that have no other between them."""
    grids = [np.sort(diagram.dataset[dim].values) for dim in dims]
    numbers = [np.arange(len(grid)) for grid in grids]
    cells = [np.interp(*each) for each in zip(columns, grids, numbers, strict=True)]
    apart = [np.abs(np.subtract.outer(it, it)) for it in cells]
    far = np.hypot(*apart)
    between = [(np.maximum(far[k], far[:, k, None]) < far - 1e-9) for k in range(len(far))]
    near = np.argwhere(np.triu((np.maximum(*apart) <= 1 + 1e-9) & ~np.any(between, axis=0), 1))
    gaps = np.full((len(near), 1), np.nan)
    return [np.hstack([column[near], gaps]).ravel() for column in columns]
