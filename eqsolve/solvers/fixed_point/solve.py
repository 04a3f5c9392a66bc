"""Self-consistent systems of scalar equations with expectations, to rounding error.

Chosen for every `FixedPoint`. Unknowns given explicitly by others are eliminated; the rest is found by a scan of the
domains followed by Newton's method with a symbolic Jacobian (Deuflhard, Newton Methods for Nonlinear Problems, 2011,
doi:10.1007/978-3-642-23899-4). Expectations are sums over points and panels of Gauss–Legendre nodes, split at kinks and
refined to rounding. The error reported is the change under a finer quadrature plus what rounding in the residuals can do.
Cost: a scan of some 10² to 10³ sets of unknowns on few nodes, then some ten steps on some 10³ nodes: milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from eqsolve.compile.fixed_point import FixedPointPlan, FixedPointProgram
from eqsolve.compile.forms import FAMILIES, FIXED_POINT
from eqsolve.compile.plan import Plan, Values
from eqsolve.errors import SolverError, UsageError, did_you_mean, logger
from eqsolve.numerics.arrays import EPSILON, ROUNDING, Array
from eqsolve.numerics.quadrature import expectations
from eqsolve.results.arrays import LabelledArrays
from eqsolve.results.distribution import Distribution
from eqsolve.results.result import Result
from eqsolve.solvers.contract import Solver, why_not_a
from eqsolve.solvers.fixed_point import newton
from eqsolve.solvers.fixed_point.families import solve_families
from eqsolve.solvers.fixed_point.law import FixedPointLaw
from eqsolve.solvers.fixed_point.newton import Iterate, Problem, finer_rules, make_problem, polish, residuals
from eqsolve.solvers.fixed_point.precise import refine
from eqsolve.solvers.fixed_point.search import box_around, edge_solutions, find_solutions, same, searched
from eqsolve.solvers.options import Options


@dataclass(frozen=True, repr=False, eq=False)
class FixedPointSolution:
    """One solution with everything needed to ask more of it: laws, expectations, derivatives."""

    program: FixedPointProgram
    at: Values
    problem: Problem
    point: Iterate
    values: Mapping[str, float]
    errors: Mapping[str, float]
    others: tuple[Mapping[str, float], ...] = ()
    _laws: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def law(self, name: str) -> Distribution:
        """Return the joint law of a variable and the random constants of the model."""
        plan = self.problem.plan
        known = [*plan.variables, *plan.randoms]
        if name not in known:
            raise UsageError(
                f"model `{plan.name}` has no random variable `{name}`{did_you_mean(name, known)} (it has: {', '.join(known)})"
            )
        if name not in self._laws:
            self._laws[name] = FixedPointLaw.of(self, name)
        law: Distribution = self._laws[name]
        return law

    def expect(self, expr: Any, **values: float) -> tuple[float, float]:
        """Return the mean of an expression in the model's symbols and variables, and its error."""
        problem, names = self.extended(expr, values), newton.names_of(self.problem)
        mesh, integrands = problem.adapted(self.point.values), problem.integrands(self.point.values)
        first, slopes, sizes = newton.gradients(integrands, mesh, names)
        second, _, _ = newton.gradients(integrands, mesh.halved(), names)
        noise = np.array([self.errors[name] for name in names])
        error = abs(second[-1] - first[-1]) + np.abs(slopes[-1]) @ noise + EPSILON * sizes[-1]
        return float(second[-1]), float(error)

    def derivative(self, what: Any, parameter: str, **values: float) -> float:
        """Return the total derivative of an unknown, an observable or an expectation with respect to a parameter."""
        if isinstance(what, str):
            slopes_of = newton.sensitivity(self.problem, self.point, parameter)
            if what not in slopes_of:
                has = f"(it has: {', '.join(slopes_of)})"
                raise UsageError(f"the fixed point has no value `{what}`{did_you_mean(what, slopes_of)} {has}")
            return slopes_of[what]
        problem = self.extended(what, values)
        name, point = newton.find_parameter(problem, parameter), replace(self.point, mesh=problem.adapted(self.point.values))
        moved = newton.unknown_slopes(problem, point, name)
        _, slopes, _ = newton.gradients(problem.integrands(point.values), point.mesh, (*newton.names_of(problem), name))
        return float(slopes[-1, :-1] @ moved + slopes[-1, -1])

    def derivatives(self, parameter: str) -> dict[str, tuple[float, float]]:
        """Return the total derivatives of all values with respect to a parameter, with their errors.

        These are how they change with a finer mesh, and with each unknown by its own error.
        """
        values, others = (
            newton.sensitivity(self.problem, self.point, parameter),
            [replace(self.point, mesh=self.point.mesh.halved())],
        )
        for place, name in enumerate(newton.names_of(self.problem)):
            unit = np.arange(len(self.point.values)) == place
            others += [replace(self.point, values=self.point.values + side * self.errors[name] * unit) for side in (-1.0, 1.0)]
        shifted = [newton.sensitivity(self.problem, other, parameter) for other in others]
        return {name: (value, 10 * ROUNDING * abs(value) + sum(abs(item[name] - value) for item in shifted))
                for name, value in values.items()}  # fmt: skip

    def extended(self, what: Any, more: Mapping[str, Any]) -> Problem:
        """Return the problem with one more expectation, in the model's symbols and names that have numbers."""
        problem, at = self.problem, self.at
        held = tuple(name for name, _ in problem.held)
        plan = self.program.with_mean(problem.plan, at, what, tuple(more), held, problem.dropped)
        return newton.problem_at(plan, at, tuple(float(value) for value in more.values()), problem.held, problem.dropped)


