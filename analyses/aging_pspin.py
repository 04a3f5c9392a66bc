"""Aging of the spherical p-spin glass (p = 3, T = 0.5) after a quench, far beyond its fastest scale.

Left: the energy above its threshold value, beside the slope −2/3 (dotted). Middle: C(t, t') against t'/t for times a
factor of ten apart: below the plateau q (dashed) the curves approach one. Right: integrated response χ(t, t') =
∫_{t'}^t R(t, s) ds against C(t, t'): slope −1/T above q, as in equilibrium, and −X/T below, the effective temperature T/X.
"""

from __future__ import annotations

import numpy as np

import eqsolve

P, T = 3, 0.5
T_MAX, QUICK_T_MAX = 1e5, 60.0
RTOL = 1e-3


def threshold():
    """Plateau, effective temperature's factor X and energy of the threshold states (Cugliandolo & Kurchan 1993)."""
    from scipy.optimize import brentq

    q = brentq(lambda q: P * (P - 1) / 2 * q ** (P - 2) * (1 - q) ** 2 - T**2, (P - 2) / P, 1)
    x = (P - 2) * (1 - q) / q
    return q, x, -(1 - (1 - x) * q**P) / (2 * T)


def susceptibility(result, t):
    """t', C(t, t') and χ(t, t') for one t, by Gauss rules between times graded from both ends."""
    lags = np.concatenate([[0.0], np.geomspace(1e-2, t / 2, 60)])
    edges = np.concatenate([lags, (t - lags)[-2::-1]])
    nodes, weights = np.polynomial.legendre.leggauss(6)
    steps = np.diff(edges)
    lag = edges[:-1, None] + steps[:, None] * (nodes + 1) / 2
    response = result.at2(np.stack([np.full(lag.size, t), t - lag.ravel()], axis=1))["R"].values.reshape(lag.shape)
    parts = np.sum(response * weights / 2, axis=1) * steps
    found = result.at2(np.stack([np.full(len(edges), t), t - edges], axis=1))
    return t - edges, found["C"].values, np.concatenate([[0.0], np.cumsum(parts)])


def compute(run):
    """Energy with its error; t', C and χ at times a factor of ten apart."""
    import xarray as xr

    last = QUICK_T_MAX if run.quick else T_MAX
    result = eqsolve.solve("pspin", p=P, T=T, t_max=last, rtol=1e-2 if run.quick else RTOL, solver="aging", kernels=True)
    moments = np.geomspace(1.0, last, 150)
    energy = result.at(moments)
    waits = last / 10.0 ** np.arange(4 if last > 1e4 else 1)[::-1]
    rows = [susceptibility(result, t) for t in waits]
    _, _, limit = threshold()
    run.note(
        f"At t = {last:g} the energy is {energy['energy'].values[-1]:.6f} ± {energy['energy_error'].values[-1]:.1e}, "
        f"{energy['energy'].values[-1] - limit:.1e} above its threshold value {limit:.6f}."
    )
    data = {name: (("wait", "place"), [row[i] for row in rows]) for i, name in enumerate(("column", "C", "chi"))}
    data |= {"energy": ("t", energy["energy"].values), "error": ("t", energy["energy_error"].values)}
    return xr.Dataset(data, {"t": moments, "wait": waits})


def draw(data):
    """The three panels."""
    import matplotlib.pyplot as plt

    from eqsolve.plotting.paper import label_panels, panels

    q, x, limit = threshold()
    figure, axes = panels(1, 3, height=2.5)
    times = data["t"].values
    above = data["energy"].values - limit
    axes[0].loglog(times, above)
    axes[0].loglog(times, 1.5 * above[-1] * (times / times[-1]) ** (-2 / 3), ":", color="k", label=r"$t^{-2/3}$")
    axes[0].set(xlabel="$t$", ylabel=r"$E(t) - E_{\mathrm{th}}$", ylim=(above[-1] / 2, 1))
    axes[0].legend(fontsize=6)
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, data.sizes["wait"]))
    for wait, colour in zip(data["wait"].values, colours, strict=True):
        row = data.sel(wait=wait)
        axes[1].plot(row["column"] / wait, row["C"], color=colour, label=f"$t = 10^{{{np.log10(wait):.3g}}}$")
        axes[2].plot(row["C"], row["chi"], color=colour)
    axes[1].axhline(q, ls="--", color="k", lw=0.7)
    axes[1].set(xlabel="$t'/t$", ylabel="$C(t, t')$", xlim=(0, 1), ylim=(0, 1))
    axes[1].legend(fontsize=6)
    corner = (1 - q) / T
    axes[2].plot([1, q, 0], [0, corner, corner + x * q / T], "--", color="k", lw=0.7)
    axes[2].set(xlabel="$C(t, t')$", ylabel=r"$\chi(t, t')$", xlim=(0, 1), ylim=(0, None))
    label_panels(axes)
    return figure
