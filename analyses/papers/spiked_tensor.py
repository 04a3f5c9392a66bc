"""Langevin dynamics against approximate message passing in the spiked matrix-tensor model.

p = 3, Δ_p = 1. (a) Overlap with the signal at three strengths Δ₂ of the matrix's noise, from m = 0.3 (at 0.9: 0.05); dotted:
where message passing ends; points: finite size. (b) Rate d ln m/dt of a tiny overlap at three times (grey), and at t → ∞;
dashed: where threshold states become unstable towards the signal, beyond which Langevin dynamics fails. (c) Lines of failure.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
import xarray as xr
from _finite_size import spiked

import eqsolve
from eqsolve.plotting.paper import colours, curve, label_panels, panels, points

PAPER = "Sarao Mannelli, Biroli, Cammarota, Krzakala, Urbani & Zdeborová 2020, Marvels and pitfalls of the Langevin algorithm"
FIELD = "inference"
SHOWN, DP = {0.4: 0.3, 0.6: 0.3, 0.9: 0.05}, 1.0  # Δ₂, and the overlap at the start


def passed(delta_2):
    """Overlap in which state evolution of message passing, m ← Q'(m)/(1 + Q'(m)), ends from a small one."""
    return reduce(lambda m, _: 1 - 1 / (1 + m / delta_2 + m**2 / DP), range(10_000), 1e-3)


def langevin_line(delta_p):
    """Threshold states, Q''(q)(1 − q)² = 1, are unstable where 1/Δ₂ > 1/(1 − q): on the line (1 − Δ₂)(2Δ₂² − Δ_p) = 0."""
    return np.minimum(1, np.sqrt(delta_p / 2))


def growth(delta_2, last, rtol):
    """Rates of growth of a tiny overlap over the last decade, and extrapolated by t^(−2/3), with an error."""
    times = np.geomspace(last / 10, last, 60)
    found = eqsolve.solve("spiked_matrix_tensor", Delta_2=delta_2, Delta_p=DP, m0=1e-12, t_max=last, rtol=rtol)
    rate = np.gradient(np.log(found.at(times)["m"].values), times)[2:-2]
    ends = [np.polyfit(times[2:-2] ** (-2 / 3), rate, order)[-1] for order in (1, 2)]
    return [*rate[[0, 27, -1]], ends[1], abs(ends[1] - ends[0])]


def compute(run):
    last, size, draws, rtol = run.pick((6.0, 60, 6, 1e-2), (12.0, 120, 10, 1e-3))
    times, settings = np.linspace(0, last, 121), {"Delta_p": DP, "t_max": last, "rtol": rtol}
    found = [eqsolve.solve("spiked_matrix_tensor", Delta_2=d, m0=m, **settings).at(times) for d, m in SHOWN.items()]
    near, sizes = [0.4, 0.6], (size, size // 2)
    runs = {n: [[spiked(d, DP, SHOWN[d], n, k, times[::10]) for k in range(draws)] for d in near] for n in sizes}
    for d, one, *rows in zip(SHOWN, found, *runs.values(), strict=False):
        theory = one["m"].values[10::10], one["m_error"].values[10::10]
        run.agree(f"overlap, Δ₂ = {d:g}", *theory, *(np.array(part)[:, 1:] for part in rows))
    spreads = run.pick([0.5, 0.7], [0.5, 0.55, 0.6, 0.65, 0.7, 0.8])
    rates = [growth(d, run.pick(20.0, 150.0), rtol) for d in spreads]
    run.note(f"Overlap at t = {last:g}, Δ₂ = 0.4: {found[0]['m'].values[-1]:.5f} (message passing {passed(0.4):.5f}).")
    run.note(f"Points: {draws} runs with N = {size}.")
    data = {name: (("shown", "t"), [one[name].values for one in found]) for name in ("m", "m_error")}
    data |= {"runs": (("near", "draw", "told"), runs[size]), "rate": (("spread", "part"), rates)}
    return xr.Dataset(data, {"t": times, "told": times[::10], "shown": list(SHOWN), "near": near, "spread": spreads})


def draw(data):
    figure, axes = panels(1, 3, height=2.5)
    for d, colour in zip(SHOWN, colours(3), strict=True):
        row = data.sel(shown=d)
        curve(axes[0], row["t"], row["m"], row["m_error"], color=colour, label=rf"$\Delta_2 = {d:g}$")
        if d in row["near"]:
            points(axes[0], row["told"], row["runs"].sel(near=d), color=colour)
        axes[0].axhline(passed(d), ls=":", color=colour, lw=0.8)
    axes[0].set(xlabel="$t$", ylabel="$m(t)$", ylim=(0, 1.05))
    axes[0].legend(loc="upper right", ncols=2)
    axes[1].plot(data["spread"], data["rate"][:, :3], color="0.6", lw=1)
    axes[1].errorbar(data["spread"], *data["rate"].T[3:].values, fmt="o", ms=3, color="C0", capsize=1.5)
    axes[1].axvline(langevin_line(DP), color="C1", ls="--", lw=0.9)
    axes[1].set(xlabel=r"$\Delta_2$", ylabel=r"$\mathrm{d} \ln m/\mathrm{d} t$")
    curve(axes[2], x := np.linspace(0.05, 2.5, 60), langevin_line(x), color="C1", label="Langevin")
    axes[2].axhline(1, color="C2", label="message passing")
    axes[2].set(xlabel=r"$\Delta_p$", ylabel=r"$\Delta_2$", ylim=(0, 1.2))
    axes[2].legend(loc="lower right")
    label_panels(axes)
    return figure
