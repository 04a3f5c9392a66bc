"""Stationary states against energy conservation, closed forms of linear systems, and a Schrödinger equation."""

import json
import math

import numpy as np
import pytest
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import brentq
from scipy.stats import norm
from sympy import Max, tanh

import eqsolve
from eqsolve import GP, E, Eq, ModelError, System, UsageError, correlation, function, param, process, random, times
from eqsolve.cli import main
from eqsolve.cli.longtime import _text
from eqsolve.compile.forms import STOCHASTIC
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import make_task
from eqsolve.laws import Normal
from eqsolve.solvers.options import Options
from eqsolve.solvers.stationary.sampled import find_by_sampling

_X = np.arange(-1500, 1501) * 0.01
_W = np.exp(-(_X**2) / 2) / np.exp(-(_X**2) / 2).sum()


def _energy(variance, gain):
    """Return the energy at lag 0 less that at infinity of C'' = C − g²⟨tanh tanh⟩, at rest."""
    y = np.sqrt(variance) * _X
    potential = np.logaddexp(y, -y) - np.log(2)
    return variance**2 / 2 - gain**2 * (_W @ potential**2 - (_W @ potential) ** 2)


@pytest.mark.parametrize("gain", [2.0, pytest.param(3.0, marks=pytest.mark.slow)])
def test_variance_of_the_chaotic_network(gain):
    truth = brentq(_energy, 0.5, 50, args=(gain,), xtol=1e-14)
    res = eqsolve.stationary("rnn", gain=gain, rtol=1e-8)
    assert res.status == "fluctuating"
    assert abs(float(res["q"]) - truth) <= 1e-8 * truth
    assert abs(float(res["q"]) - truth) <= float(res.error["q"])
    assert abs(float(res["C"][-1])) <= 1e-7


def test_correlations_over_lags():
    res = eqsolve.stationary("rnn", gain=2)
    assert res.at([1, 2, 5])["C"].values == pytest.approx([1.863002630, 1.699659837, 1.034578074], abs=5e-8)
    assert float(res["tau_C"]) == pytest.approx(float(res.spectrum("C", [0.0])[0]) / 2 / float(res["q"]), rel=1e-5)


def test_white_noise_gives_the_energy_of_its_slope():
    """Schuecker, Goedeke and Helias 2018: C'(0+) = −D, so the energy at lag 0 is D²/2."""
    res = eqsolve.stationary("noisy_rnn", gain=2, D=0.3, rtol=1e-8)
    truth = brentq(lambda c: _energy(c, 2.0) - 0.3**2 / 2, 0.5, 50, xtol=1e-14)
    assert float(res["q"]) == pytest.approx(truth, rel=1e-8)


def test_without_couplings_it_is_an_ornstein_uhlenbeck_process():
    res = eqsolve.stationary("noisy_rnn", gain=0, D=0.7)
    lags, omega = np.array([0.0, 0.5, 3.0]), np.array([0.0, 1.0, 7.0])
    assert res.at(lags)["C"].values == pytest.approx(0.7 * np.exp(-lags), abs=1e-7)
    assert math.log(1e3) <= res.settled <= math.log(1e3) * 1.6  # to a node: e^-τ < 1e-3 from there on
    assert res.plot("C").lines[0].get_xdata()[-1] <= res.settled
    assert res.spectrum("C", omega).values == pytest.approx(1.4 / (1 + omega**2), rel=1e-5)
    assert float(res["tau_C"]) == pytest.approx(1.0, rel=1e-5)
    assert res.lyapunov()[0] == pytest.approx(-1.0, abs=1e-5)


def test_steps():
    step = 0.25
    res = eqsolve.stationary("noisy_rnn", gain=0, D=0.7, step=step)
    lags = step * np.arange(5)
    assert res.at(lags)["C"].values == pytest.approx(1.4 / (2 - step) * (1 - step) ** np.arange(5), rel=1e-7)
    still = eqsolve.stationary("rnn", gain=0.5, step=step)
    assert still.lyapunov()[0] == pytest.approx(np.log(1 - step * 0.5) / step, abs=1e-6)


@pytest.mark.slow
def test_populations_that_are_alike_are_one():
    """Means of zero, and g_ee² + g_ei² = g_ie² + g_ii² = 4: both are the network of gain 2."""
    none = dict.fromkeys(["J_ee", "J_ei", "J_ie", "J_ii", "h_e", "h_i"], 0)
    res = eqsolve.stationary("rnn_ei", g_ee=1, g_ei=3**0.5, g_ie=2**0.5, g_ii=2**0.5, **none)
    assert [float(res["q_e"]), float(res["q_i"])] == pytest.approx([1.9248054137] * 2, rel=1e-7)


