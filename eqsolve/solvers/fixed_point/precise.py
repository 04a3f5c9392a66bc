"""A fixed point to any number of digits: the same symbolic equations in mpmath, started from the double solution.

The panels are those of the double solve, cut finer, with Gauss–Legendre nodes whose number grows with the digits; the
Jacobian stays that of the double solve, so that every step gains some fourteen digits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sympy import Basic, Expr

from eqsolve.compile.lowering import as_function
from eqsolve.errors import SolverError, UsageError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gauss_legendre import precise_legendre
from eqsolve.numerics.quadrature import Lines, Mesh, adapt
from eqsolve.numerics.quadrature_laws import branches
from eqsolve.numerics.quadrature_rows import Rows, make_rows, stacked
from eqsolve.passes.forms.kinks import Root, Switch
from eqsolve.results.distribution import Distribution
from eqsolve.solvers.fixed_point.newton import Problem
from eqsolve.solvers.fixed_point.problem import constant_laws

if TYPE_CHECKING:
    from eqsolve.compile.fixed_point import Plan
    from eqsolve.results.result import Result
    from eqsolve.solvers.fixed_point.solve import Solution

__all__ = ["PreciseSolution", "refine"]

_GUARD = 12


@dataclass(frozen=True, repr=False, eq=False)
class PreciseSolution:
    """A solution whose numbers are mpmath's; ``nodes`` are points and weights of the law, to the same precision."""

    base: Solution
    digits: int
    unknowns: tuple[Any, ...]
    values: Mapping[str, Any]
    errors: Mapping[str, Any]

    def law(self, name: str) -> PreciseLaw:
        """Return the law of a variable with expectations at this precision."""
        return PreciseLaw.of(self, name)

    def expect(self, expr: Expr, **values: Any) -> tuple[Any, Any]:
        """Return the mean of an expression and its error, as numbers of mpmath."""
        from mpmath import mp, mpf

        from eqsolve.solvers.fixed_point.sensitivity import extended

        working = self.digits + _GUARD
        with mp.workdps(working):
            problem = extended(self.base, expr, values)
            evaluator = _Evaluator(self.base, working, problem, list(values.values()))
            mesh = _fine_mesh(problem, self.base.point.values, self.digits)
            first, second = (
                _means(evaluator, mesh, self.unknowns, order, only=-1)[0] for order in _orders(self.digits)
            )
            return +second, abs(second - first) + abs(second) * mpf(10) ** -self.digits

    def derivative(self, what: Any, parameter: str, **values: float) -> float:
        """Return a total derivative, in double precision."""
        return self.base.derivative(what, parameter, **values)


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
        working = precise.digits + _GUARD
        with mp.workdps(working):
            evaluator = _Evaluator(base, working)
            lines = _LawLines(base.problem, base.point.values, self)
            mesh = _fine_mesh(base.problem, base.point.values, precise.digits, lines)
            plan = evaluator.plan
            function = evaluator.function("law", lambda: [plan.variable(name) for name in self.names], plan.arguments)
            points, weights = [], []
            for row, x, weight, signs, near in _nodes(evaluator, mesh, precise.unknowns, _orders(precise.digits)[1]):
                points.append(tuple(function(*evaluator.point(row, x, precise.unknowns, signs, near))))
                weights.append(weight)
        return points, weights

    def expect(self, function: Callable[..., Any]) -> Any:
        """Return the mean of a function of the variables, called with mpmath's numbers at every node."""
        from mpmath import mp, mpf

        with mp.workdps(self.precise.digits + _GUARD):
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


def _orders(digits: int) -> tuple[int, int]:
    """Return two numbers of nodes per panel; their difference is the error estimate."""
    return int(1.35 * digits) + 12, int(1.75 * digits) + 20


