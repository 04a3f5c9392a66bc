"""The common frame of convergence plots: training error at finite size against the slopes of the theory."""

import numpy as np
import xarray as xr
from _shared import flow_runs

import eqsolve
from eqsolve.plotting.paper import colours

POWER = -1.5  # of the time, for a square-root branch point


def compute_convergence(run, delta, sigma2, alphas, *, data="gaussian", size=(200, 2), level=1e-6):
    """Return E_train − E_train(∞) of every draw over time, and γ of the theory."""
    d, seeds = size
    gammas = [float(eqsolve.solve("dln_rate", alpha=a, delta=delta, sigma2=sigma2)["gamma"]) for a in alphas]
    t, curves = [], []
    for alpha, gamma in zip(alphas, gammas, strict=True):
        times = np.linspace(0, min(-np.log(level) / (2 * gamma), 1000.0), 60)[1:]
        ends = np.append(times, 1.5 * times[-1])
        found = flow_runs(ends, d, seeds, data=data, rtol=1e-9, alpha=alpha, delta=delta, sigma2=sigma2)
        train = found["E_train"]
        end = train[:, -1:] if sigma2 else np.zeros((len(train), 1))  # with noise and δ > 1 the error stays
        t.append(times)
        curves.append(np.abs(train[:, :-1] - end))
    return xr.Dataset(
        {"t": (("alpha", "k"), t), "E_train": (("alpha", "draw", "k"), curves), "gamma": ("alpha", gammas)},
        {"alpha": list(alphas)},
        {"d": d, "draws": seeds, "delta": delta, "sigma2": sigma2},
    )


def draw_convergence(data, axes, ylabel=r"$E_{\mathrm{train}}(t) - E_{\mathrm{train}}(\infty)$"):
    """Draws as thin lines, slopes t^{−3/2} e^{−2γt} dashed, tied to the mean of the draws at two thirds of the window."""
    for colour, alpha in zip(colours(data.sizes["alpha"]), data["alpha"].values, strict=True):
        one = data.sel(alpha=alpha)
        t, runs, gamma = one["t"].values, one["E_train"].values, float(one["gamma"])
        scale = 2 * gamma * t  # one unit of it is one factor e
        for run in runs:
            axes.plot(scale, np.where(run > 1e-13, run, np.nan), color=colour, lw=0.8, alpha=0.8)
        mean = np.exp(np.nanmean(np.log(np.maximum(runs, 1e-300)), axis=0))
        tie = len(t) // 3
        slope = (t / t[tie]) ** POWER * np.exp(-2 * gamma * (t - t[tie])) * mean[tie]
        axes.plot(scale[tie // 2 :], slope[tie // 2 :], "--", color="k", lw=0.9)
        axes.plot([], [], color=colour, label=rf"$\alpha = {alpha:g}$, $\gamma$ = {gamma:.3g}")
    axes.plot([], [], "--", color="k", lw=0.9, label=r"$t^{-3/2}\, e^{-2\gamma t}$")
    axes.set(yscale="log", xlabel=r"$2\gamma t$", ylabel=ylabel)
    axes.legend(loc="upper right")
