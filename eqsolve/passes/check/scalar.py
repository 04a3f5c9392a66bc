"""What must hold of a `FixedPoint` and of a `Singularity`: equations for the unknowns, randomness under E."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sympy import Basic

from eqsolve.language.fixed_point import Cases, FixedPoint, Singularity
from eqsolve.language.symbols import Parameter, Random, Unknown
from eqsolve.passes.check.expressions import ExpressionCheck, Scope


def fixed_point_problems(model: FixedPoint) -> list[str]:
    """Return everything that is wrong with a fixed point, equations first."""
    check = ExpressionCheck(model, (Parameter, Unknown, Random))
    for equation in model.equations:
        for side in (equation.lhs, equation.rhs):
            check.visit(side, Scope(equation.label))
    _named(check, model)
    return [*check.problems, *_count(model)]


def _named(check: ExpressionCheck, model: FixedPoint | Singularity) -> None:
    for name, expr in model.variables.items():
        check.visit(expr, Scope(f"variable `{name}` ({model.location})", random=True))
    for name, expr in model.observables.items():
        check.visit(expr, Scope(f"observable `{name}` ({model.location})"))


def _count(model: FixedPoint) -> Iterator[str]:
    """Compare equations with unknowns, and say which unknowns no equation mentions."""
    here = f"model `{model.name}` ({model.location})"
    used = set().union(*(_symbols(side) for equation in model.equations for side in (equation.lhs, equation.rhs)))
    idle = [item for item in model.unknowns if item not in used]
    for item in idle:
        yield f"{here} has the unknown `{item}`, which appears in no equation; add one, or use param()"
    equations, unknowns = len(model.equations), len(model.unknowns) - len(idle)  # those are said already
    if equations != unknowns:
        names = ", ".join(f"`{item}`" for item in model.unknowns if item not in idle) or "none"
        lines = ", ".join(str(equation.location) for equation in model.equations if equation.location)
        yield (
            f"{here} has {equations} equation{'s' if equations != 1 else ''} ({lines}) for {unknowns} "
            f"unknown{'s' if unknowns != 1 else ''} ({names}); expected as many equations as unknowns"
        )


def _symbols(expr: Basic) -> set[Basic]:
    """Return the symbols an expression depends on, also through the laws of its random variables."""
    found: set[Basic] = set(expr.free_symbols)
    for item in expr.free_symbols:
        if isinstance(item, Random) and item.law is not None:
            found |= _symbols(item.law)
    return found


def singularity_problems(model: Singularity) -> list[str]:
    """Return everything that is wrong with a transform equation and its observables."""
    check = ExpressionCheck(model, (Parameter, Unknown, Random))
    here = f"model `{model.name}` ({model.location})"
    problems = []
    if len(model.equations) != 1:
        problems.append(f"{here} has {len(model.equations)} transform equations; expected one")
    for equation in model.equations:
        for side in (equation.lhs, equation.rhs):
            check.visit(side, Scope(equation.label))
        symbols = equation.lhs.free_symbols | equation.rhs.free_symbols
        for role, item in (("transform", model.unknown), ("variable", model.variable)):
            if item not in symbols:
                problems.append(f"{equation.label} does not contain the {role} `{item}`, which it should define")
    _named(check, model)
    if model.variable == model.unknown:
        problems.append(f"{here} has `{model.variable}` as its variable and as its unknown; expected two symbols")
    for item in (item for _, item in sorted(model.names.items()) if isinstance(item, Unknown)):
        if item not in (model.variable, model.unknown):
            problems.append(
                f"{here} uses the unknown `{item}`, which is neither its variable `{model.variable}` nor its "
                f"transform `{model.unknown}`; declare it with param()"
            )
    return [*check.problems, *problems, *_sources(model, here)]


def cases_problems(model: Cases) -> list[str]:
    """Return what is wrong with a choice of models; the models themselves are looked at when one is chosen."""
    here = f"model `{model.name}` ({model.location})"
    if not model.cases:
        return [f"{here} has no cases; expected pairs (condition, model's name)"]
    return list(_chosen(model.cases, here, "cases="))


def _chosen(pairs: Iterable[tuple[Any, str]], here: str, where: str) -> Iterator[str]:
    """Yield what is wrong with conditions and the models' names that go with them."""
    for condition, name in pairs:
        if not name.isidentifier():
            yield f"{here}: {where} names the model {name!r}; expected a model's name, such as `fixed_point`"
        odd = sorted(str(item) for item in condition.free_symbols if not isinstance(item, Parameter))
        if odd:
            yield f"{here}: the condition `{condition}` in {where} uses `{odd[0]}`; expected parameters only"


def _sources(model: Singularity, here: str) -> Iterator[str]:
    yield from _chosen(model.law_of, here, "law_of=")
    if model.law_of and not model.randoms:
        yield f"{here}: law_of= gives a law, but no random variable appears; declare one with random()"
