"""Batches that persist: telegraph signals, their two limits, and runs at finite size."""

import math

import numpy as np
import pytest
import xarray as xr

import eqsolve
from eqsolve import E, Flow, Telegraph, field, gradient, param, process, random, state, times
from eqsolve.laws import Normal
from eqsolve.solvers.paths.steps.draws import Chain, telegraph

STEP, AT = 0.25, [0.5, 1.0, 2.0]

t = times("t")
delta, b, tau = param("delta b tau", positive=True)
s = process("s")
w, f, f_star, g, g_star = state("w"), *field("f f_star"), *gradient("g g_star")
w_star = random("w_star", Normal(0, 1))
FLOW = Flow(
    "persistent",
    state={w: 0},
    weights=[w, w_star],
    fields=[f, f_star],
    loss_gradient=[s(t) / b * (f - f_star), 0],
    gradients=[g, g_star],
    drift={w: -g},
    laws={s: Telegraph(b, tau)},
    defaults={delta: 2, b: 0.5, tau: 1},
    observables={"E_train": E((f - f_star) ** 2), "E_test": E((w - w_star) ** 2)},
)


def test_signals_have_their_covariance() -> None:
    """b(1 − b)e^{−|t − t'|/τ}: 20000 paths, six standard errors of a covariance of variables that are 0 or 1."""
    share, memory, size = 0.3, math.exp(-0.5 / 2), 20000
    rng = np.random.default_rng(3)
    rows = telegraph(Chain(share, memory), 12, np.zeros(size, dtype=int), rng)
    assert set(np.unique(rows)) == {0.0, 1.0}
    assert np.abs(rows.mean(axis=1) - share).max() < 64 / size  # evened out: one path in each group of the past
    lags = np.abs(np.subtract.outer(np.arange(12), np.arange(12)))
    off = np.cov(rows, bias=True) - share * (1 - share) * memory**lags
    assert np.abs(off).max() < 6 * 0.25 / math.sqrt(size)
    beside = [np.corrcoef(row[:-1], row[1:])[0, 1] for row in rows]
    assert np.abs(beside).max() < 6 / math.sqrt(size)


def batches_for_ever() -> dict[str, xr.DataArray]:
    """τ → ∞: gradient descent on bn samples, δ → bδ; E_train is over those and over the others, which are fresh."""
    settings = {"delta": 1, "lam": 0, "sigma2": 0, "rho2": 1}
    fewer = eqsolve.solve(eqsolve.load("linear_flow").gradient_descent(STEP), at=AT, rtol=1e-6, params=settings).at(AT)
    return {"E_test": fewer["E_test"], "E_train": (fewer["E_train"] + fewer["E_test"]) / 2}


@pytest.mark.slow
def test_batches_that_never_change_are_fewer_samples() -> None:
    found = eqsolve.solve(FLOW, step=STEP, at=AT, tau=1e9, rtol=1e-2).at(AT)
    for name, truth in batches_for_ever().items():
        off = np.abs(found[name].values - truth.values)
        assert (off < 3 * found[f"{name}_error"].values).all()
        assert (off < 1e-2 * truth.values).all()


@pytest.mark.slow
def test_batches_that_change_at_once_are_fresh() -> None:
    """τ → 0: stochastic gradient descent, whose fields are eliminated where the loss is quadratic."""
    found = eqsolve.solve(FLOW, step=STEP, at=AT, tau=1e-3, rtol=1e-2).at(AT)
    settings = {"delta": 2, "lam": 0, "sigma2": 0, "rho2": 1}
    fresh = eqsolve.solve(eqsolve.load("linear_flow").sgd(0.5), step=STEP, at=AT, rtol=3e-3, params=settings).at(AT)
    for name in ("E_train", "E_test"):
        off = np.abs(found[name].values - fresh[name].values)
        assert (off < 3 * (found[f"{name}_error"].values + fresh[f"{name}_error"].values)).all()
        assert (off < 1.5e-2 * fresh[name].values).all()


@pytest.mark.slow
def test_runs_at_finite_size() -> None:
    """d = 400, 32 draws: four standard errors; fresh batches, or batches for ever, would be seen."""
    found = eqsolve.solve(FLOW, step=STEP, at=AT, rtol=2e-2)
    assert found.status == "ok"
    theory = found.at(AT)
    runs = FLOW.simulate(d=400, at=AT, step=STEP, seeds=32, seed=2, workers=1, constants="balanced")
    for name, fewer in batches_for_ever().items():
        error = np.hypot(runs.error[name].values, theory[f"{name}_error"].values)
        assert (np.abs(runs.mean[name].values - theory[name].values) < 4 * error).all()
        assert np.abs(runs.mean[name].values - fewer.values)[-1] > 8 * error[-1]


def test_continuous_time_says_what_to_do() -> None:
    with pytest.raises(
        eqsolve.UsageError, match=r"`s` ~ Telegraph\(b, tau\) is followed in discrete time so far; .*--step 0.1"
    ):
        eqsolve.solve(FLOW, at=AT)
