"""Expectations over Gaussian processes and random constants, by sparse grids in an active subspace.

A Gaussian process on N nodes is a sum of modes. They are rotated to the principal directions of
their nonlinear effect on the unknowns (Constantine, Active Subspaces, SIAM 2015), so that few
matter, and get an anisotropic Smolyak sparse grid: sums of products of Gauss–Hermite rules
(Gerstner & Griebel, Numer. Algorithms 18, 209 (1998)), with fewer points the weaker a mode is and
the less it acts together with others. Weights may be negative. Where too many modes matter,
scrambled Sobol points are used. Atoms of discrete laws are summed exactly.
"""

import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np

from eqsolve.numerics.arrays import Array, tensor_rule
from eqsolve.numerics.backend import CPU, Backend, home_of
from eqsolve.numerics.constants import draw_constants, make_paths
from eqsolve.numerics.laws import STRATA, Component, NormalLaw, NumericLaw, SplitNormalLaw, hermite
from eqsolve.numerics.sobol import DIMENSIONS, sobol_normals

_LEAST = 1.5  # points along the first mode, at least, per unit of its strength
_EVEN = 17  # from so many points on, a mode gets evenly spaced ones
_FOLLOWED = 1e-6  # relative cut-off of the pseudo-inverse: below it round-off would be amplified
_ANGLE = 0.6  # of two modes of equal strength, in a set of other modes, in radians


@dataclass(frozen=True)
class Level:
    """How fine an expectation is."""

    accuracy: float  # combinations of modes whose contribution is estimated below it are left out
    decay: float  # a rule of n points along the strongest mode is trusted to exp(−decay √n)
    constants: int  # gauss points per random constant with a density
    most: int  # most points of a sparse grid; beyond it all modes are sampled with so many points
    seed: int = 0  # of the scrambling of sampled modes
    # 0, or the seed of an independent rule for error estimates: rotated modes, other points
    rotation_seed: int = 0
    density: int = 0  # which of `DENSITIES` the leading mode is drawn from, where modes are sampled with weights


def make_level(accuracy: float, seed: int) -> Level:
    """Return the points that go with an accuracy of expectations."""
    digits = -math.log10(accuracy)
    return Level(accuracy, 1.4, round(4 + 3 * digits), round(40 / accuracy), seed)


def refine_level(level: Level, way: str, over: float | None = None) -> Level:
    """Return a level refined by a fixed factor, or by one for an error of ``over`` tolerances.

    ``way``: "first mode" is points along the first mode, "modes" the accuracy of the sparse grid,
    "constants" Gauss nodes; else the size of the sample.
    """
    match way:
        case "first mode":
            return replace(level, decay=level.decay / (math.sqrt(2) if over is None else 2**0.25))
        case "modes":
            wide = 20.0 if level.accuracy > 1e-3 else 10.0
            factor = wide if over is None else min(max(over / 1.5, 2.0), 16.0)
            return replace(level, accuracy=level.accuracy / factor, most=round(factor * level.most))
        case "constants":
            return replace(level, constants=math.ceil(1.5 * level.constants))
    return replace(level, most=4 * level.most)


@dataclass(frozen=True)
class PointLayout:
    """How points are spread: a sparse grid given by its levels, one per mode; a sample; or a cubic design.

    ``kind`` is "sparse", "sample" (of the modes with both signs, for every value of the constants),
    "single" (the same with one sign), "draws" (a sample of modes and constants together, of fixed
    size) or "cubic"; the last is exact for polynomials of degree three in all modes together.
    """

    kind: str
    levels: tuple[tuple[int, ...], ...] = ()

    def modes(self, available: int) -> int:
        """Return the number of modes that have points at all."""
        return max((len(entry) for entry in self.levels), default=0) if self.kind == "sparse" else available

    def resolved(self, available: int) -> Array:
        """Return which modes, by decreasing strength, have more than one point."""
        if self.kind != "sparse":
            return np.ones(available, dtype=bool)
        several = {k for entry in self.levels for k, number in enumerate(entry) if number}
        return np.isin(np.arange(available), list(several))


