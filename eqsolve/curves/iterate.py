"""Iterate the equations of a fixed point as they stand: the recursion of which it is the limit."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from eqsolve.arguments import checked, number, table, whole
from eqsolve.compile.forms import FIXED_POINT
from eqsolve.compile.values import binder_of
from eqsolve.errors import UsageError
from eqsolve.language.fixed_point import FixedPoint
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.symbols import Unknown
from eqsolve.numerics.quadrature import expectations
from eqsolve.results.result import Result
from eqsolve.solvers.fixed_point.newton import make_problem
from eqsolve.solvers.fixed_point.solve import settings


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
    return _result(model, rows, settings(at, plan))


def _result(model: FixedPoint, rows: list[dict[str, float]], params: dict[str, float | str]) -> Result:
    import xarray as xr

    data = {name: (("step",), [float(row[name]) for row in rows]) for name in rows[0]}
    dataset = xr.Dataset(data, coords={"step": np.arange(len(rows))})
    return Result(dataset, model=model.name, kind="iteration", params=params)
