"""A solve that is killed goes on from its checkpoint to the same bits, whatever the moment; other files are refused."""

import errno
import functools
import logging
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import eqsolve
from eqsolve.errors import MemoryLimitError
from eqsolve.files.checkpoint import Checkpoint, Codec
from eqsolve.laws import Normal

RUNS = {  # small ones: a stochastic system, and one of two times
    "stochastic": ("dln", {"t_max": 1, "rtol": 1e-2}),
    "two_time": ("pspin", {"t_max": 4}),
}
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def bits(result: eqsolve.Result) -> dict[str, bytes]:
    """Return every number of a result as it is in memory."""
    return {str(name): result.dataset[name].values.tobytes() for name in result.dataset.variables}


@pytest.fixture(scope="module", params=list(RUNS))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, Any], Any, bytes]:
    """A model, its options, its solution without a checkpoint, and the checkpoint at the end of a run with one."""
    model, options = RUNS[request.param]
    plain = eqsolve.solve(model, **options)
    assert plain.stats["solver"] == request.param
    checkpoint = Checkpoint(tmp_path_factory.mktemp("run") / "whole")
    assert bits(eqsolve.solve(model, checkpoint=checkpoint, **options)) == bits(plain)
    return model, options, plain, checkpoint.path.read_bytes()


def test_what_is_there_is_not_computed_again(run: Any, tmp_path: Path) -> None:
    model, options, plain, whole = run
    file = tmp_path / "f"
    file.write_bytes(whole)
    checkpoint = Checkpoint(file, resume=True)
    assert bits(eqsolve.solve(model, checkpoint=checkpoint, **options)) == bits(plain)
    assert checkpoint.replayed == checkpoint.steps > 5
    assert file.read_bytes() == whole


def test_a_file_cut_anywhere_gives_the_same_bits(run: Any, tmp_path: Path) -> None:
    model, options, plain, whole = run
    file = tmp_path / "f"
    for cut in [30, random.Random(1).randrange(100, len(whole)), len(whole)]:
        file.write_bytes(whole[:cut] + bytes(64))  # zeros, as a file system may leave behind
        found = eqsolve.solve(model, checkpoint=file, resume=True, **options)
        assert bits(found) == bits(plain), cut
        assert not file.exists()


@needs_fork
@pytest.mark.slow
def test_killed_eight_times_at_random_moments(run: Any, tmp_path: Path) -> None:
    model, options, plain, _ = run
    file, out, clock = tmp_path / "f", tmp_path / "out.nc", random.Random(20)
    began = time.monotonic()
    assert os.waitstatus_to_exitcode(os.waitpid(start(model, options, file, out), 0)[1]) == 0
    whole, kills, ends, replayed = time.monotonic() - began, 0, 0, 0
    while kills < 8:
        child = start(model, options, file, out)
        time.sleep(clock.uniform(0, 0.8 * whole))
        os.kill(child, signal.SIGKILL)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL:
            kills += 1
            replayed += file.exists() and file.stat().st_size > 2000
            if kills < 8:
                continue
            assert os.waitstatus_to_exitcode(os.waitpid(start(model, options, file, out), 0)[1]) == 0
        ends += 1
        assert bits(eqsolve.open(out)) == bits(plain)
        out.unlink()
    assert replayed > 2  # kills after which there was something to go on from
    assert ends > 0
    assert not file.exists()


