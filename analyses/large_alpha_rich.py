"""Learning from a large initialization, in the time after the transition.

δ = 0.5, λ = 0.2, σ² = 0, P_* = Bernoulli(0.1). Lines: the full DMFT system; points: d = 1000, 4 draws
(quick: 200, 3), bars of one standard error. Time is shifted by 2 log(α)/λ: the rich phase takes a time of order one.
"""

from _large import compute_large, draw_large, transition

ORDER = 6.4
PAPER = "Figure 7"
GROUP = "large"


def compute(run):
    """The curves of the large initializations."""
    return compute_large(run)


def draw(data):
    """Both errors."""
    figure, _ = draw_large(
        data, lambda a, t: t - transition(a), r"$t - 2\log(\alpha)/\lambda$", log=False, mark=0, span=(-12, 30)
    )
    return figure
