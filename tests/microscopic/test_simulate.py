"""Finite-size runs against plain numpy loops written by hand."""

import inspect
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from sympy import exp, oo, tanh

import eqsolve
from eqsolve import E, Flow, SolverError, UsageError, field, gradient, param, random, state, times
from eqsolve.language.binding import bind
from eqsolve.laws import Normal
from eqsolve.microscopic.data import read_data
from eqsolve.microscopic.lowered import LoweredFlow
from eqsolve.microscopic.simulate import FlowEnsemble, fastest, simulate, slowest

delta = param("delta", positive=True)
w = state("w")
f, f_star = field("f f_star")
g, g_star = gradient("g g_star")
w_star = random("w_star", Normal(0, 1))
w0 = random("w0", Normal(0, 0.25))

tanh_flow = Flow(
    "tanh_flow",
    state={w: w0},
    weights=[w, w_star],
    fields=[f, f_star],
    loss_gradient=[(tanh(f) - tanh(f_star)) * (1 - tanh(f) ** 2), 0],
    gradients=[g, g_star],
    drift={w: -g},
    defaults={delta: 2},
    observables={"train_loss": E((tanh(f) - tanh(f_star)) ** 2), "m": E(w * w_star), "q": E(w**2)},
    variables={"weight": w},
)


def two_layers() -> Flow:
    return eqsolve.load("dln_flow")


def drawn(flow: Flow, d: int, seed: int = 0, **settings: object):
    """Return one draw of a flow, as simulate makes it."""
    lowered = LoweredFlow(bind(flow, settings))
    return FlowEnsemble(lowered, read_data("gaussian"), round(lowered.ratio * d), d, seed).draw(0)


def test_flow_equals_a_hand_written_run() -> None:
    d, alpha, lam, sigma2 = 60, 0.4, 0.1, 0.05
    times = [0.5, 2.0, 5.0]
    run = two_layers().simulate(d, 0.5, 3, at=times, alpha=alpha, lam=lam, sigma2=sigma2, rtol=1e-9)
    sample = drawn(two_layers(), d, 3, delta=0.5, alpha=alpha, lam=lam, sigma2=sigma2)
    X, (target,), (noise,) = sample.features, sample.coordinate_constants, sample.sample_constants
    assert X.shape == (30, 60)
    y = X @ target + noise

    def right(_: float, flat: np.ndarray) -> np.ndarray:
        u, v = flat[:d], flat[d:]
        pull = X.T @ (X @ ((u**2 - v**2) / 2) - y) / 0.5
        return np.concatenate([-(lam * u + u * pull) / 2, -(lam * v - v * pull) / 2])

    solved = solve_ivp(right, (0, 5), np.full(2 * d, alpha), t_eval=times, rtol=1e-10, atol=1e-12, method="DOP853").y
    weights = (solved[:d] ** 2 - solved[d:] ** 2) / 2
    train = np.mean((X @ weights - y[:, None]) ** 2, axis=0)
    test = np.mean((weights - target[:, None]) ** 2, axis=0) + sigma2
    # the adaptive pair is asked for 1e-9 per step over some tens of steps
    np.testing.assert_allclose(run.values["E_train"][0], train, rtol=1e-6)
    np.testing.assert_allclose(run.values["E_test"][0], test, rtol=1e-6)


def test_descent_equals_a_hand_written_loop() -> None:
    d, step = 40, 0.2
    run = tanh_flow.simulate(d, 2, 5, at=[0.0, 1.0, 4.0], step=step)
    sample = drawn(tanh_flow, d, 5)
    X, constants = sample.features, dict(zip(["w0", "w_star"], sample.coordinate_constants, strict=True))
    weight, target = constants["w0"].copy(), constants["w_star"]
    found = []
    for count in range(21):
        out, wanted = np.tanh(X @ weight), np.tanh(X @ target)
        if count in (0, 5, 20):
            found.append([np.mean((out - wanted) ** 2), np.mean(weight * target), np.mean(weight**2)])
        weight = weight - step * X.T @ ((out - wanted) * (1 - out**2)) / 2
    # the same sums in another order
    np.testing.assert_allclose([run.values[name][0] for name in run.values], np.transpose(found), rtol=1e-12)
    assert run.notes == ()


def test_draws_are_independent_and_repeat() -> None:
    whole = tanh_flow.simulate(30, seeds=3, at=[1.0], seed=7, workers=1)
    assert len(set(whole.values["q"][:, 0])) == 3
    first = tanh_flow.simulate(30, seeds=1, at=[1.0], seed=7)
    assert first.values["q"][0, 0] == whole.values["q"][0, 0]
    threads = tanh_flow.simulate(30, seeds=3, at=[1.0], seed=7, executor=ThreadPoolExecutor(2))
    np.testing.assert_array_equal(threads.values["q"], whole.values["q"])
    other = tanh_flow.simulate(30, seeds=3, at=[1.0], seed=8)
    assert not np.any(other.values["q"] == whole.values["q"])
    assert whole.seeds == 3
    assert whole.error["q"].shape == (1,)
    assert np.isinf(first.error["q"]).all()


