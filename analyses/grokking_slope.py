"""The time of the transition grows as (2/λ) log α.

Half-rise time of the training error, found by the phase finder, against log α at λ = 0.5, δ = 0.5, σ² = 0; dashed:
slope 2/λ. Bars: uncertainty of the phase finder.
"""

import math

import numpy as np
import xarray as xr

import eqsolve
from eqsolve.phases import Transition, find_phases
from eqsolve.plotting.paper import panels

ORDER = 31
LAM = 0.5


def compute(run):
    """Transitions from several starts."""
    alphas, found = np.array(run.pick([5.0, 10.0], [10.0, 100.0, 1e3, 1e4])), []
    for place, alpha in enumerate(alphas):
        run.report(place, len(alphas))
        t = np.linspace(0.3, 2 * math.log(alpha) / LAM + 8, 400)
        solved = eqsolve.solve("dln", delta=0.5, lam=LAM, alpha=float(alpha), t_max=t[-1], rtol=3e-2, atol=1e-3)
        curve = solved.at(t)
        phases = find_phases((t, curve["E_train"].values, curve["E_train_error"].values), log=False)
        move = [item for item in phases if isinstance(item, Transition)][-1]
        found.append((move.time, move.error))
    slope = float(np.polyfit(np.log(alphas), np.array(found)[:, 0], 1)[0])
    run.note(f"Fitted slope: {slope:.3f}; 2/λ = {2 / LAM:g}.")
    return xr.Dataset({"time": (("alpha", "part"), found)}, {"alpha": alphas}, {"slope": slope})


def draw(data):
    """Times over log α."""
    figure, (axes,) = panels()
    a, (time, error) = data["alpha"].values, data["time"].values.T
    axes.errorbar(a, time, error, fmt="o", color="#0072B2", ms=4, capsize=2, label="phase finder")
    axes.plot(a, time[0] + 2 / LAM * np.log(a / a[0]), "k--", lw=0.9, label=r"slope $2/\lambda$")
    axes.set(xscale="log", xlabel=r"initialization $\alpha$", ylabel="time of the transition")
    axes.set_xticks(a, [f"{value:g}" for value in a])
    axes.set_xlim(0.8 * a[0], 1.25 * a[-1])
    axes.minorticks_off()
    axes.legend()
    return figure
