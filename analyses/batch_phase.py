"""Where small batches help: batch against initialization.

Beyond the paper: minibatch SGD of the diagonal network after K = 50 steps of η = 0.4, δ = 0.5, σ² = 0, P_* =
Bernoulli(0.1). (a) E_test relative to that of all samples, by theory: blue where batches help. Grey: training diverges.
(b) Along the batch for each α; points: the same algorithm at d = 400, 16 draws (quick: 200, 8), bars of one standard error,
in units of the same draws with all samples.
From α = 0.2 on, batches of a tenth of the samples or more help, and the more the larger α is, up to the edge where training
diverges: at b = 0.1 by 2 % for α = 0.2 and by 16 % for α = 0.5 (at α = 0.12 none helps). Smaller batches do not pay within
these steps: at small α their noise has not died out, so that E_test is 1.5 to 2 times larger, at large α they diverge.
"""

import numpy as np
import xarray as xr
from _training import SGD, finite, trained

from eqsolve.plotting.paper import colours, curve, label_panels, panels, points

ORDER = 54
DELTA, SIGMA2, ETA, STEPS = 0.5, 0.0, 0.4, 50


def compute(run):
    """The map by theory, and the same places at finite size."""
    batches = np.array(run.pick((0.1, 0.4, 1.0), (0.06, 0.1, 0.15, 0.25, 0.4, 1.0)))
    alphas = np.array(run.pick((0.2, 0.5), (0.12, 0.2, 0.32, 0.5, 0.8)))
    d, seeds = run.pick((200, 8), (400, 16))
    found = np.empty((2, len(alphas), len(batches)))
    runs, half = np.empty((seeds, *found.shape[1:])), np.empty((2 * seeds, *found.shape[1:]))
    for done, (row, column) in enumerate(np.ndindex(found.shape[1:])):
        run.report(done, found[0].size)
        given = {"alpha": float(alphas[row]), "delta": DELTA, "sigma2": SIGMA2, "batch": float(batches[column])}
        found[:, row, column] = trained(SGD, ETA, STEPS, run.pick(8e-2, 2e-2), ("E_test",), **given)[:, 0]
        runs[:, row, column] = finite(SGD, ETA, STEPS, d, seeds, ("E_test",), **given)[:, 0]
        half[:, row, column] = finite(SGD, ETA, STEPS, d // 2, 2 * seeds, ("E_test",), **given)[:, 0]
    seen = np.isfinite(found[0]) & np.isfinite(runs).all(axis=0) & np.isfinite(half).all(axis=0)
    run.agree("E_test", found[0][seen], found[1][seen], runs[:, seen], half[:, seen])
    ratio = found[0] / found[0][:, -1:]
    row, column = np.unravel_index(np.nanargmin(ratio), ratio.shape)
    run.note(
        f"The least ratio is {ratio[row, column]:.3f}, at α = {alphas[row]:g}, b = {batches[column]:g}; the largest "
        f"{np.nanmax(ratio):.3f}; {int(np.isnan(ratio).sum())} of {ratio.size} places diverge."
    )
    return xr.Dataset(
        {"theory": (("what", "alpha", "batch"), found), "runs": (("draw", "alpha", "batch"), runs)},
        {"alpha": alphas, "batch": batches},
        {"d": d, "draws": seeds},
    )


def draw(data):
    """The map, and cuts through it."""
    figure, axes = panels(1, 2, height=2.7)
    value, error = data["theory"].values
    ratio = value / value[:, -1:]
    shown = np.ma.masked_invalid(ratio[:, :-1])
    spread = 0.2  # what is farther from 1 has the colour of the end, and its number
    b, alpha = data["batch"].values, data["alpha"].values
    axes[0].set_facecolor("0.8")
    mesh = axes[0].pcolormesh(
        _edges(b[:-1]), _edges(alpha), shown, cmap="RdBu_r", vmin=1 - spread, vmax=1 + spread, shading="flat"
    )
    figure.colorbar(mesh, ax=axes[0], extend="both", label=r"$E_{\mathrm{test}}$ / same with all samples")
    for (row, column), entry in np.ndenumerate(ratio[:, :-1]):
        if np.isfinite(entry):
            shade = "white" if abs(entry - 1) > 0.6 * spread else "black"
            axes[0].text(b[column], alpha[row], f"{entry:.2f}", ha="center", va="center", fontsize=6.5, color=shade)
    axes[0].set(xscale="log", yscale="log", xlabel="batch $b$", ylabel=r"initialization $\alpha$")
    runs = data["runs"] / data["runs"].isel(batch=-1)
    for row, colour in enumerate(colours(len(alpha))):
        curve(axes[1], b, ratio[row], error[row] / value[row, -1], color=colour, label=rf"$\alpha = {alpha[row]:g}$")
        points(axes[1], b[:-1], runs.values[:, row, :-1], color=colour)
    axes[1].axhline(1, color="0.4", ls=":", lw=0.8)
    axes[1].set(xscale="log", xlabel="batch $b$", ylabel=r"$E_{\mathrm{test}}$ / same with all samples")
    axes[1].legend(fontsize=6.5)
    for panel, places in zip(axes, (b[:-1], b), strict=True):
        panel.set_xticks(places, [f"{item:g}" for item in places])
        panel.minorticks_off()
    axes[0].set_yticks(alpha, [f"{item:g}" for item in alpha])
    label_panels(axes)
    return figure


def _edges(places):
    """Return the ends of cells around places on a logarithmic axis."""
    middle = np.sqrt(places[1:] * places[:-1])
    return np.concatenate([[places[0] ** 2 / middle[0]], middle, [places[-1] ** 2 / middle[-1]]])
