"""`Result`: labelled values with an error beside each, what was solved, how, and how well."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.arguments import checked, numbers, text, whole
from eqsolve.arguments import pairs as read_pairs
from eqsolve.arguments import path as read_path
from eqsolve.errors import UsageError, did_you_mean
from eqsolve.numerics.aging_rows import AgingRows
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.rows import RowStore
from eqsolve.results.derivatives import ALONG, derivative_keys, derivative_table, read_derivative
from eqsolve.verbs import later

if TYPE_CHECKING:
    import xarray as xr

    from eqsolve.results.distribution import Distribution

__all__ = ["Result"]

_ERROR = "_error"
_ROWS = "_rows_"


class Errors(Mapping[str, "xr.DataArray"]):
    """The error estimates of a result, by the names of its values."""

    def __init__(self, dataset: xr.Dataset) -> None:
        self._dataset = dataset

    def __getitem__(self, name: str) -> xr.DataArray:
        if name not in self:
            has = ", ".join(self)
            raise KeyError(f"the result has no error of `{name}`{did_you_mean(name, self)} (it has those of: {has})")
        return _with_times(self._dataset[name + _ERROR].rename(name))

    def __contains__(self, name: object) -> bool:
        return f"{name}{_ERROR}" in self._dataset

    def __iter__(self) -> Iterator[str]:
        return (str(key)[: -len(_ERROR)] for key in self._dataset.data_vars if str(key).endswith(_ERROR))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Result:
    """What a solver found.

    Attributes
    ----------
    dataset
        An ``xarray.Dataset``: every value under its name in the model, its error under ``name_error``.
    kind
        ``"dynamics"``, ``"fixed point"``, ``"singularity"`` or ``"sweep"``.
    status, message
        ``"ok"``, or what was not reached and why.
    params, stats, provenance
        What was set; how much work it took; version, signature, seed and machine.
    latex
        How names are written in pictures and notebooks.
    """

    def __init__(
        self,
        dataset: xr.Dataset,
        *,
        model: str,
        kind: str,
        status: str = "ok",
        message: str = "",
        params: Mapping[str, Any] | None = None,
        stats: Mapping[str, Any] | None = None,
        provenance: Mapping[str, Any] | None = None,
        grid: PanelGrid | None = None,
        rows: RowStore | AgingRows | None = None,
        source: Any = None,
        latex: Mapping[str, str] | None = None,
    ) -> None:
        values = {
            "dataset": dataset, "model": model, "kind": kind, "status": status, "message": message,
            "params": dict(params or {}), "stats": dict(stats or {}), "provenance": dict(provenance or {}),
            "grid": grid, "rows": rows, "source": source, "latex": dict(latex or {}),
        }  # fmt: skip
        self.__dict__.update(values)

    dataset: xr.Dataset
    model: str
    kind: str
    status: str
    message: str
    params: dict[str, Any]
    stats: dict[str, Any]
    provenance: dict[str, Any]
    grid: PanelGrid | None
    rows: RowStore | AgingRows | None
    latex: dict[str, str]
    source: Any  # what the solver kept for later: answers to further questions, a start for neighbours; not saved

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a result is immutable")

    def with_provenance(
        self, stats: Mapping[str, Any], provenance: Mapping[str, Any], latex: Mapping[str, str] | None = None
    ) -> Result:
        """Return the same result with more said about how it came about, and how its names are written."""
        fields = {**self.__dict__, "stats": {**self.stats, **stats}, "provenance": dict(provenance)}
        fields["latex"] = dict(latex or self.latex)
        return Result(fields.pop("dataset"), **fields)

    def renamed(self, model: str, message: str, case: str) -> Result:
        """Return the same result under the name of the model that chose among several, with its reason."""
        fields = {**self.__dict__, "model": model, "message": message, "stats": {**self.stats, "case": case}}
        return Result(fields.pop("dataset"), **fields)

    def stopped(self, status: str, message: str) -> Result:
        """Return the same result, marked as ending early."""
        fields = {**self.__dict__, "status": status, "message": message}
        return Result(fields.pop("dataset"), **fields)

    @property
    def is_finished(self) -> bool:
        """Whether the solver came to its own end, good or bad; not if it was interrupted or ran out of memory."""
        return self.status not in ("interrupted", "out of memory")

    # --- access ------------------------------------------------------------------------------------------------
    @property
    def names(self) -> tuple[str, ...]:
        """Every value there is."""
        data = self.dataset.data_vars
        return tuple(str(key) for key, entry in data.items() if not _is_auxiliary(str(key)) and ALONG not in entry.attrs)

    def __getitem__(self, name: str) -> xr.DataArray:
        if not isinstance(name, str):
            raise KeyError(f"values of a result are named by texts, got {name!r} (it has: {', '.join(self.names)})")
        if name in self.names:
            return _with_times(self.dataset[name])
        if name in self._coordinates:
            return self.dataset[name]
        has = (*self.names, *self._coordinates)
        raise KeyError(f"the result has no `{name}`{did_you_mean(name, has)} (it has: {', '.join(has)})")

    @property
    def _coordinates(self) -> tuple[str, ...]:
        """What the values depend on: the times; on paths, the random constants and the weights."""
        return tuple(str(key) for key in self.dataset.coords if key not in ("row", "column"))

    @property
    def error(self) -> Errors:
        return Errors(self.dataset)

    def __contains__(self, name: object) -> bool:
        return name in self.names or name in self._coordinates

    def _of_dims(self, *dims: str) -> list[str]:
        return [name for name in self.names if self.dataset[name].dims == dims]

    # --- further questions -----------------------------------------------------------------------------------------
    @checked(name=text)
    def law(self, name: str, *moment: float) -> Distribution:
        """Return the law of a random variable, jointly with the random constants; of a process, at a time."""
        if moment and name in self.dataset and self.dataset[name].dims[-1:] == ("t",) and self.dataset[name].ndim == 2:
            return self._law_of_paths(name, *moment)
        law: Distribution = self._asked("law")(name, *moment)
        return law

    def _law_of_paths(self, name: str, moment: float) -> Distribution:
        """Return the law of a process at a time from the paths kept, jointly with the random constants."""
        from eqsolve.results.distribution import Distribution

        path = self.dataset[name].dims[0]
        values = [self._grid().interpolate(self.dataset[name].values, self._inside(np.array([float(moment)])))[:, 0]]
        names, weights = [name], np.full(self.dataset.sizes[path], 1.0)
        for key, coordinate in self.dataset.coords.items():
            if coordinate.dims == (path,) and str(key).startswith("weight"):
                weights = coordinate.values
            elif coordinate.dims == (path,) and key != path:
                names.append(str(key))
                values.append(coordinate.values)
        return Distribution(tuple(names), np.array(values), weights / weights.sum())

    def expect(self, expr: Any, **values: float) -> tuple[float, float]:
        """Return the mean of an expression in the model's symbols over a fixed point's laws, and its error."""
        found: tuple[float, float] = self._asked("expect")(expr, **values)
        return found

    @checked(parameter=text)
    def derivative(self, what: Any, parameter: str, **values: float) -> Any:
        """Return the total derivative of a value along a parameter.

        Of a dynamics solved with ``derivatives=[parameter]``: a labelled curve (or kernel), its error the coordinate
        ``error``. Of a fixed point or a rate: a number, also of an expectation, and also when it was not asked for before.
        """
        if self.grid is not None or self.source is None:
            found = read_derivative(self, what, parameter)
            if found is not None:
                return found
        return float(self._asked("derivative")(what, parameter, **values))

    def _asked(self, question: str) -> Any:
        answer = getattr(self.source, question, None)
        if answer is None:
            why = "it is a question to a fixed point or a rate"
            if question == "derivative" and self.grid is not None:
                why = "solve with derivatives=[...], naming the parameters"
            elif self.source is None and self.grid is None:
                why = "a result read from a file keeps numbers only; solve again"
            elif question == "law" and self.grid is not None:
                why = "name a random process and a time, such as law('w', 1.0)"
            raise UsageError(f"the result of `{self.model}` ({self.kind}) cannot answer {question}(): {why}")
        return answer

    def between(self, **values: float | Iterable[float]) -> xr.Dataset:
        """Return a sweep's values, with errors, at other values of one axis, such as ``between(alpha=[0.2, 0.3])``.

        The sweep was made with ``derivatives=`` along that axis: cubic pieces go through its points with their slopes. Their
        errors hold what these pieces leave.
        """
        from eqsolve.results.between import between

        return between(self, values)

    # --- evaluation anywhere -------------------------------------------------------------------------------------
    @checked(times=numbers)
    def at(self, times: float | Iterable[float]) -> xr.Dataset:
        """Return every function of one time at other times, by the method's own interpolant."""
        import xarray as xr

        grid = self._grid()
        moments = self._inside(np.asarray(times, dtype=float))
        data: dict[str, Any] = {}
        around = grid.stencil(moments)[0]
        keys = derivative_keys(self.dataset).values()
        curves = [key for key in keys if self.dataset[key].dims in (("t",), ("path", "t"))]
        for name in (*self._of_dims("t"), *self._of_dims("path", "t"), *curves):
            dims = self.dataset[name].dims
            data[name] = (dims, grid.interpolate(self.dataset[name].values, moments), self.dataset[name].attrs)
            if name + _ERROR in self.dataset:  # the largest on the panel, since the interpolant uses all of it
                errors = self.dataset[name + _ERROR].values
                around_here = errors[..., around].max(axis=-1)
                data[name + _ERROR] = (dims, np.where(moments == grid.nodes[0], errors[..., :1], around_here))
        coordinates = {key: value for key, value in self.dataset.coords.items() if value.dims == ("path",)}
        return xr.Dataset(data, coords={"t": moments, **coordinates})

    @checked(pairs=read_pairs)
    def at2(self, pairs: Iterable[tuple[float, float]]) -> xr.Dataset:
        """Return every function of two times at given pairs (t, t'), by the method's own interpolant."""
        import xarray as xr

        points = np.asarray(list(pairs), dtype=float).reshape(-1, 2)
        self._inside(points.ravel())
        data: dict[str, Any] = {}
        for name in self._of_dims("row", "column"):
            data[name] = ("pair", self._two_time(name, points))
            if name + _ERROR in self.dataset:
                data[name + _ERROR] = ("pair", self._two_time_error(name, points))
        return xr.Dataset(data, coords={"t": ("pair", points[:, 0]), "t'": ("pair", points[:, 1])})

    def _two_time(self, name: str, points: Array) -> Array:
        if self.rows is None:
            raise UsageError(f"the result of `{self.model}` holds no two-time functions")
        later, earlier = points.max(axis=1), points.min(axis=1)
        values = self.rows.evaluate(name, np.stack([later, earlier], axis=1))
        if not self.dataset[name].attrs["symmetric"]:
            values[points[:, 0] < points[:, 1]] = 0.0
        return values

    def _two_time_error(self, name: str, points: Array) -> Array:
        nodes, table = self.dataset["row"].values, self.dataset[name + _ERROR].values
        rows, columns = (np.clip(np.searchsorted(nodes, points[:, axis]), 1, len(nodes) - 1) for axis in (0, 1))
        at_start = [points[:, axis] == nodes[0] for axis in (0, 1)]  # what is known there does not mind its neighbours
        rows_after, columns_after = (np.where(start, 0, place) for start, place in zip(at_start, (rows, columns), strict=True))
        corners = np.stack([table[r, c] for r in (rows - 1, rows_after) for c in (columns - 1, columns_after)])
        return np.asarray(corners.max(axis=0))

    def _grid(self) -> PanelGrid:
        if self.grid is None:
            raise UsageError(f"a {self.kind} has no time to evaluate at")
        return self.grid

    def _inside(self, times: Array) -> Array:
        nodes = self._grid().nodes
        slack = 1e-12 * max(1.0, abs(nodes[-1]))
        if times.size and (times.min() < nodes[0] - slack or times.max() > nodes[-1] + slack or np.isnan(times).any()):
            raise UsageError(
                f"time {times.max() if times.max() > nodes[-1] else times.min():g} lies outside the solved range "
                f"[{nodes[0]:g}, {nodes[-1]:g}]; solve with a larger t_max"
            )
        return np.clip(times, nodes[0], nodes[-1])

    # --- output ----------------------------------------------------------------------------------------------------
    @checked(at=numbers, at2=read_pairs)
    def json_object(
        self, at: Iterable[float] | None = None, at2: Iterable[tuple[float, float]] | None = None
    ) -> dict[str, Any]:
        """Return the result as plain numbers and texts, at given times or at the panel ends."""
        made: dict[str, Any] = {"model": self.model, "kind": self.kind, "status": self.status}
        if self.message:
            made["message"] = self.message
        made["params"] = self.params
        if self.kind == "sweep":
            made |= self._sweep_object()
        elif self.grid is not None:
            inside = [t for t in at if t <= self.grid.edges[-1] * (1 + 1e-12)] if at is not None else None
            sampled = self.at(inside if inside is not None else self.grid.edges)
            made["t"] = sampled["t"].values.tolist()
            names = self._of_dims("t")
            made["values"] = {name: _plain(sampled[name].values) for name in names}
            made["errors"] = {name: _plain(sampled[name + _ERROR].values) for name in names}
            made |= self._derivative_object(sampled)
            if at2 is not None and self._of_dims("row", "column"):
                pairs = [pair for pair in at2 if max(pair) <= self.grid.edges[-1] * (1 + 1e-12)]
                kernels = self.at2(pairs)
                names = self._of_dims("row", "column")
                made["two_time"] = {
                    "at": [list(pair) for pair in pairs],
                    "values": {name: _plain(kernels[name].values) for name in names},
                    "errors": {name: _plain(kernels[name + _ERROR].values) for name in names},
                }
        else:
            names = list(self._of_dims())
            made["values"] = {name: _plain(self.dataset[name].values) for name in names}
            made["errors"] = {name: _plain(self.error[name].values) for name in names if name in self.error}
            made |= self._derivative_object(self.dataset)
        made["stats"] = self.stats
        made["provenance"] = {key: value for key, value in self.provenance.items() if key != "source"}
        return made

    def _derivative_object(self, data: xr.Dataset) -> dict[str, Any]:
        """Return the derivatives of the values of one time, or of scalars."""
        keys = derivative_keys(self.dataset)
        shown = {pair: key for pair, key in keys.items() if self.dataset[key].dims in ((), ("t",))}
        return derivative_table(data, shown) if shown else {}

    def _sweep_object(self) -> dict[str, Any]:
        dims = self.dataset["status"].dims
        made: dict[str, Any] = {"axes": {str(dim): self.dataset[dim].values.tolist() for dim in dims}}
        if "t" in self.dataset.coords:
            made["t"] = _plain(self.dataset["t"].values)
        made["values"] = {name: _plain(self.dataset[name].values) for name in self.names}
        made["errors"] = {name: _plain(self.error[name].values) for name in self.names}
        if keys := derivative_keys(self.dataset):
            made |= derivative_table(self.dataset, keys)
        return made | {"points": {key: self.dataset[key].values.tolist() for key in ("status", "message")}}

    def observe(self, expr: Any) -> xr.DataArray:
        """Return any expression in the model's symbols, such as ``C(t, t) / C(0, 0)``; its error is ``["error"]``."""
        from eqsolve.results.observing import observe

        return observe(self, expr)

    @checked(path=read_path)
    def save(self, path: str | os.PathLike[str], *, at: Iterable[float] | None = None) -> None:
        """Write a file, whole or not at all: netCDF, which plain xarray opens too and ``eqsolve.open`` reads back.

        A name ``*.csv``, ``*.parquet`` or ``*.json`` gets a table of values and errors for other programs instead, at the
        times ``at``; ``eqsolve.open`` does not read these.
        """
        if not later("write_table")(self, path, at=at):
            later("save")(self, path)

    def to_dataframe(self, at: Iterable[float] | None = None) -> Any:
        """Return values and errors as a pandas table: over time, at given ones or the nodes; a sweep's axes; or one row."""
        import pandas as pd

        if at is not None and self.grid is not None:
            sampled = self.at(at)
            return sampled[[key for key in sampled.data_vars if sampled[key].dims == ("t",)]].to_dataframe()
        kept = [key for key in self.dataset.data_vars if not str(key).startswith(_ROWS)]
        if self.kind == "sweep":
            return self.dataset[kept].to_dataframe()
        if self.grid is not None:
            return self.dataset[[key for key in kept if self.dataset[key].dims == ("t",)]].to_dataframe()
        return pd.DataFrame([{str(key): self.dataset[key].item() for key in kept if not self.dataset[key].dims}])

    def plot(
        self,
        *names: str,
        ax: Any = None,
        logx: bool | None = None,
        logy: bool | None = None,
        label: str | None = None,
        **style: Any,
    ) -> Any:
        """Draw the result as its kind asks for: curves, a heat map, a law over time, lines or a map of a sweep.

        Parameters
        ----------
        *names
            What to draw; by default every function of time, every value of a sweep.
        ax
            The matplotlib axes to draw on, also those of another result; by default new ones.
        logx, logy
            Whether the axes are logarithmic. By default axes that hold something stay as they are; on new ones time is
            logarithmic if half of all change happens in its first quarter.
        label
            What the legend says; tells several results on the same axes apart.
        **style
            What matplotlib's ``plot`` takes: ``color``, ``linestyle``, ``linewidth``, ``marker``, ``alpha``, ...

        Returns
        -------
        The axes; an array of them where a sweep takes several.
        """
        for name in names:
            text(name, "plot")
        return later("plot_result")(self, names, ax=ax, logx=logx, logy=logy, label=label, **style)

    @checked(name=text, path=read_path, frames=whole(2))
    def animate(self, name: str, path: str | os.PathLike[str] | None = None, *, frames: int = 60) -> Any:
        """Draw the law of a random process as a film in time: written to ``path`` as a GIF, else returned."""
        return later("animate_law")(self, name, path, frames=frames)

    def __repr__(self) -> str:
        seconds = self.stats.get("seconds")
        took = f", {seconds:.3g} s" if isinstance(seconds, float) else ""
        return f"<Result of {self.model!r} ({self.kind}, {self.status}{took}): {', '.join(self.names)}>"

    def _repr_html_(self) -> str:
        from eqsolve.results.html import result_html

        return result_html(self)


def _with_times(array: xr.DataArray) -> xr.DataArray:
    """Name the axes of a kernel t and t'; inside the dataset they are apart from the curves' time."""
    return array.rename(row="t", column="t'") if "row" in array.dims else array


def _is_auxiliary(key: str) -> bool:
    return key.endswith(_ERROR) or key.startswith(_ROWS)


def _plain(values: Array) -> Any:
    return np.asarray(values, dtype=float).tolist()
