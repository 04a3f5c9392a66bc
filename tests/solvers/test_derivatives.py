"""Derivatives along parameters against closed forms, and against differences of tighter solves."""

import json

import numpy as np
import pytest
from sympy import Abs, Heaviside, exp, tanh

import eqsolve
from eqsolve import GP, E, Eq, System, White, correlation, function, param, process, random, times
from eqsolve.cli import main
from eqsolve.errors import UsageError
from eqsolve.laws import Bernoulli, GaussBernoulli, Laplace, Normal, Uniform

t, tp = times("t t'")
a = param("a", positive=True)
p = param("p", domain=(0, 1))
v = param("v", positive=True)
x = process("x")


def _derivative(result, name, parameter, moments):
    found = result.at(moments)
    return found[f"{name}_d_{parameter}"].values, found[f"{name}_d_{parameter}_error"].values


def test_a_decay_and_its_start():
    """y = v e^{−a t}: both derivatives."""
    y = function("y")
    model = System("decay", eqs=[Eq(y(t).diff(t), -a * y(t))], init={y: v}, observables={"square": y(t) ** 2})
    moments = np.array([0.5, 2.0])
    result = eqsolve.solve(model, a=0.7, v=1.5, t_max=2, rtol=1e-8, derivatives=["a", "v"])
    truth = {
        ("y", "a"): -1.5 * moments * np.exp(-0.7 * moments),
        ("y", "v"): np.exp(-0.7 * moments),
        ("square", "a"): -2 * 1.5**2 * moments * np.exp(-1.4 * moments),
    }
    for (name, parameter), values in truth.items():
        found, error = _derivative(result, name, parameter, moments)
        assert np.abs(found - values).max() < 1e-8
        assert (np.abs(found - values) <= 3 * error + 1e-15).all()
    curve = result.derivative("square", "a")
    assert curve.dims == ("t",)
    assert curve["error"].dims == ("t",)
    assert "y_d_a" not in result.names
    made = result.json_object(at=[2.0])
    assert made["derivatives"]["v"]["y"][0] == pytest.approx(np.exp(-1.4), rel=1e-8)
    assert made["derivative_errors"]["v"]["y"][0] < 1e-7


@pytest.mark.parametrize(
    ("law", "parameter", "value", "truth"),
    [
        (Bernoulli(p), "p", 0.3, 1.0),  # E[w²] = p
        (Normal(1, v), "v", 0.4, 1.0),  # 1 + v
        (Laplace(v), "v", 0.4, 4 * 0.4),  # 2 v²
        (Uniform(0, v), "v", 0.6, 2 * 0.6 / 3),  # v²/3
        (GaussBernoulli(p, 2), "p", 0.3, 2.0),
        (GaussBernoulli(0.3, v), "v", 0.5, 0.3),
    ],
)
def test_parameters_of_laws(law, parameter, value, truth):
    """x' = w − x gives E[x²] = E[w²] (1 − e^{−t})²."""
    w = random("w", law)
    model = System("relaxing", eqs=[Eq(x(t).diff(t), w - x(t))], init={x: 0}, observables={"square": E(x(t) ** 2)})
    result = eqsolve.solve(model, t_max=1, rtol=1e-6, derivatives=[parameter], **{parameter: value})
    found, error = _derivative(result, "square", parameter, [1.0])
    expected = truth * (1 - np.exp(-1)) ** 2
    assert abs(found[0] - expected) <= 3 * error[0] + 1e-12
    assert found[0] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
def test_the_lazy_system_in_delta():
    """Against the closed form over the Marchenko–Pastur law."""
    moments = np.array([0.5, 2.0, 5.0])

    def closed(delta):
        law = eqsolve.spectra.MarchenkoPastur(delta)
        nodes, weights = law.quadrature(200)
        with np.errstate(divide="ignore", invalid="ignore"):
            noise = np.where(nodes > 0, (1 - np.exp(-np.outer(moments, nodes))) ** 2 / nodes, 0.0)
        return 0.1 * np.exp(-2 * np.outer(moments, nodes)) @ weights + 0.1 / delta * noise @ weights

    h = 1e-3
    truth = (8 * (closed(0.5 + h) - closed(0.5 - h)) - (closed(0.5 + 2 * h) - closed(0.5 - 2 * h))) / (12 * h)
    for solver in ("two_time", "operators"):
        result = eqsolve.solve(
            "dln_lazy", delta=0.5, sigma2=0.1, t_max=5, rtol=1e-8, derivatives=["delta"], solver=solver, kernels=None
        )
        found, error = _derivative(result, "E_test", "delta", moments)
        assert np.abs(found - truth).max() < 1e-8
        assert (np.abs(found - truth) <= 3 * error + 1e-11).all()


