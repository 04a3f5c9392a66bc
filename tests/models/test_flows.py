"""The flows in models/: depth, truncation, closed forms and finite sizes."""

from pathlib import Path

import numpy as np
import pytest

import eqsolve
from eqsolve import times

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.mark.slow
def test_ridge_regression_from_its_flow_is_the_closed_system() -> None:
    at = [0.3, 1.0, 3.0]
    found = eqsolve.solve("linear_flow", at=at, delta=0.5, rtol=1e-2).at(at)
    known = eqsolve.solve("linear_regression", at=at, delta=0.5, rtol=1e-6).at(at)
    for name in ("E_train", "E_test"):  # solved to 1e-2; affine, so far better
        np.testing.assert_allclose(found[name].values, known[name].values, atol=1e-3 * float(known[name].max()))


@pytest.mark.slow
def test_a_network_follows_the_truncation_only_where_it_bites() -> None:
    flow = eqsolve.load("dln_flow")
    at = [20.0]
    free = flow.simulate(40, 0.5, 2, at=at, rtol=1e-8)
    wide = flow.simulate(40, 0.5, 2, at=at, rtol=1e-8, M=10)
    tight = flow.simulate(40, 0.5, 2, at=at, rtol=1e-6, M=0.3)
    # u² stays below 3, so that a cut at 10 is never felt: the same numbers to the integrator's tolerance
    np.testing.assert_allclose(wide.values["E_test"], free.values["E_test"], rtol=1e-6)
    assert np.abs(tight.values["E_test"] - free.values["E_test"]).max() > 0.01


def test_unequal_starts_give_a_function_at_the_start() -> None:
    flow = eqsolve.load("dln_flow_random_start")
    run = flow.simulate(200, 0.5, 0, at=[0.0], keep=True, params={"u_0": "Point(1)", "v_0": "Point(0.5)"})
    np.testing.assert_allclose(run.coordinates("w", 0.0), (1 - 0.25) / 2)


@pytest.mark.parametrize("layers", [2, 4])
def test_depth_keeps_the_balance_of_the_layers(layers: int) -> None:
    # u' = −u^{L−1} g/2 and v' = v^{L−1} g/2: u^{2−L} + v^{2−L} (log u + log v for L = 2) does not change
    run = eqsolve.load("dln_flow").simulate(60, 0.5, 1, at=[0.0, 3.0], rtol=1e-9, keep=True, L=layers, alpha=0.8)
    u, v = run.coordinates("u", 3.0)[0], run.coordinates("v", 3.0)[0]
    kept = np.log(u * v) if layers == 2 else u ** (2 - layers) + v ** (2 - layers)
    first = np.log(0.8**2) if layers == 2 else 2 * 0.8 ** (2 - layers)
    np.testing.assert_allclose(kept, first, rtol=1e-6)


@pytest.mark.slow
def test_two_layers_equal_the_system_written_by_hand() -> None:
    at = [0.3, 1.0, 3.0]
    settings = {"alpha": 1, "delta": 0.5, "lam": 0.1, "sigma2": 0.01}
    names = ("E_train", "E_test")
    found = eqsolve.solve("dln_flow", at=at, rtol=1e-4, params=settings, observables=names).at(at)
    known = eqsolve.solve("dln", at=at, rtol=1e-5, params=settings, observables=names).at(at)
    for name in names:  # two processes, u and v, against one in another variable
        assert np.abs(found[name].values - known[name].values).max() < 1e-5 * max(1.0, known[name].values.max())


@pytest.mark.slow
def test_three_layers_end_where_the_potential_of_depth_three_says() -> None:
    res = eqsolve.solve("dln_flow", L=3, alpha=1, delta=0.5, at=[40.0], rtol=1e-3)
    # case (iii) with Q'(w) = 2 h_3^{-1}(3w/α³)/α; at t = 40 the training error is below 1e-11
    assert res.at([40.0])["E_test"].item() == pytest.approx(0.0450090880764, abs=1e-4)
    runs = eqsolve.load("dln_flow").simulate(1000, 0.5, 0, seeds=6, at=[40.0], constants="exact", L=3, alpha=1)
    spread = runs.error["E_test"][0]
    assert abs(runs.mean["E_test"][0] - 0.0450090880764) < 3 * spread


