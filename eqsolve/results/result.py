"""`Result`: labelled values, each with its error, what was solved, how, and how well."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.arguments import checked, numbers, text, whole
from eqsolve.arguments import pairs as read_pairs
from eqsolve.arguments import path as read_path
from eqsolve.errors import UsageError, demand_known
from eqsolve.numerics.arrays import Array, Lazy, member_name, member_names, special
from eqsolve.numerics.grids import DRAWN, ROWS, PanelGrid, radau
from eqsolve.numerics.rows import AgingRows, RowStore, StepRows
from eqsolve.results.arrays import LabelledArray, LabelledArrays, LazyArray
from eqsolve.results.derivatives import ALONG, between, derivative_keys, derivative_table, read_derivative
from eqsolve.results.distribution import Distribution
from eqsolve.results.observing import observe
from eqsolve.verbs import lazy_import, method

if TYPE_CHECKING:
    import xarray as xr
else:
    xr = Lazy("xarray")

_ON_GRIDS = ("sweep", "diagram")
BOUNDARY = "boundary_"  # before the names of what is told of each point of a boundary
_ERROR = "_error"


class Errors(Mapping[str, "xr.DataArray"]):
    """The error estimates of a result, by the names of its values."""

    def __init__(self, dataset: xr.Dataset, families: Mapping[str, Any] | None = None) -> None:
        self._dataset, self._families = dataset, families or {}

    def __getitem__(self, name: str) -> xr.DataArray:
        if name in self._families:
            return _with_times(stack_family(self._dataset, name, self._families[name], _ERROR))
        demand_known([name], self, "the result has no error of `{}`", "it has those of", KeyError)
        return _with_times(self._dataset[name + _ERROR].rename(name))

    def __contains__(self, name: object) -> bool:
        return f"{name}{_ERROR}" in self._dataset

    def __iter__(self) -> Iterator[str]:
        return (str(key)[: -len(_ERROR)] for key in self._dataset.data_vars if str(key).endswith(_ERROR))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        largest = (f"{name} up to {float(np.fmax.reduce(self._dataset[name + _ERROR].values, None)):.2g}" for name in self)
        return f"<Errors: {', '.join(largest)}>"


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """What a solver found.

    Attributes
    ----------
    dataset
        An ``xarray.Dataset``: every value under its name in the model, its error under ``name_error``.
    kind
        ``"dynamics"``, ``"fixed point"``, ``"singularity"``, ``"sweep"`` or ``"diagram"``.
    status, message
        ``"ok"``, or what was not reached and why.
    params, stats, provenance
        What was set; how much work it took; version, signature, seed and machine.
    latex
        How names are written in pictures and notebooks.
    """

    table: xr.Dataset | LabelledArrays
    _: KW_ONLY
    model: str
    kind: str
    status: str = "ok"
    message: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    grid: PanelGrid | None = None
    rows: RowStore | AgingRows | StepRows | None = None
    latex: dict[str, str] = field(default_factory=dict)
    source: Any = None  # solver state for further evaluation and warm starts; not saved
    # names and sizes of the axes of what carries indices; its members are values: phi_0, phi_1, ...
    families: dict[str, dict[str, int]] = field(default_factory=dict)

    def with_status(self, status: str, message: str) -> Result:
        """Return the same result with another status, and its reason."""
        return replace(self, status=status, message=message)

    @property
    def is_finished(self) -> bool:
        """Whether the solver came to its own end, neither interrupted nor out of memory."""
        return self.status not in ("interrupted", "out of memory")

    # --- access
    @functools.cached_property
    def dataset(self) -> xr.Dataset:
        if not isinstance(self.table, LabelledArrays):
            return self.table
        from eqsolve.results.labelled import labelled

        return labelled(self.table)

    @functools.cached_property
    def variables(self) -> Mapping[str, Any]:
        """Values, errors and derivatives by name, with ``dims``, ``values`` and ``attrs``."""
        entries = self.table.variables if isinstance(self.table, LabelledArrays) else self.table.data_vars
        return {str(key): entry for key, entry in entries.items()}

    @functools.cached_property
    def coords(self) -> Mapping[str, Any]:
        """What the values depend on: times; on paths, random constants and weights."""
        return {str(key): entry for key, entry in self.table.coords.items()}

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """Every value there is."""
        return tuple(key for key, v in self.variables.items() if not key.endswith(_ERROR) and ALONG not in v.attrs)

    @property
    def shown(self) -> tuple[str, ...]:
        """What is printed and drawn by itself: of a flow, only the observables that it declares; of a family, some members."""
        hidden = {*self.provenance.get("derived", ())}
        for name, axes in self.families.items():
            members = np.array(member_names(name, tuple(axes.values())))
            few = np.linspace(0, len(members) - 1, min(len(members), ROWS - 1)).astype(int)  # (colours)
            hidden |= {*np.delete(members, few).tolist()}
        return tuple(name for name in self.names if name not in hidden)

    def __getitem__(self, name: str) -> xr.DataArray:
        if not isinstance(name, str):
            raise KeyError(f"values of a result are named by texts, got {name!r} (it has: {', '.join(self.names)})")
        if name in self.names:
            return _with_times(self.dataset[name])
        if name in self.families:
            return _with_times(stack_family(self.dataset, name, self.families[name]))
        demand_known([name], (*self.names, *self._coordinates), "the result has no `{}`", error=KeyError)
        return self.dataset[name]

    @property
    def _coordinates(self) -> tuple[str, ...]:
        return tuple(key for key in self.coords if key not in ("row", "column"))

    def with_tables(self, axes: Mapping[str, tuple[str, ...]], arrays: Mapping[str, Array]) -> Result:
        """Return the same result with the tables it was found for, as coordinates over their indices."""
        named: dict[str, Any] = {}
        for name, dims in axes.items():
            apart = tuple(axis + "'" * dims[:place].count(axis) for place, axis in enumerate(dims))
            named[name] = (apart, arrays[name], {"table": 1})
        if not isinstance(self.table, LabelledArrays):
            return replace(self, table=self.table.assign_coords(named))
        coords = {**self.table.coords, **{name: LabelledArray(*item) for name, item in named.items()}}
        return replace(self, table=replace(self.table, coords=coords))

    @property
    def tables(self) -> dict[str, tuple[str, ...]]:
        """The indices of the tables that it was found for."""
        return {key: tuple(map(str, item.dims)) for key, item in self.coords.items() if "table" in item.attrs}

    @property
    def error(self) -> Errors:
        return Errors(self.dataset, self.families)

    def __contains__(self, name: object) -> bool:
        return name in self.names or name in self.families or name in self._coordinates

    def _of_dims(self, *dims: str) -> list[str]:
        return [name for name in self.names if self.variables[name].dims == dims]

    # --- further questions
    @checked(name=text)
    def law(self, name: str, *moment: float) -> Distribution:
        """Return the law of a random variable, jointly with the random constants; of a process, at a time."""
        data = self.dataset
        if not (moment and name in data and data[name].dims[-1:] == ("t",) and data[name].ndim == 2):
            return self._asked("law")(name, *moment)
        path = data[name].dims[0]
        along = {str(key): c.values for key, c in data.coords.items() if c.dims == (path,) and key != path}
        weights = [along.pop(key) for key in [*along] if key.startswith("weight")]
        mass, parts = weights[-1] if weights else np.ones(data.sizes[path]), self._laws_at(*moment)
        values = [self._grid().interpolate(data[name].values, np.array([node]))[:, 0] for node, _ in parts]
        table = np.array([np.concatenate(values), *(np.tile(column, len(parts)) for column in along.values())])
        return Distribution((name, *along), table, np.concatenate([share * mass for _, share in parts]))

    def _laws_at(self, moment: float) -> list[tuple[float, float]]:
        """Return the nodes, with shares, whose laws are mixed: rough paths are not interpolated."""
        grid, time = self._grid(), self._inside(np.array([moment], dtype=float))
        if not grid.width or time[0] in grid.nodes:
            return [(float(time[0]), 1.0)]
        (columns,), (shares,) = PanelGrid(grid.edges, grid.order).stencil(time)
        return list(zip(grid.nodes[columns].tolist(), shares.tolist(), strict=True))

    def expect(self, expr: Any, **values: float) -> tuple[float, float]:
        """Return the mean of an expression in the model's symbols over a fixed point's laws, and its error."""
        return self._asked("expect")(expr, **values)

    @checked(parameter=text)
    def derivative(self, what: Any, parameter: str, **values: float) -> Any:
        """Return the total derivative of a value along a parameter.

        Of a dynamics solved with ``derivatives=[parameter]``: a labelled curve (or kernel), its error the coordinate
        ``error``. Of a fixed point or a rate: a number, also of an expectation, and also when it was not asked for before.
        Of a family: an axis for each index in front.
        """
        if axes := self.families.get(what):
            names = member_names(what, (*axes.values(),))
            return stack_family({name: xr.DataArray(self.derivative(name, parameter, **values)) for name in names}, what, axes)
        stored = self.grid is not None or self.source is None
        if stored and (known := read_derivative(self, what, parameter)) is not None:
            return known
        return float(self._asked("derivative")(what, parameter, **values))

    def _asked(self, question: str) -> Any:
        if (answer := getattr(self.source, question, None)) is not None:
            return answer
        why = "it is a question to a fixed point or a rate"
        if question == "derivative" and self.grid is not None:
            why = "solve with derivatives=[...], naming the parameters"
        elif self.source is None and self.grid is None:
            why = "a result read from a file keeps numbers only; solve again, what has indices with precision=16"
        elif question == "law" and self.grid is not None:
            why = "name a random process and a time, such as law('w', 1.0)"
        raise UsageError(f"the result of `{self.model}` ({self.kind}) does not support {question}(): {why}")

    def between(self, **values: float | Iterable[float]) -> xr.Dataset:
        """Return a sweep's values, with errors, at other values of one axis, such as ``between(alpha=[0.2, 0.3])``.

        The sweep was made with ``derivatives=`` along that axis: cubic pieces go through its points with their slopes. Their
        errors hold what these pieces leave.
        """
        return between(self, values)

    # --- evaluation anywhere
    @checked(times=numbers)
    def at(self, times: float | Iterable[float]) -> xr.Dataset:
        """Return every function of one time at other times, by the method's own interpolant."""
        sampled = self._at(times, *(v.dims for v in self.variables.values() if v.dims[-1:] == ("t",)))
        data = {name: (v.dims, v.values, v.attrs) for name, v in sampled.items() if name != "t"}
        paths = {key: c for key, c in self.dataset.coords.items() if c.ndim == 1 and c.dims[0].startswith("path")}
        return self._with_families(xr.Dataset(data, coords={"t": sampled["t"].values, **paths}))

    def _with_families(self, data: xr.Dataset) -> xr.Dataset:
        for name, axes in self.families.items():
            for end in ("", _ERROR):
                if all(item + end in data for item in member_names(name, tuple(axes.values()))):
                    data = data.assign({name + end: stack_family(data, name, axes, end)})
        return data

    def _at(self, times: float | Iterable[float], *axes: tuple[str, ...]) -> dict[str, LabelledArray]:
        """Return what has some axes at other times, with errors and derivatives; and the times."""
        grid, every = self._grid(), self.variables
        moments = self._inside(np.asarray(times, dtype=float))
        data = {"t": LabelledArray(("t",), moments)}
        around = grid.stencil(moments)[0]
        for name in (*self.names, *derivative_keys(every).values()):
            dims = every[name].dims
            if dims not in axes:
                continue
            values = grid.interpolate(every[name].values, moments)
            data[name] = LabelledArray(dims, values, every[name].attrs)
            if name + _ERROR in every:  # the largest on the panel, since the interpolant uses all of it
                errors = every[name + _ERROR].values
                largest = errors[..., around].max(axis=-1)
                at_start = moments == grid.nodes[0]
                data[name + _ERROR] = LabelledArray(dims, np.where(at_start, errors[..., :1], largest))
        return data

    @checked(pairs=read_pairs)
    def at2(self, pairs: Iterable[tuple[float, float]]) -> xr.Dataset:
        """Return every function of two times at given pairs (t, t'), by the method's own interpolant."""
        points = np.asarray(list(pairs), dtype=float).reshape(-1, 2)
        self._inside(points.ravel())
        names = self._of_dims("row", "column")
        data = {name: ("pair", self._two_time(name, points)) for name in names}
        known = [name for name in names if name + _ERROR in self.dataset]
        data |= {name + _ERROR: ("pair", self._two_time_error(name, points)) for name in known}
        coords = {"t": ("pair", points[:, 0]), "t'": ("pair", points[:, 1])}
        return self._with_families(xr.Dataset(data, coords=coords))

    def _two_time(self, name: str, points: Array) -> Array:
        if self.rows is None:
            raise UsageError(f"the result of `{self.model}` holds no two-time functions")
        values = self.rows.evaluate(name, -np.sort(-points, axis=1))
        early = points[:, 0] < points[:, 1]
        if not self.dataset[name].attrs["symmetric"]:
            values[early] = 0.0
        elif early.any() and (other := self._transposed(name)) != name:
            values[early] = self.rows.evaluate(other, points[early, ::-1])
        return values

    def _transposed(self, name: str) -> str:
        """Return the function that is this one with its times exchanged: of members k, l of a family that of l, k."""
        for base, axes in self.families.items():
            shape = (*axes.values(),)
            if len(shape) == 2 and name in (names := member_names(base, shape)):
                swapped = np.unravel_index(names.index(name), shape)[::-1]
                return member_name(base, swapped) if shape[0] == shape[1] else name
        return name

    def _two_time_error(self, name: str, points: Array) -> Array:
        nodes, table = self.dataset["row"].values, self.dataset[name + _ERROR].values
        after = np.clip(np.searchsorted(nodes, points), 1, len(nodes) - 1)
        ends = after - 1, np.where(points == nodes[0], 0, after)  # what is known at the start does not mind its neighbours
        corners = [table[rows[:, 0], columns[:, 1]] for rows in ends for columns in ends]
        between = self.rows.error(name, -np.sort(-points, axis=1)) if isinstance(self.rows, RowStore | StepRows) else 0.0
        return np.asarray(np.max(corners, axis=0) + between)

    def _grid(self) -> PanelGrid:
        if self.grid is None:
            raise UsageError(f"a {self.kind} has no time to evaluate at")
        return self.grid

    def _inside(self, times: Array) -> Array:
        first, last = self._grid().nodes[[0, -1]]
        slack = 1e-12 * max(1.0, abs(last))
        if not np.all((times >= first - slack) & (times <= last + slack)):
            bad = times.max() if times.max() > last else times.min()
            raise UsageError(f"time {bad:g} lies outside the solved range [{first:g}, {last:g}]; solve with a larger t_max")
        return np.clip(times, first, last)

    # --- output
    @checked(at=numbers, at2=read_pairs)
    def json_object(
        self, at: Iterable[float] | None = None, at2: Iterable[tuple[float, float]] | None = None, *, nested: bool = True
    ) -> dict[str, Any]:
        """Return the result as plain numbers and texts, at given times or at the panel ends; families are ``nested`` lists."""
        plain: dict[str, Any] = {"model": self.model, "kind": self.kind, "status": self.status}
        if self.message:
            plain["message"] = self.message
        plain["params"] = self.params
        if self.kind in _ON_GRIDS:
            plain |= self._grid_object()
        elif self.grid is not None:
            last = self.grid.edges[-1] * (1 + 1e-12)
            sampled = self._at(self.grid.edges if at is None else [t for t in at if t <= last], ("t",))
            plain["t"] = sampled["t"].values.tolist()
            plain |= values_and_errors(sampled, self._of_dims("t")) | self._derivative_object(sampled)
            if at2 is not None and self._of_dims("row", "column"):
                pairs = [pair for pair in at2 if max(pair) <= last]
                kernels = values_and_errors(self.at2(pairs), self._of_dims("row", "column"))
                plain["two_time"] = {"at": [list(pair) for pair in pairs], **kernels}
        else:
            plain |= values_and_errors(self.variables, self._of_dims()) | self._derivative_object(self.variables)
        for part in ("values", "errors") if nested else ():
            for name, axes in self.families.items():
                shape = tuple(axes.values())
                rows = [plain[part].pop(key) for key in member_names(name, shape) if key in plain[part]]
                if rows:
                    plain[part][name] = np.array(rows).reshape(*shape, *np.shape(rows[0])).tolist()
        plain["stats"] = self.stats
        plain["provenance"] = {key: v for key, v in self.provenance.items() if key != "source"}
        return plain

    def _derivative_object(self, data: Mapping[str, Any]) -> dict[str, Any]:
        keys = derivative_keys(self.variables)
        shown = {pair: key for pair, key in keys.items() if self.variables[key].dims in ((), ("t",))}
        return derivative_table(data, shown) if shown else {}

    def _grid_object(self) -> dict[str, Any]:
        data = self.dataset
        plain: dict[str, Any] = {"axes": {str(dim): data[dim].values.tolist() for dim in data["status"].dims}}
        plain |= {"t": _plain(data["t"].values)} if "t" in data.coords else {}
        plain |= values_and_errors(data, self.names)
        keys = derivative_keys(self.variables)
        plain |= derivative_table(data, keys) if keys else {}
        return plain | {"points": {key: data[key].values.tolist() for key in ("status", "message")}}

    def observe(self, expr: Any) -> xr.DataArray:
        """Return any expression in the model's symbols, such as ``C(t, t) / C(0, 0)``; its error is ``["error"]``.

        It is tabulated on the nodes of its times; errors are propagated to first order. A
        mean over paths whose own error is not known has the error nan: declare such a mean in ``observables=`` to have it
        controlled by the solver.
        """
        return observe(self, expr)

    @checked(path=read_path)
    def save(self, path: str | os.PathLike[str], *, at: Iterable[float] | None = None) -> None:
        """Write a file, whole or not at all: netCDF, which plain xarray opens too and ``eqsolve.open`` reads back.

        A name ``*.csv``, ``*.parquet`` or ``*.json`` gets a table of values and errors for other programs instead, at the
        times ``at``; ``eqsolve.open`` does not read these.
        """
        if not lazy_import("write_table")(self, path, at=at):
            lazy_import("save")(self, path)

    def to_dataframe(self, at: Iterable[float] | None = None) -> Any:
        """Return values and errors as a pandas table: over time, at given ones or the nodes; a sweep's axes; or one row."""
        import pandas as pd

        data = self.dataset if at is None or self.grid is None else self.at(at)
        if self.kind in _ON_GRIDS or self.grid is not None:
            columns = [key for key, item in data.data_vars.items() if self.kind in _ON_GRIDS or item.dims == ("t",)]
            return data[columns].to_dataframe()
        return pd.DataFrame([{str(key): item.item() for key, item in data.data_vars.items() if not item.dims}])

    def plot(
        self, *names: str, ax: Any = None, logx: bool | None = None, logy: bool | None = None,
        label: str | None = None, **style: Any,
    ) -> Any:  # fmt: skip
        """Draw the result as its kind asks for: curves, a heat map, a law over time, lines or a map of a sweep.

        Parameters
        ----------
        *names
            What to draw; by default what is ``shown``: functions of time, values of a sweep.
        ax
            The matplotlib axes to draw on, also those of another result; by default new ones.
        logx, logy
            Whether the axes are logarithmic. By default axes that hold something stay as they are; on new ones time is
            logarithmic if half of all change happens in its first quarter.
        label
            What the legend says; tells several results on the same axes apart.
        **style
            Of a sweep: ``kind="map"`` or ``"lines"``, ``at=`` the time (else the last), ``x=`` the parameter on the x axis.
            Else what matplotlib's ``plot`` takes: ``color``, ``linestyle``, ``linewidth``, ``marker``, ``alpha``, ...

        Returns
        -------
        The axes; an array of them where a sweep takes several.
        """
        for name in names:
            text(name, "plot")
        return lazy_import("plot_result")(self, names, ax=ax, logx=logx, logy=logy, label=label, **style)

    def slider(self, *names: str, **ways: Any) -> Any:
        """Draw a sweep at all its times, as a picture with a slider of time for notebooks and web pages.

        ``ways`` are those of ``plot``. What is returned shows itself in a notebook; its ``save("times.html")`` writes a page.
        """
        return lazy_import("slide_sweep")(self, names, **ways)

    @checked(name=text, path=read_path, frames=whole(2))
    def animate(self, name: str, path: str | os.PathLike[str] | None = None, *, frames: int = 60) -> Any:
        """Draw the law of a random process as a film in time: written to ``path`` as a GIF, else returned."""
        return lazy_import("animate_law")(self, name, path, frames=frames)

    def __repr__(self) -> str:
        seconds = self.stats.get("seconds")
        took = f", {seconds:.3g} s" if isinstance(seconds, float) else ""
        sizes = self.dataset.sizes if self.kind in _ON_GRIDS else {}
        over = " over " * bool(sizes) + ", ".join(f"{dim} ({size})" for dim, size in sizes.items())
        what = f"{self.kind}, {self.status}{took}"
        return f"<Result of {self.model!r} ({what}): {', '.join(self.names)}{over}>"

    _repr_html_ = method("result_html")


