"""This working tree against another commit: a warm solve with a new parameter, and a sweep of forty points.

    git clone . /tmp/other && git -C /tmp/other checkout COMMIT
    python benchmarks/house.py /tmp/other [--quick]

Each is run in a process of its own with one thread; CPU seconds without the import and the first compilation, and their ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
THREADS = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")}
SOLVE = """
eqsolve.solve("dln", t_max=20, alpha=0.3)
begin = time.process_time()
for alpha in (0.31, 0.32, 0.33):
    res = eqsolve.solve("dln", t_max=20, alpha=alpha)
found = {"cpu": (time.process_time() - begin) / 3, "status": res.status}
"""
SWEEP = """
eqsolve.solve("dln", t_max=2, alpha=0.3)
begin = time.process_time()
res = eqsolve.sweep("dln", {"alpha": "0.1:3:%d:log", "delta": "0.3,0.5,0.8,1.5"}, t_max=20)
found = {"cpu": time.process_time() - begin, "status": res.status}
"""


def measure(tree: Path, code: str) -> dict:
    """Return what a piece of code finds when it runs with the eqsolve of a tree."""
    whole = f"import json, time, eqsolve\n{code}\nprint(json.dumps({{'file': eqsolve.__file__, **found}}))"
    env = os.environ | THREADS | {"PYTHONPATH": str(tree)}
    done = subprocess.run([sys.executable, "-c", whole], cwd=tree, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{tree}: {done.stderr.strip().splitlines()[-1]}")
    found = json.loads(done.stdout.splitlines()[-1])
    assert Path(found["file"]).is_relative_to(tree), f"{found['file']} is not of {tree}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, help="a clone of another commit")
    parser.add_argument("--quick", action="store_true", help="a sweep of eight points")
    asked = parser.parse_args()
    points = 2 if asked.quick else 10
    for title, code in (
        ("warm solve of the first case, new alpha", SOLVE),
        (f"sweep of {4 * points} points, one worker", SWEEP % points),
    ):
        here, there = measure(HERE, code), measure(asked.other.resolve(), code)
        print(f"{title}: here {here['cpu']:.2f} s ({here['status']}), there {there['cpu']:.2f} s ({there['status']}), "
              f"ratio {there['cpu'] / here['cpu']:.2f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
