"""Test error of the fixed point against the initialization.

Gradient flow without weight decay, δ = 0.5, σ² = 0, P_* = Bernoulli(0.1): box (iii), solved along α, against the
limits of the flow at d = 500 (quick: 200) over 10 draws (quick: 6), computed as interpolators of least potential.
Error bars: one standard deviation. Dashed: the limits α → 0 (ℓ1, basis pursuit; solved at α = 1e-4) and α → ∞ (ℓ2;
solved at α = 100).
"""

import numpy as np
import xarray as xr
from _shared import limits

import eqsolve
from eqsolve.plotting.paper import curve, panels, spread

ORDER = 2
PAPER = "Figure 2(a)"
MODEL = "dln_fixed_point_min_norm"


def compute(run):
    """Solve the box along α and draw finite-size limits."""
    alphas = np.geomspace(1e-2, 10, run.pick(31, 61))
    path = eqsolve.follow(MODEL, "alpha", alphas, delta=0.5, sigma2=0)
    places = np.array([0.03, 0.1, 0.3, 1.0, 3.0])
    d, seeds = run.pick((200, 6), (500, 10))
    runs = np.array([limits(MODEL, d, seeds, alpha=a, delta=0.5)[:, 0] for a in places]).T
    half = np.array([limits(MODEL, d // 2, 2 * seeds, alpha=a, delta=0.5)[:, 0] for a in places]).T
    solved = [eqsolve.solve(MODEL, alpha=a, delta=0.5, sigma2=0) for a in places]
    run.agree("E_test of the limit", [float(r["E_test"]) for r in solved], 0.0, runs, half)
    ends = [float(eqsolve.solve(MODEL, alpha=a, delta=0.5, sigma2=0)["E_test"]) for a in (1e-4, 100)]
    return xr.Dataset(
        {"E_test": ("alpha", path["E_test"].values), "runs": (("draw", "place"), runs), "ends": ("end", ends)},
        {"alpha": alphas, "place": places},
        {"d": d, "draws": seeds},
    )


def draw(data):
    """E_test over α on a logarithmic axis."""
    figure, (axes,) = panels()
    for end in data["ends"].values:
        axes.axhline(end, color="0.6", ls="--", lw=0.8)
    curve(axes, data["alpha"], data["E_test"], color="#0072B2", label="theory, box (iii)")
    label = f"d = {data.attrs['d']}, {data.attrs['draws']} draws (s.d.)"
    spread(axes, data["place"], data["runs"], color="#D55E00", label=label)
    axes.set(xscale="log", xlabel=r"initialization $\alpha$", ylabel=r"$E_{\mathrm{test}}(\infty)$", ylim=(0, None))
    axes.legend(loc="lower right")
    return figure
