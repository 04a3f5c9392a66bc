"""docs/errors.md: every message that it explains is one that a test provokes; and the messages that say what mends them."""

import logging
import re
from pathlib import Path

import pytest

import eqsolve
from eqsolve import Eq, System, function, param, times
from eqsolve.errors import ModelError, SolverError, UsageError

ROOT = Path(__file__).resolve().parents[2]
t = times("t")
y, v = function("y v")
a, b = param("a b", positive=True)


def _headings():
    """The messages in bold, code among them."""
    text = (ROOT / "docs" / "errors.md").read_text()
    return [" ".join(found.split()) for found in re.findall(r"^\*\*(.+?)\*\*(?= )", text, flags=re.MULTILINE | re.DOTALL)]


def _fragment(heading):
    """The longest part of a message that does not depend on the model."""
    parts = re.split(r"`[^`]*`|'[^']*'(?=[ :.]|$)|\.\.\.|\b[\d.e-]*\d[\d.e-]*\b|\[.*?\]|\(.*?\)", heading)
    return max((part.strip(" .,:;") for part in parts), key=len)


def _stands_in(fragment, text):
    """Whether three words of a message, one after the other, stand in a text."""
    words = fragment.split()
    return any(" ".join(words[place : place + 3]) in text for place in range(max(1, len(words) - 2)))


def _tests():
    own = Path(__file__).resolve()
    return [path.read_text().replace("\\", "") for path in (ROOT / "tests").rglob("*.py") if path.resolve() != own]


def test_every_message_is_provoked_by_a_test():
    tests = [*_tests(), "lies outside the solved range"]  # below
    headings = _headings()
    assert len(headings) >= 35
    assert [item for item in headings if not any(_stands_in(_fragment(item), text) for text in tests)] == []


def test_a_time_beyond_the_last():
    result = eqsolve.solve(System("decay", [Eq(y(t).diff(t), -y(t))], init={y: 1}), t_max=1)
    with pytest.raises(UsageError, match=r"time 10 lies outside the solved range \[0, 1\]; solve with a larger t_max"):
        result.at([10])


def test_a_parameter_that_nothing_uses_is_a_warning(caplog):
    model = System("decay", [Eq(y(t).diff(t), -a * y(t))], init={y: 1}, defaults={a: 1, b: 2})
    with caplog.at_level(logging.WARNING, "eqsolve"):
        eqsolve.check(model)
    assert "model `decay` (test_errors.py:" in caplog.text
    assert "nothing uses the parameter `b`" in caplog.text
    assert "`a`" not in caplog.text


def test_a_reserved_name_is_told_with_the_model_once():
    seed = param("seed")
    with pytest.raises(ModelError, match=r"^model `decay` \(test_errors.py:\d+\) has a parameter named `seed`, an option of"):
        eqsolve.check(System("decay", [Eq(y(t).diff(t), -seed * y(t))], init={y: 1}, defaults={seed: 1}))


def test_a_solve_that_fails_names_the_term_that_is_singular():
    """Bessel's equation: Nesterov's friction 3/t is of the same kind."""
    model = System("bessel", [Eq(y(t).diff(t), v(t)), Eq(v(t).diff(t), -v(t) / t - y(t) / t)], init={y: 1, v: 1})
    with pytest.raises(
        SolverError, match=r"equation for `v` \(test_errors.py:\d+\) has `1/t`, which is singular at the start"
    ):
        eqsolve.solve(model, t_max=1)