def start(model: str, options: dict[str, Any], file: Path, out: Path) -> int:
    """Start a copy of this process that solves, or goes on, and saves; return its number."""
    child = os.fork()
    if child == 0:
        try:
            checkpoint = Checkpoint(file, resume=True)
            eqsolve.solve(model, checkpoint=checkpoint, **options).save(out)
            checkpoint.close(remove=True)
            os._exit(0)
        finally:
            os._exit(1)
    return child


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("dln_descent", {"t_max": 5}),
        ("lotka_volterra", {"t_max": 3, "rtol": 1e-2}),
    ],
)
def test_other_systems_too(model: str, options: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Discrete time, several ensembles, noise that multiplies."""
    plain = bits(eqsolve.solve(model, **options))
    whole = Checkpoint(tmp_path / "f")
    with caplog.at_level(logging.WARNING, "eqsolve"):
        assert bits(eqsolve.solve(model, checkpoint=whole, **options)) == plain
    assert not caplog.records  # every step can be kept
    size = whole.path.stat().st_size
    for part in (0.5, 1.0):
        os.truncate(whole.path, round(part * size))
        resumed = Checkpoint(whole.path, resume=True)
        assert bits(eqsolve.solve(model, checkpoint=resumed, **options)) == plain
        assert resumed.replayed > 0


@pytest.mark.slow
def test_a_start_that_is_a_law(tmp_path: Path) -> None:
    """Laws of starts are named by their classes in a plan, which have no values to be kept."""
    t, tp = eqsolve.times("t t'")
    x, eta = eqsolve.process("x eta")
    C = eqsolve.correlation("C")
    model = eqsolve.System(
        "growing",
        eqs=[eqsolve.Eq(x(t).diff(t), -(x(t) ** 3) + eta(t)), eqsolve.Eq(C(t, tp), eqsolve.E(x(t) * x(tp)))],
        laws={eta: eqsolve.GP(C(t, tp) / 4)},
        init={x: Normal(0, 1)},
        observables={"q": C(t, t)},
    )
    options: dict[str, Any] = {"t_max": 0.5, "rtol": 5e-2, "solver": "stochastic"}
    plain = bits(eqsolve.solve(model, **options))
    whole = Checkpoint(tmp_path / "f")
    assert bits(eqsolve.solve(model, checkpoint=whole, **options)) == plain
    assert bits(eqsolve.solve(model, checkpoint=Checkpoint(whole.path, resume=True), **options)) == plain


@functools.cache
def undisturbed() -> eqsolve.Result:
    return eqsolve.solve("dln", t_max=10, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.parametrize(("how", "codes"), [(signal.SIGKILL, {-signal.SIGKILL}), (signal.SIGINT, {1, 130})])
def test_a_killed_command_goes_on(how: signal.Signals, codes: set[int], tmp_path: Path) -> None:
    """As a user does it: kill -9 on the command, or Ctrl-C, then the same command again."""
    env = os.environ | {"PYTHONPATH": str(Path(eqsolve.__file__).resolve().parents[1])}
    command = [sys.executable, "-m", "eqsolve", "solve", "dln", "--t-max", "10", "--rtol", "1e-4"]
    command += ["--checkpoint", "f", "--resume", "--out", "r.nc"]
    child = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while child.poll() is None and not (tmp_path / "f").exists():
        time.sleep(0.02)
    while child.poll() is None and (tmp_path / "f").stat().st_size < 100_000:
        time.sleep(0.02)
    child.send_signal(how)
    _, said = child.communicate(timeout=100)
    assert child.returncode in codes
    assert how == signal.SIGKILL or "the same command with --resume goes on from there" in said
    assert "Traceback" not in said
    done = subprocess.run([*command, "-v"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0
    assert "finished steps" in done.stderr
    assert [item.name for item in tmp_path.iterdir()] == ["r.nc"]
    assert bits(eqsolve.open(tmp_path / "r.nc")) == bits(undisturbed())


# --- interruptions and failures -----------------------------------------------------------------------------------------
def test_an_interruption_keeps_the_file_and_the_end_removes_it(tmp_path: Path) -> None:
    file = tmp_path / "f"
    model, options = "dln", {"t_max": 1}

    def stop(done: float, total: float, text: str) -> None:
        if text.startswith("time grid"):
            raise KeyboardInterrupt

    first = eqsolve.solve(model, checkpoint=file, progress=stop, **options)
    assert first.status == "interrupted"
    assert file.exists()
    resumed = eqsolve.solve(model, checkpoint=file, resume=True, **options)
    assert not file.exists()
    assert bits(resumed) == bits(eqsolve.solve(model, **options))


def test_an_interruption_of_a_solver_that_has_nothing_to_return(tmp_path: Path) -> None:
    file = tmp_path / "f"
    model, options = RUNS["two_time"]

    def stop(done: float, total: float, text: str) -> None:
        if done > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        eqsolve.solve(model, checkpoint=file, progress=stop, **options)
    checkpoint = Checkpoint(file, resume=True)
    assert bits(eqsolve.solve(model, checkpoint=checkpoint, **options)) == bits(eqsolve.solve(model, **options))
    assert checkpoint.replayed > 0


def test_a_failure_of_the_solver_is_a_step_too(tmp_path: Path) -> None:
    calls = []

    def fail(kind: type[eqsolve.SolverError]) -> None:
        calls.append(kind)
        raise kind("it blows up")

    for resume in (False, True):
        checkpoint = Checkpoint(tmp_path / "f", resume=resume)
        checkpoint.begin({"run": 1})
        for kind in (eqsolve.SolverError, MemoryLimitError):
            with pytest.raises(kind, match="it blows up"):
                checkpoint.step("a", lambda kind=kind: fail(kind), Codec())
        checkpoint.close()
    assert calls == [eqsolve.SolverError, MemoryLimitError, MemoryLimitError]  # there may be more memory next time


def test_a_full_disk_costs_the_checkpoint_not_the_solve(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, options = RUNS["two_time"]
    checkpoint = Checkpoint(tmp_path / "f")
    keep, written = checkpoint._append, []

    def append(*data: Any) -> None:
        if len(written) == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(data)
        keep(*data)

    monkeypatch.setattr(checkpoint, "_append", append)
    with caplog.at_level(logging.WARNING, "eqsolve"):
        assert eqsolve.solve(model, checkpoint=checkpoint, **options).status == "ok"
    assert "no space is left" in caplog.text
    assert "goes on without a checkpoint" in caplog.text
    assert len(caplog.records) == 1


def test_what_is_cheaper_to_compute_than_to_write_is_not_kept(tmp_path: Path) -> None:
    import numpy as np

    checkpoint = Checkpoint(tmp_path / "f")
    checkpoint.begin({})
    checkpoint.step("large", lambda: np.zeros(10**6), Codec())
    small = checkpoint.path.stat().st_size
    checkpoint.step("small", lambda: np.zeros(100), Codec())
    checkpoint.close()
    assert small < 1000
    assert checkpoint.path.stat().st_size > small


# --- files that do not fit ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rtol": 1e-4}, "its rtol is 0.001, that of this run 0.0001"),
        ({"t_max": 2}, "its t_max is 1.0, that of this run 2.0"),
        ({"seed": 3}, "its seed is 0, that of this run 3"),
        ({"T": 0.7}, "its parameters are"),
        ({"model": "integro_nonlinear"}, "its model is 'pspin', that of this run 'integro_nonlinear'"),
    ],
)
def test_the_checkpoint_of_another_run(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = tmp_path / "f"
    asked = {"model": "pspin", "t_max": 1}
    eqsolve.solve(checkpoint=Checkpoint(file), **asked)
    whole = file.read_bytes()
    asked |= changed
    with pytest.raises(eqsolve.UsageError, match="the checkpoint of another run") as caught:
        eqsolve.solve(checkpoint=file, resume=True, **asked)
    assert said in str(caught.value)
    assert file.read_bytes() == whole


def test_a_file_that_is_there_is_not_given_up_by_mistake(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("precious")
    with pytest.raises(eqsolve.UsageError, match="is there already, and may hold an unfinished run"):
        eqsolve.solve("pspin", t_max=1, checkpoint=file)
    with pytest.raises(eqsolve.UsageError, match="is not a checkpoint of eqsolve"):
        eqsolve.solve("pspin", t_max=1, checkpoint=file, resume=True)
    with pytest.raises(eqsolve.UsageError, match="is a folder"):
        eqsolve.solve("pspin", t_max=1, checkpoint=tmp_path)
    with pytest.raises(eqsolve.UsageError, match="name its file"):
        eqsolve.solve("pspin", t_max=1, resume=True)
    with pytest.raises(eqsolve.UsageError, match="cannot write"):
        eqsolve.solve("pspin", t_max=1, checkpoint=tmp_path / "no" / "f")
    assert file.read_text() == "precious"


@pytest.mark.skipif(os.name == "nt", reason="there is no lock")
def test_a_file_that_another_run_is_writing(tmp_path: Path) -> None:
    first = Checkpoint(tmp_path / "f")
    first.begin({})
    with pytest.raises(eqsolve.UsageError, match="another process is writing"):
        eqsolve.solve("pspin", t_max=1, checkpoint=tmp_path / "f", resume=True)
    first.close()


def test_steps_in_another_order_are_noticed(tmp_path: Path) -> None:
    file = tmp_path / "f"
    for resume, label in ((False, "first"), (True, "other")):
        checkpoint = Checkpoint(file, resume=resume)
        checkpoint.begin({})
        if not resume:
            checkpoint.step(label, lambda: 1, Codec())
            checkpoint.close()
            continue
        with pytest.raises(eqsolve.UsageError, match=r"step 1 is 'other', and was 'first'.*remove it and start again"):
            checkpoint.step(label, lambda: 1, Codec())
        checkpoint.close()
