"""Expectations by adaptive Gauss–Legendre quadrature, split at kinks, and Gauss–Hermite rules.

Along one Gaussian direction the real line is cut into panels; kinks and jumps of the integrands are
panel ends. Further Gaussian directions, in which the integrands are polynomials once the first is
chosen well, take few Gauss–Hermite nodes; where they are not, many. All nodes of all panels are
evaluated at once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, product
from typing import Any

import numpy as np
from mpmath import mp

from eqsolve.errors import ParameterError
from eqsolve.numerics.arrays import EPSILON, ROUNDING, Array, chunk, tensor_rule
from eqsolve.numerics.laws import Component, NumericLaw, hermite, joint_groups

# Means of functions of one and of two jointly Gaussian variables, for many pairs at once, to a
# tolerance. With f(m + s x) = Σ aₖ Heₖ(x)/√k! and g alike, E f g = Σ aₖ bₖ ρᵏ (Mehler 1866). What a
# series cut after K terms leaves is at most |ρ|ᴷ √(T_f T_g), T being the part of the variance
# beyond K. For analytic f the coefficients fall like e^{−c√k}; where f has kinks or jumps they fall
# as powers, and pairs with ρ near one are integrated over the plane, between kinks. Smooth functions
# are integrated along the line by evenly spaced points (Trefethen & Weideman, SIAM Review 56, 385
# (2014), doi:10.1137/130932132), others by Gauss–Legendre panels between kinks.


# at the first e^{−x²/4} is below rounding; at the last e^{−x²/2} is nearly the smallest double
_REACHES = tuple(2 * math.sqrt(-math.log(EPSILON / 20)) * 2 ** (k / 2) for k in range(4))
# radius of the plane, and half-width of the boundary layer that a kink of g leaves in E[g | x], in
# standard deviations: e^{−x²/2} is rounding there
_PLANE = math.sqrt(-2 * math.log(ROUNDING))


@dataclass(frozen=True)
class LineRule:
    """How finely lines and planes are integrated."""

    step: float = 0.2  # of evenly spaced points, at most; 1/20 of it at least
    shift: float = 0.0  # of these from zero, in steps
    nodes: int = 16  # of a panel, on a line and in the plane
    # of Gauss–Legendre panels between kinks, in units of the shortest wave of the series
    width: float = 0.75 * nodes
    inner: int = nodes - 2  # under another integral, and per variable of more than two
    most: int = 2048  # terms of a series; of functions with a kink a quarter

    def other(self) -> LineRule:
        """Return a rule that shares no points with this one, and is no worse."""
        step, shift = 0.83 * self.step, 0.3 - self.shift
        return replace(self, step=step, shift=shift, width=0.87 * self.width, nodes=self.nodes + 3, inner=self.inner + 3)


RULE = 6 * LineRule.nodes  # nodes across lines and of densities; error estimates use more


@dataclass(frozen=True, eq=False)
class Expansion:
    """Functions of standard normal variables, a row each, by their Hermite coefficients."""

    coefficients: Array
    power: Array  # E f²
    size: Array  # E|f|
    rest: Array  # the part of E f² beyond the last coefficient


def expand_line(function: Callable[[Array], Array], rows: int, breaks: Array | None, count: int, rule: LineRule) -> Expansion:
    """Return ``count`` Hermite coefficients of f(x) for every row, x a standard normal variable.

    ``function`` takes points of shape (points,) or (rows, points); ``breaks`` are the places, of
    shape (rows, kinks), of their kinks and jumps.
    """
    if breaks is not None and breaks.shape[1]:
        return _by_panels(function, breaks, count, rule)
    reach = _REACHES[0]
    step = rule.step * min(1.0, math.pi / (math.sqrt(count) + 4.0) / LineRule.step)
    while True:
        half = math.ceil(reach / step)
        points = step * (np.arange(-half, half + 1) + rule.shift)
        values = np.broadcast_to(function(points), (rows, len(points)))
        faded = np.abs(values) * np.exp(-(points**2) / 4)
        if reach < _REACHES[-1] and (faded[:, [0, -1]] > 4 * EPSILON * faded.max(axis=1)[:, None]).any():
            reach = next(item for item in _REACHES if item > reach)
            continue
        weights = step * normal_density(points)
        power = (values**2) @ weights
        coarse = 2 * (values[:, half % 2 :: 2] ** 2) @ weights[half % 2 :: 2]
        if (np.abs(power - coarse) <= 1e-5 * power).all() or step <= rule.step / 20:
            break
        step /= 2
    coefficients = (values * weights) @ _basis(half, step, count, rule.shift)
    rest = np.maximum(power - (coefficients**2).sum(axis=1), 0.0)
    return Expansion(coefficients, power, np.abs(values) @ weights, rest)


@functools.lru_cache(maxsize=8)
def _basis(half: int, step: float, count: int, shift: float) -> Array:
    """Return Heₖ/√k! at evenly spaced points, shape (points, count)."""
    points = step * (np.arange(-half, half + 1) + shift)
    table = np.ones((count, len(points)))
    for k in range(1, count):
        table[k] = (points * table[k - 1] - math.sqrt(k - 1) * table[k - 2]) / math.sqrt(k)
    return np.ascontiguousarray(table.T)


def _by_panels(function: Callable[[Array], Array], breaks: Array, count: int, rule: LineRule) -> Expansion:
    """Return the coefficients of functions that are smooth between their breaks."""
    rows, reach = len(breaks), _REACHES[0]
    panels = math.ceil(2 * reach * (math.sqrt(count) + 4.0) / rule.width)
    base = np.broadcast_to(np.linspace(-reach, reach, panels + 1), (rows, panels + 1))
    points, weights = panel_nodes(np.concatenate([base, np.clip(breaks, -reach, reach)], axis=1), rule.nodes)
    values = np.broadcast_to(function(points), points.shape)
    weighted = values * weights * normal_density(points)
    coefficients = np.empty((rows, count))
    last, now = np.zeros_like(points), np.ones_like(points)
    for k in range(count):
        coefficients[:, k] = (weighted * now).sum(axis=1)
        last, now = now, (points * now - math.sqrt(k) * last) / math.sqrt(k + 1)
    power = (weighted * values).sum(axis=1)
    rest = np.maximum(power - (coefficients**2).sum(axis=1), 0.0)
    return Expansion(coefficients, power, np.abs(weighted).sum(axis=1), rest)


@functools.lru_cache(maxsize=16)
def legendre(order: int) -> tuple[Array, Array, Array]:
    """Return Gauss–Legendre nodes and weights on [-1, 1], and the map to the three highest Legendre coefficients."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    table = np.polynomial.legendre.legvander(nodes, order - 1)
    return nodes, weights, (table * weights[:, None] * (np.arange(order) + 0.5)).T[-3:]


