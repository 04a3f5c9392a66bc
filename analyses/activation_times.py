"""Activation times with infinite data: incremental learning.

Time at which a coordinate reaches half of its final value |w*| − λ, against α, for |w*| = 1 and 0.6, λ = 0.2:
larger targets are learnt first. Lines: one-coordinate theory; dashed: slope 2/(|w*| − λ) in log(1/α).
"""

import math

import numpy as np
import xarray as xr

import eqsolve
from eqsolve.phases import crossing
from eqsolve.plotting.paper import panels

ORDER = 33
LAM = 0.2
TARGETS = (1.0, 0.6)


def compute(run):
    """Times for two targets."""
    alphas = np.geomspace(1e-4, 1e-2, run.pick(4, 9))
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
        run.note(f"|w*| = {target:g}: slope {slope:.4f}, expected {2 / (target - LAM):.4f}.")
        rows.append(times)
    return xr.Dataset({"time": (("target", "alpha"), rows)}, {"target": list(TARGETS), "alpha": alphas})


def draw(data):
    """Times over α."""
    figure, (axes,) = panels()
    a = data["alpha"].values
    for colour, target in zip(("#0072B2", "#D55E00"), data["target"].values, strict=True):
        time = data["time"].sel(target=target).values
        axes.plot(a, time, "o", color=colour, ms=4, label=rf"$|w^*| = {target:g}$")
        axes.plot(a, time[-1] + 2 / (target - LAM) * np.log(a[-1] / a), "--", color=colour, lw=0.9)
    axes.set(xscale="log", xlabel=r"initialization $\alpha$", ylabel="activation time", ylim=(0, None))
    axes.legend()
    return figure
