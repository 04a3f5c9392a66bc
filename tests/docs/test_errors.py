"""docs/errors.md: every message that it explains is one that a test provokes; and the messages that say what mends them."""

import logging
import re
from pathlib import Path

import pytest
import sympy

import eqsolve
from eqsolve import GP, E, Eq, FixedPoint, System, White, correlation, function, param, process, response, times, unknown
from eqsolve.compile.lowering import lower
from eqsolve.errors import ModelError, SolverError
from eqsolve.laws import Normal

ROOT = Path(__file__).resolve().parents[2]
t, tp = times("t t'")
y, v = function("y v")
x, z, C, R = process("x"), process("z"), correlation("C"), response("R")
a, b = param("a b", positive=True)


def _headings():
    """The messages in bold, code among them."""
    text = (ROOT / "docs" / "errors.md").read_text()
    return [" ".join(found.split()) for found in re.findall(r"^\*\*(.+?)\*\*(?= )", text, flags=re.MULTILINE | re.DOTALL)]


def _fragment(heading):
    """The longest part of a message that does not depend on the model."""
    parts = re.split(r"`[^`]*`|'[^']*'(?=[ :.]|$)|\.\.\.|\b[\d.e-]*\d[\d.e-]*\b|\[.*?\]|\(.*?\)", heading)
    return max((part.strip(" .,:;") for part in parts), key=len)


def _write(folder, text):
    path = folder / "m.py"
    path.write_text(text)
    return str(path)


def _decay(**given):
    return System("decay", [Eq(y(t).diff(t), -a * y(t))], init={y: 1}, **given)


def _driven(force, law=None, **given):
    return System("driven", [Eq(x(t).diff(t), force)], init={x: 1}, laws={z: GP(1) if law is None else law}, **given)


def _with_kernel(right):
    equations = [Eq(x(t).diff(t), z(t) - x(t)), Eq(R(t, tp).diff(t), right)]
    return System("kernel", equations, init={x: 1, R(t, t): 1}, laws={z: GP(1)})


def _of_another(folder):
    eqsolve.solve(_decay(), a=1, t_max=1).save(folder / "x.nc")
    eqsolve.open(folder / "x.nc", model=System("decay", [Eq(y(t).diff(t), -2 * y(t))], init={y: 1}))


def _constrained():
    mu = function("mu")
    return System("held", [Eq(y(t).diff(t), -mu(t) * y(t))], init={y: 2}, constraints={mu: Eq(y(t), 1)})


def _unmet():
    system = _driven(-(x(t) ** 3) + z(t), White(1), observables={"q": E(x(t) ** 2)})
    raise SolverError(eqsolve.solve(system, t_max=1, rtol=1e-6, budget=0.2).message)


