"""The linearised finite-size flow: products with its Jacobian, its largest eigenvalue, its slowest relevant one."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsolve.compile.lowering import lower
from eqsolve.errors import UsageError
from eqsolve.microscopic.lowered import FlowSample, LoweredFlow
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import Backend

_LARGEST = 6000
"""Largest dense Jacobian."""


class Slopes:
    """The derivatives ∂w/∂θ, ∂ℓ/∂f, ∂p/∂g and ∂p/∂θ as array functions."""

    def __init__(self, lowered: LoweredFlow) -> None:
        flow, states = lowered.flow, lowered.states
        noises = (noise(lowered.time) for noise in lowered.coordinate_noises)
        plain = (lowered.time, *states, *lowered.coordinate_randoms, *noises)
        moving = [lowered.weight_expressions[place] for place in lowered.moving]
        losses = [lowered.loss_expressions[place] for place in lowered.active]
        fields = [flow.fields[place] for place in lowered.moving]
        gradients = [flow.gradients[place] for place in lowered.active]
        drift = lowered.drift_expressions
        self.weights = lower([expr.diff(item) for expr in moving for item in states], plain)
        self.losses = lower([expr.diff(item) for expr in losses for item in fields], lowered.sample_arguments)
        self.by_gradient = lower([p.diff(item) for p in drift for item in gradients], lowered.coordinate_arguments)
        self.by_state = lower([p.diff(item) for p in drift for item in states], lowered.coordinate_arguments)


class LinearisedFlow:
    """The Jacobian of a flow at one state, as an operator on small changes of the flat state."""

    def __init__(self, sample: FlowSample, time: float, flat: Array) -> None:
        lowered, self.sample = sample.lowered, sample
        slopes = Slopes(lowered)
        state, backend = sample.state(flat), sample.backend
        fields = sample.fields(time, state)
        gradients = sample.gradients(time, fields)
        plain = (time, *state, *sample.coordinate_constants)
        full = (time, *state, *gradients, *sample.coordinate_constants)
        moving, active, count = len(lowered.moving), len(lowered.active), len(lowered.states)
        self.by_weight = _table(backend, slopes.weights(*plain), sample.d, moving, count)
        self.by_field = _table(backend, slopes.losses(time, *fields, *sample.sample_constants), sample.n, active, moving)
        self.by_gradient = _table(backend, slopes.by_gradient(*full), sample.d, count, active)
        self.by_state = _table(backend, slopes.by_state(*full), sample.d, count, count)
        self.size = flat.size

    def apply(self, change: Array) -> Array:
        """Return the Jacobian times a change of the state."""
        features = self.sample.features
        state = self.sample.state(change)
        weights = np.einsum("ijx,jx->ix", self.by_weight, state)
        fields = weights @ features.T
        losses = np.einsum("ijx,jx->ix", self.by_field, fields)
        gradients = self.sample.scale * (losses @ features)
        made = np.einsum("ijx,jx->ix", self.by_gradient, gradients) + np.einsum("ijx,jx->ix", self.by_state, state)
        return self.sample.backend.get(made.ravel())

    def dense(self) -> Array:
        """Return the whole Jacobian."""
        if self.size > _LARGEST:
            raise UsageError(
                f"the linearised flow has {self.size} directions; eigenvalues are computed up to {_LARGEST}: take a smaller d"
            )
        d, features = self.sample.d, self.sample.features
        count, active, moving = len(self.by_state), self.by_gradient.shape[1], len(self.by_weight)
        made = self.sample.backend.arrays.zeros((count, d, count, d))
        for a in range(active):
            for i in range(moving):
                core = self.sample.scale * (features.T * self.by_field[a, i]) @ features
                for row in range(count):
                    for column in range(count):
                        made[row, :, column] += self.by_gradient[row, a, :, None] * core * self.by_weight[i, column]
        diagonal = np.arange(d)
        for row in range(count):
            for column in range(count):
                made[row, diagonal, column, diagonal] += self.by_state[row, column]
        return self.sample.backend.get(made.reshape(count * d, count * d))


def _table(backend: Backend, values: list[Any], size: int, rows: int, columns: int) -> Any:
    return backend.stack(values, (size,)).reshape(rows, columns, size)


def fastest(sample: FlowSample, time: float, flat: Array) -> float:
    """Return the largest modulus of an eigenvalue of the Jacobian, to about 1%."""
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigs

    jacobian = LinearisedFlow(sample, time, flat)
    operator = LinearOperator((jacobian.size, jacobian.size), matvec=jacobian.apply, dtype=float)
    start = np.random.default_rng(0).standard_normal(jacobian.size)
    if jacobian.size < 20:
        return float(np.abs(np.linalg.eigvals(jacobian.dense())).max())
    try:
        found = eigs(
            operator, k=1, which="LM", v0=start, ncv=min(24, jacobian.size), tol=5e-3, maxiter=20, return_eigenvectors=False
        )
    except ArpackError as error:
        found = getattr(error, "eigenvalues", np.empty(0))
    if len(found):
        return float(np.abs(found).max())
    for _ in range(30):  # what is left when Arnoldi's iteration has not converged
        start = jacobian.apply(start / max(float(np.linalg.norm(start)), 1e-300))
    return float(np.linalg.norm(start))


def slowest(sample: FlowSample, time: float, flat: Array, floor: float = 1e-7) -> float:
    """Return the smallest decay rate of the linearised flow among the directions that move at all.

    Directions along which nothing moves (conserved quantities, weights that the samples do not see) have an
    eigenvalue of 0; what is below ``floor`` times the largest counts as 0. A negative rate says that the state is
    no stable rest point.
    """
    values = np.linalg.eigvals(LinearisedFlow(sample, time, flat).dense())
    size = np.abs(values)
    return float(np.min(-values[size > floor * size.max()].real))
