"""Fixed points of many unknowns with indices: successive substitution (Picard), then Newton's method.

A hundred unknowns cannot be scanned. Where every equation gives its own unknown by the others, f =
g(f), it is iterated from the upper ends of the domains, then from the lower ends and between: of
monotone equations, as those of mode coupling, this finds the largest solution (Tarski, Pacific J.
Math. 5, 285 (1955), doi:10.2140/pjm.1955.5.285). Newton's method with the exact Jacobian is tried
on the way and kept where it stays near; it ends at rounding. The error is what rounding in the
residuals can do, through the inverse of the Jacobian.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eqsolve.compile.families import Slopes, over_points
from eqsolve.compile.fixed_point import FamilyMeanProgram, FamilyProgram
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Values
from eqsolve.errors import ModelError, SolverError, logger
from eqsolve.numerics.arrays import EPSILON, Array, member_names
from eqsolve.numerics.quadrature import expectations, gradients, stacked
from eqsolve.results.arrays import LabelledArrays
from eqsolve.results.result import Result
from eqsolve.solvers.fixed_point import newton
from eqsolve.solvers.fixed_point.newton import Linearisation, Sought, finer_rules, make_problem

# most iterations: next to a fold, at a distance d, it takes some 10/√d, and in floats d < ε^⅓ is the fold itself
_PICARD = round(10 / EPSILON ** (1 / 6))


class FamilyMeans:
    """Means of families at numbers; of what they read each member has a column."""

    def __init__(self, program: FamilyMeanProgram, values: Values) -> None:
        self.values = replace(values, laws={name.partition("[")[0]: law for name, law in values.laws.items()})
        self.problem = make_problem(program.program, self.values)
        self.mesh: Any = None
        self.shape, (self.reads, self.read_slopes) = program.shape, program.reads
        self.size, self.names = math.prod(program.shape), newton.names_of(self.problem)

    def read(self, arguments: Sequence[Any]) -> Array:
        return _flat(self.reads(arguments), [self.shape] * len(self.names)).reshape(len(self.names), self.size)

    def _outputs(self, what: str, columns: Array, means: Array, *along: str) -> Array:
        return stacked(self.problem.plan.piece(what, *along)(*self.problem.parameters, *columns, *means), self.size)

    def __call__(self, columns: Array) -> Array:
        """Return the means, (means, members)."""
        self.mesh = self.problem.adapted(columns)
        return self._outputs("outputs", columns, expectations(self.problem.integrands(columns), self.mesh))

    def slopes(self, columns: Array) -> tuple[Array, Callable[[], Array]]:
        """Return the derivatives of the means just taken by what they read, (means, read, members), and their errors."""
        means, slopes, sizes = gradients(self.problem.integrands(columns), self.mesh, self.names)
        partial = self._outputs("output slopes", columns, means, *self.names).reshape(-1, len(columns) + len(means), self.size)
        through = partial[:, len(columns) :]

        def errors() -> Array:
            finer, halved = [*finer_rules(self.values, self.problem, columns, self.mesh)][-1]
            change = np.abs(expectations(finer.integrands(columns), halved) - means) + EPSILON * sizes
            return np.einsum("oem,em->om", np.abs(through), change).ravel()

        return partial[:, : len(columns)] + np.einsum("oem,erm->orm", through, slopes), errors


def _flat(parts: Sequence[Any], shapes: Sequence[tuple[int, ...]]) -> Array:
    """Return values of families, one after the other."""
    return np.concatenate([[], *(over_points(part, shape, ()).ravel() for part, shape in zip(parts, shapes, strict=True))])


class FamilyProblem(Sought):
    """The equations at numbers, of one vector of all unknowns."""

    def __init__(self, program: FamilyProgram, values: Values) -> None:
        self.program = at(program, values.numbers)
        self.means = [FamilyMeans(item, values) for item in self.program.means]
        self.first = len(self.program.owner) + len(self.program.constants)  # arguments that are no means
        self.domains = [domain for _, shape, domain in self.program.unknowns for _ in range(math.prod(shape))]
        self.starts = np.cumsum([0, *(math.prod(shape) for _, shape, _ in self.program.unknowns)])
        self.count, self._known = len(self.domains), (np.zeros(0), list[Any]())
        if (rows := sum(map(math.prod, self.program.shapes))) != self.count:
            raise ModelError(f"{program.label} has {rows} equations for {self.count} unknowns; expected as many")

    def arguments(self, values: Array) -> list[Any]:
        """Return the arrays that functions take."""
        if not np.array_equal(values, self._known[0]):
            parts = np.split(values, self.starts[1:-1])
            shaped = [part.reshape(shape) for part, (_, shape, _) in zip(parts, self.program.unknowns, strict=True)]
            first = [*(shaped[number] for number in self.program.owner), *self.program.constants]
            means = [row.reshape(item.shape) for item in self.means for row in item(item.read(first))]
            self._known = (values.copy(), [*first, *means])
        return self._known[1]

    def sides(self, values: Array) -> tuple[Array, Array]:
        left, right = (_flat(side(self.arguments(values)), self.program.shapes) for side, _ in self.program.sides)
        return left, right

    def matrix(self, slopes: Slopes, shapes: Sequence[tuple[int, ...]], arguments: list[Any]) -> Array:
        """Return derivatives by the unknowns and, behind, by the means."""
        starts = np.cumsum([0, *map(math.prod, shapes)])
        ends = np.cumsum([self.count, *map(np.size, arguments[self.first :])])
        matrix = np.zeros((starts[-1], ends[-1]))
        for row, argument, rows, columns, change in slopes(arguments, 0):
            inner = argument >= self.first
            at = ends[argument - self.first] if inner else self.starts[self.program.owner[argument]]
            np.add.at(matrix.ravel(), (starts[row] + rows) * ends[-1] + at + columns, np.broadcast_to(change, rows.shape))
        return matrix

    def moving(self, values: Array) -> tuple[Array, list[Callable[[], Array]]]:
        """Return how means move with the unknowns, and what gives the errors of the means."""
        moved, errors, first = [np.zeros((0, self.count))], [], self.arguments(values)[: self.first]
        for item in self.means:
            columns = item.read(first)
            slopes, mean_errors = item.slopes(columns)
            read = self.matrix(item.read_slopes, [item.shape] * len(columns), first).reshape(*columns.shape, self.count)
            moved.append(np.einsum("orm,rmv->omv", slopes, read).reshape(-1, self.count))
            errors.append(mean_errors)
        return np.concatenate(moved), errors

    def slopes(self, values: Array) -> list[Array]:
        """Return the derivatives of the left sides, and of the right sides, by unknowns and means."""
        return [self.matrix(slopes, self.program.shapes, self.arguments(values)) for _, slopes in self.program.sides]

    def totals(self, slopes: Array, moving: Array) -> Array:
        """Return derivatives by the unknowns alone, from those by unknowns and means."""
        return slopes[:, : self.count] + slopes[:, self.count :] @ moving

    def adapted(self, values: Array, **how: Any) -> Any:
        return ()  # each of the means has a mesh of its own

    def linearise(self, values: Array, mesh: Any) -> Linearisation:
        """Return residuals and their derivatives; sides that are positive are compared by their logarithms."""
        (left, right), (below, above) = self.sides(values), self.slopes(values)
        log = (left > 0) & (right > 0)
        residual = np.where(log, np.log(np.where(log, right / left, 1.0)), right - left)
        weights = [np.where(log, 1 / np.where(log, side, 1.0), 1.0)[:, None] for side in (left, right)]
        jacobian = self.totals(above * weights[1] - below * weights[0], self.moving(values)[0])
        return Linearisation(residual, jacobian, residual[:0], jacobian[:0], residual)

    def stability(self, values: Array) -> float:
        """Return 1 − the largest eigenvalue of the Picard map: positive if it converges, zero at a fold."""
        moving = self.moving(values)[0]
        try:
            gains = np.linalg.eigvals(np.linalg.solve(*(self.totals(side, moving) for side in self.slopes(values))))
        except np.linalg.LinAlgError:
            return float("nan")
        return 1.0 - float(np.max(gains.real, initial=0.0))

    def picard(self, values: Array) -> Array:
        """Return every unknown by its own equation."""
        images = {number: function(self.arguments(values))[0] for number, function in self.program.explicit or ()}
        return _flat([images[number] for number in sorted(images)], [shape for _, shape, _ in self.program.unknowns])

    def inside(self, values: Array) -> bool:
        """Whether all values lie in their domains."""
        return all(domain.holds(value) for domain, value in zip(self.domains, values, strict=True))

    def start(self, share: float) -> Array:
        """Return a place in the domains; ``share`` from 0, the lower ends, to 1, the upper ends."""
        everywhere = ((-10.0 * (item.sign <= 0), 10.0 * (item.sign >= 0)) for item in self.domains)
        low, high = np.array([item.interval or ends for item, ends in zip(self.domains, everywhere, strict=True)]).T
        return np.asarray(low + (0.001 + 0.998 * share) * (high - low))


def _newton(problem: FamilyProblem, values: Array) -> Array | None:
    """Return the solution that Newton's method comes to, or nothing."""
    solution = newton.newton(problem, values, None, rounds=60)
    return solution.values if solution.converged and problem.inside(solution.values) else None


