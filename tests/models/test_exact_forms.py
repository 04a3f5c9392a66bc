"""Declared equations against closed forms and numbers known for other reasons.

Both sides of an equation are evaluated here by means that share nothing with the solvers: integrals over time
by Gauss-Legendre, the Marchenko-Pastur law by the trapezoidal rule in its angle, Gaussian averages by
quadrature split at kinks or, through an implicit function, by the trapezoidal rule in the function's value.
"""

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from scipy.optimize import brentq
from scipy.special import ive
from sympy import Basic, Dummy, Expr, S, lambdify

import eqsolve
from eqsolve import E, Int
from eqsolve.language.binding import Binding, bind
from eqsolve.language.model import Model
from eqsolve.language.nodes import InverseValue
from eqsolve.language.symbols import Head, Value

MODELS = Path(__file__).resolve().parents[2] / "models"
LEGENDRE = np.polynomial.legendre.leggauss(40)
Env = dict[Any, Any]
Rule = tuple[Mapping[Any, np.ndarray], np.ndarray]  # nodes of random constants or implicit values, weights


def load(name: str) -> Model:
    return eqsolve.load(str(MODELS / f"{name}.py"))


# --- a small evaluator ------------------------------------------------------------------------------------
def outermost(expr: Basic) -> Iterator[Basic]:
    if isinstance(expr, Value | Int | E | InverseValue):
        yield expr
    else:
        for arg in expr.args:
            yield from outermost(arg)


@functools.lru_cache(maxsize=1000)
def compiled(expr: Expr) -> tuple[Callable[..., Any], tuple[Basic, ...], tuple[Basic, ...]]:
    nodes = tuple(dict.fromkeys(outermost(expr)))
    stand_ins = {node: Dummy(f"n{index}", real=True) for index, node in enumerate(nodes)}
    shell = expr.xreplace(stand_ins)
    symbols = tuple(sorted(shell.free_symbols - set(stand_ins.values()), key=str))
    return lambdify([*symbols, *stand_ins.values()], shell, "numpy"), symbols, nodes


def evaluate(expr: Expr, env: Env) -> Any:
    """The value of an expression; ``env`` holds numbers, functions, and a rule under ``E``."""
    function, symbols, nodes = compiled(expr)
    with np.errstate(all="ignore"):  # branches of a Piecewise that are not taken
        return function(*(env[symbol] for symbol in symbols), *(value_of(node, env) for node in nodes))


def value_of(node: Any, env: Env) -> Any:
    if isinstance(node, Value):
        return env[node.head](*(evaluate(moment, env) for moment in node.moments))
    if isinstance(node, Int):
        low, high = evaluate(node.low, env), evaluate(node.high, env)
        times = low + (high - low) * (LEGENDRE[0] + 1) / 2
        values = evaluate(node.integrand, {**env, node.variable: times})
        return np.sum(LEGENDRE[1] * values) * (high - low) / 2
    if isinstance(node, E):
        nodes, weights = env[E]
        inner = {k: v[..., None] if isinstance(v, np.ndarray) else v for k, v in env.items()}
        return np.sum(weights * evaluate(node.argument, {**inner, **nodes}), axis=-1)
    return env[node] if node in env else root_of(node, env)


def root_of(node: InverseValue, env: Env) -> np.ndarray:
    low, high = (float(end) for end in node.domain)
    margin = 1e-13 * (high - low)

    def root(target: float) -> float:
        def gap(y: float) -> float:
            return float(evaluate(node.expression, {**env, node.variable: y})) - target

        return brentq(gap, low + margin, high - margin, xtol=1e-16, rtol=1e-15)

    return np.vectorize(root)(evaluate(node.argument, env))


def environment(binding: Binding, **more: float) -> Env:
    by_name = {binding.model.symbols(name): value for name, value in more.items()}
    return {**{item: float(value) for item, value in binding.values.items()}, **by_name}


def closed_forms(model: Model, env: Env) -> Env:
    """The declared closed forms as functions of their times, arrays included."""

    def function(head: Head, form: Expr) -> Callable[..., Any]:
        moments = model[head].target.moments

        def call(*values: Any) -> Any:
            times = np.broadcast_arrays(*(np.asarray(value, dtype=float) for value in values))
            return evaluate(form, {**env, **dict(zip(moments, times, strict=True))})

        return call

    return {head: function(head, form) for head, form in model.exact.items()}


