"""Means over the paths of an ensemble, and how they react to the kernels that drive the paths."""

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.compile.stochastic import EnsemblePlan, Link, MeanPlan
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend
from eqsolve.numerics.relations import Kernels
from eqsolve.solvers.paths.modes import Choice, Group
from eqsolve.solvers.paths.paths import Paths, over_steps
from eqsolve.solvers.paths.responses import Tangents, respond, respond_steadily

Reactions = Mapping[str, list[Array]]
"""By noise, the mean response of every target, as operators."""


@dataclass(frozen=True, eq=False)
class Averages:
    """What one ensemble gives after its paths were followed.

    ``sizes`` hold E|f| beside E f, what a mean that cancels is compared with. ``reactions`` are
    mean responses to functions on the nodes, ``steps`` those to white noises, which are constant in
    every step, ``steady`` those to constants among the modes.
    """

    paths: Paths
    choice: Choice
    means: dict[str, Array]
    sizes: dict[str, Array]
    reactions: Reactions
    steps: Reactions
    steady: Reactions

    @property
    def drawn(self) -> Reactions:
        """Mean responses to noises as they are drawn."""
        return {**self.reactions, **self.steps}

    @property
    def reacts(self) -> bool:
        return bool(self.reactions)

    @functools.cached_property
    def values(self) -> list[Array]:
        """Every target on (nodes, paths)."""
        return self.paths.values(self.paths.plan.target_values)

    @functools.cached_property
    def products(self) -> dict[tuple[int, int], Array]:
        """E[signal(t) target(t')] of the pairs asked for so far."""
        return {}

    def product(self, signal: int, target: int) -> Array:
        if (signal, target) not in self.products:
            weighted = self.values[signal] * self.paths.points.weights
            self.products[signal, target] = self.paths.backend.get(weighted @ self.values[target].T)
        return self.products[signal, target]

    @functools.cached_property
    def forces(self) -> list[tuple[Link, str, Array, Array]]:
        """Memory that acts on an unknown which a noise drives too: a change of it is like a noise.

        Link, noise, one over the drive's coefficient, and the memory's operator.
        """
        plan, kernels = self.paths.plan, self.paths.kernels
        drives = {drive.unknown: drive for drive in (*plan.kicks, *plan.drives) if drive.noise in self.reactions}
        made = []
        for link in plan.links:
            if link.kernel is None or link.unknown not in drives:
                continue
            drive = drives[link.unknown]
            strength = np.ones(kernels.grid.size) if drive.coefficient is None else kernels.vector(drive.coefficient)
            if (strength != 0).all():
                made.append((link, drive.noise, 1 / strength, _memory(link, kernels)))
        return made


def _memory(link: Link, kernels: Kernels) -> Array:
    assert link.kernel is not None
    operator = kernels.operator(link.kernel)
    return operator if link.coefficient is None else kernels.vector(link.coefficient)[:, None] * operator


def average(
    paths: Paths, choice: Choice, backend: Backend = CPU, known: Reactions | None = None, tangents: Tangents | None = None,
    threads: int | None = 1,
) -> Averages:  # fmt: skip
    """Return the means over paths, responses among them; tangents are followed on the backend.

    Mean responses to some noises may be ``known``, and where the tangents come from be given. On a
    sparse grid mean responses are always found: what is linear in the weak modes is taken from them
    exactly.
    """
    plan = paths.plan
    made: dict[str, Array] = {}
    reactions: dict[str, list[Array]] = dict(known or {})
    steps: dict[str, list[Array]] = {}
    for noise in (*plan.driving[len(plan.noises) :], *plan.noises):
        if noise in reactions:
            continue
        asked = [mean for mean in plan.means if mean.kind == "response" and mean.noise == noise]
        found: dict[str, Array] = {}
        if noise not in plan.noises:
            found, reactions[noise], steps[noise] = _respond_to_white(paths, noise, asked, backend, threads)
        elif (like := _alike(paths, noise, steps)) and not asked:
            reactions[noise] = [like[1] * matrix for matrix in reactions[like[0]]]
        elif asked or steps or choice.layout.kind == "sparse":
            found, reactions[noise] = respond(paths, noise, asked, backend, tangents, threads)
        made |= found
    single, sizes = average_single(paths)
    drawn = choice.layout.kind in ("sample", "single") and bool(reactions)
    steady = respond_steadily(paths) if drawn or (choice.layout.kind == "sparse" and not choice.strong.all()) else {}
    sampled = _centred(paths, choice) if drawn else None
    drawn_as = reactions | steps
    pairs = {mean.name: _pairs(paths, mean, drawn_as, steady, sampled) for mean in plan.means if mean.kind == "two"}
    made |= single | pairs
    return Averages(paths, choice, {mean.name: made[mean.name] for mean in plan.means}, sizes, reactions, steps, steady)


