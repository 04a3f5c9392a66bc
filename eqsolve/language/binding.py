"""From what the user sets to exact numbers: reading values, checking domains and conditions, binding laws."""

from __future__ import annotations

import ast
import math
import operator
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Basic, Expr, Float, Integer, Rational, S, lambdify, sympify
from sympy import exp as sym_exp
from sympy import log as sym_log
from sympy import sqrt as sym_sqrt

from eqsolve.errors import EqsolveError, ParameterError, clip, did_you_mean, quote
from eqsolve.language.laws import Empirical, Law, law_names
from eqsolve.language.loading import find
from eqsolve.language.model import Model
from eqsolve.language.nodes import E
from eqsolve.language.printing import decimal_text
from eqsolve.language.source import user_location
from eqsolve.language.symbols import Parameter, Random, meanings
from eqsolve.numerics.laws import expectation

_OTHER_NAMES = {"gauss": "Normal", "gaussian": "Normal", "cauchy": "StudentT(1)", "lorentzian": "StudentT(1)"}
_FUNCTIONS = {"sqrt": sym_sqrt, "exp": sym_exp, "log": sym_log}
_CONSTANTS = {"pi": S.Pi, "inf": S.Infinity, "oo": S.Infinity}
_ARITHMETIC: dict[type[ast.operator], Callable[[Expr, Expr], Expr]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_LONGEST = 2000  # characters of a value: messages quote what they hold
_OPTIONS = ("t_max", "rtol", "atol", "at", "at2", "step", "order", "seed", "solver")


@dataclass(frozen=True)
class Binding:
    """A model with a value for every parameter and a law for every random constant."""

    model: Model
    values: Mapping[Parameter, Expr]
    laws: Mapping[Random, Law]

    def apply(self, expr: Any) -> Any:
        """Return an expression, law or covariance with the parameters replaced and branches on them resolved."""
        return expr.subs(dict(self.values)) if isinstance(expr, Basic) else expr

    def number(self, expr: Any) -> float:
        """Return the value of an expression in the parameters, expectations over random constants included."""
        value = self.apply(sympify(expr))
        for mean in value.atoms(E):
            own = {item: self.apply(item.law) for item in mean.atoms(Random) if item.law is not None}
            known = moment(self.apply(mean.argument), {**own, **self.laws}, 200)
            value = value.xreplace({mean: Float(known, 17)})
        return float(value)

    def settings(self) -> dict[str, float | str]:
        """Return the values by name, as results and files record them."""
        numbers: dict[str, float | str] = {item.name: float(value) for item, value in self.values.items()}
        return {**numbers, **{item.name: decimal_text(law) for item, law in self.laws.items()}}


def moment(expr: Expr, laws: Mapping[Random, Law], order: int) -> float:
    """Return E[expr] over independent random constants, by the product of their rules."""
    variables = sorted((item for item in expr.free_symbols if isinstance(item, Random)), key=lambda item: item.name)
    if not variables:
        return float(expr)
    return expectation(lambdify(variables, expr, "numpy"), [laws[item].numeric() for item in variables], order)


def bind(model: Model, settings: Mapping[str, Any]) -> Binding:
    """Return the model with every parameter and law fixed; errors name the parameter, its domain and the nearest
    name."""
    refuse_unknown(model, settings, model.settable)
    values = {item: parameter_value(model, item, settings.get(item.name)) for item in model.parameters}
    _check_conditions(model, values)
    given = ((item, _law(model, item, settings.get(item.name), values)) for item in model.randoms)
    laws = {item: law for item, law in given if law is not None}
    for item, law in list(laws.items()):  # moments of constants in other laws, such as Normal(0, E(w_star**2)), are numbers
        if means := law.atoms(E):
            laws[item] = law.xreplace({mean: Float(moment(mean.argument, laws, 200), 17) for mean in means})
            laws[item].validate()
    return Binding(model, values, laws)


def bind_some(model: Model, settings: Mapping[str, Any]) -> dict[Basic, Basic]:
    """Return what ``model.subs`` takes to fix the named parameters and laws only, checked as in ``bind``."""
    refuse_unknown(model, settings, model.settable)
    values = {item: parameter_value(model, item, settings[item.name]) for item in model.parameters if item.name in settings}
    _check_conditions(model, values)
    chosen: dict[Basic, Basic] = dict(values)
    for item in model.randoms:
        if item.base in settings:
            chosen[item] = item.with_law(_law(model, item, settings[item.base], values))
    return chosen


def refuse_unknown(model: Model, settings: Iterable[str], known: Iterable[str]) -> None:
    """Raise when a setting names nothing that is known to a model, or to those behind it."""
    for name in settings:
        if name not in known:
            near = did_you_mean(name, known)
            if name in model.names:
                near = f"; there `{name}` is a {model.names[name].kind_name}, which is not set"
            elif name in _OPTIONS:
                near = f"; it is an option: {name}=..., on the command line --{name.replace('_', '-')} ..."
            raise ParameterError(
                f"model `{model.name}` has no parameter `{name}`{near} (it has: {', '.join(known) or 'none'})"
            )


def parameter_value(model: Model, item: Parameter, given: Any) -> Expr:
    """Return the exact value of a parameter, its default where none is given."""
    if given is None:
        given = model.given(item)
        if given is None:
            raise ParameterError(
                f"parameter `{item.name}` of model `{model.name}` has no value and no default; "
                f"give it one: {item.name}=... (--set {item.name}=...){_meant(model, item)}"
            )
    refuse_several(model, item.name, given)
    value = read_value(given, what=f"parameter `{item.name}`")
    if isinstance(value, Law):
        raise ParameterError(f"parameter `{item.name}` takes a number, got the law {value}")
    problem = ParameterDomain(item).problem(float(value))
    if problem:
        raise ParameterError(
            f"parameter `{item.name}` of model `{model.name}` must be {problem}, got {_short(value)}{_meant(model, item)}"
        )
    return value


def _meant(model: Model, item: Parameter) -> str:
    text = meanings(model.file).get(item, "")
    return f" ({item.name}: {text})" if text else ""


def refuse_several(model: Model, name: str, given: Any) -> None:
    """Raise when several values are given where there is room for one; a sweep is what takes them."""
    if isinstance(given, str):
        text = given.strip()
        try:
            several = isinstance(ast.parse(text, mode="eval").body, ast.List | ast.Tuple)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            several = re.fullmatch(r"[^:()]+(:[^:()]+){2,3}", text) is not None
        grid = text[1:-1] if several and text[:1] + text[-1:] in ("[]", "()") else text
        values = repr(grid) if ":" in grid or "(" in grid else f"[{grid}]"
    else:
        listed = isinstance(given, Iterable) and not isinstance(given, Basic | Mapping | bytes)
        entries = list(given) if listed and getattr(given, "shape", None) != () else []
        several = bool(entries)
        grid, values = ",".join(map(str, entries)), f"[{', '.join(map(str, entries))}]"
    if not several:
        return
    grid_text = f"{name}={grid.replace(' ', '')}"
    command = f"`eqsolve sweep {spoken_name(model)} --grid {shlex.quote(grid_text)} --out sweep.nc`"
    raise ParameterError(
        f"`{name}` of model `{model.name}` takes one value, got {clip(values)}; a sweep solves for several: "
        f"eqsolve.sweep({'model' if model.file is None else repr(spoken_name(model))}, {{{name!r}: {clip(values)}}})"
        + (f", on the command line {clip(command, 200)}" if model.file is not None else "")
    )


def spoken_name(model: Model) -> str:
    """Return what names a model on the command line: its name, or its file where it is not found by name."""
    try:
        return model.name if str(find(model.name)) == model.file else str(model.file)
    except EqsolveError:
        return str(model.file)


_KINDS: dict[str, Callable[[float], bool]] = {
    "integer": lambda number: math.isfinite(number) and number == round(number),
    "positive": lambda number: number > 0,
    "nonnegative": lambda number: number >= 0,
    "negative": lambda number: number < 0,
    "nonpositive": lambda number: number <= 0,
}


class ParameterDomain:
    """Where the values of a parameter may lie, in floats."""

    def __init__(self, item: Parameter) -> None:
        self.kinds = [kind for kind in _KINDS if getattr(item, f"is_{kind}")]
        self.bounds, self.infinite = item.bounds, bool(item.extra)
        low, high = item.bounds
        self.low = -math.inf if low is None else float(low)
        self.high = math.inf if high is None else float(high)

    def problem(self, number: float) -> str | None:
        """Return the domain in words when a number lies outside it."""
        for kind in self.kinds:
            if not _KINDS[kind](number):
                return "an integer" if kind == "integer" else kind
        if not self.low <= number <= self.high:
            return f"at least {self.bounds[0]}" if number < self.low else f"at most {self.bounds[1]}"
        return None if math.isfinite(number) or self.infinite else "finite"


def _check_conditions(model: Model, values: Mapping[Parameter, Expr]) -> None:
    for condition in model.conditions:
        if condition.free_symbols <= set(values) and condition.subs(values) != True:  # noqa: E712
            named = ", ".join(f"{s.name}={_short(values[s])}" for s in sorted(condition.free_symbols, key=str))
            raise ParameterError(f"model `{model.name}` holds for {condition} only ({model.location}), got {named}")


def _law(model: Model, item: Random, given: Any, values: Mapping[Parameter, Expr]) -> Law | None:
    if (law := model.given(item) if given is None else given) is None:
        return None
    if not isinstance(law, Law):
        refuse_several(model, item.name, law)
        law = read_value(law, what=f"the law of `{item.name}`")
        if not isinstance(law, Law):
            raise ParameterError(
                f"`{item.name}` is random and takes a law, got the number {_short(law)}; a fixed value is Point({_short(law)})"
            )
    if law.dimension != 1:
        raise ParameterError(f"`{item.name}` takes the law of one variable, got {law}, which has {law.dimension}")
    bound = law.xreplace(dict(values)) if law.free_symbols else law
    bound.validate()
    return bound


def _short(value: Any) -> str:
    return f"{float(value):.12g}" if isinstance(value, Expr) and value.is_number else str(value)


def read_value(given: Any, *, what: str = "value") -> Any:
    """Return an exact number or a law from a Python value or from text; text is parsed, never evaluated.

    Decimals become the rationals they spell. Allowed in text: numbers, + - * / **, brackets, sqrt, exp, log,
    pi, inf, the names of laws, lists and tuples.
    """
    if isinstance(given, Law):
        return given
    if isinstance(given, str):
        return _parse(given, what)
    if isinstance(given, bool | bytes) or given is None:
        raise ParameterError(f"{what} takes a number, got {given!r}")
    if isinstance(given, Expr):
        if not given.is_number or not given.is_extended_real:
            raise ParameterError(f"{what} takes a real number, got `{given}`")
        return given
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(f"{what} takes a number, got {quote(given)}") from None
    if math.isnan(number):
        raise ParameterError(f"{what} takes a number, got nan")
    if math.isinf(number):
        return S.Infinity if number > 0 else S.NegativeInfinity
    return Integer(int(given)) if number == int(number) and abs(number) < 2**53 else Rational(repr(number))


def _parse(text: str, what: str) -> Any:
    if len(text) > _LONGEST:
        raise ParameterError(f"{what}: the text is {len(text)} characters long, at most {_LONGEST} are read")
    shown = quote(text)
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ParameterError(f"{what}: cannot read {shown}; expected a number such as 0.3 or 1/3, or a law") from None
    try:
        value = _build(tree.body, text)
    except ParameterError as error:
        # a law names the line it is written in; here it stands in the text
        raise ParameterError(f"{what}: {str(error).removeprefix(f'{user_location()}: ')}") from None
    except RecursionError:
        raise ParameterError(f"{what}: cannot read {shown}: it is nested too deeply") from None
    if isinstance(value, Expr) and not value.is_extended_real:
        raise ParameterError(f"{what}: {shown} is not a real number")
    if not isinstance(value, Expr | Law):
        raise ParameterError(f"{what}: {shown} is not a number or a law")
    return value


def _build(node: ast.expr, text: str) -> Any:
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as number):
            if isinstance(number, int):
                return Integer(number) if abs(number) < 10**300 else _refuse(text, "the number is too large")
            source = (ast.get_source_segment(text.strip(), node) or repr(number)).replace("_", "")
            if number == 0 or math.isinf(number):  # also 1e-999999999, whose exact value would fill the memory
                return S.Zero if number == 0 else S.Infinity
            return Rational(source) if abs(math.log10(number)) < 60 else Float(source, 17)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            return -_number(operand, text) if isinstance(sign, ast.USub) else _number(operand, text)
        case ast.BinOp(left=left, op=op, right=right):
            first, second = _number(left, text), _number(right, text)
            if isinstance(op, ast.Div) and second == 0:
                raise ParameterError(f"{quote(text)} divides by zero")
            if isinstance(op, ast.Pow):
                return _power(first, second, text)
            if type(op) in _ARITHMETIC:
                return _ARITHMETIC[type(op)](first, second)
            _refuse(text, "only + - * / ** are allowed")
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_build(item, text) for item in items]
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            return _call(name, arguments, text)
        case ast.Name(id=name):
            laws = law_names()
            if name in laws:
                raise ParameterError(f"the law {name} needs its parameters; usage: {laws[name].usage}")
            near = did_you_mean(name, [*_CONSTANTS, *_FUNCTIONS, *laws])
            raise ParameterError(f"{quote(text)} names `{name}`, which is not known{near}")
    return _refuse(text, "only numbers, + - * / **, sqrt, exp, log and laws are read")


