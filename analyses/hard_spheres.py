"""The glass transition of hard spheres by mode coupling: a hundred correlators over fourteen decades of time.

Left: φ_q(t) at the peak of the structure factor, q = 7, below and above the packing fraction at which the liquid becomes a
glass; dashed, the plateau at the transition. Right: the plateaus f_q just above it, beside the structure factor S_q/8.
"""

from __future__ import annotations

import numpy as np

import eqsolve

CRITICAL = 0.51591213  # on this grid of wave numbers
DISTANCES, QUICK_DISTANCES = (-1e-1, -1e-2, -1e-3, 1e-3, 1e-2), (-1e-1, 1e-1)
PEAK, STEP = 17, 0.4


def compute(run):
    """Correlators at the peak with errors, and the plateaus."""
    import xarray as xr

    number, last = (40, 1e3) if run.quick else (100, 1e10)
    moments = np.geomspace(1e-4, last, 200)
    rows, errors = [], []
    distances = QUICK_DISTANCES if run.quick else DISTANCES
    for distance in distances:
        eta = CRITICAL * (1 + distance)
        found = eqsolve.solve("mct_hard_spheres", eta=eta, wave_numbers=number, t_max=last, rtol=1e-3).at(moments)
        rows.append(found["phi"].sel(k=PEAK).values)
        errors.append(found["phi_error"].sel(k=PEAK).values)
    plateau = eqsolve.solve("mct_hard_spheres_plateau", eta=CRITICAL * (1 + 1e-6))
    tables = eqsolve.load("mct_hard_spheres").tables
    omega = next(iter(tables.values())).arrays({"eta": CRITICAL, "wave_numbers": 100})["Omega"]
    q = STEP * (np.arange(100) + 0.5)
    run.note(
        f"Largest error of φ at the peak: {np.max(errors):.0e}. Plateau there {plateau['f'].values[PEAK]:.6f}, "
        f"stability {plateau.stats['stability']:.1e} at a relative distance of 1e-6."
    )
    data = {"phi": (("distance", "t"), rows), "error": (("distance", "t"), errors)}
    data |= {"f": ("q", plateau["f"].values), "S": ("q", q**2 / omega)}
    return xr.Dataset(data, {"distance": list(distances), "t": moments, "q": q})


def draw(data):
    """Two panels."""
    import matplotlib.pyplot as plt

    from eqsolve.plotting.paper import label_panels, panels

    figure, axes = panels(1, 2, height=2.6)
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, data.sizes["distance"]))
    for distance, colour in zip(data["distance"].values, colours, strict=True):
        row = data.sel(distance=distance)
        low, high = row["phi"] - row["error"], row["phi"] + row["error"]
        axes[0].plot(row["t"], row["phi"], color=colour, label=f"${distance:+g}$")
        axes[0].fill_between(row["t"], low, high, color=colour, alpha=0.3, lw=0)
    axes[0].axhline(float(data["f"][PEAK]), ls="--", color="k", lw=0.7)
    axes[0].set(xscale="log", xlabel="$t$", ylabel=r"$\varphi_q(t)$, $q = 7$", ylim=(0, 1.02))
    axes[0].legend(title=r"$\eta/\eta_c - 1$", fontsize=6, title_fontsize=6)
    axes[1].plot(data["q"], data["f"], label="$f_q$")
    axes[1].plot(data["q"], data["S"] / 8, ":", color="k", label="$S_q/8$")
    axes[1].set(xlabel="$q$", ylim=(0, 1.02))
    axes[1].legend(fontsize=7)
    label_panels(axes)
    return figure
