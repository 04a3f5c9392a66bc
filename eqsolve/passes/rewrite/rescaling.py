"""Other units for a system: rescaled or shifted time, rescaled unknowns, and the leading order in a parameter.

All are symbolic and exact, except ``leading_order``, which takes limits inside expectations and integrals; where sympy cannot
take one, it says so. Names are kept: after ``rescale_time(system, c)`` the symbol t stands for c times the old time.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from sympy import Add, Basic, Dummy, Expr, Mul, Pow, S, expand, limit, nan, oo, sympify, zoo
from sympy.calculus.accumulationbounds import AccumBounds
from sympy.core.function import Derivative
from sympy.series.limits import Limit

from eqsolve.errors import ModelError
from eqsolve.language.equations import Equation
from eqsolve.language.nodes import E, Int, Resp, White
from eqsolve.language.source import Order
from eqsolve.language.symbols import Head, Named, Parameter, Random, Time, Value, as_scalar
from eqsolve.language.system import System

# --- Limits of expressions of the language: inside expectations and integrals, term by term, factor by factor.
#
# Functions, random variables and times stand still. Where sympy finds no limit, or an infinite one, an error says which term.
_ODD = (oo, -oo, zoo, nan, Limit, AccumBounds)


def take_limit(expr: Any, parameter: Parameter, to: Any, where: str) -> Any:
    """Return the limit of an expression as ``parameter`` → ``to``; ``where`` names it in an error."""
    dummies: dict[Basic, Basic] = {}
    names: dict[Basic, Basic] = {}

    def placeholder(node: Basic) -> Basic:
        if node not in names:
            names[node] = Dummy(real=True, positive=True if isinstance(node, Parameter | Time) else None)
            dummies[names[node]] = node
        return names[node]

    def replace(item: Any) -> Any:
        if isinstance(item, Value | Random | Time | Head):
            return placeholder(item)
        if isinstance(item, Resp):
            inner = take_limit(item.output, parameter, to, where)
            return placeholder(Resp(inner, item.noise)) if inner.has(Value) else S.Zero
        if isinstance(item, Parameter):
            return item if item == parameter else placeholder(item)
        if isinstance(item, E):
            inner = take_limit(item.argument, parameter, to, where)
            return S.Zero if inner == 0 else (placeholder(E(inner)) if inner.has(Value, Random, Resp) else replace(inner))
        if isinstance(item, Int):
            inner = take_limit(item.integrand, parameter, to, where)
            low, high = (take_limit(end, parameter, to, where) for end in (item.low, item.high))
            return S.Zero if inner == 0 else placeholder(Int(inner, (item.variable, low, high)))
        return item if not item.args else item.func(*(replace(arg) for arg in item.args))

    plain = replace(expr)
    if not plain.has(parameter):
        return plain.xreplace(dummies)
    large = Dummy(positive=True)
    try:
        found = _limit(plain.xreplace({parameter: large}), large, sympify(to))
    except (NotImplementedError, ValueError, RecursionError) as error:
        raise ModelError(f"{where}: sympy cannot take the limit {parameter} → {to} of `{expr}` ({error})") from None
    if found.has(*_ODD, large):
        shown = found.xreplace({**dummies, large: parameter})
        raise ModelError(
            f"{where}: `{expr}` has no finite limit as {parameter} → {to} (got `{shown}`); rescale time or unknowns first "
            "so that every term is of order one"
        )
    return found.xreplace(dummies)


def _limit(expr: Expr, large: Dummy, to: Expr) -> Expr:
    """Return a limit; of a sum or a product from those of its parts where these are finite, so that its form is kept."""
    if not expr.has(large):
        return expr
    if expr.is_Add:
        parts = _each(expr.args, large, to)
        return Add(*parts) if parts is not None else limit(expr, large, to)
    powers = _pull_out(expr, large, to)
    outside = [factor for factor in Mul.make_args(powers) if not factor.has(large)]
    inside = Mul(*(factor for factor in Mul.make_args(powers) if factor.has(large)))
    if inside == 1:
        return powers
    if inside.is_Mul:
        parts = _each(inside.args, large, to)
        if parts is not None:
            return Mul(*outside, *parts)
    elif inside.is_Pow and inside.exp.is_number and inside.base.is_Add:
        parts = _each((inside.base,), large, to)
        if parts is not None and (parts[0] != 0 or inside.exp.is_positive):
            return Mul(*outside, parts[0] ** inside.exp)
    return Mul(*outside) * limit(inside, large, to)


def _each(args: tuple[Expr, ...], large: Dummy, to: Expr) -> list[Expr] | None:
    """Return the limits of all parts, or None unless all are finite."""
    parts = [_limit(arg, large, to) for arg in args]
    return None if any(part.has(*_ODD, large) for part in parts) else parts


def _pull_out(expr: Expr, large: Dummy, to: Expr) -> Expr:
    """Return roots of sums with the largest power in front: √(a² w² + a⁴) is a² √(w²/a² + 1) for a large a."""
    if not expr.has(large) or not expr.args:
        return expr
    made = expr.func(*(_pull_out(arg, large, to) for arg in expr.args))
    if not (isinstance(made, Pow) and made.base.is_Add and made.exp.is_number):
        return made
    orders = [term.as_coeff_exponent(large)[1] for term in made.base.args]
    if not all(order.is_number and order.is_real for order in orders) or to not in (S.Zero, oo):
        return made
    power = min(orders) if to == 0 else max(orders)
    rest = Add(*((term / large**power).expand() for term in made.base.args))
    return large ** (power * made.exp) * rest**made.exp


# --- Other units for a system: rescaled or shifted time, rescaled unknowns, and the leading order in a parameter.
logger = logging.getLogger("eqsolve")

Rewrite = Callable[[Any], Any]


def rescale_time(system: System, factor: Any, name: str | None = None) -> System:
    """Return the system in the time ``factor`` × t: derivatives gain the factor, integrals lose it, responses gain it."""
    scale = _constant(system, factor)

    def moment(expr: Expr) -> Expr:
        return expand(scale * expr.xreplace({item: item / scale for item in expr.atoms(Time)}))

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
    clock = scale * _clock(system)
    made = _rewritten(system, rewrite, name, start=scale * system.start, step=step, clock=clock)
    laws = {  # δ(t/c) = c δ(t)
        key: law.func(scale * law.strength, *law.args[1:]) if isinstance(law, White) else law for key, law in made.laws.items()
    }
    return made._with(laws=type(made.laws)(laws))


def shift_time(system: System, by: Any, name: str | None = None) -> System:
    """Return the system in the time t − ``by``: it starts that much earlier on the new clock."""
    shift = _constant(system, by)

    def moment(expr: Expr) -> Expr:
        if len(expr.atoms(Time)) > 1:
            raise ModelError(f"shift_time: `{system.name}` reads a function at `{expr}`, and a convolution starts at 0")
        return expr.xreplace({item: item + shift for item in expr.atoms(Time)}) - shift

    def rewrite(expr: Any) -> Any:
        if isinstance(expr, Value):
            return expr.head(*(moment(item) for item in expr.moments))
        if isinstance(expr, Derivative):
            return expr
        if isinstance(expr, Int):
            return _integral(rewrite(expr.integrand), expr.variable, moment(expr.low), moment(expr.high))
        return expr + shift if isinstance(expr, Time) else _inside(expr, rewrite)

    return _rewritten(system, rewrite, name, start=system.start - shift, clock=_clock(system) - shift)


def _clock(system: System) -> Expr:
    """Return the time of a system in terms of the one it was first written in."""
    moments = [equation.time for equation in system.equations if isinstance(equation.time, Time)]
    return system.clock if system.clock is not None else moments[0] if moments else Time("t")


def rescale_unknown(system: System, factors: Mapping[Any, Any], name: str | None = None) -> System:
    """Return the system for x/factor in place of each unknown x named: ``{w: alpha**2}`` makes w stand for w/α²."""
    if not isinstance(factors, Mapping):
        raise ModelError(f"rescale_unknown takes factors by unknown, such as {{w: alpha**2}}; got {factors!r}")
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
        key: value / scales.get(_head(key), S.One) if isinstance(value, Expr) else value for key, value in system.init.items()
    }
    substitute = {key: rewrite(value) / scales.get(key, S.One) for key, value in system.substitute.items()}
    return made._with(init=type(system.init)(init), substitute=type(system.substitute)(substitute))


def leading_order(system: System, parameter: Any, to: Any, name: str | None = None) -> System:
    """Return the equations in the limit ``parameter`` → ``to``, all unknowns of order one.

    Unknowns that vanish are taken out of the others. Limits are taken inside expectations and integrals. Observables that have
    no limit are left out, which is logged.
    """
    item = system.symbols(parameter) if isinstance(parameter, str) else parameter
    if not isinstance(item, Parameter):
        raise ModelError(f"leading_order takes a limit in a parameter of `{system.name}`, got `{item}`")
    to = as_scalar(to, "leading_order")
    for random in system.randoms:
        if random.law is not None and random.law.has(item):
            raise ModelError(f"the law of `{random}` depends on `{item}`: {random.law}; no limit is taken of a law")

    def whole(expr: Any, where: str) -> Any:
        return take_limit(expr, item, to, where) if isinstance(expr, Expr) else expr

    equations = [Equation(eq.lhs, whole(eq.rhs, eq.label), eq.location, {}) for eq in system.equations]
    laws = {key: law.func(*(whole(arg, f"law of `{key}`") for arg in law.args)) for key, law in system.laws.items()}
    observables = _observables(system, whole)
    while gone := [eq for eq in equations if eq.rhs == 0 and not eq.is_differential]:
        heads = {eq.head for eq in gone}
        equations = [Equation(eq.lhs, _without(eq.rhs, heads), eq.location, {}) for eq in equations if eq.head not in heads]
        laws = {key: law.func(*(_without(arg, heads) for arg in law.args)) for key, law in laws.items()}
        observables = {key: _without(expr, heads) for key, expr in observables.items()}
    defined = {eq.head for eq in equations}
    init = {key: whole(value, f"start of `{key}`") for key, value in system.init.items() if _head(key) in defined}
    defaults = {key: value for key, value in system.defaults.items() if key != item}
    return system._with(
        name=name or f"{system.name}_limit", equations=tuple(equations), laws=type(system.laws)(laws),
        init=type(system.init)(init), defaults=type(system.defaults)(defaults),
        observables=type(system.observables)(observables), start=whole(system.start, "the start"),
        substitute=type(system.substitute)(), exact=type(system.exact)(), flow=None,
        conditions=tuple(each for each in system.conditions if not each.has(item)),
    )  # fmt: skip


def _observables(system: System, whole: Callable[[Any, str], Any]) -> dict[str, Expr]:
    kept = {}
    for key, expr in system.observables.items():
        try:
            kept[key] = whole(expr, f"observable `{key}`")
        except ModelError as error:
            logger.info("left out: %s", error)
    return kept


def _head(key: Any) -> Any:
    return key.head if isinstance(key, Value) else key


def _constant(system: System, value: Any) -> Expr:
    """Return a factor, with names bound to the model's own parameters."""
    expr = as_scalar(value, "a change of scale")
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


