"""A fixed point as numpy functions: stages (roots and switches), integrands, their derivatives, both sides of equations.

Everything is a function of one list of arguments: parameters, remaining unknowns, standard normal variables, random
constants, then one value per stage. Functions are made when first asked for and kept with the plan; plans are kept with
the model, one per set of branches its numbers select.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from mpmath import mpf
from sympy import Add, Basic, Dummy, Expr, Mul, Piecewise, S, solve, sympify
from sympy.core.function import Function as SympyFunction
from sympy.core.power import Pow
from sympy.core.sympify import SympifyError
from sympy.functions.elementary.piecewise import ExprCondPair

from eqsolve.compile.families import Functions, Slopes, lower_families, lower_slopes, tables_in
from eqsolve.compile.lowering import Constant, Lowered, Module, as_function
from eqsolve.compile.plan import Branches, Values
from eqsolve.errors import UsageError, did_you_mean
from eqsolve.language.indices import Index, Slot, at_indices, counts, ordered_indices
from eqsolve.language.laws import Normal
from eqsolve.language.model import Table
from eqsolve.language.nodes import E, InverseValue
from eqsolve.language.symbols import Parameter, Random, Unknown
from eqsolve.language.system import FixedPoint
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.domains import Domain
from eqsolve.numerics.increasing import roots_at
from eqsolve.numerics.laws import Atoms
from eqsolve.passes.forms.expressions import rebuilt
from eqsolve.passes.forms.kinks import Root, Switch, take_apart
from eqsolve.passes.forms.structure import Reduced, conditions_of, hold, reduce_fixed_point


def domain_of(item: Unknown) -> Domain:
    """Return where an unknown may lie, in numbers."""
    low, high = item.bounds
    interval = None if low is None or high is None else (float(low), float(high))
    sign = 1 if item.is_nonnegative else -1 if item.is_nonpositive else 0
    return Domain(item.name, sign, interval, interval or ((0.0,) if sign and item.is_zero is None else ()))


class FixedPointPlan:
    """The compiled form of a fixed point; no numbers of a particular solve.

    Solvers know everything in it by name or place.
    """

    def __init__(
        self, model: FixedPoint, reduced: Reduced, extra: tuple[Expr, ...] = (),
        symbols: tuple[Basic, ...] = (), points: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.name, self.location = model.name, model.location
        self._model, self.reduced = model, reduced
        self._unknowns = reduced.unknowns
        self._parameters = (*model.parameters, *symbols)
        self._normals = tuple(xi for xi, _ in reduced.gaussians.values())
        self._constants = tuple(item for item in model.randoms if item.name not in reduced.gaussians)
        # what integrands are integrals over; constants that take a few values are summed over
        self._axes = self._normals + self._constants
        self._spread = {item for item in self._axes if item.name not in points}
        self._take_apart(extra)
        self._by_name = {item.name: item for item in (*self._parameters, *self._unknowns)}
        stages = (stage.symbol for stage in self._stages)
        self._arguments = (*self._parameters, *self._unknowns, *self._axes, *stages)
        self.parameters = tuple(item.name for item in self._parameters)
        self.smooth = tuple(item.name for item in self._parameters if not item.is_integer)  # have derivatives
        # domains of the unknowns that remain, and of all
        self.unknowns = tuple(domain_of(item) for item in self._unknowns)
        self.declared = tuple(domain_of(item) for item in model.unknowns)
        self.normals = tuple(item.name for item in self._normals)  # standard ones, which stand for ``gaussians``
        self.constants = tuple(item.name for item in self._constants)
        self.gaussians = tuple(reduced.gaussians)
        self.variables = tuple(reduced.variables)
        self.randoms = tuple(item.name for item in model.randoms)
        self.means = len(self._integrands)
        self.outputs = tuple(self._outputs)  # eliminated unknowns and observables
        # of each equation: the unknown on its left if it is one, whether it contains an
        # expectation, and whether its left side is positive
        self.lefts = tuple(eq.lhs.name if isinstance(eq.lhs, Unknown) else None for eq in reduced.equations)
        self.averaged = tuple(bool(right.free_symbols & set(self._means)) for _, right in self._sides)
        inner = {item: Dummy(item.name, positive=True) for item in self._unknowns if item.bounds[0] == 0}
        self.logarithmic = tuple(bool(left.xreplace(inner).is_positive) for left, _ in self._sides)
        self.is_switch = tuple(isinstance(stage, Switch) for stage in self._stages)
        self.rootless = ""  # an inverse function that was found without a root, or with several
        self.switches = tuple(place for place, switch in enumerate(self.is_switch) if switch)
        self.linear = tuple(self._is_linear(place) for place in self.switches)
        self.combinations = tuple(self._combinations(place) for place in self.switches)
        self.aligned, self._carriers, self._landmarks = self._find_carriers()
        self.carriers = len(self._carriers)
        self.degree = max((_degree(expr, frozenset(self._axes)) for expr in self._integrands), default=0)
        read = [stage.expression if isinstance(stage, Switch) else stage.argument for stage in self._stages]
        used = frozenset[Basic]().union(*(expr.free_symbols for expr in (*self._integrands, *read)))
        self.spreads = tuple(name for name, (standard, _) in reduced.gaussians.items() if standard in self._drawn)
        several = len(self._normals) > 1  # a single one costs nothing
        self.needed = tuple(item in used or not several for item in self._axes)
        self._pieces: dict[Any, Lowered] = {}

    def _take_apart(self, extra: tuple[Expr, ...]) -> None:
        """Give expectations names, and split what they and the variables contain into stages and smooth parts."""
        reduced = self.reduced
        sides = [(eq.lhs, eq.rhs) for eq in reduced.equations]
        outputs = {**{item.name: expr for item, expr in reduced.eliminated}, **reduced.observables}
        everything = [*(side for pair in sides for side in pair), *outputs.values()]
        nodes = sorted({node for expr in everything for node in expr.atoms(E)}, key=str)
        self._drawn = frozenset[Basic]().union(
            *(node.argument.free_symbols for node in nodes), *(x.free_symbols for x in extra)
        )
        names: dict[Expr, Dummy] = {}

        def mean(expr: Expr, apart: bool) -> Expr:
            """Return an expectation in terms of those of its parts, or as one."""
            parts = self._independent(expr) if apart else [expr]
            if not expr.has(*self._axes):
                return expr
            if len(parts) > 1:
                return expr.func(*(mean(part, apart) for part in parts))
            first = self._over_first_normal(expr) if apart else expr
            return names.setdefault(first, Dummy(f"e{len(names)}", real=True))

        exchange = {node: mean(node.argument, True) for node in nodes}
        last = [self._over_first_normal(expr) for expr in extra]
        if any(len(self._normals_in(expr)) > 1 for expr in (*names, *extra)):  # along shared directions
            names.clear()
            exchange, last = {node: mean(node.argument, False) for node in nodes}, list(extra)
        more = [Dummy(f"e{len(names) + place}", real=True) for place in range(len(extra))]
        integrands = [*names, *last]
        smooth, self._stages = take_apart([*integrands, *reduced.variables.values()], frozenset(self._axes))
        self._integrands = smooth[: len(integrands)]
        self._variables = dict(zip(reduced.variables, smooth[len(integrands) :], strict=True))
        self._means = [*names.values(), *more]
        self._sides = [(left.xreplace(exchange), right.xreplace(exchange)) for left, right in sides]
        self._outputs = {name: expr.xreplace(exchange) for name, expr in outputs.items()}

    def _independent(self, expr: Expr) -> list[Expr]:
        """Return the terms of a sum, those of the same random variables together, or the independent factors of a product."""
        parts: list[tuple[set[Basic], list[Expr]]] = []
        for item in expr.args if isinstance(expr, (Add, Mul)) else ():
            own = {S.One if axis in self._constants else axis for axis in self._axes if axis in item.free_symbols}
            alike = [part for part in parts if (part[0] == own if isinstance(expr, Add) else part[0] & own)]
            apart = [part for part in parts if part not in alike]
            parts = [*apart, (own.union(*(axes for axes, _ in alike)), [*(x for _, every in alike for x in every), item])]
        return [expr.func(*every) for _, every in parts] or [expr]

    def _normals_in(self, expr: Expr) -> list[Random]:
        return [item for item in self._normals if item in expr.free_symbols]

    def _over_first_normal(self, expr: Expr) -> Expr:
        """Return an integrand of one normal variable over the first one: every expectation is an integral of its own."""
        mine = self._normals_in(expr)
        return expr.xreplace({mine[0]: self._normals[0]}) if len(mine) == 1 else expr

    # --- lowering
    def piece(self, what: str, *detail: Any, module: Module = "numpy") -> Lowered:
        """Return a function of the plan's arguments, made once.

        ======================= ================= ====================================================================
        what                    detail            values
        ======================= ================= ====================================================================
        integrands              [place]           all, or one
        integrand slopes        names             derivatives along unknowns and parameters, integrand by integrand
        variables               names             their values
        variable slopes         name              derivatives along every normal variable and random constant
        switch, switch slopes   place, [names]    what changes sign; its derivatives along names, then as a variable's
        target                  place             of a root: the value to be met, the ends of its domain
        root                    place             of (y, arguments): the function and its derivative along y
        directions                                gradients of the linear forms, form by form
        landmarks                                 arguments of functions: where they vanish, or turn, these may be narrow
        sides, outputs                            of (parameters, unknowns, means): left sides, right sides; outputs
        side slopes, ...        names             their derivatives along names, then along the means
        variances, ... slopes   [names]           of (parameters, unknowns): variances of the Gaussian ``spreads``
        ======================= ================= ====================================================================
        """
        key = (what, detail, module)
        if key not in self._pieces:
            arguments, expressions = self._piece(what, *detail)
            self._pieces[key] = as_function(arguments, list(expressions), module)
        return self._pieces[key]

    def _piece(self, what: str, *detail: Any) -> tuple[Sequence[Basic], list[Expr]]:
        scalars: tuple[Basic, ...] = (*self._parameters, *self._unknowns, *self._means)
        match what:
            case "integrands":
                return self._arguments, [self._integrands[place] for place in detail] or self._integrands
            case "integrand slopes":
                return self._arguments, [d for f in self._integrands for d in self._totals(f, self._along(detail))]
            case "variables":
                return self._arguments, [self._variable(name) for name in detail]
            case "variable slopes":
                return self._arguments, self._totals(self._variable(detail[0]), self._axes)
            case "switch" | "switch slopes" | "target" | "root":
                stage: Any = self._stages[detail[0]]
                if what == "switch slopes":
                    return self._arguments, self._totals(stage.expression, (*self._along(detail[1:]), *self._axes))
                if what == "target":
                    return self._arguments, [stage.argument, *stage.domain]
                if what == "root":
                    return (stage.variable, *self._arguments), [stage.expression, stage.expression.diff(stage.variable)]
                return self._arguments, [stage.expression]
            case "directions":
                ones = {self._stages[place].symbol: S.One for place in self.switches}
                return self._arguments, [form.subs(ones).diff(v) for form in self._carriers for v in self._axes]
            case "landmarks":
                return self._arguments, self._landmarks
            case "sides" | "side slopes":
                values = [side for pair in zip(*self._sides, strict=True) for side in pair]
                along = (*self._along(detail), *self._means)
            case "outputs" | "output slopes":
                values, along = list(self._outputs.values()), (*self._along(detail), *self._means)
            case _:
                values, along = [self.reduced.gaussians[name][1] for name in self.spreads], self._along(detail)
                scalars = (*self._parameters, *self._unknowns)
        return scalars, [expr.diff(v) for expr in values for v in along] if what.endswith("slopes") else values

    def _along(self, names: Sequence[str]) -> tuple[Basic, ...]:
        return tuple(self._by_name[name] for name in names)

    def _variable(self, name: str) -> Expr:
        if name in self._variables:
            return self._variables[name]
        random = next(item for item in self._model.randoms if item.name == name)
        return self.reduced.mapping.get(random, random)

    def _totals(self, expr: Expr, variables: Sequence[Basic]) -> list[Expr]:
        """Return total derivatives of a smooth expression, through the roots; switches are constant."""
        return [self._total(expr, variable) for variable in variables]

    def _total(self, expr: Expr, along: Basic) -> Expr:
        moved: dict[Dummy, Expr] = {}

        def total(item: Expr) -> Expr:
            through = ((symbol, slope) for symbol, slope in moved.items() if symbol in item.free_symbols)
            return Add(item.diff(along), *(item.diff(symbol) * slope for symbol, slope in through))

        for stage in self._stages:
            if isinstance(stage, Root):
                moved[stage.symbol] = stage.derivative(total)
        return total(expr)

    # --- stages
    def run_stages(
        self, arguments: list[Any], size: int, signs: Sequence[Array] | None = None, *,
        rough: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Return all arguments with the values of the stages appended; switches are ``signs`` where given, roots quick ones
        where ``rough``."""
        full = [*arguments, *([0.0] * len(self.is_switch))]
        first, given = len(arguments), iter(signs if signs is not None else ())
        for place, switch in enumerate(self.is_switch):
            if not switch:
                ends = self.piece("target", place)(*full)
                root = self.piece("root", place)
                full[first + place] = roots_at(root, full, size, ends, rough=rough)
                if np.isnan(full[first + place]).any():
                    self.rootless = str(self._stages[place])
            elif signs is not None:
                full[first + place] = next(given)
            else:
                (inside,) = self.piece("switch", place)(*full)
                full[first + place] = np.sign(np.broadcast_to(inside, (size,)))
        return full

    def _combinations(self, place: int) -> list[tuple[int, ...]]:
        """Return the values that the switches inside a switch may take."""
        symbols = self._stages[place].expression.free_symbols
        inside = [k for k in self.switches if self._stages[k].symbol in symbols]
        return [
            tuple(signs[inside.index(k)] if k in inside else 1 for k in self.switches)
            for signs in product((1, -1), repeat=len(inside))
        ]

    def _is_linear(self, place: int) -> bool:
        """Whether a switch is linear in the random variables, so that its zeros are known at once."""
        expr = self._stages[place].expression
        roots = {s.symbol for s in self._stages if isinstance(s, Root)}
        slopes = [expr.diff(item) for item in self._spread]
        return not any(item.free_symbols & self._spread for item in slopes) and not expr.free_symbols & roots

    # --- the direction in which integrands are not polynomial
    def _find_carriers(self) -> tuple[bool, list[Expr], list[Expr]]:
        """Return whether integrands are polynomials besides functions of linear forms, these forms, and all arguments that are
        linear or quadratic."""
        randoms = self._spread
        forms: list[Expr] = []
        squares: list[Expr] = []
        simple = True
        for stage in self._stages:
            forms += _linear_forms(stage.expression if isinstance(stage, Switch) else stage.argument, randoms)
            if isinstance(stage, Root) and any(e.free_symbols & randoms for e in (stage.expression, *stage.domain)):
                simple = False
        for expr in (*self._integrands, *self._variables.values()):
            for node in expr.atoms(SympyFunction, Pow):
                if isinstance(node, Piecewise) or (isinstance(node, Pow) and node.exp.is_Integer and node.exp > 0):
                    continue
                for arg in node.args:
                    forms += _linear_forms(arg, randoms)
                    squares += [arg] if _degree(arg, frozenset(randoms)) == 2 and arg.is_polynomial(*randoms) else []
        forms = list(dict.fromkeys(forms))
        roots = {s.symbol for s in self._stages if isinstance(s, Root)}
        if any(form.diff(item).free_symbols & roots for form in forms for item in randoms):
            simple = False
        return simple, forms, [form for form in dict.fromkeys([*forms, *squares]) if not form.free_symbols & roots]


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


