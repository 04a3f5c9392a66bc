"""`rightmost_singularity`: where an implicitly given Laplace transform is first singular, and the decay this means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import Basic, Expr, sympify

from eqsolve.errors import SolverError, UsageError
from eqsolve.language.equations import Equation
from eqsolve.laplace.axis_search import nearby, walk_real_axis
from eqsolve.laplace.candidates import Candidate, complex_candidate, real_candidate, refine, residual_of, ties
from eqsolve.laplace.expectation import as_source
from eqsolve.laplace.half_plane import Complex, Region, survey
from eqsolve.laplace.implicit import ImplicitTransform, Prepared
from eqsolve.laplace.newton import fold_newton
from eqsolve.laplace.real_axis import RealTrack

__all__ = ["Candidate", "SingularPoint", "find_singularity", "rightmost_singularity"]


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
        track = None if near is None or certify else nearby(prepared, near)
        if track is None:
            track = walk_real_axis(prepared, start, region)
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
        real = [real_candidate(prepared, track)] if track.kind else []
        others = [complex_candidate(prepared, item) for item in found]
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
            best = refine(prepared, best, precision)
            candidates[0] = best
        level = ties(candidates, tolerance)
        residual, R_error = residual_of(prepared, best, precision)
    return SingularPoint(
        best.p, best.R, best.kind, best.exponent, best.amplitude, best.error, R_error, residual,
        tuple(candidates), level, clean, box,
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


def _nothing(box: Region, certify: bool) -> str:
    where = f"Re p ≥ {box.low:.6g}" + (f", |Im p| ≤ {box.height:.6g}" if certify else " on the real axis")
    return (
        f"the transform has no singularity in the searched region {where}: it may be entire (a decay faster than any "
        "exponential), or its singularities lie further left or higher; give region=(low, height)"
    )
