"""Communities of many species with random interactions: survivors, abundances, and the chaotic phase.

(a) Share of surviving species against the spread σ of interactions; each line ends where rest loses its stability, at
σ = √2/(1 + γ), half of the species surviving. (b) Law of the abundances, a Gaussian cut at zero (γ = 0, σ = 1). (c) Beyond √2,
with immigration, they fluctuate for ever: C(τ)/C(0) at σ = 2, ι = 0.01. Points: communities of finite size.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from _finite_size import community
from scipy.optimize import brentq
from scipy.stats import norm

import eqsolve
from eqsolve.plotting.paper import colours, curve, label_panels, panels, points

PAPER = (
    "Opper & Diederich 1992; Bunin 2017; Roy, Biroli, Bunin & Cammarota 2019, Ecological communities with random interactions"
)
FIELD = "ecology"
GAMMAS, MU = (-0.5, 0.0, 0.5), 4.0
LAGS, BINS = np.array([0.0, 1, 2, 4, 7, 10, 14, 18, 22]), np.linspace(0, 0.8, 9)


def at_rest(rest, name, sigma, gamma):
    """A number of the state at rest, or the share of species with N > 0: these respond, with 1/(1 − γσ²χ)."""
    res = eqsolve.solve(rest, sigma=sigma, gamma=gamma, mu=MU)
    return float(res["chi"] * (1 - gamma * sigma**2 * res["chi"]) if name == "survivors" else res[name])


def compute(run):
    rest, found, counts = eqsolve.load("lotka_volterra").long_time(), {}, {}
    shares = run.pick(np.array([0.05, 0.3, 0.6, 0.85, 1.0]), np.linspace(0.05, 1, 20).round(2))
    told = np.isin(shares, (0.3, 0.6, 0.85))
    edges = np.array([brentq(lambda s, g=g: at_rest(rest, "stability", s, g), 0.5 / (1 + g), 1.7 / (1 + g)) for g in GAMMAS])
    alive = np.array([[at_rest(rest, "survivors", u * s, g) for u in shares] for g, s in zip(GAMMAS, edges, strict=True)])
    size, draws, last = run.pick((100, 3, 60), (300, 8, 200))
    spreads = [(g, s * shares[told]) for g, s in zip(GAMMAS, edges, strict=True)]
    for n in (size, size // 2):
        found[n] = [[[np.mean(community(s, g, n, k, last) > 0) for s in row] for g, row in spreads] for k in range(draws)]
        samples = [np.histogram(community(1, 0, n, 50 + k, last), BINS)[0] for k in range(draws)]
        counts[n] = np.array(samples) / (n * np.diff(BINS))
    run.agree("survivors", alive[:, told].ravel(), 1e-6, found[size], found[size // 2])
    centre, width = 1 - MU * at_rest(rest, "m", 1, 0), at_rest(rest, "C", 1, 0) ** 0.5
    law = np.diff(norm.cdf((BINS - centre) / width)) / np.diff(BINS)
    run.agree("law of abundances", law, 1e-6, counts[size], counts[size // 2])
    C = eqsolve.stationary("lotka_volterra_immigration", sigma=2, mu=MU, rtol=run.pick(0.3, 0.03), progress=False).at(LAGS)
    C, tries, people, last = C / C["C"].values[0], *run.pick((3, 300, 100), (3, 1600, 120))
    again = {"influx": 0.01, "lags": LAGS, "step": 0.1}
    runs = [np.array([community(2, 0, n, k, last, **again) for k in range(tries)]) for n in (people, people // 2)]
    shapes = [rows / rows[:, :1] for rows in runs]
    run.agree("C(τ)/C(0), σ = 2", C["C"].values[1:], C["C_error"].values[1:], *(rows[:, 1:] for rows in shapes))
    worst = np.abs(edges - 2**0.5 / (1 + np.array(GAMMAS))).max(), np.abs(alive[:, -1] - 0.5).max()
    run.note(f"Rest is lost within {worst[0]:.0e} of √2/(1 + γ), where half of the species survive to {worst[1]:.0e}.")
    run.note(f"Points: {draws} communities of {size} species, in (c) {tries} of {people}.")
    data = {"alive": (("gamma", "share"), alive), "edge": ("gamma", edges), "counts": (("draw", "bin"), counts[size])}
    data |= {"C": ("lag", C["C"].values), "error": ("lag", C["C_error"].values), "chaos": (("try", "lag"), shapes[0])}
    data |= {"found": (("draw", "gamma", "place"), found[size]), "law": ("curve", [centre, width])}
    return xr.Dataset(data, {"gamma": list(GAMMAS), "share": shares, "place": shares[told], "lag": LAGS})


def draw(data):
    figure, axes = panels(1, 3, height=2.5)
    for g, colour in zip(GAMMAS, colours(3), strict=True):
        row = data.sel(gamma=g)
        curve(axes[0], row["share"] * row["edge"], row["alive"], color=colour, label=rf"$\gamma = {g:g}$")
        points(axes[0], row["place"] * row["edge"], row["found"], color=colour)
    axes[0].set(xlabel=r"$\sigma$", ylabel="share of survivors", ylim=(0.45, 1.02))
    x, middle = np.linspace(0, BINS[-1], 200), (BINS[1:] + BINS[:-1]) / 2
    curve(axes[1], x, norm.pdf(x, *data["law"].values), color="C0")
    points(axes[1], middle, data["counts"], color="C0")
    axes[1].set(xlabel="$N$", ylabel="density, $N > 0$", ylim=(0, None))
    curve(axes[2], LAGS, data["C"], data["error"], color="C0")
    points(axes[2], LAGS, data["chaos"], color="C0")
    axes[2].set(xlabel=r"$\tau$", ylabel=r"$C(\tau)/C(0)$, $\sigma = 2$", ylim=(0.5, 1.02))
    axes[0].legend()
    label_panels(axes)
    return figure
