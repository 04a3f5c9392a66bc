"""Random recurrent network with an excitatory and an inhibitory population of their own coupling statistics.

A neuron of population a ∈ {e, i} of x_a' = −x_a + h_a + Σ_b Σ_j J_ab,j tanh x_b,j, the couplings from population b having mean
J_ab/N_b, negative for b = i, and variance g_ab²/N_b: its input is Gaussian, with the mean rates in its mean and the
correlations of the rates of both populations in its covariance.
"""

from sympy import tanh

from eqsolve import GP, E, Eq, System, correlation, function, param, process, random, times
from eqsolve.laws import Normal

t, tp = times("t t'")
g_ee, g_ei, g_ie, g_ii = param("g_ee g_ei g_ie g_ii", nonnegative=True, about="spread of the couplings g_ab to a from b")
J_ee, J_ei, J_ie, J_ii = param("J_ee J_ei J_ie J_ii", nonnegative=True, about="size of the mean coupling J_ab to a from b")
h_e, h_i = param("h_e", about="input to excitatory neurons"), param("h_i", about="input to inhibitory neurons")
x_e, x_i, eta_e, eta_i = process("x_e x_i eta_e eta_i")
r_e, r_i = function("r_e r_i")
C_e, C_i, F_e, F_i = correlation("C_e C_i F_e F_i")
x0_e = random("x0_e", Normal(0, 1), about="an excitatory neuron at the start")
x0_i = random("x0_i", Normal(0, 1), about="an inhibitory neuron at the start")

model = System(
    "rnn_ei",
    eqs=[
        Eq(C_e(t, tp), E(x_e(t) * x_e(tp))),
        Eq(C_i(t, tp), E(x_i(t) * x_i(tp))),
        Eq(F_e(t, tp), E(tanh(x_e(t)) * tanh(x_e(tp)))),
        Eq(F_i(t, tp), E(tanh(x_i(t)) * tanh(x_i(tp)))),
        Eq(r_e(t), E(tanh(x_e(t)))),
        Eq(r_i(t), E(tanh(x_i(t)))),
        Eq(x_e(t).diff(t), -x_e(t) + eta_e(t)),
        Eq(x_i(t).diff(t), -x_i(t) + eta_i(t)),
    ],
    laws={
        eta_e: GP(g_ee**2 * F_e(t, tp) + g_ei**2 * F_i(t, tp), h_e + J_ee * r_e(t) - J_ei * r_i(t)),
        eta_i: GP(g_ie**2 * F_e(t, tp) + g_ii**2 * F_i(t, tp), h_i + J_ie * r_e(t) - J_ii * r_i(t)),
    },
    init={x_e: x0_e, x_i: x0_i},
    defaults={g_ee: 1, g_ei: 1.5, g_ie: 1, g_ii: 1, J_ee: 1, J_ei: 1.5, J_ie: 1.2, J_ii: 1, h_e: 0.5, h_i: 0.3},
    observables={"q_e": C_e(t, t), "q_i": C_i(t, t)},
    cite="kadmon2015transition",
)
