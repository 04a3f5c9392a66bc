"""Solves that follow paths: CPU seconds of one core, errors against independent truths, ratios to other code.

    python benchmarks/paths.py works [--only dln,sgd,...] [--against CLONE] [--limit 60]
    python benchmarks/paths.py corners [--which 0-59] [--against CLONE] [--limit 60] [--truth-limit 0] [--save FILE] [--logs FOLDER]
    python benchmarks/paths.py fresh SEED [--count 40] [...]
    python benchmarks/paths.py cases | accurate | limits | peers [--quick] | scaling [--quick] | reference [--quick]

``works`` is the table of named works, ``corners`` sixty corners of the diagonal network (``corners.py``), ``fresh`` as many as wanted
of another seed. All three solve in processes of their own, with one thread; the first, rough solve of the same model is not counted,
so that imports and compilation are not. What takes longer than the limit in CPU seconds is stopped and shown as such. "tolerances" is
the largest stated error in units of what was asked for. ``--against`` gives the ratio to another commit in the same run:

    git clone . /tmp/other && git -C /tmp/other checkout COMMIT

The others are about the diagonal network alone. ``cases`` (1e-3 on [0, 20]) and ``accurate`` (1e-5 on [0, 50]) stand beside a solver
written by hand and compiled (``specialised_dln.py``): largest relative errors over 80 log-spaced times against
tests/solvers/reference_dln.json, which ``reference`` writes by that solver, that is by code other than eqsolve's. ``limits`` goes to
t = 1000, ``peers`` compares with the discretised system with Monte Carlo paths and with finite dimension.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "EQSOLVE_THREADS"):
    os.environ.setdefault(_name, "1")

import corners
import numpy as np
import specialised_dln as specialised

import eqsolve

HERE = Path(__file__).resolve().parents[1]
TABLE = HERE / "tests" / "solvers" / "reference_dln.json"
NAMES = ("alpha", "delta", "lam", "sigma2")
CASES = specialised.CASES
PROBABILITY = 0.1  # of w* = 1, else 0
# E_test at t = ∞: box (iii) for the first case, box (i) for those with λ > 0
LIMITS = {0: 0.0288306320, 1: 0.0291640524, 3: 0.1481807997, 4: 0.0486062428}
KURAMOTO = """
from sympy import cos, sin
from eqsolve import E, Eq, System, function, process, random, times
from eqsolve.laws import Normal
t, omega, x0 = times("t"), random("omega", Normal(0, 1)), random("x0", Normal(0, 1))
(a, b), (x, v) = function("a b"), process("x v")
model = System("inertia", eqs=[Eq(a(t), E(cos(x(t)))), Eq(b(t), E(sin(x(t)))), Eq(x(t).diff(t), v(t)),
    Eq(v(t).diff(t), -v(t) + omega + 4 * (b(t) * cos(x(t)) - a(t) * sin(x(t))))], init={x: x0, v: 0})
