"""Indices: families of unknowns, constants and numbers, and sums over them.

``phi = function("phi", k)`` is a family; ``phi[k]``, ``phi[0]`` and ``phi[k - 1]`` are members of it, symbols and functions
like any other that also know the indices they stand with.
"""

from __future__ import annotations

import inspect
import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from sympy import Atom, Basic, Dummy, Expr, Mul, Tuple, sympify

from eqsolve.errors import ModelError, ParameterError
from eqsolve.language.nodes import E, Node
from eqsolve.language.source import here, user_location
from eqsolve.language.symbols import Head, Named, Parameter, Time, Value, as_expression, part
from eqsolve.verbs import lazy_import


class Index(Named):
    """An index that runs over 0 … size − 1; ``extra`` holds the size, a number or a whole-number parameter."""

    @property
    def size(self) -> Any:
        return self.extra[0]

    @property
    def count(self) -> int:
        """The size, where it is a number."""
        if not self.size.is_Integer:
            raise ParameterError(f"the size of the index `{self}` is the parameter `{self.size}`, which has no value yet")
        return int(self.size)


class Family:
    """Unknowns, constants or numbers that carry indices; ``own`` is the one at the indices of the declaration, ``phi[k]``."""

    __iter__ = None  # phi[0], phi[1], ... would go on for ever

    def __init__(self, own: Any) -> None:
        self.own, self.kind, self.name, self.axes = own, own.kind_name, own.base, own.axes

    def __getitem__(self, key: Any) -> Any:
        given = key if isinstance(key, tuple) else (key,)
        if len(given) != len(self.axes):
            raise ModelError(
                f"{here()}`{self.name}` carries {len(self.axes)} ind{'ices' if len(self.axes) > 1 else 'ex'}, "
                f"got {len(given)}; write `{self.usage}`"
            )
        return self.own.member(tuple(self._entry(axis, item) for axis, item in zip(self.axes, given, strict=True)))

    def _entry(self, axis: Index, given: Any) -> Expr:
        entry = sympify(given) if isinstance(given, Basic | int | np.integer) else None
        runs = list(entry.atoms(Index)) if entry is not None else []
        if entry is not None and entry.is_Integer:
            if axis.size.is_Integer and not 0 <= entry < axis.size:
                raise ModelError(f"{here()}`{self.name}[{given}]`: the index `{axis}` runs over 0 … {axis.count - 1}")
            return entry
        if len(runs) != 1 or not (entry - runs[0]).is_Integer:
            raise ModelError(
                f"{here()}`{self.name}` takes an index, a number, or an index and a number, as in `{self.usage}`, "
                f"`{self.name}[0]`, `{self.name}[k - 1]`; got {given!r}"
            )
        if runs[0].size != axis.size:
            raise ModelError(
                f"{here()}`{self.name}[{given}]`: `{runs[0]}` runs over {runs[0].size} values, "
                f"`{self.name}` was declared with `{axis}`, which runs over {axis.size}"
            )
        return entry

    @property
    def usage(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.axes))}]"

    def _bare(self, *_: Any, **__: Any) -> Any:
        kind = "table" if self.kind == Parameter.kind_name else self.kind
        raise ModelError(f"{here()}the {kind} `{self.name}` stands without its indices; write `{self.usage}`")

    __call__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _bare
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __neg__ = diff = _bare

    def __repr__(self) -> str:
        return self.usage

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Family) and self.own == other.own

    def __hash__(self) -> int:
        return hash(self.own)

    def __reduce__(self) -> Any:
        return (Family, (self.own,))


class Slot(Dummy):
    """What stands for a value that is read at some indices, of a family of some shape."""

    indices: tuple[Any, ...]
    axes: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return counts(self.axes)

    @classmethod
    def of(cls, name: str, indices: tuple[Any, ...] = (), axes: tuple[Any, ...] = ()) -> Slot:
        slot: Slot = cls(name, real=True)
        slot.indices, slot.axes = indices, axes
        return slot


