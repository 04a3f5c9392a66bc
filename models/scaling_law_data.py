"""Regression on features with a power-law spectrum: the test error left by a finite number of samples.

Features k = 0, 1, … have variances λ_k = (k + 1)^−b, and the target the coefficients w_k with λ_k w_k² = (k + 1)^−a.
Gradient flow ends at the interpolator, whose error is that of a ridge κ with Σ λ_k/(λ_k + κ) = P (the deterministic
equivalent). It falls like P^−(a − 1) for a < 2b + 1: the scaling law of data.
"""

import numpy as np

from eqsolve import Eq, FixedPoint, Sum, index, param, table, unknown

P = param("P", positive=True, about="number of samples")
a = param("a", positive=True, about="exponent of the target's spectrum")
b = param("b", positive=True, about="exponent of the features' spectrum")
M = param("modes", integer=True, positive=True, about="number of features")
k = index("k", M)
lam, power = table("lambda", k), table("power", k)
kappa, gamma = unknown("kappa", positive=True), unknown("gamma", positive=True)


def spectra(a, b, modes):
    """Return the variances of the features and what each carries of the target."""
    place = np.arange(1, int(modes) + 1)
    return place**-b, place**-a


model = FixedPoint(
    "scaling_law_data",
    eqs=[
        Eq(Sum(lam[k] / (lam[k] + kappa), k), P),
        Eq(gamma, Sum(lam[k]**2 / (lam[k] + kappa)**2, k) / P),
    ],
    tables={(lam, power): spectra},
    defaults={P: 100, a: 2, b: 1.5, M: 200000},
    observables={"loss": kappa**2 * Sum(power[k] / (lam[k] + kappa)**2, k) / (1 - gamma)},
    cite="bordelon2024dynamical",
)
