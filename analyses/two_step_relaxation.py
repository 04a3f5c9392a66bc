"""Two-step relaxation near the glass transition of the F12 model, over fourteen decades of time.

v1 = 0. Left: φ(t) for v2 on both sides of the transition at 4; the plateau 1/2 lasts the longer the closer it is, and in the
glass (v2 > 4) φ stays at its nonergodicity parameter. Dashed: v2 = 3.9999. Right: those with v2 < 4 against t/τ, where
φ(τ) = 1/4: the second step has one shape.
"""

from __future__ import annotations

import numpy as np

import eqsolve

V2 = (3.6, 3.96, 3.996, 3.9996, 3.9999, 4.0001, 4.1)
T_MAX = 1e12
RTOL = 1e-6


def compute(run):
    """φ on a logarithmic grid, with its error, and the nonergodicity parameter where there is one."""
    import xarray as xr

    times = np.geomspace(1e-2, T_MAX, 300)
    rows, errors, plateaus = [], [], []
    for v2 in V2:
        found = eqsolve.solve("mct_f12", v1=0, v2=v2, t_max=T_MAX, rtol=RTOL).at(times)
        rows.append(found["phi"].values)
        errors.append(found["phi_error"].values)
        plateaus.append(float(eqsolve.solve("mct_f12_plateau", v1=0, v2=v2)["f"]) if v2 > 4 else 0.0)
    off = max(abs(row[-1] - plateau) for row, plateau in zip(rows, plateaus, strict=True))
    run.note(f"At t = 1e12, φ differs from the nonergodicity parameter (0 for v2 < 4) by at most {off:.1e}.")
    return xr.Dataset(
        {"phi": (("v2", "t"), rows), "error": (("v2", "t"), errors), "plateau": ("v2", plateaus)},
        {"v2": list(V2), "t": times},
    )


def draw(data):
    """Both panels."""
    import matplotlib.pyplot as plt

    from eqsolve.plotting.paper import label_panels, panels

    figure, axes = panels(1, 2, height=2.8, sharey=True)
    colours = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(V2)))
    times = data["t"].values
    for v2, colour in zip(data["v2"].values, colours, strict=True):
        phi = data["phi"].sel(v2=v2).values
        style = "--" if v2 == 3.9999 else "-"
        axes[0].semilogx(times, phi, style, color=colour, label=f"$v_2 = {v2:g}$")
        if v2 < 4:
            tau = np.exp(np.interp(-0.25, -phi, np.log(times)))
            axes[1].semilogx(times / tau, phi, style, color=colour)
    axes[0].set(xlabel="$t$", ylabel=r"$\phi(t)$", ylim=(0, 1), xlim=(times[0], times[-1]))
    axes[1].set(xlabel=r"$t/\tau$", xlim=(1e-6, 1e2))
    axes[0].legend(fontsize=6)
    label_panels(axes)
    return figure
