"""The laws a user can name: points, densities, mixtures."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sympy import Basic, Dict, Expr, Rational, SympifyError, Tuple, sympify
from sympy.logic.boolalg import BooleanAtom

from eqsolve.errors import ParameterError
from eqsolve.language.nodes import E
from eqsolve.language.source import here

if TYPE_CHECKING:
    import numpy as np

    from eqsolve.numerics import laws as numeric
    from eqsolve.numerics.arrays import Array


# --- What every law of a random constant offers: a declaration that is checked, and its numeric twin.
#
# A law is a sympy object: its parameters may be symbols, and are numbers once the model's parameters are bound. What is
# computed with it, atoms, Gauss rules, samples, is its twin's in `eqsolve.numerics.laws`.
def exact_value(value: Any) -> Any:
    """Turn a decimal such as 0.1 into the rational the user means; leave everything else to sympy.

    Text is refused: sympy would evaluate it as Python code.
    """
    if isinstance(value, float) and value == value and abs(value) != float("inf"):
        return Rational(repr(float(value)))
    try:
        return sympify(value, strict=True)
    except (SympifyError, TypeError):
        raise ParameterError(f"{here()}expected a number or an expression, got {value!r}") from None


class Law(Basic):
    """Base of all laws.

    A subclass states its parameters in ``__new__`` and names in ``twin`` what makes the numeric law of them: a name in
    `eqsolve.numerics.laws`, called with the numbers and then with the laws of the parts. The twin knows the rest.
    """

    dimension: int = 1
    usage: ClassVar[str] = ""
    twin: ClassVar[str] = ""

    @classmethod
    def _new(cls, *args: Any) -> Any:
        law = Basic.__new__(cls, *args)
        law.validate()
        return law

    def validate(self) -> None:
        """Raise a ParameterError when the parameters are numbers and out of range."""
        if all(not arg.free_symbols and not arg.has(E) for arg in self.args if isinstance(arg, Expr)):
            try:
                problem = self._unusable() or self._problem()
            except TypeError:  # a list, say, where a number belongs
                problem = "its parameters must be numbers"
            if problem:
                raise ParameterError(f"{here()}law {self}: {problem}; usage: {self.usage}")

    def _unusable(self) -> str | None:
        numbers = [item for arg in self.args for item in (arg if isinstance(arg, Tuple) else (arg,))]
        strange = [item for item in numbers if isinstance(item, Dict | BooleanAtom)]
        if strange:
            return f"a parameter must be a number, got {strange[0]}"
        odd = [item for item in numbers if isinstance(item, Expr) and not (item.is_real and item.is_finite)]
        odd = [item for item in odd if not item.free_symbols]
        return f"a parameter must be a finite real number, got {odd[0]}" if odd else None

    def _problem(self) -> str | None:
        if any(item.free_symbols or item.has(E) for item in self.numbers):
            return None
        return self.make()(*map(float, self.numbers), *self.parts).problem()  # the parts have been looked at themselves

    def _sympystr(self, printer: Any) -> str:
        return f"{type(self).__name__}({', '.join(printer._print(arg) for arg in self.args)})"

    def _latex(self, printer: Any) -> str:
        return rf"\mathrm{{{type(self).__name__}}}({', '.join(printer._print(arg) for arg in self.args)})"

    @property
    def numbers(self) -> tuple[Expr, ...]:
        """The parameters, in the order in which the numeric twin takes them."""
        return self.args

    @property
    def parts(self) -> tuple[Law, ...]:
        """The laws this one is made of."""
        return ()

    def make(self) -> Any:
        """Return what makes the numeric law of numbers and parts."""
        from eqsolve.numerics import laws

        return getattr(laws, self.twin)

    def numeric(self, digits: int | None = None) -> numeric.Law:
        """Return the law in floats, or in mpmath's numbers of some digits; only once the parameters are bound."""
        made: dict[int | None, numeric.Law] = self.__dict__.setdefault("_numeric", {})
        if digits not in made:
            make, parts = self.make(), [part.numeric(digits) for part in self.parts]
            if digits is None:
                made[digits] = make(*map(float, self.numbers), *parts)
            else:
                import mpmath

                with mpmath.workdps(digits):
                    made[digits] = make(*(mpmath.mpf(str(item.evalf(digits))) for item in self.numbers), *parts)
        return made[digits]

    def atoms_of(self) -> list[tuple[float, float]]:
        """Return the (value, probability) pairs of the point masses."""
        return self.numeric().atoms_of()

    def continuous_rule(self, order: int) -> tuple[Array, Array]:
        """Return nodes and weights of a Gauss rule for the part with a density (weights sum to its mass)."""
        return self.numeric().continuous_rule(order)

    def rule(self, order: int) -> tuple[Array, Array]:
        """Return nodes and weights of a quadrature for the whole law: atoms exactly, the density by ``order`` nodes."""
        return self.numeric().rule(order)

    @property
    def has_density(self) -> bool:
        """Whether a part of the law is continuous, so that a rule has a quadrature error."""
        return self.numeric().has_density

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        """Draw ``size`` independent values."""
        return self.numeric().sample(rng, size)


# --- Laws of several constants at once: samples, and independent components.
class Empirical(Law):
    """The empirical law of a sample: a file (CSV, text or NPY) or a list; several columns give a joint law."""

    usage = "Empirical('file.csv') or Empirical([values])"
    twin = "Empirical"
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
                raise ParameterError(f"{here()}law Empirical: {error}; usage: {cls.usage}") from None
        if values.size == 0 or not np.isfinite(values).all():
            raise ParameterError(f"{here()}law Empirical({label!r}): the sample is empty or holds NaN or infinite values")
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

    def make(self) -> Any:
        if self.dimension > 1:
            raise ParameterError(
                f"{here()}law {self} is joint, with {self.dimension} columns; declare that many names with it"
            )
        return functools.partial(super().make(), self.values[:, 0])

    def component(self, index: int, names: tuple[str, ...]) -> Law:
        """Return the law of one component."""
        return Component(self, index, names)


class Product(Law):
    """Independent components: ``u0, v0 = random("u0 v0", Product(Normal(0, 1), Point(1)))``."""

    usage = "Product(law, law, ...)"

    def __new__(cls, *laws: Any) -> Any:
        if not laws or not all(isinstance(law, Law) for law in laws):
            raise ParameterError(f"{here()}law Product: got {laws!r}; usage: {cls.usage}")
        law = cls._new(*laws)
        law.dimension = len(laws)
        return law

    def _problem(self) -> str | None:
        return None

    def make(self) -> Any:
        raise ParameterError(f"{here()}law {self} is joint, of {self.dimension} constants; declare that many names with it")

    def component(self, index: int, names: tuple[str, ...]) -> Law:
        """Return the law of one component."""
        return self.args[index]


class Component(Law):
    """One component of a joint sample; variables that share the joint law are drawn together."""

    usage = "declared by random('a b', joint law)"
    twin = "Component"
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
    def numbers(self) -> tuple[Any, ...]:
        return ()

    def make(self) -> Any:
        return functools.partial(super().make(), self.joint.values, int(self.args[1]), self.group)


def _read_sample(path: Path) -> Array:
    import numpy as np

    if not path.is_file():
        problem = f"there is no file {str(path)!r}"
        raise ParameterError(f"{here()}law Empirical: {problem}; usage: {Empirical.usage}")
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
        raise ParameterError(f"{here()}law Empirical: {problem}") from None


# --- The laws a user can name: points, densities, mixtures.
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
