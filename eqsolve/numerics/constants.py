"""Random constants by quadrature, every combination of atoms and Gauss nodes a path, and by finite samples.

Constants that never meet belong to different parts, and paths combine the nodes of one part only.
Several rules of different orders stand side by side, each with its own expectations, so that one
run shows how well the rules agree.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.numerics.arrays import Array, special, tensor_rule
from eqsolve.numerics.laws import Component, NormalLaw, NumericLaw, joint_groups
from eqsolve.numerics.sobol import sobol_normals

_MOST_PATHS = 400_000  # combinations of nodes of one rule


@dataclass(frozen=True, eq=False)
class ConstantPaths:
    """Quadrature nodes of the random constants: one value per path and constant, and each rule's paths."""

    values: dict[str, Array]
    shares: Array  # the weights, a row per part, zero on the paths of the other parts
    rules: tuple[slice, ...]
    best: tuple[slice, ...]  # of each part, the paths of the rule of the highest order

    @property
    def count(self) -> int:
        return self.shares.shape[1]

    @property
    def weights(self) -> Array:
        """The weight of every path within its rule and part."""
        return np.asarray(self.shares.sum(axis=0))

    def mean(self, values: Array, part: int = 0) -> Array:
        """Return every rule's expectation of values (..., path, moment), repeated on the rule's paths."""
        return self._repeated([values[..., rule, :].swapaxes(-1, -2) @ self.shares[part, rule] for rule in self.rules])

    def mean_of_products(self, first: Array, second: Array, part: int = 0) -> Array:
        """Return the same of the products of the members of two families, without forming them on every path."""
        (*left, count, moments), (*right, _, _) = first.shape, second.shape
        one, other = (np.moveaxis(item.reshape(-1, count, moments), 2, 0) for item in (first, second))
        means = [(one[..., rule] * self.shares[part, rule]) @ other[..., rule].swapaxes(1, 2) for rule in self.rules]
        return self._repeated([np.moveaxis(item, 0, 2).reshape(*left, *right, moments) for item in means])

    def _repeated(self, means: list[Array]) -> Array:
        if len(means) == 1:
            return means[0][..., None, :]
        return np.repeat(np.stack(means, axis=-2), [rule.stop - rule.start for rule in self.rules], axis=-2)

    def per_rule(self, values: Array) -> Array:
        """Return what is equal on all paths of a rule once per rule, shape (rules, moments)."""
        full = np.broadcast_to(values, (self.count, values.shape[1]))
        return full[[rule.start for rule in self.rules]]


@dataclass(frozen=True)
class Parts:
    """The constants of each part, and by name the part of every constant and process."""

    constants: tuple[tuple[str, ...], ...]
    places: Mapping[str, int]

    def of(self, members: Sequence[str]) -> int:
        """Return the part of what depends on these constants and processes; what is not random is in the first one."""
        return next((self.places[name] for name in members if name in self.places), 0)


def find_parts(meetings: Sequence[Sequence[str]], laws: Mapping[str, NumericLaw]) -> Parts:
    """Return the parts of constants with these laws: those that meet, or are drawn from one table, are in one part."""
    groups: list[set[str]] = []
    for meeting in (*joint_groups(laws), *meetings):
        apart = [group for group in groups if group.isdisjoint(meeting)]
        groups = [*apart, set(meeting).union(*(group for group in groups if not group.isdisjoint(meeting)))]
    pairs = [(tuple(item for item in laws if item in group), group) for group in groups]
    order = list(laws)
    random = sorted((pair for pair in pairs if pair[0]), key=lambda pair: order.index(pair[0][0]))
    places = {name: place for place, (_, group) in enumerate(random) for name in group}
    return Parts(tuple(constants for constants, _ in random) or ((),), places)


