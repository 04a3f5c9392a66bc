"""Expressions as functions of arrays: the text of a Python function, made once, with parameters as leading arguments.

The text is data: it pickles, and names its array functions by module (``numpy.exp``), so that whoever runs it says which
arrays it is for. ``at`` gives a whole program its numbers.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sympy import Basic, Expr, Symbol, cse, numbered_symbols
from sympy.core.function import AppliedUndef, Derivative
from sympy.printing.numpy import SciPyPrinter

from eqsolve.errors import ModelError
from eqsolve.language.nodes import E, Int, InverseValue, Resp

__all__ = ["Lowered", "at", "lower"]

_LEFT_OVER = (E, Int, Resp, InverseValue, Derivative, AppliedUndef)
_MODULES = ("numpy", "scipy", "scipy.special", "math")

Program = TypeVar("Program")


@dataclass(frozen=True)
class Lowered:
    """A function of arrays that returns a list of arrays; its leading arguments are ``parameters``, by name."""

    text: str
    parameters: tuple[str, ...] = ()

    def __call__(self, *arguments: Any) -> list[Any]:
        return self.function(*arguments)

    @property
    def function(self) -> Callable[..., list[Any]]:
        return _function(self.text)

    def at(self, values: Mapping[str, float]) -> Callable[..., list[Any]]:
        """Return the function of the remaining arguments for given numbers."""
        if not self.parameters:
            return self.function
        return functools.partial(self.function, *(values[name] for name in self.parameters))


@functools.lru_cache(maxsize=4096)
def _function(text: str) -> Callable[..., list[Any]]:
    space: dict[str, Any] = {name.split(".")[0]: importlib.import_module(name.split(".")[0]) for name in _MODULES}
    importlib.import_module("scipy.special")
    exec(compile(text, "<lowered>", "exec"), space)  # text of our own making
    made: Callable[..., list[Any]] = space["lowered"]
    return made


def lower(expressions: Sequence[Expr], arguments: Sequence[Basic], parameters: Sequence[Symbol] = ()) -> Lowered:
    """Return a function of arrays, one per argument, that evaluates all expressions with common parts shared.

    Arguments may be symbols, function values, or nodes whose values the caller computes (expectations, integrals). Of the
    ``parameters`` those that occur become leading arguments.
    """
    used = [item for item in parameters if any(item in expr.free_symbols for expr in expressions)]
    stand_ins = [Symbol(f"x{index}", real=True) for index in range(len(arguments))]
    numbers = [Symbol(f"p{index}", **item.assumptions0) for index, item in enumerate(used)]
    mapping = dict(zip([*used, *arguments], [*numbers, *stand_ins], strict=True))
    bodies = [_replace(expr, mapping) for expr in expressions]
    for body in bodies:
        left = [node for node in body.atoms(*_LEFT_OVER)]
        if left:
            raise ModelError(f"`{left[0]}` cannot be computed pointwise")
    return Lowered(_text([*numbers, *stand_ins], bodies), tuple(item.name for item in used))


def _text(arguments: Sequence[Symbol], bodies: list[Expr]) -> str:
    shared, reduced = cse(bodies, symbols=numbered_symbols("c", real=True), list=False)
    printer = SciPyPrinter({"fully_qualified_modules": True, "inline": True, "allow_unknown_functions": True})
    lines = [f"def lowered({', '.join(item.name for item in arguments)}):"]
    lines += [f"    {name} = {printer.doprint(expr)}" for name, expr in shared]
    lines.append(f"    return [{', '.join(printer.doprint(expr) for expr in reduced)}]")
    return "\n".join(lines)


def _replace(expr: Any, mapping: dict[Basic, Symbol]) -> Any:
    """Replace the outermost occurrences, so that a node's own content does not hide it."""
    if expr in mapping:
        return mapping[expr]
    if not expr.args:
        return expr
    changed = [_replace(arg, mapping) for arg in expr.args]
    return expr.func(*changed) if any(new is not old for new, old in zip(changed, expr.args, strict=True)) else expr


def at(program: Program, values: Mapping[str, float]) -> Program:
    """Return a program of nested frozen dataclasses, tuples and tables with every function bound to its numbers."""
    made: Program = _at(program, values, {})
    return made


def _at(item: Any, values: Mapping[str, float], known: dict[int, Any]) -> Any:
    if isinstance(item, Lowered):
        return item.at(values)
    if isinstance(item, str | int | float) or item is None:
        return item
    if id(item) in known:  # shared pieces stay shared
        return known[id(item)]
    made = item
    if isinstance(item, tuple):
        parts = [_at(part, values, known) for part in item]
        if any(new is not old for new, old in zip(parts, item, strict=True)):
            made = tuple(parts)
    elif isinstance(item, dict):
        made = {key: _at(part, values, known) for key, part in item.items()}
    elif dataclasses.is_dataclass(item) and not isinstance(item, type):
        fields = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
        changed = {name: _at(part, values, known) for name, part in fields.items()}
        if any(changed[name] is not part for name, part in fields.items()):
            made = dataclasses.replace(item, **changed)
    known[id(item)] = made
    return made
