"""The mean-field equations derived from a flow, held against those written by hand."""

import pickle

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from sympy import Heaviside, Max, Rational, oo, sign, tanh

import eqsolve
from eqsolve import E, Flow, ModelError, field, gradient, param, process, random, state, times
from eqsolve.language.nodes import GP
from eqsolve.laws import Laplace, Normal

t, tp = times("t t'")
delta = param("delta", positive=True)
sigma2 = param("sigma2", nonnegative=True)
w = state("w")
f, f_star = field("f f_star")
g, g_star = gradient("g g_star")
w_star = random("w_star", Normal(0, 1))
w0 = random("w0", Normal(0, 0.25))
xi = random("xi", Normal(0, sigma2))


def flow_of(loss, name: str = "some_flow", **parts) -> Flow:
    given = {
        "state": {w: w0}, "weights": [w, w_star], "fields": [f, f_star], "loss_gradient": [loss, 0],
        "gradients": [g, g_star], "drift": {w: -g}, "defaults": {delta: 2},
        "observables": {"train": E((f - f_star) ** 2), "q": E(w**2)},
    }  # fmt: skip
    return Flow(name, **{**given, **parts})


def test_two_layers_give_the_simplified_system_as_printed() -> None:
    written = eqsolve.load("dln")
    derived = eqsolve.load("dln_flow").subs(L=2, M=oo).dmft()
    for unknown in ("C_w", "R_w", "C_f", "R_f", "g"):
        assert (derived[unknown].lhs, derived[unknown].rhs) == (written[unknown].lhs, written[unknown].rhs)
    assert derived.laws == written.laws
    assert derived.observables["E_train"] == written.observables["E_train"]
    assert derived.observables["E_test"] == E((derived["w"].rhs - written.symbols("w_star")) ** 2) + written.symbols("sigma2")
    # the drift of w = (u² − v²)/2 with uv = α² e^{−λt} is the one printed: (u² + v²)/2 = √(w² + (uv)²)
    u, v, gradient_now = (process(name)(t) for name in "uvg")
    rates = {derived[name].lhs: derived[name].rhs for name in "uv"}
    moved = derived["w"].rhs.diff(t).xreplace(rates)
    lam = derived.symbols("lam")
    assert (moved + (u**2 + v**2) / 2 * gradient_now + lam * (u**2 - v**2) / 2).expand() == 0


def test_the_general_system_of_a_nonlinear_loss() -> None:
    made = flow_of((tanh(f) - tanh(f_star)) * (1 - tanh(f) ** 2)).dmft()
    assert list(made) == ["C_w", "R_w", "C_l", "R_l_f", "R_l_f_star", "Gamma_f", "Gamma_f_star", "g", "f", "w"]
    assert [noise.name for noise in made.noises] == ["z_g", "z_f", "f_star"]
    eqsolve.check(made)
    assert pickle.loads(pickle.dumps(made)) == made
    joint = next(law for key, law in made.laws.items() if not hasattr(key, "name"))
    weight = process("w")
    assert isinstance(joint, GP)
    assert joint.covariance[0, 1] == E(weight(t) * w_star)
    assert joint.covariance[1, 0] == E(weight(tp) * w_star)
    assert joint.covariance[1, 1] == E(w_star**2)
    assert r"\Gamma" in made.show().latex()


def test_rows_and_columns_that_vanish_are_left_out() -> None:
    # no memory of the fields in ℓ: nothing responds
    only_teacher = flow_of(tanh(f_star) - xi).dmft()
    assert not [name for name in only_teacher if name.startswith(("R_l", "Gamma_f_star_"))]
    assert "Gamma_f" not in only_teacher
    one_field = flow_of(
        tanh(f), weights=[w], fields=[f], loss_gradient=[tanh(f)], gradients=[g], observables={"q": E(w**2)}
    ).dmft()
    assert [noise.name for noise in one_field.noises] == ["z_g", "z_f"]
    assert "R_l_f_star" not in one_field


def test_a_linear_loss_can_keep_its_fields() -> None:
    linear = flow_of(f - f_star - xi, observables={"E_train": E((f - f_star - xi) ** 2)})
    assert "f" not in linear.dmft()
    kept = linear.dmft(eliminate=False)
    assert "f" in kept
    assert "Gamma_f" not in kept  # it is 1
    quartic = flow_of(f - f_star - xi, observables={"fourth": E((f - f_star - xi) ** 4)})
    assert "f" in quartic.dmft()
    with pytest.raises(ModelError, match="no quadratic function of the loss gradient"):
        quartic.dmft(eliminate=True)
    with pytest.raises(ModelError, match="not linear in `f`"):
        flow_of(tanh(f)).dmft(eliminate=True)


def test_noise_enters_through_its_second_moment() -> None:
    for law, moment in ((Normal(0, sigma2), sigma2), (Laplace(sigma2), 2 * sigma2**2)):
        noise = random("noise", law)
        made = flow_of(f - f_star - noise, observables={"E_train": E((f - f_star - noise) ** 2)}).dmft()
        assert made["C_f"].rhs.has(sigma2)
        assert moment in made["C_f"].rhs.args


@pytest.mark.parametrize("loss", [sign(f - f_star), f * Heaviside(f)])
def test_a_loss_without_a_derivative_is_refused(loss) -> None:
    with pytest.raises(ModelError, match=r"some_flow.*test_flow\.py:\d+.*no derivative in `f`.*smooth"):
        flow_of(loss * (1 + sign(f_star - f)) if loss.has(Heaviside) else loss).dmft()
    flow_of(Max(0, f - f_star)).dmft()  # a kink is fine


