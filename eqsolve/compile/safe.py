"""Write expressions so that they neither overflow, nor underflow, nor cancel on the way to a number of ordinary size.

Called once on everything that is lowered, after all derivatives have been taken. What is not in danger stays as it is.
Products and quotients of things that grow or decay exponentially are written v e^s, with v of ordinary size and the
exponents s added up symbolically: e^{−2x²}/erfc(x)² is 1/erfcx(x)² for x > 0. Differences are written by the identity that
removes the cancellation; out of reach are those of values that are near each other for no reason in the expression.

The functions that safe expressions are written in, as nodes for sympy, on arrays and in mpmath's numbers, take real arrays;
those that a complex-valued model meets compare real parts. Last come sympy's special functions.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import mpmath as mp
import numpy as np
import sympy as sp
from sympy import Abs, Add, Basic, Expr, Function, Mul, Piecewise, Pow, S, exp, log
from sympy.utilities.lambdify import implemented_function

from eqsolve.errors import ModelError
from eqsolve.language.functions import SPECIAL
from eqsolve.language.symbols import Time, Value
from eqsolve.numerics.arrays import Array, Lazy, special
from eqsolve.numerics.backend import anywhere
from eqsolve.passes.forms.expressions import rebuilt


class choose(Function):
    """``choose(c, a, b)`` is a where c > 0, else b; used only where the two agree at c = 0."""

    @classmethod
    def eval(cls, c: Any, a: Any, b: Any) -> Any:
        if a == b or c.is_positive:
            return a
        if c.is_nonpositive:
            return b
        plain = c.as_coeff_Mul()[1]
        sized = [factor for factor in plain.args if not factor.is_positive] if plain.is_Mul else [plain]
        size = plain.func(*sized) if plain.is_Mul else plain
        flipped = bool(c.as_coeff_Mul()[0].is_negative)
        if size.could_extract_minus_sign():
            size, flipped = -size, not flipped
        if size == c:
            return None
        return cls(size, b, a) if flipped else cls(size, a, b)


def _node(name: str, *, vanishes: bool = False) -> Any:
    """Return a function for sympy that is known by its name; ``vanishes``: it is 0 at 0."""
    at_zero = {"eval": classmethod(lambda cls, x: S.Zero if x == 0 else None)} if vanishes else {}
    return type(name, (Function,), {"__module__": __name__, **at_zero})


expm1 = _node("expm1", vanishes=True)  # e^x − 1
log1p = _node("log1p", vanishes=True)  # log(1 + x)
log_cosh = _node("log_cosh")  # log cosh x
log_erfc = _node("log_erfc")  # log erfc x
log_half_erfc = _node("log_half_erfc")  # log(erfc(x)/2), the logarithm of a probability
log1mexp = _node("log1mexp")  # log(1 − e^x) for x < 0
expit = _node("expit")  # 1/(1 + e^{−x})
sech2 = _node("sech2")  # 1/cosh² x = 1 − tanh² x
plain_erfc = _node("plain_erfc")  # erfc(x), which sympy would write 2 − erfc(−x) for some x
scaled_erfc = _node("scaled_erfc")  # erfc(x) e^{x²} for x > 0, erfc(x) below
dawson = _node("dawson")  # Dawson's integral, erfi(x) e^{−x²} √π/2
erf_difference = _node("erf_difference")  # erf(x) − erf(y)
scaled_besseli = _node("scaled_besseli")  # I_n(x) e^{−|x|}
scaled_besselk = _node("scaled_besselk")  # K_n(x) e^x
log_gamma = _node("log_gamma")  # log Γ(x) for x > 0
# s + r, where s² − r² = d is known: d/(s − r) if s and r have opposite signs
conjugate_sum = _node("conjugate_sum")
# a^p − b^p, where a − b = d is known: b^p ((1 + d/b)^p − 1) if a and b are near each other
power_difference = _node("power_difference")
log_ratio = _node("log_ratio")  # log(a) − log(b), where a − b = d is known
ratio = _node("ratio")  # f/x, where f vanishes with x with a given slope
xlogy = _node("xlogy")  # x log y, zero where x is


# --- Sums without cancellation: differences of functions and of powers by the identities that take
# the difference exactly.
_MULTIPLY_OUT = 60  # operations in an expression beyond which it is not multiplied out


def write_sum(writer: Writer, expr: Add) -> Expr:
    """Return a sum with pairs of terms that cancel written as their difference, taken exactly."""
    terms, written = list(expr.args), []
    while terms:
        first = terms.pop(0)
        orders = ((second, pair) for second in terms for pair in ((first, second), (second, first)))
        tries = ((second, _pair(writer, *pair)) for second, pair in orders)
        second, joined = next((item for item in tries if item[1] is not None), (None, first))
        terms = [term for term in terms if term is not second]
        written.append(joined)
    return _with_roots(writer, written, set(expr.args))


def _pair(writer: Writer, first: Expr, second: Expr) -> Expr | None:
    """Return first + second in a form without cancellation, if first is k f and second ∓k or ∓k f of something else."""
    for node in Mul.make_args(first):
        base, power = (node, S.One) if isinstance(node, exp) else node.as_base_exp()
        k = without(first, node)
        if power == -1 and base.is_Add and (gap := _difference(k, -second * base)) is not None:
            return writer.write(gap / base)
        rule, factor = _RULES.get((type(base), power)), None
        complex_tanh = isinstance(base, sp.tanh) and not writer.real
        numbers = {} if complex_tanh else _PLUS_NUMBER.get((type(base), power), {})
        number = next((m for m in numbers if second == m * k), None)
        if number is not None:
            factor = numbers[number](writer.write(base.args[0])), S.Zero
        elif rule is not None:
            factor = rule(writer, base, k, second)
        elif isinstance(node, Pow) and not (power.is_Integer and power.is_positive):
            factor = _powers(writer, base, power, k, second)
        else:
            continue
        if factor is not None:
            return writer.join([writer.pair(k), factor])
    return None


def without(product: Expr, node: Expr) -> Expr:
    """Return a product without one of its factors."""
    return Mul(*(factor for factor in Mul.make_args(product) if factor is not node))


Rule = tuple[Expr, Expr]


# f(x)^power + m without cancellation, by the function, the power and the number m
_PLUS_NUMBER: dict[Any, dict[int, Callable[[Expr], Expr]]] = {
    (exp, S.One): {-1: lambda x: expm1(x)},
    (sp.erf, S.One): {1: lambda x: plain_erfc(-x), -1: lambda x: -plain_erfc(x)},
    (sp.erfc, S.One): {-1: lambda x: -sp.erf(x), -2: lambda x: -plain_erfc(-x)},
    (sp.tanh, S.One): {1: lambda x: 2 * expit(2 * x), -1: lambda x: -2 * expit(-2 * x)},
    (sp.tanh, 2 * S.One): {-1: lambda x: -sech2(x)},
    (sp.cosh, S.One): {-1: lambda x: 2 * sp.sinh(x / 2) ** 2},
    (sp.cosh, 2 * S.One): {-1: lambda x: sp.sinh(x) ** 2},
    (sp.cos, S.One): {-1: lambda x: -2 * sp.sin(x / 2) ** 2},
    (sp.cos, 2 * S.One): {-1: lambda x: -(sp.sin(x) ** 2)},
    (sp.sin, 2 * S.One): {-1: lambda x: -(sp.cos(x) ** 2)},
}


def _alike(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    """Return f(x) − f(y) if second is −k f(y)."""
    nodes = (node for node in Mul.make_args(second) if isinstance(node, type(base)) and without(second, node) == -k)
    other = next(nodes, None)
    if other is None or not (writer.real or isinstance(base, exp)):
        return None
    a, b = base.args[0], other.args[0]
    x, y = writer.write(a), writer.write(b)
    if isinstance(base, exp):
        gap = _opened(x - y) if (x - y).count_ops() < _MULTIPLY_OUT else x - y
        return choose(gap, S.NegativeOne, S.One) * expm1(choose(gap, -gap, gap)), choose(gap, x, y)
    if isinstance(base, sp.erf):
        return erf_difference(x, y), S.Zero
    difference = _difference(a, b)
    return None if difference is None else (log_ratio(x, y, writer.write(difference)), S.Zero)


def _cosh(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    """Return cosh x ± sinh x."""
    x = base.args[0]
    side = next((side for side in (1, -1) if second == side * k * sp.sinh(x)), None)
    return None if side is None else (S.One, writer.write(x) * side)


_RULES: dict[Any, Callable[[Writer, Any, Expr, Expr], Rule | None]] = {
    (exp, S.One): _alike, (sp.erf, S.One): _alike, (log, S.One): _alike, (sp.cosh, S.One): _cosh,
    (sp.cosh, 2 * S.One): lambda _, base, k, second: (S.One, S.Zero) if second == -k * sp.sinh(base.args[0]) ** 2 else None,
}  # fmt: skip


def _powers(writer: Writer, base: Expr, power: Expr, k: Expr, second: Expr) -> Rule | None:
    """Return a^p − b^p, b = 1 included, if a − b is simpler than a and b."""
    alike = (node for node in Mul.make_args(second) if isinstance(node, Pow) and node.exp == power)
    other = S.One if second == -k else next((node.base for node in alike if without(second, node) == -k), None)
    gap = None if other is None else _difference(base, other)
    if other is None or gap is None:
        return None
    a, b, d = map(writer.write, (base, other, gap))
    if power == -1:
        return -d / (a * b), S.Zero
    if power == S.Half:
        return d / (a**S.Half + b**S.Half), S.Zero
    if power == -S.Half:
        return -d / (a * b**S.Half + b * a**S.Half), S.Zero
    return (power_difference(a, b, d, writer.write(power)), S.Zero) if writer.real else None


def _difference(a: Expr, b: Expr) -> Expr | None:
    """Return a − b multiplied out, if parts of a and b cancel in it."""
    if a.count_ops() + b.count_ops() > _MULTIPLY_OUT:
        return None
    one, two = _opened(a), _opened(b)
    opened = [len(Add.make_args(item)) for item in (one, two)]
    gap = one - two
    left = len(Add.make_args(gap)) if gap != 0 else 0
    return gap if left <= sum(opened) - 2 else None


def _opened(expr: Expr) -> Expr:
    """Return an expression with its products and squares multiplied out, but nothing inside functions."""
    return Add(
        *(term.expand(deep=False, log=False, power_base=False, power_exp=False, basic=False) for term in Add.make_args(expr))
    )


def _with_roots(writer: Writer, terms: list[Expr], plain: set[Expr]) -> Expr:
    """Return the sum of terms, of which the ``plain`` ones are still to be written, with √a + r by its conjugate.

    r is all other terms or one of them, if the difference of the squares is simpler than both.
    """
    waiting = [term for term in terms if term in plain]
    written = [term for term in terms if term not in plain]
    powers = {term: [node for node in Mul.make_args(term) if isinstance(node, Pow)] for term in waiting}
    for root in [term for term in waiting if any(power.exp == S.Half and power.base.is_Add for power in powers[term])]:
        others = [term for term in waiting if term is not root]
        for used in [others] if len(others) == 1 else [others, *([term] for term in others)]:
            rest = Add(*used)
            if root not in waiting or rest == 0 or rest.count_ops() > _MULTIPLY_OUT:
                continue
            if (gap := _difference(root**2, rest**2)) is not None:
                written.append(conjugate_sum(writer.write(root), Add(*map(writer.write, used)), writer.write(gap)))
                waiting = [term for term in others if term not in used]
                break
    return Add(*written, *(writer.write(term) for term in waiting))


_SLOPE_ONE = (sp.sin, sp.sinh, sp.tan, sp.tanh, sp.asin, sp.atan, sp.asinh, sp.atanh, sp.LambertW, sp.polylog)  # f(x) ~ x at 0
_GROWING = (
    exp, sp.erfc, sp.erfi, sp.cosh, sp.sinh, sp.besseli, sp.besselk, sp.gamma, expm1, expit, sech2, plain_erfc,
)  # fmt: skip
_BY_OTHERS = {
    sp.coth: lambda x: 1 / sp.tanh(x), sp.sech: lambda x: 1 / sp.cosh(x), sp.csch: lambda x: 1 / sp.sinh(x),
    sp.factorial: lambda x: sp.gamma(x + 1),
}  # fmt: skip
_WATCHED = (*_GROWING, *_SLOPE_ONE, *_BY_OTHERS, log, sp.erf, sp.cos, sp.acosh)
_LOGARITHMS = {sp.cosh: log_cosh, sp.erfc: log_erfc, plain_erfc: log_erfc, sech2: log_cosh}
_CASES = 3  # sides of conditions told apart in one exponent


def safe(expr: Expr, *, real: bool = True) -> Expr:
    """Return an equal expression that can be evaluated safely, in the functions above where needed.

    With ``real=False`` only rewritings are made that hold for complex values, on any branch.
    """
    if not expr.has(*_WATCHED) and not any(not node.exp.is_Integer or node.exp.is_negative for node in expr.atoms(Pow)):
        return expr
    for function, written in _BY_OTHERS.items():
        expr = expr.replace(function, written)
    return Writer(real).write(expr)


class Writer:
    """Rewrites one expression, each part once."""

    def __init__(self, real: bool) -> None:
        self.real = real
        self.write, self.pair = functools.cache(self._write), functools.cache(self._pair)

    def _write(self, expr: Any) -> Any:
        match expr:
            case Mul() | Pow():
                return self._product(expr)
            case Add():
                return write_sum(self, expr)
            case log() if self.real:
                return self._logarithm(expr.args[0])
            case Piecewise():
                return Piecewise(*((self.write(value), condition) for value, condition in expr.args), evaluate=False)
        return rebuilt(expr, self.write) if expr.args else expr

    # --- products
    def _product(self, expr: Expr) -> Expr:
        factors = list(Mul.make_args(expr))
        taken, factors = self._vanishing(factors)
        pieces = [self.pair(factor) for factor in factors]
        if sum(exponent != 0 for _, exponent in pieces) < 2:
            # the reciprocal of what overflows is zero: no warning is due
            falls = [isinstance(f, Pow) and f.exp.is_negative and isinstance(f.base, sp.cosh | sp.sinh) for f in factors]
            pieces = [
                piece if piece[1] != 0 and harmless else (self._plain(factor), S.Zero)
                for factor, piece, harmless in zip(factors, pieces, falls, strict=True)
            ]
        return Mul(*taken) * self.join(pieces)

    def _plain(self, factor: Expr) -> Expr:
        """Return one factor by itself."""
        if not isinstance(factor, Pow):
            return self.write(factor) if not factor.is_Mul else rebuilt(factor, self.write)
        base, power = factor.as_base_exp()
        if self.real and (parts := _with_exponential(base, 1)) is not None and power.is_negative:
            size, argument = parts
            return Mul(self.write(size) ** power, expit(-self.write(argument)) ** -power)
        return rebuilt(factor, self.write)

    def join(self, pieces: list[tuple[Expr, Expr]]) -> Expr:
        """Return the product of things written as (v, s), v e^s each."""
        exponent = gathered(Add(*(exponent for _, exponent in pieces)))
        return Mul(*(value for value, _ in pieces), *([exp(exponent)] if exponent != 0 else []))

    def _pair(self, expr: Expr) -> tuple[Expr, Expr]:
        """Return v and s with v e^s equal to an expression; s = 0 for what neither grows nor decays exponentially."""
        if isinstance(expr, Mul):
            pairs = [self.pair(factor) for factor in expr.args]
            return Mul(*(value for value, _ in pairs)), Add(*(exponent for _, exponent in pairs))
        if isinstance(expr, Pow) and not isinstance(expr, exp):
            value, exponent = self.pair(expr.base)
            if exponent != 0 and (self.real or expr.exp.is_Integer):
                power = self.write(expr.exp)
                return value**power, power * exponent
            return rebuilt(expr, self.write), S.Zero
        if isinstance(expr, Abs) and self.real:
            value, exponent = self.pair(expr.args[0])
            return (Abs(value), exponent) if exponent != 0 else (rebuilt(expr, self.write), exponent)
        if isinstance(expr, Add):
            written = self.write(expr)
            return self._grown_sum(written) if isinstance(written, Add) else self.pair(written)
        return self._grown(expr) or (self.write(expr), S.Zero)

    def _grown(self, expr: Expr) -> tuple[Expr, Expr] | None:
        if not isinstance(expr, _GROWING):
            return None
        x = self.write(expr.args[-1])
        size = choose(x, x, -x)
        match expr:
            case exp():
                return S.One, x
            case expm1() if not (isinstance(x, choose) and x.args[1] == -x.args[2] == -x.args[0]):  # −|y| stays small
                return choose(x, S.NegativeOne, S.One) * expm1(-size), choose(x, x, S.Zero)
            case expit():
                return expit(size), choose(x, S.Zero, x)
            case sech2():
                return 4 / (1 + exp(-2 * size)) ** 2, -2 * size
            case sp.erfc() | plain_erfc():
                return scaled_erfc(x), choose(x, -(x**2), S.Zero)
            case sp.cosh():
                return (1 + exp(-2 * size)) / 2, size
            case sp.sinh():
                return -choose(x, S.One, S.NegativeOne) * expm1(-2 * size) / 2, size
            case _ if not self.real:
                return None
            case sp.erfi():
                return 2 / sp.sqrt(sp.pi) * dawson(x), x**2
            case sp.besseli():
                return scaled_besseli(self.write(expr.args[0]), x), size
            case sp.besselk():
                return scaled_besselk(self.write(expr.args[0]), x), -x
            case sp.gamma():
                return choose(x - 1, S.One, sp.gamma(x)), choose(x - 1, log_gamma(x), S.Zero)  # Γ(1) = 1
        return None

    def _grown_sum(self, expr: Add) -> tuple[Expr, Expr]:
        """Return a sum with its largest exponential in front."""
        together: dict[Expr, Expr] = {}
        for value, exponent in map(self.pair, expr.args):
            together[exponent] = together.get(exponent, S.Zero) + value
        exponents = list(together)
        # different exponentials in a sum of which the largest is put in front
        if len(exponents) > 5 or _conditions(Add(*exponents)) > _CASES:
            return expr, S.Zero
        if len(together) == 1:
            return (expr if exponents[0] == 0 else together[exponents[0]]), exponents[0]
        largest = exponents[0]
        for exponent in exponents[1:]:
            largest = choose(gathered(largest - exponent), largest, exponent)
        if len(together) == 2:
            (first, one), (second, two) = together.items()
            gap = gathered(first - second)
            below = choose(gap, -gap, gap)
            if one == two:
                return one * (1 + exp(below)), largest
            if one == -two:
                return two * choose(gap, S.One, S.NegativeOne) * expm1(below), largest
        return Add(*(value * exp(gathered(exponent - largest)) for exponent, value in together.items())), largest

    def _vanishing(self, factors: list[Expr]) -> tuple[list[Expr], list[Expr]]:
        """Return factors f(x)/x and x log x with their limits at 0, and the other factors."""
        if not self.real or len(factors) < 2:
            return [], factors
        taken: list[Expr] = []
        rest = list(factors)
        for factor in factors:
            if isinstance(factor, log):
                base = next((other for other in rest if _power_of(other, factor.args[0]) > 0), None)
                if base is not None:
                    rest = [other for other in rest if other not in (factor, base)]
                    taken.append(xlogy(self.write(base), self.write(factor.args[0])))
                    continue
            over = isinstance(factor, Pow) and factor.exp == -1
            vanishing = _small_argument(factor.base if over else factor)
            if vanishing is None or vanishing[0].is_number:
                continue
            argument, slope = vanishing
            parts = [part for part in Mul.make_args(argument) if not part.is_number]
            side = 1 if over else -1  # x/f(x) or f(x)/x
            present = [part for part in parts if any(_power_of(other, part) == side for other in rest)]
            if not present:
                continue
            rest.remove(factor)
            for part in present:
                index = next(k for k, other in enumerate(rest) if _power_of(other, part) == side)
                rest[index] = rest[index] * part**-side
            rest += [part**-side for part in parts if part not in present]
            number = Mul(*(part for part in Mul.make_args(argument) if part.is_number))
            node = ratio(self.write(factor**-side), self.write(argument), slope)
            taken.append(node**-side * number**-side)
        for pole in [node for node in rest if isinstance(node, Pow) and node.exp.is_Integer and node.exp.is_negative]:
            above = [f for f in rest if f != pole and f.free_symbols and f.free_symbols <= pole.free_symbols]
            limit = _limit(Mul(*above), pole.base, -pole.exp) if pole in rest else None
            if limit is not None and not (value := self.write(Mul(*above))).is_Add:  # which would cancel there
                rest = [factor for factor in rest if factor not in (pole, *above)]
                if rest:  # what grows meets what decays in these
                    value, exponent = self.pair(Mul(*above))
                    limit, rest = limit * exp(-exponent), [*rest, exp(exponent)]
                taken.append(ratio(value, self.write(1 / pole), limit))
        return taken, [factor for factor in rest if factor != 1]

    # --- logarithms
    def _logarithm(self, inside: Expr) -> Expr:
        parts = _with_exponential(inside, -1)
        if parts is not None and parts[0].is_number and parts[0].is_positive:
            size, argument = parts
            written = self.write(argument)
            return self._logarithm(size) + log1mexp(written) if size != 1 else log1mexp(written)
        if isinstance(inside, Add) and not isinstance(written := self.write(inside), Add):
            inside = written
        factors = Mul.make_args(inside)
        growing = [factor for factor in factors if self.pair(factor)[1] != 0]
        if len(growing) == 1:
            base, power = growing[0].as_base_exp()
            base = self.write(base)
            kind = _LOGARITHMS.get(type(base))
            if kind is not None:
                rest = Mul(*(factor for factor in factors if factor is not growing[0]))
                times = self.write(power) * (-2 if isinstance(base, sech2) else 1)
                if kind is log_erfc and rest == 2**-power:
                    return times * log_half_erfc(base.args[0])
                return times * kind(base.args[0]) + (self._logarithm(rest) if rest != 1 else 0)
        value, exponent = self.pair(inside)
        if exponent == 0:
            value = self.write(inside)
        return gathered(exponent) + self._plain_log(value)

    def _plain_log(self, value: Expr) -> Expr:
        if value.is_Mul:
            numbers = [factor for factor in value.args if factor.is_positive and factor.is_number]
            rest = Mul(*(factor for factor in value.args if factor not in numbers))
            if numbers and rest.is_Add and S.One in rest.args:
                return log(Mul(*numbers)) + self._plain_log(rest)
        return log1p(value - 1) if value.is_Add and S.One in value.args else log(value)


def gathered(exponent: Expr) -> Expr:
    """Return an exponent with its cases on the outside, so that in each what cancels is gone."""
    conditions = list(dict.fromkeys(node.args[0] for node in _cases(exponent)))
    if not conditions:  # shorter when multiplied out, if that is not too long to try
        opened = sp.expand(exponent) if exponent.is_Add and exponent.count_ops() <= 200 else exponent
        return opened if opened.count_ops() < exponent.count_ops() else exponent
    if _conditions(exponent) > _CASES:
        return exponent
    first = conditions[0]
    sides = []
    for side in (1, 2):
        part = exponent
        while swap := {node: node.args[side] for node in _cases(part) if node.args[0] == first}:
            part = part.xreplace(swap)
        sides.append(gathered(part))
    return choose(first, *sides)


def _conditions(expr: Expr) -> int:
    return len({node.args[0] for node in expr.atoms(choose)})


def _cases(expr: Basic) -> list[Any]:
    """Return the choices that an exponent is a sum of products of, outermost ones only."""
    if isinstance(expr, choose):
        return [expr]
    return [node for arg in expr.args for node in _cases(arg)] if isinstance(expr, Add | Mul) else []


def _with_exponential(expr: Expr, sign: int) -> tuple[Expr, Expr] | None:
    """Return k and x of k (1 + sign e^x), where no other exponential is in k."""
    if isinstance(expr, Add) and len(expr.args) == 2:
        for one, other in (expr.args, expr.args[::-1]):
            for node in (factor for factor in Mul.make_args(one) if isinstance(factor, exp)):
                if without(one, node) == sign * other and not other.has(exp):
                    return other, node.args[0]
    return None


def _power_of(factor: Expr, base: Expr) -> int:
    """Return the sign of the power to which a factor is the base, 0 if it is not one."""
    own_base, power = factor.as_base_exp()
    if own_base != base:
        return 0
    return 1 if power.is_positive else -1 if power.is_negative and power.is_Integer else 0


def _limit(top: Expr, base: Expr, power: int) -> Expr | None:
    """Return the limit of top / base^power where the base vanishes, if top is a function of the base and that is finite."""
    w, x = sp.Dummy("w", positive=True), next(iter(base.free_symbols), None)
    slope = S.Zero if x is None else base.diff(x)
    if not slope.is_number or slope == 0:
        return None
    inside = sp.expand(top.subs(x, x + (w - base) / slope))
    if inside.free_symbols != {w} or inside.subs(w, 0) != 0:
        return None
    try:
        limit = sp.limit(inside / w**power, w, 0)
    except (NotImplementedError, ValueError, TypeError):
        return None
    return limit if limit.is_finite else None


def _small_argument(factor: Expr) -> tuple[Expr, Expr] | None:
    """Return x and f'(0) of a function f(x) that vanishes at 0."""
    if isinstance(factor, _SLOPE_ONE) and (len(factor.args) == 1 or isinstance(factor, sp.polylog)):
        return factor.args[-1], S.One
    if isinstance(factor, sp.erf):
        return factor.args[0], 2 / sp.sqrt(sp.pi)
    if isinstance(factor, log) and factor.args[0].is_Add and S.One in factor.args[0].args:
        return factor.args[0] - 1, S.One
    if isinstance(factor, Add) and len(factor.args) == 2:
        for one, other in (factor.args, factor.args[::-1]):
            if isinstance(-one * other, exp) and abs(other) == 1:
                return (-one * other).args[0], -other
    return None


