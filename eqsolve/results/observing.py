"""Evaluating an expression in a model's own symbols on a result, after the solve, with the error it inherits."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sympy import Basic, Expr, Float, Symbol, SympifyError, sympify
from sympy.core.function import Derivative

from eqsolve.compile.lowering import lower
from eqsolve.errors import ParameterError, UsageError, did_you_mean
from eqsolve.language.binding import moment, read_value
from eqsolve.language.laws import Law
from eqsolve.language.nodes import E, Int, InverseValue, Resp
from eqsolve.language.symbols import Head, Parameter, Process, Random, Time, Unknown, Value
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid, lagrange, radau

if TYPE_CHECKING:
    import xarray as xr

    from eqsolve.results.result import Result

__all__ = ["observe"]

_ERROR = "_error"


@dataclass(frozen=True)
class Part:
    """The value of a part of the expression, and its error; both over the expression's times."""

    value: Array
    error: Array


def observe(result: Result, expr: Any) -> xr.DataArray:
    """Return an expression over the nodes of the times it contains; ``["error"]`` of what is returned is its error.

    The error is what the errors of the values in the expression make of it. A mean over paths whose own error is not
    known has the error nan: declare such a mean in ``observables=`` to have it controlled by the solver.
    """
    import xarray as xr

    if isinstance(expr, str):
        raise UsageError(f"observe takes an expression such as C(t, t) + 1, not text; by name there is result[{expr!r}]")
    try:
        whole = sympify(expr, strict=True)
    except SympifyError:
        whole = None
    if not isinstance(whole, Expr):
        raise UsageError(f"observe takes an expression in the model's symbols, got {type(expr).__name__}")
    bound = whole.xreplace({item: _parameter(result, item) for item in whole.atoms(Parameter)})
    free = [item for item in bound.free_symbols if isinstance(item, Time)]
    moments = sorted(free, key=lambda item: (item.name.count("'"), item.name))
    if len(moments) > 2:
        raise UsageError(f"an expression of more than two times cannot be laid out: {', '.join(map(str, moments))}")
    grid = result._grid() if moments else result.grid
    part = _Evaluation(result, grid, tuple(moments)).part(bound)
    shape = (grid.size,) * len(moments) if grid is not None else ()
    value, error = (np.array(np.broadcast_to(entry, shape)) for entry in (part.value, part.error))
    dims = ("t", "t'")[: len(moments)]
    coordinates: dict[str, Any] = {} if grid is None else {dim: grid.nodes for dim in dims}
    return xr.DataArray(value, dims=dims, coords={**coordinates, "error": (dims, error)})


def _parameter(result: Result, item: Parameter) -> Expr:
    value = result.params.get(item.name)
    if not isinstance(value, int | float):
        raise UsageError(
            f"the result of `{result.model}` has no parameter `{item.name}`{did_you_mean(item.name, result.params)}"
        )
    return Float(value, 17)


