"""Every analysis in quick mode: it is made, drawn, and theory agrees with simulation or says why not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from eqsolve.figures.make import Analysis, list_analyses, make
from eqsolve.plotting import style

ROOT = Path(__file__).resolve().parents[2] / "analyses"
GALLERY = ROOT.parent / "docs" / "_gallery"  # made with the pages, by the same settings; used while nothing has changed
ALL = [item for item in list_analyses() if item.path.is_relative_to(ROOT)]


@pytest.mark.slow
@pytest.mark.parametrize("analysis", ALL, ids=lambda item: item.name)
def test_quick(analysis: Analysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = style.save_figure  # coarse pictures show as well that there is something
    monkeypatch.setattr(style, "save_figure", lambda figure, path, **_: path.suffix == ".png" and save(figure, path, dpi=60))
    if (numbers := GALLERY / f"{analysis.name}.nc").exists():
        shutil.copy(numbers, tmp_path)
    made = make(analysis, tmp_path, quick=True)
    if made.status == "unavailable":
        pytest.skip(made.message)
    assert made.status == "made", made.message
    assert all(item.explained for item in made.agreements), made.agreements
    assert (tmp_path / f"{analysis.name}.png").stat().st_size > 5000
    assert "commit" in made.caption or "version" in made.caption
