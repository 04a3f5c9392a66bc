"""Which random constants meet: a system cut into parts that share nothing random, so that no nodes are combined in vain.

Two constants meet when one process depends on both, or one expectation is over both. What parts know of each other goes
through expectations, which are numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sympy import Basic, S

from eqsolve.language.laws import Component, Law
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Process, Random, Value
from eqsolve.language.system import System

__all__ = ["Parts", "find_parts"]


@dataclass(frozen=True)
class Parts:
    """The constants of each part, and by name the part of every constant and process."""

    constants: tuple[tuple[str, ...], ...]
    places: Mapping[str, int]

    def of(self, item: Basic) -> int:
        """Return the part of a process, or of an expectation; what is not random is in the first one."""
        return next((self.places[name] for name in _members(item) if name in self.places), 0)


def find_parts(system: System, laws: Mapping[Random, Law]) -> Parts:
    """Return the parts of a system with these random constants."""
    above: dict[str, str] = {}

    def top(name: str) -> str:
        above.setdefault(name, name)
        while above[name] != name:
            name = above[name]
        return name

    def join(names: list[str]) -> None:
        for name in names[1:]:
            above[top(name)] = top(names[0])

    joint: dict[tuple[str, ...], list[str]] = {}
    for item, law in laws.items():
        top(item.name)
        if isinstance(law, Component):
            joint.setdefault(law.group, []).append(item.name)
    for names in joint.values():
        join(names)
    for equation in system.equations:
        if isinstance(equation.head, Process):
            started = system.init.get(equation.head)
            begin = _members(started) if isinstance(started, Basic) and not isinstance(started, Law) else []
            own = [f"{equation.key}_start"] if isinstance(started, Law) else []
            join([equation.head.name, *_members(_outside(equation.rhs)), *begin, *own])
    expressions = [*(equation.rhs for equation in system.equations), *system.observables.values()]
    for node in set().union(*(expr.atoms(E) for expr in expressions)):
        join(_members(node))
    groups: dict[str, list[str]] = {}
    for item in laws:
        groups.setdefault(top(item.name), []).append(item.name)
    order = {name: place for place, name in enumerate(groups)}
    places = {name: order[top(name)] for name in list(above) if top(name) in order}
    return Parts(tuple(tuple(items) for items in groups.values()) or ((),), places)


def _outside(expr: Basic) -> Basic:
    """Return an expression without its expectations."""
    return expr.xreplace({node: S.Zero for node in expr.atoms(E)})


def _members(item: Basic) -> list[str]:
    """Return the names of the constants and processes in an expression, or of a process itself."""
    if isinstance(item, Process):
        return [item.name]
    found = [node.name for node in item.atoms(Random)]
    return sorted({*found, *(node.head.name for node in item.atoms(Value) if isinstance(node.head, Process))})