class FixedPointSolver(Solver):
    __doc__ = __doc__
    name = "fixed_point"
    families = True

    def why_not(self, plan: Plan) -> str:
        return why_not_a("FixedPoint", plan)

    def why(self, plan: Plan) -> str:
        if plan.facts.has_families:
            return "equations of families: Picard iteration, then Newton's method"
        return "scalar equations: a scan, then Newton's method, expectations split at kinks"

    def solve(self, plan: Plan, values: Values, options: Options) -> Result:
        """Solve a fixed point and report every unknown and observable with its error."""
        if plan.facts.has_families:
            return solve_families(plan.program(FAMILIES), plan.name, values, options.start)
        program = plan.program(FIXED_POINT)
        solution = solve_problem(program, values, options.start, deadline=options.deadline)
        result = to_result(solution)
        if options.precision is not None:
            return refine(solution, result, options.precision)
        return result


def solve_problem(
    program: FixedPointProgram, at: Values, start: Mapping[str, float] | None = None,
    *, deadline: float = np.inf, scans: int | None = None,
) -> FixedPointSolution:  # fmt: skip
    """Return the solution, the one nearest to ``start`` if given; others found are listed with it.

    Where the start leads to none, this number of ``scans`` search the domains, each wider; all by default.
    """
    make = partial(make_problem, program, at, deadline=deadline)
    problem = make()
    plan = problem.plan
    points: list[tuple[Problem, Iterate]] = []
    if start is not None and plan.unknowns and all(item.name in start for item in plan.unknowns):
        points = edge_solutions(problem, make, start)
        here = np.array([start[item.name] for item in plan.unknowns], dtype=float)
        point = polish(problem, here, box=box_around(problem, here) if scans == 0 else None)
        points += [(problem, point)] if point.converged and not points else []
    if not points and scans != 0:
        if (count := len(plan.unknowns)) > 5:
            logger.info("%s: %d coupled unknowns: the search may be long", plan.name, count)
        for near, _ in find_solutions(problem, scans):
            point = polish(problem, near)
            if point.converged and not any(same(problem, point.values, other.values, 1e-7) for _, other in points):
                points.append((problem, point))
        if len(points) > 1:  # first those that iteration of u = f(u) would reach
            points.sort(key=lambda found: not _is_stable(*found))
        points += edge_solutions(problem, make)
    if not points:
        text = f"model `{plan.name}` ({plan.location}): no solution found; searched {searched(plan)}. "
        text += f"The equations may have none{_said(at, plan)}"
        open_ends = [f"`{item.name}`" for item in plan.declared if item.sign and 0.0 not in item.ends]
        if open_ends and not plan.rootless:
            text += f". Values 0 were left out, of {', '.join(open_ends)}: declare nonnegative=True where 0 is a solution too"
        if plan.rootless:
            text += f". `{plan.rootless}` had no root, or several: what stands left of its = must increase with the variable. "
            text += "Of a state at rest this means that paths can rest in several places, or in none"
        raise SolverError(text)
    points, tables = _apart(problem, points, [_table(at, *found) for found in points])
    order = list(range(len(tables)))
    if start:  # the nearest in what was given
        order = sorted(order, key=lambda k: max(abs(tables[k][0][name] - value) for name, value in start.items()))
    chosen = next((k for k in order if _allowed(plan, tables[k][0])), None)
    if chosen is None:
        found = ", ".join(f"{name} = {value:.6g}" for name, value in tables[0][0].items())
        raise SolverError(
            f"model `{plan.name}` ({plan.location}): the equations hold only for {found}, which lies "
            f"outside the domains declared for the unknowns; searched {searched(plan)}{_said(at, plan)}"
        )
    values, errors = tables[chosen]
    others = tuple(table for k, (table, _) in enumerate(tables) if k != chosen and _allowed(plan, table))
    if others:
        names = [item.name for item in plan.declared]
        listed = "; ".join(", ".join(f"{name} = {other[name]:.6g}" for name in names) for other in others)
        logger.warning("%s: there are further solutions (stats['other_solutions'] in Python): %s", plan.name, listed)
    return FixedPointSolution(program, at, *points[chosen], values, errors, others)


