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
from mpmath import mp, mpf, nstr

from eqsolve.errors import SolverError, UsageError
from eqsolve.laplace.controls import GUARD
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.quadrature import (
    Evaluator,
    LineSet,
    PanelMesh,
    adapt,
    branches,
    node_arguments,
    precise_legendre,
)
from eqsolve.solvers.fixed_point.law import FixedPointLaw, VariableEvaluator
from eqsolve.solvers.fixed_point.newton import Problem

if TYPE_CHECKING:
    from eqsolve.compile.fixed_point import FixedPointPlan
    from eqsolve.results.result import Result
    from eqsolve.solvers.fixed_point.solve import FixedPointSolution


@dataclass(frozen=True, repr=False, eq=False)
class PreciseSolution:
    """A solution whose numbers are mpmath's; ``unknowns`` are those that were not eliminated."""

    base: FixedPointSolution
    digits: int
    unknowns: tuple[Any, ...]
    values: Mapping[str, Any]
    errors: Mapping[str, Any]

    def law(self, name: str) -> PreciseLaw:
        """Return the law of a variable with expectations at this precision."""
        exact = FixedPointLaw.of(self.base, name)
        return PreciseLaw(exact.names, exact.values, exact.weights, self.base, self)

    def expect(self, expr: Any, **values: Any) -> tuple[Any, Any]:
        """Return the mean of an expression and its error, as numbers of mpmath."""
        with mp.workdps(self.digits + GUARD):
            problem = self.base.extended(expr, values)
            integrands = PreciseEvaluator(self.base, self.unknowns, problem, list(values.values()))
            mesh = _fine_mesh(problem, self.base.point.values, self.digits)
            first, second = (integrands.means(mesh, order, -1)[0] for order in orders_of(self.digits))
            return +second, abs(second - first) + abs(second) * mpf(10) ** -self.digits

    # total derivatives stay in double precision
    derivative = property(lambda self: self.base.derivative)
    derivatives = property(lambda self: self.base.derivatives)

    def law_nodes(self, names: Sequence[str], near: Evaluator, lines: LineSet, digits: int) -> tuple[list[Array], Array]:
        """Return variables at nodes that resolve what lines integrate, and the weights, as numbers of mpmath."""
        mesh = adapt(near, lines, dropped=-1.0, reach=_reach(digits))
        with mp.workdps(digits + GUARD):
            integrands = PreciseEvaluator(self.base, self.unknowns)
            full, weights = integrands.at_nodes(mesh, orders_of(digits)[1])
            return integrands.piece("variables", *names)(*full), weights


@dataclass(frozen=True, eq=False, repr=False)
class PreciseLaw(FixedPointLaw):
    """The law of a variable at high precision: ``expect`` sums over points and weights that are mpmath's numbers."""

    precise: PreciseSolution

    @functools.cached_property
    def nodes(self) -> tuple[list[tuple[Any, ...]], list[Any]]:
        """The variables at every node, and the weights."""
        precise, base = self.precise, self.precise.base
        integrands = _LawEvaluator(self, lambda v: np.concatenate([np.ones((1, v.shape[1])), v, v**2]))
        columns, weights = precise.law_nodes(self.names, integrands, base.problem.lines(base.point.values), precise.digits)
        return list(zip(*columns, strict=True)), list(weights)

    def expect(self, function: Callable[..., Any]) -> Any:
        """Return the mean of a function of the variables, called with mpmath's numbers at every node."""
        with mp.workdps(self.precise.digits + GUARD):
            points, weights = self.nodes
            return sum((w * self.call(function, p) for p, w in zip(points, weights, strict=True)), mpf(0))


class _LawEvaluator(VariableEvaluator):
    """The model's own integrands with functions of variables, so that panels resolve both."""

    def values(self, lines: LineSet, at: Array, x: Array, signs: Sequence[Array]) -> Array:
        return np.concatenate([Evaluator.values(self, lines, at, x, signs), super().values(lines, at, x, signs)])


