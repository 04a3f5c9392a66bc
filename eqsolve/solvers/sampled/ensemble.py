"""The paths of one ensemble, and beside them a linear companion that is driven alike and whose moments are known.

Several samples are advanced at once, each for kernels of its own: what is known of paths has the axes (…, sample, path).

The companion is the path equation linearised with the mean slopes over all paths, from the same noises and starts, centred:
it is linear in standard normal coordinates (and in the starts), and carried along for every path and for every coordinate
by itself, so that its covariances are sums of squares. What is averaged in pairs is averaged as far as it differs from a
polynomial F of its companion l, the one nearest to it: with Hermite polynomials of the normal l/σ,

    F = Σ_k a_k He_k(l/σ),    E F(t) F'(t') = Σ_k k! a_k(t) a'_k(t') ρ(t, t')^k,    ρ the correlation of l and l'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import Covariance, EnsemblePlan, MeanPlan
from eqsolve.errors import SolverError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend
from eqsolve.numerics.elimination import eliminate
from eqsolve.numerics.growing import Factor
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.numerics.relations import KernelOperator, Kernels, Pointwise
from eqsolve.solvers.sampled.draws import Draw, Starts
from eqsolve.solvers.sampled.state import Group, Now, Step, at_node
from eqsolve.solvers.sampled.tangents import Tangents

_STEPS = 30  # of Newton's method in one step of the paths
_SETTLED = 1e-5  # relative change of the last one: the next would be of the square of it
_WIDE = 3  # unknowns of which products are taken to average functions of one time
_DEGREE = 3  # of the polynomials of the companion
_HIGHEST = 8  # degree of those that functions of one time are compared with
_FACTORIALS = np.array([1.0, 2.0, 6.0])


class Ensemble:
    """The state of a march: histories that averages and memory need, and what the last node left.

    What is as long as there are paths, or columns, lives on the backend; covariances, their factors and means in the
    machine's memory.
    """

    def __init__(
        self, plan: EnsemblePlan, laws: Sequence[Covariance], whites: Mapping[str, Pointwise], grid: OperatorGrid,
        samples: Sequence[Draw], starts: Starts, tangents: int, backend: Backend = CPU,
    ) -> None:  # fmt: skip
        self.plan, self.grid, self.samples = plan, grid, tuple(samples)
        self.count, self.paths = len(samples), samples[0].paths
        self.backend, zeros, put = backend, backend.arrays.zeros, backend.put
        self.constants = [np.stack([put(item.constants[name]) for item in samples]) for name in plan.constants]
        self.integrated = backend.arrays.asarray(np.array(plan.integrated, dtype=bool)[:, None, None])
        self.pairs = sorted({(link.unknown, link.signal) for link in plan.links})
        self.whites = {kick.noise: whites[kick.noise] for kick in plan.kicks}
        size, count, every, paths = grid.size, len(plan.unknowns), self.count, self.paths
        place = paths
        self.groups: list[Group] = []
        for number, law in enumerate(laws):
            total = size * len(law.noises)
            factors = tuple(Factor(np.zeros((total, total))) for _ in samples)
            self.groups.append(Group(law, factors, tuple(put(item.groups[number]) for item in samples), place))
            place += total
        self.kick_places = {name: place + index * (size - 1) for index, name in enumerate(self.whites)}
        self.kicks = {name: np.stack([put(item.kicks[name]) for item in samples], axis=1) for name in self.whites}
        place += (size - 1) * len(self.whites)
        self.columns = place + count
        self.paired = sorted({t for mean in plan.means if mean.kind == "two" for term in mean.targets for t in term})
        self.remembered = sorted({link.signal for link in plan.links if link.kernel is not None})
        self.values = {t: zeros((every, size, paths)) for t in self.paired}
        self.beside = {t: zeros((every, size, paths)) for t in self.paired}
        self.directions = {t: np.zeros((every, size, self.columns - paths)) for t in self.paired}
        self.shapes = {t: np.zeros((every, size, _DEGREE)) for t in self.paired}
        self.degree = _DEGREE if starts.gaussian else 1
        self.levels = {t: np.zeros((2, every, size)) for t in self.paired}  # means of the target and of its companion
        two = [mean for mean in plan.means if mean.kind == "two"]
        self.shares = {(mean.name, k): np.zeros((every, size)) for mean in two for k in range(len(mean.targets))}
        self.signals = {k: zeros((every, size, paths)) for k in self.remembered}
        self.signals_beside = {k: zeros((every, size, self.columns)) for k in self.remembered}
        self.memory_signals = [zeros((every, size, paths)) for _ in plan.memories]
        self.kept = {name: zeros((size, paths)) for name in plan.processes}  # of the last sample
        self.start = backend.stack(plan.starts(*self.constants), (every, paths))
        self.start_beside = zeros((count, every, self.columns))
        self.start_beside[:, :, :paths] = self.start - put(starts.mean[:, None, None])
        self.start_beside[:, :, self.columns - count :] = put(starts.factor[:, None, :])
        asked: dict[str, list[MeanPlan]] = {}
        for mean in plan.means:
            if mean.kind == "response":
                asked.setdefault(mean.noise, []).append(mean)
        some = min(tangents, max(1, paths // 2))
        self.tangents = [
            Tangents(plan, grid, noise, group, every, some, self.remembered, backend) for noise, group in asked.items()
        ]
        self.now = Now(-1, self.start, np.empty(0), np.empty(0), [], np.empty(0))

    # --- one step ----------------------------------------------------------------------------------------------------
    def step(self, node: int, kernels: Sequence[Kernels]) -> None:
        """Advance all paths, and their companions, to a node, for kernels up to it, sample by sample."""
        plan, count, zeros = self.plan, len(self.plan.unknowns), self.backend.arrays.zeros
        noises, noises_beside = self._draw(node, kernels)
        known, known_beside = zeros((count, self.count, self.paths)), zeros((count, self.count, self.columns))
        weights = np.zeros((count, plan.count, self.count))
        for link in plan.links:
            scale = at_node(kernels, link.coefficient, node)
            if link.kernel is None:
                weights[link.unknown, link.signal] += scale
                continue
            rows = _scaled(kernels, link.kernel, scale, node)
            weights[link.unknown, link.signal] += rows[:, node]
            if node:
                past = self.backend.put(rows[:, :node])
                for b in range(self.count):
                    known[link.unknown, b] += past[b] @ self.signals[link.signal][b, :node]
                    known_beside[link.unknown, b] += past[b] @ self.signals_beside[link.signal][b, :node]
        for drive in plan.drives:
            scale, place = self._put(at_node(kernels, drive.coefficient, node)), plan.noises.index(drive.noise)
            known[drive.unknown] += scale * noises[place]
            known_beside[drive.unknown] += scale * noises_beside[place]
        length = float(self.grid.nodes[node] - self.grid.nodes[node - 1]) if node else 0.0
        factors = np.where(plan.integrated, length / 2 if node else 0.0, 1.0)
        made = Step(length, weights, factors, self._kick(node, kernels, length))
        self._follow(node, kernels, made, known, noises)
        self._follow_beside(made, known_beside, noises_beside)
        for item in self.tangents:
            item.step(node, kernels, weights, factors, self.now.slopes, self.now.noise_slopes)

    def _put(self, values: float | Array) -> Any:
        """Return one number per sample, to act on all its paths; a number stands for all samples."""
        return self.backend.put(values[:, None]) if isinstance(values, np.ndarray) else values

    def _act(self, weights: Array, signals: Any) -> Any:
        """Return weights · signals: (unknown, signal, sample) and (signal, sample, paths or columns)."""
        made = self.backend.arrays.zeros((len(weights), *signals.shape[1:]))
        placed = self.backend.put(weights[..., None])
        for a, k in self.pairs:
            made[a] += placed[a, k] * signals[k]
        return made

    def _draw(self, node: int, kernels: Sequence[Kernels]) -> tuple[list[Any], list[Any]]:
        """Return the noises at a node on all paths, and centred on all columns; given all earlier values."""
        found: dict[str, tuple[Any, Any]] = {}
        for group in self.groups:
            known = group.factors[0].known
            entries = [self._covariances(node, group, item) for item in kernels]
            for a, name in enumerate(group.noises):
                rows = np.stack([factor.row(entry[a]) for factor, entry in zip(group.factors, entries, strict=True)])
                for factor, row in zip(group.factors, rows, strict=True):
                    factor.keep(row)
                beside, placed, n = (
                    self.backend.arrays.zeros((self.count, self.columns)),
                    self.backend.put(rows),
                    rows.shape[1],
                )
                for b, coordinates in enumerate(group.coordinates):
                    beside[b, : self.paths] = placed[b] @ coordinates[:n]
                beside[:, group.place : group.place + n] = placed
                centre = self._put(at_node(kernels, group.law.centres[a], node))
                found[name] = (centre + beside[:, : self.paths], beside)
            for factor in group.factors:
                factor.known = known  # kept when the node is done
        pairs = [found[name] for name in self.plan.noises]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def _covariances(self, node: int, group: Group, kernels: Kernels) -> list[Array]:
        """Return the covariances of each noise at a node with all before it, and its variance."""
        tables = [[kernels.table(entry)[node] for entry in row] for row in group.law.blocks]
        count = range(len(group.noises))
        past = [np.stack([tables[a][b][:node] for b in count], axis=1).ravel() for a in count]
        return [np.concatenate([past[a], [tables[a][b][node] for b in range(a + 1)]]) for a in count]

    def _kick(self, node: int, kernels: Sequence[Kernels], length: float) -> Any:
        """Return the increments of the unknowns by white noise over the last step."""
        made = self.backend.arrays.zeros((len(self.plan.unknowns), self.count, self.columns))
        if node == 0:
            return made
        for kick in self.plan.kicks:
            strength = (
                at_node(kernels, self.whites[kick.noise], node - 1) + at_node(kernels, self.whites[kick.noise], node)
            ) / 2
            size = np.sqrt(np.maximum(strength, 0.0) * length)
            if kick.coefficient is not None:
                size = size * (at_node(kernels, kick.coefficient, node - 1) + at_node(kernels, kick.coefficient, node)) / 2
            placed = self._put(size)
            made[kick.unknown, :, : self.paths] += placed * self.kicks[kick.noise][node - 1]
            made[kick.unknown, :, self.kick_places[kick.noise] + node - 1] += placed[:, 0]
        return made

    def _arguments(self, node: int, kernels: Sequence[Kernels], unknowns: Any, noises: Sequence[Any]) -> list[Any]:
        functions = [self._put(np.array([item.functions[name][node] for item in kernels])) for name in self.plan.functions]
        return [self.grid.nodes[node], *unknowns, *noises, *self.constants, *functions]

    def _follow(self, node: int, kernels: Sequence[Kernels], step: Step, known: Any, noises: list[Any]) -> None:
        """Solve the implicit step of every path by Newton's method."""
        plan, count, integrated, shape = self.plan, len(self.plan.unknowns), self.integrated, (self.count, self.paths)
        if node == 0:
            base = np.where(integrated, self.start, known)
        else:
            moved = self.unknowns + step.length / 2 * (self.drift + known) + step.kick[:, :, : self.paths]
            base = np.where(integrated, moved, known)
        weights = step.factors[:, None, None] * step.weights
        if self.now.node == node:
            unknowns = self.now.unknowns
        else:
            unknowns = base + (np.where(integrated, step.length / 2 * self.drift, 0.0) if node else 0.0)
        table = self.backend.arrays.empty((plan.count * (1 + count), *shape))
        signals, slopes = table[: plan.count], table[plan.count :].reshape(plan.count, count, *shape)
        others = self._arguments(node, kernels, unknowns, noises)[1 + count :]
        for _ in range(_STEPS):
            for place, value in enumerate(plan.signals(self.grid.nodes[node], *unknowns, *others)):
                table[place] = value
            change = eliminate(self._jacobian(weights, slopes), unknowns - base - self._act(weights, signals))
            unknowns = unknowns - change
            size = float(np.abs(change / (1.0 + np.abs(unknowns))).max()) if count else 0.0
            if not np.isfinite(size) or size < _SETTLED:
                break
        if not size < _SETTLED:
            here = f"t = {self.grid.nodes[node]:.6g}"
            raise SolverError(f"a step of some paths has no solution that can be found near {here}; they may blow up there")
        signals = signals - sum(slopes[:, b] * change[b] for b in range(count))  # where Newton's last step ended
        arguments = [self.grid.nodes[node], *unknowns, *others]
        self.now = Now(node, unknowns, signals, slopes, arguments, known + self._act(step.weights, signals))
        if plan.noise_slopes is not None:
            by_noise = self.backend.stack(plan.noise_slopes(*arguments), shape)
            self.now.noise_slopes = by_noise.reshape(plan.count, len(plan.noises), *shape)

    def _jacobian(self, weights: Array, slopes: Any) -> Any:
        """Return 1 − weights · slopes for every path."""
        count = len(weights)
        made = self.backend.arrays.zeros((count, count, *slopes.shape[2:]))
        for a in range(count):
            made[a, a] = 1.0
        placed = self.backend.put(weights[..., None])
        for a, k in self.pairs:
            made[a] -= placed[a, k] * slopes[k]
        return made

    def _follow_beside(self, step: Step, known: Any, noises: list[Any]) -> None:
        """Advance the companion: the same step, linear, with the mean slopes."""
        plan, count, now, put = self.plan, len(self.plan.unknowns), self.now, self.backend.put
        slopes, stacked = now.slopes.mean(axis=-1), self.backend.stack(noises, (self.count, self.columns))
        direct = self.backend.arrays.zeros((plan.count, self.count, self.columns))
        if now.noise_slopes is not None:
            by_noise = now.noise_slopes.mean(axis=-1)
            for b in range(len(plan.noises)):
                direct += by_noise[:, b, :, None] * stacked[b]
        integrated = self.integrated
        if now.node == 0:
            base = np.where(integrated, self.start_beside, known)
        else:
            moved = self.unknowns_beside + step.length / 2 * (self.drift_beside + known) + step.kick
            base = np.where(integrated, moved, known)
        weights = step.factors[:, None, None] * step.weights
        matrix = np.eye(count) - np.einsum("aks,kbs->sab", weights, self.backend.get(slopes))
        inverse = put(np.linalg.inv(matrix).transpose(1, 2, 0)[..., None])
        right = base + self._act(weights, direct)
        unknowns = sum((inverse[:, b] * right[b] for b in range(count)), self.backend.arrays.zeros(right.shape))
        signals = direct
        for b in range(count):
            signals += slopes[:, b, :, None] * unknowns[b]
        now.unknowns_beside, now.drift_beside = unknowns, known + self._act(step.weights, signals)
        now.signals_beside, now.noises_beside = signals, stacked

    def keep(self, node: int, kernels: Sequence[Kernels]) -> None:
        """Keep what the node has come to, for those to come; the factors are those of the covariances as they are at last."""
        last = self.now
        self.unknowns, self.drift = last.unknowns, last.drift
        self.unknowns_beside, self.drift_beside = last.unknowns_beside, last.drift_beside
        for group in self.groups:
            for factor, item in zip(group.factors, kernels, strict=True):
                for entry in self._covariances(node, group, item):
                    factor.keep(factor.row(entry))
        for k in self.remembered:
            self.signals[k][:, node], self.signals_beside[k][:, node] = last.signals[k], last.signals_beside[k]
        for tangents in self.tangents:
            tangents.keep(node)
        for name, value in zip(self.plan.processes, self.plan.process_values(*last.arguments), strict=True):
            self.kept[name][node] = value[-1] if np.ndim(value) else value

    # --- means -------------------------------------------------------------------------------------------------------
    def average(self, node: int, kernels: Sequence[Kernels], means: Sequence[Mapping[str, Array]]) -> None:
        """Put the means with a node, as far as paths are known, into the tables of each sample."""
        plan, n = self.plan, node + 1
        arguments = list(self.now.arguments)
        for item, history, value in zip(plan.memories, self.memory_signals, plan.memory_signals(*arguments), strict=True):
            history[:, node] = value
            rows, made = (
                self.backend.put(_scaled(kernels, item, 1.0, node)),
                self.backend.arrays.empty((self.count, self.paths)),
            )
            for b in range(self.count):
                made[b] = rows[b] @ history[b, :n]
            arguments.append(made)
        self.now.arguments = arguments
        if self.paired:
            self._targets(node, arguments)
        for mean in plan.means:
            if mean.kind == "one":
                for own, value in zip(means, self._one(mean.factors(*arguments)[0]), strict=True):
                    own[mean.name][node] = value
            elif mean.kind == "two":
                for own, row, column in zip(means, *self._pairs(node, mean, kernels), strict=True):
                    own[mean.name][node, :n], own[mean.name][:n, node] = row, column
        for tangents in self.tangents:
            for mean in tangents.asked:
                for own, row in zip(means, tangents.average(node, mean, kernels, arguments), strict=True):
                    own[mean.name][node, :n] = row

    def _targets(self, node: int, arguments: list[Any]) -> None:
        """Evaluate what is averaged in pairs, and its companion, at a node."""
        plan, count, noises = self.plan, len(self.plan.unknowns), len(self.plan.noises)
        values = plan.target_values(*arguments)
        slopes, direct = plan.target_slopes(*arguments), plan.target_noise_slopes(*arguments)
        for t in self.paired:
            self.values[t][:, node] = values[t]
            linear = self.backend.arrays.zeros((self.count, self.columns))
            for b in range(count):
                linear += self._mean(slopes[t * count + b]) * self.now.unknowns_beside[b]
            for b in range(noises):
                linear += self._mean(direct[t * noises + b]) * self.now.noises_beside[b]
            self._shape(node, t, linear)
            means = np.stack([self.values[t][:, node].mean(axis=-1), self.beside[t][:, node].mean(axis=-1)])
            self.levels[t][:, :, node] = self.backend.get(means)

    def _mean(self, value: Any) -> Any:
        """Return the means over paths, sample by sample; nothing where they are not finite."""
        if np.ndim(value) == 0:
            return float(value) if np.isfinite(value) else 0.0
        made = value.mean(axis=-1, keepdims=True)
        return np.where(np.isfinite(made), made, 0.0)

    def _shape(self, node: int, t: int, linear: Any) -> None:
        """Fit the polynomial of a target's companion to it."""
        get, put, values = self.backend.get, self.backend.put, self.values[t][:, node]
        exact, largest = get(linear[:, self.paths :]), get(np.abs(values).max(axis=-1))
        size = np.sqrt((exact * exact).sum(axis=-1))
        moving = size > 1e-14 * (1.0 + largest)
        safe = np.where(moving, size, 1.0)
        normal = linear[:, : self.paths] / put(safe[:, None])
        self.directions[t][:, node] = np.where(moving[:, None], exact / safe[:, None], self.directions[t][:, node])
        basis = self.backend.arrays.empty((self.count, self.degree, self.paths))
        basis[:, 0] = normal
        if self.degree > 1:
            square = normal * normal
            basis[:, 1], basis[:, 2] = square - 1.0, (square - 3.0) * normal
        centre = get(basis.mean(axis=-1))
        matrix = get(basis @ basis.transpose(0, 2, 1)) / self.paths - centre[:, :, None] * centre[:, None, :]
        right = get((basis @ values[:, :, None])[:, :, 0]) / self.paths - centre * get(values.mean(axis=-1))[:, None]
        fitted = np.zeros((self.count, self.degree))
        for b in np.flatnonzero(moving):
            fitted[b] = np.linalg.lstsq(matrix[b], right[b], rcond=1e-9)[0]
        self.shapes[t][:, node] = 0.0
        self.shapes[t][:, node, : self.degree] = fitted
        self.beside[t][:, node] = (put(fitted[:, None, :]) @ basis)[:, 0]

    def _pairs(self, node: int, mean: MeanPlan, kernels: Sequence[Kernels]) -> tuple[Array, Array]:
        """Return E f(t) g(t') and E f(t') g(t) for the node's time t and all t' up to it, sample by sample."""
        n = node + 1
        row, column = np.zeros((self.count, n)), np.zeros((self.count, n))
        for k, (outer, (f, g)) in enumerate(zip(mean.outers, mean.targets, strict=True)):
            share = self.shares[mean.name, k]
            share[:, node] = self._share(node, f, g)
            both = np.sqrt(share[:, :n] * share[:, node, None])
            parts = [self._products(node, f, g, both)]
            parts.append(parts[0] if f == g else self._products(node, g, f, both))
            if outer is not None:
                tables = [np.broadcast_to(np.asarray(item.pointwise(outer), float), (n, n)) for item in kernels]
                parts = [parts[0] * [item[node] for item in tables], parts[1] * [item[:, node] for item in tables]]
            row, column = row + parts[0], column + parts[1]
        return row, column

    def _products(self, node: int, f: int, g: int, share: Array) -> Array:
        """Return the mean of f at the node with g at all nodes up to it, less what the companions have by chance."""
        n = node + 1
        raw = self._sums(self.values[g], self.values[f], node) / self.paths
        if not share.any():
            return np.asarray(raw)
        chance = self._sums(self.beside[g], self.beside[f], node) / self.paths
        alike = (self.directions[g][:, :n] @ self.directions[f][:, node, :, None])[:, :, 0]
        powers = np.stack([alike, alike**2, alike**3], axis=2)
        chance -= ((powers * self.shapes[g][:, :n]) @ (_FACTORIALS * self.shapes[f][:, node])[:, :, None])[:, :, 0]
        level, own = self.levels[f][:, :, node, None]
        levels, owns = self.levels[g][:, :, :n]
        return np.asarray(raw - share * (chance + (level * owns + own * levels) - 2 * own * owns))

    def _sums(self, earlier: Any, now: Any, node: int) -> Array:
        """Return the sums over paths of values at a node with those at all nodes up to it, sample by sample."""
        made = self.backend.arrays.empty((self.count, node + 1))
        for b in range(self.count):
            made[b] = earlier[b, : node + 1] @ now[b, node]
        return self.backend.get(made)

    def _share(self, node: int, f: int, g: int) -> Array:
        """Return which share of the companion's product is best taken out: one where everything is linear."""
        get, put = self.backend.get, self.backend.put
        product = self.values[f][:, node] * self.values[g][:, node]
        (level, own), (other, yours) = self.levels[f][:, :, node], self.levels[g][:, :, node]
        one, two = self.beside[f][:, node] - put(own[:, None]), self.beside[g][:, node] - put(yours[:, None])
        linear = one * two + put(level[:, None]) * two + put(other[:, None]) * one
        linear -= linear.mean(axis=-1, keepdims=True)
        size = get((linear * linear).sum(axis=-1))
        best = get(((product - product.mean(axis=-1, keepdims=True)) * linear).sum(axis=-1))
        there = (size > 1e-24 * self.paths * (level * other) ** 2) & (size > 0.0)
        return np.where(there, np.clip(best / np.where(there, size, 1.0), 0.0, 1.0), 0.0)

    def _one(self, value: Any) -> Array:
        """Return the mean of a function of one time, less what polynomials of the companion have by chance.

        Those of second degree in all unknowns; where the companion is Gaussian, also higher ones of each unknown alone.
        """
        if np.ndim(value) == 0:
            return np.full(self.count, float(value))
        values, get, put = self.backend.full(value, (self.count, self.paths)), self.backend.get, self.backend.put
        mean = np.array(get(values.mean(axis=-1)))
        moving = [b for b, integrated in enumerate(self.plan.integrated) if integrated][:_WIDE]
        if not moving:
            return mean
        beside = self.now.unknowns_beside[moving]
        sample, exact = beside[:, :, : self.paths], get(beside[:, :, self.paths :])
        rows, known = [*sample], [np.zeros(self.count)] * len(moving)
        for a in range(len(moving)):
            for b in range(a, len(moving)):
                rows.append(sample[a] * sample[b])
                known.append((exact[a] * exact[b]).sum(axis=-1))
        if self.degree > 1:
            for a in range(len(moving)):
                higher = self._hermite(sample[a], np.sqrt((exact[a] * exact[a]).sum(axis=-1)))
                rows += higher
                known += [np.zeros(self.count)] * len(higher)
        table = self.backend.arrays.empty((self.count, len(rows), self.paths))
        for place, row in enumerate(rows):
            table[:, place] = row
        middle = table.mean(axis=-1, keepdims=True)
        table -= middle
        centre, scale = get(middle[:, :, 0]), np.sqrt(get((table * table).mean(axis=-1)))
        used = scale > 1e-12 * (1 + np.abs(centre))
        table /= put(np.where(used, scale, 1.0)[:, :, None])
        products = get(table @ table.transpose(0, 2, 1)) / self.paths
        right = get((table @ values[:, :, None])[:, :, 0]) / self.paths
        for b in range(self.count):
            some = np.flatnonzero(used[b])
            best = np.linalg.pinv(products[b][np.ix_(some, some)], rcond=1e-9, hermitian=True) @ right[b, some]
            mean[b] -= best @ ((centre[b] - np.array([item[b] for item in known]))[some] / scale[b, some])
        return mean

    def _hermite(self, values: Any, size: Array) -> list[Any]:
        """Return Hermite polynomials of a Gaussian of known size from the third on: their means vanish."""
        if not (size > 0).any():
            return []
        normal = values * self.backend.put(np.where(size > 0, 1.0 / np.where(size > 0, size, 1.0), 0.0)[:, None])
        last, made = normal, normal * normal - 1.0
        found = []
        for degree in range(2, _HIGHEST):
            last, made = made, normal * made - degree * last
            found.append(made)
        return found


def _scaled(kernels: Sequence[Kernels], item: KernelOperator, scale: float | Array, node: int) -> Array:
    """Return the row of an operator at a node, (sample, node), times a number of each sample."""
    rows = np.stack([own.operator(item)[node, : node + 1] for own in kernels])
    return rows * (scale[:, None] if isinstance(scale, np.ndarray) else scale)
