"""The two-time solvers measured: accuracy, order, cost against time, and ratios to what a user would pick instead.

    python benchmarks/two_time.py [--quick] [--idesolver PYTHON] [--voles PYTHON] [--only PART ...]

``--idesolver`` and ``--voles`` name the Python of an environment with that package (idesolver needs numpy < 2, so one of
its own). CPU seconds of one thread, warm; numbers of different programs are from the same run: read their ratios.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import eqsolve
from analyses.two_time_order import lazy_error, measure, order, volterra_error
from eqsolve.spectra import MarchenkoPastur
from tests.solvers.dense import richardson
from tests.solvers.exact import lazy, random_pairs

IDESOLVER = """
import time, warnings; warnings.simplefilter("ignore")
import numpy as np
from idesolver import IDESolver
x = np.linspace(0, 10, 201)
start = time.process_time()
y = IDESolver(x=x, y_0=0, c=lambda x, y: 1 - 2 * y, d=lambda x: -5, k=lambda x, s: 1, f=lambda y: y,
              lower_bound=lambda x: 0, upper_bound=lambda x: x, global_error_tolerance=1e-8, max_iterations=60).solve()
print(time.process_time() - start, np.abs(y - np.exp(-x) * np.sin(2 * x) / 2).max())
"""

VOLES = """
import time
import numpy as np
try:
    from voles import solve_VIDE
    def run(n, divs):
        return solve_VIDE(kernel_values=np.full(n, -5.0), a_values=np.full(n, -2.0), g_values=np.ones(n),
                          soln_init_value=0.0, time_step=10 / (n - 1), coll_divs=divs, show_warnings=False)
    name = "compiled"
except ImportError:  # its library is built for x86-64 and macOS only; its other solver is compiled by numba
    import importlib.machinery, importlib.util, sys
    [folder] = importlib.util.find_spec("voles").submodule_search_locations
    loader = importlib.machinery.SourceFileLoader("numba_solvers", folder + "/_numba_solvers.py")
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec("numba_solvers", loader))
    sys.modules["numba_solvers"] = module
    loader.exec_module(module)
    def run(n, divs):
        return module.solve_VIDE_jit(np.ones(n), np.full(n, -5.0), np.full(n, -2.0), 0.0, 10 / (n - 1), divs,
                                     np.arange(1, divs + 1), False)[0]
    name = "numba"
best = None
for divs in (4, 6, 8):
    for mesh in (10, 20, 40, 80, 160):
        n = mesh * divs**2 + 1
        x = np.linspace(0, 10, n)
        error = np.abs(run(n, divs) - np.exp(-x) * np.sin(2 * x) / 2).max()
        if error <= 1e-11:
            times = []
            for _ in range(3):
                start = time.process_time(); run(n, divs); times.append(time.process_time() - start)
            if best is None or min(times) < best[0]:
                best = (min(times), error)
            break
print(*best, name)
"""


def cpu(run, repeat=1):
    """Return the least CPU time of several runs, and the last answer."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        answer = run()
        times.append(time.process_time() - start)
    return min(times), answer


def volterra(options):
    print("\ny' = 1 − 2y − 5∫y on [0, 10]")
    eqsolve.solve("volterra_linear", t_max=10, rtol=1e-6)
    for rtol in (1e-4, 1e-6, 1e-8):
        seconds, res = cpu(lambda: eqsolve.solve("volterra_linear", t_max=10, rtol=rtol), 5)
        t = res["y"].t.values
        error = np.abs(res["y"].values - np.exp(-t) * np.sin(2 * t) / 2).max()
        print(f"eqsolve, rtol {rtol:g}: error {error:.1e}, {1e3 * seconds:.1f} CPU ms")
    for name, python, script in (("idesolver", options.idesolver, IDESOLVER), ("voles", options.voles, VOLES)):
        if python:
            answer = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True).stdout.split()
            other, error = float(answer[0]), float(answer[1])
            how = f" ({answer[2]})" if len(answer) > 2 else ""
            print(f"{name}{how}: error {error:.1e}, {1e3 * other:.1f} CPU ms: {other / seconds:.3g} times eqsolve's time")


def orders(options):
    print("\norder at panel ends (demanded: 2m − 2), uniform panels on [0, 4]")
    print("m  2m−2  volterra_linear  lazy R_w")
    first, second = measure(volterra_error), measure(lazy_error)
    for m in first:
        print(f"{m} {2 * m - 2:4} {order(first[m]):12.2f} {order(second[m]):12.2f}")


def lazy_kernels(options):
    print("\nlazy system against Marchenko–Pastur: largest error of the four kernels at 4000 pairs (t, t')")
    print("delta sigma2  t_max  error    estimate   CPU s   rows columns")
    for t_max, rtol in ((10, 1e-8),) if options.quick else ((10, 1e-8), (200, 1e-6)):
        for delta in (0.5, 0.9, 2):
            for sigma2 in (0, 0.1):
                case = lazy(delta, sigma2)
                seconds, res = cpu(lambda: case.solve(t_max=t_max, rtol=rtol, kernels=True))
                pairs = random_pairs(0.0, t_max, 4000)
                values = res.at2(pairs)
                error = max(np.abs(values[n].values - form(*pairs.T)).max() for n, form in case.kernels.items())
                estimate = max(values[f"{name}_error"].values.max() for name in case.kernels)
                print(
                    f"{delta:5} {sigma2:6} {t_max:6} {error:.1e}  {estimate:.1e} {seconds:8.2f} "
                    f"{res.stats['nodes']:6} {res.stats['columns']:6}"
                )


