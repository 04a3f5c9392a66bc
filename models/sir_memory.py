"""Epidemic with memory: a gamma-distributed time from infection to infecting others.

Kermack and McKendrick's renewal equation, S' = −I_new with I_new = β S ∫ K(s) I_new(t − s) ds. K is the density of the
generation time, of mean `T_g` and shape `shape`. A fraction ε is infected at t = 0. In the end log(S/(1 − ε)) = −β (1 − S),
whatever K.
"""

from sympy import exp, gamma

from eqsolve import Eq, Int, System, function, param, times

t, s = times("t s")
beta = param("beta", positive=True, about="persons infected by one, at the start")
T_g = param("T_g", positive=True, about="mean time from an infection to the next")
shape = param("shape", domain=(1, None), about="shape of the law of that time")
epsilon = param("epsilon", domain=(0, 1), about="fraction infected at the start")
S, I_new = function("S I_new")


def K(age):
    return (shape / T_g)**shape * age**(shape - 1) * exp(-shape * age / T_g) / gamma(shape)


model = System(
    "sir_memory",
    eqs=[
        Eq(S(t).diff(t), -I_new(t)),
        Eq(I_new(t), beta * S(t) * (epsilon * K(t) + Int(K(s) * I_new(t - s), (s, 0, t)))),
    ],
    init={S: 1 - epsilon},
    defaults={beta: 2.5, T_g: 5, shape: 3, epsilon: 0.001},
    cite="kermack1927contribution",
)
