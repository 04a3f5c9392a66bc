"""explain: a system whose structure is known by hand, and every model there is."""

import dataclasses
import json

import pytest

import eqsolve
from eqsolve import GP, E, Eq, Int, Resp, System, correlation, param, process, response, times
from eqsolve.language.loading import list_models, load
from eqsolve.passes.explain.explain import Reads, describe_domain, explain


@pytest.fixture
def system():
    t, tp, s = times("t t' s")
    a = param("a", positive=True)
    x, h, z = process("x h z")
    C = correlation("C")
    R = response("R")
    return System(
        "m",
        eqs=[
            Eq(C(t, tp), E(x(t) * x(tp))),
            Eq(R(t, tp), E(Resp(x(t), z(tp)))),
            Eq(h(t), z(t) + Int(R(t, s) * x(s), (s, 0, t))),
            Eq(x(t).diff(t), -a * x(t) + 2 * h(t)),
        ],
        laws={z: GP(C(t, tp))},
        init={x: 1},
        defaults={a: 0.5},
    )


def test_who_reads_whom(system):
    made = explain(system)
    assert dict(made.unknowns) == {
        "correlation": ("C",),
        "response": ("R",),
        "process": ("h", "x"),
        "driving process": ("z",),
    }
    assert made.blocks == (("x",), ("C",), ("R",), ("z",), ("h",))
    assert {item.unknown: item for item in made.reads} == {
        "x": Reads("x", (), (), ("x", "h")),
        "C": Reads("C", ("x",), (), ()),
        "R": Reads("R", ("x",), ("z",), ()),
        "z": Reads("z", ("C",), (), ()),
        "h": Reads("h", ("R", "z"), ("x",), ()),
    }


def test_tangents_carry_their_jump_and_their_start(system):
    by_left = {item.text.split(" = ")[0]: item for item in explain(system).tangents}
    h, x = by_left["∂h(t)/∂z(t')"], by_left["∂/∂t ∂x(t)/∂z(t')"]
    assert (h.instantaneous, h.initial) == ("1", None)
    assert (x.instantaneous, x.initial) == ("0", "2")
    text = explain(system).text()
    assert "1 × δ(t − t')" in text
    assert "from, at t = t': 2" in text


def test_places_settings_and_repr(system):
    made = explain(system)
    assert [item.location.split(":")[0] for item in made.equations] == ["test_explain.py"] * 4
    assert [(item.name, item.domain, item.default) for item in made.settings] == [("a", "number > 0", "0.5")]
    assert repr(made) == made.text()
    assert dataclasses.is_dataclass(made)


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        ({}, "number"),
        ({"positive": True}, "number > 0"),
        ({"nonnegative": True}, "number >= 0"),
        ({"negative": True}, "number < 0"),
        ({"integer": True, "domain": (2, None)}, "whole number >= 2"),
        ({"domain": (0, 1)}, "number from 0 to 1"),
        ({"domain": (None, 1), "positive": True}, "number <= 1 > 0"),
        ({"domain": (2, None), "positive": True}, "number >= 2"),
    ],
)
def test_domains_in_words(declared, words):
    assert describe_domain(param("q", **declared)) == words


@pytest.mark.parametrize("name", [item.name for item in list_models()])
def test_every_model_can_be_explained(name):
    model = load(name)
    made = explain(model)
    assert made.name == name
    assert len(made.equations) == len(model.equations)
    assert json.loads(json.dumps(made.to_dict()))["model"] == name
    for title, lines in made.sections():
        assert title in made.text()
        assert all(line in made.text() for line in lines)
    if isinstance(model, System):
        assert sorted(n for block in made.blocks for n in block) == sorted(head.name for head in model.unknowns)
        assert len(made.substitutions) == len(model.substitute)


def test_the_operator_form_of_a_closed_system() -> None:
    forms = {form.text: form.solved for form in eqsolve.explain(eqsolve.load("dln_lazy")).operators}
    assert forms["∂C_w = -C_w + C_f∘R_wᵀ + R_f∘C_w"] == ""
    assert forms["R_f = R_w - R_w∘R_f"] == "R_f = (I + R_w)⁻¹∘R_w"
    assert "operator form" in eqsolve.explain(eqsolve.load("pspin")).text()
    assert "mu = T + p**2*((C**(p - 1)*R)∘1)/2" in eqsolve.explain(eqsolve.load("pspin")).text()
    assert eqsolve.explain(eqsolve.load("dln_infinite_data")).operators == ()


def test_a_fixed_point_says_what_is_eliminated_and_where_its_kinks_are() -> None:
    said = dict(explain(load("dln_fixed_point_l1")).statements)
    (line,) = said["eliminated (given by the others)"]
    assert line.startswith("C_f = ")
    assert said["solved for"] == ("C_w, chi_w",)
    assert said["kinks (expectations are split where these vanish)"]
    assert dict(explain(load("dln_fixed_point_ridgeless")).statements)["solved for"] == ("nothing: all is explicit",)
