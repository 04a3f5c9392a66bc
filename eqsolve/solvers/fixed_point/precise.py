"""A fixed point to any number of digits: the same symbolic equations in mpmath, started from the double solution.

The panels are those of the double solve, cut finer, with Gauss–Legendre nodes whose number grows with the digits; the
Jacobian stays that of the double solve, so that every step gains some fourteen digits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.errors import SolverError, UsageError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.quadrature import Lines, PanelMesh, Rows, adapt, branches, make_rows, precise_legendre, stacked
from eqsolve.results.distribution import Distribution
from eqsolve.solvers.fixed_point.newton import Problem

if TYPE_CHECKING:
    from eqsolve.compile.fixed_point import FixedPointPlan
    from eqsolve.results.result import Result
    from eqsolve.solvers.fixed_point.solve import FixedPointSolution

GUARD = 12


@dataclass(frozen=True, repr=False, eq=False)
class PreciseSolution:
    """A solution whose numbers are mpmath's; ``nodes`` are points and weights of the law, to the same precision."""

    base: FixedPointSolution
    digits: int
    unknowns: tuple[Any, ...]
    values: Mapping[str, Any]
    errors: Mapping[str, Any]

    def law(self, name: str) -> PreciseLaw:
        """Return the law of a variable with expectations at this precision."""
        return PreciseLaw.of(self, name)

    def expect(self, expr: Any, **values: Any) -> tuple[Any, Any]:
        """Return the mean of an expression and its error, as numbers of mpmath."""
        from mpmath import mp, mpf

        from eqsolve.solvers.fixed_point.newton import extended

        working = self.digits + GUARD
        with mp.workdps(working):
            problem = extended(self.base, expr, values)
            evaluator = Evaluator(self.base, working, problem, list(values.values()))
            mesh = _fine_mesh(problem, self.base.point.values, self.digits)
            first, second = (_means(evaluator, mesh, self.unknowns, order, only=-1)[0] for order in orders_of(self.digits))
            return +second, abs(second - first) + abs(second) * mpf(10) ** -self.digits

    def derivative(self, what: Any, parameter: str, **values: float) -> float:
        """Return a total derivative, in double precision."""
        return self.base.derivative(what, parameter, **values)

    def derivatives(self, parameter: str) -> dict[str, tuple[float, float]]:
        """Return the total derivatives of all values, in double precision, with their errors."""
        return self.base.derivatives(parameter)


@dataclass(frozen=True, eq=False, repr=False)
class PreciseLaw(Distribution):
    """The law of a variable at high precision: ``expect`` sums over points and weights that are mpmath's numbers."""

    precise: PreciseSolution
    exact: Distribution

    @classmethod
    def of(cls, precise: PreciseSolution, name: str) -> PreciseLaw:
        exact = precise.base.law(name)
        return cls(exact.names, exact.values, exact.weights, precise, exact)

    @functools.cached_property
    def nodes(self) -> tuple[list[tuple[Any, ...]], list[Any]]:
        """The variables at every node, and the weights."""
        from mpmath import mp

        precise, base = self.precise, self.precise.base
        working = precise.digits + GUARD
        with mp.workdps(working):
            evaluator = Evaluator(base, working)
            lines = _LawLines(base.problem, base.point.values, self)
            mesh = _fine_mesh(base.problem, base.point.values, precise.digits, lines)
            function = evaluator.function("variables", *self.names)
            points, weights = [], []
            for row, x, weight, signs, near in nodes_of(evaluator, mesh, precise.unknowns, orders_of(precise.digits)[1]):
                points.append(tuple(function(*evaluator.point(row, x, precise.unknowns, signs, near))))
                weights.append(weight)
        return points, weights

    def expect(self, function: Callable[..., Any]) -> Any:
        """Return the mean of a function of the variables, called with mpmath's numbers at every node."""
        from mpmath import mp, mpf

        with mp.workdps(self.precise.digits + GUARD):
            points, weights = self.nodes
            return sum((w * self.call(function, p) for p, w in zip(points, weights, strict=True)), mpf(0))

    def atoms(self, name: str | None = None) -> list[tuple[float, float]]:
        return self.exact.atoms(name)

    def cdf(self, x: Any, name: str | None = None) -> Any:
        return self.exact.cdf(x, name)

    def density(self, x: Any, name: str | None = None) -> Any:
        return self.exact.density(x, name)

    def quantile(self, q: Any, name: str | None = None) -> Any:
        return self.exact.quantile(q, name)


