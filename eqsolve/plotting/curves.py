"""Functions of time with their error bands."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from eqsolve.result import Result

__all__ = ["plot_result"]

_TITLE_SIZE = 8
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def plot_result(result: Result, names: tuple[str, ...], axes: Any = None) -> Any:
    """Draw functions of time as lines with error bands on a logarithmic time axis."""
    import matplotlib.pyplot as plt

    shown = list(names) or [name for name in result.names if result.dataset[name].dims == ("t",)]
    for name in names:
        if name not in result.names or result.dataset[name].dims != ("t",):
            what = "is no function of one time" if name in result.names else "is not in the result"
            known = [item for item in result.names if result.dataset[item].dims == ("t",)]
            raise UsageError(f"`{name}` {what}{did_you_mean(name, known)} (to draw there are: {', '.join(known)})")
    if result.grid is None or not shown:
        raise UsageError(f"the result of `{result.model}` has no function of time to draw")
    if axes is None:
        _, axes = plt.subplots(figsize=(5.2, 3.6), layout="constrained")
    edges = result.grid.edges
    first = np.clip(edges[1], 1e-4 * edges[-1], 1e-3 * edges[-1])
    log_time = edges[0] == 0 and edges[-1] / edges[1] > 30
    times = np.geomspace(first, edges[-1], 400) if log_time else np.linspace(edges[0], edges[-1], 400)
    curves = result.at(times)
    for index, name in enumerate(shown):
        colour = COLOURS[index % len(COLOURS)]
        values = curves[name].values
        axes.plot(times, values, color=colour, label=name, lw=1.6)
        if f"{name}_error" in curves:
            error = curves[f"{name}_error"].values
            axes.fill_between(times, values - error, values + error, color=colour, alpha=0.25, lw=0)
    axes.set_xscale("log" if log_time else "linear")
    axes.set_xlabel("t")
    beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if len(shown) > 3 else {}
    axes.legend(frameon=False, **beside)
    axes.set_title(_title(result, axes), fontsize=_TITLE_SIZE)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _title(result: Result, axes: Any) -> str:
    """Return the model's name and its settings, broken into lines as wide as the axes."""
    inches = axes.get_position().width * axes.figure.get_figwidth()
    longest = max(24, int(inches * 72 / (0.55 * _TITLE_SIZE)))  # a letter is about 0.55 of its size wide
    lines = [result.model]
    for name, value in result.params.items():
        setting = f"{name}={value:g}" if isinstance(value, float) else f"{name}~{value}"
        if len(lines) > 1 and len(lines[-1]) + 2 + len(setting) <= longest:
            lines[-1] += f", {setting}"
        else:
            lines += textwrap.wrap(setting, longest)
    return "\n".join(lines)
