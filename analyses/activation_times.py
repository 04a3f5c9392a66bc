"""Activation times: incremental learning.

Left: infinite data, time at which a coordinate reaches half of its final value |w*| − λ, for |w*| = 1 and 0.6, λ = 0.2:
larger targets are learnt first; dashed: slope 2/(|w*| − λ) in log(1/α). Right: δ = 0.5, λ = 0, quantiles of the times at
which coordinates with w* = 1 reach 0.1, from the paths of the DMFT system; dashed: slopes t_c from |∫g| − λt_c = 2 on every
path (quantiles at the smallest α).
"""

import math

import numpy as np
import xarray as xr

import eqsolve
from eqsolve.phases import activation_times, crossing
from eqsolve.plotting.paper import label_panels, panels

ORDER = 33
LAM = 0.2
TARGETS = (1.0, 0.6)
SHARES = (0.1, 0.25, 0.5)


def infinite(run, alphas):
    """Return the times for two targets."""
    rows = []
    for target in TARGETS:
        times = []
        for alpha in alphas:
            last = 3 * 2 * math.log(1 / alpha) / (target - LAM)
            law = f"Point({target})"
            solved = eqsolve.solve("dln_infinite_data", alpha=alpha, lam=LAM, w_star=law, t_max=last, rtol=1e-6)
            t = np.linspace(0, last, 3000)
            times.append(crossing(t, solved.at(t)["w_mean"].values, (target - LAM) / 2))
        slope = float(np.polyfit(np.log(1 / alphas), times, 1)[0])
        run.note(f"Infinite data, |w*| = {target:g}: slope {slope:.4f}, expected {2 / (target - LAM):.4f}.")
        rows.append(times)
    return rows


def quantiles(times, weights):
    """Return weighted quantiles; paths that are not activated in time come last."""
    order = np.argsort(np.where(np.isnan(times), np.inf, times))
    return times[order][np.searchsorted(np.cumsum(weights[order]) / weights.sum(), SHARES)]


def compute(run):
    """Times with infinite data, and their quantiles with finite data."""
    alphas = np.geomspace(1e-4, 1e-2, run.pick(4, 9))
    small, reached, predicted = np.array(run.pick([1e-3, 1e-2], [1e-4, 1e-3, 1e-2])), [], []
    for place, alpha in enumerate(small):
        run.report(place, len(small), f"alpha = {alpha:g}")
        res = eqsolve.solve("dln_descent", alpha=alpha, delta=0.5, t_max=run.pick(3, 4), rtol=2e-2, atol=1e-3)
        active = res["w_star"].values == 1
        weights = res["weight"].values[active]
        reached.append(math.log(1 / alpha) * quantiles(activation_times(res, "w", 0.1)[active], weights))
        predicted.append(quantiles(activation_times(res, "growth", 2)[active], weights))
    slopes = np.polyfit(np.log(1 / small), np.array(reached), 1)[0]
    for share, slope, formula in zip(SHARES, slopes, predicted[0], strict=True):
        run.note(f"δ = 0.5, quantile {share:g}: slope {slope:.3f}, implicit formula {formula:.3f}.")
    content = {
        "time": (("target", "alpha"), infinite(run, alphas)),
        "reached": (("small", "share"), reached),
        "predicted": (("small", "share"), predicted),
    }
    return xr.Dataset(content, {"target": list(TARGETS), "alpha": alphas, "small": small, "share": list(SHARES)})


def draw(data):
    """Times over α."""
    figure, axes = panels(1, 2)
    a = data["alpha"].values
    for colour, target in zip(("#0072B2", "#D55E00"), data["target"].values, strict=True):
        time = data["time"].sel(target=target).values
        axes[0].plot(a, time, "o", color=colour, ms=4, label=rf"$|w^*| = {target:g}$")
        axes[0].plot(a, time[-1] + 2 / (target - LAM) * np.log(a[-1] / a), "--", color=colour, lw=0.9)
    small = data["small"].values
    for colour, share in zip(("#0072B2", "#009E73", "#D55E00"), data["share"].values, strict=True):
        time, slope = data["reached"].sel(share=share).values, float(data["predicted"].sel(share=share)[0])
        axes[1].plot(small, time, "o", color=colour, ms=4, label=f"{100 * share:.0f}% of the coordinates")
        axes[1].plot(small, time[-1] + slope * np.log(small[-1] / small), "--", color=colour, lw=0.9)
    for panel in axes:
        panel.set(xscale="log", xlabel=r"initialization $\alpha$", ylabel="activation time", ylim=(0, None))
        panel.legend()
    label_panels(axes)
    axes[0].set_title(r"infinite data, $\lambda = 0.2$")
    axes[1].set_title(r"$\delta = 0.5$, $\lambda = 0$, $w^* = 1$")
    return figure
