"""What can be wrong with indices: missing sums, sizes that do not fit, tables of other shapes."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import sympy
from sympy import Basic

from eqsolve.errors import ModelError, ParameterError
from eqsolve.language.indices import Index, Sum, counts, free_indices, ordered_indices
from eqsolve.language.model import Model, Table, leaves
from eqsolve.language.symbols import Unknown
from eqsolve.numerics.arrays import GENERIC
from eqsolve.passes.rewrite.indices import (
    MOST_MEMBERS,
    all_indices,
    families_of,
    family_axes,
    is_pair,
    joint_normal,
    sized,
    table_axes,
    wrong_shape,
)


def index_problems(model: Model) -> list[str]:
    """Return what is wrong with the indices of a model, in words."""
    problems: list[str] = []
    for equation in model.equations:
        lhs, rhs, label = equation.lhs, equation.rhs, equation.label
        left = free_indices(lhs)
        named = model.kind == "System" or isinstance(lhs, Unknown) or left
        lone = ", ".join(sorted(map(str, free_indices(rhs) - left))) if named and not rhs.has(sympy.Sum) else ""
        target: Any = equation.head or lhs
        entries, paths = getattr(target, "indices", ()), getattr(model, "processes", ())
        wrong = {
            "beside processes a correlation with two indices has no differential equation so far; "
            "define it by its mean, E(x[k](t)*x[l](tp))": is_pair(equation) and paths,
            "the two indices of a correlation run over the same members, so that C[k, l](t, tp) = "
            f"C[l, k](tp, t); those of `{target}` have different sizes": is_pair(equation)
            and not paths
            and len({it.size for it in target.axes}) > 1,
            f"the index `{lone}` stands on the right and not on the left `{lhs}`; sum over it, "
            f"Sum(..., {lone}), or write it on the left": lone,
            f"the left-hand side `{lhs}` carries an index twice; write two indices": len({*entries}) < len(entries)
            and any(entry.has(Index) for entry in entries),
            f"the left-hand side `{lhs}` has a shifted index; write `{getattr(target, 'base', '')}[k]` there": any(
                not entry.is_Atom for entry in entries
            ),
        }
        texts = [*(text for text, holds in wrong.items() if holds), *_sum_problems(lhs, left), *_sum_problems(rhs, left)]
        problems += [f"{label}: {text}" for text in texts]
    for part in (item for item in model.content[2:] if item not in ("tables", "defaults")):
        given = getattr(model, part)
        for key, value in given.items() if isinstance(given, Table) else [("", item) for item in leaves(given)]:
            label, own = f"{part}= of {model.label}{f', `{key}`' if key != '' else ''}", frozenset(ordered_indices(key))
            problems += [f"{label}: {problem}" for item in leaves((value,)) for problem in _sum_problems(item, own)]
            if part in ("init", "state", "drift") and (lone := ", ".join(sorted(map(str, {*ordered_indices(value)} - own)))):
                problems.append(f"{label}: the index `{lone}` stands in its value alone; sum over it, Sum(..., {lone})")
    known = {item.name for item in model.parameters}
    for sources in model.tables.values():
        names = ", ".join(sources.names)
        problems += [
            f"tables= of {model.label}: the function for {names} takes `{name}`, which is no parameter of the model; declare "
            "it and give it a default, defaults={...}"
            for name in sources.arguments
            if name not in known
        ]
        if table_axes(model).keys().isdisjoint(sources.names):
            problems.append(f"tables= of {model.label} gives {names}, which no equation uses")
    for item in model.randoms:
        try:
            joint_normal(item)
        except ModelError as error:
            problems.append(f"{model.label}: {error}")
    return list(dict.fromkeys((*problems, *_table_problems(model))))


def _table_problems(model: Model) -> Iterator[str]:
    """Check tables against their indices: arrays, and what functions give at the defaults."""
    sizes = {item.size.name for item in all_indices(model) if not item.size.is_Integer}
    other = {item.name for item in model.parameters if item.is_integer} - sizes  # sizes that are set
    try:
        model = sized(model, {})
    except ParameterError:
        return
    axes = table_axes(model)
    given = {item.name: model.given(item) for item in model.parameters}
    for sources in model.tables.values():
        shapes = {name: counts(axes[name]) for name in sources.names if name in axes}
        many = sum(np.prod([float(count) for count in shape]) for shape in shapes.values())
        if any(given.get(name) is None for name in sources.arguments):
            continue
        if callable(sources.source) and (many > MOST_MEMBERS or other & set(sources.arguments)):  # slow, or not known
            continue
        for along, maker in {"": sources, **sources.slopes}.items():
            of = f"the derivative along `{along}` of " if along else ""
            try:
                arrays = maker.arrays({name: float(given[name]) for name in maker.arguments})
            except Exception as error:  # the user's function
                text = f"what makes {of}{', '.join(sources.names)} fails at the defaults"
                yield f"tables= of {model.label}: {text}, {type(error).__name__}: {error}"
                continue
            for name in shapes:
                if wrong := wrong_shape(name, axes[name], arrays[name]):
                    yield f"tables= of {model.label}: {of}{wrong}"


def by_family(model: Model, text: str) -> str:
    """Return a message about members, `x_0`, with the name of their family, `x[k]`."""
    for base, axes in {**family_axes(model), **{item.base: item.axes for item in families_of(model)}}.items():
        over, member = ", ".join(map(str, axes)), rf"\b{base}(_\d+|{GENERIC.pattern}){{{len(axes)}}}"
        text = re.sub(
            rf'{member} = (?P<kind>\w+)\("{member}"\)', rf'{base} = \g<kind>("{base}", {over})', text
        )  # how it is declared
        text = re.sub(rf"{member}\b", f"{base}[{over}]", text)
    return text


def _sum_problems(expr: Basic, bound: frozenset[Index]) -> Iterator[str]:
    if isinstance(expr, sympy.Sum):
        yield f"`{expr}` is sympy's own Sum; write eqsolve's, `from eqsolve import Sum`: Sum(expression, p, q)"
    if isinstance(expr, Sum):
        for item in expr.over:
            if item in bound:
                yield f"`{expr}` sums over `{item}`, which has a meaning outside the sum; use another index there"
        bound = bound | set(expr.over)
    for arg in expr.args:
        yield from _sum_problems(arg, bound)
