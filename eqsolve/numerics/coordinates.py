"""Random constants as functions of one standard normal coordinate, so that they can be modes like those of noises.

A law is a sum of parts: points, and densities with a quantile function, c = Q(Φ(x)). What depends on a constant and on a noise
through their sum, say, then has one direction that matters, whatever the law.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.laws import Atoms, LaplaceLaw, MixtureLaw, NormalLaw, NumericLaw, UniformLaw


@dataclass(frozen=True)
class Part:
    """A probability, and the value and slope of the constant at coordinates."""

    probability: float
    at: Callable[[Array], tuple[Array, Array]]


def parts_of(law: NumericLaw) -> tuple[Part, ...]:
    """Return the parts of a law; none if it has no density, or one that grows too fast in the coordinate, or too many."""
    made = _parts(law) if law.has_density else None
    return tuple(made) if made is not None and len(made) <= 8 else ()  # parts of a law


def place_on(parts: tuple[Part, ...], numbers: Array, x: Array) -> tuple[Array, Array]:
    """Return the values and slopes of a constant at coordinates, each in the part of that number."""
    values, slopes = np.zeros_like(x), np.zeros_like(x)
    for number, part in enumerate(parts):
        here = numbers == number
        values[here], slopes[here] = part.at(x[here])
    return values, slopes


def _parts(law: NumericLaw) -> list[Part] | None:
    match law:
        case NormalLaw():
            return [Part(float(p), _affine(float(mean), math.sqrt(variance))) for p, mean, variance, _ in law.gaussians(1)]
        case Atoms():
            return [Part(float(p), _affine(float(value), 0.0)) for value, p in law.atoms_of() if p > 0]
        case UniformLaw():
            return [Part(1.0, _uniform(float(law.low), float(law.high)))]
        case LaplaceLaw():
            return [Part(1.0, _laplace(float(law.scale)))]
        case MixtureLaw():
            made: list[Part] = []
            for share, inner in zip(law.probabilities, law.laws, strict=True):
                found = _parts(inner)
                if found is None:
                    return None
                made += [Part(float(share) * part.probability, part.at) for part in found if share > 0]
            return made
    return None


def _affine(mean: float, deviation: float) -> Callable[[Array], tuple[Array, Array]]:
    return lambda x: (mean + deviation * x, np.full_like(x, deviation))


def _uniform(low: float, high: float) -> Callable[[Array], tuple[Array, Array]]:
    from scipy.special import ndtr

    return lambda x: (low + (high - low) * ndtr(x), (high - low) * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))


def _laplace(scale: float) -> Callable[[Array], tuple[Array, Array]]:
    from scipy.special import log_ndtr

    def at(x: Array) -> tuple[Array, Array]:
        tail = log_ndtr(-np.abs(x))
        slope = scale * np.exp(-(x**2) / 2 - tail) / math.sqrt(2 * math.pi)
        return -np.sign(x) * scale * (math.log(2.0) + tail), slope

    return at