class FixedPointProgram:
    """The plans of a model, each made when its branches are first met; the last ones are kept."""

    def __init__(self, model: FixedPoint) -> None:
        self.model = model
        self._branches = Branches(model, conditions_of(model))
        self._gaussian = tuple(item.name for item in model.randoms if isinstance(item.law, Normal))
        self._plans: dict[Any, FixedPointPlan] = {}

    def plan(
        self, values: Values, *, eliminate: bool = True, held: tuple[str, ...] = (),
        dropped: tuple[int, ...] = (), extra: tuple[Expr, ...] = (),
        symbols: tuple[Parameter, ...] = (),
    ) -> FixedPointPlan:  # fmt: skip
        """Return the plan for the branches that values select.

        Without ``eliminate`` every unknown stays one. Unknowns that are ``held`` are parameters, given last, and as many of
        the reduced equations are ``dropped``. Further means are ``extra``, in ``symbols`` that are parameters too.
        """
        declared = frozenset(name for name in self._gaussian if name not in values.given)
        taken = self._branches.key(values.numbers, lambda: values.exact().values)
        points = frozenset(name for name, law in values.laws.items() if isinstance(law, Atoms))
        key = (taken, declared, points, extra, symbols, eliminate, held, dropped)
        if key not in self._plans:
            while len(self._plans) >= 64:  # plans kept at most
                self._plans.pop(next(iter(self._plans)))
            reduced = reduce_fixed_point(self.model, values.exact().values, declared, eliminate=eliminate)
            unknowns = tuple(next(item for item in reduced.unknowns if item.name == name) for name in held)
            system = hold(reduced, unknowns, dropped)
            self._plans[key] = FixedPointPlan(self.model, system, extra, (*symbols, *unknowns), points)
        return self._plans[key]

    def with_mean(
        self, plan: FixedPointPlan, values: Values, what: Any, given: tuple[str, ...],
        held: tuple[str, ...], dropped: tuple[int, ...],
    ) -> FixedPointPlan:  # fmt: skip
        """Return a plan with one more expectation, of an expression in the model's symbols and variables.

        Further names that stand in it are ``given``: they come between the parameters and the unknowns held.
        """
        expr = sympify(what, strict=True)
        if isinstance(expr, E):
            expr = expr.argument
        reduced = plan.reduced
        symbols = {name: Parameter(f"{name}_given") for name in given}
        mapping: dict[Basic, Basic] = {}
        bound = {node.variable for node in expr.atoms(InverseValue)}
        for item in expr.free_symbols - bound:
            name = item.name
            if name in symbols:
                mapping[item] = symbols[name]
            elif name in reduced.variables:
                mapping[item] = reduced.variables[name]
            elif name in self.model.names:
                mapping[item] = reduced.mapping.get(self.model.names[name], self.model.names[name])
            else:
                names = [*reduced.variables, *self.model.names]
                raise UsageError(f"`{expr}` uses `{name}`, which the model does not define{did_you_mean(name, names)}")
        whole = {item: value for item, value in values.exact().values.items() if item.is_integer}
        integrand = expr.subs(mapping, simultaneous=True).subs(dict(reduced.eliminated)).subs(whole)
        return self.plan(values, held=held, dropped=dropped, extra=(integrand,), symbols=tuple(symbols.values()))

    def precise(self, values: Values, held: Sequence[tuple[str, float]], digits: int) -> tuple[list[Any], list[Any]]:
        """Return the parameters, and the unknowns held at ends of their domains, as numbers of mpmath."""
        exact = values.exact().values
        ends = {(item.name, float(end)): end for item in self.model.unknowns for end in item.bounds if end is not None}
        numbers = [mpf(str(exact[item].evalf(digits))) for item in self.model.parameters]
        return numbers, [mpf(str(ends[pair].evalf(digits))) if pair in ends else mpf(pair[1]) for pair in held]


