"""Interpolation between few nodes whose slopes are known too: cubic Hermite pieces, and what they leave.

On a piece of length h the error is f''''/24 (x − a)² (b − x)², at most f'''' h⁴/384 (de Boor, A
Practical Guide to Splines, 1978). f''''/24 is found where a node is left out: the piece over its
two neighbours misses the value there by that much times the product of the two lengths squared.
"""

import numpy as np

from eqsolve.numerics.arrays import Array

Between = tuple[Array, Array]
"""Values and their errors."""


def is_geometric(nodes: Array) -> bool:
    """Whether nodes are spread more evenly by their logarithms than as they are."""
    if len(nodes) < 3 or np.any(nodes <= 0):
        return False
    steps, ratios = np.diff(nodes), np.diff(np.log(nodes))
    return bool(np.ptp(ratios) < 0.5 * np.ptp(steps) / np.mean(np.abs(steps)) * np.mean(np.abs(ratios)))


def interpolate_with_slopes(x: Array, nodes: Array, values: Between, slopes: Between) -> Between:
    """Return values at x, and their errors, given those at increasing nodes with their slopes along the first axis.

    The errors are the nodes' own, what those of the slopes make of a value (at most 4/27 of a
    piece's length each), and what cubic pieces leave.
    """
    place = np.clip(np.searchsorted(nodes, x, side="right") - 1, 0, len(nodes) - 2)
    (y, y_error), (s, s_error) = values, slopes
    wide = (slice(None), *(None,) * (y.ndim - 1))
    left, length = nodes[place][wide], np.diff(nodes)[place][wide]
    u = (x[wide] - left) / length
    made = _piece(u, length, y[place], y[place + 1], s[place], s[place + 1])
    bend = _bends(nodes, y, s)
    rest = np.maximum(bend[place], bend[place + 1]) * (u * (1 - u) * length**2) ** 2
    slack = u * (1 - u) * length * ((1 - u) * s_error[place] + u * s_error[place + 1])
    share = u**2 * (3 - 2 * u)
    own = (1 - share) * y_error[place] + share * y_error[place + 1]
    return made, own + slack + 2.0 * rest  # f'''' differs from piece to piece


def _piece(u: Array, length: Array, y0: Array, y1: Array, s0: Array, s1: Array) -> Array:
    """Return the cubic with given values and slopes at both ends, at the share u of its length."""
    first = (1 + 2 * u) * (1 - u) ** 2 * y0 + u**2 * (3 - 2 * u) * y1
    return np.asarray(first + length * (u * (1 - u) ** 2 * s0 - u**2 * (1 - u) * s1))


def _bends(nodes: Array, y: Array, s: Array) -> Array:
    """Return |f''''|/24 at every node: found at the inner ones, and the nearest of these at the ends."""
    wide = (slice(None), *(None,) * (y.ndim - 1))
    before, after = np.diff(nodes)[:-1], np.diff(nodes)[1:]
    length = (before + after)[wide]
    guess = _piece(before[wide] / length, length, y[:-2], y[2:], s[:-2], s[2:])
    inner = np.abs(guess - y[1:-1]) / ((before * after) ** 2)[wide]
    return np.concatenate([inner[:1], inner, inner[-1:]])
