"""Wrong systems, each with the one message it must give, and the line of the equation it is about."""

import inspect

import pytest

import eqsolve
from eqsolve.errors import ModelError
from eqsolve.passes.check.check import RESERVED

HEAD = """\
import sympy
from sympy import Abs, Function, Piecewise, Symbol, exp, oo, sinh
from eqsolve import GP, E, Eq, Int, Inverse, Resp, System, correlation, function, param, process, random
from eqsolve import response, symbol, times, unknown
from eqsolve.laws import Bernoulli, Normal

t, tp, s, r = times("t t' s r")
alpha, delta = param("alpha delta", positive=True)
tau0 = param("tau0")
w_star = random("w_star", Bernoulli(0.1))
w, g, z, h, x, theta = process("w g z h x theta")
mu, nu = function("mu nu")
C_w, C_f = correlation("C_w C_f")
R_w, R_f, R_x = response("R_w R_f R_x")
y, p = symbol("y"), unknown("p")
model = System(
    "m",
    eqs=[
"""

SOUND = {
    "C_w": "Eq(C_w(t, tp), E((w(t) - w_star) * (w(tp) - w_star)))",
    "R_w": "Eq(R_w(t, tp), -E(Resp(w(t), z(tp))))",
    "g": "Eq(g(t), z(t) + delta * w(t) - Int(R_w(t, s) * w(s), (s, 0, t)))",
    "w": "Eq(w(t).diff(t), -alpha * g(t) - w(t))",
    "mu": "Eq(mu(t).diff(t), -mu(t) * C_w(t, t))",
}
PARTS = {
    "laws": "{z: GP(delta * C_w(t, tp))}",
    "init": "{w: 0, mu: 1}",
    "defaults": "{alpha: 0.3, delta: 0.5}",
    "observables": "{'loss': C_w(t, t) + E(w(t)**2)}",
}


class Wrong:
    """A changed model: the equation at fault or None, what differs from the sound one, words of the error."""

    def __init__(self, name: str, at: str | None, changes: dict[str, str], *says: str) -> None:
        self.name, self.at, self.changes, self.says = name, at, changes, says


def write(folder, changes):
    """Return the sound model with some equations and parts changed, and the line of each equation."""
    equations = {**SOUND, **{key: line for key, line in changes.items() if line.startswith("Eq(")}}
    parts = {**PARTS, **{key: value for key, value in changes.items() if not value.startswith("Eq(")}}
    first = HEAD.count("\n") + 1
    lines = dict(zip(equations, range(first, first + len(equations)), strict=True))
    body = "".join(f"        {line},\n" for line in equations.values())
    rest = "".join(f"    {key}={value},\n" for key, value in parts.items())
    path = folder / "m.py"
    path.write_text(f"{HEAD}{body}    ],\n{rest})\n", encoding="utf-8")
    return eqsolve.load(str(path)), lines


