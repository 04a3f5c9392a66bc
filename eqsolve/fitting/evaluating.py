"""A model as a function of some of its parameters: observables with errors and exact derivatives."""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.errors import UsageError, demand_known
from eqsolve.language.fixed_point import Cases
from eqsolve.language.model import Model
from eqsolve.language.symbols import Parameter
from eqsolve.numerics.arrays import Array
from eqsolve.passes.routing import models_behind
from eqsolve.progress import Report, watching
from eqsolve.results.derivatives import derivative_keys
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options
from eqsolve.solving import solve_as_asked


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Values at one point: (observable, time), their errors, and derivatives (parameter, observable, time) with theirs."""

    result: Result
    values: Array
    errors: Array
    slopes: Array
    slope_errors: Array


@dataclass(eq=False)
class Question:
    """What is asked of a model again and again: observables, at times if it has any, with some settings that stay.

    ``names`` are the parameters that change; ``times`` is None for a fixed point or a rate. Every solve begins with the one
    before, ``last``.
    """

    model: Model
    names: tuple[str, ...]
    observables: tuple[str, ...]
    times: Array | None
    settings: Mapping[str, Any]
    rtol: float
    seed: int = 0
    budget: float | None = None  # CPU seconds: half of them are more than one solve should take
    solves: int = 0
    last: Result | None = None

    def solve(self, point: Sequence[float] | Array, *, slopes: bool = True, rtol: float | None = None) -> Result:
        """Solve at a point of the parameters."""
        settings = {**self.settings, **dict(zip(self.names, map(float, point), strict=True))}
        declared = getattr(self.model, "observables", {})
        options = Options.make(
            rtol=rtol or self.rtol,
            seed=self.seed,
            budget=self.budget,
            derivatives=self.names if slopes else (),
            at=None if self.times is None else tuple(self.times),
            observables=self.observables if self.observables and all(name in declared for name in self.observables) else None,
        )
        begin = None if self.last is None or self.model.kind not in ("System", "Flow") else self.last.source
        self.solves += 1
        self.last = solve_as_asked(self.model, settings, options, paths=False, neighbour=begin)
        return self.last

    def evaluate(self, point: Sequence[float] | Array, *, slopes: bool = True, **how: Any) -> Evaluation:
        """Return values, errors and derivatives at a point; ``how`` as in ``solve``."""
        result = self.solve(point, slopes=slopes, **how)
        data = result.at(self.times) if self.times is not None else result.dataset
        demand_known(self.observables, result.names, f"model `{self.model.name}` has no `{{}}`")
        keys = derivative_keys(result.dataset)
        values, errors = ([np.atleast_1d(data[name + end].values) for name in self.observables] for end in ("", "_error"))
        moved, unsure = [], []
        for parameter in self.names if slopes else ():
            columns = [keys[name, parameter] for name in self.observables]
            moved.append([np.atleast_1d(data[key].values) for key in columns])
            unsure.append([np.atleast_1d(data[f"{key}_error"].values) for key in columns])
        return Evaluation(result, *(np.array(item, dtype=float) for item in (values, errors, moved, unsure)))


class SpentError(Exception):
    """The CPU time of a search is over."""


@dataclass(eq=False)
class Search:
    """Tells of the solves of a search, and ends it when the CPU time is ``until``."""

    report: Report | None
    until: float

    def tell(self, solves: int, point: Iterable[tuple[str, float]], text: str, result: Result) -> None:
        """Say where the last solve was, and what was found there."""
        if self.report is not None:
            where = ", ".join(f"{name}={value:.4g}" for name, value in point)
            self.report(solves, math.inf, f"{where}, {text}, {result.stats['seconds']:.2g} s")
        self.demand(solves)

    def demand(self, solves: int) -> None:
        if time.process_time() > self.until:
            raise SpentError(f"the budget was spent after {solves} solves; the best so far is given")


@contextlib.contextmanager
def searching(progress: Any, budget: float | None) -> Iterator[Search]:
    """Yield what watches a search, its time running."""
    with watching(progress, count="solve") as report:
        yield Search(report, time.process_time() + (math.inf if budget is None else budget))


_MOVED = 1e-4  # of the values: how far they are moved for a derivative through a function of them


def through(function: Callable[[Result], Any], result: Result, names: Sequence[str]) -> tuple[float, float, Array, Array]:
    """Return a function of a result, its error, its derivatives along parameters, and their errors.

    The function is asked again of the result with its values moved along their derivatives, or by their errors: this takes
    no further solve.
    """
    data = result.dataset

    def read(shifts: Mapping[str, Any]) -> float:
        changed = data.assign({name: data[name] + shift for name, shift in shifts.items()})
        value = function(replace(result, table=changed))
        try:
            return float(value)
        except (TypeError, ValueError):
            raise UsageError(f"the function of the result is to give one number, got {type(value).__name__}") from None

    def slope(shifts: Mapping[str, Any]) -> float:
        sizes = [
            float(np.abs(data[name].values).max(initial=0.0)) / largest
            for name, shift in shifts.items()
            if (largest := float(np.abs(shift).max(initial=0.0)))
        ]
        step = _MOVED * min((size for size in sizes if size), default=1.0)
        ends = (
            [read({name: sign * step * shift for name, shift in shifts.items()}) for sign in (1.0, -1.0)] if sizes else [0, 0]
        )
        return (ends[0] - ends[1]) / (2 * step)

    keys = derivative_keys(data)
    known = [name for name in result.names if name + "_error" in data]
    error = sum(abs(slope({name: data[f"{name}_error"].values})) for name in known)
    slopes, unsure = [], []
    for parameter in names:
        own = {name: key for (name, along), key in keys.items() if along == parameter and data[key].dims == data[name].dims}
        slopes.append(slope({name: data[key].values for name, key in own.items()}))
        unsure.append(sum(abs(slope({name: data[f"{key}_error"].values})) for name, key in own.items()))
    return read({}), float(error), np.array(slopes), np.array(unsure)


def find_parameters(model: Model, names: Sequence[str]) -> dict[str, Parameter]:
    """Return parameters of a model, or of its cases, by name; raise for what is none."""
    parts = (model, *(models_behind(model) if isinstance(model, Cases) else ()))
    every: dict[str, Parameter] = {item.name: item for part in parts for item in part.parameters}
    demand_known(names, every, f"model `{model.name}` has no parameter `{{}}`")
    for name in names:
        if every[name].is_integer:
            raise UsageError(f"`{name}` of model `{model.name}` is a whole number: there is no derivative along it")
    return {name: every[name] for name in names}
