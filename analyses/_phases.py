"""What the phase diagrams share: numbers of a diagram with a curve known otherwise, and their picture."""

from __future__ import annotations

import numpy as np

from eqsolve import PhaseDiagram, phase_diagram


def computed(run, model, axes, curve, across, **asked):
    """A diagram, and curve(x) at 60 places across it; how far they are apart where a boundary was looked for along y."""
    diagram = phase_diagram(model, axes, progress=False, **asked)
    places = np.linspace(float(diagram[across].min()), float(diagram[across].max()), 60)
    return diagram, diagram.dataset.assign_coords(line=places, known=("line", [curve(x) for x in places]))


def gap(diagram, kind, up, across, curve):
    """Largest distance upwards of the boundary of one kind from a curve, and how many points it has."""
    found = diagram.boundaries
    part = found.isel(boundary=(found["kind"].values == kind) & (found["along"].values == up))
    exact = np.array([curve(x) for x in part[across].values])
    return (float(np.abs(part[up].values - exact).max()) if exact.size else np.nan), exact.size


def draw_over(data, model, name, label, **latex):
    """The diagram, and the curve known otherwise dashed over it."""
    from eqsolve.plotting.paper import panels

    figure, (axes,) = panels(height=3.4, width=4.6)
    diagram = PhaseDiagram(data, model=model, kind="diagram", latex=latex)
    diagram.plot(name, ax=axes)
    limits = axes.get_xlim(), axes.get_ylim()
    axes.plot(data["line"], data["known"], "--", color="k", lw=1, label=label)
    axes.set(xlim=limits[0], ylim=limits[1])
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=7, frameon=False)
    return figure
