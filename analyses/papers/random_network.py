"""Chaos of random networks: correlations, and the largest Lyapunov exponent against the gain.

(a) Autocorrelation Δ(τ) of the local fields over its value at τ = 0, the solution of Δ'' = Δ − g²⟨tanh tanh⟩ that decays;
points: networks of finite size. (b) Largest Lyapunov exponent: g − 1 at rest; above g = 1 from the ground state of a
Schrödinger equation. Dashed: (g − 1)²/2, its law just above the transition.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from _finite_size import network

import eqsolve
from eqsolve.plotting.paper import colours, curve, label_panels, panels, points

PAPER = "Sompolinsky, Crisanti & Sommers 1988, Chaos in random neural networks"
FIELD = "neuroscience"
SHOWN = (1.2, 1.5, 2.0, 3.0)
LAGS = np.linspace(0, 25, 101)
TOLD = LAGS[::8]


def compute(run):
    """Theory at all gains, networks at some."""
    gains = np.array(run.pick([0.5, 0.8, 1.2, 1.3, 1.5, 2, 3], [0.5, 0.7, 0.9, 1.02, 1.05, 1.1, 1.2, 1.5, 1.75, 2, 2.5, 3]))
    found = {gain: eqsolve.stationary("rnn", gain=gain) for gain in gains}
    exponents = np.array([found[gain].lyapunov() for gain in gains])
    C, error = (np.array([found[g].at(LAGS)[name].values for g in SHOWN]) for name in ("C", "C_error"))
    size, draws, last = run.pick((400, 3, 50), (800, 8, 150))
    sets = {n: [[network(g, n, k, last, TOLD) for k in range(draws)] for g in SHOWN[1:]] for n in (size // 2, size)}
    for place, gain in enumerate(SHOWN[1:]):
        (full, half), row = ([sets[n][place] for n in (size, size // 2)]), place + 1
        run.agree(f"Δ(τ), g = {gain}", C[row, ::8], error[row, ::8], [m for m, _ in full], [m for m, _ in half])
        exponent = exponents[list(gains).index(gain)]
        run.agree(f"exponent, g = {gain}", *exponent, [[x] for _, x in full], [[x] for _, x in half])
    law = 2 * exponents[:, 0] / (gains - 1) ** 2
    near = np.flatnonzero(gains > 1)[:3]
    limit = 1 / np.polyval(np.polyfit(gains[near] - 1, 1 / law[near], 2), 0)
    edge = eqsolve.phase_diagram("rnn", gain=[0.5, 2], progress=False).boundaries["gain"].values
    run.note(f"Rest ends at g = {edge[0]:.7f}. Exponent at g = 2: {exponents[gains == 2][0, 0]:.8f} (0.1124581).")
    run.note(f"2λ/(g − 1)² at g → 1, extrapolated from g ≤ {gains[near[-1]]:g}: {limit:.3f} (1 in the paper).")
    run.note(f"Points: {draws} networks of N = {size}.")
    data = {"C": (("shown", "tau"), C), "error": (("shown", "tau"), error), "exponent": (("gain", "part"), exponents)}
    data["runs"] = ("above", "draw", "lag"), [[m for m, _ in row] for row in sets[size]]
    data["growth"] = ("above", "draw"), [[x for _, x in row] for row in sets[size]]
    coords = {"shown": list(SHOWN), "tau": LAGS, "gain": gains, "above": list(SHOWN[1:]), "lag": TOLD}
    return xr.Dataset(data, coords, {"limit": limit, "edge": float(edge[0])})


def draw(data):
    """Two panels."""
    figure, axes = panels(1, 2, height=2.6)
    for colour, gain in zip(colours(len(SHOWN)), SHOWN, strict=True):
        row = data.sel(shown=gain)
        scale = float(row["C"][0])
        curve(axes[0], LAGS, row["C"] / scale, row["error"] / scale, color=colour, label=f"$g = {gain:g}$")
        if gain in data["above"]:
            points(axes[0], TOLD, data["runs"].sel(above=gain) / scale, color=colour)
    axes[0].set(xlabel=r"$\tau$", ylabel=r"$\Delta(\tau)/\Delta(0)$", ylim=(-0.05, 1.02))
    axes[0].legend()
    g = np.linspace(1, 1.5, 40)
    place = np.searchsorted(data["gain"], data.attrs["edge"])
    line = (np.insert(values, place, at) for values, at in ((data["gain"], data.attrs["edge"]), (data["exponent"][:, 0], 0)))
    curve(axes[1], *line, color="C0")
    axes[1].plot(g, (g - 1) ** 2 / 2, "--", color="k", label="$(g - 1)^2/2$")
    points(axes[1], data["above"], data["growth"].T, color="C0", label="networks")
    axes[1].axhline(0, color="0.7", lw=0.7)
    axes[1].set(xlabel="$g$", ylabel="largest Lyapunov exponent")
    axes[1].legend()
    label_panels(axes)
    return figure
