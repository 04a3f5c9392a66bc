"""White noise as a law: declared, printed, pickled, signed, rescaled."""

import pickle

import pytest

import eqsolve
from eqsolve import GP, E, Eq, ModelError, System, White, correlation, param, process, times
from eqsolve.passes.forms.structure import signature_of

t, tp = times("t t'")
T = param("T", positive=True)
x, xi, eta = process("x xi eta")
C = correlation("C")


def brownian(law: object) -> System:
    return System(
        "brownian",
        [Eq(x(t).diff(t), -x(t) + xi(t)), Eq(C(t, tp), E(x(t) * x(tp)))],
        laws={xi: law},
        init={x: 0},
        defaults={T: 1},
    )


def test_it_prints() -> None:
    shown = brownian(White(2 * T)).show()
    assert "xi ~ White(2*T)" in shown.text()
    assert r"\xi &\sim \mathrm{White}\left(2 T\right)" in shown.latex()
    assert str(White(T, sense="ito")) == "White(T, ito)"
    explained = str(eqsolve.explain(brownian(White(2 * T))))
    assert "white noise" in explained
    assert "stochastic" in explained


def test_it_is_a_value() -> None:
    model = brownian(White(2 * T))
    copy = pickle.loads(pickle.dumps(model))
    assert copy == model
    assert signature_of(copy) == signature_of(model)
    assert signature_of(brownian(White(T))) != signature_of(model)
    assert White(T, sense="ito") != White(T)
    assert pickle.loads(pickle.dumps(White(T, sense="stratonovich"))).sense == "stratonovich"
    assert model.whites == (xi,)


def test_a_longer_clock_makes_it_stronger() -> None:
    """With τ = c t, ξ = dW/dt has ⟨ξ(τ) ξ(τ')⟩ = 2T c δ(τ − τ'), and x' loses c."""
    made = brownian(White(2 * T)).rescale_time(3)
    assert made.laws[xi].strength == 6 * T
    assert made[x].rhs.coeff(xi(t)) == eqsolve.language.model.Equation(x(t), xi(t) / 3).rhs.coeff(xi(t))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: White(-1), "a number not below zero"),
        (lambda: White(1, sense="left"), "sense= takes 'ito' or 'stratonovich'"),
        (lambda: brownian(3), "must be GP(covariance) or White(strength)"),
        (lambda: System("m", [Eq(x(t).diff(t), xi(t))], laws={(xi, eta): White(1)}, init={x: 0}), "the law of one process"),
    ],
)
def test_wrong_laws_are_refused(make: object, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        make()  # type: ignore[operator]
    assert words in str(caught.value)


def test_gaussian_processes_stay_beside_it() -> None:
    model = brownian(White(2 * T)).replace(
        "both", laws={eta: GP(C(t, tp))}, eqs=[Eq(x(t).diff(t), -x(t) + xi(t) + eta(t) / 2)]
    )
    eqsolve.check(model)
    assert model.noises == (xi, eta)
    assert model.whites == (xi,)


def test_a_negative_strength_is_refused() -> None:
    """It was solved as if there were no noise."""
    t, T = eqsolve.times("t"), eqsolve.param("T", positive=True)
    x, xi = eqsolve.process("x xi")
    for strength in (-2 * T, T * (1 - t)):
        model = eqsolve.System(
            "cold", eqs=[eqsolve.Eq(x(t).diff(t), -x(t) + xi(t))], laws={xi: eqsolve.White(strength)}, init={x: 1},
            defaults={T: 1}, observables={"q": eqsolve.E(x(t) ** 2)},
        )  # fmt: skip
        with pytest.raises(eqsolve.ModelError, match="is negative"):
            eqsolve.solve(model, t_max=2)