@pytest.mark.slow
def test_kernels_of_the_spin_glass_in_temperature():
    pairs = [(0.5, 0.15), (0.4, 0.25)]

    def kernel(T):
        return eqsolve.solve("pspin", T=T, t_max=0.5, rtol=1e-9, at2=pairs).at2(pairs)["C"].values

    h = 5e-3
    truth = (8 * (kernel(0.5 + h) - kernel(0.5 - h)) - (kernel(0.5 + 2 * h) - kernel(0.5 - 2 * h))) / (12 * h)
    result = eqsolve.solve("pspin", T=0.5, t_max=0.5, rtol=1e-7, at2=pairs, derivatives=["T"])
    found = result.rows.evaluate("C_d_T", np.array(pairs))
    assert np.abs(found - truth).max() < 1e-6
    assert result.derivative("C", "T").dims == ("t", "t'")


def test_a_noise_whose_law_moves():
    """x' = −a x + z, z of covariance v e^{−(t−t')²}: E[x²] in closed form, by paths and by their Gaussian law."""
    z = process("z")
    C = correlation("C")
    model = System(
        "driven", eqs=[Eq(x(t).diff(t), -a * x(t) + z(t)), Eq(C(t, tp), E(x(t) * x(tp)))], init={x: 0},
        laws={z: GP(v * exp(-((t - tp) ** 2)))}, observables={"q": C(t, t)},
    )  # fmt: skip

    def closed(rate, size, moment):
        s, w = np.polynomial.legendre.leggauss(60)
        s, w = moment * (s + 1) / 2, moment * w / 2
        drive = w * np.exp(-rate * (moment - s))
        return size * drive @ np.exp(-(np.subtract.outer(s, s) ** 2)) @ drive

    h = 1e-3
    for solver in ("gaussian", "stochastic"):
        result = eqsolve.solve(model, a=0.8, v=0.5, t_max=2, rtol=1e-4, derivatives=["a", "v"], solver=solver)
        for parameter, truth in (
            ("a", (closed(0.8 + h, 0.5, 2.0) - closed(0.8 - h, 0.5, 2.0)) / (2 * h)),
            ("v", closed(0.8, 1.0, 2.0)),
        ):
            found, error = _derivative(result, "q", parameter, [2.0])
            assert found[0] == pytest.approx(truth, rel=1e-3)
            assert abs(found[0] - truth) <= 3 * error[0] + 1e-6


# dE_test/dα of `dln` at (0.3, 0.5, 0, 0), t = 1, 10, 20: slopes of a polynomial of degree 6 through nine solves at rtol 1e-5,
# 0.01 apart; from their stated errors it is known to 7e-5.
NETWORK = np.array([-0.07815046, 0.03561397, 0.05943139])


@pytest.mark.slow
def test_the_network_in_alpha():
    """By paths that are not linear: to the tolerance of the solve, with an error bar that holds."""
    moments = [1.0, 10.0, 20.0]
    settings = {"alpha": 0.3, "delta": 0.5, "lam": 0, "sigma2": 0, "at": moments, "observables": ["E_train", "E_test"]}
    result = eqsolve.solve("dln", rtol=1e-3, derivatives=["alpha"], **settings)
    found, error = _derivative(result, "E_test", "alpha", moments)
    assert np.abs(found / NETWORK - 1).max() < 1e-3
    assert (np.abs(found - NETWORK) <= 3 * error + 7e-5 * np.abs(NETWORK)).all()
    assert (error <= 5e-3 * np.abs(NETWORK)).all()


@pytest.mark.slow
def test_the_network_in_alpha_anew():
    """The first two numbers above, by differences of solves made now; their errors give 3e-4 at most."""
    settings = {"delta": 0.5, "lam": 0, "sigma2": 0, "at": [1.0, 10.0], "observables": ["E_train", "E_test"]}
    h = 0.02
    runs = [
        eqsolve.solve("dln", alpha=0.3 + k * h, rtol=3e-5, **settings).at([1.0, 10.0])["E_test"].values for k in (-2, -1, 1, 2)
    ]
    made = (8 * (runs[2] - runs[1]) - (runs[3] - runs[0])) / (12 * h)
    assert np.abs(made / NETWORK[:2] - 1).max() < 5e-4


