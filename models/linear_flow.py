"""Ridge regression by gradient flow at finite n and d; its limit is ``linear_regression``.

w' = −g − λw from 0 on labels Xw* + ξ, g = Xᵀ(Xw − Xw* − ξ)/δ.
"""

from eqsolve import E, Flow, field, gradient, param, random, state
from eqsolve.laws import Normal

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
rho2 = param("rho2", nonnegative=True, latex=r"\rho^2", about="variance of the teacher's weights")
sigma2 = param("sigma2", nonnegative=True, latex=r"\sigma^2", about="variance of the label noise")
w_star = random("w_star", Normal(0, rho2), latex="w^*", about="a weight of the teacher")
xi = random("xi", Normal(0, sigma2), about="label noise")
w = state("w")
f, f_star = field("f f_star")
g, g_star = gradient("g g_star")

model = Flow(
    "linear_flow",
    state={w: 0},
    weights=[w, w_star],
    fields=[f, f_star],
    loss_gradient=[f - f_star - xi, 0],
    gradients=[g, g_star],
    drift={w: -g - lam * w},
    defaults={delta: 0.5, lam: 0.1, rho2: 0.1, sigma2: 0.1},
    observables={"E_train": E((f - f_star - xi)**2), "E_test": E((w - w_star)**2) + sigma2},
)
