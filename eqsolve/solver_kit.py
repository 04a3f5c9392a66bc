"""What one needs to write a solver: import from here, and nothing else of ``eqsolve``.

``Solver``, ``HandOver``, ``Wanted`` and ``register`` are the contract; ``Plan``, ``Values`` and
``Options`` are what a solver is given; the forms (``ODE``, ``TWO_TIME``, ...) are what
``plan.program(form)`` compiles. ``at`` puts numbers in, ``bind_system`` those of ``ODE``, and
``bind_program`` those of ``TWO_TIME`` and ``CONVOLUTION``, with the means over constants in their
equations. The rest are parts that solvers share: grids, refinement until two solutions agree, and
the packaging of a result. ``docs/extending.md`` has a whole solver in fewer than sixty lines.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from eqsolve.compile.forms import (
    CONVOLUTION,
    FIXED_POINT,
    GAUSSIAN,
    ODE,
    OPERATORS,
    SINGULARITY,
    STOCHASTIC,
    TWO_TIME,
    TWO_TIME_GRADIENTS,
    Form,
)
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Facts, Plan, Values
from eqsolve.errors import SolverError, UsageError
from eqsolve.files.checkpoint import Codec
from eqsolve.numerics.arrays import EPSILON, Array
from eqsolve.numerics.constants import make_paths
from eqsolve.numerics.grids import PanelGrid
from eqsolve.results.result import Kernel, Result, dynamics_result
from eqsolve.solvers.contract import HandOver, Solver, Wanted, why_not_a, why_not_closed
from eqsolve.solvers.marching import Compared, best_of, bind_program
from eqsolve.solvers.ode.march import bind_system
from eqsolve.solvers.options import Options
from eqsolve.solvers.registry import register
from eqsolve.solvers.tolerance import allowance, excess, find_worst

__all__ = [
    "CONVOLUTION", "FIXED_POINT", "GAUSSIAN", "ODE", "OPERATORS", "SINGULARITY", "STOCHASTIC", "TWO_TIME",
    "TWO_TIME_GRADIENTS", "Array", "Codec", "Facts", "Form", "HandOver", "Kernel", "Options", "PanelGrid", "Plan",
    "Refined", "Result", "Solver", "SolverError", "UsageError", "Values", "Wanted", "allowance", "at", "bind_program",
    "bind_system", "dynamics_result", "excess", "make_paths", "refine", "register", "why_not_a", "why_not_closed",
]  # fmt: skip


@dataclass(frozen=True)
class Refined:
    """A solution on steps, with its error: the difference to the one on steps twice as long, and what is between the nodes.

    ``failure`` is the status and the message of a result that did not reach its tolerance; None
    where it did.
    """

    times: Array
    curves: Mapping[str, Array]
    errors: Mapping[str, Array]
    failure: tuple[str, str] | None = None

    @property
    def grid(self) -> PanelGrid:
        return PanelGrid.smooth(self.times)


def refine(
    solve: Callable[[Array], Mapping[str, Array]], begin: float, options: Options, *, first: int = 64, most: int = 1 << 20
) -> Refined:
    """Solve on steps that end at times asked for and at breaks of coefficients, halved until two solutions agree.

    Parameters
    ----------
    solve
        Returns curves by name at given times.
    begin
        The first time.
    options
        The tolerances, the last time and the budget: when half of it is spent, the best so far is returned, with the status
        "tolerance not met".
    first, most
        Numbers of steps, about.
    """
    options.demand_after(begin)
    edges = np.unique([begin, *(time for time in options.step_ends(begin) if begin < time < options.t_max), options.t_max])
    pieces = [
        np.linspace(low, high, math.ceil(first * (high - low) / (options.t_max - begin)) + 1)[:-1]
        for low, high in pairwise(edges)
    ]

    def solutions(times: Array) -> Iterator[Compared]:
        coarse = solve(times)
        while True:
            times = np.insert(times, np.arange(1, len(times)), (times[1:] + times[:-1]) / 2)
            fine, grid = solve(times), PanelGrid.smooth(times)
            errors = {name: _error(grid, values, coarse[name]) for name, values in fine.items()}
            yield Compared(None, grid, fine, errors, find_worst(fine, fine, errors, times, options))
            if 2 * grid.panels > most:
                return
            coarse = fine

    best = best_of(solutions(np.append(np.concatenate(pieces), options.t_max)), options)
    assert best is not None
    for name, values in best.curves.items():
        finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
        if not finite.all():
            raise SolverError(f"`{name}` is not finite at t = {best.grid.nodes[np.argmin(finite)]:.4g}; it may blow up before")
    failure = best.worst.failure(options, f"{best.grid.panels} steps are too few")
    return Refined(best.grid.nodes, best.curves, best.errors, failure)


def _error(grid: PanelGrid, values: Array, coarse: Array) -> Array:
    """Return the error of a curve: how far one on every other node is, the larger of two between them, and interpolation's."""
    change = np.abs(values[::2] - coarse)
    between = np.insert(change, np.arange(1, len(change)), np.maximum(change[1:], change[:-1]))
    return between + grid.error_between(values) + EPSILON * np.abs(values)
