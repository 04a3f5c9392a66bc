"""Regression on features with a power-law spectrum by gradient flow: the error of ensembles against time.

Features and target as in `scaling_law_data`, in groups of nearly equal variance λ_k. H_k(t) is what is left of the target's
coefficient after a time t, averaged over draws of P samples; G is the memory that samples leave which are seen again and again
(the dynamical mean-field theory of Bordelon, Atanasov and Pehlevan for a wide model, in time instead of frequency). ``loss``
is the error of a large ensemble of models, each with samples of its own; with infinitely many samples it is that of each.
"""

import numpy as np

from eqsolve import Eq, Int, Sum, System, function, index, load, param, table, times

t, s = times("t s")
P, a, b = load("scaling_law_data").symbols("P a b")
M = param("groups", integer=True, positive=True, about="number of groups of features")
features = param("features", integer=True, positive=True, about="number of features")
k = index("k", M)
lam, power, count = table("lambda", k), table("power", k), table("count", k)
H, u = function("H u", k)
G = function("G")


def spectra(a, b, groups, features):
    """Return variances of groups of features, what each carries of the target, and how many features it has."""
    edges = np.geomspace(1, features + 1, int(groups) + 1).round()
    edges = np.maximum(edges, np.arange(1, int(groups) + 2))  # at first, groups of one
    place, start = np.arange(1, int(features) + 1), edges[:-1].astype(int) - 1
    count = np.diff(edges)
    return np.add.reduceat(place**-float(b), start) / count, np.add.reduceat(place**-float(a), start), count


model = System(
    "scaling_law_time",
    eqs=[
        Eq(H[k](t).diff(t), -lam[k] * u[k](t)),
        Eq(u[k](t), H[k](t) - Int(G(t - s) * u[k](s), (s, 0, t))),
        Eq(G(t), Sum(count[k] * lam[k] * H[k](t), k) / P),
    ],
    init={H[k]: 1},
    tables={(lam, power, count): spectra},
    defaults={P: 100, a: 2, b: 1.5, M: 40, features: 10000},
    observables={"loss": Sum(power[k] * H[k](t)**2, k)},
    cite="bordelon2024dynamical",
)
