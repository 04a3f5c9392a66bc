"""One point of a sweep: solved anywhere, returned as plain numbers, whatever happens."""

from __future__ import annotations

import inspect
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.errors import EqsolveError
from eqsolve.language.model import Model
from eqsolve.results.result import Result
from eqsolve.sweeping.axes import Axis

__all__ = ["Point", "Record", "lay_out_points", "solve_point", "takes_start"]

Record = dict[str, Any]
_CHAIN = 16  # neighbours solved one from another; a constant, so that no number depends on how many workers there are


@dataclass(frozen=True)
class Point:
    """Where a point lies, and what is set there."""

    index: int
    settings: Mapping[str, float | str]

    @property
    def text(self) -> str:
        values = (f"{value:.6g}" if isinstance(value, float) else value for value in self.settings.values())
        return ", ".join(f"{name}={value}" for name, value in zip(self.settings, values, strict=True))


def lay_out_points(axes: tuple[Axis, ...], *, chained: bool) -> list[list[Point]]:
    """Return chains of points; within a chain each may start from the one before, which is its neighbour."""
    names = [axis.name for axis in axes]
    cells = itertools.product(*(axis.settings for axis in axes))
    points = [Point(index, dict(zip(names, cell, strict=True))) for index, cell in enumerate(cells)]
    if not chained:
        return [[point] for point in points]
    row = len(axes[-1])
    starts = [begin + offset for begin in range(0, len(points), row) for offset in range(0, row, _CHAIN)]
    return [points[start : min(start + _CHAIN, (start // row + 1) * row)] for start in starts]


def takes_start(model: Model) -> bool:
    """Return whether a solve of this model can begin from the solution at a neighbouring point."""
    from eqsolve.solving import solve

    return model.kind == "FixedPoint" and "start" in inspect.signature(solve).parameters


def solve_point(
    model: Model, settings: Mapping[str, Any], options: Mapping[str, Any], start: Mapping[str, float] | None = None
) -> Record:
    """Solve one point; a failure is a record too, with its reason and what was reached."""
    from eqsolve.solving import solve

    began = time.perf_counter()
    more: dict[str, Any] = {} if start is None else {"start": start}
    values: dict[str, Any] = {}
    errors: dict[str, Any] = {}
    try:
        try:
            result: Result | None = solve(model, params=settings, **options, **more)
            assert result is not None
            status, message = result.status, result.message
        except EqsolveError as error:
            result, status, message = getattr(error, "partial", None), "failed", str(error)
        if result is not None:
            values, errors = _numbers(result, options.get("at"))
    except Exception as error:  # a defect at one point must not cost the others
        status, message = "failed", f"unexpected {type(error).__name__}: {error}"
    seconds = time.perf_counter() - began
    return {"status": status, "message": message, "seconds": seconds, "values": values, "errors": errors}


def _numbers(result: Result, at: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return values and errors by name: numbers, or lists over the times asked for, nan where they were not reached."""
    data = result.dataset
    if result.grid is None:
        names = [name for name in result.names if not data[name].dims]
        values = {name: float(data[name]) for name in names}
        return values, {name: float(data[name + "_error"]) for name in names if name + "_error" in data}
    times = np.asarray(at, dtype=float)
    inside = times <= result.grid.edges[-1] * (1 + 1e-12)
    sampled = result.at(times[inside])
    made: list[dict[str, Any]] = [{}, {}]
    for name in (name for name in result.names if data[name].dims == ("t",)):
        for table, key in zip(made, (name, name + "_error"), strict=True):
            if key in sampled:
                whole = np.full(len(times), np.nan)
                whole[inside] = sampled[key].values
                table[name] = whole.tolist()
    return made[0], made[1]
