"""Random recurrent network of rate neurons: the mean-field equation of Sompolinsky, Crisanti and Sommers.

One neuron x' = −x + η of a large network x_i' = −x_i + Σ_j J_ij tanh x_j with independent couplings of variance g²/N:
its input is Gaussian, with the network's own correlation of rates as covariance. Chaotic for g > 1.
"""

from sympy import tanh

from eqsolve import GP, E, Eq, System, correlation, param, process, random, times
from eqsolve.laws import Normal

t, tp = times("t t'")
gain = param("gain", nonnegative=True, latex="g", about="gain: standard deviation of the couplings, times √N")
x, eta = process("x eta")
C = correlation("C")
x0 = random("x0", Normal(0, 1), latex="x_0", about="a neuron at the start")

model = System(
    "rnn",
    eqs=[
        Eq(C(t, tp), E(x(t) * x(tp))),
        Eq(x(t).diff(t), -x(t) + eta(t)),
    ],
    laws={eta: GP(gain**2 * E(tanh(x(t)) * tanh(x(tp))))},
    init={x: x0},
    defaults={gain: 0.8},
    observables={"phi2": E(tanh(x(t))**2), "q": C(t, t)},
    cite="sompolinsky1988chaos",
)
