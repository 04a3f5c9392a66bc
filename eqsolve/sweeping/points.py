"""One point of a sweep: solved anywhere, returned as plain numbers, whatever happens."""

import itertools
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.errors import EqsolveError
from eqsolve.language.model import Model
from eqsolve.results.derivatives import derivative_keys, derivative_table
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options
from eqsolve.sweeping.axes import Axis

Record = dict[str, Any]
_CHAIN = 16  # neighbours solved one from another, however many workers there are


@dataclass(frozen=True)
class SweepPoint:
    """Where a point lies, what is set there, and from which earlier point it may start."""

    index: int
    settings: Mapping[str, float | str]
    before: int | None = None

    @property
    def text(self) -> str:
        values = (f"{value:.6g}" if isinstance(value, float) else value for value in self.settings.values())
        return ", ".join(f"{name}={value}" for name, value in zip(self.settings, values, strict=True))


def lay_out_points(axes: tuple[Axis, ...], chained: str = "") -> list[SweepPoint]:
    """Return the points, row by row along the last axis; with ``chained``, each knows the neighbour it may start from.

    In "rows" that is the one before in its row, but for every 16th, which starts from nothing: what is followed along a row
    is one solution of several. In a "tree" the first of a row starts from the first of the row before, and every 16th from
    the 16th before it, so that only one point of all starts from nothing.
    """
    names = [axis.name for axis in axes]
    cells = itertools.product(*(axis.settings for axis in axes))
    lengths = [len(axis) for axis in axes]
    return [
        SweepPoint(index, dict(zip(names, cell, strict=True)), _neighbour(index, lengths, chained))
        for index, cell in enumerate(cells)
    ]


def _neighbour(index: int, lengths: list[int], chained: str) -> int | None:
    """Return the earlier point from which a point starts, whoever solves them."""
    offset = index % lengths[-1]
    if chained and offset % _CHAIN:
        return index - 1
    if chained != "tree" or index == 0:
        return None
    if offset:
        return index - _CHAIN
    stride = lengths[-1]
    for length in reversed(lengths[:-1]):
        if index // stride % length:
            break
        stride *= length
    return index - stride


def chaining(model: Model, settings: Mapping[str, Any], options: Options) -> str:
    """Return how points of a model start from neighbours: in "rows", in a "tree", or not at all."""
    from eqsolve.compile.tasks import make_task
    from eqsolve.solvers.contract import Wanted
    from eqsolve.solvers.registry import choose_solver

    if model.kind == "FixedPoint":
        return "rows"
    if model.kind not in ("System", "Flow") or model.is_indexed:
        return ""
    task = make_task(model, settings, options.observables, step=options.step)
    discrete = options.step is not None or task.step is not None
    return "tree" if choose_solver(task.plan, Wanted(discrete=discrete), options.solver).solver.starts(task.plan) else ""


def solve_point(model: Model, settings: Mapping[str, Any], options: Options, start: Any = None) -> tuple[Record, Any]:
    """Solve one point, and return it with what a neighbour may start from; a failure is a record too, with its reason.

    ``start`` are values of a fixed point's unknowns, or what a neighbour's solution handed on.
    """
    from eqsolve.solving import solve_as_asked

    began = time.perf_counter()
    values: dict[str, Any] = {}
    errors: dict[str, Any] = {}
    slopes: dict[str, Any] = {}
    handed = None
    try:
        by_name = isinstance(start, Mapping)
        first, neighbour = (start, None) if by_name else (None, start)
        try:
            result: Result | None = solve_as_asked(model, settings, options, start=first, neighbour=neighbour, paths=False)
            assert result is not None
            status, message = result.status, result.message
            if status == "interrupted":  # which ends the sweep; the point is solved when it goes on
                raise KeyboardInterrupt
            handed = result.source if model.kind != "FixedPoint" else None
        except EqsolveError as error:
            result, status, message = getattr(error, "partial", None), "failed", str(error)
        if result is not None:
            values, errors = _numbers(result, options.at)
            slopes = _slopes(result, options.at) if options.derivatives else {}
    except Exception as error:  # a defect at one point must not cost the others
        status, message = "failed", f"unexpected {type(error).__name__}: {error}"
    seconds = time.perf_counter() - began
    return {"status": status, "message": message, "seconds": seconds, "values": values, "errors": errors, **slopes}, handed


def _reached(result: Result, at: Any) -> tuple[Any, int]:
    """Return a result at the times that were reached, and how many were not."""
    assert result.grid is not None
    times = np.asarray(at, dtype=float)
    inside = times <= result.grid.edges[-1] * (1 + 1e-12)
    return result.at(times[inside]), int((~inside).sum())


def _numbers(result: Result, at: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return values and errors by name: numbers, or lists over the times, nan where not reached."""
    data = result.dataset
    if result.grid is None:
        names = [name for name in result.names if not data[name].dims]
        values = {name: float(data[name]) for name in names}
        return values, {name: float(data[name + "_error"]) for name in names if name + "_error" in data}
    sampled, missing = _reached(result, at)
    names = [name for name in result.names if data[name].dims == ("t",)]
    curves, errors = (
        {name: [*sampled[name + end].values.tolist(), *[math.nan] * missing] for name in names if name + end in sampled}
        for end in ("", "_error")
    )
    return curves, errors


def _slopes(result: Result, at: Any) -> dict[str, Any]:
    """Return the derivatives of what ``_numbers`` returns, and their errors, by parameter and name."""
    dims, sampled, missing = ((), result.dataset, 0) if result.grid is None else (("t",), *_reached(result, at))
    keys = derivative_keys(result.dataset)
    table = derivative_table(sampled, {pair: key for pair, key in keys.items() if result.dataset[key].dims == dims})
    for part in table.values() if missing else ():
        for entries in part.values():
            entries |= {name: [*values, *[math.nan] * missing] for name, values in entries.items()}
    return {"slopes": table["derivatives"], "slope_errors": table["derivative_errors"]}
