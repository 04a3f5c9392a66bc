"""`eqsolve plot` draws any saved file again, and solves nothing."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from PIL import Image

import eqsolve
from eqsolve.cli import main

from .conftest import MODELS


def forbid_solving(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a solver ran")

    monkeypatch.setattr("eqsolve.solving.solve_as_asked", refuse)
    monkeypatch.setattr("eqsolve.microscopic.simulate.simulate", refuse)


def is_picture(path: Path) -> bool:
    """Whether a picture shows something."""
    with Image.open(path) as picture:
        return len(np.unique(np.asarray(picture.convert("L")))) > 10


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of every kind."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "decay.py").write_text(MODELS["decay"].lstrip())
    decay = eqsolve.load(str(folder / "decay.py"))
    eqsolve.solve(decay, t_max=3).save(folder / "solve.nc")
    eqsolve.sweep(decay, {"k": [0.5, 1, 2]}, at=[1, 2], out=folder / "sweep.nc")
    eqsolve.load("linear_flow").simulate(d=20, seeds=2, at=[0.5, 1.0, 2.0]).save(folder / "runs.nc")
    eqsolve.validate("linear_flow", d=20, seeds=3, at=[0.5, 2.0]).save(folder / "validation.nc")
    moments = np.linspace(0.2, 3, 8)
    eqsolve.fit(decay, {"t": moments, "size": np.exp(-2 * moments)}, free=["k"]).save(folder / "fit.nc")
    return folder


@pytest.fixture
def files(folder: Path, made: Path) -> Path:
    for path in made.glob("*.nc"):
        shutil.copy(path, folder)
    return folder


@pytest.mark.slow
def test_every_kind_of_file_is_drawn(files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    forbid_solving(monkeypatch)
    for name in ("solve", "sweep", "runs", "validation", "fit"):
        assert main(["plot", f"{name}.nc"]) == 0
        assert is_picture(files / f"{name}.png")
    assert "wrote validation.png" in capsys.readouterr().err
    assert main(["plot", "solve.nc", "size", "--logy", "--no-logx", "--out", "one.svg"]) == 0
    assert "<svg" in (files / "one.svg").read_text()
    assert main(["plot", "validation.nc", "E_test", "--logx", "--json"]) == 0
    assert '"names": ["E_test"]' in capsys.readouterr().out


def test_several_files_are_drawn_over_each_other(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    eqsolve.solve("decay", t_max=3, k=2).save("faster.nc")
    eqsolve.solve("decay", t_max=3, k=2, rtol=1e-6).save("finer.nc")
    forbid_solving(monkeypatch)
    drawn: list[Any] = []
    monkeypatch.setattr("eqsolve.plotting.style.save_figure", lambda figure, path: drawn.append(figure))

    def labels(*words: str) -> list[list[str]]:
        assert main(["plot", *words]) == 0
        return [[line.get_label() for line in axes.lines] for axes in drawn.pop().axes if axes.lines]

    assert labels("solve.nc", "faster.nc", "size") == [["$k = 1$", "$k = 2$"]]
    assert labels("faster.nc", "size", "finer.nc") == [["faster", "finer"]]
    assert all(panel == ["$k = 1$", "$k = 2$"] for panel in labels("solve.nc", "faster.nc"))
    assert main(["plot", "solve.nc", "sweep.nc"]) == 2
    assert "over the same axis" in capsys.readouterr().err
    assert main(["plot", "solve.nc", "fit.nc"]) == 2
    assert "not a Fit" in capsys.readouterr().err


def test_maps_times_and_axes_of_a_sweep(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep = eqsolve.sweep("decay", k=[0.5, 1, 2], out="s.nc", at=[1, 2], progress=False)
    assert sweep.plot("size", at=1).lines[0].get_ydata() == pytest.approx(np.exp([-1, -2, -4]), rel=1e-3)
    assert sweep.plot("size").lines[0].get_ydata() == pytest.approx(np.exp([-2, -4, -8]), rel=1e-3)
    values = np.arange(12.0).reshape(3, 2, 2)
    axes = {"a": [1.0, 2.0, 3.0], "b": [1.0, 2.0], "c": [0.0, 5.0]}
    data = xr.Dataset({"y": (tuple(axes), values)}, coords={**axes, "status": (tuple(axes), np.full((3, 2, 2), "ok"))})
    cube = eqsolve.Result(data, model="cube", kind="sweep")
    panels = cube.plot("y", kind="map")
    assert [panel.get_title() for panel in panels] == ["$c = 0$", "$c = 5$"]
    assert panels[1].collections[0].get_array().ravel().tolist() == values[:, :, 1].T.ravel().tolist()
    lines = cube.plot("y", x="c")
    assert (len(lines), lines[0].get_xlabel(), len(lines[0].lines)) == (2, "$c$", 3)
    with pytest.raises(eqsolve.UsageError, match="expected an axis of the sweep"):
        cube.plot("y", x="d")
    assert main(["plot", "s.nc", "size", "--at", "1.5"]) == 2
    assert "the sweep reports the times 1, 2" in capsys.readouterr().err
    assert main(["plot", "s.nc", "size", "--at", "1", "--x", "k"]) == 0


def test_results_on_the_same_axes_are_told_apart_by_themselves(folder: Path) -> None:
    one, two = (eqsolve.solve("decay", t_max=3, k=k) for k in (1, 2))
    axes = one.plot("size")
    assert [line.get_label() for line in axes.lines] == [r"$\mathrm{size}$"]
    two.plot("size", ax=axes)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["$k = 1$", "$k = 2$"]
    assert axes.get_title() == "decay"


def test_what_cannot_be_drawn_is_explained(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plot", "nothing.nc"]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert main(["plot", "solve.nc", "siz"]) == 2
    assert "did you mean `size`?" in capsys.readouterr().err
    assert main(["plot", "runs.nc", "E_tst"]) == 2
    assert "did you mean `E_test`?" in capsys.readouterr().err
    assert main(["plot", "validation.nc", "E_tst"]) == 2
    assert "was not compared" in capsys.readouterr().err
    assert main(["plot", "fit.nc", "siz"]) == 2
    assert "did you mean `size`?" in capsys.readouterr().err
    assert main(["plot", "solve.nc", "--out", "x.txt"]) == 2
    assert main(["plot"]) == 2


def test_a_sweep_that_is_finished_is_not_solved_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sweep", "decay", "--grid", "k=0.5,1,2", "--at", "1", "--out", "sweep.nc"]
    assert main(command) == 0
    said, stamp = capsys.readouterr().out, (folder / "sweep.nc").stat().st_mtime_ns
    read = re.sub("points in .*, ok", "points read from sweep.nc, ok", said)
    with monkeypatch.context() as forbidden:
        forbidden.setattr("eqsolve.sweeping.run.solve_point", None)
        assert main([*command, "--plot", "sweep.png"]) == 0
        again = capsys.readouterr()
        assert again.out == read
        assert "holds this sweep already, nothing is solved" in again.err
        assert is_picture(folder / "sweep.png")
    assert (folder / "sweep.nc").stat().st_mtime_ns == stamp
    with monkeypatch.context() as forbidden:  # where nothing is to be drawn, not even the model is loaded
        forbidden.setattr("eqsolve.cli.sweep.load", None)
        assert main(command) == 0
        again = capsys.readouterr()
        assert again.out == read
        assert "holds this sweep already, nothing is solved" in again.err
        with (folder / "models" / "decay.py").open("a") as file:
            file.write("\n# another text may be another model\n")
        assert main(command) == 70  # it would be loaded
    assert main(command) == 0
    assert main([*command[:3], "k=0.5,1,3", *command[4:]]) == 0  # another grid is another sweep
    assert eqsolve.open("sweep.nc")["k"].values.tolist() == [0.5, 1, 3]


def test_a_finished_sweep_is_told_of_without_a_wait(folder: Path) -> None:
    """No symbols and no solvers are imported: 0.4 s of CPU time."""
    command = ["sweep", "decay", "--grid", "k=0.5,1,2", "--at", "1", "--out", "sweep.nc"]
    assert main(command) == 0
    code = f"""
import sys, time
from eqsolve.cli import main
code = main({command})
print(code, *({{"sympy", "scipy", "xarray", "pandas", "numba"}} & {{*sys.modules}}), time.process_time() < 1.5)
"""
    env = os.environ | {"PYTHONPATH": str(Path(eqsolve.__file__).resolve().parents[1])}
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, env=env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("decay: 3 points read from sweep.nc, ok")
    assert done.stdout.splitlines()[-1] == "0 True"