def test_a_teacher_without_a_derivative_is_conditioned_on() -> None:
    made = flow_of(tanh(f) - sign(f_star)).dmft()
    assert "R_l_f_star" not in made
    assert [noise.name for noise in made.noises] == ["z_g", "z_f"]
    assert list(made)[4:7] == ["m_w", "Gamma_f", "Gamma_f_star"]
    eqsolve.check(made)
    m = made["m_w"].lhs
    assert made.laws[made.noises[1]].covariance == made["C_w"].lhs - m * m.xreplace({t: tp})  # E[w*²] = 1


@pytest.mark.slow
def test_both_ways_to_treat_a_teacher_agree() -> None:
    # a smooth loss can be treated both ways
    from eqsolve.passes.flow.dmft import FlowParts, general_limit

    smooth = flow_of(tanh(f) - tanh(f_star), observables={"m": E(w * w_star), "q": E(w**2)}, state={w: 0})
    at = [0.5, 2.0]
    direct = eqsolve.solve(smooth.dmft(), at=at, rtol=1e-3).at(at)
    conditioned = eqsolve.solve(general_limit(FlowParts(smooth), (1,)), at=at, rtol=1e-3).at(at)
    for name in ("m", "q"):  # each to 1e-3
        assert conditioned[name].values == pytest.approx(direct[name].values, rel=2e-3)


def test_wrong_flows_are_refused() -> None:
    with pytest.raises(ModelError, match=r"the weight of `f`.*depends on the gradient `g`"):
        flow_of(f, weights=[w + g, w_star]).dmft()
    with pytest.raises(ModelError, match=r"the field `f_star`, which no loss gradient and no observable uses"):
        flow_of(f, observables={"q": E(w**2)}).dmft()
    with pytest.raises(ModelError, match=r"one field, loss gradient and gradient per weight; got 2 weights, 1 fields"):
        flow_of(f, fields=[f])
    with pytest.raises(ModelError, match="no gradient acts on the state"):
        flow_of(f - f_star, drift={w: -w}).dmft()


def test_descent_is_the_same_system_in_steps() -> None:
    linear = flow_of(f - f_star - xi, observables={"E_train": E((f - f_star - xi) ** 2)})
    made = linear.gradient_descent(0.1)
    assert made.step == Rational(1, 10)
    assert made.equations == linear.dmft().equations
    with pytest.raises(ModelError, match="positive step"):
        linear.gradient_descent(-1)


def test_momentum_is_a_flow_of_twice_as_many_states() -> None:
    heavy = flow_of(f - f_star - xi).momentum(0.5)
    assert [item.name for item in heavy.state] == ["w", "w_velocity"]
    eqsolve.check(heavy)
    eqsolve.check(heavy.dmft())
    # at strong friction θ' ≈ p/friction: the same curve in slower time
    slow = flow_of(f - f_star).momentum(50).simulate(60, 2, 1, at=[50.0], rtol=1e-5)
    plain = flow_of(f - f_star).simulate(60, 2, 1, at=[1.0])
    assert slow.values["q"][0, 0] == pytest.approx(plain.values["q"][0, 0], rel=0.03)


def test_infinite_data_of_two_layers_is_the_ode_written_by_hand() -> None:
    at = [0.5, 2.0, 5.0]
    derived = eqsolve.load("dln_flow").infinite_data()
    assert "delta" not in derived.names
    found = eqsolve.solve(derived, at=at, alpha=0.3, lam=0.1, rtol=1e-8).at(at)
    known = eqsolve.solve("dln_infinite_data", at=at, alpha=0.3, lam=0.1, rtol=1e-8).at(at)
    for name in ("E_train", "E_test"):
        if name in known:
            assert found[name].values == pytest.approx(known[name].values, rel=1e-6)


def test_infinite_data_of_a_nonlinear_loss_combines_only_constants_that_meet() -> None:
    at = [0.3, 1.0]
    derived = eqsolve.load("teacher_student_tanh").infinite_data()
    res = eqsolve.solve(derived, at=at, rtol=1e-3)
    sizes = res.dataset.sizes  # (w_0, w*) and the two fields' normals
    assert res.stats["paths"] == sizes["path"] + sizes["path_2"] < 5000
    nodes, mass = np.polynomial.hermite_e.hermegauss(40)
    x, y = np.meshgrid(nodes, nodes, indexing="ij")
    weight = np.outer(mass, mass) / mass.sum() ** 2

    def slope(_: float, state: np.ndarray) -> list[float]:
        # in population the weights stay in the span of w_0 and w*; by Stein's lemma E[ℓ f*] and E[ℓ f] are all it takes
        m, q = state
        student = m * x + np.sqrt(q - m**2) * y
        loss = (np.tanh(student) - np.tanh(x)) * (1 - np.tanh(student) ** 2)
        return [-np.sum(weight * loss * x), -2 * np.sum(weight * loss * student)]

    known = solve_ivp(slope, (0, 1), [0, 0.25], t_eval=at, rtol=1e-9, atol=1e-12).y
    found = res.at(at)
    for name, values in zip(("m", "q"), known, strict=True):
        np.testing.assert_allclose(found[name].values, values, atol=1e-3 * np.max(values))
        assert np.all(np.abs(found[name].values - values) <= found[f"{name}_error"].values + 1e-9)
