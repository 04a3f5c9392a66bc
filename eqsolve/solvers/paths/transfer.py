"""Means and what was learnt about responses, carried to a longer window or to another grid."""

from collections.abc import Sequence

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.solvers.paths.sweep import Means, Shapes


def extend(means: Means, responses: frozenset[str], old: OperatorGrid, window: OperatorGrid) -> Means:
    """Continue means to a longer window: everything stays as it last was, responses as functions of the time passed."""
    made: Means = {}
    size, known = window.size, old.size
    for name, value in means.items():
        if value.ndim == 1:
            made[name] = np.append(value, np.full(size - known, value[-1]))
        elif name in responses:
            made[name] = np.zeros((size, size))
            made[name][:known, :known] = value
            made[name][known:] = _shifted(value, old, window)
        else:
            made[name] = np.pad(value, ((0, size - known), (0, size - known)), mode="edge")
    return made


def _shifted(response: Array, old: OperatorGrid, window: OperatorGrid) -> Array:
    """Return the rows of a response after a window's end that are the last one moved in time.

    R(t, s) = R(T, s − (t − T)) with T the end, where times before the start are replaced by the
    start. The value at the last panel's start is integrated anew, and only the rest is moved.
    """
    values = old.values(response)[-1]
    first, last = values[0], values[max(old.blocks[-1].start - 1, 0)]
    rest = response[-1] - last * old.integration[-1]
    rows = last * window.integration[old.size :]
    for place, time in enumerate(window.nodes[old.size :]):
        passed = time - old.nodes[-1]
        rows[place] += (first - last) * (_reading(window, old.nodes[:1] + passed) @ window.integration)[0]
        rows[place] += rest @ _reading(window, old.nodes + passed)
    return rows


def _reading(grid: OperatorGrid, times: Array) -> Array:
    """Return the matrix from values on the nodes to values at times."""
    if grid.panels is not None:
        return grid.panels.interpolation(times)
    return np.stack([np.interp(times, grid.nodes, row) for row in np.eye(grid.size)], axis=1)


def transfer(means: Means, responses: frozenset[str], old: OperatorGrid, new: OperatorGrid) -> Means:
    """Interpolate means to another grid over the same time.

    The equal-time value of a response is integrated anew on the new grid; only the remainder, which
    is continuous there, is interpolated.
    """
    if old.panels is None or new.panels is None:
        read = _reading(old, new.nodes)
        return {
            name: (read @ old.values(value, extend=True) @ read.T) * new.integration
            if name in responses
            else read @ value
            if value.ndim == 1
            else read @ value @ read.T
            for name, value in means.items()
        }
    forward, backward = old.panels.interpolation(new.nodes), new.panels.interpolation(old.nodes)
    made: Means = {}
    for name, value in means.items():
        if value.ndim == 1:
            made[name] = forward @ value
        elif name in responses:
            now = np.diagonal(old.values(value))
            operator = forward @ (value - now[:, None] * old.integration) @ backward
            for part in new.blocks:  # interpolation reaches into the future; what it takes there is taken now
                operator[part, part.stop - 1] += operator[part, part.stop :].sum(axis=1)
                operator[part, part.stop :] = 0.0
            made[name] = operator + (forward @ now)[:, None] * new.integration
        else:
            made[name] = forward @ value @ forward.T
    return made


def move_shapes(shapes: Shapes | None, noises: Sequence[int], old: OperatorGrid, new: OperatorGrid) -> Shapes | None:
    """Take what was learnt about responses to another grid; ``noises`` is how many each ensemble has."""
    if shapes is None:
        return None
    assert new.panels is not None
    back = new.panels.interpolation(old.nodes)

    def move(form: Array, constants: int) -> Array:
        carry = np.zeros((len(form), constants + (len(form) - constants) // old.size * new.size))
        inner = np.kron(np.eye((len(form) - constants) // old.size), back)
        carry[: len(inner), : inner.shape[1]] = inner
        carry[len(inner) :, inner.shape[1] :] = np.eye(constants)
        return np.asarray(carry.T @ form @ carry)

    return tuple(
        [move(form, sum(map(len, shape)) - count * old.size) for form in shape]
        for shape, count in zip(shapes, noises, strict=True)
    )
