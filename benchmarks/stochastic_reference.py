"""Write tests/solvers/reference_dln.json: E_test and E_train of five cases by the specialised solver, with their errors.

    python benchmarks/stochastic_reference.py [--out FILE] [--case N] [--quick]      (some minutes)

Every case is solved twice on [0, 50], with different orders in time and different points; the difference, smeared over
neighbouring times, is the error stated for the finer of the two.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from specialised_dln import CASES, Settings, solve

# coarse and fine; a case with δ > 1 is the least smooth and gets more points and fewer panels
PAIR = (
    Settings(order=6, growth=1.4, accuracy=3e-8, stop=1e-7),
    Settings(order=7, growth=1.4, accuracy=3e-9, margin=1.3, stop=1e-7),
)
HARD = (
    Settings(order=6, accuracy=1e-6, margin=2.0, sharp=0.7, stop=1e-7),
    Settings(order=7, accuracy=1e-7, margin=2.5, sharp=0.7, stop=1e-7),
)
QUICK_PAIR = Settings(order=5, accuracy=1e-7, stop=1e-7), Settings(order=6, accuracy=1e-8, stop=1e-7)
QUICK_HARD = (
    Settings(order=5, accuracy=1e-5, margin=2.0, sharp=0.7, stop=1e-6),
    Settings(order=6, accuracy=1e-6, margin=2.0, sharp=0.7, stop=1e-7),
)
OUT = Path(__file__).resolve().parents[1] / "tests" / "solvers" / "reference_dln.json"


def spread(values):
    """Return the largest of each value and its four neighbours."""
    padded = np.pad(values, 2, mode="edge")
    return np.max([padded[k : k + len(values)] for k in range(5)], axis=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quick", action="store_true", help="about 1e-6 (1e-5 where the law is least smooth) in a minute")
    parser.add_argument("--case", type=int, help="only this one, of those numbered from 0")
    arguments = parser.parse_args()
    table = {
        "made_by": "benchmarks/stochastic_reference.py, which shares no code with the engine",
        "law": "w_star ~ Bernoulli(0.1)",
        "errors": "absolute, from two resolutions (order in time, points)",
        "cases": [],
    }
    for case in CASES if arguments.case is None else [CASES[arguments.case]]:
        begin = time.process_time()
        pair = (QUICK_HARD if case[1] > 1 else QUICK_PAIR) if arguments.quick else HARD if case[1] > 1 else PAIR
        coarse, fine = (solve(*case, 50.0, settings) for settings in pair)
        entry = {"params": dict(zip(("alpha", "delta", "lam", "sigma2"), case, strict=True))}
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
    arguments.out.write_text(
        json.dumps(table, separators=(",", ":")).replace('{"params"', '\n{"params"') + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
