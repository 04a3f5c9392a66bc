"""Write expressions so that they neither overflow, nor underflow, nor cancel on the way to a number of ordinary size.

Called once on everything that is lowered, after all derivatives have been taken; the cost is that of a walk through the
expression. What is not in danger stays as it is. Products and quotients of things that grow or decay exponentially are
written v e^s, with v of ordinary size and the exponents s added up symbolically: e^{−2x²}/erfc(x)² is 1/erfcx(x)² for
x > 0. Differences are written by the identity that removes the cancellation (`safe_sums`). Out of reach are differences of
values that are near each other for no reason that stands in the expression, such as two roots of nearly equal equations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy as sp
from sympy import Abs, Add, Basic, Expr, Mul, Piecewise, Pow, S, exp, expand, log

from eqsolve.compile import safe_functions as to

# --- Sums without cancellation: differences of functions and of powers by the identities that take
# the difference exactly.
_MULTIPLY_OUT = 60  # operations in an expression beyond which it is not multiplied out


def write_sum(writer: Writer, expr: Add) -> Expr:
    """Return a sum with pairs of terms that cancel written as what is left of them."""
    terms, made = list(expr.args), []
    while terms:
        first = terms.pop(0)
        for place, second in enumerate(terms):
            found = _pair(writer, first, second)
            if found is None:
                found = _pair(writer, second, first)
            if found is not None:
                terms.pop(place)
                made.append(found)
                break
        else:
            made.append(first)
    return _with_roots(writer, made, set(expr.args))


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
    (exp, S.One): {-1: lambda x: to.expm1(x)},
    (sp.erf, S.One): {1: lambda x: to.plain_erfc(-x), -1: lambda x: -to.plain_erfc(x)},
    (sp.erfc, S.One): {-1: lambda x: -sp.erf(x), -2: lambda x: -to.plain_erfc(-x)},
    (sp.tanh, S.One): {1: lambda x: 2 * to.expit(2 * x), -1: lambda x: -2 * to.expit(-2 * x)},
    (sp.tanh, 2 * S.One): {-1: lambda x: -to.sech2(x)},
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
        return to.choose(gap, S.NegativeOne, S.One) * to.expm1(to.choose(gap, -gap, gap)), to.choose(gap, x, y)
    if isinstance(base, sp.erf):
        return to.erf_difference(x, y), S.Zero
    difference = _difference(a, b)
    return None if difference is None else (to.log_ratio(x, y, writer.write(difference)), S.Zero)


def _cosh(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    """Return cosh x ± sinh x."""
    x = base.args[0]
    side = next((side for side in (1, -1) if second == side * k * sp.sinh(x)), None)
    return None if side is None else (S.One, writer.write(x) * side)


def _cosh_squared(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    return (S.One, S.Zero) if second == -k * sp.sinh(base.args[0]) ** 2 else None


_RULES = {
    (exp, S.One): _alike, (sp.erf, S.One): _alike, (log, S.One): _alike, (sp.cosh, S.One): _cosh,
    (sp.cosh, 2 * S.One): _cosh_squared,
}  # fmt: skip


def _powers(writer: Writer, base: Expr, power: Expr, k: Expr, second: Expr) -> Rule | None:
    """Return a^p − b^p, b = 1 included, if a − b is simpler than a and b."""
    other = S.One if second == -k else None
    if other is None:
        for node in Mul.make_args(second):
            if isinstance(node, Pow) and node.exp == power and without(second, node) == -k:
                other = node.base
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
    return (to.power_difference(a, b, d, writer.write(power)), S.Zero) if writer.real else None


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
    made = [term for term in terms if term not in plain]
    for root in [term for term in waiting if _is_root(term)]:
        others = [term for term in waiting if term is not root]
        for used in [others] if len(others) == 1 else [others, *([term] for term in others)]:
            rest = Add(*used)
            if root not in waiting or rest == 0 or rest.count_ops() > _MULTIPLY_OUT:
                continue
            if (gap := _difference(root**2, rest**2)) is not None:
                made.append(to.conjugate_sum(writer.write(root), Add(*map(writer.write, used)), writer.write(gap)))
                waiting = [term for term in others if term not in used]
                break
    return Add(*made, *(writer.write(term) for term in waiting))


def _is_root(term: Expr) -> bool:
    return any(isinstance(node, Pow) and node.exp == S.Half and node.base.is_Add for node in Mul.make_args(term))


_SLOPE_ONE = (sp.sin, sp.sinh, sp.tan, sp.tanh, sp.asin, sp.atan, sp.asinh, sp.atanh, sp.LambertW, sp.polylog)  # f(x) ~ x at 0
_GROWING = (
    exp, sp.erfc, sp.erfi, sp.cosh, sp.sinh, sp.besseli, sp.besselk, sp.gamma, to.expm1, to.expit, to.sech2, to.plain_erfc,
)  # fmt: skip
_BY_OTHERS = {
    sp.coth: lambda x: 1 / sp.tanh(x), sp.sech: lambda x: 1 / sp.cosh(x), sp.csch: lambda x: 1 / sp.sinh(x),
    sp.factorial: lambda x: sp.gamma(x + 1),
}  # fmt: skip
_WATCHED = (*_GROWING, *_SLOPE_ONE, *_BY_OTHERS, log, sp.erf, sp.cos, sp.acosh)
_LOGARITHMS = {sp.cosh: to.log_cosh, sp.erfc: to.log_erfc, to.plain_erfc: to.log_erfc, to.sech2: to.log_cosh}
_CASES = 3  # sides of conditions told apart in one exponent
_LARGE = 20  # arguments of the gamma function whose logarithm is used


def safe(expr: Expr, *, real: bool = True) -> Expr:
    """Return an equal expression that can be evaluated safely, in the functions of `safe_functions` where needed.

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
        self._known: dict[Basic, Any] = {}
        self._pairs: dict[Basic, tuple[Expr, Expr]] = {}

    def write(self, expr: Any) -> Any:
        if not expr.args:
            return expr
        if expr not in self._known:
            self._known[expr] = self._write(expr)
        return self._known[expr]

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
        return self._rebuilt(expr)

    def _rebuilt(self, expr: Any) -> Any:
        made = [self.write(arg) for arg in expr.args]
        return expr if all(new is old for new, old in zip(made, expr.args, strict=True)) else expr.func(*made)

    # --- products
    def _product(self, expr: Expr) -> Expr:
        factors = list(Mul.make_args(expr))
        taken, factors = self._vanishing(factors)
        pieces = [self.pair(factor) for factor in factors]
        if sum(exponent != 0 for _, exponent in pieces) < 2:
            pieces = [
                piece if piece[1] != 0 and _falls(factor) else (self._plain(factor), S.Zero)
                for factor, piece in zip(factors, pieces, strict=True)
            ]
        return Mul(*taken) * self.join(pieces)

    def _plain(self, factor: Expr) -> Expr:
        """Return one factor by itself."""
        if not isinstance(factor, Pow):
            return self.write(factor) if not factor.is_Mul else self._rebuilt(factor)
        base, power = factor.as_base_exp()
        if self.real and (found := _with_exponential(base, 1)) is not None and power.is_negative:
            size, argument = found
            return Mul(self.write(size) ** power, to.expit(-self.write(argument)) ** -power)
        return self._rebuilt(factor)

    def join(self, pieces: list[tuple[Expr, Expr]]) -> Expr:
        """Return the product of things written as (v, s), v e^s each."""
        exponent = gathered(Add(*(exponent for _, exponent in pieces)))
        return Mul(*(value for value, _ in pieces), *([exp(exponent)] if exponent != 0 else []))

    def pair(self, expr: Expr) -> tuple[Expr, Expr]:
        """Return v and s with v e^s equal to an expression; s = 0 for what neither grows nor decays exponentially."""
        if expr not in self._pairs:
            self._pairs[expr] = self._pair(expr)
        return self._pairs[expr]

    def _pair(self, expr: Expr) -> tuple[Expr, Expr]:
        if isinstance(expr, Mul):
            pairs = [self.pair(factor) for factor in expr.args]
            return Mul(*(value for value, _ in pairs)), Add(*(exponent for _, exponent in pairs))
        if isinstance(expr, Pow) and not isinstance(expr, exp):
            value, exponent = self.pair(expr.base)
            if exponent != 0 and (self.real or expr.exp.is_Integer):
                power = self.write(expr.exp)
                return value**power, power * exponent
            return self._rebuilt(expr), S.Zero
        if isinstance(expr, Abs) and self.real:
            value, exponent = self.pair(expr.args[0])
            return (Abs(value), exponent) if exponent != 0 else (self._rebuilt(expr), exponent)
        if isinstance(expr, Add):
            written = self.write(expr)
            return self._grown_sum(written) if isinstance(written, Add) else self.pair(written)
        return self._grown(expr) or (self.write(expr), S.Zero)

    def _grown(self, expr: Expr) -> tuple[Expr, Expr] | None:
        if not isinstance(expr, _GROWING):
            return None
        x = self.write(expr.args[-1])
        size = to.choose(x, x, -x)
        match expr:
            case exp():
                return S.One, x
            case to.expm1() if not (isinstance(x, to.choose) and x.args[1] == -x.args[2] == -x.args[0]):  # −|y| stays small
                return to.choose(x, S.NegativeOne, S.One) * to.expm1(-size), to.choose(x, x, S.Zero)
            case to.expit():
                return to.expit(size), to.choose(x, S.Zero, x)
            case to.sech2():
                return 4 / (1 + exp(-2 * size)) ** 2, -2 * size
            case sp.erfc() | to.plain_erfc():
                return to.scaled_erfc(x), to.choose(x, -(x**2), S.Zero)
            case sp.cosh():
                return (1 + exp(-2 * size)) / 2, size
            case sp.sinh():
                return -to.choose(x, S.One, S.NegativeOne) * to.expm1(-2 * size) / 2, size
            case _ if not self.real:
                return None
            case sp.erfi():
                return 2 / sp.sqrt(sp.pi) * to.dawson(x), x**2
            case sp.besseli():
                return to.scaled_besseli(self.write(expr.args[0]), x), size
            case sp.besselk():
                return to.scaled_besselk(self.write(expr.args[0]), x), -x
            case sp.gamma():
                return to.choose(x - _LARGE, S.One, sp.gamma(x)), to.choose(x - _LARGE, to.log_gamma(x), S.Zero)
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
            largest = to.choose(gathered(largest - exponent), largest, exponent)
        if len(together) == 2:
            (first, one), (second, two) = together.items()
            gap = gathered(first - second)
            below = to.choose(gap, -gap, gap)
            if one == two:
                return one * (1 + exp(below)), largest
            if one == -two:
                return two * to.choose(gap, S.One, S.NegativeOne) * to.expm1(below), largest
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
                    taken.append(to.xlogy(self.write(base), self.write(factor.args[0])))
                    continue
            over = isinstance(factor, Pow) and factor.exp == -1
            found = _small_argument(factor.base if over else factor)
            if found is None or found[0].is_number:
                continue
            argument, slope = found
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
            node = to.ratio(self.write(factor**-side), self.write(argument), slope)
            taken.append(node**-side * number**-side)
        return taken, [factor for factor in rest if factor != 1]

    # --- logarithms
    def _logarithm(self, inside: Expr) -> Expr:
        found = _with_exponential(inside, -1)
        if found is not None and found[0].is_number and found[0].is_positive:
            size, argument = found
            written = self.write(argument)
            return self._logarithm(size) + to.log1mexp(written) if size != 1 else to.log1mexp(written)
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
                times = self.write(power) * (-2 if isinstance(base, to.sech2) else 1)
                if kind is to.log_erfc and rest == 2**-power:
                    return times * to.log_half_erfc(base.args[0])
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
        if value.is_Add and S.One in value.args:
            return to.log1p(value - 1)
        return log(value)


