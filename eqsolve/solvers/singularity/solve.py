"""Convergence rates: the rightmost singularity of a declared transform, its observables, and their derivatives.

Chosen for every `Singularity`. The fixed point that gives the law is solved first; the search is that of
`eqsolve.laplace.rightmost_singularity`. Errors: rounding in the singular point, plus what the fixed point's own error
does to it. The rightmost singularity sets the decay (Doetsch, Introduction to the Theory and Application of the Laplace
Transformation, 1974, doi:10.1007/978-3-642-65690-3). Newton's method on h = 0, h_R = 0: some ten milliseconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import mpmath
import numpy as np
from mpmath import nstr

from eqsolve.compile.bundles import Bundle
from eqsolve.compile.forms import FIXED_POINT, SINGULARITY
from eqsolve.compile.plan import Plan, Values
from eqsolve.compile.singularity import RatePlan, SingularityProgram
from eqsolve.errors import ModelError, ParameterError, SolverError, UsageError, did_you_mean
from eqsolve.laplace.controls import GUARD
from eqsolve.laplace.expectation import LawSource, Source
from eqsolve.laplace.implicit import Prepared
from eqsolve.laplace.singularity import SingularPoint, find_singularity
from eqsolve.numerics.arrays import EPSILON
from eqsolve.results.arrays import LabelledArrays
from eqsolve.results.distribution import Distribution
from eqsolve.results.result import Result
from eqsolve.solvers.contract import Solver
from eqsolve.solvers.fixed_point.law import FixedPointLaw, SolutionSource
from eqsolve.solvers.fixed_point.precise import refine
from eqsolve.solvers.fixed_point.solve import FixedPointSolution, solve_problem
from eqsolve.solvers.fixed_point.solve import to_result as law_result
from eqsolve.solvers.options import Options

# Where the laws of a singularity come from: its own, or those of a solved fixed point.


def law_source(
    program: SingularityProgram, values: Values, names: tuple[str, ...],
    precision: int | None = None, start: Mapping[str, float] | None = None,
) -> tuple[Source, FixedPointSolution | None]:  # fmt: skip
    """Return the source of the expectations, and the solved fixed point behind it (None for declared laws)."""
    own = program.laws(values, names)
    if values.behind is None or set(names) <= set(own):
        return LawSource(own), None
    plan, there = values.behind
    if plan.facts.kind != "FixedPoint":
        raise ModelError(
            f"model `{program.name}` takes its law from `{plan.name}`, which is a {plan.facts.kind}; expected a FixedPoint"
        )
    solution = solve_problem(plan.program(FIXED_POINT), there, start)
    declared = solution.problem.plan
    missing = [name for name in names if name not in declared.variables and name not in declared.randoms]
    if missing:
        raise ModelError(
            f"model `{program.name}` needs the law of `{missing[0]}`, which `{plan.name}` does not declare among "
            f"its variables{did_you_mean(missing[0], declared.variables)} (it has: {', '.join(declared.variables)})"
        )
    outside = [name for name in names[1:] if name not in declared.randoms]
    if outside:
        raise ModelError(
            f"model `{program.name}` uses `{names[0]}` and `{outside[0]}` together; a singularity takes one "
            "variable of a fixed point, and its random constants"
        )
    precise = None
    if precision is not None:
        precise = refine(solution, law_result(solution), precision).source
    return SolutionSource(FixedPointLaw.without_points(solution, names[0]), names, precise), solution


@dataclass(frozen=True, eq=False)
class SingularitySolution:
    """A singular point with everything needed to ask more of it."""

    program: SingularityProgram
    plan: RatePlan
    at: Values
    prepared: Prepared
    point: SingularPoint
    fixed_point: FixedPointSolution | None
    values: dict[str, Any]
    errors: dict[str, float]

    def law(self, name: str) -> Distribution:
        """Return the law of a variable of the fixed point behind the transform."""
        if self.fixed_point is None:
            raise UsageError(f"the laws of model `{self.program.name}` are declared; there is none to ask for")
        return self.fixed_point.law(name)

    def derivative(self, what: str, parameter: str, fixed_law: bool = False) -> float:
        """Return the derivative of an observable, p or R along a parameter.

        With h = 0 and h_R = 0 the point moves as dp = −dh/h_p, dR = −(h_Rp dp + dh_R)/h_RR. The total derivative lets
        the law move too, by implicit differentiation of the fixed point; ``fixed_law=True`` keeps it.
        """
        point, transform = self.point, self.plan.transform
        if point.kind != "branch point" or transform.is_linear or not np.isfinite(complex(point.R)):
            what = point.kind if point.kind != "branch point" else "branch point of the equation's own coefficients"
            raise UsageError(f"derivatives are known where h = 0 and dh/dR = 0, and this singularity is a {what}")
        if point.exponent is not None and point.exponent != -1.5:
            raise UsageError(
                f"derivatives are known at square-root branch points, and here R ~ (p - p_c)^{-1 - point.exponent:g}"
            )
        if parameter not in transform.parameters and (fixed_law or not self._law_has(parameter)):
            near = did_you_mean(parameter, transform.parameters)
            raise ParameterError(f"there is no derivative along `{parameter}`{near}")
        d = self.prepared(float(point.R), float(point.p))
        dp = -self._along("h", parameter, fixed_law) / d.h_p
        dR = -(d.h_Rp * dp + self._along("h_R", parameter, fixed_law)) / d.h_RR
        if what == self.program.variable:
            return float(dp)
        if what == self.program.unknown:
            return float(dR)
        if what not in self.plan.names:
            raise UsageError(f"there is no observable `{what}`{did_you_mean(what, self.plan.names)}")
        place, count = self.plan.names.index(what), len(self.plan.names)
        slopes = self._evaluate(self.plan.observables)[count + 2 * place : count + 2 * place + 2]
        return float(self._along(f"observable {what}", parameter, fixed_law) + slopes[0] * dR + slopes[1] * dp)

    def derivatives(self, parameter: str) -> dict[str, tuple[float, float]]:
        """Return the derivatives of all values along a parameter, with their errors.

        An error is how a derivative changes with the point by its own error, and what the errors of
        the fixed point's derivatives make of it.
        """
        names = (self.program.variable, self.program.unknown, *self.plan.names)
        values = {name: self.derivative(name, parameter) for name in names}
        part = 1e-10
        if self.fixed_point is not None and self._law_has(parameter):
            below = self.fixed_point.derivatives(parameter).values()
            part += max((error / abs(value) for value, error in below if value), default=0.0)
        errors = {name: part * abs(value) for name, value in values.items()}
        scale = max(abs(complex(self.point.R)), abs(complex(self.point.p)), 1e-300)
        for change in ({"p": self.point.p + self.point.error}, {"R": self.point.R + self.point.error + 1e-12 * scale}):
            moved = replace(self, point=replace(self.point, **change))
            errors = {name: error + abs(moved.derivative(name, parameter) - values[name]) for name, error in errors.items()}
        return {name: (value, errors[name]) for name, value in values.items()}

    def _law_has(self, parameter: str) -> bool:
        return self.at.behind is not None and parameter in self.at.behind[1].numbers

    @np.errstate(all="ignore")
    def _evaluate(self, bundle: Bundle) -> list[float]:
        rule, floats = self.prepared.rule, self.prepared.floats
        statics = bundle.static_values(rule.values, floats)
        entries = bundle.evaluate(float(self.point.R), float(self.point.p), floats, statics, rule.weights)
        return [float(entry) for entry in entries]

    def _along(self, piece: str, parameter: str, fixed_law: bool) -> float:
        """Return the derivative of an expression with expectations along a parameter, R and p held."""
        if fixed_law or self.fixed_point is None or not self._law_has(parameter):
            if not fixed_law and parameter in self.program.in_laws:
                raise UsageError(f"a declared law depends on `{parameter}`; only fixed_law=True is known")
            return self._evaluate(self.plan.partial(piece, parameter))[0]
        bundle, means = self.plan.through(piece, parameter)
        weights = self._evaluate(bundle)
        given = {
            name: value
            for name, value in zip(self.plan.transform.parameters, self.prepared.floats, strict=True)
            if not self._law_has(name)
        }
        given |= {self.program.unknown: float(self.point.R), self.program.variable: float(self.point.p)}
        moved = [self.fixed_point.derivative(node, parameter, **given) for node in means]
        return weights[0] + float(np.dot(weights[1:], moved))


class SingularitySolver(Solver):
    __doc__ = __doc__
    name = "singularity"

    def why_not(self, plan: Plan) -> str:
        kind = plan.facts.kind
        return "" if kind == "Singularity" else f"it finds the rate of a Singularity, and this is a {kind}"

    def why(self, plan: Plan) -> str:
        return "a transform: followed from the right to its first singularity, then certified"

    def solve(self, plan: Plan, values: Values, options: Options) -> Result:
        """Find the rightmost singularity and report the observables with their errors."""
        program, precision = plan.program(SINGULARITY), options.precision
        return to_result(find(program, values, precision, start=options.start, region=options.region), precision)


def find(
    program: SingularityProgram, values: Values, precision: int | None = None,
    start: Mapping[str, float] | None = None, region: tuple[float, float] | None = None,
) -> SingularitySolution:  # fmt: skip
    """Return the singular point of a model at values.

    ``start`` are values of the fixed point's unknowns nearby, and of the transform far to the
    right, ``region`` where to search.
    """
    plan = program.plan(values)
    given = dict(start or {})
    guess = given.pop(program.unknown, None)
    source, fixed_point = law_source(program, values, plan.transform.randoms, precision, given or None)
    prepared = Prepared(plan.transform, source, values.numbers, partial(program.precise, plan, values))
    try:
        point = find_singularity(prepared, region=region, start=guess, precision=precision)
    except SolverError as error:
        raise SolverError(f"model `{program.name}`: {program.label}: {error}") from None
    values_found, errors = _observables(plan, prepared, point, fixed_point, precision)
    return SingularitySolution(program, plan, values, prepared, point, fixed_point, values_found, errors)


@np.errstate(all="ignore")
def _observables(
    plan: RatePlan, prepared: Prepared, point: SingularPoint, fixed_point: FixedPointSolution | None, precision: int | None
) -> tuple[dict[str, Any], dict[str, float]]:
    count = len(plan.names)
    R, p = point.R, point.p
    if point.kind == "pole":  # observables that need R have no value there
        R = float("inf")
    noise = 0.0
    if fixed_point is not None and precision is None:
        known = fixed_point.values
        noise = max((abs(error / known[name]) for name, error in fixed_point.errors.items() if known[name]), default=0.0)
    if precision is not None and point.kind == "branch point":
        with mpmath.workdps(precision + GUARD):
            numbers, rule = prepared.exact(), prepared.precise_rule(precision)
            statics = plan.observables.static_values(rule.values, numbers, "mpmath")
            entries = plan.observables.evaluate_precise(R, p, numbers, statics, rule.weights)
        values = {name: +entries[k] for k, name in enumerate(plan.names)}
        return values, {name: float(abs(values[name])) * 10.0**-precision for name in values}
    statics = plan.observables.static_values(prepared.rule.values, prepared.floats)
    entries = plan.observables.evaluate(_plain(R), _plain(p), prepared.floats, statics, prepared.rule.weights)
    values, errors = {}, {}
    p_error = point.error + 4 * noise * abs(p)
    R_error = point.R_error + 4 * noise * abs(R) if np.isfinite(R) else 0.0
    for k, name in enumerate(plan.names):
        value = entries[k]
        slopes = np.abs(np.nan_to_num(np.array(entries[count + 2 * k : count + 2 * k + 2], dtype=complex)))
        values[name] = float(np.real(value))
        errors[name] = float(slopes[0] * R_error + slopes[1] * p_error + (2 * EPSILON + 2 * noise) * abs(value))
    return values, errors


def _plain(value: Any) -> Any:
    return value if isinstance(value, complex) else float(value)


def to_result(solution: SingularitySolution, precision: int | None = None) -> Result:
    """Return a singular point as a result with scalar values."""
    point = solution.point
    numbers = {name: float(value) for name, value in solution.values.items()}
    stats: dict[str, Any] = {
        "singularity": point.kind,
        "p": _pair(point.p),
        "decay": point.decay,
        "certified": point.certified,
        "residual": point.residual,
        "nodes": int(solution.prepared.rule.weights.size),
    }
    if point.exponent is not None:
        stats["exponent"] = point.exponent
    if precision is not None:
        stats["digits"] = {name: nstr(value, precision) for name, value in solution.values.items()}
    if point.ties:
        stats["equal_real_part"] = [_pair(item.p) for item in point.ties]
    if solution.at.behind is not None:
        stats["law_of"] = solution.at.behind[0].name
    return Result(
        LabelledArrays.of_numbers(numbers, solution.errors),
        model=solution.program.name,
        kind="singularity",
        params=dict(solution.at.settings),
        stats=stats,
        source=solution,
    )


def _pair(value: Any) -> Any:
    number = complex(value)
    return number.real if number.imag == 0 else [number.real, number.imag]
