"""A result as the start of a solve at other parameters: fewer sweeps, the same solution, errors of its own."""

import logging
import pickle

import numpy as np
import pytest

import eqsolve
from eqsolve import Eq, FixedPoint, param, unknown

NAMES = {"dln": ["E_test", "E_train"], "rnn": None, "lotka_volterra": None, "teacher_student_tanh": None}
MOVES = [
    ("dln", {"alpha": 0.3}, {"alpha": 0.4}, 3),
    pytest.param("dln", {"delta": 0.5}, {"delta": 0.8}, 5, marks=pytest.mark.slow),
    pytest.param(
        "rnn", {"gain": 0.8, "solver": "stochastic"}, {"gain": 0.9, "solver": "stochastic"}, 2, marks=pytest.mark.slow
    ),
    pytest.param("lotka_volterra", {"sigma": 0.4}, {"sigma": 0.5}, 3, marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "there", "here", "t_max"), MOVES)
def test_a_start_leads_to_the_same_solution(model: str, there: dict, here: dict, t_max: float) -> None:
    """Against a finer solve from nothing, the errors stated by a solve from a neighbour hold."""
    asked = {"t_max": t_max, "observables": NAMES[model], "rtol": 1e-2}
    near = eqsolve.solve(model, **there, **asked)
    cold = eqsolve.solve(model, **here, **asked)
    warm = eqsolve.solve(model, **here, **asked, start=near)
    fine = eqsolve.solve(model, **here, **{**asked, "rtol": 1e-3})
    assert warm.status == "ok"
    assert warm.stats["sweeps"] < cold.stats["sweeps"]
    moments = np.linspace(0, t_max, 17)[1:]
    first, second, truth = (res.at(moments) for res in (warm, cold, fine))
    for name in [name for name in truth.data_vars if f"{name}_error" in truth]:
        stated, rest = first[f"{name}_error"].values, truth[f"{name}_error"].values
        assert (np.abs(first[name] - truth[name]).values <= 3 * stated + rest).all(), name
        both = stated + second[f"{name}_error"].values
        assert (np.abs(first[name] - second[name]).values <= 3 * both).all(), name


@pytest.fixture(scope="module")
def near() -> eqsolve.Result:
    return eqsolve.solve("dln", t_max=1, rtol=1e-2, observables=["E_test"])


@pytest.mark.slow
def test_other_times_tolerances_and_steps(near) -> None:
    """A start may be longer than what is asked for, rougher, or in discrete time."""
    asked = {"observables": ["E_test"], "rtol": 1e-2}
    for more in ({"t_max": 0.6}, {"t_max": 1, "rtol": 1e-3}, {"t_max": 1, "order": 4}):
        warm, cold = (eqsolve.solve("dln", alpha=0.35, **{**asked, **more}, **start) for start in ({"start": near}, {}))
        assert warm.status == "ok"
        assert warm.grid.edges[-1] == cold.grid.edges[-1] == more["t_max"]
        first, second = (res.at([0.3, 0.6]) for res in (warm, cold))
        assert (np.abs(first["E_test"] - second["E_test"]) <= 3 * (first["E_test_error"] + second["E_test_error"])).all()
    steps = {"t_max": 1, "step": 0.1, **asked}
    near = eqsolve.solve("dln", **steps)
    warm, cold = eqsolve.solve("dln", alpha=0.35, start=near, **steps), eqsolve.solve("dln", alpha=0.35, **steps)
    assert warm.stats["sweeps"] < cold.stats["sweeps"]
    assert (np.abs(warm["E_test"] - cold["E_test"]) <= 3 * (warm.error["E_test"] + cold.error["E_test"])).all()


@pytest.mark.slow
def test_a_start_that_cannot_help_is_not_used(near, caplog) -> None:
    """The reason stands in the log, and the numbers are those of a solve from nothing."""
    caplog.set_level(logging.INFO, "eqsolve")
    asked = {"t_max": 1, "rtol": 5e-2}
    cases = [
        ({"observables": ["E_train"], **asked}, "solved for other observables"),
        ({"observables": ["E_test"], **asked, "t_max": 1.5}, "it reaches from 0 to 1"),
        ({"observables": ["E_test"], **asked, "step": 0.1}, "one of the two is in discrete time"),
    ]
    for more, said in cases:
        cold = eqsolve.solve("dln", alpha=0.35, **more)
        caplog.clear()
        warm = eqsolve.solve("dln", alpha=0.35, start=near, **more)
        assert said in caplog.text
        name = more["observables"][0]
        assert np.array_equal(warm[name], cold[name])


