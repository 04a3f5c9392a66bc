"""A system of one-time functions with memory as array functions, with the slopes that Newton's method needs.

Unknowns with indices are families: one equation for all members, whose axes lead those of the points.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sympy import Basic, Expr

from eqsolve.compile.families import Functions, Slopes, lower_families, lower_slopes, tables_in
from eqsolve.compile.lowering import Constant, Lowered, Moment, lower
from eqsolve.compile.two_time import take_moments
from eqsolve.language.functions import not_everywhere
from eqsolve.language.indices import Index, Slot, counts, ordered_indices
from eqsolve.language.model import Equation, leaves
from eqsolve.language.symbols import Head, Parameter
from eqsolve.language.system import System
from eqsolve.passes.forms.convolution_form import EARLY, LAG, NOW, ConvolutionForm
from eqsolve.passes.forms.convolution_form import Reading as Reading


@dataclass(frozen=True, eq=False)
class MemoryEquation:
    """The equation of an unknown or of a family of unknowns."""

    key: str  # name of the unknown
    label: str  # name of the equation in messages
    doubtful: str  # the parts that are not defined everywhere, for messages
    # "differential", "defined", "constraint": its body is the derivative, the value, what must vanish
    kind: str
    shape: tuple[int, ...]  # of its family; () for a single unknown
    past: Functions | None  # its values up to the start, as functions of time


@dataclass(frozen=True, eq=False)
class Terms:
    """Several expressions of times, readings, integrals and constants, in this order of arguments."""

    readings: tuple[Reading, ...]
    integrals: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    function: Functions  # of t; of an integrand of s, from 0 to t, and u = t − s
    slopes: Slopes


@dataclass(frozen=True, eq=False)
class ConvolutionProgram:
    """The array functions of a system with convolutions and delays."""

    begin: Lowered  # the time from which times are counted
    moments: tuple[tuple[str, Moment], ...]  # means of random constants: more parameters
    equations: tuple[MemoryEquation, ...]
    bodies: Terms  # derivatives, values or residuals, by the kinds of the equations
    observables: tuple[tuple[str, tuple[int, ...]], ...]  # names and shapes
    outputs: Terms  # their expressions
    integrals: tuple[Terms, ...]  # the integrands, each over s from 0 to t
    delays: Lowered  # their lengths
    gauges: Functions  # functions of time that panels must resolve
    gauge_shapes: tuple[tuple[int, ...], ...]
    constants: tuple[Constant, ...]  # tables of numbers, the last arguments of all functions


def compile_convolution(system: System, parameters: Sequence[Parameter]) -> ConvolutionProgram:
    """Return the array functions of a system; parameters, and means of random constants, are arguments."""
    system, moments, known = take_moments(system, parameters)
    form = ConvolutionForm(system)
    bodies = (*(item[-1] for item in form.equations), *(item[3] for item in form.equations if item[3] is not None))
    others = (*form.observables.values(), *(body for _, body, _ in form.integrals.values()), *form.gauges)
    constants = tables_in(*leaves((*bodies, *others)))

    def terms(
        expressions: Sequence[tuple[Expr, tuple[Index, ...]]], times: Sequence[Basic] = (NOW,),
        places: dict[tuple[Reading, tuple[Expr, ...]], Slot] = form.places,
    ) -> Terms:  # fmt: skip
        used = set().union(*(expr.free_symbols for expr, _ in expressions))
        slots = {place: slot for place, slot in places.items() if slot in used}
        integrals = {place: item[0] for place, item in enumerate(form.integrals.values()) if item[0] in used}
        by: list[Slot] = [*slots.values(), *integrals.values()]
        inputs: list[Basic] = [*times, *by, *constants]
        return Terms(
            tuple(place for place, _ in slots), tuple(integrals), tuple(counts(free) for _, free in expressions),
            lower_families(expressions, inputs, known), lower_slopes(expressions, inputs, by, known),
        )  # fmt: skip

    def equation(head: Head, source: Equation, label: str, start: Expr | None, kind: str, _: Expr) -> MemoryEquation:
        past = None if start is None else lower_families([(start, head.indices)], [NOW, *constants], known)
        return MemoryEquation(head.base, label, not_everywhere(source.rhs), kind, counts(head.axes), past)

    seen = [(name, counts(ordered_indices(expr))) for name, expr in form.observables.items()]
    return ConvolutionProgram(
        begin=lower([system.start], [], known),
        moments=moments,
        equations=tuple(equation(*item) for item in form.equations),
        bodies=terms([(item[-1], item[0].indices) for item in form.equations]),
        observables=tuple(seen),
        outputs=terms([(expr, ordered_indices(expr)) for expr in form.observables.values()]),
        integrals=tuple(terms([(body, slot.indices)], (EARLY, LAG), read) for slot, body, read in form.integrals.values()),
        delays=lower(list(form.delays), [], known),
        gauges=lower_families([(expr, ordered_indices(expr)) for expr in form.gauges], [NOW, *constants], known),
        gauge_shapes=tuple(counts(ordered_indices(expr)) for expr in form.gauges),
        constants=tuple(Constant.of(item) for item in constants),
    )
