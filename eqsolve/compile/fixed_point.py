"""A fixed point as numpy functions: stages (roots and switches), integrands, their derivatives, both sides of equations.

Everything is a function of one list of arguments: parameters, remaining unknowns, standard normal variables, random
constants, then one value per stage. Functions are made when first used and kept with the plan; plans are kept by model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from sympy import Add, Basic, Dummy, Expr, Mul, Piecewise, S
from sympy.core.function import Function as SympyFunction
from sympy.core.power import Pow
from sympy.functions.elementary.piecewise import ExprCondPair

from eqsolve.compile.increasing import increasing_roots
from eqsolve.compile.lowering import as_function
from eqsolve.compile.root_tables import first_grid, table, table_starts
from eqsolve.language.fixed_point import FixedPoint
from eqsolve.language.laws import Normal
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Parameter, Unknown
from eqsolve.numerics.arrays import Array
from eqsolve.passes.forms.kinks import Root, Switch, take_apart
from eqsolve.passes.forms.reduction import Reduced, branch_key, hold, reduce_fixed_point

__all__ = ["Plan", "compile_fixed_point"]

Lowered = Callable[..., list[Any]]

_PLANS: dict[Any, Plan] = {}
_KEPT = 64


def compile_fixed_point(
    model: FixedPoint,
    values: Mapping[Parameter, Expr],
    given: frozenset[str],
    extra: tuple[Expr, ...] = (),
    symbols: tuple[Parameter, ...] = (),
    *,
    eliminate: bool = True,
    held: tuple[Unknown, ...] = (),
    dropped: tuple[int, ...] = (),
) -> Plan:
    """Return the plan of a model for the branches its parameters select, made once.

    ``given`` names random constants whose law the user replaced; ``extra`` are further integrands, which may
    contain further ``symbols``, to be given as parameters. Without ``eliminate`` every unknown stays one. Unknowns that
    are ``held`` are parameters too, given last, and as many of the reduced equations are ``dropped``.
    """
    declared = frozenset(
        item.name for item in model.randoms if isinstance(item.law, Normal) and item.name not in given
    )
    key = (model, branch_key(model, values), declared, extra, symbols, eliminate, held, dropped)
    if key not in _PLANS:
        while len(_PLANS) >= _KEPT:
            _PLANS.pop(next(iter(_PLANS)))
        reduced = reduce_fixed_point(model, values, declared, eliminate=eliminate)
        _PLANS[key] = Plan(model, hold(reduced, held, dropped), extra, (*symbols, *held))
    return _PLANS[key]


class Plan:
    """The compiled form of a fixed point; data and functions only, no numbers of a particular solve."""

    def __init__(
        self, model: FixedPoint, reduced: Reduced, extra: tuple[Expr, ...], symbols: tuple[Parameter | Unknown, ...]
    ) -> None:
        self.model = model
        self.reduced = reduced
        self.parameters = (*model.parameters, *symbols)
        self.unknowns = reduced.unknowns
        self.normals = tuple(xi for xi, _ in reduced.gaussians.values())
        self.constants = tuple(item for item in model.randoms if item.name not in reduced.gaussians)
        sides = [(eq.lhs, eq.rhs) for eq in reduced.equations]
        self.outputs = {**{item.name: expr for item, expr in reduced.eliminated}, **reduced.observables}
        everything = [*(side for pair in sides for side in pair), *self.outputs.values()]
        nodes = sorted({node for expr in everything for node in expr.atoms(E)}, key=str)
        integrands = [node.argument for node in nodes] + list(extra)
        randoms = frozenset((*self.normals, *self.constants))
        smooth, self.stages = take_apart([*integrands, *reduced.variables.values()], randoms)
        self.integrands = smooth[: len(integrands)]
        self.variables = dict(zip(reduced.variables, smooth[len(integrands) :], strict=True))
        self.means = [Dummy(f"e{place}", real=True) for place in range(len(integrands))]
        exchange = dict(zip(nodes, self.means, strict=False))
        self.sides = [(left.xreplace(exchange), right.xreplace(exchange)) for left, right in sides]
        self.outputs = {name: expr.xreplace(exchange) for name, expr in self.outputs.items()}
        inner = {item: Dummy(item.name, positive=True) for item in self.unknowns if item.bounds[0] == 0}
        self.logarithmic = [bool(left.xreplace(inner).is_positive) for left, _ in self.sides]
        self.arguments = (
            *self.parameters, *self.unknowns, *self.normals, *self.constants, *(s.symbol for s in self.stages),
        )  # fmt: skip
        self.switches = [s for s in self.stages if isinstance(s, Switch)]
        self.aligned, self.carriers = self._carriers()
        self.degree = max((_degree(expr, randoms) for expr in self.integrands), default=0)
        self._cache: dict[Any, Any] = {}

    # --- lowering ----------------------------------------------------------------------------------------------
    def lowered(self, key: Any, make: Callable[[], Sequence[Expr]], arguments: Sequence[Basic] | None = None) -> Lowered:
        """Return a numpy function of the plan's arguments (or others) for expressions, made once per key."""
        if key not in self._cache:
            self._cache[key] = as_function(arguments if arguments is not None else self.arguments, list(make()))
        return self._cache[key]

    def integrand_values(self) -> Lowered:
        return self.lowered("integrands", lambda: self.integrands)

    def integrand_slopes(self, variables: tuple[Basic, ...]) -> Lowered:
        """Return the derivatives of the integrands along each variable, integrand by integrand."""
        return self.lowered(
            ("slopes", variables), lambda: [d for f in self.integrands for d in self.totals(f, variables)]
        )

    def variable_values(self, names: tuple[str, ...]) -> Lowered:
        return self.lowered(("variables", names), lambda: [self.variable(name) for name in names])

    def variable_slopes(self, name: str) -> Lowered:
        """Return the derivatives of a variable along every normal variable and random constant."""
        return self.lowered(
            ("variable slopes", name), lambda: self.totals(self.variable(name), (*self.normals, *self.constants))
        )

    def variable(self, name: str) -> Expr:
        if name in self.variables:
            return self.variables[name]
        random = next(item for item in self.model.randoms if item.name == name)
        return self.reduced.mapping.get(random, random)

    def totals(self, expr: Expr, variables: Sequence[Basic]) -> list[Expr]:
        """Return total derivatives of a smooth expression, through the roots; switches are constant."""
        made = []
        for variable in variables:
            moved: dict[Dummy, Expr] = {}

            def total(item: Expr, along: Basic = variable, through: dict[Dummy, Expr] = moved) -> Expr:
                change = item.diff(along)
                for symbol, slope in through.items():
                    if slope != 0 and symbol in item.free_symbols:
                        change += item.diff(symbol) * slope
                return change

            for stage in self.stages:
                if isinstance(stage, Root):
                    moved[stage.symbol] = stage.derivative(total)
            made.append(total(expr))
        return made

    def side_values(self) -> Lowered:
        """Return a function of (parameters, unknowns, means): left sides, right sides."""
        return self.lowered(
            "sides", lambda: [side for pair in zip(*self.sides, strict=True) for side in pair], self.scalars
        )

    def side_slopes(self, variables: tuple[Basic, ...]) -> Lowered:
        """Return derivatives of left and right sides along variables and means, in the order of ``side_values``."""
        along = (*variables, *self.means)
        return self.lowered(
            ("side slopes", variables),
            lambda: [side.diff(v) for pair in zip(*self.sides, strict=True) for side in pair for v in along],
            self.scalars,
        )

    def output_values(self) -> Lowered:
        return self.lowered("outputs", lambda: list(self.outputs.values()), self.scalars)

    def output_slopes(self, variables: tuple[Basic, ...]) -> Lowered:
        along = (*variables, *self.means)
        return self.lowered(
            ("output slopes", variables),
            lambda: [expr.diff(v) for expr in self.outputs.values() for v in along],
            self.scalars,
        )

    @property
    def scalars(self) -> tuple[Basic, ...]:
        return (*self.parameters, *self.unknowns, *self.means)

    # --- stages ------------------------------------------------------------------------------------------------
    def run_stages(
        self,
        arguments: list[Any],
        size: int,
        signs: Sequence[Array] | None = None,
        *,
        unknowns: Array | None = None,
        owner: Array | None = None,
        rough: bool = False,
    ) -> list[Any]:
        """Return all arguments with the values of the stages appended; switches are ``signs`` where given.

        ``unknowns`` are the sets of unknowns (columns) among the arguments, ``owner`` says which of them each point has: with
        these, roots are found sooner. ``rough`` ones are quick.
        """
        full = [*arguments, *([0.0] * len(self.stages))]
        first, count = len(arguments), 0
        for place, stage in enumerate(self.stages):
            if isinstance(stage, Switch):
                if signs is not None:
                    full[first + place] = signs[count]
                else:
                    (inside,) = self.lowered(stage, lambda stage=stage: [stage.expression])(*full)  # type: ignore[misc]
                    full[first + place] = np.sign(np.broadcast_to(inside, (size,)))
                count += 1
            else:
                full[first + place] = self._root(stage, full, size, unknowns, owner, rough)
        return full

    def _root(
        self,
        stage: Root,
        full: list[Any],
        size: int,
        unknowns: Array | None,
        owner: Array | None,
        rough: bool,
    ) -> Array:
        y = stage.variable
        pair = self.lowered(
            ("root", stage), lambda: [stage.expression, stage.expression.diff(y)], (y, *self.arguments)
        )
        target, low, high = self.lowered(("target", stage), lambda: [stage.argument, *stage.domain])(*full)
        wanted = np.array(np.broadcast_to(target, (size,)), dtype=float)
        start = None
        inside = self._tabled(stage)
        if unknowns is not None and owner is not None and inside is not None and np.ndim(low) == np.ndim(high) == 0:
            grid = first_grid(float(low), float(high), rough=rough)
            start = self._starts(stage, inside, pair, grid, full, unknowns, owner, wanted)
        arrays = [(place, entry) for place, entry in enumerate(full) if np.ndim(entry) and np.size(entry) == size]

        def value_and_slope(at: Array, places: Array) -> tuple[Array, Array]:
            given = list(full)
            if len(places) < size:
                for place, entry in arrays:
                    given[place] = entry[places]
            value, slope = pair(at, *given)
            return value, slope

        return increasing_roots(value_and_slope, wanted, np.asarray(low), np.asarray(high), start, rough=rough)

    def _tabled(self, stage: Root) -> list[int] | None:
        """Return the places of the unknowns in the function of a root; None if it contains anything random."""
        if ("tabled", stage) not in self._cache:
            inside = stage.expression.free_symbols
            plain = inside <= {stage.variable, *self.parameters, *self.unknowns}
            self._cache["tabled", stage] = [k for k, u in enumerate(self.unknowns) if u in inside] if plain else None
        found: list[int] | None = self._cache["tabled", stage]
        return found

    def _starts(
        self,
        stage: Root,
        inside: list[int],
        pair: Lowered,
        grid: Array,
        full: list[Any],
        unknowns: Array,
        owner: Array,
        target: Array,
    ) -> Array:
        """Return about where the roots are, from tables for the distinct sets of those unknowns that the function contains."""
        first = len(self.parameters)
        if unknowns.shape[1] == 1 or not inside:
            distinct, which = unknowns[inside][:, :1], np.zeros(1, dtype=int)
        else:
            distinct, back = np.unique(unknowns[inside], axis=1, return_inverse=True)
            which = back.reshape(-1)[owner]
        key = (tuple(full[:first]), distinct.tobytes(), len(grid))
        if self._cache.get(("table", stage), (None,))[0] != key:
            given: list[Any] = [*full[:first], *([0.0] * (len(full) - first))]
            for place, row in zip(inside, distinct, strict=True):
                given[first + place] = row[:, None]
            made = table(lambda y: pair(y, *given), grid, max(1, distinct.shape[1]))
            self._cache["table", stage] = (key, made)
        return table_starts(self._cache["table", stage][1], grid, which, target)

    def switch_combinations(self, switch: Switch) -> list[tuple[int, ...]]:
        """Return the values that the switches inside a switch may take."""
        if ("combinations", switch) not in self._cache:
            inside = [s for s in self.switches if s.symbol in switch.expression.free_symbols]
            self._cache["combinations", switch] = [
                tuple(signs[inside.index(s)] if s in inside else 1 for s in self.switches)
                for signs in product((1, -1), repeat=len(inside))
            ]
        return list(self._cache["combinations", switch])

    def is_linear(self, switch: Switch) -> bool:
        """Whether a switch is linear in the random variables, so that its zeros are known at once."""
        if ("linear", switch) not in self._cache:
            roots = {s.symbol for s in self.stages if isinstance(s, Root)}
            randoms = (*self.normals, *self.constants)
            self._cache["linear", switch] = not switch.expression.free_symbols & roots and all(
                not switch.expression.diff(item).free_symbols & set(randoms) for item in randoms
            )
        return bool(self._cache["linear", switch])

    # --- the direction in which integrands are not polynomial ---------------------------------------------------
    def _carriers(self) -> tuple[bool, list[Expr]]:
        """Return whether integrands are polynomials besides functions of linear forms, and these forms."""
        randoms = {*self.normals, *self.constants}
        forms: list[Expr] = []
        simple = True
        for stage in self.stages:
            forms += _linear_forms(stage.expression if isinstance(stage, Switch) else stage.argument, randoms)
            if isinstance(stage, Root) and (stage.expression.free_symbols | _symbols(stage.domain)) & randoms:
                simple = False
        for expr in (*self.integrands, *self.variables.values()):
            for node in expr.atoms(SympyFunction, Pow):
                if isinstance(node, Piecewise) or (isinstance(node, Pow) and node.exp.is_Integer and node.exp > 0):
                    continue
                for arg in node.args:
                    forms += _linear_forms(arg, randoms)
        forms = list(dict.fromkeys(forms))
        roots = {s.symbol for s in self.stages if isinstance(s, Root)}
        if any(form.diff(item).free_symbols & roots for form in forms for item in randoms):
            simple = False
        return simple, forms

    def directions(self) -> Lowered:
        """Return the gradients of the linear forms along normal variables and constants, form by form."""
        along = (*self.normals, *self.constants)
        ones = {s.symbol: S.One for s in self.switches}
        return self.lowered(
            "directions", lambda: [form.subs(ones).diff(v) for form in self.carriers for v in along]
        )


def _linear_forms(expr: Basic, randoms: set[Basic]) -> list[Expr]:
    """Return linear forms in the random variables such that an expression is a function of them (and of roots)."""
    inside = expr.free_symbols & randoms
    if not inside:
        return []
    if isinstance(expr, Expr) and all(not expr.diff(item).free_symbols & randoms for item in inside):
        return [expr]
    return [form for arg in expr.args for form in _linear_forms(arg, randoms)]


def _degree(expr: Basic, randoms: frozenset[Basic]) -> int:
    """Return a bound on the degree of an expression as a polynomial in random variables, functions of them left out."""
    if not expr.free_symbols & randoms:
        return 0
    match expr:
        case Add() | Piecewise():
            return max(_degree(arg, randoms) for arg in expr.args)
        case ExprCondPair():
            return _degree(expr.args[0], randoms)
        case Mul():
            return sum(_degree(arg, randoms) for arg in expr.args)
        case Pow() if expr.exp.is_Integer and expr.exp > 0:
            return int(expr.exp) * _degree(expr.base, randoms)
    return 1 if expr in randoms else 0


def _symbols(items: Sequence[Expr]) -> set[Basic]:
    return set().union(*(item.free_symbols for item in items))