# fmt: off
UNDEFINED = [
    Wrong("misspelt function", "g", {"g": "Eq(g(t), z(t) - Int(R_x(t, s) * w(s), (s, 0, t)))"},
          "uses `R_x(t, s)`, which nothing defines", "did you mean `R_w`?"),
    Wrong("missing equation", "mu", {"mu": "Eq(mu(t).diff(t), -nu(t))"},
          "uses `nu(t)`, which nothing defines", "add an equation for it, Eq(nu(t), ...)"),
    Wrong("missing law of a process", "g", {"g": "Eq(g(t), z(t) + x(t))"},
          "uses `x(t)`, which nothing defines", "a law if it drives the system, laws={x: GP(...)}"),
    Wrong("plain sympy symbol", "g", {"g": "Eq(g(t), z(t) + Symbol('alpa') * w(t))"},
          "uses `alpa`, a plain sympy symbol that nothing defines", "did you mean `alpha`?"),
    Wrong("undeclared sympy function", "mu", {"mu": "Eq(mu(t).diff(t), Function('f')(t))"},
          "uses `f(t)`, an undeclared sympy function", "function(), process()"),
    Wrong("function without its times", "mu", {"mu": "Eq(mu(t).diff(t), E(w))"},
          "uses `w` without its times; write `w(t)`"),
    Wrong("bound variable leaks", "mu", {"mu": "Eq(mu(t).diff(t), y - Inverse(y + y**3, y)(mu(t)))"},
          "uses the bound variable `y` outside the inverse function"),
    Wrong("unknown of a fixed point", "mu", {"mu": "Eq(mu(t).diff(t), p * mu(t))"},
          "uses the unknown `p`, which has no place here"),
    Wrong("random variable without law", None, {"g": "Eq(g(t), z(t) + random('v') * w(t))"},
          "random variable `v` of model `m` (m.py:", "has no law", "random('v', Normal(0, 1))"),
    Wrong("law in unknown symbols", None,
          {"g": "Eq(g(t), z(t) + random('v', Normal(0, Symbol('alpa'))) * w(t))"},
          "the law Normal(0, alpa) of `v` (m.py:", "uses `alpa`", "did you mean `alpha`?"),
    Wrong("derivative on the right", "g", {"g": "Eq(g(t), z(t) + w(t).diff(t))"},
          "has the derivative", "outside its left-hand side"),
    Wrong("sympy's own integral", "mu", {"mu": "Eq(mu(t).diff(t), -sympy.Integral(mu(s), (s, 0, t)))"},
          "has sympy's own integral", "write Int(integrand, (s, 0, t))"),
]

LEFT = [
    Wrong("left-hand side names no unknown", "nu", {"nu": "Eq(nu(t) + 1, mu(t))"},
          "names no unknown", "got `nu(t) + 1`"),
    Wrong("left-hand side is a parameter", "nu", {"nu": "Eq(alpha, mu(t))"},
          "defines the parameter `alpha`, which is not an unknown function"),
    Wrong("left-hand side on the diagonal", "nu", {"nu": "Eq(C_f(t, t), mu(t)**2)"},
          "has the same time twice on its left, `C_f(t, t)`", "expected two times, `C_f(t, t')`"),
    Wrong("left-hand side at the start", "nu", {"nu": "Eq(nu(0), 1)"},
          "has `nu(0)` on its left; expected time variables", "belongs into init="),
    Wrong("derivative in the second time", "nu",
          {"nu": "Eq(C_f(t, tp).diff(tp), -C_f(t, tp))", "init": "{w: 0, mu: 1, C_f(t, t): 1}"},
          "is a derivative in the second time `t'`", "`C_f(t, t').diff(t)`"),
    Wrong("equation and law", "z", {"z": "Eq(z(t), mu(t))"},
          "defines `z`, which also has a law", "either an equation or a law"),
    Wrong("processes in different times", "w", {"w": "Eq(w(s).diff(s), -w(s))"},
          "runs in the time `s`, but the equation for `g` (m.py:", "in `t`"),
]

