"""The error estimates of the ODE solver against closed forms: neither too small nor much too large."""

import math
from collections.abc import Callable
from pathlib import Path

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from sympy import Abs, cos, sin, tanh

import eqsolve
from eqsolve import E, Eq, System, function, process, random, times
from eqsolve.compile.ode import compile_ode
from eqsolve.laws import Normal, StudentT
from eqsolve.numerics.constants import make_paths
from eqsolve.solvers.ode import march as ode_march
from eqsolve.solvers.ode.march import bind_system
from eqsolve.solvers.options import Options
from eqsolve.solvers.tolerance import excess

MODELS = Path(__file__).resolve().parents[3] / "models"
RTOLS = (1e-3, pytest.param(1e-9, marks=pytest.mark.slow))
SPARSE = {0.0: 0.9, 1.0: 0.1}
SIGNED = {-1.0: 0.1, 0.0: 0.8, 1.0: 0.1}
THREE = {-1.0: 0.25, 0.2: 0.5, 1.0: 0.25}

t = times("t")
y, v, m = function("y v m")
x = process("x")
a = random("a", Normal(0, 1))

Exact = Callable[[np.ndarray], dict[str, np.ndarray]]


def in_digits(formula: Callable[[mpmath.mpf], mpmath.mpf], moments: np.ndarray) -> np.ndarray:
    """Evaluate with 40 digits: the error of w − w* must not come from the reference."""
    with mpmath.workdps(40):
        return np.array([float(formula(mpmath.mpf(float(moment)))) for moment in moments])


def number(value: float) -> mpmath.mpf:
    return mpmath.mpf(repr(value))


def infinite_data(alpha: float, law: dict[float, float]) -> Exact:
    """λ = 0: u = e^θ obeys (u₊ − u)/(u − u₋) = (u₊ − 1)/(1 − u₋) e^{−Dt}, D² = w*² + α⁴, α² u± = w* ± D."""

    def weight(star: mpmath.mpf, moment: mpmath.mpf) -> mpmath.mpf:
        scale = number(alpha) ** 2
        root = mpmath.sqrt(star**2 + scale**2)
        upper, lower = (star + root) / scale, (star - root) / scale
        ratio = (upper - 1) / (1 - lower) * mpmath.exp(-root * moment)
        u = (upper + ratio * lower) / (1 + ratio)
        return scale / 2 * (u - 1 / u)

    def mean(function: Callable[[mpmath.mpf, mpmath.mpf], mpmath.mpf]) -> Callable[[mpmath.mpf], mpmath.mpf]:
        atoms = [(number(star), number(mass)) for star, mass in law.items()]
        return lambda moment: sum(mass * function(weight(star, moment), star) for star, mass in atoms)

    return lambda moments: {
        "E_test": in_digits(mean(lambda w, star: (w - star) ** 2), moments),
        "w_mean": in_digits(mean(lambda w, star: w), moments),
    }


def search(delta: float, lam: float, sigma2: float) -> Exact:
    """W = e^{−λt} sinh(ct), c Gaussian of mean w* and variance (E[w*²] + σ²)/δ."""
    variance = (0.1 + sigma2) / delta

    def curves(moments: np.ndarray) -> dict[str, np.ndarray]:
        with np.errstate(over="ignore"):
            mean = sum(p * np.sinh(star * moments) for star, p in SPARSE.items())
            square = sum(p * np.cosh(2 * star * moments) for star, p in SPARSE.items())
        return {
            "W_mean": np.exp(-lam * moments + variance * moments**2 / 2) * mean,
            "W2": np.exp(-2 * lam * moments) * (np.exp(2 * variance * moments**2) * square - 1) / 2,
        }

    return curves


def rich(w0: float, lam: float) -> Exact:
    """The logistic solution of each coordinate."""

    def weight(star: mpmath.mpf, moment: mpmath.mpf) -> mpmath.mpf:
        rate, start = abs(star) - number(lam), number(w0)
        size = rate / (1 + (rate / start - 1) * mpmath.exp(-rate * moment)) if rate else start / (1 + start * moment)
        return mpmath.sign(star) * size

    atoms = [(number(star), number(mass)) for star, mass in THREE.items()]
    return lambda moments: {
        "E_test": in_digits(lambda s: sum(p * (weight(star, s) - star) ** 2 for star, p in atoms), moments),
        "l1": in_digits(lambda s: sum(p * abs(weight(star, s)) for star, p in atoms), moments),
    }


