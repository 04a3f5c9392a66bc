"""What is left of a fixed point to solve: unknowns given by others, and the kinks at which expectations are split."""

from __future__ import annotations

from sympy import Basic, Expr, S, sign

from eqsolve.errors import EqsolveError
from eqsolve.language.fixed_point import FixedPoint
from eqsolve.language.laws import Normal
from eqsolve.language.nodes import E
from eqsolve.language.printing import expression_text
from eqsolve.language.symbols import Parameter
from eqsolve.passes.forms.kinks import Switch, take_apart
from eqsolve.passes.forms.reduction import reduce_fixed_point

__all__ = ["describe_reduction"]


def describe_reduction(model: FixedPoint) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return titles and lines: what is eliminated, what is solved for, where expectations are split; at the defaults."""
    given = {item: model.defaults.get(item, item.default) for item in model.parameters}
    values: dict[Parameter, Expr] = {item: S(value) for item, value in given.items() if value is not None}
    declared = frozenset(item.name for item in model.randoms if isinstance(item.law, Normal))
    try:
        reduced = reduce_fixed_point(model, values, declared)
        sides = [side for equation in reduced.equations for side in (equation.lhs, equation.rhs)]
        nodes = {node for expr in (*sides, *reduced.observables.values()) for node in expr.atoms(E)}
        randoms: frozenset[Basic] = frozenset((*model.randoms, *(xi for xi, _ in reduced.gaussians.values())))
        _, stages = take_apart([node.argument for node in sorted(nodes, key=str)], randoms)
    except (EqsolveError, TypeError):  # a model with problems is explained as far as it goes
        return ()
    kinks: list[Expr] = []
    known: dict[Basic, Basic] = {}
    for stage in stages:
        if isinstance(stage, Switch):
            kinks.append(stage.expression.xreplace(known))
            known[stage.symbol] = sign(kinks[-1])
    made = (
        ("eliminated (given by the others)", tuple(f"{u.name} = {expression_text(e)}" for u, e in reduced.eliminated)),
        ("solved for", (", ".join(item.name for item in reduced.unknowns) or "nothing: all is explicit",)),
        ("kinks (expectations are split where these vanish)", tuple(expression_text(expr) for expr in kinks)),
    )
    return tuple((title, lines) for title, lines in made if lines)
