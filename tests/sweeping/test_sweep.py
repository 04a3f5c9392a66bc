"""Sweeps: labelled axes, failures recorded, any executor, nothing solved twice, nothing lost."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import eqsolve
from eqsolve import Eq, FixedPoint, System, function, param, times, unknown
from eqsolve.solvers.options import Options
from eqsolve.sweeping import run as sweeping
from eqsolve.sweeping.run import chaining, lay_out_points, read_axes, solve_point
from eqsolve.sweeping.workers import WorkerLostError, Workers

ROOT = Path(eqsolve.__file__).resolve().parents[1]
ENV = os.environ | {"PYTHONPATH": str(ROOT)}

t = times("t")
k = param("k", positive=True)
c = param("c")
y = function("y")
decay = System("decay", eqs=[Eq(y(t).diff(t), -k * y(t) + c * y(t) ** 2)], init={y: 1}, defaults={k: 1, c: 0})


def exact(rate: float, moment: float) -> float:
    return float(np.exp(-rate * moment))


def test_labelled_axes_with_errors() -> None:
    res = eqsolve.sweep(decay, {"k": [0.5, 1, 2]}, at=[0, 1, 3], rtol=1e-6)
    assert repr(res).endswith(": y over k (3), t (3)>")
    assert (res.kind, res.status, res["y"].dims) == ("sweep", "ok", ("k", "t"))
    for rate in (0.5, 1.0, 2.0):
        for moment in (1.0, 3.0):
            gap = abs(float(res["y"].sel(k=rate, t=moment)) - exact(rate, moment))
            assert gap <= float(res.error["y"].sel(k=rate, t=moment)) < 1e-5
    assert set(res["status"].values) == {"ok"}
    assert res.params == {"c": 0.0}
    assert res.to_dataframe().index.names == ["k", "t"]
    assert json.loads(json.dumps(res.json_object()))["axes"] == {"k": [0.5, 1.0, 2.0]}


def test_a_law_that_follows_an_axis_is_no_setting() -> None:
    res = eqsolve.sweep("linear_regression", {"delta": [0.5, 2]}, at=[1])
    assert sorted(res.params) == ["lam", "rho2", "sigma2"]


def test_a_failure_is_recorded_and_stops_nothing() -> None:
    res = eqsolve.sweep(decay, {"c": [0, 3], "k": [1, 2]}, at=[0.1, 2])  # y' = -ky + 3y² blows up before t = 2
    assert res["status"].sel(c=0).values.tolist() == ["ok", "ok"]
    assert res["status"].sel(c=3).values.tolist() == ["failed", "failed"]
    assert "t = " in res["message"].sel(c=3, k=1).item()
    assert res.status == "2 of 4 points were not solved as asked"
    reached = float(res["y"].sel(c=3, k=1, t=0.1))  # what was solved before the blow-up is kept
    assert reached == pytest.approx(1 / (3 + (1 - 3) * np.exp(0.1)), rel=1e-3)
    assert np.isnan(res["y"].sel(c=3, k=1, t=2))


def test_what_was_not_solved_as_asked_is_said_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """y' = −y + 3y² from 1 is infinite at log(3/2); a point that took too long has missed its tolerance."""
    told: list[int] = []
    eqsolve.sweep(decay, {"c": [0, 3, 0.5]}, at=[2], progress=lambda *_: told.append(len(caplog.records)))
    assert told == [0, 0, 1, 1]
    assert caplog.messages[0].startswith("c=3: failed: ")
    solve, told[:] = sweeping.solve_point, []

    def missed(model, settings, *others):
        record, handed = solve(model, settings, *others)
        late = {"status": "tolerance not met", "message": "the error of `y` is 3 times the tolerance"}
        return record | (late if settings["k"] == 1 else {}), handed

    monkeypatch.setattr(sweeping, "solve_point", missed)
    caplog.clear()
    eqsolve.sweep(decay, {"k": [1, 2]}, at=[2], progress=lambda *_: told.append(len(caplog.records)))
    assert told == [0, 1, 1]
    assert caplog.messages == ["k=1: tolerance not met: the error of `y` is 3 times the tolerance"]


def test_laws_are_values_of_an_axis() -> None:
    laws = ["Bernoulli(0.1)", "Discrete([-1, 1], [0.5, 0.5])"]
    res = eqsolve.sweep("dln_infinite_data", {"w_star": laws}, at=1)
    assert res["w_star"].values.tolist() == laws
    text = eqsolve.sweep("dln_infinite_data", {"w_star": ",".join(laws)}, at=1)
    assert np.array_equal(text["E_test"], res["E_test"])


