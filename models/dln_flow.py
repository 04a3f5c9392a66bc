"""Gradient flow of an L-layer diagonal linear network, with optional truncation: finite n and d (eq. gf_truncated_dln).

The network is f(x) = wᵀx, w = (η_M(u^L) − η_M(v^L))/L; η_M cuts off smoothly between M and M + 1, and M = ∞ (the default)
leaves the network as it is. The drift of v is printed as −½(−λv + v^{L−1} g η'_M(v^L)) in the DMFT equation, which
keeps u = v for ever; it is −½(λv − v^{L−1} g η'_M(v^L)). The truncation is inactive while |u|^L ≤ M (printed: |u| ≤ M).
"""

from sympy import Abs, Piecewise, exp, oo

from eqsolve import E, Flow, field, gradient, param, random, state, symbol
from eqsolve.laws import Bernoulli, Normal

alpha, delta = param("alpha delta", positive=True)
lam = param("lam", nonnegative=True, latex=r"\lambda")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2")
L = param("L", integer=True, positive=True, domain=(2, None))
M = param("M", positive=True, default=oo)
w_star = random("w_star", Bernoulli(0.1), latex="w^*")
xi = random("xi", Normal(0, sigma2))
u, v = state("u v")
f, f_star = field("f f_star")
g, g_star = gradient("g g_star")
y = symbol("y")

step = 1 / (1 + exp(1 / (Abs(y) - M) - 1 / (1 + M - Abs(y))))  # the smooth step η(|y| − M) between M and M + 1
eta_M = Piecewise((y, Abs(y) <= M), (0, Abs(y) >= M + 1), ((1 - step) * y, True))
slope = eta_M.diff(y)  # η'_M
w = (eta_M.subs(y, u**L) - eta_M.subs(y, v**L)) / L

model = Flow(
    "dln_flow",
    state={u: alpha, v: alpha},
    weights=[w, w_star],
    fields=[f, f_star],
    loss_gradient=[f - f_star - xi, 0],
    gradients=[g, g_star],
    drift={
        u: -(lam * u + u**(L - 1) * g * slope.subs(y, u**L)) / 2,
        v: -(lam * v - v**(L - 1) * g * slope.subs(y, v**L)) / 2,
    },
    defaults={alpha: 0.3, delta: 0.5, lam: 0, sigma2: 0, L: 2},
    observables={"E_train": E((f - f_star - xi)**2), "E_test": E((w - w_star)**2) + sigma2},
    cite="nishiyama2026precise",
)
