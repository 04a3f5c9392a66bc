"""Models that are limits, rescalings or microscopic origins of each other, held against each other."""

import math
from pathlib import Path

import numpy as np
import pytest
import sympy
from sympy import Dummy, Expr, exp, lambdify, log, oo

import eqsolve
from eqsolve import Int
from eqsolve.language.binding import bind
from eqsolve.language.model import Model
from eqsolve.language.symbols import Value
from eqsolve.passes.forms.tangents import derive_tangents

MODELS = Path(__file__).resolve().parents[2] / "models"


def load(name: str) -> Model:
    return eqsolve.load(str(MODELS / f"{name}.py"))


def assert_same_function(left: Expr, right: Expr, rng: np.random.Generator) -> None:
    """Equal at random points, function values and symbols being positive numbers below one."""
    values = {value: Dummy(str(value)) for value in (left + right).atoms(Value)}
    left, right = left.xreplace(values), right.xreplace(values)
    symbols = sorted(left.free_symbols | right.free_symbols, key=str)
    points = rng.uniform(0.1, 0.9, (len(symbols), 50))
    one, other = (lambdify(symbols, side, "numpy")(*points) for side in (left, right))
    assert one == pytest.approx(other, rel=1e-12)


def test_infinite_data_is_the_network_without_noise_and_memory(rng: np.random.Generator) -> None:
    dln, limit = load("dln"), load("dln_infinite_data")
    w, g, t, w_star = dln.symbols("w g t w_star")
    assert_same_function(dln["w"].rhs.xreplace({g(t): w(t) - w_star}), limit["w"].rhs, rng)
    assert dln.substitute == limit.substitute


def test_descent_is_the_network_in_rescaled_time(rng: np.random.Generator) -> None:
    dln, descent = load("dln"), load("dln_descent")
    assert [descent[key] == dln[key] for key in dln] == [key != "w" for key in dln]
    assert descent.laws == dln.laws
    w, g, t, alpha = dln.symbols("w g t alpha")
    scale = log(1 / alpha)
    functions = {w(t): Dummy("w"), g(t): Dummy("g")}

    def at_scaled_time(expr: Expr) -> Expr:
        return expr.xreplace(functions).subs(t, scale * t)

    drift = scale * at_scaled_time(dln["w"].rhs)
    assert_same_function(drift, descent["w"].rhs.xreplace(functions), rng)
    # The response to an impulse in the rescaled time is larger by the scale: R_w needs no further factor.
    kick, rescaled = (
        next(item.initial for item in derive_tangents(model) if item.process.name == "w") for model in (dln, descent)
    )
    (tp,) = kick.atoms(eqsolve.language.symbols.Time)
    kick = scale * kick.xreplace({w(tp): functions[w(t)]}).subs(tp, scale * tp)
    assert_same_function(kick, rescaled.xreplace({w(tp): functions[w(t)]}), rng)


def test_rich_phase_is_a_network_seen_from_its_transition(rng: np.random.Generator) -> None:
    dln, rich = load("dln"), load("dln_rich")
    tau0, lam = rich.symbols("tau0 lam")
    old, t, alpha = dln.symbols("lam t alpha")
    for key in dln:
        if key != "w":
            shifted = dln[key].rhs.replace(
                lambda node: isinstance(node, Int),
                lambda node: Int(node.integrand, (node.variable, tau0 if node.low == 0 else node.low, node.high)),
            )
            assert rich[key].rhs == shifted
    w, g = dln.symbols("w g")
    functions = {w(t): Dummy("w"), g(t): Dummy("g")}
    drift = dln["w"].rhs.xreplace(functions).subs(t, t - tau0).subs({alpha: exp(-lam * tau0 / 2), old: lam})
    assert_same_function(drift, rich["w"].rhs.xreplace(functions), rng)
    assert rich.start == tau0


def test_lazy_phase_is_regression_without_weight_decay() -> None:
    lazy, ridge = load("dln_lazy"), load("linear_regression").subs(lam=0)
    for key in lazy:
        assert sympy.expand(ridge[key].rhs - lazy[key].rhs) == 0
    assert {key: value for key, value in ridge.init.items() if key in lazy.init} == dict(lazy.init)


@pytest.mark.parametrize("depth", [2, 3, 5])
def test_flow_moves_w_as_the_network_does(depth: int) -> None:
    flow = load("dln_flow")
    binding = bind(flow, {"L": depth, "lam": "1/5"})
    u, v, g = flow.symbols("u v g")
    w = binding.apply(flow.weights[0])
    p_u, p_v = (binding.apply(flow.drift[item]) for item in (u, v))
    moved = w.diff(u) * p_u + w.diff(v) * p_v
    power = 2 * depth - 2
    assert sympy.expand(moved + (u**power + v**power) * g / 2 + sympy.Rational(depth, 10) * w) == 0
    if depth == 2:
        assert sympy.expand(p_u * v + u * p_v + u * v / 5) == 0  # uv = α² e^{-λt}
    assert p_v == p_u.xreplace({u: v, g: -g})  # v sees the opposite gradient, so w leaves zero


def test_truncation_is_that_of_the_paper() -> None:
    flow = load("dln_flow")
    u, v = flow.symbols("u v")
    cut = 2.0
    binding = bind(flow, {"L": 3, "M": cut})
    weight, slope = (binding.apply(flow.variables[name]).subs(v, 0) for name in ("w", "slope_u"))

    def eta(x: float) -> float:
        s = abs(x) - cut
        step = 0.0 if s <= 0 else 1.0 if s >= 1 else math.exp(-1 / s) / (math.exp(-1 / s) + math.exp(-1 / (1 - s)))
        return (1 - step) * x

    for x in (0.1, 1.9, 2.0, 2.05, 2.3, 2.5, 2.7, 2.95, 3.0, 4.0, -1.5, -2.4):
        at = math.copysign(abs(x) ** (1 / 3), x)
        assert 3 * float(weight.subs(u, at)) == pytest.approx(eta(x), abs=1e-14)
        if x not in (2.0, 3.0):
            numerical = (eta(x + 1e-5) - eta(x - 1e-5)) / 2e-5
            assert float(slope.subs(u, at)) == pytest.approx(numerical, abs=2e-8)
    whole = bind(flow, {"L": 3, "M": oo})
    assert whole.apply(flow.variables["w"]) == u**3 / 3 - v**3 / 3
    assert whole.apply(flow.variables["slope_u"]) == 1
