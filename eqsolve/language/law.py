"""What every law of a random constant offers: atoms exactly, densities by Gauss quadrature, exact sampling.

A law is a sympy object: its parameters may be symbols, and are numbers once the model's parameters are bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from sympy import Basic, Dict, Expr, Rational, SympifyError, Tuple, sympify
from sympy.logic.boolalg import BooleanAtom

from eqsolve.errors import ParameterError
from eqsolve.language.source import user_location

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

__all__ = ["Law", "exact_value", "here", "outside"]


def here() -> str:
    """Return the place in the user's file, to open an error message with."""
    location = user_location()
    return f"{location}: " if location else ""


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
        from eqsolve.language.joint_laws import Component

        law: Law = Component(self, index, names)
        return law


def _unevaluated() -> tuple[type, ...]:
    from eqsolve.language.nodes import E

    return (E,)


def outside(value: Expr, low: float | None, high: float | None) -> bool:
    """Whether a number is none, or lies outside a closed interval."""
    number = float(value)
    return number != number or (low is not None and number < low) or (high is not None and number > high)
