"""Random recurrent network of rate neurons with white noise at every neuron.

One neuron x' = −x + η + ξ of the network of `rnn`, each neuron with independent white noise of strength 2D beside its
input. Noise suppresses the chaos of gains above one.
"""

from sympy import tanh

from eqsolve import GP, E, Eq, System, White, correlation, param, process, random, times
from eqsolve.laws import Normal

t, tp = times("t t'")
gain = param("gain", nonnegative=True, latex="g", about="gain: standard deviation of the couplings, times √N")
D = param("D", nonnegative=True, about="strength of the white noise, of variance 2D")
x, eta, xi = process("x eta xi")
C = correlation("C")
x0 = random("x0", Normal(0, 1), latex="x_0", about="a neuron at the start")

model = System(
    "noisy_rnn",
    eqs=[
        Eq(C(t, tp), E(x(t) * x(tp))),
        Eq(x(t).diff(t), -x(t) + eta(t) + xi(t)),
    ],
    laws={eta: GP(gain**2 * E(tanh(x(t)) * tanh(x(tp)))), xi: White(2 * D)},
    init={x: x0},
    defaults={gain: 0.8, D: 0.25},
    observables={"phi2": E(tanh(x(t))**2), "q": C(t, t)},
    cite="schuecker2018optimal",
)