CASES = {
    "short": ("dln_infinite_data", {"alpha": 0.1}, 1.0, infinite_data(0.1, SPARSE)),
    "wide": ("dln_infinite_data", {"alpha": 0.5}, 20.0, infinite_data(0.5, SPARSE)),
    "default": ("dln_infinite_data", {"alpha": 0.1}, 60.0, infinite_data(0.1, SPARSE)),
    "small": ("dln_infinite_data", {"alpha": 1e-4}, 20.0, infinite_data(1e-4, SPARSE)),
    "search": ("dln_search", {}, 2.0, search(0.5, 0.0, 0.0)),
    "noisy search": ("dln_search", {"lam": 0.3, "sigma2": 0.1}, 5.0, search(0.5, 0.3, 0.1)),
    "rich": ("dln_rich_infinite_data", {}, 20.0, rich(0.01, 0.3)),
    "rich at the threshold": ("dln_rich_infinite_data", {"lam": 0.2}, 40.0, rich(0.01, 0.2)),
    "rich from far": ("dln_rich_infinite_data", {"w0": 1e-4}, 60.0, rich(1e-4, 0.3)),
}


def judge(model: System, settings: dict, t_max: float, rtol: float, exact: Exact) -> None:
    """Hold one run's estimates against the truth, at its nodes and between them."""
    res = eqsolve.solve(model, t_max=t_max, rtol=rtol, **settings)
    assert res.status == "ok"
    between = np.random.default_rng(1).uniform(0, t_max, 60)
    moments = np.concatenate([res["t"].values, between])
    sampled = res.at(moments)
    for name, truth in exact(moments).items():
        true = np.abs(sampled[name].values - truth)
        estimate = res.error[name].values.max()
        largest = np.abs(truth).max()
        assert true.max() <= 3 * estimate, name
        assert true.max() <= 1e-11 * largest or estimate <= 100 * true.max(), name
        assert (true <= 1.01 * rtol * np.maximum(np.abs(truth), 1e-3 * largest)).all(), name
        assert (true <= 3 * sampled[f"{name}_error"].values).mean() > 0.98, name


@pytest.mark.parametrize("rtol", RTOLS)
@pytest.mark.parametrize("case", CASES)
def test_estimates_of_models_with_closed_forms(case: str, rtol: float) -> None:
    name, settings, t_max, exact = CASES[case]
    judge(eqsolve.load(str(MODELS / f"{name}.py")), settings, t_max, rtol, exact)


@pytest.mark.parametrize("lam", [0.6, *(pytest.param(lam, marks=pytest.mark.slow) for lam in (0.1, 1.5))])
@pytest.mark.parametrize("rtol", RTOLS)
def test_estimates_with_decay_of_the_initialization(lam: float, rtol: float) -> None:

    def exact(moments: np.ndarray) -> dict[str, np.ndarray]:
        """θ' = w* − w in the variable θ = asinh(w e^{λt}/α²), where w* = 1; w stays 0 where w* = 0."""
        order = np.argsort(moments)
        answer = solve_ivp(
            lambda s, theta: 1 - 0.01 * np.exp(-lam * s) * np.sinh(theta),
            (0, 20),
            [0.0],
            method="DOP853",
            rtol=3e-14,
            atol=1e-15,
            t_eval=moments[order],
        )
        weight = np.empty_like(moments)
        weight[order] = 0.01 * np.exp(-lam * moments[order]) * np.sinh(answer.y[0])
        return {"E_test": 0.1 * (weight - 1) ** 2, "w_mean": 0.1 * weight}

    model = eqsolve.load(str(MODELS / "dln_infinite_data.py"))
    judge(model, {"alpha": 0.1, "lam": lam}, 20.0, rtol, exact)


