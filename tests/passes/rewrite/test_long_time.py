"""Fixed points derived from systems: cavity equations, declared fixed points, late times, and where stability is lost."""

import json
import math

import numpy as np
import pytest
from scipy.optimize import brentq

import eqsolve
from eqsolve import E, ModelError, field, gradient, param, random, state
from eqsolve.cli import main
from eqsolve.laws import Normal


@pytest.fixture(scope="module")
def species():
    return eqsolve.load("lotka_volterra").long_time()


@pytest.mark.parametrize("gamma", [-0.5, 0.0, 0.5])
def test_species_lose_stability_where_the_cavity_method_says(species, gamma):
    """Bunin 2017: σ = √2/(1 + γ), whatever μ; half of the species are there."""
    res = eqsolve.solve(species, gamma=gamma, sigma=math.sqrt(2) / (1 + gamma))
    assert abs(float(res["stability"])) < 1e-8
    assert float(res["m"]) == pytest.approx(1 / 4, rel=1e-8)  # 1 = μ m, μ = 4
    assert float(eqsolve.solve(species, gamma=gamma, sigma=1.3 / (1 + gamma))["stability"]) > 0.01


def test_a_positive_start_stays_positive(species):
    """x' = x g(x) without a change of variables is the same limit; without a sign of the start it is not decided."""
    shipped = eqsolve.load("lotka_volterra")
    head = next(iter(shipped.substitute))
    start = shipped.init[head]
    plain = shipped.replace("plain", substitute={head: None}, init={key: None for key in shipped.init if key != head})
    found, known = (eqsolve.solve(model, sigma=0.5) for model in (plain.long_time(), species))
    for name in ("m", "q", "stability"):
        assert float(found[name]) == pytest.approx(float(known[name]), rel=1e-12)
    with pytest.raises(ModelError, match="may end on either side of 0; where it is positive, declare substitute="):
        plain.replace("either", init={head: start - 1}).long_time()


def test_cavity_equations(species):
    """Abundances are a truncated normal; its moments by hand (Bunin 2017)."""
    gamma, sigma, mu = 0.3, 0.6, 4.0
    res = eqsolve.solve(species, gamma=gamma, sigma=sigma)
    m, q, chi = (float(res[name]) for name in ("m", "C", "chi"))
    points = np.linspace(-12, 12, 200_001)
    weights = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi) * (points[1] - points[0])
    abundance = np.maximum(0.0, 1 - mu * m + sigma * math.sqrt(q) * points) / (1 - gamma * sigma**2 * chi)
    alive = weights @ (abundance > 0)
    assert [weights @ abundance, weights @ abundance**2] == pytest.approx([m, q], rel=1e-8)
    assert alive / (1 - gamma * sigma**2 * chi) == pytest.approx(chi, rel=1e-4)
    assert float(res["stability"]) == pytest.approx(1 - sigma**2 * alive / (1 - gamma * sigma**2 * chi) ** 2, rel=1e-3)


@pytest.mark.slow
def test_species_end_there(species):
    late = eqsolve.solve("lotka_volterra", sigma=0.5, t_max=60, rtol=1e-3)
    rest = eqsolve.solve(species, sigma=0.5)
    assert late["m"][-1].item() == pytest.approx(float(rest["m"]), rel=5e-3)
    assert late["q"][-1].item() == pytest.approx(float(rest["q"]), rel=1e-2)


@pytest.fixture(scope="module")
def network():
    return eqsolve.load("dln").long_time()


@pytest.mark.parametrize(("lam", "delta", "sigma2"), [(0.02, 0.8, 0.1), (0.5, 2, 0.3), (0.05, 0.3, 0)])
def test_weight_decay_gives_the_soft_threshold(network, lam, delta, sigma2):
    derived = eqsolve.solve(network, lam=lam, delta=delta, sigma2=sigma2)
    declared = eqsolve.solve("dln_fixed_point", lam=lam, delta=delta, sigma2=sigma2)
    for name in ("C_w", "chi_w", "C_f", "E_train", "E_test"):
        assert float(derived[name]) == pytest.approx(float(declared[name]), rel=1e-12)
    assert float(derived["stability"]) == pytest.approx(1 - (1 - float(declared["P_w_zero"])) / delta, rel=1e-12)


