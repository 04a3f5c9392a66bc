"""Sample means with control variates: linearised paths, and the Furutsu–Novikov identity."""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.compile.stochastic import EnsembleProgram, Link, MeanProgram
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend
from eqsolve.numerics.relations import Kernels
from eqsolve.solvers.paths.follow import Paths, step_average_matrix
from eqsolve.solvers.paths.modes import Choice, Group
from eqsolve.solvers.paths.responses import enter, instantaneous, respond, respond_to_constants, target_slopes

MeanResponses = Mapping[str, list[Array]]
"""By noise, the mean response of every target, as operators."""


@dataclass(frozen=True, eq=False)
class Averages:
    """What one ensemble gives after its paths were followed.

    ``sizes`` hold E|f| beside E f, what a mean that cancels is compared with. There are mean
    responses to functions on the nodes, to white noises, which are constant in every step, and to
    constants among the modes.
    """

    paths: Paths
    choice: Choice
    means: dict[str, Array]
    sizes: dict[str, Array]
    node_responses: MeanResponses
    step_responses: MeanResponses
    constant_responses: MeanResponses

    @property
    def noise_responses(self) -> MeanResponses:
        """Mean responses to noises as they are drawn."""
        return {**self.node_responses, **self.step_responses}

    @property
    def reacts(self) -> bool:
        return bool(self.node_responses)

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
        drives = {drive.unknown: drive for drive in (*plan.kicks, *plan.drives) if drive.noise in self.node_responses}
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
    paths: Paths, choice: Choice, backend: Backend = CPU, threads: int | None = 1
) -> Averages:  # fmt: skip
    """Return the means over paths, responses among them; tangents are followed on the backend.

    On a sparse grid mean responses are always found, for what is linear in the weak modes.
    """
    plan = paths.plan
    made: dict[str, Array] = {}
    reactions: dict[str, list[Array]] = {}
    steps: dict[str, list[Array]] = {}
    for noise in (*plan.driving[len(plan.noises) :], *plan.noises):
        asked = [mean for mean in plan.means if mean.kind == "response" and mean.noise == noise]
        found: dict[str, Array] = {}
        if noise not in plan.noises:
            found, reactions[noise], steps[noise] = _respond_to_white(paths, noise, asked, backend, threads)
        elif (like := _parallel_white_noise(plan, paths.kernels, noise, steps)) and not asked:
            reactions[noise] = [like[1] * matrix for matrix in reactions[like[0]]]
        elif asked or steps or choice.layout.kind == "sparse":
            found, reactions[noise] = respond(paths, noise, asked, backend, threads)
        made |= found
    drawn = choice.layout.kind in ("sample", "single") and bool(reactions)
    constants = respond_to_constants(paths) if drawn or (choice.layout.kind == "sparse" and not choice.strong.all()) else {}
    single, sizes = average_single(paths)
    linear = LinearisedPaths(paths, reactions | steps, constants, _centred(paths, choice) if drawn else None)
    made |= single | {mean.name: linear.pairs(mean) for mean in plan.means if mean.kind == "two"}
    return Averages(paths, choice, {mean.name: made[mean.name] for mean in plan.means}, sizes, reactions, steps, constants)


def add_up(
    paths: Paths, choice: Choice, noises: MeanResponses, constants: MeanResponses, weights: Array | None, backend: Backend
) -> dict[str, Array]:
    """Return the contribution of a chunk of paths to all means, with given control variates.

    Responses are those of paths with ``weights``, which stand for all. Defects of integration by
    parts are included, under ``SteinIdentity.name``.
    """
    plan, made = paths.plan, average_single(paths)[0]
    linear = LinearisedPaths(paths, noises, constants, _centred(paths, choice) if noises else None)
    made |= {mean.name: linear.pairs(mean) for mean in plan.means if mean.kind == "two"}
    if weights is not None:
        few = replace(paths, points=replace(paths.points, weights=paths.backend.put(weights)))
        for noise in plan.driving:
            asked = [mean for mean in plan.means if mean.kind == "response" and mean.noise == noise]
            if asked and noise in plan.noises:
                made |= respond(few, noise, asked, backend, targets=False)[0]
            elif asked and _steps_give_nodes(plan, few.kernels, noise, asked):
                found = respond(few, noise, asked, backend, targets=False)[0]
                made |= {steps_name(name): value for name, value in found.items()}
                made |= {name: value @ step_average_matrix(len(value)) for name, value in found.items()}
            elif asked:
                made |= _respond_to_white(few, noise, asked, backend, 1)[0]
    else:
        few = None
    return made | linear.with_noises(few)