@dataclass(frozen=True, eq=False)
class Points:
    """Quadrature points: standard normal coordinates per mode, values of constants, and weights.

    ``scales`` are the slopes of those constants that are among the modes by their coordinates, on
    every path, by name, in the order of the last modes. There are as many points for each of the
    ``values`` of all other constants together, one after the other.
    """

    normals: Array
    constants: dict[str, Array]
    weights: Array
    scales: dict[str, Array] = field(default_factory=dict)
    values: int = 1

    def on(self, put: Callable[[Any], Any]) -> "Points":
        """Return the points with their arrays where ``put`` places them."""
        constants, scales = ({name: put(value) for name, value in kind.items()} for kind in (self.constants, self.scales))
        return Points(put(self.normals), constants, put(self.weights), scales, self.values)


def factor_covariance(covariance: Array) -> Array:
    """Return L with L Lᵀ = covariance, columns by decreasing size; modes at the level of rounding are left out.

    Sizes are relative to the variance at each node: where noise falls by orders of magnitude, small
    variances that act for long are known as well as large ones.
    """
    return _modes(covariance, 1e-11)[0][:, ::-1]


def factor_followers(covariance: Array, leading: int, modes: Array, order: Array) -> Array:
    """Return the perturbation dL of the factor for processes linear in others, L dLᵀ + dL Lᵀ = dC.

    ``covariance`` holds C of the first ``leading`` rows, and below it dC/2 for each set of
    followers; ``modes`` is L of the leading rows, ``order`` sorts its columns by what they do. Of
    all dL, which differ by rotations of the modes, this is the one in which a mode changes by
    itself and by those after it alone (Cholesky's choice): what follows a weak mode, of which only
    what is linear counts, is then as weak.
    """
    basis, inverse = _modes(covariance[:leading, :leading], _FOLLOWED)
    turn = inverse.T @ modes
    first = np.linalg.qr(turn[:, order])[0]  # the modes in their order, as far as they are independent
    made = []
    for begin in range(leading, len(covariance), leading):
        change = covariance[begin : begin + leading, :leading]
        change = change + change.T
        inner = first.T @ (inverse.T @ change @ inverse) @ first
        lower = np.tril(inner, -1) + np.diag(np.diagonal(inner) / 2)
        outside = change @ inverse - basis @ (inverse.T @ change @ inverse)
        made.append((basis @ (first @ lower @ first.T) + outside) @ turn)
    return np.vstack(made)


def follow_covariance(covariance: Array, leading: int) -> Array:
    """Return the covariance of processes and of those that follow them linearly, Aᵀ C⁻¹ of the first, A their covariance.

    What is given of the latter's own is replaced.
    """
    inverse = _modes(covariance[:leading, :leading], _FOLLOWED)[1]
    followers = covariance[leading:, :leading] @ inverse
    made = covariance.copy()
    made[leading:, leading:] = followers @ followers.T
    return made


def _modes(covariance: Array, drop: float) -> tuple[Array, Array]:
    """Return modes of a covariance as columns, and the same with inverseᵀ modes = 1; those below ``drop`` are left out."""
    sizes = np.sqrt(np.abs(np.diagonal(covariance)))
    sizes = np.maximum(sizes, 1e-150 + 1e-16 * sizes.max(initial=0.0))[:, None]
    # no correlation is above one: where it is, the variance is rounding, and the row is as large as
    # its covariances tell
    sizes = sizes * np.maximum(np.abs(covariance / (sizes * sizes.T)).max(axis=1, initial=1.0), 1.0)[:, None]
    values, vectors = np.linalg.eigh((covariance + covariance.T) / (2 * sizes * sizes.T))
    kept = values > drop * max(values[-1], 1e-300)
    kept[-1] = True
    roots, vectors = np.sqrt(np.maximum(values[kept], 1e-300)), vectors[:, kept]
    return sizes * vectors * roots, vectors / roots / sizes


