"""Complex singularities in a half plane, or a certificate that there are none, by the argument principle.

The transform is followed along horizontal rays from the far right, all rays at once, so that every
value lies on the physical sheet. On the mesh of rays and columns a cell is clean when the steps
along its sides agree with the derivative, h_R does not wind around 0, and the integral of R around
it vanishes: then R is analytic inside. In the other cells Newton's method looks for branch points
and poles, or the mesh is refined there.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from eqsolve.errors import SolverError
from eqsolve.laplace.controls import CONTROLS, TINY
from eqsolve.laplace.implicit import Prepared, fold_newton, newton, pole_limit, track_to
from eqsolve.numerics.arrays import Array


@dataclass(frozen=True)
class Region:
    """Where singularities are looked for: low ≤ Re p, |Im p| ≤ height; to the right of ``high`` there are none."""

    low: float
    high: float
    height: float


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


class Complex(NamedTuple):
    """A singularity off the real axis, on the physical sheet, in the upper half plane."""

    kind: str
    R: complex
    p: complex


@dataclass
class Mesh:
    columns: Array
    rows: Array
    R: Array
    d: Any
    steady: Array  # whether each step to a column stayed on the sheet


def survey(
    prepared: Prepared, anchor: tuple[float, float], region: Region, real: float | None, margin: float
) -> tuple[list[Complex], bool]:
    """Search the upper half of a region, from the right.

    Return the singularities off the real axis that lie as far right as ``real``, the one on it, or
    further, and whether every cell to the right of the rightmost one passed. ``anchor`` is a point
    (R, p) of the physical sheet on the real axis, right of the region; up to ``margin`` left of
    ``real`` singularities count as of equal real part.
    """
    if real is None:
        left = region.low
        columns, rows = np.linspace(region.high, left, 20), np.linspace(0.0, region.height, 14)
    else:
        left = real - margin
        columns = np.append(real + np.geomspace(region.high - real, margin, 15), left)
        rows = np.append(0.0, np.geomspace(margin, region.height, 10))
    complex_points: list[Complex] = []
    suspicious = np.zeros((0, 0), dtype=bool)
    for _ in range(CONTROLS.rounds):
        mesh = _follow(prepared, anchor, columns, rows)
        suspicious = _suspicious(mesh, real) & _open(mesh, complex_points, margin)
        known = len(complex_points)
        for j, k in np.argwhere(suspicious)[: suspicious.sum() // 2 + 1]:  # from the right
            _examine(prepared, anchor, mesh, int(j), int(k), complex_points, left)
        if len(complex_points) > known:  # the search now ends at the rightmost of them
            best = max(point.p.real for point in complex_points)
            margin = min(margin, CONTROLS.rough * min(abs(point.p) for point in complex_points))
            left = best - margin
            keep = columns[columns > best + 2 * margin]
            columns = np.concatenate([keep, [best + margin, left]])
            rows = _around(rows, [point.p.imag for point in complex_points], margin)
            continue
        if (
            not suspicious.any()
            or len(columns) * len(rows) * (1 + prepared.rule.weights.size / 200) > CONTROLS.work / CONTROLS.rounds
        ):
            break
        columns, rows = _refined(mesh, suspicious)
    best = max([point.p.real for point in complex_points] + ([] if real is None else [real]), default=-np.inf)
    rightmost = [point for point in complex_points if point.p.real >= best - 0.1 * CONTROLS.enough * max(abs(best), margin)]
    return rightmost, not suspicious[mesh.columns[1:] >= best + 0.9 * margin].any()


def _around(rows: Array, heights: list[float], margin: float) -> Array:
    """Add rows that come closer and closer to some heights, down to the margin."""
    parts = [rows]
    for height in heights:
        gap = np.abs(rows - height).min() + margin
        steps = margin * 2.0 ** np.arange(0.5, max(np.log2(4 * gap / margin), 1.0) + 0.5)
        parts += [(height + steps)[height + steps < rows[-1]], height - steps[steps < height]]
    all_rows = np.sort(np.concatenate(parts))
    return all_rows[np.concatenate([[True], np.diff(all_rows) > 1e-3 * margin])]


def _open(mesh: Mesh, complex_points: list[Complex], margin: float) -> Array:
    """Return the cells that still matter: right of the singularities found, or next to them; not those they lie in."""
    relevant = np.ones((len(mesh.columns) - 1, len(mesh.rows) - 1), dtype=bool)
    if not complex_points:
        return relevant
    best = max(point.p.real for point in complex_points)
    relevant &= (mesh.columns[:-1] > best + 0.1 * CONTROLS.enough * abs(best))[:, None]
    for point in complex_points:
        slack = 2.1 * margin
        rows = (mesh.rows[:-1] <= point.p.imag + slack) & (point.p.imag - slack <= mesh.rows[1:])
        relevant &= ~((mesh.columns[1:] <= point.p.real + 5 * margin)[:, None] & rows[None])
    return relevant


def _follow(prepared: Prepared, anchor: tuple[float, float], columns: Array, rows: Array) -> Mesh:
    """Continue R from the right along every row."""
    shape = (len(columns), len(rows))
    R, steady = np.empty(shape, dtype=complex), np.ones(shape, dtype=bool)
    derivatives: list[Any] = []
    d = prepared(*anchor)
    power = float(anchor[1] * d.slope / anchor[0]) if anchor[0] else 0.0
    p = columns[0] + 1j * rows
    current = anchor[0] * (p / anchor[1]) ** power
    for j, column in enumerate(columns):
        new_p = column + 1j * rows
        guess = current
        if j:
            move, slope = new_p[0] - p[0], derivatives[-1].slope
            share = 1 - derivatives[-1].bend * move / (2 * slope)
            far = np.abs(share)
            guess = current + move * slope / np.where((far > 0.2) & (far < 5), share, 1.0)
        value, _, d = newton(prepared, guess, new_p, enough=CONTROLS.rough**2)
        if j:
            reach = _reach(derivatives[-1], d)
            steady[j] = (np.abs(value - guess) <= CONTROLS.length * reach) & np.isfinite(value)
        R[j], p, current = value, new_p, value
        derivatives.append(d)
    return Mesh(columns, rows, R, derivatives, steady)


def _reach(*ends: Any) -> Array:
    """Return the distance to the next sheet, at the nearer of some points."""
    sizes = [np.abs(2 * d.h_R / np.where(d.h_RR == 0, TINY, d.h_RR)) for d in ends]
    return np.minimum.reduce(sizes)


def _suspicious(mesh: Mesh, real: float | None) -> Array:
    """Return which cells (between columns j, j+1 and rows k, k+1) may hold a singularity."""
    columns, rows, R = mesh.columns, mesh.rows, mesh.R
    parts = [(d.h_R + 0j, d.slope + 0j, np.abs(d.fold_slope / d.h_R), _reach(d)) for d in mesh.d]
    F, S, speed, reach = (np.array([np.broadcast_to(v, rows.shape) for v in part]) for part in zip(*parts, strict=True))
    p = columns[:, None] + 1j * rows[None]
    across, upward = np.diff(p, axis=0), np.diff(p, axis=1)

    turns, integrals, rough = [], [], []
    for axis, step in ((0, across), (1, upward)):
        ends = ((v[:-1], v[1:]) if axis == 0 else (v[:, :-1], v[:, 1:]) for v in (F, R, S, reach, speed))
        (f0, f1), (r0, r1), (s0, s1), (a0, a1), (v0, v1) = ends
        turn = np.angle(f1 / f0)
        miss = np.abs(r1 - r0 - step * (s0 + s1) / 2)
        turns.append(turn)
        integrals.append(step * (r0 + r1) / 2 + step**2 * (s0 - s1) / 12)  # the corrected trapezoidal rule
        fast = np.minimum(v0, v1) * np.abs(step) > 2.0  # h_R may turn unseen between two points
        rough.append(fast | (np.abs(turn) > math.pi / 4) | (miss > CONTROLS.length * np.minimum(a0, a1)) | ~np.isfinite(miss))
    loop = turns[0][:, :-1] + turns[1][1:] - turns[0][:, 1:] - turns[1][:-1]
    around = integrals[0][:, :-1] + integrals[1][1:] - integrals[0][:, 1:] - integrals[1][:-1]
    size = np.abs(across[:, :-1]) * np.abs(R[:-1, :-1]) + np.abs(upward[:-1]) * np.abs(R[:-1, :-1])
    bad = np.abs(loop) > 1.0
    bad |= ~(np.abs(around) <= CONTROLS.length * size + TINY)
    bad |= rough[0][:, :-1] | rough[0][:, 1:] | rough[1][:-1] | rough[1][1:]
    bad |= ~mesh.steady[1:, :-1] | ~mesh.steady[1:, 1:]
    if real is not None:  # the cell of the real singularity, and what lies behind it, say nothing
        bad[:, 0] &= columns[1:] > real
    return bad


def _examine(
    prepared: Prepared, anchor: tuple[float, float], mesh: Mesh, j: int, k: int, complex_points: list[Complex], left: float
) -> None:
    """Try Newton's method from the corners of a cell for a branch point, and for a pole."""
    width = abs(mesh.columns[j] - mesh.columns[j + 1])
    height = mesh.rows[k + 1] - mesh.rows[k]
    centre = (mesh.columns[j] + mesh.columns[j + 1]) / 2 + 0.5j * (mesh.rows[k] + mesh.rows[k + 1])
    for a, b in ((j, k), (j, k + 1), (j + 1, k), (j + 1, k + 1)):
        R, p = complex(mesh.R[a, b]), complex(mesh.columns[a] + 1j * mesh.rows[b])
        guesses, fold, d = [], fold_newton(prepared, R, p), prepared(R, p)
        if fold is not None and abs(fold[0]) <= abs(R) / CONTROLS.enough:  # else towards a pole
            guesses.append(Complex("branch point", complex(fold[0]), complex(fold[1])))
        limit = pole_limit(prepared, R, p, p + R / d.slope) if d.slope != 0 else None  # 1/R = 0
        if limit is not None and limit[1] <= CONTROLS.close * abs(limit[0]):
            guesses.append(Complex("pole", complex(np.inf), complex(limit[0])))
        for guess in guesses:
            at = guess.p
            near = abs(at.real - centre.real) <= 1.01 * width and abs(at.imag - centre.imag) <= 1.01 * height
            if not near or not 1e-9 * (abs(at) + height) < at.imag <= mesh.rows[-1] or at.real < left:
                continue
            known = any(abs(at - point.p) <= 10 * CONTROLS.enough * (abs(at) + TINY) for point in complex_points)
            if not known and _on_sheet(prepared, anchor, *guess, width + height):
                complex_points.append(guess)


