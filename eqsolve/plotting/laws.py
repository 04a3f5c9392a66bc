"""Drawings of laws: density or histogram, atoms as stems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.plotting.labels import written
from eqsolve.plotting.style import COLOURS, LINE, new_axes

if TYPE_CHECKING:
    from eqsolve.results.distribution import Distribution


def plot_law(
    law: Distribution, name: str | None, *, ax: Any, bins: Any, label: str | None, logy: bool = False, **style: Any
) -> Any:
    """Draw the law of one variable: the density if it is known, else a histogram; probabilities of atoms as stems."""
    axes = new_axes(ax)
    variable = name or law.names[0]
    histogram = law.histogram(bins, variable)
    try:
        where = np.linspace(histogram.edges[0], histogram.edges[-1], 801)
        density = law.density(where, variable)
        (line,) = axes.plot(where, density, label=label or "density", **{"color": COLOURS[0], "lw": LINE, **style})
        colour = line.get_color()
    except UsageError:
        colour = style.get("color", COLOURS[0])
        axes.stairs(histogram.density, histogram.edges, fill=True, label=label or "histogram",
                    **{"alpha": 0.5, **style, "color": colour})  # fmt: skip
    atoms = [(value, mass) for value, mass in law.atoms(variable) if mass > 1e-3]
    if 0 < len(atoms) <= 64:
        places, masses = zip(*atoms, strict=True)
        beside = axes.twinx()
        beside.vlines(places, 0, masses, colors=colour, linewidth=2)
        beside.plot(places, masses, "o", color=colour)
        beside.set(ylim=(0, 1.05), ylabel="probability of atoms")
    axes.set(xlabel=written(variable, {}), ylabel="density", yscale="log" if logy else "linear")
    axes.spines[["top"]].set_visible(False)
    return axes
