"""A signal seen through a noisy matrix and a noisy tensor: Langevin dynamics of its estimate.

A signal x* on the sphere of N dimensions is observed as Y_ij = x*_i x*_j/√N + noise of variance Δ₂ and as a tensor of p
indices with noise of variance Δ_p; x follows Langevin dynamics of the log-likelihood at temperature T (T = 1 samples the
posterior, T = 0 is gradient flow) from an overlap m(0) = m₀ with the signal. m is the overlap, Q(x) = x²/2Δ₂ + x^p/pΔ_p.
"""

from eqsolve import Eq, Int, System, correlation, function, param, response, times

t, tp, s = times("t t' s")
p = param("p", integer=True, domain=(3, None), about="number of indices of the tensor")
T = param("T", nonnegative=True, about="temperature; 1 samples the posterior")
D2 = param("Delta_2", positive=True, latex=r"\Delta_2", about="variance of the noise of the matrix")
Dp = param("Delta_p", positive=True, latex=r"\Delta_p", about="variance of the noise of the tensor")
m0 = param("m0", domain=(-1, 1), latex="m_0", about="overlap with the signal at the start")
mu, m = function("mu m")
C = correlation("C")
R = response("R")


def slope(x):
    """Q'(x)."""
    return x / D2 + x**(p - 1) / Dp


def bend(x):
    """Q''(x)."""
    return 1 / D2 + (p - 1) * x**(p - 2) / Dp


model = System(
    "spiked_matrix_tensor",
    eqs=[
        Eq(mu(t), T + slope(m(t)) * m(t) + Int(R(t, s) * (slope(C(t, s)) + bend(C(t, s)) * C(t, s)), (s, 0, t))),
        Eq(R(t, tp).diff(t), -mu(t) * R(t, tp) + Int(bend(C(t, s)) * R(t, s) * R(s, tp), (s, tp, t))),
        Eq(C(t, tp).diff(t), -mu(t) * C(t, tp) + slope(m(t)) * m(tp)
           + Int(bend(C(t, s)) * R(t, s) * C(s, tp), (s, 0, t)) + Int(slope(C(t, s)) * R(tp, s), (s, 0, tp))),
        Eq(m(t).diff(t), -mu(t) * m(t) + slope(m(t)) + Int(bend(C(t, s)) * R(t, s) * m(s), (s, 0, t))),
    ],
    init={C(t, t): 1, R(t, t): 1, m: m0},
    defaults={p: 3, T: 1, D2: 0.5, Dp: 1, m0: 0.01},
    cite="mannelli2020marvels",
)
