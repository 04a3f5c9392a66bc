"""The paths of one ensemble, and beside them a linear companion that is driven alike and whose moments are known.

The companion is the path equation linearised with the mean slopes over all paths, from the same noises and starts, centred:
it is linear in standard normal coordinates (and in the starts), and carried along for every path and for every coordinate
by itself, so that its covariances are sums of squares. What is averaged in pairs is averaged as far as it differs from a
polynomial F of its companion l, the one nearest to it: with Hermite polynomials of the normal l/σ,

    F = Σ_k a_k He_k(l/σ),    E F(t) F'(t') = Σ_k k! a_k(t) a'_k(t') ρ(t, t')^k,    ρ the correlation of l and l'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import Covariance, EnsemblePlan, MeanPlan
from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend
from eqsolve.numerics.elimination import eliminate
from eqsolve.numerics.growing import Factor
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import Kernels, Pointwise
from eqsolve.solvers.sampled.draws import Draw, Starts
from eqsolve.solvers.sampled.tangents import Tangents

__all__ = ["Ensemble"]

_STEPS = 30  # of Newton's method in one step of the paths
_SETTLED = 1e-5  # relative change of the last one: the next would be of the square of it
_WIDE = 3  # unknowns of which products are taken to average functions of one time
_DEGREE = 3  # of the polynomials of the companion
_HIGHEST = 8  # degree of those that functions of one time are compared with
_FACTORIALS = np.array([1.0, 2.0, 6.0])


@dataclass(eq=False)
class Group:
    """Noises that are driven together: the factor of their covariance, their coordinates, and where these stand."""

    law: Covariance
    factor: Factor
    coordinates: Any
    place: int

    @property
    def noises(self) -> tuple[str, ...]:
        return self.law.noises


@dataclass(eq=False)
class Step:
    """What one step knows: the step's length, and how signals act on unknowns at the new node."""

    length: float
    weights: Array  # (unknown, signal): of the signals at the new node in the drift, or in the unknown itself
    factors: Array  # per unknown: half the step, or one
    kick: Any  # (unknown, columns)


@dataclass(eq=False)
class Now:
    """What paths and companions are at the node that is being solved."""

    node: int
    unknowns: Array
    signals: Array
    slopes: Array
    arguments: list[Any]
    drift: Array
    noise_slopes: Array | None = None
    unknowns_beside: Array = field(default_factory=lambda: np.empty(0))
    signals_beside: Array = field(default_factory=lambda: np.empty(0))
    drift_beside: Array = field(default_factory=lambda: np.empty(0))
    noises_beside: Array = field(default_factory=lambda: np.empty(0))