def gathered(exponent: Expr) -> Expr:
    """Return an exponent with its cases on the outside, so that in each what cancels is gone."""
    conditions = list(dict.fromkeys(node.args[0] for node in _cases(exponent)))
    if not conditions:
        return _shortened(exponent)
    if _conditions(exponent) > _CASES:
        return exponent
    first = conditions[0]
    sides = []
    for side in (1, 2):
        part = exponent
        while swap := {node: node.args[side] for node in _cases(part) if node.args[0] == first}:
            part = part.xreplace(swap)
        sides.append(gathered(part))
    return to.choose(first, *sides)


def _conditions(expr: Expr) -> int:
    return len({node.args[0] for node in expr.atoms(to.choose)})


def _cases(expr: Basic) -> list[Any]:
    """Return the choices that an exponent is a sum of products of, outermost ones only."""
    if isinstance(expr, to.choose):
        return [expr]
    return [node for arg in expr.args for node in _cases(arg)] if isinstance(expr, Add | Mul) else []


def _shortened(expr: Expr) -> Expr:
    # operations in an exponent beyond which no shorter form is looked for
    if not expr.is_Add or expr.count_ops() > 200:
        return expr
    opened = expand(expr)
    return opened if opened.count_ops() < expr.count_ops() else expr


def _falls(factor: Expr) -> bool:
    """Whether a factor is one over something that overflows harmlessly, which is not to be heard of."""
    return isinstance(factor, Pow) and factor.exp.is_negative and isinstance(factor.base, sp.cosh | sp.sinh)


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
    found, power = factor.as_base_exp()
    if found != base:
        return 0
    return 1 if power.is_positive else -1 if power.is_negative and power.is_Integer else 0


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
            if isinstance(one, exp) and other == -1:
                return one.args[0], S.One
    return None