@pytest.mark.slow
def test_a_still_state_solves_its_static_equations():
    res = eqsolve.stationary("rnn_ei", **dict.fromkeys(["g_ee", "g_ei", "g_ie", "g_ii"], 0.3))
    assert res.status == "still"
    r_e, r_i = float(res["r_e"]), float(res["r_i"])
    mean = 0.5 + 1 * r_e - 1.5 * r_i
    spread = np.sqrt(float(res["q_e"]) - mean**2)
    assert _W @ np.tanh(mean + spread * _X) == pytest.approx(r_e, rel=1e-8)
    assert 0.09 * float(res["F_e"][0] + res["F_i"][0]) == pytest.approx(spread**2, rel=1e-7)
    assert res.lyapunov()[0] < 0


@pytest.mark.slow
def test_threshold_linear_units_come_to_rest():
    """x = 1 − μm + g√S ξ with m and S the first two moments of its positive part, in closed form."""
    t, tp = times("t t'")
    x, eta, m, C = process("x"), process("eta"), function("m"), correlation("C")
    eqs = [Eq(x(t).diff(t), 1 - m(t) - x(t) + eta(t)), Eq(m(t), E(Max(0, x(t))))]
    eqs += [Eq(C(t, tp), E(Max(0, x(t)) * Max(0, x(tp))))]
    model = System("m", eqs, init={x: random("x0", Normal(0, 1))}, laws={eta: GP(1.44 * C(t, tp))})
    mean, square = 0.5, 0.5
    for _ in range(300):
        centre, width = 1 - mean, 1.2 * math.sqrt(square)
        below, density = norm.cdf(centre / width), norm.pdf(centre / width)
        mean, square = centre * below + width * density, (centre**2 + width**2) * below + centre * width * density
    res = eqsolve.stationary(model)
    assert res.status == "still"
    assert abs(float(res["m"]) - mean) < 3 * float(res.error["m"]) + 1e-12


@pytest.mark.slow
def test_lyapunov_exponent_is_the_ground_state_of_a_schroedinger_equation():
    """λ = −1 + √(−E₀) of −∂² − g²⟨φ'φ'⟩(τ), by finite differences of two steps."""
    res = eqsolve.stationary("rnn", gain=2)
    step, points = 0.02, np.arange(-80, 81) * 0.1
    weights = np.exp(-(points**2) / 2) / np.exp(-(points**2) / 2).sum()
    lags = np.arange(0, 30, step)
    covariance, variance = res.at(lags)["C"].values, float(res["q"])
    well = []
    for value in covariance:
        common, own = np.sqrt(max(value, 0.0)), np.sqrt(max(variance - value, 0.0))
        well.append(4 * weights @ ((np.cosh(common * points[:, None] + own * points) ** -2) @ weights) ** 2)
    energies = []
    for every in (2, 1):
        width, potential = step * every, -np.array(well)[::every]
        both = np.concatenate([potential[:0:-1], potential])
        off = -np.ones(len(both) - 1) / width**2
        energies.append(eigh_tridiagonal(2 / width**2 + both, off, select="i", select_range=(0, 0))[0][0])
    ground = energies[1] + (energies[1] - energies[0]) / 3
    assert res.lyapunov()[0] == pytest.approx(-1 + np.sqrt(-ground), abs=3e-7)


@pytest.mark.parametrize("gain", [0.0, 0.5, 0.95])
def test_below_the_transition_it_is_still(gain):
    res = eqsolve.stationary("rnn", gain=gain)
    assert res.status == "still"
    assert abs(float(res["q"])) < 1e-9
    assert res.lyapunov()[0] == pytest.approx(gain - 1, abs=1e-5)


def adaptive():
    """A network with adaptation (Muscinelli, Gerstner and Schwalger 2019)."""
    t, tp = times("t t'")
    g, gamma = param("g", positive=True), param("gamma", positive=True)
    beta, C = param("beta", nonnegative=True), correlation("C")
    x, a, eta = process("x a eta")
    return System(
        "adaptive",
        eqs=[
            Eq(C(t, tp), E(tanh(x(t)) * tanh(x(tp)))),
            Eq(x(t).diff(t), -x(t) - a(t) + eta(t)),
            Eq(a(t).diff(t), -gamma * a(t) + gamma * beta * x(t)),
        ],
        laws={eta: GP(g**2 * C(t, tp))}, init={x: Normal(0, 1), a: 0}, defaults={g: 2, gamma: 0.25, beta: 1},
    )  # fmt: skip


