"""Learning from a large initialization in the time α² t.

δ = 0.5, λ = 0.2, σ² = 0, P_* = Bernoulli(0.1). Lines: the full DMFT system; points: d = 1000, 4 draws (quick: 200, 3),
bars of one standard error. Dashed black: the lazy system, solved by its own file; the closed form by Marchenko and
Pastur's law is the same line (largest difference in the caption).
"""

import numpy as np
from _large import compute_large, draw_large

import eqsolve

ORDER = 6.2
PAPER = "Figure 5"
GROUP = "large"


def compute(run):
    """The curves of the large initializations, and the lazy limit."""
    data = compute_large(run).copy()
    times = np.geomspace(0.02, 300, 120)
    lazy = eqsolve.solve("dln_lazy", t_max=300, delta=0.5, rho2=0.1, rtol=1e-6, kernels=False).at(times)
    law = eqsolve.spectra.MarchenkoPastur(0.5)
    closed = 0.1 * law.laplace(2 * times)
    gap = float(np.abs(lazy["E_test"].values - closed).max())
    run.note(f"Lazy system against its closed form: {gap:.1e}.")
    return data.assign(lazy_train=("s", lazy["E_train"].values), lazy_test=("s", lazy["E_test"].values), s=times)


def draw(data):
    """Both errors, and the limit."""
    figure, axes = draw_large(data, lambda a, t: t * a**2, r"$\alpha^2 t$", span=(0.02, 300))
    for panel, name in zip(axes, ("lazy_train", "lazy_test"), strict=True):
        panel.plot(data["s"], data[name], "k--", lw=1.1, zorder=5, label="lazy limit")
    axes[0].set_ylim(1e-6, 0.3)
    axes[0].legend()
    return figure
