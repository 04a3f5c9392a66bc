"""Many species with random interactions and the noise of births and deaths, by which species die out.

The generalised Lotka–Volterra model with demographic noise and an influx ι of every species (Altieri, Roy, Cammarota and
Biroli), N_i' = N_i (1 − N_i − Σ_j a_ij N_j) + ι + √(2T N_i) ξ_i in Itô's sense: the variance of births and deaths in a short
time is proportional to the abundance. Where ι < T paths reach zero.
"""

from sympy import sqrt

from eqsolve import GP, E, Eq, Int, Resp, System, White, correlation, function, param, process, random, response, times
from eqsolve.laws import Uniform

t, tp, s = times("t t' s")
mu = param("mu", latex=r"\mu", about="mean interaction, times the number of species")
sigma = param("sigma", nonnegative=True, about="standard deviation of the interactions, times the root of that number")
gamma = param("gamma", domain=(-1, 1), about="correlation of a_ij and a_ji: -1 predator and prey, 1 symmetric")
iota = param("iota", nonnegative=True, latex=r"\iota", about="immigration of a species per time")
T = param("T", positive=True, about="strength of the noise of births and deaths")
N, z, xi = process("N z xi")
m = function("m")
C = correlation("C")
R = response("R")
N0 = random("N0", Uniform(0.5, 1.5), latex="N_0", about="abundance of a species at the start")

model = System(
    "lotka_volterra_demographic",
    eqs=[
        Eq(m(t), E(N(t))),
        Eq(C(t, tp), E(N(t) * N(tp))),
        Eq(R(t, tp), E(Resp(N(t), z(tp)))),
        Eq(N(t).diff(t),
           N(t) * (1 - N(t) - mu * m(t) + z(t) + gamma * sigma**2 * Int(R(t, s) * N(s), (s, 0, t))) + iota
           + sqrt(2 * T * N(t)) * xi(t)),
    ],
    laws={z: GP(sigma**2 * C(t, tp)), xi: White(1, sense="ito")},
    init={N: N0},
    defaults={mu: 1, sigma: 0.5, gamma: 0, iota: 0.05, T: 0.1},
    observables={"q": C(t, t)},
    cite="altieri2021properties",
)
