"""Descent phase of a small initialization: the DMFT system in the time t/log(1/α) (rescaled eq. dmft_dln).

With T = log(1/α), time is t/T and the responses are those of eq. dmft_dln times T, from which the system is derived here.
Functional derivatives are taken in the rescaled time too, which makes ∂w/∂z larger by the factor T. R_w is printed as
−T E[∂w/∂z], which counts T twice; it is −E[∂w/∂z].

A coordinate that is still small grows or dies by G' = z/δ − w* + w* ∫R_f alone: it is activated (w of order one) when
`growth` = |G| − λt reaches 2, at a time t_c of its own. Printed with the modulus inside the integral, corrected to |∫…|.
`eqsolve.phases.activation_times(result, "growth", 2)` gives t_c path by path.
"""

from sympy import log

from eqsolve import Eq, Int, load, process

dln = load("dln")
t, s, alpha, delta, lam, w_star, z, R_w, R_f = dln.symbols("t s alpha delta lam w_star z R_w R_f")
G, growth = process("G growth")
T = -log(alpha)

model = dln.rescale_time(1 / T).rescale_unknown({R_w: 1 / T, R_f: 1 / T}).replace(
    "dln_descent",
    eqs=[
        Eq(G(t).diff(t), z(t) / delta - w_star + Int(R_f(t, s) * w_star, (s, 0, t))),
        Eq(growth(t), abs(G(t)) - lam * t),
    ],
    init={G: 0},
    defaults={alpha: 0.1},
    conditions=[alpha < 1],
    observables={"loss": None, "overlap": None, "l1": None},
)
