"""Modes of the noises of an ensemble and the points along them: chosen once, kept while an iteration runs."""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import Covariance, EnsembleProgram
from eqsolve.numerics import gaussian
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend, like_array
from eqsolve.numerics.laws import Atoms, Part, parts_of, place_on
from eqsolve.numerics.operators import average_cusps
from eqsolve.numerics.relations import Kernels, Pointwise

_STRONG = 0.1  # modes stronger than this are sampled as they are, of weaker ones what is linear is known
_MANY = 3  # Gaussian constants that act together, beside noises: no direction leads, and a sample is the better grid
_FEWEST = 64  # paths that bend, for every value of the constants that are no modes
_ROUNDING = 1e-13  # of a covariance, relative to the variances
_CUBIC = 3  # degree to which the simplest design of points is exact


@dataclass(frozen=True, eq=False)
class Group:
    """Noises that are driven together: their joint covariance on the nodes, and the mean of each.

    Of the first ``leading`` ones modes are drawn; the others follow them (see
    ``factor_followers``).
    """

    noises: tuple[str, ...]
    covariance: Array
    centres: tuple[Array, ...]
    leading: int

    @property
    def leading_rows(self) -> int:
        """How many rows of the covariance are those of the leading noises."""
        return self.leading * len(self.centres[0])

    @functools.cached_property
    def leading_modes(self) -> Array:
        """Modes of the leading noises, by decreasing size."""
        return gaussian.factor_covariance(self.covariance[: self.leading_rows, : self.leading_rows])

    def complete(self, modes: Array, order: Array) -> Array:
        """Return modes of all noises from those of the leading ones, which ``order`` sorts by what they do."""
        if self.leading == len(self.noises):
            return modes
        return np.vstack([modes, gaussian.factor_followers(self.covariance, self.leading_rows, modes, order)])

    def beyond(self, modes: Array) -> Array | None:
        """Return the covariance less that of the modes; None where this is rounding.

        Outputs are linear in followers: their covariance among themselves does not act, and of that
        with leading noises only the sum of both off-diagonal blocks.
        """
        covariance, lead = self.covariance, self.leading_rows
        left = (covariance + covariance.T) / 2 - modes @ modes.T
        for begin in range(lead, len(left), lead):
            rows = slice(begin, begin + lead)
            left[rows, :lead] = left[:lead, rows] = (left[rows, :lead] + left[rows, :lead].T) / 2
        left[lead:, lead:] = 0.0
        sizes = np.sqrt(np.abs(np.diagonal(covariance)[:lead]))
        bound = np.tile(_ROUNDING * np.multiply.outer(sizes, sizes), (1, len(left) // lead))
        return left if (np.abs(left[:lead]) > bound).any() else None

    def rows(self, noise: str) -> slice:
        """Return where a noise stands in the covariance."""
        size = len(self.centres[0])
        place = self.noises.index(noise) * size
        return slice(place, place + size)


@dataclass(frozen=True, eq=False)
class Choice:
    """Modes, ordered by strength, and quadrature points.

    ``factors`` hold one matrix (nodes of the group's leading noises, modes) per group; ``order``
    sorts all modes by strength; ``strong`` ones are followed as they are, of the others the linear
    part is known. ``shapes`` is what they were chosen by; ``rotation``, if any, rotates the modes
    of all groups and the Gaussian constants, which come last.
    """

    level: gaussian.Level
    layout: gaussian.PointLayout
    shapes: Sequence[Array] | None
    factors: tuple[Array, ...]
    rotation: Array | None
    order: Array
    strong: Array
    points: gaussian.Points


@dataclass(frozen=True, eq=False)
class LinearPart:
    """The part of a noise group kept to first order: weak modes, and covariance beyond all modes.

    ``constants`` are the coordinates of constants along the weak modes, by name. ``beyond`` is the
    covariance less that of all modes. It vanishes at a solution; before, a covariance may have
    negative eigenvalues, which no mode has.
    """

    group: Group
    factor: Array
    coordinates: Array
    constants: dict[str, Array]
    beyond: Array | None


@dataclass(frozen=True, eq=False)
class Drawn:
    """Noises on (nodes, paths), and per group what acts linearly."""

    noises: tuple[Array, ...]
    linear_parts: tuple[LinearPart, ...]


def groups_of(
    covariances: Sequence[Covariance],
    kernels: Kernels,
    whites: Sequence[tuple[str, Pointwise]] = (),
    *,
    whole: bool = False,
    averaged: bool = False,
) -> tuple[Group, ...]:
    """Return groups of noises with covariances for given kernels; ``whole``, of followers too.

    ``averaged`` ones are such that integrals over the nodes have the right covariance, cusps at equal times included.
    """
    made = []
    for item in covariances:
        tables = [[kernels.table(entry) for entry in row] for row in item.blocks]
        table = tables[0][0] if len(tables) == 1 else np.block(tables)
        if averaged and item.cusp and item.integrated:
            table = average_cusps(kernels.grid, table)
        if whole and item.leading < len(item.noises):
            table = gaussian.follow_covariance(table, item.leading * kernels.grid.size)
        made.append(Group(item.noises, table, tuple(kernels.vector(centre) for centre in item.centres), item.leading))
    nodes = kernels.grid.nodes
    for noise, strength in whites:  # constant in every step, of a variance that makes its integral that of white noise
        values = np.maximum(kernels.vector(strength), 0.0)
        steps = (values[1:] + values[:-1]) / 2 / np.diff(nodes)
        made.append(Group((noise,), np.diag(np.append(0.0, steps)), (np.zeros(len(nodes)),), 1))
    return tuple(made)


def choose(
    plan: EnsembleProgram, kernels: Kernels, groups: Sequence[Group], drives: Sequence[Array], laws: Mapping[str, Any],
    level: gaussian.Level, layout: gaussian.PointLayout | None, shapes: Sequence[Array] | None, *, joint: bool = True,
    by_value: Sequence[Array] = (), given: tuple[Array, Array] | None = None, backend: Backend = CPU,
) -> Choice:  # fmt: skip
    """Choose modes by what they do, and points for them: as laid out before, as the level asks for, or as given.

    With ``shapes``, how much responses vary, modes are ordered by what is not linear in them;
    without, by their mean effect. Constants that are functions of a Gaussian coordinate are modes
    like those of the noises, if ``joint``; the others have their own rules. ``by_value`` are
    shapes for each of their values, whose points are rotated to its own directions.
    """
    mine = {name: laws[name] for name in plan.constants}
    simple = plan.degree is not None and plan.degree <= _CUBIC
    joint = joint and (layout is None or layout.kind != "draws")
    among = constants_among_modes(plan, mine, simple=simple) if joint else {}
    factors, strengths, turn = _rotated(plan, kernels, groups, drives, shapes, len(among))
    flat = np.concatenate(strengths) if strengths else np.empty(0)
    if level.rotation_seed and len(flat):
        twist, flat = gaussian.rotate_at_random(flat, level.rotation_seed)
        turn = twist if turn is None else turn @ twist
    order = np.argsort(-flat, kind="stable")
    if layout is None or layout.kind not in ("sample", "single", "draws"):
        ruled = [law for name, law in mine.items() if name not in among and law.has_density and not gaussian.is_gaussian(law)]
        sampled = (plan.kinked and not ruled) or len(among) >= _MANY
        layout = layout or (gaussian.PointLayout("sample") if sampled else gaussian.lay_out(list(flat[order]), level))
        layout = gaussian.PointLayout("cubic") if simple else layout
    rest = dict(mine)
    for name, parts in among.items():  # the number of a part
        rest[name] = Atoms(tuple(map(float, range(len(parts)))), tuple(part.probability for part in parts))
    spread = _spread(level, rest) if plan.kinked and layout.kind == "sample" else level
    points = gaussian.make_points(len(flat), layout, rest, spread, given, backend)
    if layout.kind == "single" and len(by_value) == 1 and len(by_value[0]) == points.values:
        every = _side_by_side([*factors, np.eye(len(among))])
        points = replace(
            points, normals=_along_leading_directions(points, every if turn is None else every @ turn, by_value[0], order)
        )
    if among:
        assert turn is not None
        coordinates = np.empty_like(points.normals)
        coordinates[order] = points.normals
        drawn = like_array(coordinates, turn[len(flat) - len(among) :]) @ coordinates
        made = {name: place_on(among[name], points.constants[name], x) for name, x in zip(among, drawn, strict=True)}
        values, slopes = ({name: pair[place] for name, pair in made.items()} for place in range(2))
        points = replace(points, constants={**points.constants, **values}, scales=slopes)
    strong = np.empty(len(flat), dtype=bool)
    strong[order] = layout.resolved(len(flat))
    if layout.kind == "sparse" and shapes is not None:
        strong &= flat > _STRONG
    return Choice(level, layout, shapes, tuple(factors), turn, order, strong, points)


def _along_leading_directions(points: gaussian.Points, modes: Array, forms: Array, order: Array) -> Array:
    """Return coordinates whose leading one is, for every value of the constants, along what varies most there."""
    made = points.normals.copy()
    if len(modes) != forms.shape[1]:
        return made
    for form, part in zip(forms, np.split(np.arange(made.shape[1]), len(forms)), strict=True):
        directions = np.linalg.eigh(modes.T @ form @ modes)[1][:, ::-1]
        made[:, part] = (like_array(made, directions) @ made[:, part])[order]
    return made


def _spread(level: gaussian.Level, laws: Mapping[str, Any]) -> gaussian.Level:
    """Return a level of ``most`` paths in all, shared by the values of the constants."""
    values = math.prod(len(law.rule(level.constants)[0]) for law in laws.values() if not gaussian.is_gaussian(law))
    return replace(level, most=max(_FEWEST, round(level.most / values)))


def constants_among_modes(plan: EnsembleProgram, laws: Mapping[str, Any], *, simple: bool) -> dict[str, tuple[Part, ...]]:
    """Return the parts of the constants that may be modes: functions of a Gaussian coordinate, in which nothing jumps.

    In a ``simple`` plan points are exact for polynomials of low degree in the modes: there only
    Gaussian constants are.
    """
    found = {
        name: parts_of(laws[name])
        for name, sloped in zip(plan.constants, plan.sloped, strict=True)
        if sloped and (gaussian.is_gaussian(laws[name]) or not simple)
    }
    return {name: parts for name, parts in found.items() if parts}


def _rotated(
    plan: EnsembleProgram, kernels: Kernels, groups: Sequence[Group], drives: Sequence[Array], shapes: Sequence[Array] | None,
    constants: int,
) -> tuple[list[Array], list[Array], Array | None]:  # fmt: skip
    """Return the modes of every group, strengths, and how all of them and the constants are turned together."""
    factors = [group.leading_modes for group in groups]
    sizes = [len(factor) for factor in factors]
    if shapes is not None and constants and sum(map(len, shapes)) == sum(sizes) + constants:
        every = _side_by_side([*factors, np.eye(constants)])
        turn, strength = gaussian.rotate(np.eye(every.shape[1]), every.T @ shapes[0] @ every)
        return factors, [strength], turn
    forms = shapes
    if shapes is not None and [len(form) for form in shapes] != sizes:  # one of all together
        forms = [shapes[0][first:last, first:last] for first, last in itertools.pairwise(np.cumsum([0, *sizes]))]
    strengths = []
    for place, group in enumerate(groups):
        if forms is not None:
            factors[place], strength = gaussian.rotate(factors[place], factors[place].T @ forms[place] @ factors[place])
        else:
            effect = _effects(plan, kernels, group, drives, factors[place])
            factors[place], strength = gaussian.rotate(factors[place], effect.T @ effect)
            strength = strength / max(float(strength[0]), 1e-300)
        strengths.append(strength)
    if not constants:
        return factors, strengths, None
    return factors, [*strengths, np.ones(constants)], np.eye(sum(map(len, strengths)) + constants)


def _effects(plan: EnsembleProgram, kernels: Kernels, group: Group, drives: Sequence[Array], factor: Array) -> Array:
    """Return what each mode does: through known mean responses, else through the drives, else the modes themselves."""
    rows: list[Array] = []
    for noise in group.noises[: group.leading]:
        part = factor[group.rows(noise)]
        known = [kernels.means[mean.name] for mean in plan.means if mean.kind == "response" and mean.noise == noise]
        effects = [matrix @ part for matrix in known if matrix.any()]
        every = zip((*plan.drives, *plan.kicks), drives, strict=True)
        mine = [(drive, matrix) for drive, matrix in every if drive.noise == noise]
        through = bool(effects)
        for drive, matrix in mine:
            if not plan.integrated[drive.unknown] or not through:
                effects.append(matrix @ part)
        rows += effects if mine else [*effects, part]
    return np.vstack(rows)


Modes = list[tuple[Group, Array, Array | None]]
"""Noises that are drawn together, their modes, and the covariance less that of the modes."""


def draw(plan: EnsembleProgram, groups: Sequence[Group], choice: Choice, *, aligned: bool) -> Drawn:
    """Return the noises on all paths. ``aligned`` modes are those of the choice, carried to the covariance of now."""
    return draw_along(plan, modes_of(groups, choice, aligned=aligned), choice)


def modes_of(groups: Sequence[Group], choice: Choice, *, aligned: bool) -> Modes:
    """Return the modes that were chosen, by decreasing effect; ``aligned``, rotated onto the covariances of now."""
    factors = [
        gaussian.align(group.leading_modes, chosen) if aligned else chosen
        for group, chosen in zip(groups, choice.factors, strict=True)
    ]
    order = choice.order
    if choice.rotation is not None:  # modes of all noises and constants turn together
        turned = _side_by_side([*factors, np.zeros((0, len(choice.points.scales)))]) @ choice.rotation
        ends = np.cumsum([0, *(group.leading_rows for group in groups)])
        parts = [group.complete(turned[a:b], order) for group, (a, b) in zip(groups, itertools.pairwise(ends), strict=True)]
        noises = tuple(noise for group in groups for noise in group.noises)  # independent groups as one
        whole = _side_by_side([group.covariance for group in groups])
        one = Group(noises, whole, tuple(centre for group in groups for centre in group.centres), len(noises))
        return [(one, np.vstack(parts), _beyond(groups, parts))] if groups else []
    made, position = [], 0
    for group, factor in zip(groups, factors, strict=True):
        inside = order[(order >= position) & (order < position + factor.shape[1])] - position
        completed = group.complete(factor, inside)
        made.append((group, completed, group.beyond(completed)))
        position += factor.shape[1]
    return made


def draw_along(plan: EnsembleProgram, modes: Modes, choice: Choice) -> Drawn:
    """Return the noises at the points of a choice."""
    coordinates = np.empty_like(choice.points.normals)
    coordinates[choice.order] = choice.points.normals
    scales = choice.points.scales
    linear_parts, made, position = [], {}, 0
    for group, factor, beyond in modes:
        place = slice(position, position + factor.shape[1])
        position = place.stop
        values = like_array(coordinates, factor) @ coordinates[place]
        weak = np.flatnonzero(~choice.strong[place])
        mixed = choice.rotation[len(choice.rotation) - len(scales) :] if choice.rotation is not None else ()
        by_name = {name: row[weak] for name, row in zip(scales, mixed, strict=True)}
        linear_parts.append(LinearPart(group, factor[:, weak], coordinates[place][weak], by_name, beyond))
        for noise, centre in zip(group.noises, group.centres, strict=True):
            made[noise] = values[group.rows(noise)] + like_array(coordinates, centre[:, None])
    return Drawn(tuple(made[noise] for noise in plan.driving), tuple(linear_parts))


def _beyond(groups: Sequence[Group], parts: Sequence[Array]) -> Array | None:
    """Return the covariance beyond the modes of several groups (see ``Group.beyond``)."""
    left = [group.beyond(part) for group, part in zip(groups, parts, strict=True)]
    if all(part is None for part in left):
        return None
    return _side_by_side(
        [np.zeros((len(whole),) * 2) if part is None else part for part, whole in zip(left, parts, strict=True)]
    )


def _side_by_side(parts: Sequence[Array]) -> Array:
    """Return matrices as the blocks of one."""
    made = np.zeros((sum(len(part) for part in parts), sum(part.shape[1] for part in parts)))
    row = column = 0
    for part in parts:
        made[row : row + len(part), column : column + part.shape[1]] = part
        row, column = row + len(part), column + part.shape[1]
    return made
