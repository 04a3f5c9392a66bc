"""Timescales of learning, computed.

Large initialization (left, α = 10, λ = 0.2): lazy, then rich from t = 2 log(α)/λ (dotted). Small initialization
(right, α = 0.05, λ = 0): search, then descent. δ = 0.5, σ² = 0, P_* = Bernoulli(0.1), full DMFT system. Shaded:
where the phase finder sees the errors move.
"""

import math

import numpy as np
import xarray as xr
from _shared import theory

from eqsolve.phases import Transition, find_phases
from eqsolve.plotting.paper import curve, label_panels, panels

ORDER = 1
PAPER = "Figure 1"
CASES = ({"alpha": 10.0, "lam": 0.2}, {"alpha": 0.05, "lam": 0.0})


def compute(run):
    """Curves and their transitions."""
    rows, spans = [], []
    for case in CASES:
        last = 2 * math.log(case["alpha"]) / case["lam"] + 20 if case["lam"] else 8 * math.log(1 / case["alpha"])
        t = np.geomspace(0.02 / max(case["alpha"], 1) ** 2, last, 300)
        found = theory(t, run.pick(1e-2, 1e-3), delta=0.5, **case)
        rows.append([t, found["E_train"], found["E_test"], found["E_test_error"]])
        moves = [p for p in find_phases((t, found["E_test"], found["E_test_error"])) if isinstance(p, Transition)]
        spans += [(len(rows) - 1, move.start, move.time, move.end, move.error) for move in moves]
        said = ", ".join(f"{move.time:.3g} ± {move.error:.1g}" for move in moves)
        run.note(f"Transitions of E_test at α = {case['alpha']:g}: t = {said}.")
    return xr.Dataset({"curves": (("case", "what", "k"), rows), "spans": (("span", "part"), np.array(spans))})


def draw(data):
    """Errors over logarithmic time."""
    figure, axes = panels(1, 2)
    for place, (panel, case) in enumerate(zip(axes, CASES, strict=True)):
        t, train, test, error = data["curves"].values[place]
        curve(panel, t, train, color="#D55E00", label=r"$E_{\mathrm{train}}$")
        curve(panel, t, test, error, color="#0072B2", label=r"$E_{\mathrm{test}}$")
        for which, start, _, end, _ in data["spans"].values:
            if which == place:
                panel.axvspan(start, end, color="0.9", zorder=0)
        panel.set(xscale="log", xlabel=r"time $t$", ylabel="error", ylim=(0, 0.115))
        top = {"va": "top", "ha": "center", "fontsize": 7.5, "style": "italic"}
        if case["lam"]:
            change = 2 * math.log(case["alpha"]) / case["lam"]
            panel.axvline(change, color="0.4", ls=":", lw=0.9)
            panel.text(0.03, 0.113, "lazy", **top)
            panel.text(change, 0.113, "rich", **top)
        else:
            panel.text(0.6, 0.113, "search", **top)
            panel.text(10, 0.113, "descent", **top)
    axes[1].legend(loc="lower left")
    label_panels(axes)
    for panel, case in zip(axes, CASES, strict=True):
        panel.set_title(rf"$\alpha = {case['alpha']:g}$")
    return figure