class PhaseDiagram(Result):
    """What the long run is over one or two parameters: values over the axes, as of a sweep.

    ``diagram["class"]`` is the class of each point, ``diagram["message"]`` its reason.
    """

    @property
    def classes(self) -> xr.DataArray:
        """The class of each point."""
        return self["class"]

    @property
    def boundaries(self) -> xr.Dataset:
        """The points of all boundaries: their places, ``error``, ``along`` and ``kind``.

        The kind is ``stability`` or ``lyapunov``, which is zero there, or what a fixed point does:
        ``grows`` without bound, ``vanishes``, ``ends``. The error is that along one axis.
        """
        short = {key: key.removeprefix(BOUNDARY) for key in self.coords if key.startswith(BOUNDARY)}
        return self.dataset.reset_coords()[[*short]].rename(short)

    def _grid_object(self) -> dict[str, Any]:
        plain = super()._grid_object()
        plain["points"]["class"] = self.classes.values.tolist()
        plain["boundaries"] = {str(key): c.values.tolist() for key, c in self.boundaries.items()}
        return plain


def stack_family(data: Mapping[Any, xr.DataArray], name: str, axes: Mapping[str, int], end: str = "") -> xr.DataArray:
    """Return the members of a family as one array, an axis for each index in front."""
    members = [data[member + end] for member in member_names(name, tuple(axes.values()))]
    dims, shape = (*axes, *members[0].dims), (*axes.values(), *members[0].shape)
    coords: dict[str, Any] = {str(key): (c.dims, c.values) for key, c in members[0].coords.items()}
    coords |= {axis: np.arange(size) for axis, size in axes.items()}
    if "error" in coords:  # every member has its own
        coords["error"] = (dims, np.stack([one["error"].values for one in members]).reshape(shape))
    return xr.DataArray(np.stack([one.values for one in members]).reshape(shape), coords, dims, name)


