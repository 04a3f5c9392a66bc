"""Smaller α is better only without noise.

Diagonal network without weight decay, δ = 0.5, P_* = Bernoulli(0.1). Without noise E_test grows with α; with σ² = 0.05
it has a minimum at α = 0.345, found here as a zero of the exact derivative dE_test/dα. Points with error bars: the
interpolators of least potential at d = 400, 8 draws (quick: 200, 4), bars of one standard error; the draws are the same at
every α, so that their deviations are common.
"""

import numpy as np
import xarray as xr
from _shared import limits
from scipy.optimize import brentq

import eqsolve
from eqsolve.plotting.paper import curve, label_panels, panels, points

ORDER = 22
MODEL = "dln_fixed_point_min_norm"
ALPHAS = np.geomspace(1e-2, 1e1, 61)
SIZES = (0.03, 0.1, 0.345, 1.0, 3.0)


def optimum(sigma2: float, low: float = 0.05, high: float = 3.0) -> tuple[float, float]:
    """Return the α at which E_test is least, and E_test there."""

    def slope(alpha: float) -> float:
        return eqsolve.solve(MODEL, alpha=alpha, sigma2=sigma2).derivative("E_test", "alpha")

    alpha = float(brentq(slope, low, high, xtol=1e-12))
    return alpha, float(eqsolve.solve(MODEL, alpha=alpha, sigma2=sigma2)["E_test"])


def curves() -> dict[float, np.ndarray]:
    """Return E_test over ALPHAS for each noise level."""
    return {s: eqsolve.follow(MODEL, "alpha", ALPHAS, sigma2=s)["E_test"].values for s in (0.0, 0.05)}


def compute(run):
    """Curves with and without noise, the optimum, and finite size."""
    d, seeds = run.pick((200, 4), (400, 8))
    alpha, value = optimum(0.05)
    run.note(f"Best α at σ² = 0.05: {alpha:.4f}, where E_test = {value:.5f}.")
    lines, draws = curves(), []
    for sigma2 in lines:
        runs, half = (
            np.array([limits(MODEL, n, k, alpha=a, sigma2=sigma2)[:, 0] for a in SIZES]).T
            for n, k in ((d, seeds), (d // 2, 2 * seeds))
        )
        exact = [float(eqsolve.solve(MODEL, alpha=a, sigma2=sigma2)["E_test"]) for a in SIZES]
        run.agree(f"E_test at σ² = {sigma2:g}", exact, 0.0, runs, half)
        draws.append(runs)
    return xr.Dataset(
        {"E_test": (("sigma2", "alpha"), list(lines.values())), "runs": (("sigma2", "draw", "place"), draws)},
        {"sigma2": list(lines), "alpha": ALPHAS, "place": list(SIZES)},
        {"d": d, "draws": seeds, "optimum": alpha},
    )


def draw(data):
    """Without noise on the left, with noise on the right."""
    figure, axes = panels(1, 2)
    for panel, sigma2 in zip(axes, data["sigma2"].values, strict=True):
        one = data.sel(sigma2=sigma2)
        curve(panel, data["alpha"], one["E_test"], color="#0072B2", label="theory, box (iii)")
        label = f"d = {data.attrs['d']}, {data.attrs['draws']} draws"
        points(panel, data["place"], one["runs"], color="#D55E00", label=label)
        if sigma2:
            panel.axvline(data.attrs["optimum"], color="0.5", ls=":", label=rf"best $\alpha$ = {data.attrs['optimum']:.3f}")
        panel.set(xscale="log", xlabel=r"initialization $\alpha$", ylabel=r"$E_{\mathrm{test}}(\infty)$")
        panel.set_title(rf"$\sigma^2 = {sigma2:g}$")
        panel.legend(loc="best" if sigma2 else "lower right")
    label_panels(axes)
    return figure
