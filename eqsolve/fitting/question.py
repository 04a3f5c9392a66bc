"""A model as a function of some of its parameters: observables with errors and exact derivatives, within a budget."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.errors import UsageError, demand_known
from eqsolve.language.model import Model
from eqsolve.language.symbols import Parameter
from eqsolve.language.system import Cases
from eqsolve.numerics.arrays import EPSILON, Array
from eqsolve.passes.forms.structure import models_behind
from eqsolve.progress import Report
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
    budget: float | None = None  # CPU seconds: half of them are more than one solve should take
    solves: int = 0
    last: Result | None = None

    def solve(self, point: Sequence[float] | Array, *, slopes: bool = True, rtol: float | None = None) -> Result:
        """Solve at a point of the parameters."""
        settings = {**self.settings, **dict(zip(self.names, map(float, point), strict=True))}
        declared = set(self.observables) <= set(getattr(self.model, "observables", ()))
        options = Options.make(
            rtol=rtol or self.rtol, budget=self.budget, derivatives=self.names if slopes else (),
            observables=self.observables or None if declared else None, at=None if self.times is None else tuple(self.times),
        )  # fmt: skip
        begin = None if self.last is None or self.model.kind not in ("System", "Flow") else self.last.source
        self.solves += 1
        self.last = solve_as_asked(self.model, settings, options, paths=False, warm_start=begin)
        return self.last

    def evaluate(self, point: Sequence[float] | Array) -> Evaluation:
        """Return values, errors and derivatives at a point."""
        result = self.solve(point)
        data = result.at(self.times) if self.times is not None else result.dataset
        demand_known(self.observables, result.names, f"model `{self.model.name}` has no `{{}}`")
        keys = derivative_keys(result.dataset)
        columns = [self.observables, *([keys[name, parameter] for name in self.observables] for parameter in self.names)]
        values, errors = (
            np.array([[np.atleast_1d(data[key + end].values) for key in row] for row in columns], dtype=float)
            for end in ("", "_error")
        )
        return Evaluation(result, values[0], errors[0], values[1:], errors[1:])


class SpentError(Exception):
    """The CPU time of a search is over."""


class Search:
    """Tells of the solves of a search, and ends it when the CPU seconds of its budget are over."""

    def __init__(self, report: Report | None, budget: float | None) -> None:
        self.report, self.until = report, time.process_time() + (math.inf if budget is None else budget)

    def tell(self, solves: int, point: Mapping[str, float], text: str, result: Result) -> None:
        """Say where the last solve was, and what was found there."""
        if self.report is not None:
            where = ", ".join(f"{name}={value:.4g}" for name, value in point.items())
            self.report(solves, math.inf, f"{where}, {text}, {result.stats['seconds']:.2g} s")
        self.demand(solves)

    def demand(self, solves: int) -> None:
        if time.process_time() > self.until:
            raise SpentError(f"the budget was spent after {solves} solves; the best so far is given")


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
        largest = {name: np.abs(shift).max(initial=0.0) for name, shift in shifts.items()}
        ratios = [np.abs(data[name].values).max(initial=0.0) / size for name, size in largest.items() if size]
        if not ratios:
            return 0.0
        # the step of a central difference, relative to what moves the most of its own size
        step = EPSILON ** (1 / 3) * float(min(filter(None, ratios), default=1.0))
        up, down = (read({name: sign * step * shift for name, shift in shifts.items()}) for sign in (1.0, -1.0))
        return (up - down) / (2 * step)

    def moved(entries: Mapping[str, str]) -> float:
        """Return how far the function moves when each value moves by its error."""
        return float(sum(abs(slope({name: data[f"{key}_error"].values})) for name, key in entries.items()))

    keys = {pair: key for pair, key in derivative_keys(data).items() if data[key].dims == data[pair[0]].dims}
    along = [{name: key for (name, parameter), key in keys.items() if parameter == wanted} for wanted in names]
    slopes = [slope({name: data[key].values for name, key in own.items()}) for own in along]
    error = moved({name: name for name in result.names if name + "_error" in data})
    return read({}), error, np.array(slopes), np.array([moved(own) for own in along])


def find_parameters(model: Model, names: Sequence[str]) -> dict[str, Parameter]:
    """Return parameters of a model, or of its cases, by name; raise for what is none."""
    parts = (model, *(models_behind(model) if isinstance(model, Cases) else ()))
    every: dict[str, Parameter] = {item.name: item for part in parts for item in part.parameters}
    demand_known(names, every, f"model `{model.name}` has no parameter `{{}}`")
    if whole := [name for name in names if every[name].is_integer]:
        raise UsageError(f"`{whole[0]}` of model `{model.name}` is a whole number: there is no derivative along it")
    return {name: every[name] for name in names}
