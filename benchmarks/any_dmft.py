"""Mean-field theories of other fields, every regime of the first one: error and CPU seconds beside what they should be.

    python benchmarks/any_dmft.py [--only rnn,spins,tanh,bends,large,decay,species,kink] [--limit 200]

Truths are independent of the solvers measured: published digits of a solver for one model, a potential problem, sampling,
cavity equations, lazy limits, fixed points. CPU seconds of one thread, warm (the model is compiled before). A case that takes
longer than the limit is stopped, and printed as such.
"""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Callable, Iterator

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "EQSOLVE_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from scipy.optimize import fsolve
from scipy.special import ndtr

import eqsolve

Row = tuple[str, str, Callable[[], eqsolve.Result], Callable[[eqsolve.Result], dict[str, tuple[float, float, float]]]]


def at(result, moment, name):
    """Return a value and its stated error."""
    found = result.at([moment])
    return float(found[name][0]), float(found[f"{name}_error"][0])


def judged(result, truths):
    """Return (value, error, stated) for {(name, time): truth}."""
    made = {}
    for (name, moment), truth in truths.items():
        value, stated = at(result, moment, name)
        made[f"{name}({moment:g})"] = (value, abs(value - truth), stated)
    return made


def pairs(result, name, truths):
    """Return the same for values of two times."""
    made = {}
    for (late, early), truth in truths.items():
        found = result.at2([(late, early)])
        value, stated = float(found[name][0]), float(found[f"{name}_error"][0])
        made[f"{name}({late:g},{early:g})"] = (value, abs(value - truth), stated)
    return made


def networks() -> Iterator[Row]:
    known = {(10, 10): 1.8446723003, (10, 5): 0.6127988616, (5, 5): 1.5524510932}
    yield (
        "rnn gain 2, [0, 10], rtol 1e-6", "1e-6, 5 s",
        lambda: eqsolve.solve("rnn", gain=2, t_max=10, rtol=1e-6, at2=list(known)), lambda r: pairs(r, "C", known),
    )  # fmt: skip
    yield (
        "rnn gain 1.5, [0, 100], rtol 1e-4", "1e-4, 30 s",
        lambda: eqsolve.solve("rnn", gain=1.5, t_max=100, rtol=1e-4, at2=[(100, 100)]),
        lambda r: pairs(r, "C", {(100, 100): potential_problem(1.5)}),
    )  # fmt: skip


