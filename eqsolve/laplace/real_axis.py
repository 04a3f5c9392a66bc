"""Numerical continuation of a transform along the real axis, from p → +∞ to its first singularity.

Predictor and corrector (Allgower & Georg, Numerical Continuation Methods, 1990,
doi:10.1007/978-3-642-61257-2). Expectations are resolved where
the walk begins, and where it ends.

The sheet is fixed at the far right, where the transform of an ordinary function stays bounded.
Steps shrink with the distance to what may come: a branch point, a pole, the edge of a law. A branch
point is then bracketed: h_R has one sign all along the curve up to it and the other one behind it.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.laplace.controls import CONTROLS, TINY
from eqsolve.laplace.implicit import Prepared, fold_newton, follow_to_fold, newton, pole_limit


@dataclass(frozen=True)
class RealTrack:
    """What was met on the real axis."""

    kind: str  # "branch point", "pole", "edge", or "" when the left end of the region was reached
    R: float  # at the singular point: inf at a pole
    p: float
    scale: float  # size of p at which the transform leaves its behaviour at infinity
    points: tuple[tuple[float, float], ...]  # the points (R, p) passed, from right to left
    bracket: tuple[float, float] | None = None  # h_R before and behind a branch point
    error: float = 0.0  # at an edge, how far its place still moved with the last step


def far_right(prepared: Prepared, start: float | None = None) -> tuple[float, float]:
    """Return the bounded solution at a far point of the real axis, (R, p) on the physical sheet."""
    for far in CONTROLS.stride ** np.arange(13.0, 0.0, -1.0):  # nearer where R underflows
        for guess in [start] if start is not None else [0.0, 1.0, 1 / far, -1.0]:
            R, good, _ = newton(prepared, guess, far)
            again, good_again, _ = newton(prepared, R, 2 * far)
            if good and good_again and abs(R) < 0.1 * far and abs(again) <= 1.5 * abs(R) + 1e-6:
                return float(R), float(far)
    raise no_bounded_solution(prepared)


def no_bounded_solution(prepared: Prepared) -> SolverError:
    R, p = prepared.transform.unknown, prepared.transform.variable
    return SolverError(
        "the transform has no bounded solution far to the right, where that of an ordinary function is bounded; "
        f"is it the transform of a distribution? divide it by a power of {p}, or name the value of {R} there that you mean: "
        f'solve(..., start={{"{R}": value}}), rightmost_singularity(..., start=value)'
    )


def first_real_singularity(prepared: Prepared, start: tuple[float, float], low: float | None = None) -> RealTrack:
    """Walk to the left until something happens, or ``low`` is reached (by default, four times the transform's scale)."""
    R, p = glide(prepared, *start)
    scale = p
    low = -4 * scale if low is None else low
    largest, points = abs(R), [(R, p)]
    last: dict[str, float] = {}
    resolved, first, edges = np.inf, 0.0, [np.inf]
    for _ in range(CONTROLS.pieces):
        d = prepared(R, p)
        F, slope = d.h_R, d.slope
        largest = max(largest, abs(R))
        near, d_R, d_p = prepared.distance(R, p)
        closing = d_R * slope + d_p
        resolved = near if np.isinf(resolved) else resolved
        if closing > 0 and near < 0.1 * resolved and near / closing < 3 * _ratio(F, d.fold_slope):
            prepared.resolve(R, p)  # the edge of a law is near: its panels must become finer
            R, resolved = float(newton(prepared, R, p)[0]), near
            continue
        lengths = [_ratio(F, d.fold_slope), _ratio(largest, slope), near / closing if closing > 0 else np.inf]
        first = F if len(points) == 1 else first
        if abs(F) < 1e-2 * abs(first) and (crossed := _cross(prepared, d, R, p, scale)) is not None:
            R, p = crossed
            last = {}
            points.append((R, p))
            continue
        guesses = _guesses(prepared, d, R, p)
        for kind, at in guesses.items():
            steady = kind in last and abs(last[kind] - at) < CONTROLS.length * (p - at)
            if steady and (track := _land(prepared, kind, R, p, at, scale, points)) is not None:
                return track
        last = guesses
        if near < CONTROLS.close * (abs(R) + abs(p)) or (lengths[2] < 1e-14 * scale and abs(p) < 1e-12 * scale):
            moved = 3 * abs(p - lengths[2] - edges[-1])
            return RealTrack("edge", R, p - lengths[2], scale, tuple(points), None, moved if np.isfinite(moved) else 0.0)
        edges.append(p - lengths[2])
        if p <= low:
            break
        step = min(CONTROLS.length * min(*lengths[:2], 2 * lengths[2]), 0.5 * scale, p - low)
        R, p = _advance(prepared, R, p, d, step)
        points.append((R, p))
    return RealTrack("", R, p, scale, tuple(points))


def glide(prepared: Prepared, R: float, p: float) -> tuple[float, float]:
    """Go left in long strides while R and h_R are powers of p, as they are far to the right."""
    powers = _powers(prepared, R, p)
    while p > 1e-12:
        guess = 0.0 if prepared.transform.is_linear else R * CONTROLS.stride ** -powers[0]
        there = p / CONTROLS.stride
        new, good, _ = newton(prepared, guess, there)
        if not good or not prepared.same_side((R, p), (float(new), there)):
            break
        here = _powers(prepared, new, there)
        if max(abs(a - b) for a, b in zip(powers, here, strict=True)) > CONTROLS.rough:
            break
        R, p = float(new), there
    return R, p


def _powers(prepared: Prepared, R: float, p: float) -> tuple[float, float]:
    """Return d log R/d log p and d log h_R/d log p; of a linear transform, which R cannot lead astray, the second only."""
    d = prepared(R, p)
    flat = R == 0 or (prepared.transform.is_linear and R * p < 1e-3)
    return 0.0 if flat else float(p * d.slope / R), float(p * d.fold_slope / d.h_R) if d.h_R != 0 else 0.0


def _ratio(top: float, bottom: float) -> float:
    return abs(top / bottom) if bottom != 0 else np.inf


def _cross(prepared: Prepared, d: Any, R: float, p: float, scale: float) -> tuple[float, float] | None:
    """Step over a point where another sheet crosses: h_R and h_p vanish together there, and dR/dp stays finite."""
    length = d.h_R / d.fold_slope if d.fold_slope != 0 else np.inf
    along = d.h_pp + d.h_Rp * d.slope
    if prepared.transform.is_linear or not 0 < length < 0.1 * scale or along == 0:
        return None
    if abs(d.h_p / along - length) > 0.02 * length:
        return None
    return float(newton(prepared, R - 2 * length * d.slope, p - 2 * length)[0]), float(p - 2 * length)


def _guesses(prepared: Prepared, d: Any, R: float, p: float) -> dict[str, float]:
    """Return the places to the left that the local behaviour points to, by kind of singularity."""
    guesses = {}
    if d.fold_slope != 0 and not prepared.transform.is_linear:
        guesses["branch point"] = p - 0.5 * d.h_R / d.fold_slope  # h_R falls like a root: its tangent goes twice as far
    if d.slope != 0:
        guesses["pole"] = p + R / d.slope  # where the tangent of 1/R vanishes
    return {kind: float(at) for kind, at in guesses.items() if at < p}


def _advance(prepared: Prepared, R: float, p: float, d: Any, step: float) -> tuple[float, float]:
    """Take one step to the left with the curve under control: the corrected value stays near the predicted one."""
    slope = d.slope
    turn = d.bend / (2 * slope) if slope != 0 else 0.0
    for _ in range(60):
        share = 1 + turn * step  # R, R' and R'' in a quotient of linear functions: it bends as roots and poles do
        guess = R - slope * step / (share if 0.2 < share < 5 else 1.0)
        new, good, _ = newton(prepared, guess, p - step, enough=CONTROLS.rough**2)
        if good:
            near = abs(new - guess) <= 0.3 * abs(slope * step) + 1e-9 * abs(new) + TINY
            if near and prepared.same_side((R, p), (float(new), p - step)):
                return float(new), p - step
        step /= 2
    raise SolverError(f"the transform cannot be followed along the real axis beyond p = {p:.6g}")


def _land(
    prepared: Prepared, kind: str, R: float, p: float, at: float, scale: float, points: list[tuple[float, float]]
) -> RealTrack | None:
    if kind == "branch point":
        d = prepared(R, p)
        fold = fold_newton(prepared, R - d.h_R / d.h_RR if d.h_RR else R, at)
        if fold is None:
            return None
        R_c, p_c = float(fold[0]), float(fold[1])
        if not (p_c < p and abs(p_c - at) < 2 * (p - at)):
            return None
        d = prepared(R_c, p_c)  # |R − R_c| at this distance from a square-root branch point
        opening = float(abs(2 * d.h_p / d.h_RR * (p - p_c))) ** 0.5 + TINY if d.h_RR != 0 else np.inf
        if abs(abs(R - R_c) / opening - 1) > 0.5:
            return None  # two sheets cross there without a branch point, or it is too far to tell
        return _bracketed(prepared, RealTrack(kind, R_c, p_c, scale, tuple(points)), True)
    # the point where 1/R vanishes, once the curve is on its way there
    if not (abs(R) > 10 * abs(points[0][0]) and p - at < 0.1 * scale):
        return None
    limit = pole_limit(prepared, R, p, at)
    if limit is None or limit[1] > 0.1 * CONTROLS.close * max(1e-2 * scale, abs(limit[0])) or limit[0] > p:
        return None
    place = float(limit[0])
    if prepared.transform.is_linear:
        if not prepared.same_side((R, p), (R, place)):  # behind the edge of a law
            return None
        prepared.resolve(R, place)
        for _ in range(CONTROLS.rounds):  # where the coefficient of R vanishes, its expectations are resolved there now
            d = prepared(0.0, place)
            if not _ratio(d.h_R, d.h_Rp) <= CONTROLS.rough * (p - place):  # something else diverges
                break
            place -= float(d.h_R / d.h_Rp)
    return RealTrack("pole", np.inf, place, scale, tuple(points))


def walk_real_axis(prepared: Prepared, start: float | None, region: tuple[float, float] | None) -> RealTrack:
    """Walk along the real axis, with the expectations resolved where the walk begins, and where it ends."""
    low = None if region is None else float(region[0])
    begin = far_right(prepared, start)
    prepared.resolve(*begin)
    track = first_real_singularity(prepared, far_right(prepared, begin[0]), low)
    if track.kind != "branch point" or not prepared.transform.randoms:
        return track
    settled = _settled(prepared, track.R, track.p)
    if settled is None:
        raise SolverError(f"the branch point near p = {track.p:.6g} is lost when the expectations are resolved there")
    return replace(track, R=settled[0], p=settled[1])


def _bracketed(prepared: Prepared, track: RealTrack, good: bool) -> RealTrack | None:
    """Return a way to a branch point with its bracket; None where the way is no good, or ends on another side of a law."""
    if not good or not prepared.same_side(track.points[-1], (track.R, track.p)):
        return None
    bracket = follow_to_fold(prepared, *track.points[-1], track.R, track.p)
    return None if bracket is None else replace(track, bracket=bracket)


def _settled(prepared: Prepared, R: float, p: float) -> tuple[float, float] | None:
    """Resolve the expectations at a branch point until it no longer moves."""
    first = fold_newton(prepared, R, p)
    near = first is not None and abs(first[1] - p) <= 5 * CONTROLS.rough * abs(p)
    if first is not None and near and prepared.same_side((R, p), (first[0], first[1])):
        R, p = float(first[0]), float(first[1])
    for _ in range(6):
        prepared.resolve(R, p)
        fold = fold_newton(prepared, R, p)
        if fold is None or not np.isfinite(fold[1]):
            return None
        moved = abs(fold[1] - p) + abs(fold[0] - R)
        R, p = float(fold[0]), float(fold[1])
        if moved <= CONTROLS.rough * min(abs(p), prepared.distance(R, p)[0]):  # the rule was made for a point as near as this
            break
    return R, p
