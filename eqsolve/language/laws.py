"""The laws a user can name: of random constants (points, densities, mixtures), and of noises."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, ClassVar

import mpmath
import numpy as np
from sympy import Abs, Add, Basic, Dict, Eq, Expr, Piecewise, Rational, S, Symbol, SympifyError, Tuple, digamma, log, sympify
from sympy.logic.boolalg import BooleanAtom

from eqsolve.errors import ModelError, ParameterError
from eqsolve.language.nodes import E, NoiseLaw
from eqsolve.language.source import here
from eqsolve.language.symbols import Process, as_expression, part
from eqsolve.numerics import laws as numeric
from eqsolve.numerics.arrays import Array

__all__ = [
    "Bernoulli", "Discrete", "Empirical", "GaussBernoulli", "Laplace", "MarchenkoPastur", "Mixture", "Normal", "Point",
    "Product", "Rademacher", "StudentT", "Uniform",
]  # fmt: skip


# --- What every law of a random constant offers: a declaration that is checked. Its parameters may be
# symbols. What is computed with it is its numeric twin's in `eqsolve.numerics.laws`.
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


def exact_start(value: Any) -> Any:
    """Return a law, or nothing, as it is, and a value exactly."""
    return value if value is None or isinstance(value, Law) else exact_value(value)


REQUIRED = Parameter.empty


class Law(Basic):
    """Base of all laws.

    A subclass names its numbers with their defaults, ``class Normal(Law, mean=0, variance=1)``, or has
    a ``__new__`` of its own. ``two_moments`` gives E[x] and E[x²] of the numbers, ``scores`` of x and the numbers
    ∂log ρ(x)/∂a for every number a, where there are closed forms. ``twin``, a name in `eqsolve.numerics.laws`, makes the
    numeric law of the numbers and of the laws of the parts; the law's own name and `Law` unless given.
    """

    dimension: int = 1
    usage: ClassVar[str] = ""
    twin: ClassVar[str] = ""
    two_moments: ClassVar[Callable[..., tuple[Expr, Expr]] | None] = None
    scores: ClassVar[Callable[..., tuple[Expr, ...]] | None] = None
    __signature__: ClassVar[Signature]

    def __init_subclass__(cls, **numbers: Any) -> None:
        super().__init_subclass__()
        cls.twin = cls.__dict__.get("twin", f"{cls.__name__}Law")
        if numbers:
            taken = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=value) for name, value in numbers.items()]
            cls.__signature__ = Signature(taken)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        given = cls.__signature__.bind(*args, **kwargs)
        given.apply_defaults()
        return cls._new(*map(exact_value, given.args))

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
        for item in [item for arg in self.args for item in (arg if isinstance(arg, Tuple) else [arg])]:
            if isinstance(item, Dict | BooleanAtom):
                return f"a parameter must be a number, got {item}"
            if isinstance(item, Expr) and not item.free_symbols and not (item.is_real and item.is_finite):
                return f"a parameter must be a finite real number, got {item}"
        return None

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

    def moments(self) -> tuple[Expr, Expr] | None:
        """Return E[x] and E[x²] where there is a closed form."""
        return self.two_moments(*self.args) if self.two_moments is not None else None

    def score(self, x: Expr, parameter: Symbol) -> Expr | None:
        """Return ∂log ρ(x)/∂parameter, or None where it is not known."""
        scores = self.scores(x, *self.args) if self.scores is not None else ()
        pairs = zip(scores, (number.diff(parameter) for number in self.args), strict=True) if scores else ()
        return Add(*(score * slope for score, slope in pairs if slope != 0)) if scores else None

    def make(self) -> Any:
        """Return what makes the numeric law of numbers and parts."""
        return getattr(numeric, self.twin)

    def numeric(self, digits: int | None = None) -> numeric.NumericLaw:
        """Return the law in floats, or in mpmath's numbers of some digits; only once the parameters are bound."""
        cache: dict[int | None, numeric.NumericLaw] = self.__dict__.setdefault("_numeric", {})
        if digits not in cache:
            make, parts = self.make(), [part.numeric(digits) for part in self.parts]
            if digits is None:
                cache[digits] = make(*map(float, self.numbers), *parts)
            else:
                with mpmath.workdps(digits):
                    cache[digits] = make(*(mpmath.mpf(str(item.evalf(digits))) for item in self.numbers), *parts)
        return cache[digits]


# --- Laws of several constants at once: samples, and independent components.
class Empirical(Law):
    """The empirical law of a sample: a file (CSV, text or NPY) or a list; several columns give a joint law."""

    usage = "Empirical('file.csv') or Empirical([values])"
    twin = "SampleLaw"
    values: Array
    label: str

    def __new__(cls, source: Any) -> Any:
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
        return Marginal(self, index, names)


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


