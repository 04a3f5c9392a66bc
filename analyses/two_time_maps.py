"""Correlation and response of two times.

Beyond the paper: C_w(t, t') and R_w(t, t') of the full DMFT system, α = 1, δ = 0.5, λ = 0.1, σ² = 0.01, P_* =
Bernoulli(0.1). The response is causal: zero above the diagonal. Nothing depends on t − t' alone: the network ages. Where the
solver's own error of the response exceeds 0.05, close to the diagonal, it is interpolated to its value there,
R_w(t, t) = E[√(w² + α⁴ e^(−2λt))]/δ.
"""

import numpy as np
import xarray as xr
from scipy.interpolate import PchipInterpolator
from sympy import exp, sqrt

import eqsolve
from eqsolve.plotting.paper import label_panels, panels

ORDER = 21


def compute(run):
    """Both kernels on a square."""
    dln = eqsolve.load("dln")
    w, t, alpha, lam, delta = dln.symbols("w t alpha lam delta")
    jump = eqsolve.E(sqrt(w(t) ** 2 + alpha**4 * exp(-2 * lam * t))) / delta  # of the response, at equal times
    network = dln.replace("dln_with_jump", observables={"R_w_diagonal": jump})
    settings = {"alpha": 1, "delta": 0.5, "lam": 0.1, "sigma2": 0.01, "t_max": 8, "rtol": run.pick(1e-3, 1e-4)}
    solved = eqsolve.solve(network, kernels=True, **settings)
    times = np.append(0.0, np.geomspace(0.05, 8, run.pick(41, 81)))
    pairs = [(a, b) for a in times for b in times]
    found = {name: solved.at2(pairs)[name].values.reshape(times.size, -1) for name in ("C_w", "R_w", "R_w_error")}
    response = _to_the_diagonal(times, found["R_w"], found["R_w_error"], solved.at(times)["R_w_diagonal"].values)
    content = {**found, "R_w": response}
    whole = xr.Dataset({name: (("t", "s"), values) for name, values in content.items()}, {"t": times, "s": times})
    return whole.isel(t=slice(1, None), s=slice(1, None))


def _to_the_diagonal(times, values, errors, diagonal):
    """Return the response below the diagonal, from what is known well and its value at equal times."""
    made = np.full_like(values, np.nan)
    for row in range(len(times)):
        errors[row, 0] = 0  # at the start nothing is continued across the diagonal
        known = np.flatnonzero(errors[row, :row] < 0.05)
        made[row, row] = diagonal[row]
        if row:
            inner = PchipInterpolator([*times[known], times[row]], [*values[row, known], diagonal[row]])
            made[row, :row] = np.where(errors[row, :row] < 0.05, values[row, :row], inner(times[:row]))
    return made


def draw(data):
    """Two maps, each with its own scale."""
    figure, axes = panels(1, 2, height=2.9)
    for panel, name in zip(axes, ("C_w", "R_w"), strict=True):
        drawn = panel.pcolormesh(data["s"], data["t"], data[name], cmap="viridis", shading="nearest", rasterized=True)
        figure.colorbar(drawn, ax=panel, shrink=0.85)
        panel.set(xscale="log", yscale="log", xlabel="$t'$", ylabel="$t$", aspect="equal")
    label_panels(axes)
    for panel, title in zip(axes, ("$C_w(t, t')$", "$R_w(t, t')$"), strict=True):
        panel.set_title(title)
    return figure
