"""Values of a causal kernel in a panel on the diagonal, from what its operator does to polynomials there.

Where a column lies in a panel before, an operator's entry over the weight of its node is the kernel's value. In the panel
itself rows know moments over [0, cᵢ] only, and those of high degree badly: collocation is accurate for smooth signals. So one
polynomial in both times is fitted to all moments of the panel, with small weight where they are bad, and to the values at
the panel's start, which are known. It is good on the triangle t' ≤ t and continues the kernel across the diagonal.
"""

from __future__ import annotations

import functools

import numpy as np
from numpy.polynomial.legendre import leggauss, legvander

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import radau

_TRUST = 0.1  # weight of a moment, per degree, in rows before the last one, which is as accurate as a Radau rule
_RCOND = 1e-10


def recovered_degree(order: int) -> int:
    """Return the degree, in both times together, to which values are found."""
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
    return np.asarray(values @ np.linalg.pinv(equations, rcond=_RCOND) @ data)


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

    One polynomial of total degree ``order`` goes through the pairs: they are its principal lattice. Both in the order of
    ``tril_indices`` and ``triu_indices``.
    """
    c = np.append(0.0, radau(order).nodes)
    (low, left), (high, right) = np.tril_indices(order + 1), np.triu_indices(order + 1, 1)
    known, wanted = _basis(c[low], c[left], order), _basis(c[high], c[right], order)
    return np.asarray(np.linalg.solve(known.T, wanted.T).T)
