"""The runner of figures: found by file, cached by content, captions, the page; failures told, never raised."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from eqsolve.errors import ModelError, UsageError
from eqsolve.figures.page import write_page
from eqsolve.figures.make import Run, find_analysis, list_analyses, load_module, make

SOURCE = '''"""A parabola.

With draws around it.
"""
import numpy as np
import xarray as xr
from eqsolve.plotting.paper import curve, panels

ORDER = 1

def compute(run):
    x = np.linspace(0, 1, 5)
    runs = x**2 + 0.01 * np.random.default_rng(0).standard_normal((6, 5))
    run.agree("y", x**2, 0.0, runs)
    run.agree("shifted", x**2 + 1, 0.0, runs, note="It is shifted on purpose.")
    run.note("One more sentence.")
    return xr.Dataset({"y": ("x", x**2)}, {"x": x}, {"power": 2})

def draw(data):
    figure, (axes,) = panels()
    curve(axes, data["x"], data["y"])
    return figure
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "analyses").mkdir()
    (tmp_path / "analyses" / "parabola.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_make_writes_everything_and_caches(folder: Path) -> None:
    analysis = find_analysis("parabola")
    made = make(analysis, folder)
    assert (made.status, made.message, made.cached) == ("made", "", False)
    assert "A parabola. With draws around it. One more sentence." in made.caption
    assert made.agreements[0].ok
    assert not made.agreements[1].ok
    assert made.agreements[1].explained
    for suffix in (".png", ".pdf", ".nc", ".txt"):
        assert os.path.getsize(folder / f"parabola{suffix}") > 100
    assert make(analysis, folder).cached
    assert not make(analysis, folder, quick=True).cached
    (folder / "analyses" / "parabola.py").write_text(SOURCE + "\n# changed\n")
    assert not make(find_analysis("parabola"), folder).cached
    (folder / "parabola.nc").write_bytes(b"damaged")
    assert make(find_analysis("parabola"), folder).status == "made"


def test_page_is_self_contained(folder: Path) -> None:
    page = write_page([make(find_analysis("parabola"), folder)], folder, quick=True).read_text()
    assert "data:image/png;base64," in page
    assert "http" not in page
    assert "explained: It is shifted on purpose." in page


def test_failures_are_told(folder: Path) -> None:
    (folder / "analyses" / "broken.py").write_text(SOURCE.replace("x = np.linspace(0, 1, 5)", "x = 1 / 0"))
    made = make(find_analysis("broken"), folder)
    assert made.status == "failed"
    assert made.message.startswith("broken.py:12: ZeroDivisionError")
    (folder / "analyses" / "empty.py").write_text('"""Nothing."""\n')
    with pytest.raises(ModelError, match="defines no function `compute`"):
        load_module(find_analysis("empty"))
    with pytest.raises(UsageError, match="did you mean"):
        find_analysis("parabolla")


def test_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from eqsolve.cli import main

    assert main(["figure"]) == 0
    assert "parabola" in capsys.readouterr().out
    assert main(["figure", "parabola", "--out", "made", "--json", "--quick"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["figures"][0]["status"] == "made"
    assert told["unexplained"] == []
    assert main(["figure", "parabola", "--data", "nothing.csv"]) == 2


def test_every_packaged_analysis_loads() -> None:
    found = list_analyses()
    assert len(found) > 3
    for analysis in found:
        load_module(analysis)
        assert analysis.title
    assert Run(quick=True).pick(1, 2) == 1
