"""Follow a solution along a parameter: every point starts from its neighbours' extrapolation."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from eqsolve.arguments import checked, list_of, table, text
from eqsolve.compile.fixed_point import FixedPointProgram
from eqsolve.compile.forms import FIXED_POINT
from eqsolve.compile.values import binder_of, case_of
from eqsolve.errors import SolverError, UsageError
from eqsolve.language.binding import read_value
from eqsolve.language.fixed_point import FixedPoint, Singularity
from eqsolve.language.laws import Law
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.printing import latex_names
from eqsolve.passes.routing import bind_routed, models_behind
from eqsolve.results.result import Result
from eqsolve.solvers.fixed_point.solve import FixedPointSolution, settings, solve_problem


@checked(model=read_model, parameter=text, values=list_of, params=table)
def follow(
    model: Model | str, parameter: str, values: Iterable[Any], *, params: Mapping[str, Any] | None = None, **parameters: Any
) -> Result:
    """Solve a fixed point, or the rate of a `Singularity`, along a path of one parameter, in one call.

    Parameters
    ----------
    model
        A ``FixedPoint``, a ``Singularity`` (or ``Cases`` of them), its name, or its file.
    parameter, values
        The parameter that varies, and its values in the order in which they are to be followed.
    params, **parameters
        The other parameters and laws, as in ``solve``.

    Returns
    -------
    Result
        Every unknown and observable over the parameter, with errors: ``res["C_w"]``, ``res.error["C_w"]``.
    """
    import time

    from eqsolve.passes.check.check import check
    from eqsolve.results.provenance import describe

    began = time.perf_counter()
    assert isinstance(model, Model)
    check(model)
    fixed = {**(params or {}), **parameters}
    values = list(values)
    path = [read_value(value, what=f"parameter `{parameter}`") for value in values]
    if not path:
        raise UsageError("follow needs at least one value to go through")
    if parameter in fixed:
        raise UsageError(f"`{parameter}` varies along the path and cannot be fixed too")
    if law := next((value for value in path if isinstance(value, Law)), None):
        raise UsageError(f"follow goes along the numbers of a parameter, got the law {law} for `{parameter}`; use sweep")
    if isinstance(_target(model, {**fixed, parameter: path[0]})[0], Singularity):
        return _follow_rate(model, parameter, values, fixed, began)
    solutions: list[FixedPointSolution] = []
    searches, floats = 0, [float(value) for value in path]
    for value, place in zip(values, floats, strict=True):  # plain numbers are read without symbols
        target, given = _target(model, {**fixed, parameter: value})
        if not isinstance(target, FixedPoint):
            raise UsageError(
                f"follow takes a FixedPoint or a Singularity all along, and at {parameter} = {place:.6g} "
                f"model `{model.name}` is the {target.kind} `{target.name}`"
            )
        binder = binder_of(target)
        at = binder.read(given)
        program = binder.plan(at).program(FIXED_POINT)
        start = _ahead(solutions, floats, program)
        try:
            solution = solve_problem(program, at, start, solutions[-1] if start is not None else None)
        except SolverError as error:
            raise SolverError(f"at {parameter} = {place:.6g}: {error}") from None
        searches += start is None
        solutions.append(solution)
    made = _result(model, parameter, path, solutions)
    stats = {"solver": "fixed_point", "seconds": time.perf_counter() - began, "points": len(path), "searches": searches}
    return replace(made, stats=stats, provenance=describe(model, 0), latex=latex_names((model, *models_behind(model))))


def _follow_rate(model: Model, parameter: str, path: list[Any], fixed: dict[str, Any], began: float) -> Result:
    """Return the curve of a rate as a result."""
    import time

    import xarray as xr

    from eqsolve.curves.rates import rate_curve
    from eqsolve.results.provenance import describe

    curve = rate_curve(model, parameter, path, params=fixed)
    data: dict[str, Any] = {name: ((parameter,), column) for name, column in curve.values.items()}
    data |= {f"{name}_error": ((parameter,), column) for name, column in curve.errors.items()}
    dataset = xr.Dataset(data, coords={parameter: curve.at})
    params = {k: v for k, v in bind_routed(model, {**fixed, parameter: path[0]}).settings().items() if k != parameter}
    stats = {"solver": "singularity", "seconds": time.perf_counter() - began, "points": len(path)}
    names = latex_names((model, *models_behind(model)))
    return Result(
        dataset, model=model.name, kind="sweep", params=params, stats=stats, provenance=describe(model, 0), latex=names
    )


def _target(model: Model, given: Mapping[str, Any]) -> tuple[FixedPoint | Singularity, dict[str, Any]]:
    model, given = case_of(model, given)
    if not isinstance(model, FixedPoint | Singularity):
        raise UsageError(f"follow takes a FixedPoint or a Singularity, and model `{model.name}` is a {model.kind}")
    return model, dict(given)


def _ahead(solutions: list[FixedPointSolution], path: list[float], program: FixedPointProgram) -> dict[str, float] | None:
    """Return the straight continuation of the last two points, in the variables of the search."""
    done = [s for s in solutions[-2:] if s.program is program]
    if not done or done[-1] is not solutions[-1]:
        return None
    last = done[-1]
    unknowns = last.problem.plan.unknowns
    here = last.problem.points(list(last.point.values))
    if len(done) == 2 and done[0].problem.plan.unknowns == unknowns:
        before, now, then = path[len(solutions) - 2 : len(solutions) + 1]
        if now != before and before > 0 and now > 0 and then > 0:
            ratio = np.log(then / now) / np.log(now / before)
        else:
            ratio = (then - now) / (now - before) if now != before else 0.0
        step = (here - done[0].problem.points(list(done[0].point.values))) * ratio
        here = here + np.clip(step, -1.0, 1.0)
    ahead = last.problem.values(here[:, None])[:, 0]
    return {item.name: float(value) for item, value in zip(unknowns, ahead, strict=True)}


def _result(model: Model, parameter: str, path: list[Any], solutions: list[FixedPointSolution]) -> Result:
    import xarray as xr

    names = [name for name in solutions[0].values if all(name in s.values for s in solutions)]
    data: dict[str, Any] = {}
    for name in names:
        data[name] = ((parameter,), [s.values[name] for s in solutions])
        data[f"{name}_error"] = ((parameter,), [s.errors[name] for s in solutions])
    dataset = xr.Dataset(data, coords={parameter: [float(value) for value in path]})
    first = solutions[0]
    params = {k: v for k, v in settings(first.at, first.problem.plan).items() if k != parameter}
    return Result(dataset, model=model.name, kind="sweep", params=params)
