"""Derivatives along parameters: error against the truth, and CPU time beside that of the solve alone.

python benchmarks/derivatives.py
"""

from __future__ import annotations

import time

import numpy as np

import eqsolve

CASES = (
    ("dln_lazy", "delta", "E_test", {"delta": 0.5, "sigma2": 0.1}, 5.0, 1e-6, 1e-10, 1e-3),
    ("pspin", "T", "energy", {"T": 0.5}, 5.0, 1e-6, 1e-10, 2e-3),
    ("dln_infinite_data", "alpha", "E_test", {"alpha": 0.3, "lam": 0.1}, 20.0, 1e-6, 1e-10, 1e-3),
    ("dln", "alpha", "E_test", {"alpha": 0.3, "delta": 0.5}, 20.0, 1e-3, 1e-5, 2e-2),
)


def main() -> None:
    for model, parameter, name, settings, end, rtol, fine, step in CASES:
        own = {"observables": ["E_train", "E_test"]} if model == "dln" else {}
        moments = [end / 20, end / 2, end]

        def at(value: float, model=model, settings=settings, parameter=parameter, fine=fine, own=own, moments=moments):
            solved = eqsolve.solve(model, **{**settings, parameter: value}, t_max=moments[-1], rtol=fine, **own)
            return solved.at(moments)

        here = settings[parameter]
        runs = [at(here + k * step)[name].values for k in (-2, -1, 1, 2)]
        truth = (8 * (runs[2] - runs[1]) - (runs[3] - runs[0])) / (12 * step)
        eqsolve.solve(model, **settings, t_max=end, rtol=rtol, derivatives=[parameter], **own)
        begun = time.process_time()
        eqsolve.solve(model, **settings, t_max=end, rtol=rtol, **own)
        alone = time.process_time() - begun
        begun = time.process_time()
        result = eqsolve.solve(model, **settings, t_max=end, rtol=rtol, derivatives=[parameter], **own).at(moments)
        both = time.process_time() - begun
        found, error = result[f"{name}_d_{parameter}"].values, result[f"{name}_d_{parameter}_error"].values
        off = np.abs(found / truth - 1)
        print(f"| `{model}`, d{name}/d{parameter} | {rtol:g} | {off.max():.1e} | {np.max(np.abs(found - truth) / error):.2g} "
              f"| {alone:.2f} | {both:.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
