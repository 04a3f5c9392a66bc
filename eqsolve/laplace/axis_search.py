"""The first singularity on the real axis: walked to with few points of the law, confirmed with all, resolved there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.laplace.implicit import Prepared
from eqsolve.laplace.newton import fold_newton, follow_to_fold, newton_R
from eqsolve.laplace.real_axis import RealTrack, far_right, first_real_singularity

__all__ = ["nearby", "walk_real_axis"]

_EDGE = 1e-5  # relative distance from the edge of a law down to which branch points are expected
_LAST, _FAR = 8, 3  # of a walk with few points of the law, its last steps and every third before are made with all


def walk_real_axis(prepared: Prepared, start: float | None, region: tuple[float, float] | None) -> RealTrack:
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
        if track.kind not in ("branch point", "edge") or track.p >= 0 or (track.kind == "edge" and attempt):
            break
        if not prepared.resolved_near(track.R, track.p, 0.2):  # else the walk is repeated with the points made there
            prepared.resolve(*_before(quick, track))  # the points of the law were too few there
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


def _before(prepared: Prepared, track: RealTrack) -> tuple[float, float]:
    """Return the last point of a walk that is not right at the edge of a law, where a branch point may have been missed."""
    for R, p in reversed(track.points):
        if prepared.distance(R, p)[0] > _EDGE * (abs(R) + abs(p)):
            return R, p
    return track.points[0]


def _with_all_points(prepared: Prepared, track: RealTrack) -> RealTrack | None:
    """Return a walk made with few points of the law as it is with all of them, with its bracket; None if they differ."""
    if track.kind != "branch point" or not prepared.same_side(track.points[-1], (track.R, track.p)):
        return None
    made = _settled(prepared, track.R, track.p)
    if made is None or abs(made[1] - track.p) > 0.05 * abs(track.p):
        return None
    R, p = made
    some = [*track.points[:-_LAST:_FAR], *track.points[-_LAST:]]
    values, at = (np.array(column) for column in zip(*some, strict=True))
    exact = values  # the same walk, with all points of the law
    for _ in range(8):
        d = prepared(exact, at)
        exact = exact - d.h / d.h_R
        if np.all(np.abs(d.h / d.h_R) <= 1e-10 * np.abs(exact)):
            break
    good = np.abs(exact - values) <= 0.05 * (np.abs(values - R) + np.abs(exact - R))
    good &= (at > p) & (np.abs(d.h / d.h_R) <= 1e-10 * np.abs(exact))
    count = len(good) if good.all() else int(np.argmin(good))  # the last steps may differ: R moves as a root of p there
    points = [(float(r), float(q)) for r, q in zip(exact[:count], at, strict=False)]
    if not points or not prepared.same_side(points[-1], made):
        return None
    bracket = follow_to_fold(prepared, *points[-1], R, p)
    return None if bracket is None else replace(track, R=R, p=p, points=tuple(points), bracket=bracket)


def nearby(prepared: Prepared, near: Any) -> RealTrack | None:
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
