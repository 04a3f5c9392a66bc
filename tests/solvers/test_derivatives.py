"""Derivatives along parameters against closed forms, and against differences of tighter solves."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sympy import Abs, Heaviside, exp

import eqsolve
from eqsolve import GP, E, Eq, System, correlation, function, param, process, random, times
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
            "dln_lazy", delta=0.5, sigma2=0.1, t_max=5, rtol=1e-9, derivatives=["delta"], solver=solver, kernels=None
        )
        found, error = _derivative(result, "E_test", "delta", moments)
        assert np.abs(found - truth).max() < 1e-8
        assert (np.abs(found - truth) <= 3 * error + 1e-11).all()


def test_kernels_of_the_spin_glass_in_temperature():
    pairs = [(2.0, 0.5), (1.5, 1.0)]

    def kernel(T):
        return eqsolve.solve("pspin", T=T, t_max=2, rtol=1e-10, at2=pairs).at2(pairs)["C"].values

    h = 2e-3
    truth = (8 * (kernel(0.5 + h) - kernel(0.5 - h)) - (kernel(0.5 + 2 * h) - kernel(0.5 - 2 * h))) / (12 * h)
    result = eqsolve.solve("pspin", T=0.5, t_max=2, rtol=1e-7, at2=pairs, derivatives=["T"])
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


@pytest.mark.slow
def test_the_network_in_alpha():
    """By paths that are not linear, against differences of tighter solves."""
    settings = {"delta": 0.5, "lam": 0, "sigma2": 0, "t_max": 2, "observables": ["E_train", "E_test"]}
    h, moments = 0.01, [1.0, 2.0]
    runs = [eqsolve.solve("dln", alpha=0.3 + k * h, rtol=1e-5, **settings).at(moments) for k in (-2, -1, 1, 2)]
    result = eqsolve.solve("dln", alpha=0.3, rtol=1e-3, derivatives=["alpha"], **settings)
    for name in ("E_train", "E_test"):
        truth = ((8 * (runs[2][name] - runs[1][name]) - (runs[3][name] - runs[0][name])) / (12 * h)).values
        found, error = _derivative(result, name, "alpha", moments)
        assert np.abs(found / truth - 1).max() < 1e-2
        assert (np.abs(found - truth) <= 3 * error + 1e-3 * np.abs(truth)).all()


def test_a_fixed_point_and_a_rate():
    for model, name in (("dln_fixed_point_min_norm", "E_test"), ("dln_rate", "gamma")):
        settings = {"delta": 0.5, "sigma2": 0.05}
        h = 1e-4
        low, high = (float(eqsolve.solve(model, alpha=0.4 + k * h, **settings)[name]) for k in (-1, 1))
        result = eqsolve.solve(model, alpha=0.4, derivatives=["alpha"], **settings)
        made = result.json_object()
        assert made["derivatives"]["alpha"][name] == pytest.approx((high - low) / (2 * h), rel=1e-5)
        assert 0 < made["derivative_errors"]["alpha"][name] < 1e-6


def test_refusals():
    y = function("y")
    jump = System("jump", eqs=[Eq(y(t).diff(t), -a * Heaviside(y(t) - 1))], init={y: 2}, observables={"y2": y(t) ** 2})
    with pytest.raises(UsageError, match=r"equation for `y`.*jumps"):
        eqsolve.solve(jump, a=1, t_max=1, derivatives=["a"])
    bent = System("bent", eqs=[Eq(y(t).diff(t), -a)], init={y: 1}, observables={"size": Abs(y(t))})
    with pytest.raises(UsageError, match=r"`size` has a kink near t = 0\.5"):
        eqsolve.solve(bent, a=2, t_max=1, at=[0.5], derivatives=["a"])
    with pytest.raises(UsageError, match=r"no parameter `alhpa`.*did you mean"):
        eqsolve.solve("dln_infinite_data", t_max=1, derivatives=["alhpa"])
    with pytest.raises(UsageError, match="whole number"):
        eqsolve.solve("pspin", t_max=1, derivatives=["p"])
    with pytest.raises(UsageError, match="derivatives="):
        eqsolve.solve("dln_infinite_data", t_max=1).derivative("E_test", "alpha")


def test_the_command_line():
    words = [sys.executable, "-m", "eqsolve", "solve", "dln_infinite_data", "--at", "1", "--json", "--derivatives"]
    made = json.loads(subprocess.run([*words, "alpha"], capture_output=True, text=True, check=True).stdout)
    assert made["derivatives"]["alpha"]["E_test"][0] < 0
    bad = subprocess.run([*words, "beta"], capture_output=True, text=True, check=False)
    assert bad.returncode == 2
    assert "Traceback" not in bad.stderr
