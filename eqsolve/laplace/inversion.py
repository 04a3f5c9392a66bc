"""Numerical inversion of Laplace transforms, for checks at moderate times.

Talbot's contour, deformed into the left half plane around the singularities, with two numbers of
nodes: their difference is the error estimate. An inverse transform loses its digits exponentially
in time unless the rightmost singularity is known; with ``abscissa=`` it is divided out first. Times
at which no digit is left are refused: rates come from singularities, never from inverting.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from eqsolve.errors import SolverError, UsageError
from eqsolve.numerics.arrays import Array


class Inverted(NamedTuple):
    """An inverse transform at some times, and its errors."""

    values: Array
    errors: Array


def invert(
    transform: Callable[[Any], Any],
    times: float | Iterable[float],
    *,
    abscissa: float = 0.0,
    digits: float = 2.0,
    nodes: int = 24,
    precision: int | None = None,
) -> Inverted:
    """Return f(t) for given times from its transform f̄(p) = ∫_0^∞ f(t) e^{−pt} dt, with error estimates.

    Parameters
    ----------
    transform
        f̄ as a function of a complex number, on its physical sheet; singular only on the real axis at or left of
        ``abscissa``, or near it.
    times
        Positive times.
    abscissa
        Real part of the rightmost singularity.
    digits
        Correct digits demanded relative to f(t); a time with fewer is refused.
    nodes
        Nodes of the contour; the check uses a third more.
    precision
        Digits of mpmath numbers given to ``transform``; complex floats when not given.

    Raises
    ------
    SolverError
        Naming the first time at which fewer digits are left, and the last one that is good.
    """
    moments = np.atleast_1d(np.asarray(list(times) if isinstance(times, Iterable) else [times], dtype=float))
    if not (moments > 0).all():
        raise UsageError("an inverse Laplace transform is computed at positive times")
    values, errors = np.empty(len(moments)), np.empty(len(moments))
    for place, t in enumerate(moments):
        first = _talbot(transform, float(t), abscissa, nodes, precision)
        second = _talbot(transform, float(t), abscissa, nodes + nodes // 3, precision)
        growth = float(np.exp(min(abscissa * t, 700.0)))
        values[place], errors[place] = second * growth, abs(second - first) * growth
    bad = ~(errors <= 10.0**-digits * np.abs(values))
    if bad.any():
        good = moments[~bad]
        until = f"; the last good time is {good.max():.6g}" if len(good) else ""
        raise SolverError(
            f"the inverse transform has no {digits:g} digits left at t = {moments[bad].min():.6g}{until}. "
            "Give abscissa= (the rightmost singularity), more nodes= with precision=, or use the singularity itself"
        )
    return Inverted(values, errors)


def _talbot(transform: Callable[[Any], Any], t: float, abscissa: float, nodes: int, precision: int | None) -> float:
    """Return e^{−abscissa·t} f(t) by mpmath's rule on Talbot's contour (Abate & Valko 2004, doi:10.1002/nme.995)."""
    import mpmath

    def moved(p: Any) -> Any:
        return transform((p if precision else complex(p)) + abscissa)

    with mpmath.workdps(precision or 15):
        return float(mpmath.invertlaplace(moved, t, method="talbot", degree=nodes))


def implicit_function(
    h: Any, *, variable: Any, unknown: Any, laws: Any = None, start: float | None = None
) -> Callable[[complex], complex]:
    """Return R(p) on the physical sheet of h(R, p) = 0, continued from the far right."""
    from eqsolve.laplace.newton import track_to
    from eqsolve.laplace.real_axis import far_right, glide
    from eqsolve.laplace.singularity import prepare

    prepared = prepare(h, variable, unknown, laws)
    with np.errstate(all="ignore"):
        begin = far_right(prepared, start)
        prepared.resolve(*begin)
        R0, p0 = glide(prepared, *begin)

    def function(p: complex) -> complex:
        """Go up first, then left, so that the cuts along the negative axis are not crossed."""
        with np.errstate(all="ignore"):
            corner = complex(max(p0, p.real), p.imag)
            above = track_to(prepared, (R0, p0), corner) if corner != p0 else complex(R0)
            return complex(track_to(prepared, (above, corner), p)) if corner != p else complex(above)

    return function
