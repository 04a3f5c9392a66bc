"""Exact changes of variable: the derived equation against the chain rule, and wrong declarations."""

import pickle
import random as python_random

import pytest
from sympy import Abs, Derivative, Piecewise, asinh, cosh, exp, log, sinh, sqrt, tanh

import eqsolve
from eqsolve import GP, E, Eq, Int, System, correlation, function, param, process, random, times
from eqsolve.errors import ModelError
from eqsolve.laws import Normal
from eqsolve.passes.rewrite.substitution import apply_substitutions, cancel_exponentials, derive_substitutions

t, s = times("t s")
alpha, lam = param("alpha lam", positive=True)
c = param("c")
x0 = random("x0", Normal(0, 1))
w, v, g, z, theta, phi = process("w v g z theta phi")
mu = function("mu")
C = correlation("C")


def system(right, change, *, eqs=(), init=None, **parts):
    """w' = right with the change of variables for w, driven by a process g."""
    laws, start = {g: GP(exp(-Abs(t - s)))}, {w: 0} if init is None else init
    first = Eq(w(t).diff(t), right)
    return System("m", [first, *eqs], laws=laws, init=start, substitute={w: change}, **parts)


def test_the_diagonal_network():
    model = eqsolve.load("dln")
    (change,) = derive_substitutions(model)
    new, old, drive, now = (*(process(name) for name in ("theta", "w", "g")), times("t"))
    assert (change.old, change.new, change.initial) == (old, new, 0)
    assert change.equation == Eq(Derivative(new(now), now), -drive(now))


def test_an_exponential_inside_an_exponential_passes_the_proof():
    """Weight decay λe^{−t}: w = α² exp(−λ(1 − e^{−t})) sinh θ turns the drift into θ' = −g again."""
    model = eqsolve.load("dln")
    old, drive, now, decay, scale = model.symbols("w g t lam alpha")
    shrink = decay * (1 - exp(-now))
    drift = -sqrt(old(now) ** 2 + scale**4 * exp(-2 * shrink)) * drive(now) - decay * exp(-now) * old(now)
    change = {old: scale**2 * exp(-shrink) * sinh(process("theta")(now))}
    variant = model.replace("decaying", eqs=[Eq(old(now).diff(now), drift)], substitute=change)
    assert eqsolve.check(variant) is None
    (found,) = derive_substitutions(variant)
    assert found.equation == Eq(Derivative(process("theta")(now), now), -drive(now))


def changed_system(model):
    return apply_substitutions(model, derive_substitutions(model))


def test_the_changed_system():
    model = eqsolve.load("dln")
    changed = changed_system(model)
    assert eqsolve.check(changed) is None
    assert not changed.substitute
    assert changed["w"].rhs == model.substitute[process("w")]
    assert not changed["w"].is_differential
    assert changed["theta"].is_differential
    assert dict(changed.init) == {process("theta"): 0}
    assert list(changed) == ["C_w", "R_w", "C_f", "R_f", "g", "theta", "w"]
    assert {name: changed[name] for name in ("C_w", "C_f", "g")} == {n: model[n] for n in ("C_w", "C_f", "g")}
    assert changed.observables == model.observables
    assert pickle.loads(pickle.dumps(changed)) == changed


def test_a_system_without_substitutions_is_left_alone():
    model = System("m", [Eq(w(t).diff(t), -w(t))], init={w: 1})
    assert changed_system(model) is model


