"""Error of the two-time solver at panel ends against the number of panels, for m = 2, 3, 4 nodes per panel.

Uniform panels on [0, 4], no adaptivity. Left: y' = 1 − 2y − 5∫y. Right: the kernel R_w of the lazy system, against the
Marchenko–Pastur law, at all pairs of panel ends. Dotted: the order 2m − 2 that is promised.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import eqsolve
from eqsolve.compile.forms import TWO_TIME
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import binder_of
from eqsolve.solvers.two_time.march import March
from eqsolve.spectra import MarchenkoPastur

T_MAX = 4.0
ORDER = 40
ORDERS = (2, 3, 4)
PANELS = (8, 16, 32, 64)


def march(model: str, m: int, panels: int, **settings: float) -> March:
    """Solve a model on uniform panels of m nodes, every panel to rounding."""
    binder = binder_of(eqsolve.load(model))
    values = binder.read(settings)
    made = March(at(binder.plan(values).program(TWO_TIME), values.numbers), m, 0.0, 1e-15)
    for _ in range(panels):
        made.add_panel(T_MAX / panels)
        made.accept()
    return made


def volterra_error(m: int, panels: int) -> float:
    """Largest error of y at panel ends."""
    solved = march("volterra_linear", m, panels)
    t = solved.grid().nodes[::m]
    return float(np.abs(solved.curves()["y"][::m] - np.exp(-t) * np.sin(2 * t) / 2).max())


def lazy_error(m: int, panels: int) -> float:
    """Largest error of R_w at pairs of panel ends."""
    solved = march("dln_lazy", m, panels, delta=0.5, sigma2=0.1, rho2=0.1)
    ends = solved.grid().edges
    pairs = np.array([(t, s) for t in ends for s in ends if s <= t])
    rows = solved.rows()
    assert rows is not None
    exact = MarchenkoPastur(0.5).laplace(pairs[:, 0] - pairs[:, 1]) / 0.5
    return float(np.abs(rows.evaluate("R_w", pairs) - exact).max())


def measure(error: Callable[[int, int], float]) -> dict[int, list[float]]:
    """Return the errors for each m, in the order of PANELS."""
    return {m: [error(m, panels) for panels in PANELS] for m in ORDERS}


def order(errors: list[float]) -> float:
    """Return the order between the two finest grids whose errors are above rounding."""
    kept = [error for error in errors if error > 1e-12]
    return float(np.log2(kept[-2] / kept[-1]))


def compute(run):
    """Errors of both systems."""
    import xarray as xr

    found = [list(measure(error).values()) for error in (volterra_error, lazy_error)]
    return xr.Dataset({"error": (("system", "m", "panels"), found)}, {"m": list(ORDERS), "panels": list(PANELS)})


def draw(data):
    """Both systems side by side."""
    from eqsolve.plotting.paper import label_panels, panels

    figure, axes = panels(1, 2, height=2.8, sharey=True)
    titles = ("$y' = 1 - 2y - 5\\int y$", "lazy system, $R_w(t, t')$")
    for place, (axis, title) in enumerate(zip(axes, titles, strict=True)):
        for m, colour in zip(ORDERS, ("#0072b2", "#d55e00", "#009e73"), strict=True):
            found = data["error"].isel(system=place).sel(m=m).values
            axis.loglog(PANELS, found, "o-", color=colour, base=2, label=f"m = {m}: order {order(list(found)):.1f}")
            guide = found[1] * (PANELS[1] / np.array(PANELS, float)) ** (2 * m - 2)
            axis.loglog(PANELS, guide, ":", color=colour, linewidth=1)
        axis.set(title=title, xlabel="panels on [0, 4]")
        axis.set_xticks(PANELS, [str(n) for n in PANELS])
        axis.set_yscale("log", base=10)
        axis.minorticks_off()
        axis.legend()
    axes[0].set_ylabel("largest error at panel ends")
    label_panels(axes)
    return figure
