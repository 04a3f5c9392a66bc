"""Wide two-layer network that learns features from P samples by gradient flow: the mean-field limit.

A network f(x) = Σ_i w_i φ(W_i·x/√D)/(γ N) of N hidden units, trained at a rate γ² N on the squared error of P samples.
For N → ∞ its units are independent and alike: a unit has the preactivations h_μ(t) on the samples and the readout weight
z(t), which start normal, h_μ(0) with the covariance K_μν = x_μ·x_ν/D of the inputs. ``gamma`` is the strength of features: as
it vanishes units stay where they are, and the outputs f_μ follow regression with the kernel Φ + K G at the start.
"""

import numpy as np
from sympy import tanh

from eqsolve import E, Eq, Sum, System, function, index, param, process, random, table, times
from eqsolve.laws import Normal

t = times("t")
P = param("samples", integer=True, positive=True, latex="P", about="number of samples")
gamma = param("gamma", nonnegative=True, about="strength of features; 0 is the kernel limit")
mu, nu = index("mu nu", P)
K, y = table("K", mu, nu), table("y", mu)
chi = random("chi", Normal(0, K[mu, nu]), mu, about="preactivations of a unit at the start")
xi = random("xi", Normal(0, 1), about="readout weight of a unit at the start")
h, phi, g = process("h phi g", mu)
z = process("z")
f = function("f", mu)
Phi, G = function("Phi G", mu, nu)


def clusters(samples):
    """Return inputs of norm √D around two opposite centres, with targets ±1: their Gram matrix and the targets."""
    count = int(samples)
    rng = np.random.default_rng(8)
    sign = (-1.0) ** np.arange(count)
    inputs = rng.standard_normal((count, 20)) + 0.5 * sign[:, None]
    inputs /= np.linalg.norm(inputs, axis=1)[:, None]
    return inputs @ inputs.T, sign


model = System(
    "two_layer_features",
    eqs=[
        Eq(phi[mu](t), tanh(h[mu](t))),
        Eq(g[mu](t), z(t) * (1 - phi[mu](t)**2)),
        Eq(h[mu](t).diff(t), gamma * Sum(K[mu, nu] * (y[nu] - f[nu](t)) * g[nu](t), nu)),
        Eq(z(t).diff(t), gamma * Sum((y[nu] - f[nu](t)) * phi[nu](t), nu)),
        Eq(Phi[mu, nu](t), E(phi[mu](t) * phi[nu](t))),
        Eq(G[mu, nu](t), E(g[mu](t) * g[nu](t))),
        Eq(f[mu](t).diff(t), Sum((Phi[mu, nu](t) + K[mu, nu] * G[mu, nu](t)) * (y[nu] - f[nu](t)), nu)),
    ],
    init={h[mu]: chi[mu], z: xi, f[mu]: 0},
    tables={(K, y): clusters},
    defaults={P: 8, gamma: 1},
    observables={"loss": Sum((y[mu] - f[mu](t))**2, mu) / (2 * P)},
    cite="bordelon2022self",
)
