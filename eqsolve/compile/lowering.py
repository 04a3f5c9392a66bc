"""Expressions as functions of arrays: the text of a Python function, made once, with parameters as leading arguments.

The text is data: it pickles, and names its array functions by module (``numpy.exp``), so that whoever runs it says which
arrays it is for. ``at`` gives a whole program its numbers.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

import mpmath
import numpy as np
from sympy import Basic, Dummy, Eq, Expr, KroneckerDelta, Piecewise, Symbol, cse, default_sort_key, nan, numbered_symbols, zoo
from sympy.core.function import AppliedUndef
from sympy.printing.numpy import SciPyPrinter
from sympy.printing.pycode import MpmathPrinter

from eqsolve.compile.safe import on_arrays, on_mpmath, safe, with_evaluators
from eqsolve.errors import ModelError, ParameterError
from eqsolve.language.laws import Law
from eqsolve.language.nodes import E, Int, InverseValue, Resp
from eqsolve.language.symbols import Parameter, Random
from eqsolve.numerics import laws as numeric
from eqsolve.numerics.arrays import Lazy
from eqsolve.numerics.backend import anywhere

Module = Literal["numpy", "mpmath"]
Program = TypeVar("Program")

_LEFT_OVER = (E, Int, Resp, InverseValue, AppliedUndef)
_SETTINGS = {"fully_qualified_modules": True, "inline": True, "allow_unknown_functions": True}


@dataclass(frozen=True)
class Lowered:
    """A function of arrays, or of mpmath's numbers, that returns a list."""

    text: str
    parameters: tuple[str, ...] = ()  # its leading arguments, by name
    module: Module = "numpy"
    functions: tuple[tuple[str, Callable[..., Any]], ...] = ()  # that no module has

    def __call__(self, *arguments: Any) -> list[Any]:
        return self.function(*arguments)

    @functools.cached_property
    def function(self) -> Callable[..., list[Any]]:
        space = {**_namespace(self.module), **{name: anywhere(function) for name, function in self.functions}}
        exec(_code(self.text), space)  # text of our own making
        return space["lowered"]

    def __reduce__(self) -> Any:
        return (Lowered, (self.text, self.parameters, self.module, self.functions))

    def at(self, values: Mapping[str, float]) -> Callable[..., list[Any]]:
        """Return the function of the remaining arguments for given numbers."""
        return Bound(self, tuple(values[name] for name in self.parameters))


@dataclass(frozen=True)
class Bound:
    """A lowered function with numbers for its parameters: a function of the remaining arguments."""

    lowered: Lowered
    values: tuple[float, ...]

    def __call__(self, *arguments: Any) -> list[Any]:
        return self.lowered.function(*self.values, *arguments)

    def at(self, values: Mapping[str, float]) -> Self:
        """Return itself: parameter values are bound already."""
        return self


_code = functools.lru_cache(maxsize=4096)(functools.partial(compile, filename="<lowered>", mode="exec"))


@functools.cache
def _namespace(module: Module) -> dict[str, Any]:
    if module == "mpmath":
        return {**on_mpmath(), "mpmath": mpmath}
    return {**on_arrays(), "numpy": np, "scipy": Lazy("scipy"), "math": math, "functools": functools}


def lower(expressions: Sequence[Expr], arguments: Sequence[Basic], parameters: Sequence[Symbol] = ()) -> Lowered:
    """Return a function of arrays, one per argument, that evaluates all expressions with common parts shared.

    Arguments may be symbols, function values, or nodes whose values the caller computes (expectations, integrals). Of the
    ``parameters`` those that occur become leading arguments.
    """
    free = set[Basic]().union(*(expr.free_symbols for expr in expressions))
    used = [item for item in parameters if item in free]
    placeholders = [_place(index) for index in range(len(arguments))]
    mapping: dict[Basic, Basic] = dict(zip(arguments, placeholders, strict=True))
    bodies = [expr.xreplace(mapping) for expr in expressions]  # of nodes in each other the outermost
    for body in bodies:
        left = [node for node in body.atoms(*_LEFT_OVER)]
        if left:
            raise ModelError(f"`{left[0]}` cannot be computed pointwise")
    function = as_function([*used, *placeholders], bodies, names=[*used, *arguments])
    return dataclasses.replace(function, parameters=tuple(item.name for item in used))


