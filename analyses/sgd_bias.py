"""Small batches make the initialization smaller.

Beyond the paper: minibatch SGD of the diagonal network, every sample in a batch with probability b, step η; δ = 0.5,
α = 0.5, P_* = Bernoulli(0.1), at t = 20, without and with label noise σ² = 0.05 (dashed). (a) E_test and (b) E|w|, relative
to training on all samples with the same step; (c) α_eff = (E uv)^(1/2), which gradient flow would keep at α. Lines: the
theory of the algorithm at this step, with its error; points: the same algorithm at d = 400, 16 draws (quick: 200, 8), bars
of one standard error; crosses: training on all samples from α_eff, by theory. Without a number: training diverges.
Small batches shrink the product of the layers, and with it E|w| and E_test: at η = 0.4 and b = 0.15 α_eff falls from 0.5 to
0.39 without and to 0.30 with label noise, and E_test by 8 % and 4 % (b = 0.12: to 0.30 and 0.17, by 14 % and 5 %). Most of
it is what the smaller initialization does: training on all samples from α_eff goes the same way, farther in E_test.
"""

import numpy as np
import xarray as xr
from _training import NAMES, SGD, effective, finite, hold, trained

from eqsolve.plotting.paper import colours, curve, label_panels, panels, points

ORDER = 52
ALPHA, DELTA, LAST = 0.5, 0.5, 20.0
NOISES = (0.0, 0.05)


def compute(run):
    """Theory and runs over batch, step and noise."""
    etas = run.pick((0.4,), (0.2, 0.4))
    batches = np.array(run.pick((0.15, 0.3), (0.12, 0.15, 0.2, 0.3, 0.5)))
    d, seeds = run.pick((200, 8), (400, 16))
    found = np.empty((len(NOISES), len(etas), len(batches) + 1, 2, len(NAMES)))
    runs = np.empty((len(NOISES), len(etas), len(batches) + 1, seeds, len(NAMES)))
    half = np.empty((*runs.shape[:3], 2 * seeds, len(NAMES)))
    twin = np.full((*found.shape[:3], 2), np.nan)
    for done, (row, column, place) in enumerate(np.ndindex(found.shape[:3])):
        run.report(done, int(np.prod(found.shape[:3])))
        eta, batch = etas[column], float(np.append(batches, 1.0)[place])
        given = {"alpha": ALPHA, "delta": DELTA, "sigma2": NOISES[row], "batch": batch}
        steps = round(LAST / eta)
        found[row, column, place] = trained(SGD, eta, steps, run.pick(4e-2, 2e-2), **given)
        runs[row, column, place] = finite(SGD, eta, steps, d, seeds, **given)
        half[row, column, place] = finite(SGD, eta, steps, d // 2, 2 * seeds, **given)
        start = effective(found[row, column, place, 0, 2])
        if batch < 1 and np.isfinite(start):
            alike = given | {"alpha": float(start), "batch": 1.0}
            twin[row, column, place] = trained(SGD, eta, steps, 1e-2, ("E_test", "l1"), **alike)[0]
    hold(run, found, runs, half)
    for row, sigma2 in enumerate(NOISES):
        place = int(np.argmax(np.isfinite(found[row, -1, :, 0, 0])))  # the smallest batch that does not diverge
        least, whole, alike = found[row, -1, place, 0], found[row, -1, -1, 0], twin[row, -1, place]
        run.note(
            f"σ² = {sigma2:g}, η = {etas[-1]:g}, b = {batches[place]:g}: E_test = {least[0]:.4f}, with all samples "
            f"{whole[0]:.4f}, from α_eff = {effective(least[2]):.3f} {alike[0]:.4f}; "
            f"E|w| = {least[1]:.4f}, {whole[1]:.4f} and {alike[1]:.4f}."
        )
    axes = ("sigma2", "step", "batch")
    return xr.Dataset(
        {
            "theory": ((*axes, "what", "name"), found),
            "runs": ((*axes, "draw", "name"), runs),
            "twin": ((*axes, "kind"), twin),
        },
        {"sigma2": list(NOISES), "step": list(etas), "batch": np.append(batches, 1.0), "name": list(NAMES)},
        {"d": d, "draws": seeds},
    )


def draw(data):
    """Error, size of the weights, effective initialization."""
    figure, axes = panels(1, 3, height=2.6)
    steps = data["step"].values
    for row, sigma2 in enumerate(data["sigma2"].values):
        for place, eta in enumerate(steps):
            one = data.sel(sigma2=sigma2, step=eta)
            colour, dashes = colours(2 * len(steps))[2 * place + row], "--" if sigma2 else "-"
            label = rf"$\sigma^2 = {sigma2:g}$, $\eta = {eta:g}$"
            style = {"color": colour, "ls": dashes, "label": label}
            for panel, name in zip(axes[:2], ("E_test", "l1"), strict=True):
                value, error = one["theory"].sel(name=name).values.T
                draws = one["runs"].sel(name=name).values
                curve(panel, data["batch"], value / value[-1], error / value[-1], **style)
                points(panel, data["batch"][:-1], (draws / draws[-1])[:-1].T, color=colour)
                alike = one["twin"].values[:, ("E_test", "l1").index(name)]
                panel.plot(data["batch"], alike / value[-1], "x", color=colour, ms=4, zorder=5)
            value, error = one["theory"].sel(name="product").values.T
            curve(axes[2], data["batch"], effective(value), error / (2 * effective(value)), **style)
            points(axes[2], data["batch"], effective(one["runs"].sel(name="product").values.T), color=colour)
    axes[0].set(ylabel=r"$E_{\mathrm{test}}$ / same with all samples")
    axes[1].set(ylabel=r"$E|w|$ / same with all samples")
    axes[2].set(ylabel=r"$\alpha_{\mathrm{eff}} = (E\,uv)^{1/2}$")
    axes[2].axhline(0.5, color="0.5", ls=":", lw=0.8)
    for panel in axes:
        panel.set(xscale="log", xlabel="batch $b$")
        panel.set_xticks([0.1, 0.2, 0.5, 1], ["0.1", "0.2", "0.5", "1"])
        panel.minorticks_off()
    axes[2].legend(loc="lower right", fontsize=6.5)
    label_panels(axes)
    return figure