def residual(model: Model, env: Env, key: str, *moments: float) -> float:
    """The difference of the two sides of an equation, closed forms put in for the functions."""
    equation = model[key]
    times = dict(zip(equation.target.moments, moments, strict=True))
    full = {**env, **closed_forms(model, env), **times}
    if equation.is_differential:
        slope = model.exact[equation.head].diff(equation.time)
        left = evaluate(slope, {**full, **{key: np.asarray(value) for key, value in times.items()}})
    else:
        left = full[equation.head](*moments)
    return float(left - evaluate(equation.rhs, full))


def assert_starts_right(model: Model, env: Env) -> None:
    forms = closed_forms(model, env)
    for target, value in model.init.items():
        moments = target.moments if isinstance(target, Value) else (model.start,)
        for t in (0.0, 0.7, 2.0):
            there = {**env, **{time: t for time in model.time_symbols}}
            numbers = [evaluate(moment, there) for moment in moments]
            head = target.head if isinstance(target, Value) else target
            assert float(forms[head](*numbers) - evaluate(value, there)) == pytest.approx(0, abs=1e-13)


# --- rules for the laws -----------------------------------------------------------------------------------
def marchenko_pastur(x: Basic, delta: float, count: int = 400) -> Rule:
    angle = np.arange(1, count) * math.pi / count
    nodes = 1 + 1 / delta + 2 / math.sqrt(delta) * np.cos(angle)
    weights = 2 / count * np.sin(angle) ** 2 / nodes
    return {x: np.append(nodes, 0.0)}, np.append(weights, max(1 - delta, 0.0))


def bernoulli_gauss(w_star: Basic, z: Basic, deviation: float, kinks: Callable[[float], list[float]]) -> Rule:
    """w* = 1 with probability 1/10, else 0; z ~ N(0, deviation²), its quadrature split at the kinks."""
    rows = []
    for target, probability in ((0.0, 0.9), (1.0, 0.1)):
        inner = [kink for kink in kinks(target) if abs(kink) < 12 * deviation]
        ends = np.array([-12 * deviation, *sorted(inner), 12 * deviation])
        ends = np.unique(np.concatenate([np.linspace(a, b, 9) for a, b in pairwise(ends)]))
        for low, high in pairwise(ends):
            nodes = low + (high - low) * (LEGENDRE[0] + 1) / 2
            density = np.exp(-((nodes / deviation) ** 2) / 2) / (math.sqrt(2 * math.pi) * deviation)
            weights = probability * density * LEGENDRE[1] * (high - low) / 2
            rows.append((np.full_like(nodes, target), nodes, weights))
    targets, nodes, weights = (np.concatenate(column) for column in zip(*rows, strict=True))
    return {w_star: targets, z: nodes}, weights


def through_inverse(node: InverseValue, w_star: Basic, deviation: float, env: Env, reach: float) -> Rule:
    """w* as above; the observation f(y) is N(w*, deviation²), integrated over y by the trapezoidal rule."""
    step = reach / 4000
    y = np.arange(-3999, 4000) * step
    at = {**env, node.variable: y}
    observation, slope = (evaluate(e, at) for e in (node.expression, node.expression.diff(node.variable)))
    rows = [
        probability * np.exp(-(((observation - target) / deviation) ** 2) / 2) * slope * step
        for target, probability in ((0.0, 0.9), (1.0, 0.1))
    ]
    targets = np.concatenate([np.zeros_like(y), np.ones_like(y)])
    weights = np.concatenate(rows) / (math.sqrt(2 * math.pi) * deviation)
    assert weights.sum() == pytest.approx(1, abs=1e-13)
    return {w_star: targets, node: np.concatenate([y, y])}, weights