TIMES = [
    Wrong("integral beyond the running time", "g",
          {"g": "Eq(g(t), z(t) - Int(R_w(t, s) * w(s), (s, t, 2 * t)))"},
          "not causal: it ends at `2*t`, so it reads the future", "expected as upper end `t`"),
    Wrong("integral over all times", "g", {"g": "Eq(g(t), z(t) - Int(R_w(t, s) * w(s), (s, 0, oo)))"},
          "not causal: it ends at `oo`"),
    Wrong("integral to sympy's own t", "g", {"g": "Eq(g(t), z(t) - Int(R_w(t, s) * w(s), (s, 0, sympy.Symbol('t'))))"},
          "ends at sympy's own symbol `t`; declare the time by eqsolve", 'times("t")'),
    Wrong("value at a later time", "g", {"g": "Eq(g(t), z(t) + w(t + 1))"},
          "reads the future: `w(t + 1)` lies later than the running time"),
    Wrong("time that is an expression", "g", {"g": "Eq(g(t), z(t) + w(2 * t))"},
          "reads `w(2*t)` at `2*t`, which is neither a time variable nor the start", "expected `t`, `0`"),
    Wrong("sum of two times", "mu", {"mu": "Eq(mu(t).diff(t), -Int(C_w(t + s, t), (s, 0, t)))"},
          "reads `C_w(s + t, t)` at `s + t`, which is neither a time variable nor the start"),
    Wrong("free time on the right", "g", {"g": "Eq(g(t), z(t) - R_w(t, s) * w(s))"},
          "uses the time `s`, which is neither on its left-hand side nor integrated over"),
    Wrong("integration over the time on the left", "g", {"g": "Eq(g(t), z(t) - Int(w(t), (t, 0, t)))"},
          "integrates over `t`, which already has a meaning there"),
    Wrong("nested integrals over one time", "mu",
          {"mu": "Eq(mu(t).diff(t), -Int(mu(s) * Int(mu(s), (s, 0, t)), (s, 0, t)))"},
          "integrates over `s`, which already has a meaning there"),
    Wrong("integral backwards", "R_f",
          {"R_f": "Eq(R_f(t, tp), R_w(t, tp) - Int(R_w(t, s) * R_f(s, tp), (s, t, tp)))"},
          "runs backwards, from `t` to `t'`", "exchange its ends"),
    Wrong("response with exchanged times", "g", {"g": "Eq(g(t), z(t) - Int(R_w(s, t) * w(s), (s, 0, t)))"},
          "reads `R_w(s, t)`, which vanishes here", "did you mean `R_w(t, s)`?"),
    Wrong("empty integral", "mu", {"mu": "Eq(mu(t).diff(t), -Int(mu(s), (s, t, t)))"},
          "has an integral from `t` to `t`, which is empty"),
    Wrong("integral from 0 where the start is tau0", "g", {"start": "tau0"},
          "has an integral that starts at 0, but the system starts at `tau0`"),
    Wrong("value at 0 where the start is tau0", "g", {"g": "Eq(g(t), z(t) + w(0))", "start": "tau0"},
          "reads `w(0)` at time 0, but the system starts at `tau0`"),
]

RANDOMNESS = [
    Wrong("process outside an expectation", "mu", {"mu": "Eq(mu(t).diff(t), -w(t))"},
          "uses the process `w(t)` outside an expectation", 'declare it by mu = process("mu"), else write E(...) around it'),
    Wrong("random variable outside an expectation", "mu", {"mu": "Eq(mu(t).diff(t), -w_star * mu(t))"},
          "uses the random variable `w_star` outside an expectation; if `mu` differs between paths too, declare it by mu ="),
    Wrong("response outside an expectation", "R_w", {"R_w": "Eq(R_w(t, tp), Resp(w(t), z(tp)))"},
          "has the response `∂w(t)/∂z(t')` outside an expectation; write E(Resp(...))"),
    Wrong("expectation inside an expectation", "mu", {"mu": "Eq(mu(t).diff(t), E((w(t) - E(w(t)))**2))"},
          "has an expectation inside an expectation, `E[w(t)]`"),
    Wrong("response inside a response", "R_w",
          {"R_w": "Eq(R_w(t, tp), E(Resp(w(t) * Resp(w(t), z(tp)), z(tp))))"},
          "has a response inside a response"),
    Wrong("response to a process with an equation", "R_w", {"R_w": "Eq(R_w(t, tp), E(Resp(w(t), g(tp))))"},
          "takes a response to `g`, which has an equation and no law", "driving process (`z`)"),
    Wrong("response of a number", "R_w", {"R_w": "Eq(R_w(t, tp), E(Resp(mu(t), z(tp))))"},
          "takes the response of `mu(t)`, which contains no process"),
    Wrong("response before its cause", "R_w", {"R_w": "Eq(R_w(t, tp), E(Resp(w(tp), z(t))))"},
          "takes a response at `t'` to a noise at the later `t`, which vanishes"),
]

