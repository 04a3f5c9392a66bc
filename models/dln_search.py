"""Search phase of a small initialization, t = O(1): W = w/α² as α → 0 (search phase for general δ).

Nothing has been learnt yet: C_w = E[w*²] and C_f = E[w*²] + σ² stand still, the responses vanish, and each
coordinate is driven by its own constant c = w* − z(0)/δ. Then W = e^{−λt} sinh(ct): coordinates with |c| >
λ grow, the others die out. As printed; the closed form there is this one with sinh written out.
"""

from sympy import exp, sinh, sqrt

from eqsolve import E, Eq, System, param, process, random, times
from eqsolve.laws import Bernoulli, Normal

t = times("t")
delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")
w_star = random("w_star", Bernoulli(0.1), latex="w^*", about="a weight of the teacher")
z0 = random("z0", Normal(0, delta * (E(w_star**2) + sigma2)), latex="z(0)", about="Gaussian noise of a coordinate")
W, theta = process("W theta")

model = System(
    "dln_search",
    eqs=[Eq(W(t).diff(t), (w_star - z0 / delta) * sqrt(W(t)**2 + exp(-2 * lam * t)) - lam * W(t))],
    init={W: 0},
    defaults={delta: 0.5, lam: 0, sigma2: 0},
    substitute={W: exp(-lam * t) * sinh(theta(t))},
    exact={W: exp(-lam * t) * sinh((w_star - z0 / delta) * t)},
    observables={"W_mean": E(W(t)), "W2": E(W(t)**2)},
    cite="nishiyama2026precise",
)
