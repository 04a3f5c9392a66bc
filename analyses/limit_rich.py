"""The rich phase is a limit: learning curves after the transition no longer depend on α.

E_train and E_test in the time τ = t − 2 log(α)/λ from the system of the rich phase started at τ₀ = −2 log(α)/λ, which is
the network with that α; δ = 0.5, λ = 0.5, σ² = 0, P_* = Bernoulli(0.1). Right: largest difference to the largest α over 0
≤ τ ≤ 8; grey: the solver's own error estimate.
"""

import math

import numpy as np
import xarray as xr

import eqsolve
from eqsolve.plotting.paper import colours, curve, label_panels, panels

ORDER = 30.5
LAM = 0.5
NAMES = ("E_train", "E_test")


def curves(model, times, rtol, **params):
    """Return both errors and their error estimates at given times."""
    found = eqsolve.solve(model, t_max=times[-1], rtol=rtol, atol=1e-2 * rtol, delta=0.5, lam=LAM, **params).at(times)
    return [found[name].values for name in (*NAMES, "E_train_error", "E_test_error")]


def compute(run):
    """Curves for several starts, and the full network once."""
    alphas = np.array(run.pick([1.5, 2.0, 3.0, 6.0], [1.5, 2.0, 2.5, 3.0, 4.0, 10.0]))
    tau, rtol, rows = np.linspace(-2, 8, 101), run.pick(1e-3, 1e-4), []
    for place, alpha in enumerate(alphas):
        run.report(place, len(alphas), f"alpha = {alpha:g}")
        start = -2 * math.log(alpha) / LAM
        seen = tau >= start
        rows.append(np.full((4, tau.size), np.nan))
        rows[-1][:, seen] = curves("dln_rich", tau[seen], rtol, tau0=start)
    plain = curves("dln", tau - start, rtol, alpha=float(alpha))
    shift = float(np.abs(np.array(plain[:2]) - rows[-1][:2]).max())
    run.note(f"The full network at α = {alpha:g}, shifted by 2 log(α)/λ, differs from the last of these by {shift:.1e}.")
    values = np.array(rows)
    gap = np.abs(values[:-1, :2] - values[-1, :2])[:, :, tau >= 0].max(axis=2)
    said = ", ".join(f"{pair.max():.1e} (α = {alpha:g})" for alpha, pair in zip(alphas, gap, strict=False))
    run.note(f"Largest differences: {said}.")
    content = {"curves": (("alpha", "what", "tau"), values), "gap": (("earlier", "name"), gap)}
    return xr.Dataset(content, {"alpha": alphas, "tau": tau}, {"shift": shift})


def draw(data):
    """Curves that fall onto each other, and how far they are apart."""
    figure, axes = panels(1, 3)
    a, values = data["alpha"].values, data["curves"].values
    for panel, place, label in zip(axes, (0, 1), (r"$E_{\mathrm{train}}$", r"$E_{\mathrm{test}}$"), strict=False):
        for colour, alpha, row in zip(colours(len(a)), a, values, strict=True):
            curve(panel, data["tau"], row[place], row[place + 2], color=colour, label=rf"$\alpha = {alpha:g}$")
        late = np.nanmax(values[:, place, data["tau"].values >= 0])
        first = np.nanmin(values[:, place]) if place else 0
        panel.set(xlabel=r"$\tau = t - 2\log(\alpha)/\lambda$", ylabel=label, ylim=(first, late + 0.4 * (late - first)))
    axes[0].legend()
    for place, (colour, label) in enumerate((("#D55E00", r"$E_{\mathrm{train}}$"), ("#0072B2", r"$E_{\mathrm{test}}$"))):
        axes[2].plot(a[:-1], data["gap"].values[:, place], "o-", color=colour, ms=4, label=label)
    axes[2].fill_between(a[[0, -2]], 1e-9, np.nanmax(values[:, 2:]), color="0.85", lw=0, label="error estimate")
    low = 0.3 * min(float(data["gap"].min()), float(np.nanmax(values[:, 2:])))
    axes[2].set(xscale="log", yscale="log", xlabel=r"initialization $\alpha$", ylim=(low, None))
    axes[2].set_ylabel(rf"largest difference to $\alpha = {a[-1]:g}$")
    axes[2].set_xticks(a[:-1], [f"{value:g}" for value in a[:-1]])
    axes[2].minorticks_off()
    axes[2].legend()
    label_panels(axes)
    return figure