class Ensemble:
    """The state of a march: histories that averages and memory need, and what the last node left.

    What is as long as there are paths, or columns, lives on the backend; covariances, their factors and means in the
    machine's memory.
    """

    def __init__(
        self, plan: EnsemblePlan, laws: Sequence[Covariance], whites: Mapping[str, Pointwise], grid: OperatorGrid,
        sample: Draw, starts: Starts, tangents: int, backend: Backend = CPU,
    ) -> None:  # fmt: skip
        self.plan, self.grid, self.sample, self.paths = plan, grid, sample, sample.paths
        self.backend, zeros, put = backend, backend.arrays.zeros, backend.put
        self.constants = [put(sample.constants[name]) for name in plan.constants]
        self.integrated = backend.arrays.asarray(np.array(plan.integrated, dtype=bool)[:, None])
        self.whites = {kick.noise: whites[kick.noise] for kick in plan.kicks}
        size, count = grid.size, len(plan.unknowns)
        place = self.paths
        self.groups: list[Group] = []
        for law, coordinates in zip(laws, sample.groups, strict=True):
            total = size * len(law.noises)
            self.groups.append(Group(law, Factor(np.zeros((total, total))), put(coordinates), place))
            place += total
        self.kick_places = {name: place + index * (size - 1) for index, name in enumerate(self.whites)}
        self.kicks = {name: put(sample.kicks[name]) for name in self.whites}
        place += (size - 1) * len(self.whites)
        self.columns = place + count
        self.paired = sorted({t for mean in plan.means if mean.kind == "two" for term in mean.targets for t in term})
        self.remembered = sorted({link.signal for link in plan.links if link.kernel is not None})
        self.values = {t: zeros((size, self.paths)) for t in self.paired}
        self.beside = {t: zeros((size, self.paths)) for t in self.paired}
        self.directions = {t: np.zeros((size, self.columns - self.paths)) for t in self.paired}
        self.shapes = {t: np.zeros((size, _DEGREE)) for t in self.paired}
        self.degree = _DEGREE if starts.gaussian else 1
        self.levels = {t: np.zeros((size, 2)) for t in self.paired}  # means of the target and of its companion
        self.shares = {(m.name, k): np.zeros(size) for m in plan.means if m.kind == "two" for k in range(len(m.targets))}
        self.signals = {k: zeros((size, self.paths)) for k in self.remembered}
        self.signals_beside = {k: zeros((size, self.columns)) for k in self.remembered}
        self.memory_signals = [zeros((size, self.paths)) for _ in plan.memories]
        self.kept = {name: zeros((size, self.paths)) for name in plan.processes}
        first = backend.stack(plan.starts(*self.constants), (self.paths,))
        self.start = first
        self.start_beside = zeros((count, self.columns))
        self.start_beside[:, : self.paths] = first - put(starts.mean[:, None])
        self.start_beside[:, self.columns - count :] = put(starts.factor)
        asked: dict[str, list[MeanPlan]] = {}
        for mean in plan.means:
            if mean.kind == "response":
                asked.setdefault(mean.noise, []).append(mean)
        some = min(tangents, max(1, self.paths // 2))
        self.tangents = [Tangents(plan, grid, noise, group, some, self.remembered, backend) for noise, group in asked.items()]
        self.now = Now(-1, first, np.empty(0), np.empty(0), [], np.empty(0))

    # --- one step ----------------------------------------------------------------------------------------------------
    def step(self, node: int, kernels: Kernels) -> None:
        """Advance all paths, and their companions, to a node, for kernels up to it."""
        plan, count, zeros = self.plan, len(self.plan.unknowns), self.backend.arrays.zeros
        noises, noises_beside = self._draw(node, kernels)
        known, known_beside = zeros((count, self.paths)), zeros((count, self.columns))
        weights = np.zeros((count, plan.count))
        for link in plan.links:
            scale = _at(kernels, link.coefficient, node)
            if link.kernel is None:
                weights[link.unknown, link.signal] += scale
                continue
            row = kernels.operator(link.kernel)[node]
            weights[link.unknown, link.signal] += scale * row[node]
            if node:
                past = self.backend.put(scale * row[:node])
                known[link.unknown] += past @ self.signals[link.signal][:node]
                known_beside[link.unknown] += past @ self.signals_beside[link.signal][:node]
        for drive in plan.drives:
            scale, place = _at(kernels, drive.coefficient, node), plan.noises.index(drive.noise)
            known[drive.unknown] += scale * noises[place]
            known_beside[drive.unknown] += scale * noises_beside[place]
        length = float(self.grid.nodes[node] - self.grid.nodes[node - 1]) if node else 0.0
        factors = np.where(plan.integrated, length / 2, 1.0)
        kick = self._kick(node, kernels, length)
        made = Step(length, weights, factors, kick)
        self._follow(node, kernels, made, known, noises)
        self._follow_beside(made, known_beside, noises_beside)
        for item in self.tangents:
            item.step(node, kernels, weights, factors, self.now.slopes, self.now.noise_slopes)

    def _draw(self, node: int, kernels: Kernels) -> tuple[list[Any], list[Any]]:
        """Return the noises at a node on all paths, and centred on all columns; given all earlier values."""
        found: dict[str, tuple[Any, Any]] = {}
        for group in self.groups:
            known = group.factor.known
            for a, (name, entry) in enumerate(zip(group.noises, self._covariances(node, group, kernels), strict=True)):
                row = group.factor.row(entry)
                group.factor.keep(row)
                beside, placed = self.backend.arrays.zeros(self.columns), self.backend.put(row)
                beside[: self.paths] = placed @ group.coordinates[: len(row)]
                beside[group.place : group.place + len(row)] = placed
                found[name] = (float(kernels.vector(group.law.centres[a])[node]) + beside[: self.paths], beside)
            group.factor.known = known  # kept when the node is done
        pairs = [found[name] for name in self.plan.noises]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def _covariances(self, node: int, group: Group, kernels: Kernels) -> list[Array]:
        """Return the covariances of each noise at a node with all before it, and its variance."""
        tables = [[kernels.table(entry)[node] for entry in row] for row in group.law.blocks]
        count = range(len(group.noises))
        past = [np.stack([tables[a][b][:node] for b in count], axis=1).ravel() for a in count]
        return [np.concatenate([past[a], [tables[a][b][node] for b in range(a + 1)]]) for a in count]

    def _kick(self, node: int, kernels: Kernels, length: float) -> Any:
        """Return the increments of the unknowns by white noise over the last step."""
        made = self.backend.arrays.zeros((len(self.plan.unknowns), self.columns))
        if node == 0:
            return made
        for kick in self.plan.kicks:
            strength = float(kernels.vector(self.whites[kick.noise])[node - 1 : node + 1].mean())
            size = float(np.sqrt(max(strength, 0.0) * length))
            if kick.coefficient is not None:
                size *= float(kernels.vector(kick.coefficient)[node - 1 : node + 1].mean())
            made[kick.unknown, : self.paths] += size * self.kicks[kick.noise][node - 1]
            made[kick.unknown, self.kick_places[kick.noise] + node - 1] += size
        return made

    def _arguments(self, node: int, kernels: Kernels, unknowns: Any, noises: Sequence[Any]) -> list[Any]:
        functions = [kernels.functions[name][node] for name in self.plan.functions]
        return [self.grid.nodes[node], *unknowns, *noises, *self.constants, *functions]

    def _follow(self, node: int, kernels: Kernels, step: Step, known: Any, noises: list[Any]) -> None:
        """Solve the implicit step of every path by Newton's method."""
        plan, count, integrated = self.plan, len(self.plan.unknowns), self.integrated
        if node == 0:
            base = np.where(integrated, self.start, known)
            factors = np.where(plan.integrated, 0.0, 1.0)
        else:
            moved = self.unknowns + step.length / 2 * (self.drift + known) + step.kick[:, : self.paths]
            base, factors = np.where(integrated, moved, known), step.factors
        weights = self.backend.put(factors[:, None] * step.weights)
        if self.now.node == node:
            unknowns = self.now.unknowns
        else:
            unknowns = base + (np.where(integrated, step.length / 2 * self.drift, 0.0) if node else 0.0)
        table = self.backend.arrays.empty((plan.count * (1 + count), self.paths))
        signals, slopes = table[: plan.count], table[plan.count :].reshape(plan.count, count, self.paths)
        for _ in range(_STEPS):
            for place, value in enumerate(plan.signals(*self._arguments(node, kernels, unknowns, noises))):
                table[place] = value
            change = eliminate(self._jacobian(weights, slopes), unknowns - base - weights @ signals)
            unknowns = unknowns - change
            size = float(np.abs(change / (1.0 + np.abs(unknowns))).max()) if count else 0.0
            if not np.isfinite(size) or size < _SETTLED:
                break
        if not size < _SETTLED:
            here = f"t = {self.grid.nodes[node]:.6g}"
            raise SolverError(f"a step of some paths has no solution that can be found near {here}; they may blow up there")
        signals = signals - sum(slopes[:, b] * change[b] for b in range(count))  # where Newton's last step ended
        arguments = self._arguments(node, kernels, unknowns, noises)
        self.now = Now(node, unknowns, signals, slopes, arguments, known + self.backend.put(step.weights) @ signals)
        if plan.noise_slopes is not None:
            by_noise = self.backend.stack(plan.noise_slopes(*arguments), (self.paths,))
            self.now.noise_slopes = by_noise.reshape(plan.count, len(plan.noises), self.paths)

    def _jacobian(self, weights: Any, slopes: Any) -> Any:
        """Return 1 − weights · slopes for every path."""
        count = len(weights)
        made = self.backend.arrays.empty((count, count, self.paths))
        for a in range(count):
            for b in range(count):
                made[a, b] = float(a == b) - weights[a] @ slopes[:, b]
        return made

    def _follow_beside(self, step: Step, known: Any, noises: list[Any]) -> None:
        """Advance the companion: the same step, linear, with the mean slopes."""
        plan, count, now, put = self.plan, len(self.plan.unknowns), self.now, self.backend.put
        slopes, stacked = now.slopes.mean(axis=2), self.backend.stack(noises, (self.columns,))
        direct = self.backend.arrays.zeros((plan.count, self.columns))
        if now.noise_slopes is not None:
            direct = now.noise_slopes.mean(axis=2) @ stacked
        integrated = self.integrated
        if now.node == 0:
            base, factors = np.where(integrated, self.start_beside, known), np.where(plan.integrated, 0.0, 1.0)
        else:
            moved = self.unknowns_beside + step.length / 2 * (self.drift_beside + known) + step.kick
            base, factors = np.where(integrated, moved, known), step.factors
        weights = factors[:, None] * step.weights
        inverse = np.linalg.inv(np.eye(count) - weights @ self.backend.get(slopes))
        unknowns = put(inverse) @ (base + put(weights) @ direct)
        signals = slopes @ unknowns + direct
        now.unknowns_beside, now.drift_beside = unknowns, known + put(step.weights) @ signals
        now.signals_beside, now.noises_beside = signals, stacked

    def keep(self, node: int, kernels: Kernels) -> None:
        """Keep what the node has come to, for those to come; the factors are those of the covariances as they are at last."""
        last = self.now
        self.unknowns, self.drift = last.unknowns, last.drift
        self.unknowns_beside, self.drift_beside = last.unknowns_beside, last.drift_beside
        for group in self.groups:
            for entry in self._covariances(node, group, kernels):
                group.factor.keep(group.factor.row(entry))
        for k in self.remembered:
            self.signals[k][node], self.signals_beside[k][node] = last.signals[k], last.signals_beside[k]
        for item in self.tangents:
            item.keep(node)
        for name, value in zip(self.plan.processes, self.plan.process_values(*last.arguments), strict=True):
            self.kept[name][node] = value

    # --- means -------------------------------------------------------------------------------------------------------
    def average(self, node: int, kernels: Kernels, means: Mapping[str, Array]) -> None:
        """Put the means with a node, as far as paths are known, into their tables."""
        plan = self.plan
        arguments = list(self.now.arguments)
        for item, history, value in zip(plan.memories, self.memory_signals, plan.memory_signals(*arguments), strict=True):
            history[node] = value
            arguments.append(self.backend.put(kernels.operator(item)[node, : node + 1]) @ history[: node + 1])
        self.now.arguments = arguments
        if self.paired:
            self._targets(node, arguments)
        for mean in plan.means:
            if mean.kind == "one":
                means[mean.name][node] = self._one(mean.factors(*arguments)[0])
            elif mean.kind == "two":
                row, column = self._pairs(node, mean, kernels)
                means[mean.name][node, : node + 1], means[mean.name][: node + 1, node] = row, column
        for tangents in self.tangents:
            for mean in tangents.asked:
                means[mean.name][node, : node + 1] = tangents.average(node, mean, kernels, arguments)

    def _targets(self, node: int, arguments: list[Any]) -> None:
        """Evaluate what is averaged in pairs, and its companion, at a node."""
        plan, count, noises = self.plan, len(self.plan.unknowns), len(self.plan.noises)
        values = plan.target_values(*arguments)
        slopes, direct = plan.target_slopes(*arguments), plan.target_noise_slopes(*arguments)
        for t in self.paired:
            self.values[t][node] = values[t]
            linear = self.backend.arrays.zeros(self.columns)
            for b in range(count):
                linear += _mean(slopes[t * count + b]) * self.now.unknowns_beside[b]
            for b in range(noises):
                linear += _mean(direct[t * noises + b]) * self.now.noises_beside[b]
            self._shape(node, t, linear)
            self.levels[t][node] = float(self.values[t][node].mean()), float(self.beside[t][node].mean())

    def _shape(self, node: int, t: int, linear: Any) -> None:
        """Fit the polynomial of a target's companion to it."""
        get, exact = self.backend.get, self.backend.get(linear[self.paths :])
        size = float(np.sqrt(exact @ exact))
        self.shapes[t][node] = 0.0
        if not size > 1e-14 * (1.0 + float(np.abs(self.values[t][node]).max())):
            self.beside[t][node] = 0.0
            return
        normal = linear[: self.paths] / size
        self.directions[t][node] = exact / size
        basis = self.backend.arrays.empty((self.degree, self.paths))
        basis[0] = normal
        if self.degree > 1:
            square = normal * normal
            basis[1], basis[2] = square - 1.0, (square - 3.0) * normal
        centre = get(basis.mean(axis=1))
        matrix = get(basis @ basis.T) / self.paths - np.outer(centre, centre)
        right = get(basis @ self.values[t][node]) / self.paths - centre * float(self.values[t][node].mean())
        fitted = np.linalg.lstsq(matrix, right, rcond=1e-9)[0]
        self.shapes[t][node, : self.degree] = fitted
        self.beside[t][node] = self.backend.put(fitted) @ basis

    def _pairs(self, node: int, mean: MeanPlan, kernels: Kernels) -> tuple[Array, Array]:
        """Return E f(t) g(t') and E f(t') g(t) for the node's time t and all t' up to it."""
        n = node + 1
        row, column = np.zeros(n), np.zeros(n)
        for k, (outer, (f, g)) in enumerate(zip(mean.outers, mean.targets, strict=True)):
            share = self.shares[mean.name, k]
            share[node] = self._share(node, f, g)
            both = np.sqrt(share[:n] * share[node])
            parts = [self._products(node, f, g, both)]
            parts.append(parts[0] if f == g else self._products(node, g, f, both))
            if outer is not None:
                table = np.broadcast_to(np.asarray(kernels.pointwise(outer), float), (n, n))
                parts = [parts[0] * table[node], parts[1] * table[:, node]]
            row, column = row + parts[0], column + parts[1]
        return row, column

    def _products(self, node: int, f: int, g: int, share: Array) -> Array:
        """Return the mean of f at the node with g at all nodes up to it, less what the companions have by chance."""
        n, paths = node + 1, self.paths
        raw = self.backend.get(self.values[g][:n] @ self.values[f][node]) / paths
        if not share.any():
            return np.asarray(raw)
        chance = self.backend.get(self.beside[g][:n] @ self.beside[f][node]) / paths
        alike = self.directions[g][:n] @ self.directions[f][node]
        powers = np.stack([alike, alike**2, alike**3], axis=1)
        chance -= (powers * self.shapes[g][:n]) @ (_FACTORIALS * self.shapes[f][node])
        level, own = self.levels[f][node]
        levels, owns = self.levels[g][:n].T
        return np.asarray(raw - share * (chance + (level * owns + own * levels) - 2 * own * owns))

    def _share(self, node: int, f: int, g: int) -> float:
        """Return which share of the companion's product is best taken out: one where everything is linear."""
        paths = self.paths
        product = self.values[f][node] * self.values[g][node]
        (level, own), (other, yours) = self.levels[f][node], self.levels[g][node]
        one, two = self.beside[f][node] - own, self.beside[g][node] - yours
        linear = one * two + level * two + other * one
        linear -= linear.mean()
        size = float(linear @ linear)
        if size <= 1e-24 * paths * (level * other) ** 2 or size == 0.0:
            return 0.0
        return float(np.clip((product - product.mean()) @ linear / size, 0.0, 1.0))

    def _one(self, value: Any) -> float:
        """Return the mean of a function of one time, less what polynomials of the companion have by chance.

        Those of second degree in all unknowns; where the companion is Gaussian, also higher ones of each unknown alone.
        """
        if np.ndim(value) == 0:
            return float(value)
        values, get = self.backend.full(value, (self.paths,)), self.backend.get
        mean = float(values.mean())
        moving = [b for b, integrated in enumerate(self.plan.integrated) if integrated][:_WIDE]
        if not moving:
            return mean
        beside = self.now.unknowns_beside[moving]
        sample, exact = beside[:, : self.paths], get(beside[:, self.paths :])
        rows, known = [*sample], [0.0] * len(moving)
        for a in range(len(moving)):
            for b in range(a, len(moving)):
                rows.append(sample[a] * sample[b])
                known.append(float(exact[a] @ exact[b]))
        if self.degree > 1:
            for a in range(len(moving)):
                higher = _hermite(sample[a], float(np.sqrt(exact[a] @ exact[a])))
                rows += higher
                known += [0.0] * len(higher)
        table = self.backend.stack(rows, (self.paths,))
        middle = table.mean(axis=1)
        table -= middle[:, None]
        centre, scale = get(middle), np.sqrt(get((table**2).mean(axis=1)))
        used = np.flatnonzero(scale > 1e-12 * (1 + np.abs(centre)))
        if not len(used):
            return mean
        table = table[used] / self.backend.put(scale[used, None])
        products = get(table @ table.T) / self.paths
        best = np.linalg.pinv(products, rcond=1e-9, hermitian=True) @ (get(table @ values) / self.paths)
        return mean - float(best @ ((centre - np.array(known))[used] / scale[used]))


def _at(kernels: Kernels, coefficient: Pointwise | None, node: int) -> float:
    return 1.0 if coefficient is None else float(kernels.vector(coefficient)[node])


def _hermite(values: Array, size: float) -> list[Array]:
    """Return Hermite polynomials of a Gaussian of known size from the third on: their means vanish."""
    if not size > 0:
        return []
    normal = values / size
    last, made = normal, normal * normal - 1.0
    found = []
    for degree in range(2, _HIGHEST):
        last, made = made, normal * made - degree * last
        found.append(made)
    return found


def _mean(value: Any) -> float:
    made = float(np.mean(value))
    return made if np.isfinite(made) else 0.0
