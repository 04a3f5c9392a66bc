"""Fixed points: time and error per point, a path of 200 points, beside the plain version a user would write.

    python benchmarks/fixed_points.py

The peer is `scipy.optimize.root` on the three equations of case (iii) with a fixed Gauss–Hermite rule (60 and 200
nodes) and the implicit function by scipy's Newton: short, and what one writes first. Errors are against 30 digits
(``precision=30``). One thread; CPU seconds. Takes about a minute.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import newton, root

import eqsolve

POINTS = [  # model, settings
    ("dln_fixed_point_min_norm", {"alpha": 0.1, "delta": 0.5, "sigma2": 0.0}),
    ("dln_fixed_point_min_norm", {"alpha": 0.001, "delta": 0.5, "sigma2": 0.05}),
    ("dln_fixed_point_min_norm", {"alpha": 100.0, "delta": 0.9, "sigma2": 0.0}),
    ("dln_fixed_point_min_norm", {"alpha": 1.0, "delta": 0.5, "sigma2": 0.0, "L": 3}),
    ("dln_fixed_point_min_norm", {"alpha": 0.1, "delta": 0.5, "sigma2": 0.0, "w_star": "Normal(0, 1)"}),
    ("dln_fixed_point_min_norm", {"alpha": 0.001, "delta": 0.99, "sigma2": 1.0}),
    ("dln_fixed_point_min_norm", {"alpha": 0.001, "delta": 0.99, "sigma2": 0.0}),
    ("dln_fixed_point_l1", {"lam": 0.1, "delta": 0.5, "sigma2": 0.0}),
    ("dln_fixed_point_l1", {"lam": 1e-4, "delta": 0.99, "sigma2": 1.0}),
    ("dln_fixed_point_ridgeless", {"delta": 2.0, "sigma2": 0.1}),
]
PATHS = [
    ("dln_fixed_point_min_norm", "alpha", np.geomspace(1e-3, 1e2, 200), {"sigma2": 0.05}),
    ("dln_fixed_point_min_norm", "delta", np.linspace(0.1, 0.99, 200), {"sigma2": 0.05}),
    ("dln_fixed_point_l1", "lam", np.geomspace(1e-4, 2, 200), {"sigma2": 0.05}),
    ("dln_fixed_point_l1", "delta", np.linspace(0.1, 3, 200), {"sigma2": 0.05}),
]


LAWS = ("Bernoulli(0.1)", "Rademacher(0.2)", "Normal(0, 1)", "GaussBernoulli(0.1, 1)", "Discrete([-1, 0, 2], [0.2, 0.7, 0.1])")


def corner(rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """Draw a model and settings, the ends of their ranges often among them."""
    settings: dict[str, Any] = {"w_star": str(rng.choice(LAWS)), "sigma2": float(rng.choice([0, 1, 10 ** rng.uniform(-4, 0)]))}
    below, above = rng.choice([0.1, 0.99, rng.uniform(0.1, 0.99)]), rng.choice([1.01, 10, 10 ** rng.uniform(0.005, 1)])
    if rng.random() < 0.5:
        settings |= {"lam": float(10 ** rng.uniform(-4, np.log10(2))), "delta": float(rng.choice([below, above]))}
        return "dln_fixed_point_l1", settings
    settings |= {"alpha": float(rng.choice([1e-3, 1e2, 10 ** rng.uniform(-3, 2)])), "delta": float(below)}
    return "dln_fixed_point_min_norm", settings


def clock(run: Callable[[], Any], repeats: int = 5) -> tuple[Any, float]:
    """Return the last result and the least CPU time."""
    times = []
    for _ in range(repeats):
        began = time.process_time()
        made = run()
        times.append(time.process_time() - began)
    return made, min(times)


def plain_min_norm(alpha: float, delta: float, sigma2: float, nodes: int) -> float:
    """Return C_w of case (iii) by scipy.optimize.root and a fixed Gauss–Hermite rule, as one writes it first."""
    x, weights = np.polynomial.hermite_e.hermegauss(nodes)
    weights = weights / weights.sum()
    targets, shares = np.array([0.0, 1.0]), np.array([0.9, 0.1])

    def equations(unknowns: np.ndarray) -> list[float]:
        C_w, R_w = np.exp(unknowns)
        seen = targets[:, None] + np.sqrt((C_w + sigma2) / delta) * x
        theta = newton(
            lambda y: alpha**2 * np.sinh(y) + R_w * y - seen,
            np.arcsinh(seen / (alpha**2 + R_w)),
            fprime=lambda y: alpha**2 * np.cosh(y) + R_w,
            maxiter=200,
        )
        w = alpha**2 * np.sinh(theta)
        error = shares @ ((w - targets[:, None]) ** 2 @ weights)
        speed = shares @ ((1 / (1 + R_w / np.sqrt(w**2 + alpha**4))) @ weights)
        return [np.log(error / C_w), np.log(speed / delta)]

    found = root(equations, np.log([0.1, alpha**2 + 0.1]), tol=1e-13)
    return float(np.exp(found.x[0])) if found.success else float("nan")


def main() -> None:
    """Print the tables."""
    warnings.simplefilter("ignore")
    print("| model | settings | warm ms | error of C_w | its estimate |\n|---|---|---|---|---|")
    exact = {}
    for place, (name, settings) in enumerate(POINTS):
        model = eqsolve.load(name)
        eqsolve.solve(model, params=settings)
        result, seconds = clock(lambda: eqsolve.solve(model, params=settings), 10)
        try:
            exact[place] = eqsolve.solve(model, params=settings, precision=30).source.values["C_w"]
            error = f"{abs(float((float(result['C_w']) - exact[place]) / exact[place])):.1e}"
        except eqsolve.UsageError:  # two Gaussians
            error = "no 30 digits"
        text = ", ".join(f"{key}={value}" for key, value in settings.items())
        estimate = float(result.error["C_w"] / result["C_w"])
        print(f"| {name} | {text} | {1e3 * seconds:.0f} | {error} | {estimate:.1e} |")
    rng, models = np.random.default_rng(0), {}
    times, errors = [], []
    for _ in range(200):
        name, settings = corner(rng)
        model = models.setdefault(name, eqsolve.load(name))
        result, seconds = clock(lambda: eqsolve.solve(model, params=settings), 3)
        times.append(1e3 * seconds)
        errors.append(float(result.error["C_w"] / result["C_w"]))
    print(
        f"\n200 random corners of the ranges: median {np.median(times):.0f} ms, 90 % within {np.quantile(times, 0.9):.0f} ms, "
        f"{np.mean(np.array(times) <= 50):.1%} within 50 ms, longest {max(times):.0f} ms; largest error {max(errors):.0e}"
    )
    print("\n| path of 200 points | CPU s | largest relative error estimate of C_w |\n|---|---|---|")
    for name, parameter, values, settings in PATHS:
        result, seconds = clock(lambda: eqsolve.follow(name, parameter, values, params=settings), 1)
        print(f"| {name}, {parameter} | {seconds:.1f} | {float((result.error['C_w'] / result['C_w']).max()):.1e} |")
    print("\n| scipy.optimize.root + Gauss–Hermite, case (iii) | nodes | ms | error of C_w |\n|---|---|---|---|")
    for place, (_, settings) in enumerate(POINTS[:3]):
        for nodes in (60, 200):
            try:
                value, seconds = clock(lambda: plain_min_norm(**settings, nodes=nodes), 2)
                error = f"{abs(float((value - exact[place]) / exact[place])):.1e}" if np.isfinite(value) else "not solved"
            except RuntimeError as reason:
                seconds, error = float("nan"), f"not solved: {str(reason)[:40]}"
            print(f"| α={settings['alpha']:g}, δ={settings['delta']:g} | {nodes} | {1e3 * seconds:.0f} | {error} |")


if __name__ == "__main__":
    main()