# --- Fixed points of families as functions of arrays: both sides of the equations, and each
# unknown by its own equation.
Part = tuple[Functions, Slopes]
"""Expressions on arrays, and their slopes."""


@dataclass(frozen=True, eq=False)
class FamilyMeanProgram:
    """The means of one member, whose unknowns are what it reads: ``reads``, for all members."""

    program: FixedPointProgram
    shape: tuple[int, ...]  # of the members
    reads: Part


@dataclass(frozen=True, eq=False)
class FamilyProgram:
    """Equations on arrays: left and right sides, each unknown by its equation, outputs."""

    label: str
    unknowns: tuple[tuple[str, tuple[int, ...], Domain], ...]
    shapes: tuple[tuple[int, ...], ...]  # of the equations
    sides: tuple[Part, Part]
    owner: tuple[int, ...]  # of each argument of the slopes its unknown
    explicit: tuple[tuple[int, Functions], ...] | None  # unknown, and its value by its equation
    observables: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: Part
    constants: tuple[Constant, ...]
    means: tuple[FamilyMeanProgram, ...]


def _of_one_member(expr: Any, reads: dict[Basic, Unknown]) -> Any:
    """Return an integrand in which whatever is not random, and belongs to a member, is an unknown."""
    moving = expr.atoms(Random) | {node.variable for node in expr.atoms(InverseValue)}

    def still(item: Basic) -> bool:
        return not item.free_symbols & moving and not item.has(InverseValue)

    def visit(item: Any) -> Any:
        if isinstance(item, Random):
            law = item.law
            if isinstance(law, Normal):
                law = law.func(*map(visit, at_indices(law, dict(zip(item.axes, item.indices, strict=True))).args))
            return Random(item.base, None, () if law is None else (law,))
        if isinstance(item, Expr) and still(item):
            if not item.atoms(Unknown, Index) and not tables_in(item):
                return item
            signs: dict[str, Any] = {word: True for word in ("nonnegative", "positive") if getattr(item, f"is_{word}")}
            return reads.setdefault(item, Unknown(f"read_{len(reads):03}", **signs))
        if isinstance(item, Add | Mul):
            apart = [arg for arg in item.args if not still(arg)]
            return item.func(visit(item.func(*(arg for arg in item.args if still(arg)))), *map(visit, apart))
        return rebuilt(item, visit)

    return visit(expr)