def _on_sheet(prepared: Prepared, anchor: tuple[float, float], kind: str, R: complex, p: complex, size: float) -> bool:
    """Whether the transform, continued along the ray from the right, arrives at the point."""
    offset = 1e-3 * min(size, abs(p))
    corner = complex(max(anchor[1], p.real + size), p.imag)
    try:
        near = track_to(prepared, (track_to(prepared, anchor, corner), corner), p + offset)
        if kind == "pole":
            return bool(abs(track_to(prepared, (near, p + offset), p + offset / 2)) > 1.2 * abs(near))
    except SolverError:
        return False
    d = prepared(R, p)
    expected = abs(np.sqrt(-2 * d.h_p / d.h_RR * offset)) if d.h_RR != 0 else 0.0
    return abs(near - R) <= 2 * expected


def _refined(mesh: Mesh, bad: Array) -> tuple[Array, Array]:
    """Return columns and rows with the suspicious intervals halved, in the direction in which they are longer."""
    widths = np.abs(np.diff(mesh.columns))[:, None]
    heights = np.diff(mesh.rows)[None]
    wide = (bad & (widths >= 0.5 * heights)).any(axis=1)
    high = (bad & (heights >= 0.5 * widths)).any(axis=0)
    columns = np.concatenate([mesh.columns, (mesh.columns[:-1][wide] + mesh.columns[1:][wide]) / 2])
    rows = np.concatenate([mesh.rows, (mesh.rows[:-1][high] + mesh.rows[1:][high]) / 2])
    return np.sort(columns)[::-1], np.sort(rows)
