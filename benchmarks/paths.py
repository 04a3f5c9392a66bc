"""Solves that follow paths: CPU seconds of one core, and the ratio to another commit of eqsolve in the same run.

    git clone . /tmp/other && git -C /tmp/other checkout COMMIT
    python benchmarks/paths.py [--against /tmp/other] [--limit 60] [--only dln,sgd,...]

Every line is a process of its own, with one thread; the first, rough solve of the same model is not counted, so that imports and
compilation are not. What takes longer than the limit is stopped and shown as such. "tolerances" is the largest stated
error in units of what was asked for.
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

HERE = Path(__file__).resolve().parents[1]
CASES = ((0.3, 0.5, 0, 0), (1.0, 0.5, 0.1, 0.01), (2.0, 0.8, 0, 0.05), (0.1, 2.0, 0.05, 0.1), (5.0, 0.5, 0.5, 0))
KURAMOTO = """
from sympy import cos, sin
from eqsolve import E, Eq, System, function, process, random, times
from eqsolve.laws import Normal
t, omega, x0 = times("t"), random("omega", Normal(0, 1)), random("x0", Normal(0, 1))
(a, b), (x, v) = function("a b"), process("x v")
model = System("inertia", eqs=[Eq(a(t), E(cos(x(t)))), Eq(b(t), E(sin(x(t)))), Eq(x(t).diff(t), v(t)),
    Eq(v(t).diff(t), -v(t) + omega + 4 * (b(t) * cos(x(t)) - a(t) * sin(x(t))))], init={x: x0, v: 0})
"""


def dln(case: tuple[float, ...], **options: object) -> dict:
    return dict(zip(("alpha", "delta", "lam", "sigma2"), case, strict=True)) | options


# by topic: title, model, keywords of the solve, those of the first solve that is not counted
LINES: dict[str, list[tuple[str, str, dict]]] = {
    "dln": [(f"dln {case}, t = 20, 1e-3", "dln", dln(case, t_max=20, rtol=1e-3)) for case in CASES],
    "accurate": [
        (f"dln {case}, t = 50, 1e-5", "dln", dln(case, t_max=50, rtol=1e-5, observables=["E_test"])) for case in CASES
    ],
    "kinks": [(f"dln {case}, t = 30, 1e-5, all observables", "dln", dln(case, t_max=30, rtol=1e-5)) for case in CASES],
    "late": [
        ("dln (0.1, 2, 0.05, 0.1), t = 1000, 1e-3", "dln", dln(CASES[3], t_max=1000, rtol=1e-3)),
        ("dln (5, 0.5, 0.5, 0), t = 1000, 1e-3", "dln", dln(CASES[4], t_max=1000, rtol=1e-3)),
    ],
    "flows": [
        ("teacher_student_tanh, t = 10, 1e-3", "teacher_student_tanh", {"t_max": 10, "rtol": 1e-3}),
        ("committee with q_01, t = 5, 1e-2", "committee", {"t_max": 5, "rtol": 1e-2, "observables": ["q_01"]}),
        ("dln_flow, L = 3, t = 300, 1e-4", "dln_flow", {"alpha": 1, "delta": 0.5, "L": 3, "t_max": 300, "rtol": 1e-4}),
    ],
    "bent": [
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
CODE = """
import json, sys, tempfile, time
from pathlib import Path
import eqsolve
name, options = json.loads(sys.argv[1])
if name == "sweep":
    run = lambda **more: eqsolve.sweep("dln", {"alpha": "0.1:3:10:log", "delta": "0.3,0.5,0.8,1.5"}, workers=1, **{**options, **more})
    eqsolve.solve("dln", t_max=2, rtol=1e-2)
else:
    if "import" in name:
        path = Path(tempfile.mkdtemp()) / "inertia.py"
        path.write_text(name)
        name = str(path)
    model = eqsolve.load(name)
    run = lambda **more: eqsolve.solve(model, **{**options, **more})
    run(t_max=min(options["t_max"], 10 * options.get("step", 0.1)), rtol=0.3)
begin = time.process_time()
found = run()
seconds = time.process_time() - begin
print(json.dumps({"file": eqsolve.__file__, "seconds": seconds, "status": found.status, "message": found.message}))
"""


def measure(tree: Path, name: str, options: dict, limit: float) -> dict:
    """Return CPU seconds and the status of a solve by the eqsolve of a tree."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS", "EQSOLVE_THREADS"), "1")
    env = os.environ | threads | {"PYTHONPATH": str(tree)}
    command = [sys.executable, "-c", CODE, json.dumps([name, options])]
    begin = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=tree, env=env, capture_output=True, text=True, check=False, timeout=1.5 * limit + 30
        )
    except subprocess.TimeoutExpired:
        return {"seconds": time.monotonic() - begin, "status": "over the limit", "message": ""}
    if done.returncode:
        return {"seconds": float("nan"), "status": "failed", "message": done.stderr.strip().splitlines()[-1]}
    found = json.loads(done.stdout.splitlines()[-1])
    assert Path(found["file"]).is_relative_to(tree), f"{found['file']} is not of {tree}"
    return found


def shown(found: dict) -> str:
    words = found["message"].split(" times the tolerance")
    over = (
        f", {words[0].split()[-1]} tolerances" if len(words) > 1 else f", {found['message'][:40]}" if found["message"] else ""
    )
    return f"{found['seconds']:.1f} s ({found['status']}{over})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, help="a clone of another commit")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds of a solve, roughly")
    parser.add_argument("--only", default=",".join(LINES), help=f"some of {', '.join(LINES)}")
    asked = parser.parse_args()
    print("| solve | here |" + (" there | here / there |" if asked.against else ""))
    print("|---|---|" + ("---|---|" if asked.against else ""), flush=True)
    for topic in asked.only.split(","):
        ratios = []
        for title, name, options in LINES[topic]:
            here = measure(HERE, name, options, asked.limit)
            line = f"| {title} | {shown(here)} |"
            if asked.against:
                there = measure(asked.against.resolve(), name, options, asked.limit)
                ratios.append(here["seconds"] / there["seconds"])
                line += f" {shown(there)} | {ratios[-1]:.2f} |"
            print(line, flush=True)
        if ratios:
            print(f"| {topic}, geometric mean | | | {statistics.geometric_mean(ratios):.2f} |", flush=True)


if __name__ == "__main__":
    main()