@dataclass(frozen=True)
class _Evaluation:
    """One expression's times, laid out over the nodes; ``moments`` are the axes in order."""

    result: Result
    grid: PanelGrid | None
    moments: tuple[Basic, ...]

    # --- combining --------------------------------------------------------------------------------------------------
    def part(self, expr: Expr) -> Part:
        """Evaluate an expression: its nodes first, then what is left, pointwise."""
        for node in expr.atoms(Resp, InverseValue, Derivative):
            raise UsageError(f"`{node}` cannot be evaluated afterwards; declare it in observables= and solve again")
        for item in expr.free_symbols - set(self.moments):
            if type(item) is Symbol:
                raise UsageError(f"`{item}` is a plain sympy symbol that nothing defines; take it from model.symbols(...)")
        nodes = list(_outermost(expr, (E, Int, Value, Unknown, Random, Time)))
        function = lower([expr], nodes)
        return combine(lambda *values: function(*values)[0], [self.node(item) for item in nodes])

    def node(self, item: Basic) -> Part:
        match item:
            case E():
                return self.mean(item)
            case Int():
                return self.integral(item)
            case Value():
                return self.value(item)
            case Unknown():
                return self._named(item.name, ())
            case Time():
                return Part(self.times(item), np.zeros(()))
        raise UsageError(f"`{item}` is random: write its mean, E(...)")

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

    # --- nodes ------------------------------------------------------------------------------------------------------
    def value(self, item: Value) -> Part:
        head = item.head
        if isinstance(head, Process):
            raise UsageError(f"`{item}` is random: write its mean, E(...)")
        if head.arity == 1:
            return self._one_time(head, self.times(item.moments[0]))
        self._named(head.name, ("row", "column"))
        at = [self.times(moment) for moment in item.moments]
        first, second = np.broadcast_arrays(*at)
        pairs = np.stack([first.ravel(), second.ravel()], axis=1)
        self.result._inside(pairs.ravel())
        value = self.result._two_time(head.name, pairs).reshape(first.shape)
        return Part(value, self.result._two_time_error(head.name, pairs).reshape(first.shape))

    def _one_time(self, head: Head, times: Array) -> Part:
        whole = self._named(head.name, ("t",))
        if times.size > 1:
            return Part(whole.value.reshape(times.shape), whole.error.reshape(times.shape))
        found = self.result.at(float(times))
        return Part(found[head.name].values[0], found[head.name + _ERROR].values[0])

    def _named(self, name: str, dims: tuple[str, ...]) -> Part:
        data = self.result.dataset
        if name not in self.result.names or data[name].dims != dims:
            known = [item for item in self.result.names if data[item].dims == dims]
            raise UsageError(
                f"the result of `{self.result.model}` has no `{name}`{did_you_mean(name, known)} "
                f"(it has: {', '.join(self.result.names)})"
            )
        error = data[name + _ERROR].values if name + _ERROR in data else np.full(data[name].shape, np.nan)
        return Part(data[name].values, error)

    def integral(self, item: Int) -> Part:
        """Integrate a function of one time from the start, by the panels' own rule."""
        grid = self.result._grid()
        begin = grid.edges[0]
        if float(self.times(item.low).min()) != begin or self.times(item.low).size > 1:
            raise UsageError(f"`{item}` cannot be evaluated afterwards: an integral from {begin:g} to a time can")
        inner = _Evaluation(self.result, grid, (item.variable,)).part(item.integrand)
        values, errors = (np.broadcast_to(entry, grid.nodes.shape) for entry in (inner.value, inner.error))
        value, other = integrate(grid, values)
        error = integrate(grid, errors)[0] + np.abs(value - other)
        until = self.times(item.high)
        if until.size > 1:
            return Part(value.reshape(until.shape), error.reshape(until.shape))
        moment = self.result._inside(until.reshape(1))
        return Part(*(grid.interpolate(entry, moment)[0] for entry in (value, error)))

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
        nodes = list(_outermost(body, (E, Int, Value, Unknown, Random, Time)))
        function = lower([body], nodes)
        weights = data["weight"].values
        rows = self.grid.size if len(self.moments) == 2 and self.grid is not None else 1
        parts = [self._path_parts(node) for node in nodes]
        value, error = [], []
        for row in range(rows):  # one row at a time, or paths × times × times would be held at once
            chosen = [_row(part, row) if rows > 1 else part for part in parts]
            inner = combine(lambda *values: function(*values)[0], chosen)
            value.append(np.tensordot(weights, _over_paths(inner.value, weights), axes=1))
            error.append(np.tensordot(weights, _over_paths(inner.error, weights), axes=1))
        joined = Part(np.concatenate(value), np.concatenate(error)) if rows > 1 else Part(value[0], error[0])
        return joined if self._laws_are_atoms() else Part(joined.value, np.full_like(joined.value, np.nan))

    def _path_parts(self, node: Basic) -> Part:
        data = self.result.dataset
        lift = (slice(None), *(None,) * len(self.moments))
        if isinstance(node, Random):
            if node.name not in data.coords:
                raise UsageError(f"the paths of the result of `{self.result.model}` do not tell `{node.name}`")
            return Part(data[node.name].values[lift], np.zeros(()))
        if isinstance(node, Value) and isinstance(node.head, Process):
            times = self.times(node.moments[0])
            table = data[node.head.name]
            error = data[node.head.name + _ERROR].values if node.head.name + _ERROR in data else np.full(table.shape, np.nan)
            if times.size > 1:
                shape = (table.shape[0], *times.shape)
                return Part(table.values.reshape(shape), error.reshape(shape))
            moment = self.result._inside(times.reshape(1))
            grid = self.result._grid()
            return Part(*(grid.interpolate(entry, moment)[:, 0][lift] for entry in (table.values, error)))
        inner = self.node(node)
        return Part(*(np.asarray(entry)[None] for entry in (inner.value, inner.error)))

    def _laws_are_atoms(self) -> bool:
        try:
            laws = [_law(text) for text in self.result.params.values() if isinstance(text, str)]
        except ParameterError:  # a law that has no text form
            return False
        return not any(law.has_density for law in laws)

    def _mean_of_constants(self, body: Expr) -> Part:
        if body.has(Value, Unknown, Time):
            raise UsageError(f"`E({body})` mixes times with constants; take what is not random out of it")
        laws: dict[Random, Law] = {}
        for item in body.atoms(Random):
            if not isinstance(self.result.params.get(item.name), str):
                raise UsageError(f"the result of `{self.result.model}` does not tell the law of `{item.name}`")
            laws[item] = _law(self.result.params[item.name])
        fine, rough = (moment(body, laws, order) for order in (200, 100))
        return Part(np.array(fine), np.array(abs(fine - rough) + 1e-15 * abs(fine)))


