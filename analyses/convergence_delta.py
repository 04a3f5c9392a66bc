"""Convergence of the training error for δ = 2 and δ = 0.5.

λ = 0, P_* = Bernoulli(0.1), σ² = 0. Thin lines: gradient flow at d = 500, 3 draws (quick: 200, 2). Dashed:
slope of the theory, t^(−3/2) e^(−2γt). Time is in units of 1/(2γ).
"""

import xarray as xr
from _convergence import compute_convergence, draw_convergence

from eqsolve.plotting.paper import label_panels, panels

ORDER = 12
PAPER = "Figure 13"


def compute(run):
    """Both ratios."""
    size, alphas = run.pick((200, 2), (500, 3)), run.pick([0.5, 2.0], [0.1, 0.3, 1.0, 3.0])
    both = [compute_convergence(run, delta, 0.0, alphas, size=size) for delta in (2.0, 0.5)]
    return xr.concat(both, "delta", combine_attrs="drop_conflicts").assign_coords(delta=[2.0, 0.5])


def draw(data):
    """One panel per ratio."""
    figure, axes = panels(1, 2)
    for panel, delta in zip(axes, data["delta"].values, strict=True):
        draw_convergence(data.sel(delta=delta), panel, r"$E_{\mathrm{train}}(t)$")
    label_panels(axes)
    for panel, delta in zip(axes, data["delta"].values, strict=True):
        panel.set_title(rf"$\delta = {delta:g}$")
    return figure
