"""A graphics card beside one CPU core, on one machine, in double precision: seconds, and errors stated and found.

    python3 benchmarks/gpu.py                         # all cases, the core's side at most 300 s each
    python3 benchmarks/gpu.py finite spin --limit 60  # some of them
    python3 benchmarks/gpu.py spin --profile          # and where the card's side spends its time

Every case runs in a process of its own, on the card one after another, on the core all at once, each with one thread. A small
solve of the same kind goes first and is not timed: it compiles the equations, opens the card and loads its libraries. On the card
the case itself goes first too: CuPy compiles a kernel for every kind of operation when it is met, once on a machine.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import json
import os
import pstats
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "EQSOLVE_THREADS")
DLN = ((0.3, 0.5, 0.0, 0.0), (1.0, 0.5, 0.1, 0.01), (2.0, 0.8, 0.0, 0.05), (0.1, 2.0, 0.05, 0.1), (5.0, 0.5, 0.5, 0.0))


def finite(device: str, small: bool) -> dict[str, Any]:
    import eqsolve

    run = eqsolve.load("dln_flow").simulate(
        d=500 if small else 20_000, delta=0.5, t_max=10, device=device, workers=1 if device == "cpu" else None
    )
    return {
        "values": [float(values[0, -1]) for values in run.values.values()],
        "note": f"{run.stats['evaluations']} evaluations",
    }


def spin(kappa: float) -> Callable[[str, bool], dict[str, Any]]:
    def case(device: str, small: bool) -> dict[str, Any]:
        import eqsolve

        return _solved(eqsolve.solve("soft_spin", t_max=4, rtol=0.05 if small else 1e-3, kappa=kappa, device=device), "q")

    return case


def chaos(device: str, small: bool) -> dict[str, Any]:
    from sympy import tanh

    import eqsolve
    from eqsolve import GP, E, Eq, System, correlation, param, process, random, times
    from eqsolve.laws import Normal

    t, tp = times("t t'")
    g, u = param("g u", positive=True)
    x, eta = process("x eta")
    C = correlation("C")
    x0 = random("x0", Normal(0, 1))
    model = System(
        "cubic_rnn",
        eqs=[
            Eq(C(t, tp), g**2 * E(tanh(x(t)) * tanh(x(tp)))),
            Eq(x(t).diff(t), -x(t) - u * x(t) ** 3 + eta(t)),
        ],
        laws={eta: GP(C(t, tp))},
        init={x: x0},
        defaults={g: 3, u: 0.1},
        observables={"q": C(t, t)},
    )
    how = {"t_max": 1, "rtol": 0.05} if small else {"t_max": 50, "rtol": 1e-3}
    return _solved(eqsolve.solve(model, device=device, solver="sampled", **how), "q")


def dln(number: int) -> Callable[[str, bool], dict[str, Any]]:
    def case(device: str, small: bool) -> dict[str, Any]:
        import eqsolve

        params = dict(zip(("alpha", "delta", "lam", "sigma2"), DLN[number], strict=True))
        how = {"t_max": 1, "rtol": 1e-2} if small else {"t_max": 50, "rtol": 1e-5}
        return _solved(eqsolve.solve("dln", device="auto" if device == "gpu" else "cpu", params=params, **how), "E_test")

    return case


def corner(number: int) -> Callable[[str, bool], dict[str, Any]]:
    def case(device: str, small: bool) -> dict[str, Any]:
        import eqsolve
        from benchmarks.corners import WATCHED, corners

        drawn = corners()[number]
        how = (
            {"t_max": 1, "rtol": 1e-2, **corners()[0].settings}
            if small
            else {"t_max": drawn.t_max, "rtol": 1e-3, **drawn.settings}
        )
        return _solved(eqsolve.solve("dln", device=device, observables=list(WATCHED), **how), "E_test")

    return case


def tanh(device: str, small: bool) -> dict[str, Any]:
    import eqsolve

    how = {"t_max": 1, "rtol": 1e-2} if small else {"t_max": 10, "rtol": 1e-4}
    return _solved(eqsolve.solve("teacher_student_tanh", device=device, **how), "train_loss")


def sgd(device: str, small: bool) -> dict[str, Any]:
    import eqsolve

    how = {"t_max": 1, "rtol": 5e-2} if small else {"t_max": 10, "rtol": 1e-3}
    return _solved(eqsolve.solve("dln_sgd", device=device, step=0.1, batch=0.25, **how), "E_test")


def sweep(device: str, small: bool) -> dict[str, Any]:
    import eqsolve

    how = "auto" if device == "gpu" else "cpu"
    grid = {"alpha": "0.05:2:2:log" if small else "0.05:2:16:log", "delta": [0.5] if small else "0.2:2:16:log"}
    made = eqsolve.sweep("dln", grid, t_max=20, rtol=1e-3, device=how)
    return {"values": made["E_test"].values[..., -1].ravel().tolist(), "note": f"{made.stats['points']} points"}


def _solved(result: Any, name: str) -> dict[str, Any]:
    values, errors = result.dataset[name].values, result.dataset[f"{name}_error"].values
    stats = {key: result.stats[key] for key in ("nodes", "paths", "samples", "sweeps") if key in result.stats}
    share = float((errors / abs(values).max()).max())
    return {"values": [float(values[-1])], "error": share, "status": result.status, "note": f"{stats}"}


CASES: dict[str, dict[str, Callable[[str, bool], dict[str, Any]]]] = {
    "finite": {"finite size, dln_flow, d = 20,000, t = 10": finite},
    "spin": {f"soft_spin, kappa = {k}, t = 4, rtol 1e-3": spin(float(k)) for k in (0, 1)},
    "chaos": {"x' = -x - 0.1 x^3 + eta, g = 3, t = 50, rtol 1e-3": chaos},
    "dln": {f"dln {case}, t = 50, rtol 1e-5, auto": dln(number) for number, case in enumerate(DLN)},
    "corners": {f"corner {number} of dln, rtol 1e-3": corner(number) for number in (11, 14, 15, 28)},
    "tanh": {"teacher_student_tanh, t = 10, rtol 1e-4": tanh},
    "sgd": {"dln_sgd, 100 steps, batch 0.25, rtol 1e-3": sgd},
    "sweep": {"sweep of dln, 256 points, t = 20, rtol 1e-3, auto": sweep},
}
EVERY = {label: case for group in CASES.values() for label, case in group.items()}


@contextlib.contextmanager
def profiled(wanted: bool) -> Iterator[None]:
    """Print the functions that took longest, to the error stream."""
    if not wanted:
        yield
        return
    with cProfile.Profile() as profile:
        yield
    pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(25)


def one(label: str, device: str, profile: bool) -> None:
    """Run one case, warm, and print what it took."""
    began = time.perf_counter()
    for small in (True, False) if device == "gpu" else (True,):
        EVERY[label](device, small)
    warm = time.perf_counter()
    with profiled(profile):
        made = EVERY[label](device, False)
    print(json.dumps({**made, "seconds": time.perf_counter() - warm, "first": warm - began}))


def start(label: str, device: str, profile: bool = False) -> subprocess.Popen[str]:
    single = dict.fromkeys(THREADS, "1") if device == "cpu" else {}
    command = [sys.executable, __file__, "--one", label, "--device", device, *(["--profile"] if profile else [])]
    told = None if profile else subprocess.PIPE
    return subprocess.Popen(command, env={**os.environ, **single}, stdout=subprocess.PIPE, stderr=told, text=True)


def finish(process: subprocess.Popen[str], limit: float) -> dict[str, Any]:
    try:
        out, err = process.communicate(timeout=max(limit, 0.1))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return {"failed": "not done"}
    if process.returncode:
        return {"failed": ((err or "").strip().splitlines() or ["no message"])[-1]}
    found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument(
        "--limit", type=float, default=300.0, help="seconds for the core's side, and for each case on the card"
    )
    parser.add_argument("--profile", action="store_true", help="print where the card's side spends its time")
    parser.add_argument("--card-only", action="store_true", help="leave the core's side out")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--device", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        one(asked.one, asked.device, asked.profile)
        return
    labels = [label for name in asked.cases or CASES for label in CASES[name]]
    card = {}
    for label in labels:
        card[label] = finish(start(label, "gpu", asked.profile), asked.limit)
        print(f"card: {label}: {card[label]}", flush=True)
    began = time.perf_counter()
    running = {label: start(label, "cpu") for label in ([] if asked.card_only else labels)}
    core = {label: finish(process, asked.limit - (time.perf_counter() - began)) for label, process in running.items()}
    for label, found in core.items():
        print(f"core: {label}: {found}", flush=True)
    print("\n| work | card, s | first solve, s | one core, s | times | error | apart |\n|---|---|---|---|---|---|---|")
    for label in labels:
        mine, yours = card[label], core.get(label, {"failed": "not tried"})
        if "failed" in mine:
            print(f"| {label} | {mine['failed']} | | | | | |")
            continue
        known = "seconds" in yours
        seconds = f"{yours['seconds']:.1f}" if known else f"> {asked.limit:.0f} ({yours['failed']})"
        times = f"{yours['seconds'] / mine['seconds']:.0f}" if known else f"> {asked.limit / mine['seconds']:.0f}"
        apart = max(abs(a - b) / abs(b) for a, b in zip(mine["values"], yours["values"], strict=True)) if known else None
        error = f"{mine['error']:.1e}" if "error" in mine else ""
        gap = "" if apart is None else f"{apart:.0e}"
        print(f"| {label} | {mine['seconds']:.2f} | {mine['first']:.1f} | {seconds} | {times} | {error} | {gap} |")


if __name__ == "__main__":
    main()
