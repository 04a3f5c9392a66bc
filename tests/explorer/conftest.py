"""A small model with a known solution, and a page that explores it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from eqsolve.explorer.server import Explorer

SLOWED = '''"""A decay slowed down by its own past: y = a/(1 + a t)."""

from eqsolve import Eq, Int, System, function, param, times

t, s = times("t s")
a = param("a", positive=True)
y = function("y")

model = System(
    "slowed",
    eqs=[Eq(y(t).diff(t), -y(t) * (a - Int(y(s) ** 2, (s, 0, t))))],
    init={y: a},
    defaults={a: 1},
    observables={"height": y(t), "area": y(t)**2},
)
'''


@pytest.fixture
def slowed(tmp_path: Path) -> Path:
    path = tmp_path / "slowed.py"
    path.write_text(SLOWED)
    return path


def serve(model: str, **begin: object) -> Explorer:
    """Return a server that answers; whoever asked for it ends it."""
    server = Explorer(model, dict(begin))
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


@pytest.fixture
def explorer(slowed: Path) -> Iterator[Explorer]:
    server = serve(str(slowed), settings={}, t_max=5, rtol=1e-4)
    yield server
    server.shutdown()
    server.server_close()