# --- The same functions on arrays and in mpmath.
@functools.cache
def on_arrays() -> dict[str, Any]:
    """Return the functions by name for numpy's numbers and arrays."""

    def special_(name: str) -> Any:
        return lambda *values: getattr(special, name)(*values)

    def piecewise_(conditions: list[Any], values: list[Any]) -> Any:
        chosen: Any = np.nan
        for condition, value in zip(reversed(conditions), reversed(values), strict=True):
            number = float(value) if isinstance(value, int) else value
            chosen = number if condition is True else np.where(condition, number, chosen)
        return chosen

    def log1mexp_(x: Any) -> Any:
        near = np.greater(x, -0.6931)
        with np.errstate(all="ignore"):
            return np.where(near, np.log(-np.expm1(x)), np.log1p(-np.exp(np.where(near, -1.0, x))))

    def log_cosh_(x: Any) -> Any:
        size = np.abs(x)
        near = size < 1
        below = np.log1p(2 * np.sinh(np.where(near, size, 0.0) / 2) ** 2)
        return np.where(near, below, size + np.log1p(np.exp(-2 * size)) - np.log(2))

    def log_erfc_(x: Any) -> Any:
        right = np.greater(x, 0.5)
        far, near = np.where(right, x, 1.0), np.where(right, 0.0, x)
        return np.where(right, np.log(special.erfcx(far)) - far**2, np.log1p(-special.erf(near)))

    def sech2_(x: Any) -> Any:
        small = np.exp(-2 * np.abs(x))
        return 4 * small / (1 + small) ** 2

    def scaled_erfc_(x: Any) -> Any:
        right = np.greater(np.real(x), 0)
        return np.where(right, special.erfcx(np.where(right, x, 0)), special.erfc(np.where(right, 0, x)))

    def erf_difference_(x: Any, y: Any) -> Any:
        side = np.where(np.greater(np.add(x, y), 0), 1.0, -1.0)
        return side * (special.erfc(side * y) - special.erfc(side * x))

    def conjugate_sum_(s: Any, r: Any, d: Any) -> Any:
        plain, other = s + r, s - r
        opposite = np.abs(other) > np.abs(plain)
        return np.where(opposite, d / np.where(opposite, other, 1.0), plain)

    def power_difference_(a: Any, b: Any, d: Any, p: Any) -> Any:
        near = np.abs(d) < 0.5 * np.maximum(np.abs(a), np.abs(b))
        with np.errstate(all="ignore"):
            small = np.where(near, d / b, 0.0)
            return np.where(near, np.power(b, p) * np.expm1(p * np.log1p(small)), np.power(a, p) - np.power(b, p))

    def log_ratio_(a: Any, b: Any, d: Any) -> Any:
        with np.errstate(all="ignore"):
            near = np.abs(d) < 0.5 * np.maximum(a, b)
            return np.where(near, np.log1p(np.where(near, d / b, 0.0)), np.log(a) - np.log(b))

    def ratio_(f: Any, x: Any, slope: Any) -> Any:
        zero = np.equal(x, 0)
        return np.where(zero, slope, f / np.where(zero, 1.0, x))

    return dict(
        piecewise=piecewise_, choose=lambda c, a, b: np.where(np.greater(np.real(c), 0), a, b),
        expm1=np.expm1, log1p=np.log1p, log1mexp=log1mexp_, expit=special_("expit"), sech2=sech2_,
        log_cosh=log_cosh_, log_erfc=log_erfc_,
        log_half_erfc=lambda x: special.log_ndtr(-np.sqrt(2) * x),
        plain_erfc=special_("erfc"), scaled_erfc=scaled_erfc_, erf_difference=erf_difference_,
        dawson=anywhere(special_("dawsn")), scaled_besseli=anywhere(special_("ive")), scaled_besselk=anywhere(special_("kve")),
        log_gamma=special_("gammaln"), conjugate_sum=conjugate_sum_,
        power_difference=power_difference_, log_ratio=log_ratio_, ratio=ratio_, xlogy=special_("xlogy"),
    ) | {"positive_step": lambda *values: Lazy("eqsolve.numerics.births").positive_step(*values)}  # fmt: skip


