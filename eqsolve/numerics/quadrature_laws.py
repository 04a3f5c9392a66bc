"""The joint law of random constants as a mixture of Gaussians and points; other densities by their own Gauss rules."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from eqsolve.errors import ParameterError
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.laws import Component, Law

__all__ = ["Branch", "branches", "demand_second_moment"]


@dataclass(frozen=True)
class Branch:
    """One part of the joint law of the random constants: each is mean + √variance × a standard normal variable.

    ``exact`` is false where a density was replaced by a rule, whose error has to be looked at. Numbers are floats, or
    those of mpmath for laws made with digits.
    """

    probability: Any
    means: tuple[Any, ...]
    variances: tuple[Any, ...]
    exact: bool = True

    @functools.cached_property
    def numbers(self) -> tuple[float, Array, Array]:
        """Return probability, means and standard deviations as floats."""
        means, variances = (np.array(part, dtype=float) for part in (self.means, self.variances))
        return float(self.probability), means, np.sqrt(variances)


def branches(constants: Sequence[str], laws: Mapping[str, Law], order: int) -> list[Branch]:
    """Return the parts of the product law; constants of one joint sample stay together."""
    factors: list[tuple[tuple[str, ...], list[Any]]] = []
    groups: dict[tuple[str, ...], dict[str, Component]] = {}
    for item in constants:
        law = laws[item]
        if isinstance(law, Component):
            groups.setdefault(law.group, {})[item] = law
        else:
            factors.append(((item,), [(p, (m,), (v,), e) for p, m, v, e in law.gaussians(order)]))
    for members in groups.values():
        rows = np.stack([law.column for law in members.values()], axis=1).tolist()
        none = (0.0,) * len(members)
        factors.append((tuple(members), [(Fraction(1, len(rows)), tuple(row), none, True) for row in rows]))
    made = []
    for choice in product(*(parts for _, parts in factors)):
        probability: Any = 1
        exact = True
        mean: dict[str, Any] = {}
        variance: dict[str, Any] = {}
        for (names, _), (p, m, v, e) in zip(factors, choice, strict=True):
            probability, exact = probability * p, exact and e
            mean.update(zip(names, m, strict=True))
            variance.update(zip(names, v, strict=True))
        means, variances = (tuple(table[item] for item in constants) for table in (mean, variance))
        made.append(Branch(probability, means, variances, exact))
    return made


def demand_second_moment(name: str, law: Law) -> None:
    """Raise when a law has no second moment: the theory does not hold for it."""
    if not law.has_second_moment:
        raise ParameterError(
            f"`{name}` has the law {law}, which has no second moment; expected a law with finite variance, "
            "such as StudentT(df) with df > 2"
        )
