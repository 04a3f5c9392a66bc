"""`rightmost_singularity`: where an implicitly given Laplace transform is first singular, and the decay this means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sympy import Basic, Expr, sympify

from eqsolve.errors import SolverError, UsageError
from eqsolve.language.equations import Equation
from eqsolve.laplace.expectation import as_source
from eqsolve.laplace.half_plane import Complex, Region, survey
from eqsolve.laplace.implicit import ImplicitTransform, Prepared
from eqsolve.laplace.real_axis import (
    RealTrack,
    far_right,
    first_real_singularity,
    fold_newton,
    follow_to_fold,
    newton_R,
)

__all__ = ["Candidate", "SingularPoint", "find_singularity", "rightmost_singularity"]


@dataclass(frozen=True)
class Candidate:
    """A singularity on the physical sheet.

    Attributes
    ----------
    p, R
        Where it is, and the transform there (inf at a pole).
    kind
        "branch point", "pole" or "edge".
    exponent
        The ν of a decay t^ν e^{pt}: −3/2 for a square-root branch point, 0 for a simple pole; None at an edge.
    amplitude
        The factor of t^ν e^{pt}; None where it is not known.
    error
        Bound on the error of p.
    certificate
        How it is known: in words.
    """

    p: Any
    R: Any
    kind: str
    exponent: float | None
    amplitude: Any
    error: float
    certificate: str


@dataclass(frozen=True)
class SingularPoint:
    """The rightmost singularity of a transform, and what else was found.

    Attributes
    ----------
    p, R, kind, exponent, amplitude, error
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

    p: Any
    R: Any
    kind: str
    exponent: float | None
    amplitude: Any
    error: float
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
        text = f"{power}e^(-{float(self.rate):.12g} t)"
        if self.kind == "edge":
            text += ", times a power of t that depends on the law at its edge"
        if self.ties:
            text += f"; oscillating, with {len(self.ties) + 1} singularities of equal real part"
        return text


def rightmost_singularity(
    h: Any,
    *,
    variable: Basic,
    unknown: Basic,
    laws: Any = None,
    values: Mapping[Basic, Any] | None = None,
    region: tuple[float, float] | None = None,
    start: float | None = None,
    precision: int | None = None,
    certify: bool = True,
) -> SingularPoint:
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
        (low, height): search Re p ≥ low and |Im p| ≤ height. By default as far as the transform's own scale reaches.
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
    expr = h.lhs - h.rhs if isinstance(h, Equation) else sympify(h, strict=True)
    if not isinstance(expr, Expr):
        raise UsageError(f"rightmost_singularity takes an expression h(R, p) or an equation, got {h!r}")
    for role, item in (("unknown", unknown), ("variable", variable)):
        if item not in expr.free_symbols:
            raise UsageError(f"the transform `{expr}` does not contain its {role} `{item}`")
    bound = expr.subs(dict(values or {}))
    prepared = ImplicitTransform(bound, unknown, variable).prepare(as_source(laws))
    return find_singularity(prepared, region=region, start=start, precision=precision, certify=certify)


def find_singularity(
    prepared: Prepared,
    *,
    region: tuple[float, float] | None = None,
    start: float | None = None,
    precision: int | None = None,
    certify: bool = True,
    near: SingularPoint | None = None,
) -> SingularPoint:
    """As ``rightmost_singularity``, of a transform that is compiled already.

    ``near`` is the branch point of a neighbouring problem: the walk along the axis is then left out, if Newton's method
    from there ends at a point with the same bracket around it. Not together with ``certify``.
    """
    with np.errstate(all="ignore"):
        track = None if near is None or certify else _nearby(prepared, near)
        if track is None:
            track = _real_axis(prepared, start, region)
        R0, p0 = track.points[0]
        if track.kind:
            low, height = track.p, 3 * track.scale if region is None else float(region[1])
            margin = max(1e-2 * abs(track.p), 1e-6 * track.scale if abs(track.p) > 1e-9 * track.scale else 1e-3 * track.scale)
        else:
            low, height = (track.p, 3 * track.scale) if region is None else (float(region[0]), float(region[1]))
            margin = 1e-3 * track.scale
        box = Region(low, p0, height)
        found: tuple[Complex, ...] = ()
        clean = False
        if certify:
            search = survey(_for_survey(prepared, track), (R0, p0), box, track.p if track.kind else None, margin)
            found, clean = search.found, search.clean
        real = [_real_candidate(prepared, track)] if track.kind else []
        others = [_complex_candidate(prepared, item) for item in found]
        tolerance = 1e-9 * max(abs(low), 1e-3 * track.scale)
        rightmost = max((complex(item.p).real for item in (*real, *others)), default=0.0)
        candidates = sorted(
            [*real, *others],
            key=lambda item: (complex(item.p).real < rightmost - tolerance, abs(complex(item.p).imag), -complex(item.p).real),
        )
        if not candidates:
            raise SolverError(_nothing(box, certify))
        best = candidates[0]
        if precision is not None:
            best = _refine(prepared, best, precision)
            candidates[0] = best
        ties = _ties(candidates, tolerance)
        residual, R_error = _residual(prepared, best, precision)
    return SingularPoint(
        best.p, best.R, best.kind, best.exponent, best.amplitude, best.error, R_error, residual,
        tuple(candidates), ties, clean, box,
    )  # fmt: skip


