"""Sparse signals from few measurements: where ℓ1 minimisation finds them, and the risk of the lasso.

(a) Largest sparsity at which a signal is found without noise; points are runs of message passing. (b) Error of message passing
step by step, with noise: lines are state evolution. (c) Risk of the lasso against the penalty: lassos and message passing.
"""

import numpy as np
import xarray as xr
from _simulated import lasso_error, reconstructed

import eqsolve

PAPER = "Donoho, Maleki & Montanari 2009; Bayati & Montanari 2012, message passing and the lasso"
FIELD = "inference"
DELTAS, STEPS, WEAK, STRONG = [0.1, 0.3, 0.5, 0.7, 0.9], 12, 0.6, 1.5
LAW = "Discrete([-1, 0, 1], [0.064, 0.872, 0.064])"
SETTING = {"delta": 0.64, "sigma2": 0.64 * 0.2, "w_star": LAW}  # noise of variance 0.2 for columns of length one
LAMS, RATIOS = [0.2, 0.5, 1, 1.5, 2], np.linspace(0.7, 1.2, 16)


def passed(d, lam, draws, steps, part):
    """Errors of message passing on (draw, step), or on (draw,) in the end."""
    settings = {"d": d, "steps": steps, "lam": lam, **SETTING}
    return np.array([eqsolve.message_passing("state_evolution", seed=i, **settings).error[part] for i in draws])


def compute(run):
    """Lines of the theory, and runs at finite size."""
    rng, draws = np.random.default_rng(2), range(run.pick(4, 12))
    size, d = run.pick(200, 800), run.pick(400, 1200)
    few, many = run.pick((13, 12), (33, 40))
    axes = {"delta": np.linspace(0.02, 0.98, few), "lam": np.geomspace(0.1, 3, many), "step": np.arange(1, STEPS + 1)}
    line = eqsolve.follow("l1_transition", "delta", axes["delta"])
    best = eqsolve.follow("l1_transition", "delta", DELTAS)
    held = list(zip(DELTAS, best["z"].values, best["rho"].values, strict=True))
    found, half = (
        np.array([[reconstructed(N, x, z, rho * RATIOS, rng) for x, z, rho in held] for _ in draws]) for N in (size, size // 2)
    )
    run.agree(f"transition, N = {size}", best["rho"].values, 0, found, half)
    data = {"rho": ("delta", line["rho"].values), "found": (("draw", "a"), found)}
    start = float(eqsolve.solve("state_evolution", lam=1e3, **SETTING)["sigma2_star"])  # of the weights 0
    for name, lam in (("weak", WEAK), ("strong", STRONG)):
        begin = {"b_star": 1, "sigma2_star": start, "t_star": 2 * lam}
        theory = eqsolve.iterate("state_evolution", STEPS, start=begin, lam=lam, **SETTING)["C_w"].values[1:]
        runs, small = (passed(n, lam, draws, STEPS, slice(None)) for n in (d, d // 2))
        run.agree(f"message passing, λ = {lam}, d = {d}", theory, 0, runs, small)
        data |= {name: ("step", theory), f"{name}_runs": (("draw", "step"), runs)}
    risk = eqsolve.follow("lasso", "lam", axes["lam"][::-1], **SETTING)
    known = eqsolve.follow("lasso", "lam", LAMS[::-1], **SETTING)["C_w"].values[::-1]
    lassos, small = (np.array([[lasso_error(n, i, lam=x, **SETTING) for x in LAMS] for i in draws]) for n in (d, d // 2))
    run.agree(f"risk of the lasso, d = {d}", known, 0, lassos, small)
    last = np.array([passed(d, x, draws, 40, -1) for x in LAMS]).T
    run.agree(f"risk of message passing, d = {d}", known, 0, last)
    data |= {"risk": ("lam", risk["C_w"].values[::-1]), "lassos": (("draw", "c"), lassos), "amp": (("draw", "c"), last)}
    rho = float(eqsolve.solve("l1_transition", delta=0.5)["rho"])
    run.note(f"ρ(1/2) = {rho:.6f}; least risk {risk['C_w'].values.min():.4f} on this grid.")
    return xr.Dataset(data, axes, {"rho_half": rho})


def draw(data):
    """Three panels."""
    from eqsolve.plotting.paper import curve, label_panels, panels, points

    figure, axes = panels(1, 3, height=2.3)
    curve(axes[0], data["delta"], data["rho"])
    points(axes[0], DELTAS, data["found"])
    for name, lam, colour in (("weak", WEAK, "C0"), ("strong", STRONG, "C2")):
        curve(axes[1], data["step"], data[name], color=colour, label=rf"$\lambda = {lam}$")
        points(axes[1], data["step"], data[f"{name}_runs"], color=colour)
    curve(axes[2], data["lam"], data["risk"])
    points(axes[2], LAMS, data["lassos"], label="lasso")
    points(axes[2], np.array(LAMS) * 1.06, data["amp"], fmt="s", color="C2", label="message passing")
    axes[0].set(xlabel=r"measurements per dimension $\delta$", ylabel=r"sparsity $\rho$", xlim=(0, 1), ylim=(0, 1))
    axes[1].set(xlabel="step", ylabel="squared error")
    axes[2].set(xlabel=r"penalty $\lambda$", ylabel="squared error", xscale="log")
    for place in axes[1:]:
        place.legend()
    label_panels(axes)
    return figure