@pytest.mark.parametrize(
    ("axes", "more", "said"),
    [
        ({}, {}, "at least one axis"),
        ({"k": []}, {}, "has no values"),
        ({"k": [1, -1]}, {}, "must be positive, got -1"),
        ({"q": [1]}, {}, "has no parameter `q`"),
        ({"k": "0.1:1:x"}, {}, "COUNT"),
        ({"k": "0:1:3:log"}, {}, "ends of one sign"),
        ({"k": "0.1:1:3:exp"}, {}, ":log or :lin"),
        ({"k": "0.1:1"}, {}, "expected values such as"),
        ({"k": "1,,2"}, {}, "expected values such as"),
        ({"k": "1,1.0"}, {}, "twice"),
        ({"k": "1:2:1"}, {}, "one value cannot reach"),
        ({"k": "1:2:100000", "c": "1:2:2"}, {}, "points, more than"),
        ({"k": "__import__('os')"}, {}, "no law or function"),
        ({"k": [1]}, {"k": 2}, "both an axis and set"),
        ({"k": [1]}, {"workers": 0}, "workers must be"),
        ({"k": [1]}, {"rtol": -1}, "rtol must lie"),
        ({"k": [1]}, {"at": [-1]}, "times start at 0"),
        ({"k": [1]}, {"tmax": 1}, "did you mean `t_max`"),
    ],
)
def test_bad_sweeps_are_refused_before_anything_is_solved(axes: dict, more: dict, said: str) -> None:
    with pytest.raises(eqsolve.EqsolveError, match=said.replace("(", r"\(")):
        eqsolve.sweep(decay, axes, **more)


def test_ranges() -> None:
    axis, other = read_axes(decay, {"k": "0.01:10:4:log", "c": "-1:1:3"})
    assert np.allclose(axis.labels, [0.01, 0.1, 1, 10])
    assert other.labels == (-1.0, 0.0, 1.0)


def test_rows_start_from_the_point_before() -> None:
    axes = read_axes(decay, {"c": [0, 1], "k": "1:40:40"})
    points = lay_out_points(axes, "rows")
    assert [point.index for point in points] == list(range(80))
    heads = [point.index for point in points if point.before is None]
    assert heads == [0, 16, 32, 40, 56, 72]
    assert all(point.before == point.index - 1 for point in points if point.index not in heads)
    assert all(point.before is None for point in lay_out_points(axes))


def test_a_tree_has_one_root_and_links_neighbours() -> None:
    axes = read_axes(decay, {"c": [0, 1, 2], "k": "1:40:40"})
    points = lay_out_points(axes, "tree")
    assert [point.index for point in points if point.before is None] == [0]
    for point in points[1:]:
        here, there = divmod(point.index, 40), divmod(point.before, 40)
        steps = (here[0] - there[0], here[1] - there[1])
        assert steps in ((0, 1), (0, 16), (1, 0)), (here, there)
        assert steps != (1, 0) or here[1] == 0
    three = lay_out_points(read_axes(decay, {"c": [0, 1], "k": [1, 2], **{}}), "tree")
    assert [point.before for point in three] == [None, 0, 0, 2]


def test_a_fixed_point_starts_from_its_neighbour() -> None:
    """x² = a from the solution at the last a; the numbers do not depend on where a point started, within errors."""
    a = param("a", positive=True)
    x = unknown("x", positive=True)
    model = FixedPoint("root", eqs=[Eq(x**2, a)], defaults={a: 2})
    assert chaining(model, {}, Options.make()) == "rows"
    res = eqsolve.sweep(model, {"a": "1:4:20"}, rtol=1e-6)
    assert res.status == "ok"
    assert (np.abs(res["x"] - np.sqrt(res["a"])) <= res.error["x"] + 1e-15).all()
    with ThreadPoolExecutor(2) as executor:
        spread = eqsolve.sweep(model, {"a": "1:4:20"}, rtol=1e-6, executor=executor)
    assert np.array_equal(res["x"], spread["x"])  # the same starts, whoever solves


@pytest.mark.parametrize("make", [lambda: ThreadPoolExecutor(2), lambda: Workers(1)])
def test_any_executor_gives_the_same_numbers(make) -> None:
    """And a worker process has one thread."""
    alone = eqsolve.sweep(decay, {"k": [0.5, 1, 2]}, at=[1, 3])
    with make() as executor:
        spread = eqsolve.sweep(decay, {"k": [0.5, 1, 2]}, at=[1, 3], executor=executor)
        if isinstance(executor, Workers):
            for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
                assert executor.submit(os.getenv, name).result() == "1"
    assert np.array_equal(alone["y"], spread["y"])
    assert np.array_equal(alone.error["y"], spread.error["y"])


