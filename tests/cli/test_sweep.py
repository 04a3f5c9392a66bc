"""`eqsolve sweep`: the grid as text, what is printed, what is written, exit codes."""

import json
import os
import sys
from pathlib import Path

import pytest

import eqsolve
from eqsolve.cli import main

GRID = ["sweep", "decay", "--grid", "k=0.5:2:3:log", "--at", "1,2"]


def test_a_sweep_is_printed_and_written(folder, capsys, contents):
    before = contents()
    assert main([*GRID, "--out", "s.nc"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("decay: 3 points in ")
    assert "values at t = 2, the last of 2 times\n" in out
    assert "0.367879" in out or "0.13533" in out
    assert err.endswith("wrote s.nc\n")
    assert sorted({*contents()} - {*before}) == ["s.nc"]
    res = eqsolve.open("s.nc")
    assert res["y"].sizes == {"k": 3, "t": 2}


def test_a_sweep_that_is_there_is_said_to_be_read(folder, capsys):
    assert main([*GRID, "--out", "s.nc"]) == 0
    capsys.readouterr()
    for more in ([], ["--plot", "s.png"]):  # without a picture no model is loaded
        assert main([*GRID, "--out", "s.nc", *more]) == 0
        out, err = capsys.readouterr()
        assert out.startswith("decay: 3 points read from s.nc, ok\n")
        assert "wrote s.nc" not in err
    assert main([*GRID, "--out", "s.nc", "--rtol", "1e-4"]) == 0
    assert "s.nc holds another sweep (rtol=0.001, now 0.0001); it will be replaced" in capsys.readouterr().err


def test_json(folder, capsys):
    assert main([*GRID, "--json"]) == 0
    out, err = capsys.readouterr()
    made = json.loads(out)
    assert err == ""
    assert made["kind"] == "sweep"
    assert made["axes"]["k"] == pytest.approx([0.5, 1, 2])
    assert made["points"]["status"] == ["ok"] * 3
    assert [len(row) for row in made["values"]["y"]] == [2, 2, 2]


def test_points_that_fail_give_exit_code_one(folder, capsys):
    (folder / "models" / "burst.py").write_text(
        "from eqsolve import Eq, System, function, param, times\n"
        "t = times('t'); c = param('c'); y = function('y')\n"
        "model = System('burst', eqs=[Eq(y(t).diff(t), c * y(t)**2)], init={y: 1})\n"
    )
    assert main(["sweep", "burst", "--grid", "c=-1,1", "--at", "2", "--out", "s.nc"]) == 1
    err = capsys.readouterr().err
    assert "error: 1 of 2 points were not solved as asked; the first of them: " in err
    assert eqsolve.open("s.nc")["status"].values.tolist() == ["ok", "failed"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--grid", "k=1"], "name a file for the result: --out"),
        (["--out", "s.nc"], "--grid names at least one axis"),
        (["--grid", "k", "--out", "s.nc"], "--grid takes NAME=VALUES"),
        (["--grid", "k=1", "k=2", "--out", "s.nc"], "--grid gives `k` twice"),
        (["--grid", "k=0", "--out", "s.nc"], "must be positive, got 0"),
        (["--grid", "k=1", "--out", "s.txt"], "expected a file name *.nc"),
        (["--grid", "k=1", "--out", "s.nc", "--workers", "x"], "--workers: expected a whole number"),
        (["--grid", "k=1", "--out", "s.nc", "--workers", "0"], "workers must be a whole number from 1"),
        (["--grid", "k=1", "--out", "s.nc", "--workers", "2", "--scheduler", "tcp://x:1"], "give one of them"),
        (["--grid", "k=1", "--set", "k=2", "--out", "s.nc"], "both an axis and set"),
    ],
)
def test_bad_input_is_explained_and_writes_nothing(arguments, said, folder, capsys, contents):
    before = contents()
    assert main(["sweep", "decay", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert contents() == before


def test_interrupted_sweeps_say_how_to_go_on(folder, capsys, monkeypatch):
    def interrupt(*args, **named):
        raise KeyboardInterrupt

    monkeypatch.setattr("eqsolve.sweeping.run.solve_point", interrupt)
    assert main([*GRID, "--out", "s.nc"]) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert main([*GRID, "--out", "s.nc"]) == 0


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_a_terminal_sees_a_bar_and_can_interrupt(folder):
    """Ctrl-C goes to the whole group: the parent keeps its points and leaves, the workers leave with it."""
    import pty

    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"PYTHONPATH": str(Path(eqsolve.__file__).resolve().parents[1]), "TERM": "xterm"}
        grid = ["sweep", "decay", "--grid", "k=0.1:10:400:log", "--at", "1", "--out", "s.nc", "--workers", "2"]
        os.execv(sys.executable, [sys.executable, "-m", "eqsolve", *grid])
    seen = b""
    while True:
        try:
            more = os.read(terminal, 4096)
        except OSError:  # the child closed its terminal
            break
        if not more:
            break
        before, seen = seen.count(b" left "), seen + more
        if before < 2 <= seen.count(b" left "):
            os.write(terminal, b"\x03")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130
    assert b" of 400" in seen
    assert b"the same command goes on from there" in seen
    assert b"Traceback" not in seen
    kept = (folder / "s.nc.journal").read_bytes().count(b'"status": "ok"')
    assert 0 < kept < 400


def test_settings_and_axes_of_the_model_a_law_comes_from(folder, capsys):
    assert main(["sweep", "dln_rate", "--grid", "alpha=0.1,1", "delta=2", "--set", "sigma2=0.1", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["values"]["gamma"][0] == pytest.approx([0.0036017735285996558], rel=1e-12)
    assert main(["sweep", "dln_rate", "--grid", "sigma2=0.1", "--set", "alpha=0.1", "delta=2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["values"]["gamma"] == pytest.approx([0.0036017735285996558], rel=1e-12)
    assert main(["sweep", "dln_rate", "--grid", "alpha=0.1", "--set", "sigma3=0.1", "--json"]) == 2
    assert "`dln_rate` has no parameter `sigma3`; did you mean `sigma2`?" in capsys.readouterr().err


def test_the_picture_is_a_map_where_one_is_asked_for(folder, capsys, monkeypatch):
    text = (folder / "models" / "decay.py").read_text().replace("y: 1}", "y: b}").replace('"decay"', '"two"')
    text = text.replace("y = function", 'b = param("b", positive=True)\ny = function').replace("k: 1}", "k: 1, b: 1}")
    (folder / "models" / "two.py").write_text(text)
    drawn = []
    monkeypatch.setattr("eqsolve.plotting.style.save_figure", lambda figure, path: drawn.append(figure))
    grid = ["sweep", "two", "--grid", "k=0.5:2:3:log", "b=1,2,3", "--at", "1", "--plot", "s.png"]
    assert main([*grid, "--map"]) == 0
    assert len(drawn[0].axes) == 4  # two maps and their bars
    assert main([*grid, "--x", "b", "--logy"]) == 0
    axes = drawn[1].axes[0]
    assert (len(axes.lines), axes.get_xlabel(), axes.get_yscale()) == (3, "$b$", "log")
