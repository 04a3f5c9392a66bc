"""A model is a value: equal by content, hashable, picklable, immutable, with a signature that travels."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from sympy import sqrt

import eqsolve
from eqsolve import E, Eq, FixedPoint, System, correlation, normal, param, process, random, times, unknown
from eqsolve.errors import ModelError
from eqsolve.laws import Normal, Rademacher
from eqsolve.passes.forms.structure import signature_of

ROOT = Path(__file__).resolve().parents[2]
t, tp = times("t t'")


@pytest.fixture(scope="module")
def dln():
    return eqsolve.load("dln")


def test_it_passes_its_check(dln):
    assert eqsolve.check(dln) is None


def test_pickling_gives_an_equal_model(dln):
    again = pickle.loads(pickle.dumps(dln))
    assert again == dln
    assert hash(again) == hash(dln)
    assert signature_of(again) == signature_of(dln)
    assert again["g"].location == dln["g"].location
    assert repr(again.show()) == repr(dln.show())


def test_equality_is_by_content(dln):
    copy = dln.replace("dln")
    assert copy is not dln
    assert copy == dln
    assert hash(copy) == hash(dln)
    assert dln.replace("other") != dln
    lam = dln.symbols("lam")
    assert dln.replace(defaults={lam: 1}) != dln


def test_a_model_does_not_change(dln):
    with pytest.raises(AttributeError, match="model `dln` is immutable; use replace"):
        dln.name = "other"
    with pytest.raises(AttributeError, match="cannot assign to field"):
        dln["g"].rhs = 0
    with pytest.raises(AttributeError, match="this table is immutable"):
        dln.defaults.x = 1
    with pytest.raises(TypeError):
        dln.init[process("w")] = 1


def test_equations_are_found_by_their_left_hand_side(dln):
    w, C_w = dln.symbols("w C_w")
    assert dln["w"] is dln[w] is dln[w(t)]
    assert dln["C_w"] is dln[C_w]
    assert list(dln) == ["C_w", "R_w", "C_f", "R_f", "g", "w"]
    with pytest.raises(KeyError, match="has no equation for `R_wf`; did you mean `R_w`"):
        dln["R_wf"]


def test_replace_binds_symbols_by_name(dln):
    w, g = process("w g")
    alpha, lam = param("alpha lam")  # declared again, without the assumptions
    variant = dln.replace("variant", eqs=[Eq(w(t).diff(t), -sqrt(w(t) ** 2 + alpha**4) * g(t) - lam * w(t))])
    assert variant.symbols("alpha") == dln.symbols("alpha")
    assert variant.symbols("alpha").is_positive
    assert list(variant) == list(dln)
    assert variant["C_w"] == dln["C_w"]
    assert variant["w"] != dln["w"]
    assert variant["w"].location.file == __file__
    assert variant["g"].location == dln["g"].location


def test_a_new_law_reaches_every_equation(dln):
    w_star = random("w_star", Rademacher(0.5))
    variant = dln.replace("variant", observables={"overlap": E(process("w")(t) * w_star)})
    assert [item.law for item in variant.randoms] == [Rademacher(0.5)]
    assert variant["g"].rhs.has(variant.symbols("w_star"))
    assert eqsolve.check(variant) is None


def test_replace_adds_updates_and_removes(dln):
    C_g, g = correlation("C_g"), process("g")
    variant = dln.replace("variant", eqs=[Eq(C_g(t, tp), E(g(t) * g(tp)))], observables={"noise": C_g(t, t), "l1": None})
    assert list(variant) == [*dln, "C_g"]
    assert set(variant.observables) == {*dln.observables, "noise"} - {"l1"}
    assert eqsolve.check(variant) is None


def test_a_variant_that_does_not_fit_is_explained(dln):
    x = process("x")
    with pytest.raises(ModelError, match=r"equation for `g` \(test_model.py:\d+\) uses `x\(t\)`, which"):
        eqsolve.check(dln.replace("variant", eqs=[Eq(process("g")(t), x(t))]))


def test_parameters_in_laws_belong_to_the_model():
    scale, C = param("scale", positive=True), unknown("C", positive=True)
    z, x = normal("z", variance=scale * C), random("x", Normal(0, E(random("y", Normal(0, scale)) ** 2)))
    model = FixedPoint("m", [Eq(C, E(z**2 + x**2))])
    assert [item.name for item in model.parameters] == ["scale"]
    assert [item.name for item in model.randoms] == ["x", "y", "z"]
    assert eqsolve.check(model) is None


def test_a_variant_with_other_equations_has_no_flow_unless_given(dln):
    w, lam = dln.symbols("w lam")
    other = [Eq(w(t).diff(t), -w(t))]
    assert dln.flow == "dln_flow"
    assert dln.replace("v", defaults={lam: 1}).flow == "dln_flow"
    assert dln.replace("v", eqs=other).flow is None
    assert dln.replace("v", init={w: 1}).flow is None
    assert dln.replace("v", eqs=other, flow="my_flow").flow == "my_flow"


def test_signature_is_the_same_in_every_process(dln):
    program = (
        "import eqsolve; from eqsolve.passes.forms.structure import signature_of; print(signature_of(eqsolve.load('dln')))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == signature_of(dln)


def test_signature_sees_every_change(dln):
    w, lam = dln.symbols("w lam")
    variants = [
        dln,
        dln.replace("other"),
        dln.replace(defaults={lam: 1}),
        dln.replace(init={w: 1}),
        dln.replace(eqs=[Eq(w(t).diff(t), -w(t))]),
        dln.replace(observables={"l1": None}),
        dln.replace(observables={"overlap": E(w(t) * random("w_star", Rademacher(1)))}),
    ]
    assert len({signature_of(variant) for variant in variants}) == len(variants)


def test_order_of_terms_is_not_content():
    w, a = process("w"), param("a")
    one = System("m", [Eq(w(t).diff(t), -w(t) + a * t)], init={w: 0})
    two = System("m", [Eq(w(t).diff(t), t * a - w(t))], init={w: 0})
    assert one == two
    assert signature_of(one) == signature_of(two)


def test_integrals_pass_through_what_sympy_does_with_bound_symbols() -> None:
    from eqsolve import Int, function, times

    t, s = times("t s")
    y = function("y")
    memory = Int(y(s), (s, 0, t))
    assert memory.as_dummy() == memory
    assert memory.has_free(t)
    assert not memory.has_free(s)
    assert (memory + t).is_polynomial(s)