@pytest.mark.slow
def test_a_process_pool_of_the_standard_library() -> None:
    from multiprocessing import get_context

    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
        res = eqsolve.sweep("dln_infinite_data", {"alpha": [0.1, 0.2]}, at=[1], executor=executor)
    assert res.status == "ok"


@pytest.mark.slow
def test_a_killed_worker_costs_only_a_retry(caplog: pytest.LogCaptureFixture) -> None:
    with Workers(1) as executor:
        assert executor.submit(os.getpid).result() in executor.numbers
        with pytest.raises(WorkerLostError, match=r"the worker process died \(signal 9; out of memory\?\)"):
            executor.submit(signal.raise_signal, signal.SIGKILL).result()
        assert executor.submit(max, 1, 2).result() == 2  # a new one takes its place
        seen = []

        def kill(done: int, total: int, text: str) -> None:
            seen.append(done)
            if done == 1:  # the second point is under way
                os.kill(executor.numbers[0], signal.SIGKILL)

        res = eqsolve.sweep(decay, {"k": [0.5, 1, 2]}, at=[1], executor=executor, progress=kill)
    assert res.status == "ok"
    assert seen == [0, 1, 2, 3]
    assert "k=1: the process that solved it died; another one tries again" in caplog.text


def test_a_sweep_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    solved: list[str] = []

    def stop(done: int, total: int, text: str) -> None:
        solved.append(text)
        if done == 2:
            raise KeyboardInterrupt

    out = tmp_path / "s.nc"
    axes = {"k": [0.5, 1, 2, 4]}
    with pytest.raises(KeyboardInterrupt):
        eqsolve.sweep(decay, axes, at=[1], out=out, progress=stop)
    journal = tmp_path / "s.nc.journal"
    whole = journal.read_bytes()
    assert not out.exists()
    with pytest.raises(eqsolve.UsageError, match=r"another unfinished sweep \(t_max=1, now 2; at=1, now 2\)"):
        eqsolve.sweep(decay, axes, at=[2], out=out)
    assert journal.read_bytes() == whole
    journal.write_bytes(whole + b'0badc0de {"index": 2, "rec')  # a line cut short by a crash
    again: list[str] = []
    res = eqsolve.sweep(decay, axes, at=[1], out=out, progress=lambda *args: again.append(args[2]))
    assert [re.sub(r", \S+ s,", ":", text) for text in again if text] == ["k=2: ok", "k=4: ok"]
    assert [re.sub(r", \S+ s,", ":", text) for text in solved if text] == ["k=0.5: ok", "k=1: ok"]
    assert not journal.exists()
    fresh = eqsolve.sweep(decay, axes, at=[1])
    assert np.array_equal(res["y"], fresh["y"])
    assert np.array_equal(eqsolve.open(out)["y"], fresh["y"])


@pytest.mark.skipif(os.name == "nt", reason="needs locks")
def test_a_sweep_of_paths_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """What a solution hands on to its neighbour is not kept: the next point begins by itself."""

    def stop(done: int, total: int, text: str) -> None:
        if done == 1:
            raise KeyboardInterrupt

    asked = {"axes": {"sigma": [0.2, 0.25]}, "at": [0.5], "rtol": 3e-2, "out": tmp_path / "s.nc"}
    with pytest.raises(KeyboardInterrupt):
        eqsolve.sweep("lotka_volterra", progress=stop, **asked)
    assert eqsolve.sweep("lotka_volterra", **asked).status == "ok"


def test_points_that_failed_are_solved_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    """One of two points fails the first time; the same call solves it, and it alone, and then nothing."""
    asked = {"axes": {"c": [0, 0.5], "k": [1, 2]}, "at": [1, 2], "derivatives": ["k"], "out": tmp_path / "s.nc", "rtol": 1e-6}
    solved: list[float] = []

    def fail(model, settings, options, start=None):
        solved.append(settings["k"])
        if settings["k"] == 2 and settings["c"] == 0 and len(solved) == 2:
            return {"status": "failed", "message": "no memory", "seconds": 1.0, "values": {}, "errors": {}}, None
        return solve_point(model, settings, options, start)

    monkeypatch.setattr("eqsolve.sweeping.run.solve_point", fail)
    assert eqsolve.sweep(decay, **asked).stats["failed"] == 1
    del solved[:2]
    with caplog.at_level(logging.INFO, "eqsolve"):
        again = eqsolve.sweep(decay, **asked)
    assert len(solved) == 3
    assert "of which 1 points failed: they are solved again" in caplog.text
    whole = eqsolve.sweep(decay, **{**asked, "out": None})
    assert again.status == "ok"
    assert np.array_equal(again["y"], whole["y"])
    assert np.array_equal(again.derivative("y", "k"), whole.derivative("y", "k"))
    del solved[:]
    eqsolve.sweep(decay, **asked)
    assert solved == []


