"""Grids in time: panels with Radau IIA nodes, their integration weights and their interpolant.

A grid is a sequence of panels, each with the same number m of nodes, the last node being the
panel's right end. Node 0 is the start. Collocation at these nodes is of order 2m − 1 at panel ends
and stiffly accurate (Hairer & Wanner, Solving Ordinary Differential Equations II, IV.5).
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial import legendre

from eqsolve.numerics.arrays import EPSILON, Array, over_neighbours


@dataclass(frozen=True, eq=False)
class Radau:
    """The m-node Radau IIA rule on [0, 1]."""

    nodes: Array  # c_1 < ... < c_m = 1.
    # A[i, l] = ∫_0^{c_i} ℓ_l, with ℓ_l the Lagrange polynomials of the nodes; its last row are the
    # weights
    integrals: Array

    @property
    def weights(self) -> Array:
        return self.integrals[-1]

    @functools.cached_property
    def with_start(self) -> Array:
        """0 and the nodes."""
        return np.append(0.0, self.nodes)

    @functools.cached_property
    def back(self) -> Array:
        """Lagrange weights that extrapolate values on the nodes to 0."""
        return np.asarray(lagrange(self.nodes, np.zeros(1))[0])

    @functools.cached_property
    def slopes(self) -> Array:
        """Derivatives at 0 and the nodes of the polynomial given there."""
        return np.asarray(2 * legendre.legval(2 * self.with_start - 1, legendre.legder(self.legendre)).T)

    @functools.cached_property
    def legendre(self) -> Array:
        """Legendre coefficients of the polynomial given at 0 and the nodes."""
        return np.linalg.inv(legendre.legvander(2 * self.with_start - 1, len(self.nodes)))

    @functools.cached_property
    def legendre_inside(self) -> Array:
        """The same of the polynomial given at the nodes alone."""
        return np.asarray(self.legendre[:-1, 1:] + self.legendre[:-1, :1] * self.back)


@functools.lru_cache(maxsize=32)
def radau(m: int) -> Radau:
    """Return the m-node Radau IIA rule."""
    series = np.append(np.zeros(m - 1), (1.0, -1.0))  # P_{m−1} − P_m, whose last root is 1
    roots = legendre.legroots(series).real  # numpy 2.5 gives complex ones
    # the companion matrix leaves digits: one step of Newton's method
    roots -= legendre.legval(roots, series) / legendre.legval(roots, legendre.legder(series))
    nodes = np.append((roots[:-1] + 1) / 2, 1.0)
    return Radau(nodes, lagrange_integrals(nodes, nodes))


def lagrange_integrals(nodes: Array, ends: Array) -> Array:
    """Return the integrals of Lagrange polynomials from 0 to ``ends``, shape (ends, nodes)."""
    gauss, weights = legendre.leggauss((len(nodes) + 1) // 2)
    points = ends[:, None] * (gauss + 1) / 2
    values = lagrange(nodes, points.ravel()).reshape(*points.shape, -1)
    return np.asarray(np.einsum("i,g,igl->il", ends, weights / 2, values))


def lagrange(nodes: Array, points: Array) -> Array:
    """Return the Lagrange polynomials of ``nodes`` at ``points``, (points, nodes): second barycentric formula.

    Berrut & Trefethen, SIAM Review 46, 501 (2004), doi:10.1137/S0036144502417715.
    """
    differences = nodes[:, None] - nodes[None, :]
    np.fill_diagonal(differences, 1.0)
    scale = 1.0 / differences.prod(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):  # at a node
        terms = scale[:, None] / (points - nodes[:, None])  # sums over the few nodes are those of whole rows
        total = terms.sum(axis=0)
        terms /= total
    if (hit := np.isinf(total)).any():
        terms[:, hit] = points[hit] == nodes[:, None]
    return terms.T


WIDTH = 6  # nodes: with four, soft spins at 1e-2 would need twice the steps
_JUMP = 0.1  # of the variation on a panel: smooth functions leave at most 0.008 at its left end (seven models at 1e-2)
_BREAK = EPSILON**0.5  # of half a step: two nodes that are nearer are both sides of a break


@dataclass(frozen=True, eq=False)
class PanelGrid:
    """Panels between consecutive ``edges``, each with ``order`` Radau nodes.

    Values on the steps of a smooth function, one node each, are interpolated by polynomials through
    ``width`` nodes. Panels end at all ``breaks``, and so do those that are made of them.
    """

    edges: Array
    order: int
    width: int = 0
    breaks: tuple[float, ...] = ()

    @classmethod
    def ending_at(cls, breaks: tuple[float, ...], edges: Array, order: int) -> PanelGrid:
        """Return panels with an edge at every break inside: one that is near is moved there, else there is one more."""
        for moment in breaks:
            place = int(np.searchsorted(edges, moment))
            if 0 < place < len(edges) and edges[place] != moment:
                near = place if edges[place] - moment < moment - edges[place - 1] else place - 1
                close = abs(edges[near] - moment) < 0.3 * (edges[place] - edges[place - 1])
                moved = close and 0 < near < len(edges) - 1 and edges[near] not in breaks
                edges = np.sort(np.append(np.delete(edges, near) if moved else edges, moment))
        return cls(edges, order, breaks=breaks)

    @classmethod
    def geometric(
        cls, begin: float, end: float, step: float, growth: float, order: int, breaks: tuple[float, ...] = ()
    ) -> PanelGrid:
        """Return panels of which each is longer than the one before by a factor; the first has about the given length."""
        steps = [step]
        while sum(steps) < end - begin:
            steps.append(growth * steps[-1])
        edges = np.concatenate([[0.0], np.cumsum(steps)])
        return cls.ending_at(breaks, begin + edges * ((end - begin) / edges[-1]), order)

    def denser(self, ratios: Array, *, keep: bool = False) -> PanelGrid:
        """Return panels that are denser by given ratios, spread over what is between breaks.

        With ``keep`` panels of ratio one stay as they are, and others are spread over each run of them.
        """
        cut = np.isin(self.edges[1:-1], self.breaks) | (keep & np.diff(ratios > 1))
        edges = [self.edges[:1]]
        for low, high in itertools.pairwise([0, *(np.flatnonzero(cut) + 1), self.panels]):
            wanted = np.append(0.0, np.cumsum(ratios[low:high]))
            position = np.linspace(0, wanted[-1], math.ceil(wanted[-1] - 1e-9) + 1)
            edges.append(np.interp(position, wanted, self.edges[low : high + 1])[1:])
        return replace(self, edges=np.concatenate(edges))

    def of_another_order(self, highest: int, more: float) -> PanelGrid:
        """Return panels of the next order, of the previous one from the highest on, with a multiple of the nodes."""
        order = self.order + 1 if self.order < highest else self.order - 1
        ratio = more * self.size / (order * self.panels)
        return replace(self.denser(np.full(self.panels, ratio)), order=order)

    @property
    def panels(self) -> int:
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        return 1 + self.panels * self.order

    @functools.cached_property
    def nodes(self) -> Array:
        """All nodes, the start first."""
        steps = np.diff(self.edges)
        inner = self.edges[:-1, None] + steps[:, None] * radau(self.order).nodes
        inner[:, -1] = self.edges[1:]
        return np.concatenate([self.edges[:1], inner.ravel()])

    def locate(self, times: Array) -> Array:
        """Return the panel that holds each time; a panel owns its right end."""
        return np.clip(np.searchsorted(self.edges, times, side="left") - 1, 0, self.panels - 1)

    def stencil(self, times: Array) -> tuple[Array, Array]:
        """Return the nodes that the polynomial at each time goes through, and their weights."""
        panel = self.locate(times)
        if self.width:
            columns, weights = np.repeat(panel[:, None], self.width, axis=1), np.zeros((len(times), self.width))
            for place in np.unique(panel):
                near, here = self.near(int(place)), panel == place
                columns[here, : len(near)] = near
                weights[here, : len(near)] = lagrange(self.nodes[near], times[here])
            return columns, weights
        step = self.edges[panel + 1] - self.edges[panel]
        local = (times - self.edges[panel]) / step
        weights = lagrange(radau(self.order).with_start, local)
        columns = panel[:, None] * self.order + np.arange(self.order + 1)
        return columns, weights

    def near(self, step: int) -> list[int]:
        """Return the nodes of a step and others on both sides, at least half its length apart; none beyond a break.

        Two nodes stand at a break: steps that are very short, compared with others.
        """
        low, high = step, step + 1
        near, apart = [low, high], (self.nodes[high] - self.nodes[low]) / 2
        while len(near) < self.width:
            before = int(np.searchsorted(self.nodes, self.nodes[low] - apart, side="right")) - 1
            after = int(np.searchsorted(self.nodes, self.nodes[high] + apart))
            if before >= 0 and np.diff(self.nodes[before : low + 1]).min() < _BREAK * apart:
                before = -1
            if after < self.size and np.diff(self.nodes[high : after + 1]).min() < _BREAK * apart:
                after = self.size
            if before >= 0 and (len(near) % 2 == 0 or after == self.size):
                near.append(low := before)
            elif after < self.size:
                near.append(high := after)
            else:
                break
        return near

    def interpolation(self, times: Array) -> Array:
        """Return the matrix from values on the nodes to values at times inside, by the panels' own polynomials."""
        columns, weights = self.stencil(np.clip(times, self.edges[0], self.edges[-1]))
        matrix = np.zeros((len(times), self.size))
        np.put_along_axis(matrix, columns, weights, axis=1)
        return matrix

    def interpolate(self, values: Array, times: Array) -> Array:
        """Return values given on the nodes (last axis) at other times, by the panel's own polynomial."""
        columns, weights = self.stencil(np.asarray(times, dtype=float))
        values_there, panels = np.einsum("...pk,pk->...p", values[..., columns], weights), self.locate(times)
        for panel, jumps, own in self.behind_jumps(values):
            here = panels == panel
            local = (np.asarray(times)[here] - self.edges[panel]) / (self.edges[panel + 1] - self.edges[panel])
            later = own @ lagrange(radau(self.order).nodes, local).T
            values_there[..., here] = np.where(jumps[..., None], later, values_there[..., here])
        return values_there

    def behind_jumps(self, values: Array) -> Iterator[tuple[int, Array, Array]]:
        """Yield the panels behind breaks at which some of the values jump, which of them do, and those on the own nodes.

        Polynomials go through these alone there: what they give at the left end is far from the value of before.
        """
        for panel in [] if self.width else np.flatnonzero(np.isin(self.edges[:-1], self.breaks)):
            own = values[..., panel * self.order + 1 : (panel + 1) * self.order + 1]
            gap = np.abs(own @ radau(self.order).back - values[..., panel * self.order])
            if (jumps := gap > _JUMP * np.ptp(own, axis=-1)).any():
                yield int(panel), jumps, own

    @classmethod
    def smooth(cls, times: Array) -> PanelGrid:
        """Return the grid of the steps of a smooth function."""
        return cls(times, 1, WIDTH)

    def error_between(self, values: Array) -> Array:
        """Return how far polynomials of lower degree are, in the steps beside each node."""
        middles = (self.nodes[1:] + self.nodes[:-1]) / 2
        lower = PanelGrid(self.edges, self.order, self.width - 2).interpolate(values, middles)
        gaps = np.pad(np.abs(self.interpolate(values, middles) - lower), 1)
        return np.maximum(gaps[1:], gaps[:-1])


def over_panels(change: Array, order: int, *, beside: bool = False) -> Array:
    """Give every node the largest value on its panel, and on those ``beside`` it: a chance zero is not accuracy."""
    first, panels = change[..., :1], change[..., 1:].reshape(*change.shape[:-1], -1, order).max(axis=-1)
    if beside:
        panels = over_neighbours(panels, 1, np.max, [-1])
        first = panels[..., :1]
    return np.concatenate([first, np.repeat(panels, order, axis=-1)], axis=-1)


ROWS, DRAWN = 8, 200  # of a table; points of a drawn line, on either scale of its axis


def sample_times(first: float, last: float, count: int = DRAWN) -> Array:
    """Return times, with both ends, that are dense on a linear and on a logarithmic axis."""
    shares = np.concatenate([np.linspace(0, 1, count), np.geomspace(1e-6, 1, count)])
    return np.unique(np.clip(first + (last - first) * shares, first, last))
