"""Wrong arguments of public functions: whatever is given, the error is one of ours and names the argument."""

import inspect

import numpy as np
import pytest
import sympy

import eqsolve
from eqsolve import Eq, FixedPoint, System, function, param, times, unknown
from eqsolve.arguments import checked, flag, number, numbers, pairs, path, table, text, whole
from eqsolve.errors import EqsolveError, UsageError
from eqsolve.microscopic.simulate import simulate

t, k, a = times("t"), param("k", positive=True), param("a", positive=True)
y, x = function("y"), unknown("x", positive=True)
DECAY = System("decay", eqs=[Eq(y(t).diff(t), -k * y(t))], init={y: 1}, defaults={k: 1})
ROOT = FixedPoint("root", eqs=[Eq(x**2, a)], defaults={a: 2})
LOOP = FixedPoint("loop", eqs=[Eq(x, a / 2 + x / 2)], defaults={a: 2})
CURVE = (np.linspace(0.1, 9, 60), np.exp(-np.linspace(0.1, 9, 60)))
WRONG = [
    "big", None, -1, 0, 1.5, float("nan"), float("inf"), [], {}, object(), True, (1, 2), ["a"], {"a": 1}, np.ones(2),
    sympy.Symbol("q"), b"x", 1j, int,
]  # fmt: skip
CALLS = {
    "solve": (eqsolve.solve, {"model": DECAY, "t_max": 0.5, "rtol": 1e-2}),
    "solve a fixed point": (eqsolve.solve, {"model": ROOT}),
    "explain": (eqsolve.explain, {"model": DECAY}),
    "check": (eqsolve.check, {"model": DECAY}),
    "load": (eqsolve.load, {"name": "dln"}),
    "open": (eqsolve.open, {"path": "nothing.nc"}),
    "sweep": (eqsolve.sweep, {"model": ROOT, "axes": {"a": [1, 2]}}),
    "follow": (eqsolve.follow, {"model": ROOT, "parameter": "a", "values": [1, 2]}),
    "iterate": (eqsolve.iterate, {"model": LOOP, "steps": 1, "start": {"x": 1.0}}),
    "fit_rate": (eqsolve.fit_rate, {"data": CURVE, "exponent": 0}),
    "rate_curve": (eqsolve.rate_curve, {"model": "linear_regression_rate", "parameter": "delta", "at": []}),
    "simulate": (simulate, {"flow": eqsolve.load("linear_flow"), "d": 8, "t_max": 0.1, "at": 0.1, "rtol": 0.1}),
    "System": (System, {"name": "m", "eqs": DECAY.equations, "init": {y: 1}}),
    "FixedPoint": (FixedPoint, {"name": "m", "eqs": ROOT.equations}),
    "replace": (DECAY.replace, {"name": "m"}),
    "param": (eqsolve.param, {"names": "q"}),
    "random": (eqsolve.random, {"names": "q"}),
    "normal": (eqsolve.normal, {"names": "q"}),
    "unknown": (eqsolve.unknown, {"names": "q"}),
    "E": (eqsolve.E, {"argument": y(t)}),
    "Eq": (Eq, {"lhs": y(t), "rhs": 1}),
    "Bernoulli": (eqsolve.laws.Bernoulli, {"p": 0.1}),
}
NAMED = [
    (call, name)
    for call, (function_, _) in CALLS.items()
    for name, item in inspect.signature(function_).parameters.items()
    if item.kind not in (item.VAR_KEYWORD, item.VAR_POSITIONAL)
]


