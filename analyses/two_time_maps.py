"""Correlation and response of two times.

Beyond the paper: C_w(t, t') and R_w(t, t') of the full DMFT system, α = 1, δ = 0.5, λ = 0.1, σ² = 0.01, P_* =
Bernoulli(0.1). The response is causal: zero above the diagonal. Nothing depends on t − t' alone: the network ages.
Near the diagonal, where the solver's own error of the response exceeds 0.1, it is left blank.
"""

import numpy as np
import xarray as xr

import eqsolve
from eqsolve.plotting.paper import label_panels, panels

ORDER = 21


def compute(run):
    """Both kernels on a square."""
    times = np.linspace(0.2, 8, run.pick(40, 79))
    solved = eqsolve.solve("dln", alpha=1, delta=0.5, lam=0.1, sigma2=0.01, t_max=8, rtol=run.pick(1e-2, 1e-3), kernels=True)
    pairs = [(a, b) for a in times for b in times]
    found = solved.at2(pairs)
    shape = (len(times), len(times))
    return xr.Dataset(
        {name: (("t", "s"), found[name].values.reshape(shape)) for name in ("C_w", "R_w", "R_w_error")},
        {"t": times, "s": times},
    )


def draw(data):
    """Two maps, each with its own scale."""
    figure, axes = panels(1, 2, height=2.9)
    shown = (data["t"].values[:, None] >= data["s"].values) & (data["R_w_error"].values < 0.1)
    for panel, name in zip(axes, ("C_w", "R_w"), strict=True):
        values = data[name].values if name == "C_w" else np.where(shown, data[name], np.nan)
        drawn = panel.pcolormesh(data["s"], data["t"], values, cmap="viridis", shading="nearest", rasterized=True)
        figure.colorbar(drawn, ax=panel, shrink=0.85)
        panel.set(xlabel="$t'$", ylabel="$t$", aspect="equal")
    label_panels(axes)
    for panel, title in zip(axes, ("$C_w(t, t')$", "$R_w(t, t')$"), strict=True):
        panel.set_title(title)
    return figure
