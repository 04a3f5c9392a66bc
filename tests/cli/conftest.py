"""A folder of its own for every test of the command line, with small models in it."""

from pathlib import Path

import pytest

MODELS = {
    "decay": '''
"""One decaying function."""

from eqsolve import Eq, System, function, param, times

t = times("t")
k = param("k", positive=True)
y = function("y")
model = System("decay", eqs=[Eq(y(t).diff(t), -k * y(t))], init={y: 1}, defaults={k: 1}, cite="someone2000",
               observables={"size": y(t) ** 2})
''',
    "quadratic": '''
"""A fixed point."""

from eqsolve import Eq, FixedPoint, param, unknown

a = param("a", positive=True)
x = unknown("x", positive=True)
model = FixedPoint("quadratic", eqs=[Eq(x**2, a)], defaults={a: 2})
''',
    "unsound": '''
"""Reads what nothing defines, and starts nowhere."""

from eqsolve import Eq, System, function, times

t = times("t")
x, y = function("x y")
model = System("unsound", eqs=[Eq(x(t).diff(t), -y(t))])
''',
}
REFERENCES = "@comment{x}\n@article{someone2000,\n  title = {On {Decay}},\n}\n@book{other, title={Other}}\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the small models in ./models."""
    models = tmp_path / "models"
    models.mkdir()
    for name, text in MODELS.items():
        (models / f"{name}.py").write_text(text.lstrip())
    (models / "references.bib").write_text(REFERENCES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EQSOLVE_PATH", raising=False)
    monkeypatch.delenv("EQSOLVE_DEBUG", raising=False)
    return tmp_path


@pytest.fixture
def contents(folder: Path):
    """A function that lists everything in the folder but caches, to prove that nothing was written."""
    return lambda: sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if "__pycache__" not in p.parts)
