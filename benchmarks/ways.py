"""Three ways to average over paths, on models of three fields: error against CPU seconds.

    python benchmarks/ways.py [--only dln,rnn,lotka_volterra] [--plot docs/images/ways.png] [--keep ways.json]

A sparse grid (solver ``stochastic``), samples from which the Gaussian part is taken out (solver ``sampled``), and plain samples: Euler
steps, and noise that the paths make for each other with random couplings. Errors are the largest at nine times, relative to the largest value, of one
observable; truths are tables made by other code (dln), the law without paths (rnn), and a sparse grid for 1e-5 (lotka_volterra), of
which nothing below 1e-5 is shown. Plain samples: root mean square over three seeds. CPU seconds of one thread, warm.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "EQSOLVE_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from stochastic_peers import euler_monte_carlo

import eqsolve

GAIN, LAST = 1.5, {"dln": 20.0, "rnn": 5.0, "lotka_volterra": 5.0}
NAME = {"dln": "E_test", "rnn": "q", "lotka_volterra": "q"}
SETTINGS = {"dln": {}, "rnn": {"gain": GAIN}, "lotka_volterra": {}}
GRID = {"dln": (3e-2, 1e-2, 1e-3, 1e-4), "rnn": (1e-1, 3e-2, 3e-3), "lotka_volterra": (3e-2, 1e-2, 1e-3, 1e-4)}
SAMPLED = {"dln": (1e-1, 3e-2), "rnn": (1e-1, 5e-2), "lotka_volterra": (1e-1, 3e-2, 1e-2)}
PLAIN = ((0.2, 100), (0.1, 400), (0.05, 1600))  # steps and paths
FIELDS = {"dln": "learning: dln", "rnn": "neurons: rnn, gain 1.5", "lotka_volterra": "species: lotka_volterra"}
SEEDS = 3
TABLE = json.loads(
    (Path(__file__).resolve().parents[1] / "tests" / "solvers" / "reference_dln.json").read_text(encoding="utf-8")
)["cases"][0]["t_max=20"]


def times(model):
    return np.array(TABLE["t"][7::9]) if model == "dln" else np.linspace(LAST[model] / 9, LAST[model], 9)


def solve(model, solver, rtol):
    name = NAME[model]
    return eqsolve.solve(
        model, t_max=LAST[model], rtol=rtol, solver=solver, observables=[name], at=times(model).tolist(), **SETTINGS[model]
    )


def truth(model):
    if model == "dln":
        return np.array(TABLE["E_test"][7::9])
    solver, rtol = ("gaussian", 1e-7) if model == "rnn" else ("stochastic", 1e-5)
    return solve(model, solver, rtol).at(times(model))[NAME[model]].values


def plain(model, step, paths, seed):
    """Return the observable on its times from plain samples of paths."""
    if model == "dln":
        t, test, _ = euler_monte_carlo(0.3, 0.5, 0.0, 0.0, LAST[model], 2 * step, paths, seed)
        return np.interp(times(model), t, test)
    rng, count = np.random.default_rng(seed), round(LAST[model] / step)
    x = rng.standard_normal(paths) if model == "rnn" else np.log(rng.uniform(0.5, 1.5, paths))
    squares = [np.mean(x**2 if model == "rnn" else np.exp(2 * x))]
    couplings = (GAIN if model == "rnn" else 0.5) * rng.standard_normal((paths, paths)) / np.sqrt(paths)
    for _ in range(count):
        seen = np.tanh(x) if model == "rnn" else np.exp(x)
        force = couplings @ seen
        x = x + step * (force - x if model == "rnn" else 1 - seen - 4 * seen.mean() + force)
        squares.append(np.mean(x**2 if model == "rnn" else np.exp(2 * x)))
    return np.interp(times(model), step * np.arange(count + 1), squares)


def cpu(run):
    begin = time.process_time()
    made = run()
    return time.process_time() - begin, made


def measure(model):
    """Return for every way its (seconds, error) pairs."""
    known = truth(model)
    size = np.abs(known).max()
    made = {"sparse grid": [], "Gaussian part and remainder": [], "plain samples": []}
    solve(model, "stochastic", 1e-1)  # compiled
    for way, solver, tolerances in zip(made, ("stochastic", "sampled"), (GRID[model], SAMPLED[model]), strict=False):
        for rtol in tolerances:
            try:
                seconds, result = cpu(lambda: solve(model, solver, rtol))
            except eqsolve.EqsolveError as reason:
                print(f"{model}: {way}, rtol {rtol:g}: {reason}", flush=True)
                continue
            error = np.abs(result.at(times(model))[NAME[model]].values - known).max() / size
            made[way].append((seconds, float(error)))
            print(f"{model}: {way}, rtol {rtol:g}: {seconds:.2f} s, {error:.1e} ({result.status})", flush=True)
    for step, paths in PLAIN[:2] if model == "dln" else PLAIN:
        runs = [cpu(lambda: plain(model, step, paths, seed)) for seed in range(SEEDS)]
        error = float(np.sqrt(np.mean([np.abs(values - known).max() ** 2 for _, values in runs])) / size)
        made["plain samples"].append((float(np.mean([seconds for seconds, _ in runs])), error))
        print(
            f"{model}: plain samples, step {step:g}, {paths} paths: {made['plain samples'][-1][0]:.2f} s, {error:.1e}",
            flush=True,
        )
    return made


def draw(found, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(found), figsize=(3.6 * len(found), 3.2), sharey=True, layout="constrained", squeeze=False
    )
    for place, (model, ways) in zip(axes[0], found.items(), strict=True):
        for (way, pairs), style in zip(ways.items(), ("C0o-", "C1s--", "C2^:"), strict=True):
            if not pairs:
                continue
            seconds, errors = np.array(sorted(pairs)).T
            place.loglog(seconds, np.maximum(errors, 1e-6), style, label=way, markersize=4)
        place.set_title(FIELDS[model], fontsize=10)
        place.set_xlabel("CPU seconds")
    axes[0, 0].set_ylabel("largest error, relative")
    axes[0, -1].legend(fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(LAST))
    parser.add_argument("--plot", type=Path, default=None)
    parser.add_argument("--keep", type=Path, default=None, help="file that keeps what was measured")
    options = parser.parse_args()
    found = json.loads(options.keep.read_text()) if options.keep and options.keep.exists() else {}
    for model in options.only.split(","):
        if model not in found:
            found[model] = measure(model)
            if options.keep:
                options.keep.write_text(json.dumps(found))
    if options.plot:
        draw(found, options.plot)


if __name__ == "__main__":
    main()
