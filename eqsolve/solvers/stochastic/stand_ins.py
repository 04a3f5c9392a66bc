"""Means of functions with a kink in three levels: along one direction, by a stand-in of the paths, by paths.

Only the outer function f is bent; what it is a function of, the paths at a time, is smooth in the Gaussian coordinates x
of the noises and constants. Some paths give two stand-ins for the arguments a(x) of f: an interpolant p(x), and
functions h(u·x) of one direction u, another at every time, across the surface where f bends. Then

    E f(a) = E f(h(u·x)) + E [f(p) − f(h)] + E [f(a) − f(p)],

one integral along a line, one over many points at which no path is followed, one over few paths. All three
are unbiased for every stand-in, however bad, as long as their points are independent of the paths that it was fitted to: so
the spread of independent sets is the error.

Cost at first: 900 paths for every combination of atoms, and 10⁴ evaluations of f per time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import EnsemblePlan, MeanPlan
from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.gaussian import Layout, Level, Points, sample_normals
from eqsolve.numerics.laws import Component, Law
from eqsolve.numerics.relations import Kernels
from eqsolve.numerics.surrogates import (
    Interpolant,
    Ridges,
    even_rule,
    fit_ridges,
    interpolate,
    linear_parts,
    linear_shares,
)
from eqsolve.solvers.stochastic.modes import Choice, choose, draw, groups_of
from eqsolve.solvers.stochastic.paths import act, follow
from eqsolve.solvers.stochastic.sweep import Engine, Means

_BRANCHES = 8  # most combinations of parts of the constants' laws, each with its own stand-ins
_COORDINATES = 4  # paths per coordinate that stand-ins may depend on
_DEGREE = 13  # of functions of one direction
_FITTED = 4  # times the paths of a set: those that stand-ins are fitted to
_RIDGES = 512  # least number of points that functions of one direction are fitted to
_APART = 100_003  # between the seeds of points for different ends
_WIDE = 1.7  # points that stand-ins are fitted to, in standard deviations: they reach into the tails


@dataclass(frozen=True)
class Branch:
    """Points or Gaussians that some constants are drawn from: the probability, their means and standard deviations."""

    probability: float
    means: tuple[float, ...]
    deviations: tuple[float, ...]


def branches_of(laws: Sequence[Law]) -> list[Branch] | None:
    """Return the combinations of points and Gaussians that laws are made of; None if there are others, or too many."""
    if any(isinstance(law, Component) for law in laws):
        return None
    parts = [law.gaussians(2) for law in laws]
    if math.prod(map(len, parts)) > _BRANCHES or not all(exact for law in parts for *_, exact in law):
        return None
    return [
        Branch(
            math.prod(float(p) for p, *_ in combination),
            tuple(float(mean) for _, mean, _, _ in combination),
            tuple(math.sqrt(float(variance)) for _, _, variance, _ in combination),
        )
        for combination in itertools.product(*parts)
    ]


@dataclass(frozen=True, eq=False)
class Batch:
    """Paths at some points (coordinate, point), and what functions read of them (argument, node, branch, point).

    ``values`` (node, branch, point) of the functions are known by the name of the mean; ``unknowns`` are the paths' own.
    """

    x: Array
    unknowns: Array
    read: Array
    values: dict[str, Array]


@dataclass(frozen=True, eq=False)
class Sampler:
    """One ensemble at given kernels, ready to follow paths at points of its Gaussian coordinates.

    The coordinates are those of constants with a Gaussian law, then the modes by strength. ``places`` are the arguments
    that vary from path to path and are read by the ``wanted`` means.
    """

    plan: EnsemblePlan
    kernels: Kernels
    choice: Choice
    branches: tuple[Branch, ...]
    moving: tuple[int, ...]
    wanted: tuple[MeanPlan, ...]
    places: tuple[int, ...]
    accuracy: float
    covariances: Any
    aligned: bool = False

    @property
    def coordinates(self) -> int:
        return len(self.moving) + len(self.choice.order)

    def at(self, kernels: Kernels) -> Sampler:
        """Return the same coordinates at other kernels."""
        return replace(self, kernels=kernels, aligned=True)

    def draw(self, count: int, seed: int) -> Array:
        """Return quasi-random points, shape (coordinate, point)."""
        return sample_normals(count, self.coordinates, seed)

    def constants(self, x: Array, branch: Branch) -> dict[str, Array]:
        """Return the constants of a branch at points."""
        made = {name: np.full(x.shape[1], mean) for name, mean in zip(self.plan.constants, branch.means, strict=True)}
        for row, place in enumerate(self.moving):
            name = self.plan.constants[place]
            made[name] = made[name] + branch.deviations[place] * x[row]
        return made

    def follow(self, x: Array, before: Array | None = None) -> Batch:
        """Follow the paths of all branches at points; ``before`` is a guess of the unknowns."""
        count, many = x.shape[1], len(self.branches)
        tables = [self.constants(x, branch) for branch in self.branches]
        points = Points(
            np.tile(x[len(self.moving) :], many),
            {name: np.concatenate([table[name] for table in tables]) for name in self.plan.constants},
            np.repeat([branch.probability for branch in self.branches], count) / count,
        )
        groups = [group for group in groups_of(self.covariances, self.kernels) if group.noises[0] in self.plan.noises]
        drawn = draw(self.plan, groups, replace(self.choice, points=points), aligned=self.aligned)
        paths = follow(self.plan, self.kernels, act(self.plan, self.kernels), points, drawn, self.accuracy, before)

        def apart(values: Sequence[Array]) -> Array:
            return np.array([np.broadcast_to(value, paths.shape) for value in values]).reshape(-1, paths.shape[0], many, count)

        return Batch(
            x,
            paths.unknowns,
            apart([paths.arguments[place] for place in self.places]),
            {mean.name: apart(paths.values(mean.factors)[:1])[0] for mean in self.wanted},
        )

    def average(self, batch: Batch) -> Means:
        """Return the means over paths."""
        shares = np.array([branch.probability for branch in self.branches])
        return {name: value.mean(axis=2) @ shares for name, value in batch.values.items()}

    def evaluate(self, function: Any, branch: Branch, read: Array) -> Array:
        """Return a function's results (result, node, point) for given values (argument, node, point) of what it reads."""
        plan, grid = self.plan, self.kernels.grid
        arguments: list[Any] = [grid.nodes[:, None], *(None,) * (len(plan.unknowns) + len(plan.noises)), *branch.means]
        arguments += [self.kernels.functions[name][:, None] for name in plan.functions]
        arguments += [None] * len(plan.memories)
        for place, values in zip(self.places, read, strict=True):
            arguments[place] = values
        shape = (grid.size, read.shape[-1])
        return np.array([np.broadcast_to(result, shape) for result in function(*arguments)])

    def value(self, mean: MeanPlan, branch: Branch, read: Array) -> Array:
        """Return what is averaged (node, point)."""
        return np.asarray(self.evaluate(mean.factors, branch, read)[0])


