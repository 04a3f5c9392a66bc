"""Means over the paths of an ensemble, and how they react to the kernels that drive the paths."""

from __future__ import annotations

from typing import Any

import numpy as np
from sympy import Expr, S

from eqsolve.compile.paths import CompiledMean
from eqsolve.language.nodes import E
from eqsolve.passes.forms.path_form import Link
from eqsolve.numerics.grids import Array
from eqsolve.numerics.operators import Evaluation
from eqsolve.solvers.stochastic.path_responses import PathResponses

__all__ = ["PathSolver"]


class PathSolver(PathResponses):
    """Runs one ensemble: kernels in, means out."""

    def run(self, state: Evaluation, covariances: dict[Any, tuple[Any, Array, Array]]) -> dict[E, Array]:
        """Return the ensemble's means for given kernels; ``covariances`` maps noises to their group, covariance and
        mean."""
        self.follow(state, covariances)
        arguments = self._full_arguments()
        made: dict[E, Array] = {}
        self.reactions = {}
        for noise in self.compiled.source.noises:
            asked = [m for m in self.compiled.means if m.mean.kind == "response" and m.mean.noise == noise]
            if asked or self.used.kind == "sparse":
                made |= self._responses(noise, asked, arguments)
        rest = {m.mean.node: self._mean(m, arguments) for m in self.compiled.means if m.mean.kind != "response"}
        return {m.mean.node: made[m.mean.node] if m.mean.kind == "response" else rest[m.mean.node]
                for m in self.compiled.means}  # fmt: skip

    def _mean(self, compiled: CompiledMean, arguments: list[Any]) -> Array:
        assert self.points is not None
        weights, shape = self.points.weights, self.unknowns.shape[1:]
        factors = [np.broadcast_to(value, shape) for value in compiled.factors(*arguments)]
        if compiled.mean.kind == "one":
            self.sizes[compiled.mean.node] = np.abs(factors[0]) @ np.abs(weights)
            return np.asarray(factors[0] @ weights)
        total = np.zeros((shape[0], shape[0]))
        for (outer, left, right), first, second in zip(
            compiled.mean.terms, factors[::2], factors[1::2], strict=True
        ):
            linear = [self._linear(target) for target in (left, right)]
            one, other = (self._without(values, part) for values, part in zip((first, second), linear, strict=True))
            pairs = (one * weights) @ other.T
            for mine, yours in zip(*linear, strict=True):
                if mine is not None and yours is not None:
                    pairs += mine @ yours.T
            total += np.asarray(self.state.pointwise(outer), float) * pairs
        return total

    def ones(self) -> dict[E, Array]:
        """Return the means of functions of one time over the paths as they are."""
        arguments = self._full_arguments()
        return {m.mean.node: self._mean(m, arguments) for m in self.compiled.means if m.mean.kind == "one"}

    def _linear(self, target: Expr) -> list[Array | None]:
        """Return, by group of noises, what a target does with the weak modes through its mean response."""
        size = self.state.grid.size
        made: list[Array | None] = []
        for group, factor, _ in self.rests:
            parts = [
                self.reactions[noise][target] @ factor[place * size : (place + 1) * size]
                for place, noise in enumerate(group)
                if target in self.reactions.get(noise, {})
            ]
            made.append(sum(parts[1:], parts[0]) if parts and factor.shape[1] else None)
        return made

    def _without(self, values: Array, linear: list[Array | None]) -> Array:
        """Return a target on all paths with its linear part in the weak modes taken out."""
        for part, (_, _, coordinates) in zip(linear, self.rests, strict=True):
            if part is not None and coordinates.any():
                values = values - part @ coordinates
        return values

    @property
    def reacts(self) -> bool:
        return bool(self.reactions)

    def prepare(self) -> None:
        """Average what ``react`` needs: the products of remembered signals and targets."""
        assert self.points is not None
        shape = self.unknowns.shape[1:]
        values = [np.broadcast_to(v, shape) for v in self.compiled.target_values(*self._full_arguments())]
        self.values = dict(zip(self.compiled.targets, values, strict=True))
        self.products: dict[tuple[Expr, Expr], Array] = {}
        self.forces = []  # links through memory whose unknown a noise drives too: link, noise, 1 / drive coefficient
        drives = {drive.unknown: drive for drive in self.compiled.source.drives if drive.noise in self.reactions}
        for link in self.compiled.source.links:
            if link.memory is not None and link.unknown in drives:
                drive = drives[link.unknown]
                strength = self.state.vector(drive.coefficient) if drive.coefficient != S.One else np.ones(shape[0])
                if (strength != 0).all():
                    self.forces.append((link, drive.noise, 1 / strength, self._inner(link, self.state)))

    def _inner(self, link: Link, state: Evaluation) -> Array:
        values = state.vector(link.coefficient) if link.coefficient != S.One else np.ones(state.grid.size)
        assert link.memory is not None
        return values[:, None] * state.kernel_operator(link.memory.kernel)

    def _product(self, signal: Expr, target: Expr) -> Array:
        assert self.points is not None
        if (signal, target) not in self.products:
            left, right = self.values[signal], self.values[target]
            self.products[signal, target] = (left * self.points.weights) @ right.T
        return self.products[signal, target]

    def react(self, state: Evaluation, changes: dict[Any, tuple[Any, Array]]) -> dict[E, Array]:
        """Return how the means change with the kernels, every response replaced by its mean.

        ``state`` holds the changed kernels, ``changes`` the changes of the covariances by noise.
        """
        size = self.state.grid.size
        forces = [(link, noise, scale[:, None] * (self._inner(link, state) - inner))
                  for link, noise, scale, inner in self.forces]  # fmt: skip
        made: dict[E, Array] = {}
        for compiled in self.compiled.means:
            mean = compiled.mean
            if mean.kind == "one":
                made[mean.node] = np.zeros(size)
                continue
            total = np.zeros((size, size))
            for outer, left, right in mean.terms:
                part = np.zeros((size, size))
                if mean.kind == "response":
                    for link, noise, force in forces:
                        chain = self.reactions[mean.noise].get(link.signal)
                        if chain is not None:
                            part += self.reactions[noise][mean.output] @ (force @ chain)
                else:
                    part += self._react_covariance(left, right, changes)
                    for link, noise, force in forces:
                        part += self.reactions[noise][left] @ (force @ self._product(link.signal, right))
                        part += (self.reactions[noise][right] @ (force @ self._product(link.signal, left))).T
                total += np.asarray(self.state.pointwise(outer), float) * part
            made[mean.node] = total
        return made

    def _react_covariance(self, left: Expr, right: Expr, changes: dict[Any, tuple[Any, Array]]) -> Array:
        size = self.state.grid.size
        total = np.zeros((size, size))
        for noise, (group, change) in changes.items():
            for other in group:
                if noise in self.reactions and other in self.reactions:
                    row, column = list(group).index(noise) * size, list(group).index(other) * size
                    block = change[row : row + size, column : column + size]
                    total += self.reactions[noise][left] @ block @ self.reactions[other][right].T
        return total
