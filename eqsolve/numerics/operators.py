"""Kernels as matrices on a grid of nodes: responses as integration operators, correlations as tables of values.

On the nodes of a panel grid, integration from the start is one block-triangular matrix J; the composition of causal
operators is a matrix product; a kernel that enters its own equation linearly is one triangular solve. With
J_η = η × (strictly lower ones) on a uniform grid the same formulas are the discrete-time system exactly.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.diagonal_blocks import recovery
from eqsolve.numerics.grids import PanelGrid, lagrange, radau


@dataclass(frozen=True, eq=False)
class OperatorGrid:
    """Nodes in time, blocks that are solved together, and the integration matrix J."""

    nodes: Array
    blocks: tuple[slice, ...]
    integration: Array
    panels: PanelGrid | None

    @property
    def size(self) -> int:
        return len(self.nodes)

    @classmethod
    def from_panels(cls, panels: PanelGrid) -> OperatorGrid:
        """Return the operators of a panel grid; node 0 is a block of its own."""
        m, size, rule = panels.order, panels.size, radau(panels.order)
        matrix = np.zeros((size, size))
        blocks = [slice(0, 1)]
        for index, step in enumerate(np.diff(panels.edges)):
            part = slice(1 + index * m, 1 + (index + 1) * m)
            matrix[part, part] = step * rule.integrals
            matrix[part.stop :, part] = step * rule.weights
            blocks.append(part)
        return cls(panels.nodes, tuple(blocks), matrix, panels)

    @classmethod
    def discrete(cls, step: float, start: float, end: float) -> OperatorGrid:
        """Return the exact discrete-time system with a given step: J is step × strictly lower ones."""
        count = round((end - start) / step) + 1
        nodes = start + step * np.arange(count)
        return cls(nodes, tuple(slice(i, i + 1) for i in range(count)), step * np.tri(count, k=-1), None)

    @classmethod
    def trapezoid(cls, nodes: Array) -> OperatorGrid:
        """Return the trapezoidal rule on given nodes, for what is advanced node by node."""
        steps = np.diff(nodes)
        matrix = np.zeros((len(nodes), len(nodes)))
        matrix[1:, :-1] += np.tril(np.broadcast_to(steps / 2, (len(steps), len(steps))))
        matrix[1:, 1:] += np.tril(np.broadcast_to(steps / 2, (len(steps), len(steps))))
        return cls(nodes, tuple(slice(i, i + 1) for i in range(len(nodes))), matrix, None)

    def head(self, blocks: int) -> OperatorGrid:
        """Return the grid's first blocks."""
        stop = self.blocks[blocks - 1].stop
        panels = None if self.panels is None else PanelGrid(self.panels.edges[:blocks], self.panels.order)
        return OperatorGrid(self.nodes[:stop], self.blocks[:blocks], self.integration[:stop, :stop], panels)

    def values(self, operator: Array, extend: bool = False) -> Array:
        """Return the kernel values of a causal operator on the nodes: zero above the diagonal, or continued across
        it."""
        out = np.zeros_like(operator)
        if self.panels is None:
            if self.size > 1 and self.integration[1, 1] != 0:
                return self._trapezoid_values(operator)
            return operator / (self.nodes[1] - self.nodes[0]) if self.size > 1 else out
        order, steps = self.panels.order, np.diff(self.panels.edges)
        for part, step in zip(self.blocks[1:], steps, strict=True):
            out[part.stop :, part] = operator[part.stop :, part] / (step * radau(order).weights)
            known = operator[part, part].ravel() / step
            if part.start > 1:
                known = np.concatenate([known, out[part, part.start - 1]])
            block = (recovery(order, part.start > 1) @ known).reshape(order, order)
            out[part, part] = block if extend else np.where(self.nodes[part][:, None] >= self.nodes[part], block, 0.0)
            if part.start == 1:  # the start is no node of the rule: continue the first panel to it
                out[1:, 0] = np.vstack([block, out[part.stop :, part]]) @ self._back
                out[0, 0] = out[part, 0] @ self._back
        return out

    def _trapezoid_values(self, operator: Array) -> Array:
        """Return the values of an operator on the trapezoidal rule.

        What acts at a node acts as much in the middle of the step before as in that of the step behind, so that an entry by
        its weight is a value at the centroid of the two; along each row the values on the nodes follow from these by
        parabolas.
        """
        out, nodes, count = np.zeros_like(operator), self.nodes, self.size
        if count < 5:
            return np.asarray(operator / np.where(self.integration > 0, self.integration, 1.0))
        before, behind = np.diff(nodes, prepend=nodes[0]), np.diff(nodes, append=nodes[-1])
        for row in range(2, count):
            places = nodes[: row + 1] + (behind - before)[: row + 1] / 2
            places[row] = nodes[row] - before[row] / 2
            known = operator[row, : row + 1] / self.integration[row, : row + 1]
            first = np.clip(np.arange(row + 1) - 1, 0, row - 2)
            near = first[:, None] + np.arange(3)
            out[row, : row + 1] = (_parabolas(places[near], nodes[: row + 1]) * known[near]).sum(axis=1)
        diagonal = np.diagonal(out)[2:5]
        out[0, 0], out[1, 1] = lagrange(nodes[2:5], nodes[:2].copy()) @ diagonal
        out[1, 0] = 2 * operator[1, 0] / self.integration[1, 0] - out[1, 1]
        return out

    def begun(self, values: Array) -> Array:
        """Return values on the nodes with the limit at the start where there is none, as for 0/0: what follows, continued."""
        if self.size == 1 or not np.isnan(values[0]) or np.isnan(values[1:]).any():
            return values
        out = values.copy()
        out[0] = values[1] if self.panels is None else values[self.blocks[1]] @ self._back
        return out

    @functools.cached_property
    def _back(self) -> Array:
        """Weights that continue a panel's values to its start."""
        assert self.panels is not None
        return np.asarray(lagrange(radau(self.panels.order).nodes, np.zeros(1))[0])


def _parabolas(places: Array, times: Array) -> Array:
    """Return the weights of three values each, at ``places``, for a time each."""
    a, b, c = places.T
    return np.stack(
        [
            (times - b) * (times - c) / ((a - b) * (a - c)),
            (times - a) * (times - c) / ((b - a) * (b - c)),
            (times - a) * (times - b) / ((c - a) * (c - b)),
        ],
        axis=1,
    )
