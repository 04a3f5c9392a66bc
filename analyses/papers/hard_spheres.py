"""The glass transition of hard spheres by mode coupling: a hundred correlators over fourteen decades of time.

Left: φ_q(t) at the peak of the structure factor, q = 7, below and above the packing fraction at which the liquid becomes a
glass; dashed, the plateau at the transition. Right: the plateaus f_q just above it, beside the structure factor S_q/8.
"""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.optimize import brentq
from scipy.special import gamma

import eqsolve
from eqsolve.plotting.paper import colours, curve, label_panels, panels

PAPER = "Franosch, Fuchs, Götze, Mayr & Singh 1997, Asymptotic laws and preasymptotic corrections for hard spheres"
FIELD = "glasses"
PEAK, STEP = 17, 0.4


def critical(near=1e-6):
    """The packing fraction of the fold, from the glass: the square of the plateau's stability vanishes linearly there."""
    places, squares = [0.53, 0.52], []
    while True:
        rest = [eqsolve.solve("mct_hard_spheres_plateau", eta=eta).stats["stability"] for eta in places[len(squares) :]]
        squares += [x**2 for x in rest]
        root = np.polyval(np.polyfit(squares[-3:], places[-3:], min(2, len(places) - 1)), 0.0)
        if places[-1] - root < near:
            return float(root)
        places.append(root + (places[-1] - root) / 5)


def exponents(plateau, vertices):
    """Return the exponent parameter λ of a plateau at the transition, and a and b with Γ(1 − a)²/Γ(1 − 2a) = λ = Γ(1 + b)²/…

    e and ê are the critical eigenvectors of ∂F_q/∂f_k (1 − f_k)², with Σ ê e = Σ ê e² (1 − f) = 1 (Götze 2009).
    """
    f = plateau["f"].values
    room = (1 - f) ** 2
    matrix = (np.einsum("kpq,q->kp", vertices, f) + np.einsum("kqp,q->kp", vertices, f)) * room
    pairs = [np.linalg.eig(part) for part in (matrix, matrix.T)]
    e, dual = (np.abs(vectors[:, values.real.argmax()].real) for values, vectors in pairs)
    scale = dual @ (e**2 * (1 - f)) / (dual @ e)
    e, dual = e / scale, dual * scale / (dual @ e)
    strength = np.einsum("k,kpq,p,q->", dual, vertices, room * e, room * e, optimize=True)
    a = brentq(lambda x: gamma(1 - x) ** 2 / gamma(1 - 2 * x) - strength, 1e-3, 0.49)
    return float(strength), a, brentq(lambda x: gamma(1 + x) ** 2 / gamma(1 + 2 * x) - strength, 1e-3, 1.0)


def compute(run):
    number, last, distances = run.pick((32, 1e3, (-1e-1, 1e-1)), (100, 1e10, (-1e-1, -1e-2, -1e-3, 1e-3, 1e-2)))
    moments, edge = np.geomspace(1e-4, last, 200), critical(run.pick(1e-5, 1e-6))
    settings = {"wave_numbers": number, "t_max": last, "rtol": run.pick(1e-2, 1e-3)}
    found = [eqsolve.solve("mct_hard_spheres", eta=edge * (1 + x), **settings).at(moments).sel(k=PEAK) for x in distances]
    plateau = eqsolve.solve("mct_hard_spheres_plateau", eta=edge * (1 + run.pick(1e-6, 1e-7)))
    tables = next(iter(eqsolve.load("mct_hard_spheres").tables.values())).arrays({"eta": edge, "wave_numbers": 100})
    q = STEP * (np.arange(100) + 0.5)
    strength, a, b = exponents(plateau, tables["V"])
    run.note(f"Critical packing {edge:.8f} (published 0.51591), exponent parameter {strength:.4f} (0.735).")
    run.note(f"a = {a:.4f} (0.312), b = {b:.4f} (0.583). Plateau at the peak {plateau['f'].values[PEAK]:.6f}.")
    run.note(f"Largest error of φ there: {max(x['phi_error'].values.max() for x in found):.0e}.")
    data = {name: (("distance", "t"), [one[name].values for one in found]) for name in ("phi", "phi_error")}
    data |= {"f": ("q", plateau["f"].values), "S": ("q", q**2 / tables["Omega"])}
    return xr.Dataset(data, {"distance": list(distances), "t": moments, "q": q})


def draw(data):
    figure, axes = panels(1, 2, height=2.6)
    for (distance, row), colour in zip(data.groupby("distance"), colours(data.sizes["distance"]), strict=True):
        curve(axes[0], row["t"], row["phi"].squeeze(), row["phi_error"].squeeze(), color=colour, label=f"${distance:+g}$")
    axes[0].axhline(float(data["f"][PEAK]), ls="--", color="k", lw=0.7)
    axes[0].set(xscale="log", xlabel="$t$", ylabel=r"$\varphi_q(t)$, $q = 7$", ylim=(0, 1.02))
    axes[0].legend(title=r"$\eta/\eta_c - 1$")
    axes[1].plot(data["q"], data["f"], label="$f_q$")
    axes[1].plot(data["q"], data["S"] / 8, ":", color="k", label="$S_q/8$")
    axes[1].set(xlabel="$q$", ylim=(0, 1.02))
    axes[1].legend()
    label_panels(axes)
    return figure