def orders_of(digits: int) -> tuple[int, int]:
    """Return two numbers of nodes per panel; their difference is the error estimate."""
    return int(1.35 * digits) + 12, int(1.75 * digits) + 20


class Evaluator:
    """Evaluates the stages and integrands of a plan at single points, in mpmath."""

    def __init__(
        self, solution: FixedPointSolution, digits: int, problem: Problem | None = None, more: Sequence[Any] = ()
    ) -> None:
        from mpmath import mp, mpf

        self.problem = problem if problem is not None else solution.problem
        self.plan: FixedPointPlan = self.problem.plan
        self.solution, self.digits = solution, digits
        with mp.workdps(digits):
            numbers, ends = solution.program.precise(solution.at, self.problem.held, digits)
            self.parameters = [*numbers, *(mpf(value) for value in more), *ends]
            self.rows = self._rows(solution)

    def function(self, what: str, *detail: Any) -> Callable[..., Any]:
        return self.plan.piece(what, *detail, module="mpmath")

    def _rows(self, solution: FixedPointSolution) -> list[tuple[Any, list[Any], list[Any], list[Any], list[Any]]]:
        """Return weight, means, deviations, base and direction of every row; only branches of at most one Gaussian."""
        from mpmath import mpf, sqrt

        normals = len(self.plan.normals)
        made = []
        laws = solution.program.precise_laws(solution.at, self.plan.constants, self.digits)
        for part in branches(tuple(laws), laws, 2):
            if not part.exact:
                raise UsageError("high precision needs laws made of points and Gaussians, such as Bernoulli or Normal")
            deviations = [sqrt(mpf(v)) for v in part.variances]
            means = [mpf(0)] * normals + [mpf(m) for m in part.means]
            scales = [mpf(1)] * normals + deviations
            active = [place for place, scale in enumerate(scales) if scale > 0]
            if len(active) > 1:
                raise UsageError(
                    "high precision needs at most one Gaussian at a time; "
                    f"the law of {', '.join(self.plan.constants)} adds another"
                )
            direction = [mpf(1 if place in active else 0) for place in range(len(scales))]
            made.append((mpf(part.probability), means, scales, [mpf(0)] * len(scales), direction))
        return made

    def point(self, row: int, x: Any, unknowns: Sequence[Any], signs: Sequence[int], near: Sequence[float]) -> list[Any]:
        """Return all arguments of the plan at one point; ``near`` are the roots in double precision."""
        _, means, scales, base, direction = self.rows[row]
        randoms = [m + s * (b + d * x) for m, s, b, d in zip(means, scales, base, direction, strict=True)]
        full = [*self.parameters, *unknowns, *randoms, *([0] * len(self.plan.is_switch))]
        first, given = len(full) - len(self.plan.is_switch), iter(signs)
        for place, switch in enumerate(self.plan.is_switch):
            full[first + place] = next(given) if switch else self._root(place, full, near[place])
        return full

    def _root(self, place: int, full: list[Any], start: float) -> Any:
        from mpmath import mpf

        pair = self.function("root", place)
        target = self.function("target", place)(*full)[0]
        root = mpf(start)
        small = mpf(10) ** (4 - self.digits)
        for _ in range(30):
            value, slope = pair(root, *full)
            step = (value - target) / slope
            root -= step
            if abs(step) <= small * (abs(root) + small):
                break
        return root

    def kinks(self, row: int, unknowns: Sequence[Any]) -> list[Any]:
        """Return the places where switches change sign on a row, in the order of the double solve."""
        from mpmath import mpf

        found = []
        if not all(self.plan.linear):
            raise UsageError("high precision needs kinks at places linear in the Gaussian variable")
        for place, combinations in zip(self.plan.switches, self.plan.combinations, strict=True):
            function = self.function("switch", place)
            for signs in combinations:
                ends = []
                for x in (mpf(0), mpf(1)):
                    _, means, scales, base, direction = self.rows[row]
                    randoms = [m + s * (b + d * x) for m, s, b, d in zip(means, scales, base, direction, strict=True)]
                    given = iter(signs)
                    stages = [next(given) if switch else 0 for switch in self.plan.is_switch]
                    ends.append(function(*self.parameters, *unknowns, *randoms, *stages)[0])
                gap = ends[1] - ends[0]
                found.append(-ends[0] / gap if gap != 0 else mpf(38))
        return found


