"""Training error for many initializations.

δ = 0.5, λ = 0.1, σ² = 0, P_* = Bernoulli(0.1). Lines: DMFT; points: d = 200, 4 draws (quick: 3). For large α the
training error falls at once and rises again when the network turns rich; for small α it falls once.
"""

from _dynamics import draw_learning, learn

from eqsolve.plotting.paper import panels

ORDER = 5
PAPER = "Figure 3(a)"


def compute(run):
    """From lazy to rich starts."""
    alphas = run.pick([0.1, 0.3, 1.0, 5.0], [0.03, 0.1, 0.3, 0.6, 1.0, 3.0, 10.0])
    size = run.pick((200, 3), (200, 8))
    return learn(run, "alpha", alphas, lambda a: (2e-3, 60.0 if not run.quick else 40.0), size=size, delta=0.5, lam=0.1)


def draw(data):
    """One panel, logarithmic in both."""
    figure, axes = panels(width=4.6)
    axes[0].set(xscale="log", yscale="log", xlabel=r"time $t$", ylim=(1e-5, 0.2))
    draw_learning(data, axes, ("E_train",))
    axes[0].get_legend().set(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