@dataclass(eq=False)
class Factor:
    """The lower factor of a covariance, grown row by row; a variance that the past fixes up to rounding gets no coordinate."""

    rows: Array
    known: int = 0

    def row(self, covariance: Array) -> Array:
        """Return the next row for the covariances with all before and the variance; ``keep`` keeps it."""
        from scipy.linalg.lapack import dtrtrs

        n = self.known
        made = np.zeros(n + 1)
        if n:
            made[:n] = dtrtrs(self.solvable.T, covariance[:n], lower=0, trans=1)[0]
        left = float(covariance[n] - made[:n] @ made[:n])
        # of a variance: what is left of it, given the past, counts as nothing below this
        made[n] = math.sqrt(left) if left > 1e-10 * abs(float(covariance[n])) else 0.0
        return made

    def keep(self, row: Array) -> None:
        self.rows[self.known, : len(row)] = row
        self.known += 1

    @property
    def lost(self) -> Array:
        return np.diagonal(self.rows)[: self.known] == 0

    @property
    def solvable(self) -> Array:
        """The factor with infinite pivots where there is no coordinate: these solve to zero."""
        whole = self.rows[: self.known, : self.known]
        lost = self.lost
        if lost.any():
            whole = whole.copy()
            whole[lost, lost] = np.inf
        return whole


def align(factor: Array, previous: Array) -> Array:
    """Return orthogonal combinations of modes, as many as previous ones and as close to them as possible.

    An iteration is then continuous, also where modes of all sizes go on beyond the previous ones.
    Distances are relative to the standard deviation at each node, as the sizes of modes are.
    """
    scale = np.linalg.norm(factor, axis=1)
    scale = np.maximum(scale, 1e-150 + 1e-16 * scale.max(initial=0.0))[:, None]
    left, _, right = np.linalg.svd((factor / scale).T @ (previous / scale), full_matrices=False)
    return np.asarray(factor @ (left @ right))


def rotate(factor: Array, quadratic: Array) -> tuple[Array, Array]:
    """Rotate modes to the eigenvectors of a quadratic form in them; return them with the roots of the eigenvalues."""
    values, vectors = np.linalg.eigh((quadratic + quadratic.T) / 2)
    rotated = factor @ vectors[:, ::-1]
    signs = np.sign(rotated[np.abs(rotated).argmax(axis=0), np.arange(rotated.shape[1])])
    return rotated * np.where(signs == 0, 1.0, signs), np.sqrt(np.maximum(values[::-1], 0.0))


def rotate_at_random(strengths: Array, seed: int) -> tuple[Array, Array]:
    """Return a random rotation of modes against each other, and the strengths after it, which decrease.

    Two modes turn by about the ratio of their strengths, so that no strength grows much.
    """
    count = len(strengths)
    first = np.argsort(-strengths, kind="stable")
    sizes = strengths[first]
    rng = np.random.default_rng(seed)
    drawn = rng.choice((-1.0, 1.0), (count, count)) * rng.uniform(0.5, 1.0, (count, count))
    ratios = sizes[None, :] / np.maximum(sizes[:, None], 1e-300)
    turned = np.triu(_ANGLE * drawn * ratios / np.sqrt(np.maximum(np.arange(count), 1)), 1)
    half = (turned - turned.T) / 2
    rotation = np.linalg.solve(np.eye(count) - half, np.eye(count) + half)
    mixed = np.sqrt((rotation.T**2) @ sizes**2)
    order = np.argsort(-mixed, kind="stable")
    return np.eye(count)[:, first] @ rotation[:, order], mixed[order]


@functools.lru_cache(maxsize=128)
def _rule(order: int, accuracy: float) -> tuple[Array, Array]:
    """Return a rule for a standard normal: Gauss–Hermite, or evenly spaced points, better where integrands bend."""
    if order < _EVEN:
        return hermite(order)
    reach = np.sqrt(-2 * np.log(1e-3 * accuracy))
    nodes = np.linspace(-reach, reach, order)
    weights = np.exp(-(nodes**2) / 2)
    return nodes, weights / weights.sum()


# points along the strongest mode: 1, 3, 5, 7, then one more than 2ᵏ and 3·2ᵏ⁻¹
_ALONG = (1, 3, 5, 7, *(many * 2**k + 1 for k in range(2, 9) for many in (2, 3)))


