"""Sixty corners of the diagonal network, drawn at random once and for all: is every one solved, how soon, and how truly?

    python benchmarks/paths.py corners [--which 0-59] [--limit 60] [--truth-limit 200] [--save corners.json]
    python benchmarks/paths.py fresh SEED [--count 40] [...]

Each corner runs in a process of its own, under a limit of CPU seconds. The truth is the closed form of the lazy limit where α is so
large that it holds to 1e-6 (λ = 0), else (with --truth-limit) a solve for a tenth of the tolerance with another seed, other orders and thus other panels and points.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import eqsolve
from eqsolve.spectra import MarchenkoPastur

LAWS = (
    "Bernoulli(0.1)", "Bernoulli(0.5)", "Normal(0, 1)", "Rademacher(0.3)", "GaussBernoulli(0.2, 1)", "Uniform(-1, 1)",
    "Laplace(0.5)",
)  # fmt: skip
COUNT, SEED, RTOL = 60, 2026, 1e-3
WATCHED = ("E_test", "E_train")
LAZY = 100.0  # α from which on the lazy limit is right to w²/α⁴ ≈ 1e-8
FLOOR = 0.1  # of the largest value: smaller ones are known to the tolerance of this


@dataclass(frozen=True)
class Corner:
    number: int
    alpha: float
    delta: float
    lam: float
    sigma2: float
    w_star: str
    t_max: float

    @property
    def settings(self):
        return {name: value for name, value in asdict(self).items() if name not in ("number", "t_max")}

    @property
    def times(self):
        return np.geomspace(1e-3 * self.t_max, self.t_max, 25)

    def __str__(self):
        numbers = (self.alpha, self.delta, self.lam, self.sigma2)
        return f"{self.number} | {' | '.join(f'{value:.3g}' for value in numbers)} | {self.w_star} | {self.t_max:.3g}"


def corners(seed: int = SEED, count: int = COUNT) -> list[Corner]:
    """Return the sixty corners, or others: a third without weight decay, a third without label noise, independently."""
    rng = np.random.default_rng(seed)

    def spread(low, high):
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    made = []
    for number in range(count):
        alpha, delta = spread(1e-4, 1e4), spread(0.1, 10)
        lam, sigma2 = spread(1e-3, 2), spread(1e-3, 1)
        without = rng.uniform(size=2) < 1 / 3
        law, t_max = LAWS[rng.integers(len(LAWS))], spread(3, 1000)
        shown = [float(f"{value:.3g}") for value in (alpha, delta, lam, sigma2, t_max)]
        made.append(Corner(number, *shown[:2], *np.where(without, 0.0, shown[2:4]).tolist(), law, shown[4]))
    return made


class OverTime(BaseException):
    """The limit of one solve."""


def _stop(*_):
    raise OverTime


def attempt(corner: Corner, limit: float, **more) -> dict:
    """Solve a corner in this process; return status, CPU seconds, values and stated errors."""
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, limit)
    begin = time.process_time()
    settings = {"rtol": RTOL, "observables": list(WATCHED)} | more
    try:
        result = eqsolve.solve("dln", t_max=corner.t_max, **corner.settings, **settings)
        signal.setitimer(signal.ITIMER_PROF, 0)
        told = {"status": result.status, "stats": {key: result.stats.get(key) for key in ("nodes", "paths", "sweeps")}}
        found = result.at(corner.times)
        for name in WATCHED:
            told[name], told[f"{name}_error"] = found[name].values.tolist(), found[f"{name}_error"].values.tolist()
    except OverTime:
        told = {"status": "over the limit"}
    except (eqsolve.EqsolveError, MemoryError, ArithmeticError, ValueError) as error:
        told = {"status": "failed", "why": str(error)[:200]}
    signal.setitimer(signal.ITIMER_PROF, 0)
    return told | {"seconds": time.process_time() - begin}


def _child(corner, limit, more, log, sender):
    if log is not None:
        logging.basicConfig(filename=log, level=logging.INFO, format="%(relativeCreated)d %(message)s", force=True)
    sender.send(attempt(corner, limit, **more))


def apart(corner: Corner, limit: float, log: Path | None = None, **more) -> dict:
    """Solve a corner in a process of its own."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(corner, limit, more, log, sender))
    process.start()
    sender.close()
    try:
        told = receiver.recv()
    except EOFError:
        told = {"status": "died", "seconds": float("nan")}
    process.join()
    return told


def truth_of(corner: Corner, limit: float) -> tuple[str, dict[str, np.ndarray], dict[str, np.ndarray]] | None:
    """Return where the truth comes from, the values watched at the corner's times, and how well they are known."""
    if corner.lam == 0 and corner.alpha >= LAZY:
        values = _lazy(corner)
        return "lazy limit", values, {name: 1e-7 * np.abs(value) + 1e-12 for name, value in values.items()}
    told = apart(corner, limit, rtol=0.1 * RTOL, seed=17, order=6)
    if told["status"] != "ok":
        return None
    return "rtol 1e-4", *({name: np.array(told[f"{name}{end}"]) for name in WATCHED} for end in ("", "_error"))