# --- two-time and one-time equations ----------------------------------------------------------------------
PAIRS = [(0.0, 0.0), (0.3, 0.1), (1.0, 0.5), (1.7, 0.0), (2.0, 2.0), (3.0, 1.2)]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("dln_lazy", {"delta": 0.5, "sigma2": 0}),
        ("dln_lazy", {"delta": 0.5, "sigma2": 0.1}),
        ("dln_lazy", {"delta": 2, "sigma2": 0.3, "rho2": 0.7}),
        ("linear_regression", {"delta": 0.5, "lam": 0.1}),
        ("linear_regression", {"delta": 0.5, "lam": 0, "sigma2": 0.2}),
        ("linear_regression", {"delta": 3, "lam": 0.8, "rho2": 1, "sigma2": 0.4}),
    ],
)
def test_regression_kernels_solve_their_equations(name: str, settings: dict) -> None:
    model = load(name)
    env = environment(bind(model, settings))
    env[E] = marchenko_pastur(model.symbols("x"), settings["delta"])
    assert_starts_right(model, env)
    for t, tp in PAIRS:
        for key in ("C_w", "C_f", "R_w", "R_f"):
            assert residual(model, env, key, t, tp) == pytest.approx(0, abs=1e-11), (key, t, tp)
        for key in ("C_w", "C_f"):  # correlations satisfy them in both orders of the times
            assert residual(model, env, key, tp, t) == pytest.approx(0, abs=1e-11), (key, tp, t)
        if "m" in model:
            assert residual(model, env, "m", t) == pytest.approx(0, abs=1e-11)


def test_printed_lazy_boundary_condition_is_not_that_of_the_closed_form() -> None:
    model = load("dln_lazy")
    env = environment(bind(model, {}))
    env[E] = marchenko_pastur(model.symbols("x"), 0.5)
    C_w = closed_forms(model, env)[model.symbols("C_w")]
    assert float(C_w(0, 0)) == pytest.approx(0.1, abs=1e-14)
    assert float(C_w(1, 0)) == pytest.approx(0.1 * 0.633795373758926215, abs=1e-14)  # ρ² ∫ e^{-x} dμ, not 0


def test_ridge_regression_describes_finite_matrices(rng: np.random.Generator) -> None:
    d, n, lam, rho2, sigma2 = 900, 450, 0.3, 0.7, 0.4
    delta = n / d
    X = rng.standard_normal((n, d)) / math.sqrt(d)
    values, vectors = np.linalg.eigh(X.T @ X / delta)
    values = np.maximum(values, 0)

    def phi(t: float) -> np.ndarray:
        return (1 - np.exp(-(values + lam) * t)) / (values + lam)

    def error(t: float) -> tuple[np.ndarray, np.ndarray]:
        """w(t) − w* = A w* + B ξ for w' = −Xᵀ(Xw − Xw* − ξ)/δ − λw from w = 0."""
        return (vectors * (values * phi(t) - 1)) @ vectors.T, (vectors * phi(t)) @ vectors.T @ X.T / delta

    model = load("linear_regression")
    env = environment(bind(model, {"delta": delta, "lam": lam, "rho2": rho2, "sigma2": sigma2}))
    env[E] = marchenko_pastur(model.symbols("x"), delta)
    forms = {head.name: form for head, form in closed_forms(model, env).items()}
    t, tp = 2.0, 0.8
    (A, B), (Ap, Bp) = error(t), error(tp)
    C_w = (rho2 * np.sum(A * Ap) + sigma2 * np.sum(B * Bp)) / d
    noise, noise_p = X @ B - np.eye(n), X @ Bp - np.eye(n)
    C_f = (rho2 * np.sum((X @ A) * (X @ Ap)) + sigma2 * np.sum(noise * noise_p)) / n
    decay = np.exp(-(values + lam) * (t - tp))
    for name, measured in {
        "C_w": C_w,
        "C_f": C_f,
        "R_w": decay.sum() / d / delta,
        "R_f": (values * decay).sum() / n,
    }.items():
        assert float(forms[name](t, tp)) == pytest.approx(measured, rel=5e-3), name
    assert float(forms["m"](t)) == pytest.approx(-rho2 * np.trace(A) / d, rel=5e-3)


@pytest.mark.parametrize(("name", "settings"), [("volterra_linear", {}), ("integro_nonlinear", {"a": 2.5})])
def test_memory_equations_have_their_closed_forms(name: str, settings: dict) -> None:
    model = load(name)
    env = environment(bind(model, settings))
    assert_starts_right(model, env)
    for t in (0.0, 0.2, 1.0, 2.5, 5.0):
        assert residual(model, env, "y", t) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ["dln_search", pytest.param("dln_rich_infinite_data", marks=pytest.mark.slow)])