@pytest.mark.slow
def test_the_network_ends_at_its_fixed_point():
    """t → ∞: dE_test/dα is that of the fixed point, in whose error e^{−γ t} is negligible."""
    end, settings = 400.0, {"alpha": 0.5, "delta": 0.5, "sigma2": 0.05}
    result = eqsolve.solve("dln", lam=0, t_max=end, rtol=1e-3, derivatives=["alpha"], observables=["E_test"], **settings)
    found, error = _derivative(result, "E_test", "alpha", [end])
    limit = eqsolve.solve("dln_fixed_point_min_norm", derivatives=["alpha"], **settings).json_object()
    truth = limit["derivatives"]["alpha"]["E_test"]
    assert found[0] == pytest.approx(truth, rel=3e-3)
    assert abs(found[0] - truth) <= 3 * error[0] + 1e-4 * abs(truth)


@pytest.mark.slow
def test_convolutions_and_white_noise():
    """Differences of tighter solves; of white noise its strength, in closed form."""
    for model, parameter, name, settings in (
        ("mct_f12", "v1", "phi", {"v1": 1.0, "v2": 1.5}),
        ("sir_memory", "beta", "S", {"beta": 2.5}),
    ):
        h, here = 3e-3, settings[parameter]  # differences: 1e-8/h of noise, and h² of truncation
        low, high = (
            float(eqsolve.solve(model, **{**settings, parameter: here + k * h}, at=[2.0], rtol=1e-8).at([2.0])[name][0])
            for k in (-1, 1)
        )
        result = eqsolve.solve(model, at=[2.0], rtol=1e-6, derivatives=[parameter], **settings)
        found, error = _derivative(result, name, parameter, [2.0])
        assert found[0] == pytest.approx((high - low) / (2 * h), rel=1e-4)
        assert error[0] <= 1e-5 * abs(found[0])
    xi = process("xi")
    model = System(
        "ornstein", eqs=[Eq(x(t).diff(t), -a * x(t) + xi(t))], init={x: 0}, laws={xi: White(2 * v)},
        observables={"q": E(x(t) ** 2)},
    )  # fmt: skip
    result = eqsolve.solve(model, a=0.8, v=0.5, at=[2.0], rtol=1e-5, derivatives=["v", "a"])  # q = v (1 − e^{−2at})/a
    for parameter, truth in (
        ("v", (1 - np.exp(-3.2)) / 0.8),
        ("a", 0.5 * (4 * np.exp(-3.2) / 0.8 - (1 - np.exp(-3.2)) / 0.64)),
    ):
        found, error = _derivative(result, "q", parameter, [2.0])
        assert abs(found[0] - truth) <= 3 * error[0] + 1e-10
        assert found[0] == pytest.approx(truth, rel=1e-4)


@pytest.mark.slow
def test_a_fixed_point_and_a_rate():
    for model, name in (("dln_fixed_point_min_norm", "E_test"), ("dln_rate", "gamma")):
        settings = {"delta": 0.5, "sigma2": 0.05}
        h = 1e-4
        low, high = (float(eqsolve.solve(model, alpha=0.4 + k * h, **settings)[name]) for k in (-1, 1))
        result = eqsolve.solve(model, alpha=0.4, derivatives=["alpha"], **settings)
        made = result.json_object()
        assert made["derivatives"]["alpha"][name] == pytest.approx((high - low) / (2 * h), rel=1e-5)
        assert 0 < made["derivative_errors"]["alpha"][name] < 1e-6


def test_numbers_in_laws_are_named():
    """E[w²] is 1 in the variance and 2 × the mean in the mean; of a model's own Bernoulli(0.1), differences."""
    w = random("w", Normal(0.5, 0.4))
    model = System("relaxing", eqs=[Eq(x(t).diff(t), w - x(t))], init={x: 0}, observables={"square": E(x(t) ** 2)})
    result = eqsolve.solve(model, t_max=1, rtol=1e-6, derivatives=["w.variance", "w.mean"])
    for name, truth in (("w.variance", 1.0), ("w.mean", 1.0)):
        assert float(result.derivative("square", name)[-1]) == pytest.approx(truth * (1 - np.exp(-1)) ** 2, rel=1e-6)
    made = eqsolve.solve("dln_infinite_data", at=[3.0], rtol=1e-6, derivatives=["w_star.p"]).json_object(at=[3.0])
    h = 1e-3
    low, high = (
        float(eqsolve.solve("dln_infinite_data", w_star=Bernoulli(0.1 + k * h), at=[3.0], rtol=1e-9).at([3.0])["E_test"][0])
        for k in (-1, 1)
    )
    assert made["derivatives"]["w_star.p"]["E_test"][0] == pytest.approx((high - low) / (2 * h), rel=1e-6)
    with pytest.raises(UsageError, match=r"no such number \(it has: w_star\.p\)"):
        eqsolve.solve("dln_infinite_data", at=[1.0], derivatives=["w_star.variance"])
    with pytest.raises(UsageError, match="no random constant `u_star`"):
        eqsolve.solve("dln_infinite_data", at=[1.0], derivatives=["u_star.p"])
    with pytest.raises(UsageError, match="stands in the law of `w_star`"):
        eqsolve.solve("dln_fixed_point_min_norm", alpha=0.3, delta=0.5, derivatives=["w_star.p"])


