"""Other units for a system: rescaled or shifted time, rescaled unknowns, and the leading order in a parameter.

All are symbolic and exact, except ``leading_order``, which takes limits inside expectations and integrals; where sympy cannot
take one, it says so. Names are kept: after ``rescale_time(system, c)`` the symbol t stands for c times the old time.
"""

from collections.abc import Callable, Mapping
from typing import Any

from sympy import Add, Basic, Dummy, Expr, S, expand, limit, nan, oo, sympify, zoo
from sympy.calculus.accumulationbounds import AccumBounds
from sympy.core.function import Derivative
from sympy.series.limits import Limit

from eqsolve.errors import ModelError, logger
from eqsolve.language.model import Equation, Table
from eqsolve.language.nodes import E, Int, Resp, White
from eqsolve.language.symbols import Head, Parameter, Random, Time, Value, as_scalar
from eqsolve.language.system import System
from eqsolve.passes.forms.expressions import rebuilt

# --- Limits of expressions of the language: inside expectations and integrals, term by term, factor
# by factor.
#
# Functions, random variables and times stand still. Where sympy finds no limit, or an infinite one,
# an error says which term.
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
        if isinstance(item, Parameter):
            return item if item == parameter else placeholder(item)
        if isinstance(item, E | Int | Resp):
            inner, rest = take_limit(item.args[0], parameter, to, where), item.args[1:]
            if inner == 0 or (isinstance(item, Resp) and not inner.has(Value)):
                return S.Zero
            if isinstance(item, E) and not inner.has(Value, Random, Resp):
                return replace(inner)
            if isinstance(item, Int):
                rest = [(item.variable, *(take_limit(end, parameter, to, where) for end in (item.low, item.high)))]
            return placeholder(item.func(inner, *rest))
        return rebuilt(item, replace)

    plain = replace(expr)
    if not plain.has(parameter):
        return plain.xreplace(dummies)
    large = Dummy(positive=True)
    try:
        result = _limit(plain.xreplace({parameter: large}), large, sympify(to))
    except (NotImplementedError, ValueError, RecursionError) as error:
        raise ModelError(f"{where}: sympy cannot take the limit {parameter} → {to} of `{expr}` ({error})") from None
    if result.has(*_ODD, large):
        shown = result.xreplace({**dummies, large: parameter})
        raise ModelError(
            f"{where}: `{expr}` has no finite limit as {parameter} → {to} (got `{shown}`); rescale "
            "time or unknowns first so that every term is of order one"
        )
    return result.xreplace(dummies)


def _limit(expr: Expr, large: Dummy, to: Expr) -> Expr:
    """Return a limit; of sums, products and powers from those of their parts where these are finite: their form is kept."""
    if not expr.has(large):
        return expr
    if expr.is_Add or expr.is_Mul or (expr.is_Pow and expr.exp.is_number):
        parts = [_limit(arg, large, to) for arg in expr.args]
        if not any(part.has(*_ODD, large) for part in parts) and not (expr.is_Pow and parts[0] == 0):
            return expr.func(*parts)
    return limit(expr, large, to)


def rescale_time(system: System, factor: Any, name: str | None = None) -> System:
    """Return the system in the time ``factor`` × t: derivatives gain the factor, integrals lose it, responses gain it."""
    return _in_units(system, name, scale=_constant(system, factor))


def shift_time(system: System, by: Any, name: str | None = None) -> System:
    """Return the system in the time t − ``by``: it starts that much earlier on the new clock."""
    return _in_units(system, name, shift=_constant(system, by))


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
    return _in_units(system, name, sizes=scales)


