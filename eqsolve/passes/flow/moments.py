"""Moments of random constants in closed form, so that a derived equation reads σ² and not E[ξ²]."""

from __future__ import annotations

from typing import Any

from sympy import Expr, Poly, S

from eqsolve.language.laws import Bernoulli, GaussBernoulli, Laplace, Law, Normal, Point, Rademacher, Uniform
from eqsolve.language.model import Model
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Random

__all__ = ["mean_of"]


def mean_of(expr: Expr, model: Model) -> Expr:
    """Return E[expr] over random constants, in closed form for polynomials of degree two in laws that have one."""
    variables = sorted((item for item in expr.free_symbols if isinstance(item, Random)), key=str)
    if not variables:
        return expr
    if not expr.is_polynomial(*variables):
        return E(expr)
    total = S.Zero
    for powers, coefficient in Poly(expr, *variables).terms():
        factor: Any = coefficient
        for item, power in zip(variables, powers, strict=True):
            law = model.defaults.get(item, item.law)
            known = _moment(law, power)
            if known is None:
                return E(expr)
            factor *= known
        total += factor
    return total


def _moment(law: Any, power: int) -> Expr | None:
    """Return E[x^power] for power up to 2, or None when there is no closed form here."""
    if power == 0:
        return S.One
    if power > 2 or not isinstance(law, Law):
        return None
    a = law.args
    match law:
        case Point():
            return a[0] ** power
        case Bernoulli():
            return a[0]
        case Rademacher():
            return S.Zero if power == 1 else a[0]
        case Normal():
            return a[0] if power == 1 else a[1] + a[0] ** 2
        case GaussBernoulli():
            return S.Zero if power == 1 else a[0] * a[1]
        case Uniform():
            return (a[0] + a[1]) / 2 if power == 1 else (a[0] ** 2 + a[0] * a[1] + a[1] ** 2) / 3
        case Laplace():
            return S.Zero if power == 1 else 2 * a[0] ** 2
    return None
