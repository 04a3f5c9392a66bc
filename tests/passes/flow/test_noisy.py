"""Flows with noise: what they declare, what follows from them, and what is refused."""

import pickle

import pytest

import eqsolve
from eqsolve import (
    GP,
    E,
    Flow,
    ModelError,
    Resampled,
    Telegraph,
    UsageError,
    White,
    field,
    gradient,
    param,
    process,
    random,
    state,
    times,
)
from eqsolve.laws import Bernoulli, Normal

t, tp = times("t t'")
batch, T = param("batch T", positive=True)
s, n = process("s n")
w = state("w")
f = field("f")
g = gradient("g")
xi = random("xi", Normal(0, 1))


def simple(loss: object, drift: object, laws: dict) -> Flow:
    return Flow(
        "simple",
        state={w: 1},
        weights=[w],
        fields=[f],
        loss_gradient=[loss],
        gradients=[g],
        drift={w: drift},
        laws=laws,
        defaults={param("delta", positive=True): 2},
        observables={"q": E(w**2)},
    )


def test_variants_combine() -> None:
    flow = eqsolve.load("linear_flow").sgd(batch).label_noise(0.1).momentum(2).langevin(T)
    eqsolve.check(flow)
    assert pickle.loads(pickle.dumps(flow)) == flow
    kinds = [type(law).__name__ for law in flow.laws.values()]
    assert kinds == ["Resampled", "Resampled", "White"]
    assert len(flow.reads("loss_gradient")) == 2
    assert {item.name for item in flow.reads("drift")} == {"eta"}
    text = flow.show().text()
    assert "s ~ Resampled(Bernoulli(batch))" in text
    system = flow.dmft()
    assert "D" in system
    assert "f" not in system
    assert set(flow.gradient_descent(0.1).names) >= {"C_l", "D"}


def test_fields_stay_where_noise_multiplies_them_differently() -> None:
    flow = eqsolve.load("logistic_regression").sgd(0.3)
    system = flow.dmft()
    assert "f" in system
    assert isinstance(system.laws[system.symbols("s")], Resampled)


@pytest.mark.parametrize(
    ("loss", "drift", "laws", "said"),
    [
        (f - n(t), -g, {n: White(1)}, "is white, which has no values"),
        (f * s(t), -g * s(t), {s: Resampled(Bernoulli(0.5))}, "take two"),
        (f, -g, {s: Resampled(Bernoulli(0.5))}, "no loss gradient and no drift reads"),
        (f, -g + w * n(t), {n: White(1)}, "multiplies the white noise"),
        (f, -g + n(t), {}, "only a System has functions of time"),
        (f, -g + n(t), {n: GP(xi)}, "expected parameters"),
    ],
)
def test_what_is_wrong_is_said(loss: object, drift: object, laws: dict, said: str) -> None:
    with pytest.raises(ModelError, match=said):
        eqsolve.check(simple(loss, drift, laws))


def test_laws_are_read() -> None:
    with pytest.raises(ModelError, match="probability b from 0 to 1"):
        Telegraph(1.2, 1)
    with pytest.raises(ModelError, match="positive time"):
        Telegraph(0.5, 0)
    with pytest.raises(ModelError, match="law of one draw"):
        Resampled(3)
    with pytest.raises(ModelError, match="Resampled"):
        simple(f, -g + n(t), {n: Normal(0, 1)})
    with pytest.raises(ModelError, match="0 < batch <= 1"):
        eqsolve.load("linear_flow").sgd(2)
    with pytest.raises(ModelError, match="not negative"):
        eqsolve.load("linear_flow").langevin(-1)


def test_what_is_drawn_in_steps_needs_a_step() -> None:
    flow = eqsolve.load("linear_flow").sgd(0.5)
    for run in (
        lambda: eqsolve.solve(flow, at=[1]),
        lambda: flow.simulate(d=20, at=[1]),
        lambda: eqsolve.validate(flow, d=20),
    ):
        with pytest.raises(UsageError, match="drawn afresh at every step; say how long a step is"):
            run()
    with pytest.raises(UsageError, match="followed in discrete time so far"):
        eqsolve.solve(simple(f * s(t), -g, {s: Telegraph(0.5, 2)}), at=[1])
    with pytest.raises(ModelError, match="flows without noise"):
        flow.infinite_data()


def test_gaussian_noise_of_samples_adds_to_their_covariance() -> None:
    from sympy import exp

    a = param("a", positive=True)
    flow = simple(f - n(t), -g, {n: GP(a * exp(-abs(t - tp)))})
    system = flow.dmft()
    assert "f" not in system
    assert "a*exp(-|t - t1|)" in system.show().text()
