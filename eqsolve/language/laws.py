"""The laws a user can name: points, densities, mixtures."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sympy import Tuple

from eqsolve.errors import ParameterError
from eqsolve.language.joint_laws import Component, Empirical, Product
from eqsolve.language.law import Law, exact_value, here, outside

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

__all__ = [
    "Bernoulli",
    "Component",
    "Discrete",
    "Empirical",
    "GaussBernoulli",
    "Laplace",
    "Law",
    "MarchenkoPastur",
    "Mixture",
    "Normal",
    "Point",
    "Product",
    "Rademacher",
    "StudentT",
    "Uniform",
    "law_names",
]


class Point(Law):
    """All mass at one value."""

    usage = "Point(value)"

    def __new__(cls, value: Any) -> Any:
        return cls._new(exact_value(value))

    def _problem(self) -> str | None:
        return None if self.args[0].is_finite else f"the value must be a finite number, got {self.args[0]}"

    def atoms_of(self) -> list[tuple[float, float]]:
        return [(self.numbers()[0], 1.0)]


class Bernoulli(Law):
    """1 with probability p, else 0."""

    usage = "Bernoulli(p) with 0 <= p <= 1"

    def __new__(cls, p: Any) -> Any:
        return cls._new(exact_value(p))

    def _problem(self) -> str | None:
        return f"the probability must lie in [0, 1], got {self.args[0]}" if outside(self.args[0], 0, 1) else None

    def atoms_of(self) -> list[tuple[float, float]]:
        (p,) = self.numbers()
        return [(0.0, 1 - p), (1.0, p)]


class Rademacher(Law):
    """±1 with probability p/2 each, else 0."""

    usage = "Rademacher(p) with 0 <= p <= 1"

    def __new__(cls, p: Any = 1) -> Any:
        return cls._new(exact_value(p))

    def _problem(self) -> str | None:
        return f"the probability must lie in [0, 1], got {self.args[0]}" if outside(self.args[0], 0, 1) else None

    def atoms_of(self) -> list[tuple[float, float]]:
        (p,) = self.numbers()
        outer = [(-1.0, p / 2), (1.0, p / 2)]
        return outer if p == 1 else [outer[0], (0.0, 1 - p), outer[1]]


class Discrete(Law):
    """Finitely many values with given probabilities."""

    usage = "Discrete([values], [probabilities])"

    def __new__(cls, values: Any, probabilities: Any) -> Any:
        if not all(isinstance(entry, Sequence | Tuple) for entry in (values, probabilities)):
            got = f"{values!r} and {probabilities!r}"
            raise ParameterError(f"{here()}law Discrete: got {got}; usage: {cls.usage}")
        return cls._new(Tuple(*map(exact_value, values)), Tuple(*map(exact_value, probabilities)))

    def _problem(self) -> str | None:
        values, probabilities = self.args
        if len(values) != len(probabilities) or not values:
            return f"{len(values)} values but {len(probabilities)} probabilities"
        if any(entry.free_symbols for entry in self.args):
            return None
        if any(outside(p, 0, 1) for p in probabilities):
            return "a probability lies outside [0, 1]"
        total = float(sum(probabilities))
        return None if abs(total - 1) < 1e-12 else f"the probabilities sum to {total:.12g}, not to 1"

    def _sympystr(self, printer: Any) -> str:
        lists = (", ".join(printer._print(entry) for entry in arg) for arg in self.args)
        return f"Discrete({', '.join(f'[{entries}]' for entries in lists)})"

    def atoms_of(self) -> list[tuple[float, float]]:
        return [(float(v), float(p)) for v, p in zip(self.args[0], self.args[1], strict=True)]


class Normal(Law):
    """Gaussian with given mean and variance (not standard deviation)."""

    usage = "Normal(mean, variance) with variance >= 0"

    def __new__(cls, mean: Any = 0, variance: Any = 1) -> Any:
        return cls._new(exact_value(mean), exact_value(variance))

    def _problem(self) -> str | None:
        return f"the variance must be >= 0, got {self.args[1]}" if outside(self.args[1], 0, None) else None

    def atoms_of(self) -> list[tuple[float, float]]:
        mean, variance = self.numbers()
        return [(mean, 1.0)] if variance == 0 else []

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        mean, variance = self.numbers()
        if variance == 0:
            return super().continuous_rule(order)
        nodes, weights = _hermite(order)
        return mean + variance**0.5 * nodes, weights

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        mean, variance = self.numbers()
        return mean + math.sqrt(variance) * rng.standard_normal(size)


class Uniform(Law):
    """Uniform on [a, b]."""

    usage = "Uniform(a, b) with a < b"

    def __new__(cls, low: Any = 0, high: Any = 1) -> Any:
        return cls._new(exact_value(low), exact_value(high))

    def _problem(self) -> str | None:
        low, high = self.numbers()
        return None if low < high else f"the ends must be increasing, got [{self.args[0]}, {self.args[1]}]"

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        from scipy.special import roots_legendre

        low, high = self.numbers()
        nodes, weights = roots_legendre(order)
        return low + (high - low) * (nodes + 1) / 2, weights / 2

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        low, high = self.numbers()
        return rng.uniform(low, high, size)


class Laplace(Law):
    """Density exp(-|x|/scale)/(2 scale)."""

    usage = "Laplace(scale) with scale > 0"

    def __new__(cls, scale: Any = 1) -> Any:
        return cls._new(exact_value(scale))

    def _problem(self) -> str | None:
        return None if self.numbers()[0] > 0 else f"the scale must be > 0, got {self.args[0]}"

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        import numpy as np
        from scipy.special import roots_laguerre

        nodes, weights = roots_laguerre(min(order, 180))
        nodes = self.numbers()[0] * nodes
        return np.concatenate([-nodes[::-1], nodes]), np.concatenate([weights[::-1], weights]) / 2

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return rng.laplace(0.0, self.numbers()[0], size)


class StudentT(Law):
    """Student's t with df degrees of freedom (unit scale, so variance df/(df-2) for df > 2)."""

    usage = "StudentT(df) with df > 0"

    def __new__(cls, df: Any) -> Any:
        return cls._new(exact_value(df))

    def _problem(self) -> str | None:
        return None if self.numbers()[0] > 0 else f"the degrees of freedom must be > 0, got {self.args[0]}"

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        # x = sqrt(df) u / sqrt(1 - u^2) has density proportional to (1 - u^2)^(df/2 - 1) in u: a Gauss-Jacobi weight
        from scipy.special import roots_jacobi

        (df,) = self.numbers()
        nodes, weights = roots_jacobi(order, df / 2 - 1, df / 2 - 1)
        return df**0.5 * nodes / (1 - nodes**2) ** 0.5, weights / weights.sum()

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return rng.standard_t(self.numbers()[0], size)