"""


# the overlap of two units, which no shipped observable is
COMMITTEE = (
    (HERE / "models" / "committee.py")
    .read_text(encoding="utf-8")
    .replace('"q_00": E(w[0]**2),', '"q_00": E(w[0]**2), "q_01": E(w[0] * w[1]),')
)


def dln(case: tuple[float, ...], **options: object) -> dict:
    return dict(zip(("alpha", "delta", "lam", "sigma2"), case, strict=True)) | options


WATCHED = {"observables": ["E_test", "E_train"]}  # which the solver written by hand finds too
# by topic: title, model, keywords of the solve
LINES: dict[str, list[tuple[str, str, dict]]] = {
    "dln": [(f"dln {case}, t = 20, 1e-3", "dln", dln(case, t_max=20, rtol=1e-3, **WATCHED)) for case in CASES],
    "accurate": [(f"dln {case}, t = 50, 1e-5", "dln", dln(case, t_max=50, rtol=1e-5, **WATCHED)) for case in CASES],
    "kinks": [(f"dln {case}, t = 30, 1e-5, all observables", "dln", dln(case, t_max=30, rtol=1e-5)) for case in CASES],
    "late": [
        ("dln (0.1, 2, 0.05, 0.1), t = 1000, 1e-3", "dln", dln(CASES[3], t_max=1000, rtol=1e-3)),
        ("dln (5, 0.5, 0.5, 0), t = 1000, 1e-3", "dln", dln(CASES[4], t_max=1000, rtol=1e-3)),
    ],
    "flows": [
        ("teacher_student_tanh, t = 10, 1e-3", "teacher_student_tanh", {"t_max": 10, "rtol": 1e-3}),
        ("committee with q_01, t = 5, 1e-2", COMMITTEE, {"t_max": 5, "rtol": 1e-2, "observables": ["q_01"]}),
        ("dln_flow, L = 3, t = 300, 1e-4", "dln_flow", {"alpha": 1, "delta": 0.5, "L": 3, "t_max": 300, "rtol": 1e-4}),
    ],
    "kinked": [
        (f"{name}, t = 5, {rtol:g}", name, {"t_max": 5, "rtol": rtol})
        for name in ("huber_regression", "perceptron_hinge", "relu_student")
        for rtol in (1e-2, 3e-3)
    ],
    "sgd": [
        (f"dln_sgd, 100 steps, batch {b:g}, 1e-2", "dln_sgd", {"batch": b, "step": 0.1, "t_max": 10, "rtol": 1e-2})
        for b in (0.25, 0.5)
    ],
    "white": [(f"soft_spin, t = 4, {rtol:g}", "soft_spin", {"t_max": 4, "rtol": rtol}) for rtol in (1e-2, 3e-3, 1e-3)],
    "ode": [("rotators with inertia, t = 3, 1e-2", KURAMOTO, {"t_max": 3, "rtol": 1e-2})],
    "sweep": [("dln, a sweep of 40 points", "sweep", {"t_max": 20})],
}
BY_HAND = {"dln": (20.0, specialised.FAST), "accurate": (50.0, specialised.ACCURATE)}
WARM = {"dln": 3}  # solves of which the quickest counts
CODE = """
import json, re, signal, sys, tempfile, time
from pathlib import Path
import eqsolve

class OverTime(BaseException):
    pass

def stop(*_):
    raise OverTime

name, options, repeat, limit = json.loads(sys.argv[1])
if name == "sweep":
    run = lambda **more: eqsolve.sweep("dln", {"alpha": "0.1:3:10:log", "delta": "0.3,0.5,0.8,1.5"}, workers=1, **{**options, **more})
    eqsolve.solve("dln", t_max=2, rtol=1e-2)
else:
    if "import" in name:
        path = Path(tempfile.mkdtemp()) / (re.search(r'(?:System|Flow)\\(\\s*"(\\w+)"', name)[1] + ".py")
        path.write_text(name)
        name = str(path)
    model = eqsolve.load(name)
    run = lambda **more: eqsolve.solve(model, **{**options, **more})
    run(t_max=min(options["t_max"], 10 * options.get("step", 0.1)), rtol=0.3)
signal.signal(signal.SIGPROF, stop)
seconds = []
for _ in range(repeat):
    signal.setitimer(signal.ITIMER_PROF, limit)
    begin = time.process_time()
    try:
        found = run()
        status, message = found.status, found.message
    except OverTime:
        status, message = "over the limit", ""
    except eqsolve.EqsolveError as error:
        status, message = "failed", str(error)
    signal.setitimer(signal.ITIMER_PROF, 0)
    seconds.append(time.process_time() - begin)