@pytest.mark.slow
def test_draws_run_in_other_processes() -> None:
    with ProcessPoolExecutor(1) as pool:
        there = tanh_flow.simulate(30, seeds=2, at=[1.0], seed=7, executor=pool)
    here = tanh_flow.simulate(30, seeds=2, at=[1.0], seed=7)
    np.testing.assert_array_equal(there.values["q"], here.values["q"])


def test_too_long_a_step_warns_and_does_not_hide_divergence(caplog: pytest.LogCaptureFixture) -> None:
    # the largest eigenvalue of XᵀX/δ tends to (1 + √2)² = 5.83, so η α² λ₊ = 0.1 × 2² × 5.8 = 2.3 > 2
    run = two_layers().simulate(400, 0.5, at=[1.0], alpha=2, step=0.1)
    assert "stability limit" in run.notes[0]
    assert "stability limit" in caplog.text
    assert two_layers().simulate(400, 0.5, at=[1.0], alpha=1.5, step=0.1).notes == ()
    far = two_layers().simulate(100, 0.5, at=[0.5, 50.0], alpha=4, step=0.5)
    assert "diverged in 1 of 1 draws" in far.notes[1]
    assert np.isnan(far.values["E_test"][0, -1])


def test_a_flow_that_blows_up_says_when() -> None:
    growing = tanh_flow.replace("growing", drift={w: w**3 - g}, state={w: 1})
    with pytest.raises(SolverError, match=r"past t = 0\.\d+.*blow up"):
        growing.simulate(20, at=[5.0])


def test_fastest_and_slowest_rates_of_a_linear_flow() -> None:
    sample = drawn(two_layers(), 50, delta=2, alpha=1.5)
    values = np.linalg.eigvalsh(sample.features.T @ sample.features / 2) * 1.5**2
    flat = sample.start.ravel()
    assert fastest(sample, 0.0, flat) == pytest.approx(values[-1], rel=1e-2)
    target = sample.coordinate_constants[0]
    # at the solution w = w* of the noiseless problem g = 0 and the flow is −√(w² + α⁴) XᵀX/δ
    root = np.sqrt(np.sqrt(target**2 + 1.5**4) + target), np.sqrt(np.sqrt(target**2 + 1.5**4) - target)
    scale = np.sqrt(target**2 + 1.5**4) ** 0.5
    matrix = scale[:, None] * (sample.features.T @ sample.features / 2) * scale
    assert slowest(sample, 0.0, np.concatenate(root)) == pytest.approx(np.linalg.eigvalsh(matrix)[0], rel=1e-6)


def test_keeps_coordinates_when_asked() -> None:
    run = tanh_flow.simulate(30, seeds=2, at=[0.0, 1.0], keep=True)
    weight, start = run.coordinates("weight", 1.0), run.coordinates("w0", 0.0)
    assert weight.shape == (2, 30)
    np.testing.assert_array_equal(run.coordinates("w", 0.0), start)
    np.testing.assert_allclose(np.mean(weight**2, axis=1), run.values["q"][:, 1])
    with pytest.raises(UsageError, match="did you mean `weight`"):
        run.coordinates("weigth", 1.0)
    with pytest.raises(UsageError, match=r"no time 0\.5"):
        run.coordinates("weight", 0.5)
    with pytest.raises(UsageError, match="keep=True"):
        tanh_flow.simulate(30, at=[1.0]).coordinates("weight", 1.0)


def test_a_run_pickles_and_names_its_observables() -> None:
    run = pickle.loads(pickle.dumps(tanh_flow.simulate(20, at=[1.0])))
    assert run["q"].dims == ("draw", "t")
    with pytest.raises(KeyError, match="train_loss"):
        run["train_los"]