def nodes_of(
    evaluator: Evaluator, mesh: PanelMesh, unknowns: Sequence[Any], order: int
) -> list[tuple[int, Any, Any, tuple[int, ...], list[float]]]:
    """Return (row, x, weight, signs, double roots) of all nodes."""
    from mpmath import exp, mpf, pi, sqrt

    solution = evaluator.solution
    lines = evaluator.problem.lines(solution.point.values)
    reference = precise_legendre(order, evaluator.digits)
    made: list[tuple[int, Any, Any, tuple[int, ...]]] = []
    kinks = [evaluator.kinks(row, unknowns) for row in range(len(evaluator.rows))]
    norm = 1 / sqrt(2 * pi)
    for place, row in enumerate(mesh.row):
        ends = []
        for end, kink in ((mesh.left, mesh.left_kink), (mesh.right, mesh.right_kink)):
            ends.append(kinks[row][kink[place]] if kink[place] >= 0 else mpf(float(end[place])))
        half, middle = (ends[1] - ends[0]) / 2, (ends[1] + ends[0]) / 2
        signs = tuple(int(s) for s in mesh.signs[place])
        for t, w in reference:
            x = middle + half * t
            made.append((int(row), x, half * w * norm * exp(-x * x / 2) * evaluator.rows[row][0], signs))
    for place, row in enumerate(mesh.points):
        made.append((int(row), mpf(0), evaluator.rows[row][0], tuple(int(s) for s in mesh.signs[len(mesh.row) + place])))
    at = np.array([entry[0] for entry in made])
    x = np.array([float(entry[1]) for entry in made])
    signs_table = [np.array([entry[3][k] for entry in made], dtype=float) for k in range(len(evaluator.plan.switches))]
    full = lines.arguments(mesh.rows, at, x, signs_table)
    first = len(full) - len(evaluator.plan.is_switch)
    roots = np.zeros((len(x), len(evaluator.plan.is_switch)))
    for place, entry in enumerate(full[first:]):
        roots[:, place] = entry
    return [(*entry, roots[k].tolist()) for k, entry in enumerate(made)]


def _fine_mesh(problem: Problem, values: Array, digits: int, law: Lines | None = None) -> PanelMesh:
    """Return panels fine enough for the digits: the resolution of the double solve, further out; all for a law."""
    reach = float(np.sqrt(2 * digits * np.log(10))) + 1.5
    lines = law if law is not None else problem.lines(values)
    rows = make_rows(problem.plan, problem.parts, problem.parameters, lines.unknowns, problem.outer)
    return adapt(lines, rows, dropped=-1.0 if law is not None else 10.0 ** -(digits + 6), reach=reach)


class _LawLines(Lines):
    """The model's own integrands and the first moments of a law, so that panels resolve both."""

    def __init__(self, problem: Problem, values: Array, law: Distribution) -> None:
        super().__init__(problem.plan, problem.parameters, values[:, None])
        self.law = law

    def values(self, rows: Rows, at: Array, x: Array, signs: Sequence[Array]) -> Array:
        full = self.arguments(rows, at, x, signs)
        variables = stacked(self.plan.piece("variables", *self.law.names)(*full), len(x))
        own = stacked(self.plan.piece("integrands")(*full), len(x))
        return np.concatenate([own, np.ones((1, len(x))), variables, variables**2])


