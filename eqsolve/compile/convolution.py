"""A system of one-time functions with memory as array functions, with the slopes that Newton's method needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from sympy import Basic, Dummy, Expr

from eqsolve.compile.laws import Moment
from eqsolve.compile.lowering import Lowered, lower
from eqsolve.compile.two_time import take_moments
from eqsolve.language.equations import Equation
from eqsolve.language.functions import not_everywhere
from eqsolve.language.symbols import Parameter
from eqsolve.language.system import System
from eqsolve.passes.forms.convolution_form import EARLY, LAG, NOW, ConvolutionForm
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

    def terms(expressions: Sequence[Expr]) -> Terms:
        used = set().union(*(expr.free_symbols for expr in expressions))
        places = {place: dummy for place, dummy in form.places.items() if dummy in used}
        integrals = {place: item[0] for place, item in enumerate(form.integrals.values()) if item[0] in used}
        arguments: list[Dummy] = [*places.values(), *integrals.values()]
        pairs = [(row, k) for row, expr in enumerate(expressions) for k, x in enumerate(arguments) if x in expr.free_symbols]
        slopes = [slope(expressions[row], arguments[column]) for row, column in pairs]
        inputs: list[Basic] = [NOW, *arguments]
        made = (lower(list(items), inputs, known) for items in (expressions, slopes))
        return Terms(tuple(places), tuple(integrals), next(made), tuple(pairs), next(made))

    def integrand(body: Expr, places: dict[Reading, Dummy]) -> Integrand:
        inputs = [EARLY, LAG, *places.values()]
        slopes = [slope(body, dummy) for dummy in places.values()]
        return Integrand(tuple(places), lower([body], inputs, known), lower(slopes, inputs, known))

    def equation(name: str, source: Equation, label: str, start: Expr | None, kind: str, _: Expr) -> MemoryEquation:
        past = None if start is None else lower([start], [NOW], known)
        return MemoryEquation(name, label, not_everywhere(source.rhs), kind, past)

    return ConvolutionProgram(
        begin=lower([system.start], [], known),
        moments=moments,
        equations=tuple(equation(*item) for item in form.equations),
        bodies=terms([item[-1] for item in form.equations]),
        observables=tuple(form.observables),
        outputs=terms(list(form.observables.values())),
        integrals=tuple(integrand(body, places) for _, body, places in form.integrals.values()),
        delays=lower(list(form.delays), [], known),
        gauges=lower(list(form.gauges), [NOW], known),
    )