def test_progress_is_reported() -> None:
    seen = []
    tanh_flow.simulate(20, seeds=2, t_max=3, progress=lambda done, total, text: seen.append((done, total, text)))
    assert seen[-1][:2] == (3.0, 3.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "d= takes"),
        ({"d": 1}, "at least 2"),
        ({"d": 20}, "how far to run"),
        ({"d": 20, "at": [-1.0]}, "at least 0"),
        ({"d": 20, "at": [2.0], "t_max": 1}, "t_max is 1"),
        ({"d": 20, "t_max": 1, "seeds": 0}, "at least 1"),
        ({"d": 20, "t_max": 1, "step": -0.1}, "positive number"),
        ({"d": 20, "t_max": 1, "constants": "drawn"}, "'sampled' or 'exact'"),
        ({"d": 20, "t_max": 1, "delta": 0.001}, "leaves no sample"),
        ({"d": 10**6, "t_max": 1}, "smaller d, or fewer workers"),
        ({"d": 20, "t_max": 1, "sed": 3}, "did you mean `seed`"),
        ({"d": 20, "t_max": 1, "workers": 0}, "workers="),
    ],
)
def test_wrong_calls_are_explained(options: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        simulate(tanh_flow, **options)


def test_a_declared_change_of_variables_gives_the_same_run() -> None:
    plain = eqsolve.load("dln_flow").subs(L=2, M=oo)
    alpha, lam = plain.symbols("alpha lam")
    u, v, y_u, y_v = state("u v y_u y_v")
    t = times("t")
    scale = alpha * exp(-lam * t / 2)
    changed = plain.replace("changed", substitute={u: scale * exp(y_u / 2), v: scale * exp(y_v / 2)})
    eqsolve.check(changed)
    settings = {"at": [1.0, 5.0], "params": {"alpha": 0.3, "lam": 0.1}}
    one = plain.simulate(80, 0.5, 3, rtol=1e-9, keep=True, **settings)
    other = changed.simulate(80, 0.5, 3, rtol=1e-9, keep=True, **settings)
    for name in one.values:
        np.testing.assert_allclose(other.values[name], one.values[name], rtol=1e-6)
    for name in ("u", "w"):  # the old state is a function of the new one
        np.testing.assert_allclose(other.coordinates(name, 5.0), one.coordinates(name, 5.0), rtol=1e-5, atol=1e-8)
    assert set(other.coordinates("y_u", 1.0).shape) == {1, 80}
    # steps are taken in the declared state
    down = [flow.simulate(80, 0.5, 3, step=0.1, **settings).values["E_test"] for flow in (plain, changed)]
    np.testing.assert_array_equal(*down)
    assert [head.name for head in changed.dmft().substitute] == ["u", "v"]
    eqsolve.check(changed.dmft())
    assert not changed.gradient_descent(0.1).substitute


def test_a_change_of_variables_that_does_not_fit_is_refused() -> None:
    plain = eqsolve.load("dln_flow").subs(L=2, M=oo)
    u, y_u = state("u y_u")
    with pytest.raises(eqsolve.ModelError, match=r"substitution for `u`.*does not reach the initial value"):
        eqsolve.check(plain.replace("wrong", substitute={u: -exp(y_u)}))


@pytest.mark.slow
def test_settings_do_not_share_a_teacher_unless_a_seed_is_given() -> None:
    flow = two_layers()

    def teacher(alpha: float, *seed: int) -> np.ndarray:
        return flow.simulate(50, 0.5, *seed, alpha=alpha, at=[0.0], keep=True).coordinates("w_star", 0.0)

    teachers = [teacher(alpha) for alpha in (0.3, 0.3, 0.5)]
    assert np.array_equal(teachers[0], teachers[1])  # the same in every session
    assert not np.array_equal(teachers[0], teachers[2])
    assert np.array_equal(teacher(0.3, 4), teacher(0.5, 4))
    run = flow.simulate(50, 0.5, alpha=0.3, at=[1.0])
    again = flow.simulate(50, 0.5, run.seed, alpha=0.3, at=[1.0])
    assert np.array_equal(run.values["E_test"], again.values["E_test"])


def test_a_simulation_is_labelled(tmp_path: Path) -> None:
    run = two_layers().simulate(40, 0.5, seeds=3, at=[0.5, 2.0], keep=True, alpha=0.5)
    assert run.dataset["E_test"].dims == ("draw", "t")
    draws = run.values["E_test"]
    assert np.allclose(run.mean["E_test"].sel(t=2.0), draws[:, 1].mean())
    assert np.allclose(run.error["E_test"].sel(t=2.0), draws[:, 1].std(ddof=1) / 3**0.5)
    assert run.to_dataframe().loc[(2, 0.5), "E_test"] == draws[2, 0]
    assert "<code>E_test</code>" in run._repr_html_()
    run.save(tmp_path / "run.nc")
    again = eqsolve.open(tmp_path / "run.nc")
    assert repr(again) == repr(run)
    assert again.dataset.identical(run.dataset)
    assert np.array_equal(again.coordinates("w_star", 2.0), run.coordinates("w_star", 2.0))
    with pytest.raises(eqsolve.UsageError, match="holds a simulation"):
        eqsolve.open(tmp_path / "run.nc", model="dln")


def test_points_lie_over_curves() -> None:
    run = eqsolve.load("linear_flow").simulate(40, seeds=3, at=[0.5, 2.0])
    axes = eqsolve.solve("linear_regression", t_max=2).plot("E_train", "E_test")
    colour = axes.lines[1].get_color()
    assert run.plot("E_test", ax=axes) is axes
    points = axes.lines[2]
    assert np.array_equal(points.get_ydata(), run.mean["E_test"])
    assert points.get_color() == colour
    assert axes.get_xlim()[1] > 2
    alone = run.plot("E_test", logy=True, color="black")
    assert (alone.get_ylabel(), alone.get_yscale()) == (r"$E_{\mathrm{test}}$", "log")
    plt.close("all")


def test_help_tells_the_arguments() -> None:
    arguments = inspect.signature(Flow.simulate).parameters
    inner = inspect.signature(simulate).parameters
    assert set(inner) - {"flow"} <= set(arguments)
    assert all(arguments[name].default == inner[name].default for name in inner if name not in ("flow", "parameters"))
    told = str(Flow.simulate.__doc__)
    assert all(name in told for name in arguments if name != "self")