def test_a_loose_tolerance_does_not_report_rounding_errors_only() -> None:
    model = eqsolve.load(str(MODELS / "dln_infinite_data.py"))
    for rtol in (1e-3, 1e-9):
        res = eqsolve.solve(model, at=[1.0], rtol=rtol).at([1.0])
        true = abs(res["E_test"].item() - infinite_data(0.1, SPARSE)(np.array([1.0]))["E_test"][0])
        assert true <= 3 * res["E_test_error"].item()


stiff = System("stiff", eqs=[Eq(y(t).diff(t), -1000 * (y(t) - cos(t)) - sin(t))], init={y: 0})
mean_field = System(
    "mean_field",
    eqs=[Eq(x(t).diff(t), -x(t) + E(x(t)) / 2)],
    init={x: Normal(1, 1)},
    observables={"first": E(x(t)), "second": E(x(t) ** 2)},
)
oscillator = System("oscillator", eqs=[Eq(y(t).diff(t), v(t)), Eq(v(t).diff(t), -y(t))], init={y: 1, v: 0})
heavy = System("heavy", eqs=[Eq(x(t).diff(t), -x(t) * a**2)], init={x: 1}, observables={"left": E(x(t))})


@pytest.mark.parametrize(
    ("model", "t_max", "exact"),
    [
        (stiff, 1.0, lambda s: {"y": np.cos(s) - np.exp(-1000 * s)}),
        (mean_field, 8.0, lambda s: {"first": np.exp(-s / 2), "second": np.exp(-s) + np.exp(-2 * s)}),
        (oscillator, 50.0, lambda s: {"y": np.cos(s), "v": -np.sin(s)}),
        (heavy, 3.0, lambda s: {"left": 1 / np.sqrt(1 + 2 * s)}),
    ],
    ids=["stiff", "mean field", "oscillator", "continuous law"],
)
@pytest.mark.parametrize("rtol", [1e-3, pytest.param(1e-6, marks=pytest.mark.slow)])
def test_estimates_of_other_kinds(model: System, t_max: float, exact: Exact, rtol: float) -> None:
    judge(model, {}, t_max, rtol, exact)


def test_stiffness_is_noticed_and_oscillation_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ode_march, "_PATIENCE", 2_000)
    options = Options.make(t_max=200, rtol=1e-3, atol=None)
    for model, method in ((stiff, "Radau"), (oscillator, "DOP853")):
        system = bind_system(compile_ode(model, ()), {}, {})
        run = ode_march.Integrator(system, options).run(make_paths({}, [{}]), 1e-6)
        assert run.calls > 2_000 or method == "Radau"
        assert run.method == method


@pytest.mark.parametrize("rtol", [1e-2, 1e-4, pytest.param(1e-6, marks=pytest.mark.slow)])
def test_a_kink_in_a_continuous_law_is_reported(rtol: float) -> None:
    """E|x| over a Gaussian has a kink inside the law: rules on panels converge slowly, and the estimate says so."""
    kinked = System("kinked", eqs=[Eq(x(t).diff(t), -x(t) + 1)], init={x: Normal(0, 1)}, observables={"size": E(Abs(x(t)))})
    res = eqsolve.solve(kinked, t_max=1, rtol=rtol)
    mean, width = 1 - math.exp(-1), math.exp(-1)
    exact = width * math.sqrt(2 / math.pi) * math.exp(-(mean**2) / width**2 / 2)
    exact += mean * math.erf(mean / width / math.sqrt(2))
    assert abs(res["size"].values[-1] - exact) <= 3 * res.error["size"].values.max()
    assert res.status == ("ok" if rtol >= 1e-4 else "tolerance not met")
    assert ("quadrature" in (res.message or "")) == (res.status != "ok")