@pytest.mark.slow
def test_four_layers_agree_with_their_finite_size() -> None:
    at = [0.3, 1.0, 3.0]
    found = eqsolve.validate("dln_flow", d=800, seeds=8, at=at, params={"L": 4, "alpha": 1, "delta": 0.5})
    assert found.verdict == "agrees"
    error = found.observables["E_test"]
    assert np.all(np.abs(error.theory - error.simulation) < 0.03 * error.theory)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "at", "settings"),
    [
        ("dln_flow_random_start", [0.3, 1.0, 3.0], dict.fromkeys(("u_0", "v_0"), "Discrete([0.8, 1.2], [0.5, 0.5])")),
        ("phase_retrieval", [0.1, 0.3, 1.0], {}),
    ],
)
def test_other_starts_and_losses_agree_with_their_finite_size(name: str, at: list[float], settings: dict[str, str]) -> None:
    found = eqsolve.validate(name, d=500, seeds=8, at=at, rtol=2e-2, params=settings)
    assert found.verdict == "agrees"


@pytest.mark.slow
def test_gradient_descent_differs_from_the_flow_as_its_finite_size_does() -> None:
    at = [0.5, 1.0]
    flow = eqsolve.load("dln_flow")
    settings = {"alpha": 1, "delta": 0.5}
    theory = eqsolve.solve(flow.gradient_descent(0.1), at=at, params=settings).at(at)["E_train"].values
    continuous = eqsolve.solve("dln", at=at, params=settings).at(at)["E_train"].values
    runs = flow.simulate(2000, 0.5, 0, seeds=8, at=at, step=0.1, constants="exact", alpha=1)
    spread = runs.error["E_train"]
    assert np.all(np.abs(theory - runs.mean["E_train"]) < 3 * spread)
    assert np.abs(continuous - runs.mean["E_train"])[0] > 5 * spread[0]


@pytest.mark.slow
def test_truncated_theory_differs_as_the_truncated_network_does() -> None:
    at = [1.0, 3.0]
    settings = {"alpha": 0.8, "delta": 0.5}
    found = eqsolve.validate("dln_flow", d=400, seeds=8, at=at, rtol=3e-2, observables=["E_test"], M=1, params=settings)
    free = eqsolve.solve("dln", at=at, rtol=1e-2, params=settings).at(at)["E_test"].values
    item = found.observables["E_test"]
    assert found.verdict == "agrees"
    assert np.abs(item.theory - free).max() > 5 * np.abs(item.theory - item.simulation).max()


# finite size: simulate(4000, seeds=8, seed=1, constants="exact", rtol=1e-5), mean and standard error at t = 0.3, 1, 3 (and 10)
TANH = {
    (2, 0): {
        "train_loss": ([0.32894, 0.11594, 0.029113, 0.0047660], [0.00262, 0.00084, 0.000151, 0.0000353]),
        "m": ([0.13381, 0.32517, 0.54409, 0.77231], [0.00284, 0.00181, 0.00105, 0.00053]),
        "q": ([0.20636, 0.22803, 0.37230, 0.63378], [0.00072, 0.00117, 0.00105, 0.00067]),
    },
    (1, 0.1): {
        "train_loss": ([0.26995, 0.08436, 0.026878], [0.00250, 0.00084, 0.000174]),
        "m": ([0.12638, 0.27465, 0.40545], [0.00279, 0.00160, 0.00091]),
        "q": ([0.20380, 0.21897, 0.27841], [0.00080, 0.00130, 0.00092]),
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(("delta", "lam", "rtol"), [(2, 0, 1e-3), (1, 0.1, 3e-3)])
def test_a_tanh_unit_agrees_with_its_finite_size(delta: float, lam: float, rtol: float) -> None:
    at = [0.3, 1.0, 3.0, 10.0][: len(TANH[delta, lam]["m"][0])]
    found = eqsolve.solve("teacher_student_tanh", at=at, delta=delta, lam=lam, rtol=rtol).at(at)  # of the largest value
    for name, (mean, spread) in TANH[delta, lam].items():
        theory = found[name].values
        assert np.all(np.abs(theory - mean) <= 3 * np.array(spread))
        assert np.all(np.abs(theory - mean) <= 0.01 * np.array(mean))


@pytest.mark.slow
def test_the_time_may_stand_in_a_drift() -> None:
    """u' = −g/(1 + t) is u' = −g in the time log(1 + t)."""
    flow = eqsolve.load("linear_flow")
    t = times("t")
    slowed = flow.replace("slowed", drift={item: drift / (1 + t) for item, drift in flow.drift.items()})
    moments = np.array([0.5, 2.0])
    settings = {"d": 60, "seed": 3, "rtol": 1e-9}
    late = slowed.simulate(at=moments, **settings).values
    plain = flow.simulate(at=np.log1p(moments), **settings).values
    theory = eqsolve.solve(slowed, at=moments, rtol=1e-4).at(moments)
    limit = eqsolve.solve(flow, at=np.log1p(moments), rtol=1e-4).at(np.log1p(moments))
    for name in flow.observables:
        np.testing.assert_allclose(late[name], plain[name], rtol=1e-6)
        np.testing.assert_allclose(theory[name], limit[name], rtol=2e-4)