def potential_problem(gain):
    """Return C(0) of the stationary network: E Φ(√C z)² − (E Φ)² = C²/(2g²) with Φ = log cosh, by its classical energy."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()

    def energy(size):
        wave = np.log(np.cosh(np.sqrt(size) * nodes))
        return gain**2 * (weights @ wave**2 - (weights @ wave) ** 2) - size**2 / 2

    low, high = 1e-3, 10.0
    grid = np.linspace(low, high, 400)
    signs = np.sign([energy(value) for value in grid])
    place = int(np.flatnonzero(np.diff(signs))[-1])
    from scipy.optimize import brentq

    return brentq(energy, grid[place], grid[place + 1], xtol=1e-13)


def spins() -> Iterator[Row]:
    sampled = {("q", 2.0): 0.3303, ("q", 4.0): 0.329}  # each ± 0.001
    for rtol, allowed in ((1e-2, "5 s"), (3e-3, "30 s")):
        yield (
            f"soft_spin, independent couplings, t = 4, rtol {rtol:g}", allowed,
            lambda rtol=rtol: eqsolve.solve("soft_spin", kappa=0, t_max=4, rtol=rtol, observables=["q"]),
            lambda r: judged(r, sampled),
        )  # fmt: skip


def students() -> Iterator[Row]:
    yield (
        "teacher_student_tanh, t = 10, rtol 1e-3", "8 s",
        lambda: eqsolve.solve("teacher_student_tanh", t_max=10, rtol=1e-3),
        lambda r: {"train_loss(10)": (at(r, 10, "train_loss")[0], float("nan"), at(r, 10, "train_loss")[1])},
    )  # fmt: skip


def bends() -> Iterator[Row]:
    for name in ("huber_regression", "perceptron_hinge", "relu_student"):
        yield (
            f"{name}, t = 5, rtol 1e-2", "",
            lambda name=name: eqsolve.solve(name, t_max=5, rtol=1e-2),
            lambda r: {"m(5)": (at(r, 5, "m")[0], float("nan"), at(r, 5, "m")[1])},
        )  # fmt: skip


def large_scales() -> Iterator[Row]:
    limit = float(eqsolve.solve("dln_lazy", t_max=200, rtol=1e-8).at([200.0])["E_test"][0])  # at rest but for e^{-34}
    for alpha in (1e3, 1e4):
        yield (
            f"dln α = {alpha:g}, t = 10, rtol 1e-3", "1e-3, 10 s",
            lambda alpha=alpha: eqsolve.solve("dln", alpha=alpha, t_max=10, rtol=1e-3, observables=["E_test"]),
            lambda r: judged(r, {("E_test", 10.0): limit}),
        )  # fmt: skip


def decays() -> Iterator[Row]:
    for alpha, delta, lam, sigma2 in ((0.1, 2, 0.05, 0.1), (5, 0.5, 0.5, 0)):
        settings = {"alpha": alpha, "delta": delta, "lam": lam, "sigma2": sigma2}
        limit = float(eqsolve.solve("dln_fixed_point", **settings)["E_test"])
        yield (
            f"dln {alpha:g}, {delta:g}, {lam:g}, {sigma2:g}, t = 1000, rtol 1e-4", "1e-4, 60 s",
            lambda s=settings: eqsolve.solve("dln", t_max=1000, rtol=1e-4, observables=["E_test"], **s),
            lambda r, limit=limit: judged(r, {("E_test", 1000.0): limit}),
        )  # fmt: skip


def species() -> Iterator[Row]:
    def off(pair):
        width = 0.5 * np.sqrt(pair[1])
        k = (1 - 4 * pair[0]) / width
        density = np.exp(-(k**2) / 2) / np.sqrt(2 * np.pi)
        return [width * (k * ndtr(k) + density) - pair[0], width**2 * ((1 + k**2) * ndtr(k) + k * density) - pair[1]]

    m, q = fsolve(off, [0.2, 0.05], xtol=1e-13)
    for last in (60.0, 200.0):
        yield (
            f"lotka_volterra, t = {last:g}, rtol 1e-3 (rest state, approached as 1/t²)", "",
            lambda last=last: eqsolve.solve("lotka_volterra", t_max=last, rtol=1e-3),
            lambda r, last=last: judged(r, {("m", last): m, ("q", last): q}),
        )  # fmt: skip


def kinks() -> Iterator[Row]:
    yield (
        "dln E|w|, t = 10, rtol 1e-4", "1e-4, 10 s",
        lambda: eqsolve.solve("dln", t_max=10, rtol=1e-4),
        lambda r: {"l1(10)": (at(r, 10, "l1")[0], float("nan"), at(r, 10, "l1")[1])},
    )  # fmt: skip


PARTS = {
    "rnn": networks, "spins": spins, "tanh": students, "bends": bends, "large": large_scales, "decay": decays,
    "species": species, "kink": kinks,
}  # fmt: skip


class OverTime(Exception):
    """The limit of one case."""


def stop(*_):
    raise OverTime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--limit", type=float, default=200.0, help="CPU seconds of one case")
    options = parser.parse_args()
    signal.signal(signal.SIGVTALRM, stop)
    print("| work | asked | CPU s | status | value, error, stated |\n|---|---|---|---|---|")
    for part in options.only.split(","):
        for work, asked, run, judge in PARTS[part]():
            begin = time.process_time()
            signal.setitimer(signal.ITIMER_VIRTUAL, options.limit)
            try:
                result = run()
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                spent, status = time.process_time() - begin, result.status
                told = ", ".join(f"{name} = {v:.8g}, {e:.1e}, {s:.1e}" for name, (v, e, s) in judge(result).items())
            except OverTime:
                spent, status, told = time.process_time() - begin, "stopped", ""
            except eqsolve.EqsolveError as error:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                spent, status, told = time.process_time() - begin, "failed", str(error)[:80]
            print(f"| {work} | {asked} | {spent:.1f} | {status} | {told} |", flush=True)


if __name__ == "__main__":
    main()
