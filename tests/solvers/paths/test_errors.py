"""Stated errors of stochastic systems against truth: no true error above three times the stated one, on any kind of model."""

from __future__ import annotations

import numpy as np
import pytest
from sympy import Abs, Heaviside, Rational, exp

import eqsolve
from eqsolve import GP, E, Eq, System, UsageError, correlation, process, random, times
from eqsolve.laws import Normal
from eqsolve.numerics.sobol import DIMENSIONS, sobol_normals

Array = np.ndarray
t, tp = times("t t'")
x, eta = process("x eta")
C = correlation("C")
LARGEST = 3.0


# --- models that the engine was not tuned on ---------------------------------------------------------------------------------
def network(gain: float, end: float, count: int = 61) -> tuple[Array, Array, Array]:
    """Solve C = e⁻ᵗe⁻ˢ + g² K Q Kᵀ, Q = E tanh x tanh x', on Chebyshev points; return times, E x² and E tanh² x."""
    nodes = (1 - np.cos(np.pi * np.arange(count) / (count - 1))) / 2 * end
    basis = np.cos(np.arange(count) * np.arccos(np.clip(1 - 2 * nodes[:, None] / end, -1, 1)))
    sums = np.zeros_like(basis)
    for k in range(count):
        moments = np.zeros(count + 1)
        moments[k] = 1
        integral = np.polynomial.chebyshev.chebint(moments[: k + 1], lbnd=1)
        sums[:, k] = -np.polynomial.chebyshev.chebval(1 - 2 * nodes / end, integral) * end / 2
    integral_operator = sums @ np.linalg.inv(basis)
    memory = np.linalg.solve(np.eye(count) + integral_operator, integral_operator)
    line = np.arange(-6.6, 6.7, 0.3)
    mass = np.exp(-(line**2) / 2) / np.exp(-(line**2) / 2).sum()
    start = np.exp(-nodes)
    table = np.outer(start, start)
    for _ in range(60):
        size = np.sqrt(np.diag(table))
        angle = np.clip(table / np.outer(size, size), -1, 1)
        rates = np.empty_like(table)
        for row in range(count):
            second = angle[row][:, None, None] * line[:, None] + np.sqrt(1 - angle[row] ** 2)[:, None, None] * line
            rates[row] = (np.tanh(size[:, None, None] * second) @ mass) @ (np.tanh(size[row] * line) * mass)
        new = np.outer(start, start) + gain**2 * memory @ rates @ memory.T
        change, table = np.abs(new - table).max(), new
        if change < 1e-9:
            break
    return nodes, np.diag(table), np.diag(rates)


def ratios(result: eqsolve.Result, moments: Array, truth: dict[str, Array]) -> dict[str, Array]:
    found = result.at(moments)
    return {
        name: np.abs(found[name].values - values) / (found[f"{name}_error"].values + 1e-9) for name, values in truth.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["stochastic", "gaussian"])
@pytest.mark.parametrize("rtol", [1e-2, 1e-3])
def test_errors_of_a_random_network_hold(rtol: float, solver: str) -> None:
    """At the start too, where only the rule of the random constant can be wrong."""
    moments, q, phi2 = network(0.5, 4.0)
    result = eqsolve.solve("rnn", gain=0.5, t_max=4, rtol=rtol, solver=solver)
    assert result.status == "ok"
    for name, found in ratios(result, moments, {"q": q, "phi2": phi2}).items():
        assert found.max() <= LARGEST, name
    again = np.abs(result.dataset["C"].values.diagonal() - result["q"].values)
    assert (again <= result.error["C"].values.diagonal() + result.error["q"].values).all()


# By panels whose edges are these times and one tensor product of points, on two resolutions; good to more digits than given.
LOGISTIC = {
    "m": [0.03117107, 0.14231131, 0.2562317],
    "q": [0.00215213, 0.04397979, 0.13976145],
    "train_loss": [0.67151273, 0.60245832, 0.54332781],
    "Gamma_f": [0.24976989, 0.24553863, 0.23697485],
    "Gamma_f_star": [-0.31525877, -0.3014811, -0.28773645],
}
TANH = {  # δ = 1, λ = 0.3, good to 2e-6
    "m": [0.04733824, 0.176455, 0.25253705, 0.3131961],
    "q": [0.21668305, 0.16890763, 0.16679361, 0.17413335],
    "train_loss": [0.43851845, 0.17149504, 0.08731667, 0.05078756],
}


