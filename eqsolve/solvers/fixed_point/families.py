"""Fixed points of many unknowns with indices and without expectations: successive substitution, then Newton's method.

A hundred unknowns cannot be scanned. Where every equation gives its own unknown by the others, f = g(f), values are put in
again and again, from the upper ends of the domains, then from the lower ends and between: of equations that increase, as
those of mode coupling, this finds the largest solution (Tarski). Newton's method with the exact Jacobian is tried on the way
and kept where it stays near; it ends at rounding. The error is what rounding in the residuals can do, through the inverse of
the Jacobian.
"""

import logging
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from eqsolve.compile.families import FamilyProgram, Slopes, over_points
from eqsolve.compile.lowering import at
from eqsolve.compile.values import Values
from eqsolve.errors import ModelError, SolverError
from eqsolve.numerics.arrays import EPSILON, Array, member_names
from eqsolve.results.arrays import LabelledArray, LabelledArrays
from eqsolve.results.result import Result

logger = logging.getLogger("eqsolve")

_PUT_IN = 4000  # how often values are put in, at most: next to a fold, at a distance d, it takes some 10/√d
_NEAR = 0.3  # of the values: so near Newton's solution must lie to where it began


class FamilyProblem:
    """The equations at numbers, of one vector of all unknowns."""

    def __init__(self, program: FamilyProgram, numbers: Mapping[str, Any]) -> None:
        self.program = at(program, numbers)
        self.constants = list(self.program.constants)
        sizes = [math.prod(shape) for _, shape, _ in self.program.unknowns]
        ends = np.cumsum([0, *sizes])
        self.parts = [slice(*pair) for pair in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        self.count = int(ends[-1])
        rows = np.cumsum([0, *(math.prod(shape) for shape in self.program.shapes)])
        self.rows = rows[:-1]
        if rows[-1] != self.count:
            raise ModelError(f"{program.label} has {rows[-1]} equations for {self.count} unknowns; expected as many")

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

    def slopes(self, values: Array) -> tuple[Array, Array]:
        """Return the derivatives of the left sides, and of the right sides."""
        left, right = (self._matrix(item, self.rows, self.count, values) for item in self.program.slopes)
        return left, right

    def scales(self, values: Array) -> Array:
        """Return d unknown / d search variable."""
        made = np.ones(self.count)
        for part, (_, _, domain) in zip(self.parts, self.program.unknowns, strict=True):
            made[part] = domain.scale(values[part])  # type: ignore[arg-type]
        return made

    def moved(self, values: Array, step: Array) -> Array:
        """Return the values after a step of the search variables."""
        made = values + step
        for part, (_, _, domain) in zip(self.parts, self.program.unknowns, strict=True):
            if domain.is_bounded:
                made[part] = domain.value(np.array([domain.point(value) for value in values[part]]) + step[part])
        return made

    def stability(self, values: Array) -> float:
        """Return 1 − the largest gain of putting values in: positive where that converges, zero at a fold, like its root."""
        try:
            return 1.0 - float(np.max(np.linalg.eigvals(np.linalg.solve(*self.slopes(values))).real, initial=0.0))
        except np.linalg.LinAlgError:
            return float("nan")

    def put_in(self, values: Array) -> Array:
        """Return every unknown by its own equation."""
        made = values.copy()
        for number, function in self.program.explicit or ():
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


def _newton(problem: FamilyProblem, values: Array, most: int = 60) -> Array | None:
    """Return the solution that Newton's method comes to, or nothing.

    Unknowns with a domain are searched in its own variable, and sides that are positive are compared by their logarithms,
    as for single unknowns: power laws are then straight lines.
    """
    last = np.inf
    for _ in range(most):
        left, right = problem.sides(values)
        log = (left > 0) & (right > 0)
        residual = np.where(log, np.log(np.where(log, right / left, 1.0)), right - left)
        below, above = problem.slopes(values)
        weights = [np.where(log, 1 / np.where(log, side, 1.0), 1.0)[:, None] for side in (left, right)]
        change = above * weights[1] - below * weights[0]
        scale = problem.scales(values)
        try:
            step = -np.linalg.solve(change * scale, residual)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(step).all():
            return None
        longest = float(np.max(np.abs(step), initial=0.0))
        values = problem.moved(values, step / max(longest / 2.0, 1.0))
        size = float(np.max(np.abs(step * scale) / (np.abs(values) + EPSILON), initial=0.0))
        if size < 1e-14 or (size < 1e-9 and size > 0.5 * last):
            return values if problem.inside(values) else None
        last = size
    return None


def _search(problem: FamilyProblem, start: Array) -> Array | None:
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


def solve_families(compiled: FamilyProgram, name: str, values_at: Values, start: Mapping[str, float] | None) -> Result:
    """Return the solution of a fixed point on arrays, every unknown and observable with its error."""
    problem, settings = FamilyProblem(compiled, values_at.numbers), values_at.settings
    program = problem.program
    names = [name for base, shape, _ in program.unknowns for name in member_names(base, shape)]
    found: list[Array] = []
    with np.errstate(all="ignore"):
        if start is not None and set(names) <= set(start):
            near = _newton(problem, np.array([float(start[key]) for key in names]))
            found += [] if near is None else [near]
        for share in (1.0, 0.0, 0.5) if not found else ():
            values = _search(problem, problem.start(share))
            if values is not None and not any(np.allclose(values, other, rtol=1e-7, atol=1e-12) for other in found):
                found.append(values)
        if not found:
            given = ", ".join(f"{key}={value}" for key, value in settings.items())
            raise SolverError(
                f"{compiled.label}: no solution found from the upper ends, the lower ends and the "
                f"middle of the domains; the equations may have none for {given}"
            )
        values = found[0]
        left, right = problem.sides(values)
        rounding = 4 * EPSILON * (np.abs(left) + np.abs(right)) + np.abs(right - left)
        below, above = problem.slopes(values)
        errors = np.abs(np.linalg.inv(above - below)) @ rounding + EPSILON * np.abs(values)
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
    for key, value, error in zip([*names, *told], every, sizes, strict=True):
        data[key], data[f"{key}_error"] = LabelledArray((), value), LabelledArray((), error)
    stats: dict[str, Any] = {"residual": float(np.max(np.abs(right - left)))}
    if program.explicit is not None:
        stats["stability"] = problem.stability(values)
    if len(found) > 1:
        stats["other_solutions"] = [dict(zip(names, map(float, other), strict=True)) for other in found[1:]]
        logger.info("%s: there are further solutions (stats['other_solutions'] in Python)", name)
    return Result(LabelledArrays(data), model=name, kind="fixed point", params=dict(settings), stats=stats)
