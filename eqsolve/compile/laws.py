"""Laws of random constants as data: what makes the numeric law, and its numbers as a function of the parameters.

Moments of other constants inside a law, as in Normal(0, E(w_star**2)), are integrals over the laws of these constants,
taken when the numbers are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sympy import Expr

from eqsolve.compile.lowering import Lowered, lower
from eqsolve.errors import ParameterError
from eqsolve.language.laws import Law
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Parameter, Random
from eqsolve.numerics import laws as numeric


@dataclass(frozen=True)
class Moment:
    """The mean of a function of parameters and of independent random constants, by name, with their declared laws."""

    integrand: Lowered
    constants: tuple[str, ...]
    declared: tuple[LawPlan, ...] = ()  # where they are declared

    def at(self, values: Mapping[str, float], laws: Mapping[str, numeric.NumericLaw]) -> float:
        """Return the mean for numbers of the parameters and for the laws of constants that are not as declared."""
        declared = dict(zip(self.constants, self.declared, strict=False))
        used = [laws[name] if name in laws else declared[name].at(values) for name in self.constants]
        function = self.integrand.at(values)
        return numeric.expectation(lambda *nodes: function(*nodes)[0], used)


def compile_moment(integrand: Expr, parameters: Sequence[Parameter], laws: Mapping[Random, Law] | None = None) -> Moment:
    """Return the mean of an expression in random constants; without ``laws``, these are known when it runs."""
    constants = sorted(integrand.atoms(Random), key=lambda item: item.name)
    declared = []
    if laws is not None:
        by_name = {item.name: law for item, law in laws.items()}  # a law in parameters makes a new symbol
        for item in constants:
            law = by_name.get(item.name, item.law)
            if law is None:
                raise ParameterError(f"a law uses the moment `E({integrand})`, but `{item.name}` has no law")
            declared.append(compile_law(law, parameters, laws))
    return Moment(lower([integrand], constants, parameters), tuple(item.name for item in constants), tuple(declared))


@dataclass(frozen=True)
class LawPlan:
    """A law whose numbers depend on parameters."""

    # what makes the numeric law, of its numbers and of the laws of its parts
    make: Callable[..., numeric.NumericLaw]
    # the numbers, as a function of the parameters and of the ``moments``
    numbers: Lowered
    moments: tuple[Moment, ...]
    parts: tuple[LawPlan, ...]  # the laws this one is made of
    usage: str  # how the law is written, for messages

    def at(self, values: Mapping[str, float], laws: Mapping[str, numeric.NumericLaw] = {}) -> numeric.NumericLaw:
        """Return the law at values of the parameters; a ParameterError if it takes none of these numbers.

        ``laws`` are those that other constants have now, by name, where they are not the declared ones.
        """
        numbers = [float(item) for item in self.numbers.at(values)(*(moment.at(values, laws) for moment in self.moments))]
        law = self.make(*numbers, *(part.at(values, laws) for part in self.parts))
        odd = [item for item in numbers if not math.isfinite(item)]
        problem = f"a parameter must be a finite real number, got {odd[0]}" if odd else law.problem()
        if problem:
            raise ParameterError(f"law {law}: {problem}; usage: {self.usage}")
        return law


def compile_law(law: Law, parameters: Sequence[Parameter], laws: Mapping[Random, Law] | None = None) -> LawPlan:
    """Return a declared law as data; the parameters in its numbers get their values later.

    ``laws`` are those of the other constants, where the numbers contain moments of them.
    """
    means = list(dict.fromkeys(node for item in law.numbers for node in item.atoms(E)))
    return LawPlan(
        law.make(),
        lower(list(law.numbers), means, parameters),
        tuple(compile_moment(mean.argument, parameters, laws or {}) for mean in means),
        tuple(compile_law(part, parameters, laws) for part in law.parts),
        law.usage,
    )