def _with_times(array: xr.DataArray) -> xr.DataArray:
    """Name the axes of a kernel t and t'; inside the dataset they are apart from the curves' time."""
    return array.rename(row="t", column="t'") if "row" in array.dims else array


def values_and_errors(data: Mapping[Any, Any], names: Iterable[str]) -> dict[str, Any]:
    both = {"values": {name: name for name in names}, "errors": {name: name + _ERROR for name in names}}
    return {part: {name: _plain(data[key].values) for name, key in keys.items() if key in data} for part, keys in both.items()}


def _plain(values: Array) -> Any:
    return np.asarray(values, dtype=float).tolist()


# --- Curves, kernels and paths with their errors as the result of a solve in time, for all solvers.


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
    rows: RowStore | AgingRows | StepRows | None = None, paths: Sequence[PathSet] = (),
    failure: tuple[str, str] | None = None, source: Any = None,
) -> Result:  # fmt: skip
    """Return the result of a solve in time.

    ``times`` are those of the kernels, the grid's by default; ``failure`` is a status and its reason; ``source`` is what the
    solver hands on to a solve at neighbouring parameters.
    """
    data: dict[str, LabelledArray] = {}
    coordinates = {"t": LabelledArray(("t",), grid.nodes)}

    def put(dims: tuple[str, ...], name: str, values: Any, error: Any, **marks: Any) -> None:
        data[name], data[name + _ERROR] = LabelledArray(dims, values, marks), LabelledArray(dims, error)

    for name, values in curves.items():
        put(("t",), name, values, errors[name])
    if kernels:
        nodes, pair = grid.nodes if times is None else times, ("row", "column")
        coordinates |= {axis: LabelledArray((axis,), nodes) for axis in pair}
        for name, kernel in kernels.items():
            put(pair, name, kernel.values, kernel.errors, symmetric=int(kernel.symmetric))
    for place, item in enumerate(paths):
        suffix = "" if place == 0 else f"_{place + 1}"
        path = "path" + suffix
        coordinates["weight" + suffix] = LabelledArray((path,), item.weights)
        coordinates |= {name: LabelledArray((path,), values) for name, values in item.constants.items()}
        data |= {name: LabelledArray((path, "t"), values) for name, values in item.values.items()}
        data |= {name + "_error": LabelledArray((path, "t"), values) for name, values in item.errors.items()}
    result = Result(
        LabelledArrays(data, coordinates), model=model, kind="dynamics", params=dict(params), stats=dict(stats), grid=grid,
        rows=rows, source=source,
    )  # fmt: skip
    return result if failure is None else result.with_status(*failure)


