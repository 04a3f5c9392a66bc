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


def exponents(plateau, vertices):
    """Return the exponent parameter λ of a plateau at the transition, and a and b with Γ(1 − a)²/Γ(1 − 2a) = λ = Γ(1 + b)²/…

    e and ê are the critical eigenvectors of ∂F_q/∂f_k (1 − f_k)², with Σ ê e = Σ ê e² (1 − f) = 1 (Götze 2009).
    """
    from scipy.optimize import brentq
    from scipy.special import gamma

    f = plateau["f"].values
    room = (1 - f) ** 2
    matrix = (np.einsum("kpq,q->kp", vertices, f) + np.einsum("kqp,q->kp", vertices, f)) * room
    values, right = np.linalg.eig(matrix)
    left_values, left = np.linalg.eig(matrix.T)
    e, dual = right[:, values.real.argmax()].real, left[:, left_values.real.argmax()].real
    e, dual = np.abs(e), np.abs(dual)
    dual /= dual @ e
    scale = dual @ (e**2 * (1 - f))
    e, dual = e / scale, dual * scale
    strength = np.einsum("k,kpq,p,q->", dual, vertices, room * e, room * e, optimize=True)
    a = brentq(lambda x: gamma(1 - x) ** 2 / gamma(1 - 2 * x) - strength, 1e-3, 0.49)
    b = brentq(lambda x: gamma(1 + x) ** 2 / gamma(1 + 2 * x) - strength, 1e-3, 1.0)
    return float(strength), a, b


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
    plateau = eqsolve.solve("mct_hard_spheres_plateau", eta=CRITICAL * (1 + 1e-7))
    tables = eqsolve.load("mct_hard_spheres").tables
    omega = next(iter(tables.values())).arrays({"eta": CRITICAL, "wave_numbers": 100})["Omega"]
    q = STEP * (np.arange(100) + 0.5)
    strength, a, b = exponents(plateau, next(iter(tables.values())).arrays({"eta": CRITICAL, "wave_numbers": 100})["V"])
    run.note(f"Exponent parameter {strength:.4f} (published 0.735), a = {a:.4f} (0.312), b = {b:.4f} (0.583).")
    run.note(
        f"Largest error of φ at the peak: {np.max(errors):.0e}. Plateau there {plateau['f'].values[PEAK]:.6f}, "
        f"stability {plateau.stats['stability']:.1e} at a relative distance of 1e-7."
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
