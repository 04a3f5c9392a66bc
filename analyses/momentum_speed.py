"""Momentum: the best friction, and what it does to the limit.

Beyond the paper: gradient flow with inertia, θ'' = −κ θ' − ∇, δ = 0.5, σ² = 0, for linear regression without weight decay
and for the diagonal network with α = 0.5, P_* = Bernoulli(0.1). (a) Convergence rate γ against the friction κ: a mode that
relaxes at the rate μ without inertia does so at the rate Re(κ − (κ² − 4μ)^(1/2))/2 with it. μ is the lower edge of a
spectrum: Marchenko and Pastur's for linear regression; for the network it follows from the law of the weights that the
solved dynamics has reached (interpolated between the κ that have points). Points: the slowest mode of the linearised flow.
(b) E_test where the network ends, relative to its end without inertia. Points: d = 600, 8 draws (quick: 300, 3), bars of one
standard error, in units of the same draws without inertia.
There is a best friction, κ = 2μ^(1/2), at which γ = μ^(1/2), the square root of the rate without inertia; above it the flow
creeps, below it rings. Linear regression ends at the same interpolator whatever κ is; the network does not: the less
friction, the worse it ends, by a fifth in E_test at κ = 0.6 and by a third at its best friction, 0.41.
"""

import numpy as np
import xarray as xr
from scipy.optimize import minimize_scalar

import eqsolve
from eqsolve import param
from eqsolve.plotting.paper import curve, label_panels, panels, points

ORDER = 51
DELTA, ALPHA = 0.5, 0.5
NETWORK = eqsolve.load("dln_flow").momentum(param("friction", positive=True))
LINEAR_EDGE = (1 - DELTA**-0.5) ** 2


def rate(friction, edge):
    """Return the rate of the slowest mode, for the lower edge of the rates without inertia."""
    return (friction - np.sqrt(np.maximum(friction**2 - 4 * edge, 0))) / 2


def edge_of(x, weights):
    """Return the lower edge of the spectrum of √x H √x, H = XᵀX/δ, for a law of x: −p at the branch point of p(u)."""

    def p(log_u):
        u = np.exp(log_u)
        return u * (1 - weights @ (x / (u + x)) / DELTA)

    return -float(minimize_scalar(p, bounds=(-12, 4), method="bounded", options={"xatol": 1e-10}).fun)


def ending(friction):
    """Return a time at which the network is at rest, to six times the time of its slowest mode, roughly."""
    return 6 / rate(friction, 0.05)


def solved(friction, rtol):
    """Return E_test at the end, its error, and the lower edge there."""
    asked = {"alpha": ALPHA, "delta": DELTA, "sigma2": 0, "friction": friction, "observables": ["E_test"]}
    result = eqsolve.solve(NETWORK, at=[ending(friction)], rtol=rtol, progress=False, **asked)
    u, v = (result[name].values[:, -1] for name in "uv")
    weights = result["u"].coords["weight"].values
    return float(result["E_test"][-1]), float(result.error["E_test"][-1]), edge_of((u**2 + v**2) / 2, weights)


def finite(frictions, d, seeds):
    """Return, on (what, draw, friction), both rates and the ratio of E_test to its end without inertia, draw by draw."""
    made = np.empty((3, seeds, len(frictions)))
    given = {"alpha": ALPHA, "sigma2": 0, "seeds": 1, "constants": "exact", "workers": 1, "rtol": 1e-5, "progress": False}
    n = round(DELTA * d)
    for seed in range(seeds):
        X = np.random.default_rng(seed).standard_normal((n, d)) / np.sqrt(d)
        plain = eqsolve.load("dln_flow").simulate(data=X, at=[200.0], seed=seed, **given).values["E_test"][0, -1]
        for place, friction in enumerate(frictions):
            at = [ending(friction)]
            run = NETWORK.simulate(data=X, at=at, seed=seed, keep=True, friction=float(friction), **given)
            last = {name: values[0, -1] for name, values in run.snapshots.items()}
            x = (last["u"] ** 2 + last["v"] ** 2) / 2
            edges = [np.linalg.eigvalsh((X * scale) @ X.T / DELTA)[0] for scale in (np.ones(d), x)]
            made[:, seed, place] = *rate(friction, np.array(edges)), run.values["E_test"][0, -1] / plain
    return made