def _lazy(corner: Corner) -> dict[str, np.ndarray]:
    """Return the closed form of the lazy limit: means over the eigenvalues of XᵀX/δ."""
    eigenvalues, weights = MarchenkoPastur(corner.delta).quadrature(600)
    x, square, noise = eigenvalues[:, None], _square(corner.w_star), corner.sigma2 / corner.delta
    falls = np.exp(-x * corner.alpha**2 * corner.times)
    learnt = (1 - falls) ** 2 / np.where(x > 0, x, 1.0)
    return {
        "E_test": corner.sigma2 + square * (weights @ falls**2) + noise * (weights @ learnt),
        "E_train": square * (weights @ (x * falls**2)) + noise * (weights @ falls**2 + corner.delta - 1),
    }


def _square(law: str) -> float:
    """Return E w*² of the laws above."""
    name, inside = law.rstrip(")").split("(")
    first, *rest = (float(value) for value in inside.split(","))
    match name:
        case "Bernoulli" | "Rademacher":
            return first
        case "Normal":
            return first**2 + rest[0]
        case "GaussBernoulli":
            return first * rest[0]
        case "Uniform":
            return (first**2 + first * rest[0] + rest[0] ** 2) / 3
        case "Laplace":
            return 2 * first**2
    raise ValueError(law)


def judge(corner: Corner, told: dict, known) -> dict:
    """Return the largest error in tolerances, and the largest ratio of a true error to the stated one."""
    _, values, doubt = known
    worst, ratio = 0.0, 0.0
    for name in WATCHED:
        found, stated = np.array(told[name]), np.array(told[f"{name}_error"])
        off = np.abs(found - values[name])
        begin = _square(corner.w_star) + corner.sigma2  # of both
        allowed = RTOL * np.maximum(np.abs(values[name]), FLOOR * max(begin, np.abs(values[name]).max()))
        worst = max(worst, float((off / allowed).max()))
        sure = off > 2 * doubt[name]  # else the truth is not known well enough to tell
        ratio = max(ratio, float((off / np.maximum(stated, 1e-300))[sure].max(initial=0.0)))
    return {"worst": worst, "ratio": ratio}


def run(chosen: list[Corner], limit: float, truth_limit: float, save: Path | None, logs: Path | None = None) -> None:
    """Solve the corners and print the table and its summary."""
    eqsolve.solve("dln", t_max=1, rtol=1e-1, observables=list(WATCHED))  # compiled here, once
    kept = json.loads(save.read_text()) if save is not None and save.exists() else {}
    print(
        "| corner | α | δ | λ | σ² | w* | t | status | CPU s | nodes, paths, sweeps | error / tolerance | true / stated | truth |"
    )
    print("|" + "---|" * 13)
    rows = []
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
    for corner in chosen:
        told = apart(corner, limit, logs / f"{corner.number}.log" if logs else None)
        known = _known(corner, truth_limit, kept) if truth_limit > 0 and told["status"] == "ok" else None
        told |= judge(corner, told, known) if known else {}
        rows.append((corner, told))
        stats = told.get("stats", {})
        print(
            f"| {corner} | {told['status']} {told.get('why', '')[:60]} | {told['seconds']:.1f} "
            f"| {', '.join(str(value) for value in stats.values())} | {told.get('worst', float('nan')):.2g} "
            f"| {told.get('ratio', float('nan')):.2g} | {known[0] if known else ''} |",
            flush=True,
        )
        if save is not None:
            kept[str(corner.number)] = kept.get(str(corner.number), {}) | {"told": told}
            save.write_text(json.dumps(kept))
    summarise(rows)


def _known(corner: Corner, limit: float, kept: dict):
    """Return the truth of a corner, from the file where it is known already."""
    entry = kept.setdefault(str(corner.number), {})
    if "truth" not in entry:
        made = truth_of(corner, limit)
        entry["truth"] = made and [made[0], *({name: list(item) for name, item in part.items()} for part in made[1:])]
    if entry["truth"] is None:
        return None
    return entry["truth"][0], *({name: np.array(item) for name, item in part.items()} for part in entry["truth"][1:])


def summarise(rows) -> None:
    seconds = np.array([told["seconds"] for _, told in rows])
    solved = [told for _, told in rows if told["status"] == "ok"]
    known = [told for told in solved if "ratio" in told]
    print(
        f"\n{len(solved)} of {len(rows)} solved; CPU seconds: median {np.median(seconds):.1f}, largest {seconds.max():.0f}, "
        f"{int((seconds > 2).sum())} above 2; truth known of {len(known)}: error / tolerance at most "
        f"{max((told['worst'] for told in known), default=float('nan')):.2g}, true / stated at most "
        f"{max((told['ratio'] for told in known), default=float('nan')):.2g}, "
        f"{sum(told['ratio'] > 3 for told in known)} above 3",
        file=sys.stdout,
    )
