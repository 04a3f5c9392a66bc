"""Ridge regression by gradient flow, w' = −g − λw: two-time equations with Marchenko–Pastur solution.

X has n × d entries of variance 1/d, n/d → δ, the labels are Xw* + ξ, g = Xᵀ(Xw − Xw* − ξ)/δ and w starts
from 0. The process is eliminated as in the lazy phase of a diagonal network (eq. dmft_lazy), to which this
reduces for λ = 0; weight decay brings in the overlap m(t) = E[w*(w* − w(t))] of the error with the target.
Along an eigenvector of XᵀX/δ with eigenvalue x, what is left to learn of the target at time t is 1 − xφ(t),
φ(t) = (1 − e^{−(x+λ)t})/(x + λ).
"""

from sympy import Piecewise, exp

from eqsolve import E, Eq, Int, System, correlation, function, param, random, response, times
from eqsolve.laws import MarchenkoPastur

t, tp, s = times("t t' s")
delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
rho2 = param("rho2", nonnegative=True, latex=r"\rho^2", about="variance of the teacher's weights")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")
m = function("m")
C_w, C_f = correlation("C_w C_f")
R_w, R_f = response("R_w R_f")
x = random("x", MarchenkoPastur(delta), about="an eigenvalue of XᵀX/δ")  # eigenvalues of XᵀX/δ, for the closed forms


def phi(time):
    """Return ∫_0^time e^{−(x+λ)s} ds."""
    return Piecewise(((1 - exp(-(x + lam) * time)) / (x + lam), x + lam > 0), (time, True))


def rest(time):
    """Return the fraction of the target that is still to be learnt along an eigenvector."""
    return 1 - x * phi(time)


model = System(
    "linear_regression",
    eqs=[
        Eq(m(t).diff(t), -m(t) + lam * (rho2 - m(t)) + Int(R_f(t, s) * m(s), (s, 0, t))),
        Eq(C_w(t, tp).diff(t), -C_w(t, tp) + lam * (m(tp) - C_w(t, tp))
           + Int(R_w(tp, s) * C_f(t, s), (s, 0, tp)) + Int(R_f(t, s) * C_w(tp, s), (s, 0, t))),
        Eq(C_f(t, tp), C_w(t, tp) + sigma2
           - Int(R_f(tp, s) * (C_w(t, s) + sigma2), (s, 0, tp)) - Int(R_w(t, s) * C_f(tp, s), (s, 0, t))),
        Eq(R_w(t, tp).diff(t), -R_w(t, tp) - lam * R_w(t, tp) + Int(R_f(t, s) * R_w(s, tp), (s, tp, t))),
        Eq(R_f(t, tp), R_w(t, tp) - Int(R_w(t, s) * R_f(s, tp), (s, tp, t))),
    ],
    init={m: rho2, C_w(0, 0): rho2, R_w(t, t): 1 / delta},
    defaults={delta: 0.5, lam: 0.1, rho2: 0.1, sigma2: 0.1},
    exact={
        m: rho2 * E(rest(t)),
        C_w: rho2 * E(rest(t) * rest(tp)) + sigma2 / delta * E(x * phi(t) * phi(tp)),
        C_f: rho2 * E(x * rest(t) * rest(tp)) + sigma2 / delta * (E(rest(t) * rest(tp)) + delta - 1),
        R_w: E(exp(-(x + lam) * (t - tp))) / delta,
        R_f: E(x * exp(-(x + lam) * (t - tp))) / delta,
    },
    observables={"E_train": C_f(t, t), "E_test": C_w(t, t) + sigma2},
    flow="linear_flow",
)
