"""Fresh label noise makes the initialization smaller for as long as training lasts.

Beyond the paper: gradient descent of the diagonal network on all samples, whose labels get a fresh noise of variance v at
every step η = 0.4; δ = 0.5, α = 0.5, P_* = Bernoulli(0.1), without and with fixed label noise σ² = 0.05 (dashed). (a) E_test
and (b) E|w| after K steps, relative to v = 0; (c) α_eff = (E uv)^(1/2), dotted: α exp(−η² v K / (8δ)), what the noise of the
labels alone does. Lines: the theory of the algorithm at this step, with its error; circles: the same algorithm at d = 400,
16 draws (quick: 8), bars of one standard error; squares: K = 250, d = 200 only. Fresh noise shrinks the product
of the layers at every step, whatever σ² is, and the weights with it. Without fixed noise E_test first pays for it (K = 50)
and then gains a third (K = 250); at σ² = 0.05 it hardly changes, though the weights shrink as much.
"""

import numpy as np
import xarray as xr
from _training import LABELS, NAMES, effective, finite, hold, trained

from eqsolve.plotting.paper import colours, curve, label_panels, panels, points

ORDER = 53
ALPHA, DELTA, ETA = 0.5, 0.5, 0.4
NOISES = (0.0, 0.05)
SIZE = "Finite size makes E uv larger: at v = 0.3 by 4 % with d = 150, 3 % with 300, 1.5 % with 600, 0.6 % with 1200."
LONG = 250  # steps that are followed at finite size only


def compute(run):
    """Theory and runs over the variance of the fresh noise."""
    steps = run.pick((50,), (50, 100))
    strengths = np.array(run.pick((0.0, 0.2), (0.0, 0.05, 0.1, 0.2, 0.3)))
    d, seeds = run.pick((300, 8), (400, 16))
    found = np.empty((len(NOISES), len(steps), len(strengths), 2, len(NAMES)))
    runs = np.empty((len(NOISES), len(steps), len(strengths), seeds, len(NAMES)))
    half = np.empty((*runs.shape[:3], 2 * seeds, len(NAMES)))
    late = np.empty((len(NOISES), len(strengths), seeds, len(NAMES)))
    for done, (row, column, place) in enumerate(np.ndindex(found.shape[:3])):
        run.report(done, int(np.prod(found.shape[:3])))
        given = {"alpha": ALPHA, "delta": DELTA, "sigma2": NOISES[row], "v_labels": float(strengths[place])}
        found[row, column, place] = trained(LABELS, ETA, steps[column], run.pick(4e-2, 2e-2), **given)
        runs[row, column, place] = finite(LABELS, ETA, steps[column], d, seeds, **given)
        half[row, column, place] = finite(LABELS, ETA, steps[column], d // 2, 2 * seeds, **given)
        if not column:
            late[row, place] = finite(LABELS, ETA, LONG, d // 2, seeds, **given)
    hold(run, found, runs, half, note=SIZE)
    for row, sigma2 in enumerate(NOISES):
        ends, far = found[row, -1, :, 0], late[row].mean(axis=1)
        run.note(
            f"σ² = {sigma2:g}, v = {strengths[-1]:g} (in brackets: v = 0): E_test = {ends[-1, 0]:.4f} ({ends[0, 0]:.4f}), "
            f"E|w| = {ends[-1, 1]:.4f} ({ends[0, 1]:.4f}), α_eff = {effective(ends[-1, 2]):.3f} at K = {steps[-1]}; "
            f"E_test = {far[-1, 0]:.4f} ({far[0, 0]:.4f}), E|w| = {far[-1, 1]:.4f} ({far[0, 1]:.4f}), "
            f"α_eff = {effective(far[-1, 2]):.3f} at K = {LONG}."
        )
    axes = ("sigma2", "steps", "v")
    return xr.Dataset(
        {
            "theory": ((*axes, "what", "name"), found),
            "runs": ((*axes, "draw", "name"), runs),
            "late": (("sigma2", "v", "draw", "name"), late),
        },
        {"sigma2": list(NOISES), "steps": list(steps), "v": strengths, "name": list(NAMES)},
        {"d": d, "draws": seeds},
    )


def draw(data):
    """Error, size of the weights, effective initialization."""
    figure, axes = panels(1, 3, height=2.6)
    counts, v = data["steps"].values, data["v"].values
    fine = np.linspace(0, v[-1], 100)
    for row, sigma2 in enumerate(data["sigma2"].values):
        for place, steps in enumerate(counts):
            one = data.sel(sigma2=sigma2, steps=steps)
            colour, dashes = colours(2 * len(counts))[2 * place + row], "--" if sigma2 else "-"
            style = {"color": colour, "ls": dashes, "label": rf"$\sigma^2 = {sigma2:g}$, K = {steps}"}
            for panel, name in zip(axes[:2], ("E_test", "l1"), strict=True):
                value, error = one["theory"].sel(name=name).values.T
                draws = one["runs"].sel(name=name).values
                curve(panel, v, value / value[0], error / value[0], **style)
                points(panel, v[1:], (draws / draws[0])[1:].T, color=colour)
            value, error = one["theory"].sel(name="product").values.T
            curve(axes[2], v, effective(value), error / (2 * effective(value)), **style)
            points(axes[2], v, effective(one["runs"].sel(name="product").values.T), color=colour)
            if not row:
                axes[2].plot(fine, ALPHA * np.exp(-(ETA**2) * fine * steps / (8 * DELTA)), ":", color="0.4", lw=0.9)
        colour, late = colours(2 * len(counts))[row], data["late"].sel(sigma2=sigma2)
        for panel, name in zip(axes, ("E_test", "l1", "product"), strict=True):
            draws = late.sel(name=name).values
            shown = effective(draws) if name == "product" else draws / draws[0]
            points(panel, v[1:], shown[1:].T, color=colour, fmt="s", ls=":", lw=0.7)
    axes[0].set(ylabel=r"$E_{\mathrm{test}}$ / same at $v = 0$")
    axes[1].set(ylabel=r"$E|w|$ / same at $v = 0$")
    axes[2].set(ylabel=r"$\alpha_{\mathrm{eff}} = (E\,uv)^{1/2}$", ylim=(0, None))
    axes[2].plot([], [], "s", ms=3, mfc="white", color="0.3", label=f"K = {LONG}")
    for panel in axes:
        panel.set(xlabel="variance of fresh label noise $v$", xlim=(0, None))
    axes[0].axhline(1, color="0.5", ls=":", lw=0.8)
    axes[2].legend(loc="upper right", fontsize=6.5)
    label_panels(axes)
    return figure