def orders_of(digits: int) -> tuple[int, int]:
    """Return two numbers of nodes per panel; their difference is the error estimate."""
    return int(1.35 * digits) + 12, int(1.75 * digits) + 20


def _numbers(values: Any) -> Array:
    return np.asarray(np.frompyfunc(mpf, 1, 1)(np.asarray(values, dtype=object)), dtype=object)


class PreciseEvaluator(Evaluator):
    """A solved model in the working precision of mpmath: arrays hold its numbers, functions are called point by point."""

    plan: FixedPointPlan

    def __init__(
        self, solution: FixedPointSolution, unknowns: Any, problem: Problem | None = None,
        more: Sequence[Any] = (),
    ) -> None:  # fmt: skip
        problem = problem if problem is not None else solution.problem
        self.digits = mp.dps
        numbers, ends = solution.program.precise(solution.at, problem.held, self.digits)
        super().__init__(problem.plan, [*numbers, *_numbers(more), *ends], _numbers(unknowns).reshape(-1, 1))
        laws = {name: solution.at.precise_law(name, self.digits) for name in self.plan.constants}
        self.lines = self._straight_lines(branches(tuple(laws), laws, 2))

    def _straight_lines(self, parts: Sequence[Any]) -> LineSet:
        """Return the lines of branches of at most one Gaussian each."""
        normals = len(self.plan.normals)
        if not all(part.exact for part in parts):
            raise UsageError("high precision needs laws made of points and Gaussians, such as Bernoulli or Normal")
        mean, scale = (_numbers([[start] * normals + list(getattr(part, what)) for part in parts])
                       for start, what in ((0, "means"), (1, "variances")))  # fmt: skip
        scale = scale**0.5
        direction = (scale > 0).astype(float)
        if (direction.sum(axis=1) > 1).any():
            raise UsageError(
                "high precision needs at most one Gaussian at a time; "
                f"the law of {', '.join(self.plan.constants)} adds another"
            )
        weight, owner = _numbers([part.probability for part in parts]), np.zeros(len(parts), dtype=int)
        return LineSet(weight, mean, scale, 0 * direction, direction, owner, True)

    def piece(self, what: str, *detail: Any) -> Callable[..., list[Any]]:
        function = self.plan.piece(what, *detail, module="mpmath")

        def on_columns(*columns: Any) -> list[Any]:
            wide = np.broadcast_arrays(*(np.asarray(column, dtype=object) for column in columns))
            rows = [function(*point) for point in zip(*(column.flat for column in wide), strict=True)]
            return [np.array(column, dtype=object) for column in zip(*rows, strict=True)]

        return on_columns

    def arguments(self, lines: LineSet, at: Array, x: Array, signs: Sequence[Array] | None = None) -> list[Any]:
        given = node_arguments(self.parameters, self.unknowns, lines, at, x)
        floats = [np.asarray(entry, dtype=float) for entry in given]
        full = self.plan.run_stages(floats, len(x), signs)
        stages, full = full[len(given) :], [*given, *([0] * len(self.plan.is_switch))]
        small = mpf(10) ** (4 - self.digits)
        for place, (switch, near) in enumerate(zip(self.plan.is_switch, stages, strict=True)):
            if switch:
                full[len(given) + place] = near.astype(int).astype(object)
                continue
            (target, *_), root = self.piece("target", place)(*full), _numbers(near)
            for _ in range(30):  # Newton's method from the root in double precision
                value, slope = self.piece("root", place)(root, *full)
                step = (value - target) / slope
                root = root - step
                if (abs(step) <= small * (abs(root) + small)).all():
                    break
            full[len(given) + place] = root
        return full

    def zeros(self, low: Array, high: Array) -> Array:
        pairs = zip(low, high, strict=True)
        return _numbers([-first / (second - first) if second != first else self.reach for first, second in pairs])

    def curved_kinks(self, place: int, lines: LineSet, chosen: Array) -> list[Array]:
        raise UsageError("high precision needs kinks at places linear in the Gaussian variable")

    def at_nodes(self, mesh: PanelMesh, order: int) -> tuple[list[Any], Array]:
        """Return all arguments at the nodes of a mesh, its kinks moved to where they are precisely, and the weights."""
        here = replace(mesh, lines=self.lines, left=_numbers(mesh.left), right=_numbers(mesh.right))
        rule = tuple(np.array(precise_legendre(order, self.digits), dtype=object).T)
        at, x, share, signs = here.moved(self.kinks(self.lines)).nodes(rule, np.frompyfunc(mp.npdf, 1, 1))
        return self.arguments(self.lines, at, x, signs), share

    def means(self, mesh: PanelMesh, order: int, *only: int) -> list[Any]:
        """Return the means of the integrands, or of some of them."""
        if not self.plan.means:
            return []
        full, share = self.at_nodes(mesh, order)
        return [(values * share).sum() for values in self.piece("integrands", *only)(*full)]

    def residuals(self, means: Sequence[Any]) -> list[Any]:
        sides = self.plan.piece("sides", module="mpmath")(*self.parameters, *self.unknowns[:, 0], *means)
        pairs = zip(sides, sides[len(self.plan.lefts) :], self.plan.logarithmic, strict=False)
        return [mp.log(right / left) if logarithmic else right - left for left, right, logarithmic in pairs]


