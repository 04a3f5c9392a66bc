"""Fixed points of many unknowns with indices and without expectations: successive substitution, then Newton's method.

A hundred unknowns cannot be scanned. Where every equation gives its own unknown by the others, f = g(f), these are put in
again and again, from the upper ends of the domains (then from the lower ends and between): of equations that increase, as those
of mode coupling, this finds the largest solution (Tarski). Newton's method with the exact Jacobian is tried on the way and kept
where it stays near; it ends at rounding. The error is what rounding in the residuals can do, through the inverse of the Jacobian.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import Dummy, Expr, solve
from sympy.core.sympify import SympifyError

from eqsolve.compile.families import Constant, Functions, Slopes, lower_families, lower_slopes, over_points, tables_in
from eqsolve.compile.fixed_point import domain_of
from eqsolve.compile.values import Values
from eqsolve.errors import ModelError, SolverError
from eqsolve.language.fixed_point import FixedPoint
from eqsolve.language.indices import Index, Slot, free_indices, member_names
from eqsolve.language.model import leaves
from eqsolve.language.printing import kept_by_model
from eqsolve.language.symbols import Unknown
from eqsolve.numerics.arrays import EPSILON, Array
from eqsolve.numerics.domains import Domain
from eqsolve.results.arrays import LabelledArray, LabelledArrays
from eqsolve.results.result import Result

logger = logging.getLogger("eqsolve")

_PUT_IN = 4000  # how often values are put in, at most: next to a fold, at a distance d, it takes some 10/√d
_NEAR = 0.3  # of the values: so near Newton's solution must lie to where it began


@dataclass(frozen=True, eq=False)
class FamilyProgram:
    """Equations on arrays: left and right sides, slopes of their difference, each unknown by its equation, outputs."""

    unknowns: tuple[tuple[str, tuple[int, ...], Domain], ...]
    shapes: tuple[tuple[int, ...], ...]  # of the equations
    sides: Functions
    slopes: Slopes
    owner: tuple[int, ...]  # of each argument of the slopes its unknown
    explicit: tuple[tuple[int, Functions], ...] | None  # unknown, and its value by its equation
    observables: tuple[tuple[str, tuple[int, ...]], ...]
    outputs: Functions
    output_slopes: Slopes
    constants: tuple[Constant, ...]


@kept_by_model
def compile_families(model: FixedPoint) -> FamilyProgram:
    """Return the equations of a fixed point on arrays."""
    heads: dict[str, Unknown] = {}
    slots: dict[Any, Slot] = {}
    for leaf in leaves(model._key()):
        for item in sorted(leaf.atoms(Unknown), key=str):
            heads.setdefault(item.base, item)
            slots.setdefault(item, Slot.of(item.base, item.indices, item.axes))
    bases = list(heads)
    constants = tables_in(*leaves((*(side for eq in model.equations for side in (eq.lhs, eq.rhs)), *model.observables.values())))
    arguments = [*slots.values(), *constants]
    known = model.parameters

    def put(expr: Expr) -> Expr:
        return expr.xreplace(slots)

    def own(*expressions: Expr) -> tuple[Index, ...]:
        return tuple(sorted(frozenset().union(*map(free_indices, expressions)), key=str))

    pairs = [(put(eq.lhs), put(eq.rhs), own(eq.lhs, eq.rhs)) for eq in model.equations]
    both = [(side, free) for left, right, free in pairs for side in (left, right)]
    explicit: list[tuple[int, Functions]] | None = []
    for eq, (_, right, free) in zip(model.equations, pairs, strict=True):
        found = _explicit(eq.lhs, right, free)
        if found is None or explicit is None:
            explicit = None
            continue
        explicit.append((bases.index(found[0].base), lower_families([(found[1], found[0].indices)], arguments, known)))
    if explicit is not None and len({number for number, _ in explicit}) < len(bases):
        explicit = None
    by = list(slots.values())
    seen = [(put(expr), own(expr)) for expr in model.observables.values()]
    return FamilyProgram(
        tuple((base, tuple(axis.count for axis in item.axes), domain_of(item)) for base, item in heads.items()),
        tuple(tuple(axis.count for axis in free) for _, _, free in pairs),
        lower_families(both, arguments, known),
        lower_slopes([(right - left, free) for left, right, free in pairs], arguments, by, known),
        tuple(bases.index(item.base) for item in slots),
        None if explicit is None else tuple(explicit),
        tuple(
            (name, tuple(axis.count for axis in free)) for name, (_, free) in zip(model.observables, seen, strict=True)
        ),
        lower_families(seen, arguments, known),
        lower_slopes(seen, arguments, by, known),
        tuple(map(Constant.of, constants)),
    )


def _explicit(left: Expr, right: Expr, free: Sequence[Index]) -> tuple[Unknown, Expr] | None:
    """Return the unknown that stands alone on the left of an equation, and its value by the right side."""
    items = list(left.atoms(Unknown))
    if len(items) != 1 or not set(items[0].indices) == set(free) or len(items[0].indices) != len(free):
        return None
    value = Dummy("value", real=True)
    bare = Dummy(real=True)
    try:
        found = solve(left.xreplace({items[0]: bare}) - value, bare)
    except (NotImplementedError, SympifyError):
        return None
    return (items[0], found[0].xreplace({value: right})) if len(found) == 1 else None


def why_not_on_arrays(model: FixedPoint) -> str:
    """Return why a fixed point is solved with its members written out; nothing where it is solved on arrays."""
    from eqsolve.language.nodes import E as Mean

    if model.randoms or any(leaf.has(Mean) for leaf in leaves(model._key())):
        return "it has expectations"
    if any(not entry.is_Symbol for leaf in leaves(model.equations) for item in leaf.atoms(Unknown) for entry in item.indices):
        return "members of a family stand at fixed numbers"
    return ""


class _Problem:
    """The equations at numbers, of one vector of all unknowns."""

    def __init__(self, model: FixedPoint, numbers: Mapping[str, float], tables: Mapping[str, Array]) -> None:
        from eqsolve.compile.lowering import at

        self.program = at(compile_families(model), numbers)
        self.constants = [item.array(tables) for item in self.program.constants]
        sizes = [math.prod(shape) for _, shape, _ in self.program.unknowns]
        ends = np.cumsum([0, *sizes])
        self.parts = [slice(*pair) for pair in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        self.count = int(ends[-1])
        rows = np.cumsum([0, *(math.prod(shape) for shape in self.program.shapes)])
        self.rows = rows[:-1]
        if rows[-1] != self.count:
            raise ModelError(f"{model.label} has {rows[-1]} equations for {self.count} unknowns; expected as many")

    def arguments(self, values: Array) -> list[Any]:
        """Return the arrays that functions take."""
        shaped = [values[part].reshape(shape) for part, (_, shape, _) in zip(self.parts, self.program.unknowns, strict=True)]
        return [*(shaped[number] for number in self.program.owner), *self.constants]

    def sides(self, values: Array) -> tuple[Array, Array]:
        found = self.program.sides(self.arguments(values))
        flat = [over_points(side, self.program.shapes[k // 2], ()).ravel() for k, side in enumerate(found)]
        return np.concatenate(flat[::2]), np.concatenate(flat[1::2])

    def _matrix(self, slopes: Slopes, starts: Array, total: int, values: Array) -> Array:
        made = np.zeros((total, self.count))
        for row, argument, rows, columns, change in slopes(self.arguments(values), 0):
            at = self.parts[self.program.owner[argument]].start
            np.add.at(made, (starts[row] + rows, at + columns), np.broadcast_to(change, rows.shape))
        return made

    def jacobian(self, values: Array) -> Array:
        return self._matrix(self.program.slopes, self.rows, self.count, values)

    def put_in(self, values: Array) -> Array:
        """Return every unknown by its own equation."""
        made = values.copy()
        for number, function in self.program.explicit:
            made[self.parts[number]] = over_points(
                function(self.arguments(values))[0], self.program.unknowns[number][1], ()
            ).ravel()
        return made

    def inside(self, values: Array) -> bool:
        """Whether all values lie in their domains."""
        for part, (_, _, domain) in zip(self.parts, self.program.unknowns, strict=True):
            low, high = domain.interval or ((0.0, np.inf) if domain.sign > 0 else (-np.inf, np.inf))
            if not np.all((values[part] >= low) & (values[part] <= high)):
                return False
        return bool(np.isfinite(values).all())

    def start(self, share: float) -> Array:
        """Return a place in the domains; ``share`` from 0, the lower ends, to 1, the upper ends."""
        made = np.empty(self.count)
        for part, (_, _, domain) in zip(self.parts, self.program.unknowns, strict=True):
            low, high = domain.interval or ((0.0, 10.0) if domain.sign > 0 else (-10.0, 10.0))
            made[part] = low + (0.001 + 0.998 * share) * (high - low)
        return made


def _newton(problem: _Problem, values: Array, most: int = 40) -> Array | None:
    """Return the solution that Newton's method comes to without leaving the domains, or nothing."""
    last = np.inf
    for _ in range(most):
        left, right = problem.sides(values)
        try:
            step = np.linalg.solve(problem.jacobian(values), left - right)
        except np.linalg.LinAlgError:
            return None
        shorter = 1.0
        while shorter > 1e-3 and not problem.inside(values + shorter * step):
            shorter /= 2
        if shorter <= 1e-3 or not np.isfinite(step).all():
            return None
        values = values + shorter * step
        size = float(np.max(np.abs(step) / (np.abs(values) + EPSILON), initial=0.0))
        if shorter == 1.0 and (size < 1e-14 or (size < 1e-9 and size > 0.5 * last)):
            return values
        last = size
    return None


