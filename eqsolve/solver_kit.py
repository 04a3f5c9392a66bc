"""What one needs to write a solver: import from here, and nothing else of ``eqsolve``.

``Solver``, ``HandOver``, ``Wanted`` and ``register`` are the contract; ``Plan``, ``Values`` and
``Options`` are what a solver is given; the forms (``ODE``, ``TWO_TIME``, ...) are what
``plan.program(form)`` compiles; ``at`` and ``bind_system`` put numbers in. The rest are parts that
solvers share: grids, refinement until two solutions agree, and the packaging of a result.
``docs/extending.md`` has a whole solver in fewer than sixty lines.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

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
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.constants import make_paths
from eqsolve.numerics.grids import PanelGrid
from eqsolve.results.result import Kernel, Result, dynamics_result
from eqsolve.solvers.contract import HandOver, Solver, Wanted, why_not_a, why_not_closed
from eqsolve.solvers.ode.march import bind_system
from eqsolve.solvers.options import Options
from eqsolve.solvers.registry import register
from eqsolve.solvers.tolerance import allowance, excess

__all__ = [
    "CONVOLUTION", "FIXED_POINT", "GAUSSIAN", "ODE", "OPERATORS", "SINGULARITY", "STOCHASTIC", "TWO_TIME",
    "TWO_TIME_GRADIENTS", "Array", "Codec", "Facts", "Form", "HandOver", "Kernel", "Options", "PanelGrid", "Plan", "Refined",
    "Result", "Solver", "SolverError", "UsageError", "Values", "Wanted", "allowance", "at", "bind_system", "dynamics_result",
    "excess", "make_paths", "refine", "register", "why_not_a", "why_not_closed",
]  # fmt: skip


@dataclass(frozen=True)
class Refined:
    """A solution on equal steps, with the difference to the one on steps twice as long as its error.

    ``failure`` is the status and the message of a result that did not reach its tolerance; None
    where it did.
    """

    times: Array
    curves: Mapping[str, Array]
    errors: Mapping[str, Array]
    failure: tuple[str, str] | None = None

    @property
    def grid(self) -> PanelGrid:
        return PanelGrid(self.times, 1)


def refine(
    solve: Callable[[Array], Mapping[str, Array]], begin: float, options: Options, *, first: int = 64, most: int = 1 << 20
) -> Refined:
    """Solve on equal steps, halved until two solutions agree to the tolerance.

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
        Numbers of steps.
    """
    options.demand_after(begin)
    count, coarse, best = first, None, None
    while True:
        times = np.linspace(begin, options.t_max, count + 1)
        fine = solve(times)
        if coarse is not None:
            errors = {name: np.repeat(np.abs(fine[name][::2] - coarse[name]), 2)[: count + 1] + 1e-15 for name in fine}
            worst = max(excess(fine[name], errors[name], options) for name in fine)
            best = Refined(times, fine, errors)
            if worst <= 1.0:
                return best
        if best is not None and (2 * count > most or options.is_short_of_time()):
            said = f"the error is {worst:.3g} times the tolerance rtol={options.rtol:g} with {count} steps"
            return Refined(best.times, best.curves, best.errors, ("tolerance not met", said))
        coarse, count = fine, 2 * count
