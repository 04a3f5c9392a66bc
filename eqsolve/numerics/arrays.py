"""Arrays, their rounding, products of quadrature rules, Richardson extrapolation, many small linear systems."""

import functools
import importlib
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
EPSILON = float(np.finfo(float).eps)
ROUNDING = 500 * EPSILON  # relative, of sums of hundreds of terms and of linear solves: 1e-13
DIFFERENCE = EPSILON ** (1 / 5)  # step of central differences that Richardson's rule follows
CHUNK = 1 << 20  # numbers that are worked on at once, or drawn from one random stream: 8 MB
SAFETY = 1.5  # of error estimates: the next order of the step is not small where a tolerance is just met


class Lazy:
    """A module that is imported when something of it is used: scipy.special takes a third of a second."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(importlib.import_module(self._name), name, None)
        return importlib.import_module(f"{self._name}.{name}") if attribute is None else attribute


special = Lazy("scipy.special")
_INTEGRATORS = "_eqsolve_ivp"


def integrator(name: str) -> Any:
    """Return what scipy.integrate has by a name; explicit methods without its optimisers, a quarter of a second to import."""
    import scipy

    if "scipy.integrate" not in sys.modules:
        home = sys.modules.setdefault(_INTEGRATORS, ModuleType(_INTEGRATORS))
        home.__path__ = [os.path.join(scipy.__path__[0], "integrate", "_ivp")]
        try:
            for part in ("rk", "common"):
                if hasattr(module := importlib.import_module(f"{_INTEGRATORS}.{part}"), name):
                    return getattr(module, name)
        except ImportError:  # another scipy, where these are elsewhere
            pass
    return getattr(importlib.import_module("scipy.integrate"), name)


def chunk(each: int) -> int:
    """Return how many things that need ``each`` numbers are worked on at once."""
    return max(1, CHUNK // each)


def filled(value: Any, shape: tuple[int, ...]) -> Array:
    """Return a new array of a shape, filled with what is broadcast to it."""
    array = np.empty(shape)
    array[...] = value
    return array


def over_neighbours(values: Array, reach: int, combine: Any, axes: Iterable[int] | None = None) -> Array:
    """Return the mean, or another function, over a window around every value, along all axes or some."""
    for axis in range(values.ndim) if axes is None else axes:
        last = values.shape[axis] - 1
        places = [np.clip(np.arange(last + 1) + k, 0, last) for k in range(-reach, reach + 1)]
        values = combine([np.take(values, place, axis=axis) for place in places], axis=0)
    return np.asarray(values)


def over_groups(values: Array, groups: Array, wanted: Array | None = None) -> Array:
    """Give every entry the largest value of its group, along all axes; of the groups ``wanted``, if given."""
    largest = np.zeros((int(max(groups.max(), 0 if wanted is None else wanted.max())) + 1,) * values.ndim)
    np.maximum.at(largest, np.ix_(*(groups,) * values.ndim), values)
    return largest[np.ix_(*(groups if wanted is None else wanted,) * values.ndim)]


class Packing:
    """Some arrays of a table as one vector."""

    def __init__(self, table: Mapping[str, Array], names: Iterable[str]) -> None:
        self.shapes = {name: table[name].shape for name in names}
        self.ends = np.cumsum([math.prod(shape) for shape in self.shapes.values()])[:-1].astype(int)

    def pack(self, table: Mapping[str, Array]) -> Array:
        return np.concatenate([table[name].ravel() for name in self.shapes] or [np.empty(0)])

    def unpack(self, vector: Array) -> dict[str, Array]:
        parts = np.split(vector, self.ends) if self.shapes else []
        return {name: part.reshape(self.shapes[name]) for name, part in zip(self.shapes, parts, strict=True)}


def tensor_rule(rules: Sequence[tuple[Array, Array]]) -> tuple[list[Array], Array]:
    """Return the points of a product of quadrature rules, a column per rule, and their weights."""
    weights = functools.reduce(np.multiply.outer, (mass for _, mass in rules), np.ones(()))
    return [grid.ravel() for grid in np.meshgrid(*(nodes for nodes, _ in rules), indexing="ij")], weights.ravel()


def eliminate(matrix: Array, right: Array) -> Array:
    """Solve systems of the same size, one per entry of the last axis, by elimination without pivoting.

    For matrices near one, as those of implicit steps; a vanishing pivot shows as a solution that is
    not finite. Both arguments are overwritten.
    """
    size = matrix.shape[0]
    for pivot in range(size - 1):
        below = slice(pivot + 1, size)
        factors = matrix[below, pivot] / matrix[pivot, pivot]
        matrix[below, below] -= factors[:, None] * matrix[pivot, below]
        right[below] -= factors * right[pivot]
    for pivot in range(size - 1, -1, -1):
        if pivot + 1 < size:
            right[pivot] -= (matrix[pivot, pivot + 1 :] * right[pivot + 1 :]).sum(axis=0)
        right[pivot] /= matrix[pivot, pivot]
    return right


def invert(matrix: Array) -> Array:
    """Return the inverses of matrices, one per entry of the last axes, by elimination without pivoting; overwritten."""
    for pivot in range(matrix.shape[0]):
        row = matrix[pivot] / matrix[pivot, pivot]
        column = matrix[:, pivot].copy()
        row[pivot] = 1.0 / column[pivot]
        column[pivot] = 0.0
        matrix[:, pivot] = 0.0
        matrix -= column[:, None] * row
        matrix[pivot] = row
    return matrix


def error_share(ratio: Any, order: int) -> Any:
    """Return which share of the distance between two solutions is the error of the finer one.

    If an error falls like h^order, and the coarse steps are ``ratio`` times as long,
    |coarse − fine| = (ratio^order − 1) |fine − exact|; the share is SAFETY / (ratio^order − 1).
    """
    return SAFETY / (ratio**order - 1)


def richardson(values: Sequence[Any], orders: int | None = None, ratio: int = 2) -> tuple[Any, Any]:
    """Return the limit of a smooth function f(h) at h = 0 from f(h), f(h/r), f(h/r²), ..., and its last change.

    The term in h^k is removed by f_k(h/r) = (r^k f_{k−1}(h/r) − f_{k−1}(h)) / (r^k − 1), for
    ``orders`` powers k; all that the values allow by default. With r = 4 it is Romberg's
    extrapolation of a function of h² at steps that halve.
    """
    table, before = list(values), values[-1]
    for order in range(1, (len(values) if orders is None else orders + 1)):
        before = table[-1]
        table = [(ratio**order * fine - coarse) / (ratio**order - 1) for coarse, fine in pairwise(table)]
    return table[-1], abs(table[-1] - before)


def member_name(base: str, place: Iterable[Any]) -> str:
    """Return the name of a member that is written out: ``phi_0``."""
    return "_".join([base, *map(str, place)])


def member_names(base: str, shape: tuple[int, ...]) -> list[str]:
    """Return the names of all members of a family, or of the one that has no index."""
    return [member_name(base, place) for place in np.ndindex(*shape)]


GENERIC = re.compile(r"_at_\d+_of_(\d+)")
"""In a name, an index of what stands for every member of a family: its number among those of its size, and the size."""
