"""The joint law of a few named variables, as a weighted sample."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.errors import UsageError, demand_known
from eqsolve.numerics.arrays import Array
from eqsolve.verbs import lazy_import


@dataclass(frozen=True)
class Histogram:
    """Probabilities of bins; ``density`` is probability divided by width."""

    edges: Array
    probabilities: Array

    @property
    def density(self) -> Array:
        return np.asarray(self.probabilities / np.diff(self.edges))


@dataclass(frozen=True, eq=False)
class Distribution:
    """A joint law given by weighted points.

    Attributes
    ----------
    names
        The variables. Where a method speaks of one variable and none is named, it is the first.
    values
        One row per variable, one column per point.
    weights
        Probabilities of the points; they sum to one.

    A solver that knows more than a sample overrides what it can say exactly: ``atoms``, ``cdf``, ``quantile``,
    ``density``, ``expect``, ``sample``.
    """

    names: tuple[str, ...]
    values: Array
    weights: Array

    def __post_init__(self) -> None:
        values = np.atleast_2d(np.asarray(self.values, dtype=float))
        weights = np.asarray(self.weights, dtype=float)
        if values.shape != (len(self.names), weights.size):
            raise UsageError(
                f"a distribution of {len(self.names)} variables at {weights.size} points takes values of shape "
                f"({len(self.names)}, {weights.size}), got {values.shape}"
            )
        if weights.size == 0 or not (weights >= 0).all() or not weights.sum() > 0:
            raise UsageError("a distribution takes weights that are not negative and not all zero")
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "weights", weights / weights.sum())

    @classmethod
    def of_sample(cls, names: Sequence[str], values: Any) -> Distribution:
        """Return the law of equally likely points."""
        return Distribution(tuple(names), values, np.ones(np.shape(values)[-1]))

    # --- one variable
    def __getitem__(self, name: str) -> Array:
        """Return the values of one variable at all points."""
        return np.asarray(self.values[self._place(name)])

    def _place(self, name: str | None) -> int:
        if name is None:
            return 0
        demand_known([name], self.names, "the law has no variable `{}`")
        return self.names.index(name)

    def marginal(self, name: str) -> Distribution:
        """Return the law of one variable."""
        return Distribution((name,), self[name][None], self.weights)

    def mean(self, name: str | None = None) -> float:
        """Return the mean."""
        return float(self.weights @ self.values[self._place(name)])

    def var(self, name: str | None = None) -> float:
        """Return the variance."""
        values = self.values[self._place(name)]
        return float(self.weights @ (values - self.weights @ values) ** 2)

    def cdf(self, x: Any, name: str | None = None) -> Any:
        """Return the probability of values up to and including x."""
        points, mass = self._sorted(name)
        total = np.append(0.0, np.cumsum(mass))
        return shaped(total[np.searchsorted(points, np.atleast_1d(x), side="right")], x)

    def quantile(self, q: Any, name: str | None = None) -> Any:
        """Return the smallest value whose cumulative probability reaches q."""
        wanted = probabilities(q)
        points, mass = self._sorted(name)
        places = np.searchsorted(np.cumsum(mass) * (1 + 1e-14), wanted, side="left")
        return shaped(points[np.minimum(places, len(points) - 1)], q)

    def histogram(self, bins: Any = 50, name: str | None = None) -> Histogram:
        """Return probabilities of bins, given by their number or by their edges."""
        edges = self._edges(bins, name)
        return Histogram(edges, np.histogram(self.values[self._place(name)], bins=edges, weights=self.weights)[0])

    def _edges(self, bins: Any, name: str | None) -> Array:
        if np.ndim(bins) == 1:
            edges = np.asarray(bins, dtype=float)
            if len(edges) < 2 or not (np.diff(edges) > 0).all():
                raise UsageError("the edges of a histogram must increase, and be at least two")
            return edges
        low, high = (float(self.quantile(level, name)) for level in (1e-4, 1 - 1e-4))
        return np.linspace(low, high, int(bins) + 1) if high > low else np.array([low - 0.5, low + 0.5])

    def atoms(self, name: str | None = None) -> list[tuple[float, float]]:
        """Return (value, probability) of points that carry mass; for a sample, of values met more than once."""
        points, inverse, counts = np.unique(self.values[self._place(name)], return_inverse=True, return_counts=True)
        mass = np.bincount(inverse.ravel(), weights=self.weights)
        heavy = counts > 1 if len(points) > 64 else np.ones(len(points), dtype=bool)
        return [(float(x), float(m)) for x, m in zip(points[heavy], mass[heavy], strict=True)]

    def density(self, x: Any, name: str | None = None) -> Any:
        """Return the density of the continuous part; a sample has none."""
        raise UsageError("this law is a weighted sample and has no density; use histogram()")

    def _sorted(self, name: str | None) -> tuple[Array, Array]:
        values = self.values[self._place(name)]
        order = np.argsort(values, kind="stable")
        return values[order], self.weights[order]

    # --- all variables
    def expect(self, function: Callable[..., Any]) -> Any:
        """Return the mean of a function of variables named as its arguments: ``expect(lambda w: w**2)``."""
        return np.asarray(self.call(function, self.values), dtype=float) @ self.weights

    def call(self, function: Callable[..., Any], values: Any) -> Any:
        """Return a function of some of the variables at points, matched by name, else by place."""
        words = self.words(function)
        if words and set(words) <= set(self.names):
            return function(*(values[self.names.index(word)] for word in words))
        return function(*values[: len(words) or len(self.names)])

    @staticmethod
    def words(function: Callable[..., Any]) -> list[str]:
        """Return the names of a function's arguments; none if they cannot be told."""
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            return []
        several = any(word.kind is word.VAR_POSITIONAL for word in parameters)
        return [] if several else [word.name for word in parameters if word.default is word.empty]

    def sample(self, n: int, seed: int = 0) -> Array:
        """Draw n points; one row per variable."""
        places = np.random.default_rng(seed).choice(len(self.weights), size=n, p=self.weights)
        return np.asarray(self.values[:, places])

    def wasserstein(self, other: Distribution | Array, name: str | None = None, order: int = 2, nodes: int = 20_000) -> float:
        """Return the Wasserstein distance to the law of one variable, or to a sample of it, from the quantile functions."""
        if not isinstance(other, Distribution):
            other = Distribution.of_sample((name or self.names[0],), other)
        levels = midpoints(nodes)
        gap = np.abs(self.quantile(levels, name) - other.quantile(levels, name))
        return float(np.mean(gap**order) ** (1 / order))

    def plot(
        self, name: str | None = None, *, ax: Any = None, bins: Any = 80, label: str | None = None, logy: bool = False,
        **style: Any,
    ) -> Any:  # fmt: skip
        """Draw the density (or a histogram) and the atoms as stems; return the matplotlib axes.

        ``style`` is what matplotlib's ``plot`` takes: ``color``, ``linestyle``, ...
        """
        return lazy_import("plot_law")(self, name, ax=ax, bins=bins, label=label, logy=logy, **style)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of ({', '.join(self.names)}): {self.weights.size} points>"


def midpoints(count: int = 20_000) -> Array:
    """Return levels of quantiles by which two laws are compared."""
    return (np.arange(count) + 0.5) / count


def probabilities(q: Any) -> Array:
    """Return levels as an array, each between 0 and 1."""
    wanted = np.atleast_1d(np.asarray(q, dtype=float))
    if not ((wanted >= 0) & (wanted <= 1)).all():
        raise UsageError(f"a quantile is asked for at a level between 0 and 1, got {q}")
    return wanted


def shaped(values: Array, like: Any) -> Any:
    """Return the values; a number where they are asked for at one."""
    return float(values[0]) if np.ndim(like) == 0 else values