def make_paths(
    laws: Mapping[str, NumericLaw], rules: Sequence[Mapping[str, int]],
    parts: Sequence[Sequence[str]] | None = None, least: Sequence[float] | None = None,
) -> ConstantPaths:  # fmt: skip
    """Return the product rules of independent constants; constants with a joint law move together.

    A rule gives the orders of the laws that have a density. On the paths of one part the constants
    of the others stand at one of their likeliest nodes; without ``parts`` all are combined. Nodes
    of less than ``least`` times the largest weight of their part are left out.
    """
    parts = [tuple(laws)] if parts is None else parts
    least = [0.0] * len(parts) if least is None else least
    values: dict[str, list[Array]] = {item: [] for item in laws}
    shares: list[Array] = []
    slices: list[slice] = []
    count = 0
    best: list[slice] = []
    for orders in rules:
        products = [
            _product_rule({item: laws[item] for item in part}, orders, low) for part, low in zip(parts, least, strict=True)
        ]
        begin, best = count, []
        for place, (_, mass) in enumerate(products):
            row = np.zeros((len(parts), len(mass)))
            row[place] = mass
            shares.append(row)
            best.append(slice(count, count + len(mass)))
            count += len(mass)
            for other, (nodes, likely) in enumerate(products):
                for item, column in nodes.items():
                    here = column if other == place else np.full(len(mass), column[np.argmax(likely)])
                    values[item].append(here)
        slices.append(slice(begin, count))
    return ConstantPaths(
        {item: np.concatenate(columns) for item, columns in values.items()},
        np.concatenate(shares, axis=1),
        tuple(slices),
        tuple(best),
    )


def _product_rule(laws: Mapping[str, NumericLaw], orders: Mapping[str, int], least: float) -> tuple[dict[str, Array], Array]:
    tables, weights, groups = [], [], joint_groups(laws)
    for members in groups:
        columns = [law.column for law in (laws[member] for member in members) if isinstance(law, Component)]
        if columns:
            tables.append(np.array(columns))
            weights.append(np.full(len(columns[0]), 1.0 / len(columns[0])))
        else:
            nodes, mass = laws[members[0]].rule(orders.get(members[0], 1))
            keep = mass > 0
            tables.append(nodes[None, keep])
            weights.append(mass[keep])
    total = int(np.prod([len(mass) for mass in weights])) if weights else 1
    if total > _MOST_PATHS:
        raise UsageError(f"{total} paths are needed for the random constants, at most {_MOST_PATHS} are handled")
    index, product = tensor_rule([(np.arange(len(mass)), mass) for mass in weights])
    chosen = (table[:, places] for table, places in zip(tables, index, strict=True))
    values = dict(zip(itertools.chain(*groups), itertools.chain(*chosen), strict=True))
    likely = product >= least * product.max()
    if likely.all():
        return values, product
    return {item: column[likely] for item, column in values.items()}, product[likely] * (product.sum() / product[likely].sum())


def sample_paths(
    laws: Mapping[str, NumericLaw], count: int, sets: int, seed: int, *, apart: bool,
) -> ConstantPaths:  # fmt: skip
    """Return several scramblings of Sobol points together, or ``apart``, each a rule of its own."""
    groups = joint_groups(laws)
    points = np.concatenate([sobol_normals(count, len(groups), seed + place) for place in range(sets)], axis=-1)
    values: dict[str, Array] = {}
    for members, column in zip(groups, points, strict=True):
        for item in members:
            law = laws[item]
            match law:
                case NormalLaw():
                    values[item] = float(law.mean) + float(law.variance) ** 0.5 * column
                case Component():
                    most = len(law.column)
                    values[item] = law.column[np.minimum(special.ndtr(column) * most, most - 1).astype(int)]
                case _:  # the quantiles of a fine rule
                    nodes, mass = law.rule(180)
                    order = np.argsort(nodes, kind="stable")
                    edges = np.cumsum(mass[order])[:-1]
                    values[item] = nodes[order][np.searchsorted(edges, special.ndtr(column), side="right")]
    total, size = sets * count, count if apart else sets * count
    rules = tuple(slice(begin, begin + size) for begin in range(0, total, size))
    shown = slice(0, min(size, 1024))  # what a result keeps
    return ConstantPaths({item: values[item] for item in laws}, np.full((1, total), 1 / size), rules, (shown,))


# --- Finite samples: drawn, or placed so that their empirical law is that of the constant.
HOW = ("sampled", "exact", "balanced")
_BLOCK = 64  # draws per quantile of a placed sample


Order = Callable[[], Any]


