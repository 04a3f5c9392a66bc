"""Lines through the space of random variables, along which expectations are integrals over one Gaussian.

With several Gaussians the lines run in the direction in which what is integrated is not a polynomial; across it few
Gauss–Hermite nodes are exact. Where there is no such direction, many are taken.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.quadrature_laws import Branch

__all__ = ["Integrands", "Rows", "make_rows", "node_arguments", "rows_along", "stacked"]

_DRAWS = 48  # points at which the gradient of a variable is looked at


class Integrands(Protocol):
    """Integrands of Gaussian variables and points, as functions of arrays: what a compiled fixed point offers.

    Arguments are parameters, unknowns, standard normal variables, random constants, and one value per stage: the root of an
    increasing function, or the sign of a switch. Between zeros of switches everything is smooth.
    """

    normals: tuple[str, ...]
    constants: tuple[str, ...]
    means: int  # how many integrands there are
    is_switch: tuple[bool, ...]  # what each stage is
    switches: tuple[int, ...]  # the places of the switches among the stages
    linear: tuple[bool, ...]  # which switches are linear in the random variables
    combinations: tuple[list[tuple[int, ...]], ...]  # the signs that the switches inside each switch may take
    carriers: int  # how many linear forms the integrands are functions of
    aligned: bool  # whether they are polynomials besides
    degree: int  # of these polynomials

    def piece(self, what: str, *detail: Any) -> Callable[..., list[Any]]:
        """Return one of the functions, by what it gives."""

    def run_stages(
        self, arguments: list[Any], size: int, signs: Sequence[Array] | None = None, *,
        unknowns: Array | None = None, owner: Array | None = None, rough: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Return all arguments, the values of the stages included."""


@dataclass(frozen=True)
class Rows:
    """Lines through the space of random variables; along each the expectation is an integral over one Gaussian.

    A random variable at x on a row is mean + scale × (base + direction × x). Where the direction is zero, the row is a
    single point. ``owner`` is the place of the row's unknowns among those evaluated together. ``exact`` says that
    nothing was left to the number of nodes across.
    """

    weight: Array
    mean: Array
    scale: Array
    base: Array
    direction: Array
    owner: Array
    exact: bool

    @property
    def turned(self) -> bool:
        """Whether directions depend on the unknowns: with several Gaussians they follow the integrands' own."""
        return bool(self.base.any())

    @property
    def is_point(self) -> Array:
        return np.asarray(~self.direction.any(axis=1))