class Sum(Node):
    """Sum over indices: ``Sum(V[k, p, q] * phi[p](t) * phi[q](t), p, q)``."""

    body: Expr = part(0)
    bracketed = True
    canonical_variables = property(lambda self: {item: item for item in self.over})  # sympy's own are symbols, not indices

    def __new__(cls, body: Any, *indices: Any) -> Sum:
        inner = as_expression(body, "Sum")
        again = len(indices) == 1 and isinstance(indices[0], Tuple)  # sympy rebuilds it: of some members terms may vanish
        over = indices[0] if again else indices
        if again and not {*over} <= free_indices(inner):
            return sum_over(inner, over)
        for item in over or (None,):
            if not isinstance(item, Index):
                raise ModelError(f"{here()}Sum takes an expression and indices, Sum(V[k, p]*x[p](t), p); got `{item}` for one")
            if item not in free_indices(inner):
                raise ModelError(f"{here()}Sum over `{item}`, which does not occur in `{inner}`; leave it out")
        if len(set(over)) < len(over):
            raise ModelError(f"{here()}Sum runs over an index twice: {', '.join(map(str, over))}")
        return Expr.__new__(cls, inner, Tuple(*over))

    @property
    def over(self) -> tuple[Index, ...]:
        return tuple(self.args[1])

    @property
    def bound_symbols(self) -> list[Any]:
        return list(self.over)

    @property
    def free_symbols(self) -> set[Basic]:
        return self.body.free_symbols - set(self.over)

    def _eval_derivative(self, variable: Expr) -> Expr:
        return sum_over(self.body.diff(variable), self.over)

    def _sympystr(self, printer: Any) -> str:
        return f"Σ_{{{','.join(map(str, self.over))}}} {printer.parenthesize(self.body, 40)}"

    def _body(self, printer: Any) -> str:
        text = printer._print(self.body)
        inner = rf"\left({text}\right)" if self.body.is_Add else text
        return rf"\sum_{{{','.join(map(printer._print, self.over))}}} {inner}"


class Contraction(Atom):
    """A sum as it was written, of which sympy sees nothing; see ``MemberSum``."""

    def __new__(cls, sum: Sum) -> Contraction:
        contraction: Contraction = Basic.__new__(cls)
        contraction.sum = sum
        return contraction

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.sum,)

    _hashable_content = __getnewargs__

    def _sympystr(self, printer: Any) -> str:
        return str(printer._print(self.sum))

    @property
    def reads(self) -> list[Any]:
        """Values, means, times and parameters, each once, of those in each other the outermost."""
        return _reads(self.sum)


def _reads(expr: Basic) -> list[Any]:
    if isinstance(expr, Value | E | Time) or (isinstance(expr, Parameter) and not expr.indices):
        return [expr]
    return list(dict.fromkeys(item for arg in expr.args for item in _reads(arg)))


class MemberSum(Node):
    """A sum in the equation of a member that stands for all: a contraction, and what it reads, of that member."""

    contraction: Contraction = part(0)

    def _eval_derivative(self, variable: Expr) -> Expr:
        return sympify(0)  # (of the own member alone, where an equation is solved for it step by step)

    def _sympystr(self, printer: Any) -> str:
        return f"{self.contraction}({', '.join(map(printer._print, self.args[1:]))})"


def sum_over(inner: Expr, over: Iterable[Index]) -> Expr:
    """Return a sum of what may not depend on some of its indices, or vanish."""
    bound = [item for item in over if item in free_indices(inner)]
    scale = Mul(*(item.size for item in over if item not in bound))
    return scale * (Sum(inner, *bound) if bound else inner)


def free_indices(expr: Basic) -> frozenset[Index]:
    """Return the indices that an expression depends on and does not sum over."""
    if isinstance(expr, Index):
        return frozenset((expr,))
    if not expr.args:
        return frozenset(item for entry in getattr(expr, "indices", ()) for item in entry.atoms(Index))
    free = frozenset[Index]().union(*map(free_indices, expr.args))
    return free - set(expr.over) if isinstance(expr, Sum) else free


def counts(axes: Iterable[Index]) -> tuple[int, ...]:
    """Return the sizes of indices: the shape of a family."""
    return tuple(axis.count for axis in axes)


def ordered_indices(*expressions: Any) -> tuple[Index, ...]:
    """Return the free indices of expressions in order of their names."""
    plain = (item for item in expressions if isinstance(item, Basic))
    return tuple(sorted(frozenset[Index]().union(*map(free_indices, plain)), key=str))


def members_in(*expressions: Basic) -> Iterator[Named | Head]:
    """Yield the members of families in expressions."""
    for expr in expressions:
        yield from (item for item in expr.atoms(Named, Head) if item.indices)