def as_function(
    arguments: Sequence[Basic], expressions: Sequence[Expr], module: Module = "numpy", *,
    real: bool = True, names: Sequence[Basic] | None = None,
) -> Lowered:  # fmt: skip
    """Return a function of arrays or of mpmath's numbers that evaluates expressions in symbols, written safely.

    All lowering ends here. ``real=False`` says that complex values may come; ``names`` are what the arguments stand for, in
    messages.
    """
    placeholders = []  # they keep what is known about signs
    for index, item in enumerate(arguments):
        known = item.assumptions0 if isinstance(item, Symbol) and not isinstance(item, Dummy) and real else {}
        placeholders.append(Symbol(f"x{index}_", **(known or ({"real": True} if real else {}))))
    mapping = dict(zip(arguments, placeholders, strict=True))
    by_cases = lambda *args: Piecewise((1, Eq(*args[:2])), (0, True))  # noqa: E731
    written = [safe(expr.xreplace(mapping).replace(KroneckerDelta, by_cases), real=real) for expr in expressions]
    said = dict(zip(placeholders, names or arguments, strict=True))
    bodies = with_evaluators(written, precise=module == "mpmath", names=said) if real else written
    if any(body.has(zoo, nan) for body in bodies):  # a parameter was put in as 0
        raise ZeroDivisionError("an expression divides by zero")
    printer = _ArrayPrinter(_SETTINGS) if module == "numpy" else MpmathPrinter(_SETTINGS)
    called = {node.func.__name__: node.func._imp_ for body in bodies for node in body.atoms(AppliedUndef)}
    common, reduced = cse(bodies, symbols=numbered_symbols("c_"), list=False)
    lines = [f"def lowered({', '.join(item.name for item in placeholders)}):"]
    lines += [f"    {printer.doprint(name)} = {printer.doprint(expr)}" for name, expr in common]
    lines.append(f"    return [{', '.join(printer.doprint(expr) for expr in reduced)}]")
    return Lowered("\n".join(lines), (), module, tuple(sorted(called.items(), key=lambda item: item[0])))


class _ArrayPrinter(SciPyPrinter):
    """Conditions on arrays of different shapes are joined as their values are: by broadcasting."""

    def _print_Piecewise(self, expr: Any) -> str:
        conditions = ", ".join(self._print(item.cond) for item in expr.args)
        return f"piecewise([{conditions}], [{', '.join(self._print(item.expr) for item in expr.args)}])"

    def _print_And(self, expr: Any) -> str:
        parts = ", ".join(self._print(item) for item in sorted(expr.args, key=default_sort_key))
        return f"functools.reduce(numpy.logical_{type(expr).__name__.lower()}, ({parts},))"

    _print_Or = _print_And


@functools.cache
def _place(index: int) -> Dummy:
    """Return the symbol in the place of an argument, always the same one, so that sympy knows what it worked out before."""
    return Dummy(f"x{index}", real=True)


@dataclass(frozen=True)
class Constant:
    """A named table, or, without a name, the range 0 … size − 1 of an index."""

    name: str
    size: int = 0

    def at(self, values: Mapping[str, Any]) -> Any:
        return values[self.name] if self.name else np.arange(self.size, dtype=float)

    @classmethod
    def of(cls, item: Any) -> Self:
        return cls(item.base) if isinstance(item, Parameter) else cls("", item.count)


def at(program: Program, values: Mapping[str, float]) -> Program:
    """Return a program of nested frozen dataclasses, tuples and tables with every function bound to its numbers."""
    known: dict[int, Any] = {}

    def bound(item: Any) -> Any:
        if isinstance(item, Lowered | Constant):
            return item.at(values)
        if id(item) not in known:  # shared pieces stay shared
            known[id(item)] = with_parts(item, bound)
        return known[id(item)]

    return bound(program)