# --- Integration by parts: E[y(t) ζ(t')] = ∫ R(t, s) C(s, t') ds for a Gaussian noise ζ with
# covariance C and the mean response R = E[∂y/∂ζ] (Furutsu 1963, Novikov 1965; Stein's identity).
# The difference of both sides on sampled paths, the defect, vanishes in the mean: it is a control
# variate. Along strong modes of the noise the left side scatters less than the right one.
@dataclass(frozen=True, eq=False)
class SteinIdentity:
    """E[y ζ] = R C for a target y and noises ζ that are independent of all others.

    ``sources`` are by noise the response that is asked for, its name in a large set, and the matrix
    that turns it into R, if needed. ``own``: whether responses to these noises are asked for.
    """

    target: int
    noises: tuple[str, ...]
    covariance: Array
    sources: tuple[tuple[MeanProgram, str, Array | None], ...]
    own: bool

    @property
    def name(self) -> str:
        return f"integration by parts, {self.sources[0][0].name}, {', '.join(self.noises)}"

    def response(self, made: Mapping[str, Array]) -> Array:
        return np.hstack([made[name] if after is None else made[name] @ after for _, name, after in self.sources])

    def mean_response(self, by_noise: MeanResponses, target: int) -> Array:
        return np.hstack([by_noise[noise][target] for noise in self.noises])


def steps_name(response: str) -> str:
    return f"by steps, {response}"


def stein_identities(
    plan: EnsembleProgram, kernels: Kernels, groups: Sequence[Group], by_noise: MeanResponses
) -> Iterator[SteinIdentity]:
    """Yield the identities E[y(t) ζ(t')] = ∫ R(t, s) C(s, t') ds whose responses R are asked for.

    The target y is the output of R, or one with the same mean response whose correlations are
    asked for: the part of it that ζ does not drive is smaller.
    """
    pairs = {target for mean in plan.means if mean.kind == "two" for pair in mean.targets for target in pair}
    for group in groups:
        asked: dict[int, dict[str, MeanProgram]] = {}
        for mean in plan.means:
            known = mean.kind == "response" and not mean.reads and mean.outers[0] is None
            if known and mean.noise in group.noises and mean.noise in by_noise:
                asked.setdefault(mean.output, {})[mean.noise] = mean
        for output, found in asked.items():
            mine = [by_noise[noise] for noise in found]
            alike = (place for place in sorted(pairs) if all(np.array_equal(of[place], of[output]) for of in mine))
            target = next(alike, output)
            covariance = _independent(group, tuple(found))
            if covariance is None:
                continue
            white = [noise for noise in found if noise not in plan.noises]
            if not white:
                yield SteinIdentity(
                    target, tuple(found), covariance, tuple((mean, mean.name, None) for mean in found.values()), True
                )
            elif len(found) == 1 and _steps_give_nodes(plan, kernels, white[0], [*found.values()]):
                mean, source = found[white[0]], steps_name(found[white[0]].name)
                yield SteinIdentity(target, (mean.noise,), covariance, ((mean, source, None),), True)
                for noise in (noise for noise in plan.noises if noise in by_noise):
                    like = _parallel_white_noise(plan, kernels, noise, white)
                    alone = next(_independent(other, (noise,)) for other in groups if noise in other.noises)
                    if like and alone is not None:
                        after = like[1] * step_average_matrix(kernels.grid.size)
                        yield SteinIdentity(target, (noise,), alone, ((mean, source, after),), False)


def _independent(group: Group, noises: tuple[str, ...]) -> Array | None:
    """Return the joint covariance of some noises of a group, None where others depend on them."""
    rows = np.concatenate([np.arange(len(group.covariance))[group.rows(noise)] for noise in noises])
    if np.delete(group.covariance[rows], rows, axis=1).any():
        return None
    return np.asarray(group.covariance[np.ix_(rows, rows)])