def combine(function: Callable[..., Any], parts: list[Part]) -> Part:
    """Return a function of values, and how far it moves when each of them moves by its error."""
    values = [part.value for part in parts]
    with np.errstate(all="ignore"):
        centre = np.asarray(function(*values), dtype=float)
        error = np.zeros_like(centre)
        for index, part in enumerate(parts):
            if not np.any(part.error):  # (nan counts)
                continue
            moved = [
                np.abs(function(*values[:index], values[index] + sign * part.error, *values[index + 1 :]) - centre)
                for sign in (1, -1)
            ]
            error = error + np.maximum(*moved)
    return Part(centre, error)


def integrate(grid: PanelGrid, values: Array) -> tuple[Array, Array]:
    """Return the integral from the start to every node, by the rule of the nodes and by that with the left end."""
    nodes = np.concatenate([[0.0], radau(grid.order).nodes])
    points, weights = np.polynomial.legendre.leggauss(grid.order // 2 + 1)
    inner = nodes[1:, None] * (points + 1) / 2
    wider = np.einsum("i,g,igl->il", nodes[1:], weights / 2, lagrange(nodes, inner.ravel()).reshape(*inner.shape, -1))
    steps = np.diff(grid.edges)[:, None]
    columns = np.arange(grid.panels)[:, None] * grid.order + np.arange(grid.order + 1)
    made = []
    for rule in (np.pad(radau(grid.order).integrals, ((0, 0), (1, 0))), wider):
        panels = values[columns] @ rule.T * steps
        ends = np.concatenate([[0.0], np.cumsum(panels[:, -1])])
        made.append(np.concatenate([[0.0], (ends[:-1, None] + panels).ravel()]))
    return made[0], made[1]


def _law(text: Any) -> Law:
    law = read_value(text, what="the law of a saved result")
    assert isinstance(law, Law)
    return law


def _outermost(expr: Basic, kinds: tuple[type, ...]) -> dict[Basic, None]:
    """Return the outermost nodes of given kinds, in order, once each."""
    if isinstance(expr, kinds):
        return {expr: None}
    return dict(itertools.chain.from_iterable(_outermost(arg, kinds).items() for arg in expr.args))


def _row(part: Part, row: int) -> Part:
    """Take one row of the first time; ``part`` has the paths, then the two times, as axes."""
    cut = [entry[:, row : row + 1] if entry.ndim == 3 and entry.shape[1] > 1 else entry for entry in (part.value, part.error)]
    return Part(*cut)


def _over_paths(values: Array, weights: Array) -> Array:
    return np.broadcast_to(values, (len(weights), *values.shape[1:])) if values.ndim else np.full(len(weights), values)