@pytest.mark.slow
def test_many_weak_modes_do_not_hide() -> None:
    """Sparse grids of 11 and of 68 points agree to a tenth of the tolerance here, and are three tolerances off."""
    case = {"alpha": 1.7, "delta": 1.14, "lam": 0.00462, "sigma2": 0, "w_star": "Uniform(-1, 1)", "t_max": 4.69}
    truth = eqsolve.solve("dln", rtol=1e-4, observables=["E_train"], order=5, seed=7, **case)
    assert truth.stats["paths"] >= 1024  # sampled, with points and panels of its own
    moments = np.array([0.35, 0.47, 1, 2])
    for seed in (0, 5, 10):  # the first samples tell it with the first, those at the end with the others
        found = eqsolve.solve("dln", rtol=1e-3, observables=["E_train"], seed=seed, **case).at(moments)
        off = np.abs(found["E_train"].values - truth.at(moments)["E_train"].values)
        assert (off <= LARGEST * found["E_train_error"].values).all(), seed


@pytest.mark.slow
def test_errors_of_a_flow_with_a_jump_hold() -> None:
    """A constant whose rule converges slowly: a few more points err alike."""
    result = eqsolve.solve("logistic_regression", delta=2, lam=0.1, flip=0.1, t_max=1, rtol=1e-2)
    truth = {name: np.array(values) for name, values in LOGISTIC.items()}
    for name, found in ratios(result, np.array([0.1, 0.5, 1.0]), truth).items():
        assert found.max() <= LARGEST, name


@pytest.mark.slow
@pytest.mark.parametrize("rtol", [1e-2, 1e-3])
def test_errors_of_a_flow_with_several_noises_hold(rtol: float) -> None:
    result = eqsolve.solve("teacher_student_tanh", delta=1, lam=0.3, t_max=2, rtol=rtol)
    found = result.at([0.1, 0.5, 1.0, 2.0])
    for name, values in TANH.items():
        gap = np.maximum(np.abs(found[name].values - values) - 2e-6, 0)
        assert (gap <= LARGEST * found[f"{name}_error"].values).all(), name


# --- functions with a kink ---------------------------------------------------------------------------------------------------
KINKED = System(
    "kinked",
    eqs=[Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), -x(t) + eta(t))],
    laws={eta: GP(1 + t * tp)},
    init={x: 0},
    observables={"size": E(Abs(x(t))), "q": C(t, t)},
)


def variance(moments: Array) -> Array:
    """Return the variance of x = ∫ e^{−(t − s)} (a + b s) ds with independent standard normals a, b."""
    steady, rising = 1 - np.exp(-moments), moments - 1 + np.exp(-moments)
    return steady**2 + rising**2


@pytest.mark.parametrize(
    ("rtol", "solver"),
    [(1e-2, "stochastic"), (1e-3, "gaussian"), pytest.param(1e-3, "stochastic", marks=pytest.mark.slow)],
)
def test_a_mean_with_a_kink_meets_the_tolerance(rtol: float, solver: str) -> None:
    moments = np.linspace(0, 3, 31)
    result = eqsolve.solve(KINKED, t_max=3, rtol=rtol, solver=solver)
    assert result.status == "ok"
    found, truth = result.at(moments), np.sqrt(2 * variance(moments) / np.pi)
    error = np.abs(found["size"].values - truth)
    assert (error <= LARGEST * found["size_error"].values + 1e-15).all()
    assert (error <= rtol * np.maximum(truth, 0.1 * truth.max())).all()
    assert found["size"].values[0] == found["size_error"].values[0] == 0  # exactly, at the start