def panel_nodes(edges: Array, order: int) -> tuple[Array, Array]:
    """Return Gauss–Legendre points and weights between sorted edges, a row each."""
    edges = np.sort(edges, axis=1)
    nodes, masses, _ = legendre(order)
    widths = np.diff(edges, axis=1)
    points = (edges[:, :-1, None] + widths[:, :, None] * (nodes + 1) / 2).reshape(len(edges), -1)
    return points, (widths[:, :, None] * masses / 2).reshape(len(edges), -1)


def mehler(first: Array, second: Array, correlation: Array) -> Array:
    """Return Σ aₖ bₖ ρᵏ for all pairs of rows."""
    count = min(first.shape[1], second.shape[1])
    total = np.multiply.outer(first[:, count - 1], second[:, count - 1])
    part = np.empty_like(total)
    for k in range(count - 2, -1, -1):
        total *= correlation
        np.multiply(first[:, k, None], second[None, :, k], out=part)
        total += part
    return total


def plane_means(
    first: Callable[[Array, Array], Array], second: Callable[[Array, Array], Array], breaks: tuple[Array, Array],
    correlation: Array, rule: LineRule,
) -> Array:  # fmt: skip
    """Return E f(x) g(y) pair by pair for standard normal x, y of given correlation.

    Functions take the places of the pairs and points, (pairs, points); ``breaks`` are the
    kinks and jumps of f and of g, (pairs, kinks) each. y = ρ x + √(1−ρ²) v: over v the integral is cut at the kinks
    of g, over x at those of f and around the layer that a kink of g leaves in E[g | x].
    """
    means = np.empty(len(correlation))
    panels = 7 + breaks[0].shape[1] + 3 * breaks[1].shape[1]
    step = chunk(panels * rule.nodes * (6 + breaks[1].shape[1]) * rule.inner)
    for begin in range(0, len(means), step):
        places = np.arange(begin, min(begin + step, len(means)))
        (first_breaks, second_breaks), rho, count = (item[places] for item in breaks), correlation[places, None], len(places)
        width = np.sqrt(np.maximum(1 - rho**2, 1e-28))  # a layer of no width would be 0/0
        steep = np.where(np.abs(rho) > 1e-3, rho, 1e-3)  # else wider than the plane
        centre, layer = second_breaks / steep, _PLANE * width / np.abs(steep)
        base = np.broadcast_to(np.linspace(-_PLANE, _PLANE, 8), (count, 8))
        edges = np.concatenate([base, first_breaks, centre, centre - layer, centre + layer], axis=1)
        points, weights = panel_nodes(np.clip(edges, -_PLANE, _PLANE), rule.nodes)
        cuts = np.clip((second_breaks[:, None, :] - (rho * points)[:, :, None]) / width[:, :, None], -_PLANE, _PLANE)
        base = np.broadcast_to(np.linspace(-_PLANE, _PLANE, 7), (points.size, 7))
        inner, masses = panel_nodes(np.concatenate([base, cuts.reshape(points.size, -1)], axis=1), rule.inner)
        there = (rho * points)[:, :, None] + width[:, :, None] * inner.reshape(*points.shape, -1)
        values = np.broadcast_to(second(places, there.reshape(count, -1)), (count, there[0].size)).reshape(there.shape)
        inside = (values * (masses * normal_density(inner)).reshape(there.shape)).sum(axis=2)
        means[places] = (weights * normal_density(points) * first(places, points) * inside).sum(axis=1)
    return means


