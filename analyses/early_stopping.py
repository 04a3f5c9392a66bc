"""When to stop, and what it is worth.

Beyond the paper: diagonal network without weight decay, δ = 0.5, P_* = Bernoulli(0.1), label noise σ². (a) The time t* at
which E_test is least; (b) E_test there (lines) and in the end (dashed: the fixed point of box (iii)); (c) the share of E_test
that stopping saves. Points: flows at d = 400, 8 draws (quick: 200, 6), stopped at the theory's t*, and the interpolators they
end at; bars of one standard error. The gain grows with the noise, from a fifth of E_test at σ² = 0.05 to two fifths at 0.2,
and is largest for small α, which is to be stopped late. Who stops in time need not look for the best α: at σ² = 0.05 the
interior optimum of the end is gone and small α is best, at 0.2 E_test(t*) hardly depends on α.
"""

import numpy as np
import xarray as xr
from _shared import flow_runs, limits

import eqsolve
from eqsolve.plotting.paper import colours, curve, label_panels, panels, points

ORDER = 50
LIMIT = "dln_fixed_point_min_norm"
DELTA = 0.5


def stop(alpha: float, sigma2: float, rtol: float) -> tuple[float, float, float]:
    """Return the time at which E_test is least, its value there and the error of that value."""
    last = 8 + 8 / alpha
    solved = eqsolve.solve(
        "dln", alpha=alpha, delta=DELTA, sigma2=sigma2, t_max=last, rtol=rtol, observables=["E_test"], kernels=False
    )
    times = np.geomspace(1e-2, last, 400)
    for _ in range(2):  # the curve is looked at again, closer to its minimum
        values = solved.at(times)["E_test"].values
        place = int(np.clip(np.argmin(values), 1, len(times) - 2))
        times = np.linspace(times[place - 1], times[place + 1], 101)
    found = solved.at(times)
    best = int(np.argmin(found["E_test"].values))
    return float(times[best]), float(found["E_test"][best]), float(found["E_test_error"][best])


def compute(run):
    """The minimum of each curve, the fixed point, and both at finite size."""
    noises = run.pick((0.05, 0.2), (0.02, 0.05, 0.1, 0.2))
    alphas = np.geomspace(0.1, 2.0, run.pick(5, 13))
    d, seeds = run.pick((200, 6), (400, 8))
    shown = alphas[:: run.pick(2, 3)]
    table = np.empty((3, len(noises), len(alphas)))
    ends = np.empty(table.shape[1:])
    stopped, ended = np.empty((2, len(noises), seeds, len(shown)))
    for row, sigma2 in enumerate(noises):
        given = {"delta": DELTA, "sigma2": sigma2}
        for place, alpha in enumerate(alphas):
            run.report(row * len(alphas) + place, len(noises) * len(alphas))
            table[:, row, place] = stop(float(alpha), sigma2, run.pick(1e-2, 1e-3))
        ends[row] = eqsolve.follow(LIMIT, "alpha", alphas, **given)["E_test"].values
        halves = []
        for place, alpha in enumerate(shown):
            moment = [table[0, row, np.flatnonzero(alphas == alpha)[0]]]
            runs = [flow_runs(moment, n, k, alpha=float(alpha), **given)["E_test"][:, 0] for n, k in _sizes(d, seeds)]
            rest = [limits(LIMIT, n, k, alpha=float(alpha), **given)[:, 0] for n, k in _sizes(d, seeds)]
            stopped[row, :, place], ended[row, :, place] = runs[0], rest[0]
            halves.append((runs[1], rest[1]))
        at = np.isin(alphas, shown)
        small = np.array(halves)  # (place, what, draw)
        run.agree(f"E_test(t*) at σ² = {sigma2:g}", table[1, row, at], table[2, row, at], stopped[row], small[:, 0].T)
        run.agree(f"E_test(∞) at σ² = {sigma2:g}", ends[row, at], 0.0, ended[row], small[:, 1].T)
        gains = 1 - table[1, row] / ends[row]
        run.note(
            f"σ² = {sigma2:g}: t* from {table[0, row, -1]:.2f} (α = {alphas[-1]:g}) to {table[0, row, 0]:.2f} "
            f"(α = {alphas[0]:g}), gain from {gains.min():.1%} to {gains.max():.1%}."
        )
    return xr.Dataset(
        {
            "best": (("what", "sigma2", "alpha"), table),
            "limit": (("sigma2", "alpha"), ends),
            "stopped": (("sigma2", "draw", "place"), stopped),
            "ended": (("sigma2", "draw", "place"), ended),
        },
        {"what": ["time", "E_test", "error"], "sigma2": list(noises), "alpha": alphas, "place": shown},
        {"d": d, "draws": seeds},
    )


def _sizes(d, seeds):
    return (d, seeds), (d // 2, 2 * seeds)


def draw(data):
    """Time, errors and gain."""
    figure, axes = panels(1, 3)
    for colour, sigma2 in zip(colours(data.sizes["sigma2"]), data["sigma2"].values, strict=True):
        one = data.sel(sigma2=sigma2)
        least, error = one["best"].sel(what="E_test"), one["best"].sel(what="error")
        curve(axes[0], data["alpha"], one["best"].sel(what="time"), color=colour, label=rf"$\sigma^2 = {sigma2:g}$")
        curve(axes[1], data["alpha"], least, error, color=colour)
        curve(axes[1], data["alpha"], one["limit"], color=colour, ls="--", lw=0.9)
        points(axes[1], data["place"], one["stopped"], color=colour)
        points(axes[1], data["place"], one["ended"], color=colour, fmt="s")
        curve(axes[2], data["alpha"], 1 - least / one["limit"], color=colour)
        points(axes[2], data["place"], 1 - one["stopped"] / one["ended"], color=colour)
    axes[0].set(yscale="log", ylabel=r"best time $t^*$")
    axes[1].set(ylim=(0, 1.4 * float(data["limit"].max())), ylabel=r"$E_{\mathrm{test}}$")
    axes[1].plot([], [], "-", color="0.3", label=r"at $t^*$")
    axes[1].plot([], [], "--", color="0.3", lw=0.9, label=r"$t \to \infty$")
    axes[2].set(ylim=(0, None), ylabel=r"$1 - E_{\mathrm{test}}(t^*) / E_{\mathrm{test}}(\infty)$")
    for panel in axes:
        panel.set(xscale="log", xlabel=r"initialization $\alpha$")
    axes[0].legend()
    axes[1].legend(
        loc="upper right",
        title=f"points: d = {data.attrs['d']}, {data.attrs['draws']} draws",
        title_fontsize=6.5,
        fontsize=6.5,
        ncols=2,
    )
    label_panels(axes)
    return figure