def _written(order: Order) -> Order:
    """Return the orders that still give what they order."""
    return {whole: parts for whole, parts in order.items() if whole.func(*parts) == whole}


def _rewritten(system: System, rewrite: Rewrite, name: str | None, **more: Any) -> System:
    equations = []
    for eq in system.equations:
        factor, left = _split(rewrite(eq.lhs))
        right = Add(*(term / factor for term in Add.make_args(rewrite(eq.rhs))))
        order = {rewrite(whole): tuple(map(rewrite, parts)) for whole, parts in eq.order.items()}
        if eq.rhs.is_Add and eq.rhs in eq.order:
            order[right] = tuple(rewrite(part) / factor for part in eq.order[eq.rhs])
        equations.append(Equation(left, right, eq.location, _written(order)))
    init = {
        (_split(rewrite(key))[1] if isinstance(key, Value) else key): rewrite(value) if _is_past(key, value) else value
        for key, value in system.init.items()
    }
    changes = {
        "name": name or f"{system.name}_rescaled",
        "equations": tuple(equations),
        "laws": type(system.laws)({key: _inside(law, rewrite) for key, law in system.laws.items()}),
        "init": type(system.init)(init),
        "observables": type(system.observables)({key: rewrite(value) for key, value in system.observables.items()}),
        "substitute": type(system.substitute)({key: rewrite(value) for key, value in system.substitute.items()}),
        "exact": type(system.exact)(),
        "flow": None,
        **more,
    }
    return system._with(**changes)


def _is_past(key: Any, value: Any) -> bool:
    """Whether a start is the past of a function, an expression in time."""
    return not isinstance(key, Value) and isinstance(value, Expr) and value.has(Time)


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