def rate_at_rest(g, gamma, beta):
    """Return the largest real part of the z = λ + iω at which g |1/(1 + z + γβ/(γ + z))| = 1."""
    omega = np.linspace(0, 3, 30001)

    def most(rate):
        z = rate + 1j * omega
        return g * np.abs(1 / (1 + z + gamma * beta / (gamma + z))).max() - 1

    return brentq(most, -0.74, 3, xtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("beta", [pytest.param(0.5, marks=pytest.mark.slow), 2.0])
def test_at_rest_a_network_answers_most_at_its_resonance(beta):
    critical = brentq(lambda g: rate_at_rest(g, 0.5, beta), 0.9, 2)
    res = eqsolve.stationary(adaptive(), g=0.95 * critical, gamma=0.5, beta=beta)
    value, error = res.lyapunov()
    assert res.status == "still"
    assert abs(value - rate_at_rest(0.95 * critical, 0.5, beta)) <= error + 1e-8
    assert eqsolve.stationary(adaptive(), g=1.3 * critical, gamma=0.5, beta=beta).status == "fluctuating"


@pytest.mark.slow
def test_chaos_of_a_network_with_adaptation():
    """12,000 units over a time 1,000, eight times: activity 0.42271 ± 0.00013, growth 0.0416 ± 0.0003; its deviation 5 %."""
    res = eqsolve.stationary(adaptive())
    assert float(res["C"][0]) == pytest.approx(0.42271, abs=1e-3)
    assert res.lyapunov()[0] == pytest.approx(0.0416, rel=0.05)
    alone = eqsolve.stationary(adaptive(), beta=0).lyapunov()
    assert alone[0] == pytest.approx(0.1124581096, abs=3 * alone[1])


def _system(drift, two_times=False):
    t, tp = times("t t'")
    x, eta = process("x eta")
    C = correlation("C")
    k = param("k", real=True)
    equations = [Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), drift(k, t) * x(t) + eta(t))]
    start = random("x0", Normal(0, 1))
    more = {"observables": {"age": C(t, tp)}} if two_times else {}
    return System("drifting", eqs=equations, laws={eta: GP(C(t, tp) / 2)}, init={x: start}, defaults={k: 1}, **more)


def test_paths_that_nothing_draws_back_have_none():
    res = eqsolve.stationary(_system(lambda k, t: k))
    assert res.status == "not found"
    assert "do not forget" in res.message
    with pytest.raises(UsageError, match="lyapunov"):
        res.lyapunov()


def test_paths_of_noise_alone_have_none():
    model = _system(lambda k, t: 0)
    assert "do not forget" in eqsolve.stationary(model).message
    with pytest.raises(ModelError, match="nothing draws `x` back"):
        model.long_time()
    with pytest.raises(ModelError, match="depends on the times"):
        _system(lambda k, t: -k, two_times=True).long_time()


@pytest.mark.parametrize(("model", "said"), [("dln_fixed_point_l1", "has no time"), ("logistic_regression", "comes to rest"),
                                             ("mct_f12", "it has no paths")])  # fmt: skip
def test_what_has_no_stationary_state_is_refused(model, said):
    with pytest.raises(UsageError, match=said):
        eqsolve.stationary(model)


def test_it_is_kept_and_read_back(tmp_path):
    res = eqsolve.stationary("noisy_rnn", gain=0.5)
    res.save(tmp_path / "a.nc")
    again = eqsolve.open(tmp_path / "a.nc")
    assert again.status == "fluctuating"
    assert again.at([1.0])["C"].item() == res.at([1.0])["C"].item()
    assert again.spectrum("C", [1.0]).item() == res.spectrum("C", [1.0]).item()
    with pytest.raises(UsageError, match="numbers only"):
        again.lyapunov()
    with pytest.raises(UsageError, match="no function of the lag"):
        res.spectrum("q")
    with pytest.raises(UsageError, match="no two-time functions"):
        res.json_object(at2=[(1.0, 1.0)])