@functools.lru_cache(maxsize=32)
def product_rule(dimensions: int, nodes: int) -> tuple[Array, Array]:
    """Return the points, (points, dimensions), and weights of a product of Gauss–Hermite rules, faint ones left out."""
    columns, weights = tensor_rule([hermite(nodes)] * dimensions)
    likely = weights > 1e-20 * weights.max()
    return np.array(columns).T[likely], weights[likely]


@functools.lru_cache(maxsize=8)
def precise_legendre(order: int, digits: int) -> tuple[tuple[Any, Any], ...]:
    """Return pairs of nodes and weights on [−1, 1] in mpmath's numbers, by Golub and Welsch's method."""
    with mp.workdps(digits + 5):  # the last digits of a node are rounding
        return tuple(zip(*mp.gauss_quadrature(order), strict=True))


# --- The joint law of random constants as a mixture of Gaussians and points; other densities by
# their own Gauss rules.
@dataclass(frozen=True)
class LawBranch:
    """One part of the joint law of the random constants: each is mean + √variance × a standard normal variable.

    Numbers are floats, or those of mpmath for laws made with digits.
    """

    probability: Any
    means: tuple[Any, ...]
    variances: tuple[Any, ...]
    exact: bool = True  # not where a density was replaced by a rule: that has an error

    @functools.cached_property
    def numbers(self) -> tuple[float, Array, Array]:
        """Return probability, means and standard deviations as floats."""
        means, variances = (np.array(part, dtype=float) for part in (self.means, self.variances))
        return float(self.probability), means, np.sqrt(variances)


def branches(constants: Sequence[str], laws: Mapping[str, NumericLaw], order: int) -> list[LawBranch]:
    """Return the parts of the product law; constants of one joint sample stay together."""
    order_of: list[str] = []
    factors: list[list[Any]] = [[(1, (), (), True)]]
    for members in joint_groups({item: laws[item] for item in constants}):
        order_of += members
        columns = [law.column for law in map(laws.__getitem__, members) if isinstance(law, Component)]
        if columns:
            none, share = (0.0,) * len(members), Fraction(1, len(columns[0]))
            factors.append([(share, tuple(row), none, True) for row in np.stack(columns, axis=1).tolist()])
        else:
            factors.append([(p, (m,), (v,), e) for p, m, v, e in laws[members[0]].gaussians(order)])
    places, parts = [order_of.index(item) for item in constants], []
    for choice in product(*factors):
        probabilities, means, variances, exact = zip(*choice, strict=True)
        tables = [tuple(chain(*columns)) for columns in (means, variances)]
        mean, variance = (tuple(table[place] for place in places) for table in tables)
        parts.append(LawBranch(math.prod(probabilities), mean, variance, all(exact)))
    return parts


def demand_second_moment(name: str, law: NumericLaw) -> None:
    """Raise when a law has no second moment: the theory does not hold for it."""
    if not law.has_second_moment:
        raise ParameterError(
            f"`{name}` has the law {law}, which has no second moment; expected a law with finite variance, "
            "such as StudentT(df) with df > 2"
        )


# --- Lines through the space of random variables, along which expectations are integrals over one
# Gaussian, in the direction in which what is integrated is not a polynomial; across it few
# Gauss–Hermite nodes are exact. Where there is no such direction, many are taken.


Integrands = Any
"""Integrands of Gaussian variables and points, as functions of arrays: a compiled fixed point, or what offers as much."""


@dataclass(frozen=True)
class LineSet:
    """Lines through the space of random variables; along each the expectation is an integral over one Gaussian.

    A random variable at x on a line is mean + scale × (base + direction × x); with direction zero
    the line is a single point.
    """

    weight: Array
    mean: Array
    scale: Array
    base: Array
    direction: Array
    owner: Array  # the column of the unknowns that a line belongs to, of those evaluated together
    exact: bool  # whether nothing was left to the number of nodes across

    @property
    def turned(self) -> bool:
        """Whether directions depend on the unknowns: with several Gaussians they follow the integrands' own."""
        return bool(self.base.any())

    @property
    def is_point(self) -> Array:
        return np.asarray(~self.direction.any(axis=1))

    def sums(self, table: Array, at: Array) -> Array:
        """Return the sums over what belongs to each set of unknowns, a column each, of numbers on the lines ``at``."""
        count, owner = int(self.owner[-1]) + 1, self.owner[at]
        if count == 1:
            return table.sum(axis=1)[:, None]
        return np.array([np.bincount(owner, weights=row, minlength=count) for row in table]).reshape(len(table), count)


