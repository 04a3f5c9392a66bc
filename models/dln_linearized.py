"""Two-layer diagonal network near its limit, without weight decay: the linearised DMFT system.

With w(t) = w + Δw(t), the preconditioner x = √(w² + α⁴) stays at its final value and Δw' = −xΔg (the paper's section on
convergence rates). The responses are functions of t − t', and their Laplace transforms obey
R̄_w = ((1 + R̄_w)/δ) E[x/(p(1 + R̄_w) + x)] and R̄_f = R̄_w/(1 + R̄_w) (eq. barRw), which `eqsolve.laplace` derives from
this file. The law of w is the one of the fixed point; for δ > 1 and σ² = 0 it is the target's, the default here. The
perturbation starts from one in every coordinate.
"""

from sympy import sqrt

from eqsolve import GP, E, Eq, Int, Resp, System, correlation, param, process, random, response, times
from eqsolve.laws import Bernoulli

t, tp, s = times("t t' s")
alpha = param("alpha", positive=True, about="size of the weights at the start")
delta = param("delta", positive=True, about="samples per dimension, n/d")
w = random("w", Bernoulli(0.1), about="a weight in the limit of long times")
dw = process("dw", latex=r"\Delta w")
dg = process("dg", latex=r"\Delta g")
dz = process("dz", latex=r"\Delta z")
C_w, C_f = correlation("C_w C_f")
R_w, R_f = response("R_w R_f")
x = sqrt(w**2 + alpha**4)

model = System(
    "dln_linearized",
    eqs=[
        Eq(C_w(t, tp), E(dw(t) * dw(tp))),
        Eq(R_w(t, tp), -E(Resp(dw(t), dz(tp)))),
        Eq(C_f(t, tp), C_w(t, tp)
           - Int(R_f(tp, s) * C_w(t, s), (s, 0, tp)) - Int(R_w(t, s) * C_f(tp, s), (s, 0, t))),
        Eq(R_f(t, tp), R_w(t, tp) - Int(R_w(t, s) * R_f(s, tp), (s, tp, t))),
        Eq(dg(t), dz(t) / delta + dw(t) - Int(R_f(t, s) * dw(s), (s, 0, t))),
        Eq(dw(t).diff(t), -x * dg(t)),
    ],
    laws={dz: GP(delta * C_f(t, tp))},
    init={dw: 1},
    defaults={alpha: 0.5, delta: 2},
    observables={"E_train": C_f(t, t), "E_test": C_w(t, t)},
    cite="nishiyama2026precise",
)
