"""Many species with random interactions and immigration: where abundances go on fluctuating for ever.

The generalised Lotka–Volterra model with a small influx ι of every species, N_i' = N_i (1 − N_i − Σ_j a_ij N_j) + ι, which
keeps species from dying out: beyond σ = √2/(1 + γ) the community is chaotic (Roy, Biroli, Bunin and Cammarota).
"""

from sympy import exp, log

from eqsolve import GP, E, Eq, Int, Resp, System, correlation, function, param, process, random, response, times
from eqsolve.laws import Uniform

t, tp, s = times("t t' s")
mu = param("mu", latex=r"\mu", about="mean interaction, times the number of species")
sigma = param("sigma", nonnegative=True, about="standard deviation of the interactions, times the root of that number")
gamma = param("gamma", domain=(-1, 1), about="correlation of a_ij and a_ji: -1 predator and prey, 1 symmetric")
iota = param("iota", positive=True, latex=r"\iota", about="immigration of a species per time")
N, x, z = process("N x z")
m = function("m")
C = correlation("C")
R = response("R")
N0 = random("N0", Uniform(0.5, 1.5), latex="N_0", about="abundance of a species at the start")

model = System(
    "lotka_volterra_immigration",
    eqs=[
        Eq(m(t), E(N(t))),
        Eq(C(t, tp), E(N(t) * N(tp))),
        Eq(R(t, tp), E(Resp(N(t), z(tp)))),
        Eq(N(t).diff(t),
           N(t) * (1 - N(t) - mu * m(t) + z(t) + gamma * sigma**2 * Int(R(t, s) * N(s), (s, 0, t))) + iota),
    ],
    laws={z: GP(sigma**2 * C(t, tp))},
    init={N: N0, x: log(N0)},
    substitute={N: exp(x(t))},
    defaults={mu: 4, sigma: 2, gamma: 0, iota: 0.01},
    observables={"q": C(t, t)},
    cite="roy2019numerical",
)
