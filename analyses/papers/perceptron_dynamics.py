"""The spherical perceptron out of equilibrium: relaxation with and without noise.

Soft constraints (a negative gap h costs h²/2), margin σ = 0, from random weights. (a) Energy per weight: without noise it
vanishes where all patterns can be satisfied (α < 2), and stays above zero beyond; with noise it tends to that of equilibrium
(dotted: the replica-symmetric free energy). (b) Overlap C(t, 0) with the start. Points: N weights at finite size.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from _finite_size import perceptron
from scipy.optimize import minimize_scalar
from scipy.stats import norm

import eqsolve
from eqsolve.plotting.paper import colours, curve, label_panels, panels, points

PAPER = "Agoritsas, Biroli, Urbani & Zamponi 2018, Out-of-equilibrium dynamical mean-field equations for the perceptron model"
FIELD = "learning"
SIGMA, CASES = 0.0, ((1.5, 0.0), (1.5, 0.3), (4.0, 0.0), (4.0, 0.3))  # margin; α and T


def equilibrium(alpha, temperature):
    """Energy per weight from the replica-symmetric free energy, extremal in the overlap q of two copies."""
    z, weights = np.polynomial.hermite_e.hermegauss(80)

    def mean_log(q, beta):
        centre, width = np.sqrt(q) * z - SIGMA, np.sqrt(1 - q)
        stiff = 1 + beta * width**2
        lacking = np.exp(-beta * centre**2 / (2 * stiff)) / np.sqrt(stiff) * norm.cdf(-centre / (width * np.sqrt(stiff)))
        return weights / weights.sum() @ np.log(norm.cdf(centre / width) + lacking)

    beta = 1 / temperature
    free = lambda q: (np.log(1 - q) + q / (1 - q)) / 2 + alpha * mean_log(q, beta)  # noqa: E731
    q = minimize_scalar(free, bounds=(0, 0.999), method="bounded").x
    return -alpha * (mean_log(q, beta * 1.0001) - mean_log(q, beta * 0.9999)) / (beta * 0.0002)


def compute(run):
    last, cases = run.pick((3.0, CASES[:2]), (8.0, CASES))
    times, told = np.linspace(0, last, 61), np.linspace(0, last, 13)
    size, draws = run.pick((200, 4), (300, 10))
    parts, errors, runs = ({"energy": [], "overlap": []} for _ in range(3))
    for alpha, T in cases:
        settings = {"alpha": alpha, "sigma": SIGMA, "T": T, "t_max": last, "kernels": True, "progress": False}
        found = eqsolve.solve("perceptron_langevin", rtol=run.pick(3e-2, 1e-2), **settings)
        one, two = found.at(times), found.at2(np.stack([times, 0 * times], axis=1))
        sets = [[perceptron(alpha, SIGMA, T, n, k, told) for k in range(draws)] for n in (size, size // 2)]
        for place, (name, there, key) in enumerate((("energy", one, "energy"), ("overlap", two, "C"))):
            full, half = (np.array(x)[:, place] for x in sets)
            values = there[key].values, there[f"{key}_error"].values, full
            for table, value in zip((parts, errors, runs), values, strict=True):
                table[name].append(value)
            run.agree(f"{name}, α = {alpha:g}, T = {T:g}", *(x[5::5] for x in values[:2]), full[:, 1:], half[:, 1:])
        if T:
            end, rest = parts["energy"][-1][-1], equilibrium(alpha, T)
            run.note(f"α = {alpha:g}, T = {T:g}: energy {end:.4f} at t = {last:g}, {rest:.4f} at equilibrium.")
    run.note(f"Points: {draws} perceptrons of N = {size}.")
    data = {name: (("case", "t"), rows) for name, rows in parts.items()}
    data |= {f"{name}_runs": (("case", "draw", "told"), rows) for name, rows in runs.items()}
    data |= {f"{name}_error": (("case", "t"), rows) for name, rows in errors.items()}
    return xr.Dataset(data, {"t": times, "told": told})


def draw(data):
    figure, axes = panels(1, 2, height=2.7)
    for (alpha, T), colour, place in zip(CASES, colours(len(CASES)), range(data.sizes["case"]), strict=False):
        row = data.isel(case=place)
        for panel, name in enumerate(("energy", "overlap")):
            style = {"color": colour, "label": rf"$\alpha = {alpha:g}$, $T = {T:g}$"}
            curve(axes[panel], data["t"], row[name], row[f"{name}_error"], **style)
            points(axes[panel], data["told"], row[f"{name}_runs"], color=colour)
        if T:
            axes[0].axhline(equilibrium(alpha, T), ls=":", color=colour, lw=0.8)
    axes[0].set(xlabel="$t$", ylabel="energy per weight", yscale="log")
    axes[1].set(xlabel="$t$", ylabel="$C(t, 0)$", ylim=(None, 1.02))
    axes[1].legend()
    label_panels(axes)
    return figure
