"""The search phase is the limit of the network: difference against α.

Largest difference of E[W²], W = w/α², between the full DMFT system and the search system over t ≤ 1; δ = 0.5, λ =
0, σ² = 0, P_* = Bernoulli(0.1). Dashed: α². Bars: the solver's own error estimate.
"""

import numpy as np
import xarray as xr

import eqsolve
from eqsolve.plotting.paper import panels

ORDER = 32


def compute(run):
    """Differences for a few α."""
    dln = eqsolve.load("dln")
    alpha, t, w = dln.symbols("alpha t w")
    network = dln.replace("dln_small_weights", observables={"W2": eqsolve.E(w(t) ** 2) / alpha**4})
    alphas, times = np.array(run.pick([0.02, 0.04, 0.08], [0.01, 0.02, 0.04, 0.08])), np.linspace(0.1, 1.0, 30)
    limit = eqsolve.solve("dln_search", t_max=1, delta=0.5, rtol=1e-6).at(times)["W2"].values
    gaps, errors = [], []
    for place, value in enumerate(alphas):
        run.report(place, len(alphas))
        found = eqsolve.solve(network, alpha=value, delta=0.5, t_max=1, rtol=run.pick(1e-4, 1e-5)).at(times)
        gaps.append(float(np.abs(found["W2"].values - limit).max()))
        errors.append(float(found["W2_error"].values.max()))
    power = float(np.polyfit(np.log(alphas[:2]), np.log(gaps[:2]), 1)[0])
    run.note(f"Power between the two smallest α: {power:.2f}.")
    return xr.Dataset({"gap": ("alpha", gaps), "error": ("alpha", errors)}, {"alpha": alphas}, {"power": power})


def draw(data):
    """Differences on logarithmic axes."""
    figure, (axes,) = panels()
    a = data["alpha"].values
    axes.errorbar(a, data["gap"], data["error"], fmt="o", color="#0072B2", ms=4, capsize=2, label="full − search")
    axes.plot(a, float(data["gap"][0]) * (a / a[0]) ** 2, "k--", lw=0.9, label=r"$\alpha^2$")
    axes.set(xscale="log", yscale="log", xlabel=r"initialization $\alpha$", ylabel=r"largest $|\Delta E[W^2]|$")
    axes.set_xticks(a, [f"{value:g}" for value in a])
    axes.tick_params(axis="x", which="minor", length=0, labelbottom=False)
    axes.legend()
    return figure
