"""Fixed points on real data.

δ = 0.5, λ = 0, σ² = 0, P_* = Bernoulli(0.1). Line: box (iii). Points: interpolators of least potential on random
100 × 200 blocks of whitened data, 10 draws (quick: 6), bars of one standard deviation.
"""

import numpy as np
import xarray as xr
from _real import D, blocks
from _shared import limits

import eqsolve
from eqsolve.plotting.paper import curve, panels, spread

ORDER = 17
MODEL = "dln_fixed_point_min_norm"


def compute(run):
    """The box, and limits on blocks of data."""
    _, block = blocks(run)
    alphas, places = np.geomspace(1e-2, 10, run.pick(25, 61)), np.array([0.03, 0.1, 0.3, 1.0, 3.0])
    path = eqsolve.follow(MODEL, "alpha", alphas, delta=0.5, sigma2=0)
    seeds = run.pick(6, 10)
    runs = np.array([limits(MODEL, D, seeds, data=block, alpha=a, delta=0.5)[:, 0] for a in places]).T
    half = np.array([limits(MODEL, D // 2, 2 * seeds, alpha=a, delta=0.5)[:, 0] for a in places]).T
    exact = [float(eqsolve.solve(MODEL, alpha=a, delta=0.5, sigma2=0)["E_test"]) for a in places]
    why = "Whitening uses a finite number of samples, and features are not independent: no exact agreement is expected."
    run.agree("E_test on real data", exact, 0.0, runs, half, note=why)
    return xr.Dataset(
        {"E_test": ("alpha", path["E_test"].values), "runs": (("draw", "place"), runs)}, {"alpha": alphas, "place": places}
    )


def draw(data):
    """E_test over α."""
    figure, (axes,) = panels()
    curve(axes, data["alpha"], data["E_test"], color="k", label="theory, box (iii)")
    spread(axes, data["place"], data["runs"], color="#D55E00", label="real data, 100 × 200 (s.d.)")
    axes.set(xscale="log", xlabel=r"initialization $\alpha$", ylabel=r"$E_{\mathrm{test}}(\infty)$", ylim=(0, None))
    axes.legend(loc="lower right")
    return figure
