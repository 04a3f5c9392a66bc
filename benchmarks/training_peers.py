"""SGD and a random network by the sampler that one writes by hand, beside eqsolve at equal CPU time.

    python benchmarks/training_peers.py [--only ridge,network,rnn] [--seeds 4]

The samplers are written as groups write them (for SGD: Mignacco, Krzakala, Urbani & Zdeborová 2020): from given kernels draw
Monte Carlo paths step by step, average new kernels over them, mix these with the old ones, and go on until they rest; kernels
are averaged over the last passes. They get the CPU seconds that eqsolve takes, warm, in as many paths as fit. Errors are root
mean squares over what is looked at and over seeds. Truths: a Volterra equation over the Marchenko–Pastur law (ridge
regression), the mean of three solves at rtol 1e-3 (diagonal network), digits of a Hermite series (random network).
"""

from __future__ import annotations

import argparse
import os
import time

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "EQSOLVE_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np

import eqsolve
from eqsolve.spectra import MarchenkoPastur

DAMPING, PASSES, AVERAGED = 0.7, 24, 8


def drawn(covariance, paths, rng):
    """Return Gaussian paths (step, path) of a covariance, with a little jitter."""
    jitter = 1e-10 * np.trace(covariance) / len(covariance)
    return np.linalg.cholesky(covariance + jitter * np.eye(len(covariance))) @ rng.standard_normal((len(covariance), paths))


def sample_side(c_w, response, sigma2, batch, paths, rng):
    """Return E r², covariance and mean response of φ = m r, r = u − Σ A φ, for samples that are in the batch or not."""
    steps = len(c_w)
    masks = (rng.random((steps, paths)) < batch) / batch
    fields = drawn(c_w + sigma2, paths, rng)
    phi, tangent = np.empty((steps, paths)), np.zeros((steps, steps, paths))
    square = np.empty(steps)
    for k in range(steps):
        residual = fields[k] - response[k, :k] @ phi[:k]
        square[k] = (residual**2).mean()
        phi[k] = masks[k] * residual
        tangent[k, :k] = -masks[k] * np.tensordot(response[k, :k], tangent[:k, :k], 1)
        tangent[k, k] = masks[k]
    return square, phi @ phi.T / paths, tangent.mean(axis=2)


def weight_side(c_phi, memory, delta, eta, paths, rng, network):
    """Return the covariance of w − w* and the mean response of w, for u and v of a network or for a plain weight."""
    steps, alpha = len(c_phi), network
    noise = drawn(c_phi / delta, paths, rng)
    target = (np.arange(paths) < 0.1 * paths).astype(float) if alpha else np.sqrt(0.7) * rng.standard_normal(paths)
    off, tangent = np.empty((steps, paths)), np.zeros((steps, steps, paths))
    u, v = (np.full(paths, alpha) for _ in range(2)) if alpha else (np.zeros(paths), None)
    du, dv = np.zeros((steps, paths)), np.zeros((steps, paths))
    for k in range(steps):
        off[k] = ((u**2 - v**2) / 2 if alpha else u) - target
        tangent[k] = u * du - v * dv if alpha else du
        gradient = noise[k] + memory[k, : k + 1] @ off[: k + 1]
        change = np.tensordot(memory[k, : k + 1], tangent[: k + 1], 1)
        change[k] += 1
        if alpha:
            du, dv = du - eta / 2 * (du * gradient + u * change), dv + eta / 2 * (dv * gradient + v * change)
            u, v = u * (1 - eta / 2 * gradient), v * (1 + eta / 2 * gradient)
        else:
            u, du = u - eta * gradient, du - eta * change
    return off @ off.T / paths, -tangent.mean(axis=2) / delta


def sgd_sampler(paths, steps, eta, batch, delta, sigma2, network, seed):
    """Return E_train and E_test of all steps: damped passes over both sides."""
    rng = np.random.default_rng(seed)
    c_w, response = np.full((steps, steps), 0.1 if network else 0.7), np.zeros((steps, steps))
    kept = []
    for number in range(PASSES):
        square, c_phi, memory = sample_side(c_w, response, sigma2, batch, paths, rng)
        new_c, new_response = weight_side(c_phi, memory, delta, eta, paths, rng, network)
        c_w = c_w + DAMPING * (new_c - c_w)
        response = response + DAMPING * (new_response - response)
        if number >= PASSES - AVERAGED:
            kept.append((square, new_c.diagonal() + sigma2))
    return np.mean(kept, axis=0)


def network_sampler(paths, step, t_max, gain, seed):
    """Return times and C of the random network: Euler steps, inputs drawn from the network's own correlation of rates."""
    rng = np.random.default_rng(seed)
    steps = round(t_max / step) + 1
    rates, kept = np.full((steps, steps), 0.4), []
    for number in range(PASSES):
        inputs = gain * drawn(rates, paths, rng)
        x = np.empty((steps, paths))
        x[0] = rng.standard_normal(paths)
        for k in range(steps - 1):
            x[k + 1] = x[k] + step * (inputs[k] - x[k])
        phi = np.tanh(x)
        rates = rates + DAMPING * (phi @ phi.T / paths - rates)
        if number >= PASSES - AVERAGED:
            kept.append(x @ x.T / paths)
    return step * np.arange(steps), np.mean(kept, axis=0)


