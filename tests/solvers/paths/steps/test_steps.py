"""Noise in every step against closed forms over the Marchenko–Pastur law, and against limits.

For least squares the noise of batches reaches the weights with covariance D(s) H/δ at step s, H = XᵀX/δ, so that

    E_train(k) = GD + η²/δ Σ_s D(s) ∫ x² (1 − η(x + λ))^{2(k−s−1)} dμ,    D = (1/b − 1) E_train + v/b,

and E_test with x in place of x²: a Volterra equation over the law μ of H's eigenvalues.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import exp, log, sign

import eqsolve
from eqsolve import E, Flow, field, gradient, param, random, state
from eqsolve.laws import Normal
from eqsolve.solvers.paths.steps import solve as module
from eqsolve.solvers.paths.steps.solve import StepsControls, StepsSolver, line_shares
from eqsolve.spectra import MarchenkoPastur

SETTINGS = {"delta": 1.5, "lam": 0.2, "rho2": 0.7, "sigma2": 0.3}
ETA, STEPS, BATCH, LABELS = 0.2, 12, 0.25, 0.4
AT = [ETA * k for k in (1, 4, STEPS)]


def closed_form(fresh: float, spread: float, heat: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return E_train and E_test of noisy gradient descent for all steps; ``heat`` is 2T/η, the variance of the noise."""
    delta, lam, rho2, sigma2 = (SETTINGS[name] for name in ("delta", "lam", "rho2", "sigma2"))
    x, weights = MarchenkoPastur(delta).quadrature(200)
    train, test = np.zeros(STEPS + 1), np.zeros(STEPS + 1)
    for k in range(STEPS + 1):  # without noise, w_k = a (x w* + ν) along an eigenvector, ν of variance σ² x/δ
        a = (1 - (1 - ETA * (x + lam)) ** k) / (x + lam)
        square, noise = (a * x - 1) ** 2 * rho2 + a**2 * sigma2 * x / delta, sigma2 * x / delta
        train[k], test[k] = sigma2 + weights @ (x * square - 2 * a * noise), sigma2 + weights @ square
    powers = [(1 - ETA * (x + lam)) ** (2 * k) for k in range(STEPS)]
    drive = np.zeros(STEPS + 1)
    for k in range(STEPS + 1):
        for s in range(k):
            train[k] += ETA**2 * weights @ (powers[k - s - 1] * (drive[s] * x**2 / delta + heat * x))
            test[k] += ETA**2 * weights @ (powers[k - s - 1] * (drive[s] * x / delta + heat))
        drive[k] = spread * train[k] + fresh
    return train, test


def held_against(result: eqsolve.Result, train: np.ndarray, test: np.ndarray, rtol: float) -> None:
    assert result.status == "ok"
    found = result.at(AT)
    for name, exact in (("E_train", train), ("E_test", test)):
        for place, moment in enumerate(AT):
            truth = exact[round(moment / ETA)]
            off = abs(float(found[name][place]) - truth)
            assert off < rtol * truth
            assert off < 3 * float(found[f"{name}_error"][place])


@pytest.mark.slow
def test_batches_and_label_noise_of_ridge_regression() -> None:
    flow = eqsolve.load("linear_flow").sgd(BATCH).label_noise(LABELS)
    result = eqsolve.solve(flow, step=ETA, at=AT, rtol=1e-2, **SETTINGS)
    assert result.stats["solver"] == "steps"
    held_against(result, *closed_form(LABELS / BATCH, 1 / BATCH - 1), 1e-2)


def test_temperature_in_steps() -> None:
    heat = 0.05
    flow = eqsolve.load("linear_flow").langevin(heat)
    result = eqsolve.solve(flow, step=ETA, at=AT, rtol=1e-2, **SETTINGS)
    held_against(result, *closed_form(0.0, 0.0, 2 * heat / ETA), 1e-2)


