"""The diagonal network of L layers from a random start: u(0) and v(0) are drawn, coordinate by coordinate.

With u(0) ≠ v(0) the network starts from a function that is not 0, w(0) = (u(0)^L − v(0)^L)/L. The laws are those of the
constants u_0 and v_0; a fixed unequal start is u_0 ~ Point(a), v_0 ~ Point(b).
"""

from eqsolve import load, param, random, state
from eqsolve.laws import Uniform

alpha = param("alpha", positive=True, about="mean of the weights at the start")
u, v = state("u v")
u_0, v_0 = random("u_0 v_0", Uniform(alpha / 2, 3 * alpha / 2), about="the two layers at the start")

model = load("dln_flow").replace("dln_flow_random_start", state={u: u_0, v: v_0})
