"""Rich phase of a large initialization with weight decay, around t_c = 2 log(α)/λ (eq. dmft_rich).

Time is counted from t_c, so that α⁴ e^{−2λt} becomes e^{−2λt} and α disappears. The system starts from w =
0 at the finite negative time tau0: it is the network of eq. dmft_dln with α = e^{−λ tau0/2}, seen from its
own t_c, and the rich phase proper is the limit tau0 → −∞. As printed, except for the reason given there: it
is w², not w, that is compared with α⁴ e^{−2λt}.
"""

from sympy import exp, sinh, sqrt

from eqsolve import GP, E, Eq, Int, Resp, System, correlation, param, process, random, response, times
from eqsolve.laws import Bernoulli

t, tp, s = times("t t' s")
delta = param("delta", positive=True)
lam = param("lam", positive=True, latex=r"\lambda")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2")
tau0 = param("tau0", negative=True)
w_star = random("w_star", Bernoulli(0.1), latex="w^*")
w, g, z, theta = process("w g z theta")
C_w, C_f = correlation("C_w C_f")
R_w, R_f = response("R_w R_f")

model = System(
    "dln_rich",
    eqs=[
        Eq(C_w(t, tp), E((w(t) - w_star) * (w(tp) - w_star))),
        Eq(R_w(t, tp), -E(Resp(w(t), z(tp)))),
        Eq(C_f(t, tp), C_w(t, tp) + sigma2
           - Int(R_f(tp, s) * (C_w(t, s) + sigma2), (s, tau0, tp))
           - Int(R_w(t, s) * C_f(tp, s), (s, tau0, t))),
        Eq(R_f(t, tp), R_w(t, tp) - Int(R_w(t, s) * R_f(s, tp), (s, tp, t))),
        Eq(g(t), z(t) / delta + w(t) - w_star - Int(R_f(t, s) * (w(s) - w_star), (s, tau0, t))),
        Eq(w(t).diff(t), -sqrt(w(t)**2 + exp(-2 * lam * t)) * g(t) - lam * w(t)),
    ],
    laws={z: GP(delta * C_f(t, tp))},
    start=tau0,
    init={w: 0},
    defaults={delta: 0.5, lam: 0.5, sigma2: 0, tau0: -6},
    substitute={w: exp(-lam * t) * sinh(theta(t))},
    observables={"E_train": C_f(t, t), "E_test": C_w(t, t) + sigma2},
    cite="nishiyama2026precise",
)
