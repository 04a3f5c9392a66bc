"""Learning curves of the mean-field theory over finite-size gradient flow.

Beyond the paper: E_train(t) and E_test(t) from the full DMFT system, δ = 0.5, λ = 0.1, σ² = 0.01, P_* =
Bernoulli(0.1), and finite-size flows (d = 500, 10 draws; quick: 200, 4) with bars of one standard error.
"""

from _dynamics import draw_learning, learn

from eqsolve.plotting.paper import panels

ORDER = 20


def compute(run):
    """Three initializations with weight decay and noise."""
    size = run.pick((200, 4), (500, 10))
    return learn(run, "alpha", [0.3, 1.0, 3.0], lambda a: (0.02, 20.0), size=size, delta=0.5, lam=0.1, sigma2=0.01)


def draw(data):
    """Training and test error side by side."""
    figure, axes = panels(1, 2)
    draw_learning(data, axes, ("E_train", "E_test"))
    for panel in axes:
        panel.set(xscale="log", xlabel=r"time $t$")
    axes[0].set_yscale("log")
    return figure
