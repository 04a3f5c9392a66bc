"""A system without memory as array functions: derivatives, initial values and observables, parameters as arguments.

Quantities are computed in a fixed order: time, random constants, states, then the steps, definitions and expectations as
they are needed. What the derivatives do not need comes last. Symbols end here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sympy import Abs, Basic, Dummy, Expr, Heaviside, Max, Min, sign

from eqsolve.compile.lowering import LawPlan, Lowered, compile_law, lower
from eqsolve.errors import UsageError
from eqsolve.language.functions import not_everywhere
from eqsolve.language.laws import Law
from eqsolve.language.model import Equation
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Parameter, Process, Random, Time, Value
from eqsolve.language.system import System, start_constant
from eqsolve.passes.forms.causality import analyse_causality

WIDTH = Parameter("_width_of_jumps", positive=True)


@dataclass(frozen=True)
class OdeEquation:
    """An equation by name: its label and its doubtful parts, for messages, and the place of its unknown."""

    key: str
    label: str
    doubtful: str
    process: bool
    place: int


@dataclass(frozen=True, eq=False)
class OdeQuantity:
    """A quantity as a function of those before it; if ``averaged``, its mean over the paths of the ``members``."""

    function: Lowered
    averaged: bool = False
    members: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class OdeProgram:
    """The array functions of one model."""

    # the random constants, in the order in which functions take them; ``laws`` are those that are
    # drawn as starts
    constants: tuple[str, ...]
    laws: tuple[tuple[str, LawPlan], ...]
    # the differential and the pointwise equations, and the names of the observables
    states: tuple[OdeEquation, ...]
    definitions: tuple[OdeEquation, ...]
    observables: tuple[str, ...]
    steps: tuple[OdeQuantity, ...]
    # how many steps the derivatives need, and how many the functions of time and the observables
    needed: int
    reported: int
    # of the states, and of the observables; the first takes the constants, the others all
    # quantities
    starts: Lowered
    derivatives: Lowered
    outputs: Lowered
    # sizes of the terms behind functions of time and observables, see ``term_sizes``
    sizes: Lowered
    coupled: bool  # whether the derivatives need means
    # constants and processes that one equation or one expectation combines
    meetings: tuple[tuple[str, ...], ...]
    begin: Lowered
    jumps: bool  # whether states make something jump, for which there are ramps


def compile_ode(system: System, parameters: Sequence[Parameter]) -> OdeProgram:
    """Return the array functions of a system without memory."""
    equations = [system[name] for name in analyse_causality(system).order]
    states = [equation for equation in equations if equation.is_differential]
    definitions = [equation for equation in equations if not equation.is_differential]
    if not states:
        raise UsageError(f"model `{system.name}` has no differential equation to solve in time")
    time = states[0].time
    assert isinstance(time, Time)
    values: dict[str, Expr] = {head.name: head(time) for head in system.unknowns}
    given = {equation.head: system.init[equation.head] for equation in states}
    starts = [start_constant(head, value) for head, value in given.items()]
    drawn = {item: law for item, law in zip(starts, given.values(), strict=True) if isinstance(law, Law)}
    randoms = sorted({*system.randoms, *drawn}, key=lambda item: item.name)
    builder = _OdeBuilder((*parameters, WIDTH), time, [time, *randoms, *(values[equation.key] for equation in states)])
    for equation in definitions:
        builder.steps.append(OdeQuantity(builder.lower([builder.timed(equation.rhs)])))
        builder.known.append(values[equation.key])
    rights = [builder.timed(equation.rhs) for equation in states]
    derivatives, needed = builder.lower(rights), len(builder.steps)
    coupled = any(step.averaged for step in builder.steps)
    observables = [builder.timed(expr) for expr in system.observables.values()]
    outputs, reported = builder.lower(observables), len(builder.steps)
    # sizes of derivatives of functions, of functions defined and of observables, in this order
    functions = [pair for pair in zip(states, rights, strict=True) if not isinstance(pair[0].head, Process)]
    known: dict[Expr, Expr] = {values[eq.key]: Dummy(eq.key, positive=True) for eq, _ in functions}
    placeholders = list(known.values())
    sizes = [term_sizes(right, known) for _, right in functions]
    for equation in definitions:
        if not isinstance(equation.head, Process):
            sizes.append(term_sizes(builder.timed(equation.rhs), known))
            known[values[equation.key]] = sizes[-1]
    sizes += [term_sizes(expr, known) for expr in observables]

    def described(equation: Equation) -> OdeEquation:
        doubtful, process = not_everywhere(equation.rhs), isinstance(equation.head, Process)
        place = builder.known.index(values[equation.key])
        return OdeEquation(equation.key, equation.label, doubtful, process, place)

    return OdeProgram(
        constants=tuple(item.name for item in randoms),
        laws=tuple((item.name, compile_law(law, parameters)) for item, law in drawn.items()),
        states=tuple(map(described, states)),
        definitions=tuple(map(described, definitions)),
        observables=tuple(system.observables),
        sizes=builder.lower(sizes, placeholders),
        steps=tuple(builder.steps),
        needed=needed,
        reported=reported,
        starts=lower(starts, randoms, parameters),
        derivatives=derivatives,
        outputs=outputs,
        coupled=coupled,
        meetings=_meetings(system),
        begin=lower([system.start], [], parameters),
        jumps=any(builder.timed(equation.rhs).has(WIDTH) for equation in equations),
    )


class _OdeBuilder:
    """Collects the quantities in the order in which they can be computed."""

    def __init__(self, parameters: Sequence[Parameter], time: Time, known: list[Basic]) -> None:
        self.parameters, self.time, self.known = parameters, time, known
        self.steps: list[OdeQuantity] = []

    def timed(self, expr: Expr) -> Expr:
        """Bring every time symbol to the running one; for jumps of what moves there are ramps."""
        swaps = {}
        for node in expr.atoms(sign, Heaviside):
            if node.has(Value):
                ramp = Max(-1, Min(1, node.args[0] / WIDTH))
                swaps[node] = ramp if isinstance(node, sign) else (1 + ramp) / 2
        expr = expr.xreplace(swaps)
        return expr.xreplace({item: self.time for item in expr.free_symbols if isinstance(item, Time)})

    def lower(self, expressions: list[Expr], more: Sequence[Basic] = ()) -> Lowered:
        """Lower expressions once every expectation in them is a quantity of its own."""
        for expr in expressions:
            for node in sorted(expr.atoms(E), key=lambda item: item.count_ops()):
                if node not in self.known:
                    function = lower([node.argument], self.known, self.parameters)
                    self.steps.append(OdeQuantity(function, averaged=True, members=_members(node)))
                    self.known.append(node)
        return lower(expressions, [*self.known, *more], self.parameters)


def term_sizes(expr: Expr, known: Mapping[Expr, Expr]) -> Expr:
    """Return the size of what an expression averages and adds up: Σ|terms|, with E|·| for every expectation.

    An expectation that vanishes by symmetry is to be judged by this size, not by its own rounding errors.
    """
    if expr in known:
        return known[expr]
    if expr.is_Add or expr.is_Mul:
        return expr.func(*(term_sizes(part, known) for part in expr.args))
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        return term_sizes(expr.base, known) ** expr.exp
    return E(Abs(expr.argument)) if isinstance(expr, E) else Abs(expr)


def _meetings(system: System) -> tuple[tuple[str, ...], ...]:
    """Return which constants and processes one process depends on, or one expectation is over."""
    found = []
    for equation in system.equations:
        if isinstance(equation.head, Process):
            outside = equation.rhs.xreplace({node: Dummy() for node in equation.rhs.atoms(E)})
            begin = (start_constant(equation.head, system.init[equation.head]),) if equation.head in system.init else ()
            found.append((equation.head.name, *_members(outside), *_members(*begin)))
    expressions = [*(equation.rhs for equation in system.equations), *system.observables.values()]
    return (*found, *(_members(node) for expr in expressions for node in expr.atoms(E)))


def _members(*items: Basic) -> tuple[str, ...]:
    """Return the names of the constants and processes in expressions."""
    found: set[Any] = set().union(*(item.atoms(Random) for item in items))
    heads = {value.head for item in items for value in item.atoms(Value)}
    return tuple(sorted(node.name for node in found | {head for head in heads if isinstance(head, Process)}))
