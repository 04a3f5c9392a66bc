"""One bar, shown to people only; the share it shows is of work, never falls, and the time left follows from it."""

import io
import logging
import sys
import time

import pytest

import eqsolve
from eqsolve import progress
from eqsolve.cli import main
from eqsolve.progress import Bar, clock, part_of, watching


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal on which bars appear at once; made inside a test, as pytest has its own stderr between fixtures and tests."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    return made


def test_a_bar_tells_the_share_and_the_time_left() -> None:
    bar = Bar(quiet=True)
    bar.started -= 30
    try:
        bar(1.0, 4.0, "")
        assert bar.line(30, "x") == f"[{'#' * 6}{'.' * 18}]  25%, 30 s, about 1 min 30 s left  x"
        bar(0.5, 4.0, "")  # more work was found
        assert bar.share == 0.25
        assert "about 30 s left" in bar.line(90, "")  # nothing is told for a minute: the end comes nearer
        assert "longer than foreseen" in bar.line(150, "")
        bar(4.0, 4.0, "")
        assert "100%, 40 s, ending" in bar.line(40, "")
    finally:
        bar.close()
    with Bar(quiet=True, count=True) as points:
        points(5, 10, "")  # found finished
        assert "starting" in points.line(1, "")
        points.started -= 10
        points(6, 10, "")
        assert "about 40 s left" in points.line(10, "")  # one in ten seconds, four to go
        points(10, 10, "")
        points(10, 20, "")  # what was found asks for more
        assert points.share == 0.5
    assert [clock(seconds) for seconds in (3, 75, 7300)] == ["3 s", "1 min 15 s", "2 h 01 min"]


def test_a_person_sees_one_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with watching(None) as outer:
        assert outer is not None
        outer(1, 2, "outer")
        with watching(None) as inner:  # a solve inside a sweep
            assert inner is None
    text = terminal.getvalue()
    assert text.count("\r[") == 1
    assert "outer" in text
    assert text.endswith("\r")
    assert text.split("\r")[-2].strip() == ""
    with watching(None) as again:
        assert again is not None


def test_a_message_has_a_line_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    logger = logging.getLogger("eqsolve")
    with Bar(count="point") as bar:
        bar(1, 3, "k=1, 2 s, ok")
        logger.warning("k=2: failed")
        terminal.write("k=2: failed\n")  # as the handler of a command does
        bar(2, 3, "k=2, 2 s, failed")
    before = terminal.getvalue().split("k=2: failed\n")[0]
    assert before.endswith("\r")
    assert before.split("\r")[-2].strip() == ""  # the bar was taken away
    assert logger.filters == []


def test_logs_stay_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    with watching(None) as report:
        assert report is None
    eqsolve.solve("volterra_linear", t_max=2)
    assert log.getvalue() == ""


def test_a_notebook_sees_the_bar_and_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display")
    import IPython

    shown: list[str] = []

    class Handle:
        def update(self, page: object) -> None:
            shown.append(page.data)  # type: ignore[attr-defined]

    def show(page: object, display_id: bool) -> Handle:
        shown.append(page.data)  # type: ignore[attr-defined]
        return Handle()

    monkeypatch.setattr(IPython, "get_ipython", lambda: type("Shell", (), {"kernel": object()})())
    monkeypatch.setattr(display, "display", show)
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    with watching(None) as report:
        assert report is not None
        report(1, 4, "a < b")
        report(2, 4, "")
    assert "25%" in shown[0]
    assert "a &lt; b" in shown[0]
    assert "50%" in shown[1]
    assert shown[-1] == ""


def test_what_the_user_gives_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    seen: list[float] = []
    eqsolve.solve("volterra_linear", t_max=2, progress=lambda done, total, text: seen.append(done / total))
    assert seen
    eqsolve.solve("volterra_linear", t_max=2, progress=False)
    assert terminal.getvalue() == ""
    eqsolve.solve("volterra_linear", t_max=2)
    assert "columns, t = " in terminal.getvalue()
    assert part_of(None, 0, 1) is None
    told: list[float] = []
    inner = part_of(lambda done, total, text: told.append(done / total), 0.2, 0.6)
    assert inner is not None
    inner(1, 2, "")
    assert told == pytest.approx([0.4])