STRUCTURE = [
    Wrong("division by zero", "mu", {"mu": "Eq(mu(t).diff(t), -mu(t) + 1 / sympy.S.Zero)"},
          "contains `zoo`, which is not a number; does it divide by zero?"),
    Wrong("definition in a circle", "g", {"g": "Eq(g(t), z(t) + h(t))", "h": "Eq(h(t), 2 * g(t))"},
          "needs its own value at the same time: g -> h -> g"),
    Wrong("definition by itself", "g", {"g": "Eq(g(t), z(t) + g(t) / 2)"},
          "needs its own value at the same time: g -> g"),
    Wrong("correlation of two different processes", "C_f", {"C_f": "Eq(C_f(t, tp), E(w(t) * g(tp)))"},
          "gives the correlation `C_f` a right-hand side that changes when `t` and `t'` are exchanged"),
    Wrong("correlation in one time", "C_f", {"C_f": "Eq(C_f(t, tp), C_w(t, tp) + mu(t))"},
          "gives the correlation `C_f` a right-hand side that changes"),
]

START = [
    Wrong("missing initial value", "w", {"init": "{mu: 1}"},
          "is differential, but `w` has no initial value", "init={w: ...}"),
    Wrong("missing value on the diagonal of a response", "R_f",
          {"R_f": "Eq(R_f(t, tp).diff(t), -R_f(t, tp))", "init": "{w: 0, mu: 1, R_f(0, 0): 1}"},
          "is differential, but `R_f` has no value on the diagonal; give it by init={R_f(t, t): ...}"),
    Wrong("missing start of a correlation", "C_f", {"C_f": "Eq(C_f(t, tp).diff(t), -C_f(t, tp))"},
          "is differential, but `C_f` has no initial value",
          "init={C_f(t, t): ...}",
          "init={C_f(0, 0): ...}"),
    Wrong("initial value of a pointwise unknown", None, {"init": "{w: 0, mu: 1, g: 0}"},
          "the initial value of `g` (m.py:",
          "has no use: the equation for `g`",
          "gives `g` at every time"),
    Wrong("initial value without an equation", None, {"init": "{w: 0, mu: 1, function('mu_w'): 0}"},
          "the initial value of `mu_w` (m.py:", "belongs to no equation; did you mean `mu`?"),
    Wrong("initial value off the diagonal", None,
          {"C_f": "Eq(C_f(t, tp).diff(t), -C_f(t, tp))", "init": "{w: 0, mu: 1, C_f(t, 0): 1}"},
          "the initial value of `C_f(t, 0)`", "stands at (t, 0); expected the diagonal, `C_f(t, t)`"),
    Wrong("random initial value of a number", None, {"init": "{w: 0, mu: w_star}"},
          "the initial value of `mu` (m.py:", "uses the random variable `w_star` outside an expectation"),
    Wrong("start in random variables", None, {"g": "Eq(g(t), z(t))", "start": "w_star"},
          "the start of model `m`", "uses `w_star`; expected a number"),
]

