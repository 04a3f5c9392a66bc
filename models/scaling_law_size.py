"""Regression on random combinations of features with a power-law spectrum: the error of a finite model.

Features and target as in `scaling_law_data`; the model sees N random combinations of them and has infinitely many samples and
time. A random subspace leaves the share κ/(λ_k + κ) of mode k unexplained, with Σ λ_k/(λ_k + κ) = N. The error falls like
N^−(a − 1) for a < b + 1: the scaling law of model size.
"""

from eqsolve import Eq, FixedPoint, Sum, load, param, unknown

data = load("scaling_law_data")
a, b, M = data.symbols("a b modes")
((lam, power),) = data.tables
(k,) = lam.axes
N = param("N", positive=True, about="number of parameters of the model")
kappa = unknown("kappa", positive=True)

model = FixedPoint(
    "scaling_law_size",
    eqs=[Eq(Sum(lam[k] / (lam[k] + kappa), k), N)],
    tables=data.tables,
    defaults={N: 100, a: 2, b: 1.5, M: 200000},
    observables={"loss": kappa * Sum(power[k] / (lam[k] + kappa), k)},
    cite="bordelon2024dynamical",
)
