"""Long times measured: mode coupling against the doubling scheme, delays against ddeint and jitcdde, at equal errors; aging.

    python benchmarks/long_times.py [--quick]

CPU seconds of one thread, models compiled. The doubling scheme (Fuchs, Götze, Hofacker & Latz 1991), second order, is what the
packages for mode coupling run; none of them is on the registry, so it is written out here, with numba, and extrapolated.
``ddeint`` and ``jitcdde`` (extra `benchmark`) are left out where they are not installed.
"""

from __future__ import annotations

import argparse
import os
import time

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numba
import numpy as np

import eqsolve

TIMES = np.array([1.0, 10.0, 100.0, 1e4, 1e12])


def cpu(run, repeat=3):
    """Return the least CPU time of several runs, and the last answer."""
    spent = []
    for _ in range(repeat):
        start = time.process_time()
        answer = run()
        spent.append(time.process_time() - start)
    return min(spent), answer


@numba.njit(cache=False)
def doubling(v1, v2, size, first, last):
    """Return times and φ of the F12 model by the doubling scheme with ``size`` steps a block."""
    phi, mean, m, m_mean = np.ones(size + 1), np.ones(size + 1), np.zeros(size + 1), np.zeros(size + 1)
    h, begin = first, 1
    kept_t, kept_phi = [0.0], [1.0]
    m[0] = v1 + v2
    while True:
        for i in range(begin, size + 1):
            half = i // 2
            known = -m[i - half] * phi[half] if half > 0 else 0.0
            for k in range(2, i - half + 1):
                known += (m[k] - m[k - 1]) * mean[i - k + 1]
            for j in range(2, half + 1):
                known += (phi[j] - phi[j - 1]) * m_mean[i - j + 1]
            guess = 1.0 - h + 0.5 * (1.0 + m[0]) * h * h if i == 1 else phi[i - 1]  # the first step by Taylor's series
            slopes = m[0] + 0.5 * (m[1] - m[0])
            for _ in range(200 if i > 1 else 0):
                memory = v1 * guess + v2 * guess * guess
                rest = known + 0.5 * (m[1] - m[0]) * phi[i - 1] + (phi[1] - phi[0]) * 0.5 * (memory + m[i - 1])
                new = ((2.0 * phi[i - 1] - 0.5 * phi[i - 2]) / h - rest) / (1.5 / h + 1.0 + slopes)
                change = abs(new - guess)
                guess = new
                if change < 1e-15:
                    break
            phi[i] = guess
            m[i] = v1 * guess + v2 * guess * guess
            mean[i], m_mean[i] = 0.5 * (phi[i] + phi[i - 1]), 0.5 * (m[i] + m[i - 1])
            kept_t.append(i * h)
            kept_phi.append(guess)
            if i * h >= last:
                return np.array(kept_t), np.array(kept_phi)
        for i in range(1, size // 2 + 1):
            mean[i], m_mean[i] = 0.5 * (mean[2 * i] + mean[2 * i - 1]), 0.5 * (m_mean[2 * i] + m_mean[2 * i - 1])
        for i in range(1, size // 2 + 1):
            phi[i], m[i] = phi[2 * i], m[2 * i]
        h, begin = 2 * h, size // 2 + 1


def by_doubling(size, v1, v2):
    """φ at TIMES; time in steps of powers of two, so that two sizes share their times, and cubic interpolation between."""
    first = 2.0**-8 / size
    moments, values = doubling(v1, v2, size, first, 4 * TIMES[-1])
    moments, values = moments[1:], values[1:]
    found = []
    for moment in TIMES:
        place = int(np.clip(np.searchsorted(moments, moment) - 3, 0, len(moments) - 6))
        x, y = np.log(moments[place : place + 6]), values[place : place + 6]
        weights = [np.prod([(np.log(moment) - x[k]) / (x[j] - x[k]) for k in range(6) if k != j]) for j in range(6)]
        found.append(float(np.dot(weights, y)))
    return np.array(found)


def mode_coupling(quick):
    model = eqsolve.load("mct_f12")
    for v1, v2 in ((1, 1.5), (0, 3.9999)):
        print(f"\nF12, v1 = {v1}, v2 = {v2}, to t = 1e12: CPU s, largest error at t = 1, 10, 100, 1e4, 1e12, stated error")
        truth = eqsolve.solve(model, v1=v1, v2=v2, t_max=1e12, rtol=1e-12, order=12).at(TIMES)["phi"].values
        for rtol in (1e-4, 1e-6, 1e-8) if quick else (1e-3, 1e-4, 1e-6, 1e-8, 1e-10):
            seconds, result = cpu(lambda: eqsolve.solve(model, v1=v1, v2=v2, t_max=1e12, rtol=rtol))
            found = result.at(TIMES)
            wrong, said = np.abs(found["phi"].values - truth).max(), found["phi_error"].values.max()
            print(f"eqsolve rtol={rtol:g}: {seconds:.2f} s  {wrong:.1e}  {said:.1e}  {result.stats['panels']} panels")
        before = None
        doubling(1.0, 1.5, 8, 1e-3, 1.0)
        for size in (256, 1024) if quick else (256, 512, 1024, 2048, 4096):
            seconds, found = cpu(lambda: by_doubling(size, float(v1), float(v2)), 1)
            line = f"doubling, {size} steps a block: {seconds:.2f} s  {np.abs(found - truth).max():.1e}"
            if before is not None:
                last, cost, steps = before
                better = found + (found - last) / ((size / steps) ** 2 - 1)
                line += f"; with extrapolation {seconds + cost:.2f} s  {np.abs(better - truth).max():.1e}"
            print(line)
            before = (found, seconds, size)


def doubling_of_spheres(frequencies, vertices, size, first, last):
    """Return times and φ_q of hard spheres by the doubling scheme with ``size`` steps a block; all wave numbers as one array."""
    count = len(frequencies)
    flat = vertices.reshape(count * count, count)

    def kernel(values):
        return (flat @ values).reshape(count, count) @ values

    phi, mean = np.ones((size + 1, count)), np.ones((size + 1, count))
    m, m_mean = np.zeros((size + 1, count)), np.zeros((size + 1, count))
    h, begin, kept = first, 1, []
    m[0] = kernel(phi[0])
    while True:
        for i in range(begin, size + 1):
            half = i // 2
            known = -m[i - half] * phi[half] if half > 0 else np.zeros(count)
            if i - half > 1:
                known += np.einsum("kq,kq->q", np.diff(m[1 : i - half + 1], axis=0), mean[half + 1 : i][::-1])
            if half > 1:
                known += np.einsum("kq,kq->q", np.diff(phi[1 : half + 1], axis=0), m_mean[i - half + 1 : i][::-1])
            step = h * frequencies
            guess = 1.0 - step + 0.5 * (1.0 + m[0]) * step**2 if i == 1 else phi[i - 1]
            slopes = m[0] + 0.5 * (m[1] - m[0])
            for _ in range(200 if i > 1 else 0):
                memory = kernel(guess)
                rest = known + 0.5 * (m[1] - m[0]) * phi[i - 1] + (phi[1] - phi[0]) * 0.5 * (memory + m[i - 1])
                new = ((2.0 * phi[i - 1] - 0.5 * phi[i - 2]) / step - rest) / (1.5 / step + 1.0 + slopes)
                change = np.abs(new - guess).max()
                guess = new
                if change < 1e-10:
                    break
            phi[i], m[i] = guess, kernel(guess)
            mean[i], m_mean[i] = 0.5 * (phi[i] + phi[i - 1]), 0.5 * (m[i] + m[i - 1])
            kept.append((i * h, phi[i].copy()))
            if i * h >= last:
                return np.array([moment for moment, _ in kept]), np.array([row for _, row in kept])
        pairs = slice(1, size // 2 + 1)
        for table in (mean, m_mean):
            table[pairs] = 0.5 * (table[2 : size + 1 : 2] + table[1:size:2])
        for table in (phi, m):
            table[pairs] = table[2 : size + 1 : 2].copy()
        h, begin = 2 * h, size // 2 + 1


def hard_spheres(quick):
    """A hundred wave numbers near the glass transition: all correlators, against the doubling scheme."""
    number, last = (30, 1e4) if quick else (100, 1e10)
    settings = {"eta": 0.515, "wave_numbers": number}
    moments = np.geomspace(1e-2, last / 2, 25)
    print(f"\nhard spheres, {number} wave numbers, packing 0.515, to t = {last:g}: CPU s, largest error, stated error")
    seconds, result = cpu(lambda: eqsolve.solve("mct_hard_spheres", **settings, t_max=last, rtol=1e-8), 1)
    truth = result.at(moments)["phi"].values
    print(f"eqsolve rtol=1e-08 (the truth): {seconds:.1f} s, stated {result.error['phi'].values.max():.1e}")
    for rtol in (1e-2, 1e-4):
        seconds, result = cpu(lambda: eqsolve.solve("mct_hard_spheres", **settings, t_max=last, rtol=rtol), 1)
        found = result.at(moments)
        wrong = np.abs(found["phi"].values - truth)
        ratio = (wrong / (found["phi_error"].values + 1e-13)).max()
        print(
            f"eqsolve rtol={rtol:g}: {seconds:.1f} s  {wrong.max():.1e}  {found['phi_error'].values.max():.1e}  ratio {ratio:.2g}"
        )
    (source,) = eqsolve.load("mct_hard_spheres").tables.values()
    tables = source.arrays(settings)
    for size in (64, 128) if quick else (64, 128, 256):
        run = lambda: doubling_of_spheres(tables["Omega"], tables["V"], size, 1e-6 * 64 / size, last)  # noqa: E731
        seconds, (at, values) = cpu(run, 1)
        found = np.array([np.interp(np.log(moments), np.log(at), row) for row in values.T])
        print(f"doubling, {size} steps a block: {seconds:.1f} s  {np.abs(found - truth).max():.1e}")


def delays(quick):
    moments = np.array([25.0, 50.0, 75.0, 100.0])
    model = eqsolve.load("mackey_glass")
    truth = eqsolve.solve(model, t_max=100, rtol=1e-12, order=12).at(moments)["y"].values
    print("\nMackey–Glass to t = 100: CPU s, largest error at t = 25, 50, 75, 100")
    for rtol in (1e-3, 1e-5, 1e-8, 1e-10):
        seconds, result = cpu(lambda: eqsolve.solve(model, t_max=100, rtol=rtol))
        found = result.at(moments)
        wrong, said = np.abs(found["y"].values - truth).max(), found["y_error"].values.max()
        print(f"eqsolve rtol={rtol:g}: {seconds:.3f} s  {wrong:.1e}  (stated {said:.1e})")
    try:
        from ddeint import ddeint
    except ImportError:
        print("ddeint is not installed")
    else:
        for count in (1000, 4000) if quick else (1000, 4000, 16000):
            grid = np.linspace(0, 100, count + 1)
            right = lambda y, t: 0.2 * y(t - 17) / (1 + y(t - 17) ** 10) - 0.1 * y(t)  # noqa: E731
            seconds, values = cpu(lambda: ddeint(right, lambda t: 1.2, grid), 1)
            found = np.ravel(values)[(moments * count / 100).astype(int)]
            print(f"ddeint, {count} steps: {seconds:.2f} s  {np.abs(found - truth).max():.1e}")
    try:
        from jitcdde import jitcdde, t, y
    except ImportError:
        print("jitcdde is not installed")
    else:
        for rtol in (1e-5, 1e-8) if quick else (1e-5, 1e-8, 1e-10):
            past = y(0, t - 17)
            system = jitcdde([0.2 * past / (1 + past**10) - 0.1 * y(0)], verbose=False)
            system.constant_past([1.2])
            system.set_integration_parameters(rtol=rtol, atol=rtol, first_step=0.01, max_step=5.0)
            system.generate_lambdas()
            start = time.process_time()
            system.integrate_blindly(0.0)
            system.adjust_diff()
            found = np.array([system.integrate(moment)[0] for moment in moments])
            print(
                f"jitcdde (Python functions) rtol={rtol:g}: {time.process_time() - start:.3f} s  {np.abs(found - truth).max():.1e}"
            )


def aging(quick):
    """The p-spin glass below its transition, by rows that grow with time and by panels that follow its fastest scale."""
    print("\npspin, p = 3, T = 0.5: CPU s, C(t, 0), C(t, t/2), its stated error; errors at t = 1000 where it is reached")
    model, known = eqsolve.load("pspin"), np.array([0.015432180, 0.469767150])
    runs = [("two_time", 1e2, 1e-3), ("aging", 1e2, 1e-3), ("aging", 1e3, 1e-3)]
    runs += [] if quick else [("two_time", 1e3, 1e-3), ("aging", 1e4, 1e-4), ("aging", 1e5, 1e-3)]
    for solver, last, rtol in runs:
        pairs = [(last, 0), (last, last / 2)]
        seconds, result = cpu(lambda: eqsolve.solve(model, t_max=last, rtol=rtol, solver=solver, at2=pairs), 1)
        found = result.at2([*pairs, (1000, 0), (1000, 500)] if last >= 1000 else pairs)
        values, said = found["C"].values, found["C_error"].values
        wrong = f"  {np.abs(values[2:] - known).max():.1e}" if last >= 1000 else ""
        print(
            f"{solver}, t = {last:g}, rtol={rtol:g}: {seconds:.1f} s  {values[0]:.8f}  {values[1]:.8f}  {said[1]:.1e}{wrong}"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    mode_coupling(options.quick)
    hard_spheres(options.quick)
    delays(options.quick)
    aging(options.quick)
