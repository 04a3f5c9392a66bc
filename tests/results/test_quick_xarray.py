"""A solve does not import what it has no use for; xarray knows dask's arrays all the same."""

import subprocess
import sys

import pytest

SOLVE = """
import sys, eqsolve
from eqsolve import Eq, Int, System, function, times
(t, s), y = times("t s"), function("y")
result = eqsolve.solve(System("memory", [Eq(y(t).diff(t), -Int(y(s), (s, 0, t)))], init={y: 1}), t_max=1)
print(*(name for name in ("networkx", "dask", "scipy.optimize", "matplotlib") if name in sys.modules))
"""
AFTER = """
import dask.array, xarray
lazy = xarray.DataArray(dask.array.ones((4, 4), chunks=2), dims=("a", "b"))
assert lazy.chunks == ((2, 2), (2, 2)), lazy.chunks
assert type(lazy.data).__module__.startswith("dask"), type(lazy.data)
assert float((lazy * 2).sum()) == 32
whole = result.dataset["y"].chunk({"t": 3})
assert float(whole[0]) == 1 and whole.chunks is not None
"""


def _output(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_a_solve_imports_no_library_that_it_does_not_use():
    assert _output(SOLVE) == []


def test_arrays_of_dask_are_known_after_a_solve():
    pytest.importorskip("dask.array")
    _output(SOLVE + AFTER)
