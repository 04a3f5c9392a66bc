"""Two-layer diagonal linear network with infinite data: one ODE per coordinate (eq. dmft_inf_delta).

As δ → ∞ the noise z/δ and the memory R_f vanish from the DMFT system, and g = w − w*. As printed; where the
print goes on to shorten the term under the root to α² e^{−2λt}, it is α⁴ e^{−2λt}. The change of variables
w = α² e^{−λt} sinh θ turns the drift into θ' = −(w − w*).
"""

from sympy import exp, sinh, sqrt

from eqsolve import E, Eq, System, param, process, random, times
from eqsolve.laws import Bernoulli

t = times("t")
alpha = param("alpha", positive=True, about="size of the weights at the start")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")
w_star = random("w_star", Bernoulli(0.1), latex="w^*", about="a weight of the teacher")
w, theta = process("w theta")

model = System(
    "dln_infinite_data",
    eqs=[Eq(w(t).diff(t), -sqrt(w(t)**2 + alpha**4 * exp(-2 * lam * t)) * (w(t) - w_star) - lam * w(t))],
    init={w: 0},
    defaults={alpha: 0.1, lam: 0, sigma2: 0},
    substitute={w: alpha**2 * exp(-lam * t) * sinh(theta(t))},
    observables={"E_test": E((w(t) - w_star)**2) + sigma2, "w_mean": E(w(t))},
    cite="nishiyama2026precise",
)
