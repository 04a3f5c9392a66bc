"""Numbers with their errors, as a fixed point has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eqsolve.plotting.style import COLOURS, new_axes, plain

if TYPE_CHECKING:
    from eqsolve.results.result import Result

__all__ = ["plot_numbers"]


def plot_numbers(result: Result, names: tuple[str, ...], axes: Any = None) -> Any:
    """Draw numbers as points with error bars, one row each."""
    axes = new_axes(axes)
    values = [float(result.dataset[name]) for name in names]
    errors = [float(result.error[name]) if name in result.error else 0.0 for name in names]
    rows = range(len(names))
    axes.errorbar(values, rows, xerr=errors, fmt="o", color=COLOURS[0], capsize=3)
    for row, value in zip(rows, values, strict=True):
        axes.annotate(f"{value:.5g}", (value, row), textcoords="offset points", xytext=(0, 6), ha="center", fontsize=8)
    axes.set(yticks=list(rows), yticklabels=names, ylim=(len(names) - 0.5, -0.7))
    plain(axes, result)
    return axes