@pytest.mark.slow
def test_a_temperature_gains_its_share_of_every_mode() -> None:
    heat, lam, delta = 0.05, 0.5, 2.0
    given = {**SETTINGS, "lam": lam, "delta": delta}
    flow = eqsolve.load("linear_flow")
    hot = eqsolve.solve(flow.langevin(heat), at=[2.0], **given)
    cold = eqsolve.solve(flow, at=[2.0], **given)
    x, weights = MarchenkoPastur(delta).quadrature(200)
    gain = heat * weights @ ((1 - np.exp(-4 * (x + lam))) / (x + lam))
    found = float(hot.at([2.0])["E_test"][0]) - float(cold.at([2.0])["E_test"][0])
    assert found == pytest.approx(gain, rel=1e-3)


@pytest.mark.slow
def test_a_batch_of_all_samples_is_gradient_descent() -> None:
    given: dict = {"alpha": 0.5, "delta": 0.8, "sigma2": 0.1}
    at = [0.2, 0.6, 1.0]
    given["observables"] = ["E_train", "E_test"]
    full = eqsolve.solve("dln_sgd", batch=1, step=0.2, at=at, rtol=1e-7, **given).at(at)
    plain = eqsolve.solve(eqsolve.load("dln_flow").gradient_descent(0.2), at=at, rtol=1e-7, **given).at(at)
    nearly = eqsolve.solve("dln_sgd", batch=0.999, step=0.2, at=at, rtol=3e-3, **given).at(at)
    for name in ("E_train", "E_test"):
        assert np.allclose(full[name], plain[name], rtol=1e-6, atol=0)
        assert np.allclose(nearly[name], plain[name], rtol=3e-3, atol=0)


@pytest.mark.slow
def test_stated_errors_fall_with_more_paths() -> None:
    """Eight times as many paths scatter a third as much; the spread of eight samples tells it to a quarter or so."""
    given = {"alpha": 0.5, "delta": 0.8, "sigma2": 0.1, "batch": 0.2}
    stated = []
    for rounds in (2, 5):
        solver = Doubling(rounds)
        result = eqsolve.solve("dln_sgd", solver=solver, step=0.2, at=[0.6], rtol=1e-6, observables=["E_test"], **given)
        stated.append(float(result.error["E_test"][-1]))
    assert stated[1] < 0.6 * stated[0]