def test_pathwise_closed_forms_solve_their_equations(name: str, rng: np.random.Generator) -> None:
    model = load(name)
    equation = model.equations[0]
    head, t = equation.head, equation.time
    form = model.exact[head]
    wrong = (form.diff(t) - equation.rhs.xreplace({head(t): form})).doit()
    start = form.subs(t, 0) - model.init[head]
    symbols = [t, *model.parameters, *model.randoms]
    numbers = {"delta": (0.5, 2), "lam": (0.05, 1), "sigma2": (0, 1), "w0": (0.05, 1), "t": (0, 3)}
    points = [{symbol: rng.uniform(*numbers.get(symbol.name, (-2, 2))) for symbol in symbols} for _ in range(8)]
    for point in points:
        assert float(wrong.subs(point)) == pytest.approx(0, abs=1e-10)
        assert float(start.subs(point)) == pytest.approx(0, abs=1e-13)


def test_logistic_closed_form_at_the_threshold_and_at_a_zero_target() -> None:
    model = load("dln_rich_infinite_data")
    w, t, lam, w0, w_star = model.symbols("w t lam w0 w_star")
    at_threshold = model.exact[w].subs({w_star: -S(3) / 10, lam: S(3) / 10})
    assert sympy.expand(at_threshold + w0 / (1 + w0 * t)) == 0
    at_zero = model.exact[w].subs({w_star: 0, lam: S(3) / 10, w0: S(1) / 100})
    assert all(float(at_zero.subs(t, moment)) == 0 for moment in (0, 1, 30))
    late = model.exact[w].subs({w_star: -1, lam: S(3) / 10, w0: S(1) / 100, t: 60})
    assert float(late) == pytest.approx(-0.7, abs=1e-12)  # the soft threshold, with its sign


def test_two_spin_glass_at_zero_temperature() -> None:
    """For p = 2, T = 0 the modes are independent; f(τ) = I₁(2τ)/τ is E[e^{λτ}] over the semicircle law."""
    model = load("pspin")
    binding = bind(model, {"p": 2, "T": 0})

    def f(tau: Any) -> Any:
        tau = np.maximum(np.asarray(tau, dtype=float), 1e-9)
        return ive(1, 2 * tau) * np.exp(2 * tau) / tau

    def slope(tau: Any) -> Any:
        tau = np.maximum(np.asarray(tau, dtype=float), 1e-9)
        return 2 * ive(2, 2 * tau) * np.exp(2 * tau) / tau

    def C(t: Any, tp: Any) -> Any:
        return f(t + tp) / np.sqrt(f(2 * t) * f(2 * tp))

    def R(t: Any, tp: Any) -> Any:
        return np.sqrt(f(2 * tp) / f(2 * t)) * f(t - tp)

    def mu(t: Any) -> Any:
        return slope(2 * t) / f(2 * t)

    env: Env = {model.symbols("C"): C, model.symbols("R"): R, model.symbols("mu"): mu}
    for t, tp in [(0.2, 0.1), (1.0, 0.4), (2.0, 1.9), (3.0, 0.0)]:
        at = {**env, model.symbols("t"): t, model.symbols("t'"): tp}
        expected = {
            "mu": mu(t),
            "C": C(t, tp) * (slope(t + tp) / f(t + tp) - mu(t)),
            "R": R(t, tp) * (slope(t - tp) / f(t - tp) - mu(t)),
        }
        for key, left in expected.items():
            assert float(evaluate(binding.apply(model[key].rhs), at)) == pytest.approx(left, abs=1e-11), key
        energy = evaluate(binding.apply(model.observables["energy"]), at)
        assert float(energy) == pytest.approx(-mu(t) / 2, abs=1e-11)


def test_p_spin_multiplier_keeps_the_sphere() -> None:
    """∂C/∂t → −T as t' → t for every p: with the noise's 2T, the diagonal C(t, t) = 1 stands still."""
    model = load("pspin")
    t, tp, s, p, T = model.symbols("t t' s p T")
    C, R, mu = model.symbols("C R mu")
    memory = Int(C(t, s) ** (p - 1) * R(t, s), (s, 0, t))
    power = {C(t, s) ** (p - 2) * C(s, t): C(t, s) ** (p - 1), C(t, t): 1}
    limit = model["C"].rhs.xreplace({tp: t}).xreplace({mu(t): model["mu"].rhs})
    limit = limit.replace(lambda e: isinstance(e, Int), lambda e: Int(e.integrand.subs(power), e.args[1]))
    assert sympy.expand(limit.subs(C(t, t), 1)).subs(memory, Dummy("memory")) + T == 0


# --- fixed points -----------------------------------------------------------------------------------------
def assert_balanced(binding: Binding, env: Env, tolerance: float = 1e-12) -> None:
    for equation in binding.model.equations:
        left, right = (float(evaluate(binding.apply(side), env)) for side in (equation.lhs, equation.rhs))
        assert left == pytest.approx(right, rel=tolerance), equation.key


