"""The landscape of an observable over one or two parameters, with its optimum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.plotting.labels import written
from eqsolve.plotting.style import COLOURS, LINE, SEQUENTIAL, new_axes


def plot_landscape(
    names: Sequence[str], scan: tuple[Array, Array], best: tuple[Sequence[float], float, Sequence[float]],
    logs: Sequence[bool], label: str, latex: Mapping[str, str], axes: Any = None,
) -> Any:  # fmt: skip
    """Draw a scan (points, values) and the optimum (parameters, value, errors); over more than two, values along the first."""
    names, label = [written(name, latex) for name in names], written(label, latex)
    axes = new_axes(axes)
    points, values = scan
    where, value, errors = best
    if len(names) == 2:
        shown = axes.tricontourf(_scaled(points[:, 0], logs[0]), _scaled(points[:, 1], logs[1]), values, 20, cmap=SEQUENTIAL)
        axes.figure.colorbar(shown, ax=axes, label=label)
        axes.plot(_scaled(where[0], logs[0]), _scaled(where[1], logs[1]), "o", color="white", markeredgecolor="black")
        for name, log, put in ((names[0], logs[0], axes.set_xlabel), (names[1], logs[1], axes.set_ylabel)):
            put(f"$\\log_{{10}}$ {name}" if log else name)
        return axes
    if names:
        order = np.argsort(points[:, 0])
        axes.plot(points[order, 0], values[order], "o-" if len(names) == 1 else "o", linewidth=LINE, color=COLOURS[0])
        axes.errorbar(
            [where[0]], [value], xerr=[errors[0] if np.isfinite(errors[0]) else 0.0], fmt="s", capsize=3, color=COLOURS[1]
        )
        axes.set_xlabel(names[0])
        if logs[0]:
            axes.set_xscale("log")
    axes.set_ylabel(label)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _scaled(values: Any, log: bool) -> Any:
    return np.log10(values) if log else values
