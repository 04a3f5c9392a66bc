"""Convergence rate γ against the initialization, for δ = 2 and δ = 0.5.

σ² = 0.1 for δ = 2 and 0 for δ = 0.5, P_* = Bernoulli(0.1). Lines: the rightmost singularity of the transform of the
response. Points: the smallest rate of the linearised flow at its limit, at d = 400 (quick: 100) over 6 draws
(quick: 4); finite size rounds the edge of the spectrum by a term of order d^(−2/3), which the draws at half the
size measure. Dotted: the limit α² (1 − δ^(−1/2))², Marchenko and Pastur's edge.
"""

import numpy as np
import xarray as xr

import eqsolve
from eqsolve.plotting.paper import curve, panels

ORDER = 13
PAPER = "Figure 14"
CASES = ((2.0, 0.1), (0.5, 0.0))


def compute(run):
    """Follow the rate along α; measure it at finite size."""
    from eqsolve.microscopic.simulate import decay_rates

    alphas = np.geomspace(0.03, 10, run.pick(15, 49))
    places = np.array(run.pick([0.3, 1.0], [0.3, 0.6, 1.0, 3.0]))
    d, seeds = run.pick((100, 4), (400, 6))
    flow = eqsolve.load("dln_flow")
    lines, edges, runs = [], [], []
    for delta, sigma2 in CASES:
        made = eqsolve.rate_curve("dln_rate", "alpha", alphas, delta=delta, sigma2=sigma2)
        lines.append(np.asarray(made.rate if hasattr(made, "rate") else made["gamma"], dtype=float))
        edges.append(alphas**2 * eqsolve.spectra.MarchenkoPastur(delta).edges[0])
        sizes = {}
        for size in (d, d // 2):
            sizes[size] = np.array(
                [decay_rates(flow, size, seeds, 0, {"alpha": a, "delta": delta, "sigma2": sigma2}) for a in places]
            ).T
        exact = [float(eqsolve.solve("dln_rate", alpha=a, delta=delta, sigma2=sigma2)["gamma"]) for a in places]
        run.agree(f"γ at δ = {delta:g}", exact, 0.0, sizes[d], sizes[d // 2])
        runs.append(sizes[d])
    return xr.Dataset(
        {
            "gamma": (("delta", "alpha"), lines),
            "edge": (("delta", "alpha"), edges),
            "runs": (("delta", "draw", "place"), runs),
        },
        {"alpha": alphas, "place": places, "delta": [case[0] for case in CASES]},
        {"d": d, "draws": seeds},
    )


def draw(data):
    """Both rates on logarithmic axes."""
    from eqsolve.plotting.paper import points

    figure, (axes,) = panels()
    axes.set(xscale="log", yscale="log", xlabel=r"initialization $\alpha$", ylabel=r"convergence rate $\gamma$")
    for colour, delta in zip(("#0072B2", "#D55E00"), data["delta"].values, strict=True):
        one = data.sel(delta=delta)
        curve(axes, data["alpha"], one["gamma"], color=colour, label=rf"$\delta = {delta:g}$")
        axes.plot(data["alpha"], one["edge"], ":", color=colour, lw=0.9)
        points(axes, data["place"], one["runs"], color=colour)
    title = f"points: d = {data.attrs['d']}, {data.attrs['draws']} draws"
    axes.legend(loc="upper left", title=title, title_fontsize=7, alignment="left")
    return figure
