"""Plans kept on disk: the second command on a model does no symbolic work, and nothing is trusted that others could write."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import eqsolve
from eqsolve.cli.plans import _Pickler, folder, restore
from eqsolve.language import loading
from eqsolve.passes.forms.structure import signature_of

MODEL = """
from eqsolve import Eq, System, function, param, times
t = times("t")
a = param("a", positive=True, default={value}, about="a rate")
x = function("x")
model = System("decay", eqs=[Eq(x(t).diff(t), -a * x(t))], init={{x: 1}})
"""
SOLVE = ["solve", "decay.py", "--t-max", "1", "--at", "1", "--json"]
# a command that fails wherever it runs a model file, writes code or makes a plan
WITHOUT_SYMBOLS = """
import sys
from eqsolve.cli import main
from eqsolve.compile import lowering, plan
from eqsolve.language import loading
def never(*given, **named):
    raise AssertionError("symbolic work")
loading._run = lowering.lower = plan.lower = plan.make_plan = never
code = main(sys.argv[1:])
passes = [name for name in sys.modules if name.startswith(("eqsolve.passes.rewrite.", "eqsolve.passes.flow."))]
assert not passes, passes  # nor are the modules that do it imported
sys.exit(code)
"""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="file modes")


class Folder:
    """A model in a folder of its own, solved by commands that share a cache."""

    first = ""

    def __init__(self, path: Path) -> None:
        self.path, self.cache = path, path / "cache"
        (path / "decay.py").write_text(MODEL.format(value=2))

    def value(self, *start: str) -> str:
        root = str(Path(eqsolve.__file__).resolve().parents[1])
        env = os.environ | {"PYTHONPATH": root, "EQSOLVE_CACHE": str(self.cache)}
        command = [sys.executable, *(start or ("-m", "eqsolve")), *SOLVE]
        done = subprocess.run(command, cwd=self.path, env=env, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout.split('"x": [')[1].split("]")[0]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    made = Folder(tmp_path_factory.mktemp("decay"))
    made.first = made.value()
    return made


def test_the_second_command_does_no_symbolic_work(here: Folder) -> None:
    assert here.value("-c", WITHOUT_SYMBOLS) == here.first


def test_a_record_is_read_if_nobody_else_could_have_written_it(here: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSOLVE_CACHE", str(here.cache))
    loaded: dict[Any, Any] = {}
    monkeypatch.setattr(loading, "LOADED", loaded)

    def is_read() -> bool:
        loaded.clear()
        restore(here.path / "decay.py")
        return bool(loaded)

    [record] = here.cache.iterdir()
    assert here.cache.stat().st_mode & 0o077 == record.stat().st_mode & 0o077 == 0
    assert is_read()
    record.chmod(0o622)
    assert not is_read()
    record.chmod(0o600)
    here.cache.chmod(0o777)
    assert not is_read()
    here.cache.chmod(0o700)
    record.rename(here.path / "elsewhere")
    assert not is_read()
    record.symlink_to(here.path / "elsewhere")
    assert not is_read()
    record.unlink()
    body = (here.path / "elsewhere").read_bytes()
    record.write_bytes(body[:-9])
    record.chmod(0o600)
    assert not is_read()
    record.write_bytes(body)
    assert is_read()
    (here.path / "decay.py").write_text(MODEL.format(value=3))
    assert not is_read()


@pytest.mark.parametrize("name", ["pspin", "logistic_fixed_point", "linear_regression_rate", "relu_student"])
def test_expressions_are_kept_as_they_are(name: str) -> None:
    model, kept = eqsolve.load(name), io.BytesIO()
    _Pickler(kept).dump(model)
    read = pickle.loads(kept.getvalue())
    assert read == model
    assert signature_of.__wrapped__.__wrapped__(read) == signature_of(model)  # not what is kept of an equal model
    assert str(read.show().text()) == str(model.show().text())


@pytest.mark.parametrize("name", ["", "/proc/nowhere/cache"])
def test_nothing_is_kept_where_that_is_not_wanted_or_not_possible(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSOLVE_CACHE", name)
    assert folder() is None