@pytest.mark.slow
def test_closed_two_time_equations():
    """Ridge regression, by its own closed form at a late time."""
    derived = eqsolve.solve(eqsolve.load("linear_regression").long_time())
    late = eqsolve.solve("linear_regression", t_max=40, rtol=1e-3)
    for name in ("E_train", "E_test"):
        error = float(late.error[name][-1]) + 1e-4 * abs(float(derived[name]))
        assert abs(late[name][-1].item() - float(derived[name])) <= error


def test_a_chaotic_network_is_told_by_its_stability():
    """The state at rest with C > 0: 1 − g² E[φ'²] < 0."""
    res = eqsolve.solve(eqsolve.load("rnn").long_time(), gain=2)
    points = np.arange(-1500, 1501) * 0.01
    weights = np.exp(-(points**2) / 2) / np.exp(-(points**2) / 2).sum()
    slope = np.cosh(math.sqrt(float(res["C"])) * points) ** -2
    assert float(res["stability"]) == pytest.approx(1 - 4 * weights @ slope**2, rel=1e-8)


@pytest.mark.parametrize(
    ("model", "said"),
    [("noisy_rnn", "keeps it moving"), ("pspin", "equal times"), ("mackey_glass", "another time"),
     pytest.param("dln_flow", "together", marks=pytest.mark.slow), ("volterra_linear", "does not fade")],
)  # fmt: skip
def test_what_does_not_come_to_rest_is_refused(model, said):
    with pytest.raises(ModelError, match=said):
        eqsolve.load(model).long_time()