@pytest.mark.slow
def test_soft_spins_at_equilibrium():
    """With symmetric couplings the law of a spin is known, and the fluctuation–dissipation theorem T R = −C' holds."""
    temperature, coupling = 1.0, 0.5
    x = np.linspace(-8, 8, 4001)

    def spread(q):
        weights = np.exp(-(x**2) / 2 - x**4 / 4 + (coupling * x) ** 2 * q / 2)
        return (x**2 * weights).sum() / weights.sum()

    truth = brentq(lambda q: spread(q) - q, 0.1, 1.0)
    res = eqsolve.stationary("soft_spin", T=temperature, J=coupling, kappa=1, rtol=0.1)
    assert res.status == "fluctuating"
    assert float(res.error["q"]) < 0.01 * truth
    assert abs(float(res["q"]) - truth) < 3 * float(res.error["q"])
    lags, response = res["tau"].values, res["R"].values
    fallen = np.concatenate([[0.0], np.cumsum(np.diff(lags) * (response[1:] + response[:-1]) / 2)])  # T ∫ R
    allowed = 3 * (res.error["C"].values.max() + res.error["R"].values.max())
    assert np.abs(res["C"].values[0] - res["C"].values - fallen).max() < allowed
    gain, error = res.source.gain()  # J² times the square of the susceptibility of every spin, q/T
    assert abs(gain - (coupling * truth / temperature) ** 2) < error < 0.1 * gain


@pytest.mark.slow
def test_soft_spins_below_the_glass_transition_age():
    """The transition is where J q = T, here at T = 4 (Γ(3/4)/Γ(1/4))² = 0.457; 3,000 spins at T = 0.2 age, at 0.6 not."""
    assert 4 * (math.gamma(0.75) / math.gamma(0.25)) ** 2 == pytest.approx(0.457, abs=1e-3)
    found = eqsolve.phase_diagram("soft_spin", T=[0.1, 1.0], rtol=0.1, progress=False)
    assert "waiting time" in str(found["message"].values[0])
    assert found.classes.values.tolist() == ["aging", "fluctuating"]


@pytest.mark.slow
def test_sampled_paths_in_steps():
    """Without couplings a spin is a Markov chain, x + h(−x − x³) + √(2Th) ξ: its law and C by powers of a matrix."""
    step, temperature = 0.1, 0.5
    x = np.linspace(-4, 4, 801)
    ahead = np.exp(-((x[:, None] - (x - step * (x + x**3))) ** 2) / (4 * temperature * step))
    ahead /= ahead.sum(axis=0)
    law = np.full(len(x), 1 / len(x))
    for _ in range(400):
        law = ahead @ law
    truth, moved = [], x * law
    for _ in range(4):
        truth.append(x @ moved)
        moved = ahead @ moved
    res = eqsolve.stationary("soft_spin", T=temperature, J=0, step=step, rtol=0.1)
    assert res.status == "fluctuating"
    found = res.at(step * np.arange(4))
    assert (np.abs(found["C"].values - truth) < 3 * found["C_error"].values).all()
    assert found["C_error"].values.max() < 0.02 * truth[0]


@pytest.mark.slow
def test_paths_that_come_to_rest_agree_with_the_derived_limit():
    """Below the transition, with little immigration, abundances are those of the fixed point without it."""
    res = eqsolve.stationary("lotka_volterra_immigration", sigma=0.4, iota=1e-6, rtol=0.1)
    limit = eqsolve.solve(eqsolve.load("lotka_volterra").long_time(), sigma=0.4)
    assert res.status == "still"
    assert abs(float(res["m"]) - float(limit["m"])) < 3 * float(res.error["m"]) + 1e-5  # ι/N of a tenth of the mean


@pytest.mark.slow
def test_sampled_paths_of_a_gaussian_network():
    """The network whose state over lags is solved to 1e-8, by paths."""
    task = make_task(eqsolve.load("rnn"), {"gain": 3}, None, step=None)
    program = at(task.plan.program(STOCHASTIC), task.values.numbers)
    laws = {**task.values.laws, **{name: law.at(task.values.numbers, task.values.laws) for name, law in program.laws}}
    with np.errstate(all="ignore"):
        found = find_by_sampling(program, laws, Options.make(rtol=0.2, t_max=1.0).begun())
        exponent, error = found.lyapunov()
    assert abs(found.numbers["q"] - 5.44632608304246) < 3 * found.number_errors["q"]
    assert abs(exponent - 0.23546096) < 3 * error
    assert error < 0.1


