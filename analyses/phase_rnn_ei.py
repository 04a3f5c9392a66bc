"""Where an excitatory–inhibitory network comes to rest, over the spread of its couplings and the excitatory input.

Colours: the stability of the fixed point, derived from the dynamics. Dashed: where the largest eigenvalue of g_ab² ⟨φ'²⟩_b is
one, from the four static equations for means and variances, iterated (Kadmon and Sompolinsky 2015).
"""

from __future__ import annotations

import numpy as np
from _phases import computed, draw_over, gap
from scipy.optimize import brentq

NODES = np.linspace(-9, 9, 1201)  # the trapezoidal rule
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()
MEANS = np.array([[1.0, -1.5], [1.2, -1.0]])


def radius(g_ee, h_e):
    """The largest eigenvalue of what comes back of small disturbances, less one."""
    spreads = np.array([[g_ee, 1.5], [1.0, 1.0]]) ** 2
    rates, squares = np.zeros(2), np.full(2, 0.3)
    for _ in range(3000):
        x = (MEANS @ rates + [h_e, 0.3])[:, None] + np.sqrt(spreads @ squares)[:, None] * NODES
        new = np.tanh(x) @ WEIGHTS, np.tanh(x) ** 2 @ WEIGHTS
        change = max(abs(new[0] - rates).max(), abs(new[1] - squares).max())
        rates, squares = (rates + new[0]) / 2, (squares + new[1]) / 2
        if change < 1e-13:
            break
    return np.abs(np.linalg.eigvals(spreads * (np.cosh(x) ** -4.0 @ WEIGHTS))).max() - 1


def critical(g_ee):
    """The excitatory input at which fluctuations set in; nan where there is none."""
    return brentq(lambda h: radius(g_ee, h), 0.2, 4.5) if radius(g_ee, 0.2) > 0 > radius(g_ee, 4.5) else np.nan


def compute(run):
    """The diagram over g_ee and h_e."""
    sizes = run.pick((3, 4), (20, 16))
    axes = {"g_ee": f"0.2:2.2:{sizes[0]}", "h_e": f"0.2:4:{sizes[1]}"}
    diagram, data = computed(run, "rnn_ei", axes, critical, "g_ee", observable="stability")
    far, count = gap(diagram, "stability", "h_e", "g_ee", critical)
    run.note(f"The boundary is within {far:.0e} of the dashed curve on {count} lines.")
    return data


def draw(data):
    """The map."""
    return draw_over(data, "rnn_ei", "stability", "eigenvalue one", g_ee="g_{ee}", h_e="h_e")