def draw_constants(
    laws: Mapping[str, NumericLaw], size: int, rng: np.random.Generator, how: str = "sampled", order: Order | None = None
) -> dict[str, Array]:
    """Return ``size`` values of each constant, independent of each other unless they share a joint law."""
    values: dict[str, Array] = {}
    for members in joint_groups(laws):
        law = laws[members[0]]
        rows = _joint_rows(law, size, rng, how, order) if isinstance(law, Component) else slice(None)
        for item in members:
            one = laws[item]
            values[item] = one.column[rows] if isinstance(one, Component) else draw_law(one, size, rng, how, order)
    return {item: values[item] for item in laws}


def draw_law(law: NumericLaw, size: int, rng: np.random.Generator, how: str, order: Order | None = None) -> Array:
    """Return ``size`` values of a law.

    ``"sampled"`` draws them independently. ``"exact"`` gives every atom its share (to the nearest
    whole number) and takes quantiles of the rest, in random order. ``"balanced"`` gives these
    quantiles also the mean and the variance of the law and the order that ``order`` returns, and
    rounds shares at random, so that they are right on average.
    """
    if how not in HOW:
        raise UsageError(f"constants= takes {' or '.join(repr(word) for word in HOW)}, got {how!r}")
    if how == "sampled":
        return np.asarray(law.sample(rng, size), dtype=float)
    atoms = law.atoms_of()
    shares = np.array([probability for _, probability in atoms] + [1.0 - sum(p for _, p in atoms)])
    shares = np.clip(shares, 0.0, None)
    if how == "balanced":  # each count within one of its share, and right on average (systematic sampling)
        edges = np.floor(np.cumsum(shares[:-1]) / shares.sum() * size + rng.random() * (1 - 1e-9) + 1e-9 / 2)
        counts = np.diff(edges, prepend=0, append=size).astype(int)
    else:
        counts = _whole(shares, size)
    parts = [np.full(count, value) for (value, _), count in zip(atoms, counts, strict=False)]
    if counts[-1]:
        parts.append(_quantiles(law, int(counts[-1]), rng, {value for value, _ in atoms}))
        if how == "balanced":
            parts[-1] = _with_moments(law, parts[-1])
    values = np.concatenate(parts)
    return np.sort(values)[order()] if how == "balanced" and order is not None else rng.permutation(values)


def _with_moments(law: NumericLaw, values: Array) -> Array:
    """Return values moved and stretched to the mean and variance that a law has apart from its atoms, where they exist."""
    nodes, weights = law.continuous_rule(200)
    mean = float(weights @ nodes) / float(weights.sum())
    spread = float(np.sqrt(weights @ (nodes - mean) ** 2 / weights.sum()))
    present = float(values.std())
    if len(values) < 2 or not 0.5 < spread / present < 2:  # tails so heavy that so few values do not show the variance
        return values
    return np.asarray(mean + (values - values.mean()) * (spread / present))


def _whole(shares: Array, size: int) -> Array:
    """Return whole numbers that sum to ``size``, as near to the shares as can be."""
    ideal = shares / shares.sum() * size
    counts = np.floor(ideal).astype(int)
    rest = size - int(counts.sum())
    counts[np.argsort(-(ideal - counts), kind="stable")[:rest]] += 1
    return counts


def _quantiles(law: NumericLaw, count: int, rng: np.random.Generator, atoms: set[float]) -> Array:
    draws = np.empty(0)
    while len(draws) < count * _BLOCK:
        fresh = law.sample(rng, count * _BLOCK)
        if atoms:
            fresh = fresh[~np.isin(fresh, list(atoms))]
        draws = np.concatenate([draws, fresh])
    blocks = np.sort(draws[: count * _BLOCK]).reshape(count, _BLOCK)
    return np.asarray((blocks[:, _BLOCK // 2 - 1] + blocks[:, _BLOCK // 2]) / 2)


def _joint_rows(law: Component, size: int, rng: np.random.Generator, how: str, order: Order | None) -> Array:
    number = len(law.table)
    if how == "balanced" and order is not None:
        return np.asarray(np.sort(np.resize(np.arange(number), size))[order()])
    if how != "sampled":
        return rng.permutation(np.resize(np.arange(number), size))
    return np.asarray(rng.integers(0, number, size))
