"""What a solve may begin with: values by name, or the result of a neighbour, that is of the same model at other parameters.

A start changes how a solution is found, never how good it is said to be: every result has errors of its own. Of a fixed point
the values of the unknowns are taken, of a stochastic system what its solver handed on. The other solvers go forward in time
once, or search a whole region, and have no use for it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from eqsolve.arguments import got, number, table
from eqsolve.errors import UsageError, did_you_mean
from eqsolve.results.result import Result

if TYPE_CHECKING:
    from eqsolve.compile.plan import Plan
    from eqsolve.solvers.contract import Solver

logger = logging.getLogger("eqsolve")


def read_start(value: Any, what: str) -> Result | dict[str, Any]:
    """Return a result, or values by name: what ``start=`` takes."""
    if isinstance(value, Result):
        return value
    if not isinstance(value, Mapping):
        takes = "a Result of the same model, or values of its unknowns by name, such as {'q': 0.3}"
        raise UsageError(f"{what}= takes {takes}, got {got(value)}")
    return table(value, what)


def take_start(
    start: Result | Mapping[str, Any] | None, plan: Plan, signature: str, solver: Solver
) -> tuple[Mapping[str, float] | None, Any]:
    """Return the values to begin with, and what a neighbour handed on; a start of another model is refused."""
    if isinstance(start, Result):
        _demand_same(start, plan, signature)
        return _from_result(start, plan, solver)
    kind, names = plan.facts.kind, plan.facts.functions
    if start is not None and kind == "System":
        raise UsageError(
            f"start=: model `{plan.name}` is a System; values by name are for fixed points and rates, "
            "a System takes a Result of the same model, or nothing"
        )
    for name, value in (start or {}).items():
        if kind == "FixedPoint" and name not in names:
            near = did_you_mean(name, names) or f" (it has: {', '.join(sorted(names))})"
            raise UsageError(f"start=: model `{plan.name}` has no unknown `{name}`{near}")
        number(value, f"start of `{name}`")
    return start, None


def _demand_same(start: Result, plan: Plan, signature: str) -> None:
    """Raise unless a result is the solution of the same equations."""
    if start.provenance.get("signature") == signature and start.kind != "sweep":
        return
    what = f"a {start.kind} of `{start.model}`"
    if start.kind != "sweep" and start.model == plan.name:
        what += " with other equations"
    raise UsageError(
        f"start=: expected the Result of one solve of model `{plan.name}` ({plan.facts.kind}), at any parameters; got {what}"
    )


def _from_result(start: Result, plan: Plan, solver: Solver) -> tuple[Mapping[str, float] | None, Any]:
    if plan.facts.kind == "FixedPoint":
        data = start.dataset
        found = {name: float(data[name]) for name in plan.facts.functions if name in data and not data[name].dims}
        return {name: value for name, value in found.items() if math.isfinite(value)} or None, None
    if not solver.starts(plan):
        logger.info("%s: the start is not used: solver %s has no iteration that it could shorten", plan.name, solver.name)
        return None, None
    if start.source is None:
        raise UsageError(
            f"start=: this result of `{start.model}` holds no means to begin with: it was read from a file, or its iteration "
            "did not settle; expected a Result as solve() returns it"
        )
    return None, start.source
