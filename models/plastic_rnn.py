"""Random recurrent network whose synapses follow the activity: coupled dynamics of neurons and synapses.

One neuron of x_i' = −x_i + Σ_j (J_ij + A_ij) φ(x_j), φ = tanh, with random J_ij of variance g²/N and synapses
p A_ij' = −A_ij + (k/N) φ_i φ_j from A = 0 (Clark and Abbott). They give a neuron back its own past, weighted by the network's
correlation F of rates: Hebbian ones (k > 0) slow the chaos down, anti-Hebbian ones (k < 0) quicken it.
"""

from sympy import exp, tanh

from eqsolve import GP, E, Eq, Int, System, correlation, param, process, random, times
from eqsolve.laws import Normal

t, tp, s = times("t t' s")
gain = param("gain", nonnegative=True, latex="g", about="gain: standard deviation of the fixed couplings, times √N")
k = param("k", about="strength of the plasticity: positive Hebbian, negative anti-Hebbian")
p = param("p", positive=True, about="time constant of the synapses")
x, eta = process("x eta")
C, F = correlation("C F")
x0 = random("x0", Normal(0, 1), latex="x_0", about="a neuron at the start")

model = System(
    "plastic_rnn",
    eqs=[
        Eq(C(t, tp), E(x(t) * x(tp))),
        Eq(F(t, tp), E(tanh(x(t)) * tanh(x(tp)))),
        Eq(x(t).diff(t), -x(t) + eta(t) + k / p * Int(exp(-(t - s) / p) * F(t, s) * tanh(x(s)), (s, 0, t))),
    ],
    laws={eta: GP(gain**2 * F(t, tp))},
    init={x: x0},
    defaults={gain: 2, k: 0.5, p: 2},
    observables={"rate2": F(t, t), "q": C(t, t)},
    cite="clark2024theory",
)
