"""The common frame of the three boxes: errors over a parameter, and the law of the coordinates with its spike."""

import numpy as np
import xarray as xr
from _shared import coordinates, limits

import eqsolve
from eqsolve.plotting.paper import curve, label_panels, panels, spread

BINS = 60


def compute_box(run, model, axis, values, places, names, at, **params):
    """Solve the box along one parameter, and at ``at`` its law of coordinates."""
    d, seeds = run.pick((200, 6), (500, 10))
    path = eqsolve.follow(model, axis, values, **params)
    runs = np.array([limits(model, d, seeds, names=names, **{axis: p}, **params) for p in places])  # place, draw, name
    half = np.array([limits(model, d // 2, 2 * seeds, names=names, **{axis: p}, **params) for p in places])
    for k, name in enumerate(names):
        exact = [float(eqsolve.solve(model, **{axis: p}, **params)[name]) for p in places]
        run.agree(name, exact, 0.0, runs[:, :, k].T, half[:, :, k].T)
    law = eqsolve.solve(model, **{axis: at}, **params).law("w")
    sample = coordinates(model, d, seeds, **{axis: at}, **params)
    low, high = (float(law.quantile(q)) for q in (1e-4, 1 - 1e-4))
    edges = np.linspace(low - 0.02, high + 0.02, BINS + 1)
    edges -= edges[np.argmin(np.abs(edges))] + (edges[1] - edges[0]) / 2  # zero is in the middle of a bin
    width = edges[1] - edges[0]
    atoms = [(float(x), float(p)) for x, p in law.atoms() if p > 1e-3]
    spike = sum(p for x, p in atoms if abs(x) < 1e-9)
    moving = np.diff(np.asarray(law.cdf(edges), dtype=float)) / width
    zero = int(np.argmin(np.abs((edges[1:] + edges[:-1]) / 2)))
    moving[zero] -= spike / width
    counts = np.histogram(sample[np.abs(sample) > 1e-9] if spike else sample, edges)[0] / len(sample) / width
    found = float(np.mean(np.abs(sample) <= 1e-9)) if spike else 0.0
    return xr.Dataset(
        {
            "theory": (("name", "x"), [path[name].values for name in names]),
            "runs": (("place", "draw", "name"), runs),
            "density": ("bin", moving),
            "histogram": ("bin", counts),
        },
        {"x": values, "place": places, "name": list(names), "bin": (edges[1:] + edges[:-1]) / 2},
        {"d": d, "draws": seeds, "spike": spike, "found": found, "width": width, "at": at},
    )


def draw_box(data, xlabel, at_label, log=False):
    """Errors on the left, coordinates on the right."""
    figure, (left, right) = panels(1, 2)
    shown = {"E_train": (r"$E_{\mathrm{train}}$", "#D55E00"), "E_test": (r"$E_{\mathrm{test}}$", "#0072B2")}
    for name in data["name"].values:
        label, colour = shown[str(name)]
        curve(left, data["x"], data["theory"].sel(name=name), color=colour, label=f"{label} theory")
        bars = data["runs"].sel(name=name).transpose("draw", "place")
        spread(left, data["place"], bars, color=colour, label=f"{label} d = {data.attrs['d']} (s.d.)")
    left.set(xlabel=xlabel, ylabel="error at the fixed point", xscale="log" if log else "linear", ylim=(0, None))
    left.legend()
    centres, width = data["bin"].values, data.attrs["width"]
    right.bar(centres, data["histogram"], width, color="#D55E00", alpha=0.35, label=f"d = {data.attrs['d']}")
    right.plot(centres, data["density"], color="#0072B2", label="theory", drawstyle="steps-mid")
    right.set(xlabel=r"coordinates of $w(\infty)$", ylabel="density", yscale="log")
    top = float(max(data["density"].max(), data.attrs["spike"] / width)) * (30 if data.attrs["spike"] else 10)
    low = max(float(data["density"].where(data["density"] > 0).min()), 1e-3) / 3
    right.set_ylim(low, top)
    if data.attrs["spike"]:
        right.annotate(
            "", (0, data.attrs["spike"] / width), (0, low), arrowprops={"arrowstyle": "-|>", "color": "#0072B2", "lw": 1.4}
        )
        at_label += f"\nP(w = 0) = {data.attrs['spike']:.3f}\nat finite size {data.attrs['found']:.3f}"
    right.legend(loc="upper right", title=at_label, title_fontsize=7, alignment="left")
    label_panels([left, right])
    return figure
