"""Kernels as matrices on a grid of nodes: responses as integration operators, correlations as tables of values.

On the nodes of a panel grid, integration from the start is one block-triangular matrix J; the
composition of causal operators is a matrix product; a kernel that enters its own equation linearly
is one triangular solve. With J_η = η × (strictly lower ones) on a uniform grid the same formulas
are the discrete-time system exactly.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss, legvander

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import PanelGrid, lagrange, radau

# Values of a causal kernel in a panel on the diagonal, from what its operator does to polynomials
# there. In panels before, an operator's entry over the weight of its node is the kernel's value. In
# the panel itself rows know moments over [0, cᵢ] only, and those of high degree badly. So one
# polynomial in both times is fitted to all moments, with small weight where they are bad, and to
# the values at the panel's start. It continues the kernel across the diagonal.


_TRUST = 0.1  # weight of a moment, per degree, in rows before the last one, which is as accurate as a Radau rule


def recovered_degree(order: int) -> int:
    """Return the total degree to which kernel values are recovered from a diagonal block."""
    return order - 1 if order < 5 else order - 2


@functools.lru_cache(maxsize=32)
def recovery(order: int, start_known: bool) -> Array:
    """Return the matrix from a diagonal block (per unit of the panel's length), flat, to the kernel's values there, flat.

    With ``start_known`` the values at the panel's start, one per row, follow the block.
    """
    c = radau(order).nodes
    degree = recovered_degree(order)
    gauss, weights = leggauss(2 * order)
    inside, shares = c[:, None] * (gauss + 1) / 2, c[:, None] * weights / 2
    tests = _legendre(c, order - 1)
    trust = np.full((order, order), _TRUST ** np.arange(order))
    trust[-1] = 1.0
    wanted = np.einsum("ig,igk,igd->ikd", shares, _legendre(inside, order - 1), _basis(c[:, None], inside, degree))
    equations = (trust[:, :, None] * wanted).reshape(order * order, -1)
    data = np.einsum("ik,jk,il->ikjl", trust, tests, np.eye(order)).transpose(0, 1, 3, 2).reshape(order * order, -1)
    if start_known:
        equations = np.vstack([equations, _basis(c, np.zeros(order), degree)])
        none = np.zeros((order * order, order))
        data = np.block([[data, none], [none.T, np.eye(order)]])
    values = _basis(c[:, None], c[None, :], degree).reshape(order * order, -1)
    # moments of high degree are nearly dependent: what they tell to 1e-10 is left out of the fit
    return np.asarray(values @ np.linalg.pinv(equations, rcond=1e-10) @ data)


def _legendre(x: Array, degree: int) -> Array:
    """Return the orthonormal polynomials of [0, 1]."""
    return legvander(2 * x - 1, degree) * np.sqrt(2 * np.arange(degree + 1) + 1)


def _basis(t: Array, s: Array, degree: int) -> Array:
    """Return the products of Legendre polynomials in t and s up to a total degree."""
    first, second = np.broadcast_arrays(t, s)
    rows, columns = legvander(2 * first - 1, degree), legvander(2 * second - 1, degree)
    return np.stack([rows[..., p] * columns[..., q] for p in range(degree + 1) for q in range(degree + 1 - p)], axis=-1)


@functools.lru_cache(maxsize=32)
def continuation(order: int) -> Array:
    """Return the matrix from a function on the pairs t' ≤ t of a panel's start and nodes to its continuation to t' > t.

    One polynomial of total degree ``order`` goes through the pairs: they are its principal lattice.
    Both in the order of ``tril_indices`` and ``triu_indices``.
    """
    c = radau(order).with_start
    (low, left), (high, right) = np.tril_indices(order + 1), np.triu_indices(order + 1, 1)
    known, wanted = _basis(c[low], c[left], order), _basis(c[high], c[right], order)
    return np.asarray(np.linalg.solve(known.T, wanted.T).T)


@functools.lru_cache(maxsize=32)
def _averages_of_half(order: int) -> Array:
    """Return the matrix from a function on the pairs t' ≤ t of a panel's start and nodes to a table on its nodes, flat.

    Integrals of the table by the panel's rule, in both times from the start to all nodes, are those of the function where
    t' < t and of zero elsewhere.
    """
    rule, (gauss, weights) = radau(order), leggauss(order + 1)
    c, (low, left) = rule.nodes, np.tril_indices(order + 1)
    x, share = (gauss + 1) / 2, np.multiply.outer(weights, weights) / 4
    first = np.minimum.outer(c, c)[..., None, None]  # the triangle up to the earlier node, and a rectangle above it
    after = np.maximum(np.subtract.outer(c, c), 0.0)[..., None, None]
    early, late = first * x[:, None], c[:, None, None] + after * x[:, None]
    moments = ((share * first * early)[..., None] * _basis(early, early * x, order)).sum(axis=(2, 3))
    moments += ((share * first * after)[..., None] * _basis(late, first * x, order)).sum(axis=(2, 3))
    back = np.linalg.inv(rule.integrals)
    table = np.einsum("ik,kld,jl->ijd", back, moments, back).reshape(order * order, -1)
    known = _basis(rule.with_start[low], rule.with_start[left], order)
    return np.asarray(np.linalg.solve(known.T, table.T).T)


def average_cusps(grid: OperatorGrid, table: Array) -> Array:
    """Return a covariance whose integrals by the rule of the panels are those of one with a cusp at equal times.

    On every panel on the diagonal one polynomial goes through the values at t' ≤ t, and one through the others. ``table``
    may hold blocks for pairs of processes.
    """
    panels, size = grid.panels, grid.size
    if panels is None:
        return table
    averaged, half = table.copy(), _averages_of_half(panels.order)
    nodes = np.arange(panels.order + 1) + panels.order * np.arange(panels.panels)[:, None]
    low, left = np.tril_indices(panels.order + 1)
    rows, columns, own = nodes[:, low], nodes[:, left], nodes[:, 1:]
    for above, aside in itertools.product(range(0, len(table), size), range(0, table.shape[1], size)):
        block = table[above : above + size, aside : aside + size]
        parts = [(part[rows, columns] @ half.T).reshape(-1, panels.order, panels.order) for part in (block, block.T)]
        averaged[above + own[:, :, None], aside + own[:, None, :]] = parts[0] + parts[1].transpose(0, 2, 1)
    return averaged


def interpolate_triangle(nodes: Array, table: Array, points: Array) -> Array:
    """Return the polynomial through values on all pairs t' ≤ t of nodes, at pairs between them."""
    low, left = np.tril_indices(len(nodes))
    x, pairs = ((item - nodes[0]) / (nodes[-1] - nodes[0]) for item in (nodes, points))
    known, wanted = (_basis(first, second, len(nodes) - 1) for first, second in ((x[low], x[left]), pairs.T))
    return np.asarray(wanted @ np.linalg.solve(known, table[low, left]))


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
    def trapezoid(cls, nodes: Array, block: int = 1) -> OperatorGrid:
        """Return the trapezoidal rule on given nodes, solved in blocks of ``block`` nodes."""
        steps = np.diff(nodes)
        matrix = np.zeros((len(nodes), len(nodes)))
        matrix[1:, :-1] += np.tril(np.broadcast_to(steps / 2, (len(steps), len(steps))))
        matrix[1:, 1:] += np.tril(np.broadcast_to(steps / 2, (len(steps), len(steps))))
        blocks = [slice(0, 1), *(slice(i, min(i + block, len(nodes))) for i in range(1, len(nodes), block))]
        return cls(nodes, tuple(blocks), matrix, None)

    def head(self, blocks: int) -> OperatorGrid:
        """Return the grid's first blocks."""
        stop = self.blocks[blocks - 1].stop
        panels = (
            None
            if self.panels is None
            else PanelGrid(self.panels.edges[:blocks], self.panels.order, breaks=self.panels.breaks)
        )
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
                out[1:, 0] = np.vstack([block, out[part.stop :, part]]) @ radau(order).back
                out[0, 0] = out[part, 0] @ radau(order).back
        return out

    def _trapezoid_values(self, operator: Array) -> Array:
        """Return the values of an operator on the trapezoidal rule.

        What acts at a node acts as much in the middle of the step before as in that of the step
        behind, so that an entry by its weight is a value at the centroid of the two; along each row
        the values on the nodes follow from these by parabolas.
        """
        out, nodes, count = np.zeros_like(operator), self.nodes, self.size
        if count < 5:
            return np.asarray(operator / np.where(self.integration > 0, self.integration, 1.0))
        before, behind = np.diff(nodes, prepend=nodes[0]), np.diff(nodes, append=nodes[-1])
        for row in range(2, count):
            places = nodes[: row + 1] + (behind - before)[: row + 1] / 2
            places[row] = nodes[row] - before[row] / 2
            known = operator[row, : row + 1] / self.integration[row, : row + 1]
            near = np.clip(np.arange(row + 1) - 1, 0, row - 2)[:, None] + np.arange(3)
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
        out[0] = values[1] if self.panels is None else values[self.blocks[1]] @ radau(self.panels.order).back
        return out


_TOGETHER = 40  # nodes whose equations are eliminated at once: a few panels, so that products of matrices rule the cost


def solve_causal(left: Array, right: Array, blocks: tuple[slice, ...]) -> Array:
    """Return X = left X + right for a causal operator, by forward substitution over blocks; of causal X half is computed."""
    size, edges, table = len(left), [0], right.reshape(len(right), -1)
    for part in blocks:
        if part.stop - edges[-1] >= _TOGETHER:
            edges.append(part.stop)
    edges = [*edges[:-1], size] if len(edges) > 1 else [0, size]
    if any(left[:edge, edge:].any() for edge in edges[1:-1]):  # not causal: all at once
        edges = [0, size]
    causal = table.shape == left.shape and not any(table[:edge, edge:].any() for edge in edges[1:-1])
    solution = np.zeros_like(table, dtype=np.result_type(left, right, float))
    for first, last in itertools.pairwise(edges):
        columns = slice(last if causal else None)
        known = table[first:last, columns] + left[first:last, :first] @ solution[:first, columns]
        solution[first:last, columns] = np.linalg.solve(np.eye(last - first) - left[first:last, first:last], known)
    return solution.reshape(right.shape)


def _parabolas(places: Array, times: Array) -> Array:
    """Return the weights of three values each, at ``places``, for a time each."""
    weights = np.ones_like(places)
    for one, other in itertools.permutations(range(3), 2):
        weights[:, one] *= (times - places[:, other]) / (places[:, one] - places[:, other])
    return weights
