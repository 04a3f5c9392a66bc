"""Phases of the random Lotka–Volterra model: one fixed point, many attractors, unbounded growth.

Colours: the stability of the cavity fixed point, derived from the dynamics. It is lost at σ = √2 (γ = 0), beyond which there
are many attractors. Dashed: where the mean abundance diverges, μ = −w/w₁(w) with σ²w₂(w) = 1 and w_k = ⟨(z + w)₊ᵏ⟩ (Bunin
2017); right of √2 this is that of a fixed point which is not stable.
"""

from __future__ import annotations

from _phases import computed, draw_over, gap
from scipy.optimize import brentq
from scipy.stats import norm


def divergence(sigma):
    """The mean interaction at which the mean abundance diverges."""
    w = brentq(lambda w: sigma**2 * ((1 + w * w) * norm.cdf(w) + w * norm.pdf(w)) - 1, -8, 40)
    return -w / (w * norm.cdf(w) + norm.pdf(w))


def compute(run):
    """The diagram over σ and μ."""
    sizes = run.pick((6, 5), (40, 30))
    axes = {"sigma": f"0.2:2:{sizes[0]}", "mu": f"-1.5:4:{sizes[1]}"}
    diagram, data = computed(run, "lotka_volterra", axes, divergence, "sigma")
    far, count = gap(diagram, "grows", "mu", "sigma", divergence)
    lost = diagram.boundaries["sigma"].values[diagram.boundaries["kind"].values == "stability"]
    run.note(f"Stability is lost within {abs(lost - 2**0.5).max():.0e} of √2, on {len(lost)} lines.")
    run.note(f"Growth is unbounded from within {far:.0e} of the dashed curve on, on {count} lines.")
    return data


def draw(data):
    """The map."""
    return draw_over(data, "lotka_volterra", "stability", "Bunin 2017", sigma=r"\sigma", mu=r"\mu")
