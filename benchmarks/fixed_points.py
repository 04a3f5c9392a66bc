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
            lambda y: alpha**2 * np.sinh(y) + R_w * y - seen, np.arcsinh(seen / (alpha**2 + R_w)),
            fprime=lambda y: alpha**2 * np.cosh(y) + R_w, maxiter=200,
        )  # fmt: skip
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
        eqsolve.solve(name, params=settings)
        result, seconds = clock(lambda: eqsolve.solve(name, params=settings))
        exact[place] = eqsolve.solve(name, params=settings, precision=30).source.values["C_w"]
        error = abs(float((float(result["C_w"]) - exact[place]) / exact[place]))
        text = ", ".join(f"{key}={value:g}" for key, value in settings.items())
        print(f"| {name} | {text} | {1e3 * seconds:.0f} | {error:.1e} | {float(result.error['C_w']) / float(exact[place]):.1e} |")
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
