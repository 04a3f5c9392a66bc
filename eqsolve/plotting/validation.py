"""Theory as lines with error bands, finite-size draws as points with standard errors, z-scores below."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from eqsolve.comparison import Validation

__all__ = ["plot_validation"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def plot_validation(found: Validation, names: tuple[str, ...] = ()) -> Any:
    """Draw one validation; return the matplotlib figure."""
    import matplotlib.pyplot as plt

    for name in names:
        if name not in found.observables:
            raise UsageError(f"`{name}` was not compared{did_you_mean(name, found.observables)}")
    shown = list(names) or list(found.observables)
    columns = min(len(shown), 3)
    rows = -(-len(shown) // columns)
    figure, axes = plt.subplots(
        2 * rows, columns, figsize=(3.6 * columns, 3.6 * rows), layout="constrained", squeeze=False,
        height_ratios=[3, 1] * rows,
    )  # fmt: skip
    for place, name in enumerate(shown):
        row, column = divmod(place, columns)
        _draw(axes[2 * row, column], axes[2 * row + 1, column], found, name, _COLOURS[place % len(_COLOURS)])
    for place in range(len(shown), rows * columns):
        row, column = divmod(place, columns)
        axes[2 * row, column].axis("off")
        axes[2 * row + 1, column].axis("off")
    values = found.params.items()
    settings = ", ".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}~{value}" for key, value in values)
    figure.suptitle(f"{found.model}: {found.verdict} (d={found.d}, {found.seeds} seeds, {found.data})\n{settings}", fontsize=8)
    return figure


def _draw(above: Any, below: Any, found: Validation, name: str, colour: str) -> None:
    item = found.observables[name]
    times = found.t if found.t is not None else np.zeros(1)
    line_t, line, band = times, item.theory, item.theory_error
    log = found.t is not None and len(times) > 1 and times[-1] / max(times[0], 1e-12) > 10
    if found.t is not None and found.result is not None and found.result.grid is not None:
        low = max(float(found.result.grid.edges[0]), 0.1 * float(times[times > 0].min()) if log else 0.0)
        line_t = np.geomspace(low, times[-1], 200) if log else np.linspace(low, times[-1], 200)
        curves = found.result.at(line_t)
        line, band = curves[name].values, curves[f"{name}_error"].values
    above.plot(line_t, line, color=colour, lw=1.5, label="theory", marker="_" if len(line_t) == 1 else None, ms=20)
    above.fill_between(line_t, line - band, line + band, color=colour, alpha=0.25, lw=0)
    if name in found.spread:
        for draw in found.spread[name]:
            above.plot(times, draw, ".", color="0.7", ms=3, zorder=1)
    above.errorbar(times, item.simulation, 3 * item.standard_error, fmt="o", color="black", ms=3.5, capsize=2, lw=1,
                   label="finite size, 3 s.e.", zorder=3)  # fmt: skip
    above.set_title(f"{name}: {item.verdict}", fontsize=9)
    above.legend(frameon=False, fontsize=7)
    below.axhspan(-3, 3, color="0.92", lw=0)
    below.axhline(0, color="0.6", lw=0.8)
    below.plot(times, item.z, "o", color="black", ms=3.5)
    below.set_ylabel("z")
    below.set_ylim(-max(4.0, 1.2 * float(np.abs(item.z).max())), max(4.0, 1.2 * float(np.abs(item.z).max())))
    if log and times[0] > 0:
        above.set_xscale("log")
        below.set_xscale("log")
    below.set_xlim(above.get_xlim())
    above.tick_params(labelbottom=False)
    if found.t is not None:
        below.set_xlabel("t")
    else:
        below.set_xticks([])
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
