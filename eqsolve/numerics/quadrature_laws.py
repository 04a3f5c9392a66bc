"""Laws as mixtures of Gaussians and points with exact numbers; other densities by their own Gauss rules."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from sympy import Expr, Rational, S, sympify

from eqsolve.errors import ParameterError
from eqsolve.language.joint_laws import Component
from eqsolve.language.laws import (
    Bernoulli,
    Discrete,
    GaussBernoulli,
    Law,
    Mixture,
    Normal,
    Point,
    Rademacher,
    StudentT,
)
from eqsolve.language.symbols import Random

Array = np.ndarray[Any, np.dtype[np.float64]]

__all__ = ["Branch", "branches", "demand_second_moment"]


@dataclass(frozen=True)
class Branch:
    """One part of the joint law of the random constants: each is mean + √variance × a standard normal variable.

    ``exact`` is false where a density was replaced by a rule, whose error has to be looked at.
    """

    probability: Expr
    means: tuple[Expr, ...]
    variances: tuple[Expr, ...]
    exact: bool = True

    @functools.cached_property
    def numbers(self) -> tuple[float, Array, Array]:
        """Return probability, means and standard deviations as floats."""
        means, variances = (np.array([float(entry) for entry in part]) for part in (self.means, self.variances))
        return float(self.probability), means, np.sqrt(variances)


def branches(constants: tuple[Random, ...], laws: Mapping[Random, Law], order: int) -> list[Branch]:
    """Return the parts of the product law; constants of one joint sample stay together."""
    factors: list[tuple[tuple[Random, ...], list[Any]]] = []
    groups: dict[Any, list[Random]] = {}
    for item in constants:
        law = laws[item]
        if isinstance(law, Component):
            groups.setdefault((law.joint, law.group), []).append(item)
        else:
            factors.append(((item,), [(p, (m,), (v,), e) for p, m, v, e in _parts(law, order)]))
    for (joint, _), items in groups.items():
        share = Rational(1, len(joint.values))
        rows = [
            (share, tuple(sympify(float(row[laws[item].index])) for item in items), (S.Zero,) * len(items), True)
            for row in joint.values
        ]
        factors.append((tuple(items), rows))
    made = []
    for choice in product(*(parts for _, parts in factors)):
        probability, exact = S.One, True
        mean: dict[Random, Expr] = {}
        variance: dict[Random, Expr] = {}
        for (names, _), (p, m, v, e) in zip(factors, choice, strict=True):
            probability, exact = probability * p, exact and e
            mean.update(zip(names, m, strict=True))
            variance.update(zip(names, v, strict=True))
        means, variances = (tuple(table[item] for item in constants) for table in (mean, variance))
        made.append(Branch(probability, means, variances, exact))
    return made


def _parts(law: Law, order: int) -> list[tuple[Expr, Expr, Expr, bool]]:
    """Return (probability, mean, variance, exact) of the Gaussians and points a law is made of."""
    zero, one = S.Zero, S.One
    match law:
        case Point():
            found = [(one, law.args[0], zero)]
        case Bernoulli():
            p = law.args[0]
            found = [(1 - p, zero, zero), (p, one, zero)]
        case Rademacher():
            p = law.args[0]
            found = [(p / 2, -one, zero), (1 - p, zero, zero), (p / 2, one, zero)]
        case Discrete():
            found = [(p, value, zero) for value, p in zip(*law.args, strict=True)]
        case Normal():
            found = [(one, *law.args)]
        case GaussBernoulli():
            p, variance = law.args
            found = [(1 - p, zero, zero), (p, zero, variance)]
        case Mixture():
            return [
                (weight * p, mean, variance, exact)
                for weight, part in law.args
                for p, mean, variance, exact in _parts(part, order)
                if weight * p != 0
            ]
        case _:
            atoms = [(sympify(p), sympify(value), zero, True) for value, p in law.atoms_of()]
            nodes, weights = law.continuous_rule(order)
            rule = [(sympify(p), sympify(x), zero, False) for x, p in zip(nodes.tolist(), weights.tolist(), strict=True)]
            return atoms + rule
    return [(p, mean, variance, True) for p, mean, variance in found if p != 0]


def demand_second_moment(name: str, law: Law) -> None:
    """Raise when a law has no second moment: the theory does not hold for it."""
    parts = [part for _, part in law.args] if isinstance(law, Mixture) else [law]
    for part in parts:
        if isinstance(part, StudentT) and part.numbers()[0] <= 2:
            raise ParameterError(
                f"`{name}` has the law {law}, which has no second moment; expected a law with finite variance, "
                "such as StudentT(df) with df > 2"
            )