LAWS = [
    Wrong("asymmetric covariance", None, {"laws": "{z: GP(mu(t) * R_w(t, tp))}"},
          "the law of `z` (m.py:", "has a covariance `mu(t)*R_w(t, t')` that is not symmetric"),
    Wrong("covariance in one time", None, {"laws": "{z: GP(C_w(t, t))}"},
          "the law of `z` (m.py:", "in the times `t`; expected two"),
    Wrong("covariance in three times", None, {"laws": "{z: GP(C_w(t, tp) * mu(s))}"},
          "has a covariance in the times `s`, `t`, `t'`; expected two"),
    Wrong("covariance with a bare process", None, {"laws": "{z: GP(w(t) * w(tp))}"},
          "the law of `z` (m.py:", "uses the process `w(t)` outside"),
    Wrong("covariance of the wrong shape", None, {"laws": "{(z, x): GP(C_w(t, tp))}"},
          "the law of `z`, `x` (m.py:",
          "gives 2 processes one kernel as covariance; expected a 2 × 2 matrix"),
    Wrong("matrix for one process", None, {"laws": "{z: GP([[C_w(t, tp), 0], [0, 1]])}"},
          "gives 1 process a 2 × 2 matrix as covariance; expected one kernel"),
    Wrong("asymmetric matrix of kernels", None,
          {"laws": "{(z, x): GP([[C_w(t, tp), R_w(t, tp)], [R_w(t, tp), C_w(t, tp)]])}"},
          "that is not symmetric: K_12(t, t') must equal K_21(t', t)"),
    Wrong("mean in two times", None, {"laws": "{z: GP(C_w(t, tp), mean=mu(t) * mu(tp))}"},
          "the law of `z` (m.py:", "in more than one time"),
]

NAMES = [
    Wrong("observable in two times", None, {"observables": "{'loss': C_w(t, tp)}"},
          "observable `loss` (m.py:", "depends on the times `t`, `t'`; expected at most one"),
    Wrong("observable with a bare process", None, {"observables": "{'loss': w(t)**2}"},
          "observable `loss` (m.py:", "uses the process `w(t)` outside"),
    Wrong("observable named like an unknown", None, {"observables": "{'mu': mu(t)}"},
          "has observable `mu`, named like the one-time function `mu`"),
    Wrong("observable named like a parameter", None, {"observables": "{'alpha': mu(t)}"},
          "has observable `alpha`, named like the parameter `alpha`"),
    Wrong("parameter named like an option", None, {"mu": "Eq(mu(t).diff(t), -param('rtol') * mu(t))"},
          "has a parameter named `rtol`, an option of solve or simulate"),
    Wrong("closed form of nothing", None, {"exact": "{'los': exp(-t)}"},
          "the closed form of `los` (m.py:", "did you mean `loss`?"),
    Wrong("closed form in undefined symbols", None, {"exact": "{mu: exp(-Symbol('lamda') * t)}"},
          "the closed form of `mu`", "uses `lamda`, a plain sympy symbol"),
    Wrong("default outside the domain", None, {"defaults": "{alpha: -1, delta: 1}"},
          "the default of `alpha` in model `m`", "is -1; expected a number that is positive"),
    Wrong("default that is no number", None, {"defaults": "{alpha: delta, delta: 1}"},
          "the default of `alpha` in model `m`", "is `delta`; expected a number"),
    Wrong("condition on an unknown", None, {"conditions": "[mu(0) > 1]"},
          "the condition `mu(0) > 1` of model `m`", "uses `mu(0)`"),
    Wrong("substitution of an unknown process", None, {"substitute": "{h: sinh(theta(t))}"},
          "the substitution for `h` (m.py:", "no equation defines `h`"),
]
ALL = [*UNDEFINED, *LEFT, *TIMES, *RANDOMNESS, *STRUCTURE, *START, *LAWS, *NAMES]

