"""Aging of the spherical p-spin glass (p = 3) after a quench.

(a) C(t_w + τ, t_w) at T = 0.5: the older the system, the longer it stays at the plateau q (dashed). (b) Integrated response
χ(t, t') = ∫_{t'}^t R(t, s) ds against C(t, t'): slope −1/T above q, as in equilibrium, and −X/T below (dashed: the closed
form), the effective temperature T/X. (c) Energy at T = 0 above its threshold −√(2(p − 1)/p), beside t^(−2/3) (dotted).
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.optimize import brentq

import eqsolve
from eqsolve.plotting.paper import colours, curve, label_panels, panels

PAPER = "Cugliandolo & Kurchan 1993, Analytical solution of the off-equilibrium dynamics of a long-range spin-glass model"
FIELD = "glasses"
P, T = 3, 0.5
THRESHOLD = -((2 * (P - 1) / P) ** 0.5)
Q = brentq(lambda q: P * (P - 1) / 2 * q ** (P - 2) * (1 - q) ** 2 - T**2, (P - 2) / P, 1)  # plateau, closed form
X = (P - 2) * (1 - Q) / Q  # T/X: the effective temperature


def susceptibility(result, t):
    """C(t, t') and χ(t, t') for one t, by Gauss rules between times graded from both ends."""
    lags = np.concatenate([[0.0], np.geomspace(1e-2, t / 2, 60)])
    edges = np.concatenate([lags, (t - lags)[-2::-1]])
    nodes, weights = np.polynomial.legendre.leggauss(6)
    lag = edges[:-1, None] + np.diff(edges)[:, None] * (nodes + 1) / 2
    response = result.at2(np.stack([np.full(lag.size, t), t - lag.ravel()], axis=1))["R"].values.reshape(lag.shape)
    parts = np.sum(response * weights / 2, axis=1) * np.diff(edges)
    found = result.at2(np.stack([np.full(len(edges), t), t - edges], axis=1))
    return found["C"].values, np.concatenate([[0.0], np.cumsum(parts)])


def extrapolate(times, energy):
    """Energy at infinite time from a + b t^(−2/3) + c t^(−4/3) over the last decade; error: without the last term."""
    late = times > times[-1] / 10
    power = times[late] ** (-2 / 3)
    ends = [np.polynomial.Polynomial.fit(power, energy[late], order).convert().coef[0] for order in (1, 2)]
    return ends[1], abs(ends[1] - ends[0])


def compute(run):
    last, waits, cold = run.pick((60.0, [1.0, 3.0, 10.0], 60.0), (3e4, [10.0, 1e2, 1e3, 1e4], 1e4))
    settings = {"p": P, "rtol": run.pick(1e-2, 1e-3), "solver": "aging"}
    result = eqsolve.solve("pspin", T=T, t_max=last, kernels=True, **settings)
    moments, lags = np.geomspace(1.0, cold, 120), np.geomspace(1e-2, last - waits[-1], 120)
    found = result.at2(np.array([(w + lag, w) for w in waits for lag in lags]))
    C, chi = susceptibility(result, last)
    quench = eqsolve.solve("pspin", T=0, t_max=cold, **settings).at(moments)
    end, error = extrapolate(moments, quench["energy"].values)
    old = np.abs(C / Q - 0.6) < 0.3
    slope = -np.polyfit(C[old], chi[old], 1)[0]
    run.note(f"Energy at T = 0 extrapolated from t ≤ {cold:g}: {end:.5f} ± {error:.0e} (threshold {THRESHOLD:.5f}).")
    run.note(f"X/T at t = {last:g}: {slope:.4f} (long times: {X / T:.4f}). Error of C: {float(found['C_error'].max()):.0e}.")
    data = {"aged": (("wait", "lag"), found["C"].values.reshape(len(waits), -1)), "C": ("place", C), "chi": ("place", chi)}
    data |= {"energy": ("t", quench["energy"].values), "error": ("t", quench["energy_error"].values)}
    return xr.Dataset(data, {"t": moments, "wait": waits, "lag": lags}, {"end": end, "slope": slope})


def draw(data):
    figure, axes = panels(1, 3, height=2.5)
    for wait, colour in zip(data["wait"].values, colours(data.sizes["wait"]), strict=True):
        curve(axes[0], data["lag"], data["aged"].sel(wait=wait), color=colour, label=f"$t_w = {wait:g}$")
    axes[0].axhline(Q, ls="--", color="k", lw=0.7)
    axes[0].set(xscale="log", xlabel=r"$\tau$", ylabel=r"$C(t_w + \tau, t_w)$", ylim=(0, 1.02))
    axes[0].legend()
    curve(axes[1], data["C"], data["chi"], color="C0")
    axes[1].plot([1, Q, 0], [0, (1 - Q) / T, (1 - Q) / T + X * Q / T], "--", color="k", lw=0.7)
    axes[1].set(xlabel="$C(t, t')$", ylabel=r"$\chi(t, t')$", xlim=(0, 1), ylim=(0, None))
    above = data["energy"].values - THRESHOLD
    curve(axes[2], data["t"], above, data["error"], color="C0")
    axes[2].plot(data["t"], 1.5 * above[-1] * (data["t"] / data["t"][-1]) ** (-2 / 3), ":", color="k", label="$t^{-2/3}$")
    axes[2].set(xscale="log", yscale="log", xlabel="$t$", ylabel=r"$E(t) - E_{\mathrm{th}}$, $T = 0$")
    axes[2].legend()
    label_panels(axes)
    return figure