@pytest.mark.slow
def test_a_mean_with_a_jump_that_misses_the_tolerance_says_so() -> None:
    """A kink is integrated out to eight digits; a jump of the function itself is not."""
    moments = np.linspace(0.1, 1, 7)
    found = eqsolve.solve(KINKED, t_max=1, rtol=1e-8, solver="stochastic").at(moments)
    error = np.abs(found["size"].values - np.sqrt(2 * variance(moments) / np.pi))
    assert (error <= LARGEST * found["size_error"].values).all()
    assert (error <= 1e-8 * found["size"].values).all()
    jump = KINKED.replace("jump", observables={"over": E(Heaviside(x(t) - Rational(1, 2))), "q": C(t, t)})
    result = eqsolve.solve(jump, t_max=1, rtol=1e-6, solver="stochastic", budget=2)
    assert result.status == "tolerance not met"
    assert "`over`" in result.message


# --- which observables ---
@pytest.mark.parametrize(("model", "name", "other"), [
    ("dln", "E_test", "l1"), ("dln_infinite_data", "E_test", "w_mean"),
    ("lasso", "E_test", ""), pytest.param("dln_flow", "E_train", "E_test", marks=pytest.mark.slow),
])  # fmt: skip
def test_named_observables_are_computed_and_no_others(model: str, name: str, other: str) -> None:
    options = {} if model == "lasso" else {"t_max": 1}
    result = eqsolve.solve(model, observables=[name], rtol=1e-2, **options)
    assert result.status == "ok"
    assert name in result.names
    assert other not in result.names


def test_an_unknown_observable_is_refused() -> None:
    with pytest.raises(UsageError, match="no observable `E_tst`; did you mean `E_test`"):
        eqsolve.solve("dln", observables=["E_tst"])
    with pytest.raises(UsageError, match="no observable `E_tst`"):
        eqsolve.sweep("dln", {"alpha": [0.3]}, observables=["E_tst"])


def test_a_scalar_that_misses_the_tolerance_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from eqsolve.solvers.fixed_point import solve as fixed_point

    right = fixed_point._table

    def blurred(*args: object) -> tuple[dict[str, float], dict[str, float]]:
        values, _ = right(*args)  # type: ignore[arg-type]
        return values, {name: 1e-2 * abs(value) for name, value in values.items()}

    monkeypatch.setattr(fixed_point, "_table", blurred)
    result = eqsolve.solve("lasso", rtol=1e-3)
    assert result.status == "tolerance not met"
    assert "10 times the tolerance" in result.message


# --- kept paths ---
def several() -> System:
    names = [random(name, Normal(0, 1)) for name in ("u0", "v0", "w0")]
    return System(
        "several",
        eqs=[Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), -x(t) - x(t) ** 3 / 10 + names[1] * names[2] / 4 + eta(t))],
        laws={eta: GP(exp(-((t - tp) ** 2)) / 10)},
        init={x: names[0] / 2},
        observables={"q": C(t, t)},
    )


def test_kept_paths_have_a_fixed_number_whatever_the_constants() -> None:
    result = eqsolve.solve(several(), t_max=0.5, rtol=3e-2)
    paths = result.dataset
    assert paths.sizes["path"] <= 4096
    drawn = np.array([paths[name].values for name in ("u0", "v0", "w0")])
    assert np.abs(np.cov(drawn) - np.eye(3)).max() < 0.1
    mean = paths["weight"].values @ paths["x"].values[:, -1] ** 2
    assert mean == pytest.approx(float(result["q"][-1]), rel=0.1)


def test_what_was_solved_is_returned_where_paths_cannot_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("eqsolve.solvers.paths.solve.sample", full)
    result = eqsolve.solve("dln", t_max=1, rtol=1e-2, observables=["E_test"])
    assert result.status == "ok"
    assert "path" not in result.dataset.sizes


# --- points ---
def test_scrambled_points_are_balanced_and_independent() -> None:
    from scipy.special import ndtr

    sets = [ndtr(sobol_normals(256, DIMENSIONS, seed)) for seed in range(2)]
    for points in sets:
        for row in points:
            assert (np.histogram(row, bins=256, range=(0, 1))[0] == 1).all()  # one point in every 1/256
    assert not np.allclose(*sets)
    table = np.array([[1.0, 0.3], [0.3, 2.0]])
    found = sobol_normals(1024, 2, 0)
    truth = 1 / np.sqrt(np.linalg.det(np.eye(2) + table))
    assert np.exp(-np.einsum("ik,ij,jk->k", found, table, found) / 2).mean() == pytest.approx(truth, abs=2e-3)
