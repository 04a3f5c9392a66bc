"""Laws of random constants as plain numbers: atoms exactly, densities by Gauss rules, exact sampling.

A law holds floats. ``numeric(digits)`` gives the same law with mpmath's numbers in their place, for
what is computed to more digits; rules and samples are of floats in either case.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np

from eqsolve.numerics.arrays import EPSILON, Array, special, tensor_rule

STRATA = 16  # combinations of values of random constants that are followed one by one, at most
# Nodes by which a Gauss rule has converged for what is smooth. Functions that are steep somewhere take many more, on panels:
# those of Gauss–Hermite rules are π (2N)^−½ apart. Panels begin as dense as Gauss rules end, at the centre. Rotors, phase
# oscillators of normal and uniform frequencies and |x| cost the same from 60 to 200; at 700 oscillators of t = 8 are lost
_SMOOTH = 200
Gaussian = tuple[Any, Any, Any, bool]
"""Probability, mean and variance of a Gaussian part, and whether it is exact; a point has variance zero."""


class NumericLaw:
    """Base of all laws: a subclass offers its atoms and a rule for its continuous part, everything else follows."""

    def numeric(self, digits: int | None = None) -> NumericLaw:
        """Return the law in floats, or in mpmath's numbers: those that the floats spell in decimals or as fractions."""
        if digits is None:
            return self
        numbers = {item.name: _precise(getattr(self, item.name), digits) for item in fields(self)}  # type: ignore[arg-type]
        return type(self)(**numbers)

    def __str__(self) -> str:
        parts = [getattr(self, item.name) for item in fields(self)]  # type: ignore[arg-type]
        name = type(self).__name__.removesuffix("Law")
        return f"{name}({', '.join(f'{part:g}' if isinstance(part, float) else str(part) for part in parts)})"

    def problem(self) -> str | None:
        """Return what is wrong with the numbers."""
        return None

    def atoms_of(self) -> list[tuple[float, float]]:
        """Return the (value, probability) pairs of the point masses."""
        return []

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        """Return nodes and weights of a Gauss rule for the part with a density (weights sum to its mass)."""
        return np.empty(0), np.empty(0)

    def rule(self, order: int) -> tuple[Array, Array]:
        """Return nodes and weights of a quadrature for the whole law: atoms exactly, the density by ``order`` nodes."""
        atoms = np.array(self.atoms_of(), dtype=float).reshape(-1, 2)
        nodes, weights = self.continuous_rule(order)
        return np.concatenate([atoms[:, 0], nodes]), np.concatenate([atoms[:, 1], weights])

    @property
    def has_density(self) -> bool:
        """Whether a part of the law is continuous, so that a rule has a quadrature error."""
        return self.continuous_rule(2)[0].size > 0

    @property
    def has_second_moment(self) -> bool:
        """Whether the variance is finite."""
        return True

    def moments(self) -> tuple[float, float]:
        """Return mean and variance."""
        nodes, weights = self.rule(_SMOOTH)
        mean = float(weights @ nodes)
        return mean, float(weights @ (nodes - mean) ** 2)

    def gaussians(self, order: int) -> list[Gaussian]:
        """Return the Gaussians and points the law is made of; another density becomes the points of its rule."""
        nodes, weights = self.continuous_rule(order)
        atoms = [(p, value, 0.0, True) for value, p in self.atoms_of() if p != 0]
        return atoms + [(p, x, 0.0, False) for x, p in zip(nodes.tolist(), weights.tolist(), strict=True)]

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` independent values."""
        values, probabilities = self.rule(2)
        return np.asarray(rng.choice(values, size=size, p=probabilities / probabilities.sum()), dtype=float)


@dataclass(frozen=True)
class Atoms(NumericLaw):
    """Finitely many values with their probabilities."""

    values: tuple[float, ...]
    probabilities: tuple[float, ...]

    def problem(self) -> str | None:
        if len(self.values) != len(self.probabilities) or not self.values:
            return f"{len(self.values)} values but {len(self.probabilities)} probabilities"
        return _shares(self.probabilities)

    def atoms_of(self) -> list[tuple[float, float]]:
        return list(zip(self.values, self.probabilities, strict=True))


def point(value: float) -> Atoms:
    """Return the law with all mass at one value."""
    return Atoms((value,), (1.0,))


def bernoulli(p: float) -> Atoms:
    """Return the law of 1 with probability p, else 0."""
    return Atoms((0.0, 1.0), (1 - p, p))


def rademacher(p: float) -> Atoms:
    """Return the law of ±1 with probability p/2 each, else 0."""
    return Atoms((-1.0, 1.0), (p / 2, p / 2)) if p == 1 else Atoms((-1.0, 0.0, 1.0), (p / 2, 1 - p, p / 2))


def discrete(*numbers: float) -> Atoms:
    """Return the law of some values, given first, with as many probabilities."""
    half = len(numbers) // 2
    return Atoms(numbers[:half], numbers[half:])


@dataclass(frozen=True)
class NormalLaw(NumericLaw):
    """Gaussian with given mean and variance."""

    mean: float
    variance: float

    def problem(self) -> str | None:
        return None if self.variance >= 0 else f"the variance must be >= 0, got {_word(self.variance)}"

    def atoms_of(self) -> list[tuple[float, float]]:
        return [(self.mean, 1.0)] if self.variance == 0 else []

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        if self.variance == 0:
            return super().continuous_rule(order)
        nodes, weights = hermite(order) if order <= _SMOOTH else _normal_panels(order)
        return float(self.mean) + math.sqrt(self.variance) * nodes, weights

    def gaussians(self, order: int) -> list[Gaussian]:
        return [(1.0, self.mean, self.variance, True)]

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return float(self.mean) + math.sqrt(self.variance) * rng.standard_normal(size)


@dataclass(frozen=True)
class UniformLaw(NumericLaw):
    """Uniform on [low, high]."""

    low: float
    high: float

    def problem(self) -> str | None:
        return None if self.low < self.high else f"the ends must be increasing, got [{_word(self.low)}, {_word(self.high)}]"

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        nodes, weights = special.roots_legendre(order) if order <= _SMOOTH else _panels(order * 2 / math.pi)
        return float(self.low) + float(self.high - self.low) * (nodes + 1) / 2, weights / 2

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return rng.uniform(float(self.low), float(self.high), size)


@dataclass(frozen=True)
class LaplaceLaw(NumericLaw):
    """Density exp(-|x|/scale)/(2 scale)."""

    scale: float

    def problem(self) -> str | None:
        return None if self.scale > 0 else f"the scale must be > 0, got {_word(self.scale)}"

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        nodes, weights = special.roots_laguerre(min(order, 180))  # then weights underflow
        nodes = float(self.scale) * nodes
        return np.concatenate([-nodes[::-1], nodes]), np.concatenate([weights[::-1], weights]) / 2

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return rng.laplace(0.0, float(self.scale), size)


@dataclass(frozen=True)
class StudentTLaw(NumericLaw):
    """Student's t with given degrees of freedom, of unit scale."""

    freedom: float

    def problem(self) -> str | None:
        return None if self.freedom > 0 else f"the degrees of freedom must be > 0, got {_word(self.freedom)}"

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        # x = a √ν u / √(1 − u²) has the density (1 − u²)^(ν/2 − 1), a Gauss–Jacobi weight, times a
        # smooth function: errors fall like e^{−2n/a}. Of heavy tails nodes are spread to large x,
        # where functions oscillate
        freedom, a = float(self.freedom), 1.0 if self.has_second_moment else order ** (2 / 3)
        nodes, weights = special.roots_jacobi(order, freedom / 2 - 1, freedom / 2 - 1)
        weights = weights / (1 + (a**2 - 1) * nodes**2) ** ((freedom + 1) / 2)
        return a * freedom**0.5 * nodes / (1 - nodes**2) ** 0.5, weights / weights.sum()

    @property
    def has_second_moment(self) -> bool:
        return self.freedom > 2

    def moments(self) -> tuple[float, float]:
        return 0.0, float(self.freedom / (self.freedom - 2)) if self.freedom > 2 else math.inf

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return rng.standard_t(float(self.freedom), size)


@dataclass(frozen=True)
class MarchenkoPasturLaw(NumericLaw):
    """Eigenvalues of (1/δ) XᵀX for an n × d matrix X of independent entries of variance 1/d, n/d → δ."""

    delta: float

    def problem(self) -> str | None:
        return None if self.delta > 0 else f"delta must be > 0, got {_word(self.delta)}"

    @functools.cached_property
    def _spectrum(self) -> Any:
        from eqsolve.spectra import MarchenkoPastur

        return MarchenkoPastur(float(self.delta))

    def atoms_of(self) -> list[tuple[float, float]]:
        return [(0.0, 1 - self.delta)] if self.delta < 1 else []

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        nodes, weights = self._spectrum.quadrature(order)
        keep = nodes > 0 if self.delta < 1 else nodes == nodes
        return nodes[keep], weights[keep]

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return self._spectrum.sample(size, rng)


@dataclass(frozen=True)
class MixtureLaw(NumericLaw):
    """One of several laws, each with its probability."""

    probabilities: tuple[float, ...]
    laws: tuple[NumericLaw, ...]

    def problem(self) -> str | None:
        problems = (_shares(self.probabilities), *(law.problem() for law in self.laws if hasattr(law, "problem")))
        return next(filter(None, problems), None) if self.laws else "no part given"

    def atoms_of(self) -> list[tuple[float, float]]:
        masses: dict[float, float] = {}
        for share, law in zip(self.probabilities, self.laws, strict=True):
            for value, probability in law.atoms_of():
                masses[value] = masses.get(value, 0.0) + share * probability
        return [(value, mass) for value, mass in masses.items() if mass != 0]

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        present = [(float(share), law) for share, law in zip(self.probabilities, self.laws, strict=True) if share != 0]
        rules = [(share, *law.continuous_rule(order)) for share, law in present]
        return np.concatenate([nodes for _, nodes, _ in rules]), np.concatenate([share * mass for share, _, mass in rules])

    @property
    def has_second_moment(self) -> bool:
        return all(law.has_second_moment for law in self.laws)

    def gaussians(self, order: int) -> list[Gaussian]:
        return [
            (share * p, mean, variance, exact)
            for share, law in zip(self.probabilities, self.laws, strict=True)
            for p, mean, variance, exact in law.gaussians(order)
            if share * p != 0
        ]

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        choice = rng.choice(len(self.laws), size=size, p=[float(share) for share in self.probabilities])
        draws = np.stack([law.sample(rng, size) for law in self.laws])
        return np.asarray(draws[choice, np.arange(size)])


def mixture(*items: Any) -> MixtureLaw:
    """Return the mixture of some probabilities, given first, and as many laws."""
    half = len(items) // 2
    return MixtureLaw(items[:half], items[half:])


def gauss_bernoulli(p: float, variance: float) -> MixtureLaw:
    """Return the law of a centred Gaussian of the given variance with probability p, else 0."""
    return MixtureLaw((1 - p, p), (point(0.0), NormalLaw(0.0, variance)))


@dataclass(frozen=True, eq=False)
class SampleLaw(NumericLaw):
    """The empirical law of a sample of one variable."""

    values: Array

    def numeric(self, digits: int | None = None) -> NumericLaw:
        return self if digits is None else Atoms(*zip(*self.atoms_of(), strict=True)).numeric(digits)

    def atoms_of(self) -> list[tuple[float, float]]:
        values, counts = np.unique(self.values, return_counts=True)
        return [(float(v), float(c) / len(self.values)) for v, c in zip(values, counts, strict=True)]


@dataclass(frozen=True, eq=False)
class Component(NumericLaw):
    """One column of a joint sample; constants of one ``group`` are rows of the same ``table``, drawn together."""

    table: Array
    index: int
    group: tuple[str, ...]

    @property
    def column(self) -> Array:
        """The sample of this constant alone."""
        return np.asarray(self.table[:, self.index])

    def numeric(self, digits: int | None = None) -> NumericLaw:
        return self  # a sample is of floats

    def atoms_of(self) -> list[tuple[float, float]]:
        return SampleLaw(self.column).atoms_of()


def joint_groups(laws: Mapping[str, NumericLaw]) -> list[tuple[str, ...]]:
    """Return the names of constants that are drawn together: those of one joint sample, every other one by itself."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, law in laws.items():
        groups.setdefault(law.group if isinstance(law, Component) else (name,), []).append(name)
    return [tuple(members) for members in groups.values()]


def expectation(function: Callable[..., Any], laws: Sequence[NumericLaw], order: int = _SMOOTH) -> float:
    """Return the mean of a function of independent constants, by the product of their rules."""
    points, weights = tensor_rule([law.rule(order) for law in laws])
    return float(np.sum(weights * function(*points)))


def _precise(value: Any, digits: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_precise(item, digits) for item in value)
    if isinstance(value, NumericLaw):
        return value.numeric(digits)
    near = Fraction(repr(float(value))).limit_denominator(10**9)  # 1/3 was meant
    spelled = near if abs(float(near) - value) <= 2 * EPSILON * abs(value) else Fraction(value)
    with mpmath.workdps(digits):
        return mpmath.mpf(spelled.numerator) / spelled.denominator


@functools.lru_cache(maxsize=64)
def hermite(order: int) -> tuple[Array, Array]:
    """Return Gauss–Hermite nodes and weights of a standard normal variable."""
    nodes, weights = special.roots_hermitenorm(order)
    keep = weights > 0
    return nodes[keep], weights[keep] / weights.sum()


def _panels(nodes: float) -> tuple[Array, Array]:
    """Return a composite Gauss–Legendre rule on [−1, 1]: ten nodes on each panel, ``nodes`` in all, up to rounding."""
    points, weights = special.roots_legendre(10)
    count = round(nodes / 10)
    middles = (2 * np.arange(count) + 1) / count - 1
    return (middles[:, None] + points / count).ravel(), np.tile(weights / count, count)


@functools.lru_cache(maxsize=16)
def _normal_panels(order: int) -> tuple[Array, Array]:
    """Return a rule of a standard normal variable x = 2 sinh(u/2) from −20 to 20, on panels of the same length in u."""
    half = 2 * math.asinh(10)
    nodes, weights = _panels(order * 2 * half * math.sqrt(2 / _SMOOTH) / math.pi)
    u = nodes * half
    x = 2 * np.sinh(u / 2)
    mass = weights * np.cosh(u / 2) * np.exp(-(x**2) / 2)
    return x, mass / mass.sum()


@functools.lru_cache(maxsize=64)
def _half_normal(order: int) -> tuple[Array, Array]:
    """Return a Gauss rule of the density of |x|, x standard normal, from its recurrence (Stieltjes' procedure)."""
    x, w = np.polynomial.legendre.leggauss(400)
    x, w = 6 * (x + 1), 6 * w * np.exp(-18 * (x + 1) ** 2) * math.sqrt(2 / math.pi)
    last, now, diagonal, off_diagonal = np.zeros_like(x), np.sqrt(1 / w.sum()) * np.ones_like(x), [], [0.0]
    for _ in range(order):
        diagonal.append(float(w @ (x * now**2)))
        new = (x - diagonal[-1]) * now - off_diagonal[-1] * last
        off_diagonal.append(math.sqrt(float(w @ new**2)))
        last, now = now, new / off_diagonal[-1]
    nodes, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off_diagonal[1:-1], 1) + np.diag(off_diagonal[1:-1], -1))
    return nodes, vectors[0] ** 2


@dataclass(frozen=True)
class SplitNormalLaw(NormalLaw):
    """A Gaussian with a Gauss rule on either side of its mean, for functions that jump there."""

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        nodes, weights = _half_normal((order + 1) // 2)
        both = np.concatenate([-nodes[::-1], nodes])
        return self.mean + math.sqrt(self.variance) * both, np.concatenate([weights[::-1], weights]) / 2


def _word(value: float) -> str:
    return f"{float(value):.12g}"


def _shares(probabilities: Sequence[float]) -> str | None:
    outside = [share for share in probabilities if not 0 <= share <= 1]
    if outside:
        return f"the probability must lie in [0, 1], got {_word(outside[-1])}"
    total = float(sum(probabilities))
    return None if abs(total - 1) < 1e-12 else f"the probabilities sum to {total:.12g}, not to 1"


# --- Random constants as functions of one standard normal coordinate, so that they can be modes
# like those of noises. A law is a sum of parts: points, and densities with a quantile function,
# c = Q(Φ(x)).


@dataclass(frozen=True)
class Part:
    """A probability, and the value and slope of the constant at coordinates."""

    probability: float
    at: Callable[[Array], tuple[Array, Array]]


def parts_of(law: NumericLaw) -> tuple[Part, ...]:
    """Return the parts of a law; none if it has no density, or one that grows too fast in the coordinate, or too many."""
    parts = _parts(law) if law.has_density else None
    return tuple(parts) if parts is not None and len(parts) <= 8 else ()  # parts of a law


def place_on(parts: tuple[Part, ...], numbers: Array, x: Array) -> tuple[Array, Array]:
    """Return the values and slopes of a constant at coordinates, each in the part of that number."""
    values, slopes = np.zeros_like(x), np.zeros_like(x)
    for number, part in enumerate(parts):
        here = numbers == number
        values[here], slopes[here] = part.at(x[here])
    return values, slopes


def _parts(law: NumericLaw) -> list[Part] | None:
    match law:
        case NormalLaw() | Atoms():
            return [Part(float(p), _affine(float(mean), math.sqrt(variance))) for p, mean, variance, _ in law.gaussians(1)]
        case UniformLaw():
            low, width = float(law.low), float(law.high) - float(law.low)
            density = width / math.sqrt(2 * math.pi)
            return [Part(1.0, lambda x: (low + width * special.ndtr(x), density * np.exp(-(x**2) / 2)))]
        case LaplaceLaw():
            return [Part(1.0, _laplace(float(law.scale)))]
        case MixtureLaw():
            shares = [(float(share), _parts(inner)) for share, inner in zip(law.probabilities, law.laws, strict=True)]
            if all(parts is not None for _, parts in shares):
                return [Part(share * p.probability, p.at) for share, parts in shares if share > 0 for p in parts or ()]
    return None


def _affine(mean: float, deviation: float) -> Callable[[Array], tuple[Array, Array]]:
    return lambda x: (mean + deviation * x, np.full_like(x, deviation))


def _laplace(scale: float) -> Callable[[Array], tuple[Array, Array]]:
    def at(x: Array) -> tuple[Array, Array]:
        tail = special.log_ndtr(-np.abs(x))
        slope = scale * np.exp(-(x**2) / 2 - tail) / math.sqrt(2 * math.pi)
        return -np.sign(x) * scale * (math.log(2.0) + tail), slope

    return at
