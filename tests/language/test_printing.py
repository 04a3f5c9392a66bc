"""What is printed: brackets where they are needed only, numbers as the user typed them."""

import pytest
from sympy import tanh

import eqsolve
import eqsolve.language.binding
from eqsolve import Flow, field, gradient, state
from eqsolve.language.printing import decimal_text, expression_latex
from eqsolve.laws import Bernoulli, Discrete


def test_symbols_stand_without_brackets() -> None:
    f, g = field("f"), gradient("g")
    assert expression_latex(f * g) == "f g"
    assert expression_latex(-2 * g) == "- 2 g"
    assert expression_latex(g**2 * (g + 1)) == r"g^{2} \left(g + 1\right)"
    assert r"\left(g\right)" not in eqsolve.load("dln_flow").show().latex()


def test_a_term_that_vanishes_is_not_printed_for_ever() -> None:
    t, y = eqsolve.times("t"), eqsolve.function("y")
    inner, nothing = y(t) - 1, 0
    model = eqsolve.System("m", [eqsolve.Eq(y(t).diff(t), inner + nothing)], init={y: 1})
    assert "y(t) - 1" in model.show().text() or "-1 + y(t)" in model.show().text()


def test_rates_and_starts_of_a_flow_are_typeset() -> None:
    latex = eqsolve.load("dln_flow").show().latex()
    assert r"\frac{\mathrm{d}}{\mathrm{d} t} u &= " in latex
    assert r"u(0) &= \alpha" in latex


def test_what_a_matrix_is_applied_to_has_brackets() -> None:
    f, g, a = field("f"), gradient("g"), state("a")
    parts = {"state": {a: 1}, "weights": [a], "fields": [f], "gradients": [g], "drift": {a: -g}}
    shown = Flow("m", loss_gradient=[-tanh(f)], **parts).show()
    assert "Xᵀ (-tanh(f))" in str(shown)
    assert r"X^\top \left(- \tanh" in shown._repr_latex_()


def test_laws_are_shown_in_decimals_where_exact() -> None:
    assert decimal_text(Bernoulli(0.1)) == "Bernoulli(0.1)"
    assert decimal_text(Bernoulli(eqsolve.language.binding.read_value("1/3"))) == "Bernoulli(1/3)"
    assert decimal_text(Discrete([-1, 0.5], [0.25, 0.75])) == "Discrete([-1, 0.5], [0.25, 0.75])"


def test_what_an_infinite_default_takes_out_is_not_shown() -> None:
    flow = eqsolve.load("dln_flow")
    text = flow.show().text()
    assert "Piecewise" not in text
    assert "w = (u**L - v**L)/L" in text
    assert "M = oo" in text
    M = next(item for item in flow.parameters if item.name == "M")
    assert "Piecewise" in flow.subs({M: 4}).show().text()


def test_show_returns_what_a_prompt_shows_and_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    shown = eqsolve.load("ridge").show()
    assert capsys.readouterr().out == ""
    assert repr(shown) == str(shown) == shown.text()
