"""Sampled paths from small to large ensembles, against fixed points at late times and closed forms."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import eqsolve
from eqsolve.laws import Uniform

WATCHED = ["E_test", "E_train"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "end", "wanted"),
    [
        ({"alpha": 0.909, "delta": 0.871, "lam": 0.17, "sigma2": 0.0, "w_star": "Normal(0, 1)"}, 302.0, (0.3538, 0.02954)),
    ],
)
def test_late_times_with_weight_decay(settings: dict[str, object], end: float, wanted: tuple[float, float]) -> None:
    """Starts and decays for which no sparse grid does.

    The values are of a code of its own for this one model (self-noise in place of modes, other panels and points), good to
    2e-3 of the first value; runs at d = 32,768 agree with them within 1 %.
    """
    result = eqsolve.solve("dln", t_max=end, rtol=2e-3, observables=WATCHED, **settings)
    assert result.status == "ok"
    late, first = result.at([end]), float(result["E_test"].values[0])
    for name, value in zip(WATCHED, wanted, strict=True):
        assert abs(float(late[name].values[0]) - value) <= 2e-3 * first, name


def test_defensive_weights_are_bounded_and_exact_for_constants() -> None:
    from eqsolve.numerics.gaussian import Level, PointLayout, make_points

    points = make_points(5, PointLayout("single"), {}, Level(1e-3, 1.0, 1, 4096))
    weights, normals = points.weights * 4096, points.normals
    assert abs(weights.mean() - 1) < 1e-12
    assert weights.max() < 2.05
    for power, wanted, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (4, 3.0, 96.0)):  # not worse than by chance
        assert np.abs((normals**power) @ points.weights - wanted).max() < np.sqrt(variance / 4096), power


@pytest.mark.parametrize("law", ["Bernoulli(0.1)", pytest.param("Laplace(0.5)", marks=pytest.mark.slow)])
def test_paths_drawn_as_a_check_contradict_wrong_means_alone(monkeypatch: pytest.MonkeyPatch, law: str) -> None:
    """Draws of many seeds agree with a solution; those of every seed contradict one whose correlation is half as large."""
    from eqsolve.solvers.paths import solve as module
    from eqsolve.solvers.paths.sweep import sample

    seen, engines = [], []
    known = module.disagreement
    monkeypatch.setattr(module, "sample", lambda engine, *rest: engines.append(engine) or sample(engine, *rest))

    def watched(solved, drawn, errors, curves):  # type: ignore[no-untyped-def]
        seen.append((solved, errors, curves))
        return known(solved, drawn, errors, curves)

    monkeypatch.setattr(module, "disagreement", watched)
    assert eqsolve.solve("dln", t_max=5, w_star=law, observables=WATCHED).status == "ok"
    solved, errors, curves = seen[0]
    engine = engines[0]
    wrong = dataclasses.replace(solved, means={name: value / 2 for name, value in solved.means.items()})
    for seed in range(20):
        drawn = sample(engine, solved.kernels, solved.averages, 1024, 100 + seed)
        assert not known(solved, drawn, errors, curves)
        assert "Monte Carlo check" in known(wrong, drawn, errors, curves)


def test_several_uniform_constants_have_their_law() -> None:
    """x' = −(a + b) x + z with uniform a, b and one normal z: q = E ((1 − e^{−ct})/c)², c = a + b.

    A sparse grid over the coordinates of both constants certified 0.4205 here.
    """
    t, _ = eqsolve.times("t t'")
    x, z = eqsolve.process("x z")
    a, b = eqsolve.random("a", Uniform(0.5, 1)), eqsolve.random("b", Uniform(0.5, 1))
    q = eqsolve.function("q")
    eqs = [eqsolve.Eq(x(t).diff(t), -(a + b) * x(t) + z(t)), eqsolve.Eq(q(t), eqsolve.E(x(t) ** 2))]
    model = eqsolve.System("uniform", eqs=eqs, laws={z: eqsolve.GP(1)}, init={x: 0}, observables={"second": q(t)})
    nodes, mass = np.polynomial.legendre.leggauss(40)
    c = (0.75 + 0.25 * nodes)[:, None] + (0.75 + 0.25 * nodes)
    truth = float(np.sum(np.outer(mass, mass) / 4 * ((1 - np.exp(-2 * c)) / c) ** 2))
    late = eqsolve.solve(model, t_max=2, solver="stochastic").at([2.0])
    assert abs(float(late["q"].values[0]) - truth) <= 3 * float(late["q_error"].values[0])


def test_stated_errors_of_sets_of_different_sizes() -> None:
    """Averages weighted by inverse variances: one in seven is off by more than is stated, one in 600 by three times that."""
    from scipy.special import stdtr

    from eqsolve.solvers.paths.error_control import margin_of, standard_error

    rng, trials = np.random.default_rng(0), 20_000
    deviations = np.repeat([3.0, 1.0], 4)
    values = deviations[:, None] * rng.standard_normal((8, trials))
    weights = deviations**-2.0
    mean = np.average(values, axis=0, weights=weights)
    stated = margin_of(8) * standard_error([{"x": np.abs(value - mean)} for value in values], weights)["x"]
    for times in (1, 3):
        wanted = 2 * stdtr(7, -times * margin_of(8))
        found = np.mean(np.abs(mean) > times * stated)
        assert abs(found - wanted) < 4 * np.sqrt(wanted / trials), times
    assert abs(2 * stdtr(7, -margin_of(8)) - 1 / 7) < 0.01


def test_parts_of_a_large_set_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The means of a set that is followed in parts are those of all its paths at once; a share tells the responses."""
    from eqsolve.solvers.paths import ensembles, sweep
    from eqsolve.solvers.paths.means import steps_name

    seen = []

    def watched(engine, grid, means, design, known, previous=None):  # type: ignore[no-untyped-def]
        seen.append((engine, grid, means, design, known))
        return known_sweep(engine, grid, means, design, known, previous)

    known_sweep = ensembles.sweep_large
    monkeypatch.setattr(ensembles, "sweep_large", watched)
    eqsolve.solve("soft_spin", t_max=1, rtol=5e-2)
    engine, grid, means, design, known = seen[0]
    alone = dataclasses.replace(design, tangent_stride=1)
    monkeypatch.setattr(sweep, "PATHS_PER_BATCH", 10**6)
    whole, kept = known_sweep(engine, grid, means, alone, known)
    monkeypatch.setattr(sweep, "PATHS_PER_BATCH", 96)
    parts, same = known_sweep(engine, grid, means, alone, known)

    def same_as(found: dict, names: set) -> bool:
        return all(np.allclose(found[name], whole[name], rtol=1e-10, atol=1e-12 * np.abs(whole[name]).max()) for name in names)

    assert same_as(parts, {*whole})
    assert np.array_equal(kept[0].unknowns, same[0].unknowns)
    few, _ = known_sweep(engine, grid, means, dataclasses.replace(design, tangent_stride=4), known)
    response = next(iter(engine.responses))
    assert same_as(few, {*whole} - {response, steps_name(response)})
    assert 0 < np.abs(few[response] - parts[response]).max() < 0.1 * np.abs(parts[response]).max()


