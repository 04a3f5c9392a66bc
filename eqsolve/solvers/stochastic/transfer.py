"""Means and what was learnt about responses, carried to a longer window or to another grid."""

from __future__ import annotations

import itertools

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.solvers.stochastic.sweep import Means, Shapes

__all__ = ["extend", "move_shapes", "transfer"]


def extend(means: Means, responses: frozenset[str], window: OperatorGrid) -> Means:
    """Continue means to a longer window: everything stays as it last was, responses relative to the panels."""
    made: Means = {}
    size = window.size
    for name, value in means.items():
        old = len(value)
        if value.ndim == 1:
            made[name] = np.append(value, np.full(size - old, value[-1]))
        elif name in responses:
            larger = np.zeros((size, size))
            larger[:old, :old] = value
            for before, block in itertools.pairwise(window.blocks):
                width = block.stop - block.start
                if block.start >= old and before.stop - before.start == width:
                    larger[block, width + 1 : block.stop] = larger[before, 1 : before.stop]
                    larger[block, 0] = larger[before, 0]
            made[name] = larger
        else:
            made[name] = np.pad(value, ((0, size - old), (0, size - old)), mode="edge")
    return made


def transfer(means: Means, responses: frozenset[str], old: OperatorGrid, new: OperatorGrid) -> Means:
    """Interpolate means to another panel grid over the same time."""
    assert old.panels is not None
    assert new.panels is not None
    forward, backward = old.panels.interpolation(new.nodes), new.panels.interpolation(old.nodes)
    made: Means = {}
    for name, value in means.items():
        if value.ndim == 1:
            made[name] = forward @ value
        elif name in responses:
            operator = forward @ value @ backward
            for part in new.blocks:  # interpolation reaches into the future; what it takes there is taken now
                operator[part, part.stop - 1] += operator[part, part.stop :].sum(axis=1)
                operator[part, part.stop :] = 0.0
            made[name] = operator
        else:
            made[name] = forward @ value @ forward.T
    return made


def move_shapes(shapes: Shapes | None, old: OperatorGrid, new: OperatorGrid) -> Shapes | None:
    """Take what was learnt about responses to another grid."""
    if shapes is None:
        return None
    assert new.panels is not None
    back = new.panels.interpolation(old.nodes)

    def move(form: Array) -> Array:
        carry = np.kron(np.eye(len(form) // old.size), back)
        return np.asarray(carry.T @ form @ carry)

    return tuple([move(form) for form in shape] for shape in shapes)
