"""Chaos of a random network with white noise, over the gain and the strength of the noise.

Colours: the largest Lyapunov exponent of the stationary state; white noise of variance 2D suppresses chaos. Dashed: where it
vanishes, from two equations of one variance: c = g²⟨tanh²⟩ and D² = c² − 2g² Var[ln cosh], under Gaussian x of
variance c (Schuecker, Goedeke and Helias 2018).
"""

from __future__ import annotations

import numpy as np
from _phases import computed, draw_over, gap
from scipy.optimize import brentq

NODES = np.linspace(-9, 9, 1201)  # the trapezoidal rule
WEIGHTS = np.exp(-(NODES**2) / 2) / np.exp(-(NODES**2) / 2).sum()


def transition(gain):
    """The strength of the noise at which chaos ends; nan below gain 1."""
    if gain <= 1.001:
        return np.nan
    c = brentq(lambda c: gain**2 * WEIGHTS @ np.tanh(np.sqrt(c) * NODES) ** 2 - c, 1e-9, gain**2)
    rate = np.logaddexp(np.sqrt(c) * NODES, -np.sqrt(c) * NODES)
    return np.sqrt(c * c - 2 * gain**2 * (WEIGHTS @ rate**2 - (WEIGHTS @ rate) ** 2))


def compute(run):
    """The diagram over g and D."""
    sizes = run.pick((4, 3), (20, 12))
    axes = {"gain": f"0.6:2.6:{sizes[0]}", "D": f"0.02:1.2:{sizes[1]}"}
    tolerance = run.pick(1e-3, 1e-5)
    diagram, data = computed(
        run, "noisy_rnn", axes, transition, "gain", observable="lyapunov", rtol=run.pick(1e-4, 1e-6), tolerance=tolerance
    )
    far, count = gap(diagram, "lyapunov", "D", "gain", transition)
    run.note(f"The boundary is within {far:.0e} of the dashed curve on {count} lines.")
    return data


def draw(data):
    """The map."""
    return draw_over(data, "noisy_rnn", "lyapunov", "Schuecker et al. 2018", gain="g", D="D")
