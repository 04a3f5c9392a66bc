"""Learning curves from large initializations, computed once for the figures that look at them in different times."""

import functools
import math

from _dynamics import draw_learning, learn

from eqsolve.plotting.paper import panels

LAM = 0.2


def transition(alpha):
    """Return t_c = 2 log(α)/λ."""
    return 2 * math.log(alpha) / LAM


@functools.cache
def _curves(quick):
    """Keep the curves of one process; agreement is kept with them."""
    from eqsolve.figures.make import Run

    run = Run(quick)
    alphas = run.pick([3.0, 10.0], [3.0, 10.0, 30.0])
    size = run.pick((200, 3), (1000, 4))
    made = learn(run, "alpha", alphas, lambda a: (0.02 / a**2, transition(a) + 30), size=size, delta=0.5, lam=LAM)
    return made, tuple(run.agreements), tuple(run.notes)


def compute_large(run):
    """Return the curves, reporting their agreement."""
    made, agreements, notes = _curves(run.quick)
    run.agreements += agreements
    run.notes += notes
    return made


def draw_large(data, clock, xlabel, *, log=True, mark=None, span=None):
    """Training error on the left, test error on the right, in a time of one's own."""
    figure, axes = panels(1, 2)
    axes[0].set(yscale="log", ylim=(1e-7, 0.3))
    draw_learning(data, axes, ("E_train", "E_test"), clock)
    for panel in axes:
        panel.set(xscale="log" if log else "linear", xlabel=xlabel)
        if span is not None:
            panel.set_xlim(*span)
        if mark is not None:
            panel.axvline(mark, color="0.5", ls=":", lw=0.9)
    return figure, axes
