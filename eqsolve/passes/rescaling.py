"""Other units for a system: rescaled or shifted time, rescaled unknowns, and the leading order in a parameter.

All are symbolic and exact, except ``leading_order``, which takes limits inside expectations and integrals; where sympy cannot
take one, it says so. Names are kept: after ``rescale_time(system, c)`` the symbol t stands for c times the old time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sympy import Basic, Dummy, Expr, Mul, S, limit, nan, oo, sympify, zoo
from sympy.calculus.accumulationbounds import AccumBounds
from sympy.core.function import Derivative
from sympy.series.limits import Limit

from eqsolve.errors import ModelError
from eqsolve.language.equations import Equation
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Head, Named, Parameter, Random, Time, Value
from eqsolve.language.system import System

__all__ = ["leading_order", "rescale_time", "rescale_unknown", "shift_time"]

Rewrite = Callable[[Any], Any]


def rescale_time(system: System, factor: Any, name: str | None = None) -> System:
    """Return the system in the time ``factor`` × t: derivatives gain the factor, integrals lose it, responses gain it."""
    scale = _constant(system, factor)

    def moment(expr: Expr) -> Expr:
        return scale * expr.xreplace({item: item / scale for item in expr.atoms(Time)})

    def rewrite(expr: Any) -> Any:
        if isinstance(expr, Value):
            return expr.head(*(moment(item) for item in expr.moments))
        if isinstance(expr, Derivative):
            return scale * expr
        if isinstance(expr, Resp):
            return scale * _response(rewrite(expr.output), rewrite(expr.noise))
        if isinstance(expr, Int):
            return _integral(rewrite(expr.integrand), expr.variable, moment(expr.low), moment(expr.high)) / scale
        return expr / scale if isinstance(expr, Time) else _inside(expr, rewrite)

    step = None if system.step is None else scale * system.step
    return _rewritten(system, rewrite, name, start=scale * system.start, step=step)


def shift_time(system: System, by: Any, name: str | None = None) -> System:
    """Return the system in the time t − ``by``: it starts that much earlier on the new clock."""
    shift = _constant(system, by)

    def moment(expr: Expr) -> Expr:
        return expr.xreplace({item: item + shift for item in expr.atoms(Time)}) - shift

    def rewrite(expr: Any) -> Any:
        if isinstance(expr, Value):
            return expr.head(*(moment(item) for item in expr.moments))
        if isinstance(expr, Derivative):
            return expr
        if isinstance(expr, Int):
            return _integral(rewrite(expr.integrand), expr.variable, moment(expr.low), moment(expr.high))
        return expr + shift if isinstance(expr, Time) else _inside(expr, rewrite)

    return _rewritten(system, rewrite, name, start=system.start - shift)


def rescale_unknown(system: System, factors: Mapping[Any, Any], name: str | None = None) -> System:
    """Return the system for x/factor in place of each unknown x named: ``{w: alpha**2}`` makes w stand for w/α²."""
    scales = {head: _constant(system, value) for head, value in factors.items()}
    for head in scales:
        if head not in system.unknowns:
            raise ModelError(f"`{head}` is not an unknown of `{system.name}` (it has: {', '.join(map(str, system.unknowns))})")
        if head in system.noises:
            raise ModelError(f"`{head}` has the law it is given; rescale the unknowns it drives instead")

    def rewrite(expr: Any) -> Any:
        if isinstance(expr, Value):
            return scales.get(expr.head, S.One) * expr
        if isinstance(expr, Derivative):
            return scales.get(expr.expr.head, S.One) * expr
        if isinstance(expr, Resp):
            return _response(rewrite(expr.output), expr.noise)
        if isinstance(expr, Int):
            return _integral(rewrite(expr.integrand), expr.variable, expr.low, expr.high)
        return _inside(expr, rewrite)

    made = _rewritten(system, rewrite, name)
    init = {
        key: value / scales.get(_head(key), S.One) if isinstance(value, Expr) else value
        for key, value in system.init.items()
    }
    substitute = {key: rewrite(value) / scales.get(key, S.One) for key, value in system.substitute.items()}
    return made._with(init=type(system.init)(init), substitute=type(system.substitute)(substitute))


def leading_order(system: System, parameter: Any, to: Any, name: str | None = None) -> System:
    """Return the equations in the limit ``parameter`` → ``to``, all unknowns of order one.

    Unknowns that vanish are taken out of the others. Limits are taken inside expectations and integrals.
    """
    item = system.names[parameter] if isinstance(parameter, str) else parameter
    equations = [
        Equation(eq.lhs, _limit(eq.rhs, item, to, eq.label), eq.location, {}) for eq in system.equations
    ]
    laws = {key: law.func(*(_limit(arg, item, to, f"law of `{key}`") for arg in law.args)) for key, law in system.laws.items()}
    while gone := [eq for eq in equations if eq.rhs == 0 and not eq.is_differential]:
        heads = {eq.head for eq in gone}
        equations = [Equation(eq.lhs, _without(eq.rhs, heads), eq.location, {}) for eq in equations if eq.head not in heads]
        laws = {key: law.func(*(_without(arg, heads) for arg in law.args)) for key, law in laws.items()}
    defined = {eq.head for eq in equations}
    init = {key: value for key, value in system.init.items() if _head(key) in defined}
    defaults = {key: value for key, value in system.defaults.items() if key != item}
    return system._with(
        name=name or f"{system.name}_limit", equations=tuple(equations), laws=type(system.laws)(laws),
        init=type(system.init)(init), defaults=type(system.defaults)(defaults), observables=type(system.observables)(),
        substitute=type(system.substitute)(), exact=type(system.exact)(), conditions=(), flow=None,
    )  # fmt: skip


def _head(key: Any) -> Any:
    return key.head if isinstance(key, Value) else key


def _constant(system: System, value: Any) -> Expr:
    """Return a factor, with names bound to the model's own parameters."""
    expr = sympify(value)
    expr = expr.xreplace({s: system.names[s.name] for s in expr.free_symbols if getattr(s, "name", None) in system.names})
    odd = [s for s in expr.free_symbols if not isinstance(s, Parameter)]
    if odd or expr.is_zero:
        raise ModelError(f"expected an expression of parameters of `{system.name}` that is not zero, got `{value}`")
    return expr


