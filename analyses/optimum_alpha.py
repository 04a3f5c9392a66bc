"""Smaller α is better only without noise: E_test of the interpolator against α, its optimum, and finite size.

    python analyses/optimum_alpha.py [FILE.png]

Diagonal network without weight decay, δ = 0.5, P_* = Bernoulli(0.1). Without noise E_test grows with α; with σ² = 0.05
it has a minimum at α = 0.345, found here as a zero of the exact derivative dE_test/dα. Points with error bars: the
interpolators of least potential at d = 400, 8 draws. Takes about a minute of CPU.
"""

from __future__ import annotations

import sys

import numpy as np
from scipy.optimize import brentq

import eqsolve
from eqsolve.binding import bind
from eqsolve.microscopic.minimisers import finite_size

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


def confirm(sigma2: float, d: int = 400, seeds: int = 8) -> dict[float, tuple[float, float]]:
    """Return mean and standard error of E_test at finite size for a few α."""
    model = eqsolve.load(MODEL)
    return {
        alpha: finite_size(bind(model, {"alpha": alpha, "sigma2": sigma2}), d=d, seeds=seeds).mean("E_test")
        for alpha in SIZES
    }


def main(file: str = "optimum_alpha.png") -> None:
    """Print the optimum and the finite-size values, and draw them."""
    from matplotlib.figure import Figure

    alpha, value = optimum(0.05)
    print(f"sigma2 = 0.05: optimal alpha = {alpha:.6f}, E_test = {value:.6f}")
    theory = curves()
    clean = theory[0.0]
    print(f"sigma2 = 0: E_test increases with alpha: {bool((np.diff(clean) > 0).all())}")
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    for axes, sigma2 in zip(figure.subplots(1, 2), theory, strict=True):
        axes.semilogx(ALPHAS, theory[sigma2], label="theory")
        points = confirm(sigma2)
        means, errors = np.array(list(points.values())).T
        axes.errorbar(list(points), means, 2 * errors, fmt="o", ms=4, label="d = 400, 8 draws (2 s.e.)")
        for place, (mean, error) in points.items():
            solved = float(eqsolve.solve(MODEL, alpha=place, sigma2=sigma2)["E_test"])
            print(f"sigma2 = {sigma2:g}, alpha = {place:g}: theory {solved:.5f}, finite size {mean:.5f} ± {error:.5f}")
        axes.set(xlabel="α", ylabel="E_test", title=f"σ² = {sigma2:g}")
        if sigma2:
            axes.axvline(alpha, color="gray", ls=":", label=f"optimum α = {alpha:.3f}")
        axes.legend()
    figure.savefig(file, dpi=150)
    print(f"wrote {file}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