@functools.cache
def on_mpmath() -> dict[str, Any]:
    """Return the functions by name for mpmath's numbers, whose exponents are unlimited."""

    def guarded(function: Any) -> Any:
        """Return a function computed with digits to spare, so that what its plain form loses is not missed."""

        def inner(*values: Any) -> Any:
            size = max((abs(value) for value in values), default=mp.mpf(0))
            extra = 15 + (int(mp.mag(size)) if size > 0 and mp.isfinite(size) else 0) * 2
            with mp.workdps(mp.mp.dps + max(extra, 15)):
                result = function(*map(mp.mpmathify, values))
            return +result

        return inner

    def right(x: Any) -> bool:
        return bool(mp.re(x) > 0)

    def power_difference_(a: Any, b: Any, d: Any, p: Any) -> Any:
        near = abs(d) < max(abs(a), abs(b)) / 2
        return b**p * mp.expm1(p * mp.log1p(d / b)) if near else a**p - b**p

    return dict(
        choose=lambda c, a, b: a if right(c) else b,
        expm1=mp.expm1,
        log1p=mp.log1p,
        log1mexp=lambda x: mp.log(-mp.expm1(x)) if x > -0.7 else mp.log1p(-mp.exp(x)),
        log_cosh=lambda x: mp.log1p(2 * mp.sinh(x / 2) ** 2),
        log_erfc=lambda x: mp.log(mp.erfc(x)) if x > 0.5 else mp.log1p(-mp.erf(x)),
        log_half_erfc=lambda x: mp.log(mp.erfc(x) / 2) if x > 0 else mp.log1p(-mp.erfc(-x) / 2),
        expit=lambda x: 1 / (1 + mp.exp(-x)),
        sech2=lambda x: mp.sech(x) ** 2,
        plain_erfc=mp.erfc,
        scaled_erfc=guarded(lambda x: mp.erfc(x) * mp.exp(x * x) if right(x) else mp.erfc(x)),
        dawson=guarded(lambda x: mp.erfi(x) * mp.exp(-x * x) * mp.sqrt(mp.pi) / 2),
        erf_difference=lambda x, y: mp.erfc(y) - mp.erfc(x) if x + y > 0 else mp.erfc(-x) - mp.erfc(-y),
        scaled_besseli=guarded(lambda n, x: mp.besseli(n, x) * mp.exp(-abs(x))),
        scaled_besselk=guarded(lambda n, x: mp.besselk(n, x) * mp.exp(x)),
        log_gamma=mp.loggamma,
        conjugate_sum=lambda s, r, d: d / (s - r) if abs(s - r) > abs(s + r) else s + r,
        power_difference=power_difference_,
        log_ratio=lambda a, b, d: mp.log1p(d / b) if abs(d) < max(a, b) / 2 else mp.log(a) - mp.log(b),
        ratio=lambda f, x, slope: slope if x == 0 else f / x,
        xlogy=lambda x, y: mp.mpf(0) if x == 0 else x * mp.log(y),
    )


