"""The common frame of learning curves: theory on a fine grid, finite-size flows at a few times, for several settings."""

import numpy as np
import xarray as xr
from _shared import flow_runs, theory

from eqsolve.errors import SolverError
from eqsolve.plotting.paper import colours, curve, label_panels, points

NAMES = ("E_train", "E_test")
LETTERS = {"alpha": "α", "lam": "λ", "delta": "δ"}
LABELS = {"E_train": r"$E_{\mathrm{train}}$", "E_test": r"$E_{\mathrm{test}}$"}


def learn(run, axis, values, window, *, size=(200, 4), simulated=None, rtol=None, check=True, **params):
    """Return learning curves for every value of one parameter.

    ``window(value)`` gives the first and last time; ``simulated`` the values that are also run at finite size.
    """
    d, seeds = size
    rtol = rtol or run.pick(1e-2, 1e-3)
    simulated = list(values if simulated is None else simulated)
    fine, coarse = 140, 14
    shape = (len(values), fine)
    t, ts = np.full(shape, np.nan), np.full((len(values), coarse), np.nan)
    lines = {name: np.full(shape, np.nan) for name in (*NAMES, *(f"{n}_error" for n in NAMES))}
    runs = {name: np.full((len(values), seeds, coarse), np.nan) for name in NAMES}
    for place, value in enumerate(values):
        run.report(place, len(values), f"{axis} = {value:g}")
        settings = {**params, axis: float(value)}
        first, last = window(value)
        even = np.linspace(0, last, 62)[1:-1]  # so that late phases are seen on a linear axis too
        t[place] = np.sort(np.concatenate([np.geomspace(first, last, fine - 60), even]))
        try:
            found = theory(t[place], rtol, **settings)
            for name, line in lines.items():
                line[place] = found[name]
        except SolverError as error:
            run.note(f"Theory at {axis} = {value:g} was not solved ({str(error).splitlines()[0]}).")
        if value not in simulated:
            continue
        ts[place] = t[place][4 :: fine // coarse][:coarse]
        draws = flow_runs(ts[place], d, seeds, **settings)
        half = flow_runs(ts[place], d // 2, 2 * seeds, **settings) if check else None
        for name in NAMES:
            runs[name][place] = draws[name]
            if np.isfinite(lines[name][place]).all():
                index = np.searchsorted(t[place], ts[place])
                exact, error = lines[name][place][index], lines[f"{name}_error"][place][index]
                seen = np.abs(exact) > 1e-9
                small = None if half is None else half[name][:, seen]
                run.agree(
                    f"{name} at {LETTERS.get(axis, axis)} = {value:g}", exact[seen], error[seen], draws[name][:, seen], small
                )
    content = {"t": ((axis, "k"), t), "ts": ((axis, "j"), ts)}
    content |= {name: ((axis, "k"), line) for name, line in lines.items()}
    content |= {f"{name}_runs": ((axis, "draw", "j"), runs[name]) for name in NAMES}
    return xr.Dataset(content, {axis: np.asarray(values, dtype=float)}, {"d": d, "draws": seeds, "axis": axis, **params})


def draw_learning(data, axes, names, clock=None, symbol=r"\alpha", legend=True):
    """Draw the curves named, one panel each, against a time of one's own: ``clock(value, t)``."""
    axis = data.attrs["axis"]
    clock = clock or (lambda value, t: t)
    for place, (panel, name) in enumerate(zip(axes, names, strict=True)):
        for colour, value in zip(colours(data.sizes[axis]), data[axis].values, strict=True):
            one = data.sel({axis: value})
            panel.set_ylabel(LABELS[name])
            curve(panel, clock(value, one["t"].values), one[name].values, one[f"{name}_error"].values, color=colour,
                  label=rf"${symbol} = {value:g}$")  # fmt: skip
            if np.isfinite(one["ts"]).all():
                points(panel, clock(value, one["ts"].values), one[f"{name}_runs"].values, color=colour)
        if legend and place == len(names) - 1:
            title = f"points: d = {data.attrs['d']}, {data.attrs['draws']} draws"
            panel.legend(title=title, title_fontsize=7, alignment="left")
    if len(axes) > 1:
        label_panels(axes)