def apply_control_variates(
    plan: EnsembleProgram, groups: Sequence[Group], kernels: Kernels, made: Mapping[str, Array], by_noise: MeanResponses,
    ridge: float, share: float,
) -> dict[str, Array]:  # fmt: skip
    """Return the means over a large set of paths with the defects of integration by parts as control variates.

    To a response with the defect D the causal part of D (C + ridge S)⁻¹ is added, with S the
    variances; that leaves the defect D' = D − D (C + ridge S)⁻¹ C. From a correlation with the
    output y the product of D' and y's mean responses is subtracted, times ``share``.
    """
    result, size = {mean.name: made[mean.name] for mean in plan.means}, kernels.grid.size
    causal = np.zeros((size, size), dtype=bool)
    for block in kernels.grid.blocks:
        causal[block, : block.stop] = True
    for item in stein_identities(plan, kernels, groups, by_noise):
        if item.name not in made:
            continue
        defect = made[item.name] - item.response(made) @ item.covariance
        if math.isfinite(ridge) and item.own:
            sizes = np.sqrt(np.maximum(np.diagonal(item.covariance), 1e-300))
            matrix = item.covariance / np.multiply.outer(sizes, sizes) + ridge * np.eye(len(sizes))
            step = np.linalg.solve(matrix, (defect / sizes).T).T / sizes
            step = np.where(np.tile(causal, len(item.noises)), step, 0.0)
            for place, (mean, *_) in enumerate(item.sources):
                own = step[:, place * size : (place + 1) * size]
                result[mean.name] = result[mean.name] + (own if mean.noise in plan.noises else own @ step_average_matrix(size))
            defect = defect - step @ item.covariance
        for mean in plan.means:
            if mean.kind != "two" or mean.joint is not None:
                continue
            for outer, (left, right) in zip(mean.outers, mean.targets, strict=True):
                both = np.zeros((size, size))
                if left == item.target:
                    both += defect @ item.mean_response(by_noise, right).T
                if right == item.target:
                    both += item.mean_response(by_noise, left) @ defect.T
                result[mean.name] = result[mean.name] - share * kernels.scaled(both, outer)
    return result


def _respond_to_white(
    paths: Paths, noise: str, asked: list[MeanProgram], backend: Backend, threads: int | None
) -> tuple[dict[str, Array], list[Array], list[Array]]:
    """Return responses to a white noise: those asked for, and of targets to functions and to steps.

    Where the noise's coefficients are constant, R_nodes = R_steps M with M the means over steps.
    """
    means = step_average_matrix(paths.shape[0])
    if not _steps_give_nodes(paths.plan, paths.kernels, noise, asked):
        _, by_step = respond(paths, noise, (), backend, threads)
        found, at_nodes = respond(paths, noise, asked, backend, threads, at_nodes=True)
        return found, at_nodes, by_step
    found, by_step = respond(paths, noise, asked, backend, threads, after=means)
    return found, [matrix @ means for matrix in by_step], by_step


def _steps_give_nodes(plan: EnsembleProgram, kernels: Kernels, noise: str, asked: Sequence[MeanProgram]) -> bool:
    """Whether R_nodes = R_steps M for a white noise (see ``_respond_to_white``)."""
    return _coefficients(plan, kernels, noise) is not None and all(mean.plain for mean in asked)


def _coefficients(plan: EnsembleProgram, kernels: Kernels, noise: str) -> dict[int, float] | None:
    """Return the constants with which a noise drives unknowns; None where it acts otherwise."""
    made = {}
    if noise in plan.noises and plan.noise_slopes is not None:
        return None
    for drive in (*plan.drives, *plan.kicks):
        if drive.noise == noise:
            values = np.ones(1) if drive.coefficient is None else kernels.vector(drive.coefficient)
            if np.ptp(values) != 0 or not plan.integrated[drive.unknown]:
                return None
            made[drive.unknown] = float(values[0])
    return made


def _parallel_white_noise(
    plan: EnsembleProgram, kernels: Kernels, noise: str, whites: Iterable[str]
) -> tuple[str, float] | None:
    """Return a white noise that drives the same unknowns, and how much more strongly this one does."""
    mine = _coefficients(plan, kernels, noise)
    for white in whites:
        known = _coefficients(plan, kernels, white)
        if mine and known and set(mine) == set(known):
            ratios = [mine[unknown] / known[unknown] for unknown in mine if known[unknown]]
            if len(ratios) == len(mine) and np.ptp(ratios) == 0:
                return white, ratios[0]
    return None