class Doubling(StepsSolver):
    """The solver with a given number of rounds, each of twice the paths of the one before."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def solve(self, plan: Any, values: Any, options: Any, control: StepsControls | None = None) -> eqsolve.Result:
        return super().solve(plan, values, options, StepsControls(paths=128, growth=(2.0, 2.0), rounds=self.rounds))


@pytest.mark.slow
def test_masks_sampled_or_not() -> None:
    """A quadratic loss solved with its fields and masks kept, which are then sampled, gives what the elimination gives."""
    flow = eqsolve.load("linear_flow").sgd(0.5)
    at = [0.4, 1.2, 2.0]
    short = eqsolve.solve(flow, step=ETA, at=at, rtol=5e-3, **SETTINGS).at(at)
    kept = eqsolve.solve(flow.dmft(eliminate=False), step=ETA, at=at, rtol=2e-2, **SETTINGS).at(at)
    for name in ("E_train", "E_test"):
        off = np.abs(kept[name] - short[name])
        assert (off < 3 * (kept[f"{name}_error"] + short[f"{name}_error"])).all()
        assert np.allclose(kept[name], short[name], rtol=3e-2)


@pytest.mark.slow
def test_the_network_in_batches_against_finite_size() -> None:
    """d = 1500, 16 draws: after 5 and 25 steps, mean and standard error."""
    at, given = [1.0, 5.0], {"alpha": 0.5, "delta": 0.8, "sigma2": 0.1, "lam": 0, "batch": 0.2}
    result = eqsolve.solve("dln_sgd", step=0.2, at=at, rtol=1e-2, observables=["E_train", "E_test"], **given)
    assert result.status == "ok"
    found = result.at(at)
    runs = {"E_train": ((0.1045, 0.0012), (0.0308, 0.0005)), "E_test": ((0.1778, 0.0006), (0.1836, 0.0009))}
    for name, pairs in runs.items():
        for place, (mean, error) in enumerate(pairs):
            value, stated = float(found[name][place]), float(found[f"{name}_error"][place])
            assert abs(value - mean) < 4 * np.hypot(error, stated)


def noisy_labels() -> Flow:
    """Logistic loss in batches, labels sign(f* + ξ)."""
    w_star, xi = random("w_star", Normal(0, 1)), random("xi", Normal(0, 0.25))
    w, f, f_star, g, g_star = state("w"), *field("f f_star"), *gradient("g g_star")
    y = sign(f_star + xi)
    flow = Flow(
        "noisy_labels",
        state={w: 0},
        weights=[w, w_star],
        fields=[f, f_star],
        loss_gradient=[-y / (1 + exp(y * f)), 0],
        gradients=[g, g_star],
        drift={w: -(g + w / 10)},
        defaults={param("delta", positive=True): 2},
        observables={"train_loss": E(log(1 + exp(-y * f))), "m": E(w * w_star), "q": E(w**2)},
    )
    return flow.sgd(batch=0.3)


@pytest.mark.slow
def test_noisy_labels_in_batches_agree_with_their_finite_size() -> None:
    """d = 400, 16 draws after 2 and 5 steps: four standard errors of runs and theory, and a bias of order 1/d."""
    at = [0.4, 1.0]
    found = eqsolve.solve(noisy_labels(), step=ETA, at=at, rtol=1e-2)
    assert found.status == "ok"
    theory = found.at(at)
    runs = noisy_labels().simulate(d=400, at=at, step=ETA, seeds=16, seed=3, workers=1, constants="balanced")
    for name in ("train_loss", "m", "q"):
        error = np.hypot(runs.error[name].values, theory[f"{name}_error"].values)
        off = np.abs(theory[name].values - runs.mean[name].values)
        assert (off < 4 * error + runs.mean[name].values / 400).all()


@pytest.mark.slow
def test_means_over_all_outcomes_are_those_over_many_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {"step": ETA, "at": [0.6], "rtol": 2e-2, "observables": ["train_loss", "m", "q"]}
    outcomes = eqsolve.solve(noisy_labels(), **given).at([0.6])
    monkeypatch.setattr("eqsolve.solvers.paths.steps.ensemble._OUTCOMES", 1)
    draws = eqsolve.solve(noisy_labels(), **given).at([0.6])
    for name in given["observables"]:
        stated = draws[f"{name}_error"].values + outcomes[f"{name}_error"].values
        assert (np.abs(draws[name].values - outcomes[name].values) < 2 * stated).all()


def test_rounds_are_put_on_a_line() -> None:
    """Values a + c/paths are found as a, and the more the earlier rounds differ in size the less they scatter into it."""
    sizes = [1000, 8000, 64000]
    means, slopes = line_shares(sizes)
    values = 3.0 + 50.0 / np.array(sizes)
    assert means @ values == pytest.approx(3.0, rel=1e-14)
    assert slopes @ values == pytest.approx(50.0, rel=1e-12)
    assert np.sqrt(means**2 @ (1 / np.array(sizes))) < 1.01 / np.sqrt(sizes[-1])


@pytest.mark.slow
def test_an_interrupted_solve_goes_on_to_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted in the second round: the samples that are kept are not drawn again, nor others in their place."""
    options = {"batch": 0.5, "step": 0.2, "t_max": 2, "rtol": 0.05, "threads": 1}
    known, drawn = module.draw_sample, []

    def draw_sample(*given: Any) -> Any:
        drawn.append(given)
        if len(drawn) == 12 and not resumed:
            raise KeyboardInterrupt
        return known(*given)

    monkeypatch.setattr(module, "draw_sample", draw_sample)
    resumed = False
    first = eqsolve.solve("dln_sgd", checkpoint=tmp_path / "run", **options)
    assert first.status == "interrupted"
    begun, resumed = len(drawn), True
    again = eqsolve.solve("dln_sgd", checkpoint=tmp_path / "run", resume=True, **options)
    assert len(drawn) - begun < 8  # of sixteen
    whole = eqsolve.solve("dln_sgd", **options)
    for name, values in whole.dataset.data_vars.items():
        assert np.array_equal(again.dataset[name].values, values.values, equal_nan=True), name