def _is_stable(problem: Problem, point: Iterate) -> bool:
    """Whether damped iteration of u = f(u) converges to a solution; of equations in another form nothing is known."""
    plan = problem.plan
    names = [unknown.name for unknown in plan.unknowns]
    if sorted(map(str, plan.lefts)) != sorted(names):
        return True
    slopes = point.linear.jacobian.copy()  # of f(u) − u, or of log(f(u)/u)
    rows = [names.index(str(left)) for left in plan.lefts]
    slopes *= np.where(plan.logarithmic, point.values[rows], 1.0)[:, None]
    return bool((np.linalg.eigvals(slopes[np.argsort(rows)]).real < 0).all())


def _apart(
    problem: Problem, points: list[tuple[Problem, Iterate]], tables: list[tuple[dict[str, float], dict[str, float]]]
) -> tuple[list[tuple[Problem, Iterate]], list[tuple[dict[str, float], dict[str, float]]]]:
    """Return solutions without those inside a domain that are one on its edge, to within their errors."""
    names = [item.name for item in problem.plan.unknowns]
    on_edges = [values for (values, _), (found, _) in zip(tables, points, strict=True) if found is not problem]

    def on_edge(values: Mapping[str, float], errors: Mapping[str, float]) -> bool:
        return any(all(abs(values[n] - edge[n]) <= 3 * errors[n] for n in names) for edge in on_edges)

    kept = [k for k, (found, _) in enumerate(points) if found is not problem or not on_edge(*tables[k])]
    return [points[k] for k in kept], [tables[k] for k in kept]


def _said(at: Values, plan: FixedPointPlan) -> str:
    given = ", ".join(f"{name}={value}" for name, value in settings(at, plan).items())
    return f" for {given}" if given else ""


def settings(at: Values, plan: FixedPointPlan) -> dict[str, float | str]:
    """Return parameters and laws by name, without the Gaussian variables that the equations determine."""
    return {name: value for name, value in at.settings.items() if name not in plan.gaussians}


