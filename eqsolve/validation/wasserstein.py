"""2-Wasserstein distances between a theory's law of (w, constants) and that of finite-size runs, at times or at rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.laws import STRATA
from eqsolve.results.distribution import Distribution
from eqsolve.results.result import Result

if TYPE_CHECKING:
    from eqsolve.solvers.fixed_point.law import FixedPointLaw

_LEVELS = 4000


def distances(theory: Result, large: Any, half: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the distance per size and time, averaged over the draws; ``names`` are the variable and the constants.

    With constants of few values the joint law is compared: quantiles of the variable given the constants. Otherwise it is
    the law of the variable alone.
    """
    laws = [theory.law(names[0], float(moment)) for moment in large.t]
    given = np.array([laws[0][name] for name in names[1:]]).reshape(len(names) - 1, -1)
    joint = (
        len(given) > 0
        and np.unique(given, axis=1).shape[1] <= STRATA
        and all(
            _few_values(row, large.coordinates(name, float(large.t[0]))) for name, row in zip(names[1:], given, strict=True)
        )
    )
    constants = given if joint else given[:0]
    sizes = [run for run in (half, large) if run is not None]
    table = []
    for run in sizes:
        row = []
        for law, moment in zip(laws, run.t, strict=True):
            samples = run.coordinates(names[0], float(moment))
            labels = np.empty((0, run.seeds, 0))
            if joint:
                labels = np.array([run.coordinates(name, float(moment)) for name in names[1:]])
            row.append(float(np.mean([
                distance(law[names[0]], law.weights, constants, samples[draw], labels[:, draw])
                for draw in range(run.seeds)
            ])))  # fmt: skip
        table.append(row)
    return {
        "variables": list(names) if joint else [names[0]],
        "d": [run.d for run in sizes],
        "values": table,
        "falls_by": [float(a / b) if b > 0 else None for a, b in zip(table[0], table[-1], strict=True)],
    }


def _few_values(known: Array, seen: Array) -> bool:
    """Whether a constant takes few values, the same on both sides; nodes of a density are few, too."""
    keys, values = np.unique(known), np.unique(seen)
    return len(values) <= len(keys) and bool(np.isclose(values[:, None], keys).any(axis=1).all())


def distances_at_rest(law: FixedPointLaw, runs: list[Distribution], seeds: int) -> dict[str, Any]:
    """Return the distance per size, averaged over the draws, and what as many independent draws of the law would have.

    ``runs`` hold the variable and the constants of all draws of a size, one draw after the other. As for times, the joint
    law is compared where the constants have few values, else that of the variable alone.
    """
    parts = law.given_constants(_LEVELS, STRATA)
    table: list[list[float]] = []
    random: list[list[float]] = []
    sizes = [run.weights.size // seeds for run in runs]
    for run, d in zip(runs, sizes, strict=True):
        independent = law.sample(run.weights.size, seed=d)
        for values, row in ((run.values, table), (independent, random)):
            draws = np.reshape(values, (len(values), seeds, d)).swapaxes(0, 1)
            row.append([float(np.mean([_at_rest(law, parts, draw[0], draw[1:]) for draw in draws]))])
    return {
        "variables": list(law.names) if parts is not None else [law.names[0]],
        "d": sizes,
        "values": table,
        "falls_by": [table[0][0] / table[-1][0] if table[-1][0] > 0 else None],
        "independent_draws": random,
    }


def _at_rest(law: FixedPointLaw, parts: list[tuple[Array, float, Array]] | None, samples: Array, labels: Array) -> float:
    if parts is None:
        return float(np.sqrt(_gap(law.quantile(_levels()), samples)))
    return _matched(((constants, quantiles) for constants, _, quantiles in parts), samples, labels, _gap)


def _matched(
    parts: Iterable[tuple[Array, Any]], samples: Array, labels: Array, square: Callable[[Any, Array], float]
) -> float:
    """Return W₂ of a law and a sample within each value of the constants; ``parts`` are (value, law)."""
    total, mass = 0.0, 0.0
    for constants, part in parts:
        there = np.isclose(labels, constants[:, None]).all(axis=0)
        if there.any():
            share = float(there.mean())
            total += share * square(part, samples[there])
            mass += share
    return float(np.sqrt(total / mass)) if mass else float("nan")


def _levels() -> Array:
    return (np.arange(_LEVELS) + 0.5) / _LEVELS


def _gap(quantiles: Array, samples: Array) -> float:
    """Return the mean square difference of quantiles at equally spaced levels."""
    ordered = np.sort(samples)
    return float(np.mean((quantiles - ordered[np.minimum((_levels() * len(ordered)).astype(int), len(ordered) - 1)]) ** 2))


def distance(values: Array, weights: Array, constants: Array, samples: Array, labels: Array) -> float:
    """Return W₂ between a weighted law and a sample, matched within each value of the constants."""
    if not len(constants):
        return float(np.sqrt(_square((values, weights), samples)))
    keys = np.unique(constants, axis=1).T
    here = [(constants == key[:, None]).all(axis=0) for key in keys]
    parts = [(key, (values[mine], weights[mine])) for key, mine in zip(keys, here, strict=True)]
    return _matched(parts, samples, labels, _square)


def _square(law: tuple[Array, Array], samples: Array) -> float:
    """Return W₂² of one variable; the theory's quantiles are drawn through its quadrature points, in normal scores."""
    from scipy.special import ndtri

    values, weights = law
    order = np.argsort(values, kind="stable")
    mass = weights[order] / weights.sum()
    theory = np.interp(ndtri(_levels()), ndtri(np.clip(np.cumsum(mass) - mass / 2, 1e-300, 1 - 1e-16)), values[order])
    return _gap(theory, samples)


# --- What a picture of two laws shows: the theory's density, a histogram, and the atoms.
_BINS, _POINTS, _SHOWN = 60, 1201, 3


def picture_laws(law: Distribution, seen: Distribution) -> dict[str, Any]:
    """Return density and histogram of the law's first variable, and (place, mass, share at finite size) of its atoms."""
    variable = law.names[0]
    atoms = [(value, mass) for value, mass in law.atoms(variable) if mass > 1e-3]
    values = seen[variable]
    on_atom = np.isclose(values[:, None], [value for value, _ in atoms], rtol=0, atol=1e-12).any(axis=1)
    low, high = (float(law.quantile(level, variable)) for level in (1e-3, 1 - 1e-3))
    low, high = min(low, *np.quantile(values, [1e-3])), max(high, *np.quantile(values, [1 - 1e-3]))
    edges = np.linspace(low, high, _BINS + 1) if high > low else np.array([low - 0.5, low + 0.5])
    counts = np.histogram(values[~on_atom], bins=edges)[0]
    where = np.linspace(low, high, _POINTS)
    return {
        "variable": variable,
        "edges": edges.tolist(),
        "heights": (counts / (len(values) * np.diff(edges))).tolist(),
        "least": 0.3 / (len(values) * float(np.diff(edges)[0])),
        "where": where.tolist(),
        "density": np.asarray(law.density(where, variable), dtype=float).tolist(),
        "atoms": [(at, mass, float(np.isclose(values, at, rtol=0, atol=1e-12).mean())) for at, mass in atoms[:_SHOWN]],
    }
