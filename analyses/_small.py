"""Learning curves from small initializations, computed once for the figures that look at them in different times."""

import functools
import math

from _dynamics import draw_learning, learn

from eqsolve.plotting.paper import panels


@functools.cache
def _curves(quick):
    from eqsolve.figures.make import Run

    run = Run(quick)
    alphas = run.pick([0.1, 0.05], [0.1, 0.05, 0.02])
    size = run.pick((200, 3), (200, 8))
    made = learn(run, "alpha", alphas, lambda a: (0.1, 8 * math.log(1 / a)), size=size, delta=0.5, lam=0.0)
    return made, tuple(run.agreements), tuple(run.notes)


def compute_small(run):
    """Return the curves, reporting their agreement."""
    made, agreements, notes = _curves(run.quick)
    run.agreements += agreements
    run.notes += notes
    return made


def draw_small(data, clock, xlabel, names=("E_train", "E_test")):
    """Errors in a time of one's own."""
    figure, axes = panels(1, len(names))
    draw_learning(data, axes, names, clock)
    for panel in axes:
        panel.set(xlabel=xlabel, ylim=(0, None))
    return figure
