"""Data, the curves fitted to them, and the residuals in units of the errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.plotting.style import LINE

__all__ = ["plot_fit"]


def plot_fit(
    times: Array | None, means: Mapping[str, Array], sigmas: Mapping[str, Array], curves: Mapping[str, Array], axes: Any = None
) -> Any:
    """Draw data with error bars and the fit above, residuals below; ``axes`` are two, if given."""
    import matplotlib.pyplot as plt

    if axes is None:
        _, axes = plt.subplots(2, 1, sharex=True, height_ratios=(3, 1), figsize=(5.0, 4.5), layout="constrained")
    above, below = axes
    for place, (name, values) in enumerate(means.items()):
        where = np.arange(len(values)) if times is None else times
        bars = np.where(np.isfinite(sigmas[name]), sigmas[name], 0.0)
        color = f"C{place}"
        above.errorbar(where, values, yerr=bars, fmt="o", markersize=3, color=color, label=name)
        above.plot(where, curves[name], linewidth=LINE, color=color)
        below.plot(where, (values - curves[name]) / sigmas[name], "o", markersize=3, color=color)
    below.axhline(0.0, linewidth=0.8, color="black")
    below.set_ylabel("residual / error")
    below.set_xlabel("" if times is None else "t")
    above.legend(frameon=False)
    return axes