L1_VALUES = [
    (0.5, 0.1, 0.0, 0.00253437874938661, 0.00128629323956758, 0.4036724163364444, 0.8562084672896754),
    (2.0, 0.5, 0.1, 0.03516306494713289, 0.117929770526129, 0.07057547166758691, 0.8681541403939422),
]


@pytest.mark.parametrize(("delta", "lam", "sigma2", "C_w", "C_f", "chi_w", "zero"), L1_VALUES)
def test_l1_box_and_state_evolution(
    delta: float, lam: float, sigma2: float, C_w: float, C_f: float, chi_w: float, zero: float
) -> None:
    settings = {"delta": delta, "lam": lam, "sigma2": sigma2}
    threshold, gain = (1 + chi_w) * lam, (1 + chi_w) / delta
    model = load("dln_fixed_point_l1")
    binding = bind(model, settings)
    env = environment(binding, C_w=C_w, C_f=C_f, chi_w=chi_w)
    w_star, z = model.symbols("w_star z")
    env[E] = bernoulli_gauss(
        w_star, z, math.sqrt(delta * C_f), lambda target: [(target + s * threshold) / gain for s in (-1, 1)]
    )
    assert_balanced(binding, env, 2e-12)
    observed = {key: evaluate(binding.apply(value), env) for key, value in model.observables.items()}
    assert observed == pytest.approx({"E_train": C_f, "E_test": C_w + sigma2, "P_w_zero": zero}, rel=1e-12)

    other = load("state_evolution")
    binding = bind(other, settings)
    spread = (C_w + sigma2) / delta
    env = environment(binding, b_star=chi_w / (1 + chi_w), sigma2_star=spread, t_star=threshold)
    w_star, G = other.symbols("w_star G")
    env[E] = bernoulli_gauss(w_star, G, 1.0, lambda target: [(s * threshold - target) / math.sqrt(spread) for s in (-1, 1)])
    assert_balanced(binding, env, 2e-12)
    observed = {key: evaluate(binding.apply(value), env) for key, value in other.observables.items()}
    expected = {
        "chi_w": chi_w,
        "C_w": C_w,
        "C_f": C_f,
        "E_train": C_f,
        "E_test": C_w + sigma2,
        "P_w_zero": zero,
    }
    assert observed == pytest.approx(expected, rel=5e-12)


@pytest.mark.parametrize(("delta", "sigma2"), [(2.0, 0.1), (1.2, 0.5), (5.0, 0.0)])
def test_ridgeless_box_solves_the_equations_it_was_simplified_from(delta: float, sigma2: float) -> None:
    model = load("dln_fixed_point_ridgeless")
    binding = bind(model, {"delta": delta, "sigma2": sigma2})
    C_w, C_f, chi_w, w_star, z = model.symbols("C_w C_f chi_w w_star z")
    values = {symbol: float(binding.apply(form)) for symbol, form in model.exact.items()}
    env = {**environment(binding), **values}
    assert_balanced(binding, env)
    deviation = math.sqrt(delta * values[C_f])
    if sigma2:
        env[E] = bernoulli_gauss(w_star, z, deviation, lambda target: [])
    else:
        env[E] = ({w_star: np.array([0.0, 1.0]), z: np.zeros(2)}, np.array([0.9, 0.1]))
    w = binding.apply(model.variables["w"])
    assert float(evaluate(E((w - w_star) ** 2), env)) == pytest.approx(values[C_w], rel=1e-12, abs=1e-15)
    assert values[chi_w] == pytest.approx((1 + values[chi_w]) / delta, rel=1e-14)
    assert values[C_f] == pytest.approx((values[C_w] + sigma2) / (1 + values[chi_w]) ** 2, rel=1e-14)
    zero = evaluate(binding.apply(model.observables["P_w_zero"]), env)
    assert float(zero) == pytest.approx(0.0 if sigma2 else 0.9, abs=1e-14)


MIN_NORM_VALUES = [
    (2, 0.1, 0.008172995145875977, 0.037156744488808305, 5.919784932497247),
    (2, 1.0, 0.04870471680333148, 1.0227601777430715, 0.04656111829140268),
    (3, 1.0, 0.0450090880764153, 1.093074254839391, 0.03767045647681482),
]


