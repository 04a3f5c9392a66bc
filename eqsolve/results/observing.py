"""Expressions in a model's symbols, evaluated on its result; errors are propagated to first order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sympy import Basic, Expr, Float, Symbol, SympifyError, sympify
from sympy.core.function import Derivative

from eqsolve.compile.lowering import lower
from eqsolve.errors import ParameterError, UsageError, demand_known
from eqsolve.language.binding import moment, read_value
from eqsolve.language.laws import Law
from eqsolve.language.nodes import E, Int, InverseValue, Resp
from eqsolve.language.symbols import Head, Parameter, Process, Random, Time, Unknown, Value
from eqsolve.numerics.arrays import Array, Lazy, member_name
from eqsolve.numerics.grids import PanelGrid, lagrange_integrals, radau
from eqsolve.passes.forms.expressions import outermost

if TYPE_CHECKING:
    import xarray as xr

    from eqsolve.results.result import Result
else:
    xr = Lazy("xarray")

_ERROR = "_error"
Part = tuple[Array, Array]  # value and error of a part of an expression, over the times of the whole


@dataclass(frozen=True)
class _Evaluation:
    """One expression's times, laid out over the nodes; ``moments`` are the axes in order."""

    result: Result
    grid: PanelGrid | None
    moments: tuple[Basic, ...]

    # --- combining
    def part(self, expr: Expr) -> Part:
        """Evaluate an expression: its nodes first, then the function of them, pointwise."""
        for node in expr.atoms(Resp, InverseValue, Derivative):
            raise UsageError(f"`{node}` cannot be evaluated afterwards; declare it in observables= and solve again")
        if loose := [it for it in expr.free_symbols - set(self.moments) if type(it) is Symbol]:
            raise UsageError(f"`{loose[0]}` is a plain sympy symbol that nothing defines; take it from model.symbols(...)")
        nodes, function = _lowered(expr)
        return combine(function, [self.node(node) for node in nodes])

    def node(self, node: Basic) -> Part:
        match node:
            case E():
                return self.mean(node)
            case Int():
                return self.integral(node)
            case Value() if not isinstance(node.head, Process):
                return self.value(node)
            case Unknown():
                return self._named(node.name, ())
            case Time():
                return self.times(node), np.zeros(())
        raise UsageError(f"`{node}` is random: write its mean, E(...)")

    def times(self, moment: Basic) -> Array:
        """Return a time over the axes of the expression."""
        if moment in self.moments:
            assert self.grid is not None
            shape = [1] * len(self.moments)
            shape[self.moments.index(moment)] = -1
            return self.grid.nodes.reshape(shape)
        if moment.is_number:
            return np.array(float(moment))
        raise UsageError(f"a time in the expression must be a plain time or a number, got `{moment}`")

    # --- nodes
    def value(self, item: Value) -> Part:
        head = item.head
        if head.arity == 1:
            times, whole = self.times(item.moments[0]), self._named(head.name, ("t",))
            if times.size > 1:
                return _reshaped(whole, times.shape)
            sampled = self.result.at(float(times))
            return sampled[head.name].values[0], sampled[head.name + _ERROR].values[0]
        self._named(head.name, ("row", "column"))
        first, second = np.broadcast_arrays(*[self.times(moment) for moment in item.moments])
        pairs = np.stack([first.ravel(), second.ravel()], axis=1)
        self.result._inside(pairs.ravel())
        part = self.result._two_time(head.name, pairs), self.result._two_time_error(head.name, pairs)
        return _reshaped(part, first.shape)

    def _named(self, name: str, dims: tuple[str, ...]) -> Part:
        data = self.result.dataset
        known = [item for item in self.result.names if data[item].dims == dims]
        demand_known([name], known, f"the result of `{self.result.model}` has no `{{}}`")
        error = data[name + _ERROR].values if name + _ERROR in data else np.full(data[name].shape, np.nan)
        return data[name].values, error

    def integral(self, item: Int) -> Part:
        """Integrate a function of one time from the start, by the panels' own rule."""
        grid = self.result._grid()
        begin = grid.edges[0]
        if float(self.times(item.low).min()) != begin or self.times(item.low).size > 1:
            raise UsageError(f"`{item}` cannot be evaluated afterwards: an integral from {begin:g} to a time can")
        inner = _Evaluation(self.result, grid, (item.variable,)).part(item.integrand)
        values, errors = (np.broadcast_to(entry, grid.nodes.shape) for entry in inner)
        value, other = integrate(grid, values)
        whole = value, integrate(grid, errors)[0] + np.abs(value - other)
        until = self.times(item.high)
        if until.size > 1:
            return _reshaped(whole, until.shape)
        moment = self.result._inside(until.reshape(1))
        return grid.interpolate(whole[0], moment)[0], grid.interpolate(whole[1], moment)[0]

    def mean(self, item: E) -> Part:
        """Average over the paths of the result, or over the law of random constants."""
        body = item.argument
        processes = [node for node in body.atoms(Value) if isinstance(node.head, Process)]
        if not processes:
            return self._mean_of_constants(body)
        data = self.result.dataset
        for node in processes:
            if node.head.name not in data or data[node.head.name].dims != ("path", "t"):
                raise UsageError(
                    f"the result of `{self.result.model}` keeps no paths of `{node.head.name}`; declare "
                    f"`{item}` in observables= and solve again"
                )
        for time in {node.moments[0] for node in processes if node.moments[0].is_number}:
            if len(law := self.result._laws_at(float(time))) > 1:
                parts = [self.mean(E(body.xreplace({time: Float(node, 17)}))) for node, _ in law]
                return combine(lambda *means, law=law: sum(w * m for m, (_, w) in zip(means, law, strict=True)), parts)
        nodes, function = _lowered(body)
        weights = data["weight"].values
        rows = self.grid.size if len(self.moments) == 2 and self.grid is not None else 1
        parts = [self._path_parts(node) for node in nodes]
        means = []
        for row in range(rows):  # one row at a time, or paths × times × times would be held at once
            inner = combine(function, [(_row(value, row, rows), _row(error, row, rows)) for value, error in parts])
            spread = (np.broadcast_to(entry, (len(weights), *entry.shape[1:])) for entry in inner)
            means.append([np.tensordot(weights, entry, axes=1) for entry in spread])
        value, error = map(np.concatenate, zip(*means, strict=True)) if rows > 1 else means[0]
        with contextlib.suppress(ParameterError):  # a law that has no text form
            laws = [_law(text) for text in self.result.params.values() if isinstance(text, str)]
            if not any(law.numeric().has_density for law in laws):
                return value, error
        return value, np.full_like(value, np.nan)

    def _path_parts(self, node: Basic) -> Part:
        data = self.result.dataset
        lift = (slice(None), *(None,) * len(self.moments))
        if isinstance(node, Random):
            if node.name not in data.coords:
                raise UsageError(f"the paths of the result of `{self.result.model}` do not contain `{node.name}`")
            return data[node.name].values[lift], np.zeros(())
        if isinstance(node, Value) and isinstance(node.head, Process):
            times, whole = self.times(node.moments[0]), self._named(node.head.name, ("path", "t"))
            if times.size > 1:
                return _reshaped(whole, (len(whole[0]), *times.shape))
            moment, grid = self.result._inside(times.reshape(1)), self.result._grid()
            value, error = (grid.interpolate(entry, moment)[:, 0][lift] for entry in whole)
            return value, error
        value, error = self.node(node)
        return np.asarray(value)[None], np.asarray(error)[None]

    def _mean_of_constants(self, body: Expr) -> Part:
        if body.has(Value, Unknown, Time):
            raise UsageError(f"`E({body})` contains times and constants: move factors that are not random out of it")
        laws: dict[Random, Law] = {}
        for item in body.atoms(Random):
            if not isinstance(self.result.params.get(item.name), str):
                raise UsageError(f"the result of `{self.result.model}` does not tell the law of `{item.name}`")
            laws[item] = _law(self.result.params[item.name])
        fine, rough = (moment(body, laws, order) for order in (200, 100))
        return np.array(fine), np.array(abs(fine - rough) + 1e-15 * abs(fine))