def test_command(capsys, tmp_path, species):
    assert main(["longtime", "lotka_volterra", "--set", "sigma=0.8", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["values"]["stability"] == pytest.approx(0.491805395421, rel=1e-9)
    files = [str(tmp_path / name) for name in ("rest.nc", "rest.png")]
    assert main(["longtime", "lotka_volterra", "--out", files[0], "--plot", files[1]]) == 0
    assert float(eqsolve.open(files[0])["stability"]) == pytest.approx(float(eqsolve.solve(species)["stability"]), rel=1e-12)
    assert (tmp_path / "rest.png").stat().st_size > 1000
    assert main(["longtime", "lotka_volterra", "--show"]) == 0
    assert "stability" in capsys.readouterr().out
    assert main(["longtime", "ridge"]) == 2
    assert main(["longtime", "committee"]) == 2
    assert "committee.py:" in capsys.readouterr().err


@pytest.mark.slow
def test_command_of_a_flow(capsys):
    assert main(["longtime", "dln", "--set", "delta=2", "sigma2=0.1", "--json"]) == 0  # without decay
    assert json.loads(capsys.readouterr().out)["values"]["chi_w"] == pytest.approx(1)  # 1/(δ − 1)
    assert main(["longtime", "dln"]) != 0  # fewer samples than weights
    assert "no solution found" in capsys.readouterr().err
    assert main(["longtime", "dln", "--integrated", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["values"]
    declared = eqsolve.solve("dln_fixed_point_min_norm", delta=0.5, alpha=0.3)
    assert found["C_w"] == pytest.approx(float(declared["C_w"]), rel=1e-12)
    assert main(["longtime", "dln", "--set", "lam=0.1", "alpha=0.7"]) == 0
    assert "does not depend on alpha" in capsys.readouterr().err


def make_cauchy():
    """Robust regression with a loss that is not convex: no force of it has a root in closed form."""
    w, w_star = state("w"), random("w_star", Normal(0, 1))
    f, f_star = field("f f_star")
    g, g_star = gradient("g g_star")
    delta, lam = (param(name, positive=True) for name in ("delta", "lam"))
    sigma2 = param("sigma2", nonnegative=True)
    xi = random("xi", Normal(0, sigma2))
    r = f - f_star - xi
    return eqsolve.Flow(
        "cauchy", state={w: 0}, weights=[w, w_star], fields=[f, f_star], loss_gradient=[r / (1 + r**2), 0],
        gradients=[g, g_star], drift={w: -g - lam * w}, defaults={delta: 2, lam: 0.1, sigma2: 0.1},
        observables={"gen": E((w - w_star) ** 2)},
    )  # fmt: skip


@pytest.fixture(scope="module")
def cauchy():
    return make_cauchy().long_time()


@pytest.mark.slow
def test_a_field_is_what_its_teacher_leaves_of_it(cauchy):
    """Var(z_f | f_star) = C_w − E[w w*]²/E[w*²]; parameters of laws keep their defaults."""
    text = cauchy.show().text()
    assert "z_f ~ Normal(0, C_w - mean_1**2/mean_2)" in text
    assert "mean_1 = E[w*w_star]" in text
    assert "mean_2 = E[w_star**2]" in text
    assert float(cauchy.defaults[cauchy.names["sigma2"]]) == 0.1


@pytest.mark.slow
def test_a_search_among_many_unknowns_ends(cauchy):
    with pytest.raises(eqsolve.SolverError, match=r"5 coupled unknowns .C_l, .* did not end within the budget"):
        eqsolve.solve(cauchy, budget=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("point", [{}, {"delta": 3, "lam": 0.4, "flip": 0.02}])
def test_logistic_regression_ends_in_its_declared_fixed_point(point):
    derived = eqsolve.solve(eqsolve.load("logistic_regression").long_time(), params=point)
    declared = eqsolve.solve("logistic_fixed_point", params=point)
    for name in ("m", "q", "train_loss", "E_test"):
        assert float(derived[name]) == pytest.approx(float(declared[name]), rel=1e-11)
    assert float(derived["chi_w"]) == pytest.approx(float(declared["V"]), rel=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("point", [{}, {"delta": 1.5, "lam": 0.3, "kappa": 0.4}])
def test_the_perceptron_ends_in_its_declared_fixed_point(point):
    """Means over two Gaussians with a kink across: known to about 1e-4, and within that."""
    derived = eqsolve.solve(eqsolve.load("perceptron_hinge").long_time(), params=point)
    declared = eqsolve.solve("hinge_fixed_point", params=point)
    for name in ("m", "q", "train_loss", "E_gen"):
        assert abs(float(derived[name]) - float(declared[name])) <= 3 * float(derived.error[name])
        assert float(derived.error[name]) < 2e-4 * float(derived[name])


@pytest.mark.slow
def test_huber_regression_obeys_its_equations():
    """Residuals of samples are one Gaussian variable r of variance q − 2m + 1 + s², cut at ±k after its own pull V."""
    res = eqsolve.solve(eqsolve.load("huber_regression").long_time())
    m, q, width = (float(res[name]) for name in ("m", "q", "chi_w"))
    delta, k, lam = 2, 1, 0.1
    x = np.linspace(-12, 12, 2_000_001)
    weights = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    pull = inside = 0.0
    for share, size in ((0.9, 0.2), (0.1, 3.0)):
        pulls = np.clip(x * math.sqrt(q - 2 * m + 1 + size**2) / (1 + width), -k, k)
        pull, inside = pull + share * (weights @ pulls**2), inside + share * (weights @ (abs(pulls) < k))
    stiff = inside / (1 + width)  # of the mean pull with w
    assert width == pytest.approx(1 / (delta * (lam + stiff)), rel=1e-6)
    assert m == pytest.approx(stiff / (lam + stiff), rel=1e-6)
    assert q == pytest.approx((stiff**2 + pull / delta) / (lam + stiff) ** 2, rel=1e-6)


@pytest.fixture(scope="module")
def interpolating():
    return eqsolve.load("dln").subs({"lam": 0}).long_time(integrated=True)


@pytest.mark.parametrize(
    ("alpha", "delta", "sigma2"), [(0.1, 0.7, 0), (1, 0.3, 0.2), pytest.param(0.03, 0.4, 0.05, marks=pytest.mark.slow)]
)
def test_without_decay_fewer_samples_than_weights_give_the_least_norm(interpolating, alpha, delta, sigma2):
    """Of all interpolators, the one that the integral of the force tells: implicit bias."""
    derived = eqsolve.solve(interpolating, alpha=alpha, delta=delta, sigma2=sigma2)
    declared = eqsolve.solve("dln_fixed_point_min_norm", alpha=alpha, delta=delta, sigma2=sigma2)
    for name, known in (("C_w", "C_w"), ("chi_w", "R_w"), ("C_f", "Cf_tilde"), ("E_test", "E_test")):
        assert float(derived[name]) == pytest.approx(float(declared[known]), rel=1e-12)
    with pytest.raises(ModelError, match="not declared as a function of an integral"):
        eqsolve.load("rnn").long_time(integrated=True)


@pytest.mark.slow
def test_interpolators_are_stable(interpolating):
    """1 − E s²/E s, with s = w'/(χ + w') of the change of variables w = α² sinh θ, where δ = E s."""
    alpha, delta, (points, weights) = 0.3, 0.5, np.polynomial.hermite_e.hermegauss(200)
    res = eqsolve.solve(interpolating, delta=delta, alpha=alpha)
    chi, spread = float(res["chi_w"]), math.sqrt(delta * float(res["C_f"]))
    first = second = 0.0
    for target, share in ((0, 0.9), (1, 0.1)):
        for point, weight in zip(points, share * weights / weights.sum(), strict=True):
            push = target / chi - spread * point / delta
            theta = brentq(lambda y, at=push: alpha**2 * np.sinh(y) / chi + y - at, min(push, 0), max(push, 0))
            s = 1 / (1 + chi / (alpha**2 * np.cosh(theta)))
            first, second = first + weight * s, second + weight * s**2
    assert first == pytest.approx(delta, rel=1e-10)
    assert float(res["stability"]) == pytest.approx(1 - second / first, rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic_regression", "huber_regression", "perceptron_hinge"])
def test_regressions_end_there(name):
    rest = eqsolve.solve(eqsolve.load(name).long_time(), lam=0.5)
    late = eqsolve.solve(name, lam=0.5, t_max=60, rtol=0.03)
    for what in ("m", "q", "train_loss"):
        assert abs(late[what][-1].item() - float(rest[what])) <= 3 * float(late.error[what][-1])


@pytest.mark.slow
def test_fields_that_depend_on_each_other_are_followed_to_late_times():
    rest = eqsolve.solve(eqsolve.load("teacher_student_tanh").long_time(), lam=0.5)
    late = eqsolve.solve("teacher_student_tanh", lam=0.5, t_max=60, rtol=1e-2)
    assert late.status == "ok"
    for what in ("m", "q", "train_loss"):
        assert abs(late[what][-1].item() - float(rest[what])) <= 2 * float(late.error[what][-1])


@pytest.mark.slow
def test_linear_regression_ends_there():
    rest = eqsolve.solve(eqsolve.load("linear_regression").long_time(), lam=0.5)
    late = eqsolve.solve("linear_regression", lam=0.5, t_max=40, rtol=1e-5)
    for what in ("m", "E_test"):
        assert abs(late[what][-1].item() - float(rest[what])) <= float(late.error[what][-1]) < 1e-5


@pytest.mark.parametrize(("delta", "sigma2"), [(2, 0.1), (1.3, 0.4), (5, 0.02)])
def test_without_decay_more_samples_than_weights_give_ridgeless_regression(delta, sigma2):
    limit = eqsolve.load("dln").subs({"lam": 0}).long_time()
    derived = eqsolve.solve(limit, delta=delta, sigma2=sigma2)
    declared = eqsolve.solve("dln_fixed_point_ridgeless", delta=delta, sigma2=sigma2)
    for name in ("C_w", "chi_w", "C_f", "E_train", "E_test"):
        assert float(derived[name]) == pytest.approx(float(declared[name]), rel=1e-12)


def test_a_flow_without_noise_is_sent_to_the_command():
    with pytest.raises(eqsolve.UsageError, match=r"see `model.long_time\(\)`, `eqsolve longtime`"):
        eqsolve.stationary(make_cauchy())