def ridge_truth(steps, eta, batch, delta, rho2, sigma2):
    """Return E_train and E_test of SGD on least squares: a Volterra equation over the Marchenko–Pastur law."""
    x, weights = MarchenkoPastur(delta).quadrature(200)
    train, test, drive = np.zeros((3, steps + 1))
    powers = [(1 - eta * x) ** (2 * k) for k in range(steps)]
    for k in range(steps + 1):
        a = (1 - (1 - eta * x) ** k) / x
        noise = sigma2 * x / delta
        square = (a * x - 1) ** 2 * rho2 + a**2 * noise
        train[k], test[k] = sigma2 + weights @ (x * square - 2 * a * noise), sigma2 + weights @ square
        for s in range(k):
            train[k] += eta**2 * drive[s] * weights @ (powers[k - s - 1] * x**2) / delta
            test[k] += eta**2 * drive[s] * weights @ (powers[k - s - 1] * x) / delta
        drive[k] = (1 / batch - 1) * train[k]
    return np.array([train, test])


def timed(work):
    begin = time.process_time()
    made = work()
    return made, time.process_time() - begin


def fitting(sampler, budget, paths=64):
    """Return the paths for which a sampler takes the CPU time given, nearly."""
    while True:
        _, took = timed(lambda: sampler(paths, 0))
        if took > 0.4 * budget:
            return max(64, int(paths * budget / took))
        paths *= 2


def report(title, found, samplers, seeds):
    """Print the row of one case: ``found`` are eqsolve's error, its stated one and its CPU seconds; the best sampler counts."""
    error, stated, cpu = found
    rows = []
    for label, sampler in samplers.items():
        paths = fitting(sampler, cpu)
        errors, times = zip(*(timed(lambda seed=seed: sampler(paths, seed)) for seed in range(1, seeds + 1)), strict=True)
        rows.append((float(np.sqrt(np.mean(np.square(errors)))), paths, float(np.mean(times)), label))
    peer, paths, took, label = min(rows)
    print(
        f"| {title}{label} | {cpu:.2f} | {error:.1e} | {stated:.1e} | {paths:,} | {took:.2f} | {peer:.1e} | {peer / error:.2g} |",
        flush=True,
    )


def sgd_case(title, flow, network, rtol, seeds, **settings):
    """Solve, sample and report SGD at the steps 5, 10, 25: the root mean square over E_train and E_test of relative errors."""
    eta, batch, delta, sigma2 = 0.2, 0.25, settings["delta"], settings["sigma2"]
    looked, names = np.array([5, 10, 25]), ("E_train", "E_test")
    asked = {"step": eta, "at": list(eta * looked), "observables": list(names), "progress": False, **settings}

    def solve(tolerance, seed):
        found = eqsolve.solve(flow, rtol=tolerance, seed=seed, **asked).at(eta * looked)
        return np.array([[found[f"{name}{end}"].values for name in names] for end in ("", "_error")])

    solve(5e-2, 0)
    made, times = zip(*(timed(lambda seed=seed: solve(rtol, seed)) for seed in range(seeds)), strict=True)
    if network:
        truth = np.mean([solve(1e-3, 100 + seed)[0] for seed in range(3)], axis=0)
    else:
        truth = ridge_truth(25, eta, batch, delta, settings["rho2"], sigma2)[:, looked]

    def off(table):
        return float(np.sqrt(np.mean((table / truth - 1) ** 2)))

    def sampler(paths, seed):
        return off(sgd_sampler(paths, 26, eta, batch, delta, sigma2, network, seed)[:, looked])

    error = float(np.sqrt(np.mean([off(values) ** 2 for values, _ in made])))
    stated = float(np.mean([np.sqrt(np.mean((errors / truth) ** 2)) for _, errors in made]))
    report(title, (error, stated, float(np.mean(times))), {"": sampler}, seeds)


def ridge(seeds):
    flow = eqsolve.load("linear_flow").sgd(0.25)
    sgd_case("SGD of ridge regression, 25 steps, `rtol=0.01`", flow, 0.0, 1e-2, seeds, delta=1.5, lam=0, rho2=0.7, sigma2=0.3)


def network(seeds):
    flow = eqsolve.load("dln_flow").sgd(0.25)
    sgd_case(
        "SGD of the diagonal network, 25 steps, `rtol=0.01`", flow, 0.5, 1e-2, seeds, alpha=0.5, delta=0.8, lam=0, sigma2=0.1
    )


def rnn(seeds):
    known = {(10, 10): 1.8446723003, (10, 5): 0.6127988616, (5, 5): 1.5524510932}
    truth = np.array(list(known.values()))

    def off(values):
        return float(np.sqrt(np.mean((values / truth - 1) ** 2)))

    def sampler(step):
        def sampled(paths, seed):
            _, c = network_sampler(paths, step, 10, 2.0, seed)
            return off(np.array([c[round(a / step), round(b / step)] for a, b in known]))

        return sampled

    eqsolve.solve("rnn", gain=2, t_max=1)
    for rtol in (1e-3, 1e-6):
        solved, cpu = timed(lambda rtol=rtol: eqsolve.solve("rnn", gain=2, t_max=10, rtol=rtol, at2=list(known)))
        found = solved.at2(list(known))
        samplers = {f"; sampler's step {step:g}": sampler(step) for step in (0.1, 0.05, 0.025)}
        error, stated = off(found["C"].values), float(np.sqrt(np.mean((found["C_error"].values / truth) ** 2)))
        report(f"random network, gain 2, t = 10, `rtol={rtol:g}`", (error, stated, cpu), samplers, seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="ridge,network,rnn")
    parser.add_argument("--seeds", type=int, default=4)
    asked = parser.parse_args()
    heads = "case | eqsolve: CPU s | error | stated | sampler: paths | CPU s | error | ratio of errors"
    print(f"| {heads} |\n{'|---' * 8}|")
    for name in asked.only.split(","):
        {"ridge": ridge, "network": network, "rnn": rnn}[name](asked.seeds)


if __name__ == "__main__":
    main()