def _refuse(text: str, why: str) -> Any:
    raise ParameterError(f"cannot read {quote(text)}: {why}")


def _number(node: ast.expr, text: str) -> Expr:
    value = _build(node, text)
    if not isinstance(value, Expr):
        _refuse(text, "arithmetic is between numbers")
    if not value.is_extended_real:
        raise ParameterError(f"a part of {quote(text)} is not a real number")
    return value


def _power(base: Expr, exponent: Expr, text: str) -> Expr:
    """Return base**exponent, exact only when the result is small: ``9**9**9`` must not hang."""
    digits = max(base.p.bit_length(), base.q.bit_length()) if base.is_Rational else 0
    if abs(float(exponent)) <= 64 and abs(float(base)) <= 1e15 and digits <= 256:
        value = base**exponent
        return value if value.is_Rational else value.evalf(40)
    try:
        return Float(float(base) ** float(exponent), 17)
    except (OverflowError, ZeroDivisionError, TypeError):
        raise ParameterError(f"{quote(text)} is too large to compute") from None


def _call(name: str, arguments: list[ast.expr], text: str) -> Any:
    shown = quote(text)
    if name in _FUNCTIONS:
        if len(arguments) != 1:
            raise ParameterError(f"{shown}: `{name}` takes one number")
        value = _number(arguments[0], text)
        if name == "exp" and abs(float(value)) > 700:
            raise ParameterError(f"{shown} is too large or too small to compute")
        if name in ("log", "sqrt") and float(value) < (1e-300 if name == "log" else 0):
            raise ParameterError(f"{shown}: `{name}` needs a positive number")
        return _FUNCTIONS[name](value).evalf(40)
    laws = law_names()
    if name not in laws:
        other, known = _OTHER_NAMES.get(name.lower()), [*laws, *_FUNCTIONS]
        near = f"; it is called `{other}` here" if other else did_you_mean(name, known) or f" (there are: {', '.join(known)})"
        raise ParameterError(f"there is no law or function `{name}`{near}")
    match arguments:
        case [ast.Constant(value=str() as file)] if laws[name] is Empirical:
            return Empirical(file)  # the only text inside a law, and never more than a file's name
    try:
        return laws[name](*(_build(argument, text) for argument in arguments))
    except TypeError:
        raise ParameterError(f"law {name}: wrong arguments in {shown}; usage: {laws[name].usage}") from None
