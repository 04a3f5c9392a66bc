"""A system whose law is Gaussian as a plan: the path equations of a stochastic system, and what is averaged as functions of
few Gaussian arguments."""

from collections.abc import Sequence
from dataclasses import dataclass

from sympy import Basic, Expr

from eqsolve.compile.lowering import Lowered, lower
from eqsolve.compile.stochastic import StochasticPlan, compile_stochastic
from eqsolve.language.symbols import Function, Parameter, Random, Value
from eqsolve.passes.forms.gaussian_form import Argument, Factor, GaussianEnsemble, derive_gaussian_form
from eqsolve.passes.forms.path_form import Ensemble
from eqsolve.passes.forms.sectors import ROW
from eqsolve.passes.forms.structure import Derivation


@dataclass(frozen=True, eq=False)
class ArgumentPlan:
    """Σ coefficient × variable at one time.

    ``variables`` are ("unknown" | "noise" | "constant", place); ``coefficients`` a function of the time, the conditions and
    the functions of time.
    """

    variables: tuple[tuple[str, int], ...]
    coefficients: Lowered


@dataclass(frozen=True, eq=False)
class FactorPlan:
    """A function of Gaussian arguments, the time, the conditions and the functions of time.

    ``switches`` are functions of the same, affine in the only argument: at their zeros the function bends or jumps.
    """

    arguments: tuple[int, ...]
    function: Lowered
    degree: int | None
    bends: int
    switches: Lowered


@dataclass(frozen=True, eq=False)
class LawPlan:
    """What is needed beside an ensemble's path equations to average with its Gaussian law; see ``GaussianEnsemble``."""

    affine: tuple[str, ...]
    conditions: tuple[str, ...]
    functions: tuple[str, ...]
    arguments: tuple[ArgumentPlan, ...]
    factors: tuple[FactorPlan, ...]
    pairs: tuple[tuple[tuple[int, int], ...], ...]


@dataclass(frozen=True, eq=False)
class GaussianPlan:
    """The path equations and closed relations of a system, and the law of each ensemble."""

    paths: StochasticPlan
    laws: tuple[LawPlan, ...]


def compile_gaussian(derivation: Derivation, parameters: Sequence[Parameter]) -> GaussianPlan:
    """Return the plan of a system whose law is Gaussian, its parameters being arguments."""
    form = derivation.form
    assert form is not None
    made = derive_gaussian_form(form)
    assert not isinstance(made, str), made
    pairs = zip(form.ensembles, made, strict=True)
    return GaussianPlan(compile_stochastic(derivation, parameters), tuple(_law(*pair, parameters) for pair in pairs))


def _law(ensemble: Ensemble, law: GaussianEnsemble, parameters: Sequence[Parameter]) -> LawPlan:
    pieces: list[Expr] = [slope for argument in law.arguments for _, slope in argument]
    pieces += [factor.function for factor in law.factors]
    heads = {value.head for expr in pieces for value in expr.atoms(Value) if isinstance(value.head, Function)}
    functions = sorted(heads, key=str)
    beside: list[Basic] = [ROW, *law.conditions, *(head(ROW) for head in functions)]
    places: dict[Basic, tuple[str, int]] = {
        **{unknown.symbol: ("unknown", place) for place, unknown in enumerate(ensemble.unknowns)},
        **{noise(ROW): ("noise", place) for place, noise in enumerate(ensemble.noises)},
        **{item: ("constant", place) for place, item in enumerate(law.affine)},
    }

    def argument(item: Argument) -> ArgumentPlan:
        slopes = lower([slope for _, slope in item], beside, parameters)
        return ArgumentPlan(tuple(places[variable] for variable, _ in item), slopes)

    def factor(item: Factor) -> FactorPlan:
        inputs = [*item.symbols, *beside]
        return FactorPlan(
            item.arguments, lower([item.function], inputs, parameters), item.degree, len(item.switches),
            lower(list(item.switches), inputs, parameters),
        )  # fmt: skip

    def names(items: Sequence[Random]) -> tuple[str, ...]:
        return tuple(item.name for item in items)

    return LawPlan(
        names(law.affine), names(law.conditions), tuple(head.name for head in functions),
        tuple(argument(item) for item in law.arguments), tuple(factor(item) for item in law.factors), law.pairs,
    )  # fmt: skip
