"""Rich phase with infinite data: a logistic equation that ends at the soft threshold (eq. rich_ode).

Each coordinate starts at w0 > 0 in the direction of w*. Then |w| obeys the logistic equation of rate Δ =
|w*| − λ, and w = sign(w*) Δ/(1 + C e^{−Δt}) with C = Δ/w0 − 1 (if Δ = 0, |w| = w0/(1 + w0 t)). As printed,
except that the limit is sign(w*) max(Δ, 0), printed without the sign.
"""

from sympy import Abs, Ne, Piecewise, exp, sign

from eqsolve import E, Eq, System, param, process, random, times
from eqsolve.laws import Discrete

t = times("t")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
w0 = param("w0", positive=True, about="size of a weight at the start")
w_star = random("w_star", Discrete([-1, 0.2, 1], [0.25, 0.5, 0.25]), latex="w^*", about="a weight of the teacher")
w = process("w")
Delta = Abs(w_star) - lam

model = System(
    "dln_rich_infinite_data",
    eqs=[Eq(w(t).diff(t), -Abs(w(t)) * (w(t) - w_star) - lam * w(t))],
    init={w: w0 * sign(w_star)},
    defaults={lam: 0.3, w0: 0.01},
    exact={
        w: sign(w_star) * Piecewise((Delta / (1 + (Delta / w0 - 1) * exp(-Delta * t)), Ne(Delta, 0)),
                                    (w0 / (1 + w0 * t), True)),
    },
    observables={"E_test": E((w(t) - w_star)**2), "l1": E(Abs(w(t)))},
    cite="nishiyama2026precise",
)