def test_refusals():
    y = function("y")
    jump = System("jump", eqs=[Eq(y(t).diff(t), -a * Heaviside(y(t) - 1))], init={y: 2}, observables={"y2": y(t) ** 2})
    with pytest.raises(UsageError, match=r"equation for `y`.*jumps"):
        eqsolve.solve(jump, a=1, t_max=1, derivatives=["a"])
    kinked = System("kinked", eqs=[Eq(y(t).diff(t), -a)], init={y: 1}, observables={"size": Abs(y(t))})
    with pytest.raises(UsageError, match=r"`size` has a kink near t = 0\.5"):
        eqsolve.solve(kinked, a=2, t_max=1, at=[0.5], derivatives=["a"])
    with pytest.raises(UsageError, match=r"no parameter `alhpa`.*did you mean"):
        eqsolve.solve("dln_infinite_data", t_max=1, derivatives=["alhpa"])
    with pytest.raises(UsageError, match="whole number"):
        eqsolve.solve("pspin", t_max=1, derivatives=["p"])
    with pytest.raises(UsageError, match=r"`y\(-tau \+ t\)`, a time that moves with `tau`"):
        eqsolve.solve("mackey_glass", t_max=1, derivatives=["tau"])
    with pytest.raises(UsageError, match="derivatives="):
        eqsolve.solve("dln_infinite_data", t_max=1).derivative("E_test", "alpha")


def test_the_command_line(capsys):
    words = ["solve", "dln_infinite_data", "--at", "1", "--json", "--derivatives"]
    assert main([*words, "alpha"]) == 0
    assert json.loads(capsys.readouterr().out)["derivatives"]["alpha"]["E_test"][0] < 0
    assert main([*words, "beta"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def _adaptive(start):
    """A random network with adaptation: a path of two components."""
    g, beta = param("g beta", positive=True)
    a, eta, C = process("a"), process("eta"), correlation("C")
    return System(
        "adaptive",
        eqs=[
            Eq(C(t, tp), E(tanh(x(t)) * tanh(x(tp)))),
            Eq(x(t).diff(t), -x(t) - a(t) + eta(t)),
            Eq(a(t).diff(t), (beta * x(t) - a(t)) / 5),
        ],
        laws={eta: GP(g**2 * C(t, tp))},
        init={x: start, a: 0},
        observables={"q": C(t, t), "v": E(x(t) ** 2)},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "parameter", "settings", "names"),
    [
        ("rnn", "gain", {"gain": 1.5}, ("q", "phi2")),
        (_adaptive(Normal(0, 1)), "beta", {"g": 2.5, "beta": 0.8}, ("q", "v")),
        (_adaptive(1), "g", {"g": 2.5, "beta": 0.8}, ("q", "v")),
    ],
)
def test_gaussian_networks_against_differences(model, parameter, settings, names):
    """Differences of fourth order of solves at 1e-6: known to some 1e-5, where the tolerance is 1e-3."""
    step, moments = 0.03, np.array([0.5, 1.5, 4.0])
    beside = [
        eqsolve.solve(model, t_max=4, rtol=1e-6, **(settings | {parameter: settings[parameter] + k * step})).at(moments)
        for k in (-2, -1, 1, 2)
    ]
    result = eqsolve.solve(model, t_max=4, derivatives=[parameter], **settings)
    assert result.status == "ok"
    assert result.stats["solver"] == "gaussian"
    assert set(result.params) == ({"gain", "x0"} if model == "rnn" else {"g", "beta"})  # no constants of our own
    for name in names:
        low2, low, high, high2 = (item[name].values for item in beside)
        truth = (8 * (high - low) - (high2 - low2)) / (12 * step)
        found, error = _derivative(result, name, parameter, moments)
        assert (np.abs(found - truth) <= 3 * error + 3e-5 * np.abs(truth).max()).all()
        assert (error <= 1e-3 * np.abs(truth).max()).all()
