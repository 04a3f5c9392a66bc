"""Bring a fixed point to its smallest form: branches on parameters resolved, unknowns given by others eliminated."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sympy import Add, Basic, Expr, Piecewise, S, factorial

from eqsolve.language.fixed_point import FixedPoint
from eqsolve.language.laws import Normal
from eqsolve.language.model import Equation
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Parameter, Random, Unknown


@dataclass(frozen=True)
class Reduced:
    """What is left to solve."""

    # as many equations as unknowns
    unknowns: tuple[Unknown, ...]
    equations: tuple[Equation, ...]
    # unknowns given explicitly, in terms of the remaining ones, in order of evaluation
    eliminated: tuple[tuple[Unknown, Expr], ...]
    # in terms of the remaining unknowns, the Gaussian variables standardised
    observables: dict[str, Expr]
    variables: dict[str, Expr]
    # standard normal variables that replaced Gaussian ones whose law contains unknowns or
    # parameters, by name
    gaussians: dict[str, tuple[Random, Expr]]
    mapping: dict[Basic, Basic]


@functools.lru_cache(maxsize=128)
def conditions_of(model: FixedPoint) -> list[Basic]:
    """Return the conditions of branches that involve parameters only, in a fixed order."""
    found: set[Basic] = set()
    laws = [item.law for item in model.randoms if item.law is not None]
    sides = [side for equation in model.equations for side in (equation.lhs, equation.rhs)]
    for expr in (*sides, *model.observables.values(), *model.variables.values(), *laws):
        for node in expr.atoms(Piecewise):
            symbols = {c: c.free_symbols for _, c in node.args}
            found |= {c for c, free in symbols.items() if free and all(isinstance(item, Parameter) for item in free)}
    return sorted(found, key=str)


def _resolver(model: FixedPoint, values: Mapping[Parameter, Expr]) -> Any:
    whole = {item: value for item, value in values.items() if item.is_integer}
    truths = {c: S.true if c.subs(values) == True else S.false for c in conditions_of(model)}  # noqa: E712

    def resolve(expr: Any) -> Any:
        """Replace branches on parameters by the one taken, bottom up, then whole numbers by their values."""
        if not expr.args:
            return whole.get(expr, expr)
        if isinstance(expr, Piecewise):
            for value, condition in expr.args:
                truth = truths.get(condition, condition)
                if truth == True:  # noqa: E712
                    return resolve(value)
                if truth != False:  # noqa: E712
                    break
            pairs = [(v, truths.get(c, c)) for v, c in expr.args]
            return Piecewise(*((resolve(v), c) for v, c in pairs if c != False))  # noqa: E712
        new = [resolve(arg) for arg in expr.args]
        return expr if all(a is b for a, b in zip(new, expr.args, strict=True)) else expr.func(*new)

    return resolve


def reduce_fixed_point(
    model: FixedPoint, values: Mapping[Parameter, Expr], declared: frozenset[str], *, eliminate: bool = True
) -> Reduced:
    """Return the reduced system; ``declared`` names the Gaussian variables that keep the law of the model file."""
    resolve = _resolver(model, values)
    gaussians: dict[str, tuple[Random, Expr]] = {}
    mapping: dict[Basic, Basic] = {}
    for item in model.randoms:
        if isinstance(item.law, Normal) and item.name in declared:
            mean, variance = (resolve(arg) for arg in item.law.args)
            standard = Random(f"{item.name}_standard")
            gaussians[item.name] = (standard, variance)
            mapping[item] = mean + variance**S.Half * standard

    standards = {standard for standard, _ in gaussians.values()}
    swaps: list[dict[Basic, Basic]] = []  # of eliminated unknowns, in the order in which they are

    def prepare(expr: Any) -> Any:
        made = resolve(expr).xreplace(mapping)
        made = made.xreplace({node: _moment(node, standards) for node in made.atoms(E)})
        for swap in swaps:
            made = made.subs(swap)
        return made

    equations = [Equation(prepare(eq.lhs), prepare(eq.rhs), eq.location, {}) for eq in model.equations]
    eliminated: list[tuple[Unknown, Expr]] = []
    while eliminate and (found := _explicit(equations)):
        index, item, expr = found
        equations.pop(index)
        swaps.append({item: expr})
        equations = [Equation(eq.lhs.subs(swaps[-1]), eq.rhs.subs(swaps[-1]), eq.location, {}) for eq in equations]
        eliminated = [(other, value.subs(swaps[-1])) for other, value in eliminated] + [(item, expr)]
    gone = {item for item, _ in eliminated}
    return Reduced(
        tuple(item for item in model.unknowns if item not in gone), tuple(equations), tuple(eliminated),
        {name: prepare(expr) for name, expr in model.observables.items()},
        {name: prepare(expr) for name, expr in model.variables.items()},
        {name: (standard, prepare(variance)) for name, (standard, variance) in gaussians.items()},
        {item: prepare(item) for item in mapping},
    )  # fmt: skip


def hold(reduced: Reduced, held: tuple[Unknown, ...], dropped: tuple[int, ...]) -> Reduced:
    """Return a system in which some unknowns are given numbers, without as many of its equations."""
    return replace(
        reduced,
        unknowns=tuple(item for item in reduced.unknowns if item not in held),
        equations=tuple(eq for place, eq in enumerate(reduced.equations) if place not in dropped),
        eliminated=(*reduced.eliminated, *((item, item) for item in held)),
    )


def _moment(node: E, standards: set[Random]) -> Expr:
    """Return the mean of a polynomial in standard normal variables, Σ f⁽²ᵏ⁾(0)/(2ᵏ k!)."""
    made, used = node.argument, node.argument.atoms(Random)
    if not used <= standards or not made.is_polynomial(*used):
        return node
    for item in sorted(used, key=str):
        terms: list[Expr] = []
        while made != 0:
            terms.append(made.xreplace({item: S.Zero}) / (2 ** len(terms) * factorial(len(terms))))
            made = made.diff(item, 2)
        made = Add(*terms)
    return made


def _explicit(equations: list[Equation]) -> tuple[int, Unknown, Expr] | None:
    """Return an equation that gives one unknown by the others without an expectation, solved for it."""
    for index, equation in enumerate(equations):
        if equation.lhs.has(E) or equation.rhs.has(E):
            continue
        for left, right in ((equation.lhs, equation.rhs), (equation.rhs, equation.lhs)):
            if isinstance(left, Unknown) and left not in right.free_symbols:
                return index, left, right
        if isinstance(equation.lhs, Unknown):  # u = a + b u
            item = equation.lhs
            gap = equation.lhs - equation.rhs
            slope, rest = gap.diff(item), gap.subs(item, 0)
            lost = rest == 0 and slope.atoms(Unknown)  # where the slope vanishes
            if item not in slope.free_symbols and slope != 0 and not lost:
                return index, item, -rest / slope
    return None