def refine(solution: FixedPointSolution, result: Result, digits: int) -> Result:
    """Return the result with values to ``digits`` digits: numbers of mpmath in ``result.source.values``."""
    from mpmath import mp, mpf

    plan, problem = solution.problem.plan, solution.problem
    working = digits + GUARD
    with mp.workdps(working):
        evaluator = Evaluator(solution, working)
        mesh = _fine_mesh(problem, solution.point.values, digits)
        orders = orders_of(digits)
        unknowns = [mpf(float(value)) for value in solution.point.values]
        inverse = np.linalg.inv(solution.point.linear.jacobian) if plan.unknowns else np.zeros((0, 0))
        tables = []
        for order in orders:
            size = mpf(1)
            for _ in range(3 + digits // 6):
                means = _means(evaluator, mesh, unknowns, order)
                residual = _residual(evaluator, unknowns, means)
                step = [
                    -sum((mpf(float(inverse[i, j])) * residual[j] for j in range(len(residual))), mpf(0))
                    for i in range(len(unknowns))
                ]
                unknowns = [u + s for u, s in zip(unknowns, step, strict=True)]
                size = max((abs(s / u) for s, u in zip(step, unknowns, strict=True)), default=mpf(0))
                if size < mpf(10) ** (-digits - 3):
                    break
            else:
                raise SolverError(
                    f"model `{plan.name}`: {digits} digits were not reached; the last step changed the unknowns by "
                    f"{mp.nstr(size, 3)} relative"
                )
            names = [item.name for item in plan.unknowns]
            found = evaluator.function("outputs")(*evaluator.parameters, *unknowns, *means) if plan.outputs else []
            tables.append({**dict(zip(names, unknowns, strict=True)), **dict(zip(plan.outputs, found, strict=True))})
        order_of = [name for name in solution.values]
        values = {name: mpf(tables[1][name]) for name in order_of}
        errors = {name: abs(tables[1][name] - tables[0][name]) + abs(values[name]) * mpf(10) ** -digits for name in order_of}
    return _with_values(result, PreciseSolution(solution, digits, tuple(unknowns), values, errors))


def _with_values(result: Result, precise: PreciseSolution) -> Result:
    from mpmath import nstr

    dataset = result.dataset.copy()
    for name, value in precise.values.items():
        dataset[name] = ((), float(value))
        dataset[f"{name}_error"] = ((), max(float(precise.errors[name]), abs(float(value)) * 1.2e-16))
    digits = {name: nstr(value, precise.digits) for name, value in precise.values.items()}
    stats = {**result.stats, "precision": precise.digits, "digits": digits}
    return replace(result, table=dataset, source=precise, stats=stats)


def _means(evaluator: Evaluator, mesh: PanelMesh, unknowns: Sequence[Any], order: int, only: int | None = None) -> list[Any]:
    """Return the means of the integrands, or of one of them."""
    from mpmath import mpf

    count = evaluator.plan.means if only is None else 1
    if not count:
        return []
    function = evaluator.function("integrands", *(() if only is None else (only,)))
    total = [mpf(0)] * count
    for row, x, weight, signs, near in nodes_of(evaluator, mesh, unknowns, order):
        values = function(*evaluator.point(row, x, unknowns, signs, near))
        total = [t + weight * v for t, v in zip(total, values, strict=True)]
    return total


def _residual(evaluator: Evaluator, unknowns: Sequence[Any], means: Sequence[Any]) -> list[Any]:
    from mpmath import log

    plan = evaluator.plan
    if not plan.lefts:
        return []
    sides = evaluator.function("sides")(*evaluator.parameters, *unknowns, *means)
    count = len(plan.lefts)
    return [
        log(right / left) if logarithmic else right - left
        for left, right, logarithmic in zip(sides[:count], sides[count:], plan.logarithmic, strict=True)
    ]
