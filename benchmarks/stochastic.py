"""The stochastic engine measured on the diagonal linear network: accuracy, cost, and ratios to what one would use instead.

    python benchmarks/stochastic.py [--quick] [--only cases,accurate,long,peers,scaling]

eqsolve stands against a solver specialised by hand and compiled (``specialised_dln``), the discretised system with
Monte-Carlo paths and finite dimension (``stochastic_peers``). Errors are the largest relative ones over 80 log-spaced times
against tests/solvers/reference_dln.json, which code other than eqsolve's made. CPU seconds of one thread, warm. Needs numba.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
import specialised_dln as specialised
from stochastic_peers import euler_monte_carlo, finite_dimension

import eqsolve

NAMES = ("alpha", "delta", "lam", "sigma2")
REFERENCE = json.loads(
    (Path(__file__).resolve().parents[1] / "tests" / "solvers" / "reference_dln.json").read_text(encoding="utf-8")
)
# E_test at t = ∞: box (iii) for the first case, box (i) for those with λ > 0
LIMITS = {0: 0.0288306320, 1: 0.0291640524, 3: 0.1481807997, 4: 0.0486062428}


def cpu(run, repeat=1):
    """Return the least CPU time of several runs, and the last answer."""
    times = []
    for _ in range(repeat):
        begin = time.process_time()
        answer = run()
        times.append(time.process_time() - begin)
    return min(times), answer


def truth(number, t_max):
    params = dict(zip(NAMES, specialised.CASES[number], strict=True))
    entry = next(item for item in REFERENCE["cases"] if item["params"] == params)
    return {name: np.array(values) for name, values in entry[f"t_max={t_max:g}"].items()}


def relative(found, known):
    return float(np.abs(found / known - 1).max())


def warm():
    eqsolve.solve("dln", t_max=1, rtol=1e-2)
    specialised.solve(*specialised.CASES[0], 1.0)


def run_eqsolve(number, t_max, rtol, times):
    """Solve a case for what the specialised solver finds too."""
    params = dict(zip(NAMES, specialised.CASES[number], strict=True))
    solve = lambda: eqsolve.solve("dln", t_max=t_max, rtol=rtol, observables=["E_test", "E_train"], **params)  # noqa: E731
    seconds, res = cpu(solve, 3 if rtol > 1e-4 else 1)
    return seconds, res.at(times), res


def cases(t_max, rtol, settings):
    print(f"\nfive cases to rtol {rtol:g} on [0, {t_max:g}]: largest relative errors over 80 log-spaced times")
    print(
        "alpha delta lam sigma2 | eqsolve: E_test  E_train  estimate  CPU s  nodes paths sweeps | specialised: E_test  E_train  CPU s | ratio"
    )
    for number, case in enumerate(specialised.CASES):
        known = truth(number, t_max)
        try:
            seconds, values, res = run_eqsolve(number, t_max, rtol, known["t"])
        except eqsolve.EqsolveError as error:
            print(f"{case}: eqsolve failed: {error}")
            continue
        estimate = float((values["E_test_error"].values / known["E_test"]).max())
        special, found = cpu(lambda: specialised.solve(*case, t_max, settings), 3 if rtol > 1e-4 else 1)
        test, train = found.at(known["t"])
        print(
            f"{case[0]:5} {case[1]:5} {case[2]:4} {case[3]:5} |"
            f"        {relative(values['E_test'].values, known['E_test']):8.1e} {relative(values['E_train'].values, known['E_train']):8.1e}"
            f"  {estimate:8.1e} {seconds:6.2f} {res.stats['nodes']:6} {res.stats['paths']:5} {res.stats['sweeps']:5}  |"
            f"            {relative(test, known['E_test']):8.1e} {relative(train, known['E_train']):8.1e} {special:6.3f} | {seconds / special:5.1f}"
            + ("" if res.status == "ok" else f"  {res.status}"),
            flush=True,
        )


def long(quick):
    print("\nt = 1000: relative gap of E_test to its limit t → ∞ (bars 1e-5 for the first; 2e-3, 3e-4, 1e-4 for λ > 0)")
    print("case   eqsolve gap  CPU s   specialised gap  CPU s  nodes paths")
    settings = specialised.Settings(order=6, accuracy=1e-6, stop=1e-7)
    for number, limit in LIMITS.items():
        if quick and number:
            break
        special, found = cpu(lambda: specialised.solve(*specialised.CASES[number], 1000.0, settings))
        gap = found.test[-1] / limit - 1
        line = f"{specialised.CASES[number]!s:24}"
        try:
            seconds, values, _ = run_eqsolve(number, 1000, 1e-3 if number else 1e-5, np.array([1000.0]))
            line += f" {float(values['E_test'].values[0]) / limit - 1:10.2e} {seconds:7.2f}"
        except eqsolve.EqsolveError as error:
            line += f" failed: {error}"
        print(f"{line} {gap:14.2e} {special:8.2f} {len(found.test):5} {found.paths:6}", flush=True)


def peers(quick):
    number, t_max = 0, 20.0
    case, known = specialised.CASES[number], truth(number, t_max)
    watched = known["t"] > 0.5  # before, Euler steps of this length have no points
    print(f"\nagainst what one would use instead, case {case} on [0, {t_max:g}]: largest relative error of E_test, CPU s")
    ours = []
    for rtol in (1e-2, 1e-3, 1e-4):
        seconds, values, _ = run_eqsolve(number, t_max, rtol, known["t"])
        ours.append((seconds, relative(values["E_test"].values, known["E_test"])))
        print(f"  eqsolve rtol {rtol:g}: error {ours[-1][1]:.1e}, {seconds:.2f} s")
    for accuracy in (1e-3, 1e-5):
        settings = specialised.Settings(accuracy=accuracy, order=4 if accuracy > 1e-4 else 6)
        seconds, found = cpu(lambda: specialised.solve(*case, t_max, settings), 3)
        print(
            f"  specialised, accuracy {accuracy:g}: error {relative(found.at(known['t'])[0], known['E_test']):.1e}, {seconds:.3f} s"
        )

    print("  discretised system with N Monte-Carlo paths (root mean square over seeds of the largest error):")
    rows = []
    pairs = ((0.4, 100), (0.4, 400), (0.2, 100), (0.2, 400), (0.1, 200))
    pairs += () if quick else ((0.4, 1600), (0.4, 6400), (0.2, 1600), (0.1, 800), (0.05, 100))
    for eta, paths in pairs:
        errors = []
        begin = time.process_time()
        seeds = 4
        for seed in range(seeds):
            t, test, _ = euler_monte_carlo(*case, t_max, eta, paths, seed)
            values = np.interp(known["t"][watched], np.append(t, t_max), np.append(test, test[-1]))
            errors.append(relative(values, known["E_test"][watched]))
        seconds = (time.process_time() - begin) / seeds
        rows.append((eta, paths, seconds, float(np.sqrt(np.mean(np.square(errors))))))
        print(f"    step {eta:5} N {paths:5}: error {rows[-1][3]:.1e}, {seconds:8.2f} s", flush=True)
    compare_euler(np.array(rows), t_max, ours)
    compare_dimension(case, known, watched, ours, quick)


def fit(design, values):
    return np.linalg.lstsq(np.array(design).T, values, rcond=None)[0]


def compare_euler(rows, t_max, ours):
    """Fit error² = (a η)² + b²/N and CPU = c N T³ + e T + f N T, and say what equal CPU and equal error come to."""
    eta, paths, seconds, error = rows.T
    steps = t_max / eta
    weight = 1 / error**2
    squares = np.maximum(fit([eta**2 * weight, weight / paths], error**2 * weight), 0)
    cost = np.maximum(fit([paths * steps**3 / seconds, paths * steps**2 / seconds, steps**2 / seconds], np.ones(len(eta))), 0)
    print(
        f"    fitted: error² = ({np.sqrt(squares[0]):.3f} η)² + {squares[1]:.2f}/N, CPU = {cost[0]:.1e} N T³ + {cost[1]:.1e} N T² + {cost[2]:.1e} T², T = steps"
    )

    def price(target):
        best = np.inf
        for share in np.linspace(0.05, 0.95, 19):
            step = np.sqrt(share / max(squares[0], 1e-12)) * target
            count = squares[1] / ((1 - share) * target**2)
            t = t_max / min(step, 1.0)
            best = min(best, cost @ [count * t**3, count * t**2, t**2])
        return best

    for seconds, error in ours:
        low, high = 1e-7, 1.0
        for _ in range(60):
            middle = np.sqrt(low * high)
            low, high = (low, middle) if price(middle) < seconds else (middle, high)
        print(
            f"    eqsolve {error:.1e} in {seconds:.2f} s: at equal CPU Monte Carlo has error {high:.1e} ({high / error:.0f} times larger);"
            f" at equal error it takes {price(error):.1e} s (extrapolated, {price(error) / seconds:.0e} times more)"
        )
    print(f"    to error 1e-3 Monte Carlo takes {price(1e-3):.1e} s (extrapolated with the fitted law)")


def compare_dimension(case, known, watched, ours, quick):
    print("  finite dimension: standard deviation of E_test over draws, mean over draws against the limit, CPU s per draw")
    times, test = known["t"][watched], known["E_test"][watched]
    found = []
    for dimension, draws in ((200, 32), (400, 16)) if quick else ((200, 64), (400, 32), (800, 16)):
        begin = time.process_time()
        runs = np.array([finite_dimension(*case, times, dimension, seed)[0] for seed in range(draws)])
        seconds = (time.process_time() - begin) / draws
        spread = float((runs.std(axis=0, ddof=1) / test).max())
        shift = np.abs(runs.mean(axis=0) / test - 1).max()
        found.append((dimension, spread, seconds))
        print(
            f"    d {dimension:5}: deviation {spread:.3f}, mean off by {shift:.4f} ± {spread / np.sqrt(draws):.4f}, {seconds:.2f} s",
            flush=True,
        )
    # deviation = b/√d; the mean differs from the limit by O(1/d), so 1e-3 needs d of a thousand or more
    scale = np.mean([spread * np.sqrt(d) for d, spread, _ in found])
    dimension = 2000
    each, _ = cpu(lambda: finite_dimension(*case, times, dimension))
    draws = (scale / np.sqrt(dimension) / 1e-3) ** 2
    total = draws * each
    print(
        f"    to a standard error of 1e-3 with d = {dimension}: {draws:.0f} draws of {each:.2f} s, {total:.1e} s (extrapolated from one draw)"
    )
    best = min((item for item in ours if item[1] <= 1e-3), default=min(ours, key=lambda item: item[1]))
    print(f"    eqsolve: error {best[1]:.1e} in {best[0]:.2f} s, {total / best[0]:.0f} times less CPU")


def scaling(quick):
    print("\ncost of eqsolve, case 1: t_max at rtol 1e-3, then rtol at t_max = 20")
    print("t_max    rtol   nodes  paths  sweeps  CPU s")
    rows = []
    horizons = (5, 20, 80) if quick else (5, 20, 80, 320)
    for t_max, rtol in [(t, 1e-3) for t in horizons] + [(20, r) for r in ((1e-2, 1e-4) if quick else (1e-2, 1e-4, 1e-5))]:
        seconds, _, res = run_eqsolve(0, t_max, rtol, np.array([float(t_max)]))
        rows.append((t_max, rtol, res.stats["nodes"], res.stats["paths"], res.stats["sweeps"], seconds))
        print(f"{t_max:5} {rtol:8g} {rows[-1][2]:6} {rows[-1][3]:6} {rows[-1][4]:6} {seconds:8.2f}", flush=True)
    table = np.array(rows, float)
    first = table[: len(horizons)]
    slope = np.polyfit(np.log(first[:, 0]), np.log(first[:, 5]), 1)[0]
    nodes = np.polyfit(np.log(first[:, 0]), first[:, 2], 1)[0]
    print(f"CPU ∝ t_max^{slope:.2f}; {nodes * np.log(10):.0f} nodes per factor of ten in t_max")
    ones = np.ones(len(table))
    exponents = fit([ones, np.log(table[:, 2]), np.log(table[:, 3])], np.log(table[:, 5] / table[:, 4]))
    print(
        f"CPU per sweep ∝ nodes^{exponents[1]:.1f} paths^{exponents[2]:.1f} (fit over all rows; sweeps of coarser rounds are counted too)"
    )
    print("specialised solver, one sweep: CPU against nodes and paths")
    points = []
    for order, accuracy in ((3, 1e-5), (4, 1e-5), (6, 1e-5), (8, 1e-5), (6, 1e-4), (6, 1e-6), (6, 1e-7)):
        settings = specialised.Settings(order=order, accuracy=accuracy, margin=2.0)
        seconds, size, paths = sweep_cost(settings)
        points.append((size, paths, seconds))
        print(f"  nodes {size:4} paths {paths:6} {seconds:8.4f} s", flush=True)
    size, paths, seconds = np.array(points).T
    exponents = fit([np.ones(len(size)), np.log(size), np.log(paths)], np.log(seconds))
    print(f"  CPU per sweep ∝ nodes^{exponents[1]:.1f} paths^{exponents[2]:.1f}")


def sweep_cost(settings):
    """Return the CPU time of one sweep of the specialised solver, its nodes and its paths."""
    case = specialised.CASES[0]
    solver = specialised.Solver(*case, specialised.make_grid(*case[:2], 20.0, settings))
    response, covariance = solver.start(settings)
    kernel = solver.kernel(response)
    factor, strengths = solver.rotate(covariance, kernel, response, settings.drop)
    ensemble = specialised.Ensemble(settings.margin * strengths, settings.accuracy, settings.sharp, len(response))
    seconds, _ = cpu(lambda: solver.sweep(response, covariance, ensemble, factor, kernel), 3)
    return seconds, len(response), ensemble.count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer rows, under two minutes")
    parser.add_argument("--only", default="", help="parts by name, with commas between them")
    arguments = parser.parse_args()
    parts = {
        "cases": lambda: cases(20, 1e-3, specialised.FAST),
        "accurate": lambda: cases(50, 1e-5, specialised.ACCURATE),
        "long": lambda: long(arguments.quick),
        "peers": lambda: peers(arguments.quick),
        "scaling": lambda: scaling(arguments.quick),
    }
    chosen = (
        arguments.only.split(",")
        if arguments.only
        else [name for name in parts if not (arguments.quick and name == "accurate")]
    )
    for name in chosen:
        if name not in parts:
            parser.error(f"no part {name!r}; there are {', '.join(parts)}")
    warm()
    for name in chosen:
        parts[name]()


if __name__ == "__main__":
    main()
