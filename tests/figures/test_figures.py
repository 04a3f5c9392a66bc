"""The runner of figures: found by file, cached by content, captions, the page; failures told, never raised."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from eqsolve.errors import ModelError, UsageError
from eqsolve.figures.make import Run, content_key, find_analysis, latex_caption, list_analyses, load_module, make, write_page

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
    for suffix in (".png", ".pdf", ".nc", ".txt", ".tex"):
        assert os.path.getsize(folder / f"parabola{suffix}") > 100
    assert "|z|" in made.caption
    text = (folder / "parabola.tex").read_text()
    assert text.startswith(r"\caption{A parabola. With draws around it.")
    assert text.endswith("\\label{fig:parabola}\n")
    assert make(analysis, folder).cached
    assert content_key(analysis, True, None) != content_key(analysis, False, None)  # quick settings are other numbers
    (folder / "analyses" / "parabola.py").write_text(SOURCE + "\n# changed\n")
    assert not make(find_analysis("parabola"), folder).cached
    (folder / "parabola.nc").write_bytes(b"damaged")
    assert make(find_analysis("parabola"), folder).status == "made"


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


def test_papers_are_found_and_listed_by_field(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from eqsolve.cli import main

    (folder / "analyses" / "papers").mkdir()
    for name, field in (("square", "ecology"), ("curve", "glasses"), ("bow", "ecology")):
        text = SOURCE.replace("ORDER = 1", f'FIELD = "{field}"\nPAPER = "{name.title()} & Sons 1999, On arcs"')
        (folder / "analyses" / "papers" / f"{name}.py").write_text(text)
    names = [item.name for item in list_analyses()]
    assert names.index("parabola") < names.index("bow") < names.index("square") < names.index("curve")
    assert main(["figure"]) == 0
    told = capsys.readouterr().out
    first, ecology, glasses = told.index("parabola"), told.index("ECOLOGY"), told.index("GLASSES")
    assert first < ecology < told.index("bow ") < told.index("square ") < glasses < told.index("curve ")
    assert "Square & Sons 1999, On arcs" in told
    made = make(find_analysis("curve"), folder)
    assert made.caption.startswith("A parabola. (Curve & Sons 1999, On arcs.) With draws")
    assert "&amp; Sons 1999, On arcs</small>" in write_page([made], folder).read_text()


def test_papers_have_a_field_and_are_short() -> None:
    papers = [item for item in list_analyses() if item.path.parent.name == "papers"]
    assert {item.field for item in papers} <= {"neuroscience", "glasses", "ecology", "learning", "inference"}
    for item in papers:
        assert item.paper, f"{item.path} says no PAPER"
        assert len(item.path.read_text(encoding="utf-8").splitlines()) <= 80, f"{item.path} is longer than 80 lines"


def test_every_packaged_analysis_loads() -> None:
    found = list_analyses()
    assert len(found) > 3
    for analysis in found:
        load_module(analysis)
        assert analysis.title
    assert Run(quick=True).pick(1, 2) == 1


def test_the_page_keeps_all_figures_of_its_folder(folder: Path) -> None:
    other = SOURCE.replace("A parabola", "Another").replace("ORDER = 1", 'ORDER = 0\nPAPER = "Figure 7(b)"')
    (folder / "analyses" / "second.py").write_text(other)
    first, second = (make(find_analysis(name), folder, quick=True) for name in ("parabola", "second"))
    write_page([first], folder)
    page = write_page([second], folder).read_text()
    assert page.count("<figure") == 2
    assert page.index('id="second"') < page.index('id="parabola"')
    assert page.count("Figure 7(b) of the paper") == 3  # in the contents, over the figure, in its caption
    assert "Quick settings" in page
    assert "data:image/png;base64," in page
    assert "http" not in page
    assert "explained: It is shifted on purpose." in page
    (folder / "parabola.nc").write_bytes(b"damaged")
    assert write_page([second], folder).read_text().count("<figure") == 1


def test_captions_are_latex_too() -> None:
    found = latex_caption("E_test at δ = 0.5, σ² = 0, t^(−3/2) & 95% of w*, P_* ~ α⁴, 2λ_min", "x")
    inside = r"$E_{\mathrm{test}}$ at $\delta$ = 0.5, $\sigma^{2}$ = 0, t$^{-3/2}$ \& 95\% of w*, $P_{*}$ \textasciitilde{} "
    assert found == rf"\caption{{{inside}$\alpha^{{4}}$, 2$\lambda _{{\mathrm{{min}}}}$}}" + "\n\\label{fig:x}\n"