# --- Numbers of tables: arrays, or functions of the parameters that make them.
class TableSource:
    """Where the numbers of some tables come from: arrays, or a function called with the parameters that it names.

    ``slopes`` are the derivatives that come with a function, (function, {parameter: derivative}), by the parameter's name.
    """

    def __init__(self, names: tuple[str, ...], source: Any, where: Any) -> None:
        self.names, self.source, self.slopes = names, source, dict[str, TableSource]()
        self.arguments: tuple[str, ...] = ()
        if isinstance(source, tuple) and len(source) == 2 and callable(source[0]) and isinstance(source[1], Mapping):
            self.source, given = source
            self.slopes = {str(key): TableSource(names, item, where) for key, item in given.items()}
        if callable(self.source):
            self.arguments = tuple(inspect.signature(self.source).parameters)
            try:
                text = inspect.getsource(self.source)
            except (OSError, TypeError):
                text = repr(self.source)
            self.signature: Any = (text, self.arguments, *((name, item.signature) for name, item in self.slopes.items()))
        else:
            self.source = source if len(names) > 1 else (source,)
            try:
                self.source = tuple(np.asarray(item, dtype=float) for item in self.source)
            except (TypeError, ValueError):
                raise ModelError(f"{where}: tables= takes arrays of numbers or a function for {', '.join(names)}") from None
            self.signature = tuple((item.shape, item.tobytes()) for item in self.source)
        taken = {*self.arguments}
        if not all(callable(it.source) and {name, *it.arguments} <= taken for name, it in self.slopes.items()):
            text = "derivatives of tables are functions of parameters that the tables are made of"
            raise ModelError(f"{where}: {text}, {', '.join(self.arguments)}: tables={{V: (function, {{a: its derivative}})}}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableSource) and (self.names, self.signature) == (other.names, other.signature)

    def __hash__(self) -> int:
        return hash((self.names, self.signature))

    def __repr__(self) -> str:
        return f"TableSource({self.names}, {self.signature!r})"

    def __reduce__(self) -> Any:
        if callable(self.source) and self.source.__module__ not in sys.modules:  # one of a model file, which is not imported
            return (lazy_import("tables_of"), (self.source.__code__.co_filename, self.names))
        given = self.source if callable(self.source) or len(self.names) > 1 else self.source[0]
        given = (given, {name: item.source for name, item in self.slopes.items()}) if self.slopes else given
        return (TableSource, (self.names, given, None))

    def arrays(self, numbers: Mapping[str, float]) -> dict[str, Any]:
        """Return the tables by name, at given parameters."""
        if not callable(self.source):
            return dict(zip(self.names, self.source, strict=True))
        tables = self.source(**{name: numbers[name] for name in self.arguments})
        tables = (tables,) if len(self.names) == 1 and not isinstance(tables, tuple) else tuple(tables)
        if len(tables) != len(self.names):
            names = ", ".join(self.names)
            raise ParameterError(
                f"the function for the tables {names} returned {len(tables)} of them; expected {len(self.names)}"
            )
        return dict(zip(self.names, tables, strict=True))


def read_tables(values: Mapping[Any, Any] | None) -> dict[tuple[Family, ...], TableSource | None]:
    """Return ``tables=`` in its stored form."""
    where, sources = user_location(), {}
    for key, source in (values or {}).items():
        families = key if isinstance(key, tuple) else (key,)
        for item in families:
            if not isinstance(item, Family) or item.kind != Parameter.kind_name:
                entry = isinstance(item, Parameter) and item.indices
                raise ModelError(
                    f"{where}: tables= maps tables to arrays or to a function of the parameters, got the key `{item}`"
                    + (f"; write the table alone, `{item.base}`" if entry else "")
                )
        names = tuple(item.name for item in families)
        sources[families] = source if isinstance(source, TableSource | None) else TableSource(names, source, where)
    return sources


# --- Putting numbers in place of indices.
def at_indices(expr: Any, values: Mapping[Index, Any]) -> Any:
    """Return an expression with numbers or other indices for some that are free in it."""
    swaps: dict[Basic, Basic] = dict(values)
    for item in members_in(expr):
        entries = tuple(entry.xreplace(swaps) for entry in item.indices)
        if entries != item.indices:
            swaps[item] = item.member(entries)
    return expr.xreplace(swaps)


def places(indices: Iterable[Index]) -> Iterator[dict[Index, Any]]:
    """Yield every combination of values of indices."""
    axes = tuple(indices)
    for combination in itertools.product(*(range(item.count) for item in axes)):
        yield dict(zip(axes, map(sympify, combination), strict=True))
