"""A system of one-time functions with memory as array functions, with the slopes that Newton's method needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from sympy import Basic, Dummy, Expr

from eqsolve.compile.laws import Moment
from eqsolve.compile.lowering import Lowered, lower
from eqsolve.compile.two_time import take_moments
from eqsolve.language.functions import not_everywhere
from eqsolve.language.symbols import Parameter
from eqsolve.language.system import System
from eqsolve.passes.forms.convolution_form import EARLY, LAG, NOW, ConvolutionEquation, ConvolutionForm
from eqsolve.passes.forms.convolution_form import Reading as Reading
from eqsolve.passes.forms.expressions import slope


@dataclass(frozen=True, eq=False)
class MemoryEquation:
    """One unknown: its name, how messages call its equation, its kind, and its past as a function of time."""

    key: str
    label: str
    doubtful: str
    kind: str
    past: Lowered | None


@dataclass(frozen=True, eq=False)
class Terms:
    """Several expressions of time, readings and integrals, in this order of arguments.

    ``partials`` names (expression, argument) of each of the ``slopes``; arguments count from 0 behind the time.
    """

    readings: tuple[Reading, ...]
    integrals: tuple[int, ...]
    function: Lowered
    partials: tuple[tuple[int, int], ...]
    slopes: Lowered


@dataclass(frozen=True, eq=False)
class Integrand:
    """H(s, u, readings) of an integral over s from 0 to t, u = t − s, with its slope by every reading."""

    readings: tuple[Reading, ...]
    function: Lowered
    slopes: Lowered


@dataclass(frozen=True, eq=False)
class ConvolutionProgram:
    """Everything the solver runs; times are counted from ``begin``."""

    begin: Lowered
    moments: tuple[tuple[str, Moment], ...]
    # the unknowns, in order; ``bodies`` are their derivatives, values or residuals, by their kind
    equations: tuple[MemoryEquation, ...]
    bodies: Terms
    # names and expressions of what is reported beside the unknowns
    observables: tuple[str, ...]
    outputs: Terms
    integrals: tuple[Integrand, ...]
    # lengths of the delays; functions of time that panels must resolve
    delays: Lowered
    gauges: Lowered


def compile_convolution(system: System, parameters: Sequence[Parameter]) -> ConvolutionProgram:
    """Return the array functions of a system; parameters, and means of random constants, are arguments."""
    system, moments, known = take_moments(system, parameters)
    form = ConvolutionForm(system)
    convolutions = list(form.integrals.values())

    def terms(expressions: Sequence[Expr]) -> Terms:
        used = set().union(*(expr.free_symbols for expr in expressions))
        places = {place: dummy for place, dummy in form.places.items() if dummy in used}
        integrals = [index for index, item in enumerate(convolutions) if item.symbol in used]
        arguments: list[Dummy] = [*places.values(), *(convolutions[index].symbol for index in integrals)]
        pairs, slopes = [], []
        for row, expr in enumerate(expressions):
            for column, argument in enumerate(arguments):
                if argument in expr.free_symbols:
                    pairs.append((row, column))
                    slopes.append(slope(expr, argument))
        inputs: list[Basic] = [NOW, *arguments]
        return Terms(
            tuple(places),
            tuple(integrals),
            lower(list(expressions), inputs, known),
            tuple(pairs),
            lower(slopes, inputs, known),
        )

    def equation(item: ConvolutionEquation) -> MemoryEquation:
        source = item.source
        label = source.label if item.kind != "constraint" else f"constraint on `{item.name}` ({source.location})"
        past = None if item.start is None else lower([item.start], [NOW], known)
        return MemoryEquation(item.name, label, not_everywhere(source.rhs), item.kind, past)

    integrals = []
    for convolution in convolutions:
        inputs = [EARLY, LAG, *(dummy for dummy, _ in convolution.places)]
        slopes = [slope(convolution.integrand, dummy) for dummy, _ in convolution.places]
        integrals.append(
            Integrand(
                tuple(place for _, place in convolution.places),
                lower([convolution.integrand], inputs, known),
                lower(slopes, inputs, known),
            )
        )
    return ConvolutionProgram(
        begin=lower([system.start], [], known),
        moments=moments,
        equations=tuple(map(equation, form.equations)),
        bodies=terms([item.body for item in form.equations]),
        observables=tuple(form.observables),
        outputs=terms(list(form.observables.values())),
        integrals=tuple(integrals),
        delays=lower(list(form.delays), [], known),
        gauges=lower(list(form.gauges), [NOW], known),
    )
