"""Lazy phase of a large initialization, t = O(1/α²): linear regression by gradient flow (eq. dmft_lazy).

Time is α²t and the responses are divided by α². The processes have been eliminated by linearity, which
leaves two-time equations for the kernels, solved in closed form by the Marchenko–Pastur law of x. Printed
with the boundary condition C_w(t, 0) = 0, corrected to C_w(0, 0) = ρ² = E[w*²], which the printed closed
form satisfies.
"""

from sympy import Piecewise, exp

from eqsolve import E, Eq, Int, System, correlation, param, random, response, times
from eqsolve.laws import MarchenkoPastur

t, tp, s = times("t t' s")
delta = param("delta", positive=True, about="samples per dimension, n/d")
rho2 = param("rho2", nonnegative=True, latex=r"\rho^2", about="variance of the teacher's weights")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")
C_w, C_f = correlation("C_w C_f")
R_w, R_f = response("R_w R_f")
x = random("x", MarchenkoPastur(delta), about="an eigenvalue of XᵀX/δ")  # eigenvalues of XᵀX/δ, for the closed forms

model = System(
    "dln_lazy",
    eqs=[
        Eq(C_w(t, tp).diff(t), -C_w(t, tp) + Int(R_w(tp, s) * C_f(t, s), (s, 0, tp))
           + Int(R_f(t, s) * C_w(tp, s), (s, 0, t))),
        Eq(C_f(t, tp), C_w(t, tp) + sigma2
           - Int(R_f(tp, s) * (C_w(t, s) + sigma2), (s, 0, tp)) - Int(R_w(t, s) * C_f(tp, s), (s, 0, t))),
        Eq(R_w(t, tp).diff(t), -R_w(t, tp) + Int(R_f(t, s) * R_w(s, tp), (s, tp, t))),
        Eq(R_f(t, tp), R_w(t, tp) - Int(R_w(t, s) * R_f(s, tp), (s, tp, t))),
    ],
    init={C_w(0, 0): rho2, R_w(t, t): 1 / delta},
    defaults={delta: 0.5, rho2: 0.1, sigma2: 0},
    exact={
        C_w: rho2 * E(exp(-x * (t + tp)))
        + sigma2 / delta * E(Piecewise(((1 - exp(-x * t)) * (1 - exp(-x * tp)) / x, x > 0), (0, True))),
        C_f: rho2 * E(x * exp(-x * (t + tp))) + sigma2 / delta * (E(exp(-x * (t + tp))) + delta - 1),
        R_w: E(exp(-x * (t - tp))) / delta,
        R_f: E(x * exp(-x * (t - tp))) / delta,
    },
    observables={"E_train": C_f(t, t), "E_test": C_w(t, t) + sigma2},
    cite="nishiyama2026precise",
)
