"""What check says about white noise: where it may not stand, with the place and the reason."""

from pathlib import Path

import pytest

import eqsolve
from eqsolve import ModelError

HEAD = """
from sympy import DiracDelta, exp, sin, sqrt
from eqsolve import GP, E, Eq, Int, Resp, System, White, correlation, function, param, process, random, response, times
from eqsolve.laws import Normal
t, tp, s = times("t t' s")
T = param("T", positive=True)
x, y, xi, z = process("x y xi z")
C, m, R = correlation("C"), function("m"), response("R")
a = random("a", Normal(0, 1))
"""
BODY = """
model = System("m", [{drift}, Eq(C(t, tp), E(x(t) * x(tp))){more}],
    laws={{{laws}}}, init={{x: 0{init}}}, defaults={{T: 1}}, observables={{{observables}}}{rest})
"""
SOUND = {
    "drift": "Eq(x(t).diff(t), -x(t) + xi(t))",
    "more": "",
    "laws": "xi: White(2*T)",
    "init": "",
    "observables": "",
    "rest": "",
}


def checked(folder: Path, **parts: str) -> str:
    path = folder / "m.py"
    path.write_text(HEAD + BODY.format(**{**SOUND, **parts}))
    try:
        eqsolve.check(eqsolve.load(str(path)))
    except ModelError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"drift": "Eq(x(t).diff(t), -x(t) + (1 + sin(t)) * T * xi(t))"},
        {"laws": "xi: White(2*T*(1 + sin(t)**2))"},
        {"laws": "xi: White(C(t, t))"},
        {"more": ", Eq(R(t, tp), E(Resp(x(t), xi(tp))))"},
        {"more": ", Eq(y(t).diff(t), -y(t) + 2 * xi(t))", "init": ", y: a"},
    ],
)
def test_sound_uses_pass(tmp_path: Path, parts: dict[str, str]) -> None:
    assert checked(tmp_path, **parts) == ""


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"drift": "Eq(x(t).diff(t), -x(t) + x(t) * xi(t))"},
         ["equation for `x` (m.py:", "the white noise `xi(t)` by `x(t)`", 'laws={xi: White(2*T, sense="ito")}']),
        ({"drift": "Eq(x(t).diff(t), -x(t) + y(t) * xi(t))", "laws": "xi: White(2*T, sense='ito')",
          "more": ", Eq(y(t).diff(t), -y(t))", "init": ", y: a"}, ["equation for `x` (m.py:", "holds another process"]),
        ({"drift": "Eq(x(t).diff(t), -x(t) + exp(x(t)**3) * xi(t))", "laws": "xi: White(2*T, sense='ito')"},
         ["equation for `x` (m.py:", "no variable with added noise is found in closed form"]),
        ({"drift": "Eq(x(t).diff(t), -x(t) + sqrt(x(t)*(2 - x(t))) * xi(t))", "laws": "xi: White(2*T, sense='ito')"},
         ["equation for `x` (m.py:", "may bring to zero in a finite time"]),
        ({"drift": "Eq(x(t).diff(t), -1 - x(t) + sqrt(x(t)) * xi(t))", "laws": "xi: White(2*T, sense='ito')"},
         ["equation for `x` (m.py:", "a drift that is `-1` at 0"]),
        ({"drift": "Eq(x(t).diff(t), -x(t) + xi(t)**2)"}, ["equation for `x` (m.py:", "not linear in the white noise"]),
        ({"drift": "Eq(x(t).diff(t), -Int(xi(s), (s, 0, t)))"}, ["equation for `x` (m.py:", "under an integral"]),
        ({"more": ", Eq(y(t), xi(t))"}, ["equation for `y` (m.py:", "gives values by the white noise `xi(t)`"]),
        ({"more": ", Eq(m(t), E(x(t) * xi(t)))"}, ["equation for `m` (m.py:", "averages the white noise `xi(t)`"]),
        ({"observables": "'o': E(xi(t)**2)"}, ["observable `o` (m.py:", "reads the white noise `xi(t)`"]),
        ({"laws": "xi: White(1), z: GP(E(xi(t) * xi(tp)))", "drift": "Eq(x(t).diff(t), z(t))"}, ["the law of `z` (m.py:"]),
        ({"laws": "xi: GP(2*T*DiracDelta(t - tp))"}, ["the law of `xi` (m.py:", "laws={xi: White(2*T)}"]),
        ({"laws": "xi: White(x(t)**2)"}, ["the law of `xi` (m.py:", "uses the process `x(t)` outside"]),
        ({"rest": ", substitute={x: sin(y(t))}"}, ["equation for `y` (m.py:", "after the declared change of variable"]),
    ],
)  # fmt: skip
def test_wrong_uses_are_refused_with_place_and_reason(tmp_path: Path, parts: dict[str, str], words: list[str]) -> None:
    said = checked(tmp_path, **parts)
    for word in words:
        assert word in said, said
