"""A system without memory as array functions: derivatives, initial values and observables of all paths at once.

Every combination of atoms and Gauss nodes of the random constants is a path. Constants that never meet, in no process
and under no expectation, belong to different parts, and paths combine the nodes of one part only. Several quadrature
rules of different orders stand side by side, each with its own expectations, so that one integration shows how well the
rules agree.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import Abs, Basic, Dummy, Expr

from eqsolve.language.binding import Binding
from eqsolve.compile.lowering import lower
from eqsolve.compile.ode_parts import Parts, find_parts
from eqsolve.errors import UsageError
from eqsolve.language.equations import Equation
from eqsolve.language.laws import Component, Law
from eqsolve.language.nodes import E
from eqsolve.language.source import Location
from eqsolve.language.symbols import Head, Parameter, Process, Random, Time
from eqsolve.language.system import System
from eqsolve.passes.forms.causality import analyse_causality

__all__ = ["OdeProgram", "Paths", "compile_ode", "make_paths"]

Array = np.ndarray[Any, np.dtype[np.float64]]
Lowered = Callable[..., list[Any]]

_MOST_PATHS = 400_000


@dataclass(frozen=True, eq=False)
class Paths:
    """Quadrature nodes of the random constants: one value per path and constant, and each rule's paths.

    ``shares`` are the weights, a row per part, zero on the paths of the other parts; ``best`` is, per part, where the
    paths of the rule of the highest order are.
    """

    values: dict[Random, Array]
    shares: Array
    rules: tuple[slice, ...]
    best: tuple[slice, ...]

    @property
    def count(self) -> int:
        return self.shares.shape[1]

    @property
    def weights(self) -> Array:
        """The weight of every path within its rule and part."""
        return np.asarray(self.shares.sum(axis=0))

    def mean(self, values: Array, part: int = 0) -> Array:
        """Return every rule's expectation of values given per path and moment, repeated on the rule's paths."""
        full = np.broadcast_to(values, (self.count, values.shape[1]))
        means = [self.shares[part, rule] @ full[rule] for rule in self.rules]
        if len(means) == 1:
            return means[0][None, :]
        return np.repeat(means, [rule.stop - rule.start for rule in self.rules], axis=0)

    def per_rule(self, values: Array) -> Array:
        """Return what is equal on all paths of a rule once per rule, shape (rules, moments)."""
        full = np.broadcast_to(values, (self.count, values.shape[1]))
        return full[[rule.start for rule in self.rules]]


def make_paths(
    laws: Mapping[Random, Law],
    rules: Sequence[Mapping[Random, int]],
    parts: Sequence[Sequence[Random]] | None = None,
) -> Paths:
    """Return the product rules of independent constants; constants with a joint law move together.

    A rule gives the orders of the laws that have a density. On the paths of one part the constants of the others stand
    at one of their likeliest nodes; without ``parts`` all are combined.
    """
    parts = [tuple(laws)] if parts is None else parts
    values: dict[Random, list[Array]] = {item: [] for item in laws}
    shares: list[Array] = []
    slices: list[slice] = []
    count = 0
    best: list[slice] = []
    for orders in rules:
        made = [_product_rule({item: laws[item] for item in part}, orders) for part in parts]
        begin, best = count, []
        for place, (_, mass) in enumerate(made):
            row = np.zeros((len(parts), len(mass)))
            row[place] = mass
            shares.append(row)
            best.append(slice(count, count + len(mass)))
            count += len(mass)
            for other, (nodes, likely) in enumerate(made):
                for item, column in nodes.items():
                    here = column if other == place else np.full(len(mass), column[np.argmax(likely)])
                    values[item].append(here)
        slices.append(slice(begin, count))
    return Paths(
        {item: np.concatenate(columns) for item, columns in values.items()}, np.concatenate(shares, axis=1),
        tuple(slices), tuple(best),
    )  # fmt: skip


def _product_rule(laws: Mapping[Random, Law], orders: Mapping[Random, int]) -> tuple[dict[Random, Array], Array]:
    groups: dict[Any, list[Random]] = {}
    for item, law in laws.items():
        groups.setdefault((law.joint, law.group) if isinstance(law, Component) else item, []).append(item)
    tables, weights = [], []
    for members in groups.values():
        law = laws[members[0]]
        if isinstance(law, Component):
            count = len(law.joint.values)
            tables.append(np.array([law.joint.values[:, _index(laws[member])] for member in members]))
            weights.append(np.full(count, 1.0 / count))
        else:
            nodes, mass = law.rule(orders.get(members[0], 1))
            keep = mass > 0
            tables.append(nodes[None, keep])
            weights.append(mass[keep])
    total = int(np.prod([len(mass) for mass in weights])) if weights else 1
    if total > _MOST_PATHS:
        raise UsageError(f"{total} paths are needed for the random constants, at most {_MOST_PATHS} are handled")
    index = np.indices([len(mass) for mass in weights]).reshape(len(weights), total)
    values: dict[Random, Array] = {}
    product = np.ones(total)
    for places, members, table, mass in zip(index, groups.values(), tables, weights, strict=True):
        product = product * mass[places]
        for row, item in enumerate(members):
            values[item] = table[row][places]
    return values, product


def _index(law: Law) -> int:
    assert isinstance(law, Component)
    return law.index


@dataclass(frozen=True, eq=False)
class OdeProgram:
    """The array functions of one model with its parameters.

    Quantities are computed in a fixed order, ``known``: time, random constants, states, then the ``steps``:
    definitions and expectations as they are needed. What the derivatives do not need comes last.

    Attributes
    ----------
    states, definitions
        The differential and the pointwise equations.
    steps
        Quantity and its function of the quantities before it; an expectation is averaged over the paths.
    needed, reported
        How many steps the derivatives need, and how many the functions of time and the observables.
    sizes
        Sizes of the terms behind functions of time and observables, see ``term_sizes``.
    parts
        Constants and processes that share nothing random with the others.
    """

    system: System
    binding: Binding
    laws: dict[Random, Law]
    states: tuple[Equation, ...]
    definitions: tuple[Equation, ...]
    known: tuple[Basic, ...]
    steps: tuple[tuple[Basic, Lowered], ...]
    needed: int
    reported: int
    starts: Lowered
    derivatives: Lowered
    outputs: Lowered
    sizes: Lowered
    time: Time
    coupled: bool
    parts: Parts

    def initial(self, paths: Paths) -> Array:
        """Return the states at the start, one after the other, each on all paths."""
        given = self.starts(*(paths.values[item] for item in self.laws))
        return np.concatenate([_filled(value, (paths.count,)) for value in given])

    def slope(self, moment: float, state: Array, paths: Paths) -> Array:
        """Return the derivative of one state, or of several in columns."""
        table = state if state.ndim == 2 else state[:, None]
        moments = np.full(table.shape[1], moment)
        values = self._evaluate(moments, table, paths, self.needed)
        shape = (paths.count, table.shape[1])
        slopes = np.concatenate([_filled(value, shape) for value in self.derivatives(*values)])
        return slopes if state.ndim == 2 else slopes[:, 0]

    def curves(self, moments: Array, table: Array, paths: Paths) -> tuple[dict[str, Array], dict[str, Array]]:
        """Return the functions of time, per rule, and the paths of the processes under the best rule."""
        values = self._evaluate(moments, table, paths, self.reported)
        single: dict[str, Array] = {}
        each: dict[str, Array] = {}
        for equation in (*self.states, *self.definitions):
            value = values[self.known.index(_head(equation)(self.time))]
            if isinstance(equation.head, Process):
                each[equation.key] = np.broadcast_to(value, (paths.count, len(moments)))[
                    paths.best[self.parts.of(equation.head)]
                ]
            else:
                single[equation.key] = paths.per_rule(_filled(value, (len(value), len(moments))))
        for name, value in zip(self.system.observables, self.outputs(*values), strict=True):
            single[name] = paths.per_rule(_filled(value, (paths.count, len(moments))))
        return single, each

    def scales(self, moments: Array, table: Array, paths: Paths) -> dict[str, float]:
        """Return, per function of time, the largest size of what was averaged and added up to give it.

        A state's is the most that is added to it from one of the moments, the ends of the steps, to the next.
        """
        values = self._evaluate(moments, table, paths, len(self.steps))
        functions = [equation for equation in self.states if not isinstance(equation.head, Process)]
        defined = [equation for equation in self.definitions if not isinstance(equation.head, Process)]
        names = [*(eq.key for eq in functions), *(eq.key for eq in defined), *self.system.observables]
        own = [np.abs(values[self.known.index(_head(equation)(self.time))]) for equation in functions]

        def evaluate(stand_ins: Sequence[Array]) -> list[Array]:
            shape = (paths.count, len(moments))
            return [_filled(value, shape)[paths.best[0].start] for value in self.sizes(*values, *stand_ins)]

        rates = evaluate(own)[: len(own)]
        added = [np.maximum(value, np.max(np.diff(moments) * rate[:-1])) for value, rate in zip(own, rates, strict=True)]
        found = evaluate(added)[len(added) :]
        return dict(zip(names, (float(np.max(value)) for value in (*added, *found)), strict=True))

    def _evaluate(self, moments: Array, table: Array, paths: Paths, steps: int) -> list[Array]:
        """Return all quantities at several moments; ``table`` holds the states, one column per moment."""
        values: list[Array] = [moments[None, :], *(paths.values[item][:, None] for item in self.laws)]
        values.extend(table.reshape(len(self.states), paths.count, -1))
        for target, function in self.steps[:steps]:
            value = np.atleast_2d(np.asarray(function(*values)[0], dtype=float))
            if isinstance(target, E):
                value = paths.mean(_filled(value, (len(value), len(moments))), self.parts.of(target))
            values.append(value)
        return values


def _filled(value: Any, shape: tuple[int, ...]) -> Array:
    array = np.asarray(value, dtype=float)
    return array if array.shape == shape else np.broadcast_to(array, shape)


def _head(equation: Equation) -> Head:
    assert equation.head is not None
    return equation.head


def compile_ode(binding: Binding) -> OdeProgram:
    """Return the array functions of a model with its parameters; the last few are remembered."""
    places = tuple(equation.location for equation in binding.model.equations)
    assert isinstance(binding.model, System)
    return _compile(binding.model, tuple(binding.values.items()), tuple(binding.laws.items()), places)


@functools.lru_cache(maxsize=64)
def _compile(
    system: System,
    values: tuple[tuple[Parameter, Expr], ...],
    laws: tuple[tuple[Random, Law], ...],
    places: tuple[Location | None, ...],  # equal models in different files have their own messages
) -> OdeProgram:
    binding = Binding(system, dict(values), dict(laws))
    equations = [system[name] for name in analyse_causality(system).order]
    states = tuple(equation for equation in equations if equation.is_differential)
    definitions = tuple(equation for equation in equations if not equation.is_differential)
    if not states:
        raise UsageError(f"model `{system.name}` has no differential equation to solve in time")
    time = states[0].time
    assert isinstance(time, Time)
    starts, constants = _starts(binding, states)
    randoms = {item: constants[item] for item in sorted(constants, key=lambda item: item.name)}
    builder = _Builder(binding, time, [time, *randoms, *(_head(equation)(time) for equation in states)])
    for equation in definitions:
        builder.add(_head(equation)(time), builder.bound(equation.rhs))
    rights = [builder.bound(equation.rhs) for equation in states]
    derivatives = builder.lower(rights)
    needed = len(builder.steps)
    observables = [builder.bound(expr) for expr in system.observables.values()]
    outputs = builder.lower(observables)
    reported = len(builder.steps)
    sizes = _sizes(builder, states, definitions, rights, observables)
    parts = find_parts(system, randoms)
    return OdeProgram(
        system, binding, randoms, states, definitions, tuple(builder.known), tuple(builder.steps), needed, reported,
        lower(list(starts), list(randoms)), derivatives, outputs, sizes, time,
        coupled=any(isinstance(target, E) for target, _ in builder.steps[:needed]), parts=parts,
    )  # fmt: skip


def _starts(binding: Binding, states: Sequence[Equation]) -> tuple[list[Expr], dict[Random, Law]]:
    """Return the initial values; an initial law becomes one more random constant."""
    assert isinstance(binding.model, System)
    constants = dict(binding.laws)
    starts = []
    for equation in states:
        value = binding.apply(binding.model.init[equation.head])
        if isinstance(value, Law):
            constant = Random(f"{equation.key}_start", None, (value,))
            constants[constant] = value
            value = constant
        starts.append(value)
    return starts, constants


class _Builder:
    """Collects the quantities in the order in which they can be computed."""

    def __init__(self, binding: Binding, time: Time, known: list[Basic]) -> None:
        self.binding, self.time, self.known = binding, time, known
        self.steps: list[tuple[Basic, Lowered]] = []

    def bound(self, expr: Expr) -> Expr:
        """Bind the parameters and bring every time symbol to the running one."""
        bound = self.binding.apply(expr)
        rename = {item: self.time for item in bound.free_symbols if isinstance(item, Time)}
        return bound.xreplace(rename)

    def add(self, target: Basic, expr: Expr) -> None:
        function = self.lower([expr])
        self.steps.append((target, function))
        self.known.append(target)

    def lower(self, expressions: list[Expr], more: Sequence[Basic] = ()) -> Lowered:
        """Lower expressions once every expectation in them is a quantity of its own."""
        for expr in expressions:
            for node in sorted(expr.atoms(E), key=lambda item: item.count_ops()):
                if node not in self.known:
                    self.steps.append((node, lower([node.argument], self.known)))
                    self.known.append(node)
        return lower(expressions, [*self.known, *more])


def _sizes(
    builder: _Builder,
    states: Sequence[Equation],
    definitions: Sequence[Equation],
    rights: Sequence[Expr],
    observables: Sequence[Expr],
) -> Lowered:
    """Lower the sizes of the functions' derivatives, of the functions defined and of the observables, in this order."""
    functions = [pair for pair in zip(states, rights, strict=True) if not isinstance(pair[0].head, Process)]
    known: dict[Expr, Expr] = {_head(eq)(builder.time): Dummy(eq.key, positive=True) for eq, _ in functions}
    stand_ins = list(known.values())
    sizes = [term_sizes(right, known) for _, right in functions]
    for equation in definitions:
        if not isinstance(equation.head, Process):
            sizes.append(term_sizes(builder.bound(equation.rhs), known))
            known[_head(equation)(builder.time)] = sizes[-1]
    sizes += [term_sizes(expr, known) for expr in observables]
    return builder.lower(sizes, stand_ins)


def term_sizes(expr: Expr, known: Mapping[Expr, Expr]) -> Expr:
    """Return the size of what an expression averages and adds up: Σ|terms|, with E|·| for every expectation.

    An expectation that vanishes by symmetry is to be judged by this size, not by its own rounding errors.
    """
    if expr in known:
        return known[expr]
    if expr.is_Add or expr.is_Mul:
        return expr.func(*(term_sizes(part, known) for part in expr.args))
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        return term_sizes(expr.base, known) ** expr.exp
    if isinstance(expr, E):
        return E(Abs(expr.argument))
    return Abs(expr)