@pytest.mark.parametrize(("call", "name"), NAMED)
def test_a_wrong_argument_gives_an_error_of_ours(call, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function_, sound = CALLS[call]
    for value in WRONG:
        try:
            function_(**{**sound, name: value})
        except EqsolveError as error:
            assert str(error).strip()  # noqa: PT017  (some of the values are fine for some of the arguments)


@pytest.mark.parametrize("part", ["laws", "init", "defaults", "observables", "constraints", "substitute", "exact"])
def test_a_table_with_wrong_entries_gives_an_error_of_ours(part):
    for value in WRONG:
        for table_ in ({y: value}, {k: value}, {"y": value}, {str(value): 1}):
            try:
                eqsolve.check(DECAY.replace(**{part: table_}))
            except EqsolveError as error:
                assert str(error).strip()  # noqa: PT017


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: eqsolve.load("linear_flow").simulate(d="big", t_max=1), "d= takes a whole number of at least 2, got 'big'"),
        (lambda: eqsolve.validate("dln", seeds=1.5), "seeds= takes a whole number of at least 1, got 1.5"),
        (lambda: eqsolve.solve(DECAY, at2=3), "at2= takes a list of values, got 3"),
        (lambda: eqsolve.solve(DECAY, params="k=1"), "params= takes values by name, such as {'alpha': 0.3}, got 'k=1'"),
        (lambda: eqsolve.solve(DECAY, solver=3), "solver= takes a solver: its name, or an eqsolve.Solver, got 3"),
        (
            lambda: eqsolve.solve(DECAY, progress=True),
            "progress= takes a function of (done, total, text), or False; got True",
        ),
        (lambda: eqsolve.sweep(DECAY, [1, 2]), "axes= takes values by name"),
        (lambda: eqsolve.load(3), "load takes a model's name or the path of its file, got 3"),
        (lambda: System("m", DECAY.equations, init=0), "init= maps functions to their values at the start, {w: 0}; got 0"),
        (lambda: y(t).diff(), "`y(t)` is differentiated in a time, `y(t).diff(t)`; got nothing"),
        (lambda: eqsolve.solve(DECAY, at=[0.5]).save(3), "path= takes the path of a file, got 3"),
        (lambda: eqsolve.solve(DECAY, at=[0.5]).at("now"), "times= takes a finite number, got 'now'"),
    ],
)
def test_the_message_names_the_argument(call, said):
    with pytest.raises(EqsolveError) as caught:
        call()
    assert said in str(caught.value)


def test_numbers_of_numpy_are_numbers(tmp_path):
    assert whole(1)(np.int64(3), "d") == 3
    assert whole(1)(1e3, "d") == 1000
    assert number(np.float32(0.5), "rtol") == 0.5
    assert numbers(np.array([1, 2]), "at") == [1.0, 2.0]
    assert numbers(np.array(2.0), "at") == [2.0]
    assert pairs(np.ones((2, 2)), "at2") == [(1.0, 1.0)] * 2
    assert path(tmp_path, "out") == str(tmp_path)
    assert eqsolve.load(tmp_path.__class__(eqsolve.load("dln").file)) == eqsolve.load("dln")


def test_the_decorator_keeps_the_signature_and_none():
    @checked(a=whole(0), b=text, c=flag, d=table)
    def call(a, b=None, *, c=False, d=None):
        return a, b, c, d

    assert str(inspect.signature(call)) == "(a, b=None, *, c=False, d=None)"
    assert call(1) == (1, None, False, None)
    assert call(1, "x", c=1, d={"k": 1}) == (1, "x", True, {"k": 1})
    with pytest.raises(UsageError, match="a= takes a whole number of at least 0, got None"):
        call(None)
    with pytest.raises(TypeError):
        call()


def test_the_nearest_of_parameters_and_options_is_named() -> None:
    with pytest.raises(EqsolveError, match="did you mean `gain`"):
        eqsolve.solve("rnn", gian=2, t_max=1)
    with pytest.raises(EqsolveError, match="did you mean `t_max`"):
        eqsolve.solve("rnn", gain=2, tmax=1)
    with pytest.raises(EqsolveError, match="did you mean `workers`"):
        eqsolve.sweep("rnn", gain=[1, 2], t_max=1, worker=1)


def test_a_result_is_saved_under_a_name_that_says_how(tmp_path) -> None:
    res = eqsolve.solve("ridge")
    for save in (res.save, lambda path: eqsolve.sweep("ridge", delta=[1, 2], out=path)):
        with pytest.raises(UsageError, match=r"\*\.nc or \*\.csv or \*\.json or \*\.parquet, got"):
            save(tmp_path / "x.foo")
    assert not list(tmp_path.iterdir())
