"""Depth: networks of 2, 3 and 4 layers.

Beyond the paper: test error of the fixed point and convergence rate against α^L, the scale of a weight at the
start, δ = 0.5, λ = 0, σ² = 0, P_* = Bernoulli(0.1).
"""

import numpy as np
import xarray as xr

import eqsolve
from eqsolve.plotting.paper import colours, curve, label_panels, panels

ORDER = 24
LAYERS = (2, 3, 4)


def compute(run):
    """Both along the scale of the weights."""
    scales = np.geomspace(0.03, 3, run.pick(9, 25))
    tests, rates = np.empty((2, len(LAYERS), len(scales)))
    for row, layers in enumerate(LAYERS):
        for place, scale in enumerate(scales):
            run.report(row * len(scales) + place, len(LAYERS) * len(scales))
            settings = {"alpha": float(scale ** (1 / layers)), "delta": 0.5, "sigma2": 0, "L": layers}
            tests[row, place] = float(eqsolve.solve("dln_fixed_point_min_norm", **settings)["E_test"])
            rates[row, place] = float(eqsolve.solve("dln_rate", **settings)["gamma"])
    return xr.Dataset(
        {"E_test": (("L", "scale"), tests), "gamma": (("L", "scale"), rates)}, {"L": list(LAYERS), "scale": scales}
    )


def draw(data):
    """Error and rate."""
    figure, axes = panels(1, 2)
    axes[1].set_yscale("log")
    for colour, layers in zip(colours(len(LAYERS)), data["L"].values, strict=True):
        one = data.sel(L=layers)
        curve(axes[0], data["scale"], one["E_test"], color=colour, label=f"L = {layers}")
        curve(axes[1], data["scale"], one["gamma"], color=colour)
    axes[0].set(xscale="log", xlabel=r"$\alpha^L$", ylabel=r"$E_{\mathrm{test}}(\infty)$", ylim=(0, None))
    axes[1].set(xscale="log", xlabel=r"$\alpha^L$", ylabel=r"convergence rate $\gamma$")
    axes[0].legend()
    label_panels(axes)
    return figure
