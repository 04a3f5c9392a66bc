"""What is published agrees with itself: versions, dependencies, the address, the citation."""

import ast
import os
import re
import tomllib
from pathlib import Path

import pytest

import eqsolve
from eqsolve.cli.inspect import read_entries
from eqsolve.numerics.backend import memory

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ADDRESS = PROJECT["urls"]["Homepage"]
RENAMED = {"matplotlib": "matplotlib-base"}  # conda's name of what needs no window system


def test_type_checkers_see_the_public_names() -> None:
    """What `__init__.pyi` imports is what `__init__.py` imports on first use."""
    stub = ast.parse((ROOT / "eqsolve" / "__init__.pyi").read_text(encoding="utf-8"))
    typed = {item.name: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for item in node.names}
    assert typed == {**eqsolve._WHERE, "__version__": "eqsolve._version"}


def test_one_address() -> None:
    assert all(url.startswith(ADDRESS) for url in PROJECT["urls"].values())


def test_publishing_fills_in_one_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another Homepage in pyproject.toml is enough: no other address of ours is left anywhere."""
    monkeypatch.syspath_prepend(str(ROOT))
    import dev

    places = ["pyproject.toml", "README.md", "CITATION.cff", "conda/meta.yaml", "eqsolve/_version.py"]
    places += [str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")]
    for name in places:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    assert dev.publish(tmp_path) == 0
    assert all((tmp_path / name).read_bytes() == (ROOT / name).read_bytes() for name in places)  # all is as it should be
    other, project = "https://code.example/lab/eqsolve", tmp_path / "pyproject.toml"
    project.write_text(project.read_text().replace(f'Homepage = "{ADDRESS}"', f'Homepage = "{other}"'))
    version = tmp_path / "eqsolve" / "_version.py"
    version.write_text(version.read_text().replace(eqsolve.__version__, "7.8.9"))
    assert dev.publish(tmp_path) == 0
    texts = {name: (tmp_path / name).read_text(encoding="utf-8") for name in places}
    assert [name for name, text in texts.items() if ADDRESS in text] == []
    for name in ("README.md", "CITATION.cff", "conda/meta.yaml", "docs/index.md", "docs/installation.md"):
        assert other in texts[name]
    assert "\nversion: 7.8.9\n" in texts["CITATION.cff"]
    assert 'version: "7.8.9"' in texts["conda/meta.yaml"]
    urls = tomllib.loads(texts["pyproject.toml"])["project"]["urls"]
    assert all(url.startswith(other) for url in urls.values())


def test_a_checkout_is_installed_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy would not follow later pulls; `dev.py` installs what the explorer needs, and no page makes a copy."""
    monkeypatch.syspath_prepend(str(ROOT))
    import dev

    done: list[str] = []
    monkeypatch.setattr(dev, "VENV", tmp_path)
    monkeypatch.setattr(dev, "STAMP", tmp_path / "stamp.json")
    monkeypatch.setattr(dev, "make_venv", lambda folder: None)
    monkeypatch.setattr(dev, "need", lambda *command, why: done.extend(map(str, command)))
    dev.environment()
    assert done[-2:] == ["--editable", ".[explore]"]
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        for words in re.findall(r"pip install ([^\n`]*)", page.read_text(encoding="utf-8")):
            assert not re.match(r"""['"]?\.""", words), (page, words)  # as `-e '.[distributed]'` does not


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
    """Windows has neither os.sysconf nor files under /proc."""

    def missing(*_: object) -> None:
        raise FileNotFoundError

    monkeypatch.delattr(os, "sysconf", raising=False)
    monkeypatch.setattr("builtins.open", missing)
    assert memory() == float("inf")
