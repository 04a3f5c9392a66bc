"""Convergence of the training error, real data.

As for Gaussian data, on random 100 × 200 blocks of whitened data, 3 draws (quick: 2); dashed: the theory's slope
for Gaussian data. Whitening with few samples narrows the spectrum, so real data converge somewhat faster.
"""

from _convergence import compute_convergence, draw_convergence
from _real import D, blocks

from eqsolve.plotting.paper import panels

ORDER = 4
PAPER = "Figure 2(c)"


def compute(run):
    """Three initializations."""
    _, block = blocks(run)
    return compute_convergence(run, 0.5, 0.0, [0.3, 1.0, 3.0], data=block, size=(D, run.pick(2, 3)))


def draw(data):
    """Curves and slopes."""
    figure, (axes,) = panels()
    draw_convergence(data, axes, r"$E_{\mathrm{train}}(t)$")
    return figure