def test_frequencies_on_both_sides_of_locking() -> None:
    """Oscillators of normal frequencies: where they lock a phase is ever steeper in its frequency. Truth: a fine grid."""
    omega, moments = random("omega", Normal(0, 1)), [2.0, 4.0, 6.0]
    theta, (p, q), coupling = process("theta"), function("p q"), 2.0
    pull = coupling * (q(t) * cos(theta(t)) - p(t) * sin(theta(t)))
    eqs = [Eq(theta(t).diff(t), omega + pull), Eq(p(t), E(cos(theta(t)))), Eq(q(t), E(sin(theta(t))))]
    locking = System("locking", eqs=eqs, init={theta: 0.3 + omega}, observables={"order": p(t)})
    found = eqsolve.solve(locking, t_max=6, rtol=1e-4, at=moments)
    speeds = (np.arange(8000) + 0.5) / 500 - 8  # the midpoint rule converges exponentially, but for steep places
    weights = np.exp(-(speeds**2) / 2) / np.exp(-(speeds**2) / 2).sum()

    def slope(_: float, phase: np.ndarray) -> np.ndarray:
        return speeds + coupling * (np.sin(phase) @ weights * np.cos(phase) - np.cos(phase) @ weights * np.sin(phase))

    truth = np.cos(solve_ivp(slope, (0, 6), 0.3 + speeds, "DOP853", moments, rtol=1e-10, atol=1e-12).y.T) @ weights
    there = found.at(moments)
    assert found.status == "ok"
    assert np.all(np.abs(there["order"].values - truth) <= 3 * there["order_error"].values + 1e-7)


@pytest.mark.parametrize("rtol", [1e-2, pytest.param(1e-4, marks=pytest.mark.slow)])
def test_two_gaussian_constants_that_meet(rtol: float) -> None:
    """Rotors with inertia against an equidistant grid of both constants, which converges exponentially, and RK4."""
    speed, angle = random("speed", Normal(0, 1)), random("angle", Normal(0, 1))
    theta, rate = process("theta rate")
    p, q = function("p q")
    coupling = 4.0
    pull = coupling * (q(t) * cos(theta(t)) - p(t) * sin(theta(t)))
    rotors = System(
        "rotors",
        eqs=[
            Eq(theta(t).diff(t), rate(t)),
            Eq(rate(t).diff(t), -rate(t) + speed + pull),
            Eq(p(t), E(cos(theta(t)))),
            Eq(q(t), E(sin(theta(t)))),
        ],
        init={theta: angle, rate: 0},
    )
    res = eqsolve.solve(rotors, t_max=3, rtol=rtol)
    assert res.status == "ok"
    assert res.stats["paths"] < 10_000
    points = np.linspace(-7, 7, 141)
    drive, phase = (part.ravel() for part in np.meshgrid(points, points))
    weights = np.exp(-(drive**2 + phase**2) / 2)
    weights /= weights.sum()

    def slope(state: np.ndarray) -> np.ndarray:
        c, s = np.cos(state[0]), np.sin(state[0])
        return np.array([state[1], drive - state[1] + coupling * (weights @ s * c - weights @ c * s)])

    state, step, truth = np.array([phase, 0 * phase]), 0.05, [weights @ np.cos(phase)]
    for _ in range(60):
        one = slope(state)
        two = slope(state + step / 2 * one)
        three = slope(state + step / 2 * two)
        state = state + step / 6 * (one + 2 * two + 2 * three + slope(state + step * three))
        truth.append(weights @ np.cos(state[0]))
    moments = np.linspace(0, 3, 61)
    stated = np.interp(moments, res["t"].values, res.error["p"].values)
    assert (np.abs(res.at(moments)["p"].values - truth) <= 3 * stated + 3e-6).all()  # RK4 errs by about 1e-6


@pytest.mark.parametrize("rtol", RTOLS)
def test_a_mean_that_vanishes_by_symmetry_meets_the_tolerance(rtol: float) -> None:
    model = eqsolve.load(str(MODELS / "dln_infinite_data.py"))
    res = eqsolve.solve(model, alpha=0.1, w_star="Rademacher(0.2)", t_max=20, rtol=rtol)
    assert res.status == "ok"
    assert np.abs(res["w_mean"].values).max() < 1e-15
    assert res.error["w_mean"].values.max() < 1e-15
    truth = infinite_data(0.1, SIGNED)(res["t"].values)["E_test"]
    assert np.abs(res["E_test"].values - truth).max() <= 3 * res.error["E_test"].values.max()


