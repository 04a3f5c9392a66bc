"""Laws of random constants: atoms exactly, densities by Gauss quadrature, exact sampling.

A law is a sympy object: its parameters may be symbols, and are numbers once the model's parameters are bound.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sympy import Basic, Expr, Rational, SympifyError, Tuple, sympify

from eqsolve.errors import ParameterError
from eqsolve.language.source import user_location

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


def _here() -> str:
    location = user_location()
    return f"{location}: " if location else ""


def _exact(value: Any) -> Any:
    """Turn a decimal such as 0.1 into the rational the user means; leave everything else to sympy.

    Text is refused: sympy would evaluate it as Python code.
    """
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return Rational(repr(float(value)))
    try:
        return sympify(value, strict=True)
    except SympifyError:
        raise ParameterError(f"{_here()}expected a number or an expression, got {value!r}") from None


class Law(Basic):
    """Base of all laws.

    A subclass states its parameters in ``__new__`` and what it demands of them in ``_problem``. It offers the
    atoms and a Gauss rule for its continuous part; everything else follows.
    """

    dimension: int = 1
    usage: ClassVar[str] = ""

    @classmethod
    def _new(cls, *args: Any) -> Any:
        law = Basic.__new__(cls, *args)
        law.validate()
        return law

    def validate(self) -> None:
        """Raise a ParameterError when the parameters are numbers and out of range."""
        if all(not arg.free_symbols and not arg.has(*_unevaluated()) for arg in self.args if isinstance(arg, Expr)):
            problem = self._unusable() or self._problem()
            if problem:
                raise ParameterError(f"{_here()}law {self}: {problem}; usage: {self.usage}")

    def _unusable(self) -> str | None:
        numbers = [item for arg in self.args for item in (arg if isinstance(arg, Tuple) else (arg,))]
        odd = [item for item in numbers if isinstance(item, Expr) and not (item.is_real and item.is_finite)]
        odd = [item for item in odd if not item.free_symbols]
        return f"a parameter must be a finite real number, got {odd[0]}" if odd else None

    def _problem(self) -> str | None:
        return None

    def _sympystr(self, printer: Any) -> str:
        return f"{type(self).__name__}({', '.join(printer._print(arg) for arg in self.args)})"

    def _latex(self, printer: Any) -> str:
        return rf"\mathrm{{{type(self).__name__}}}({', '.join(printer._print(arg) for arg in self.args)})"

    def numbers(self) -> list[float]:
        """Return the parameters as floats; only for a law whose parameters are bound."""
        return [float(arg) for arg in self.args]

    def atoms_of(self) -> list[tuple[float, float]]:
        """Return the (value, probability) pairs of the point masses."""
        return []

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        """Return nodes and weights of a Gauss rule for the part with a density (weights sum to its mass)."""
        import numpy as np

        return np.empty(0), np.empty(0)

    def rule(self, order: int) -> tuple[Array, Array]:
        """Return nodes and weights of a quadrature for the whole law: atoms exactly, the density by ``order`` nodes."""
        import numpy as np

        atoms = np.array(self.atoms_of(), dtype=float).reshape(-1, 2)
        nodes, weights = self.continuous_rule(order)
        return np.concatenate([atoms[:, 0], nodes]), np.concatenate([atoms[:, 1], weights])

    @property
    def has_density(self) -> bool:
        """Whether a part of the law is continuous, so that a rule has a quadrature error."""
        return self.continuous_rule(2)[0].size > 0

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` independent values."""
        import numpy as np

        values, probabilities = self.rule(2)
        return np.asarray(rng.choice(values, size=size, p=probabilities / probabilities.sum()), dtype=float)

    def component(self, index: int, names: tuple[str, ...]) -> Law:
        """Return the law of one component of a joint law."""
        law: Law = Component(self, index, names)
        return law


def _unevaluated() -> tuple[type, ...]:
    from eqsolve.language.nodes import E

    return (E,)


def _outside(value: Expr, low: float | None, high: float | None) -> bool:
    number = float(value)
    return number != number or (low is not None and number < low) or (high is not None and number > high)


class Point(Law):
    """All mass at one value."""

    usage = "Point(value)"

    def __new__(cls, value: Any) -> Any:
        return cls._new(_exact(value))

    def _problem(self) -> str | None:
        return None if self.args[0].is_finite else f"the value must be a finite number, got {self.args[0]}"

    def atoms_of(self) -> list[tuple[float, float]]:
        return [(self.numbers()[0], 1.0)]


class Bernoulli(Law):
    """1 with probability p, else 0."""

    usage = "Bernoulli(p) with 0 <= p <= 1"

    def __new__(cls, p: Any) -> Any:
        return cls._new(_exact(p))

    def _problem(self) -> str | None:
        return f"the probability must lie in [0, 1], got {self.args[0]}" if _outside(self.args[0], 0, 1) else None

    def atoms_of(self) -> list[tuple[float, float]]:
        (p,) = self.numbers()
        return [(0.0, 1 - p), (1.0, p)]