def _centred(paths: Paths, choice: Choice) -> dict[str, Array]:
    """Return the noises less their means, and the Gaussian coordinates of constants among the modes, on all paths."""
    made = {}
    for rest in paths.drawn.linear_parts:
        for noise, centre in zip(rest.group.noises, rest.group.centres, strict=True):
            made[noise] = paths.drawn.noises[paths.plan.driving.index(noise)] - paths.backend.put(centre[:, None])
    scales = paths.points.scales
    if scales and choice.rotation is not None:
        coordinates = np.empty_like(choice.points.normals)
        coordinates[choice.order] = choice.points.normals
        turn = paths.backend.put(choice.rotation[len(choice.rotation) - len(scales) :])
        made |= dict(zip(scales, turn @ coordinates, strict=True))
    return made


def average_single(paths: Paths) -> tuple[dict[str, Array], dict[str, Array]]:
    """Return the means of functions of one time, and the means of their sizes."""
    weights, get = paths.points.weights, paths.backend.get
    values = {mean.name: paths.values(mean.factors)[0] for mean in paths.plan.means if mean.kind == "one"}
    sizes = {name: get(np.abs(value) @ np.abs(weights)) for name, value in values.items()}
    return {name: get(value @ weights) for name, value in values.items()}, sizes


@dataclass(frozen=True, eq=False)
class LinearisedPaths:
    """Paths, and their targets to first order: ŷ = Σ R ζ + Σ r x, with mean responses R and r.

    ``sampled`` are the centred noises ζ and Gaussian coordinates x of constants on all paths, where
    all modes are sampled; else ŷ is known along the weak modes of a sparse grid.
    """

    paths: Paths
    by_noise: MeanResponses
    by_constant: MeanResponses
    sampled: dict[str, Array] | None

    def pairs(self, mean: MeanProgram) -> Array:
        """Return E f(t) g(t'); what is linear in the weak modes is exact by the mean responses."""
        paths, weights, factors = self.paths, self.paths.points.weights, self.paths.values(mean.factors)
        total = np.zeros((paths.shape[0], paths.shape[0]))
        if mean.joint is not None:  # row by row: nodes² × paths values of the function
            near = len(mean.sides[0])
            rows = [mean.join([value[i] for value in factors[:near]], factors[near:]) @ weights for i in range(len(total))]
            return paths.backend.get(paths.backend.arrays.stack(rows))
        for outer, places, first, second in zip(mean.outers, mean.targets, factors[::2], factors[1::2], strict=True):
            if self.sampled is not None:
                pairs = paths.backend.get((first * weights) @ second.T) + self.control(places)
                total += paths.kernels.scaled(pairs, outer)
                continue
            linear = [self.along_weak_modes(target) for target in places]
            one, other = (_without(paths, values, part) for values, part in zip((first, second), linear, strict=True))
            pairs = paths.backend.get((one * weights) @ other.T)
            for mine, yours in zip(*linear, strict=True):
                if mine is not None and yours is not None:
                    pairs += mine @ yours.T
            for rest in paths.drawn.linear_parts:
                if rest.beyond is not None:
                    pairs += _carried(rest.group, rest.beyond, self.by_noise, places)
            total += paths.kernels.scaled(pairs, outer)
        return total

    def control(self, places: tuple[int, int]) -> Array:
        """Return E ŷ(t) ŷ'(t') of two targets less its sample mean: a control variate."""
        paths, values = self.paths, [self.target(place) for place in places]
        exact = np.zeros((paths.shape[0], paths.shape[0]))
        for name, slopes in self.by_constant.items():
            if name in (self.sampled or {}):
                exact += np.multiply.outer(slopes[places[0]], slopes[places[1]])
        for rest in paths.drawn.linear_parts:
            exact += _carried(rest.group, rest.group.covariance, self.by_noise, places)
        weights = paths.points.weights
        return exact * float(weights.sum()) - paths.backend.get((values[0] * weights) @ values[1].T)

    def target(self, place: int) -> Array:
        """Return ŷ of a target on all paths."""
        put, linear = self.paths.backend.put, self.paths.backend.arrays.zeros(self.paths.shape)
        for name, value in (self.sampled or {}).items():
            if name in self.by_noise:
                linear += put(self.by_noise[name][place]) @ value
            elif name in self.by_constant:
                linear += put(self.by_constant[name][place])[:, None] * value
        return linear

    def along_weak_modes(self, place: int) -> list[Array | None]:
        """Return the matrix from the weak modes of every group of noises to ŷ of a target."""
        made: list[Array | None] = []
        for rest in self.paths.drawn.linear_parts:
            noises = [name for name in rest.group.noises if name in self.by_noise]
            parts = [self.by_noise[name][place] @ rest.factor[rest.group.rows(name)] for name in noises]
            constants = [name for name in rest.constants if name in self.by_constant]
            parts += [np.multiply.outer(self.by_constant[name][place], rest.constants[name]) for name in constants]
            made.append(sum(parts[1:], parts[0]) if parts and rest.factor.shape[1] else None)
        return made

    def with_noises(self, few: Paths | None) -> dict[str, Array]:
        """Return E[y(t) ζ(t')] − D(t) C(t, t') by identity, with D δ(t − t') a part of R.

        With ŷ as a control variate, E[y ζ] = E[(y − ŷ) ζ] + R C. D is averaged over the ``few``
        paths that responses are taken from, and left out without them.
        """
        paths, plan, weights, made = self.paths, self.paths.plan, self.paths.points.weights, {}
        groups, get, sampled = [rest.group for rest in paths.drawn.linear_parts], paths.backend.get, self.sampled or {}
        for item in stein_identities(plan, paths.kernels, groups, self.by_noise):
            if any(float(factor[0, 0]) != 1.0 for mean, *_ in item.sources for factor in paths.values(mean.factors)):
                continue
            left = paths.values(plan.target_values)[item.target] - self.target(item.target)
            total = get((left * weights) @ np.vstack([sampled[noise] for noise in item.noises]).T)
            total += float(weights.sum()) * item.mean_response(self.by_noise, item.target) @ item.covariance
            if few is not None and item.own:
                for place, (mean, *_) in enumerate(item.sources):
                    outputs, factors = paths.values(mean.by_unknown), paths.values(mean.factors)
                    direct = instantaneous(few, enter(paths, mean.noise)[0], outputs, factors)
                    if mean.noise in plan.noises:
                        direct = direct + get(target_slopes(paths, mean.noise)[1][item.target] @ few.points.weights)
                    size = len(direct)
                    total -= direct[:, None] * item.covariance[place * size : (place + 1) * size]
            made[item.name] = total
        return made