def _lowered(expr: Expr) -> tuple[list[Any], Callable[..., Any]]:
    nodes = outermost(expr, E, Int, Value, Unknown, Random, Time)
    function = lower([expr], nodes)
    return nodes, lambda *values: function(*values)[0]


def _reshaped(part: Part, shape: tuple[int, ...]) -> Part:
    return part[0].reshape(shape), part[1].reshape(shape)


def combine(function: Callable[..., Any], parts: list[Part]) -> Part:
    """Return a function of values, and how far it moves when each of them moves by its error."""
    values = [value for value, _ in parts]
    with np.errstate(all="ignore"):
        centre = np.asarray(function(*values), dtype=float)
        total = np.zeros_like(centre)
        for index, (value, error) in enumerate(parts):
            if np.any(error):  # (nan counts)
                ends = (function(*values[:index], value + sign * error, *values[index + 1 :]) for sign in (1, -1))
                total = total + np.maximum(*(np.abs(end - centre) for end in ends))
    return centre, total


def integrate(grid: PanelGrid, values: Array) -> tuple[Array, Array]:
    """Return the integral up to every node, by the rule of the nodes and by that with the left end."""
    rule, nodes = radau(grid.order).integrals, radau(grid.order).with_start
    columns = np.arange(grid.panels)[:, None] * grid.order + np.arange(grid.order + 1)

    def cumulated(weights: Array) -> Array:
        panels = values[columns] @ weights.T * np.diff(grid.edges)[:, None]
        panels[1:] += np.cumsum(panels[:-1, -1])[:, None]
        return np.append(0.0, panels)

    return cumulated(np.pad(rule, ((0, 0), (1, 0)))), cumulated(lagrange_integrals(nodes, nodes[1:]))


