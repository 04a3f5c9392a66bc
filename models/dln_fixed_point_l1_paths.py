"""Limit of gradient flow with weight decay, with how fast each coordinate that ends at zero gets there.

Case (i) of the fixed point, as in `dln_fixed_point_l1`. A coordinate that ends at w = 0 does so as e^{−(λ − |g|)t}, where
|g| = |observation|/(1 + χ_w) ≤ λ: the closer its observation to the threshold, the slower.
"""

from sympy import Abs

from eqsolve import load

l1 = load("dln_fixed_point_l1")
lam, chi_w = l1.symbols("lam chi_w")
observation = l1.variables["observation"]

model = l1.replace(
    "dln_fixed_point_l1_paths", variables={"rest_rate": lam - Abs(observation) / (1 + chi_w)}
)
