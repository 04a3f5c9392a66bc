"""Two-layer diagonal linear network under gradient flow: the DMFT system (eq. dmft_dln).

Gradient flow from u = v = α on the loss of f(x) = wᵀx, w = (u² − v²)/2, with n/d → δ samples, label noise σ²
and weight decay λ. As printed, except that the α⁴ in the drift stands as in eq. dmft_w (the reduced forms of the
main text print α²). The change of variables w = α² e^{−λt} sinh θ turns the drift into θ' = −g.
"""

from sympy import exp, sinh, sqrt

from eqsolve import GP, E, Eq, Int, Resp, System, correlation, param, process, random, response, times
from eqsolve.laws import Bernoulli

t, tp, s = times("t t' s")
alpha = param("alpha", positive=True, about="size of the weights at the start")
delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")
w_star = random("w_star", Bernoulli(0.1), latex="w^*", about="a weight of the teacher")
w, g, z, theta = process("w g z theta")
C_w, C_f = correlation("C_w C_f")
R_w, R_f = response("R_w R_f")

model = System(
    "dln",
    eqs=[
        Eq(C_w(t, tp), E((w(t) - w_star) * (w(tp) - w_star))),
        Eq(R_w(t, tp), -E(Resp(w(t), z(tp)))),
        Eq(C_f(t, tp), C_w(t, tp) + sigma2
           - Int(R_f(tp, s) * (C_w(t, s) + sigma2), (s, 0, tp)) - Int(R_w(t, s) * C_f(tp, s), (s, 0, t))),
        Eq(R_f(t, tp), R_w(t, tp) - Int(R_w(t, s) * R_f(s, tp), (s, tp, t))),
        Eq(g(t), z(t) / delta + w(t) - w_star - Int(R_f(t, s) * (w(s) - w_star), (s, 0, t))),
        Eq(w(t).diff(t), -sqrt(w(t)**2 + alpha**4 * exp(-2 * lam * t)) * g(t) - lam * w(t)),
    ],
    laws={z: GP(delta * C_f(t, tp))},
    init={w: 0},
    defaults={alpha: 0.3, delta: 0.5, lam: 0, sigma2: 0},
    substitute={w: alpha**2 * exp(-lam * t) * sinh(theta(t))},
    observables={
        "E_train": C_f(t, t),
        "E_test": C_w(t, t) + sigma2,
        "loss": C_f(t, t) / 2 + lam * E(sqrt(w(t)**2 + alpha**4 * exp(-2 * lam * t))),
        "overlap": E(w(t) * w_star),
        "l1": E(abs(w(t))),
    },
    flow="dln_flow",
    cite="nishiyama2026precise",
)