def compile_families(model: FixedPoint) -> FamilyProgram:
    """Return the equations of a fixed point on arrays."""
    everything = [*(side for eq in model.equations for side in (eq.lhs, eq.rhs)), *model.observables.values()]
    groups: dict[Any, list[E]] = {}  # means over the same members and variables
    for node in sorted({node for expr in everything for node in expr.atoms(E)}, key=str):
        key = (ordered_indices(node), frozenset(item.base for item in node.atoms(Random)))
        groups.setdefault(key, []).append(node)
    slots: dict[Any, Slot] = {}
    programs: list[tuple[tuple[Index, ...], FixedPointProgram, dict[Basic, Unknown]]] = []
    empty: dict[str, Any] = dict.fromkeys(("variables", "exact", "tables", "defaults"), Table())
    for (free, _), nodes in groups.items():
        slots |= {node: Slot.of("mean", free, free) for node in nodes}
        reads: dict[Basic, Unknown] = {}
        means = {f"mean_{place}": E(_of_one_member(node.argument, reads)) for place, node in enumerate(nodes)}
        alone = model._with(equations=(), conditions=(), observables=Table(means), **empty)
        programs.append((free, FixedPointProgram(alone), reads))
    inner, heads = list(slots.values()), dict[str, Unknown]()
    bare = [expr.xreplace(slots) for expr in everything] + [item for _, _, reads in programs for item in reads]
    for expr in bare:
        for item in sorted(expr.atoms(Unknown), key=str):
            heads.setdefault(item.base, item)
            slots.setdefault(item, Slot.of(item.base, item.indices, item.axes))
    bases, constants, by = list(heads), tables_in(*bare), list(slots.values())[len(inner) :]
    given = [*by, *constants, *inner]

    def lowered(expressions: Iterable[tuple[Expr, Any]], more: list[Slot] = inner) -> Part:
        put = [(expr.xreplace(slots), free) for expr, free in expressions]
        arguments = given[: len(by) + len(constants) + len(more)]
        functions = lower_families(put, arguments, model.parameters)
        return functions, lower_slopes(put, arguments, [*by, *more], model.parameters)

    frees = [ordered_indices(eq.lhs, eq.rhs) for eq in model.equations]
    solved = [_explicit(eq.lhs, eq.rhs, free) for eq, free in zip(model.equations, frees, strict=True)]
    explicit = [(bases.index(item.base), lowered([(value, item.indices)])[0]) for item, value in filter(None, solved)]
    seen = {name: ordered_indices(expr) for name, expr in model.observables.items()}
    return FamilyProgram(
        model.label,
        tuple((base, counts(item.axes), domain_of(item)) for base, item in heads.items()),
        tuple(map(counts, frees)),
        (
            lowered((eq.lhs, free) for eq, free in zip(model.equations, frees, strict=True)),
            lowered((eq.rhs, free) for eq, free in zip(model.equations, frees, strict=True)),
        ),
        tuple(bases.index(item.base) for item in slots if isinstance(item, Unknown)),
        tuple(explicit) if len(dict(explicit)) == len(bases) == len(solved) else None,
        tuple((name, counts(free)) for name, free in seen.items()),
        lowered(zip(model.observables.values(), seen.values(), strict=True)),
        tuple(map(Constant.of, constants)),
        tuple(
            FamilyMeanProgram(program, counts(free), lowered(((item, free) for item in reads), []))
            for free, program, reads in programs
        ),
    )


def _explicit(left: Expr, right: Expr, free: Sequence[Index]) -> tuple[Unknown, Expr] | None:
    """Return the unknown that stands alone on the left of an equation, and its value by the right side."""
    items = list(left.atoms(Unknown))
    if len(items) != 1 or set(items[0].indices) != set(free) or len(items[0].indices) != len(free):
        return None
    value = Dummy("value", real=True)
    bare = Dummy(real=True)
    try:
        solutions = solve(left.xreplace({items[0]: bare}) - value, bare)
    except (NotImplementedError, SympifyError):
        return None
    return (items[0], solutions[0].xreplace({value: right})) if len(solutions) == 1 else None
