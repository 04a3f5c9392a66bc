"""Convergence rates measured: time per point, a curve, residuals over the whole range, monotonicity in α.

    python benchmarks/rates.py [--quick]

CPU seconds of one thread, warm.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import time

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np

import eqsolve

LAWS = ("Bernoulli(0.1)", "Normal(0, 1)", "Rademacher(0.5)", "GaussBernoulli(0.3, 1)", "Point(1)")


def cpu(run, repeat=3):
    """Return the least CPU time of several runs, and the last answer."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        answer = run()
        times.append(time.process_time() - start)
    return min(times), answer


def points():
    print("\none rate, warm: CPU ms, γ, relative error estimate")
    for settings in (
        {"alpha": 0.1, "delta": 0.5},
        {"alpha": 1, "delta": 0.5},
        {"alpha": 0.1, "delta": 2, "sigma2": 0.1},
        {"alpha": 10, "delta": 2, "sigma2": 0.1},
        {"alpha": 0.1, "delta": 2, "sigma2": 0.1, "w_star": "Normal(0, 1)"},
        {"alpha": 0.1, "delta": 0.5, "sigma2": 0.1, "w_star": "Normal(0, 1)"},
        {"alpha": 1, "delta": 0.5, "L": 3},
        {"alpha": 0.001, "delta": 0.5},
        {"alpha": 0.3, "delta": 0.95, "sigma2": 0.1},
    ):
        model = eqsolve.load("dln_rate")
        eqsolve.solve(model, **settings)
        seconds, res = cpu(lambda: eqsolve.solve(model, **settings), 10)
        gamma = float(res["gamma"])
        print(f"{settings}: {1e3 * seconds:.0f} ms  {gamma:.14g}  {float(res.error['gamma']) / gamma:.1e}")


def curve(count):
    print(f"\na curve of {count} points in α from 0.01 to 10, δ = 0.5")
    alphas = np.geomspace(0.01, 10, count)
    seconds, made = cpu(lambda: eqsolve.rate_curve("dln_rate", "alpha", alphas, delta=0.5), 1)
    print(f"{seconds:.1f} s, increasing: {bool((np.diff(made['gamma']) > 0).all())}")


def slope(model, res, alpha, **settings):
    """Return dγ/dα: the total derivative at a branch point, a difference at an edge, where γ is known to 1e-11."""
    if res.stats["singularity"] == "branch point":
        return res.derivative("gamma", "alpha")
    low, high = (float(eqsolve.solve(model, alpha=alpha * (1 + h), **settings)["gamma"]) for h in (-1e-3, 1e-3))
    return (high - low) / (2e-3 * alpha)


def monotonicity(laws, alphas):
    """dγ/dα on a grid of laws, δ, σ² and α, residuals and times; every exception is printed."""
    model = eqsolve.load("dln_rate")
    count, rising, worst, failed, edges, times = 0, 0, 0.0, [], [], []
    for law, sigma2, delta in itertools.product(laws, (0, 0.1), (0.1, 0.5, 0.95, 1.05, 2, 10)):
        for alpha in alphas:
            where = f"w_star={law} sigma2={sigma2} delta={delta} alpha={alpha:.4g}"
            try:
                settings = {"delta": delta, "sigma2": sigma2, "w_star": law}
                seconds, res = cpu(lambda: eqsolve.solve(model, alpha=float(alpha), **settings), 2)
                times.append((1e3 * seconds, where))
                rise = slope(model, res, float(alpha), **settings)
            except eqsolve.EqsolveError as error:
                failed.append(f"{where}: {str(error)[:90]}")
                continue
            count += 1
            rising += rise > 0
            worst = max(worst, res.stats["residual"])
            if res.stats["singularity"] != "branch point":
                edges.append(where)
            if rise <= 0:
                print(f"not increasing: {where}, dγ/dα = {rise:.3g}")
            if not res.stats["certified"]:
                print(f"not certified: {where}")
    print(
        f"\nmonotonicity: {rising} of {count} points have dγ/dα > 0; largest residual {worst:.1e}; {len(failed)} without answer"
    )
    columns = [ms for ms, _ in times]
    print(
        f"time of a rate on this grid: median {np.median(columns):.0f} ms, {np.mean(np.array(columns) <= 50):.0%} within 50 ms; "
        f"slowest {max(times)[0]:.0f} ms ({max(times)[1]})"
    )
    print(f"{len(edges)} of them at the edge of a law (differences instead of derivatives):")
    for line in (*edges, *failed):
        print("  ", line)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    logging.disable(logging.WARNING)
    points()
    curve(40 if quick else 200)
    monotonicity(LAWS[:1] if quick else LAWS, np.geomspace(1e-3, 1e2, 4 if quick else 9))


if __name__ == "__main__":
    main()
