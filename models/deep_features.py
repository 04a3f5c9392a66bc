"""Wide network of two hidden layers that learns features from P samples: a dynamical mean field.

The network of `two_layer_features` with a second hidden layer. What a unit of the first layer gets back through the random
weights between the layers is a Gaussian field r_μ(t), what one of the second layer gets from the first another, u_μ(t), joint
over samples, and each with a reaction: A_μν and B_μν are how units of the other layer respond to these fields. B acts at once
too, through the second derivative of φ, and that part stands by itself, b_μ. ``gamma`` is the strength of features.
"""

import numpy as np
from sympy import tanh

from eqsolve import (
    GP,
    E,
    Eq,
    Int,
    Resp,
    Sum,
    System,
    correlation,
    function,
    index,
    param,
    process,
    random,
    response,
    table,
    times,
)
from eqsolve.laws import Normal

t, tp, s = times("t t' s")
P = param("samples", integer=True, positive=True, latex="P", about="number of samples")
gamma = param("gamma", positive=True, about="strength of features; small is the kernel limit")
mu, nu = index("mu nu", P)
K, y = table("K", mu, nu), table("y", mu)
chi = random("chi", Normal(0, K[mu, nu]), mu, about="preactivations of a unit of the first layer at the start")
xi = random("xi", Normal(0, 1), about="readout weight of a unit of the second layer at the start")
h_1, h_2, z_1, r, u = process("h_1 h_2 z_1 r u", mu)
z_2 = process("z_2")
f, b = function("f b", mu)
Phi_1, G_2 = correlation("Phi_1 G_2", mu, nu)
A, B = response("A B", mu, nu)


def slope(x):
    return 1 - tanh(x)**2


def clusters(samples):
    """Return inputs of norm √D around two opposite centres, with targets ±1: their Gram matrix and the targets."""
    count = int(samples)
    rng = np.random.default_rng(8)
    sign = (-1.0) ** np.arange(count)
    inputs = rng.standard_normal((count, 20)) + 0.5 * sign[:, None]
    inputs /= np.linalg.norm(inputs, axis=1)[:, None]
    return inputs @ inputs.T, sign


model = System(
    "deep_features",
    eqs=[
        Eq(h_1[mu](t).diff(t), gamma * Sum(K[mu, nu] * (y[nu] - f[nu](t)) * slope(h_1[nu](t)) * z_1[nu](t), nu)),
        Eq(z_1[mu](t), r[mu](t) + b[mu](t) * tanh(h_1[mu](t)) + Sum(
            Int(B[mu, nu](t, s) * tanh(h_1[nu](s)), (s, 0, t))
            + gamma * Int(G_2[mu, nu](t, s) * (y[nu] - f[nu](s)) * tanh(h_1[nu](s)), (s, 0, t)), nu)),
        Eq(h_2[mu](t), u[mu](t) + Sum(
            Int(A[mu, nu](t, s) * slope(h_2[nu](s)) * z_2(s), (s, 0, t))
            + gamma * Int(Phi_1[mu, nu](t, s) * (y[nu] - f[nu](s)) * slope(h_2[nu](s)) * z_2(s), (s, 0, t)), nu)),
        Eq(z_2(t).diff(t), gamma * Sum((y[nu] - f[nu](t)) * tanh(h_2[nu](t)), nu)),
        Eq(Phi_1[mu, nu](t, tp), E(tanh(h_1[mu](t)) * tanh(h_1[nu](tp)))),
        Eq(G_2[mu, nu](t, tp), E(slope(h_2[mu](t)) * z_2(t) * slope(h_2[nu](tp)) * z_2(tp))),
        Eq(A[mu, nu](t, tp), E(Resp(tanh(h_1[mu](t)), r[nu](tp)))),
        Eq(B[mu, nu](t, tp), E(Resp(slope(h_2[mu](t)) * z_2(t), u[nu](tp)))),
        Eq(b[mu](t), E(-2 * tanh(h_2[mu](t)) * slope(h_2[mu](t)) * z_2(t))),
        Eq(f[mu](t), E(z_2(t) * tanh(h_2[mu](t))) / gamma),
    ],
    laws={r[mu]: GP(G_2[mu, nu](t, tp)), u[mu]: GP(Phi_1[mu, nu](t, tp))},
    init={h_1[mu]: chi[mu], z_2: xi},
    tables={(K, y): clusters},
    defaults={P: 4, gamma: 1},
    observables={"loss": Sum((y[mu] - f[mu](t))**2, mu) / (2 * P)},
    cite="bordelon2022self",
)