def compute(run):
    """Theory over friction; rates and ends at finite size."""
    frictions = np.array(run.pick([0.6, 2.0], [0.4, 0.5, 0.7, 1.0, 1.4, 2.0]))
    d, seeds = run.pick((300, 3), (600, 8))
    table = []
    for place, friction in enumerate(frictions):
        run.report(place, len(frictions), f"friction {friction:g}")
        table.append(solved(float(friction), run.pick(2e-2, 1e-2)))
    values, errors, edges = np.array(table).T
    still = float(eqsolve.solve("dln_fixed_point_min_norm", alpha=ALPHA, delta=DELTA, sigma2=0)["E_test"])
    runs, half = finite(frictions, d, seeds), finite(frictions, d // 2, 2 * seeds)
    run.agree("E_test with inertia / without", values / still, errors / still, runs[2], half[2])
    note = "The edge of a spectrum is rounded at finite size by a term of order d^(−2/3)."
    seen = frictions > 2 * LINEAR_EDGE**0.5  # below, all modes have the same rate
    run.agree("γ, linear", rate(frictions, LINEAR_EDGE)[seen], 0.0, runs[0][:, seen], half[0][:, seen], note=note)
    seen = frictions > 2 * edges**0.5
    run.agree("γ, network", rate(frictions, edges)[seen], 0.0, runs[1][:, seen], half[1][:, seen], note=note)
    plain = float(eqsolve.solve("dln_rate", alpha=ALPHA, delta=DELTA, sigma2=0)["gamma"])
    fine = np.linspace(0.2, frictions[-1], 2000)
    best = fine[np.argmax(rate(fine, np.interp(fine, frictions, edges)))]
    run.note(
        f"Without inertia μ = {plain:.4f} for the network; {edges[-1]:.4f} is found at κ = {frictions[-1]:g} and "
        f"{edges[0]:.4f} at κ = {frictions[0]:g}. The best friction, κ = 2μ^(1/2), is {2 * LINEAR_EDGE**0.5:.2f} for linear "
        f"regression and {best:.2f} for the network. E_test at κ = {frictions[0]:g} is {values[0]:.4f}, "
        f"without inertia {still:.4f}."
    )
    return xr.Dataset(
        {
            "E_test": ("friction", values / still),
            "error": ("friction", errors / still),
            "edge": ("friction", edges),
            "runs": (("what", "draw", "friction"), runs),
        },
        {"friction": frictions, "what": ["linear", "network", "E_test"]},
        {"d": d, "draws": seeds},
    )


def draw(data):
    """Rates on the left, ends on the right."""
    figure, axes = panels(1, 2)
    places = data["friction"].values
    fine = np.geomspace(min(places[0], 0.3), places[-1], 400)
    edges = {"linear": np.full(fine.shape, LINEAR_EDGE), "network": np.interp(np.log(fine), np.log(places), data["edge"])}
    for colour, model in zip(("#0072B2", "#D55E00"), edges, strict=True):
        text = {"linear": "linear regression", "network": rf"network, $\alpha = {ALPHA:g}$"}[model]
        curve(axes[0], fine, rate(fine, edges[model]), color=colour, label=text)
        points(axes[0], places, data["runs"].sel(what=model), color=colour)
    curve(axes[1], places, data["E_test"], data["error"], color="#D55E00", label=rf"network, $\alpha = {ALPHA:g}$")
    label = f"d = {data.attrs['d']}, {data.attrs['draws']} draws"
    points(axes[1], places, data["runs"].sel(what="E_test"), color="#D55E00", label=label)
    axes[1].axhline(1, color="#0072B2", lw=1.3, label="linear regression")
    axes[0].set(xscale="log", yscale="log", ylabel=r"convergence rate $\gamma$")
    axes[0].set_yticks([0.02, 0.05, 0.1, 0.2, 0.4], ["0.02", "0.05", "0.1", "0.2", "0.4"])
    axes[1].set(xscale="log", ylabel=r"$E_{\mathrm{test}}(\infty)$ / same without inertia")
    for panel in axes:
        panel.set(xlabel=r"friction $\kappa$")
        panel.set_xticks([0.3, 0.5, 1, 2], ["0.3", "0.5", "1", "2"])
        panel.minorticks_off()
        panel.legend()
    label_panels(axes)
    return figure