def _search(problem: _Problem, start: Array) -> Array | None:
    """Put values in until Newton's method finds a solution near them."""
    values = start
    if problem.program.explicit is None:
        return _newton(problem, values)
    count = 1
    for number in range(_PUT_IN):
        if number == count:
            found = _newton(problem, values)
            if found is not None and np.all(np.abs(found - values) <= _NEAR * np.abs(values)):
                return found
            count = 2 * count
        after = problem.put_in(values)
        if not problem.inside(after):
            return None
        if np.max(np.abs(after - values) / (np.abs(after) + EPSILON)) < 1e-15:
            return after
        values = after
    return _newton(problem, values)


def solve_families(model: FixedPoint, at_values: Values, start: Mapping[str, float] | None) -> Result:
    """Return the solution of a fixed point on arrays, every unknown and observable with its error."""
    problem, settings = _Problem(model, at_values.numbers, at_values.tables), at_values.settings
    program = problem.program
    names = [name for base, shape, _ in program.unknowns for name in member_names(base, shape)]
    found: list[Array] = []
    with np.errstate(all="ignore"):
        if start is not None and set(names) <= set(start):
            near = _newton(problem, np.array([float(start[name]) for name in names]))
            found += [] if near is None else [near]
        for share in (1.0, 0.0, 0.5) if not found else ():
            values = _search(problem, problem.start(share))
            if values is not None and not any(np.allclose(values, other, rtol=1e-7, atol=1e-12) for other in found):
                found.append(values)
        if not found:
            given = ", ".join(f"{name}={value}" for name, value in settings.items())
            raise SolverError(
                f"model `{model.name}` ({model.location}): no solution found from the upper ends, the lower ends and the "
                f"middle of the domains; the equations may have none for {given}"
            )
        values = found[0]
        left, right = problem.sides(values)
        rounding = 4 * EPSILON * (np.abs(left) + np.abs(right)) + np.abs(right - left)
        errors = np.abs(np.linalg.inv(problem.jacobian(values))) @ rounding + EPSILON * np.abs(values)
        outputs = [
            over_points(value, shape, ()).ravel()
            for value, (_, shape) in zip(program.outputs(problem.arguments(values)), program.observables, strict=True)
        ]
        starts = np.cumsum([0, *(len(item) for item in outputs)])
        moved = np.abs(problem._matrix(program.output_slopes, starts[:-1], int(starts[-1]), values)) @ errors
    data: dict[str, LabelledArray] = {}
    told = [name for base, shape in program.observables for name in member_names(base, shape)]
    every = np.concatenate([values, *outputs])
    sizes = np.concatenate([errors, moved + 4 * EPSILON * np.abs(every[len(values) :])])
    for name, value, error in zip([*names, *told], every, sizes, strict=True):
        data[name], data[f"{name}_error"] = LabelledArray((), value), LabelledArray((), error)
    stats: dict[str, Any] = {"residual": float(np.max(np.abs(right - left)))}
    if len(found) > 1:
        stats["other_solutions"] = [dict(zip(names, map(float, other), strict=True)) for other in found[1:]]
        logger.warning("%s: there are further solutions (stats['other_solutions'] in Python)", model.name)
    return Result(LabelledArrays(data), model=model.name, kind="fixed point", params=dict(settings), stats=stats)
