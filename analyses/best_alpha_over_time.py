"""The best initialization depends on when training stops.

Diagonal network without weight decay, δ = 0.5, P_* = Bernoulli(0.1). At every time the α at which E_test is least, from solves
at a few α with their exact derivatives dE_test/dα, between which E_test is a cubic Hermite interpolant in log α. The band is
the sensitivity: the α whose E_test is within 2 % of the least. Dotted: the optimum of the fixed point, t → ∞.
"""

import numpy as np
import xarray as xr
from scipy.interpolate import CubicHermiteSpline

import eqsolve
from eqsolve.plotting.paper import curve, label_panels, panels

ORDER = 23
TIMES = np.geomspace(1.0, 20.0, 25)
NEAR = 1.02
SETTINGS = {"delta": 0.5, "lam": 0.0}


def landscape(alphas: np.ndarray, sigma2: float, rtol: float) -> tuple[np.ndarray, np.ndarray]:
    """Return E_test and dE_test/d log α on (time, α)."""
    values, slopes = [], []
    for alpha in alphas:
        solved = eqsolve.solve(
            "dln",
            alpha=float(alpha),
            sigma2=sigma2,
            t_max=TIMES[-1],
            rtol=rtol,
            observables=["E_test"],
            derivatives=["alpha"],
            **SETTINGS,
        ).at(TIMES)
        values.append(solved["E_test"].values)
        slopes.append(alpha * solved["E_test_d_alpha"].values)
    return np.array(values).T, np.array(slopes).T


def best(alphas: np.ndarray, values: np.ndarray, slopes: np.ndarray) -> tuple[float, float, float, float]:
    """Return the best α at one time, E_test there, and the ends of the α that are nearly as good."""
    fine = np.linspace(np.log(alphas[0]), np.log(alphas[-1]), 2001)
    curve_ = CubicHermiteSpline(np.log(alphas), values, slopes)(fine)
    place = int(np.argmin(curve_))
    good = np.exp(fine[curve_ <= NEAR * curve_[place]])
    return float(np.exp(fine[place])), float(curve_[place]), float(good[0]), float(good[-1])


def compute(run):
    """Solves over α for each noise level, and the optimum at each time."""
    noises = run.pick((0.05,), (0.0, 0.05, 0.1))
    alphas = np.geomspace(0.05, 1.5, run.pick(6, 12))
    tables, limits = [], []
    for sigma2 in noises:
        values, slopes = landscape(alphas, sigma2, run.pick(1e-2, 1e-3))
        tables.append([best(alphas, *pair) for pair in zip(values, slopes, strict=True)])
        limit = np.nan
        if sigma2:
            limit = eqsolve.optimise(
                "dln_fixed_point_min_norm", "E_test", over={"alpha": (0.01, 3)}, delta=0.5, sigma2=sigma2
            ).parameters["alpha"]
        limits.append(limit)
        run.note(
            f"σ² = {sigma2:g}: best α {tables[-1][0][0]:.3f} at t = 1, {tables[-1][-1][0]:.3f} at t = 20, {limit:.3f} at last."
        )
    return xr.Dataset(
        {"best": (("sigma2", "t", "what"), np.array(tables)), "limit": ("sigma2", limits)},
        {"sigma2": list(noises), "t": TIMES, "what": ["alpha", "E_test", "low", "high"]},
    )


def draw(data):
    """The best α over time on the left, its E_test on the right."""
    figure, axes = panels(1, 2)
    for place, sigma2 in enumerate(data["sigma2"].values):
        one, color = data.sel(sigma2=sigma2), ("#0072B2", "#D55E00", "#009E73")[place]
        table = one["best"]
        curve(axes[0], data["t"], table.sel(what="alpha"), color=color, label=rf"$\sigma^2 = {sigma2:g}$")
        axes[0].fill_between(data["t"], table.sel(what="low"), table.sel(what="high"), color=color, alpha=0.15, lw=0)
        if np.isfinite(one["limit"]):
            axes[0].axhline(float(one["limit"]), color=color, ls=":")
        curve(axes[1], data["t"], table.sel(what="E_test"), color=color, label=rf"$\sigma^2 = {sigma2:g}$")
    axes[0].set(xscale="log", yscale="log", xlabel="$t$", ylabel=r"best $\alpha$")
    axes[1].set(xscale="log", xlabel="$t$", ylabel=r"least $E_{\mathrm{test}}(t)$")
    axes[0].legend(loc="best")
    label_panels(axes)
    return figure
