"""The covariances of a system's driving processes as functions, to be tested for positive semi-definiteness."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sympy import Symbol

from eqsolve.compile.lowering import Lowered, at, lower
from eqsolve.compile.members import lower_reading
from eqsolve.errors import ModelError, SolverError
from eqsolve.language.indices import MemberSum
from eqsolve.language.nodes import GP, E, FollowedGP, Int, White, entries
from eqsolve.language.symbols import Time, Value
from eqsolve.language.system import System, members
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.positivity import Negative, find_negative, negative_on
from eqsolve.passes.forms.expressions import outermost

if TYPE_CHECKING:
    from eqsolve.results.result import Result

_NODES = 24  # of a solved grid on which a covariance in unknowns is tested


@dataclass(frozen=True)
class DeclaredCovariance:
    """The covariance of one process, or of several.

    ``reads`` are the unknowns in it, by name, with the places (0 for t, 1 for t') of the times
    they are read at.
    """

    names: tuple[str, ...]
    label: str
    entries: Lowered
    reads: tuple[tuple[str, tuple[int, ...]], ...]

    def failure(self, found: Negative) -> str:
        return f"{self.label} is no covariance: it is not positive semi-definite {found.describe(self.names)}"

    def blocks(self, first: Any, second: Any, read: Sequence[Any] = ()) -> Any:
        shape = np.broadcast_shapes(np.shape(first), np.shape(second))
        size = len(self.names)
        made = [np.broadcast_to(np.asarray(entry, dtype=float), shape) for entry in self.entries(first, second, *read)]
        return np.array(made).reshape(size, size, *shape)


@dataclass(frozen=True)
class Covariances:
    """All that can be tested pointwise; ``begin`` is the start of time."""

    begin: Lowered
    items: tuple[DeclaredCovariance, ...]
    # of white noises whose strength is made of parameters and the time: what messages call it, and
    # its values
    strengths: tuple[tuple[str, Lowered], ...] = ()

    def demand_declared(self, numbers: Mapping[str, float], end: float, step: float | None) -> None:
        """Raise for a declared covariance, or a strength of white noise, that is none between the start and the last time."""
        begin = float(self.begin.at(numbers)()[0])
        for label, strength in self.strengths:
            moments = np.linspace(begin, max(end, begin), _NODES)
            values = np.broadcast_to(np.asarray(strength.at(numbers)(moments)[0], dtype=float), moments.shape)
            if (values < 0).any():
                at_time = moments[int(np.argmin(values))]
                raise ModelError(f"{label} is negative, {values.min():.6g} at t = {at_time:.6g}; a strength is not below zero")
        for item in at(self, numbers).items:
            if item.reads or end <= begin:
                continue
            try:
                found = find_negative(item.blocks, begin, end, step)
            except (ArithmeticError, ValueError, TypeError):  # not real, or not defined there: the solver says where
                continue
            if failed := next((one for one in found if one is not None), None):
                raise ModelError(item.failure(failed))

    def demand_found(self, numbers: Mapping[str, float], result: Result) -> None:
        """Raise for a covariance in unknowns that a result makes none, beyond its errors."""
        bound = at(self, numbers)
        if not any(item.reads for item in bound.items) or "row" not in result.coords:
            return
        nodes = result.coords["row"].values
        chosen = np.unique(np.linspace(0, len(nodes) - 1, min(_NODES, len(nodes))).round().astype(int))
        times = nodes[chosen]
        known = functools.cache(functools.partial(_read, result, chosen))
        for item in bound.items:
            if not item.reads or any(name not in result for name, _ in item.reads):
                continue
            read, errors = zip(*(known(*pair) for pair in item.reads), strict=True)
            blocks = item.blocks(times[:, None], times[None, :], read)
            if negative_on(times, blocks, 0.0) is None:
                continue
            moved = ([*read[:k], read[k] + change, *read[k + 1 :]] for k, change in enumerate(errors))  # by its error each
            changes = (item.blocks(times[:, None], times[None, :], values) - blocks for values in moved)
            error = sum(float(np.nan_to_num(np.abs(change)).max()) for change in changes)
            if failed := negative_on(times, blocks, error):
                said = item.failure(failed)
                raise SolverError(said, partial=result.with_status("no covariance", said))


def _read(result: Result, chosen: Array, name: str, places: tuple[int, ...]) -> list[Array]:
    """Return an unknown at some nodes, and its error: arrays whose axes are t and t'."""
    data = result.variables
    if len(places) == 1:
        values = result.at(result.coords["row"].values[chosen])
        tables = [values[key].values if key in values else np.zeros(len(chosen)) for key in (name, f"{name}_error")]
    else:
        pick = np.ix_(chosen, chosen)
        tables = [
            data[key].values[pick] if key in data else np.zeros_like(data[name].values[pick])
            for key in (name, f"{name}_error")
        ]
        if places[0] != places[1]:
            return tables if places == (0, 1) else [table.T for table in tables]
        tables = [np.diag(table) for table in tables]
    return [table[:, None] if places[0] == 0 else table[None, :] for table in tables]


def _described(times: list[Time], item: Any) -> Any:
    """Return how an unknown is read: its name, and the places of its times."""
    if isinstance(item, Value | Time):
        return ("", ()) if isinstance(item, Time) else (item.head.name, tuple(map(times.index, item.moments)))
    raise ModelError(f"`{item}` is no value")


def compile_covariances(system: System, parameters: tuple[Symbol, ...]) -> Covariances:
    """Return the covariances that are given pointwise, by parameters, times and unknowns."""
    items = []
    for key, law in system.laws.items():
        if not isinstance(law, GP) or isinstance(law, FollowedGP):
            continue
        matrix, kernels = law.covariance, entries(law.covariance)
        every = sorted(set().union(*(entry.atoms(Value) for entry in kernels)), key=str)
        values = sorted(set().union(*(outermost(entry, Value, but=MemberSum) for entry in kernels)), key=str)
        times = sorted(set().union(*(entry.atoms(Time) for entry in kernels)), key=str) or [Time("t"), Time("t'")]
        if len(times) != 2 or any(moment not in times for value in every for moment in value.moments):
            continue
        names = tuple(member.name for member in members(key))
        label = f"the covariance `{kernels[0] if len(kernels) == 1 else matrix}` of `{', '.join(names)}` ({system.location})"
        try:
            lowered, reads = lower_reading(kernels, [*times, *values], parameters, functools.partial(_described, times))
        except ModelError:  # integrals, expectations: what they are made of is tested where it stands
            continue
        items.append(DeclaredCovariance(names, label, lowered, reads[len(times) :]))
    strengths = []
    for key, law in system.laws.items():
        if isinstance(law, White) and not law.strength.has(Value, E, Int):
            label = f"the strength `{law.strength}` of the white noise `{key.name}` ({system.location})"
            times = sorted(law.strength.atoms(Time), key=str) or [Time("t")]
            if len(times) == 1:
                strengths.append((label, lower([law.strength], times, parameters)))
    return Covariances(lower([system.start], [], parameters), tuple(items), tuple(strengths))