def make_sampler(
    engine: Engine, kernels: Kernels, plan: EnsemblePlan, wanted: Sequence[MeanPlan], level: Level
) -> Sampler | None:
    """Return an ensemble ready to follow paths for some means; None where its constants need rules or tables."""
    branches = branches_of([engine.laws[name] for name in plan.constants])
    if branches is None:
        return None
    groups = [group for group in groups_of(engine.plan.covariances, kernels) if group.noises[0] in plan.noises]
    drives, one = act(plan, kernels).drives, replace(level, most=1, constants=1)
    choice = choose(plan, kernels, groups, drives, engine.laws, one, Layout("single"), None, joint=False)
    moving = tuple(place for place in range(len(plan.constants)) if any(branch.deviations[place] for branch in branches))
    first = 1 + len(plan.unknowns) + len(plan.noises)
    last = first + len(plan.constants)
    vary = {*range(1, first), *(first + place for place in moving)}
    vary |= set(range(last + len(plan.functions), last + len(plan.functions) + len(plan.memories)))
    places = tuple(sorted(vary & {place for mean in wanted for place in mean.reads}))
    if not places or len(moving) + len(choice.order) == 0:
        return None
    return Sampler(
        plan, kernels, choice, tuple(branches), moving, tuple(wanted), places, engine.accuracy, engine.plan.covariances
    )


@dataclass(frozen=True, eq=False)
class StandIn:
    """What stands in for paths: an interpolant of all they are read for, and by branch and mean functions of one direction."""

    interpolant: Interpolant
    ridges: tuple[Mapping[str, Ridges], ...]


