"""What a singularity is: where, of which kind, the decay it means, and how it is known; refined to many digits on demand."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.laplace.half_plane import POLE, Complex
from eqsolve.laplace.implicit import Prepared
from eqsolve.laplace.newton import fold_newton
from eqsolve.laplace.real_axis import RealTrack

__all__ = ["Candidate", "branch_candidate", "complex_candidate", "real_candidate", "refine", "residual_of", "ties"]


@dataclass(frozen=True)
class Candidate:
    """A singularity on the physical sheet.

    Attributes
    ----------
    p, R
        Where it is, and the transform there (inf at a pole, and at a branch point at which it diverges).
    kind
        "branch point", "pole", "edge", or "singularity" where nothing but the place is known.
    exponent
        The ν of a decay t^ν e^{pt}: −3/2 for a square-root branch point, 0 for a simple pole, −1 − μ where
        R ≈ … + c (p − p_c)^μ; None at an edge.
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


def real_candidate(prepared: Prepared, track: RealTrack) -> Candidate:
    if track.kind == "branch point":
        side = np.sign(track.points[-1][0] - track.R)
        return branch_candidate(prepared, track.R, track.p, float(side), _bracket_words(track))
    if track.kind == "pole":
        return _pole_candidate(prepared, track)
    error = 1e-11 * abs(track.p) if abs(track.p) > 1e-12 * track.scale else 1e-14 * track.scale
    error = max(error, track.error)
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
    of_law = prepared.rounding(R, p)[0] / max(abs(d.h_p), 1e-300)
    error = max(4e-16 * abs(p), min(rounding, 1e-12 * (abs(R) + abs(p)))) + of_law
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
    kind = "edge" if prepared.has_density else "branch point"
    return Candidate(track.p, np.inf, kind, order - 1, None, error, words)


def complex_candidate(prepared: Prepared, item: Complex) -> Candidate:
    words = "found in a cell around which dh/dR winds, and reached along the ray from the right"
    if item.kind == "branch point":
        return branch_candidate(prepared, item.R, item.p, 0.0, words)
    if prepared.transform.is_linear:
        d = prepared(0.0 + 0.0j, item.p)
        return Candidate(item.p, item.R, "pole", 0.0, -d.h / d.h_Rp, 1e-14 * abs(item.p), words)
    order = _order(prepared, item.p)
    if order > 1:
        return Candidate(item.p, item.R, "branch point", 1 / order - 1, None, POLE * abs(item.p), words)
    return Candidate(item.p, item.R, "pole", 0.0, _residue(prepared, item.p), POLE * abs(item.p), words)


def _order(prepared: Prepared, at: complex) -> int:
    """Return k of p − p_c ∝ R^{−k} where 1/R vanishes: 1 at a pole; else R ~ (p − p_c)^{−1/k} is an infinite branch point."""
    size, p, gaps = 1e8, at, []
    for _ in range(60):
        for _ in range(20):
            d = prepared(complex(size), p)
            p = p - d.h / d.h_p
            if abs(d.h / d.h_p) <= 1e-15 * abs(p):
                break
        gaps.append(abs(p - at))
        if gaps[-1] > 1e-3 * abs(at):
            break
        size /= 2
    steady = len(gaps) > 1 and 0 < gaps[-2] < gaps[-1] < 0.1 * abs(at)
    return max(round(float(np.log2(gaps[-1] / gaps[-2]))), 1) if steady else 1


def _residue(prepared: Prepared, at: complex) -> complex:
    """Return lim R (p − p_c) at a simple pole: dp/dS at S = 1/R → 0, from three points ever nearer."""
    size, p, found = 1e6 + 0.0j, at, []
    for share in (1e-3, 5e-4, 2.5e-4, 0.0):  # of |p|: how near the next point is
        for _ in range(20):
            d = prepared(size, p)
            p = p - d.h / d.h_p
            if abs(d.h / d.h_p) <= 1e-15 * abs(p):
                break
        found.append(d.h_R / d.h_p * size**2)
        size, p = found[0] / (share * abs(at) or 1.0), at + share * abs(at)
    _, first, second, third = found
    return complex((4 * (2 * third - second) - (2 * second - first)) / 3)


def ties(candidates: list[Candidate], tolerance: float) -> tuple[Candidate, ...]:
    """Return what has the same real part as the first candidate, complex conjugates included."""
    best = complex(candidates[0].p)
    level = [item for item in candidates if abs(complex(item.p).real - best.real) <= tolerance]
    mirrored = [
        replace(
            item,
            p=complex(item.p).conjugate(),
            R=complex(item.R).conjugate() if item.kind != "pole" else item.R,
            amplitude=None if item.amplitude is None else complex(item.amplitude).conjugate(),
        )
        for item in level
        if complex(item.p).imag != 0
    ]
    return tuple(sorted([*level[1:], *mirrored], key=lambda item: abs(complex(item.p).imag)))


def residual_of(prepared: Prepared, best: Candidate, precision: int | None) -> tuple[float, float]:
    """Return |h| and |h_R| at a branch point relative to their terms, and the error of R there."""
    if best.kind != "branch point" or prepared.transform.is_linear or not np.isfinite(complex(best.R)):
        return 0.0, best.error if np.isfinite(complex(best.R)) else float("inf")
    if precision is not None:
        return float(10.0**-precision), float(abs(best.R)) * 10.0**-precision
    d = prepared(best.R, best.p)
    scale_h = abs(best.R) + abs(d.h_p * best.p)
    scale_R = 1 + abs(d.h_RR * best.R)
    noise = 4e-16 * (1 + abs(d.h_Rp * best.p)) + prepared.rounding(best.R, best.p)[1]
    R_error = noise / max(abs(d.h_RR), 1e-300) + 4e-16 * abs(best.R)
    return float(abs(d.h) / scale_h + abs(d.h_R) / scale_R), float(R_error)


def refine(prepared: Prepared, best: Candidate, precision: int) -> Candidate:
    """Repeat Newton's method in mpmath numbers from the double-precision answer."""
    import mpmath

    if best.kind not in ("pole", "branch point") or (
        best.kind == "branch point" and (prepared.transform.is_linear or not np.isfinite(complex(best.R)))
    ):
        where = f"{complex(best.p):.6g}"
        raise SolverError(f"the {best.kind} at p = {where} is known in double precision only; leave out precision=")
    if best.kind == "pole" and best.exponent != 0:
        raise SolverError("a pole of higher order is known in double precision only; leave out precision=")
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
        try:  # Newton's method for 1/R = −h_R/h(0, p), which a numerator that vanishes too does not mislead
            d = function(mpmath.mpf(0), p)
            step = d.h_R * d.h / (d.h_Rp * d.h - d.h_R * d.h_p)
        except ZeroDivisionError:  # right at the pole
            return p
        p -= step
        if abs(step) <= mpmath.mpf(10) ** -(precision + 5) * (abs(p) + mpmath.mpf(10) ** -precision):
            return p
    raise SolverError(f"Newton's method did not reach {precision} digits")