@pytest.mark.parametrize("rtol", [1e-3, 1e-9])
def test_functions_driven_by_a_vanishing_mean_meet_the_tolerance(rtol: float) -> None:
    driven = System(
        "driven",
        eqs=[Eq(x(t).diff(t), -x(t) + a), Eq(m(t).diff(t), -m(t) + E(tanh(x(t)))), Eq(y(t), 2 * E(x(t)))],
        init={x: 0, m: 0},
    )
    res = eqsolve.solve(driven, t_max=5, rtol=rtol)
    assert res.status == "ok"
    assert res.stats["paths"] < 50
    for name in ("m", "y"):
        assert np.abs(res[name].values).max() <= 3 * res.error[name].values.max() < 1e-13


def test_paths_carry_errors() -> None:
    model = eqsolve.load(str(MODELS / "dln_rich_infinite_data.py"))
    res = eqsolve.solve(model, t_max=10)
    assert res.error["w"].shape == res["w"].shape
    sampled = res.at([0.5, 7.0])
    star = sampled["w_star"].values[:, None]
    rate = np.abs(star) - 0.3
    truth = np.sign(star) * rate / (1 + (rate / 0.01 - 1) * np.exp(-rate * np.array([0.5, 7.0])))
    assert (np.abs(sampled["w"].values - truth) <= 3 * sampled["w_error"].values).all()


def test_a_model_without_observables_gives_its_paths() -> None:
    bare = System("bare", eqs=[Eq(x(t).diff(t), -x(t) + a)], init={x: 0})
    res = eqsolve.solve(bare, t_max=1)
    truth = res["a"].values[:, None] * (1 - np.exp(-res["t"].values))
    assert (np.abs(res["x"].values - truth) <= 3 * res.error["x"].values).all()


def test_the_tolerance_has_a_natural_scale() -> None:
    options = Options.make(t_max=1, rtol=1e-3, atol=None)
    residue, error = np.array([1e-17, -2e-17]), np.array([1e-16, 1e-16])
    assert excess(residue, error, options) > 1e3
    assert excess(residue, error, options, scale=0.2) < 1e-8
    assert excess(np.zeros(2), error, options) == 0.0


@pytest.mark.parametrize("coupling", [0, pytest.param(4, marks=pytest.mark.slow)])
def test_frequencies_without_a_mean(coupling: int) -> None:
    """Kuramoto's oscillators with Cauchy frequencies: r' = −r + K r (1 − r²)/2 (Ott & Antonsen 2008)."""
    omega = random("omega", StudentT(1))
    theta, r = process("theta"), function("r")
    eqs = [Eq(r(t), E(cos(theta(t)))), Eq(theta(t).diff(t), omega - coupling * r(t) * sin(theta(t)))]
    result = eqsolve.solve(System("kuramoto", eqs, init={theta: 0}), t_max=1, rtol=1e-2)
    moments = np.array([0.01, 0.1, 0.5, 1.0])
    found = result.at(moments)
    growth = (coupling - 2) / 2
    exact = np.exp(growth * moments) / np.sqrt(1 + coupling / 2 * (np.exp(2 * growth * moments) - 1) / growth)
    off = np.abs(found["r"].values - exact)
    assert result.status == "ok"
    assert (off <= 1e-2 * exact).all()
    assert (off <= 3 * found["r_error"].values).all()


def test_a_mean_that_vanishes_but_for_rounding() -> None:
    """y' = E sin(3x + x³) + t with x symmetric about zero: y = t²/2, whatever rounding there is in the first slope."""
    eqs = [Eq(x(t).diff(t), -x(t)), Eq(y(t).diff(t), E(sin(3 * x(t) + x(t) ** 3)) + t)]
    found = eqsolve.solve(System("odd", eqs=eqs, init={x: a, y: 0}), t_max=1, rtol=1e-6)
    assert found.stats["calls"] < 1000  # it did not end
    assert abs(float(found["y"][-1]) - 0.5) <= 3 * float(found.error["y"][-1]) + 1e-15