def _inside(expr: Any, rewrite: Rewrite) -> Any:
    if not isinstance(expr, Basic) or not expr.args or isinstance(expr, Named):
        return expr
    new = [rewrite(arg) for arg in expr.args]
    return _mean(new[0]) if isinstance(expr, E) else expr.func(*new)


def _split(expr: Expr) -> tuple[Expr, Expr]:
    """Return the factors made of parameters alone, and the rest."""
    factors = Mul.make_args(expr)
    outside = [f for f in factors if not f.has(Value, E, Int, Resp) and all(isinstance(s, Parameter) for s in f.free_symbols)]
    return Mul(*outside), Mul(*(f for f in factors if f not in outside))


def _mean(argument: Expr) -> Expr:
    factor, rest = _split(argument)
    return factor * (rest if rest == 1 else E(rest))


def _response(output: Expr, noise: Expr) -> Expr:
    factor, rest = _split(output)
    return factor * Resp(rest, noise)


def _integral(integrand: Expr, variable: Time, low: Expr, high: Expr) -> Expr:
    factor, rest = _split(integrand)
    return factor * Int(rest, (variable, low, high))


def _rewritten(system: System, rewrite: Rewrite, name: str | None, **more: Any) -> System:
    equations = []
    for eq in system.equations:
        left, right = rewrite(eq.lhs), rewrite(eq.rhs)
        factor, bare = _split(left)
        equations.append(Equation(bare, right / factor if not right.is_Add else right.func(*(a / factor for a in right.args)),
                                  eq.location, {}))  # fmt: skip
    init = {(_split(rewrite(key))[1] if isinstance(key, Value) else key): value for key, value in system.init.items()}
    changes = {
        "name": name or f"{system.name}_rescaled", "equations": tuple(equations),
        "laws": type(system.laws)({key: _inside(law, rewrite) for key, law in system.laws.items()}),
        "init": type(system.init)(init),
        "observables": type(system.observables)({key: rewrite(value) for key, value in system.observables.items()}),
        "substitute": type(system.substitute)({key: rewrite(value) for key, value in system.substitute.items()}),
        "exact": type(system.exact)(), "flow": None, **more,
    }  # fmt: skip
    return system._with(**changes)


def _limit(expr: Any, parameter: Parameter, to: Any, where: str) -> Any:
    """Return the limit of an expression whose nodes are limits themselves."""
    dummies: dict[Basic, Basic] = {}

    def stand_in(node: Basic) -> Basic:
        positive = True if isinstance(node, Parameter | Time) else None
        found = next((d for d, n in dummies.items() if n == node), None)
        if found is None:
            found = Dummy(real=True, positive=positive)
            dummies[found] = node
        return found

    def replace(item: Any) -> Any:
        if isinstance(item, Value | Random | Time | Head):
            return stand_in(item)
        if isinstance(item, Parameter):
            return item if item == parameter else stand_in(item)
        if isinstance(item, E):
            inner = _limit(item.argument, parameter, to, where)
            return S.Zero if inner == 0 else (inner if not _random(inner) else stand_in(E(inner)))
        if isinstance(item, Int):
            inner = _limit(item.integrand, parameter, to, where)
            low, high = (_limit(end, parameter, to, where) for end in (item.low, item.high))
            return S.Zero if inner == 0 else stand_in(Int(inner, (item.variable, low, high)))
        if isinstance(item, Resp):
            return stand_in(item)
        return item if not item.args else item.func(*(replace(arg) for arg in item.args))

    plain = replace(expr)
    if plain.has(parameter):
        large = Dummy(positive=True)
        try:
            found = limit(plain.subs(parameter, large), large, to)
        except (NotImplementedError, ValueError, RecursionError) as error:
            raise ModelError(f"{where}: sympy cannot take the limit {parameter} → {to} of `{expr}` ({error})") from None
        if found.has(oo, -oo, zoo, nan, Limit, AccumBounds, large):
            raise ModelError(
                f"{where}: `{expr}` has no finite limit as {parameter} → {to} (got `{found.xreplace(dummies)}`); rescale time "
                "or unknowns first so that every term is of order one"
            )
        plain = found
    return plain.xreplace(dummies)


def _random(expr: Any) -> bool:
    return bool(expr.has(Value, Random, Resp))


def _without(expr: Any, heads: set[Any]) -> Any:
    """Return an expression in which some unknowns are zero."""
    if isinstance(expr, Value):
        return S.Zero if expr.head in heads else expr
    if isinstance(expr, Int):
        inner = _without(expr.integrand, heads)
        return S.Zero if inner == 0 else Int(inner, expr.args[1])
    if not expr.args:
        return expr
    return expr.func(*(_without(arg, heads) for arg in expr.args))
