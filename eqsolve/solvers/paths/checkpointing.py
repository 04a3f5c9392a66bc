"""The long steps of a stochastic solve in a checkpoint, with all that later steps read of them."""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from eqsolve.files.checkpoint import Codec
from eqsolve.numerics.gaussian import Level, PointLayout, Points
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels
from eqsolve.numerics.secants import Secants
from eqsolve.solvers.paths.follow import PathOperators, Paths
from eqsolve.solvers.paths.means import Averages
from eqsolve.solvers.paths.modes import Choice, Drawn, Group, LinearPart
from eqsolve.solvers.paths.sweep import Engine

Step = TypeVar("Step", bound=Callable[..., Any])

_CLASSES = (
    *(PathOperators, Averages, Choice, Drawn, Group, Kernels, PointLayout, Level, OperatorGrid),
    *(PanelGrid, Paths, Points, LinearPart, Secants),
)
# cached, found again when they are read
_MADE_ANEW = ("inputs", "arguments", "values", "products", "forces", "derived", "leading_modes")


def as_checkpoint_step(*more: type) -> Callable[[Step], Step]:
    """Make a function of an engine a step of its checkpoint; ``more`` are classes of the result."""

    def decorate(step: Step) -> Step:
        @functools.wraps(step)
        def kept(engine: Engine, *args: Any, **named: Any) -> Any:
            work = engine.work
            if work.checkpoint is None:
                return step(engine, *args, **named)

            def compute() -> Any:
                return step(engine, *args, **named), work.sweeps

            if work.plan_pieces is None:
                work.plan_pieces = tuple(_pieces(engine.program))
            codec = Codec((*_CLASSES, *more), work.plan_pieces, _MADE_ANEW)
            result, work.sweeps = work.checkpoint.step(step.__name__, compute, codec)
            return result

        return kept  # type: ignore[return-value]

    return decorate


def _pieces(item: Any) -> Iterator[Any]:
    """Yield every piece of a plan: what a solution refers to and does not change."""
    if isinstance(item, tuple):
        for part in item:
            yield from _pieces(part)
    elif dataclasses.is_dataclass(item) and not isinstance(item, type):  # a law of a start is named by its class
        yield item
        for field in dataclasses.fields(item):
            yield from _pieces(getattr(item, field.name))