def fit(sampler: Sampler, batch: Batch, many: int, seed: int) -> StandIn:
    """Fit stand-ins to paths: the interpolant at once, functions of one direction to ``many`` values of it."""
    used = min(len(batch.x), batch.x.shape[1] // _COORDINATES)
    rows = batch.read.reshape(-1, batch.x.shape[1])
    interpolant = interpolate(batch.x[:used], rows, linear_shares(batch.x[:used], rows))
    x = sampler.draw(many, seed) * _WIDE
    read = interpolant(x).reshape(*batch.read.shape[:3], -1)
    ridges = []
    for place, branch in enumerate(sampler.branches):
        here = read[:, :, place]
        bends = {mean.name: sampler.evaluate(mean.switches, branch, here) for mean in sampler.wanted}
        ridges.append({name: fit_ridges(_directions(x, used, values), x, here, _DEGREE) for name, values in bends.items()})
    return StandIn(interpolant, tuple(ridges))


def _directions(x: Array, used: int, switches: Array) -> Array:
    """Return at every node the direction in which the switches (switch, node, point) change most."""
    slopes = np.stack([linear_parts(x[:used], values) for values in switches], axis=1)
    sizes = np.linalg.norm(slopes, axis=2, keepdims=True)
    made = np.zeros((len(slopes), len(x)))
    made[:, :used] = np.linalg.svd(slopes / (sizes + 1e-300), full_matrices=False)[2][:, 0]
    made[sizes.max(axis=(1, 2)) == 0] = np.eye(len(x))[0]
    return made


@dataclass(frozen=True, eq=False)
class Sets:
    """Averages of independent sets (set, node), by name: what needs no paths, the rest, and paths without stand-ins."""

    cheap: Means
    rest: Means
    plain: Means

    def means(self) -> Means:
        """Return the averages over all sets."""
        return {name: (self.cheap[name] + rest).mean(axis=0) for name, rest in self.rest.items()}

    def spread(self, part: str = "") -> Means:
        """Return twice the standard error of the average over the sets, of all or of one part."""
        tables = {"cheap": self.cheap, "rest": self.rest, "plain": self.plain}.get(part)
        made = {}
        for name in self.rest:
            values = tables[name] if tables is not None else self.cheap[name] + self.rest[name]
            made[name] = 2 * values.std(axis=0, ddof=1) / math.sqrt(len(values))
        return made

    def is_finite(self) -> bool:
        return all(np.isfinite(values).all() for values in self.means().values())

    def gain(self) -> float:
        """Return by how much stand-ins make the spread over paths smaller, where that is least so."""
        rest, plain = self.spread("rest"), self.spread("plain")
        sizes = [(float(np.linalg.norm(plain[name])), float(np.linalg.norm(rest[name]))) for name in rest]
        return min((before / after for before, after in sizes if after > 0), default=math.inf)


def estimate(sampler: Sampler, stand_in: StandIn, batch: Batch, sets: int, many: int, seed: int) -> Sets:
    """Return the means by three levels, from so many independent sets.

    ``many`` is the number of points in each set at which no path is followed; the paths of the batch are those of all
    sets, one after the other.
    """
    size = sampler.kernels.grid.size
    shape = (len(sampler.places), size, len(sampler.branches), -1)
    cheap = {mean.name: np.zeros((sets, size)) for mean in sampler.wanted}
    for number in range(sets):
        x = sampler.draw(many, seed + number)
        far = stand_in.interpolant(x).reshape(shape)
        line, weights = even_rule(many // 2, float(np.random.default_rng((seed + number, 5)).random()))
        line = np.broadcast_to(line, (size, len(line)))
        for place, (branch, ridges) in enumerate(zip(sampler.branches, stand_in.ridges, strict=True)):
            for mean in sampler.wanted:
                ridge = ridges[mean.name]
                along = sampler.value(mean, branch, ridge(line)) @ weights
                beside = sampler.value(mean, branch, far[:, :, place])
                beside -= sampler.value(mean, branch, ridge(ridge.directions @ x))
                cheap[mean.name][number] += branch.probability * (along + beside.mean(axis=1))
    near = stand_in.interpolant(batch.x).reshape(shape)
    rest = {mean.name: np.zeros((sets, size)) for mean in sampler.wanted}
    plain = {mean.name: np.zeros((sets, size)) for mean in sampler.wanted}
    for place, branch in enumerate(sampler.branches):
        for mean in sampler.wanted:
            values = batch.values[mean.name][:, place]
            gaps = values - sampler.value(mean, branch, near[:, :, place])
            for table, entries in ((rest, gaps), (plain, values)):
                table[mean.name] += branch.probability * entries.reshape(size, sets, -1).mean(axis=2).T
    return Sets(cheap, rest, plain)


def three_levels(sampler: Sampler, paths: int, points: int, sets: int, seed: int) -> Sets:
    """Return the means of independent sets, with stand-ins fitted to other paths: to such in the tails too, if there are."""
    for reach in (_WIDE, 1.0):
        try:
            fitted = sampler.follow(reach * sampler.draw(_FITTED * paths, seed + _APART))
            break
        except SolverError:
            if reach == 1.0:
                raise
    stand_in = fit(sampler, fitted, max(_RIDGES, 2 * _FITTED * paths), seed + 2 * _APART)
    x = np.hstack([sampler.draw(paths, seed + 1 + number) for number in range(sets)])
    return estimate(sampler, stand_in, sampler.follow(x), sets, points, seed + 3 * _APART)
