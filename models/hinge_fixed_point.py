"""Where a perceptron with the squared hinge loss ends: argmin (1/δ) Σ max(0, κ − y x·w)²/2 + λ|w|²/2.

The equations of `logistic_fixed_point` with another loss, for labels y = sign(x·w*) without flips: the limit of long times of
`perceptron_hinge`. A sample below the margin goes to (h + κV)/(1 + V), the others stay where they are.
"""

from sympy import Max, Piecewise, erf, pi, sqrt

from eqsolve import E, Eq, load, normal, param

logistic = load("logistic_fixed_point")
delta, lam, flip, m, sigma2, V, rho2 = logistic.symbols("delta lam flip m sigma2 V rho2")
kappa = param("kappa", positive=True, about="margin: larger ones cost nothing")
G = normal("G")

q = sigma2 + m**2 / rho2
weight = 1 + erf(m * G / sqrt(2 * rho2 * sigma2))


def force(h):  # what a sample pulls with once it is learned, κ less its margin
    return Max(0, kappa - h) / (1 + V)


stays = Piecewise((1 / (1 + V), sqrt(q) * G < kappa), (1, True))

model = logistic.subs({flip: 0}).replace(
    "hinge_fixed_point",
    eqs=[
        Eq(m, sqrt(2 / pi) * sqrt(rho2) * delta * V * E(force(sqrt(sigma2) * G))),
        Eq(sigma2, delta * V**2 * E(weight * force(sqrt(q) * G)**2)),
        Eq(lam * V, 1 / delta - 1 + E(weight * stays)),
    ],
    defaults={kappa: 1},
    observables={"train_loss": E(weight * force(sqrt(q) * G)**2) / 2, "E_test": None},
    flow="perceptron_hinge",
    cite="cortes1995support",
)