# --- sympy's special functions: one table, scipy.special first, then mpmath. A value that is not
# real is nan, so that the solver can say where the model left their domain.
def with_evaluators(
    expressions: Sequence[Expr], *, precise: bool = False, names: Mapping[Basic, Basic] | None = None
) -> list[Any]:
    """Return the expressions with special functions exchanged for functions that the printers can call.

    They take arrays of real numbers; ``precise`` ones take mpmath's numbers. ``names`` says what symbols stand for, in a
    message.
    """
    for node in sorted({node for expr in expressions for node in expr.atoms(sp.DiracDelta)}, key=str):
        zero = node.args[0].xreplace(dict(names or {}))
        if zero.atoms(Time) and not zero.atoms(Value):
            raise ModelError(f"white noise, `DiracDelta({zero})`, cannot be computed on a grid of times; give it a width")
        raise ModelError(
            f"the derivative of a jump at the zeros of `{zero}` is needed, and cannot be computed pointwise; "
            "write a steep smooth function in its place, such as tanh(k*x) for sign(x)"
        )
    return [_exchange(expr, precise, names or {}) for expr in expressions]


def _exchange(expr: Any, precise: bool, names: Mapping[Basic, Basic]) -> Any:
    change = functools.partial(_exchange, precise=precise, names=names)
    if isinstance(expr, sp.Derivative | sp.Subs):
        return _derivative(expr, precise, names)
    if isinstance(expr, sp.re | sp.conjugate | sp.im):  # sympy does not know that its functions are real here
        return S.Zero if isinstance(expr, sp.im) else change(expr.args[0])
    if isinstance(expr, Function) and type(expr).__name__ in SPECIAL:
        return _evaluator(type(expr).__name__, precise)(*map(change, expr.args))
    return rebuilt(expr, change) if expr.args else expr