def test_a_command_that_is_refused_leaves_no_bar() -> None:
    assert main(["solve", "dln_infinite_data", "--set", "alpha=-1"]) == 2
    assert progress.Bar._shown_by is None


def test_a_log_has_a_line_for_a_point_that_takes_long_and_few_for_quick_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("eqsolve.progress.time.monotonic", lambda: now[0])
    with Bar(count="point") as bar:
        bar(0, 3, "")
        for done, seconds in ((1, 2.0), (2, 40.0), (3, 40.0)):
            now[0] += seconds
            bar(done, 3, f"k={done}, {seconds:g} s, ok")
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("point 1/3: k=1, 2 s, ok (2 s, ")
    assert len(lines) == 3
    with Bar(count="point") as bar:
        for done in range(1, 10001):
            now[0] += 0.05
            bar(done, 10000, "quick")
    assert 20 < len(capsys.readouterr().err.splitlines()) < 120
    with Bar() as bar:
        for _ in range(100):
            now[0] += 1
            bar(0.3, 1, "two_time")
    assert [line.split(" (")[0] for line in capsys.readouterr().err.splitlines()] == ["30% done: two_time"] * 3
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with watching(None) as report:
        assert report is None
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    with watching(None) as report:
        assert report is not None


def test_the_log_of_a_batch_job_has_the_points_of_a_sweep_and_of_no_other_script(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    monkeypatch.setattr(Bar, "_pause", lambda bar, now: 0.0)  # every point, however quick
    for job, lines in (("7", 2), ("", 0)):
        monkeypatch.setenv("SLURM_JOB_ID", job) if job else monkeypatch.delenv("SLURM_JOB_ID", raising=False)
        eqsolve.sweep("ridge", lam=[0.1, 1])
        said = capsys.readouterr().err.splitlines()
        assert len(said) == lines
        assert all(line.startswith(f"point {k}/2: lam=") and " s, ok (" in line for k, line in enumerate(said, 1))


def test_a_log_has_a_line_where_nothing_is_told_for_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_LOGGED", 0.5)
    said = ""
    with Bar(count="point") as bar:
        bar(1, 3, "k=1, 2 s, ok")
        deadline = time.monotonic() + 30
        while not said and time.monotonic() < deadline:
            time.sleep(0.05)
            said = capsys.readouterr().err
    assert said.startswith("point 1/3: the next is under way (1 s, ")


def test_the_clock_goes_on_while_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with watching(None) as bar:
        assert bar is not None
        bar(1, 2, "a large ensemble")
        deadline = time.monotonic() + 30
        while terminal.getvalue().count("a large ensemble") < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert ", 1 s, longer than foreseen  a large ensemble" in terminal.getvalue()
    gone = terminal.getvalue()
    time.sleep(1.2)
    assert terminal.getvalue() == gone  # nothing is drawn after the end


def test_what_is_predicted_is_told_and_counted_down(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("eqsolve.progress.time.monotonic", lambda: now[0])
    with Bar() as bar:
        now[0] = 5.0
        bar(0.5, 1, "a rough solution")
        bar.expect(195.0)
        bar(0.6, 1, "4 ensembles of 8192 paths")  # a share that somebody guessed
        now[0] = 6.0
        bar(0.7, 1, "number 2")
        assert capsys.readouterr().err == "2% done: 4 ensembles of 8192 paths (5 s, about 3 min left)\n"  # once, at once
        assert [
            part for s in (5, 80, 150) for part in bar.line(s, "").split(", ") if "left" in part for part in [part.strip()]
        ] == ["about 3 min left", "about 2 min left", "about 50 s left"]
        bar.expect(20.0)  # a better prediction
        assert "about 20 s left" in bar.line(6, "")
        now[0] = 40.0  # more work than was predicted: as before, by the share that is done
        bar(0.8, 1, "number 3")
        assert "80%, 40 s, about 10 s left" in bar.line(40, "")
    assert [progress.roughly(seconds) for seconds in (40, 90, 180, 3000, 7300)] == [
        "40 s", "1 min 30 s", "3 min", "50 min", "2 h 01 min",
    ]  # fmt: skip
