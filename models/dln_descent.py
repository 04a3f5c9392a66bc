"""Descent phase of a small initialization: the DMFT system in the time t/log(1/α) (rescaled eq. dmft_dln).

With T = log(1/α), time is t/T and the responses are those of eq. dmft_dln times T. Functional derivatives
are taken in the rescaled time too, which makes ∂w/∂z larger by the factor T. R_w is printed as −T E[∂w/∂z],
which counts T twice, corrected to −E[∂w/∂z]. The equation of w is printed with 1/T on its left; here T is
on the right.

A coordinate that is still small grows or dies by G' = z/δ − w* + w* ∫R_f alone: it is activated (w of order one) when
`growth` = |G| − λt reaches 2, at a time t_c of its own. Printed with the modulus inside the integral, corrected to |∫…|.
`eqsolve.phases.activation_times(result, "growth", 2)` gives t_c path by path.
"""

from sympy import log, sinh, sqrt

from eqsolve import GP, E, Eq, Int, Resp, System, correlation, param, process, random, response, times
from eqsolve.laws import Bernoulli

t, tp, s = times("t t' s")
alpha, delta = param("alpha delta", positive=True)
lam = param("lam", nonnegative=True, latex=r"\lambda")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2")
w_star = random("w_star", Bernoulli(0.1), latex="w^*")
w, g, z, theta, G, growth = process("w g z theta G growth")
C_w, C_f = correlation("C_w C_f")
R_w, R_f = response("R_w R_f")

model = System(
    "dln_descent",
    eqs=[
        Eq(C_w(t, tp), E((w(t) - w_star) * (w(tp) - w_star))),
        Eq(R_w(t, tp), -E(Resp(w(t), z(tp)))),
        Eq(C_f(t, tp), C_w(t, tp) + sigma2
           - Int(R_f(tp, s) * (C_w(t, s) + sigma2), (s, 0, tp)) - Int(R_w(t, s) * C_f(tp, s), (s, 0, t))),
        Eq(R_f(t, tp), R_w(t, tp) - Int(R_w(t, s) * R_f(s, tp), (s, tp, t))),
        Eq(g(t), z(t) / delta + w(t) - w_star - Int(R_f(t, s) * (w(s) - w_star), (s, 0, t))),
        Eq(w(t).diff(t), -log(1 / alpha) * (sqrt(w(t)**2 + alpha**(4 + 2 * lam * t)) * g(t) + lam * w(t))),
        Eq(G(t).diff(t), z(t) / delta - w_star + Int(R_f(t, s) * w_star, (s, 0, t))),
        Eq(growth(t), abs(G(t)) - lam * t),
    ],
    laws={z: GP(delta * C_f(t, tp))},
    init={w: 0, G: 0},
    defaults={alpha: 0.1, delta: 0.5, lam: 0, sigma2: 0},
    conditions=[alpha < 1],
    substitute={w: alpha**(2 + lam * t) * sinh(theta(t))},
    observables={"E_train": C_f(t, t), "E_test": C_w(t, t) + sigma2},
    cite="nishiyama2026precise",
)
