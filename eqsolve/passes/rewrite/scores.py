"""How the laws of random constants move with a parameter: a score under the expectation, or a constant in another form.

Of a law with density (or probabilities) ρ(x; p), d/dp E[f] = E[f ∂log ρ/∂p]: the score ∂log ρ/∂p is one more factor under
the expectation, and the values x stay where they are. Where the support moves with p, the constant is written as a
function of one whose law does not.
"""

from __future__ import annotations

from sympy import Abs, Basic, Eq, Expr, Piecewise, S, digamma, log

from eqsolve.errors import UsageError
from eqsolve.language.laws import (
    Bernoulli,
    Discrete,
    GaussBernoulli,
    Laplace,
    Law,
    Normal,
    Point,
    Rademacher,
    StudentT,
    Uniform,
)
from eqsolve.language.model import Model, Table, transform
from eqsolve.language.symbols import Parameter, Random, fresh_name
from eqsolve.language.system import System

__all__ = ["fix_supports", "law_of", "score_of"]


def law_of(model: Model, item: Random) -> Basic | None:
    """Return the law of a random constant of a model."""
    given = getattr(model, "laws", {}).get(item)
    return given if given is not None else item.law


def fix_supports(system: System, parameters: tuple[Parameter, ...]) -> System:
    """Return the system with every constant whose values move with a parameter written in one whose values do not."""
    mapping: dict[Basic, Basic] = {}
    for item in system.randoms:
        law = law_of(system, item)
        if law is None or not law.free_symbols & set(parameters):
            continue
        if isinstance(law, Point):
            mapping[item] = law.args[0]
        elif isinstance(law, Uniform):
            low, high = law.args
            standard = Random(fresh_name(f"{item.name}_standard", system.names), None, (Uniform(0, 1),))
            mapping[item] = low + (high - low) * standard
    if not mapping:
        return system

    def change(entry: Basic) -> Basic:
        return entry.map(mapping) if hasattr(entry, "map") else entry.xreplace(mapping)

    kept = Table((key, law) for key, law in system.laws.items() if key not in mapping)
    fields = {name: transform(getattr(system, name), change) for name in ("equations", "init", "observables", "substitute")}
    return system._with(laws=kept, **fields)


def score_of(system: System, item: Random, parameter: Parameter) -> Expr:
    """Return ∂log ρ/∂p of the law of a random constant, zero where it does not depend on the parameter."""
    law = law_of(system, item)
    if law is None or parameter not in law.free_symbols:
        return S.Zero
    pieces = [(place, arg) for place, arg in enumerate(law.args) if parameter in arg.free_symbols]
    return sum((_score(law, place, item, parameter) for place, _ in pieces), S.Zero)


def _score(law: Basic, place: int, x: Random, parameter: Parameter) -> Expr:
    value = law.args[place]
    match law:
        case Bernoulli():
            return (x / value - (1 - x) / (1 - value)) * value.diff(parameter)
        case Rademacher():
            return (x**2 / value - (1 - x**2) / (1 - value)) * value.diff(parameter)
        case Normal():
            mean, variance = law.args
            off = x - mean
            slope = off / variance if place == 0 else (off**2 / variance - 1) / (2 * variance)
            return slope * value.diff(parameter)
        case Laplace():
            return (Abs(x) / value - 1) / value * value.diff(parameter)
        case StudentT():
            df = value
            slope = (
                digamma((df + 1) / 2) - digamma(df / 2) - 1 / df - log(1 + x**2 / df) + (df + 1) * x**2 / (df * (df + x**2))
            )
            return slope / 2 * value.diff(parameter)
        case GaussBernoulli():
            p, variance = law.args
            if place == 0:
                return Piecewise((-1 / (1 - p), Eq(x, 0)), (1 / p, True)) * value.diff(parameter)
            return Piecewise((S.Zero, Eq(x, 0)), ((x**2 / variance - 1) / (2 * variance), True)) * value.diff(parameter)
        case Discrete() if place == 1:
            values, chances = law.args
            pairs = [(chance.diff(parameter) / chance, Eq(x, at)) for at, chance in zip(values, chances, strict=True)]
            return Piecewise(*pairs, (S.Zero, True))
    raise UsageError(
        f"`{x.name}` has the law {law}, and there is no derivative along `{parameter.name}` in it: laws whose parameters can "
        f"be differentiated are Bernoulli, Rademacher, Normal, Uniform, Laplace, StudentT, GaussBernoulli, Point, and the "
        f"probabilities of Discrete"
    )


def probabilities_of(law: Law) -> tuple[Expr, ...]:
    """Return the probabilities that a score divides by: at zero or one there is no derivative to both sides."""
    match law:
        case Bernoulli() | Rademacher() | GaussBernoulli():
            return (law.args[0],)
        case Discrete():
            return tuple(law.args[1])
    return ()
