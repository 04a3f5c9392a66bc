"""One cause, one message: what follows from a wrong or missing left-hand side is not reported again."""

import pytest

import eqsolve
from eqsolve import GP, E, Eq, FixedPoint, Int, Resp, System, correlation, param, process, response, times, unknown
from eqsolve.errors import ModelError

t, tp, s = times("t t' s")
x, z, h = process("x z h")
C, D = correlation("C D")
R = response("R")
a = param("a")
SOUND = {
    "C": Eq(C(t, tp), E(x(t) * x(tp))),
    "R": Eq(R(t, tp), E(Resp(x(t), z(tp)))),
    "h": Eq(h(t), z(t) + Int(R(t, s) * x(s), (s, 0, t))),
    "x": Eq(x(t).diff(t), -x(t) + h(t)),
}
WRONG = {
    "a sum": ("x", Eq(x(t) + 1, h(t)), "solve it for `x(t)` and write Eq(x(t), ...)"),
    "a balance": ("x", Eq(x(t).diff(t) + x(t), h(t)), "write Eq(x(t).diff(t), ...)"),
    "a factor": ("x", Eq(-2 * x(t).diff(t), x(t) - h(t)), "write Eq(x(t).diff(t), ...)"),
    "sides exchanged": ("x", Eq(h(t) - x(t), x(t).diff(t)), "exchange its two sides"),
    "an expectation": ("C", Eq(E(x(t) * x(tp)), C(t, tp)), "exchange its two sides"),
    "a parameter": ("x", Eq(a, x(t)), "defines the parameter `a`"),
    "a number": ("h", Eq(0, h(t) - z(t)), "names no unknown"),
    "the diagonal": ("C", Eq(C(t, t), E(x(t) * x(tp))), "the same time twice on its left"),
    "a fixed time": ("C", Eq(C(t, 0), E(x(t) * x(tp))), "expected time variables there"),
    "the start": ("x", Eq(x(0), 1), "a value at the start belongs into init="),
    "the second time": ("R", Eq(R(t, tp).diff(tp), -R(t, tp)), "a derivative in the second time"),
    "another name": ("C", Eq(D(t, tp), E(x(t) * x(tp))), "uses `C(t, t')`, which nothing defines"),
    "none": ("x", None, "uses `x(t)`, which nothing defines"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_left_hand_side_is_reported_once(name):
    place, equation, said = WRONG[name]
    changed = {**SOUND, place: equation}
    model = System(
        "m",
        eqs=[item for item in changed.values() if item is not None],
        laws={z: GP(C(t, tp))},
        init={x: 1},
        observables={"size": C(t, t), "mean": E(x(t))},
    )
    with pytest.raises(ModelError) as caught:
        eqsolve.check(model)
    (problem,) = caught.value.problems
    assert said in problem
    assert "solve refuses this: model `m`" in eqsolve.explain(model).text()


def test_a_name_that_nothing_defines_lists_its_places():
    model = System("m", eqs=list(SOUND.values())[:3], laws={z: GP(C(t, tp))}, init={x: 1})
    with pytest.raises(ModelError, match=r"\(so do equation for `R` \(.*\) and equation for `h` \(.*\)\)$"):
        eqsolve.check(model)


def test_two_independent_mistakes_are_two_messages():
    eqs = [Eq(x(t) + 1, h(t)), SOUND["h"], SOUND["C"], Eq(R(t, t), 0)]
    with pytest.raises(ModelError) as caught:
        eqsolve.check(System("m", eqs=eqs, laws={z: GP(C(t, tp))}, init={x: 1}))
    assert len(caught.value.problems) == 2


def test_a_start_written_as_an_equation_is_sent_to_init():
    with pytest.raises(ModelError, match=r"a value at the start belongs into init=\{x: \.\.\.\}"):
        System("m", eqs=[Eq(x(t).diff(t), -x(t)), Eq(x(0), 1)])


def test_an_unknown_in_no_equation_is_one_problem():
    q, r = unknown("q r")
    with pytest.raises(ModelError) as caught:
        eqsolve.check(FixedPoint("f", eqs=[Eq(q, a)], observables={"o": r}))
    (problem,) = caught.value.problems
    assert "has the unknown `r`, which appears in no equation" in problem


def test_two_starts_of_one_function_are_refused():
    with pytest.raises(ModelError, match="init= gives `x` two values, `1` and `2`"):
        System("m", eqs=[Eq(x(t).diff(t), -x(t))], init={x: 1, x(0): 2})