def _for_survey(prepared: Prepared, track: RealTrack) -> Prepared:
    """Return the transform with few points of the law where these put the singularity in the same place."""
    quick = prepared.coarse()
    if quick is None or track.kind == "edge":
        return quick or prepared
    if track.kind != "branch point":
        return prepared
    made = fold_newton(quick, track.R, track.p)
    return quick if made is not None and abs(made[1] - track.p) <= 1e-3 * abs(track.p) else prepared


def _ties(candidates: list[Candidate], tolerance: float) -> tuple[Candidate, ...]:
    """Return what has the same real part as the first candidate, complex conjugates included."""
    best = complex(candidates[0].p)
    level = [item for item in candidates if abs(complex(item.p).real - best.real) <= tolerance]
    mirrored = [
        replace(
            item, p=complex(item.p).conjugate(), R=complex(item.R).conjugate() if item.kind != "pole" else item.R,
            amplitude=None if item.amplitude is None else complex(item.amplitude).conjugate(),
        )
        for item in level if complex(item.p).imag != 0
    ]  # fmt: skip
    return tuple(sorted([*level[1:], *mirrored], key=lambda item: abs(complex(item.p).imag)))


def _nothing(box: Region, certify: bool) -> str:
    where = f"Re p ≥ {box.low:.6g}" + (f", |Im p| ≤ {box.height:.6g}" if certify else " on the real axis")
    return (
        f"the transform has no singularity in the searched region {where}: it may be entire (a decay faster than any "
        "exponential), or its singularities lie further left or higher; give region=(low, height)"
    )


def _real_axis(prepared: Prepared, start: float | None, region: tuple[float, float] | None) -> RealTrack:
    """Walk along the real axis, and again with expectations resolved where the walk ended, until nothing moves."""
    low = None if region is None else float(region[0])
    for attempt in range(3):
        quick = prepared.coarse()
        if quick is None:
            break
        try:
            track = first_real_singularity(quick, far_right(quick, start), low)
        except SolverError:
            break
        if (found := _with_all_points(prepared, track)) is not None:
            return found
        half = [point for point in track.points if point[1] >= 0.5 * track.p]
        if track.kind not in ("branch point", "edge") or track.p >= 0 or not half or (track.kind == "edge" and attempt):
            break
        if not prepared.resolved_near(track.R, track.p, 0.2):  # else the walk is repeated with the points made there
            prepared.resolve(*half[-1])  # the points of the law were too few there
    begin = far_right(prepared, start)
    prepared.resolve(begin.R, begin.p)
    last = None
    for _ in range(8):
        begin = far_right(prepared, begin.R)
        track = first_real_singularity(prepared, begin, low)
        if track.kind != "branch point" or not prepared.transform.randoms:
            return track
        if last is not None and abs(track.p - last) <= 1e-3 * abs(last):
            break
        last = track.p
        prepared.resolve(track.R, track.p)
    made = _settled(prepared, track.R, track.p)
    if made is None:
        raise SolverError(f"the branch point near p = {track.p:.6g} is lost when the expectations are resolved there")
    return replace(track, R=made[0], p=made[1])


