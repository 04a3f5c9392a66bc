"""Drawings of laws: density or histogram, atoms as stems."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError

if TYPE_CHECKING:
    from eqsolve.results.distribution import Distribution

__all__ = ["plot_law"]


def plot_law(law: Distribution, name: str | None, *, axes: Any, bins: Any, label: str | None) -> Any:
    """Draw the law of one variable: the density if it is known, else a histogram; probabilities of atoms as stems."""
    if axes is None:
        from matplotlib.figure import Figure

        axes = Figure(layout="constrained").add_subplot()
    variable = name or law.names[0]
    histogram = law.histogram(bins, variable)
    try:
        where = np.linspace(histogram.edges[0], histogram.edges[-1], 801)
        (line,) = axes.plot(where, law.density(where, variable), label=label or "density")
        colour = line.get_color()
    except UsageError:
        patches = axes.stairs(histogram.density, histogram.edges, fill=True, alpha=0.4, label=label or "histogram")
        colour = patches.get_edgecolor()
    atoms = [(value, mass) for value, mass in law.atoms(variable) if mass > 1e-3]
    if 0 < len(atoms) <= 64:
        places, masses = zip(*atoms, strict=True)
        beside = axes.twinx()
        beside.vlines(places, 0, masses, colors=colour, linewidth=2)
        beside.plot(places, masses, "o", color=colour)
        beside.set(ylim=(0, 1.05), ylabel="probability of atoms")
    axes.set(xlabel=variable, ylabel="density")
    return axes
