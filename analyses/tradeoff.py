"""Generalization against speed.

Test error of the fixed point against its convergence rate γ along α, δ = 0.5, λ = 0, for three
noise levels, P_* = Bernoulli(0.1). Without noise a smaller α is better and slower; with noise there is an α beyond
which nothing is lost by being faster.
"""

import numpy as np
import xarray as xr

import eqsolve
from eqsolve.plotting.paper import COLUMN, colours, curve, panels

ORDER = 23
PAPER = "the trade-off in Table 1"
NOISE = (0.0, 0.02, 0.05)


def compute(run):
    """Both along α."""
    alphas = np.geomspace(0.03, 3, run.pick(13, 33))
    tests, rates = [], []
    for sigma2 in NOISE:
        tests.append(eqsolve.follow("dln_fixed_point_min_norm", "alpha", alphas, delta=0.5, sigma2=sigma2)["E_test"].values)
        made = eqsolve.rate_curve("dln_rate", "alpha", alphas, delta=0.5, sigma2=sigma2)
        rates.append(np.asarray(made.rate if hasattr(made, "rate") else made["gamma"], dtype=float))
    return xr.Dataset(
        {"E_test": (("sigma2", "alpha"), tests), "gamma": (("sigma2", "alpha"), rates)},
        {"sigma2": list(NOISE), "alpha": alphas},
    )


def draw(data):
    """E_test − σ² over γ, with marks at a few α."""
    figure, (axes,) = panels(width=COLUMN)
    for colour, sigma2 in zip(colours(len(NOISE)), data["sigma2"].values, strict=True):
        one = data.sel(sigma2=sigma2)
        curve(axes, one["gamma"], one["E_test"] - sigma2, color=colour, label=rf"$\sigma^2 = {sigma2:g}$")
        for alpha in (0.1, 1.0):
            near = one.sel(alpha=alpha, method="nearest")
            axes.plot(near["gamma"], near["E_test"] - sigma2, "o", color=colour, ms=3.5)
            text = rf"$\alpha \approx {float(near['alpha']):.2g}$"
            box = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.8}
            place = (near["gamma"], near["E_test"] - sigma2)
            axes.annotate(text, place, (0, 6), textcoords="offset points", fontsize=6, ha="center", bbox=box, zorder=2)
    axes.set(xscale="log", xlabel=r"convergence rate $\gamma$", ylim=(0, None))
    axes.set(ylabel=r"$E_{\mathrm{test}}(\infty) - \sigma^2$")
    axes.legend()
    return figure
