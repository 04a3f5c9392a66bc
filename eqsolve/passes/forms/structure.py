"""Which values of parameters change a model's structure: those are put in before it is compiled, the others stay arguments."""

from __future__ import annotations

from sympy import Basic, Max, Min, Piecewise, Pow
from sympy.core.relational import Relational

from eqsolve.language.model import Model, leaves
from eqsolve.language.symbols import Parameter

__all__ = ["choosing_parameters"]


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
