"""What every law of a random constant offers: a declaration that is checked, and its numeric twin.

A law is a sympy object: its parameters may be symbols, and are numbers once the model's parameters are bound. What is
computed with it, atoms, Gauss rules, samples, is its twin's in `eqsolve.numerics.laws`.
"""

from __future__ import annotations

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

__all__ = ["Law", "exact_value"]


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