def _derivative(expr: Any, precise: bool, names: Mapping[Basic, Basic]) -> Any:
    """Return a derivative that sympy left open: in closed form once its functions are known to be real, or by mpmath."""
    inner, points = (
        (expr.expr, dict(zip(expr.variables, expr.point, strict=True))) if isinstance(expr, sp.Subs) else (expr, {})
    )
    if isinstance(inner, sp.Derivative):
        body = inner.expr.replace(lambda node: isinstance(node, sp.re | sp.conjugate), lambda node: node.args[0])
        body = body.replace(lambda node: isinstance(node, sp.im), lambda node: S.Zero)
        closed = body.diff(*inner.variables)
        if not closed.has(sp.Derivative, sp.Subs):
            return _exchange(closed.subs(points), precise, names)
        places = [place for place, arg in enumerate(body.args) if arg.has(*inner.variables)]
        alone = len(places) == 1 and (body.args[places[0]],) == inner.variables
        if type(body).__name__ in SPECIAL and alone:  # along an order, or ζ'
            arguments = [_exchange(arg.subs(points), precise, names) for arg in body.args]
            return _evaluator(type(body).__name__, precise, places[0])(*arguments)
    raise ModelError(f"`{expr.xreplace(dict(names))}` is needed, a derivative for which sympy has no closed form")


