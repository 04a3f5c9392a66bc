"""Points of a sweep start from a neighbour's solution: the same numbers within their errors, whoever solves them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import eqsolve
from eqsolve.solvers.options import Options
from eqsolve.sweeping.run import chaining
from eqsolve.sweeping.workers import Workers

AXES = {"alpha": [0.3, 0.4], "delta": [0.5, 0.7]}
ASKED = {"at": [1, 2], "observables": ["E_test", "E_train"]}


def test_who_starts_from_a_neighbour() -> None:
    assert chaining(eqsolve.load("dln"), {}, Options.make()) == "tree"
    assert chaining(eqsolve.load("dln_flow"), {}, Options.make()) == "tree"
    assert chaining(eqsolve.load("ridge"), {}, Options.make()) == "rows"
    assert chaining(eqsolve.load("pspin"), {}, Options.make()) == ""  # marched once, forward in time
    assert chaining(eqsolve.load("dln_infinite_data"), {}, Options.make()) == ""


@pytest.mark.slow
def test_starts_and_workers_do_not_change_numbers() -> None:
    alone = eqsolve.sweep("dln", AXES, **ASKED)
    assert alone.status == "ok"
    for make in (lambda: ThreadPoolExecutor(2), lambda: Workers(2)):
        with make() as executor:
            spread = eqsolve.sweep("dln", AXES, executor=executor, **ASKED)
        for name in ("E_test", "E_train"):
            assert np.array_equal(alone[name], spread[name])  # the same neighbours, whoever solves
            assert np.array_equal(alone.error[name], spread.error[name])


@pytest.mark.slow
def test_the_order_of_an_axis_changes_numbers_within_their_errors() -> None:
    """Turned round, every point starts from another neighbour; a finer solve from nothing is the truth for both."""
    one = eqsolve.sweep("dln", AXES, **ASKED)
    other = eqsolve.sweep("dln", {name: values[::-1] for name, values in AXES.items()}, **ASKED)
    for alpha in AXES["alpha"]:
        for delta in AXES["delta"]:
            fine = eqsolve.solve("dln", alpha=alpha, delta=delta, rtol=1e-4, t_max=2, observables=ASKED["observables"])
            truth = fine.at(ASKED["at"])
            for res in (one, other):
                point = {"alpha": alpha, "delta": delta}
                for name in ASKED["observables"]:
                    gap = np.abs(res[name].sel(point).values - truth[name].values)
                    assert (gap <= 3 * res.error[name].sel(point).values + truth[f"{name}_error"].values).all()


@pytest.mark.slow
def test_a_resumed_sweep_agrees_within_errors(tmp_path) -> None:
    """What was handed on is not kept in a file: the first point after an interruption starts from nothing."""

    def stop(done: int, total: int, text: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    out = tmp_path / "s.nc"
    with pytest.raises(KeyboardInterrupt):
        eqsolve.sweep("dln", AXES, out=out, progress=stop, **ASKED)
    again = eqsolve.sweep("dln", AXES, out=out, **ASKED)
    whole = eqsolve.sweep("dln", AXES, **ASKED)
    for name in ASKED["observables"]:
        assert (np.abs(again[name] - whole[name]) <= again.error[name] + whole.error[name]).all()