class Rademacher(Law):
    """±1 with probability p/2 each, else 0."""

    usage = "Rademacher(p) with 0 <= p <= 1"

    def __new__(cls, p: Any = 1) -> Any:
        return cls._new(_exact(p))

    def _problem(self) -> str | None:
        return f"the probability must lie in [0, 1], got {self.args[0]}" if _outside(self.args[0], 0, 1) else None

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
            raise ParameterError(f"{_here()}law Discrete: got {got}; usage: {cls.usage}")
        return cls._new(Tuple(*map(_exact, values)), Tuple(*map(_exact, probabilities)))

    def _problem(self) -> str | None:
        values, probabilities = self.args
        if len(values) != len(probabilities) or not values:
            return f"{len(values)} values but {len(probabilities)} probabilities"
        if any(entry.free_symbols for entry in self.args):
            return None
        if any(_outside(p, 0, 1) for p in probabilities):
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
        return cls._new(_exact(mean), _exact(variance))

    def _problem(self) -> str | None:
        return f"the variance must be >= 0, got {self.args[1]}" if _outside(self.args[1], 0, None) else None

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
        return cls._new(_exact(low), _exact(high))

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
        return cls._new(_exact(scale))

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
        return cls._new(_exact(df))

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
        return cls._new(_exact(p), _exact(variance))

    def _problem(self) -> str | None:
        if _outside(self.args[0], 0, 1):
            return f"the probability must lie in [0, 1], got {self.args[0]}"
        return f"the variance must be >= 0, got {self.args[1]}" if _outside(self.args[1], 0, None) else None

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
        return cls._new(_exact(delta))

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
                raise ParameterError(f"{_here()}law Mixture: got {part!r} as a part; usage: {cls.usage}")
        return cls._new(*(Tuple(_exact(weight), law) for weight, law in parts))

    def _problem(self) -> str | None:
        weights = [part[0] for part in self.args]
        if not weights:
            return "no part given"
        if any(weight.free_symbols for weight in weights):
            return None
        if any(_outside(weight, 0, 1) for weight in weights):
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


class Empirical(Law):
    """The empirical law of a sample: a file (CSV, text or NPY) or a list; several columns give a joint law."""

    usage = "Empirical('file.csv') or Empirical([values])"
    values: Array
    label: str

    def __new__(cls, source: Any) -> Any:
        import numpy as np

        label = str(source) if isinstance(source, str | Path) else ""
        if label:
            values = _read_sample(Path(label))
        else:
            try:
                values = np.array([[float(x) for x in np.atleast_1d(row)] for row in source], dtype=float)
            except (TypeError, ValueError) as error:
                raise ParameterError(f"{_here()}law Empirical: {error}; usage: {cls.usage}") from None
        if values.size == 0 or not np.isfinite(values).all():
            raise ParameterError(
                f"{_here()}law Empirical({label!r}): the sample is empty or holds NaN or infinite values"
            )
        law = Basic.__new__(cls)
        law.values = values.reshape(len(values), -1)
        law.label = label
        law.dimension = law.values.shape[1]
        return law

    def __reduce__(self) -> Any:
        return (Empirical, (self.values.tolist(),))

    def _hashable_content(self) -> tuple[Any, ...]:
        return (hashlib.sha256(self.values.tobytes()).hexdigest(), self.values.shape)

    def _sympystr(self, printer: Any) -> str:
        return f"Empirical({self.label!r})" if self.label else f"Empirical(<{len(self.values)} values>)"

    def _latex(self, printer: Any) -> str:
        return rf"\mathrm{{Empirical}}_{{{len(self.values)}}}"

    def atoms_of(self) -> list[tuple[float, float]]:
        import numpy as np

        if self.dimension > 1:
            raise ParameterError(
                f"{_here()}law {self} is joint, with {self.dimension} columns; declare that many names with it"
            )
        values, counts = np.unique(self.values[:, 0], return_counts=True)
        return [(float(v), float(c) / len(self.values)) for v, c in zip(values, counts, strict=True)]


class Product(Law):
    """Independent components: ``u0, v0 = random("u0 v0", Product(Normal(0, 1), Point(1)))``."""

    usage = "Product(law, law, ...)"

    def __new__(cls, *laws: Any) -> Any:
        if not laws or not all(isinstance(law, Law) for law in laws):
            raise ParameterError(f"{_here()}law Product: got {laws!r}; usage: {cls.usage}")
        law = cls._new(*laws)
        law.dimension = len(laws)
        return law

    def component(self, index: int, names: tuple[str, ...]) -> Law:
        return self.args[index]


class Component(Law):
    """One component of a joint sample; variables that share the joint law are drawn together."""

    usage = "declared by random('a b', joint law)"
    group: tuple[str, ...]

    def __new__(cls, joint: Any, index: Any, group: tuple[str, ...]) -> Any:
        law = Basic.__new__(cls, joint, sympify(index))
        law.group = group
        return law

    def __getnewargs__(self) -> Any:
        return (*self.args, self.group)

    def _hashable_content(self) -> tuple[Any, ...]:
        return (*self.args, self.group)

    @property
    def joint(self) -> Empirical:
        return self.args[0]

    @property
    def index(self) -> int:
        return int(self.args[1])

    def atoms_of(self) -> list[tuple[float, float]]:
        return Empirical(self.joint.values[:, [self.index]].tolist()).atoms_of()


def _read_sample(path: Path) -> Array:
    import numpy as np

    if not path.is_file():
        problem = f"there is no file {str(path)!r}"
        raise ParameterError(f"{_here()}law Empirical: {problem}; usage: {Empirical.usage}")
    try:
        if path.suffix == ".npy":
            values = np.load(path, allow_pickle=False)
        else:
            text = path.read_text().replace(",", " ")
            rows = [[float(entry) for entry in line.split()] for line in text.splitlines() if line.strip()]
            values = np.array(rows, dtype=float)
        return np.asarray(values, dtype=float).reshape(len(values), -1)
    except (ValueError, OSError, UnicodeDecodeError, TypeError) as error:
        problem = f"{str(path)!r} does not hold a table of numbers: {error}"
        raise ParameterError(f"{_here()}law Empirical: {problem}") from None


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


