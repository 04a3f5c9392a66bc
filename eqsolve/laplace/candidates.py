"""What a singularity is: where, of which kind, the decay it means, and how it is known; refined to many digits on demand."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.laplace.controls import CONTROLS, TINY
from eqsolve.laplace.half_plane import Complex, Region
from eqsolve.laplace.implicit import Prepared, fold_newton, track_to
from eqsolve.laplace.real_axis import RealTrack
from eqsolve.numerics.richardson import extrapolate


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


@dataclass(frozen=True)
class Found:
    """What a search found, whether nothing lies to the right of it for certain, where it looked, and the size of p there."""

    candidates: list[Candidate]
    clean: bool
    region: Region
    scale: float


def real_candidate(prepared: Prepared, track: RealTrack) -> Candidate:
    if track.kind == "branch point":
        side = np.sign(track.points[-1][0] - track.R)
        return branch_candidate(prepared, track.R, track.p, float(side), _bracket_words(track))
    if track.kind == "pole":
        words = f"1/R vanishes there, followed from p = {track.points[0][1]:.3g} along the real axis"
        if track.bracket is not None:
            words = f"the coefficient of R changes sign, from {track.bracket[1]:.2g} to {track.bracket[0]:.2g}"
        return _pole_candidate(prepared, track.points[-1], track.p, 1e-13 * max(abs(track.p), 1e-3 * track.scale), words)
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
    rounding = 4e-16 * (abs(d.h_RR) * (abs(R) + abs(p)) + TINY) * max(abs(d.h_p), TINY) / det if det else np.inf
    of_law = prepared.rounding(R, p)[0] / max(abs(d.h_p), TINY)
    error = max(4e-16 * abs(p), min(rounding, 1e-12 * (abs(R) + abs(p)))) + of_law
    return Candidate(p, R, "branch point", -1.5, amplitude, float(error), words)


def _pole_candidate(prepared: Prepared, near: tuple[Any, Any], at: Any, error: float, words: str) -> Candidate:
    """Return a pole with its residue, or an infinite branch point R ~ c (p − p_c)^{−ν}, from a point (R, p) beside it."""
    offset = CONTROLS.near * (near[1] - at)
    values = []
    for share in (1.0, 0.5, 0.25):
        near = track_to(prepared, near, at + share * offset), at + share * offset
        values.append(near[0])
    order = math.log2(abs(values[2] / values[1]))
    whole = round(order)
    if whole < 1 or abs(order - whole) > CONTROLS.rough:
        fraction = 1 / round(1 / order) if order > 0 and abs(1 / order - round(1 / order)) < CONTROLS.rough else order
        kind = "edge" if prepared.has_density else "branch point"
        return Candidate(at, np.inf, kind, fraction - 1, None, error, words)
    residue, _ = extrapolate(
        [value * (share * offset) ** whole for value, share in zip(values, (1.0, 0.5, 0.25), strict=True)]
    )
    amplitude = residue / math.factorial(whole - 1)
    return Candidate(at, np.inf, "pole", float(whole - 1), amplitude if complex(at).imag else amplitude.real, error, words)


def complex_candidate(prepared: Prepared, anchor: tuple[float, float], item: Complex) -> Candidate:
    words = "found in a cell around which dh/dR winds, and reached along the ray from the right"
    if item.kind == "branch point":
        return branch_candidate(prepared, item.R, item.p, 0.0, words)
    corner, beside = complex(max(anchor[1], item.p.real), item.p.imag), item.p + CONTROLS.near * abs(item.p)
    near = track_to(prepared, (track_to(prepared, anchor, corner), corner), beside)
    return _pole_candidate(prepared, (near, beside), item.p, CONTROLS.close * abs(item.p), words)


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
    R_error = noise / max(abs(d.h_RR), TINY) + 4e-16 * abs(best.R)
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
