"""Which values of parameters change a model's structure: those are put in before it is compiled, the others stay arguments."""

from __future__ import annotations

from typing import Any

from sympy import Add, Basic, Max, Min, Mul, Piecewise, Pow
from sympy.core.relational import Relational

from eqsolve.language.model import Model, leaves
from eqsolve.language.symbols import Parameter

__all__ = ["choosing_parameters", "distribute_parameters"]


def choosing_parameters(model: Model) -> frozenset[Parameter]:
    """Return the parameters whose every value may make another system.

    Whole numbers, those in the conditions of branches, in exponents (a power has another derivative at zero), and the time
    and step of the start.
    """
    found = {item for item in model.parameters if item.is_integer}
    for leaf in leaves(tuple(getattr(model, field) for field in model.content if field not in ("defaults", "conditions"))):
        for node in leaf.atoms(Piecewise, Pow, Max, Min):
            found |= _choosing(node)
    for field in ("start", "step"):
        value = getattr(model, field, None)
        found |= value.atoms(Parameter) if isinstance(value, Basic) else set()
    return frozenset(found)


def _choosing(node: Basic) -> set[Parameter]:
    if isinstance(node, Pow):
        return node.exp.atoms(Parameter) if not node.base.is_number else set()
    if isinstance(node, Piecewise):
        conditions = [condition for _, condition in node.args if isinstance(condition, Basic)]
        return {item for entry in conditions for relation in entry.atoms(Relational) for item in _plain(relation)}
    return _plain(node)


def _plain(node: Basic) -> set[Parameter]:
    """Return the parameters of a node that contains nothing else."""
    parameters = node.atoms(Parameter)
    return parameters if node.free_symbols <= parameters else set()


def distribute_parameters(expr: Any) -> Any:
    """Multiply parameters into sums, λ(a − b) into λa − λb, as sympy does with numbers: passes look at terms."""
    if not expr.args or not expr.atoms(Parameter):
        return expr
    changed = [distribute_parameters(arg) for arg in expr.args]
    made = expr.func(*changed) if any(new is not old for new, old in zip(changed, expr.args, strict=True)) else expr
    if isinstance(made, Mul):
        sums = [factor for factor in made.args if isinstance(factor, Add)]
        rest = [factor for factor in made.args if not isinstance(factor, Add)]
        if len(sums) == 1 and all(_plain(factor) or factor.is_number for factor in rest):
            return Add(*(Mul(*rest, term) for term in sums[0].args))
    return made