@functools.lru_cache(maxsize=256)
def _evaluator(name: str, precise: bool, along: int | None = None) -> Any:
    evaluate = functools.partial(precise_value if precise else real_values, name, along)
    return implemented_function(f"evaluate_{name}{'' if along is None else along}", evaluate)


def real_values(name: str, along: int | None, *arguments: Any) -> Array:
    """Return a function's values on arrays, or its derivative along one argument: scipy's, one by one mpmath's elsewhere."""
    arrays = np.broadcast_arrays(*(np.asarray(argument, dtype=float) for argument in arguments))
    quick = _SCIPY.get(name) if along is None else None
    values = np.full(arrays[0].shape, np.nan)
    if quick is not None:
        with np.errstate(all="ignore"):
            values[...] = getattr(special, quick)(*arrays) if isinstance(quick, str) else quick(special, *arrays)
    ask = np.isnan(values) & np.logical_and.reduce([np.isfinite(array) for array in arrays])
    if ask.any():
        numbers = zip(*(array[ask].tolist() for array in arrays), strict=True)
        with mp.workprec(53):
            values[ask] = [float(precise_value(name, along, *given)) for given in numbers]
    return values


def precise_value(name: str, along: int | None, *arguments: Any) -> Any:
    """Return a function's value, or derivative, in mpmath's present precision; nan where there is none, or it is not real."""
    given, function = list(map(mp.mpmathify, arguments)), _in_mpmath(name, len(arguments))
    try:
        if along is None:
            value, rounding = function(*given), mp.eps * 1e3
        else:
            moved = functools.partial(mp.diff, lambda x: function(*given[:along], x, *given[along + 1 :]))
            value, rounding = moved(given[along]), mp.sqrt(mp.eps)
    except (ValueError, ArithmeticError, NotImplementedError, TypeError):  # a pole, or no convergence
        return mp.nan
    return value.real if abs(getattr(value, "imag", 0)) <= rounding * abs(value.real) else mp.nan


