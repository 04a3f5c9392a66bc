"""The server: to this machine and its own page only; answers as `solve` gives them; jobs that can be left; pages apart."""

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsolve
from eqsolve.explorer.server import Explorer, Session


def post(server: Explorer, verb: str, request: dict[str, Any], **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
    body = json.dumps({"word": server.word, "session": "one", **request})
    connection.request("POST", f"/api/{verb}", body, headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def ask(server: Explorer, verb: str, **request: Any) -> dict[str, Any]:
    status, body = post(server, verb, request)
    assert status == 200, body
    return dict(json.loads(body.splitlines()[-1]))


@pytest.mark.slow
def test_answers_are_those_of_solve(explorer: Explorer, slowed: Path, tmp_path: Path) -> None:
    about = ask(explorer, "describe")
    assert about["name"] == "slowed"
    assert [control["name"] for control in about["controls"]] == ["a"]
    asked = {"settings": {"a": "1/2"}, "t_max": "5", "rtol": "1e-4"}
    answer = ask(explorer, "solve", **asked)
    times, heights, errors = (
        np.array(answer[key]) if key == "t" else np.array(answer[key]["height"]) for key in ("t", "values", "errors")
    )
    exact = 0.5 / (1 + 0.5 * times)
    assert np.all(np.abs(heights - exact) <= 3 * errors + 1e-15)
    assert np.allclose(heights, eqsolve.solve(str(slowed), a="1/2", t_max=5, rtol=1e-4).at(times)["height"], rtol=1e-12)
    status, body = post(explorer, "save", {**asked, "path": str(tmp_path / "elsewhere.nc")})
    assert not (tmp_path / "elsewhere.nc").exists()  # where to write is not for the page to say
    (tmp_path / "result.nc").write_bytes(body)
    saved = eqsolve.open(tmp_path / "result.nc", model=str(slowed))
    assert status == 200
    assert np.allclose(saved.at(times)["height"], heights, rtol=1e-12)


def test_errors_of_settings_and_of_the_file(explorer: Explorer, slowed: Path) -> None:
    def problem(**request: Any) -> str:
        return str(ask(explorer, "solve", **{"t_max": "5", "rtol": "1e-3", **request})["error"]["problems"])

    assert "`a` of model `slowed` must be positive, got -1" in problem(settings={"a": "-1"})
    assert "cannot read" in problem(settings={"a": "1 +"})
    assert "__import__" in problem(settings={"a": "__import__('os').getpid()"})  # read, never run
    assert "t_max" in problem(settings={}, t_max="soon")
    assert "no parameter `b`" in problem(settings={"b": "1"})
    text = slowed.read_text()
    slowed.write_text(text.replace("defaults={a: 1}", "defaults={b: 1}"))
    assert "slowed.py:13" in str(ask(explorer, "describe")["error"]["problems"])
    slowed.write_text(text.replace("defaults={a: 1}", "defaults={a: 2}"))
    assert ask(explorer, "describe")["controls"][0]["value"] == "2"


def test_it_answers_its_own_page_only(explorer: Explorer) -> None:
    assert post(explorer, "describe", {"word": "guess"})[0] == 403
    assert post(explorer, "describe", {}, Host="evil.example")[0] == 403
    assert post(explorer, "describe", {}, Origin="http://evil.example")[0] == 403
    assert post(explorer, "evaluate", {})[0] == 404
    assert explorer.server_address[0] == "127.0.0.1"
    connection = http.client.HTTPConnection("127.0.0.1", explorer.port)
    for path, status in (("/", 200), ("/etc/passwd", 404), ("/../pyproject.toml", 404)):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (status, True)
    connection.request("GET", "/", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 403


STUBBORN = '''"""A model whose file takes for ever to load, without a word."""

import time

time.sleep(1000)
'''


@pytest.mark.slow
def test_a_job_that_does_not_listen_is_ended_and_pages_are_apart(tmp_path: Path, slowed: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    stuck, other = Session(str(tmp_path / "stubborn.py")), Session(str(slowed))
    try:
        messages = stuck.run({"verb": "describe"})
        assert "progress" in next(messages)
        assert stuck._child is not None
        assert list(other.run({"verb": "describe"}))[-1]["name"] == "slowed"  # meanwhile
        stuck.cancel()
        assert list(messages)[-1] == {"cancelled": True}
        assert stuck._child is None
        stuck.model = str(slowed)
        assert list(stuck.run({"verb": "describe"}))[-1]["name"] == "slowed"  # by a new process
    finally:
        stuck.close()
        other.close()


@pytest.mark.slow
def test_a_newer_job_takes_the_place_of_one_under_way(slowed: Path) -> None:
    session = Session(str(slowed))
    answers: dict[str, Any] = {}

    def run(name: str, **request: Any) -> None:
        answers[name] = list(session.run({"verb": "solve", "settings": {}, **request}))[-1]

    try:
        list(session.run({"verb": "describe"}))
        long = threading.Thread(target=run, args=("long",), kwargs={"t_max": "1e5", "rtol": "1e-11"})
        long.start()
        time.sleep(0.5)
        run("short", t_max="1", rtol="1e-2")
        long.join(30)
        assert answers["long"] == {"cancelled": True}
        assert answers["short"]["status"] == "ok"
    finally:
        session.close()


def test_the_command_serves_until_it_is_interrupted(slowed: Path) -> None:
    command = [sys.executable, "-m", "eqsolve", "explore", str(slowed), "--no-browser", "--set", "a=3"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = re.search(r"at http://127\.0\.0\.1:(\d+)/", process.stderr.readline())
        assert said
        connection = http.client.HTTPConnection("127.0.0.1", int(said[1]), timeout=60)
        connection.request("GET", "/")
        page = connection.getresponse().read().decode()
        assert '"settings":{"a":"3"}' in page
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert "the explorer has ended" in process.stderr.read()


@pytest.mark.parametrize("port", [-1, 70000])
def test_a_port_that_cannot_be(port: int, slowed: Path) -> None:
    with pytest.raises(eqsolve.errors.UsageError, match="--port"):
        Explorer(str(slowed), port=port)