@pytest.mark.slow
def test_bistable_units():
    """Six networks of 4,000 units, x' = −x + 1.2 tanh x + 2 Σ J tanh x, followed to t = 180 from t = 40 on."""
    t, tp = times("t t'")
    x, eta = process("x eta")
    C, D = correlation("C"), correlation("D")
    equations = [Eq(D(t, tp), E(x(t) * x(tp))), Eq(C(t, tp), E(tanh(x(t)) * tanh(x(tp)))),
                 Eq(x(t).diff(t), -x(t) + 1.2 * tanh(x(t)) + eta(t))]  # fmt: skip
    start = random("x0", Normal(0, 1))
    model = System("bistable", eqs=equations, laws={eta: GP(4 * C(t, tp))}, init={x: start})
    found = eqsolve.stationary(model, rtol=0.2).at([0, 5])
    truth, errors = np.array([7.269, 4.991]), np.array([0.026, 0.045])
    assert (np.abs(found["D"].values - truth) < 3 * np.hypot(found["D_error"].values, errors)).all()


@pytest.mark.slow
def test_chaotic_abundances():
    """Means and exponent of six communities of 16,000 species, followed to t = 300; the first quarter is left out."""
    res = eqsolve.stationary("lotka_volterra_immigration", rtol=0.02)
    assert res.status == "fluctuating"
    for name, truth, error in (("m", 0.4345, 0.0010), ("q", 0.8864, 0.0039)):
        assert float(res.error[name]) < 0.02 * truth
        assert abs(float(res[name]) - truth) < 3 * math.hypot(float(res.error[name]), error)
    for lag, truth in ((5.0, 0.7824), (10.0, 0.6891), (20.0, 0.6234)):
        found = res.at([lag])
        assert abs(float(found["C"][0]) - truth) < 3 * math.hypot(float(found["C_error"][0]), 0.0038)
    exponent, error = res.lyapunov()
    assert abs(exponent - 0.0655) < 3 * math.hypot(error, 0.0007)
    assert error < 0.1 * exponent  # five times the tolerance


def test_command(capsys, tmp_path):
    picture = tmp_path / "c.png"
    words = ["stationary", "noisy_rnn", "--set", "gain=0.5", "--at", "0,1", "--lyapunov", "--json", "--plot", str(picture)]
    assert main(words) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["status"] == "fluctuating"
    assert made["tau"] == [0.0, 1.0]
    assert made["lyapunov"] < 0
    assert picture.stat().st_size > 0
    assert main(["stationary", "rnn", "--out", str(tmp_path / "still.nc")]) == 0
    assert "rnn: still" in capsys.readouterr().out
    assert eqsolve.open(tmp_path / "still.nc").status == "still"
    assert main(["stationary", "rnn", "--at=-1"]) == 2


def test_the_command_says_what_its_numbers_are(capsys):
    assert main(["stationary", "rnn", "--set", "gain=2", "--rtol", "1e-4", "--at", "0,1"]) == 0
    out = capsys.readouterr().out
    assert "gain=2, x0=Normal(0, 1)\n" in out  # as `solve` writes them
    assert "tau: the lag" in out
    assert "tau_C: the correlation time: the area under C(tau) - C(inf), over its height" in out
    assert main(["longtime", "lotka_volterra"]) == 0
    assert "stability: positive where small disturbances" in capsys.readouterr().err


@pytest.mark.parametrize("swings", [True, False])
def test_the_area_of_a_correlation_that_swings_is_told_as_such(swings):
    state = {"model": "m", "status": "fluctuating", "params": {}, "numbers": {"tau_C": 0.1}, "number_errors": {"tau_C": 0.0}}
    values = [1.0, -0.5 if swings else 0.5, 0.0]
    text = _text({**state, "tau": [0.0, 1.0, 2.0], "values": {"C": values}, "errors": {"C": [0.0] * 3}})
    assert ("over its height at tau = 0, in which swings cancel" in text) == swings


@pytest.mark.slow
def test_near_the_transition_a_periodic_solution_is_not_taken():
    """The variance of chaos by conservation of energy, V(Δ₀) = V(0) (Sompolinsky, Crisanti & Sommers 1988)."""
    gain = 1.05
    x, weights = np.polynomial.hermite_e.hermegauss(120)
    weights /= weights.sum()

    def pairs(correlation, variance):
        own, both = math.sqrt(max(variance - correlation, 0)), math.sqrt(correlation)
        return weights @ (np.log(np.cosh(own * x[None, :] + both * x[:, None])) @ weights) ** 2

    truth = brentq(lambda v: -(v**2) / 2 + gain**2 * (pairs(v, v) - pairs(0.0, v)), 0.5 * (gain - 1), 3 * (gain - 1))
    found = eqsolve.stationary("rnn", gain=gain, rtol=1e-6)
    assert abs(float(found["C"][0]) - truth) <= 3 * float(found.error["C"][0])
