"""Sweeps and solves by dask: a real scheduler, two worker processes, one of them killed in mid-run."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import eqsolve
from eqsolve.cli import main
from eqsolve.errors import MemoryLimitError

ROOT = Path(eqsolve.__file__).resolve().parents[1]
ENV = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
AXES = {"alpha": "0.1:1:16:log"}


@pytest.fixture
def cluster(tmp_path: Path):
    """The address of a scheduler, and its two workers."""
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    started = [start([*command, "--no-dashboard", "--no-show", "--scheduler-file", str(file)], tmp_path)]
    try:
        address = read_address(file)
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
        workers = [start([*worker, "--no-dashboard", "--host", "127.0.0.1"], tmp_path) for _ in range(2)]
        started += workers
        yield address, workers
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def start(command: list[str], folder: Path) -> subprocess.Popen:
    return subprocess.Popen(command, cwd=folder, env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def read_address(file: Path) -> str:
    for _ in range(600):
        try:
            return json.loads(file.read_text())["address"]
        except (OSError, ValueError):
            time.sleep(0.1)
    pytest.fail("the scheduler does not start")


@pytest.mark.slow
def test_a_killed_worker_costs_nothing(cluster, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from eqsolve.solvers.cluster import connect

    address, workers = cluster
    seen: list[str] = []

    def kill(done: int, total: int, text: str) -> None:
        seen.append(text)
        if done == 4:
            workers[0].send_signal(signal.SIGKILL)

    with connect(address, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
        executor = client.get_executor(pure=False)
        res = eqsolve.sweep("dln_infinite_data", AXES, at=[1, 5], executor=executor, out=tmp_path / "s.nc", progress=kill)
    assert workers[0].poll() is not None
    assert res.status == "ok"
    assert len([text for text in seen if text]) == 16  # each point once
    assert "is gone, 1 are left; others do its points" in caplog.text
    alone = eqsolve.sweep("dln_infinite_data", AXES, at=[1, 5])
    assert np.array_equal(res["E_test"], alone["E_test"])


SOLVES = {
    "sampled paths": ("relu_student", {"t_max": 1, "rtol": 2e-2, "seed": 3}),
    "white noise": ("soft_spin", {"t_max": 1, "rtol": 2e-2}),
    "steps": ("dln_sgd", {"batch": 0.5, "step": 0.2, "t_max": 2, "rtol": 0.1}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SOLVES)
def test_a_solve_has_the_same_bits_though_a_worker_is_killed(
    kind: str, cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from eqsolve.solvers.cluster import Cluster, Piece, connect

    name, options = SOLVES[kind]
    address, workers = cluster
    with connect(address, timeout=60) as client:
        client.wait_for_workers(2, timeout=60)
    sent: list[Piece] = []
    known = Cluster.piece

    def watched(self: Cluster, *args, **named) -> Piece:
        sent.append(known(self, *args, **named))
        if self.client is not None and len(sent) == 3:  # two are under way
            workers[0].send_signal(signal.SIGKILL)
        return sent[-1]

    monkeypatch.setattr(Cluster, "piece", watched)
    there = eqsolve.solve(name, scheduler=address, **options)
    assert workers[0].poll() is not None
    assert len(sent) >= 8
    assert all(piece.future is not None for piece in sent)  # none was done here
    here = eqsolve.solve(name, **options)
    assert caplog.messages == []
    assert there.stats | {"seconds": 0} == here.stats | {"seconds": 0}
    for name, values in here.dataset.data_vars.items():
        assert np.array_equal(there.dataset[name].values, values.values, equal_nan=True), name


def test_what_a_cluster_does_not_do_is_done_here(caplog: pytest.LogCaptureFixture) -> None:
    """Pieces whose workers are lost for good, and those after them; an error of the work itself is passed on."""
    from eqsolve.solvers.cluster import Cluster

    class Lost:
        def __init__(self, reason: Exception | None = None) -> None:
            self.reason = reason or RuntimeError("no worker is left")

        def submit(self, *args: object, **named: object) -> object:
            return self

        def result(self) -> object:
            raise self.reason

    cluster = Cluster(Lost())
    first = cluster.piece(math.hypot, 3.0, 4.0)
    second = cluster.piece(math.pow, 2.0, after=[first])
    assert cluster.sent == 2
    assert second.result() == 32.0
    assert "comes back from the cluster, to be done here: no worker is left" in caplog.text
    assert first.result() == 5.0
    assert cluster.piece(math.sqrt, after=[first]).result() == math.sqrt(5)
    assert cluster.sent == 2  # what it rests on is here
    assert Cluster(Lost(MemoryLimitError("a small worker"))).piece(math.sqrt, 4.0).result() == 2.0
    with pytest.raises(eqsolve.SolverError, match="no solution"):
        Cluster(Lost(eqsolve.SolverError("no solution"))).piece(math.sqrt, 4.0).result()


def test_a_worker_of_another_version_does_nothing() -> None:
    import pickle

    from eqsolve.solvers.cluster import _do

    with pytest.raises(RuntimeError, match=r"a worker has eqsolve .*, not 0.0.1"):
        _do(pickle.dumps(("0.0.1", math.sqrt, (4.0,))))
    assert _do(pickle.dumps((eqsolve.__version__, math.pow, (2.0,))), 3.0) == 8.0


@pytest.mark.slow
def test_on_the_command_line(
    cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    address, _ = cluster
    monkeypatch.chdir(tmp_path)
    words = ["sweep", "dln_infinite_data", "--grid", "alpha=0.1:1:4:log", "--at", "1,5", "--scheduler", address]
    assert main([*words, "--out", "s.nc"]) == 0
    assert capsys.readouterr().err.endswith("wrote s.nc\n")  # after lines that say how far it is, where points take seconds
    assert eqsolve.open("s.nc")["E_test"].sizes == {"alpha": 4, "t": 2}
    assert main(["solve", "dln_infinite_data", "--at", "1", "--scheduler", address]) == 0
    assert f"solver `ode` had nothing to send to {address}, all is solved here" in capsys.readouterr().err


def test_no_scheduler_answers() -> None:
    pytest.importorskip("distributed")
    from eqsolve.solvers.cluster import connect

    with pytest.raises(eqsolve.UsageError, match="no dask scheduler answers at"), connect("tcp://127.0.0.1:9", timeout=1):
        pass


def test_without_dask_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from eqsolve.solvers.cluster import connect

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(eqsolve.UsageError, match=r"pip install 'eqsolve\[distributed\]'"), connect("tcp://x:1"):
        pass
