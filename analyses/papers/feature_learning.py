"""Wide networks that learn features: loss and feature kernel against time, at several strengths of features.

(a) Loss of networks with one hidden layer on eight samples; γ = 0 is regression with the kernel at the start. (b) Mean overlap
of features, samples of equal (solid) and of opposite targets (dashed). (c) Loss with two hidden layers on two samples, γ = 1.
Lines: mean-field theory of infinite width; points: networks of finite width trained by gradient flow.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from _wide_network import train

import eqsolve
from eqsolve.plotting.paper import colours, curve, label_panels, panels, points

PAPER = "Bordelon & Pehlevan 2022, Self-consistent dynamical field theory of kernel evolution in wide neural networks"
FIELD = "learning"
STRENGTHS = (0.0, 0.5, 1.0, 2.0)
MOMENTS = np.linspace(0, 1, 26)
TOLD = MOMENTS[5::5]


def overlaps(kernels, target):
    """Return means of a kernel, (sample, sample, ...), over pairs of equal and of opposite targets."""
    same, own = np.equal.outer(target, target), np.eye(len(target), dtype=bool)
    return np.array([kernels[same & ~own].mean(axis=0), kernels[~same].mean(axis=0)])


def compute(run):
    """Theory and networks at all strengths."""
    samples, few, width, deep, draws = run.pick((4, 1, 1000, 400, 4), (8, 2, 4000, 1000, 8))
    strengths = run.pick(STRENGTHS[::2], STRENGTHS)
    made = eqsolve.load("two_layer_features").tables
    gram, target = next(iter(made.values())).source(samples)
    loss, error, kernel, runs, seen = [], [], [], [], []
    for gamma in strengths:
        room = {"rtol": 0.02, "atol": run.pick(4e-3, 1e-3)}
        found = eqsolve.solve("two_layer_features", samples=samples, gamma=gamma, t_max=1, **room).at(MOMENTS)
        loss.append(found["loss"].values)
        error.append(found["loss_error"].values)
        kernel.append(overlaps(found["Phi"].values, target))
        sets = [[train(1, gram, target, gamma or 0.01, TOLD, n, k) for k in range(draws)] for n in (width, width // 2)]
        runs.append([item[0] for item in sets[0]])
        seen.append([overlaps(np.moveaxis(item[2], 0, -1), target) for item in sets[0]])
        run.agree(f"loss, γ = {gamma}", loss[-1][5::5], error[-1][5::5], runs[-1], [item[0] for item in sets[1]])
    both = eqsolve.solve("deep_features", samples=few, gamma=1, t_max=1, rtol=0.05, atol=run.pick(1e-2, 3e-3)).at(MOMENTS)
    sets = [
        [train(2, gram[:few, :few], target[:few], 1.0, TOLD, n, k)[0] for k in range(2 * draws)] for n in (deep, deep // 2)
    ]
    run.agree("loss, two hidden layers", both["loss"].values[5::5], both["loss_error"].values[5::5], *sets)
    run.note(f"Points: {draws} networks of width {width}; {2 * draws} of width {deep} with two hidden layers.")
    data = {"loss": (("gamma", "t"), loss), "error": (("gamma", "t"), error), "runs": (("gamma", "draw", "told"), runs)}
    data |= {"kernel": (("gamma", "pair", "t"), kernel), "seen": (("gamma", "draw", "pair", "told"), seen)}
    data |= {"deep": ("t", both["loss"].values), "room": ("t", both["loss_error"].values)}
    data["deeper"] = ("try", "told"), sets[0]
    return xr.Dataset(data, {"gamma": list(strengths), "t": MOMENTS, "told": TOLD})


def draw(data):
    """Three panels."""
    figure, axes = panels(1, 3, height=2.4)
    for colour, gamma in zip(colours(data.sizes["gamma"]), data["gamma"].values, strict=True):
        row = data.sel(gamma=gamma)
        curve(axes[0], data["t"], row["loss"], row["error"], color=colour, label=rf"$\gamma = {gamma:g}$")
        points(axes[0], data["told"], row["runs"], color=colour)
        for pair in (0, 1):
            curve(axes[1], data["t"], row["kernel"][pair], color=colour, ls="-" if pair == 0 else "--")
            points(axes[1], data["told"], row["seen"][:, pair], color=colour)
    axes[0].set(xlabel="$t$", ylabel="loss", yscale="log")
    axes[0].legend()
    axes[1].set(xlabel="$t$", ylabel=r"feature kernel $\Phi_{\mu\nu}(t, t)$")
    curve(axes[2], data["t"], data["deep"], data["room"], color="C3")
    points(axes[2], data["told"], data["deeper"], color="C3")
    axes[2].set(xlabel="$t$", ylabel="loss, two hidden layers")
    label_panels(axes)
    return figure
