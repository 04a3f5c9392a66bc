"""Whether denominators vanish over the support of a law however far right p lies.

Where a denominator vanishes for p arbitrarily far right, there is no half plane in which the
transform is analytic: what it stands for grows faster than any exponential, or has no mean, and there is no finite rate.
"""

from __future__ import annotations

import numpy as np

from eqsolve.compile.transforms import Denominator
from eqsolve.errors import SolverError
from eqsolve.laplace.implicit import Prepared
from eqsolve.numerics.arrays import Array

__all__ = ["refuse_divergent", "refuse_unbounded"]

_GROWS = 1.2  # the root of a denominator has no bound when it still grows so much along the last two fifths of a ladder
_TAIL = 1e-8  # share of an expectation at the end of its rule from which on it is not known to converge
_FAR = np.geomspace(1e-3, 1e12, 400)


@np.errstate(all="ignore")
def refuse_unbounded(prepared: Prepared, R: float = 1e-12) -> None:
    """Raise when a random denominator vanishes for p arbitrarily far right, where R is small."""
    bundle = prepared._distances
    if bundle is None or not hasattr(prepared.source, "ladders"):
        return
    inner, _ = bundle.functions("numpy")
    usual = [float(np.median(column)) for column in prepared._distance_columns]
    for values in prepared.source.ladders():
        columns = prepared._distance_statics(values)
        for index, denominator in enumerate(prepared.transform.denominators):
            if denominator.coefficients is not None:
                table = denominator.coefficients(R, *prepared.floats, *columns)
                roots = _rightmost_roots(np.array([np.broadcast_to(c, columns[0].shape) for c in table]))
            else:
                sign = np.sign(inner(R, _FAR, *prepared.floats, *usual)[index])[-1]
                steps = range(len(columns[0]))
                there = [np.sign(inner(R, _FAR, *prepared.floats, *(c[i] for c in columns))[index]) for i in steps]
                roots = np.array([_last_other(row * np.ones_like(_FAR), sign) for row in there])
            if _without_bound(roots):
                raise SolverError(_words(prepared, denominator))


def _rightmost_roots(coefficients: Array) -> Array:
    """Return the largest real part of the roots of polynomials, nan where a coefficient overflows."""
    if len(coefficients) == 2:
        slope, constant = coefficients
        return np.where(np.isfinite(slope) & np.isfinite(constant), -constant / slope, np.nan)
    made = []
    for column in coefficients.T:
        size = np.abs(column).max()
        if not np.isfinite(size) or size == 0:
            made.append(np.nan)
            continue
        roots = np.roots(column / size)
        made.append(float(roots.real.max()) if len(roots) else -np.inf)
    return np.array(made)


def _last_other(signs: Array, sign: float) -> float:
    """Return the largest p at which a sign differs, 0 where none does."""
    places = np.flatnonzero((signs != sign) & (signs != 0))
    return float(_FAR[places[-1]]) if len(places) else 0.0


def _without_bound(roots: Array) -> bool:
    """Whether a sequence grows to the end."""
    roots = roots[~np.isnan(roots)]
    if len(roots) < 5:
        return False
    last, before = roots[-1], roots[: 3 * len(roots) // 5].max()
    return bool(last > 0 and (np.isinf(last) or last >= _FAR[-1] or last > _GROWS * max(before, 0.0) + 1e-6))


@np.errstate(all="ignore")
def refuse_divergent(prepared: Prepared, points: tuple[tuple[float, float], ...]) -> None:
    """Raise when an expectation over an infinite support diverges before the end of a walk along the real axis."""
    if not hasattr(prepared.source, "tail") or prepared.source.tail(prepared._probe(*points[-1])) < _TAIL:
        return
    p = next(p for R, p in points if prepared.source.tail(prepared._probe(R, p)) >= _TAIL)
    laws = ", ".join(f"`{name}` ~ {law}" for name, law in getattr(prepared.source, "laws", {}).items())
    raise SolverError(
        f"the expectation over {laws} diverges to the left of about {prepared.transform.variable} = {p:.4g}, for its support "
        "is unbounded: the rate is set by the tail of the law, and is not found in this way. Write the expectation in closed "
        "form"
    )


def _words(prepared: Prepared, denominator: Denominator) -> str:
    laws = getattr(prepared.source, "laws", {})
    names = denominator.randoms
    which = " and ".join(f"`{name}`" + (f" ~ {laws[name]}" if name in laws else "") for name in names)
    other = f", or give `{names[0]}` a law of bounded support such as Uniform(0, 1)" if names[0] in laws else ""
    return (
        f"there is no finite rate: over the support of {which} the denominator `{denominator.text}` vanishes for "
        f"{prepared.transform.variable} arbitrarily far right, so that the transform is analytic in no half plane; what it "
        "stands for grows faster than any exponential, or has no mean. Write a denominator that is bounded below, as with "
        f"{names[0]}**2 in place of {names[0]}{other}"
    )
