"""The Mackey–Glass equation, a delay differential equation of the density of blood cells.

Production with the delay τ, y' = β y(t − τ)/(1 + y(t − τ)ⁿ) − γ y, from a constant past. At the defaults it is chaotic: two
solutions that differ by ε part at t of some hundreds.
"""

from eqsolve import Eq, System, function, param, times

t = times("t")
beta = param("beta", positive=True, about="rate of production")
gamma = param("gamma", positive=True, about="rate of loss")
n = param("n", positive=True, about="steepness of the feedback")
tau = param("tau", positive=True, about="delay")
y0 = param("y0", positive=True, about="value up to the start")
y = function("y")

model = System(
    "mackey_glass",
    eqs=[Eq(y(t).diff(t), beta * y(t - tau) / (1 + y(t - tau)**n) - gamma * y(t))],
    init={y: y0},
    defaults={beta: 0.2, gamma: 0.1, n: 10, tau: 17, y0: 1.2},
    cite="mackey1977oscillation",
)
