"""The Gaussian law of an ensemble on a grid: every unknown as a linear functional of its noises and constants.

U = (1 − O)⁻¹ (start + drives) is solved block after block in time, for functionals instead of paths: a row of U is a row of
weights of the noises at all earlier nodes, of the Gaussian constants, and of one. White noise is a unit normal for each step
between nodes. Means and covariances of everything that is affine follow by matrix products, one law for each combination of
the constants that are conditioned on. Cost: nodes² per node, unknown and noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.compile.gaussian import JointPlan
from eqsolve.compile.stochastic import EnsemblePlan
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.constants import make_paths
from eqsolve.numerics.laws import NormalLaw
from eqsolve.numerics.quadrature import stacked
from eqsolve.numerics.relations import Kernels, Pointwise
from eqsolve.solvers.paths.modes import Group


@dataclass(frozen=True, eq=False)
class Condition:
    """Values of the constants that are conditioned on, the weight of these, and mean and variance of the Gaussian ones.

    A constant that is affine but not Gaussian has its value as mean, and no variance.
    """

    weight: float
    values: Mapping[str, float]
    centres: Array
    variances: Array


def conditions(plan: JointPlan, names: Sequence[str], laws: Mapping[str, Any], order: int) -> list[Condition]:
    """Return every combination of values of the constants that are not Gaussian coordinates; densities by Gauss rules."""
    free = [name for name in plan.affine if isinstance(laws[name], NormalLaw) and laws[name].variance > 0]
    given = {name: laws[name] for name in names if name not in free}
    nodes = make_paths(given, [{name: order for name, law in given.items() if law.has_density}])
    made = []
    for place, weight in enumerate(nodes.weights):
        values = {name: float(column[place]) for name, column in nodes.values.items()}
        centres = [laws[name].mean if name in free else values[name] for name in plan.affine]
        spreads = [laws[name].variance if name in free else 0.0 for name in plan.affine]
        made.append(Condition(float(weight), values, np.array(centres, float), np.array(spreads, float)))
    return made


@dataclass(eq=False)
class GaussianLaw:
    """The law of one ensemble given one condition; rows are filled in block after block."""

    plan: EnsemblePlan
    law: JointPlan
    condition: Condition
    # strengths of the white noises that kick unknowns, and those of them whose responses are asked
    # for
    whites: Mapping[str, Pointwise]
    answered: tuple[str, ...]
    # weights of the unknowns: (unknown, node, drive, node), and (unknown, node, constant), the last
    # being the weight of one. Drives are the noises, the white ones that are answered, and the
    # steps of all white ones; the weight of a step stands at the node behind it.
    noises: Array
    constants: Array
    # those of the signals
    by_noises: Array
    by_constants: Array
    # those of the Gaussian arguments of what is averaged
    arguments: Array
    argument_constants: Array

    @classmethod
    def empty(
        cls, plan: EnsemblePlan, law: JointPlan, condition: Condition, size: int, whites: Mapping[str, Pointwise]
    ) -> GaussianLaw:
        mine = {kick.noise: whites[kick.noise] for kick in plan.kicks}
        answered = tuple(name for name in mine if any(mean.noise == name for mean in plan.means))
        drives, fixed = len(plan.noises) + len(answered) + len(mine), len(law.affine) + 1

        def pair(count: int) -> tuple[Array, Array]:
            return np.zeros((count, size, drives, size)), np.zeros((count, size, fixed))

        pairs = [array for count in (len(plan.unknowns), plan.count, len(law.arguments)) for array in pair(count)]
        return cls(plan, law, condition, mine, answered, *pairs)

    @property
    def drives(self) -> tuple[str, ...]:
        """The noises, and the white ones that are answered."""
        return (*self.plan.noises, *self.answered)

    @property
    def steps(self) -> slice:
        """The places of the steps of white noises among the drives."""
        return slice(len(self.drives), len(self.drives) + len(self.whites))

    # --- filling in
    def advance(self, kernels: Kernels, rows: slice) -> None:
        """Fill in the rows of one block of nodes; those before are known."""
        plan, stop, height = self.plan, rows.stop, rows.stop - rows.start
        count, drives, fixed = len(plan.unknowns), self.noises.shape[2], len(self.law.affine) + 1
        offsets, slopes, by_noise, by_constant = self.signals(kernels, rows)
        right = np.zeros((count, height, drives, stop))
        still = np.zeros((count, height, fixed))
        for place, column in enumerate(self._starts()):
            still[place] += column
        local = np.zeros((count, height, count, height))
        here = np.arange(rows.start, stop)
        for link in plan.links:
            matrix = self._outer(kernels, rows, link.unknown, link.coefficient)
            if link.kernel is not None:
                matrix = matrix @ kernels.operator(link.kernel)
            past, own, signal = matrix[:, : rows.start], matrix[:, rows], link.signal
            if rows.start:
                flat = self.by_noises[signal, : rows.start, :, : rows.start].reshape(rows.start, -1)
                right[link.unknown, :, :, : rows.start] += (past @ flat).reshape(height, drives, rows.start)
                still[link.unknown] += past @ self.by_constants[signal, : rows.start]
            still[link.unknown] += own @ np.concatenate([by_constant[signal], offsets[signal][:, None]], axis=1)
            for noise in range(len(plan.noises)):
                right[link.unknown][:, noise, rows] += own * by_noise[signal, noise]
            for other in range(count):
                local[link.unknown, :, other] += own * slopes[signal, other]
        for drive in plan.drives:
            matrix = self._outer(kernels, rows, drive.unknown, drive.coefficient)
            right[drive.unknown, :, plan.noises.index(drive.noise)] += matrix
        for kick in plan.kicks:
            if kick.noise in self.answered:
                matrix = self._outer(kernels, rows, kick.unknown, kick.coefficient)
                right[kick.unknown, :, self.drives.index(kick.noise)] += matrix
            place = self.steps.start + list(self.whites).index(kick.noise)
            # what the steps before the nodes add; strengths may vanish: by their mean
            strength = np.maximum(kernels.vector(self.whites[kick.noise])[:stop], 0.0)
            sizes = np.zeros(stop)
            sizes[1:] = np.sqrt((strength[1:] + strength[:-1]) / 2 * np.diff(kernels.grid.nodes[:stop]))
            if kick.coefficient is not None:
                scale = kernels.vector(kick.coefficient)[:stop]
                sizes[1:] *= (scale[1:] + scale[:-1]) / 2
            right[kick.unknown, :, place] += np.tri(height, stop, rows.start) * sizes
        size = count * height
        everything = np.concatenate([right.reshape(size, drives * stop), still.reshape(size, fixed)], axis=1)
        solved = np.linalg.solve(np.eye(size) - local.reshape(size, size), everything)
        self.noises[:, rows, :, :stop] = solved[:, : drives * stop].reshape(count, height, drives, stop)
        self.constants[:, rows] = solved[:, drives * stop :].reshape(count, height, fixed)
        self.by_noises[:, rows, :, :stop] = np.einsum("kun,undj->kndj", slopes, self.noises[:, rows, :, :stop])
        for noise in range(len(plan.noises)):
            self.by_noises[:, here, noise, here] += by_noise[:, noise]
        self.by_constants[:, rows] = np.einsum("kun,unc->knc", slopes, self.constants[:, rows])
        self.by_constants[:, rows, :-1] += by_constant
        self.by_constants[:, rows, -1] += offsets
        self._arguments(kernels, rows, here)

    def _outer(self, kernels: Kernels, rows: slice, unknown: int, coefficient: Any) -> Array:
        """Return the rows of [J] diag(coefficient)."""
        size = kernels.grid.size
        values = np.ones(size) if coefficient is None else kernels.vector(coefficient)
        rule = kernels.grid.integration[rows] if self.plan.integrated[unknown] else np.eye(size)[rows]
        return np.asarray(rule * values)

    def _starts(self) -> Array:
        """Return the weights of the starts, (unknown, constant)."""
        zero, ones = self._constants(0.0), [self._constants(0.0, place) for place in range(len(self.law.affine))]
        first = np.array([float(value) for value in self.plan.starts(*zero)])
        slopes = [np.array([float(value) for value in self.plan.starts(*point)]) - first for point in ones]
        return np.stack([*slopes, first], axis=1)

    def _constants(self, value: float, unit: int | None = None) -> list[float]:
        """Return the arguments that are constants, affine ones at a value, one of them larger by one."""
        affine = {name: value + (place == unit) for place, name in enumerate(self.law.affine)}
        return [affine[name] if name in affine else self.condition.values[name] for name in self.plan.constants]

    def signals(self, kernels: Kernels, rows: slice) -> tuple[Array, Array, Array, Array]:
        """Return signals where all that is Gaussian vanishes, and their slopes by unknowns, noises and constants."""
        plan, height = self.plan, rows.stop - rows.start
        count, drives = len(plan.unknowns), len(plan.noises)
        times, functions = kernels.grid.nodes[rows], [kernels.functions[name][rows] for name in plan.functions]

        def at(function: Callable[..., list[Any]], unit: int | None = None) -> Array:
            return stacked(function(times, *(0.0,) * (count + drives), *self._constants(0.0, unit), *functions), height)

        table = at(plan.signals)
        offsets, slopes = table[: plan.count], table[plan.count :].reshape(plan.count, count, height)
        moved = [at(plan.signals, place)[: plan.count] - offsets for place in range(len(self.law.affine))]
        by_constant = np.stack(moved, axis=2) if moved else np.zeros((plan.count, height, 0))
        by_noise = np.zeros((plan.count, drives, height))
        if plan.noise_slopes is not None:
            by_noise = at(plan.noise_slopes).reshape(plan.count, drives, height)
        return offsets, slopes, by_noise, by_constant

    def beside(self, kernels: Kernels, rows: slice | Array) -> list[Any]:
        """Return what functions of Gaussian arguments read beside these: time, conditions, functions of time."""
        functions = [kernels.functions[name][rows] for name in self.law.functions]
        return [kernels.grid.nodes[rows], *(self.condition.values[name] for name in self.law.conditions), *functions]

    def _arguments(self, kernels: Kernels, rows: slice, here: Array) -> None:
        stop, beside = rows.stop, self.beside(kernels, rows)
        for place, item in enumerate(self.law.arguments):
            by_noise, by_constant = self.arguments[place], self.argument_constants[place]
            by_noise[rows], by_constant[rows] = 0.0, 0.0
            for (kind, index), value in zip(item.variables, item.coefficients(*beside), strict=True):
                slope = np.broadcast_to(np.asarray(value, float), rows.stop - rows.start)
                if kind == "unknown":
                    by_noise[rows, :, :stop] += slope[:, None, None] * self.noises[index, rows, :, :stop]
                    by_constant[rows] += slope[:, None] * self.constants[index, rows]
                elif kind == "noise":
                    by_noise[here, index, here] += slope
                else:
                    by_constant[rows, index] += slope

    # --- reading
    def mean(self, argument: int, rows: slice, groups: Sequence[Group]) -> Array:
        """Return the mean of an argument on rows."""
        still = self.argument_constants[argument, rows]
        made = still[:, :-1] @ self.condition.centres + still[:, -1]
        for group in groups:
            for noise, centre in zip(group.noises, group.centres, strict=True):
                if centre.any():
                    made = made + self.arguments[argument, rows, self.plan.noises.index(noise), : len(centre)] @ centre
        return np.asarray(made)

    def covariance(self, first: int, second: int, rows: slice, groups: Sequence[Group]) -> Array:
        """Return the covariance of an argument on rows with another one on all nodes up to the last of them."""
        stop, condition = rows.stop, self.condition
        mine, yours = self.arguments[first, rows, :, :stop], self.arguments[second, :stop, :, :stop]
        fixed = self.argument_constants[first, rows, :-1] * condition.variances
        made = fixed @ self.argument_constants[second, :stop, :-1].T
        for place in range(self.steps.start, self.steps.stop):
            made = made + mine[:, place] @ yours[:, place].T
        for group in groups:
            places = [self.plan.noises.index(noise) for noise in group.noises]
            size = len(group.centres[0])
            left = mine[:, places].reshape(len(mine), -1)
            if size != stop:
                left = np.pad(mine[:, places], ((0, 0), (0, 0), (0, size - stop))).reshape(len(mine), -1)
            carried = (left @ group.covariance).reshape(len(mine), len(places), size)[:, :, :stop]
            for index, place in enumerate(places):
                made = made + carried[:, index] @ yours[:, place].T
        return np.asarray(made)
