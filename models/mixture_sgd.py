"""Stochastic gradient descent of a linear classifier of two Gaussian clouds, with batches.

Inputs x = ± v/√d + √Δ z with the sign c as label, logistic loss, weight decay λ (Mignacco, Krzakala, Urbani and Zdeborová).
What the Gaussian part z does is derived. In units of √Δ, the centres of the clouds add c m/√Δ, m = E[w v], to the field of a
sample, and along v the mean μ of c/√Δ times the loss gradient to the gradient. At every step each sample is in the batch with
probability ``batch``; its gradient is divided by it. ``E_gen`` is the share of fresh inputs on the wrong side.
"""

from sympy import erfc, exp, log, sqrt, tanh

from eqsolve import E, Eq, Flow, field, function, gradient, param, random, state
from eqsolve.laws import Discrete, Normal

delta = param("delta", positive=True, about="samples per dimension, n/d")
Delta = param("Delta", positive=True, about="variance of the clouds")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
batch = param("batch", positive=True, domain=(0, 1), about="probability that a sample is in a batch")
w_0 = random("w_0", Normal(0, 0.01), about="a weight at the start")
v = random("v", Normal(0, 1), about="a coordinate of the centre of a cloud")
c = random("c", Discrete([1, -1], [0.5, 0.5]), about="the cloud, and label, of a sample")
w, f, g = state("w"), field("f"), gradient("g")

noise = Flow(
    "noise",
    state={w: w_0},
    weights=[w],
    fields=[f],
    loss_gradient=[(tanh(c * sqrt(Delta) * f / 2) - 1) * c * sqrt(Delta) / 2],
    gradients=[g],
    drift={w: -(g + lam * w)},
    defaults={delta: 2, Delta: 0.5, lam: 0.1, batch: 0.3},
    observables={"train_loss": E(log(1 + exp(-c * sqrt(Delta) * f))), "q": E(w**2)},
).sgd(batch=batch).dmft()

w, f, g, s, t = noise.symbols("w f g s t")
step = param("step", positive=True, about="length of a step, the learning rate")
m, mu = function("m mu")
pull = (tanh(c * sqrt(Delta) * f(t) / 2) - 1) * s(t) / batch / 2  # the loss gradient of a sample, times its label, over √Δ

model = noise.replace(
    "mixture_sgd",
    eqs=[
        Eq(m(t), E(v * w(t))),
        Eq(f(t), noise["f"].rhs + c * m(t) / sqrt(Delta)),
        Eq(mu(t), E(pull)),
        Eq(g(t), noise["g"].rhs + v * mu(t)),
    ],
    observables={"E_gen": erfc(m(t) / sqrt(2 * Delta * E(w(t)**2))) / 2},
    defaults={step: 0.2},
    cite="mignacco2020dynamical",
)