def test_a_march_in_time_has_no_use_for_a_start(caplog) -> None:
    caplog.set_level(logging.INFO, "eqsolve")
    near = eqsolve.solve("pspin", t_max=1)
    cold = eqsolve.solve("pspin", t_max=1, T=1.1)
    warm = eqsolve.solve("pspin", t_max=1, T=1.1, start=near)
    assert "the start is not used" in caplog.text
    assert all(np.array_equal(warm[name], cold[name]) for name in cold.names)


def test_a_fixed_point_follows_its_branch() -> None:
    """x³ − 3x = c has three solutions for |c| < 2; the start tells which one: from c = 0 the root near −√3 is followed."""
    c = param("c")
    x = unknown("x", domain=(-3, 3))
    model = FixedPoint("cubic", eqs=[Eq(x, x**3 - 2 * x - c)], defaults={c: 0})
    near = eqsolve.solve(model, start={"x": -1.7})
    assert float(near["x"]) == pytest.approx(-np.sqrt(3), abs=1e-9)
    here = eqsolve.solve(model, c=0.1, start=near)
    roots = np.roots([1, 0, -3, -0.1]).real
    truth = roots[np.argmin(np.abs(roots + np.sqrt(3)))]
    assert abs(float(here["x"]) - truth) <= float(here.error["x"]) + 1e-14


def test_refusals_say_what_was_expected(near, tmp_path) -> None:
    ridge = eqsolve.solve("ridge")
    with pytest.raises(eqsolve.UsageError, match=r"expected the Result of one solve of model `dln` \(System\).*of `ridge`"):
        eqsolve.solve("dln", t_max=1, start=ridge)
    with pytest.raises(eqsolve.UsageError, match=r"expected the Result of one solve of model `ridge` \(FixedPoint\).*`dln`"):
        eqsolve.solve("ridge", start=near)
    other = eqsolve.load("dln").replace("dln", observables={"l1": None})
    with pytest.raises(eqsolve.UsageError, match="with other equations"):
        eqsolve.solve(other, t_max=1, start=near)
    swept = eqsolve.sweep("ridge", {"delta": [1.5, 2]})
    with pytest.raises(eqsolve.UsageError, match="got a sweep of `ridge`"):
        eqsolve.solve("ridge", start=swept)
    with pytest.raises(eqsolve.UsageError, match="start= takes a Result of the same model, or values"):
        eqsolve.solve("dln", t_max=1, start=3)
    with pytest.raises(eqsolve.UsageError, match="values by name are for fixed points and rates"):
        eqsolve.solve("dln", t_max=1, start={"w": 3})
    near.save(tmp_path / "dln.nc")
    with pytest.raises(eqsolve.UsageError, match="it was read from a file"):
        eqsolve.solve("dln", t_max=1, start=eqsolve.open(tmp_path / "dln.nc"))
    ridge.save(tmp_path / "ridge.nc")  # values of unknowns are in the file
    assert eqsolve.solve("ridge", start=eqsolve.open(tmp_path / "ridge.nc")).status == "ok"


def test_what_is_handed_on_is_small_and_pickles() -> None:
    res = eqsolve.solve("dln", t_max=5, observables=["E_test"], rtol=1e-2)
    handed = pickle.dumps(res.source)
    assert len(handed) < 8 * 8 * res.stats["nodes"] ** 2 + 20_000  # a few tables of nodes × nodes
    assert len(handed) < 0.3 * len(pickle.dumps(res.dataset))
    again = eqsolve.solve("dln", t_max=5, alpha=0.32, observables=["E_test"], rtol=1e-2, start=pickle.loads(pickle.dumps(res)))
    direct = eqsolve.solve("dln", t_max=5, alpha=0.32, observables=["E_test"], rtol=1e-2, start=res)
    assert np.array_equal(again["E_test"], direct["E_test"])


def test_a_checkpoint_knows_the_start(tmp_path) -> None:
    asked = {"t_max": 1, "rtol": 1e-2, "observables": ["E_test"], "alpha": 0.32}
    near = [eqsolve.solve("dln", **{**asked, "alpha": alpha}) for alpha in (0.3, 0.35)]
    file = tmp_path / "run.ckpt"

    def stop(done: float, total: float, text: str) -> None:
        if text.startswith("time grid"):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        eqsolve.solve("dln", **asked, start=near[0], checkpoint=file, progress=stop)
    with pytest.raises(eqsolve.UsageError, match="checkpoint of another run: its warm_start"):
        eqsolve.solve("dln", **asked, start=near[1], checkpoint=file, resume=True)
    resumed = eqsolve.solve("dln", **asked, start=near[0], checkpoint=file, resume=True)
    assert np.array_equal(resumed["E_test"], eqsolve.solve("dln", **asked, start=near[0])["E_test"])
