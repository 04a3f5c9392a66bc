"""Networks with several outputs: units with an index, held against finite sizes and against fresh inputs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.special import erf
from sympy import Expr, Max, Piecewise, exp, log, sqrt
from sympy import erf as symbolic_erf

import eqsolve
from eqsolve import E, Flow, random
from eqsolve.laws import Uniform
from eqsolve.passes.rewrite.indices import written_out

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_committees_test_loss_is_that_of_fresh_inputs() -> None:
    """10⁵ fresh inputs: their mean loss within five standard errors of the closed form in the overlaps."""
    runs = eqsolve.load("committee").simulate(d=50, seed=4, at=[2.0], keep=True)
    student, teacher = (np.array([runs.coordinates(f"{name}_{k}", 2.0)[0] for k in (0, 1)]) for name in ("w", "w_star"))
    inputs = np.random.default_rng(5).standard_normal((50, 100000)) / np.sqrt(50)
    outputs = [erf(weights @ inputs / np.sqrt(2)).sum(axis=0) / np.sqrt(2) for weights in (student, teacher)]
    losses = (outputs[0] - outputs[1]) ** 2 / 2
    assert abs(losses.mean() - float(runs["test_loss"][0, 0])) < 5 * losses.std() / np.sqrt(losses.size)


@pytest.mark.slow
def test_a_committee_agrees_with_its_finite_size() -> None:
    """d = 800, 24 draws (balanced, seed 5), mean and standard error at t = 0.5 and 2."""
    at = [0.5, 2.0]
    found = eqsolve.solve("committee", at=at, rtol=2e-2)
    assert found.status == "ok"
    runs = {
        "train_loss": ((0.07599, 0.00038), (0.02302, 0.00010)),
        "test_loss": ((0.08597, 0.00041), (0.03418, 0.00014)),
        "m_00": ((0.3530, 0.0020), (0.4405, 0.0019)),
        "m_01": ((0.0545, 0.0025), (0.1472, 0.0030)),
        "q_00": ((0.3311, 0.0015), (0.3592, 0.0017)),
    }
    theory = found.at(at)
    for name, pairs in runs.items():
        for place, (mean, error) in enumerate(pairs):
            value, stated = float(theory[name][place]), float(theory[f"{name}_error"][place])
            assert abs(value - mean) < 3 * np.hypot(error, stated)


@pytest.mark.slow
def test_softmax_regression_agrees_with_its_finite_size() -> None:
    """d = 1000, 16 draws (balanced, seed 3), mean and standard error at t = 0.5 and 1."""
    at = [0.5, 1.0]
    runs = {
        "train_loss": ((1.02829, 0.00018), (0.98691, 0.00027)),
        "m_00": ((0.07589, 0.00028), (0.13435, 0.00049)),
        "m_01": ((-0.03818, 0.00042), (-0.06758, 0.00074)),
        "q_00": ((0.011342, 0.000053), (0.03443, 0.00016)),
    }
    found = eqsolve.solve("softmax_regression", at=at, rtol=5e-2)
    assert found.status == "ok"
    theory = found.at(at)
    for name, pairs in runs.items():
        for place, (mean, error) in enumerate(pairs):
            value, stated = float(theory[name][place]), float(theory[f"{name}_error"][place])
            assert abs(value - mean) < 3 * np.hypot(error, stated)


def plain_softmax() -> Flow:
    """Return softmax regression with its classes one by one."""
    return written_out(eqsolve.load("softmax_regression"), {})[0]


def test_classes_with_an_index_are_those_one_by_one() -> None:
    """Fields, and the gradient of the loss of a class, as they are written by hand."""
    soft = plain_softmax()
    f, f_star, beta = soft.fields[:3], soft.fields[3:], soft.symbols("beta")
    assert [item.name for item in soft.fields] == ["f_0", "f_1", "f_2", "f_star_0", "f_star_1", "f_star_2"]
    for k in range(3):
        label = exp(beta * f_star[k]) / sum(exp(beta * item) for item in f_star)
        assert soft.loss_gradient[k] - (exp(f[k]) / sum(map(exp, f)) - label) == 0
    assert soft.loss_gradient[3:] == (0, 0, 0)
    flow = written_out(eqsolve.load("committee"), {})[0]
    error = sum(map(unit, flow.fields[:2])) - sum(map(unit, flow.fields[2:]))
    for loss, field in zip(flow.loss_gradient, flow.fields[:2], strict=False):
        assert (loss - error * error.diff(field) / 2).expand() == 0


def unit(x: Expr) -> Expr:
    return symbolic_erf(x / sqrt(2))


def largest(x: list) -> list:
    """Return 1 for the largest and 0 for the others."""
    return [Piecewise((1, x[k] > Max(*(item for j, item in enumerate(x) if j != k))), (0, True)) for k in range(3)]


def drawn(x: list) -> list:
    """Return 1 for a class that is drawn by its probability, with one uniform number per sample, and 0 for the others."""
    level, sizes = random("level", Uniform(0, 1)), [exp(item) for item in x]
    first, second = sizes[0] / sum(sizes), (sizes[0] + sizes[1]) / sum(sizes)
    return [
        Piecewise((1, level < first), (0, True)),
        Piecewise((0, level < first), (1, level < second), (0, True)),
        Piecewise((0, level < second), (1, True)),
    ]


def with_labels(teachers: list, rule: Callable[[list], list] = largest) -> Flow:
    """Return softmax regression whose label follows from the teacher's fields by a rule."""
    soft = plain_softmax()
    f, f_star = list(soft.fields[:3]), list(soft.fields[3:])
    label, total = rule(f_star), sum(exp(item) for item in f)
    return soft.replace(
        "labelled",
        weights=[*soft.weights[:3], *teachers],
        loss_gradient=[*(exp(f[k]) / total - label[k] for k in range(3)), 0, 0, 0],
        observables={"train_loss": E(log(total) - sum(label[k] * f[k] for k in range(3))), "m_01": None},
    )


@pytest.mark.slow
@pytest.mark.parametrize("rule", [largest, drawn])
def test_labels_by_several_fields_agree_with_their_finite_size(rule: Callable[[list], list]) -> None:
    """Gradient descent, d = 300, 12 draws: four standard errors of runs and theory, and a bias of order 1/d."""
    flow = with_labels(list(plain_softmax().weights[3:]), rule)
    found = eqsolve.solve(flow, at=[0.5], step=0.25, rtol=5e-2, solver="steps")
    assert found.status == "ok"
    theory = found.at([0.5])
    runs = flow.simulate(d=300, at=[0.5], step=0.25, seeds=12, seed=1, workers=1, constants="balanced")
    for name in ("train_loss", "m_00", "q_00"):
        value, mean = float(theory[name][0]), float(runs.mean[name][0])
        error = np.hypot(float(runs.error[name][0]), float(theory[f"{name}_error"][0]))
        assert abs(value - mean) < 4 * error + abs(mean) / 300


def test_fields_in_which_labels_jump_need_uncorrelated_weights() -> None:
    first, second, third = plain_softmax().weights[3:]
    system = with_labels([first, second, third]).dmft()
    assert {"m_w_0_w_star_1", "Gamma_g_0_f_star_2"} <= set(system.names)
    with pytest.raises(eqsolve.ModelError, match=r"jump in `f_star_0` and in `f_star_1`, whose weights .* are correlated"):
        with_labels([first, second + first, third]).dmft()