def test_a_flow_lists_what_it_declares_first(monkeypatch: pytest.MonkeyPatch) -> None:
    record = {"status": "ok", "message": "", "seconds": 0.0, "errors": {}}
    record["values"] = {name: [1.0] for name in ("Gamma_f", "E_train", "E_test")}
    monkeypatch.setattr("eqsolve.sweeping.run.solve_point", lambda *_: (record, None))
    res = eqsolve.sweep("linear_flow", {"delta": [1, 2]}, at=[0.5])
    assert res.names == ("E_train", "E_test", "Gamma_f")
    assert res.shown == ("E_train", "E_test")


def test_an_interrupted_point_ends_the_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solve that is interrupted returns what it has; in a sweep the point is solved again when it goes on."""
    whole = eqsolve.solve(decay, t_max=1)
    monkeypatch.setattr("eqsolve.sweeping.run.solve_as_asked", lambda *_, **__: whole.with_status("interrupted", "by hand"))
    with pytest.raises(KeyboardInterrupt):
        eqsolve.sweep(decay, {"k": [0.5, 1]}, at=[1])


def test_two_sweeps_into_one_file(tmp_path: Path) -> None:
    out = tmp_path / "s.nc"
    problems = []

    def other(done: int, total: int, text: str) -> None:
        if done == 1:
            with pytest.raises(eqsolve.UsageError, match="another process is writing"):
                eqsolve.sweep(decay, {"k": [1, 2]}, at=[1], out=out)
            problems.append("refused")

    eqsolve.sweep(decay, {"k": [1, 2]}, at=[1], out=out, progress=other)
    assert problems == ["refused"]


@pytest.mark.slow
def test_kill_minus_nine_at_random_moments(tmp_path: Path, rng: np.random.Generator) -> None:
    """However often the whole sweep is killed, no finished point is solved again, and the numbers are the same."""
    script = (
        "import sys, eqsolve\n"
        "log = open('log', 'a', buffering=1)\n"
        "eqsolve.sweep('dln_infinite_data', {'alpha': '0.1:1:5:log'}, at=[1, 5], out='s.nc', workers=2,\n"
        "              progress=lambda done, total, text: text and log.write(text + '\\n'))\n"
    )
    out, log = tmp_path / "s.nc", tmp_path / "log"
    log.touch()
    kills = 0
    while not out.exists():
        process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, env=ENV)
        before = log.stat().st_size
        while process.poll() is None and log.stat().st_size == before:  # at least one point further each time
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.1))
        process.kill()
        code = process.wait()
        assert code in (0, -signal.SIGKILL)
        kills += code != 0
    lines = (tmp_path / "log").read_text().splitlines()
    assert len(lines) == len(set(lines))
    assert kills >= 2
    assert len(lines) >= 5 - kills  # a kill may fall between the journal and this test's own log
    fresh = eqsolve.sweep("dln_infinite_data", {"alpha": "0.1:1:5:log"}, at=[1, 5])
    assert np.array_equal(eqsolve.open(out)["E_test"], fresh["E_test"])


def test_a_killed_parent_takes_its_workers_along(tmp_path: Path) -> None:
    code = (
        "import time; from eqsolve.sweeping.workers import Workers\n"
        "workers = Workers(1); workers.submit(len, '').result(); workers.submit(time.sleep, 60)\n"
        "print(workers.numbers[0], flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], env=ENV, stdout=subprocess.PIPE, text=True)
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    gone = False
    for _ in range(100):
        try:
            os.kill(worker, 0)
            state = Path(f"/proc/{worker}/stat")
            gone = state.exists() and ") Z " in state.read_text()
        except ProcessLookupError:
            gone = True
        if gone:
            break
        time.sleep(0.05)
    if not gone:
        os.kill(worker, signal.SIGKILL)
    assert gone, "the worker outlived its parent"


def test_another_sweep_in_the_file_is_named_before_it_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    out = tmp_path / "s.nc"
    eqsolve.sweep(decay, {"k": [1, 2]}, at=[1], out=out)
    assert not caplog.text
    eqsolve.sweep(decay, {"k": [1, 2, 3, 4, 5]}, at=[1], out=out, c=0.5)
    assert "s.nc holds another sweep (k=1,2, now 1,...,5 (5 values); c=not set, now 0.5); it will be" in caplog.text
    exact = 1 / (0.5 + 0.5 * np.exp(1))  # 1/y solves a linear equation
    assert float(eqsolve.open(out)["y"].sel(k=1, t=1)) == pytest.approx(exact, rel=1e-3)