class _Evaluator:
    """Evaluates the stages and integrands of a plan at single points, in mpmath."""

    def __init__(
        self, solution: Solution, digits: int, problem: Problem | None = None, more: Sequence[Any] = ()
    ) -> None:
        from mpmath import mp, mpf

        self.problem = problem if problem is not None else solution.problem
        self.plan: Plan = self.problem.plan
        self.solution, self.digits = solution, digits
        with mp.workdps(digits):
            values = solution.binding.values
            self.parameters = [mpf(str(values[item].evalf(digits))) for item in self.plan.model.parameters]
            self.parameters += [mpf(value) for value in more]
            self.parameters += [mpf(str(end.evalf(digits))) for _, end in self.problem.held]
            self.rows = self._rows(solution)
        self._functions: dict[Any, Callable[..., Any]] = {}

    def _rows(self, solution: Solution) -> list[tuple[Any, list[Any], list[Any], list[Any], list[Any]]]:
        """Return weight, means, deviations, base and direction of every row; only branches of at most one Gaussian."""
        from mpmath import mpf, sqrt

        normals = len(self.plan.normals)
        made = []
        laws = constant_laws(solution.binding, self.plan, self.digits)
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
                    f"the law of {', '.join(item.name for item in self.plan.constants)} adds another"
                )
            direction = [mpf(1 if place in active else 0) for place in range(len(scales))]
            made.append((mpf(part.probability), means, scales, [mpf(0)] * len(scales), direction))
        return made

    def function(self, key: Any, make: Callable[[], Sequence[Expr]], arguments: Sequence[Basic]) -> Callable[..., Any]:
        if key not in self._functions:
            self._functions[key] = as_function(list(arguments), list(make()), "mpmath")
        return self._functions[key]

    def point(self, row: int, x: Any, unknowns: Sequence[Any], signs: Sequence[int], near: Sequence[float]) -> list[Any]:
        """Return all arguments of the plan at one point; ``near`` are the roots in double precision."""
        _, means, scales, base, direction = self.rows[row]
        randoms = [m + s * (b + d * x) for m, s, b, d in zip(means, scales, base, direction, strict=True)]
        full = [*self.parameters, *unknowns, *randoms, *([0] * len(self.plan.stages))]
        first, switch = len(full) - len(self.plan.stages), 0
        for place, stage in enumerate(self.plan.stages):
            if isinstance(stage, Switch):
                full[first + place] = signs[switch]
                switch += 1
            else:
                full[first + place] = self._root(stage, full, near[place])
        return full

    def _root(self, stage: Root, full: list[Any], start: float) -> Any:
        from mpmath import mpf

        y, arguments = stage.variable, self.plan.arguments
        pair = self.function(("root", stage), lambda: [stage.expression, stage.expression.diff(y)], (y, *arguments))
        (target,) = self.function(("target", stage), lambda: [stage.argument], arguments)(*full)
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
        for switch in self.plan.switches:
            if not self.plan.is_linear(switch):
                raise UsageError("high precision needs kinks at places linear in the Gaussian variable")
            function = self.function(switch, lambda switch=switch: [switch.expression], self.plan.arguments)  # type: ignore[misc]
            for signs in self.plan.switch_combinations(switch):
                ends = []
                for x in (mpf(0), mpf(1)):
                    _, means, scales, base, direction = self.rows[row]
                    randoms = [m + s * (b + d * x) for m, s, b, d in zip(means, scales, base, direction, strict=True)]
                    given = iter(signs)
                    stages = [next(given) if isinstance(stage, Switch) else 0 for stage in self.plan.stages]
                    ends.append(function(*self.parameters, *unknowns, *randoms, *stages)[0])
                gap = ends[1] - ends[0]
                found.append(-ends[0] / gap if gap != 0 else mpf(38))
        return found


def _nodes(
    evaluator: _Evaluator, mesh: Mesh, unknowns: Sequence[Any], order: int
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
    first = len(full) - len(evaluator.plan.stages)
    roots = np.zeros((len(x), len(evaluator.plan.stages)))
    for place, entry in enumerate(full[first:]):
        roots[:, place] = entry
    return [(*entry, roots[k].tolist()) for k, entry in enumerate(made)]


def _fine_mesh(problem: Problem, values: Array, digits: int, law: Lines | None = None) -> Mesh:
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
        variables = stacked(self.plan.variable_values(self.law.names)(*full), len(x))
        own = stacked(self.plan.integrand_values()(*full), len(x))
        return np.concatenate([own, np.ones((1, len(x))), variables, variables**2])


def refine(solution: Solution, result: Result, digits: int) -> Result:
    """Return the result with values to ``digits`` digits: numbers of mpmath in ``result.source.values``."""
    from mpmath import mp, mpf

    plan, problem = solution.problem.plan, solution.problem
    working = digits + _GUARD
    with mp.workdps(working):
        evaluator = _Evaluator(solution, working)
        mesh = _fine_mesh(problem, solution.point.values, digits)
        orders = _orders(digits)
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
                    f"model `{plan.model.name}`: {digits} digits were not reached; the last step changed the unknowns by "
                    f"{mp.nstr(size, 3)} relative"
                )
            names = [item.name for item in plan.unknowns]
            outputs = evaluator.function("outputs", lambda: list(plan.outputs.values()), plan.scalars)
            found = outputs(*evaluator.parameters, *unknowns, *means) if plan.outputs else []
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
    fields = {**result.__dict__, "dataset": dataset, "source": precise}
    fields["stats"] = {**result.stats, "precision": precise.digits, "digits": digits}
    return type(result)(fields.pop("dataset"), **fields)


def _means(
    evaluator: _Evaluator, mesh: Mesh, unknowns: Sequence[Any], order: int, only: int | None = None
) -> list[Any]:
    """Return the means of the integrands, or of one of them."""
    from mpmath import mpf

    plan = evaluator.plan
    wanted = plan.integrands if only is None else [plan.integrands[only]]
    if not wanted:
        return []
    function = evaluator.function(("integrands", only), lambda: wanted, plan.arguments)
    total = [mpf(0)] * len(wanted)
    for row, x, weight, signs, near in _nodes(evaluator, mesh, unknowns, order):
        values = function(*evaluator.point(row, x, unknowns, signs, near))
        total = [t + weight * v for t, v in zip(total, values, strict=True)]
    return total


def _residual(evaluator: _Evaluator, unknowns: Sequence[Any], means: Sequence[Any]) -> list[Any]:
    from mpmath import log

    plan = evaluator.plan
    if not plan.sides:
        return []
    sides = evaluator.function(
        "sides", lambda: [side for pair in zip(*plan.sides, strict=True) for side in pair], plan.scalars
    )(*evaluator.parameters, *unknowns, *means)
    count = len(plan.sides)
    return [
        log(right / left) if logarithmic else right - left
        for left, right, logarithmic in zip(sides[:count], sides[count:], plan.logarithmic, strict=True)
    ]
