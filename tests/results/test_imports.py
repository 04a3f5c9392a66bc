"""A solve does not import what it has no use for: optimisers alone would take a third of the time of a cold start."""

import subprocess
import sys

SOLVES = """
import sys, eqsolve
from eqsolve import Eq, Int, System, function, times
(t, s), y = times("t s"), function("y")
eqsolve.solve(System("decay", [Eq(y(t).diff(t), -y(t))], init={y: 1}), t_max=1)
eqsolve.solve(System("memory", [Eq(y(t).diff(t), -Int(y(s), (s, 0, t)))], init={y: 1}), t_max=1)
scipy = {"scipy.optimize", "scipy.integrate", "scipy.special"}
print(*({"networkx", "dask", "matplotlib", "pandas", "xarray", *scipy} & {*sys.modules}))
eqsolve.load("linear_flow").simulate(d=20, t_max=1)
print(*({"cupy"} & {*sys.modules}))
"""


def test_solves_and_runs_import_no_library_that_they_do_not_use():
    assert subprocess.run([sys.executable, "-c", SOLVES], capture_output=True, text=True, check=True).stdout.split() == []