# right-hand side of w', map, initial value of w, expected right-hand side of theta', expected initial value
EXACT = {
    "exponential": (-w(t) * g(t), exp(theta(t)), 1, -g(t), 0),
    "decay taken out": (g(t) - lam * w(t), exp(-lam * t) * theta(t), 0, exp(lam * t) * g(t), 0),
    "saturation": ((1 - w(t) ** 2) * g(t), tanh(theta(t)), 0, g(t), 0),
    "hyperbola": (sqrt(w(t) ** 2 + alpha**2) * g(t), alpha * sinh(theta(t)), 0, g(t), 0),
    "power of a parameter": (
        log(alpha) * (lam * w(t) - sqrt(w(t) ** 2 + alpha ** (2 * lam * t)) * g(t)),
        alpha ** (lam * t) * sinh(theta(t)),
        0,
        -log(alpha) * g(t),
        0,
    ),
    "random start": (sqrt(w(t) ** 2 + alpha**2) * g(t), alpha * sinh(theta(t)), x0, g(t), asinh(x0 / alpha)),
    "start in a parameter": (-w(t) * g(t), exp(theta(t)), alpha, -g(t), log(alpha)),
    "part that does not cancel": (g(t) * w(t) - w(t) ** 2, exp(theta(t)), 1, g(t) - exp(theta(t)), 0),
    "part in hyperbolic functions": (
        (g(t) - w(t)) * sqrt(w(t) ** 2 + alpha**2),
        alpha * sinh(theta(t)),
        0,
        g(t) - alpha * sinh(theta(t)),
        0,
    ),
    "memory and means stay": (
        w(t) * (Int(w(s), (s, 0, t)) - E(w(t))),
        exp(theta(t)),
        1,
        Int(w(s), (s, 0, t)) - E(w(t)),
        0,
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_derived_equation_and_start(name):
    right, change, begin, expected, start = EXACT[name]
    (made,) = derive_substitutions(system(right, change, init={w: begin}))
    assert cancel_exponentials(made.equation.rhs - expected) == 0
    assert made.initial == start
    assert eqsolve.check(changed_system(system(right, change, init={w: begin}))) is None


@pytest.mark.parametrize("name", EXACT)
def test_the_chain_rule_holds_in_numbers(name):
    right, change, begin, *_ = EXACT[name]
    (made,) = derive_substitutions(system(right, change, init={w: begin}))
    slope = change.xreplace({theta(t): c}).diff(c).xreplace({c: theta(t)})
    drift = change.xreplace({theta(t): c}).diff(t).xreplace({c: theta(t)})
    gap = slope * made.equation.rhs + drift - right.xreplace({w(t): change, E(w(t)): E(w(t))})
    opaque = {node: c for node in gap.atoms(Int, E)}
    draw = python_random.Random(name)
    for _ in range(3):
        values = {item: draw.uniform(0.2, 1.5) for item in (theta(t), g(t), t, alpha, lam, c, x0)}
        assert abs(float(gap.xreplace(opaque).subs(values))) < 1e-12


def test_a_declared_equation_of_the_new_variable_is_proved():
    right, change = sqrt(w(t) ** 2 + alpha**2) * g(t), alpha * sinh(theta(t))
    declared = Eq(theta(t).diff(t), g(t) * cosh(theta(t)) / sqrt(1 + sinh(theta(t)) ** 2))
    model = system(right, change, eqs=[declared], init={w: 0, theta: 0})
    assert eqsolve.check(model) is None
    assert list(changed_system(model)) == ["theta", "w"]


def test_a_wrong_declared_equation_is_refused():
    model = system(-w(t) * g(t), exp(theta(t)), eqs=[Eq(theta(t).diff(t), g(t))], init={w: 1, theta: 0})
    with pytest.raises(ModelError) as caught:
        eqsolve.check(model)
    (problem,) = caught.value.problems
    assert "the substitution for `w` (test_substitution.py:" in problem
    assert "is not exact" in problem
    assert "should be -g(t), but the equation for `theta` (test_substitution.py:" in problem
    assert "declares g(t)" in problem


# fmt: off
WRONG = {
    "no new process": (dict(change=alpha * t), "contains no new process"),
    "the process itself": (dict(change=2 * w(t)), "contains `w` itself"),
    "two new processes": (dict(change=theta(t) + phi(t)), "contains 2 functions, `phi`, `theta`"),
    "another time": (dict(change=sinh(theta(0))), "reads `theta(0)` at another time; expected `theta(t)`"),
    "under an integral": (dict(change=Int(theta(s), (s, 0, t))), "reads `theta(s)` under an integral"),
    "a function": (dict(change=mu(t)), "is written in the one-time function `mu`; expected a new process"),
    "a process with a law": (dict(change=g(t)), "is written in `g`, which is defined otherwise"),
    "under an expectation": (dict(change=E(theta(t))), "under an integral, expectation or response"),
    "does not depend on it": (dict(change=cosh(theta(t)) ** 2 - sinh(theta(t)) ** 2),
        "does not depend on `theta(t)`: its derivative in it is zero"),
    "absolute value": (dict(change=Abs(theta(t))), "is not differentiable in `theta(t)`", "Abs(theta(t))"),
    "two branches": (dict(change=Piecewise((theta(t), theta(t) > 0), (2 * theta(t), True))),
        "is not differentiable"),
    "undefined symbol": (dict(change=s * sinh(theta(t))), "uses `s`; expected `theta(t)`, `t`, parameters"),
    "start out of reach": (dict(change=exp(theta(t))), "does not reach the initial value 0 of `w`"),
    "start of unknown sign": (dict(change=exp(theta(t)), init={w: c}), "does not reach", "init={theta: ...}"),
    "start that does not fit": (dict(change=sinh(theta(t)), init={w: 0, theta: 1}),
        "does not fit its start: with `theta` = 1 it gives sinh(1), expected the initial value 0"),
    "flat at the start": (dict(change=theta(t) ** 3), "its derivative in `theta` vanishes at the start"),
    "start from a law": (dict(change=sinh(theta(t)), init={w: Normal(0, 1)}),
        "`w` starts from the law Normal(0, 1); declare a random constant"),
}
# fmt: on


@pytest.mark.parametrize("name", WRONG)
def test_wrong_substitutions(name):
    parts, *says = WRONG[name]
    with pytest.raises(ModelError) as caught:
        eqsolve.check(system(-w(t) + g(t), **parts))
    (problem,) = caught.value.problems
    assert problem.startswith("the substitution for `w` (test_substitution.py:")
    for words in says:
        assert words in problem


def test_a_pointwise_process_has_no_substitution():
    model = System("m", [Eq(w(t), 2 * g(t))], laws={g: GP(1)}, substitute={w: sinh(theta(t))})
    with pytest.raises(ModelError, match=r"the equation for `w` \(test_substitution.py:\d+\) is pointwise"):
        eqsolve.check(model)


def test_two_substitutions_do_not_share_a_variable():
    eqs = [Eq(w(t).diff(t), -w(t)), Eq(v(t).diff(t), -v(t))]
    change = {w: sinh(theta(t)), v: sinh(theta(t))}
    with pytest.raises(ModelError, match="uses `theta`, as does the one for `w`"):
        changed_system(System("m", eqs, init={w: 0, v: 0}, substitute=change))
    both = System("m", eqs, init={w: 0, v: 0}, substitute={**change, v: sinh(phi(t))})
    assert list(changed_system(both)) == ["theta", "w", "phi", "v"]


@pytest.mark.parametrize(
    "identity",
    [
        cosh(theta(t)) ** 2 - sinh(theta(t)) ** 2 - 1,
        exp(2 * lam * t) * exp(-lam * t) - exp(lam * t),
        tanh(theta(t)) - sinh(theta(t)) / cosh(theta(t)),
        sqrt(exp(2 * theta(t)) + 2 * exp(theta(t)) + 1) - exp(theta(t)) - 1,
        2 * sinh(theta(t) / 2) * cosh(theta(t) / 2) - sinh(theta(t)),
        exp(-2 * lam * (1 - exp(-t))) - exp(-2 * lam) * exp(lam * exp(-t)) ** 2,
        sinh(exp(t)) ** 2 + 1 - cosh(exp(t)) ** 2,
        exp(c * sinh(t)) - exp(c * exp(t) / 2) / exp(c * exp(-t) / 2),
        exp(exp(exp(t)) + exp(t)) - exp(exp(t)) * exp(exp(exp(t))),
    ],
)
def test_identities_between_exponentials_vanish(identity):
    assert cancel_exponentials(identity) == 0


@pytest.mark.parametrize("expr", [sqrt((exp(theta(t)) - 1) ** 2) - exp(theta(t)) + 1, sinh(phi(t)) - phi(t)])
def test_what_is_no_identity_stays(expr):
    assert cancel_exponentials(expr) != 0