def make_rows(plan: Integrands, parts: Sequence[Branch], parameters: Sequence[float], unknowns: Array, outer: int) -> Rows:
    """Return the rows for several sets of unknowns (one per column), turned to suit the plan's integrands.

    Across the lines are ``outer`` nodes where integrands may be anything. Where they are polynomials there are as few as
    are exact for them and for their derivatives, whose degree may be larger by one.
    """
    count = unknowns.shape[1]
    pieces, exact = [], True
    for part in parts:
        probability, mean, scale, active = _gaussians(plan, part)
        exact = exact and part.exact
        if len(active) < 2:
            made = _straight(mean, active, count)
        else:
            first, aligned = _forms_direction(plan, parameters, unknowns, mean, scale, active)
            made = _across(first, len(mean), active, max(2, plan.degree // 2 + 1) if aligned else outer)
            exact = exact and aligned
        pieces.append((probability, mean, scale, *made))
    return _joined(pieces, count, exact)


def rows_along(
    plan: Integrands, parts: Sequence[Branch], parameters: Sequence[float], unknowns: Array, name: str, outer: int | None
) -> Rows:
    """Return the rows for one set of unknowns, turned along the gradient of a variable where that has one direction.

    Everything that is a function of the variable is then constant across, and ``outer=None`` takes one node there.
    Where the gradient turns, the direction is that of the plan's integrands, with many nodes across.
    """
    pieces, exact = [], True
    for part in parts:
        probability, mean, scale, active = _gaussians(plan, part)
        exact = exact and part.exact
        if len(active) < 2:
            made = _straight(mean, active, 1)
        else:
            first = _gradient_direction(plan, parameters, unknowns, mean, scale, active, name)
            nodes = outer or 1
            if first is None:
                first, _ = _forms_direction(plan, parameters, unknowns, mean, scale, active)
                exact, nodes = False, outer or 96
            made = _across(first, len(mean), active, nodes)
        pieces.append((probability, mean, scale, *made))
    return _joined(pieces, 1, exact)


def _gaussians(plan: Integrands, part: Branch) -> tuple[float, Array, Array, Array]:
    """Return probability, means and deviations of all random variables in a branch, and which of them are Gaussian."""
    normals = len(plan.normals)
    probability, means, deviations = part.numbers
    mean = np.concatenate([np.zeros(normals), means])
    scale = np.concatenate([np.ones(normals), deviations])
    return probability, mean, scale, np.flatnonzero(scale > 0)


def _straight(mean: Array, active: Array, count: int) -> tuple[Array, Array, Array]:
    base, direction = np.zeros((count, 1, len(mean))), np.zeros((count, 1, len(mean)))
    direction[:, :, active] = 1.0
    return base, direction, np.ones(1)


def _joined(pieces: list[tuple[Any, ...]], count: int, exact: bool) -> Rows:
    table: list[list[Array]] = [[] for _ in range(6)]
    for probability, mean, scale, base, direction, weights in pieces:
        lines, width = base.shape[1], len(mean)
        total = count * lines
        entries = (
            np.tile(probability * weights, count),
            np.broadcast_to(mean, (total, width)),
            np.broadcast_to(scale, (total, width)),
            base.reshape(total, width),
            direction.reshape(total, width),
            np.repeat(np.arange(count), lines),
        )
        for column, entry in zip(table, entries, strict=True):
            column.append(entry)
    weight, mean, scale, base, direction, owner = (np.concatenate(column) for column in table)
    return Rows(weight, mean, scale, base, direction, owner, exact)


def _forms_direction(
    plan: Integrands, parameters: Sequence[float], unknowns: Array, mean: Array, scale: Array, active: Array
) -> tuple[Array, bool]:
    """Return the direction along which the integrands are not polynomials, and whether it is the only one."""
    count, width, dims = unknowns.shape[1], len(mean), len(active)
    first = np.zeros((count, dims))
    first[:, 0] = 1.0
    if not plan.carriers:
        return first, plan.aligned
    arguments = [*parameters, *unknowns, *mean, *([0.0] * len(plan.is_switch))]
    found = np.array([np.broadcast_to(entry, (count,)) for entry in plan.piece("directions")(*arguments)], dtype=float)
    gradients = found.reshape(plan.carriers, width, count).transpose(2, 0, 1)[:, :, active] * scale[active]
    length = np.linalg.norm(gradients, axis=2, keepdims=True)
    unit = gradients / np.where(length > 0, length, 1.0)
    place = np.argmax(length[:, :, 0], axis=1)
    some = length[np.arange(count), place, 0] > 0
    first = np.where(some[:, None], unit[np.arange(count), place], first)
    across = 1 - np.abs(np.einsum("cfd,cd->cf", unit, first))
    return first, plan.aligned and bool((across[length[:, :, 0] > 0] < 1e-10).all())


def _gradient_direction(
    plan: Integrands, parameters: Sequence[float], unknowns: Array, mean: Array, scale: Array, active: Array, name: str
) -> Array | None:
    """Return the direction of a variable's gradient if it is the same wherever it was looked at."""
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(active))) * np.geomspace(0.3, 6, _DRAWS)[:, None]
    values = np.tile(mean, (_DRAWS, 1))
    values[:, active] += scale[active] * draws
    with np.errstate(all="ignore"):
        given = [*parameters, *unknowns[:, 0], *values.T]
        full = plan.run_stages(given, _DRAWS, unknowns=unknowns, owner=np.zeros(_DRAWS, dtype=int))
        slopes = stacked(plan.piece("variable slopes", name)(*full), _DRAWS)[active].T * scale[active]
    length = np.linalg.norm(slopes, axis=1)
    good = np.isfinite(length) & (length > 0)
    if not good.any():
        return None
    unit = slopes[good] / length[good][:, None]
    same = np.abs(unit @ unit[0]) > 1 - 1e-10
    return unit[:1] if same.all() else None


def _across(first: Array, width: int, active: Array, order: int) -> tuple[Array, Array, Array]:
    """Return bases, directions and weights of lines along ``first``, on Gauss–Hermite nodes in the other directions."""
    count, dims = first.shape
    nodes, weights = _hermite(order)
    grid = np.array(list(product(nodes, repeat=dims - 1)))
    shares = np.array([np.prod(entry) for entry in product(weights, repeat=dims - 1)])
    base, direction = np.zeros((count, len(grid), width)), np.zeros((count, len(grid), width))
    turned = np.linalg.svd(first[:, None, :])[2]
    base[:, :, active] = grid @ turned[:, 1:]
    direction[:, :, active] = first[:, None, :]
    return base, direction, shares


@functools.lru_cache(maxsize=16)
def _hermite(order: int) -> tuple[Array, Array]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    return nodes, weights / weights.sum()


def node_arguments(parameters: Sequence[float], unknowns: Array, rows: Rows, at: Array, x: Array) -> list[Any]:
    """Return the arguments of the plan's functions at points x of the rows ``at``, stages left out."""
    owned: list[Any] = list(unknowns[:, 0]) if unknowns.shape[1] == 1 else list(unknowns[:, rows.owner[at]])
    starts, slopes = (rows.mean + rows.scale * rows.base).T, (rows.scale * rows.direction).T
    values = [start[at] + slope[at] * x for start, slope in zip(starts, slopes, strict=True)]
    return [*parameters, *owned, *values]


def stacked(entries: Sequence[Any], size: int) -> Array:
    """Return functions' values as rows of one array, constants spread out."""
    made = np.empty((len(entries), size))
    for place, entry in enumerate(entries):
        made[place] = entry
    return made
