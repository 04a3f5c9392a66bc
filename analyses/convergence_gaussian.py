"""Convergence of the training error, Gaussian data.

δ = 0.5, λ = 0, σ² = 0, P_* = Bernoulli(0.1). Thin lines: gradient flow at d = 500, 3 draws (quick: 200, 2). Dashed:
slope of the theory, t^(−3/2) e^(−2γt). Time is in units of 1/(2γ), so that all slopes are the same; a single draw has a
discrete spectrum and leaves the dashed line when only its smallest rate is left.
"""

from _convergence import compute_convergence, draw_convergence

from eqsolve.plotting.paper import panels

ORDER = 3
PAPER = "Figure 2(b)"


def compute(run):
    """Three initializations."""
    alphas = run.pick([0.3, 1.0, 3.0], [0.1, 0.3, 1.0, 3.0])
    return compute_convergence(run, 0.5, 0.0, alphas, size=run.pick((200, 2), (500, 3)))


def draw(data):
    """Curves and slopes."""
    figure, (axes,) = panels()
    draw_convergence(data, axes, r"$E_{\mathrm{train}}(t)$")
    return figure
