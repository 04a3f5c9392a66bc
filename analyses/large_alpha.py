"""Learning from a large initialization.

δ = 0.5, λ = 0.2, σ² = 0, P_* = Bernoulli(0.1). Lines: the full DMFT system; points: d = 1000, 4 draws
(quick: 200, 3), bars of one standard error. Two phases: a fast lazy one, and a rich one that begins at 2 log(α)/λ.
"""

from _large import compute_large, draw_large

ORDER = 6.1
PAPER = "Figure 4"
GROUP = "large"


def compute(run):
    """The curves of the large initializations."""
    return compute_large(run)


def draw(data):
    """Both errors."""
    figure, _ = draw_large(data, lambda a, t: t, r"time $t$")
    return figure
