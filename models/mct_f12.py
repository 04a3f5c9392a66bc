"""Mode-coupling theory of the glass transition, the schematic F12 model.

A density correlator φ(t) with the memory kernel m = v1 φ + v2 φ². In the glass, φ stays at the nonergodicity parameter of
`mct_f12_plateau`; on the line v1 = 2√v2 − v2 (1 ≤ v2 ≤ 4) it begins to.
"""

from eqsolve import Eq, Int, System, function, param, times

t, s = times("t s")
v1 = param("v1", nonnegative=True, about="linear coupling in the memory kernel")
v2 = param("v2", nonnegative=True, about="quadratic coupling in the memory kernel")
phi = function("phi")

model = System(
    "mct_f12",
    eqs=[
        Eq(phi(t).diff(t), -phi(t) - Int((v1 * phi(t - s) + v2 * phi(t - s)**2) * phi(s).diff(s), (s, 0, t))),
    ],
    init={phi: 1},
    defaults={v1: 1, v2: 1.5},
    cite="gotze2009complex",
)