# --- A stationary state: correlations and responses over the lag τ, numbers, spectra.


@dataclass(frozen=True, eq=False, repr=False)
class Stationary(Result):
    """A stationary state: functions of the lag ``tau``, and numbers, each with its error.

    ``status`` is ``"still"`` where nothing moves, ``"fluctuating"``, ``"not found"``, with the reason in ``message``, or
    ``"tolerance not met"``.
    """

    def __getitem__(self, name: str) -> xr.DataArray:
        array = super().__getitem__("t" if name == "tau" else name)
        return array.rename(t="tau") if "t" in array.dims else array

    @checked(lags=numbers)
    def at(self, lags: float | Iterable[float]) -> xr.Dataset:
        """Return every function of the lag at other lags, by the method's own interpolant."""
        return super().at(lags).rename(t="tau")

    @property
    def settled(self) -> float:
        """The lag at which all that is left of every correlation is a thousandth of its height."""
        nodes, last = self._grid().nodes, 0
        for name in self._of_dims("t"):
            values = self.variables[name].values
            moving = np.abs(values - values[-1]) > 1e-3 * np.abs(values).max()
            last = max(last, *np.flatnonzero(moving), 0)
        return float(nodes[min(last + 1, len(nodes) - 1)]) if last else float(nodes[-1])

    def lyapunov(self) -> tuple[float, float]:
        """Return the largest Lyapunov exponent and its error: the rate at which two copies near each other come apart.

        The copies have the same couplings and the same external noise. It is negative where they come together.
        """
        if self.source is None:
            why = "it was not found" if self.grid is None else "a result read from a file keeps numbers only; find it again"
            raise UsageError(f"the stationary state of `{self.model}` cannot answer lyapunov(): {why}")
        value, error = self.source.lyapunov()
        return value, error

    @checked(name=text, omega=numbers)
    def spectrum(self, name: str, omega: float | Iterable[float] | None = None) -> xr.DataArray:
        """Return the power spectrum S(ω) = ∫ (C(τ) − C(∞)) cos ωτ dτ over all τ; its error is the coordinate ``error``.

        Parameters
        ----------
        name
            A correlation.
        omega
            Angular frequencies; by default 200 from 0 to where the spectrum has fallen.
        """
        demand_known([name], self._of_dims("t"), "`{}` is no function of the lag", "there are")
        values, grid = self.variables[name].values, self._grid()
        around, step = values - values[-1], self.stats.get("step")
        if omega is None:
            half = grid.nodes[np.argmax(np.abs(around) < 0.5 * abs(around[0]))] if around[0] else 1.0
            omega = np.linspace(0.0, 12 / max(float(half), 1e-300), DRAWN)
        at = np.asarray(omega, float)
        error = np.full(len(at), cosines(grid, self.variables[f"{name}_error"].values, np.zeros(1), step)[0])
        coords = {"omega": at, "error": ("omega", error)}
        return xr.DataArray(cosines(grid, around, at, step), coords, ("omega",), name, {"static": values[-1]})

    def json_object(self, at: Any = None, at2: Any = None, *, nested: bool = True, lyapunov: Any = None) -> dict[str, Any]:
        """Return the result as plain numbers and texts, over given lags or the panel ends, with what ``lyapunov()`` gave."""
        if at2 is not None:
            raise UsageError(f"the result of `{self.model}` holds no two-time functions")
        plain = super().json_object(at=at, nested=nested)
        if lyapunov is not None:
            plain["lyapunov"], plain["lyapunov_error"] = lyapunov
        if "t" in plain:
            single = values_and_errors(self.variables, self._of_dims())
            plain = {("tau" if key == "t" else key): value for key, value in plain.items()}
            plain |= {"numbers": single["values"], "number_errors": single["errors"]}
        return plain