def _without(paths: Paths, values: Array, linear: list[Array | None]) -> Array:
    """Return a target on all paths with its linear part in the weak modes taken out."""
    for part, rest in zip(linear, paths.drawn.linear_parts, strict=True):
        if part is not None and rest.coordinates.any():
            values = values - paths.backend.put(part) @ rest.coordinates
    return values


def _carried(group: Group, covariance: Array, by_noise: MeanResponses, places: tuple[int, int]) -> Array:
    """Return Σ R C R'ᵀ: the covariance of two targets by that of noises and mean responses."""
    left, right = places
    size = len(group.centres[0])
    total = np.zeros((size, size))
    known = [noise for noise in group.noises if noise in by_noise]
    for noise, other in itertools.product(known, known):
        block = covariance[group.rows(noise), group.rows(other)]
        if block.any():
            total += by_noise[noise][left] @ block @ by_noise[other][right].T
    return total


def react(averages: Averages, kernels: Kernels, changes: list[tuple[Group, Array]]) -> dict[str, Array]:
    """Return how the means change with the kernels, every response replaced by its mean.

    ``kernels`` are the changed ones, ``changes`` the changes of the covariances.
    """
    plan: EnsembleProgram = averages.paths.plan
    size, reactions = averages.paths.shape[0], averages.node_responses
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
                    part += _carried(group, change, averages.noise_responses, (left, right))
            total += averages.paths.kernels.scaled(part, outer)
        made[mean.name] = total
    return made
