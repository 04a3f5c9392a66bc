"""Jumps are told from kinks."""

import pytest
from sympy import Abs, And, Heaviside, Max, Min, Piecewise, Symbol, exp, sign, symbols, tanh

import eqsolve
from eqsolve import GP, E, Eq, ModelError, Resp, System, process, response, times
from eqsolve.passes.forms.kinks import jumps

f, y = symbols("f y", real=True)
k = Symbol("k", positive=True)

CONTINUOUS = {
    "cut off": Max(-k, Min(k, f - y)),
    "squared hinge": -sign(y) * Max(0, 1 - sign(y) * f),
    "no jump after all": f * Heaviside(f),
    "size": (f - y) * sign(f - y),
    "pieces that meet": Piecewise((f**2, f < 1), (2 * f - 1, True)),
    "three pieces": Piecewise((f, And(f < k, f > -k)), (k * sign(f), True)),
    "in another variable": tanh(f) - sign(y),
    "flat of all orders": Piecewise((exp(-1 / f), f > 0), (0, True)),
    "Huber": Piecewise(((f - y) ** 2 / 2, Abs(f - y) < k), (k * Abs(f - y) - k**2 / 2, True)),
}
JUMPING = {
    "sign": sign(f - y),
    "hinge": -sign(y) * Heaviside(1 - sign(y) * f),
    "active or not": (Max(0, f) - Max(0, y)) * Heaviside(f),
    "pieces apart": Piecewise((0, f > 1), (-1, True)),
    "pieces that do not meet": Piecewise((f, Abs(f) < k), (2 * k * sign(f), True)),
    "two places": sign(f**2 - 4),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_kinks_do_not_jump(name: str) -> None:
    assert jumps(CONTINUOUS[name], [f]) is None


@pytest.mark.parametrize("name", JUMPING)
def test_jumps_are_found(name: str) -> None:
    assert jumps(JUMPING[name], [f]) is not None


def test_a_response_of_a_jump_is_refused_where_it_stands() -> None:
    t, tp = times("t t'")
    x, z = process("x z")
    R = response("R")
    eqs = [Eq(x(t).diff(t), -x(t) + z(t)), Eq(R(t, tp), E(Resp(sign(x(t)), z(tp))))]
    system = System("signs", eqs=eqs, laws={z: GP(1 + t * tp)}, init={x: 0}, observables={"q": E(x(t) ** 2)})
    with pytest.raises(ModelError, match=r"equation for `R` \(test_jumps\.py:\d+\) .* jumps where `x\(t\)` = 0"):
        eqsolve.check(system)
    cases = Piecewise((-1, x(t) > 0), (1, True))
    stuck = System("stuck", eqs=[Eq(x(t).diff(t), z(t) + cases)], laws={z: GP(1 + t * tp)}, init={x: 0})
    with pytest.raises(ModelError, match=r"equation for `x` \(test_jumps\.py:\d+\) jumps where `x\(t\)` = 0"):
        eqsolve.check(stuck)
