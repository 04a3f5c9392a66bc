"""What the paths of one sample are driven by, with as little chance in it as can be.

Constants with few values are not drawn: every combination of them has paths of its own, weighted by
its probability, with the same noises. Normal coordinates come with both signs, those of leading
modes are scrambled Sobol points, and all of them are made uncorrelated with unit variance, block by
block of the points: means of polynomials of second degree are then exact. Draws with few values get
their shares at every step, and nearly so among paths whose first coordinates are alike. Where the
past acts through one number, normals that are independent of it are drawn in its order.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.constants import draw_constants
from eqsolve.numerics.laws import STRATA, Component, NumericLaw, parts_of
from eqsolve.numerics.sobol import DIMENSIONS, sobol_normals

_PAST = 6  # last values of a telegraph signal by which its paths are told apart
_NEIGHBOUR_COORDINATES = 3  # first coordinates by which paths are told to be neighbours
_FEW = 16  # neighbours among which draws have their shares


@dataclass(frozen=True)
class Chain:
    """A telegraph signal: 1 with probability ``share``, and what is left of its memory after one step."""

    share: float
    memory: float


@dataclass(frozen=True, eq=False)
class StepsSample:
    """Weights of the paths, constants by name, coordinates (noises × nodes, paths) by group, draws (nodes, paths) by name.

    ``some`` are the places of the paths of which responses are followed, a sample as even as all;
    ``fresh`` are values and probabilities of what is drawn afresh at every node and has few values;
    ``seed`` is for what is drawn on the way, in the order of the paths if they are ``ordered``.
    """

    weights: Array
    some: Array
    constants: Mapping[str, Array]
    groups: tuple[Array, ...]
    drawn: Mapping[str, Array]
    fresh: Mapping[str, list[tuple[float, float]]]
    seed: int
    ordered: bool


def strata(names: Sequence[str], laws: Mapping[str, NumericLaw]) -> tuple[list[str], list[tuple[tuple[float, ...], float]]]:
    """Return the constants that are not drawn, and the combinations of their values with their probabilities."""
    chosen: list[str] = []
    made: list[tuple[tuple[float, ...], float]] = [((), 1.0)]
    for name in names:
        law = laws[name]
        if isinstance(law, Component) or law.has_density:
            continue
        atoms = [(value, mass) for value, mass in law.atoms_of() if mass > 0]
        if len(made) * len(atoms) <= STRATA:
            chosen.append(name)
            made = [((*values, value), mass * share) for values, mass in made for value, share in atoms]
    return chosen, made


def draw(
    constants: Sequence[str], laws: Mapping[str, NumericLaw], groups: Sequence[int],
    drawn: Mapping[str, NumericLaw | Chain], nodes: int, paths: int, share: float, seed: Any,
    turns: Sequence[Array | None] = (), ordered: bool = False,
) -> StepsSample:  # fmt: skip
    """Return a sample of about so many paths; ``groups`` are how many noises are driven together, group by group.

    ``share`` is that of the paths of which responses are followed; ``turns`` are orthogonal
    matrices whose columns are the modes of a group in time, those that matter most first.
    """
    rng = np.random.default_rng(seed)
    fixed, cells = strata(constants, laws)
    half = max(8, paths // (2 * len(cells)))
    others = {name: laws[name] for name in constants if name not in fixed}
    smooth = {name: parts[0] for name, law in others.items() if len(parts := parts_of(law)) == 1}
    shapes = [(count, nodes) for count in groups]
    block = max(8, math.ceil(half * share))
    first, rows = _coordinates(len(smooth), shapes, half, block, turns or [None] * len(shapes), rng)
    signed = [np.concatenate([item, -item], axis=-1) for item in rows]
    values = {name: part.at(signed[0][place])[0] for place, (name, part) in enumerate(smooth.items())}
    rest = {name: law for name, law in others.items() if name not in smooth}
    values |= {name: np.tile(item, 2) for name, item in draw_constants(rest, half, rng, "exact").items()}
    many = len(cells)
    made = {name: np.tile(item, many) for name, item in values.items()}
    for place, name in enumerate(fixed):
        made[name] = np.repeat([cell[0][place] for cell in cells], 2 * half)
    weights = np.repeat([cell[1] / (2 * half) for cell in cells], 2 * half)
    pieces = [neighbours(sign * first[:, begin : begin + block]) for sign in (1, -1) for begin in range(0, half, block)]
    signals = {
        name: np.concatenate([_signals(law, nodes, near, rng) for _ in range(many) for near in pieces], axis=1)
        for name, law in drawn.items()
    }
    some = np.add.outer(np.arange(2 * many) * half, np.arange(block)).ravel()
    fresh = {name: law.atoms_of() for name, law in drawn.items() if not isinstance(law, Chain) and not law.has_density}
    noises = tuple(np.tile(item, (1, many)) for item in signed[1:])
    return StepsSample(weights, some, made, noises, signals, fresh, int(rng.integers(1 << 31)), ordered)


def _coordinates(
    constants: int, shapes: Sequence[tuple[int, int]], half: int, block: int, turns: Sequence[Array | None],
    rng: np.random.Generator,
) -> tuple[Array, list[Array]]:  # fmt: skip
    """Return standard normals, uncorrelated to rounding over every ``block`` of paths.

    First the few rows that were drawn first, of leading modes; then (constants, paths), and by
    group of noises (noises × nodes, paths).
    """
    from scipy.fft import idct
    from scipy.linalg import cholesky, solve_triangular

    order = [(-1, place, 0) for place in range(constants)]
    longest = max((size for _, size in shapes), default=0)
    order += [
        (part, row, k) for k in range(longest) for part, (count, size) in enumerate(shapes) for row in range(count) if k < size
    ]
    table = rng.standard_normal((len(order), half))
    quasi = min(len(order), DIMENSIONS)
    table[:quasi] = sobol_normals(half, DIMENSIONS, int(rng.integers(1 << 31)))[:quasi]
    for begin in range(0, half, block):
        piece = table[:, begin : begin + block]
        if len(order) < piece.shape[1] // 2:
            factor = cholesky(piece @ piece.T / piece.shape[1], lower=True)
            table[:, begin : begin + block] = solve_triangular(factor, piece, lower=True)
    made = [np.zeros((max(constants, 1), half))]
    made += [np.zeros((count, size, half)) for count, size in shapes]
    for (part, row, k), values in zip(order, table, strict=True):
        if part < 0:
            made[0][row] = values
        else:
            made[part + 1][row, k] = values
    turned = [  # modes in time; as independent as before
        idct(item, axis=1, norm="ortho") if turn is None else np.einsum("jk,akp->ajp", turn, item, optimize=True)
        for item, turn in zip(made[1:], turns, strict=True)
    ]
    return table[:_NEIGHBOUR_COORDINATES], [made[0], *(item.transpose(1, 0, 2).reshape(-1, half) for item in turned)]


def neighbours(rows: Array) -> Array:
    """Return the cell number of each path: cells hold a few paths that are similar in all rows."""
    count, size = rows.shape
    cells, total = np.zeros(size, dtype=int), 1
    split = max(1, round((size / _FEW) ** (1 / count))) if count else 1
    for row in rows:
        total *= split
        cells[np.lexsort((row, cells))] = np.arange(size) * total // size
    return cells


def _signals(law: NumericLaw | Chain, nodes: int, cells: Array, rng: np.random.Generator) -> Array:
    """Return the values of a noise at all nodes, independent from node to node; ``cells`` are those of neighbours."""
    size = len(cells)
    if isinstance(law, Chain):
        return telegraph(law, nodes, cells, rng)
    if law.has_density:
        return np.array([law.sample(rng, size) for _ in range(nodes)])
    atoms = law.atoms_of()
    values, edges = np.array([value for value, _ in atoms]), np.cumsum([mass for _, mass in atoms])[:-1]
    return np.array([values[np.searchsorted(edges, _even(cells, rng), side="right")] for _ in range(nodes)])


def _even(cells: Array, rng: np.random.Generator) -> Array:
    """Return uniform numbers, spread evenly over all paths and over any few that follow each other in the order of cells."""
    size = len(cells)
    stride = next(n for n in range(round(0.618 * size), 0, -1) if math.gcd(n, size) == 1) if size > 1 else 1
    made = np.empty(size)
    place = (np.arange(size) * stride + rng.integers(size)) % size
    made[_shuffled(cells, rng)] = (place + rng.random()) / size
    return made


def _shuffled(cells: Array, rng: np.random.Generator) -> Array:
    """Return the order of cells, at random within each."""
    return np.argsort(cells + rng.random(len(cells)))


def telegraph(law: Chain, nodes: int, cells: Array, rng: np.random.Generator) -> Array:
    """Return telegraph signals: in every step the old value stays with probability ``memory``, else it is drawn again.

    Of the paths with the same last values, a few steps back, the shares that go to 1 are those of
    the law, up to one path, and nearly so among neighbours.
    """
    made = np.empty((nodes, len(cells)))
    made[0] = _share(np.full(len(cells), law.share), cells, rng)
    for node in range(1, nodes):
        again = (1 - law.memory) * law.share
        chance = again + law.memory * made[node - 1]
        past = 2.0 ** np.arange(min(node, _PAST)) @ made[max(0, node - _PAST) : node]
        made[node] = _share(chance, past * (cells.max() + 1) + cells, rng)
    return made


def _share(chance: Array, cells: Array, rng: np.random.Generator) -> Array:
    """Return 1 with probability ``chance``, else 0, for every path, by systematic sampling in the order of cells."""
    order = _shuffled(cells, rng)
    steps = np.cumsum(chance[order]) + rng.random()  # systematic: a one wherever the sum passes an integer
    made = np.empty(len(chance))
    made[order] = np.diff(np.floor(steps), prepend=np.floor(steps[0] - chance[order[0]]))
    return made


def normals_along(states: Array, seed: int) -> Array:
    """Return standard normals, spread evenly over all paths and over any that follow each other in the order of their states.

    With states of one number the error of means is nearly 1/paths: array-RQMC (L'Ecuyer, Lécot &
    Tuffin, Oper. Res. 56, 958 (2008), doi:10.1287/opre.1080.0556), by van der Corput's sequence
    with a random digital shift.
    """
    from scipy.special import ndtri

    rng, size = np.random.default_rng(seed), len(states)
    digits = max(1, (size - 1).bit_length())
    places = np.arange(size)
    reverse = sum((places >> k & 1) << digits - 1 - k for k in range(digits))
    made = np.empty(size)
    made[np.argsort(states, kind="stable")] = ((reverse ^ rng.integers(1 << digits)) + rng.random(size)) / (1 << digits)
    return ndtri(made)
