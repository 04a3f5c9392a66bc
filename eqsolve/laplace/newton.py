"""Newton's method for an implicit transform: R at a given p, branch points, poles, and values along a line."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.laplace.implicit import Prepared
from eqsolve.numerics.richardson import extrapolate

__all__ = ["fold_newton", "follow_to_fold", "newton_R", "pole_limit", "track_to"]

_SAME = 1e-3  # two ways to one value, relative


def newton_R(prepared: Prepared, R: Any, p: Any, rounds: int = 30, enough: float = 1e-8) -> tuple[Any, bool]:
    """Solve h(R, p) = 0 for R near a guess; a step of relative size ``enough`` leaves an error of its square."""
    for _ in range(rounds):
        d = prepared(R, p)
        step = d.h / d.h_R
        if not np.isfinite(step):
            return R, False
        R = R - step
        size = abs(R)
        near = abs(step) <= enough * size and abs(step * d.h_RR) <= enough * abs(d.h_R)
        if near or abs(step) <= 1e-13 * size + 1e-300:
            return R, True
    return R, abs(step) <= 1e-9 * abs(R)


def fold_newton(function: Any, R: Any, p: Any, tolerance: float = 1e-15, rounds: int = 40) -> tuple[Any, Any, Any] | None:
    """Solve h = 0, h_R = 0; return the point and the size of the last step, or None."""
    smallest = None
    for _ in range(rounds):
        d = function(R, p)
        det = d.h_R * d.h_Rp - d.h_p * d.h_RR
        if det == 0:
            return None
        dR = (d.h * d.h_Rp - d.h_p * d.h_R) / det
        dp = (d.h_R * d.h_R - d.h_RR * d.h) / det
        if not (abs(dR) < 1e300 and abs(dp) < 1e300):
            return None
        R, p = R - dR, p - dp
        size = max(abs(dR) / (abs(R) + abs(dR) + 1e-300), abs(dp) / (abs(p) + abs(dp) + 1e-300))
        if size <= tolerance or (smallest is not None and size >= smallest and size < 1e-11):
            return R, p, max(abs(dp), tolerance * abs(p))
        smallest = size if smallest is None else min(size, smallest)
    return (R, p, abs(dp)) if smallest is not None and smallest < 1e-9 else None


def follow_to_fold(prepared: Prepared, R: float, p: float, R_c: float, p_c: float) -> tuple[float, float] | None:
    """Follow the curve in R up to the branch point and a little behind it; return h_R there, if its signs are right."""
    sign = np.sign(prepared(R, p).h_R)
    shares = np.append(np.linspace(0.1, 0.9, 9), [0.99, 1.01])
    along = R + (R_c - R) * shares
    at = p_c + (p - p_c) * (1 - shares) ** 2
    for _ in range(30):
        d = prepared(along, at)
        step = d.h / d.h_p
        at = at - step
        if np.all(np.abs(step) <= 1e-9 * np.abs(at) + 1e-300) or not np.all(np.isfinite(at)):
            break
    value = np.asarray(prepared(along, at).h_R) * np.ones(len(shares))
    if not np.all(np.isfinite(at)) or (np.sign(value[:-1]) != sign).any() or np.sign(value[-1]) != -sign:
        return None
    return float(value[-2]), float(value[-1])


def pole_limit(prepared: Prepared, R: Any, p: Any, at: Any) -> tuple[Any, float] | None:
    """Follow p as a function of S = 1/R to S = 0; return the limit and how far the last extrapolations differ.

    On the way p may turn back at a branch point, behind which the curve belongs to another sheet: None then.
    """
    S, values = 1 / R, []
    guess = p
    for _ in range(14):
        S = S / 2
        guess = at + (guess - at) / 2
        before = guess
        for _ in range(30):
            d = prepared(1 / S, guess)
            step = d.h / d.h_p
            guess = guess - step
            if abs(step) <= 1e-15 * abs(guess) + 1e-300 or not np.isfinite(guess):
                break
        if not np.isfinite(guess) or abs(guess - before) > abs(p - at):
            return None
        values.append(guess)
    limit, spread = extrapolate(values, 5)  # p(S) is analytic at S = 0
    if not spread <= 1e-6 * abs(p - limit):
        return None
    try:
        same = abs(track_to(prepared, (R, p), guess) * S - 1) <= _SAME
    except SolverError:
        same = False
    return (limit, float(spread)) if same else None


def track_to(prepared: Prepared, start: tuple[Any, Any], end: Any, most: int = 400) -> Any:
    """Continue R along a straight line in the complex plane from (R, p) to ``end``; return R there."""
    R, p = (complex(v) for v in start)
    done, share, step = 0.0, 1.0, 1.0
    whole = complex(end) - p
    d = prepared(R, p)
    for _ in range(most):
        move = whole * min(step, share - done)
        guess = R + d.slope * move
        new, at, good = guess, p + move, False
        for _ in range(12):
            e = prepared(new, at)
            delta = e.h / e.h_R
            if not np.isfinite(delta):
                break
            new -= delta
            if abs(delta) <= 1e-13 * abs(new) + 1e-300:
                good = True
                break
        reach = abs(2 * d.h_R / d.h_RR) if d.h_RR != 0 else np.inf
        if good and abs(new - guess) <= 0.15 * min(reach, np.inf) and abs(new - R) <= 0.5 * reach + 1e-9 * abs(R):
            done += abs(move / whole) if whole else 1.0
            R, p, d = new, at, prepared(new, at)
            step = min(2 * step, 1.0)
            if done >= 1 - 1e-12:
                return R
        else:
            step /= 2
            if step < 1e-12:
                break
    raise SolverError(f"the transform cannot be continued from p = {start[1]:.6g} to p = {end:.6g}: it is singular on the way")