def add_up(
    paths: Paths, choice: Choice, drawn: Reactions, steady: Reactions, weights: Array | None, backend: Backend
) -> dict[str, Array]:
    """Return what some paths of a large set add to all means, with given mean responses for the control variates.

    To responses, those that have ``weights`` for that, which stand for all.
    """
    plan, made = paths.plan, average_single(paths)[0]
    sampled = _centred(paths, choice) if drawn else None
    made |= {mean.name: _pairs(paths, mean, drawn, steady, sampled) for mean in plan.means if mean.kind == "two"}
    if weights is not None:
        few = replace(paths, points=replace(paths.points, weights=paths.backend.put(weights)))
        for noise in plan.driving:
            asked = [mean for mean in plan.means if mean.kind == "response" and mean.noise == noise]
            if asked and noise in plan.noises:
                made |= respond(few, noise, asked, backend, targets=False)[0]
            elif asked:
                made |= _respond_to_white(few, noise, asked, backend, 1)[0]
    return made


def _respond_to_white(
    paths: Paths, noise: str, asked: list[MeanPlan], backend: Backend, threads: int | None
) -> tuple[dict[str, Array], list[Array], list[Array]]:
    """Return responses to a white noise: those asked for, mean responses to a function on the nodes in its place, and to
    what it is in every step.

    One follows from the other where its coefficients are constant: ∫ on the nodes is that of means
    over steps.
    """
    means = over_steps(paths.shape[0])
    if _coefficients(paths, noise) is None or not all(mean.plain for mean in asked):
        _, by_step = respond(paths, noise, (), backend, None, threads)
        found, at_nodes = respond(paths, noise, asked, backend, None, threads, at_nodes=True)
        return found, at_nodes, by_step
    found, by_step = respond(paths, noise, asked, backend, None, threads, after=means)
    return found, [matrix @ means for matrix in by_step], by_step


def _coefficients(paths: Paths, noise: str) -> dict[int, float] | None:
    """Return how strongly a noise drives every unknown, None where this is no constant or it acts otherwise."""
    plan, kernels, made = paths.plan, paths.kernels, {}
    if noise in plan.noises and plan.noise_slopes is not None:
        return None
    for drive in (*plan.drives, *plan.kicks):
        if drive.noise == noise:
            values = np.ones(1) if drive.coefficient is None else kernels.vector(drive.coefficient)
            if np.ptp(values) != 0 or not plan.integrated[drive.unknown]:
                return None
            made[drive.unknown] = float(values[0])
    return made


def _alike(paths: Paths, noise: str, whites: Reactions) -> tuple[str, float] | None:
    """Return a white noise that drives the same unknowns, and how much more strongly this one does."""
    mine = _coefficients(paths, noise)
    for white in whites:
        known = _coefficients(paths, white)
        if mine and known and set(mine) == set(known):
            ratios = [mine[unknown] / known[unknown] for unknown in mine if known[unknown]]
            if len(ratios) == len(mine) and np.ptp(ratios) == 0:
                return white, ratios[0]
    return None


def _centred(paths: Paths, choice: Choice) -> dict[str, Array]:
    """Return the noises less their means, and the Gaussian coordinates of constants among the modes, on all paths."""
    made = {}
    for rest in paths.drawn.rests:
        for noise, centre in zip(rest.group.noises, rest.group.centres, strict=True):
            made[noise] = paths.drawn.noises[paths.plan.driving.index(noise)] - paths.backend.put(centre[:, None])
    scales = paths.points.scales
    if scales and choice.turn is not None:
        coordinates = np.empty_like(choice.points.normals)
        coordinates[choice.order] = choice.points.normals
        turn = paths.backend.put(choice.turn[len(choice.turn) - len(scales) :])
        made |= dict(zip(scales, turn @ coordinates, strict=True))
    return made


