"""`rightmost_singularity`: where an implicitly given Laplace transform is first singular, and the decay this means.

A transform that is given explicitly, one that solves a polynomial equation, and any other are
searched in three ways; what they find is brought into one form, with the decay that it means.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import mpmath
import numpy as np
from sympy import Basic, Expr, sympify

from eqsolve.compile.singularity import ImplicitTransform
from eqsolve.errors import SolverError, UsageError
from eqsolve.language.model import Equation
from eqsolve.laplace.algebraic import search_algebraic
from eqsolve.laplace.controls import CONTROLS, GUARD, TINY
from eqsolve.laplace.expectation import as_source
from eqsolve.laplace.explicit import Explicit, PlaneSearch, search_explicit
from eqsolve.laplace.half_plane import Candidate, Complex, Found, Region, survey
from eqsolve.laplace.implicit import Prepared, fold_newton, refuse_divergent, refuse_unbounded, track_to
from eqsolve.laplace.real_axis import RealTrack, walk_real_axis
from eqsolve.numerics.arrays import EPSILON, richardson

_ASIDE = EPSILON**0.25  # of a pole: truncation of its residue, of third order, is like rounding


@dataclass(frozen=True)
class SingularPoint(Candidate):
    """The rightmost singularity of a transform, and what else was found.

    Attributes
    ----------
    p, R, kind, exponent, amplitude, error, certificate
        Of the rightmost singularity; see ``Candidate``. Of a complex pair, the one in the upper half plane.
    rate
        −Re p: the function decays as t^exponent e^{−rate·t}.
    residual
        |h| + |h_R| at a branch point, in units of their terms.
    candidates
        All singularities found, rightmost first.
    ties
        Those of the same real part as the first: the decay then oscillates.
    certified
        Whether the half plane to its right, within ``region``, was shown to hold none.
    region
        What was searched.
    """

    R_error: float
    residual: float
    candidates: tuple[Candidate, ...]
    ties: tuple[Candidate, ...]
    certified: bool
    region: Region

    @property
    def rate(self) -> Any:
        return -(self.p.real if hasattr(self.p, "real") else self.p)

    @property
    def decay(self) -> str:
        """The decay in words."""
        power = "" if self.exponent in (None, 0) else f"t^({self.exponent:g}) "
        text = f"{power}e^({-float(self.rate):.12g} t)"
        if self.kind == "edge":
            text += ", times a power of t that depends on the law at its edge"
        if self.ties:
            text += f"; oscillating, with {len(self.ties) + 1} singularities of equal real part"
        return text


def rightmost_singularity(
    h: Any, *, variable: Basic, unknown: Basic, laws: Any = None,
    values: Mapping[Basic, Any] | None = None, region: tuple[float, float] | None = None,
    start: float | None = None, precision: int | None = None, certify: bool = True,
) -> SingularPoint:  # fmt: skip
    """Return the rightmost singularity of the transform R(p) defined by h(R, p) = 0.

    Parameters
    ----------
    h
        An expression, or an equation ``Eq(left, right)``, in the unknown R and the variable p; expectations over random
        variables are written with ``E``. R must be bounded for p → +∞, as every ordinary transform is.
    variable, unknown
        The symbols of p and R.
    laws
        Laws of the random variables: a mapping to laws, or the distribution of a solved fixed point.
    values
        Values of further symbols in h.
    region
        (low, height): search Re p ≥ low and |Im p| ≤ height. By default a region scaled to the transform.
    start
        Near the value of R at p → +∞, when several bounded solutions exist.
    precision
        Digits, by mpmath; double precision when not given.
    certify
        Search the complex half plane too. When False only the real axis is followed, which is enough for the transform
        of a function that does not change sign.

    Raises
    ------
    SolverError
        When there is no singularity in the region, or the transform cannot be followed.
    """
    prepared = prepare(h, variable, unknown, laws, values)
    return find_singularity(prepared, region=region, start=start, precision=precision, certify=certify)


def prepare(h: Any, variable: Basic, unknown: Basic, laws: Any = None, values: Mapping[Basic, Any] | None = None) -> Prepared:
    """Return the transform of an equation or an expression, with its laws; see ``rightmost_singularity``."""
    expr = h.lhs - h.rhs if isinstance(h, Equation) else sympify(h, strict=True)
    if not isinstance(expr, Expr):
        raise UsageError(f"rightmost_singularity takes an expression h(R, p) or an equation, got {h!r}")
    for role, item in (("unknown", unknown), ("variable", variable)):
        if item not in expr.free_symbols:
            raise UsageError(f"the transform `{expr}` does not contain its {role} `{item}`")
    transform = ImplicitTransform(expr.subs(dict(values or {})), unknown, variable)
    return Prepared(transform, as_source(laws, transform.randoms))


def find_singularity(
    prepared: Prepared, *, region: tuple[float, float] | None = None, start: float | None = None,
    precision: int | None = None, certify: bool = True,
) -> SingularPoint:  # fmt: skip
    """As ``rightmost_singularity``, of a transform that is compiled already."""
    with np.errstate(all="ignore"):
        refuse_unbounded(prepared)
        return _answer(prepared, _find(prepared, region, start, certify), precision, certify)


def _find(prepared: Prepared, region: tuple[float, float] | None, start: float | None, certify: bool) -> Found:
    """Search in the way that fits: a transform that is given explicitly, by a polynomial equation, by another one."""
    if prepared.transform.is_linear and not prepared.source.has_density:
        return search_explicit(prepared, region, start, certify)
    form, certain = prepared.transform.polynomial if not prepared.transform.is_linear else None, True
    rows = None if form is None else form.rows(prepared.floats)
    if rows is not None:
        try:
            return search_algebraic(prepared, rows, region, start, certify)
        except ArithmeticError:  # two sheets agree or can hardly be told apart, or too many
            certain = False
    found = _find_implicit(prepared, walk_real_axis(prepared, start, region), region, certify)
    return replace(found, clean=found.clean and certain)


def _find_implicit(prepared: Prepared, track: RealTrack, region: tuple[float, float] | None, certify: bool) -> Found:
    """Add to what was met on the real axis what a search of the half plane to its right shows."""
    refuse_divergent(prepared, track.points)
    anchor, scale, singular_point = track.points[0], track.scale, track.p if track.kind else None
    low, height = track.p, 3 * scale if region is None else float(region[1])
    margin = 1e-3 * scale
    if singular_point is not None:
        margin = max(1e-2 * abs(singular_point), 1e-6 * scale if abs(singular_point) > 1e-9 * scale else margin)
    elif region is not None:
        low = float(region[0])
    searched = Region(low, anchor[1], height)
    candidates = [] if singular_point is None else [real_candidate(prepared, track)]
    if not certify:
        return Found(candidates, False, searched, scale)
    if prepared.transform.is_linear:
        searched = Region(low - (0.0 if singular_point is None else margin), anchor[1], height)
        plane = PlaneSearch(Explicit(prepared), searched, known=singular_point).run()
        candidates += [point for point in plane.candidates if complex(point.p).imag != 0 or singular_point is None]
        return Found(candidates, plane.clean, searched, scale)
    complex_points, clean = survey(prepared, anchor, searched, singular_point, margin)
    candidates += [complex_candidate(prepared, anchor, point) for point in complex_points]
    return Found(candidates, clean, searched, scale)


def _answer(prepared: Prepared, found: Found, precision: int | None, certify: bool) -> SingularPoint:
    """Return the rightmost of some candidates, with those of equal real part."""
    if not found.candidates:
        searched = found.region
        where = f"Re p ≥ {searched.low:.6g}" + (f", |Im p| ≤ {searched.height:.6g}" if certify else " on the real axis")
        raise SolverError(
            f"the transform has no singularity in the searched region {where}: it may be entire (a decay faster than any "
            "exponential), or its singularities lie further left or higher; look there by region=(LOW, HEIGHT), on the "
            "command line --region LOW,HEIGHT: Re p ≥ LOW, |Im p| ≤ HEIGHT"
        )
    best_real = max(complex(candidate.p).real for candidate in found.candidates)
    tolerance = 1e-9 * max(abs(best_real), 1e-3 * found.scale)

    def order(candidate: Candidate) -> tuple[bool, float, float]:
        place = complex(candidate.p)
        return place.real < best_real - tolerance, abs(place.imag), -place.real

    candidates = sorted(found.candidates, key=order)
    first = candidates[0] = candidates[0] if precision is None else refine(prepared, candidates[0], precision)
    residual, R_error = residual_of(prepared, first, precision)
    level = ties(candidates, tolerance)
    return SingularPoint(**vars(first), R_error=R_error, residual=residual, candidates=tuple(candidates), ties=level,
                         certified=found.clean, region=found.region)  # fmt: skip


# --- Candidates: where a singularity is, of which kind, the decay it means, and how it is known.
def real_candidate(prepared: Prepared, track: RealTrack) -> Candidate:
    if track.kind == "branch point":
        assert track.bracket is not None
        side, (before, behind) = np.sign(track.points[-1][0] - track.R), track.bracket
        certificate = (
            f"followed along the real axis from p = {track.points[0][1]:.3g} in {len(track.points)} steps; "
            f"dh/dR is {before:.2g} before it and {behind:.2g} behind it"
        )
        return branch_candidate(prepared, track.R, track.p, float(side), certificate)
    if track.kind == "pole":
        certificate = f"1/R vanishes there, followed from p = {track.points[0][1]:.3g} along the real axis"
        return _pole_candidate(prepared, track.points[-1], track.p, 1e-13 * max(abs(track.p), 1e-3 * track.scale), certificate)
    error = 1e-11 * abs(track.p) if abs(track.p) > 1e-12 * track.scale else 1e-14 * track.scale
    error = max(error, track.error)
    return Candidate(
        track.p, track.R, "edge", None, None, error,
        "a random denominator of the transform vanishes at the end of the law's support",
    )  # fmt: skip


def branch_candidate(prepared: Any, R: Any, p: Any, side: float, certificate: str) -> Candidate:
    """Return a square-root branch point R ≈ R_c + c √(p − p_c); the decay is −c/(2√π) t^{−3/2} e^{p_c t}."""
    d = prepared(R, p)
    square = -2 * d.h_p / d.h_RR
    c = side * abs(square) ** 0.5 if np.isreal(square) and side else complex(square) ** 0.5
    amplitude = -c / (2 * math.sqrt(math.pi))
    det = abs(d.h_p * d.h_RR)
    rounding = 2 * EPSILON * (abs(d.h_RR) * (abs(R) + abs(p)) + TINY) * max(abs(d.h_p), TINY) / det if det else np.inf
    law_rounding = prepared.rounding(R, p)[0] / max(abs(d.h_p), TINY)
    error = max(2 * EPSILON * abs(p), min(rounding, 1e-12 * (abs(R) + abs(p)))) + law_rounding
    return Candidate(p, R, "branch point", -1.5, amplitude, float(error), certificate)


def _pole_candidate(prepared: Prepared, near: tuple[Any, Any], at: Any, error: float, certificate: str) -> Candidate:
    """Return a pole with its residue, or an infinite branch point R ~ c (p − p_c)^{−ν}, from a point (R, p) nearby."""
    offset = _ASIDE * (near[1] - at)
    values = []
    for share in (1.0, 0.5, 0.25):
        near = track_to(prepared, near, at + share * offset), at + share * offset
        values.append(near[0])
    order = math.log2(abs(values[2] / values[1]))
    whole = round(order)
    if whole < 1 or abs(order - whole) > CONTROLS.rough:
        fraction = 1 / round(1 / order) if order > 0 and abs(1 / order - round(1 / order)) < CONTROLS.rough else order
        kind = "edge" if prepared.source.has_density else "branch point"
        return Candidate(at, np.inf, kind, fraction - 1, None, error, certificate)
    residue, _ = richardson([value * (share * offset) ** whole for value, share in zip(values, (1.0, 0.5, 0.25), strict=True)])
    amplitude = residue / math.factorial(whole - 1)
    amplitude = amplitude if complex(at).imag else amplitude.real
    return Candidate(at, np.inf, "pole", float(whole - 1), amplitude, error, certificate)


def complex_candidate(prepared: Prepared, anchor: tuple[float, float], point: Complex) -> Candidate:
    certificate = "found in a cell around which dh/dR winds, and reached along the ray from the right"
    if point.kind == "branch point":
        return branch_candidate(prepared, point.R, point.p, 0.0, certificate)
    corner, nearby = complex(max(anchor[1], point.p.real), point.p.imag), point.p + _ASIDE * abs(point.p)
    near = track_to(prepared, (track_to(prepared, anchor, corner), corner), nearby)
    return _pole_candidate(prepared, (near, nearby), point.p, CONTROLS.close * abs(point.p), certificate)


def ties(candidates: list[Candidate], tolerance: float) -> tuple[Candidate, ...]:
    """Return what has the same real part as the first candidate, complex conjugates included."""
    first = complex(candidates[0].p)
    level = [candidate for candidate in candidates if abs(complex(candidate.p).real - first.real) <= tolerance]
    mirrored = [
        replace(
            candidate,
            p=complex(candidate.p).conjugate(),
            R=complex(candidate.R).conjugate() if candidate.kind != "pole" else candidate.R,
            amplitude=None if candidate.amplitude is None else complex(candidate.amplitude).conjugate(),
        )
        for candidate in level
        if complex(candidate.p).imag != 0
    ]
    return tuple(sorted([*level[1:], *mirrored], key=lambda candidate: abs(complex(candidate.p).imag)))


def residual_of(prepared: Prepared, best: Candidate, precision: int | None) -> tuple[float, float]:
    """Return |h| and |h_R| at a branch point relative to their terms, and the error of R there."""
    if best.kind != "branch point" or prepared.transform.is_linear or not np.isfinite(complex(best.R)):
        return 0.0, best.error if np.isfinite(complex(best.R)) else float("inf")
    if precision is not None:
        return float(10.0**-precision), float(abs(best.R)) * 10.0**-precision
    d = prepared(best.R, best.p)
    scale_h = abs(best.R) + abs(d.h_p * best.p)
    scale_R = 1 + abs(d.h_RR * best.R)
    noise = 2 * EPSILON * (1 + abs(d.h_Rp * best.p)) + prepared.rounding(best.R, best.p)[1]
    R_error = noise / max(abs(d.h_RR), TINY) + 2 * EPSILON * abs(best.R)
    return float(abs(d.h) / scale_h + abs(d.h_R) / scale_R), float(R_error)


def refine(prepared: Prepared, best: Candidate, precision: int) -> Candidate:
    """Repeat Newton's method in mpmath numbers from the double-precision answer."""
    linear = prepared.transform.is_linear
    fold = best.kind == "branch point" and not linear and np.isfinite(complex(best.R))
    if not fold and not (best.kind == "pole" and best.exponent == 0 and linear):
        order = " of higher order" if best.kind == "pole" and best.exponent else ""
        where = f"{best.kind}{order} at p = {complex(best.p):.6g}"
        raise SolverError(f"the {where} is known in double precision only; leave out precision=")
    with mpmath.workdps(precision + GUARD):
        function = prepared.precise(precision)
        p = mpmath.mpc(best.p) if complex(best.p).imag else mpmath.mpf(float(best.p))
        if best.kind == "pole":
            return replace(best, p=_precise_pole(function, p, precision), error=float(10.0**-precision))
        R = mpmath.mpc(best.R) if complex(best.R).imag else mpmath.mpf(float(best.R))
        made = fold_newton(function, R, p, tolerance=float(10.0 ** -(precision + 5)) if precision < 290 else 1e-295)
        if made is None:
            raise SolverError(f"Newton's method did not reach {precision} digits at p = {complex(best.p):.6g}")
        return replace(best, R=+made[0], p=+made[1], error=float(abs(made[1])) * 10.0**-precision)


def _precise_pole(function: Any, p: Any, precision: int) -> Any:
    def inverse(p: Any) -> Any:
        """Return −1/R = h_R/h(0, p), which a numerator that vanishes too does not mislead."""
        try:
            d = function(mpmath.mpf(0), p)
            return d.h_R / d.h
        except ZeroDivisionError:  # right at the pole
            return mpmath.mpf(0)

    try:
        return mpmath.findroot(inverse, p, tol=mpmath.mpf(10) ** (-2 * precision))
    except ValueError:
        raise SolverError(f"Newton's method did not reach {precision} digits") from None