def _in_units(
    system: System, name: str | None, *, scale: Expr = S.One, shift: Expr = S.Zero, sizes: Mapping[Any, Expr] = {}
) -> System:
    """Return the system in the time (t − shift) × scale, and for x/size in place of unknowns x."""

    def moment(expr: Expr) -> Expr:
        if shift != 0 and len(expr.atoms(Time)) > 1:
            raise ModelError(f"shift_time: `{system.name}` reads a function at `{expr}`, and a convolution starts at 0")
        return expand(scale * (expr.xreplace({item: item / scale + shift for item in expr.atoms(Time)}) - shift))

    def size(key: Any) -> Expr:
        return sizes.get(getattr(key, "head", key), S.One)

    def rewrite(expr: Any) -> Any:
        match expr:
            case Value():
                return size(expr) * expr.head(*map(moment, expr.moments))
            case Derivative():
                return scale * size(expr.expr) * expr
            case Resp():
                factor, rest = _split(rewrite(expr.output))
                return scale * factor * Resp(rest, rewrite(expr.noise))
            case Int():
                factor, rest = _split(rewrite(expr.integrand))
                return factor * Int(rest, (expr.variable, moment(expr.low), moment(expr.high))) / scale
            case E():
                factor, rest = _split(rewrite(expr.argument))
                return factor * (rest if rest == 1 else E(rest))
            case Time():
                return expr / scale + shift
        return rebuilt(expr, rewrite)

    def law(key: Any) -> Any:
        moved = rebuilt(system.laws[key], rewrite)  # δ(t/c) = c δ(t)
        return moved.func(scale * moved.strength, *moved.args[1:]) if isinstance(moved, White) else moved

    def start(key: Any, value: Any) -> Any:
        past = not isinstance(key, Value) and isinstance(value, Expr) and value.has(Time)  # of a function
        value = rewrite(value) if past else value
        return value / size(key) if isinstance(value, Expr) else value

    times = [equation.time for equation in system.equations if isinstance(equation.time, Time)]
    clock = system.clock if system.clock is not None else times[0] if times else Time("t")
    return system._with(
        name=name or f"{system.name}_rescaled",
        equations=tuple(_rewritten(equation, rewrite) for equation in system.equations),
        laws=Table({key: law(key) for key in system.laws}),
        init=Table(
            (_split(rewrite(key))[1] if isinstance(key, Value) else key, start(key, value))
            for key, value in system.init.items()
        ),
        observables=Table({key: rewrite(value) for key, value in system.observables.items()}),
        substitute=Table({key: rewrite(value) / size(key) for key, value in system.substitute.items()}),
        exact=Table(),
        flow=None,
        start=moment(system.start),
        step=None if system.step is None else scale * system.step,
        clock=system.clock if sizes else scale * (clock - shift),
    )


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
    observables = {}
    for key, expr in system.observables.items():
        try:
            observables[key] = whole(expr, f"observable `{key}`")
        except ModelError as error:
            logger.info("left out: %s", error)
    while gone := [eq for eq in equations if eq.rhs == 0 and not eq.is_differential]:
        heads = {eq.head for eq in gone}
        equations = [Equation(eq.lhs, _without(eq.rhs, heads), eq.location, {}) for eq in equations if eq.head not in heads]
        laws = {key: law.func(*(_without(arg, heads) for arg in law.args)) for key, law in laws.items()}
        observables = {key: _without(expr, heads) for key, expr in observables.items()}
    defined = {eq.head for eq in equations}
    init = {
        key: whole(value, f"start of `{key}`") for key, value in system.init.items() if getattr(key, "head", key) in defined
    }
    defaults = {key: value for key, value in system.defaults.items() if key != item}
    return system._with(
        name=name or f"{system.name}_limit", equations=tuple(equations), laws=Table(laws),
        init=Table(init), defaults=Table(defaults),
        observables=Table(observables), start=whole(system.start, "the start"),
        substitute=Table(), exact=Table(), flow=None,
        conditions=tuple(each for each in system.conditions if not each.has(item)),
    )  # fmt: skip


def _constant(system: System, value: Any) -> Expr:
    """Return a factor, with names bound to the model's own parameters."""
    expr = as_scalar(value, "a change of scale")
    expr = expr.xreplace({s: system.names[s.name] for s in expr.free_symbols if getattr(s, "name", None) in system.names})
    odd = [s for s in expr.free_symbols if not isinstance(s, Parameter)]
    if odd or expr.is_zero:
        raise ModelError(f"expected an expression of parameters of `{system.name}` that is not zero, got `{value}`")
    return expr


def _split(expr: Expr) -> tuple[Expr, Expr]:
    """Return the factors made of parameters alone, and the rest."""
    outside, inside = expr.as_independent(Value, E, Int, Resp, Random, Time, as_Add=False)
    return outside, inside


def _rewritten(equation: Equation, rewrite: Callable[[Any], Any]) -> Equation:
    """Return an equation in other units, its terms in the order in which they are written where that is kept."""
    moved = equation.changed(rewrite)
    factor, left = _split(moved.lhs)
    right = Add(*(term / factor for term in Add.make_args(moved.rhs)))
    order = dict(moved.order)
    if equation.rhs.is_Add and equation.rhs in equation.order:
        order[right] = tuple(rewrite(part) / factor for part in equation.order[equation.rhs])
    return Equation(left, right, equation.location, {it: parts for it, parts in order.items() if it.func(*parts) == it})


def _without(expr: Any, heads: set[Any]) -> Any:
    """Return an expression in which some unknowns are zero."""
    if isinstance(expr, Value):
        return S.Zero if expr.head in heads else expr
    if isinstance(expr, Int):
        inner = _without(expr.integrand, heads)
        return S.Zero if inner == 0 else Int(inner, expr.args[1])
    return rebuilt(expr, lambda arg: _without(arg, heads))
