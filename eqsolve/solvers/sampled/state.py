"""What an ensemble of paths holds: its noises, a step on its way, and what the last node left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsolve.compile.stochastic import Covariance
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.growing import Factor
from eqsolve.numerics.relations import Kernels, Pointwise


@dataclass(eq=False)
class Group:
    """Noises that are driven together: by sample the factor of their covariance and their coordinates; where these stand."""

    law: Covariance
    factors: tuple[Factor, ...]
    coordinates: tuple[Any, ...]
    place: int

    @property
    def noises(self) -> tuple[str, ...]:
        return self.law.noises


@dataclass(eq=False)
class Step:
    """What one step knows: the step's length, and how signals act on unknowns at the new node."""

    length: float
    weights: Array  # (unknown, signal, sample): of the signals at the new node in the drift, or in the unknown itself
    factors: Array  # per unknown: half the step, or one
    kick: Any  # (unknown, sample, columns)


@dataclass(eq=False)
class Now:
    """What paths and companions are at the node that is being solved."""

    node: int
    unknowns: Array
    signals: Array
    slopes: Array
    arguments: list[Any]
    drift: Array
    noise_slopes: Array | None = None
    unknowns_beside: Array = field(default_factory=lambda: np.empty(0))
    signals_beside: Array = field(default_factory=lambda: np.empty(0))
    drift_beside: Array = field(default_factory=lambda: np.empty(0))
    noises_beside: Array = field(default_factory=lambda: np.empty(0))


def at_node(kernels: Sequence[Kernels], coefficient: Pointwise | None, node: int) -> Any:
    """Return a function of time at a node, one number for each sample; one if there is none."""
    if coefficient is None:
        return 1.0
    some = kernels if coefficient.leaves else kernels[:1]  # a number is the same for all
    return np.resize([float(item.vector(coefficient)[node]) for item in some], len(kernels))
