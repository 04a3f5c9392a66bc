"""Online learning of a soft committee machine: a plateau where all units are alike, and their specialisation.

(a) Overlaps of two units with the teacher's (R), with themselves and each other (Q); points are machines of finite size.
(b) Error at a small learning rate; dashed, the closed form of the plateau at vanishing rate. (c) End of the plateau, where
the error has halved, against the asymmetry at the start; dashed, the slope that the closed form of the rate of escape gives.
"""

import functools

import numpy as np
import xarray as xr
from _simulated import learn_online

import eqsolve

PAPER = "Saad & Solla 1995, On-line learning in soft committee machines"
FIELD = "learning"
RATE, SLOW, START, LAST, SMALL = 0.5, 0.05, 0.05, 300, [0.1, 1e-2, 1e-3, 1e-4]
NAMES = {"R_{00}": (0, 2), "R_{01}": (0, 3), "Q_{00}": (0, 0), "Q_{01}": (0, 1)}


def plateau(K):
    """Error of the plateau for small rates, and the rate of escape from it over the learning rate."""
    return K / np.pi * (np.pi / 6 - K * np.arcsin(1 / (2 * K))), 2 * K / np.pi / ((2 * K - 1) * (2 * K + 1) ** 3) ** 0.5


@functools.cache
def solved(K, eta, asymmetry, rtol, last=1e4):
    """The machine of K units that learns another one."""
    return eqsolve.solve("soft_committee", K=K, units=2 * K, eta=eta, asymmetry=asymmetry, t_max=last, rtol=rtol)


def height(K, eta):
    """Error at which units that are alike stay, for ever."""
    C0 = np.block([[np.full((K, K), 0.2) + 0.1 * np.eye(K), np.full((K, K), 0.2)], [np.full((K, K), 0.2), np.eye(K)]])
    return float(eqsolve.solve("soft_committee", K=K, units=2 * K, eta=eta, C0=C0, t_max=400 / eta, rtol=1e-6)["error"][-1])


def compute(run):
    """Curves, runs at finite size, heights and ends of plateaus."""
    (draws, N, rtol), rng = run.pick((3, 100, 3e-3), (8, 400, 1e-4)), np.random.default_rng(3)
    axes = {"name": list(NAMES), "alpha": np.linspace(0, LAST, 61), "held": np.linspace(0, LAST, 9)[1:]}
    found = solved(2, RATE, START, rtol, LAST)
    times, start = [found.at(axes[name])["C"] for name in ("alpha", "held")], found["C"].isel(t=0).values
    overlaps, known = (np.array([C.sel(a=a, b=b) for a, b in NAMES.values()]) for C in times)
    runs, half = (np.array([learn_online(n, start, 2, RATE, axes["held"], rng) for _ in range(draws)]) for n in (N, N // 2))
    runs, half = (np.moveaxis([made[..., a, b] for a, b in NAMES.values()], 0, 1) for made in (runs, half))
    run.agree(f"overlaps, N = {N}", known.ravel(), 1e-3, runs, half)
    axes |= {"K": run.pick([2], [2, 3, 4]), "moment": np.geomspace(1, 1e4, 150), "asymmetry": run.pick(SMALL[1:3], SMALL)}
    errors = [solved(K, SLOW, 1e-3, rtol).at(axes["moment"])["error"].values for K in axes["K"]]
    fine, half = np.linspace(1, 1e4, 4001), plateau(2)[0] / 2
    ends = [fine[solved(2, SLOW, x, rtol).at(fine)["error"].values > half][-1] for x in axes["asymmetry"]]
    slope = float(np.log(axes["asymmetry"][-2] / axes["asymmetry"][-1]) / (ends[-1] - ends[-2]) / SLOW)
    heights = [2 * height(K, 0.02) - height(K, 0.04) for K in axes["K"]]
    said = ", ".join(f"{h:.5f} ({plateau(K)[0]:.5f}) for K = {K}" for K, h in zip(axes["K"], heights, strict=True))
    run.note(f"Heights for η → 0, and in closed form: {said}. Rate of escape over η: {slope:.4f} ({plateau(2)[1]:.4f}).")
    data = {"overlap": (("name", "alpha"), overlaps), "runs": (("draw", "name", "held"), runs), "end": ("asymmetry", ends)}
    return xr.Dataset(data | {"error": (("K", "moment"), errors)}, axes, {"heights": heights, "slope": slope})


def draw(data):
    """Three panels."""
    from eqsolve.plotting.paper import curve, label_panels, panels, points

    figure, axes = panels(1, 3, height=2.3)
    for i, name in enumerate(data["name"].values):
        curve(axes[0], data["alpha"], data["overlap"][i], color=f"C{i}", label=f"${name}$")
        points(axes[0], data["held"], data["runs"].isel(name=i), color=f"C{i}")
    axes[0].legend()
    for i, K in enumerate(data["K"].values):
        curve(axes[1], data["moment"], data["error"][i], color=f"C{i}", label=f"$K = {K}$")
        axes[1].axhline(plateau(int(K))[0], ls="--", lw=0.7, color=f"C{i}")
    axes[1].legend()
    x, end = data["asymmetry"].values, data["end"].values
    axes[2].semilogx(x, end, "o-", x, end[-1] + np.log(x[-1] / x) / plateau(2)[1] / SLOW, "k--", ms=3)
    axes[0].set(xlabel=r"inputs per dimension $\alpha$", ylabel="overlap", ylim=(-0.05, 1.1))
    axes[1].set(xlabel=r"inputs per dimension $\alpha$", ylabel="error", xscale="log", yscale="log", ylim=(1e-5, 2))
    axes[2].set(xlabel="asymmetry at the start", ylabel=r"end of the plateau, $\alpha$")
    label_panels(axes)
    return figure