def average_single(paths: Paths) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the means of functions of one time, and the means of their sizes."""
    weights, get = paths.points.weights, paths.backend.get
    values = {mean.name: paths.values(mean.factors)[0] for mean in paths.plan.means if mean.kind == "one"}
    sizes = {name: get(np.abs(value) @ np.abs(weights)) for name, value in values.items()}
    return {name: get(value @ weights) for name, value in values.items()}, sizes


def _pairs(paths: Paths, mean: MeanPlan, reactions: Reactions, steady: Reactions, sampled: dict[str, Array] | None) -> Array:
    """Return E f(t) g(t'); what is linear in the weak modes enters through the mean responses, exactly.

    ``sampled`` are the noises, centred, and the coordinates of constants where modes are sampled.
    """
    weights, factors = paths.points.weights, paths.values(mean.factors)
    if mean.joint is not None:  # row by row: nodes² × paths values of the function
        near = len(mean.sides[0])
        rows = [mean.join([value[i] for value in factors[:near]], factors[near:]) @ weights for i in range(paths.shape[0])]
        return paths.backend.get(paths.backend.arrays.stack(rows))
    total = np.zeros((paths.shape[0], paths.shape[0]))
    for outer, places, first, second in zip(mean.outers, mean.targets, factors[::2], factors[1::2], strict=True):
        if sampled is not None:
            pairs = paths.backend.get((first * weights) @ second.T)
            pairs += _controlled(paths, places, reactions, steady, sampled)
            total += paths.kernels.scaled(pairs, outer)
            continue
        linear = [_linear(paths, target, reactions, steady) for target in places]
        one, other = (_without(paths, values, part) for values, part in zip((first, second), linear, strict=True))
        pairs = paths.backend.get((one * weights) @ other.T)
        for mine, yours in zip(*linear, strict=True):
            if mine is not None and yours is not None:
                pairs += mine @ yours.T
        for rest in paths.drawn.rests:
            if rest.beyond is not None:
                pairs += _carried(rest.group, rest.beyond, reactions, places)
        total += paths.kernels.scaled(pairs, outer)
    return total


def _controlled(
    paths: Paths, places: tuple[int, int], reactions: Reactions, steady: Reactions, sampled: dict[str, Array]
) -> Array:
    """Return what the linearised paths as a control variate add to a mean over pairs: its exact value less the sampled one.

    The linearised path is the mean response acting on the noises, and on the Gaussian coordinates
    of the constants; the estimate is unbiased whatever these responses are.
    """
    weights, backend = paths.points.weights, paths.backend
    values = []
    for target in places:
        linear = backend.arrays.zeros(paths.shape)
        for noise, value in sampled.items():
            if noise in reactions:
                linear += backend.put(reactions[noise][target]) @ value
            elif noise in steady:
                linear += backend.put(steady[noise][target])[:, None] * value
        values.append(linear)
    exact = np.zeros((paths.shape[0], paths.shape[0]))
    for name, slopes in steady.items():
        if name in sampled:
            exact += np.multiply.outer(slopes[places[0]], slopes[places[1]])
    for rest in paths.drawn.rests:
        exact += _carried(rest.group, rest.group.covariance, reactions, places)
    return exact * float(weights.sum()) - backend.get((values[0] * weights) @ values[1].T)


def _linear(paths: Paths, target: int, reactions: Reactions, steady: Reactions) -> list[Array | None]:
    """Return, by group of noises, what a target does with the weak modes through its mean response.

    ``steady`` are the mean derivatives by constants among the modes.
    """
    made: list[Array | None] = []
    for rest in paths.drawn.rests:
        known = [noise for noise in rest.group.noises if noise in reactions]
        parts = [reactions[noise][target] @ rest.factor[rest.group.rows(noise)] for noise in known]
        parts += [np.multiply.outer(steady[name][target], row) for name, row in rest.steady.items() if name in steady]
        made.append(sum(parts[1:], parts[0]) if parts and rest.factor.shape[1] else None)
    return made


def _without(paths: Paths, values: Array, linear: list[Array | None]) -> Array:
    """Return a target on all paths with its linear part in the weak modes taken out."""
    for part, rest in zip(linear, paths.drawn.rests, strict=True):
        if part is not None and rest.coordinates.any():
            values = values - paths.backend.put(part) @ rest.coordinates
    return values


def _carried(group: Group, covariance: Array, reactions: Reactions, places: tuple[int, int]) -> Array:
    """Return what a covariance of noises is to a pair of targets through their mean responses."""
    left, right = places
    size = len(group.centres[0])
    total = np.zeros((size, size))
    known = [noise for noise in group.noises if noise in reactions]
    for noise, other in itertools.product(known, known):
        block = covariance[group.rows(noise), group.rows(other)]
        if block.any():
            total += reactions[noise][left] @ block @ reactions[other][right].T
    return total


def react(averages: Averages, kernels: Kernels, changes: list[tuple[Group, Array]]) -> dict[str, Array]:
    """Return how the means change with the kernels, every response replaced by its mean.

    ``kernels`` are the changed ones, ``changes`` the changes of the covariances.
    """
    plan: EnsemblePlan = averages.paths.plan
    size, reactions = averages.paths.shape[0], averages.reactions
    forces = [
        (link, noise, scale[:, None] * (_memory(link, kernels) - before)) for link, noise, scale, before in averages.forces
    ]
    forces = [entry for entry in forces if entry[2].any()]
    made: dict[str, Array] = {}
    for mean in plan.means:
        if mean.kind == "one" or mean.joint is not None:
            made[mean.name] = np.zeros((size,) if mean.kind == "one" else (size, size))
            continue
        total = np.zeros((size, size))
        for outer, (left, right) in zip(mean.outers, mean.targets, strict=True):
            part = np.zeros((size, size))
            for link, noise, force in forces:
                assert link.target is not None
                if mean.kind == "response":
                    part += reactions[noise][mean.output] @ (force @ reactions[mean.noise][link.target])
                else:
                    part += reactions[noise][left] @ (force @ averages.product(link.target, right))
                    part += (reactions[noise][right] @ (force @ averages.product(link.target, left))).T
            if mean.kind == "two":
                for group, change in changes:
                    part += _carried(group, change, averages.drawn, (left, right))
            total += averages.paths.kernels.scaled(part, outer)
        made[mean.name] = total
    return made
