"""Sums without cancellation: differences of functions and of powers by the identities that take the difference exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sympy import Add, Expr, Mul, Pow, S, cos, cosh, erf, erfc, exp, log, sin, sinh, tanh

from eqsolve.compile import safe_functions as to

if TYPE_CHECKING:
    from eqsolve.compile.safe import Writer

__all__ = ["without", "write_sum"]

_LONG = 60  # operations in an expression beyond which it is not multiplied out


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
            continue
    return _with_roots(writer, made, set(expr.args))


def _pair(writer: Writer, first: Expr, second: Expr) -> Expr | None:
    """Return first + second in a form without cancellation, if first is k f and second ∓k or ∓k f of something else."""
    for node in Mul.make_args(first):
        base, power = (node, S.One) if isinstance(node, exp) else node.as_base_exp()
        k = without(first, node)
        if power == -1 and base.is_Add and (gap := _difference(k, -second * base)) is not None:
            return writer.write(gap / base)
        rule = _RULES.get((type(base), power))
        if rule is not None:
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


def _other(second: Expr, k: Expr, kind: Any) -> Expr | None:
    """Return f where second = −k f, a function of some kind."""
    for node in Mul.make_args(second):
        if isinstance(node, kind) and without(second, node) == -k:
            return node
    return None


Rule = tuple[Expr, Expr]


def _exponentials(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    x = writer.write(base.args[0])
    if second == -k:
        return to.expm1(x), S.Zero
    other = _other(second, k, exp)
    if other is None:
        return None
    y = writer.write(other.args[0])
    gap = _opened(x - y) if (x - y).count_ops() < _LONG else x - y
    sign = to.choose(gap, S.NegativeOne, S.One)
    return sign * to.expm1(to.choose(gap, -gap, gap)), to.choose(gap, x, y)


def _error_functions(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    x = writer.write(base.args[0])
    if second in (k, -k):
        return (to.plain_erfc(-x) if second == k else -to.plain_erfc(x)), S.Zero
    other = _other(second, k, erf)
    return None if other is None or not writer.real else (to.erf_difference(x, writer.write(other.args[0])), S.Zero)


def _complements(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    if second not in (-k, -2 * k):
        return None
    x = writer.write(base.args[0])
    return (-erf(x) if second == -k else -to.plain_erfc(-x)), S.Zero


def _tanh(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    if second not in (k, -k) or not writer.real:
        return None
    x = writer.write(base.args[0])
    return (2 * to.expit(2 * x) if second == k else -2 * to.expit(-2 * x)), S.Zero


def _tanh_squared(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    return (-to.sech2(writer.write(base.args[0])), S.Zero) if second == -k and writer.real else None


def _cosh(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    x = base.args[0]
    if second == -k:
        return 2 * sinh(writer.write(x) / 2) ** 2, S.Zero
    if second in (k * sinh(x), -k * sinh(x)):
        return S.One, writer.write(x) * (1 if second == k * sinh(x) else -1)
    return None


def _cosh_squared(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    x = base.args[0]
    if second == -k:
        return sinh(writer.write(x)) ** 2, S.Zero
    return (S.One, S.Zero) if second == -k * sinh(x) ** 2 else None


def _cos(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    return (-2 * sin(writer.write(base.args[0]) / 2) ** 2, S.Zero) if second == -k else None


def _cos_squared(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    return (-(sin(writer.write(base.args[0])) ** 2), S.Zero) if second == -k else None


def _sin_squared(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    return (-(cos(writer.write(base.args[0])) ** 2), S.Zero) if second == -k else None


def _logarithms(writer: Writer, base: Expr, k: Expr, second: Expr) -> Rule | None:
    other = _other(second, k, log)
    if other is None or not writer.real:
        return None
    a, b = base.args[0], other.args[0]
    gap = _difference(a, b)
    return None if gap is None else (to.log_ratio(*map(writer.write, (a, b, gap))), S.Zero)


_RULES: dict[Any, Any] = {
    (exp, S.One): _exponentials,
    (erf, S.One): _error_functions,
    (erfc, S.One): _complements,
    (tanh, S.One): _tanh,
    (tanh, 2 * S.One): _tanh_squared,
    (cosh, S.One): _cosh,
    (cosh, 2 * S.One): _cosh_squared,
    (cos, S.One): _cos,
    (cos, 2 * S.One): _cos_squared,
    (sin, 2 * S.One): _sin_squared,
    (log, S.One): _logarithms,
}


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
    if a.count_ops() + b.count_ops() > _LONG:
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
    """Return the sum of terms, of which the ``plain`` ones are still to be written, with √a − b by its conjugate."""
    waiting = [term for term in terms if term in plain]
    made = [term for term in terms if term not in plain]
    place = 0
    while place < len(waiting):
        root = waiting[place]
        others = waiting[:place] + waiting[place + 1 :]
        found = _conjugate(writer, root, others) if _is_root(root) else None
        if found is None:
            place += 1
            continue
        written, used = found
        made.append(written)
        waiting = [term for term in others if term not in used]
        place = 0
    return Add(*made, *(writer.write(term) for term in waiting))


def _is_root(term: Expr) -> bool:
    return any(isinstance(node, Pow) and node.exp == S.Half and node.base.is_Add for node in Mul.make_args(term))


def _conjugate(writer: Writer, root: Expr, others: list[Expr]) -> tuple[Expr, list[Expr]] | None:
    """Return root + r, where r is all other terms or one of them, if root² − r² is simpler than both squares."""
    choices = [others] if len(others) == 1 else [others, *([term] for term in others)]
    for used in choices:
        rest = Add(*used)
        if rest == 0 or rest.count_ops() > _LONG:
            continue
        gap = _difference(root**2, rest**2)
        if gap is not None:
            return to.conjugate_sum(writer.write(root), Add(*map(writer.write, used)), writer.write(gap)), used
    return None