@functools.cache
def _in_mpmath(name: str, count: int) -> Callable[..., Any]:
    """Return one of sympy's functions, of a number of arguments, in mpmath's numbers."""
    symbols = sp.symbols(f"x:{count}")
    unknown = {  # to sympy's printer
        "airyaiprime": lambda x: mp.airyai(x, derivative=1), "airybiprime": lambda x: mp.airybi(x, derivative=1),
        "erfcinv": lambda x: mp.erfinv(1 - x), "laguerre": lambda n, x: mp.laguerre(n, 0, x),
    }  # fmt: skip
    return sp.lambdify(symbols, getattr(sp, name)(*symbols), [unknown, "mpmath"])


def _lambert(special: Any, x: Array, branch: Any = 0.0) -> Array:
    """Return the real branches: x ≥ −1/e for 0, −1/e ≤ x < 0 for −1; the edge itself is met up to rounding."""
    edge = -math.exp(-1.0)
    inside = np.where(np.abs(x - edge) <= 4 * np.finfo(float).eps, edge, x)
    values = special.lambertw(inside, np.asarray(branch).astype(int))
    real = (inside >= edge) & ((np.asarray(branch) == 0) | (inside < 0))
    return np.where(real, np.where(inside == edge, -1.0, np.real(values)), np.nan)


