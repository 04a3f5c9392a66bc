"""Sliders and boxes: every parameter of every model has one, inside its domain; relatives are found by their flow."""

import pytest

from eqsolve import Eq, FixedPoint, param, unknown
from eqsolve.explorer.describe import EXAMPLES, equations, find_related, list_controls, unknown_settings
from eqsolve.language.binding import read_value
from eqsolve.language.laws import Law
from eqsolve.language.loading import list_models, load
from eqsolve.passes.forms.structure import check_routed

NAMES = [file.name for file in list_models()]


@pytest.mark.parametrize("name", NAMES)
def test_every_slider_lies_in_the_domain(name: str) -> None:
    model = load(name)
    controls = list_controls(model)
    known = {control.name for control in controls}
    assert {item.name for item in model.parameters} <= known
    for control in controls:
        assert control.about or control.name == "G", control.name  # what it means; "G" is a variable of quadrature
        if control.kind == "number" and control.low is not None:
            assert control.low < control.high
            assert control.low <= float(read_value(control.value)) <= control.high
            free = model.replace(conditions=()) if model.conditions else model  # what several must hold together is not asked
            check_routed(free, {control.name: control.low})
            check_routed(free, {control.name: control.high})


@pytest.mark.parametrize("name", NAMES)
def test_every_equation_becomes_mathml(name: str) -> None:
    rows = equations(load(name))
    assert len(rows) >= len(load(name).equations)
    assert all(row["left"].startswith("<math") and row["right"].startswith("<math") for row in rows)
    assert not any("\\" in row["left"] + row["right"] for row in rows), "LaTeX that was not understood"


def test_ranges() -> None:
    x = unknown("x")
    bounded = param("b", domain=(-1, 3))
    p, q, n, r, i = (
        param("p", positive=True),
        param("q", nonnegative=True),
        param("n", integer=True, domain=(2, None)),
        param("r"),
        param("i", domain=(0, None)),
    )
    model = FixedPoint(
        "ranges", eqs=[Eq(x, bounded + p + q + n + r + i)], defaults={p: 0.3, q: 0.3, n: 3, r: -3, bounded: 0, i: 1}
    )
    found = {item.name: (item.low, item.high, item.scale) for item in list_controls(model)}
    assert found == {
        "p": (0.05, 2.0, "log"), "q": (0.0, 2.0, "lin"), "n": (2.0, 9.0, "lin"), "r": (-20.0, 20.0, "lin"),
        "b": (-1.0, 3.0, "lin"), "i": (0.0, 5.0, "lin"),
    }  # fmt: skip


def test_what_only_closed_forms_read_is_not_offered() -> None:
    model = load("linear_regression")
    assert "x" in {item.name for item in model.randoms}
    assert [item.name for item in list_controls(model)] == ["delta", "lam", "rho2", "sigma2"]


def test_the_examples_are_laws() -> None:
    assert all(isinstance(read_value(text), Law) for text in EXAMPLES.values())


def test_relatives_share_the_flow() -> None:
    names = [other.name for other in find_related(load("dln"))]
    assert names[0] == "dln_fixed_point"  # it chooses among the others
    assert "dln_rate" in names
    assert find_related(load("pspin")) == []


def test_a_model_that_lacks_a_term_holds_without_it() -> None:
    rate = load("dln_rate")
    assert unknown_settings(rate, {"alpha": "0.3", "lam": "0"}) == []
    assert unknown_settings(rate, {"alpha": "0.3", "lam": "0.1"}) == ["lam"]
    assert unknown_settings(rate, {"M": "inf"}) == []
