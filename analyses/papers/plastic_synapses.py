"""Neurons and synapses that follow each other: Hebbian synapses slow the chaos down.

(a) Variance of the neurons against time and (b) correlation of the last state with earlier ones, for anti-Hebbian (k < 0) and
Hebbian synapses. (c) The same correlation for strong Hebbian synapses, which go on or stand still from the dotted time on.
Points are networks of finite size.
"""

import numpy as np
import xarray as xr
from _simulated import plastic_network
from sympy import Min, Piecewise, exp, tanh

import eqsolve
from eqsolve import Eq, Int, param

PAPER = "Clark & Abbott 2024, Theory of coupled neuronal-synaptic dynamics"
FIELD = "neuroscience"
GAIN, P, LAST, HALT, STEP = 2.0, 2.0, 10.0, 5.0, 0.05
CASES = [(-1.0, np.inf), (0.5, np.inf), (1.5, np.inf), (1.5, HALT)]


def halted():
    """The network whose synapses stand still from a time on: they keep what they had then."""
    model, h = eqsolve.load("plastic_rnn"), param("halt", positive=True, about="when synapses stop")
    x, eta, F, k, p, t, s = model.symbols("x eta F k p t s")
    kept = Piecewise((1, s < h), (0, True)) * exp(-(Min(t, h) - s) / p) * F(t, s) * tanh(x(s))
    return model.replace("halted", eqs=[Eq(x(t).diff(t), -x(t) + eta(t) + k / p * Int(kept, (s, 0, t)))])


def compute(run):
    """Variances and correlations, in theory and at finite size."""
    rng, N, rtol = np.random.default_rng(6), run.pick(200, 500), run.pick(5e-2, 3e-2)
    at, held = np.linspace(0, LAST, 41), np.linspace(0, LAST, 6)[1:]
    rows = {"q": [], "C": [], "q_runs": [], "C_runs": []}
    for k, halt in CASES:
        model, more = (eqsolve.load("plastic_rnn"), {}) if np.isinf(halt) else (halted(), {"halt": halt})
        solved = eqsolve.solve(model, k=k, p=P, gain=GAIN, t_max=LAST, rtol=rtol, at2=[(LAST, x) for x in at], **more)
        known, found = (solved.at2([(LAST, x) for x in places])["C"].values for places in (held, at))
        errors = solved.at(held)["q_error"].values
        size = len(held)
        states = [[plastic_network(n, GAIN, k, P, LAST, rng, halt) for _ in range(run.pick(8, 12))] for n in (N, N // 2)]
        places = np.rint(held / STEP).astype(int)
        runs, half = (
            np.array([[(x[places] ** 2).mean(1), (x[places] @ x[-1]) / x.shape[1]] for x in made]) for made in states
        )
        theory = np.concatenate([solved.at(held)["q"].values, known])
        name = f"k = {k:g}{'' if np.isinf(halt) else ', synapses halted'}, N = {N}"
        run.agree(name, theory, np.tile(errors.max(), 2 * size), runs, half)
        for key, value in zip(rows, (solved.at(at)["q"].values, found, runs[:, 0], runs[:, 1]), strict=True):
            rows[key].append(value)
    dims = {"q": ("case", "t"), "C": ("case", "t"), "q_runs": ("case", "draw", "held"), "C_runs": ("case", "draw", "held")}
    return xr.Dataset({key: (dims[key], rows[key]) for key in rows}, {"t": at, "held": held})


def draw(data):
    """Three panels."""
    from eqsolve.plotting.paper import curve, label_panels, panels, points

    figure, axes = panels(1, 3, height=2.3)
    for place, name, cases in ((axes[0], "q", (0, 1, 2)), (axes[1], "C", (0, 1, 2)), (axes[2], "C", (2, 3))):
        for i in cases:
            label = f"$k = {CASES[i][0]:g}$" if place is not axes[2] else ("halted" if i == 3 else "plastic")
            curve(place, data["t"], data[name][i], color=f"C{i}", label=label)
            points(place, data["held"], data[f"{name}_runs"][i], color=f"C{i}")
        place.legend()
        last = f"$C({LAST:g}, t)$"
        place.set(
            xlabel="time $t$", ylabel="variance $C(t, t)$" if name == "q" else last, ylim=(0, None) if name == "q" else None
        )
    axes[2].axvline(HALT, ls=":", color="k", lw=0.8)
    label_panels(axes)
    return figure
