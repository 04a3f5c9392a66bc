"""Follow a solution along a parameter, every point from its neighbours' extrapolation; iterate a fixed point's equations."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from eqsolve.arguments import checked, list_of, number, table, text, whole
from eqsolve.compile.fixed_point import FixedPointProgram
from eqsolve.compile.forms import FIXED_POINT
from eqsolve.compile.plan import binder_of, case_of
from eqsolve.curves.rates import rate_curve, read_path
from eqsolve.errors import SolverError, UsageError
from eqsolve.language.fixed_point import FixedPoint, Singularity
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.printing import latex_names
from eqsolve.language.symbols import Unknown
from eqsolve.numerics.quadrature import expectations
from eqsolve.passes.routing import bind_routed, models_behind
from eqsolve.results.result import Result
from eqsolve.solvers.fixed_point.newton import make_problem
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
    from eqsolve.passes.check.check import check

    began = time.perf_counter()
    assert isinstance(model, Model)
    check(model)
    fixed = {**(params or {}), **parameters}
    given_values, path = read_path("follow", parameter, values, fixed)
    if not path:
        raise UsageError("follow needs at least one value to go through")
    if isinstance(_target(model, {**fixed, parameter: path[0]})[0], Singularity):
        curve = rate_curve(model, parameter, given_values, params=fixed)
        bound = bind_routed(model, {**fixed, parameter: given_values[0]}).settings()
        return _result(model, parameter, path, curve.values, curve.errors, bound, {"solver": "singularity"}, began)
    solutions: list[FixedPointSolution] = []
    searches = 0
    for value, place in zip(given_values, path, strict=True):
        target, given = _target(model, {**fixed, parameter: value})
        if not isinstance(target, FixedPoint):
            raise UsageError(
                f"follow takes a FixedPoint or a Singularity all along, and at {parameter} = {place:.6g} "
                f"model `{model.name}` is the {target.kind} `{target.name}`"
            )
        binder = binder_of(target)
        at = binder.read(given)
        program = binder.plan(at).program(FIXED_POINT)
        start = _ahead(solutions, path, program)
        try:
            solution = solve_problem(program, at, start, solutions[-1] if start is not None else None)
        except SolverError as error:
            raise SolverError(f"at {parameter} = {place:.6g}: {error}") from None
        searches += start is None
        solutions.append(solution)
    names = [name for name in solutions[0].values if all(name in s.values for s in solutions)]
    found, errors = ({name: [part[name] for part in parts] for name in names}
                     for parts in ([s.values for s in solutions], [s.errors for s in solutions]))  # fmt: skip
    bound = settings(solutions[0].at, solutions[0].problem.plan)
    stats = {"solver": "fixed_point", "searches": searches}
    return _result(model, parameter, path, found, errors, bound, stats, began)


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


def _result(
    model: Model, parameter: str, path: list[float], values: Mapping[str, Any],
    errors: Mapping[str, Any], params: Mapping[str, Any], stats: dict[str, Any], began: float,
) -> Result:  # fmt: skip
    """Return curves over a parameter as a result."""
    import xarray as xr

    from eqsolve.results.provenance import describe

    columns = {name: part for key in values for name, part in ((key, values[key]), (f"{key}_error", errors[key]))}
    dataset = xr.Dataset({name: ((parameter,), column) for name, column in columns.items()}, coords={parameter: path})
    return Result(
        dataset, model=model.name, kind="sweep", params={k: v for k, v in params.items() if k != parameter},
        stats={**stats, "seconds": time.perf_counter() - began, "points": len(path)}, provenance=describe(model, 0),
        latex=latex_names((model, *models_behind(model))),
    )  # fmt: skip


@checked(model=read_model, steps=whole(0), start=table, params=table)
def iterate(
    model: Model | str, steps: int, *, start: Mapping[str, float], params: Mapping[str, Any] | None = None, **parameters: Any
) -> Result:
    """Apply the equations of a fixed point again and again, each giving the unknown on its left.

    Parameters
    ----------
    model
        A ``FixedPoint`` whose equations all have an unknown on the left, its name, or its file.
    steps
        How often. In a step the equations are applied in order; each reads the values of the step before, except that
        an equation without an expectation reads those just computed. So a state evolution (b, σ², t) becomes
        b_k and σ²_{k+1} from (σ_k, t_k), then t_{k+1} = λ + b_k t_k.
    start
        The unknowns before the first step.
    params, **parameters
        Parameters and laws.

    Returns
    -------
    Result
        Every unknown and observable over ``step``, the start first.
    """
    import xarray as xr

    from eqsolve.passes.check.check import check

    assert isinstance(model, Model)
    if not isinstance(model, FixedPoint):
        raise UsageError(f"iterate takes a FixedPoint, and model `{model.name}` is a {model.kind}")
    check(model)
    for equation in model.equations:
        if not isinstance(equation.lhs, Unknown):
            raise UsageError(f"{equation.label}: its left side is no unknown, so it cannot be iterated")
    binder = binder_of(model)
    at = binder.read({**(params or {}), **parameters})
    problem = make_problem(binder.plan(at).program(FIXED_POINT), at, eliminate=False)
    plan = problem.plan
    missing = [item.name for item in plan.unknowns if item.name not in start]
    if missing:
        raise UsageError(f"start= gives no value for `{missing[0]}`; expected {', '.join(u.name for u in plan.unknowns)}")
    names = [item.name for item in plan.unknowns]
    targets, averaged = [names.index(left) for left in plan.lefts if left is not None], plan.averaged
    values = np.array([number(start[item.name], f"start of `{item.name}`") for item in plan.unknowns])
    rows: list[dict[str, float]] = []
    for count in range(steps + 1):
        means = expectations(problem.lines(values), problem.adapted(values))[:, 0]
        with np.errstate(all="ignore"):  # an observable may not exist yet at the start
            outputs = plan.piece("outputs")(*problem.parameters, *(np.float64(value) for value in values), *means)
        rows.append({**dict(zip(names, values.tolist(), strict=True)), **dict(zip(plan.outputs, outputs, strict=True))})
        if count == steps:
            break
        new, given = values.copy(), values
        for with_means in (True, False):  # the others read the new values of those given by expectations
            right = plan.piece("sides")(*problem.parameters, *given, *means)[len(plan.lefts) :]
            for target, side, average in zip(targets, right, averaged, strict=True):
                if average == with_means:
                    new[target] = float(side)
            given = new.copy()
        values = new
    data = {name: (("step",), [float(row[name]) for row in rows]) for name in rows[0]}
    dataset = xr.Dataset(data, coords={"step": np.arange(len(rows))})
    return Result(dataset, model=model.name, kind="iteration", params=settings(at, plan))