class GaussBernoulli(Law):
    """Centred Gaussian of the given variance with probability p, else 0."""

    usage = "GaussBernoulli(p, variance) with 0 <= p <= 1, variance >= 0"

    def __new__(cls, p: Any, variance: Any = 1) -> Any:
        return cls._new(exact_value(p), exact_value(variance))

    def _problem(self) -> str | None:
        if outside(self.args[0], 0, 1):
            return f"the probability must lie in [0, 1], got {self.args[0]}"
        return f"the variance must be >= 0, got {self.args[1]}" if outside(self.args[1], 0, None) else None

    def atoms_of(self) -> list[tuple[float, float]]:
        p, variance = self.numbers()
        mass = 1.0 if variance == 0 else 1 - p
        return [(0.0, mass)] if mass > 0 else []

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        p, variance = self.numbers()
        if p == 0 or variance == 0:
            return super().continuous_rule(order)
        nodes, weights = _hermite(order)
        return variance**0.5 * nodes, p * weights

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        p, variance = self.numbers()
        return math.sqrt(variance) * rng.standard_normal(size) * (rng.random(size) < p)


class MarchenkoPastur(Law):
    """Eigenvalues of (1/δ) XᵀX for an n × d matrix X of independent entries of variance 1/d, n/d → δ."""

    usage = "MarchenkoPastur(delta) with delta > 0"

    def __new__(cls, delta: Any) -> Any:
        return cls._new(exact_value(delta))

    def _problem(self) -> str | None:
        return None if self.numbers()[0] > 0 else f"delta must be > 0, got {self.args[0]}"

    def _spectrum(self) -> Any:
        from eqsolve.spectra import MarchenkoPastur as Spectrum

        return Spectrum(self.numbers()[0])

    def atoms_of(self) -> list[tuple[float, float]]:
        mass = float(self._spectrum().atom)
        return [(0.0, mass)] if mass > 0 else []

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        nodes, weights = self._spectrum().quadrature(order)
        keep = nodes > 0 if self.numbers()[0] < 1 else nodes == nodes
        return nodes[keep], weights[keep]

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        return self._spectrum().sample(size, rng)


class Mixture(Law):
    """Mixture of laws: ``Mixture((0.3, Normal(0, 1)), (0.7, Point(0)))``."""

    usage = "Mixture((probability, law), (probability, law), ...)"

    def __new__(cls, *parts: Any) -> Any:
        for part in parts:
            if not (isinstance(part, Sequence | Tuple) and len(part) == 2 and isinstance(part[1], Law)):
                raise ParameterError(f"{here()}law Mixture: got {part!r} as a part; usage: {cls.usage}")
        return cls._new(*(Tuple(exact_value(weight), law) for weight, law in parts))

    def _problem(self) -> str | None:
        weights = [part[0] for part in self.args]
        if not weights:
            return "no part given"
        if any(weight.free_symbols for weight in weights):
            return None
        if any(outside(weight, 0, 1) for weight in weights):
            return "a probability lies outside [0, 1]"
        total = float(sum(weights))
        return None if abs(total - 1) < 1e-12 else f"the probabilities sum to {total:.12g}, not to 1"

    def atoms_of(self) -> list[tuple[float, float]]:
        masses: dict[float, float] = {}
        for weight, law in self.args:
            for value, probability in law.atoms_of():
                masses[value] = masses.get(value, 0.0) + float(weight) * probability
        return list(masses.items())

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        import numpy as np

        rules = [(float(weight), law.continuous_rule(order)) for weight, law in self.args]
        return (
            np.concatenate([rule[0] for _, rule in rules]),
            np.concatenate([weight * rule[1] for weight, rule in rules]),
        )

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        import numpy as np

        choice = rng.choice(len(self.args), size=size, p=[float(weight) for weight, _ in self.args])
        draws = np.stack([law.sample(rng, size) for _, law in self.args])
        return np.asarray(draws[choice, np.arange(size)])


@functools.lru_cache(maxsize=64)
def _hermite(order: int) -> tuple[Array, Array]:
    from scipy.special import roots_hermitenorm

    nodes, weights = roots_hermitenorm(order)
    keep = weights > 0
    return nodes[keep], weights[keep] / weights.sum()


def law_names() -> dict[str, type[Law]]:
    """Return the laws a user can name in ``--set``."""
    hidden = (Component, Law)
    found = {name: value for name, value in globals().items() if isinstance(value, type) and issubclass(value, Law)}
    return {name: value for name, value in found.items() if value not in hidden}


