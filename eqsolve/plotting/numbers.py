"""Numbers with their errors, as a fixed point has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eqsolve.plotting.labels import written
from eqsolve.plotting.style import COLOURS, Ways, new_axes, plain
from eqsolve.plotting.times import set_scales

if TYPE_CHECKING:
    from eqsolve.results.result import Result


def plot_numbers(result: Result, names: tuple[str, ...], ways: Ways) -> Any:
    """Draw numbers as points with error bars, one row each."""
    axes = new_axes(ways.ax)
    values = [float(result.dataset[name]) for name in names]
    errors = [float(result.error[name]) if name in result.error else 0.0 for name in names]
    rows = range(len(names))
    axes.errorbar(values, rows, xerr=errors, label=ways.label, **{"fmt": "o", "color": COLOURS[0], "capsize": 3, **ways.style})
    for row, value in zip(rows, values, strict=True):
        axes.annotate(f"{value:.5g}", (value, row), textcoords="offset points", xytext=(0, 6), ha="center", fontsize=8)
    axes.set(yticks=list(rows), yticklabels=[written(name, result.latex) for name in names], ylim=(len(names) - 0.5, -0.7))
    set_scales(axes, log_x=ways.logx, log_y=None)
    axes.margins(x=0.12)
    plain(axes, result)
    return axes
