"""Modes of the noises of an ensemble and the points along them: chosen once, kept while an iteration runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import Covariance, EnsemblePlan
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gaussian import (
    Layout,
    Level,
    Points,
    align,
    factor_covariance,
    lay_out,
    make_points,
    rotate,
    twist_modes,
)
from eqsolve.numerics.relations import Kernels

__all__ = ["Choice", "Drawn", "Group", "Rest", "choose", "draw", "groups_of"]

_STRONG = 0.1  # modes stronger than this are sampled as they are, of weaker ones what is linear is known
_ROUNDING = 1e-13  # of a covariance, relative to the variances
_CUBIC = 3  # degree to which the simplest design of points is exact


@dataclass(frozen=True, eq=False)
class Group:
    """Noises that are driven together: their joint covariance on the nodes, and the mean of each."""

    noises: tuple[str, ...]
    covariance: Array
    centres: tuple[Array, ...]

    def rows(self, noise: str) -> slice:
        """Return where a noise stands in the covariance."""
        size = len(self.centres[0])
        place = self.noises.index(noise) * size
        return slice(place, place + size)


@dataclass(frozen=True, eq=False)
class Choice:
    """Modes, in the order of what they do, and points.

    ``factors`` hold one matrix (nodes of the group's noises, modes) per group; ``order`` sorts all modes by strength;
    ``strong`` ones are followed as they are, of the others the linear part is known. ``shapes`` is what they were chosen by;
    ``turn`` mixes the modes of all groups, in a set of other points.
    """

    level: Level
    layout: Layout
    shapes: Sequence[Array] | None
    factors: tuple[Array, ...]
    turn: Array | None
    order: Array
    strong: Array
    points: Points


@dataclass(frozen=True, eq=False)
class Rest:
    """Of a group of noises, what is known to act linearly: weak modes with their coordinates, and what modes do not reach.

    ``beyond`` is the covariance less that of all modes. It vanishes at a solution; on the way there a covariance may have
    negative eigenvalues, which no mode has, and what is linear in the covariance stays so.
    """

    group: Group
    factor: Array
    coordinates: Array
    beyond: Array | None


@dataclass(frozen=True, eq=False)
class Drawn:
    """Noises on (nodes, paths), and per group what acts linearly."""

    noises: tuple[Array, ...]
    rests: tuple[Rest, ...]


def groups_of(covariances: Sequence[Covariance], kernels: Kernels) -> tuple[Group, ...]:
    """Return the noises of a system with their covariances for given kernels."""
    made = []
    for item in covariances:
        tables = [[kernels.table(entry) for entry in row] for row in item.blocks]
        whole = tables[0][0] if len(tables) == 1 else np.block(tables)
        made.append(Group(item.noises, whole, tuple(kernels.vector(centre) for centre in item.centres)))
    return tuple(made)


def choose(
    plan: EnsemblePlan, kernels: Kernels, groups: Sequence[Group], drives: Sequence[Array], laws: Mapping[str, Any],
    level: Level, layout: Layout | None, shapes: Sequence[Array] | None,
) -> Choice:  # fmt: skip
    """Choose modes by what they do, and points for them: as laid out before, or as the level asks for.

    With ``shapes``, how much responses vary, modes are ordered by what is not linear in them; without, by their mean
    effect.
    """
    factors, strengths = [], []
    for place, group in enumerate(groups):
        factor = factor_covariance(group.covariance)
        if shapes is not None:
            factor, strength = rotate(factor, factor.T @ shapes[place] @ factor)
        else:
            effect = _effects(plan, kernels, group, drives, factor)
            factor, strength = rotate(factor, effect.T @ effect)
            strength = strength / max(float(strength[0]), 1e-300)
        factors.append(factor)
        strengths.append(strength)
    flat, turn = np.concatenate(strengths) if strengths else np.empty(0), None
    if level.twist and len(flat):
        turn, flat = twist_modes(flat, level.twist)
    order = np.argsort(-flat, kind="stable")
    if layout is None or layout.kind not in ("sample", "single", "draws"):
        simple = plan.degree is not None and plan.degree <= _CUBIC
        layout = Layout("cubic") if simple else layout or lay_out(list(flat[order]), level)
    points = make_points(len(flat), layout, {name: laws[name] for name in plan.constants}, level)
    strong = np.ones(len(flat), dtype=bool)
    strong[order[layout.modes(len(flat)) :]] = False
    if layout.kind == "sparse" and shapes is not None:
        strong &= flat > _STRONG
    return Choice(level, layout, shapes, tuple(factors), turn, order, strong, points)


def _effects(plan: EnsemblePlan, kernels: Kernels, group: Group, drives: Sequence[Array], factor: Array) -> Array:
    """Return what each mode does: through known mean responses, else through the drives, else the modes themselves."""
    rows: list[Array] = []
    for noise in group.noises:
        part = factor[group.rows(noise)]
        known = [kernels.means[mean.name] for mean in plan.means if mean.kind == "response" and mean.noise == noise]
        effects = [matrix @ part for matrix in known if matrix.any()]
        mine = [(drive, matrix) for drive, matrix in zip(plan.drives, drives, strict=True) if drive.noise == noise]
        through = bool(effects)
        for drive, matrix in mine:
            if not plan.integrated[drive.unknown] or not through:
                effects.append(matrix @ part)
        rows += effects if mine else [*effects, part]
    return np.vstack(rows)


def draw(plan: EnsemblePlan, groups: Sequence[Group], choice: Choice, *, aligned: bool) -> Drawn:
    """Return the noises on all paths. ``aligned`` modes are those of the choice, carried to the covariance of now."""
    coordinates = np.empty_like(choice.points.normals)
    coordinates[choice.order] = choice.points.normals
    factors = [
        align(factor_covariance(group.covariance, chosen.shape[1]), chosen) if aligned else chosen
        for group, chosen in zip(groups, choice.factors, strict=True)
    ]
    if choice.turn is not None:  # modes of all noises turn together
        groups, factors = [_together(groups)], [_side_by_side(factors) @ choice.turn]
    rests, made = [], {}
    position = 0
    for group, factor in zip(groups, factors, strict=True):
        place = slice(position, position + factor.shape[1])
        position = place.stop
        values = factor @ coordinates[place]
        weak = ~choice.strong[place]
        rests.append(Rest(group, factor[:, weak], coordinates[place][weak], _beyond(group.covariance, factor)))
        for noise, centre in zip(group.noises, group.centres, strict=True):
            made[noise] = values[group.rows(noise)] + centre[:, None]
    return Drawn(tuple(made[noise] for noise in plan.noises), tuple(rests))


def _beyond(covariance: Array, factor: Array) -> Array | None:
    """Return a covariance less that of its modes; None where this is rounding."""
    left = (covariance + covariance.T) / 2 - factor @ factor.T
    sizes = np.sqrt(np.abs(np.diagonal(covariance)))
    return left if (np.abs(left) > _ROUNDING * np.multiply.outer(sizes, sizes)).any() else None


def _together(groups: Sequence[Group]) -> Group:
    """Return independent groups as one."""
    noises = tuple(noise for group in groups for noise in group.noises)
    covariance = _side_by_side([group.covariance for group in groups])
    return Group(noises, covariance, tuple(centre for group in groups for centre in group.centres))


def _side_by_side(parts: Sequence[Array]) -> Array:
    """Return matrices as the blocks of one."""
    made = np.zeros((sum(len(part) for part in parts), sum(part.shape[1] for part in parts)))
    row = column = 0
    for part in parts:
        made[row : row + len(part), column : column + part.shape[1]] = part
        row, column = row + len(part), column + part.shape[1]
    return made
