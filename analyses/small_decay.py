"""Small weight decay: the transient of λ = 0 until t ~ 1/λ.

δ = 0.5, α = 1, σ² = 0, P_* = Bernoulli(0.1). Lines: DMFT; points: d = 200, 8 draws (quick: 3), bars of one standard
error. Dotted: t = 1/λ.
"""

from _dynamics import draw_learning, learn

from eqsolve.plotting.paper import colours, panels

ORDER = 18


def compute(run):
    """The same start with less and less decay."""
    values = run.pick([0.0, 0.05, 0.2], [0.0, 0.02, 0.05, 0.2])
    last = run.pick(30.0, 60.0)
    return learn(run, "lam", values, lambda _: (0.05, last), size=run.pick((200, 3), (200, 8)), delta=0.5, alpha=1.0)


def draw(data):
    """Training and test error."""
    figure, axes = panels(1, 2)
    axes[0].set_yscale("log")
    draw_learning(data, axes, ("E_train", "E_test"), symbol=r"\lambda")
    for panel in axes:
        panel.set(xscale="log", xlabel=r"time $t$")
        for colour, lam in zip(colours(data.sizes["lam"]), data["lam"].values, strict=True):
            if lam:
                panel.axvline(1 / lam, color=colour, ls=":", lw=0.9)
    axes[0].set_ylim(1e-5, 0.2)
    return figure