SOUND_VARIANTS = {
    "a constant drift": {"laws": "{z: GP(C_w(t, tp), mean=alpha)}"},
    "two driven processes": {
        "g": "Eq(g(t), z(t) + x(t))",
        "laws": "{(z, x): GP([[C_w(t, tp), R_w(t, tp)], [R_w(tp, t), C_w(tp, t)]])}",
    },
    "constant covariance": {"laws": "{z: GP(delta)}"},
    "symmetric after expansion": {
        "C_f": "Eq(C_f(t, tp), E(w(t) * g(tp) + g(t) * w(tp)) + (mu(t) - mu(tp))**2 + C_w(tp, t))",
    },
    "symmetric by an addition theorem": {
        "C_f": "Eq(C_f(t, tp), sympy.sin(t) * sympy.cos(tp) + sympy.cos(t) * sympy.sin(tp))",
    },
    "symmetric with a covariance of processes": {
        "C_f": "Eq(C_f(t, tp), E(w(t) * w(tp)) - E(w(t)) * E(w(tp)))",
    },
    "symmetric through its integrals": {
        "C_f": "Eq(C_f(t, tp), C_w(t, tp) - Int(R_w(tp, s) * C_w(t, s), (s, 0, tp)))",
    },
    "causal by the other time": {
        "C_f": "Eq(C_f(t, tp).diff(t), -Int(R_w(t, s) * C_f(s, tp), (s, 0, t)) + 2 * R_w(tp, t))",
        "init": "{w: 0, mu: 1, C_f(t, t): 1}",
    },
    "nested integrals": {"mu": "Eq(mu(t).diff(t), -Int(Int(mu(r), (r, s, t)) * C_w(t, s), (s, 0, t)))"},
    "a start in parameters": {
        "g": "Eq(g(t), z(t) + w(tau0) - Int(R_w(t, s) * w(s), (s, tau0, t)))",
        "start": "tau0",
        "init": "{w(tau0): 0, mu: 1}",
    },
    "a random start": {"init": "{w: Normal(0, alpha), mu: E(w_star**2)}"},
    "an inverse function": {"mu": "Eq(mu(t).diff(t), -Inverse(y + delta * y**3, y)(mu(t)))"},
    "an implicit mean": {"mu": "Eq(mu(t).diff(t), -E(Resp(w(t)**2, z(t))))"},
}
# fmt: on


def test_the_sound_model_passes(tmp_path):
    model, _ = write(tmp_path, {})
    assert eqsolve.check(model) is None


@pytest.mark.parametrize("wrong", ALL, ids=[wrong.name for wrong in ALL])
def test_one_mistake_gives_one_message(tmp_path, wrong):
    model, lines = write(tmp_path, wrong.changes)
    with pytest.raises(ModelError) as caught:
        eqsolve.check(model)
    assert len(caught.value.problems) == 1, caught.value.problems
    (problem,) = caught.value.problems
    for words in wrong.says:
        assert words in problem
    if wrong.at is not None:
        assert f"(m.py:{lines[wrong.at]}" in problem
    assert str(caught.value) == (problem if "model `m`" in problem else f"model `m`: {problem}")  # its name once


@pytest.mark.parametrize("name", SOUND_VARIANTS)
def test_a_sound_model_passes(tmp_path, name):
    model, _ = write(tmp_path, SOUND_VARIANTS[name])
    assert eqsolve.check(model) is None


def test_all_problems_are_reported_at_once(tmp_path):
    changes = {
        "g": "Eq(g(t), z(t) + R_x(t, s) * w(t + 1))",
        "mu": "Eq(mu(t).diff(t), -w(t))",
        "init": "{mu: 1}",
        "observables": "{'delta': w(t)}",
    }
    model, lines = write(tmp_path, changes)
    with pytest.raises(ModelError) as caught:
        eqsolve.check(model)
    problems = caught.value.problems
    assert [line for line in (lines["g"], lines["mu"], lines["w"]) if f"m.py:{line}" not in str(problems)] == []
    assert len(problems) == 7
    assert str(caught.value).startswith("model `m` has 7 problems:\n  1. equation for `g`")
    assert all(problem in str(caught.value) for problem in problems)


def test_no_parameter_takes_the_name_of_an_option():
    options = set(inspect.signature(eqsolve.solve).parameters) - {"parameters"}
    assert options <= set(RESERVED)


def test_something_else_is_refused():
    with pytest.raises(ModelError, match="check takes a System, FixedPoint, Singularity or Flow, got str"):
        eqsolve.check("dln")
