"""Finite-size runs against the plainest numpy loops one would write by hand: same model, same integrator, same draw.

    python benchmarks/microscopic.py [--d 2000] [--repeat 3] [--large 10000]

Prints seconds of both and their ratio; the bound is 2. Each pair uses the same matrix, start and tolerance. The last row is one
run at a large size, the drawing of its matrix included.
"""

import argparse
import os
import time

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
from scipy.integrate import solve_ivp

import eqsolve
from eqsolve.language.binding import bind
from eqsolve.microscopic.data import read_data
from eqsolve.microscopic.lowered import LoweredFlow
from eqsolve.microscopic.simulate import FlowEnsemble


def draw(name: str, d: int, **settings: object):
    """Return the draw that ``simulate`` makes with seed 0."""
    lowered = LoweredFlow(bind(eqsolve.load(name), settings))
    return FlowEnsemble(lowered, read_data("gaussian"), round(lowered.ratio * d), d, 0).draw(0)


def two_layers_by_hand(d: int, t: float) -> float:
    """Two-layer diagonal network, δ = 1/2, α = 0.3, by scipy's RK45."""
    sample = draw("dln_flow", d)
    X, target = sample.features, sample.coordinate_constants[0]
    y = X @ target

    def right(_: float, flat: np.ndarray) -> np.ndarray:
        u, v = flat[:d], flat[d:]
        pull = X.T @ (X @ ((u**2 - v**2) / 2) - y) / 0.5
        return np.concatenate([-u * pull / 2, v * pull / 2])

    solved = solve_ivp(right, (0, t), np.full(2 * d, 0.3), t_eval=[t], rtol=1e-6, atol=1e-6 * 0.3)
    w = (solved.y[:d, -1] ** 2 - solved.y[d:, -1] ** 2) / 2
    return float(np.mean((w - target) ** 2))


def tanh_by_hand(d: int, steps: int) -> float:
    """A tanh unit and its teacher, δ = 2, by gradient descent with step 0.1."""
    sample = draw("teacher_student_tanh", d)
    X = sample.features
    names = [item.name for item in sample.lowered.coordinate_randoms]
    constants = dict(zip(names, sample.coordinate_constants, strict=True))
    w, target = constants["w_0"].copy(), constants["w_star"]
    labels = np.tanh(X @ target)
    for _ in range(steps):
        out = np.tanh(X @ w)
        w = w - 0.1 * X.T @ ((out - labels) * (1 - out**2)) / 2
    return float(np.mean(w**2))


def timed(function, repeat: int) -> tuple[float, float]:
    """Return the shortest time of a few calls, and the value."""
    best, value = np.inf, 0.0
    for _ in range(repeat):
        start = time.perf_counter()
        value = function()
        best = min(best, time.perf_counter() - start)
    return best, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--d", type=int, default=2000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--large", type=int, default=10_000)
    options = parser.parse_args()
    d = options.d
    two, unit = eqsolve.load("dln_flow"), eqsolve.load("teacher_student_tanh")
    pairs = [
        (
            "dln_flow, RK45, t = 10",
            lambda: two.simulate(d, at=[10.0]).values["E_test"][0, 0],
            lambda: two_layers_by_hand(d, 10.0),
        ),
        (
            "tanh unit, 100 steps of 0.1",
            lambda: unit.simulate(d, at=[10.0], step=0.1).values["q"][0, 0],
            lambda: tanh_by_hand(d, 100),
        ),
    ]
    print(f"{'case':32s} {'eqsolve':>9s} {'by hand':>9s} {'ratio':>6s}  values")
    for name, ours, theirs in pairs:
        (a, x), (b, y) = timed(ours, options.repeat), timed(theirs, options.repeat)
        print(f"{name:32s} {a:8.2f}s {b:8.2f}s {a / b:6.2f}  {x:.8g} {y:.8g}")
    start = time.process_time()
    seconds, value = timed(lambda: two.simulate(options.large, at=[10.0]).values["E_test"][0, 0], 1)
    print(
        f"dln_flow, t = 10, d = {options.large:<11d} {seconds:8.2f}s  ({time.process_time() - start:.1f} s of CPU)  {value:.8g}"
    )


if __name__ == "__main__":
    main()
