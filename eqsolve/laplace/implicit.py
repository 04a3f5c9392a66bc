"""An implicit transform h(R, p) = 0 with a law and numbers: h and its derivatives at one point, many, or in many digits.

Where a random denominator vanishes for p arbitrarily far right, there is no half plane in which the
transform is analytic: what it stands for grows faster than any exponential, or has no mean, and
there is no finite rate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import mpmath
import numpy as np

from eqsolve.compile.singularity import Denominator, ImplicitTransform
from eqsolve.errors import SolverError, UsageError
from eqsolve.laplace.controls import CONTROLS, GUARD, TINY
from eqsolve.laplace.expectation import Rule, Source
from eqsolve.numerics.arrays import EPSILON, ROUNDING, Array, richardson

_FAR = np.geomspace(1e-3, 1e12, 400)


@dataclass  # not frozen: a search makes hundreds
class Derivatives:
    """h and its partial derivatives at one point, or at many."""

    h: Any
    h_R: Any
    h_p: Any
    h_RR: Any
    h_Rp: Any
    h_pp: Any

    @functools.cached_property
    def slope(self) -> Any:
        """dR/dp along h = 0."""
        return -self.h_p / self.h_R

    @functools.cached_property
    def bend(self) -> Any:
        """d²R/dp² along h = 0."""
        slope = self.slope
        return -(self.h_pp + slope * (2 * self.h_Rp + slope * self.h_RR)) / self.h_R

    @functools.cached_property
    def fold_slope(self) -> Any:
        """d(h_R)/dp along h = 0."""
        return self.h_Rp + self.h_RR * self.slope


class Prepared:
    """An implicit transform with its law and parameters, ready to be evaluated.

    ``exact`` gives the parameters in mpmath's working precision, for more digits than floats have.
    """

    def __init__(
        self, transform: ImplicitTransform, source: Source,
        numbers: Mapping[str, float] | None = None, exact: Callable[[], list[Any]] = list,
    ) -> None:  # fmt: skip
        missing = [name for name in transform.randoms if name not in source.names]
        if missing:
            raise UsageError(f"the transform contains the random variable `{missing[0]}`, which has no law")
        self.transform, self.source, self.exact = transform, source, exact
        self.floats = [(numbers or {})[name] for name in transform.parameters]
        self._distances = transform.distances
        self._last: tuple[Any, Any] | None = None  # the point (R, p) at which the expectations are resolved
        # points of a rule stay away from where a law has nearly no weight, but a transform is singular
        # where a denominator vanishes there all the same
        self._extremes = {} if self._distances is None else source.extremes(self._distance_statics)
        self.use(source.rule())

    @np.errstate(all="ignore")
    def _distance_statics(self, values: Mapping[str, Array]) -> list[Array]:
        """Return the random parts of denominators at values of the random variables."""
        assert self._distances is not None
        return self._distances.static_values(values, self.floats)

    rule: Rule
    statics: list[Array]
    _distance_columns: list[Array]

    def use(self, rule: Rule) -> None:
        """Take another rule for the expectations."""
        self.rule = rule
        self.statics = self.transform.bundle.static_values(rule.values, self.floats)
        if self._distances is not None:
            places = (self._distance_statics(item) for item in (rule.values, rule.ends, self._extremes) if item)
            self._distance_columns = [np.concatenate(parts) for parts in zip(*places, strict=True)]

    def resolve(self, R: Any, p: Any) -> None:
        """Take a rule that is good at one point (R, p)."""
        if self.transform.bundle.statics:
            self._last = (R, p)
            self.use(self.source.rule(self._probe(R, p)))

    def _probe(self, R: Any, p: Any) -> Any:
        bundle = self.transform.bundle
        inner, _ = bundle.functions("numpy")

        def probe(values: Mapping[str, Array]) -> Array:
            size = len(next(iter(values.values())))
            columns = bundle.static_values(values, self.floats)
            with np.errstate(all="ignore"):
                bodies = np.stack([np.broadcast_to(b, (size,)) for b in inner(R, p, *self.floats, *columns)])
            return np.concatenate([bodies.real, bodies.imag]) if np.iscomplexobj(bodies) else bodies

        return probe

    def __call__(self, R: Any, p: Any) -> Derivatives:
        """Return h and its derivatives at a point or at arrays of points."""
        return Derivatives(*self.transform.bundle.evaluate(R, p, self.floats, self.statics, self.rule.weights))

    def rounding(self, R: Any, p: Any) -> tuple[float, float]:
        """Return how much h and h_R move when the law's variables are rounded: next to the edge of a law that is seen."""
        if not self.statics or not self.rule.values:
            return 0.0, 0.0
        rng, weights = np.random.default_rng(0), self.rule.weights
        shaken = {
            name: column + EPSILON / 2 * float(np.sqrt(abs(column**2 @ weights))) * rng.choice([-1.0, 1.0], column.shape)
            for name, column in self.rule.values.items()
        }
        bundle = self.transform.bundle
        statics = bundle.static_values(shaken, self.floats)
        moved, here = Derivatives(*bundle.evaluate(R, p, self.floats, statics, weights)), self(R, p)
        return 6 * float(abs(moved.h - here.h)), 6 * float(abs(moved.h_R - here.h_R))

    def distance(self, R: float, p: float) -> tuple[float, float, float]:
        """Return the smallest random denominator at a point, and its derivatives in R and p; inf without any."""
        smallest, step = (np.inf, 0.0, 0.0), 1e-6
        if self._distances is None:
            return smallest
        columns, (inner, _) = self._distance_columns, self._distances.functions("numpy")
        for index, values in enumerate(inner(R, p, *self.floats, *columns)):
            table = np.abs(np.atleast_1d(values))
            place = int(np.argmin(table))
            here = float(table[place])
            if here < smallest[0]:
                at, slopes = [column[place] for column in columns], []
                for dR, dp in ((step * (abs(R) + TINY), 0.0), (0.0, step * (abs(p) + TINY))):
                    moved = inner(R + dR, p + dp, *self.floats, *at)[index]
                    slopes.append((float(np.abs(moved)) - here) / (dR + dp))
                smallest = (here, slopes[0], slopes[1])
        return smallest

    def same_side(self, first: tuple[float, float], second: tuple[float, float]) -> bool:
        """Whether no random denominator changes its sign between two points."""
        if self._distances is None:
            return True
        inner, _ = self._distances.functions("numpy")
        tables = [inner(R, p, *self.floats, *self._distance_columns) for R, p in (first, second)]
        return all(bool(np.all(np.sign(a) == np.sign(b))) for a, b in zip(*tables, strict=True))

    def precise(self, digits: int) -> Callable[[Any, Any], Derivatives]:
        """Return the same in mpmath numbers."""
        bundle = self.transform.bundle
        numbers = self.exact()
        rule = self.precise_rule(digits)
        with mpmath.workdps(digits + GUARD):
            statics = bundle.static_values(rule.values, numbers, "mpmath")

        def function(R: Any, p: Any) -> Derivatives:
            return Derivatives(*bundle.evaluate_precise(R, p, numbers, statics, rule.weights))

        return function

    @functools.lru_cache(maxsize=2)  # noqa: B019  (a rule of many digits is expensive, and few are made)
    def precise_rule(self, digits: int) -> Rule:
        """Return the rule in mpmath numbers, on the panels of the last one."""
        return self.source.rule(self._probe(*self._last) if self._last else None, digits)


