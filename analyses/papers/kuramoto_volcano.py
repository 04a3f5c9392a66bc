"""Phase oscillators with random symmetric couplings: small local fields become rare, and phases are remembered longer.

(a) Mean square of the local field over J² and (b) its shape ⟨r⁴⟩/⟨r²⟩², which is 2 for a Gaussian field and falls where small
fields become rare; (c) correlation of the phases with those at the end. Natural frequencies are normal of variance 1, phases
uniform at the start. Lines are theory with its error, points are oscillators of finite number.
"""

import numpy as np
import xarray as xr
from _simulated import oscillators

import eqsolve

PAPER = "Prüser, Rosmej & Engel 2024, Nature of the volcano transition in the fully disordered Kuramoto model"
FIELD = "neuroscience"
COUPLINGS, LAST = [0.5, 1.0, 2.0], 4.0
LABELS = {"size": r"$\langle r^2\rangle/J^2$", "shape": r"$\langle r^4\rangle/\langle r^2\rangle^2$", "C": "$C(t_{end}, t)$"}


def compute(run):
    """Fields and correlations at several couplings, and runs."""
    rng, N, last = np.random.default_rng(7), run.pick(300, 1000), run.pick(2.0, LAST)
    at, held = np.linspace(0, last, 26), np.linspace(0, last, 6)[1:]
    rows, bands, points, couplings = [], [], [], run.pick([1.0], COUPLINGS)
    for J in couplings:
        pairs = [(last, x) for x in at]
        found = eqsolve.solve("kuramoto_glass", J=J, t_max=last, rtol=run.pick(0.1, 5e-2), at2=pairs)

        def table(places, found=found, J=J):
            curves, two = found.at(places), found.at2([(last, x) for x in places])
            values = curves["field2"].values / J**2, curves["shape"].values, two["C"].values
            return np.array(values), np.array([curves["field2_error"] / J**2, curves["shape_error"], two["C_error"]])

        runs, half = (np.array([oscillators(n, J, held, rng) for _ in range(run.pick(8, 24))]) for n in (N, N // 2))
        theory, errors = table(held)
        run.agree(f"J = {J:g}, N = {N}", theory.ravel(), errors.ravel(), runs, half)
        for kept, value in zip((rows, bands, points), (*table(at), runs), strict=True):
            kept.append(value)
    run.note(f"Largest error of the theory: {np.max(bands):.2f}.")
    what = ("J", "quantity", "t")
    data = {"theory": (what, rows), "error": (what, bands), "runs": (("J", "draw", "quantity", "held"), points)}
    return xr.Dataset(data, {"J": couplings, "quantity": list(LABELS), "t": at, "held": held})


def draw(data):
    """Three panels."""
    from eqsolve.plotting.paper import curve, label_panels, panels, points

    figure, axes = panels(1, 3, height=2.3)
    for place, name in zip(axes, LABELS, strict=True):
        for i, J in enumerate(data["J"].values):
            part = data.sel(J=J, quantity=name)
            curve(place, data["t"], part["theory"], part["error"], color=f"C{i}", label=f"$J = {J:g}$")
            points(place, data["held"], part["runs"], color=f"C{i}")
        place.set(xlabel="time $t$", ylabel=LABELS[name])
    axes[1].axhline(2, ls=":", color="k", lw=0.8)
    axes[0].legend()
    label_panels(axes)
    return figure