def with_parts(item: Any, change: Callable[[Any], Any]) -> Any:
    """Return a tuple, a table or a frozen dataclass with its parts changed; itself where none of them is."""
    if isinstance(item, tuple):
        parts = tuple(map(change, item))
        return item if all(map(operator.is_, parts, item)) else parts
    if isinstance(item, dict):
        return {key: change(part) for key, part in item.items()}
    fields, known = getattr(item, "__dataclass_fields__", None), getattr(item, "__dict__", {})
    if fields is None or isinstance(item, type):
        return item
    changed = {name: new for name in fields if (new := change(known[name])) is not known[name]}
    return dataclasses.replace(item, **changed) if changed else item


# --- Laws of random constants as data: what makes the numeric law, and its numbers as a function of
# the parameters.
#
# Moments of other constants inside a law, as in Normal(0, E(w_star**2)), are integrals over the
# laws of these constants, taken when the numbers are.


@dataclass(frozen=True)
class Moment:
    """The mean of a function of parameters and of independent random constants, by name, with their declared laws."""

    integrand: Lowered
    constants: tuple[str, ...]
    declared: tuple[LawPlan, ...] = ()  # where they are declared

    def at(self, values: Mapping[str, float], laws: Mapping[str, numeric.NumericLaw]) -> float:
        """Return the mean for numbers of the parameters and for the laws of constants that are not as declared."""
        declared = dict(zip(self.constants, self.declared, strict=False))
        used = [laws[name] if name in laws else declared[name].at(values) for name in self.constants]
        function = self.integrand.at(values)
        return numeric.expectation(lambda *nodes: function(*nodes)[0], used)


def compile_moment(integrand: Expr, parameters: Sequence[Parameter], laws: Mapping[Random, Law] | None = None) -> Moment:
    """Return the mean of an expression in random constants; without ``laws``, these are known when it runs."""
    constants = sorted(integrand.atoms(Random), key=lambda item: item.name)
    declared = []
    if laws is not None:
        by_name = {item.name: law for item, law in laws.items()}  # a law in parameters makes a new symbol
        for item in constants:
            law = by_name.get(item.name, item.law)
            if law is None:
                raise ParameterError(f"a law uses the moment `E({integrand})`, but `{item.name}` has no law")
            declared.append(compile_law(law, parameters, laws))
    return Moment(lower([integrand], constants, parameters), tuple(item.name for item in constants), tuple(declared))


@dataclass(frozen=True)
class LawPlan:
    """A law whose numbers depend on parameters."""

    make: Callable[..., numeric.NumericLaw]  # of the numbers and of the laws of its parts
    numbers: Lowered  # a function of the parameters and of the ``moments``
    moments: tuple[Moment, ...]
    parts: tuple[LawPlan, ...]  # the laws this one is made of
    usage: str  # how the law is written, for messages

    def at(self, values: Mapping[str, float], laws: Mapping[str, numeric.NumericLaw] = {}) -> numeric.NumericLaw:
        """Return the law at values of the parameters; a ParameterError if it takes none of these numbers.

        ``laws`` are those that other constants have now, by name, where they are not the declared ones.
        """
        numbers = [float(item) for item in self.numbers.at(values)(*(moment.at(values, laws) for moment in self.moments))]
        law = self.make(*numbers, *(part.at(values, laws) for part in self.parts))
        odd = [item for item in numbers if not math.isfinite(item)]
        problem = f"a parameter must be a finite real number, got {odd[0]}" if odd else law.problem()
        if problem:
            raise ParameterError(f"law {law}: {problem}; usage: {self.usage}")
        return law


def compile_law(law: Law, parameters: Sequence[Parameter], laws: Mapping[Random, Law] | None = None) -> LawPlan:
    """Return a declared law as data; the parameters in its numbers get their values later.

    ``laws`` are those of the other constants, where the numbers contain moments of them.
    """
    means = list(dict.fromkeys(node for item in law.numbers for node in item.atoms(E)))
    return LawPlan(
        law.make(),
        lower(list(law.numbers), means, parameters),
        tuple(compile_moment(mean.argument, parameters, laws or {}) for mean in means),
        tuple(compile_law(part, parameters, laws) for part in law.parts),
        law.usage,
    )
