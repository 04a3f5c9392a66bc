"""Where the laws of a singularity come from: its own, or those of a solved fixed point."""

from __future__ import annotations

from collections.abc import Mapping

from eqsolve.compile.forms import FIXED_POINT
from eqsolve.compile.singularity import SingularityProgram
from eqsolve.compile.values import Values
from eqsolve.errors import ModelError, did_you_mean
from eqsolve.laplace.expectation import LawSource, Source
from eqsolve.solvers.fixed_point.law import FixedPointLaw, SolutionSource
from eqsolve.solvers.fixed_point.solve import FixedPointSolution, solve_problem, to_result


def law_source(
    program: SingularityProgram,
    values: Values,
    names: tuple[str, ...],
    precision: int | None = None,
    start: Mapping[str, float] | None = None,
) -> tuple[Source, FixedPointSolution | None]:
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
    found = solution.problem.plan
    missing = [name for name in names if name not in found.variables and name not in found.randoms]
    if missing:
        raise ModelError(
            f"model `{program.name}` needs the law of `{missing[0]}`, which `{plan.name}` does not declare among "
            f"its variables{did_you_mean(missing[0], found.variables)} (it has: {', '.join(found.variables)})"
        )
    outside = [name for name in names[1:] if name not in found.randoms]
    if outside:
        raise ModelError(
            f"model `{program.name}` uses `{names[0]}` and `{outside[0]}` together; a singularity takes one "
            "variable of a fixed point, and its random constants"
        )
    precise = None
    if precision is not None:
        from eqsolve.solvers.fixed_point.precise import refine

        precise = refine(solution, to_result(solution), precision).source
    return SolutionSource(FixedPointLaw.without_points(solution, names[0]), names, precise), solution
