"""Paths of one ensemble in discrete time: explicit steps, means, and responses by tangents.

At a new node the unknowns under a derivative are known from the last one. The noises are drawn
given their past, the other unknowns follow from them, and so do the means with all earlier nodes.
When the means of all ensembles have converged, the tangents are carried on: with memory this costs
nodes³ × paths / 6. Over a noise of few values that is drawn afresh at a node, means are sums where
nothing else at the node follows from it.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import Covariance, EnsembleProgram, MeanProgram
from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import ROUNDING, Array, chunk, invert
from eqsolve.numerics.gaussian import Factor
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.quadrature import stacked
from eqsolve.numerics.relations import Kernels, Pointwise
from eqsolve.solvers.paths.steps.draws import StepsSample, normals_along

_STEPS = 50  # of Newton's method for unknowns that stand in their own definition at the same time
_OUTCOMES = 8  # of all that is drawn afresh at a node, at most: more are not gone through


def is_chain(plan: EnsembleProgram) -> bool:
    """Whether the past of a path acts through one number alone, so that noise may be drawn in the order of that number."""
    remembers = plan.memories or any(link.kernel is not None for link in plan.links)
    return plan.signal_slopes is None and not remembers and sum(plan.integrated) == len(plan.noises) == 1


class Ensemble:
    """The state of a march: what averages and memory need of the past, and the present node."""

    def __init__(self, plan: EnsembleProgram, laws: Sequence[Covariance], grid: OperatorGrid, sample: StepsSample) -> None:
        self.plan, self.grid, self.sample, self.weights = plan, grid, sample, sample.weights
        self.paths, size = len(sample.weights), grid.size
        self.length = float(grid.nodes[1] - grid.nodes[0]) if size > 1 else 0.0
        self.constants = [sample.constants[name] for name in plan.constants]
        self.groups = [
            (law, Factor(np.zeros((size * len(law.noises),) * 2)), coordinates)
            for law, coordinates in zip(laws, sample.groups, strict=True)
        ]
        self.integrated = np.array(plan.integrated, dtype=bool)
        terms = [term for mean in plan.means if mean.kind == "two" for term in (*mean.targets, *mean.sides)]
        self.paired = sorted({t for term in terms for t in term})
        self.remembered = sorted({link.signal for link in plan.links if link.kernel is not None})
        self.values = {t: np.zeros((size, self.paths)) for t in self.paired}
        self.history = {k: np.zeros((size, self.paths)) for k in self.remembered}
        self.memory_signals = [np.zeros((size, self.paths)) for _ in plan.memories]
        self.kept = {name: np.zeros((size, self.paths)) for name in plan.processes}
        self.unknowns = stacked(plan.starts(*self.constants), self.paths)
        self.drift = np.zeros_like(self.unknowns)
        self.acting = np.zeros((len(plan.unknowns), plan.count))
        self.drawn = -1  # the last node at which noise was drawn in the order of the paths
        asked: dict[str, list[MeanProgram]] = {}
        for mean in plan.means:
            if mean.kind == "response":
                asked.setdefault(mean.noise, []).append(mean)
        self.tangents = [Tangents(self, noise, means) for noise, means in asked.items()]
        self.places = [1 + len(plan.unknowns) + plan.noises.index(name) for name in sample.fresh]
        self.given = 1 + len(plan.unknowns) + len(plan.noises) + len(plan.constants) + len(plan.functions)
        self.outcomes = [
            (math.prod(mass for _, mass in chosen), [value for value, _ in chosen])
            for chosen in itertools.product(*sample.fresh.values())
        ]
        if any(drive.noise in sample.fresh for drive in plan.drives) or len(self.outcomes) > _OUTCOMES:
            self.places = []

    @property
    def prompt(self) -> bool:
        """Whether the means that act back follow from unknowns under a derivative, without noises."""
        plan, count = self.plan, len(self.plan.unknowns)
        late = {1 + place for place in range(count) if not plan.integrated[place]}
        late |= set(range(1 + count, 1 + count + len(plan.noises)))
        first = 1 + count + len(plan.noises) + len(plan.constants)
        return not plan.memories and not any(
            place in late or place >= first for mean in plan.means if mean.acts for place in (*mean.reads, *mean.output_reads)
        )

    def advance(self, node: int) -> None:
        """Take the step to a node: what stands under a derivative is known then."""
        if node:
            self.unknowns = np.where(self.integrated[:, None], self.unknowns + self.length * self.drift, self.unknowns)
        if not np.isfinite(self.unknowns).all():
            raise SolverError(f"paths stop being finite at t = {self.grid.nodes[node]:.6g}; the step may be too long for them")

    def glance(self, node: int) -> None:
        """Set the arguments of such means at a node; the noises are still those of the node before."""
        last = getattr(self, "arguments", [])
        count = len(self.plan.unknowns)
        rest = last[1 + count :] or [0.0] * (len(self.plan.noises) + len(self.plan.constants) + len(self.plan.functions))
        if not last:
            rest[len(self.plan.noises) : len(self.plan.noises) + len(self.constants)] = self.constants
        self.arguments = [self.grid.nodes[node], *self.unknowns, *rest]

    def settle(self, node: int, kernels: Kernels) -> None:
        """Draw the noises of a node and find what follows from them, for kernels up to it."""
        plan, count = self.plan, len(self.plan.unknowns)
        noises = self._noises(node, kernels)
        known = np.zeros((count, self.paths))
        weights = np.zeros((count, plan.count))
        for link in plan.links:
            scale = _at(kernels, link.coefficient, node)
            if link.kernel is None:
                weights[link.unknown, link.signal] += scale
            elif node:
                row = scale * kernels.operator(link.kernel)[node, :node]
                known[link.unknown] += row @ self.history[link.signal][:node]
        for drive in plan.drives:
            known[drive.unknown] += _at(kernels, drive.coefficient, node) * noises[plan.noises.index(drive.noise)]
        unknowns = np.where(self.integrated[:, None], self.unknowns, known)
        acting = np.where(self.integrated[:, None], 0.0, weights)
        loops = bool(acting.any())
        for _ in range(_STEPS if loops else 0):
            signals, slopes = self._signals(self._arguments(node, kernels, unknowns, noises), self.paths)
            miss = unknowns - np.where(self.integrated[:, None], self.unknowns, known + acting @ signals)
            change = np.einsum("abp,bp->ap", invert(_jacobian(acting, slopes)), miss)
            unknowns = unknowns - change
            if float(np.abs(change / (1.0 + np.abs(unknowns))).max()) < 10 * ROUNDING:
                break
        self.known, self.acting, self.plain, self.unknowns = known, acting, weights, unknowns
        self.arguments = self._arguments(node, kernels, unknowns, noises)
        self.signals = stacked(plan.forces(*self.arguments), self.paths)
        if self.tangents:  # slopes along the paths of which responses are followed
            some = self.sample.some
            few = [value if np.ndim(value) == 0 else value[some] for value in self.arguments]
            self.slopes = self._signals(few, len(some))[1]
            self.noise_slopes = None
            if plan.noise_slopes is not None:
                self.noise_slopes = stacked(plan.noise_slopes(*few), len(some)).reshape(
                    plan.count, len(plan.noises), len(some)
                )

    def _signals(self, arguments: list[Any], paths: int) -> tuple[Array, Array]:
        """Return the signals and their derivatives by the unknowns."""
        count, table = self.plan.count, stacked(self.plan.signals(*arguments), paths)
        return table[:count], table[count:].reshape(count, len(self.plan.unknowns), paths)

    def _noises(self, node: int, kernels: Kernels) -> list[Array]:
        found: dict[str, Array] = {name: values[node] for name, values in self.sample.drawn.items()}
        for law, factor, coordinates in self.groups:
            before = factor.known
            for a, name in enumerate(law.noises):
                row = factor.row(self._covariances(node, law, kernels)[a])
                factor.keep(row)
                if self.sample.ordered and self.drawn < node and not row[:-1].any():
                    coordinates[node] = normals_along(self.unknowns[self.integrated][0], self.sample.seed + node)
                    self.drawn = node
                found[name] = float(kernels.vector(law.centres[a])[node]) + row @ coordinates[: len(row)]
            factor.known = before  # kept when the node is done
        return [found[name] for name in self.plan.noises]

    def _covariances(self, node: int, law: Covariance, kernels: Kernels) -> list[Array]:
        """Return the covariances of each noise at a node with all before it, and its variance."""
        tables = [[kernels.table(entry)[node] for entry in row] for row in law.blocks]
        count = range(len(law.noises))
        past = [np.stack([tables[a][b][:node] for b in count], axis=1).ravel() for a in count]
        return [np.concatenate([past[a], [tables[a][b][node] for b in range(a + 1)]]) for a in count]

    def _arguments(self, node: int, kernels: Kernels, unknowns: Array, noises: Sequence[Array]) -> list[Any]:
        known = kernels.functions  # ramps have no width: jumps are as they are
        functions = [known[name][node] if name in known else 0.0 for name in self.plan.functions]
        return [self.grid.nodes[node], *unknowns, *noises, *self.constants, *functions]

    def average(self, node: int, kernels: Kernels | None, means: Mapping[str, Array], acting: bool | None = None) -> None:
        """Put the means with a node into their tables: all, or only those that act back, or only those that do not."""
        plan, n, arguments = self.plan, node + 1, list(self.arguments)
        for item, history, value in zip(plan.memories, self.memory_signals, plan.memory_signals(*arguments), strict=True):
            assert kernels is not None
            history[node] = value
            arguments.append(kernels.operator(item)[node, :n] @ history[:n])
        self.full, self.possible = arguments, self._outcomes(arguments)
        wanted = [mean for mean in plan.means if acting is None or mean.acts == acting]
        values = plan.target_values(*arguments) if self.paired else ()
        if self.paired and acting is not False:
            for t in self.paired:
                self.values[t][node] = values[t]
        possible = [
            (share, values if given is arguments or not self.paired else plan.target_values(*given))
            for share, given in self.possible
        ]
        for mean in wanted:
            if mean.kind == "one":
                means[mean.name][node] = sum(
                    share * self._mean(mean.factors(*given)[0]) for share, given in self.outcomes_of(mean)
                )
            elif mean.joint is not None:
                past = [[self.values[t][:n] for t in side] for side in mean.sides]
                here, there = ([self.values[t][node] for t in side] for side in mean.sides)
                means[mean.name][node, :n] = mean.join(here, past[1]) @ self.weights
                means[mean.name][:n, node] = mean.join(past[0], there) @ self.weights
            elif mean.kind == "two":
                row, column = np.zeros(n), np.zeros(n)
                for outer, (f, g) in zip(mean.outers, mean.targets, strict=True):
                    now = possible if self.outcomes_of(mean) is self.possible else [(1.0, values)]
                    first = self._products(now, f, g, node)
                    second = first if f == g else self._products(now, g, f, node)
                    if outer is not None:
                        assert kernels is not None
                        table = np.broadcast_to(np.asarray(kernels.pointwise(outer), float), (n, n))
                        first, second = first * table[node], second * table[:, node]
                    row, column = row + first, column + second
                means[mean.name][node, :n], means[mean.name][:n, node] = row, column
        for tangents in self.tangents:
            tangents.average(node, kernels, means, [mean for mean in tangents.asked if mean in wanted])

    def _outcomes(self, arguments: list[Any]) -> list[tuple[float, list[Any]]]:
        """Return the arguments of a node for all values of what is drawn afresh at it, with their probabilities."""
        made = []
        for share, values in self.outcomes if self.places else ():
            given = list(arguments)
            for place, value in zip(self.places, values, strict=True):
                given[place] = value
            made.append((share, given))
        if made and self.acting.any():
            acting = np.flatnonzero(self.acting.any(axis=0))
            signals = [stacked(self.plan.forces(*given[: self.given]), self.paths)[acting] for _, given in made]
            if any((other != signals[0]).any() for other in signals[1:]):
                return [(1.0, arguments)]
        return made or [(1.0, arguments)]

    def outcomes_of(self, mean: MeanProgram) -> list[tuple[float, list[Any]]]:
        """Return the outcomes that a mean is taken over; memory may hold what was drawn."""
        late = any(place >= self.given for place in (*mean.reads, *mean.output_reads))
        return [(1.0, self.full)] if late else self.possible

    def _products(self, possible: Sequence[tuple[float, Any]], f: int, g: int, node: int) -> Array:
        """Return the means of the target f at a node times g at all nodes up to it."""
        average = sum(share * np.asarray(values[f]) for share, values in possible)
        same = sum(share * self._mean(np.asarray(values[f]) * values[g]) for share, values in possible)
        return np.append(self.values[g][:node] @ (self.weights * average), same)

    def _mean(self, value: Any) -> float:
        return float(value) if np.ndim(value) == 0 else float(self.weights @ value)

    def keep(self, node: int, kernels: Kernels) -> None:
        """Keep what the node has come to, and the drift to the next."""
        for law, factor, _ in self.groups:
            for entry in self._covariances(node, law, kernels):
                factor.keep(factor.row(entry))
        self.drift = np.where(self.integrated[:, None], self.known + self.plain @ self.signals, 0.0)
        for k in self.remembered:
            self.history[k][node] = self.signals[k]
        for item in self.tangents:
            item.keep(node, kernels)
        for name, value in zip(self.plan.processes, self.plan.process_values(*self.full), strict=True):
            self.kept[name][node] = value


class Tangents:
    """Derivatives of all unknowns at the present node by the values of one noise at all nodes before, (node, path) each.

    They are followed along some of the paths. What memory needs of the past is held in single
    precision, whose rounding is far below the scatter of the paths.
    """

    def __init__(self, ensemble: Ensemble, noise: str, asked: Sequence[MeanProgram]) -> None:
        self.ensemble, self.noise, self.asked, self.some = ensemble, noise, tuple(asked), ensemble.sample.some
        size, paths = ensemble.grid.size, len(self.some)
        weights = ensemble.weights[self.some]
        self.weights, self.paths = weights / weights.sum(), paths
        self.made = [np.zeros((size, paths), dtype=np.float32) for _ in ensemble.plan.unknowns]
        self.effects = {k: [np.zeros((size - j, paths), dtype=np.float32) for j in range(size)] for k in ensemble.remembered}
        self.second = {mean.name: np.zeros((size, paths)) for mean in asked if not mean.plain}

    def _direct(self, k: int) -> Array | None:
        """Return the derivative of a signal by the noise at the node itself."""
        item = self.ensemble
        if item.noise_slopes is None or self.noise not in item.plan.noises:
            return None
        return np.asarray(item.noise_slopes[k, item.plan.noises.index(self.noise)], dtype=np.float32)

    def _solve(self, node: int, kernels: Kernels) -> dict[int, Array]:
        """Find the tangents of the unknowns that follow at the node itself; return what memory and noise add to the others."""
        item, plan, n = self.ensemble, self.ensemble.plan, node + 1
        known: dict[int, Array] = {}

        def part(unknown: int) -> Array:
            if unknown not in known:
                known[unknown] = np.zeros((n, self.paths), dtype=np.float32)
            return known[unknown]

        for link in plan.links:
            if link.kernel is not None and node:
                row = (_at(kernels, link.coefficient, node) * kernels.operator(link.kernel)[node, :node]).astype(np.float32)
                past, total = self.effects[link.signal], part(link.unknown)
                for j in range(node):
                    total[j] += row[j:] @ past[j][: node - j]
        for drive in plan.drives:
            if drive.noise == self.noise:
                part(drive.unknown)[node] += _at(kernels, drive.coefficient, node)
        for b in map(int, np.flatnonzero(~item.integrated)):
            base = part(b)
            for k in np.flatnonzero(item.acting[b]):
                direct = self._direct(int(k))
                if direct is not None:
                    base[node] += np.float32(item.acting[b, k]) * direct
            self.made[b][:n] = base
        if item.acting.any():  # unknowns that stand in each other's definitions at the same time
            inverse = invert(_jacobian(item.acting, item.slopes)).astype(np.float32)
            before = [made[:n].copy() for made in self.made]
            for a in np.flatnonzero(~item.integrated):
                self.made[a][:n] = sum(inverse[a, b] * before[b] for b in range(len(before)))
        return known

    def average(self, node: int, kernels: Kernels | None, means: Mapping[str, Array], asked: Sequence[MeanProgram]) -> None:
        """Put the mean responses of a node to all before into their tables."""
        item, n = self.ensemble, node + 1
        outputs = {mean.name: self._outputs(mean) for mean in asked if mean.by_unknown is not None}
        late = [b for b, under in enumerate(item.integrated) if not under]
        if any(np.any(output[b]) for output in outputs.values() for b in late):
            assert kernels is not None
            self._solve(node, kernels)
        for mean in asked:
            second = self._of(mean.factors(*item.full)[1])
            if not mean.plain:
                self.second[mean.name][node] = second
            total = np.zeros(n)
            for b, output in enumerate(outputs[mean.name]):
                if not np.any(output) or not node:
                    continue
                weight = np.broadcast_to(self.weights * self._of(output), (self.paths,))
                made = self.made[b][:node]
                if mean.plain:
                    total[:node] += (made @ weight.astype(np.float32)) * float(np.mean(second))
                else:
                    total[:node] += np.einsum("jp,p,jp->j", made, weight, self.second[mean.name][:node])
            if mean.outers[0] is not None:
                assert kernels is not None
                total = total * np.broadcast_to(np.asarray(kernels.pointwise(mean.outers[0]), float), (n, n))[node]
            means[mean.name][node, :n] = total

    def _outputs(self, mean: MeanProgram) -> list[Any]:
        """Return the derivatives of an output by the unknowns, times what stands before it."""
        assert mean.by_unknown is not None
        total: list[Any] = [0.0] * len(self.made)
        for share, given in self.ensemble.outcomes_of(mean):
            before = share * np.asarray(mean.factors(*given)[0])
            total = [sofar + before * slope for sofar, slope in zip(total, mean.by_unknown(*given), strict=True)]
        return total

    def _of(self, value: Any) -> Any:
        return value if np.ndim(value) == 0 else value[self.some]

    def keep(self, node: int, kernels: Kernels) -> None:
        """Carry the tangents to the next node; some paths at a time, which stay near the processor."""
        item, n, size = self.ensemble, node + 1, len(self.ensemble.plan.unknowns)
        known = self._solve(node, kernels)
        places = [int(a) for a in np.flatnonzero(item.integrated)]
        acting = {a: [int(k) for k in np.flatnonzero(item.plain[a])] for a in places}
        wanted = sorted({*self.effects, *(k for ks in acting.values() for k in ks)})
        every = np.asarray(item.slopes, dtype=np.float32)
        slopes = {k: {b: every[k, b] for b in range(size) if every[k, b].any()} for k in wanted}
        direct = {k: self._direct(k) for k in wanted}
        length = np.float32(item.length)
        step = chunk(2 * n)
        for begin in range(0, self.paths, step):
            some = slice(begin, begin + step)
            effects: dict[int, Array] = {}
            for k in wanted:
                parts = [slope[some] * self.made[b][:n, some] for b, slope in slopes[k].items()]
                effect = parts[0] if parts else np.zeros((n, min(step, self.paths - begin)), dtype=np.float32)
                for part in parts[1:]:
                    effect += part
                by_noise = direct[k]
                if by_noise is not None:
                    effect[node] += by_noise[some]
                effects[k] = effect
                if k in self.effects:
                    history = self.effects[k]
                    for j in range(n):
                        history[j][node - j, some] = effect[j]
            for a in places:
                for k in acting[a]:
                    self.made[a][:n, some] += (length * np.float32(item.plain[a, k])) * effects[k]
                if a in known:
                    self.made[a][:n, some] += length * known[a][:, some]


def _jacobian(weights: Array, slopes: Array) -> Array:
    """Return 1 − weights · slopes for every path."""
    count = len(weights)
    made = -np.einsum("ak,kbp->abp", weights, slopes)
    made[np.arange(count), np.arange(count)] += 1.0
    return made


def _at(kernels: Kernels, coefficient: Pointwise | None, node: int) -> float:
    return 1.0 if coefficient is None else float(kernels.vector(coefficient)[node])