def nodes(options):
    print("\nnodes against t_max (lazy system, δ = 0.5, σ² = 0.1, rtol 1e-6): kernels pointwise, then observables only")
    print("t_max     kernels: rows columns  CPU s    observables only: nodes   error  CPU s")
    law = MarchenkoPastur(0.5)
    settings = {"delta": 0.5, "sigma2": 0.1, "rho2": 0.1, "rtol": 1e-6}
    for t_max in (1e1, 1e2, 1e3, 1e5):
        left = " " * 31
        if t_max <= 1e2:
            seconds, res = cpu(lambda: eqsolve.solve("dln_lazy", t_max=t_max, kernels=True, **settings))
            left = f"{res.stats['nodes']:14} {res.stats['columns']:7} {seconds:8.1f}"
        seconds, res = cpu(lambda: eqsolve.solve("dln_lazy", t_max=t_max, kernels=False, **settings))
        t = res.grid.nodes
        exact = 0.1 * law.laplace(2 * t, 1) + 0.2 * (law.laplace(2 * t) - 0.5)
        error = np.abs(res["E_train"].values - exact).max()
        print(f"{t_max:<8g} {left} {res.stats['nodes']:23} {error:9.1e} {seconds:6.2f}")


def spin_glass(options):
    print("\np-spin (p = 3, T = 0.5) to t = 20: largest error of C(t, 0) and C(t, t/2) at 20 times each")
    moments = np.arange(1, 21.0)
    at = [(t, 0) for t in moments] + [(t, t / 2) for t in moments]
    truth = eqsolve.solve("pspin", t_max=20, rtol=1e-9, at2=at).at2(at)["C"].values
    ours = []
    for rtol in (1e-2, 1e-3, 1e-4, 1e-6):
        seconds, res = cpu(lambda: eqsolve.solve("pspin", t_max=20, rtol=rtol, at2=at), 3)
        values = res.at2(at)
        error = np.abs(values["C"].values - truth).max()
        ours.append((error, seconds))
        estimate = values["C_error"].values.max()
        print(f"eqsolve, rtol {rtol:g}: error {error:.1e} (estimate {estimate:.1e}), {seconds:.2f} CPU s")
    for levels, steps in ((2, (120, 240, 480) if options.quick else (120, 240, 480, 960)), (4, (40, 80, 120))):
        dense = []
        for n in steps:
            seconds, pair = cpu(lambda: richardson(3, 0.5, 20.0, n, levels))
            dense.append((np.abs(np.concatenate(pair) - truth).max(), seconds))
            name = f"trapezoid, {n} to {n * 2 ** (levels - 1)} steps, {levels - 1} extrapolation{'s' * (levels > 2)}"
            print(f"{name}: error {dense[-1][0]:.1e}, {seconds:.2f} CPU s")
        slope, offset = np.polyfit(*np.log(dense[-2:]).T, 1)
        ratios = [f"{np.exp(offset + slope * np.log(e)) / s:.3g} at {e:.1e}" for e, s in ours[1:]]
        print(f"  CPU time at equal error, in units of eqsolve's: {', '.join(ratios)}")


def growth(options):
    print("\np-spin, p = 3, T = 0.5: cost against time (rtol 1e-3)")
    print("t_max   rows columns   CPU s  memory GB  C(t, 0)     C(t, t/2)    estimates")
    found = []
    for t_max in (10, 100) if options.quick else (10, 100, 1000):
        seconds, res = cpu(lambda: eqsolve.solve("pspin", t_max=t_max, rtol=1e-3, kernels=True))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
        made = res.at2([(t_max, 0), (t_max, t_max / 2)])
        C, E = made["C"].values, made["C_error"].values
        found.append((t_max, seconds))
        print(
            f"{t_max:5} {res.stats['nodes']:6} {res.stats['columns']:7} {seconds:7.1f} {memory:10.2f}  "
            f"{C[0]:.8f}  {C[1]:.8f}   {E[0]:.0e}, {E[1]:.0e}"
        )
        del res, made
    for (t0, s0), (t1, s1) in pairwise(found):
        print(f"growth exponent of CPU time from {t0} to {t1}: {np.log(s1 / s0) / np.log(t1 / t0):.2f}")


PARTS = {
    "growth": growth,  # first, so that its memory is its own
    "volterra": volterra,
    "orders": orders,
    "spin_glass": spin_glass,
    "nodes": nodes,
    "lazy": lazy_kernels,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--idesolver", metavar="PYTHON")
    parser.add_argument("--voles", metavar="PYTHON")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    chosen = parser.parse_args()
    for part in chosen.only:
        PARTS[part](chosen)
