"""Settings every test shares: no display, one thread, one fixed seed, Ctrl-C heard also in the background."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

os.environ["MPLBACKEND"] = "Agg"
os.environ["EQSOLVE_CACHE"] = ""  # every test compiles its own plans
os.environ.setdefault("SYMPY_CACHE_SIZE", "100000")  # entries: by default 1000, too few for many models in one process
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "EQSOLVE_THREADS"):
    os.environ.setdefault(_name, "1")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as shells start what runs in the background; commands inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)

import numpy as np  # noqa: E402  (the thread limits are read when numpy loads)
import pytest  # noqa: E402

TESTS = Path(__file__).parent


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fixed seed, fresh for each test."""
    return np.random.default_rng(20260)


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    """Close what a test has drawn: matplotlib warns, which is an error here, once twenty figures are open."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what has been imported, which stays to the end."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


QUICK = (
    *("test_", "language", "compile", "passes/check", "passes/forms", "passes/rewrite", "numerics", "tools"),
    *("files/test_codec", "files/test_saving"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the quick tests; skip what needs a graphics card where there is none, and say why."""
    for item in items:
        if item.path.relative_to(TESTS).as_posix().startswith(QUICK) and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.quick)
    marked = [item for item in items if item.get_closest_marker("gpu")]
    if marked:
        from eqsolve.numerics.backend import card_problem

        if problem := card_problem():
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=problem))
