"""Langevin dynamics of the spherical perceptron with random patterns, out of equilibrium.

Weights X on the sphere |X|² = N, M = αN random patterns ξ, gaps h = ξ·X/√N − σ; a negative gap costs v(h) = h²/2 (soft
constraints; for σ < 0 that of spheres packed at random in high dimension). X' = −∂H/∂X − ν X + noise at temperature T, from
random weights. One weight x sees a Gaussian force with memory of its own past, one gap h Gaussian noise with the
correlation C of weights and the response R to its own force.
"""

from sympy import Heaviside, Max

from eqsolve import GP, E, Eq, Int, Resp, System, White, correlation, function, param, process, random, response, times
from eqsolve.laws import Normal

t, tp, s = times("t t' s")
alpha = param("alpha", positive=True, latex=r"\alpha", about="patterns per weight, M/N")
sigma = param("sigma", real=True, latex=r"\sigma", about="margin: a pattern is satisfied where ξ·X/√N > σ")
T = param("T", nonnegative=True, about="temperature")
x, h, Xi, xi, z = process("x h Xi xi z")
nu, k = function("nu k")
C = correlation("C")
R, M = response("R M")
x0 = random("x0", Normal(0, 1), latex="x_0", about="a weight at the start")


def force(h):
    """−v'(h), the force on a gap."""
    return Max(0, -h)


model = System(
    "perceptron_langevin",
    eqs=[
        Eq(C(t, tp), E(x(t) * x(tp))),
        Eq(R(t, tp), E(Resp(x(t), Xi(tp)))),
        Eq(M(t, tp), alpha * E(Resp(force(h(t)), z(tp)))),
        Eq(k(t), alpha * E(Heaviside(-h(t)))),
        Eq(h(t), z(t) - sigma + Int(R(t, s) * force(h(s)), (s, 0, t))),
        Eq(x(t).diff(t), -(nu(t) + k(t)) * x(t) + Int(M(t, s) * x(s), (s, 0, t)) + Xi(t) + xi(t)),
    ],
    laws={z: GP(C(t, tp)), Xi: GP(alpha * E(force(h(t)) * force(h(tp)))), xi: White(2 * T)},
    init={x: x0},
    constraints={nu: Eq(E(x(t)**2), 1)},
    defaults={alpha: 1, sigma: 0, T: 0.3},
    observables={"energy": alpha * E(force(h(t))**2) / 2, "unsatisfied": E(Heaviside(-h(t))), "q": C(t, t)},
    cite="agoritsas2018out",
)