def lay_out(strengths: Sequence[float], level: Level) -> PointLayout:
    """Return the sparse grid for modes of given strengths: every combination that may contribute the accuracy.

    A strength is the size of what is not linear in a mode; the first always gets some points, so
    that what is not linear is seen. Averaged along a strong first mode, what the others do is
    smooth, however steep it was; but where they move a kink by more than the spacing along it, that
    spacing has to be as fine as without them.
    """
    first = strengths[0] if len(strengths) else 0.0
    scales = [min(strength, 0.9 * math.sqrt(1 + first**2 / 2)) / math.sqrt(1 + first**2 / 2) for strength in strengths[1:]]
    effects = [scale**2 for scale in scales if scale**2 >= level.accuracy]
    if len(effects) > min(level.most // 3, _DEEP):  # three points in each of them alone are too many
        return PointLayout("sample")
    moving = 1 + 2 * first**2
    least = next(place for place, count in enumerate(_ALONG) if count >= min(_LEAST * first, 33))
    chosen: list[tuple[int, ...]] = []
    total = 0

    def gain(effect: float, number: int) -> float:
        further = 2 * (number - 1)
        return effect * min(effect**further, math.exp(-2 * math.sqrt(further))) if 0 < number < len(_ALONG) else number == 0

    for rest in _combinations(effects, level.accuracy, gain):  # each with all that it needs along the first mode
        moved = math.prod(min(1.0, moving * effects[place]) for place, number in enumerate(rest) if number)
        others = math.prod(2 * number + 1 for number in rest)
        while rest and rest[-1] == 0:
            rest = rest[:-1]
        for number in range(least, len(_ALONG)):
            unresolved = moved * math.exp(-level.decay * math.sqrt(_ALONG[number - 1] - 1.0))
            if number > least and unresolved < level.accuracy:
                break
            chosen.append((number, *rest))
            total += others * _ALONG[number]
        if total > level.most:
            return PointLayout("sample")
    return PointLayout("sparse", tuple(chosen))


def _combinations(effects: Sequence[float], accuracy: float, gain: Callable[[float, int], float]) -> Iterator[tuple[int, ...]]:
    """Yield the levels of modes by decreasing effect whose contribution, the product of their gains, reaches the accuracy."""

    def grow(entry: tuple[int, ...], weight: float) -> Iterator[tuple[int, ...]]:
        if len(entry) == len(effects) or (effect := effects[len(entry)]) * weight < accuracy:
            yield entry
            return
        number = 0
        while (more := weight * gain(effect, number)) >= accuracy:
            yield from grow((*entry, number), more)
            number += 1

    return grow((), 1.0)


def make_points(
    modes: int, layout: PointLayout, laws: dict[str, NumericLaw], level: Level, given: tuple[Array, Array] | None = None,
    backend: Backend = CPU,
) -> Points:  # fmt: skip
    """Return points for modes by decreasing strength and for the random constants, all independent.

    Where modes are sampled, Gaussian constants are too, first. Coordinates along the modes may be
    ``given``, with weights. Large samples are made where the ``backend`` is.
    """
    drawn: dict[str, Array] = {}
    match "given" if given else layout.kind:
        case "given":
            assert given is not None
            normals, weights = given
        case "draws":
            return _draw(modes, laws, level)
        case "sample" | "single":
            gaussian = [(item, law) for item, law in laws.items() if is_gaussian(law)]
            sampled = _sample if layout.kind == "sample" else _sample_defensively
            normals, weights = sampled(len(gaussian) + modes, level, backend)
            drawn = {item: law.mean + math.sqrt(law.variance) * x for (item, law), x in zip(gaussian, normals, strict=False)}
            normals, laws = normals[len(gaussian) :], {item: law for item, law in laws.items() if item not in drawn}
        case "cubic":
            normals = _cubic(modes)
            weights = np.full(normals.shape[1], 1 / normals.shape[1])
        case _:
            normals, weights = _sparse(modes, layout, level)
    # a Gaussian constant with a rule of its own is one in which something jumps, as a rule at its
    # mean
    laws = {item: SplitNormalLaw(law.mean, law.variance) if is_gaussian(law) else law for item, law in laws.items()}
    order = 2 if layout.kind == "cubic" else level.constants + (1 + level.rotation_seed % 2 if level.rotation_seed else 0)
    constants = make_paths(laws, [dict.fromkeys(laws, order)])
    count = len(constants.weights)
    put = home_of(weights).put
    ruled = {item: put(np.repeat(values, len(weights))) for item, values in constants.values.items()}
    return Points(
        np.tile(normals, count),
        ruled | {item: np.tile(values, count) for item, values in drawn.items()},
        (put(constants.weights)[:, None] * weights).ravel(),
        values=count,
    )


def is_gaussian(law: NumericLaw) -> TypeGuard[NormalLaw]:
    """Whether a constant is drawn like a mode where modes are sampled."""
    return isinstance(law, NormalLaw) and law.variance > 0


def _draw(modes: int, laws: dict[str, NumericLaw], level: Level) -> Points:
    """Return as many points as the level has at most, modes and constants drawn together; few atoms are all there."""
    few = {item: law for item, law in laws.items() if not law.has_density}
    counts = [len(law.table) if isinstance(law, Component) else len(law.atoms_of()) for law in few.values()]
    combined = make_paths(few, [{}]) if math.prod(counts) <= STRATA else None
    values, mass = (combined.values, combined.weights.ravel()) if combined else ({}, np.ones(1))
    normals, _ = _sample(modes, replace(level, most=max(2, level.most // len(mass))), CPU, both=False)
    count = normals.shape[1] * len(mass)
    constants = {item: np.repeat(value, normals.shape[1]) for item, value in values.items()}
    rng = np.random.default_rng((level.seed, 2))
    constants |= draw_constants({item: law for item, law in laws.items() if item not in constants}, count, rng)
    return Points(np.tile(normals, len(mass)), constants, np.repeat(mass, normals.shape[1]) / normals.shape[1])


def _sparse(modes: int, layout: PointLayout, level: Level) -> tuple[Array, Array]:
    """Return the combination of product rules that a sparse grid is; shapes (modes, points) and (points,)."""
    used = min(layout.modes(modes), modes)
    if used == 0:
        return np.zeros((modes, 1)), np.ones(1)
    points, weights = _combined(used, layout, level.accuracy, level.rotation_seed)
    normals = np.zeros((modes, len(weights)))
    normals[:used] = points
    return normals, weights


_DEEP = sys.getrecursionlimit() // 2  # dimensions in which sparse grids are built, by recursion
_MOST_LINES = 2000  # entries of their sparse grid: 34,000 paths or more


def star(modes: int) -> tuple[Array, Array]:
    """Return a centre and two points along every mode, with weights that are exact for polynomials of degree three."""
    points = np.zeros((modes, 1 + 2 * modes))
    points[np.repeat(np.arange(modes), 2), 1 + np.arange(2 * modes)] = np.tile([-math.sqrt(3), math.sqrt(3)], modes)
    return points, np.append(1 - modes / 3, np.full(2 * modes, 1 / 6))


def spread_lines(effects: Array, accuracy: float) -> tuple[Array, Array] | None:
    """Return where lines along a leading mode stand in the other modes, and their weights; None where there are too many.

    ``effects`` tell how much three points along each of the others change an average. What is
    integrated along the lines is smooth in them: 2n further points are taken to gain effectⁿ. Every
    combination that may contribute the accuracy is there.
    """
    effects = np.minimum(effects, 0.5)
    order = np.argsort(-effects, kind="stable")
    if np.count_nonzero(effects >= accuracy) > _DEEP:
        return None
    found = _combinations(effects[order].tolist(), accuracy, lambda effect, number: effect**number)
    chosen = [(0, *entry) for entry in itertools.islice(found, _MOST_LINES + 1)]
    if len(chosen) > _MOST_LINES:
        return None
    used = max(map(len, chosen))
    points, weights = _combined(used, PointLayout("sparse", tuple(chosen)), accuracy, 0)
    others = np.zeros((len(order), len(weights)))
    others[order[: used - 1]] = points[1:]
    return others, weights


@functools.lru_cache(maxsize=32)  # every start of a solve asks for the same few
def _combined(used: int, layout: PointLayout, accuracy: float, twist: int) -> tuple[Array, Array]:
    """Return the points and weights of a sparse grid in its own modes, all of which are used."""
    amounts = {entry[:used] + (0,) * (used - len(entry)): 1 for entry in layout.levels}
    for mode in range(used):
        amounts = {
            entry: amount - amounts.get((*entry[:mode], entry[mode] + 1, *entry[mode + 1 :]), 0)
            for entry, amount in amounts.items()
        }
    points, weights = [], []
    for entry, amount in amounts.items():
        if amount == 0:
            continue
        along = _ALONG[entry[0]] + (1 + twist % 3 if twist and entry[0] else 0)
        counts = [along, *(2 * number + 1 + (twist % 2 if number else 0) for number in entry[1:])]
        columns, product = tensor_rule([_rule(count, accuracy) for count in counts])
        points.append(np.array(columns))
        weights.append(amount * product)
    whole, mass = np.hstack(points), np.concatenate(weights)
    keys, first, inverse = np.unique(np.round(whole, 10) + 0.0, axis=1, return_index=True, return_inverse=True)
    merged = np.bincount(inverse.reshape(-1), weights=mass, minlength=keys.shape[1])
    keep = np.abs(merged) > 1e-3 * accuracy * np.abs(merged).max()
    normals = whole[:, first][:, keep]
    mass = merged[keep] / merged[keep].sum()
    several = layout.resolved(used)
    normals[several] /= np.sqrt((normals[several] ** 2) @ mass)[:, None]  # what was left out has no part in the variance
    return normals, mass


def _cubic(modes: int) -> Array:
    """Return ± patterns with zero first and third moments and unit covariance, shape (modes, points)."""
    if modes == 0:
        return np.zeros((0, 1))
    from scipy.linalg import hadamard

    matrix = hadamard(1 << (modes - 1).bit_length(), dtype=float)[:modes]
    return np.hstack([matrix, -matrix])


def _sample(modes: int, level: Level, backend: Backend, *, both: bool = True) -> tuple[Array, Array]:
    """Return a sample of all modes: quasi-random along the first, random along the rest.

    ``both`` uses each point with both signs; a function that is even in the modes gains nothing by
    it.
    """
    half = max(1, level.most // 2 if both else level.most)
    sample = sample_normals(half, modes, level.seed + 1_000_003 * level.rotation_seed, backend, centred=not both)
    if not both:
        return sample, backend.full(1 / half, (half,))
    return np.hstack([sample, -sample]), backend.full(0.5 / half, (2 * half,))


# Densities of the leading mode, shares and deviations of normals: for paths that matter in the
# tails and at the centre, and for those that matter in the tails
DENSITIES = (((0.5, 1.0), (0.35, 2.2), (0.15, 0.3)), ((0.05, 1.0), (0.95, 1.8)))
_TABLE = np.linspace(-8.5, 8.5, 4001)


def _sample_defensively(modes: int, level: Level, backend: Backend) -> tuple[Array, Array]:
    """Return a quasi-random sample of all modes, the leading one drawn from a mixture of normals, and the weights.

    Defensive importance sampling (Hesterberg, Technometrics 37, 185 (1995),
    doi:10.1080/00401706.1995.10484303): the normal law itself is one part of the mixture, so that
    no weight is above two, whatever is averaged.
    """
    from scipy.special import ndtr

    sample = sample_normals(level.most, modes, level.seed + 1_000_003 * level.rotation_seed, backend)
    if not modes:
        return sample, backend.full(1 / level.most, (level.most,))
    parts = DENSITIES[level.density]
    cumulative = sum(share * ndtr(_TABLE / deviation) for share, deviation in parts)
    first = np.interp(ndtr(sample[0]), backend.put(cumulative), backend.put(_TABLE))
    density = sum(share / deviation * np.exp(-(first**2) / 2 * (1 / deviation**2 - 1)) for share, deviation in parts)
    sample[0], weights = first, 1 / density
    return sample, weights / weights.sum()


def sample_normals(count: int, modes: int, seed: int, backend: Backend = CPU, *, centred: bool = True) -> Array:
    """Return ``count`` points of standard normals of unit variance in the sample, shape (modes, points)."""
    first = min(modes, DIMENSIONS)
    rest = np.random.default_rng((seed, 1)).standard_normal((modes - first, count))
    sample = np.vstack([sobol_normals(count, first, seed, backend), backend.put(rest)])
    if centred:
        sample -= sample.mean(axis=1, keepdims=True)
    sample /= np.sqrt((sample**2).mean(axis=1, keepdims=True)) + 1e-300
    return sample
