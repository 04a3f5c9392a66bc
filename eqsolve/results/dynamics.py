"""Curves, kernels and paths with their errors as the result of a solve in time, for all solvers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.rows import AgingRows, RowStore
from eqsolve.results.arrays import LabelledArray, LabelledArrays, LazyArray
from eqsolve.results.result import Result


@dataclass(frozen=True, eq=False)
class Kernel:
    """A function of two times on pairs of times; zero above the diagonal unless symmetric."""

    values: Array
    errors: Array
    symmetric: bool


@dataclass(frozen=True, eq=False)
class PathSet:
    """An ensemble of paths: weights, constants, and processes on (paths, times)."""

    weights: Array
    constants: Mapping[str, Array]
    values: Mapping[str, Array | LazyArray]
    errors: Mapping[str, Array] = field(default_factory=dict)


def dynamics_result(
    *, model: str, params: Mapping[str, Any], grid: PanelGrid, curves: Mapping[str, Array],
    errors: Mapping[str, Array], stats: Mapping[str, Any],
    kernels: Mapping[str, Kernel] | None = None, times: Array | None = None,
    rows: RowStore | AgingRows | None = None, paths: Sequence[PathSet] = (),
    failure: tuple[str, str] | None = None, source: Any = None,
) -> Result:  # fmt: skip
    """Return the result of a solve in time.

    ``times`` are those of the kernels, the grid's by default; ``failure`` is a status and its reason; ``source`` is what the
    solver hands on to a solve at neighbouring parameters.
    """
    data: dict[str, LabelledArray] = {}
    coordinates = {"t": LabelledArray(("t",), grid.nodes)}
    for name, values in curves.items():
        data[name] = LabelledArray(("t",), values)
        data[name + "_error"] = LabelledArray(("t",), errors[name])
    if kernels:
        nodes, pair = grid.nodes if times is None else times, ("row", "column")
        coordinates |= {axis: LabelledArray((axis,), nodes) for axis in pair}
        for name, kernel in kernels.items():
            data[name] = LabelledArray(pair, kernel.values, {"symmetric": int(kernel.symmetric)})
            data[name + "_error"] = LabelledArray(pair, kernel.errors)
    for place, item in enumerate(paths):
        suffix = "" if place == 0 else f"_{place + 1}"
        path = "path" + suffix
        coordinates["weight" + suffix] = LabelledArray((path,), item.weights)
        coordinates |= {name: LabelledArray((path,), values) for name, values in item.constants.items()}
        data |= {name: LabelledArray((path, "t"), values) for name, values in item.values.items()}
        data |= {name + "_error": LabelledArray((path, "t"), values) for name, values in item.errors.items()}
    status, message = failure or ("ok", "")
    return Result(
        LabelledArrays(data, coordinates), model=model, kind="dynamics", status=status, message=message,
        params=dict(params), stats=dict(stats), grid=grid, rows=rows, source=source,
    )  # fmt: skip
