"""Newton's method for an implicit transform h(R, p) = 0, and what rests on it: branch points, poles, continuation."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.laplace.controls import CONTROLS, ROUNDING, TINY
from eqsolve.laplace.implicit import Prepared
from eqsolve.numerics.richardson import extrapolate


def newton(
    function: Any,
    R: Any,
    p: Any,
    along: Literal["R", "p"] = "R",
    rounds: int = CONTROLS.rounds,
    enough: float = CONTROLS.enough,
) -> tuple[Any, Any, Any]:
    """Solve h(R, p) = 0 for R or for p, at one point or at many; return the values, which are reached, and h one step before.

    A step of relative size ``enough`` that changes the slope by no more leaves an error of its square.
    """
    x = R if along == "R" else p
    for _ in range(rounds):
        d = function(x, p) if along == "R" else function(R, x)
        slope, bend = (d.h_R, d.h_RR) if along == "R" else (d.h_p, d.h_pp)
        step = d.h / slope
        size = abs(step)
        finite = np.isfinite(size)
        if not np.all(finite):
            if not np.ndim(size):
                return x, False, d
            step = np.where(finite, step, 0.0)
        x = x - step
        reached = (size <= enough * abs(x)) & (size * abs(bend) <= enough * abs(slope))
        if np.all(reached | (size <= 500 * ROUNDING * abs(x) + TINY)):
            return x, finite, d
    return x, finite & (size <= 0.1 * CONTROLS.enough * abs(x)), d


def fold_newton(
    function: Any, R: Any, p: Any, tolerance: float = 1e-15, rounds: int = CONTROLS.rounds
) -> tuple[Any, Any, Any] | None:
    """Solve h = 0, h_R = 0; return the point and the size of the last step, or None."""
    smallest = None
    for _ in range(rounds):
        d = function(R, p)
        det = d.h_R * d.h_Rp - d.h_p * d.h_RR
        if det == 0:
            return None
        dR = (d.h * d.h_Rp - d.h_p * d.h_R) / det
        dp = (d.h_R * d.h_R - d.h_RR * d.h) / det
        if not (abs(dR) < 1 / TINY and abs(dp) < 1 / TINY):
            return None
        R, p = R - dR, p - dp
        size = max(abs(dR) / (abs(R) + abs(dR) + TINY), abs(dp) / (abs(p) + abs(dp) + TINY))
        if size <= tolerance or (smallest is not None and size >= smallest and size < CONTROLS.close):
            return R, p, max(abs(dp), tolerance * abs(p))
        smallest = size if smallest is None else min(size, smallest)
    return (R, p, abs(dp)) if smallest is not None and smallest < 0.1 * CONTROLS.enough else None


def follow_to_fold(prepared: Prepared, R: float, p: float, R_c: float, p_c: float) -> tuple[float, float] | None:
    """Follow the curve in R up to the branch point and a little behind it; return h_R there, if its signs are right."""
    sign, shares = np.sign(prepared(R, p).h_R), np.append(np.arange(1, 10) / 10, [0.99, 1.01])
    along = R + (R_c - R) * shares
    at, _, _ = newton(prepared, along, p_c + (p - p_c) * (1 - shares) ** 2, "p")
    value = np.asarray(prepared(along, at).h_R) * np.ones(len(shares))
    if not np.all(np.isfinite(at)) or (np.sign(value[:-1]) != sign).any() or np.sign(value[-1]) != -sign:
        return None
    return float(value[-2]), float(value[-1])


def pole_limit(prepared: Prepared, R: Any, p: Any, at: Any) -> tuple[Any, float] | None:
    """Follow p as a function of S = 1/R to S = 0; return the limit and how far the last extrapolations differ.

    On the way p may turn back at a branch point, behind which the curve belongs to another sheet: None then.
    """
    S, values, guess = 1 / R, [], p
    for _ in range(CONTROLS.few):
        S, before = S / 2, at + (guess - at) / 2
        guess, good, _ = newton(prepared, 1 / S, before, "p")
        if not good or abs(guess - before) > abs(p - at):
            return None
        values.append(guess)
    limit, spread = extrapolate(values, 5)  # p(S) is analytic at S = 0
    if not spread <= 1e-6 * abs(p - limit):
        return None
    try:
        same = abs(track_to(prepared, (R, p), guess) * S - 1) <= CONTROLS.near
    except SolverError:
        same = False
    return (limit, float(spread)) if same else None


def track_to(prepared: Prepared, start: tuple[Any, Any], end: Any) -> Any:
    """Continue R along a straight line in the complex plane from (R, p) to ``end``; return R there."""
    R, p = (complex(v) for v in start)
    done, step = 0.0, 1.0
    whole = complex(end) - p
    d = prepared(R, p)
    for _ in range(CONTROLS.steps):
        move = whole * min(step, 1.0 - done)
        guess = R + d.slope * move
        new, good, _ = newton(prepared, guess, p + move, rounds=CONTROLS.few)
        reach = abs(2 * d.h_R / d.h_RR) if d.h_RR != 0 else np.inf
        near = abs(new - guess) <= 0.5 * CONTROLS.leap * reach
        if good and near and abs(new - R) <= 0.5 * reach + 0.1 * CONTROLS.enough * abs(R):
            done += abs(move / whole) if whole else 1.0
            R, p = new, p + move
            d = prepared(R, p)
            step = min(2 * step, 1.0)
            if done >= 1 - 0.1 * CONTROLS.close:
                return R
        else:
            step /= 2
            if step < 0.1 * CONTROLS.close:
                break
    raise SolverError(f"the transform cannot be continued from p = {start[1]:.6g} to p = {end:.6g}: it is singular on the way")