@np.errstate(all="ignore")
def refuse_unbounded(prepared: Prepared, R: float = 1e-12) -> None:
    """Raise when a random denominator vanishes for p arbitrarily far right, where R is small."""
    bundle = prepared._distances
    if bundle is None:
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
                values_at = [np.sign(inner(R, _FAR, *prepared.floats, *(c[i] for c in columns))[index]) for i in steps]
                signs = [row * np.ones_like(_FAR) for row in values_at]
                roots = np.array([np.max(_FAR[(row != sign) & (row != 0)], initial=0.0) for row in signs])
            if _without_bound(roots):
                raise SolverError(_words(prepared, denominator))


def _rightmost_roots(coefficients: Array) -> Array:
    """Return the largest real part of the roots of polynomials, nan where a coefficient overflows."""
    if len(coefficients) == 2:
        slope, constant = coefficients
        return np.where(np.isfinite(slope) & np.isfinite(constant), -constant / slope, np.nan)
    parts = []
    for column in coefficients.T:
        size = np.abs(column).max()
        if not np.isfinite(size) or size == 0:
            parts.append(np.nan)
            continue
        roots = np.roots(column / size)
        parts.append(float(roots.real.max()) if len(roots) else -np.inf)
    return np.array(parts)


def _without_bound(roots: Array) -> bool:
    """Whether a sequence grows to the end."""
    roots = roots[~np.isnan(roots)]
    if len(roots) < 5:
        return False
    last, before = roots[-1], roots[: 3 * len(roots) // 5].max()
    return bool(last > 0 and (np.isinf(last) or last >= _FAR[-1] or last > 1.2 * max(before, 0.0) + 1e-6))


@np.errstate(all="ignore")
def refuse_divergent(prepared: Prepared, points: tuple[tuple[float, float], ...]) -> None:
    """Raise when an expectation over an infinite support diverges before the end of a walk along the real axis."""
    if prepared.source.tail(prepared._probe(*points[-1])) < CONTROLS.enough:
        return
    p = next(p for R, p in points if prepared.source.tail(prepared._probe(R, p)) >= CONTROLS.enough)
    laws = ", ".join(f"`{name}` ~ {law}" for name, law in prepared.source.stated_laws().items())
    raise SolverError(
        f"the expectation over {laws} diverges to the left of about {prepared.transform.variable} = {p:.4g}, for its support "
        "is unbounded: the rate is set by the tail of the law, and is not found in this way. Write the expectation in closed "
        "form"
    )


def _words(prepared: Prepared, denominator: Denominator) -> str:
    laws = prepared.source.stated_laws()
    names = denominator.randoms
    which = " and ".join(f"`{name}`" + (f" ~ {laws[name]}" if name in laws else "") for name in names)
    other = f", or give `{names[0]}` a law of bounded support such as Uniform(0, 1)" if names[0] in laws else ""
    return (
        f"there is no finite rate: over the support of {which} the denominator `{denominator.text}` vanishes for "
        f"{prepared.transform.variable} arbitrarily far right, so that the transform is analytic in no half plane; what it "
        "stands for grows faster than any exponential, or has no mean. Write a denominator that is bounded below, as with "
        f"{names[0]}**2 in place of {names[0]}{other}"
    )


# --- Newton's method for h(R, p) = 0: branch points, poles, continuation.
def newton(
    function: Any, R: Any, p: Any, along: Literal["R", "p"] = "R", rounds: int = CONTROLS.rounds,
    enough: float = CONTROLS.enough,
) -> tuple[Any, Any, Any]:  # fmt: skip
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
        if np.all(reached | (size <= ROUNDING * abs(x) + TINY)):
            return x, finite, d
    return x, finite & (size <= 0.1 * CONTROLS.enough * abs(x)), d


def fold_newton(function: Any, R: Any, p: Any, tolerance: float = 1e-15) -> tuple[Any, Any, Any] | None:
    """Solve h = 0, h_R = 0; return the point and the size of the last step, or None."""

    def equations(R: Any, p: Any) -> tuple[Any, ...]:
        d = function(R, p)
        return d.h, d.h_R, d.h_p, d.h_R, d.h_RR, d.h_Rp

    return newton_pair(equations, R, p, tolerance)


def newton_pair(equations: Any, R: Any, p: Any, tolerance: float) -> tuple[Any, Any, Any] | None:
    """Solve two equations, given with their derivatives; return the point and the last step, or None."""
    smallest = None
    for _ in range(CONTROLS.rounds):
        f, f_R, f_p, g, g_R, g_p = equations(R, p)
        det = f_R * g_p - f_p * g_R
        if det == 0:
            return None
        dR, dp = (f * g_p - f_p * g) / det, (f_R * g - g_R * f) / det
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
    for _ in range(CONTROLS.rounds):
        S, before = S / 2, at + (guess - at) / 2
        guess, good, _ = newton(prepared, 1 / S, before, "p")
        if not good or abs(guess - before) > abs(p - at):
            return None
        values.append(guess)
    limit, spread = richardson(values, 5)  # p(S) is analytic at S = 0
    if not spread <= 1e-6 * abs(p - limit):
        return None
    try:
        same = abs(track_to(prepared, (R, p), guess) * S - 1) <= CONTROLS.rough
    except SolverError:
        same = False
    return (limit, float(spread)) if same else None


def track_to(prepared: Prepared, start: tuple[Any, Any], end: Any) -> Any:
    """Continue R along a straight line in the complex plane from (R, p) to ``end``; return R there."""
    R, p = (complex(v) for v in start)
    done, step = 0.0, 1.0
    whole = complex(end) - p
    d = prepared(R, p)
    for _ in range(CONTROLS.pieces):
        move = whole * min(step, 1.0 - done)
        guess = R + d.slope * move
        new, good, _ = newton(prepared, guess, p + move)
        reach = abs(2 * d.h_R / d.h_RR) if d.h_RR != 0 else np.inf
        near = abs(new - guess) <= 0.5 * CONTROLS.length * reach
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