print(json.dumps({"file": eqsolve.__file__, "seconds": min(seconds), "status": status, "message": message}))
"""


# --- works and corners: every solve in a process of its own
def measure(tree: Path, name: str, options: dict, limit: float, repeat: int = 1) -> dict:
    """Return CPU seconds and the status of a solve by the eqsolve of a tree."""
    command = [sys.executable, "-c", CODE, json.dumps([name, options, repeat, limit])]
    done = subprocess.run(
        command, cwd=tree, env=os.environ | {"PYTHONPATH": str(tree)}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"seconds": float("nan"), "status": "failed", "message": said[-1]}
    found = json.loads(done.stdout.splitlines()[-1])
    assert Path(found["file"]).is_relative_to(tree), f"{found['file']} is not of {tree}"
    return found


def shown(found: dict) -> str:
    words = found["message"].split(" times the tolerance")
    said = f", {found['message'][:40]}" if found["message"] else ""
    over = f", {words[0].split()[-1]} tolerances" if len(words) > 1 else said
    return f"{found['seconds']:.{2 if found['seconds'] < 10 else 1}f} s ({found['status']}{over})"


def compare(title: str, name: str, options: dict, asked, repeat: int = 1, by_hand: float | None = None) -> float | None:
    """Print a line of a table; return the ratio to another clone."""
    here = measure(HERE, name, options, asked.limit, repeat)
    line = f"| {title} | {shown(here)} | "
    line += "|" if by_hand is None else f"{by_hand:.3f} s, ratio {here['seconds'] / by_hand:.1f} |"
    if asked.against is None:
        print(line, flush=True)
        return None
    there = measure(asked.against.resolve(), name, options, asked.limit, repeat)
    print(f"{line} {shown(there)} | {here['seconds'] / there['seconds']:.2f} |", flush=True)
    return here["seconds"] / there["seconds"]


def head(what: str, asked) -> None:
    print(f"| {what} | here | by hand |" + (" there | here / there |" if asked.against else ""))
    print("|---|---|---|" + ("---|---|" if asked.against else ""), flush=True)


def mean(what: str, ratios: list[float | None]) -> None:
    known = [ratio for ratio in ratios if ratio is not None and ratio == ratio]
    if known:
        print(f"| {what}, geometric mean | | | | {statistics.geometric_mean(known):.2f} |", flush=True)


def works(asked) -> None:
    """Print the table of named works."""
    head("solve", asked)
    for topic in asked.only.split(","):
        ratios = []
        for place, (title, name, options) in enumerate(LINES[topic]):
            by_hand = None
            if topic in BY_HAND:
                last, settings = BY_HAND[topic]
                specialised.solve(*CASES[place], 1.0)
                by_hand, _ = cpu(lambda: specialised.solve(*CASES[place], last, settings), 3)
            ratios.append(compare(title, name, options, asked, WARM.get(topic, 1), by_hand))
        mean(topic, ratios)


def run_corners(asked) -> None:
    """Print the table of the corners: with truths, or beside another clone."""
    ends = [part.partition("-") for part in asked.which.split(",")] if asked.which else []
    numbers = {number for first, _, last in ends for number in range(int(first), int(last or first) + 1)}
    chosen = [item for item in corners.corners(asked.seed, asked.count) if not ends or item.number in numbers]
    if asked.against is None:
        corners.run(chosen, asked.limit, asked.truth_limit, asked.save, asked.logs)
        return
    head("corner: α, δ, λ, σ², w*, t", asked)
    ratios = []
    for item in chosen:
        options = {"t_max": item.t_max, "rtol": corners.RTOL, "observables": list(corners.WATCHED), **item.settings}
        ratios.append(compare(str(item).replace(" |", ","), "dln", options, asked))
    mean("corners", ratios)


# --- the diagonal network beside other code


def cpu(run, repeat=1):
    """Return the least CPU time of several runs, and the last answer."""
    times = []
    for _ in range(repeat):
        begin = time.process_time()
        answer = run()
        times.append(time.process_time() - begin)
    return min(times), answer


def truth(number, t_max):
    params = dict(zip(NAMES, CASES[number], strict=True))
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    entry = next(item for item in table["cases"] if item["params"] == params)
    return {name: np.array(values) for name, values in entry[f"t_max={t_max:g}"].items()}


def relative(found, known):
    return float(np.abs(found / known - 1).max())


def warm():
    eqsolve.solve("dln", t_max=1, rtol=1e-2)
    specialised.solve(*CASES[0], 1.0)


def run_eqsolve(number, t_max, rtol, times):
    """Solve a case for what the specialised solver finds too."""
    params = dict(zip(NAMES, CASES[number], strict=True))
    solve = lambda: eqsolve.solve("dln", t_max=t_max, rtol=rtol, observables=["E_test", "E_train"], **params)  # noqa: E731
    seconds, res = cpu(solve, 3 if rtol > 1e-4 else 1)
    return seconds, res.at(times), res


def cases(t_max, rtol, settings):
    print(f"\nfive cases to rtol {rtol:g} on [0, {t_max:g}]: largest relative errors over 80 log-spaced times")
    print(
        "alpha delta lam sigma2 | eqsolve: E_test  E_train  estimate  CPU s  nodes paths sweeps | specialised: E_test  E_train  CPU s | ratio"
    )
    for number, case in enumerate(CASES):
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


def limits():
    print("\nt = 1000: relative gap of E_test to its limit t → ∞ (bars 1e-5 for the first; 2e-3, 3e-4, 1e-4 for λ > 0)")
    print("case   eqsolve gap  CPU s   specialised gap  CPU s  nodes paths")
    settings = specialised.Settings(order=6, accuracy=1e-6, stop=1e-7)
    for number, limit in LIMITS.items():
        special, found = cpu(lambda: specialised.solve(*CASES[number], 1000.0, settings))
        gap = found.test[-1] / limit - 1
        line = f"{CASES[number]!s:24}"
        try:
            seconds, values, _ = run_eqsolve(number, 1000, 1e-3 if number else 1e-5, np.array([1000.0]))
            line += f" {float(values['E_test'].values[0]) / limit - 1:10.2e} {seconds:7.2f}"
        except eqsolve.EqsolveError as error:
            line += f" failed: {error}"
        print(f"{line} {gap:14.2e} {special:8.2f} {len(found.test):5} {found.paths:6}", flush=True)


def peers(quick):
    number, t_max = 0, 20.0
    case, known = CASES[number], truth(number, t_max)
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
    case = CASES[0]
    solver = specialised.Solver(*case, specialised.make_grid(*case[:2], 20.0, settings))
    response, covariance = solver.start(settings)
    kernel = solver.kernel(response)
    factor, strengths = solver.rotate(covariance, kernel, response, settings.drop)
    ensemble = specialised.Ensemble(settings.margin * strengths, settings.accuracy, settings.sharp, len(response))
    seconds, _ = cpu(lambda: solver.sweep(response, covariance, ensemble, factor, kernel), 3)
    return seconds, len(response), ensemble.count


# --- what one would use instead
def euler_monte_carlo(alpha, delta, lam, sigma2, t_max, eta, paths, seed=0):
    """Return times, E_test and E_train of 𝔖^η with N paths: Euler steps, sampled drives, tangents of every path.

    z is extended in time by the next row of a Cholesky factor of its covariance, with a little jitter on the diagonal
    because that covariance is singular to rounding. Cost N T³/3 and memory N T²/2 for T = t_max/η steps.
    """
    rng = np.random.default_rng(seed)
    steps = round(t_max / eta)
    target = np.zeros(paths)
    target[: round(PROBABILITY * paths)] = 1.0
    off = np.empty((steps, paths))  # w − w*
    normals = np.empty((steps, paths))
    tangent = np.zeros((steps, steps, paths))  # [n, m] = ∂w(n)/∂z(m)
    r_w, r_f = np.zeros((steps, steps)), np.zeros((steps, steps))
    c_w, c_f, chol = np.zeros((steps, steps)), np.zeros((steps, steps)), np.zeros((steps, steps))
    w = np.zeros(paths)
    for n in range(steps):
        off[n] = w - target
        c_w[n, : n + 1] = c_w[: n + 1, n] = off[: n + 1] @ off[n] / paths + sigma2
        r_w[n, :n] = -tangent[n, :n].mean(axis=1)
        r_f[n, :n] = r_w[n, :n] - eta * r_w[n, :n] @ r_f[:n, :n]
        # C_f = (I + ηR_w)⁻¹ (C_w + σ²) (I + ηR_w)⁻ᵀ, its row n; I − ηR_f is the inverse
        inverse = -eta * r_f[n, : n + 1]
        inverse[n] = 1.0
        half = c_w[: n + 1, : n + 1] @ inverse
        c_f[n, : n + 1] = half - eta * r_f[: n + 1, : n + 1] @ half
        c_f[: n + 1, n] = c_f[n, : n + 1]
        row = np.linalg.solve(chol[:n, :n], delta * c_f[n, :n]) if n else np.zeros(0)
        chol[n, :n] = row
        chol[n, n] = np.sqrt(max(delta * c_f[n, n] - row @ row, 0.0) + 1e-9 * delta * c_f[0, 0])
        normals[n] = rng.standard_normal(paths)
        z = chol[n, : n + 1] @ normals[: n + 1]
        gradient = z / delta + off[n] - eta * r_f[n, :n] @ off[:n]
        root = np.sqrt(w**2 + alpha**4 * np.exp(-2 * lam * n * eta))
        if n + 1 < steps:
            slope = 1 - eta * (w / root * gradient + lam)
            if n:
                past = np.tensordot(r_f[n, :n], tangent[:n, :n], 1)
                tangent[n + 1, :n] = slope * tangent[n, :n] - eta * root * (tangent[n, :n] - eta * past)
            tangent[n + 1, n] = -root / delta
        w = w + eta * (-root * gradient - lam * w)
    times = eta * np.arange(steps)
    return times, c_w.diagonal().copy(), c_f.diagonal().copy()


def finite_dimension(alpha, delta, lam, sigma2, times, dimension, seed=0, rtol=1e-5):
    """Return E_test and E_train of one gradient flow in d dimensions (adaptive Runge–Kutta of order 5(4))."""
    from scipy.integrate import solve_ivp

    rng = np.random.default_rng(seed)
    samples = round(delta * dimension)
    data = rng.standard_normal((samples, dimension)) / np.sqrt(dimension)
    target = np.zeros(dimension)
    target[: round(PROBABILITY * dimension)] = 1.0
    labels = data @ target + np.sqrt(sigma2) * rng.standard_normal(samples)

    def weights(t, theta):
        return alpha**2 * np.exp(-lam * t) * np.sinh(theta)

    def flow(t, theta):
        return data.T @ (labels - data @ weights(t, theta)) / delta

    found = solve_ivp(flow, (0, times[-1]), np.zeros(dimension), t_eval=times, rtol=rtol, atol=1e-6)
    test, train = [], []
    for t, theta in zip(found.t, found.y.T, strict=True):
        w = weights(t, theta)
        test.append(((w - target) ** 2).mean() + sigma2)
        train.append(((labels - data @ w) ** 2).mean())
    return np.array(test), np.array(train)


# coarse and fine; a case with δ > 1 is the least smooth and gets more points and fewer panels
PAIR = (
    specialised.Settings(order=6, growth=1.4, accuracy=3e-8, stop=1e-7),
    specialised.Settings(order=7, growth=1.4, accuracy=3e-9, margin=1.3, stop=1e-7),
)
HARD = (
    specialised.Settings(order=6, accuracy=1e-6, margin=2.0, sharp=0.7, stop=1e-7),
    specialised.Settings(order=7, accuracy=1e-7, margin=2.5, sharp=0.7, stop=1e-7),
)
QUICK_PAIR = specialised.Settings(order=5, accuracy=1e-7, stop=1e-7), specialised.Settings(order=6, accuracy=1e-8, stop=1e-7)
QUICK_HARD = (
    specialised.Settings(order=5, accuracy=1e-5, margin=2.0, sharp=0.7, stop=1e-6),
    specialised.Settings(order=6, accuracy=1e-6, margin=2.0, sharp=0.7, stop=1e-7),
)


def spread(values):
    """Return the largest of each value and its four neighbours."""
    padded = np.pad(values, 2, mode="edge")
    return np.max([padded[k : k + len(values)] for k in range(5)], axis=0)


def reference(quick, out):
    """Write E_test and E_train of five cases by the solver written by hand, with their errors (some minutes).

    Every case is solved twice on [0, 50], with different orders in time and different points; the difference, smeared over
    neighbouring times, is the error stated for the finer of the two. ``quick``: about 1e-6 (1e-5 where the law is least smooth).
    """
    table = {
        "made_by": "benchmarks/paths.py reference, by code that shares nothing with the engine",
        "law": "w_star ~ Bernoulli(0.1)",
        "errors": "absolute, from two resolutions (order in time, points)",
        "cases": [],
    }
    for case in CASES:
        begin = time.process_time()
        pair = (QUICK_HARD if case[1] > 1 else QUICK_PAIR) if quick else HARD if case[1] > 1 else PAIR
        coarse, fine = (specialised.solve(*case, 50.0, settings) for settings in pair)
        entry = {"params": dict(zip(NAMES, case, strict=True))}
        for t_max in (20.0, 50.0):
            times = np.geomspace(0.01, t_max, 80)
            rows = {"t": times}
            for name, low, high in zip(("E_test", "E_train"), coarse.at(times), fine.at(times), strict=True):
                rows[name], rows[name + "_error"] = high, spread(np.abs(high - low))
                worst = np.max(rows[name + "_error"] / high)
                print(f"{case} t_max {t_max:g} {name}: relative error {worst:.1e}", flush=True)
            entry[f"t_max={t_max:g}"] = {
                name: [float(f"{x:.3g}" if name.endswith("error") else f"{x:.12g}") for x in values]
                for name, values in rows.items()
            }
        table["cases"].append(entry)
        print(
            f"  {time.process_time() - begin:.0f} s, paths {coarse.paths} and {fine.paths}, nodes {len(fine.test)}, "
            f"residual {coarse.residual:.0e} {fine.residual:.0e}",
            flush=True,
        )
    out.write_text(json.dumps(table, separators=(",", ":")).replace('{"params"', '\n{"params"') + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    parts = {
        "works": works, "corners": run_corners, "fresh": run_corners,
        "cases": lambda _: cases(20, 1e-3, specialised.FAST), "accurate": lambda _: cases(50, 1e-5, specialised.ACCURATE),
        "limits": lambda _: limits(), "peers": lambda asked: peers(asked.quick), "scaling": lambda asked: scaling(asked.quick),
        "reference": lambda asked: reference(asked.quick, asked.out),
    }  # fmt: skip
    made = {name: verbs.add_parser(name) for name in parts}
    for name in ("works", "corners", "fresh"):
        made[name].add_argument("--against", type=Path, default=None, help="a clone of another commit")
        made[name].add_argument("--limit", type=float, default=60.0, help="CPU seconds of a solve")
    made["works"].add_argument("--only", default=",".join(LINES), help=f"some of {', '.join(LINES)}")
    made["fresh"].add_argument("seed", type=int, help="of corners that nobody has looked at")
    made["fresh"].add_argument("--count", type=int, default=40)
    made["corners"].set_defaults(seed=corners.SEED, count=corners.COUNT)
    for name in ("corners", "fresh"):
        made[name].add_argument("--which", default="", help="which of them, as 0-9,13; all by default")
        made[name].add_argument("--truth-limit", type=float, default=0.0, help="CPU seconds for a corner's truth; 0: none")
        made[name].add_argument("--save", type=Path, default=None, help="file that keeps results and truths")
        made[name].add_argument("--logs", type=Path, default=None, help="folder for the logs")
    for name in ("peers", "scaling", "reference"):
        made[name].add_argument("--quick", action="store_true", help="fewer rows, or a rougher table")
    made["reference"].add_argument("--out", type=Path, default=TABLE)
    asked = parser.parse_args()
    if asked.verb in ("cases", "accurate", "limits", "peers", "scaling"):
        warm()
    parts[asked.verb](asked)


if __name__ == "__main__":
    main()
