"""The two-time solvers measured: accuracy, cost against time, and ratios to what a user would pick instead.

    python benchmarks/two_time.py [--quick] [--idesolver PYTHON]

``--idesolver`` names the Python of an environment with idesolver and numpy < 2 (it needs one of its own). CPU seconds of
one thread, warm; numbers of different programs are from the same run, so only their ratios should be read.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import time

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np

import eqsolve
from eqsolve.spectra import MarchenkoPastur

PEER = """
import time, warnings; warnings.simplefilter("ignore")
import numpy as np
from idesolver import IDESolver
x = np.linspace(0, 10, 201)
start = time.process_time()
y = IDESolver(x=x, y_0=0, c=lambda x, y: 1 - 2 * y, d=lambda x: -5, k=lambda x, s: 1, f=lambda y: y,
              lower_bound=lambda x: 0, upper_bound=lambda x: x, global_error_tolerance=1e-8, max_iterations=60).solve()
print(time.process_time() - start, np.abs(y - np.exp(-x) * np.sin(2 * x) / 2).max())
"""


def cpu(run, repeat=1):
    """Return the least CPU time of several runs, and the last answer."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        answer = run()
        times.append(time.process_time() - start)
    return min(times), answer


def lazy(quick):
    print("\nlazy system against Marchenko–Pastur: largest error of the four kernels")
    print("delta sigma2  t_max  error    estimate  CPU s  rows  columns")
    rng = np.random.default_rng(0)
    for t_max, rtol in ((10, 1e-8),) if quick else ((10, 1e-8), (200, 1e-6)):
        for delta in (0.5, 0.9, 2):
            for sigma2 in (0, 0.1):
                seconds, res = cpu(
                    lambda: eqsolve.solve("dln_lazy", delta=delta, sigma2=sigma2, t_max=t_max, rtol=rtol, kernels=True)
                )
                pairs = np.sort(rng.uniform(0, t_max, (4000, 2)), axis=1)[:, ::-1]
                pairs[:1000, 1] = np.maximum(pairs[:1000, 0] - rng.exponential(1, 1000), 0)
                t, s, law = pairs[:, 0], pairs[:, 1], MarchenkoPastur(delta)
                exact = {
                    "C_w": 0.1 * law.laplace(t + s) + sigma2 / delta * law.laplace_integrated_pair(t, s),
                    "C_f": 0.1 * law.laplace(t + s, 1) + sigma2 * (1 + (law.laplace(t + s) - 1) / delta),
                    "R_w": law.laplace(t - s) / delta,
                    "R_f": law.laplace(t - s, 1) / delta,
                }
                values = res.at2(pairs)
                error = max(np.abs(values[name].values - known).max() for name, known in exact.items())
                estimate = max(values[f"{name}_error"].values.max() for name in exact)
                print(
                    f"{delta:5} {sigma2:6} {t_max:6} {error:.1e}  {estimate:.1e} {seconds:7.2f} {res.stats['nodes']:5} {res.stats['columns']:6}"
                )


def growth(quick):
    print("\np-spin, p=3, T=0.5: cost against time (rtol 1e-3, kernels); then observables only (lazy, rtol 1e-6)")
    print("t_max   rows  columns  CPU s  memory MB  C(t, 0)   C(t, t/2)")
    found = []
    for t_max in (10, 100) if quick else (10, 100, 1000):
        seconds, res = cpu(lambda: eqsolve.solve("pspin", t_max=t_max, rtol=1e-3, kernels=True))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        C = res.at2([(t_max, 0), (t_max, t_max / 2)])["C"].values
        found.append((t_max, seconds))
        print(
            f"{t_max:5} {res.stats['nodes']:6} {res.stats['columns']:8} {seconds:6.1f} {memory:10.0f}  {C[0]:.6f}  {C[1]:.6f}"
        )
    (t0, s0), (t1, s1) = found[-2:]
    print(f"growth exponent of CPU time: {np.log(s1 / s0) / np.log(t1 / t0):.2f}")
    for t_max in (1e1, 1e3, 1e5):
        seconds, res = cpu(lambda: eqsolve.solve("dln_lazy", t_max=t_max, rtol=1e-6, kernels=False))
        print(f"observables only, t_max={t_max:g}: {res.stats['nodes']} nodes, {seconds:.2f} CPU s")


