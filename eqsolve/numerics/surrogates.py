"""Functions of standard normal coordinates that replace expensive ones: surrogates.

Two kinds, both fitted to values at given points: an interpolant of many coordinates, by a kernel of finite smoothness over a
linear trend (kriging; Wendland, Scattered Data Approximation, 2005), and polynomials of the position along one direction,
which may be another for every row of a table. Both stay near the range of the values that they were fitted to, so that
what is made of them stays tame in the tails.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import Array

_LENGTH = 20.0  # over which interpolants vary, in standard deviations of the coordinate with the largest effect
_LEAST = 0.01  # effect of a coordinate, of the largest, at least
_NUGGET = 1e-12  # on the diagonal of kernels, relative to them
_SMALL = 1e-12  # on the diagonal of normal equations, relative to their mean diagonal
_BLOCK = 1 << 16  # entries of a kernel at a time: those that stay near the processor
_BEYOND = 0.1  # of the range of fitted values: how far a fit may leave it


def linear_shares(x: Array, values: Array) -> Array:
    """Return the largest share of each coordinate in the rows of values (row, point), as far as they are linear."""
    spread = values.std(axis=1)
    rows = values[spread > 1e-12 * np.abs(values).max(initial=1e-300)]
    if not len(rows):
        return np.ones(len(x))
    basis = np.vstack([np.ones(x.shape[1]), x])
    right = (rows / rows.std(axis=1, keepdims=True)) @ basis.T
    return np.asarray(np.abs(_solve(basis @ basis.T, right.T)[1:]).max(axis=1))


@dataclass(frozen=True, eq=False)
class Interpolant:
    """Fitted functions: points in units of the kernel's length, and per row the weights of points and of the trend."""

    scales: Array
    points: Array
    weights: Array
    trend: Array
    low: Array
    high: Array

    def __call__(self, x: Array) -> Array:
        """Return the values (row, point) at points (coordinate, point); coordinates beyond those fitted do nothing."""
        here = x[: len(self.scales)]
        made = self.trend[:, 1:] @ here
        made += self.trend[:, :1]
        width = max(16, _BLOCK // self.points.shape[1])
        for begin in range(0, here.shape[1], width):
            part = slice(begin, begin + width)
            made[:, part] += self.weights @ _kernel(self.points, self.scales[:, None] * here[:, part])
        return np.clip(made, self.low[:, None], self.high[:, None], out=made)


def interpolate(x: Array, values: Array, effects: Array) -> Interpolant:
    """Return functions that have the given values (row, point); the kernel is longer along coordinates of less effect."""
    largest = max(float(np.abs(effects).max()), 1e-300)
    scales = np.maximum(np.abs(effects) / largest, _LEAST) / _LENGTH
    points = scales[:, None] * x
    basis = np.vstack([np.ones(x.shape[1]), x])
    count, size = len(points.T), len(basis)
    whole = np.zeros((count + size, count + size))
    whole[:count, :count] = _kernel(points, points)
    whole[range(count), range(count)] += _NUGGET
    whole[:count, count:], whole[count:, :count] = basis.T, basis
    right = np.zeros((count + size, len(values)))
    right[:count] = values.T
    solved = np.linalg.solve(whole, right)
    return Interpolant(scales, points, solved[:count].T.copy(), solved[count:].T.copy(), *_range(values))


def _kernel(first: Array, second: Array) -> Array:
    """Return (1 + r + r²/3) e^{−r}, r = √5 × the distance, of all pairs of points (Matérn's kernel of order 5/2)."""
    r = first.T @ (-10.0 * second)
    r += 5.0 * (first**2).sum(axis=0)[:, None]
    r += 5.0 * (second**2).sum(axis=0)
    np.sqrt(np.maximum(r, 0.0, out=r), out=r)
    made = r / 3
    made += 1
    made *= r
    made += 1
    np.exp(np.negative(r, out=r), out=r)
    made *= r
    return np.asarray(made)


def linear_parts(x: Array, values: Array) -> Array:
    """Return the slopes (row, coordinate) of values (row, point) near zero: across the surface on which they vanish.

    Least squares in which a value counts less the larger it is; exact for what is linear.
    """
    basis = np.vstack([np.ones(x.shape[1]), x])
    typical = np.median(np.abs(values), axis=1, keepdims=True) + 1e-300
    weights = 1 / (1 + (values / typical) ** 2)
    gram = (weights[:, None, :] * basis) @ basis.T
    return _solve(gram, ((weights * values) @ basis.T)[:, :, None])[:, 1:, 0]


@dataclass(frozen=True, eq=False)
class Ridges:
    """Fitted polynomials of one direction per row: directions (row, coordinate), coefficients (table, row, power)."""

    directions: Array
    coefficients: Array
    low: Array
    high: Array

    def __call__(self, y: Array) -> Array:
        """Return the values (table, row, point) for positions (row, point) along the directions."""
        powers = np.moveaxis(self.coefficients, 2, 0)[::-1, :, :, None]
        made = powers[0] * np.ones_like(y)
        for power in powers[1:]:
            made *= y
            made += power
        return np.clip(made, self.low[:, :, None], self.high[:, :, None], out=made)


def fit_ridges(directions: Array, x: Array, values: Array, degree: int) -> Ridges:
    """Fit polynomials of the position along each row's direction to tables of values (table, row, point)."""
    y = directions @ x
    reach = float(np.abs(y).max()) + 1e-300
    basis = np.moveaxis(np.polynomial.chebyshev.chebvander(y / reach, degree), 2, 1)
    made = _solve(basis @ basis.swapaxes(1, 2), basis @ np.moveaxis(values, 0, 2))
    powers = np.zeros((degree + 1, degree + 1))
    for k in range(degree + 1):
        powers[: k + 1, k] = np.polynomial.chebyshev.cheb2poly([0.0] * k + [1.0])
    powers /= reach ** np.arange(degree + 1)[:, None]
    return Ridges(directions, np.moveaxis(powers @ made, 2, 0).copy(), *_range(values))


def even_rule(count: int, shift: float, reach: float = 8.0) -> tuple[Array, Array]:
    """Return ``count`` evenly spaced points for a standard normal and their weights, moved by a part of their spacing."""
    spacing = 2 * reach / count
    nodes = -reach + spacing * (np.arange(count) + shift)
    weights = np.exp(-(nodes**2) / 2)
    return nodes, weights / weights.sum()


def _solve(gram: Array, right: Array) -> Array:
    """Solve normal equations, or a stack of them, that may be singular."""
    size = gram.shape[-1]
    ridge = _SMALL * np.trace(gram, axis1=-2, axis2=-1)[..., None, None] / size + 1e-300
    return np.asarray(np.linalg.solve(gram + ridge * np.eye(size), right))


def _range(values: Array) -> tuple[Array, Array]:
    low, high = values.min(axis=-1), values.max(axis=-1)
    return low - _BEYOND * (high - low), high + _BEYOND * (high - low)