class Marginal(Law):
    """The marginal law of one component of a joint sample; components are drawn together."""

    usage = "declared by random('a b', joint law)"
    twin = "Component"
    group: tuple[str, ...]

    def __new__(cls, joint: Any, index: Any, group: tuple[str, ...]) -> Any:
        law = Basic.__new__(cls, joint, sympify(index))
        law.group = group
        return law

    def __getnewargs__(self) -> Any:
        return (*self.args, self.group)

    _hashable_content = __getnewargs__

    @property
    def joint(self) -> Empirical:
        return self.args[0]

    @property
    def numbers(self) -> tuple[Any, ...]:
        return ()

    def make(self) -> Any:
        return functools.partial(super().make(), self.joint.values, int(self.args[1]), self.group)


def _read_sample(path: Path) -> Array:
    if not path.is_file():
        problem = f"there is no file {str(path)!r}"
        raise ParameterError(f"{here()}law Empirical: {problem}; usage: {Empirical.usage}")
    try:
        values = np.asarray(read_numbers(path), dtype=float)
        return values.reshape(len(values), -1)
    except (ValueError, OSError, UnicodeDecodeError, TypeError) as error:
        problem = f"{str(path)!r} does not hold a table of numbers: {error}"
        raise ParameterError(f"{here()}law Empirical: {problem}") from None


def read_numbers(path: Path) -> Any:
    """Return the numbers of a file, row by row: those of numpy's own format, or separated by commas or blanks."""
    if path.suffix == ".npy":
        return np.load(path, allow_pickle=False)
    lines = (line.replace(",", " ").split() for line in path.read_text().splitlines())
    return [[float(entry) for entry in words] for words in lines if words]


class Point(Law, value=REQUIRED):
    """All mass at one value."""

    usage = "Point(value)"
    twin = "point"
    two_moments = staticmethod(lambda value: (value, value**2))


class Bernoulli(Law, p=REQUIRED):
    """1 with probability p, else 0."""

    usage = "Bernoulli(p) with 0 <= p <= 1"
    twin = "bernoulli"
    two_moments = staticmethod(lambda p: (p, p))
    scores = staticmethod(lambda x, p: (x / p - (1 - x) / (1 - p),))


class Rademacher(Law, p=1):
    """±1 with probability p/2 each, else 0."""

    usage = "Rademacher(p) with 0 <= p <= 1"
    twin = "rademacher"
    two_moments = staticmethod(lambda p: (S.Zero, p))
    scores = staticmethod(lambda x, p: (x**2 / p - (1 - x**2) / (1 - p),))


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

    def score(self, x: Expr, parameter: Symbol) -> Expr | None:
        values, chances = self.args
        if parameter in values.free_symbols:
            return None
        pairs = [(chance.diff(parameter) / chance, Eq(x, at)) for at, chance in zip(values, chances, strict=True)]
        return Piecewise(*pairs, (S.Zero, True))

    def _sympystr(self, printer: Any) -> str:
        lists = (", ".join(printer._print(entry) for entry in arg) for arg in self.args)
        return f"Discrete({', '.join(f'[{entries}]' for entries in lists)})"


class Normal(Law, mean=0, variance=1):
    """Gaussian with given mean and variance (not standard deviation)."""

    usage = "Normal(mean, variance) with variance >= 0"
    two_moments = staticmethod(lambda mean, variance: (mean, variance + mean**2))
    scores = staticmethod(lambda x, mean, v: ((x - mean) / v, ((x - mean) ** 2 / v - 1) / (2 * v)))


class Uniform(Law, low=0, high=1):
    """Uniform on [a, b]."""

    usage = "Uniform(a, b) with a < b"
    two_moments = staticmethod(lambda a, b: ((a + b) / 2, (a**2 + a * b + b**2) / 3))


class Laplace(Law, scale=1):
    """Density exp(-|x|/scale)/(2 scale)."""

    usage = "Laplace(scale) with scale > 0"
    two_moments = staticmethod(lambda scale: (S.Zero, 2 * scale**2))
    scores = staticmethod(lambda x, scale: ((Abs(x) / scale - 1) / scale,))


class StudentT(Law, df=REQUIRED):
    """Student's t with df degrees of freedom (unit scale, so variance df/(df-2) for df > 2)."""

    usage = "StudentT(df) with df > 0"

    @staticmethod
    def scores(x: Expr, df: Expr) -> tuple[Expr, ...]:
        of_norm = digamma((df + 1) / 2) - digamma(df / 2) - 1 / df
        return ((of_norm - log(1 + x**2 / df) + (df + 1) * x**2 / (df * (df + x**2))) / 2,)