def _with_all_points(prepared: Prepared, track: RealTrack) -> RealTrack | None:
    """Return a walk made with few points of the law as it is with all of them, with its bracket; None if they differ."""
    if track.kind != "branch point" or not prepared.same_side(track.points[-1], (track.R, track.p)):
        return None
    made = _settled(prepared, track.R, track.p)
    if made is None or abs(made[1] - track.p) > 0.05 * abs(track.p):
        return None
    R, p = made
    values, at = (np.array(column) for column in zip(*track.points, strict=True))
    exact = values  # the same walk, with all points of the law
    for _ in range(8):
        d = prepared(exact, at)
        exact = exact - d.h / d.h_R
        if np.all(np.abs(d.h / d.h_R) <= 1e-10 * np.abs(exact)):
            break
    moved = np.abs(exact - values) > 0.05 * (np.abs(values - R) + np.abs(exact - R))
    if moved.any() or (at <= p).any() or not np.isfinite(exact).all() or np.abs(d.h / d.h_R / exact).max() > 1e-10:
        return None
    points = [(float(r), float(q)) for r, q in zip(exact, at, strict=True)]
    bracket = follow_to_fold(prepared, *points[-1], R, p)
    return None if bracket is None else replace(track, R=R, p=p, points=tuple(points), bracket=bracket)


def _nearby(prepared: Prepared, near: SingularPoint) -> RealTrack | None:
    """Move the branch point of a neighbouring problem to this one."""
    if near.kind != "branch point" or not isinstance(near.p, float) or not np.isreal(near.amplitude):
        return None
    first = fold_newton(prepared, float(near.R), near.p)
    made = None if first is None or abs(first[1] / near.p - 1) > 0.5 else _settled(prepared, float(first[0]), float(first[1]))
    if made is None:
        return None
    R, p = made
    d = prepared(R, p)
    offset = 0.3 * abs(p)
    side = -float(np.sign(near.amplitude))  # the amplitude is −c/(2√π) with R ≈ R_c + c √(p − p_c)
    value, good = newton_R(prepared, R + side * abs(2 * d.h_p / d.h_RR * offset) ** 0.5, p + offset)
    if not good or not prepared.same_side((float(value), p + offset), (R, p)):
        return None
    bracket = follow_to_fold(prepared, float(value), p + offset, R, p)
    if bracket is None:
        return None
    return RealTrack("branch point", R, p, near.region.high, ((float(value), p + offset),), bracket)


def _settled(prepared: Prepared, R: float, p: float) -> tuple[float, float] | None:
    """Resolve the expectations at a branch point until it no longer moves."""
    first = fold_newton(prepared, R, p)
    if first is not None and abs(first[1] - p) <= 0.05 * abs(p) and prepared.same_side((R, p), (first[0], first[1])):
        R, p = float(first[0]), float(first[1])
    for _ in range(6):
        if not prepared.resolved_near(R, p, 1e-2):
            prepared.resolve(R, p)
        made = fold_newton(prepared, R, p)
        if made is None or not np.isfinite(made[1]):
            return None
        moved = abs(made[1] - p) + abs(made[0] - R)
        R, p = float(made[0]), float(made[1])
        if moved <= 1e-2 * min(abs(p), prepared.distance(R, p)[0]):  # the rule was made for a point as near as this
            break
    return R, p


def _real_candidate(prepared: Prepared, track: RealTrack) -> Candidate:
    if track.kind == "branch point":
        side = np.sign(track.points[-1][0] - track.R)
        return branch_candidate(prepared, track.R, track.p, float(side), _bracket_words(track))
    if track.kind == "pole":
        return _pole_candidate(prepared, track)
    error = 1e-11 * abs(track.p) if abs(track.p) > 1e-12 * track.scale else 1e-14 * track.scale
    return Candidate(
        track.p, track.R, "edge", None, None, error,
        "a random denominator of the transform vanishes at the end of the law's support",
    )  # fmt: skip


def _bracket_words(track: RealTrack) -> str:
    assert track.bracket is not None
    before, behind = track.bracket
    return (
        f"followed along the real axis from p = {track.points[0][1]:.3g} in {len(track.points)} steps; "
        f"dh/dR is {before:.2g} before it and {behind:.2g} behind it"
    )


def branch_candidate(prepared: Any, R: Any, p: Any, side: float, words: str) -> Candidate:
    """Return a square-root branch point R ≈ R_c + c √(p − p_c); the decay is −c/(2√π) t^{−3/2} e^{p_c t}."""
    d = prepared(R, p)
    square = -2 * d.h_p / d.h_RR
    c = side * abs(square) ** 0.5 if np.isreal(square) and side else complex(square) ** 0.5
    amplitude = -c / (2 * math.sqrt(math.pi))
    det = abs(d.h_p * d.h_RR)
    rounding = 4e-16 * (abs(d.h_RR) * (abs(R) + abs(p)) + 1e-300) * max(abs(d.h_p), 1e-300) / det if det else np.inf
    error = max(4e-16 * abs(p), min(rounding, 1e-12 * (abs(R) + abs(p))))
    return Candidate(p, R, "branch point", -1.5, amplitude, float(error), words)


