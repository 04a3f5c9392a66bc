"""Data, the curves fitted to them, and the residuals in units of the errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.plotting.labels import TITLE_SIZE, written
from eqsolve.plotting.style import COLOURS, LINE
from eqsolve.plotting.times import set_scales, time_axis

if TYPE_CHECKING:
    from eqsolve.fitting.fit import Fit


def plot_fit(found: Fit, names: Sequence[str], *, ax: Any = None, logx: bool | None = None, logy: bool | None = None) -> Any:
    """Draw data with error bars and the fit above, residuals below; ``ax`` are two, if given."""
    import matplotlib.pyplot as plt

    if ax is None:
        _, ax = plt.subplots(2, 1, sharex=True, height_ratios=(3, 1), figsize=(5.2, 4.4), layout="constrained")
    elif np.size(np.asarray(ax, dtype=object)) != 2:
        raise UsageError("ax= takes two axes here, for the data and for the residuals below them")
    above, below = np.ravel(np.asarray(ax, dtype=object))
    times, lines = found.data.times, found.lines
    axis = time_axis(lines["t"], [lines[name] for name in names], logx) if lines else None
    for place, name in enumerate(names):
        values = found.data.values[name].mean(axis=0)
        where = np.arange(len(values)) if times is None else times
        sigmas = found.sigmas[name]
        colour = COLOURS[place % len(COLOURS)]
        bars = np.where(np.isfinite(sigmas), sigmas, 0.0)
        above.errorbar(
            where, values, yerr=bars, fmt="o", ms=4, mfc="white", color=colour, label=f"{written(name, found.latex)}"
        )
        if lines:
            above.plot(lines["t"], lines[name], lw=LINE, color=colour)
        else:
            above.plot(where, found.curves[name], "_", ms=14, color=colour)
        below.plot(where, (values - found.curves[name]) / sigmas, "o", ms=4, color=colour)
    below.axhspan(-2, 2, color="0.93", lw=0, zorder=0)
    below.axhline(0.0, lw=0.8, color="0.5")
    below.set_ylabel("residual/error")
    below.set_xlabel(written("t", found.latex) if times is not None else "")
    if len(names) > 1:
        above.legend(frameon=False)
    else:
        above.set_ylabel(written(names[0], found.latex))
    for axes in (above, below):
        set_scales(axes, log_x=None if axis is None else axis.log, log_y=logy if axes is above else None)
        axes.spines[["top", "right"]].set_visible(False)
    above.set_title(_title(found), fontsize=TITLE_SIZE)
    return np.array([above, below], dtype=object)


def _title(found: Fit) -> str:
    values = ", ".join(
        f"{written(name, found.latex)} = {value:.4g} ± {found.errors[name]:.1g}" for name, value in found.parameters.items()
    )
    return f"{found.model}: {values}"