def _search(problem: FamilyProblem, start: Array) -> Array | None:
    """Iterate (Picard) until Newton's method finds a solution nearby."""
    values = start
    if problem.program.explicit is None:
        return _newton(problem, values)
    count = 1
    for number in range(_PICARD):
        if number == count:
            solution = _newton(problem, values)
            if solution is not None and np.all(np.abs(solution - values) <= newton.NEARLY * np.abs(values)):
                return solution
            count = 2 * count
        after = problem.picard(values)
        if not problem.inside(after):
            return None
        if np.max(np.abs(after - values) / (np.abs(after) + EPSILON)) < 1e-15:
            return after
        values = after
    return _newton(problem, values)


def solve_families(compiled: FamilyProgram, name: str, values_at: Values, start: Mapping[str, float] | None) -> Result:
    """Return the solution of a fixed point on arrays, every unknown and observable with its error."""
    problem, settings = FamilyProblem(compiled, values_at), values_at.settings
    program = problem.program
    names = [name for base, shape, _ in program.unknowns for name in member_names(base, shape)]
    solutions: list[Array] = []
    with np.errstate(all="ignore"):
        if start is not None and set(names) <= set(start):
            near = _newton(problem, np.array([float(start[key]) for key in names]))
            solutions += [] if near is None else [near]
        for share in (1.0, 0.0, 0.5) if not solutions else ():
            values = _search(problem, problem.start(share))
            if values is not None and not any(np.allclose(values, other, rtol=1e-7, atol=1e-12) for other in solutions):
                solutions.append(values)
        if not solutions:
            given = ", ".join(f"{key}={value}" for key, value in settings.items())
            raise SolverError(
                f"{compiled.label}: no solution found from the upper ends, the lower ends and the "
                f"middle of the domains; the equations may have none for {given}"
            )
        for place, values in enumerate(solutions):  # what vanishes is approached without end
            without = np.where(np.abs(values) < EPSILON**2, 0.0, values)
            if np.array_equal(*problem.sides(without)):
                solutions[place] = without
        values = solutions[0]
        (left, right), (below, above) = problem.sides(values), problem.slopes(values)
        moving, mean_errors = problem.moving(values)
        inner = np.concatenate([np.zeros(problem.count), *(errors() for errors in mean_errors)])
        rounding = 4 * EPSILON * (np.abs(left) + np.abs(right)) + np.abs(right - left) + np.abs(above - below) @ inner
        errors = np.abs(np.linalg.inv(problem.totals(above - below, moving))) @ rounding + EPSILON * np.abs(values)
        (functions, slopes), shapes = program.outputs, [shape for _, shape in program.observables]
        outputs = _flat(functions(problem.arguments(values)), shapes)
        change = problem.matrix(slopes, shapes, problem.arguments(values))
        output_errors = np.abs(problem.totals(change, moving)) @ errors + np.abs(change) @ inner
        output_errors += 4 * EPSILON * np.abs(outputs)
    names += [name for base, shape in program.observables for name in member_names(base, shape)]
    data = LabelledArrays.of_numbers(
        *(dict(zip(names, [*one, *more], strict=True)) for one, more in ((values, outputs), (errors, output_errors)))
    )
    stats: dict[str, Any] = {"residual": float(np.max(np.abs(right - left)))}
    if program.explicit is not None:
        stats["stability"] = problem.stability(values)
    if len(solutions) > 1:
        stats["other_solutions"] = [dict(zip(names, map(float, other), strict=False)) for other in solutions[1:]]
        logger.info("%s: there are further solutions (stats['other_solutions'] in Python)", name)
    return Result(data, model=name, kind="fixed point", params=dict(settings), stats=stats)
