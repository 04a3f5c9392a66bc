"""The lazy system is the limit of the network: difference against α.

Largest difference in E_test between the full DMFT system at λ = 0 in the time α² t and the closed form of the lazy
system, over α² t ≤ 10; δ = 0.5, σ² = 0, P_* = Bernoulli(0.1). It falls as α^(−4), fitted over α = 3, 5, 10. Bars: the
solver's own error estimate.
"""

import numpy as np
import xarray as xr

import eqsolve
from eqsolve.plotting.paper import panels

ORDER = 30


def compute(run):
    """Differences, and the power fitted to them."""
    alphas = np.array(run.pick([3.0, 5.0, 10.0], [3.0, 5.0, 10.0, 30.0]))
    times = np.linspace(0.1, 10, 60)
    closed = 0.1 * eqsolve.spectra.MarchenkoPastur(0.5).laplace(2 * times)
    dln = eqsolve.load("dln")
    faster = dln.rescale_time(dln.symbols("alpha") ** 2)
    gaps, errors = [], []
    for place, alpha in enumerate(alphas):
        run.report(place, len(alphas))
        solved = eqsolve.solve(faster, alpha=alpha, delta=0.5, t_max=10, rtol=run.pick(1e-5, 1e-7))
        read = solved.at(times)
        gaps.append(float(np.abs(read["E_test"].values - closed).max()))
        errors.append(float(read["E_test_error"].values.max()))
    power = float(np.polyfit(np.log(alphas[:3]), np.log(gaps[:3]), 1)[0])
    said = ", ".join(f"{gap:.2g} at α = {alpha:g}" for alpha, gap in zip(alphas, gaps, strict=True))
    run.note(f"Differences: {said}. Fitted power: α^({power:.2f}).")
    return xr.Dataset({"gap": ("alpha", gaps), "error": ("alpha", errors)}, {"alpha": alphas}, {"power": power})


def draw(data):
    """Differences on logarithmic axes with the line α^(−4)."""
    figure, (axes,) = panels()
    axes.errorbar(data["alpha"], data["gap"], data["error"], fmt="o", color="#0072B2", ms=4, capsize=2, label="full − lazy")
    a = data["alpha"].values
    axes.plot(a, float(data["gap"][0]) * (a / a[0]) ** -4, "k--", lw=0.9, label=r"$\alpha^{-4}$")
    axes.set(xscale="log", yscale="log", xlabel=r"initialization $\alpha$", ylabel=r"largest $|\Delta E_{\mathrm{test}}|$")
    axes.set_xticks(a, [f"{value:g}" for value in a])
    axes.tick_params(axis="x", which="minor", length=0, labelbottom=False)
    axes.legend()
    return figure