def _whole_order(name: str) -> Callable[..., Array]:
    """Return scipy's function of a whole order; at other orders it is nan, for mpmath to answer."""

    def values(special: Any, order: Array, x: Array) -> Array:
        whole = (np.mod(order, 1) == 0) & (order >= 0)
        return np.where(whole, getattr(special, name)(np.where(whole, order, 0).astype(int), x), np.nan)

    return values


def _part(name: str, place: int, positive: bool = False) -> Callable[..., Array]:
    """Return one of the values of a scipy function that gives several; ``positive``: real for x ≥ 0 only."""
    return lambda special, x: np.where(positive & (x < 0), np.nan, getattr(special, name)(x)[place])


def _incomplete_gamma(name: str) -> Callable[..., Array]:
    return lambda special, s, x: np.where(s > 0, special.gamma(s) * getattr(special, name)(s, x), np.nan)


# sympy's name → scipy.special's function: a name where the arguments are the same, else a formula
_SCIPY: dict[str, str | Callable[..., Any]] = {
    "LambertW": _lambert, "besselj": "jv", "bessely": "yv", "besseli": "iv", "besselk": "kv",
    "airyai": _part("airy", 0), "airybi": _part("airy", 2), "airyaiprime": _part("airy", 1), "airybiprime": _part("airy", 3),
    "elliptic_k": "ellipk", "elliptic_f": "ellipkinc",
    "elliptic_e": lambda sp, *given: (sp.ellipe if len(given) == 1 else sp.ellipeinc)(*given),
    "Ei": "expi", "expint": _whole_order("expn"), "li": lambda sp, x: sp.expi(np.log(x)),
    "fresnels": _part("fresnel", 0), "fresnelc": _part("fresnel", 1), "Si": _part("sici", 0), "Ci": _part("sici", 1, True),
    "Shi": _part("shichi", 0), "Chi": _part("shichi", 1, True), "erfi": "erfi", "erfinv": "erfinv", "erfcinv": "erfcinv",
    "erf2": lambda sp, x, y: sp.erf(y) - sp.erf(x), "loggamma": lambda sp, x: np.where(x >= 0, sp.gammaln(x), np.nan),
    "digamma": "psi", "trigamma": lambda sp, x: sp.polygamma(1, x), "polygamma": _whole_order("polygamma"),
    "beta": lambda sp, a, b=None: sp.beta(a, a if b is None else b),
    "lowergamma": _incomplete_gamma("gammainc"), "uppergamma": _incomplete_gamma("gammaincc"), "zeta": "zeta",
    "legendre": _whole_order("eval_legendre"), "chebyshevt": _whole_order("eval_chebyt"),
    "chebyshevu": _whole_order("eval_chebyu"), "hermite": _whole_order("eval_hermite"),
    "laguerre": _whole_order("eval_laguerre"), "factorial": lambda sp, x: sp.gamma(x + 1), "binomial": "binom",
    "RisingFactorial": "poch",
}  # fmt: skip
