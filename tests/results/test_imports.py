"""A solve does not import what it has no use for."""

import subprocess
import sys

SOLVE = """
import sys, eqsolve
from eqsolve import Eq, Int, System, function, times
(t, s), y = times("t s"), function("y")
result = eqsolve.solve(System("memory", [Eq(y(t).diff(t), -Int(y(s), (s, 0, t)))], init={y: 1}), t_max=1)
print(*({"networkx", "dask", "scipy.optimize", "scipy.special", "matplotlib", "pandas", "xarray"} & {*sys.modules}))
"""


def _output(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_a_solve_imports_no_library_that_it_does_not_use():
    assert _output(SOLVE) == []