def trapezoid(steps, t_max=20.0, temperature=0.5):
    """p-spin (p=3) by the dense trapezoid rule: rows in time, predictor and two correctors."""
    h, n = t_max / steps, steps + 1
    C, R = np.zeros((n, n)), np.zeros((n, n))
    C[0, 0] = R[0, 0] = 1.0

    def slopes(i):
        w = np.full(i + 1, h)
        w[0] = w[-1] = h / 2 if i else 0.0
        memory = 3 * C[i, : i + 1] * R[i, : i + 1]
        mu = temperature + 4.5 * (C[i, : i + 1] ** 2 * R[i, : i + 1]) @ w
        full = C[: i + 1, : i + 1] + np.tril(C[: i + 1, : i + 1], -1).T
        low = np.tril(R[: i + 1, : i + 1])
        half = np.array(
            [
                np.r_[h / 2, np.full(j - 1, h), h / 2] @ (C[i, : j + 1] ** 2 * R[j, : j + 1]) if j else 0
                for j in range(i + 1)
            ]
        )
        fresh = (memory * w) @ low - h / 2 * memory * np.diagonal(low) * (np.arange(i + 1) < i)
        return -mu * C[i, : i + 1] + (memory * w) @ full + 1.5 * half, -mu * R[i, : i + 1] + fresh

    for i in range(steps):
        dC, dR = slopes(i)
        C[i + 1, : i + 1], R[i + 1, : i + 1] = C[i, : i + 1] + h * dC, R[i, : i + 1] + h * dR
        C[i + 1, i + 1] = R[i + 1, i + 1] = 1.0
        for _ in range(2):
            eC, eR = slopes(i + 1)
            C[i + 1, : i + 1] = C[i, : i + 1] + h / 2 * (dC + eC[:-1])
            R[i + 1, : i + 1] = R[i, : i + 1] + h / 2 * (dR + eR[:-1])
    return np.array([C[steps // 2, 0], C[steps // 2, steps // 4], C[steps, 0], C[steps, steps // 2]])


def spin_glass(quick):
    print("\np-spin to t=20: eqsolve against the dense trapezoid rule with Richardson extrapolation")
    at = [(10, 0), (10, 5), (20, 0), (20, 10)]
    truth = eqsolve.solve("pspin", t_max=20, rtol=1e-8, at2=at).at2(at)["C"].values
    for rtol in (1e-3, 1e-5):
        seconds, res = cpu(lambda: eqsolve.solve("pspin", t_max=20, rtol=rtol, at2=at), 2)
        print(f"eqsolve, rtol {rtol:g}: error {np.abs(res.at2(at)['C'].values - truth).max():.1e}, {seconds:.2f} CPU s")
    for steps in (100, 200) if quick else (200, 400, 800):
        seconds, pair = cpu(lambda: [trapezoid(steps), trapezoid(2 * steps)])
        extrapolated = (4 * pair[1] - pair[0]) / 3
        print(
            f"trapezoid, {steps} and {2 * steps} steps: error {np.abs(extrapolated - truth).max():.1e}, {seconds:.2f} CPU s"
        )


def volterra(peer):
    print("\ny' = 1 − 2y − 5∫y on [0, 10]")
    eqsolve.solve("volterra_linear", t_max=10, rtol=1e-6)
    for rtol in (1e-6, 1e-8):
        seconds, res = cpu(lambda: eqsolve.solve("volterra_linear", t_max=10, rtol=rtol), 5)
        t = res["y"].t.values
        print(
            f"eqsolve, rtol {rtol:g}: error {np.abs(res['y'].values - np.exp(-t) * np.sin(2 * t) / 2).max():.1e}, {1e3 * seconds:.1f} CPU ms"
        )
    if peer:
        answer = subprocess.run([peer, "-c", PEER], capture_output=True, text=True, check=True).stdout.split()
        print(
            f"idesolver: error {float(answer[1]):.1e}, {float(answer[0]):.1f} CPU s: {float(answer[0]) / seconds:.0f} times eqsolve's time"
        )
    print(
        "voles (compiled, convolution equations only) has no wheel for every machine; where it installs, compare by hand"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--idesolver", metavar="PYTHON")
    options = parser.parse_args()
    volterra(options.idesolver)
    spin_glass(options.quick)
    growth(options.quick)
    lazy(options.quick)