def cosines(grid: PanelGrid, values: Array, omega: Array, step: float | None) -> Array:
    """Return ∫ f(|τ|) cos ωτ dτ of a function on the panels, exactly for what their polynomials are; or the sum over steps.

    Filon's quadrature in Legendre polynomials, whose transforms are spherical Bessel functions
    (Bakhvalov & Vasil'eva, USSR Comput. Math. Math. Phys. 8, 241 (1968)).
    """
    if step is not None:
        weights = np.where(np.arange(len(values)) > 0, 2.0, 1.0) * step
        return np.asarray(np.cos(np.multiply.outer(omega, grid.nodes)) @ (weights * values))
    halves, middles = np.diff(grid.edges) / 2, (grid.edges[1:] + grid.edges[:-1]) / 2
    columns = np.arange(grid.panels)[:, None] * grid.order + np.arange(grid.order + 1)
    coefficients = values[columns] @ radau(grid.order).legendre.T  # of Legendre polynomials
    phase, total = np.multiply.outer(omega, middles), np.zeros(len(omega))
    for degree in range(grid.order + 1):  # ∫ P_k(x) e^{iax} dx = 2 i^k j_k(a)
        bessel = 2 * special.spherical_jn(degree, np.multiply.outer(omega, halves)) * halves
        total += (bessel * np.cos(phase + degree * np.pi / 2)) @ coefficients[:, degree]
    return 2 * total
