"""explain: a system whose structure is known by hand, and every model there is."""

import dataclasses

import pytest
from sympy import Symbol, expand

import eqsolve
from eqsolve import GP, E, Eq, Int, Resp, System, correlation, explain, param, process, response, times
from eqsolve.compile.forms import DISCRETE, OPERATORS, STOCHASTIC
from eqsolve.language.loading import load
from eqsolve.passes.explain.explain import Reads, describe_domain, write_tangents
from eqsolve.passes.forms.tangents import derive_tangents


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


def test_tangents_are_those_of_the_variables_that_are_solved_for(system):
    (x,) = explain(system).tangents
    assert x.text == "∂/∂t ∂x(t)/∂z(t') = -a*∂x(t)/∂z(t') + 2*∫_t'^t ∂x(s)/∂z(t')*R(t, s) ds"
    assert (x.instantaneous, x.initial) == ("0", "2")
    assert "from, at t = t': 2" in explain(system).text()


def test_tangents_carry_their_jump(system):
    t, s = times("t s")
    R, h, z = response("R"), process("h"), process("z")
    made = explain(system.replace(eqs=[Eq(h(t), z(t) + Int(R(t, s) * h(s), (s, 0, t)))])).tangents[1]
    assert made.text == "∂h(t)/∂z(t') = ∫_t'^t ∂h(s)/∂z(t')*R(t, s) ds + R(t, t')"
    assert (made.instantaneous, made.initial) == ("1", None)


@pytest.mark.parametrize("name", ["phase_retrieval", "teacher_student_tanh"])
def test_tangents_of_a_self_referring_process_are_those_of_its_equation(name):
    system = load(name).dmft()
    form = eqsolve.compile(system).derivation(STOCHASTIC).form
    written = {(item.process.name, item.noise.name): item for item in write_tangents(form)}
    declared = [item for item in derive_tangents(system) if item.process.name == "f"]
    assert {item.noise.name for item in declared} == {"z_f", "f_star"}
    for item in declared:
        difference = item.equation.rhs - written["f", item.noise.name].equation.rhs
        assert expand(difference.xreplace({node: Symbol("J") * node.integrand for node in difference.atoms(Int)})) == 0


@pytest.mark.parametrize(
    ("name", "form", "step"),
    [("dln", STOCHASTIC, None), ("dln", DISCRETE, 0.1), ("dln_lazy", OPERATORS, None)],
)
def test_what_is_explained_is_what_is_compiled(name, form, step, monkeypatch):
    """Explaining and compiling a model derive its path form once between them."""
    from eqsolve.passes.forms import path_form

    derived = []
    original = path_form.derive_path_form
    monkeypatch.setattr(path_form, "derive_path_form", lambda system: derived.append(original(system)) or derived[-1])
    model = load(name).replace()  # a model of its own, of which nothing is kept
    made = explain(model, step=step, kernels=False)
    plan = eqsolve.compile(model)
    plan.program(form)
    assert len(derived) == 1
    assert plan.derivation(form).form is derived[0]
    kernels = {equation.key for equation in (*derived[0].kernels, *derived[0].functions)}
    assert {item.text.split(" = ")[0].removeprefix("∂") for item in made.operators} <= kernels
    unknowns = {unknown.name for ensemble in derived[0].ensembles for unknown in ensemble.unknowns}
    assert len(made.tangents) == len(unknowns)
    assert [item.made for item in made.substitutions] == [form is STOCHASTIC] * len(model.substitute)


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
