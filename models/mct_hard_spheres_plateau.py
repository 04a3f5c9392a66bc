"""Nonergodicity parameters of hard spheres by mode coupling: where `mct_hard_spheres` stays in the glass.

The largest solution of f_k/(1 − f_k) = Σ V_{k,p,q} f_p f_q; below the packing fraction 0.5159 it is zero.
"""

from eqsolve import Eq, FixedPoint, Sum, load, unknown

liquid = load("mct_hard_spheres")
eta, N = liquid.symbols("eta wave_numbers")
((Omega, V),) = liquid.tables
k, p, q = V.axes
f = unknown("f", k, domain=(0, 1))

model = FixedPoint(
    "mct_hard_spheres_plateau",
    eqs=[Eq(f[k] / (1 - f[k]), Sum(V[k, p, q] * f[p] * f[q], p, q))],
    tables=liquid.tables,
    defaults={eta: 0.53, N: 100},
    cite="franosch1997asymptotic",
)
