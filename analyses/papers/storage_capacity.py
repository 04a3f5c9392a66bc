"""How many patterns a network stores: Hopfield's, the spherical and the binary perceptron.

(a) Share of wrong spins after retrieval: the line turns back at the capacity; points are networks that start from a pattern.
(b) Capacity of the spherical perceptron against the margin; points are the largest margins of finite perceptrons.
(c) Entropy of the solutions of the binary perceptron, which vanishes at the capacity; points count all couplings.
"""

import numpy as np
import xarray as xr
from _simulated import binary_entropy, largest_margin, retrieve
from scipy.optimize import brentq

import eqsolve
from eqsolve import Eq, param, unknown

PAPER = "Amit, Gutfreund & Sompolinsky 1985; Gardner 1988; Krauth & Mézard 1989, storage capacities"
FIELD = "neuroscience"
LOAD, OVERLAP = unknown("load", positive=True), param("overlap", positive=True)
SPINS, MARGINS, SIGNS = [0.09, 0.1, 0.11, 0.12, 0.13], [0.5, 0.75, 1, 1.25, 1.5], [0.1, 0.2, 0.3, 0.4, 0.5]  # loads of points


def hopfield_capacity():
    """The load as a function of the overlap, and where it is largest: there the overlap has a vertical tangent."""
    model = eqsolve.load("hopfield")
    alpha, m = model.symbols("alpha m")
    curve = model.subs({alpha: LOAD, m: OVERLAP}).replace("hopfield_load")
    top = brentq(lambda m: eqsolve.solve(curve, overlap=m).derivative("load", "overlap"), 0.9, 0.99, xtol=1e-10)
    return curve, float(eqsolve.solve(curve, overlap=top)["load"])


def binary_capacity():
    """The load at which the entropy of the solutions vanishes."""
    model = eqsolve.load("binary_perceptron")
    model = model.subs({model.symbols("alpha"): LOAD})
    return float(eqsolve.solve(model.replace("binary_capacity", eqs=[Eq(model.observables["entropy"], 0)]))["load"])


def compute(run):
    """The three lines, their capacities, and finite networks."""
    rng, draws, large = np.random.default_rng(1), range(run.pick(10, 40)), run.pick(1000, 2000)
    curve, hopfield = hopfield_capacity()
    binary, spherical = binary_capacity(), float(eqsolve.solve("gardner", kappa=0)["capacity"])
    run.note(f"Capacities: {hopfield:.6f} (published 0.138), {spherical:.6f} (2), {binary:.6f} (0.833).")
    axes = {"wrong": np.geomspace(0.07, 1e-5, 80), "kappa": np.linspace(-1, 2, 121), "alpha": np.linspace(0.01, 0.95, 40)}
    load = eqsolve.follow(curve, "overlap", 1 - 2 * axes["wrong"])["load"].values
    capacity = eqsolve.follow("gardner", "kappa", axes["kappa"], alpha=0.1)["capacity"].values
    entropy = eqsolve.follow("binary_perceptron", "alpha", axes["alpha"])["entropy"].values
    known = np.exp(np.interp(SPINS, load[: load.argmax() : -1], np.log(axes["wrong"][: load.argmax() : -1])))
    widest = np.interp(MARGINS, capacity[::-1], axes["kappa"][::-1])
    counted = [float(eqsolve.solve("binary_perceptron", alpha=x)["entropy"]) for x in SIGNS]
    spins, fewer = (np.array([[retrieve(N, x, rng) for x in SPINS] for _ in draws]) for N in (large, large // 2))
    margins, some = (np.array([[largest_margin(N, x, rng) for x in MARGINS] for _ in draws]) for N in (100, 50))
    signs, few = (np.array([binary_entropy(N, SIGNS, rng) for _ in draws]) for N in run.pick((16, 8), (20, 10)))
    run.agree("share of wrong spins", known, 0, spins, fewer)
    run.agree("largest margin", widest, 0, margins, some)
    run.agree("entropy of binary solutions", counted, 0, signs, few)
    data = {"load": ("wrong", load), "capacity": ("kappa", capacity), "entropy": ("alpha", entropy)}
    data |= {"spins": (("draw", "a"), spins), "margins": (("draw", "b"), margins), "signs": (("draw", "c"), signs)}
    return xr.Dataset(data, axes, {"hopfield": hopfield, "spherical": spherical, "binary": binary})


def draw(data):
    """Three panels; the published capacities dotted."""
    from eqsolve.plotting.paper import curve, label_panels, panels, points

    figure, axes = panels(1, 3, height=2.3)
    curve(axes[0], data["load"], data["wrong"])
    points(axes[0], SPINS, data["spins"])
    curve(axes[1], data["kappa"], data["capacity"])
    axes[1].plot(data["margins"].mean("draw"), MARGINS, "o", ms=3, mfc="white", zorder=4)
    curve(axes[2], data["alpha"], data["entropy"])
    points(axes[2], SIGNS, data["signs"])
    axes[0].set(xlabel=r"patterns per spin $\alpha$", ylabel="wrong spins", yscale="log", xlim=(0.07, 0.15), ylim=(1e-4, 0.1))
    axes[1].set(xlabel=r"margin $\kappa$", ylabel=r"capacity $\alpha_c$", ylim=(0, 6))
    axes[2].set(xlabel=r"patterns per coupling $\alpha$", ylabel="entropy")
    axes[2].axhline(0, color="0.6", lw=0.7)
    for place, published in zip((axes[0].axvline, axes[1].axhline, axes[2].axvline), (0.138, 2, 0.833), strict=True):
        place(published, ls=":", color="k", lw=0.8)
    label_panels(axes)
    return figure
