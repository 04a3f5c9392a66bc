"""Every analysis in quick mode: it is made, drawn, and theory agrees with simulation or says why not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import xarray as xr

from eqsolve.figures.make import Analysis, content_key, list_analyses, made_before, make
from eqsolve.plotting import style

ROOT = Path(__file__).resolve().parents[2] / "analyses"
GALLERY = ROOT.parent / "docs" / "_gallery"  # made with the pages, by the same settings
ALL = [item for item in list_analyses() if item.path.is_relative_to(ROOT)]


def is_in_gallery(analysis: Analysis) -> bool:
    """Whether the figure of the pages was made from what is here now; what it is made of is part of its numbers."""
    numbers, picture = (GALLERY / f"{analysis.name}{suffix}" for suffix in (".nc", ".png"))
    if not numbers.exists() or not picture.exists():
        return False
    with xr.open_dataset(numbers, engine="h5netcdf") as stored:
        return json.loads(stored.attrs["figure"])["key"] == content_key(analysis, True, None)


@pytest.mark.slow
@pytest.mark.parametrize("analysis", ALL, ids=lambda item: item.name)
def test_quick(analysis: Analysis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = style.save_figure  # coarse pictures show as well that there is something
    monkeypatch.setattr(style, "save_figure", lambda figure, path, **_: path.suffix == ".png" and save(figure, path, dpi=60))
    if is_in_gallery(analysis):
        for suffix in (".nc", ".png"):
            shutil.copy(GALLERY / f"{analysis.name}{suffix}", tmp_path)
        (made,) = made_before(tmp_path)
    else:
        made = make(analysis, tmp_path, quick=True)
    if made.status == "unavailable":
        pytest.skip(made.message)
    assert made.status == "made", made.message
    assert all(item.explained for item in made.agreements), made.agreements
    assert (tmp_path / f"{analysis.name}.png").stat().st_size > 5000
    assert "commit" in made.caption or "version" in made.caption
