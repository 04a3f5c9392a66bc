"""Logistic regression without a penalty, over samples per dimension and the share of flipped labels.

Colours: the test error of the fixed point, where there is one. Data that a plane separates let the weights grow without bound.
Dashed: where they do, 1/δ = min over t of ⟨(z − tζ|x|)₊²⟩ (Candès and Sur 2020), ζ = −1 for a flipped label.
"""

from __future__ import annotations

import numpy as np
from _phases import computed, draw_over, gap
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr

import eqsolve


def density(x):
    """Of the standard Gaussian."""
    return np.exp(-x * x / 2) / (2 * np.pi) ** 0.5


NODES, WEIGHTS = np.polynomial.legendre.leggauss(200)
NODES, WEIGHTS = 5 * (NODES + 1), 10 * WEIGHTS * density(5 * (NODES + 1))  # |x|


def share(flip):
    """The least n/d at which data are not separable, inverted."""

    def mean(t):
        below = lambda a: (1 + a * a) * ndtr(-a) - a * density(a)  # noqa: E731
        return WEIGHTS @ ((1 - flip) * below(t * NODES) + flip * below(-t * NODES))

    return minimize_scalar(mean, bounds=(0, 60), method="bounded", options={"xatol": 1e-10}).fun


def threshold(delta):
    """The share of flipped labels beyond which data are not separable; nan where there is none."""
    return brentq(lambda flip: share(flip) * delta - 1, 1e-6, 0.5) if share(1e-6) * delta < 1 < share(0.5) * delta else np.nan


def compute(run):
    """The diagram over δ and the share."""
    sizes = run.pick((4, 4), (15, 12))
    axes = {"delta": f"1:8:{sizes[0]}", "flip": f"0.02:0.4:{sizes[1]}"}
    declared = eqsolve.load("logistic_fixed_point").replace(conditions=())
    model = declared.subs({"m": eqsolve.unknown("m", positive=True)})  # as for flips below 1/2: searched in its logarithm
    asked = {"params": {"lam": 0}, "observable": "E_test", "tolerance": run.pick(1e-3, 1e-6)}
    diagram, data = computed(run, model, axes, threshold, "delta", **asked)
    far, count = gap(diagram, "grows", "flip", "delta", threshold)
    run.note(f"Weights grow without bound from within {far:.0e} of the dashed curve on, on {count} lines.")
    return data


def draw(data):
    """The map."""
    return draw_over(data, "logistic_fixed_point", "E_test", "Candès and Sur 2020", delta=r"\delta", flip="p")
