"""Gradient flow of a diagonal linear network of L layers at finite n and d (eq. gf_truncated_dln).

The network is f(x) = wᵀx, w = (η_M(u^L) − η_M(v^L))/L, where η_M cuts off smoothly between M and M + 1; M =
∞, the default, leaves the network as it is. The drift of v is printed as −½(−λv + v^{L−1} g η'_M(v^L)) in
the DMFT equation, which keeps u = v for ever; it is −½(λv − v^{L−1} g η'_M(v^L)). The truncation is
inactive while |u|^L ≤ M (printed: |u| ≤ M).
"""

from sympy import Piecewise, exp, oo

from eqsolve import E, Flow, field, gradient, param, random, state, symbol
from eqsolve.laws import Bernoulli, Normal

alpha = param("alpha", positive=True, about="size of the weights at the start")
delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")
L = param("L", integer=True, positive=True, domain=(2, None), about="number of layers")
M = param("M", domain=(0, oo), about="where the weights are cut off; inf: nowhere")
w_star = random("w_star", Bernoulli(0.1), latex="w^*", about="a weight of the teacher")
xi = random("xi", Normal(0, sigma2), about="label noise")
u, v = state("u v")
f, f_star = field("f f_star")
g, g_star = gradient("g g_star")
y = symbol("y")



def cut(s):
    """Return the smooth step from 1 at s = 0 to 0 at s = 1."""
    return Piecewise((1, s <= 0), (0, s >= 1), (exp(-1 / (1 - s)) / (exp(-1 / s) + exp(-1 / (1 - s))), True))


eta_M = y * cut(y - M) * cut(-y - M)
w = (eta_M.subs(y, u**L) - eta_M.subs(y, v**L)) / L
slope_u, slope_v = (eta_M.diff(y).subs(y, item**L) for item in (u, v))  # η'_M

model = Flow(
    "dln_flow",
    state={u: alpha, v: alpha},
    weights=[w, w_star],
    fields=[f, f_star],
    loss_gradient=[f - f_star - xi, 0],
    gradients=[g, g_star],
    drift={
        u: -(lam * u + u**(L - 1) * g * slope_u) / 2,
        v: -(lam * v - v**(L - 1) * g * slope_v) / 2,
    },
    defaults={alpha: 0.3, delta: 0.5, lam: 0, sigma2: 0, L: 2, M: oo},
    observables={
        "E_train": E((f - f_star - xi)**2),
        "E_test": E((w - w_star)**2) + sigma2,
        "loss": E((f - f_star - xi)**2) / 2 + lam / 2 * E(u**2 + v**2),
        "overlap": E(w * w_star),
        "l1": E(abs(w)),
    },
    variables={"w": w, "slope_u": slope_u, "slope_v": slope_v},
    cite="nishiyama2026precise",
)
