"""Binary data: fixed points and convergence.

Entries ±1/√d, δ = 0.5, λ = 0, σ² = 0, P_* = Bernoulli(0.1). (a) Box (iii) and interpolators at d = 500, 10 draws
(quick: 200, 6), bars of one standard deviation. (b) Training error at finite size and the slope of the theory
(dashed).
"""

import numpy as np
from _convergence import compute_convergence, draw_convergence
from _shared import limits

import eqsolve
from eqsolve.plotting.paper import curve, label_panels, panels, spread

ORDER = 14
PAPER = "Figure 15"
MODEL = "dln_fixed_point_min_norm"


def compute(run):
    """Both, with signs as features."""
    alphas, places = np.geomspace(1e-2, 10, run.pick(25, 61)), np.array([0.03, 0.1, 0.3, 1.0, 3.0])
    path = eqsolve.follow(MODEL, "alpha", alphas, delta=0.5, sigma2=0)
    d, seeds = run.pick((200, 6), (500, 10))
    runs, half = (
        np.array([limits(MODEL, n, k, data="binary", alpha=a, delta=0.5)[:, 0] for a in places]).T
        for n, k in ((d, seeds), (d // 2, 2 * seeds))
    )
    exact = [float(eqsolve.solve(MODEL, alpha=a, delta=0.5, sigma2=0)["E_test"]) for a in places]
    run.agree("E_test on binary data", exact, 0.0, runs, half)
    rates = compute_convergence(run, 0.5, 0.0, [0.3, 1.0, 3.0], data="binary", size=run.pick((200, 2), (500, 3)))
    rates = rates.rename(alpha="start", draw="repeat")
    fixed = {"E_test": ("alpha", path["E_test"].values), "runs": (("draw", "place"), runs)}
    return rates.assign(fixed).assign_coords(alpha=alphas, place=places)


def draw(data):
    """Fixed points and convergence."""
    figure, axes = panels(1, 2)
    curve(axes[0], data["alpha"], data["E_test"], color="k", label="theory, box (iii)")
    spread(axes[0], data["place"], data["runs"], color="#D55E00", label=f"binary, d = {data.attrs['d']} (s.d.)")
    axes[0].set(xscale="log", xlabel=r"initialization $\alpha$", ylabel=r"$E_{\mathrm{test}}(\infty)$", ylim=(0, None))
    axes[0].legend(loc="lower right")
    kept = data[["t", "E_train", "gamma"]].rename(start="alpha", repeat="draw")
    draw_convergence(kept, axes[1], r"$E_{\mathrm{train}}(t)$")
    label_panels(axes)
    return figure
