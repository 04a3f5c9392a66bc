"""Phase oscillators with random couplings of both signs: one oscillator in the field of all others.

θ_i' = ω_i + Σ_j J_ij sin(θ_j − θ_i) with Gaussian J_ij of variance J²/N and corr(J_ij, J_ji) = γ, from uniform phases (Prüser,
Rosmej and Engel for γ = 1). The others act through the field (a, b) = Σ_j J_ij (cos θ_j, sin θ_j), Gaussian but for what they
give back of the oscillator itself. By rotations both components are alike: C = ⟨cos(θ − θ')⟩, R the response of one of them.
``shape`` = ⟨r⁴⟩/⟨r²⟩² of the local field r² = a² + b² is 2 if it is Gaussian; it falls where small fields become rare, until
the density of (a, b) has a crater at zero, a volcano.
"""

from sympy import cos, pi, sin

from eqsolve import GP, E, Eq, Int, Resp, System, correlation, param, process, random, response, times
from eqsolve.laws import Normal, Uniform

t, tp, s = times("t t' s")
J = param("J", nonnegative=True, about="standard deviation of the couplings, times √N")
gamma = param("gamma", domain=(-1, 1), about="correlation of J_ij and J_ji: 1 for symmetric couplings")
theta, a, b, xi, zeta = process("theta a b xi zeta")
C = correlation("C")
R = response("R")
omega = random("omega", Normal(0, 1), about="natural frequency")
theta0 = random("theta0", Uniform(0, 2 * pi), latex=r"\theta_0", about="phase at the start")

model = System(
    "kuramoto_glass",
    eqs=[
        Eq(C(t, tp), E(cos(theta(t)) * cos(theta(tp)) + sin(theta(t)) * sin(theta(tp)))),
        Eq(R(t, tp), E(Resp(cos(theta(t)), xi(tp)))),
        Eq(a(t), xi(t) + gamma * J**2 * Int(R(t, s) * cos(theta(s)), (s, 0, t))),
        Eq(b(t), zeta(t) + gamma * J**2 * Int(R(t, s) * sin(theta(s)), (s, 0, t))),
        Eq(theta(t).diff(t), omega + b(t) * cos(theta(t)) - a(t) * sin(theta(t))),
    ],
    laws={xi: GP(J**2 / 2 * C(t, tp)), zeta: GP(J**2 / 2 * C(t, tp))},
    init={theta: theta0},
    defaults={J: 1, gamma: 1},
    observables={
        "field2": E(a(t)**2 + b(t)**2),
        "shape": E((a(t)**2 + b(t)**2)**2) / E(a(t)**2 + b(t)**2)**2,
        "speed2": E((omega + b(t) * cos(theta(t)) - a(t) * sin(theta(t)))**2),
    },
    cite="pruser2024nature",
)
