"""What the solvers put into a checkpoint: the long steps of a solve, with all that later steps read of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from eqsolve.files.codec import Codec

if TYPE_CHECKING:
    from eqsolve.files.checkpoint import Checkpoint
    from eqsolve.solvers.stochastic.sweeps import Sweeper
    from eqsolve.solvers.two_time.panel import Panel

__all__ = ["recorded", "solve_panel"]

Method = TypeVar("Method", bound=Callable[..., Any])

_PASSING = ("before", "values", "products", "forces")  # attributes that are made anew before they are read


def recorded(method: Method) -> Method:
    """Make a method of a sweeper, or of what has one, a step of the sweeper's checkpoint, if it has one."""

    @functools.wraps(method)
    def step(self: Any, *args: Any, **named: Any) -> Any:
        sweeper: Sweeper = getattr(self, "sweeper", self)
        if sweeper.checkpoint is None:
            return method(self, *args, **named)

        def compute() -> Any:
            return method(self, *args, **named), sweeper.total_sweeps, sweeper.trusting

        made = sweeper.checkpoint.step(method.__name__, compute, _codec(sweeper))
        result, sweeper.total_sweeps, sweeper.trusting = made
        return result

    return step  # type: ignore[return-value]


def _codec(sweeper: Sweeper) -> Codec:
    if sweeper.codec is None:
        from eqsolve.numerics.gaussian import Layout, Level, Points
        from eqsolve.numerics.grids import PanelGrid
        from eqsolve.numerics.operators import Evaluation, OperatorGrid
        from eqsolve.solvers.stochastic.path_means import PathSolver
        from eqsolve.numerics.secants import Secants
        from eqsolve.solvers.stochastic.sweeps import Solved

        classes = (Evaluation, Layout, Level, OperatorGrid, PanelGrid, PathSolver, Points, Secants, Solved)
        sweeper.codec = Codec(classes, _vocabulary(sweeper), _PASSING)
    return sweeper.codec


def _vocabulary(sweeper: Sweeper) -> Iterator[Any]:
    """Yield what a solution refers to and does not change: symbols, equations, laws, compiled functions."""
    yield sweeper.closure
    yield from (equation.head for equation in (*sweeper.form.kernels, *sweeper.form.functions))
    for compiled in sweeper.compiled:
        source = compiled.source
        yield compiled
        yield from (*source.noises, *source.randoms, *source.drives, *source.links, *compiled.targets)
        yield from (sweeper.laws[item] for item in source.randoms)
        for mean in source.means:
            yield mean.node
            yield from (piece for term in mean.terms for piece in term)


def solve_panel(panel: Panel, tolerance: float, checkpoint: Checkpoint | None) -> int:
    """Solve a panel of a march, or take its solution from the checkpoint; return the number of sweeps."""
    if checkpoint is None:
        return panel.solve(tolerance)

    def compute() -> tuple[Any, ...]:
        sweeps = panel.solve(tolerance)
        return sweeps, panel.state, panel.sizes, panel.errors, panel.rights

    sweeps, state, panel.sizes, panel.errors, panel.rights = checkpoint.step(
        f"panel of {panel.state.size} unknowns", compute, Codec()
    )
    if state is not panel.state:
        panel.state[:] = state
        panel.refresh()
    return int(sweeps)
