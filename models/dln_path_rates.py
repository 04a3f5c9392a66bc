"""With weight decay the loss decays more slowly than any exponential: a law of rates, one per coordinate.

R(p) is p times the Laplace transform of R_w near the fixed point of case (i). Its singularity is the edge p = 0, since
|w| has a density down to 0. A coordinate with w ≠ 0 relaxes at the root of p + |w|(1 − R̄_f(p)) = 0, which is
p + R = −|w|; one with w = 0 at λ − |g| (`rest_rate`). `eqsolve.path_rates("dln_path_rates")` gives the law of both.
"""

from sympy import Abs

from eqsolve import E, Eq, Singularity, param, random, unknown

delta = param("delta", positive=True, about="samples per dimension, n/d")
lam = param("lam", nonnegative=True, latex=r"\lambda", about="weight decay")
p, R = unknown("p R")
w = random("w", about="a weight in the limit of long times")  # its law comes from the fixed point
x = Abs(w)

model = Singularity(
    "dln_path_rates",
    transform=Eq(R, (p + R) / delta * E(x / (p + R + x))),
    variable=p,
    unknown=R,
    law_of="dln_fixed_point_l1_paths",
    defaults={delta: 0.5, lam: 0.1},
    conditions=[lam > 0],
    observables={"gamma": -p},
    variables={"pole": p + R + x},
    cite="nishiyama2026precise",
)
