"""A system with indices as one without them in which every unknown stands for its family.

Members that are coupled by sums of kernels and functions alone have the same equation, but for numbers of tables: it is
derived and compiled once, for ``x_at_a_of_4``, the member of ``x`` at any value of `a`. What is compiled is then written
for every member, by ``eqsolve.compile.members``, without symbols. A sum is kept as what it contracts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sympy import Basic, Derivative, Integer, S

from eqsolve.language.equations import Equation
from eqsolve.language.indices import (
    Contraction,
    Index,
    MemberSum,
    Sum,
    at_indices,
    free_indices,
    members_in,
    ordered_indices,
)
from eqsolve.language.model import Table, leaves
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.printing import kept_by_model
from eqsolve.language.symbols import Correlation, Head, Parameter, Process, Random, Time, Value, default_latex
from eqsolve.language.system import System, members
from eqsolve.numerics.arrays import GENERIC, generic_name
from eqsolve.passes.forms.structure import choosing_parameters
from eqsolve.passes.rewrite.indices import all_indices


class _NotAlikeError(Exception):
    """Some member has another equation than the rest."""


@kept_by_model
def generic(model: System) -> System | None:
    """Return a system of which each unknown stands for its family; None where members are not alike."""
    try:
        return _Writer(model).system()
    except _NotAlikeError:
        return None


def readable(text: str) -> str:
    """Return a message with the names of families, `x[a]`, for what stands for their members."""
    return re.sub(rf"({GENERIC.pattern})+", lambda match: f"[{', '.join(name for name, _ in GENERIC.findall(match[0]))}]", text)


def _latex(model: System, name: str) -> str:
    return model.observable_latex.get(name) or default_latex(name)


class _Writer:
    def __init__(self, model: System) -> None:
        self.model, self.indices = model, all_indices(model)
        self.tables: dict[Parameter, Any] = {}

    def system(self) -> System:
        model = self.model
        random = {item.indices and self.own(item.axes) for item in model.names.values() if isinstance(item, Process | Random)}
        crossed = any(isinstance(eq.head, Correlation) and len(eq.head.indices) > 1 for eq in model.equations)
        if crossed or len(random) > 1 or model.constraints or model.substitute or not (model.kernels or model.noises):
            raise _NotAlikeError
        equations = tuple(self.equation(eq) for eq in model.equations)
        laws = {self.put(key, key): self.law(key, law) for key, law in model.laws.items()}
        init = {self.put(key, key): self.put(value, key) for key, value in model.init.items()}
        seen = {self.named(name, expr): self.put(expr, ordered_indices(expr)) for name, expr in model.observables.items()}
        written = {self.named(name, expr): _latex(model, name) for name, expr in model.observables.items()}
        made = model._with(
            equations=equations, laws=Table(laws), init=Table(init), observables=Table(seen), tables=Table(), exact=Table(),
            defaults=Table({**model.defaults, **self.tables}), generic=True, observable_latex=Table(written),
        )  # fmt: skip
        if made.is_indexed or choosing_parameters(made) & self.tables.keys():
            raise _NotAlikeError
        return made

    # --- parts of the system
    def equation(self, equation: Equation) -> Equation:
        left, right = equation.lhs, equation.rhs
        averaged = any(node.has(Sum) for node in right.atoms(E))
        if averaged or (isinstance(equation.head, Process) and right.has(Sum)):
            raise _NotAlikeError
        return Equation(self.put(left, left), self.put(right, left), equation.location)

    def law(self, key: Any, law: Any) -> Any:
        if len(members(key)) > 1 or free_indices(law) - free_indices(key):
            raise _NotAlikeError
        return law.func(*(self.put(arg, key) if isinstance(arg, Basic) else arg for arg in law.args))

    def named(self, name: str, expr: Any) -> str:
        return generic_name(name, [(str(item), item.count) for item in self.own(ordered_indices(expr))])

    # --- indices
    def own(self, axes: tuple[Index, ...]) -> tuple[Index, ...]:
        """Return the indices that a family has here: of every size the first, then the second, ... of the model."""
        made: list[Index] = []
        for axis in axes:
            free = [item for item in self.indices if item.size == axis.size and item not in made]
            if not free:
                raise _NotAlikeError
            made.append(free[0])
        return tuple(made)

    def turned(self, key: Any) -> Mapping[Index, Index]:
        """Return the exchange of indices that gives what a key names, or indices, their own ones."""
        heads = [] if isinstance(key, tuple) else list(members_in(key))
        given = key if isinstance(key, tuple) else heads[0].indices if heads else ()
        if len(heads) > 1 or not all(isinstance(item, Index) for item in given):
            raise _NotAlikeError
        swaps = dict(zip(given, self.own(given), strict=True))
        missing = [item for item in swaps if item not in swaps.values()]
        return {**dict(zip([item for item in swaps.values() if item not in swaps], missing, strict=True)), **swaps}

    # --- expressions
    def put(self, expr: Any, key: Any) -> Any:
        """Return an expression in the equation, law or start of what a key names."""
        return self.walk(at_indices(expr, self.turned(key)))

    def walk(self, expr: Any) -> Any:
        if isinstance(expr, Sum):
            return self.total(expr)
        if isinstance(expr, Index):
            raise _NotAlikeError
        if getattr(expr, "indices", ()):
            return self.scalar(expr, expr.indices)
        return expr.func(*map(self.walk, expr.args)) if expr.args else expr

    def scalar(self, item: Any, indices: tuple[Any, ...]) -> Any:
        """Return what stands for the family of a member that stands at its own indices."""
        own = self.own(item.axes)
        if indices != own:
            raise _NotAlikeError
        name, latex = generic_name(item.base, [(str(axis), axis.count) for axis in own]), item.own_latex or default_latex(item.base)
        if isinstance(item, Head):
            return type(item)(name, latex)
        if any(isinstance(entry, Basic) and free_indices(entry) for entry in item.extra):
            raise _NotAlikeError
        made = type(item)(name, latex, item.extra, **item._assumptions_orig)
        if isinstance(made, Parameter):
            self.tables[made] = S.One
        return made

    def total(self, node: Sum) -> MemberSum:
        """Return a sum as a contraction of families, each of which is read as a whole."""
        if node.has(Int, Resp, Derivative) or len({item for item in node.free_symbols if isinstance(item, Time)}) > 2:
            raise _NotAlikeError
        made, contraction = [], Contraction(node)
        for read in contraction.reads:
            inside = list(members_in(read))
            if isinstance(read, Value) and isinstance(read.head, Process):
                raise _NotAlikeError
            if isinstance(read, E) and len({item.indices for item in inside}) != 1:
                raise _NotAlikeError
            if isinstance(read, E) and any(isinstance(entry, Integer) for entry in inside[0].indices):
                raise _NotAlikeError
            made.append(read.xreplace({item: self.scalar(item, self.own(item.axes)) for item in inside}))
        return MemberSum(contraction, *made)
