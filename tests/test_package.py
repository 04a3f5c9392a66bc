"""What is published agrees with itself: versions, dependencies, the address, the citation."""

import os
import re
import tomllib
from pathlib import Path

import pytest

import eqsolve
from eqsolve.numerics.backend import memory
from eqsolve.tools.citing import read_entries

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ADDRESS = PROJECT["urls"]["Homepage"]
RENAMED = {"matplotlib": "matplotlib-base"}  # conda's name of what needs no window system


def test_one_address() -> None:
    assert all(url.startswith(ADDRESS) for url in PROJECT["urls"].values())


def test_the_recipe_of_conda_agrees() -> None:
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "conda" / "meta.yaml").read_text(encoding="utf-8"))
    assert recipe["package"] == {"name": PROJECT["name"], "version": eqsolve.__version__}
    assert recipe["about"]["home"] == ADDRESS
    assert recipe["about"]["summary"] == PROJECT["description"]
    parts = [re.fullmatch(r"([\w-]+)(.*)", item) for item in PROJECT["dependencies"]]
    wanted = {(RENAMED.get(part[1], part[1]), part[2]) for part in parts if part} | {("python", PROJECT["requires-python"])}
    assert {(name, limit) for name, _, limit in (item.partition(" ") for item in recipe["requirements"]["run"])} == wanted


def test_the_citation_agrees() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {eqsolve.__version__}\n" in text
    assert ADDRESS in text
    entry = read_entries((ROOT / "models" / "references.bib").read_text(encoding="utf-8"))["nishiyama2026precise"]
    for words in ("Precise Dynamics of Diagonal Linear Networks", "Nishiyama", "Sota", "Imaizumi", "Masaaki", "2026", "RIKEN"):
        assert words in text
        assert words in entry


def test_the_forms_for_issues_can_be_read() -> None:
    yaml = pytest.importorskip("yaml")
    for path in (ROOT / ".github").rglob("*.yml"):
        assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict), path


def test_a_system_that_does_not_tell_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows has no os.sysconf; others may not know the name."""
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert memory() == float("inf")
