"""Theory as lines with error bands, finite-size draws as points with standard errors, z-scores below.

Wide grey bars around the theory hold the deviations that the comparison would not have seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import UsageError, did_you_mean
from eqsolve.results.words import percent

if TYPE_CHECKING:
    from eqsolve.validation.comparison import Validation

__all__ = ["plot_validation"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def plot_validation(found: Validation, names: tuple[str, ...] = ()) -> Any:
    """Draw one validation; return the matplotlib figure."""
    import matplotlib.pyplot as plt

    for name in names:
        if name not in found.observables:
            raise UsageError(f"`{name}` was not compared{did_you_mean(name, found.observables)}")
    shown = list(names) or list(found.observables)
    panels = len(shown) + (found.laws is not None and not names)
    columns = min(panels, 3)
    rows = -(-panels // columns)
    figure, axes = plt.subplots(
        2 * rows,
        columns,
        figsize=(3.6 * columns, 3.6 * rows),
        layout="constrained",
        squeeze=False,
        height_ratios=[3, 1] * rows,
    )
    for place, name in enumerate(shown):
        row, column = divmod(place, columns)
        _draw(axes[2 * row, column], axes[2 * row + 1, column], found, name, _COLOURS[place % len(_COLOURS)])
    if panels > len(shown):
        row, column = divmod(len(shown), columns)
        _draw_laws(axes[2 * row, column], axes[2 * row + 1, column], found)
    for place in range(panels, rows * columns):
        row, column = divmod(place, columns)
        axes[2 * row, column].axis("off")
        axes[2 * row + 1, column].axis("off")
    values = found.params.items()
    settings = ", ".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}~{value}" for key, value in values)
    verdict = f"{found.verdict}{', low power' if found.low_power else ''}"
    figure.suptitle(f"{found.model}: {verdict} (d={found.d}, {found.seeds} seeds, {found.data})\n{settings}", fontsize=8)
    return figure


def _draw_laws(axes: Any, below: Any, found: Validation) -> None:
    """Draw the theory's density over the histogram of finite size, and the probabilities of atoms beside."""
    assert found.laws is not None
    law, seen = found.laws
    variable = law.names[0]
    atoms = [(value, mass) for value, mass in law.atoms(variable) if mass > 1e-3]
    values = seen[variable]
    on_atom = np.isclose(values[:, None], [value for value, _ in atoms], rtol=0, atol=1e-12).any(axis=1)
    low, high = (float(law.quantile(level, variable)) for level in (1e-3, 1 - 1e-3))
    low, high = min(low, *np.quantile(values, [1e-3])), max(high, *np.quantile(values, [1 - 1e-3]))
    edges = np.linspace(low, high, 61) if high > low else np.array([low - 0.5, low + 0.5])
    counts = np.histogram(values[~on_atom], bins=edges)[0]
    axes.stairs(counts / (len(values) * np.diff(edges)), edges, fill=True, color="0.75", label=f"finite size, d={found.d}")
    where = np.linspace(low, high, 1201)
    axes.plot(where, law.density(where, variable), color=_COLOURS[0], lw=1.5, label="theory")
    if counts.max(initial=0) > 0:
        axes.set_yscale("log")
        axes.set_ylim(0.3 / (len(values) * float(np.diff(edges)[0])), None)
    for place, (value, mass) in enumerate(atoms):
        share = float(np.isclose(values, value, rtol=0, atol=1e-12).mean())
        axes.axvline(value, color=_COLOURS[1], lw=1, ls=":", label=f"atom at {value:g}: {mass:.4f}, finite size {share:.4f}")
        if place == 2:
            break
    axes.set_xlabel(variable)
    axes.set_ylabel("density")
    distance = "" if found.wasserstein is None else f", W₂ = {found.wasserstein['values'][-1][0]:.2g}"
    axes.set_title(f"law of {variable}{distance}", fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    below.axis("off")
    below.legend(*axes.get_legend_handles_labels(), frameon=False, fontsize=7, loc="upper left")


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
            above.plot(times, draw, ".", color="0.55", ms=3, zorder=1)
    unseen = np.where(np.isfinite(item.detectable), item.detectable, 0.0) * np.abs(item.theory)
    above.errorbar(
        times, item.theory, unseen, fmt="none", ecolor="0.9", elinewidth=7, label="could not be told apart", zorder=0
    )
    above.errorbar(times, item.simulation, 3 * item.standard_error, fmt="o", color="black", ms=3.5, capsize=2, lw=1,
                   label="finite size, 3 s.e.", zorder=3)  # fmt: skip
    seen = float(item.detectable[item.keenest])
    power = f" (could see {percent(seen)})" if np.isfinite(seen) else ""
    above.set_title(f"{name}: {item.verdict}{power}", fontsize=9)
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
