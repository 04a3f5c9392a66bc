"""What all tests of reliability share: a folder with a small model, and an alarm for what takes too long."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

LIMIT = 10.0  # seconds of computing for one input
DECAY = '''"""One decaying function, and a law."""

from sympy import exp, sqrt

from eqsolve import E, Eq, Int, System, param, process, random, times
from eqsolve.laws import Bernoulli

t, s = times("t s")
k = param("k", positive=True)
b = param("b", nonnegative=True)
a = random("a", Bernoulli(0.25))
w = process("w")
model = System(
    "decay",
    eqs=[Eq(w(t).diff(t), -k * w(t) + b * sqrt(1 + a**2) * exp(-t))],
    init={w: a},
    defaults={k: 1, b: 0},
    observables={"size": E(w(t) ** 2)},
)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with one model in it."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "decay.py").write_text(DECAY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EQSOLVE_PATH", raising=False)
    monkeypatch.delenv("EQSOLVE_DEBUG", raising=False)
    return tmp_path


def listing(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if "__pycache__" not in path.parts)


class TooLongError(BaseException):
    """An input took longer than the limit."""


@contextlib.contextmanager
def time_limit(what: str) -> Iterator[None]:
    """Fail when one input takes longer than the limit."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*args: object) -> None:
        raise TooLongError(what)

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
