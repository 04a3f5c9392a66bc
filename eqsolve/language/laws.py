"""The laws a user can name: points, densities, mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sympy import Expr, Tuple

from eqsolve.errors import ParameterError
from eqsolve.language.joint_laws import Component, Empirical, Product
from eqsolve.language.law import Law, exact_value
from eqsolve.language.source import here

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
    twin = "point"

    def __new__(cls, value: Any) -> Any:
        return cls._new(exact_value(value))


class Bernoulli(Law):
    """1 with probability p, else 0."""

    usage = "Bernoulli(p) with 0 <= p <= 1"
    twin = "bernoulli"

    def __new__(cls, p: Any) -> Any:
        return cls._new(exact_value(p))

    def _problem(self) -> str | None:
        return _probability(self.args[0])


class Rademacher(Law):
    """±1 with probability p/2 each, else 0."""

    usage = "Rademacher(p) with 0 <= p <= 1"
    twin = "rademacher"

    def __new__(cls, p: Any = 1) -> Any:
        return cls._new(exact_value(p))

    def _problem(self) -> str | None:
        return _probability(self.args[0])


class Discrete(Law):
    """Finitely many values with given probabilities."""

    usage = "Discrete([values], [probabilities])"
    twin = "discrete"

    def __new__(cls, values: Any, probabilities: Any) -> Any:
        if not all(isinstance(entry, Sequence | Tuple) for entry in (values, probabilities)):
            got = f"{values!r} and {probabilities!r}"
            raise ParameterError(f"{here()}law Discrete: got {got}; usage: {cls.usage}")
        return cls._new(Tuple(*map(exact_value, values)), Tuple(*map(exact_value, probabilities)))

    def _problem(self) -> str | None:
        values, probabilities = self.args
        if len(values) != len(probabilities) or not values:
            return f"{len(values)} values but {len(probabilities)} probabilities"
        return super()._problem()

    @property
    def numbers(self) -> tuple[Expr, ...]:
        return (*self.args[0], *self.args[1])

    def _sympystr(self, printer: Any) -> str:
        lists = (", ".join(printer._print(entry) for entry in arg) for arg in self.args)
        return f"Discrete({', '.join(f'[{entries}]' for entries in lists)})"


class Normal(Law):
    """Gaussian with given mean and variance (not standard deviation)."""

    usage = "Normal(mean, variance) with variance >= 0"
    twin = "Normal"

    def __new__(cls, mean: Any = 0, variance: Any = 1) -> Any:
        return cls._new(exact_value(mean), exact_value(variance))


class Uniform(Law):
    """Uniform on [a, b]."""

    usage = "Uniform(a, b) with a < b"
    twin = "Uniform"

    def __new__(cls, low: Any = 0, high: Any = 1) -> Any:
        return cls._new(exact_value(low), exact_value(high))


class Laplace(Law):
    """Density exp(-|x|/scale)/(2 scale)."""

    usage = "Laplace(scale) with scale > 0"
    twin = "Laplace"

    def __new__(cls, scale: Any = 1) -> Any:
        return cls._new(exact_value(scale))


class StudentT(Law):
    """Student's t with df degrees of freedom (unit scale, so variance df/(df-2) for df > 2)."""

    usage = "StudentT(df) with df > 0"
    twin = "StudentT"

    def __new__(cls, df: Any) -> Any:
        return cls._new(exact_value(df))


class GaussBernoulli(Law):
    """Centred Gaussian of the given variance with probability p, else 0."""

    usage = "GaussBernoulli(p, variance) with 0 <= p <= 1, variance >= 0"
    twin = "GaussBernoulli"

    def __new__(cls, p: Any, variance: Any = 1) -> Any:
        return cls._new(exact_value(p), exact_value(variance))


class MarchenkoPastur(Law):
    """Eigenvalues of (1/δ) XᵀX for an n × d matrix X of independent entries of variance 1/d, n/d → δ."""

    usage = "MarchenkoPastur(delta) with delta > 0"
    twin = "MarchenkoPastur"

    def __new__(cls, delta: Any) -> Any:
        return cls._new(exact_value(delta))


class Mixture(Law):
    """Mixture of laws: ``Mixture((0.3, Normal(0, 1)), (0.7, Point(0)))``."""

    usage = "Mixture((probability, law), (probability, law), ...)"
    twin = "mixture"

    def __new__(cls, *parts: Any) -> Any:
        for part in parts:
            if not (isinstance(part, Sequence | Tuple) and len(part) == 2 and isinstance(part[1], Law)):
                raise ParameterError(f"{here()}law Mixture: got {part!r} as a part; usage: {cls.usage}")
        return cls._new(*(Tuple(exact_value(weight), law) for weight, law in parts))

    @property
    def numbers(self) -> tuple[Expr, ...]:
        return tuple(weight for weight, _ in self.args)

    @property
    def parts(self) -> tuple[Law, ...]:
        return tuple(law for _, law in self.args)


def _probability(value: Expr) -> str | None:
    return None if 0 <= float(value) <= 1 else f"the probability must lie in [0, 1], got {value}"


def law_names() -> dict[str, type[Law]]:
    """Return the laws a user can name in ``--set``."""
    hidden = (Component, Law)
    found = {name: value for name, value in globals().items() if isinstance(value, type) and issubclass(value, Law)}
    return {name: value for name, value in found.items() if value not in hidden}
