"""Learning from a small initialization.

δ = 0.5, λ = 0, σ² = 0, P_* = Bernoulli(0.1). Lines: the full DMFT system; points: d = 200, 8 draws
(quick: 3), bars of one standard error. Nothing seems to happen in the search phase; then coordinates
are learnt one after the other.
"""

from _small import compute_small, draw_small

ORDER = 7.1
PAPER = "Figure 8"
GROUP = "small"


def compute(run):
    """The curves of the small initializations."""
    return compute_small(run)


def draw(data):
    """The errors."""
    return draw_small(data, lambda a, t: t, r"time $t$")
