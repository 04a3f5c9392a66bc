"""A sweep by dask: a real scheduler, two worker processes, one of them killed in mid-run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import eqsolve

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
def test_a_killed_worker_costs_nothing(cluster, tmp_path: Path) -> None:
    from eqsolve.sweeping.cluster import connect

    address, workers = cluster
    seen: list[str] = []

    def kill(done: int, total: int, text: str) -> None:
        seen.append(text)
        if done == 4:
            workers[0].send_signal(signal.SIGKILL)

    with connect(address, timeout=60) as executor:
        while len(executor._client.scheduler_info()["workers"]) < 2:
            time.sleep(0.1)
        res = eqsolve.sweep("dln_infinite_data", AXES, at=[1, 5], executor=executor, out=tmp_path / "s.nc", progress=kill)
    assert workers[0].poll() is not None
    assert res.status == "ok"
    assert len([text for text in seen if text]) == 16  # each point once
    alone = eqsolve.sweep("dln_infinite_data", AXES, at=[1, 5])
    assert np.array_equal(res["E_test"], alone["E_test"])


@pytest.mark.slow
def test_on_the_command_line(cluster, tmp_path: Path) -> None:
    address, _ = cluster
    command = [sys.executable, "-m", "eqsolve", "sweep", "dln_infinite_data", "--grid", "alpha=0.1:1:4:log", "--at", "1,5"]
    done = subprocess.run(
        [*command, "--scheduler", address, "--out", "s.nc"], cwd=tmp_path, env=ENV, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("wrote s.nc\n")  # after lines that say how far it is, where points take seconds
    assert eqsolve.open(tmp_path / "s.nc")["E_test"].sizes == {"alpha": 4, "t": 2}


def test_no_scheduler_answers() -> None:
    pytest.importorskip("distributed")
    from eqsolve.sweeping.cluster import connect

    with pytest.raises(eqsolve.UsageError, match="no dask scheduler answers at"), connect("tcp://127.0.0.1:9", timeout=1):
        pass


def test_without_dask_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    from eqsolve.sweeping.cluster import connect

    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(eqsolve.UsageError, match=r"pip install 'eqsolve\[distributed\]'"), connect("tcp://x:1"):
        pass
