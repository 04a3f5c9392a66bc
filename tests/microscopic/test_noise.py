"""Noises at finite size have the laws they are declared with, and runs have the theory's limits."""

import numpy as np
import pytest

import eqsolve
from eqsolve import GP, E, Flow, Resampled, Telegraph, White, field, gradient, param, process, state, times
from eqsolve.language.binding import bind
from eqsolve.laws import Bernoulli
from eqsolve.microscopic.lowered import Noises

t, tp = times("t t'")
w = state("w")
f = field("f")
g = gradient("g")
s, a, b, c = process("s a b c")


def noises(seed: int = 0) -> tuple[Flow, Noises]:
    from sympy import exp

    flow = Flow(
        "shaken",
        state={w: 0},
        weights=[w],
        fields=[f],
        loss_gradient=[f * s(t)],
        gradients=[g],
        drift={w: -g + a(t) + b(t) + c(t)},
        laws={s: Telegraph(0.3, 2), a: White(0.5), b: GP(2 * exp(-abs(t - tp))), c: Resampled(Bernoulli(0.2))},
        defaults={param("delta", positive=True): 2},
        observables={"q": E(w**2)},
    )
    return flow, Noises(bind(flow, {}), {item: 40000 for item in flow.laws}, seed)


def test_laws_in_steps() -> None:
    flow, source = noises()
    eqsolve.check(flow)
    length = 0.5
    rows = [{item: values.copy() for item, values in source.draw(k * length, length).items()} for k in range(3)]

    def moment(item: object, lag: int) -> float:
        first, second = rows[0][item], rows[lag][item]
        return float(np.mean((first - first.mean()) * (second - second.mean())))

    rough = 6 / 200  # six standard errors of 40000 draws, of variances below one
    for lag in (0, 1, 2):
        assert abs(moment(s, lag) - 0.21 * np.exp(-lag * length / 2)) < rough
        assert abs(moment(b, lag) - 2 * np.exp(-lag * length)) < 4 * rough
        assert abs(moment(a, lag) - (1.0 if lag == 0 else 0.0)) < 2 * rough
        assert abs(moment(c, lag) - (0.16 if lag == 0 else 0.0)) < rough
    assert abs(rows[2][s].mean() - 0.3) < rough
    assert abs(rows[2][c].mean() - 0.2) < rough
    again = source.begin() and source.draw(0.0, length)
    assert all(np.array_equal(again[item], rows[0][item]) for item in rows[0])


@pytest.mark.slow
def test_a_flow_at_temperature_comes_to_its_equilibrium() -> None:
    """Variance T/(x + λ) of every mode: E_test gains T E[1/(x + λ)], here within the scatter of the runs."""
    flow = eqsolve.load("linear_flow").langevin(0.1)
    given = {"delta": 2, "lam": 0.5, "rho2": 0.2, "sigma2": 0.1}
    runs = flow.simulate(d=200, at=[6.0], seeds=8, seed=3, constants="balanced", workers=1, **given)
    theory = eqsolve.solve(flow, at=[6.0], rtol=3e-3, **given).at([6.0])
    for name in ("E_train", "E_test"):
        off = abs(float(runs.mean[name][0]) - float(theory[name][0]))
        assert off < 4 * float(runs.error[name][0]) + 0.01 * float(theory[name][0])


@pytest.mark.slow
def test_batches_validate() -> None:
    flow = eqsolve.load("linear_flow").sgd(0.3).label_noise(0.1)
    found = eqsolve.validate(flow, step=0.25, d=200, seeds=6, at=[0.5, 2, 5], rtol=1e-2, delta=2, lam=0.3, workers=1)
    assert found.verdict == "agrees"


@pytest.mark.slow
def test_batches_of_a_classifier_validate() -> None:
    """The loss is not linear, so that the theory samples masks beside the typical sample."""
    flow = eqsolve.load("logistic_regression").sgd(0.5)
    found = eqsolve.validate(flow, step=0.25, d=200, seeds=6, at=[0.5, 1, 2], rtol=2e-2, workers=1)
    assert found.verdict == "agrees"
    assert found.power["train_loss"] < 0.03