U, BETA = unknown("u", positive=True), param("beta")
HEAD = "from eqsolve import Eq, System, function, times\nimport numpy as np\nimport sympy\nt = times('t')\ny = function('y')\n"
# By a part of the message that the page explains: what provokes it, with a folder for files.
PROVOKED = {
    "which nothing defines": lambda _: eqsolve.check(System("m", [Eq(y(t).diff(t), -v(t))], init={y: 1})),
    "is differential, but": lambda _: eqsolve.check(System("m", [Eq(y(t).diff(t), -y(t))])),
    "two equations for": lambda _: System("m", [Eq(y(t), 1), Eq(y(t), 2)]),
    "is a correlation and takes": lambda _: C(t),
    "is numpy's and takes numbers, not expressions; write": lambda folder: eqsolve.load(
        _write(folder, f"{HEAD}model = System('m', [Eq(y(t).diff(t), np.tanh(y(t)))], init={{y: 1}})")
    ),
    "holds sympy's own Eq": lambda _: System("m", [sympy.Eq(y(t), 1)]),
    "which has no numerical evaluator": lambda _: eqsolve.check(
        System("m", [Eq(y(t).diff(t), sympy.mathieus(1, 2, y(t)))], init={y: 1})
    ),
    "the law of the process": lambda _: eqsolve.check(_driven(z(t), Normal(0, 1))),
    "in a way that cannot be solved for": lambda _: eqsolve.solve(_with_kernel(-(R(t, tp) ** 2)), t_max=1),
    "is no covariance: it is not positive semi-definite at the times": lambda _: eqsolve.check(
        _driven(z(t), GP(1 - (t - tp) ** 2))
    ),
    "which differs between paths": lambda _: eqsolve.check(_driven(x(t) * z(t), White(1))),
    "a model's name is its file's stem": lambda folder: eqsolve.load(
        _write(folder, f"{HEAD}model = System('other', [Eq(y(t).diff(t), -y(t))], init={{y: 1}})")
    ),
    "a sweep solves for several": lambda _: eqsolve.solve(_decay(), a=[1, 2], t_max=1),
    "has no value and no default": lambda _: eqsolve.solve(_decay(), t_max=1),
    "holds for a <": lambda _: eqsolve.solve(_decay(conditions=[a < 1]), a=2, t_max=1),
    "cannot read": lambda _: eqsolve.solve(_decay(), a="1 +", t_max=1),
    "coefficients of the equation for": lambda _: eqsolve.solve(
        System("m", [Eq(y(t).diff(t), -y(t) / t)], init={y: 1}), t_max=1
    ),
    "cannot solve model": lambda _: eqsolve.solve("rnn", t_max=1, solver="ode"),
    "does not hold at the start": lambda _: eqsolve.solve(_constrained(), t_max=1),
    "cannot be continued past t =": lambda _: eqsolve.solve(System("m", [Eq(y(t).diff(t), y(t) ** 2)], init={y: 1}), t_max=2),
    "the solution is found up to t =": lambda _: eqsolve.solve(
        _driven(x(t) ** 3 + z(t), GP(sympy.exp(-((t - tp) ** 2)))), t_max=2, rtol=0.1
    ),
    "paths may get stuck there": lambda _: eqsolve.check(_driven(sympy.Piecewise((-1, x(t) > 0), (1, True)) + z(t))),
    "the derivative of a jump at the zeros of": lambda _: lower([sympy.sign(a - 1).diff(a)], [a], []),
    "the error estimate of": lambda _: _unmet(),
    "observable": lambda _: eqsolve.solve(
        FixedPoint("m", [Eq(U, sympy.exp(-U))], observables={"f": U / BETA}, defaults={BETA: 1}), beta=0
    ),
    "no solution found; searched q from": lambda _: eqsolve.solve(FixedPoint("m", [Eq(U, U + 1)])),
    "lies outside the solved range": lambda _: eqsolve.solve(_decay(), a=1, t_max=1).at([10]),
    "there is no folder": lambda folder: eqsolve.solve(_decay(), a=1, t_max=1).save(folder / "none" / "x.nc"),
    "is not a result of this model": _of_another,
}
# What needs a command line, a cluster, a full disk or a killed process: where it is provoked, and the words awaited there.
ELSEWHERE = {
    "--set takes NAME=VALUE such as alpha=": "cli/test_inspect.py: --set takes NAME=VALUE such as",
    "a parameter of the model is set by": "cli/test_main.py: takes no option `--k`; a parameter of the model is set by",
    "times the tolerance; quadrature limits it": "solvers/test_budget.py: ; quadrature limits it",
    "cannot be identified from these data": "fitting/test_fit.py: cannot be identified",
    "no space is left": "files/test_saving.py: no space is left",
    "whose files this eqsolve does not know": "files/test_saving.py: whose files this eqsolve",
    "keeps the points of another unfinished sweep": "sweeping/test_sweep.py: another unfinished sweep (t_max=1",
    "another process is writing": "sweeping/test_sweep.py: another process is writing",
    "is there already, and may hold an unfinished run": "files/test_checkpoint.py: and may hold an unfinished run",
    "is the checkpoint of another run: its rtol is": "files/test_checkpoint.py: its rtol is 0.001",
    "nodes would need about": "solvers/paths/test_memory_limits.py: nodes would need about",
    "points were not solved as asked": "sweeping/test_sweep.py: points were not solved as asked",
    "the worker process died": "sweeping/test_sweep.py: the worker process died",
    "no dask scheduler answers at": "solvers/test_cluster.py: no dask scheduler answers at",
    "a piece of work comes back from the cluster, to be done here": "solvers/test_cluster.py: comes back from the cluster",
    "had nothing to send to": "solvers/test_cluster.py: had nothing to send to",
}


def test_every_message_is_provoked_by_a_test():
    fragments = [_fragment(item).replace("holds for delta <", "holds for a <") for item in _headings()]
    fragments = [item.removeprefix("the solution ") if "continued" in item else item for item in fragments]
    assert len(fragments) >= 35
    assert sorted(set(fragments)) == sorted({*PROVOKED, *ELSEWHERE})


@pytest.mark.parametrize("fragment", PROVOKED)
def test_what_provokes_a_message(fragment, tmp_path):
    with pytest.raises(eqsolve.EqsolveError) as caught:
        PROVOKED[fragment](tmp_path)
    said = {"no solution found; searched q from": "no solution found; searched u from", "observable": "observable `f` ("}
    assert said.get(fragment, fragment) in str(caught.value)


@pytest.mark.parametrize("place", ELSEWHERE.values())
def test_what_other_tests_await(place):
    file, _, words = place.partition(": ")
    assert words in (ROOT / "tests" / file).read_text().replace("\\", "")


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