@pytest.mark.parametrize(
    ("model", "settings", "less"),
    [
        ("dln", {"alpha": 0.05, "delta": 0.5, "sigma2": 0.3, "w_star": "Uniform(-1, 1)", "t_max": 12, "rtol": 1e-2}, 0.8),
        pytest.param("soft_spin", {"t_max": 1, "rtol": 2e-2}, 2.0, marks=pytest.mark.slow),  # white noise, and one like it
        pytest.param(
            "teacher_student_tanh", {"t_max": 10, "rtol": 2e-3}, None, marks=pytest.mark.slow
        ),  # two noises, correlated
    ],
)
def test_integration_by_parts_is_a_control_variate(
    model: str, settings: dict[str, object], less: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E[y ζ] = R C holds within the scatter of independent sets, and with it responses and correlations scatter less."""
    from eqsolve.solvers.paths import ensembles
    from eqsolve.solvers.paths.means import apply_control_variates, stein_identities

    seen = []

    def watched(engine, grid, means, design, known, previous=None):  # type: ignore[no-untyped-def]
        seen.append((engine, grid, means, design, known))
        return sweep_large(engine, grid, means, design, known, previous)

    sweep_large = ensembles.sweep_large
    monkeypatch.setattr(ensembles, "sweep_large", watched)
    watch = {"observables": WATCHED} if model == "dln" else {}
    assert eqsolve.solve(model, solver="stochastic", **watch, **settings).status == "ok"
    engine, grid, means, design, known = seen[0]
    plan, kernels = engine.program.ensembles[-1], engine.kernels(grid, means)
    groups, drawn = engine.groups(kernels, plan), known[-1][0]
    levels = [dataclasses.replace(design.level, seed=seed) for seed in range(100, 116)]
    sets = [sweep_large(engine, grid, means, dataclasses.replace(design, level=level), known)[0] for level in levels]
    items = list(stein_identities(plan, kernels, groups, drawn))
    assert sorted({noise for item in items for noise in item.noises}) == sorted(plan.driving)
    for item in items:
        defects = np.array([made[item.name] - item.response(made) @ item.covariance for made in sets])
        error = np.sqrt(np.sum(defects.std(axis=0, ddof=1) ** 2) / len(sets))
        assert np.linalg.norm(defects.mean(axis=0)) < 2 * error
        assert error < 0.1 * np.linalg.norm(item.response(sets[0]) @ item.covariance)
    if less is None:
        return
    [response], strongest = engine.responses, np.linalg.eigh(items[0].covariance)[1][:, -1]
    [other] = [mean.name for mean in plan.means if mean.kind == "two"]

    def scatter(ridge: float, share: float) -> tuple[float, float]:
        """Of the response to the strongest mode of the noise, and of the correlation."""
        every = [apply_control_variates(plan, groups, kernels, made, drawn, ridge, share) for made in sets]
        found = ([e[response] @ strongest for e in every], [e[other] for e in every])
        return tuple(float(np.linalg.norm(np.std(item, axis=0))) for item in found)

    plain, controlled = scatter(np.inf, 0.0), scatter(30.0, 1.0)
    assert controlled[0] < less * plain[0]  # more, where tangents scatter little: the solver measures which is better
    assert controlled[1] < 0.9 * plain[1]
    causal = np.zeros((grid.size, grid.size), dtype=bool)
    for block in grid.blocks:
        causal[block, : block.stop] = True
    assert not apply_control_variates(plan, groups, kernels, sets[0], drawn, 30.0, 0.5)[response][~causal].any()


@pytest.mark.slow
def test_the_share_of_tangents_sees_responses_that_act_through_memory() -> None:
    """Mean responses alone told that they do not matter, one path in two thousand was followed, and nothing converged."""
    result = eqsolve.solve("relu_student", t_max=5, rtol=3e-3, budget=60)
    assert result.status == "ok"
    finer = eqsolve.solve("relu_student", t_max=5, rtol=1e-3, seed=7, budget=150)
    for name in ("m", "q"):
        gap = np.abs(result[name] - finer.at(result["t"].values)[name])
        assert (gap <= 1e-12 + 3 * (result.error[name] + finer.at(result["t"].values)[f"{name}_error"])).all()