def _pole_candidate(prepared: Prepared, track: RealTrack) -> Candidate:
    """Return a pole with its residue, or a stronger edge R ~ c (p − p_c)^{−ν}."""
    offset = 1e-3 * (track.points[-1][1] - track.p)
    R = []
    for share in (1.0, 0.5, 0.25):
        value = track.points[-1][0] * (track.points[-1][1] - track.p) / (share * offset)
        for _ in range(40):
            d = prepared(value, track.p + share * offset)
            step = d.h / d.h_R
            value -= step
            if abs(step) <= 1e-14 * abs(value):
                break
        R.append(float(value))
    order = math.log(abs(R[2] / R[1])) / math.log(2)
    words = f"1/R vanishes there, followed from p = {track.points[0][1]:.3g} along the real axis"
    if track.bracket is not None:
        words = f"the coefficient of R changes sign, from {track.bracket[1]:.2g} to {track.bracket[0]:.2g}"
    error = 1e-13 * max(abs(track.p), 1e-3 * track.scale)
    near = round(order)
    if near >= 1 and abs(order - near) < 1e-2:
        first, second, third = (value * (share * offset) ** near for value, share in zip(R, (1.0, 0.5, 0.25), strict=True))
        residue = (4 * (2 * third - second) - (2 * second - first)) / 3  # its powers of the offset up to the second are gone
        return Candidate(track.p, np.inf, "pole", float(near - 1), residue / math.factorial(near - 1), error, words)
    return Candidate(track.p, np.inf, "edge", order - 1, None, error, words)


def _complex_candidate(prepared: Prepared, item: Complex) -> Candidate:
    words = "found in a cell around which dh/dR winds, and reached along the ray from the right"
    if item.kind == "branch point":
        return branch_candidate(prepared, item.R, item.p, 0.0, words)
    d = prepared(0.0 + 0.0j, item.p)
    residue = -d.h / d.h_Rp
    return Candidate(item.p, item.R, "pole", 0.0, residue, 1e-14 * abs(item.p), words)


def _residual(prepared: Prepared, best: Candidate, precision: int | None) -> tuple[float, float]:
    """Return |h| and |h_R| at a branch point relative to their terms, and the error of R there."""
    if best.kind != "branch point":
        return 0.0, float("inf") if best.kind == "pole" else best.error
    if precision is not None:
        return float(10.0**-precision), float(abs(best.R)) * 10.0**-precision
    d = prepared(best.R, best.p)
    scale_h = abs(best.R) + abs(d.h_p * best.p)
    scale_R = 1 + abs(d.h_RR * best.R)
    R_error = 4e-16 * (1 + abs(d.h_Rp * best.p)) / max(abs(d.h_RR), 1e-300) + 4e-16 * abs(best.R)
    return float(abs(d.h) / scale_h + abs(d.h_R) / scale_R), float(R_error)


def _refine(prepared: Prepared, best: Candidate, precision: int) -> Candidate:
    """Repeat Newton's method in mpmath numbers from the double-precision answer."""
    import mpmath

    if best.kind == "edge":
        raise SolverError("an edge of a law is known in double precision only; leave out precision=")
    with mpmath.workdps(precision + 15):
        function = prepared.precise(precision)
        p = mpmath.mpc(best.p) if complex(best.p).imag else mpmath.mpf(float(best.p))
        if best.kind == "pole":
            p = _precise_pole(function, p, prepared.transform.is_linear, precision)
            return replace(best, p=p, error=float(10.0**-precision))
        R = mpmath.mpc(best.R) if complex(best.R).imag else mpmath.mpf(float(best.R))
        made = fold_newton(function, R, p, tolerance=float(10.0 ** -(precision + 5)) if precision < 290 else 1e-295)
        if made is None:
            raise SolverError(f"Newton's method did not reach {precision} digits at p = {complex(best.p):.6g}")
        return replace(best, R=+made[0], p=+made[1], error=float(abs(made[1])) * 10.0**-precision)


def _precise_pole(function: Any, p: Any, linear: bool, precision: int) -> Any:
    import mpmath

    if not linear:
        raise SolverError("a pole of a transform that is not linear in R is known in double precision only")
    for _ in range(100):
        d = function(mpmath.mpf(0), p)
        step = d.h_R / d.h_Rp
        p -= step
        if abs(step) <= mpmath.mpf(10) ** -(precision + 5) * (abs(p) + mpmath.mpf(10) ** -precision):
            return p
    raise SolverError(f"Newton's method did not reach {precision} digits")