class GaussBernoulli(Law, p=REQUIRED, variance=1):
    """Centred Gaussian of the given variance with probability p, else 0."""

    usage = "GaussBernoulli(p, variance) with 0 <= p <= 1, variance >= 0"
    twin = "gauss_bernoulli"
    two_moments = staticmethod(lambda p, variance: (S.Zero, p * variance))

    @staticmethod
    def scores(x: Expr, p: Expr, variance: Expr) -> tuple[Expr, ...]:
        scale = (x**2 / variance - 1) / (2 * variance)
        return Piecewise((-1 / (1 - p), Eq(x, 0)), (1 / p, True)), Piecewise((S.Zero, Eq(x, 0)), (scale, True))


class MarchenkoPastur(Law, delta=REQUIRED):
    """Eigenvalues of (1/δ) XᵀX for an n × d matrix X of independent entries of variance 1/d, n/d → δ."""

    usage = "MarchenkoPastur(delta) with delta > 0"


class Mixture(Law):
    """Mixture of laws: ``Mixture((0.3, Normal(0, 1)), (0.7, Point(0)))``."""

    usage = "Mixture((probability, law), (probability, law), ...)"
    twin = "mixture"

    def __new__(cls, *parts: Any) -> Any:
        for pair in parts:
            if not (isinstance(pair, Sequence | Tuple) and len(pair) == 2 and isinstance(pair[1], Law)):
                raise ParameterError(f"{here()}law Mixture: got {pair!r} as a part; usage: {cls.usage}")
        return cls._new(*(Tuple(exact_value(weight), law) for weight, law in parts))

    @property
    def numbers(self) -> tuple[Expr, ...]:
        return tuple(weight for weight, _ in self.args)

    @property
    def parts(self) -> tuple[Law, ...]:
        return tuple(law for _, law in self.args)


def law_names() -> dict[str, type[Law]]:
    """Return the laws a user can name in ``--set``."""
    return {name: globals()[name] for name in __all__}


# --- Laws of driving processes in discrete time; `GP` and `White` are in `nodes`.
class Telegraph(NoiseLaw):
    """Law of a signal that is 0 or 1: ``Telegraph(b, tau)`` is 1 with probability b.

    Its covariance is ``b (1 − b) exp(−|t − t'|/tau)``.

    A sample whose signal is 1 is in the batch; it stays there for a time tau/(1 − b) on average.
    """

    share: Expr = part(0)
    time: Expr = part(1)

    def __new__(cls, b: Any, tau: Any) -> Telegraph:
        share, time = as_expression(b, "Telegraph"), as_expression(tau, "Telegraph")
        if share.is_number and not (share.is_real and 0 <= share <= 1):
            raise ModelError(f"{here()}Telegraph(b, tau) takes a probability b from 0 to 1, got `{share}`")
        if time.is_number and not (time.is_real and time.is_finite and time > 0):
            raise ModelError(f"{here()}Telegraph(b, tau) takes a positive time tau, got `{time}`")
        return Basic.__new__(cls, share, time)


class Resampled(NoiseLaw):
    """Law of a noise that is drawn afresh at every step of discrete time: ``Resampled(Bernoulli(b))``.

    It has a meaning with the option ``step=`` only.
    """

    law: Law = part(0)

    def __new__(cls, law: Any) -> Resampled:
        if not isinstance(law, Law) or law.dimension != 1:
            raise ModelError(
                f"{here()}Resampled takes the law of one draw, such as Bernoulli(0.2) or Normal(0, 1); got {law!r}"
            )
        return Basic.__new__(cls, law)


IN_STEPS = (Resampled, Telegraph)
"""Laws of noises that are followed in discrete time only."""


def shown_key(key: Any) -> str:
    """Return a key that is not what was expected, with the way out where it is the name of something."""
    return f"{key!r}, a text; use what is declared, {key}, without quotes" if isinstance(key, str) else f"`{key}`"


def read_noise_law(member: Any, law: Any, where: Any) -> Any:
    """Return the law of one process; raise when it is none."""
    if not isinstance(member, Process):
        raise ModelError(
            f"{where}: laws= maps processes to GP(...) or White(...), in discrete time also to Telegraph(...) or "
            f"Resampled(...); got the key {shown_key(member)}"
        )
    if not (law is None or isinstance(law, NoiseLaw)):
        raise ModelError(
            f"{where}: the law of the process `{member}` must be GP(covariance) or White(strength), in discrete time also "
            f"Telegraph(b, tau) or Resampled(law), got `{law}`; a random constant is declared by random()"
        )
    return law