def make_lines(
    plan: Integrands, parts: Sequence[LawBranch], parameters: Sequence[float], unknowns: Array, outer: int
) -> LineSet:
    """Return the lines for several sets of unknowns (one per column), turned to suit the plan's integrands.

    Across the lines are ``outer`` nodes where integrands may be anything. Where they are
    polynomials there are as few as are exact for them and for their derivatives, whose degree may
    be larger by one.
    """

    def turned(mean: Array, scale: Array, active: Array) -> tuple[Array, int, bool]:
        first, aligned = _forms_direction(plan, parameters, unknowns, mean, scale, active)
        return first, max(2, plan.degree // 2 + 1) if aligned else outer, aligned

    return _branch_lines(plan, parts, unknowns.shape[1], turned, np.array(plan.needed, dtype=bool))


def lines_along(
    plan: Integrands, parts: Sequence[LawBranch], parameters: Sequence[float], unknowns: Array,
    name: str, outer: int | None,
) -> LineSet:  # fmt: skip
    """Return the lines for one set of unknowns, turned along the gradient of a variable where that has one direction.

    Everything that is a function of the variable is then constant across, and ``outer=None`` takes
    one node there. Where the gradient turns, the direction is that of the plan's integrands, with
    many nodes across.
    """

    def turned(mean: Array, scale: Array, active: Array) -> tuple[Array, int, bool]:
        first = _gradient_direction(plan, parameters, unknowns, mean, scale, active, name)
        if first is not None:
            return first, outer or 1, True
        return _forms_direction(plan, parameters, unknowns, mean, scale, active)[0], outer or RULE, False

    return _branch_lines(plan, parts, 1, turned)


def _branch_lines(
    plan: Integrands, parts: Sequence[LawBranch], count: int,
    turned: Callable[[Array, Array, Array], tuple[Array, int, bool]], needed: Any = True,
) -> LineSet:  # fmt: skip
    """Return the lines of all branches; ``turned`` says where they run among several Gaussians.

    It also says how many are exact. Variables that are not ``needed`` stay at their means.
    """
    table: list[tuple[Array, ...]] = []
    normals, exact = len(plan.normals), True
    for part in parts:
        probability, means, deviations = part.numbers
        mean, scale = np.concatenate([np.zeros(normals), means]), np.concatenate([np.ones(normals), deviations])
        active, width, weights = np.flatnonzero((scale > 0) & needed), len(mean), np.ones(1)
        exact = exact and part.exact
        if len(active) < 2:
            base, direction = np.zeros((count, 1, width)), np.zeros((count, 1, width))
            direction[:, :, active] = 1.0
        else:
            first, order, aligned = turned(mean, scale, active)
            grid, weights = product_rule(len(active) - 1, order)  # in the other directions
            base, direction = np.zeros((count, len(grid), width)), np.zeros((count, len(grid), width))
            base[:, :, active] = grid @ np.linalg.svd(first[:, None, :])[2][:, 1:]
            direction[:, :, active] = first[:, None, :]
            exact = exact and aligned
        chosen = base.shape[1]
        table.append((
            np.tile(probability * weights, count), *(np.broadcast_to(item, (count * chosen, width)) for item in (mean, scale)),
            base.reshape(count * chosen, width), direction.reshape(count * chosen, width), np.repeat(np.arange(count), chosen),
        ))  # fmt: skip
    weight, mean, scale, base, direction, owner = (np.concatenate(column) for column in zip(*table, strict=True))
    return LineSet(weight, mean, scale, base, direction, owner, exact)


def _forms_direction(
    plan: Integrands, parameters: Sequence[float], unknowns: Array, mean: Array, scale: Array, active: Array
) -> tuple[Array, bool]:
    """Return the direction along which the integrands are not polynomials, and whether it is the only one."""
    count, width, dims = unknowns.shape[1], len(mean), len(active)
    first = np.zeros((count, dims))
    first[:, 0] = 1.0
    if not plan.carriers:
        return first, plan.aligned
    arguments = [*parameters, *unknowns, *mean, *([0.0] * len(plan.is_switch))]
    entries = np.array([np.broadcast_to(entry, (count,)) for entry in plan.piece("directions")(*arguments)], dtype=float)
    gradients = entries.reshape(plan.carriers, width, count).transpose(2, 0, 1)[:, :, active] * scale[active]
    length = np.linalg.norm(gradients, axis=2, keepdims=True)
    unit = gradients / np.where(length > 0, length, 1.0)
    place = np.argmax(length[:, :, 0], axis=1)
    some = length[np.arange(count), place, 0] > 0
    first = np.where(some[:, None], unit[np.arange(count), place], first)
    across = 1 - np.abs(np.einsum("cfd,cd->cf", unit, first))
    return first, plan.aligned and bool((across[length[:, :, 0] > 0] < 1e-10).all())


def _gradient_direction(
    plan: Integrands, parameters: Sequence[float], unknowns: Array, mean: Array, scale: Array, active: Array, name: str
) -> Array | None:
    """Return the direction of a variable's gradient if it is the same wherever it was looked at."""
    draws = np.random.default_rng(0).standard_normal((RULE, len(active))) * np.geomspace(0.3, 6, RULE)[:, None]
    values = np.tile(mean, (RULE, 1))
    values[:, active] += scale[active] * draws
    with np.errstate(all="ignore"):
        full = plan.run_stages([*parameters, *unknowns[:, 0], *values.T], RULE)
        slopes = stacked(plan.piece("variable slopes", name)(*full), RULE)[active].T * scale[active]
    length = np.linalg.norm(slopes, axis=1)
    good = np.isfinite(length) & (length > 0)
    if not good.any():
        return None
    unit = slopes[good] / length[good][:, None]
    return unit[:1] if (np.abs(unit @ unit[0]) > 1 - 1e-10).all() else None


def node_arguments(parameters: Sequence[float], unknowns: Array, lines: LineSet, at: Array, x: Array) -> list[Any]:
    """Return the arguments of the plan's functions at points x of lines ``at``, stages left out."""
    owned: list[Any] = list(unknowns[:, 0]) if unknowns.shape[1] == 1 else list(unknowns[:, lines.owner[at]])
    starts, slopes = (lines.mean + lines.scale * lines.base).T, (lines.scale * lines.direction).T
    values = [start[at] + slope[at] * x for start, slope in zip(starts, slopes, strict=True)]
    return [*parameters, *owned, *values]


def stacked(entries: Sequence[Any], size: int) -> Array:
    """Return functions' values as rows of one array, constants spread out."""
    table = np.empty((len(entries), size))
    for place, entry in enumerate(entries):
        table[place] = entry
    return table


_REACH = math.sqrt(-2 * math.log(np.finfo(float).tiny))  # where the normal density underflows: 37.6
_EDGES = np.array([-_REACH, -20, -12.5, -8.5, -5.5, -2.7, 0, 2.7, 5.5, 8.5, 12.5, 20, _REACH])
_COARSE = np.array([-7.0, -2.5, 0.0, 2.5, 7.0])
_SNAP = 0.05  # standard deviations: an edge that is nearer to a kink moves with it
_OF_PANELS = ("row", "left", "right", "left_kink", "right_kink", "signs")
_PANELS = 5000  # to be cut at once; more there are only of integrands with a pole on the way
_CURVED = 4  # zeros looked for of a switch that is not linear


def normal_density(x: Array) -> Array:
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


@dataclass(frozen=True)
class PanelMesh:
    """Panels [left, right] on lines, with the signs of the switches on each; an end may be a kink that moves."""

    lines: LineSet
    row: Array
    left: Array
    right: Array
    left_kink: Array
    right_kink: Array
    signs: Array
    points: Array
    order: int

    @classmethod
    def between(cls, lines: LineSet, kinks: Array, edges: Array, order: int) -> PanelMesh:
        """Return the panels between given edges and kinks, without signs and single points."""
        chosen = np.flatnonzero(~lines.is_point)
        count, kinked = len(chosen), kinks.shape[1]
        fixed = np.array(np.broadcast_to(edges, (count, len(edges))))
        labels = np.full((count, len(edges)), -1)
        if kinked and count:  # an edge beside a kink would be left behind when the kink moves: it becomes the kink
            gaps = np.abs(edges[None, 1:-1, None] - kinks[chosen][:, None, :])
            nearest = gaps.argmin(axis=2)
            row, place = np.nonzero(gaps.min(axis=2) < _SNAP)
            fixed[row, place + 1] = kinks[chosen[row], nearest[row, place]]
            labels[row, place + 1] = nearest[row, place]
        ends = np.clip(np.concatenate([fixed, kinks[chosen]], axis=1), edges[0], edges[-1])
        labels = np.concatenate([labels, np.broadcast_to(np.arange(kinked), (count, kinked))], axis=1)
        places = np.argsort(ends, axis=1, kind="stable")
        ends, labels = np.take_along_axis(ends, places, axis=1), np.take_along_axis(labels, places, axis=1)
        row = np.repeat(chosen, ends.shape[1] - 1)
        left, right, begin, end = (part.ravel() for part in (ends[:, :-1], ends[:, 1:], labels[:, :-1], labels[:, 1:]))
        mesh = cls(lines, row, left, right, begin, end, np.zeros((len(row), 0)), chosen[:0], order)
        return mesh.part(mesh.right - mesh.left > 1e-13 * (1 + np.abs(mesh.left)))

    def part(self, chosen: Array) -> PanelMesh:
        """Return some of the panels of a mesh without single points."""
        return replace(self, **{name: getattr(self, name)[chosen] for name in _OF_PANELS})

    def joined(self, others: Sequence[PanelMesh]) -> PanelMesh:
        """Return the mesh with the panels of others in front."""
        parts = {name: [getattr(item, name) for item in (*others, self)] for name in _OF_PANELS}
        return replace(self, **{name: np.concatenate(arrays) for name, arrays in parts.items()})  # type: ignore[arg-type]

    def with_signs(self, integrands: Evaluator, points: Array) -> PanelMesh:
        """Return the mesh with the signs that the switches have on its panels and at single points."""
        middle = (self.left + self.right) / 2
        signs = (integrands.signs(self.lines, self.row, middle), integrands.signs(self.lines, points, np.zeros(len(points))))
        return replace(self, signs=np.concatenate(signs), points=points)

    def moved(self, kinks: Array) -> PanelMesh:
        """Return the mesh with the ends at kinks put where the kinks are now."""
        if not kinks.shape[1]:
            return self
        ends = []
        for end, kink in ((self.left, self.left_kink), (self.right, self.right_kink)):
            ends.append(np.where(kink >= 0, kinks[self.row, np.maximum(kink, 0)], end))
        return replace(self, left=ends[0], right=ends[1])

    def nodes(
        self, rule: tuple[Array, ...] | None = None, density: Callable[[Array], Array] = normal_density
    ) -> tuple[Array, Array, Array, list[Array]]:
        """Return (row, x, weight, signs) of all nodes; the single points come last."""
        reference, weights, *_ = rule or legendre(self.order)
        half = (self.right - self.left) / 2
        x = ((self.left + self.right) / 2)[:, None] + half[:, None] * reference
        share = half[:, None] * weights * density(x) * self.lines.weight[self.row][:, None]
        at = np.concatenate([np.repeat(self.row, len(reference)), self.points])
        signs = np.repeat(self.signs[: len(self.row)], len(reference), axis=0)
        signs = np.concatenate([signs, self.signs[len(self.row) :]])
        x_all = np.concatenate([x.ravel(), np.zeros(len(self.points))])
        w_all = np.concatenate([share.ravel(), self.lines.weight[self.points]])
        return at, x_all, w_all, list(signs.T)

    def halved(self, cuts: Array | None = None) -> PanelMesh:
        """Return the mesh with every panel cut in two, in the middle unless it is said where."""
        middle, none = (self.left + self.right) / 2 if cuts is None else cuts, np.full(len(self.row), -1)
        first = replace(self, right=middle, right_kink=none, signs=self.signs[: len(self.row)])
        return replace(self, left=middle, left_kink=none).joined([first])


class Evaluator:
    """Integrands at given parameters: kinks along lines, signs of switches, values at nodes."""

    reach = _REACH  # where there is nothing left

    def __init__(self, plan: Integrands, parameters: Sequence[float], unknowns: Array) -> None:
        self.plan, self.parameters, self.unknowns = plan, parameters, unknowns
        self.rough = False
        self._kinks: tuple[LineSet, Array] | None = None

    def piece(self, what: str, *detail: Any) -> Callable[..., list[Any]]:
        """Return one of the plan's functions of columns of numbers."""
        return self.plan.piece(what, *detail)

    def arguments(self, lines: LineSet, at: Array, x: Array, signs: Sequence[Array] | None = None) -> list[Any]:
        given = node_arguments(self.parameters, self.unknowns, lines, at, x)
        return self.plan.run_stages(given, len(x), signs, rough=self.rough)

    def values(self, lines: LineSet, at: Array, x: Array, signs: Sequence[Array]) -> Array:
        return stacked(self.plan.piece("integrands")(*self.arguments(lines, at, x, signs)), len(x))

    def signs(self, lines: LineSet, at: Array, x: Array) -> Array:
        """Return the switches at points, one column each."""
        plan = self.plan
        if not plan.switches:
            return np.zeros((len(x), 0))
        full = self.arguments(lines, at, x)
        first = len(full) - len(plan.is_switch)
        return np.stack([full[first + place] for place in plan.switches], axis=1)

    def kinks(self, lines: LineSet) -> Array:
        """Return where the switches change sign on each line (out of reach where they do not)."""
        if self._kinks is None or self._kinks[0] is not lines:
            self._kinks = (lines, self._find_kinks(lines))
        return self._kinks[1]

    def _find_kinks(self, lines: LineSet) -> Array:
        plan = self.plan
        chosen = np.arange(len(lines.weight))
        if not plan.switches:
            return np.zeros((len(chosen), 0))
        ends = [node_arguments(self.parameters, self.unknowns, lines, chosen, np.full(len(chosen), x)) for x in (0.0, 1.0)]
        kinks = []
        for number, is_linear in enumerate(plan.linear):
            kinks += self._linear_kinks(number, chosen, ends) if is_linear else self.curved_kinks(number, lines, chosen)
        return np.stack(kinks, axis=1)

    def _linear_kinks(self, number: int, chosen: Array, ends: list[list[Any]]) -> list[Array]:
        plan, kinks = self.plan, []
        function = self.piece("switch", plan.switches[number])
        for signs in plan.combinations[number]:
            given = iter(signs)
            stages = [float(next(given)) if switch else 0.0 for switch in plan.is_switch]
            low, high = (np.broadcast_to(function(*end, *stages)[0], chosen.shape) for end in ends)
            kinks.append(self.zeros(low, high))
        return kinks

    def zeros(self, low: Array, high: Array) -> Array:
        """Return where linear functions with these values at 0 and 1 vanish, within reach."""
        with np.errstate(all="ignore"):
            places = -low / (high - low)
        return np.clip(np.where(np.isfinite(places), places, self.reach), -self.reach, self.reach)

    def landmarks(self, lines: LineSet) -> Array:
        """Return where arguments of functions vanish or turn on each line, and where they have changed by one.

        Functions may be narrow there, as tanh′(1e6 z) is.
        """
        chosen, function = np.arange(len(lines.weight)), self.piece("landmarks")
        spots = (np.full(len(chosen), x) for x in (-1.0, 0.0, 1.0))
        ends = [node_arguments(self.parameters, self.unknowns, lines, chosen, x) for x in spots]
        found: list[Array] = []
        for sign in (1.0, -1.0) if self.plan.switches else (1.0,):
            stages = [sign] * len(self.plan.is_switch)
            with np.errstate(all="ignore"):
                low, middle, high = (stacked(function(*end, *stages), len(chosen)) for end in ends)
                bend = low + high - 2 * middle
                turns = np.abs(bend) > 1e-9 * (np.abs(low) + np.abs(middle) + np.abs(high))
                place = np.where(turns, (low - high) / (2 * bend), self.zeros(middle, high))
                width = np.where(turns, np.abs(bend / 2) ** -0.5, 1 / np.abs(high - middle))
                for spot in (place, place - width, place + width):
                    found.append(np.where(np.abs(spot) < self.reach, spot, self.reach))
        return np.concatenate(found).T

    def curved_kinks(self, place: int, lines: LineSet, chosen: Array) -> list[Array]:
        """Return the first few zeros of a switch that is not linear: sign changes on a grid, then halved."""
        most, steps = _CURVED, 240
        grid = np.sinh(np.linspace(-np.arcsinh(_REACH), np.arcsinh(_REACH), steps))
        at = np.repeat(chosen, steps)
        table = self.signs(lines, at, np.tile(grid, len(chosen)))[:, place].reshape(len(chosen), steps)
        kinks = np.full((len(chosen), most), _REACH)
        row, cell = np.nonzero(table[:, 1:] * table[:, :-1] < 0)
        rank = np.arange(len(row)) - np.searchsorted(row, row)  # among those of its row
        keep = rank < most
        row, cell, rank = row[keep], cell[keep], rank[keep]
        low, high, sign = grid[cell], grid[cell + 1], table[row, cell]
        for _ in range(60 if len(row) else 0):
            middle = (low + high) / 2
            same = self.signs(lines, chosen[row], middle)[:, place] == sign
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        kinks[row, rank] = (low + high) / 2
        return list(kinks.T)


def coarse_mesh(integrands: Evaluator, lines: LineSet, order: int) -> PanelMesh:
    """Return few panels of few nodes, enough to find where solutions are."""
    return PanelMesh.between(lines, integrands.kinks(lines), _COARSE, order).with_signs(
        integrands, np.flatnonzero(lines.is_point)
    )


def adapt(
    integrands: Evaluator, lines: LineSet, *, order: int = 16, tolerance: float = 1e-16, rounds: int = 45,
    dropped: float = 1e-19, reach: float = _REACH, most: int = _PANELS,
) -> PanelMesh:  # fmt: skip
    """Return panels on which every integrand is resolved: the high Legendre coefficients are negligible.

    Gauss quadrature with n nodes errs like the coefficient of degree 2n, about the square of that
    of degree n. Where functions may be narrow a panel's polynomial must have their value, since all
    nodes may lie outside of what matters. Panels that add less than ``dropped`` relative to the whole are
    left out. More than ``most`` at once are not cut further.
    """
    kinks, points = integrands.kinks(lines), np.flatnonzero(lines.is_point)
    panels = PanelMesh.between(lines, kinks, np.unique(np.clip(_EDGES, -reach, reach)), order)
    accepted: list[PanelMesh] = []
    size: Any = 0.0
    if len(points):
        values = integrands.values(
            lines, points, np.zeros(len(points)), list(integrands.signs(lines, points, np.zeros(len(points))).T)
        )
        size = lines.sums(np.abs(values) * lines.weight[points], points)
    reference_nodes, weights, top = legendre(order)
    table = np.polynomial.legendre.legvander(reference_nodes, order - 1) * weights[:, None] * (np.arange(order) + 0.5)
    landmarks = integrands.landmarks(lines)
    for left in reversed(range(rounds)):
        panels = panels.with_signs(integrands, points[:0])
        count = len(panels.row)
        if not count:
            break
        at, x, _, node_signs = panels.nodes()
        with np.errstate(all="ignore"):
            scaled = integrands.values(lines, at, x, node_signs) * (normal_density(x) * lines.weight[at])
        scaled = np.where(np.isfinite(scaled), scaled, 0.0).reshape(len(scaled), count, order)
        half = (panels.right - panels.left) / 2
        mass = np.abs(scaled) @ weights * half
        tail = np.abs(scaled @ top.T).sum(axis=2)
        peak = np.abs(scaled).max(axis=2)
        here = landmarks[panels.row]
        cuts = (panels.left + panels.right) / 2
        wide = (half > 1e-13 * (1 + np.abs(cuts)))[:, None]
        panel, which = np.nonzero(wide & (here >= panels.left[:, None]) & (here <= panels.right[:, None]))
        if len(panel):
            spot = here[panel, which]
            seen = np.polynomial.legendre.legvander((spot - cuts[panel]) / half[panel], order - 1) @ table.T
            with np.errstate(all="ignore"):
                value = integrands.values(lines, panels.row[panel], spot, list(panels.signs[panel].T))
                value = value * (normal_density(spot) * lines.weight[panels.row[panel]])
            value = np.where(np.isfinite(value), value, 0.0)
            off = np.abs(value - np.einsum("fpn,pn->fp", scaled[:, panel], seen))
            for row in range(len(scaled)):
                np.maximum.at(tail[row], panel, off[row])
                np.maximum.at(peak[row], panel, np.abs(value[row]))
            inside = np.abs(spot - cuts[panel]) < (1 - 1e-9) * half[panel]
            cuts[panel[inside]] = spot[inside]
        # With n nodes a Gauss rule is exact to degree 2n: where coefficients fall geometrically, its
        # error is as much smaller than the last ones as these are than the values.
        with np.errstate(all="ignore"):
            error = half * tail * np.minimum(1.0, np.where(peak > 0, 30 * tail / peak, 0.0))
        whole = np.maximum(size + lines.sums(mass, panels.row), 1e-300)
        reference = whole[:, lines.owner[panels.row]]
        good = (error <= tolerance * reference).all(axis=0) | (not left or count > most * whole.shape[1])
        size = size + lines.sums(mass[:, good], panels.row[good])
        accepted.append(panels.part(good & (mass > dropped * reference).any(axis=0)))
        panels = panels.part(~good).halved(cuts[~good])
    return panels.joined(accepted).with_signs(integrands, points)


def expectations(integrands: Evaluator, mesh: PanelMesh) -> Array:
    """Return the means of the integrands, one row per integrand, one column per set of unknowns."""
    at, x, share, signs = mesh.nodes()
    with np.errstate(all="ignore"):
        return mesh.lines.sums(integrands.values(mesh.lines, at, x, signs) * share, at)


def gradients(integrands: Evaluator, mesh: PanelMesh, along: tuple[str, ...]) -> tuple[Array, Array, Array]:
    """Return means, their derivatives along variables and the means of absolute values; the last axis are sets of unknowns."""
    plan = integrands.plan
    at, x, share, signs = mesh.nodes()
    with np.errstate(all="ignore"):
        full = integrands.arguments(mesh.lines, at, x, signs)
        values = stacked(plan.piece("integrands")(*full), len(x))
        slopes = stacked(plan.piece("integrand slopes", *along)(*full), len(x))
        weighted = values * share
        means, sizes = mesh.lines.sums(weighted, at), mesh.lines.sums(np.abs(weighted), at)
        derivatives = mesh.lines.sums(np.where(np.isfinite(slopes), slopes, 0.0) * share, at)
        derivatives = derivatives.reshape(len(values), len(along), means.shape[1]) + _jump_terms(integrands, mesh.lines, along)
    return means, derivatives, sizes


def _jump_terms(integrands: Evaluator, lines: LineSet, along: tuple[str, ...]) -> Array:
    """Return what moving jumps add to derivatives: (left − right value) × density × how the jump moves."""
    plan = integrands.plan
    out = np.zeros((plan.means, len(along), int(lines.owner[-1]) + 1))
    if not plan.switches:
        return out
    kinks = integrands.kinks(lines)
    column = []
    for index, is_linear in enumerate(plan.linear):
        column += [index] * (len(plan.combinations[index]) if is_linear else _CURVED)
    row, which = np.nonzero((np.abs(kinks) < _REACH) & ~lines.is_point[:, None])
    if not len(row):
        return out
    x = kinks[row, which]
    number = np.array(column)[which]
    nudge = 1e-7 * (1 + np.abs(x))  # to both sides of a kink, beyond the rounding of its place
    before, after = (integrands.signs(lines, row, x + side * nudge) for side in (-1, 1))
    own = np.arange(len(row))
    real = before[own, number] != after[own, number]
    if not real.any():
        return out
    row, x, number, before, after = (part[real] for part in (row, x, number, before, after))
    # the same place may be found through several combinations of other switches: keep it once
    _, first = np.unique(np.stack([row, number, np.round(x, 9)]), axis=1, return_index=True)
    row, x, number, before, after = (part[first] for part in (row, x, number, before, after))
    # switches that turn at one place do so one by one: their common jump counts once
    place = np.unique(np.stack([row, np.round(x, 6)]), axis=1, return_inverse=True)[1].ravel()
    turns, rank = np.zeros_like(before, bool), np.arange(before.shape[1]) - number[:, None]
    turns[place, number] = True
    early, late = turns[place] & (rank < 0), turns[place] & (rank > 0)
    before, after = np.where(early, after, before), np.where(late, before, after)
    left = integrands.arguments(lines, row, x, list(before.T))
    right = integrands.arguments(lines, row, x, list(after.T))
    jump = stacked(plan.piece("integrands")(*left), len(x)) - stacked(plan.piece("integrands")(*right), len(x))
    share = lines.weight[row] * normal_density(x)
    for index, place in enumerate(plan.switches):
        here = number == index
        if not here.any():
            continue
        slopes = stacked(plan.piece("switch slopes", place, *along)(*left), len(x))[:, here]
        crossing = (slopes[len(along) :] * (lines.scale[row[here]] * lines.direction[row[here]]).T).sum(axis=0)
        moved = np.einsum("mj,aj->jma", jump[:, here] * share[here], -slopes[: len(along)] / crossing)
        np.add.at(out.transpose(2, 0, 1), lines.owner[row[here]], moved)
    return out