def _allowed(plan: FixedPointPlan, values: Mapping[str, float]) -> bool:
    """Whether every unknown lies in its domain."""
    return all(item.holds(values[item.name]) for item in plan.declared)


def _table(at: Values, problem: Problem, point: Iterate) -> tuple[dict[str, float], dict[str, float]]:
    """Return all unknowns and observables, and their errors: a finer quadrature, and rounding."""
    plan = problem.plan
    if not plan.unknowns and not plan.means:
        values = _outputs(plan, problem.parameters, point.values, point.linear.means)
        return values, {name: 2 * EPSILON * abs(value) for name, value in values.items()}
    linear = point.linear  # one step before the point: good enough for derivatives
    means = [problem.means(point.values, point.mesh)[:, 0]]
    for finer, mesh in finer_rules(at, problem, point.values, point.mesh):
        means.append(expectations(finer.integrands(point.values), mesh)[:, 0])
    steps, noise, fine = [np.zeros(0) for _ in means], np.zeros(0), means[-1]
    if plan.unknowns:
        inverse = np.linalg.inv(linear.jacobian)
        steps = [-inverse @ residuals(problem, point.values[:, None], item[:, None])[:, 0] for item in means]
        steps[0] *= 0.0
        noise = np.abs(inverse) @ linear.rounding
    outputs = [_outputs(plan, problem.parameters, point.values + step, item + linear.mean_slopes @ step)
             for step, item in zip(steps, means, strict=True)]  # fmt: skip
    final, second = point.values + steps[-1], outputs[-1]
    step = np.sum(np.abs(np.diff(steps, axis=0)), axis=0)
    names = tuple(item.name for item in plan.unknowns)
    slopes = newton.output_slopes(problem, final, linear.means, names)
    sizes = EPSILON * np.abs(fine)
    values = {**dict(zip(names, final.tolist(), strict=True)), **second}
    errors = {name: abs(float(s)) + float(n) for name, s, n in zip(names, step, noise, strict=True)}
    for place, name in enumerate(plan.outputs):
        along, through = np.split(slopes[place], [len(names)])
        rounding = np.abs(along + through @ linear.mean_slopes) @ noise + np.abs(through) @ sizes
        refined = sum(abs(b[name] - a[name]) for a, b in pairwise(outputs))
        errors[name] = refined + float(rounding) + EPSILON * abs(second[name])
    order = dict.fromkeys([*(item.name for item in plan.declared), *values])
    return {name: values[name] for name in order}, {name: errors[name] for name in order}


def _outputs(plan: FixedPointPlan, parameters: tuple[float, ...], values: Array, means: Array) -> dict[str, float]:
    with np.errstate(all="ignore"):
        entries = plan.piece("outputs")(*map(np.float64, parameters), *values, *means)  # 0/0 of floats would raise
    return dict(zip(plan.outputs, (float(entry) for entry in entries), strict=True))


def _last_residual(solution: FixedPointSolution) -> float:
    """Return the largest residual at the values reported, on the mesh of the solve."""
    problem = solution.problem
    if not problem.plan.unknowns:
        return 0.0
    values = np.array([[solution.values[item.name]] for item in problem.plan.unknowns])
    return float(np.max(np.abs(residuals(problem, values, problem.means(values, solution.point.mesh)))))


def to_result(solution: FixedPointSolution) -> Result:
    """Return a solution as a result with scalar values."""
    stats: dict[str, Any] = {
        "residual": _last_residual(solution),
        "nodes": len(solution.point.mesh.row) * solution.point.mesh.order,
        "steps": solution.point.steps,
    }
    if solution.others:
        stats["other_solutions"] = [dict(other) for other in solution.others]
    plan = solution.problem.plan
    params = settings(solution.at, plan)
    data = LabelledArrays.of_numbers(solution.values, solution.errors)
    return Result(data, model=plan.name, kind="fixed point", params=params, stats=stats, source=solution)
