"""Gauss quadrature of the Marchenko-Pastur bulk, in O(n) and without an eigenvalue problem.

The monic orthogonal polynomials of the law with ``c = 1/delta <= 1``, ``rho = sqrt(c)``, have the Jacobi
numbers ``a_0 = 1, a_k = 1 + c, b_k = rho``, so ``p_n = rho^n (U_n + rho U_{n-1})((x - 1 - c) / (2 rho))``
with Chebyshev polynomials of the second kind. In ``x = 1 + c - 2 rho cos(phi)`` the zeros of p_n solve
``sin((n+1) phi) = rho sin(n phi)``, that is, with ``psi = -arg(1 - rho e^{i phi})``,

    (n + 1) phi + psi(phi) = k pi,    k = 1 ... n,

and the weights are ``(2/pi) sin^2(phi)/x`` times ``pi / (n + 1 + psi'(phi))``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from eqsolve.errors import SolverError
from eqsolve.spectra._arguments import Floats, SpectrumError

_ROUNDING = 16 * np.finfo(np.float64).eps
_FIRST_NODES = 16
_MAX_NODES = 2**14


class Expectation(NamedTuple):
    """An integral against a law: its value, an absolute error estimate, and the nodes spent on it."""

    value: Any
    error: Any
    nodes: int


def gauss_bulk(n: int, rho: float, one_minus_rho: float) -> tuple[Floats, Floats, Floats]:
    """Return the n-point Gauss rule of the bulk with ``sqrt(c) = rho <= 1``, normalised to mass one.

    Returns
    -------
    from_lower, from_upper
        ``sin^2(phi/2)`` and ``cos^2(phi/2)`` of the nodes, each with full relative accuracy.
    weights
        Summing to one.
    """
    count_low = (n + 1) // 2
    half_low, weights_low = _half_rule(np.arange(1, count_low + 1), n, rho, one_minus_rho)
    # the upper half is the lower half of the reflected law: angles near pi keep their relative accuracy
    half_high, weights_high = _half_rule(np.arange(n - count_low, 0, -1), n, -rho, 1.0 + rho)
    from_lower = np.concatenate([np.sin(half_low), np.cos(half_high)]) ** 2
    from_upper = np.concatenate([np.cos(half_low), np.sin(half_high)]) ** 2
    return from_lower, from_upper, np.concatenate([weights_low, weights_high])


def _half_rule(index: NDArray[np.int_], n: int, rho: float, one_minus_rho: float) -> tuple[Floats, Floats]:
    """Solve ``(n+1) phi + psi(phi) = index pi`` by bracketed Newton steps; return ``phi/2`` and weights."""
    target = index * np.pi
    low, high = (target - 0.5 * np.pi, target) if rho >= 0 else (target, target + 0.5 * np.pi)
    low, high = low / (n + 1), high / (n + 1)
    angle = 0.5 * (low + high)
    for _ in range(100):
        along, distance = _resolvent(angle, rho, one_minus_rho)
        residual = (n + 1) * angle + np.arctan2(rho * np.sin(angle), along) - target
        low, high = np.where(residual <= 0, angle, low), np.where(residual >= 0, angle, high)
        newton = angle - residual / (n + along / distance)
        proposal = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        settled = bool(np.all(np.abs(proposal - angle) <= 2e-16 * angle))
        angle = proposal
        if settled:
            break
    along, distance = _resolvent(angle, rho, one_minus_rho)
    return 0.5 * angle, 2.0 * np.sin(angle) ** 2 / (distance * n + along)


def _resolvent(angle: Floats, rho: float, one_minus_rho: float) -> tuple[Floats, Floats]:
    """Return the real part of ``1 - rho e^{i phi}`` and its squared modulus, free of cancellation."""
    square = np.sin(0.5 * angle) ** 2
    return one_minus_rho + 2.0 * rho * square, one_minus_rho**2 + 4.0 * rho * square


def expect_by_doubling(
    rule: Callable[[int], tuple[Floats, Floats]], f: Callable[[Floats], Any], atom: float, tol: float
) -> Expectation:
    """Double the nodes until two successive values over the bulk agree within `tol` times the bulk of |f|.

    The tolerance being relative, and the atom (exact, and possibly larger) left out of it, an f that is not
    resolved is noticed unless it vanishes at every node; so a sum of zeros is believed only with the largest
    number of nodes.
    """
    exact, exact_scale = _apply(f, np.zeros(1), np.array([atom])) if atom > 0.0 else (0.0, 0.0)
    n = _FIRST_NODES
    previous, _ = _apply(f, *rule(n))
    while n < _MAX_NODES:
        n *= 2
        value, scale = _apply(f, *rule(n))
        difference = np.abs(value - previous)
        seen = (scale > 0.0) | (n == _MAX_NODES)
        if np.all(seen & (difference <= max(tol, _ROUNDING) * scale)):
            return Expectation((exact + value)[()], (difference + _ROUNDING * (exact_scale + scale))[()], n)
        previous = value
    raise SolverError(
        f"`expect` did not settle: got a difference of {np.max(difference):.1e} with {n} nodes, expected "
        f"<= {tol:.1e} times the integral of |f|; give a larger `tol`, or split f where it is not smooth"
    )


def _apply(f: Callable[[Floats], Any], nodes: Floats, weights: Floats) -> tuple[Any, Any]:
    """Return the sums of f and of its modulus over the last axis, which must run over the nodes."""
    values = np.asarray(f(nodes))
    if values.shape[-1:] != nodes.shape:
        raise SpectrumError(
            f"`f` is not usable: got values of shape {values.shape} for {nodes.size} nodes, "
            "expected its last axis to run over the nodes"
        )
    return np.asarray(values @ weights), np.asarray(np.abs(values) @ weights)
