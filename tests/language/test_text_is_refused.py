"""sympy would evaluate text as Python code; every place that takes an expression refuses it instead."""

from collections.abc import Callable

import pytest

import eqsolve
from eqsolve import (
    GP,
    E,
    Eq,
    Flow,
    Int,
    Inverse,
    Resp,
    System,
    field,
    function,
    gradient,
    param,
    process,
    state,
    symbol,
    times,
)
from eqsolve.errors import EqsolveError

CODE = "__import__('pytest').fail('text was evaluated')"
t, s = times("t s")
y, w, z = function("y"), process("w"), process("z")
u, f, g, v = state("u"), field("f"), gradient("g"), symbol("v")


def flow(**changes: object) -> Flow:
    parts = {"state": {u: 1}, "weights": [u], "fields": [f], "loss_gradient": [f], "gradients": [g], "drift": {u: -g}}
    return Flow("flow", **{**parts, **changes})


USES: dict[str, Callable[[], object]] = {
    "E": lambda: E(CODE),
    "Int": lambda: Int(CODE, (s, 0, t)),
    "range of Int": lambda: Int(y(s), (s, 0, CODE)),
    "Resp": lambda: Resp(CODE, z(t)),
    "noise of Resp": lambda: Resp(w(t), CODE),
    "GP": lambda: GP(CODE),
    "GP matrix": lambda: GP([[CODE, 0], [0, 1]]),
    "Inverse": lambda: Inverse(CODE, v),
    "domain of Inverse": lambda: Inverse(v, v, domain=(CODE, 1)),
    "argument of Inverse": lambda: Inverse(v, v)(CODE),
    "time": lambda: y(CODE),
    "Eq": lambda: Eq(y(t), CODE),
    "domain": lambda: param("k", domain=(CODE, None)),
    "default": lambda: param("k", default=CODE),
    "init": lambda: System("m", [Eq(y(t).diff(t), -y(t))], init={y: CODE}),
    "observables": lambda: System("m", [Eq(y(t).diff(t), -y(t))], init={y: 1}, observables={"o": CODE}),
    "substitute": lambda: System("m", [Eq(w(t).diff(t), -w(t))], init={w: 1}, substitute={w: CODE}),
    "weights": lambda: flow(weights=[CODE]),
    "loss gradient": lambda: flow(loss_gradient=[CODE]),
    "drift": lambda: flow(drift={u: CODE}),
    "state": lambda: flow(state={u: CODE}),
    "subs": lambda: eqsolve.load("dln").subs(alpha=CODE),
}


@pytest.mark.parametrize("use", USES)
def test_text_is_refused(use: str) -> None:
    with pytest.raises(EqsolveError, match=r"test_text_is_refused\.py:\d+: .*__import__"):
        USES[use]()


def test_the_message_says_what_to_write() -> None:
    with pytest.raises(EqsolveError, match="E takes an expression, got 'w'; write it with declared symbols, not as"):
        E("w")


def test_numbers_are_expressions() -> None:
    assert E(1).argument == 1
    assert y(0).moments == (0,)
    assert eqsolve.load("dln").subs(alpha=0.5).names.keys() == eqsolve.load("dln").names.keys() - {"alpha"}