def _fine_mesh(problem: Problem, values: Array, digits: int) -> PanelMesh:
    """Return panels fine enough for the digits: the resolution of the double solve, further out."""
    return problem.adapted(values, dropped=10.0 ** -(digits + 6), reach=_reach(digits))


def _reach(digits: int) -> float:
    """Return where the normal density is below the digits."""
    return float(np.sqrt(2 * digits * np.log(10))) + 1.5


def refine(solution: FixedPointSolution, result: Result, digits: int) -> Result:
    """Return the result with values to ``digits`` digits: numbers of mpmath in ``result.source.values``."""
    plan, problem = solution.problem.plan, solution.problem
    with mp.workdps(digits + GUARD):
        mesh = _fine_mesh(problem, solution.point.values, digits)
        unknowns = _numbers(solution.point.values)
        inverse = _numbers(np.linalg.inv(solution.point.linear.jacobian) if plan.unknowns else np.zeros((0, 0)))
        tables = []
        for order in orders_of(digits):
            size = mpf(1)
            for _ in range(3 + digits // 6):
                integrands = PreciseEvaluator(solution, unknowns)
                means = integrands.means(mesh, order)
                step = -inverse @ np.array(integrands.residuals(means), dtype=object) if plan.unknowns else unknowns
                unknowns = unknowns + step
                size = max((abs(s / u) for s, u in zip(step, unknowns, strict=True)), default=mpf(0))
                if size < mpf(10) ** (-digits - 3):
                    break
            else:
                raise SolverError(
                    f"model `{plan.name}`: {digits} digits were not reached; the last step changed the unknowns by "
                    f"{mp.nstr(size, 3)} relative"
                )
            names = [item.name for item in plan.unknowns]
            outputs: Any = plan.piece("outputs", module="mpmath") if plan.outputs else lambda *_: []
            outputs_found = outputs(*integrands.parameters, *unknowns, *means)
            tables.append(dict(zip([*names, *plan.outputs], [*unknowns, *outputs_found], strict=True)))
        values = {name: mpf(tables[1][name]) for name in solution.values}
        errors = {name: abs(tables[1][name] - tables[0][name]) + abs(values[name]) * mpf(10) ** -digits for name in values}
    dataset = result.dataset.copy()
    for name, value in values.items():
        dataset[name] = ((), float(value))
        dataset[f"{name}_error"] = ((), max(float(errors[name]), abs(float(value)) * 1.2e-16))
    stats = {**result.stats, "precision": digits, "digits": {name: nstr(value, digits) for name, value in values.items()}}
    precise = PreciseSolution(solution, digits, tuple(unknowns), values, errors)
    return replace(result, table=dataset, source=precise, stats=stats)
