"""The slope of the rate: total, and at a fixed law.

Beyond the paper: dγ/dα for δ = 0.5, σ² = 0, P_* = Bernoulli(0.1). The paper's closed form holds the law of w fixed;
for δ < 1 it moves with α, and the closed form is only the partial derivative. Both are positive.
"""

import numpy as np
import xarray as xr

import eqsolve
from eqsolve.plotting.paper import curve, label_panels, panels

ORDER = 25


def compute(run):
    """Both derivatives along α."""
    alphas = np.geomspace(0.05, 3, run.pick(9, 25))
    solved = [eqsolve.solve("dln_rate", alpha=a, delta=0.5, sigma2=0) for a in alphas]
    total = [r.derivative("gamma", "alpha") for r in solved]
    fixed = [r.derivative("gamma", "alpha", fixed_law=True) for r in solved]
    return xr.Dataset({"total": ("alpha", total), "fixed": ("alpha", fixed)}, {"alpha": alphas})


def draw(data):
    """Derivatives, and their ratio."""
    figure, axes = panels(1, 2)
    axes[0].set(xscale="log", yscale="log", xlabel=r"initialization $\alpha$", ylabel=r"$d\gamma/d\alpha$")
    curve(axes[0], data["alpha"], data["total"], color="#0072B2", label="total")
    curve(axes[0], data["alpha"], data["fixed"], color="#D55E00", ls="--", label="law of w fixed")
    curve(axes[1], data["alpha"], data["fixed"] / data["total"], color="k")
    axes[1].set(xscale="log", xlabel=r"initialization $\alpha$", ylabel="fixed law / total", ylim=(0, 1.05))
    axes[0].legend()
    label_panels(axes)
    return figure