@pytest.mark.parametrize(("depth", "alpha", "C_w", "R_w", "Cf_tilde"), MIN_NORM_VALUES)
def test_minimum_norm_box(depth: int, alpha: float, C_w: float, R_w: float, Cf_tilde: float) -> None:
    model = load("dln_fixed_point_min_norm")
    binding = bind(model, {"delta": 0.5, "alpha": alpha, "L": depth})
    env = environment(binding, C_w=C_w, R_w=R_w, Cf_tilde=Cf_tilde)
    node = binding.apply(model.variables["theta"])
    w_star, z = model.symbols("w_star z")
    deviation = R_w * math.sqrt(Cf_tilde / 0.5)
    values, weights = through_inverse(node, w_star, deviation, env, math.asinh(8 / alpha**2))
    observation = evaluate(node.expression, {**env, node.variable: values[node]})
    values[z] = (values[w_star] - observation) * 0.5 / R_w
    env[E] = (values, weights)
    assert_balanced(binding, env)
    w, error = (evaluate(binding.apply(model.variables[name]), {**env, **values}) for name in ("w", "error"))
    assert error == pytest.approx(w - values[w_star], abs=1e-9 * float(np.abs(w).max()))


@pytest.mark.parametrize("depth", [2, 3, 4, 5])
def test_minimum_norm_weights_follow_the_conserved_quantities_of_the_flow(depth: int) -> None:
    alpha, theta = 0.7, np.array([-0.9, -0.1, 0.0, 0.4, 0.8])
    model = load("dln_fixed_point_min_norm")
    binding = bind(model, {"alpha": alpha, "L": depth})
    node = binding.apply(model.variables["theta"])
    u, v, w, x, q = (evaluate(binding.apply(model.variables[name]), {node: theta}) for name in "uvwxq")
    if depth == 2:
        assert u * v == pytest.approx(np.full(5, alpha**2), rel=1e-14)
        assert w == pytest.approx(alpha**2 * np.sinh(q), rel=1e-13)
        assert x == pytest.approx(np.sqrt(w**2 + alpha**4), rel=1e-14)
    else:
        assert u ** (2 - depth) + v ** (2 - depth) == pytest.approx(np.full(5, 2 * alpha ** (2 - depth)), rel=1e-13)
    assert w == pytest.approx((u**depth - v**depth) / depth, rel=1e-13)
    if depth > 2:  # what integrating the flow gives for u and v
        k = depth - 2
        assert u**-k == pytest.approx(alpha**-k - k * q / 2, rel=1e-13)
    at = {node.variable: theta}
    whole, weight = (evaluate(node.expression.diff(node.variable), {model.symbols("R_w"): R, **at}) for R in (1.0, 0.0))
    assert x * (whole - weight) == pytest.approx(weight, rel=1e-12)  # dw/dq = 1/Q''(w) = x


# --- rate -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_rate_of_a_target_without_spread(depth: int) -> None:
    """If w is the same everywhere, so is x, and γ is x times the lower Marchenko-Pastur edge."""
    delta, alpha, w = 2.0, 0.6, 1.0
    model = load("dln_rate")
    binding = bind(model, {"delta": delta, "alpha": alpha, "L": depth})
    if depth == 2:
        x = math.sqrt(w**2 + alpha**4)
    else:
        k = 2 - depth

        def gap(u: float) -> float:
            return u**depth - (2 * alpha**k - u**k) ** (depth / k) - depth * w

        u = brentq(gap, alpha, 100, xtol=1e-15, rtol=1e-15)
        v = (2 * alpha**k - u**k) ** (1 / k)
        x = (u ** (2 * depth - 2) + v ** (2 * depth - 2)) / 2
    p = -x * (1 - 1 / math.sqrt(delta)) ** 2
    R = x * (1 / math.sqrt(delta) - 1) - p
    env = environment(binding, p=p, R=R)
    env[E] = ({model.symbols("w"): np.array([w])}, np.array([1.0]))
    assert_balanced(binding, env, 1e-11)
    transform = binding.apply(model.equations[0].rhs)
    assert float(evaluate(transform.diff(model.symbols("R")), env)) == pytest.approx(1, abs=1e-10)
    observed = {key: float(evaluate(binding.apply(value), env)) for key, value in model.observables.items()}
    assert observed == pytest.approx({"gamma": -p, "u": p + R, "A": math.sqrt(delta)}, rel=1e-11)