def _law(text: Any) -> Law:
    law = read_value(text, what="the law of a saved result")
    assert isinstance(law, Law)
    return law


def _row(values: Array, row: int, rows: int) -> Array:
    """Take one row of the first time, if there are several; axes: paths, then both times."""
    return values[:, row : row + 1] if rows > 1 and values.ndim == 3 and values.shape[1] > 1 else values


def observe(result: Result, expr: Any) -> xr.DataArray:
    """Return an expression on the nodes of its times, its error as the coordinate ``error``."""
    if isinstance(expr, str):
        raise UsageError(f"observe takes an expression such as C(t, t) + 1, not text; by name there is result[{expr!r}]")
    whole = None
    with contextlib.suppress(SympifyError):
        whole = sympify(expr, strict=True)
    if not isinstance(whole, Expr):
        raise UsageError(f"observe takes an expression in the model's symbols, got {type(expr).__name__}")
    known = {name: Float(value, 17) for name, value in result.params.items() if isinstance(value, int | float)}
    used = sorted(whole.atoms(Parameter), key=str)
    demand_known([item.name for item in used], known, f"the result of `{result.model}` has no parameter `{{}}`")
    bound = whole.xreplace({item: known[item.name] for item in used})
    members = [head for head in bound.atoms(Head) if head.indices]
    if several := [head for head in members if not all(entry.is_Integer for entry in head.indices)]:
        head, one = several[0], f"{several[0].base}[{', '.join('0' * len(several[0].indices))}]"
        raise UsageError(f"`{head}` is many values: write the member, such as `{one}`, or take result[{head.base!r}]")
    bound = bound.xreplace({head: type(head)(member_name(head.base, head.indices), head.latex_name) for head in members})
    free = [time for time in bound.free_symbols if isinstance(time, Time)]
    moments = sorted(free, key=lambda time: (time.name.count("'"), time.name))
    if len(moments) > 2:
        raise UsageError(f"an expression of more than two times cannot be tabulated: {', '.join(map(str, moments))}")
    grid = result._grid() if moments else result.grid
    part = _Evaluation(result, grid, tuple(moments)).part(bound)
    shape = (grid.size,) * len(moments) if grid is not None else ()
    value, error = (np.array(np.broadcast_to(entry, shape)) for entry in part)
    dims = ("t", "t'")[: len(moments)]
    coordinates: dict[str, Any] = {} if grid is None else {dim: grid.nodes for dim in dims}
    return xr.DataArray(value, dims=dims, coords={**coordinates, "error": (dims, error)})
