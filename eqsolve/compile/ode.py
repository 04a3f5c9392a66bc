"""A system without memory as array functions: derivatives, initial values and observables, parameters as arguments.

Quantities are computed in a fixed order: time, random constants, states, then the steps, definitions and expectations as
they are needed. What the derivatives do not need comes last. Unknowns and constants with indices are families: one equation
for all members, whose axes lead those of paths and moments. Symbols end here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sympy import Abs, Basic, Dummy, Expr, Max, Min, Mul, S

from eqsolve.compile.families import Functions, lower_families, tables_in
from eqsolve.compile.lowering import Constant, LawPlan, Lowered, compile_law, lower
from eqsolve.errors import UsageError
from eqsolve.language.functions import not_everywhere
from eqsolve.language.indices import Index, Slot, Sum, at_indices, counts, free_indices, ordered_indices
from eqsolve.language.laws import Law
from eqsolve.language.model import Equation
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Head, Parameter, Process, Random, Time, Value
from eqsolve.language.system import System, start_constant
from eqsolve.numerics.arrays import member_names
from eqsolve.passes.forms.causality import analyse_causality
from eqsolve.passes.forms.expressions import free_times, outermost
from eqsolve.passes.forms.kinks import with_steps

WIDTH = Parameter("_width_of_jumps", positive=True)


@dataclass(frozen=True)
class OdeEquation:
    """The equation of an unknown or of a family of unknowns."""

    key: str  # name of the unknown
    label: str  # name of the equation in messages
    doubtful: str  # the parts that are not defined everywhere, for messages
    process: bool  # whether the unknown differs from path to path
    place: int  # of the unknown among the quantities
    shape: tuple[int, ...] = ()  # of its family; () for a single unknown
    # names of random constants that a process depends on, and the axes along which the members of
    # both are the same; None if it depends on all members
    constants: tuple[tuple[str, tuple[int, ...] | None], ...] = ()

    @property
    def members(self) -> list[str]:
        return member_names(self.key, self.shape)


@dataclass(frozen=True)
class OdeConstant:
    """A random constant, or a family of independent ones."""

    key: str
    name: str  # of its law
    shape: tuple[int, ...]
    meet: bool  # two members, in an equation or an expectation; else all take the same nodes

    @property
    def coordinates(self) -> list[str]:
        """The names of the constants that are integrated over."""
        return member_names(self.key, self.shape if self.meet else ())


@dataclass(frozen=True, eq=False)
class Reader:
    """Functions of the quantities at the places ``reads``, and of tables."""

    functions: Functions
    reads: tuple[int, ...]
    tables: tuple[Constant, ...]

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        return self.functions([*(values[place] for place in self.reads), *self.tables])


@dataclass(frozen=True, eq=False)
class OdeQuantity:
    """A quantity as a function of those before it."""

    functions: tuple[Reader, ...]  # two, of an expectation over a product of families
    shapes: tuple[tuple[int, ...], ...]
    averaged: bool = False  # whether it is a mean over the paths,
    members: tuple[str, ...] = ()  # of these constants and processes


@dataclass(frozen=True, eq=False)
class OdeProgram:
    """The array functions of a system without memory."""

    constants: tuple[OdeConstant, ...]  # in the order in which functions take them
    laws: tuple[tuple[str, LawPlan], ...]  # of the constants that are drawn as initial values
    states: tuple[OdeEquation, ...]  # the differential equations
    definitions: tuple[OdeEquation, ...]  # the pointwise equations
    seen: tuple[tuple[str, tuple[int, ...]], ...]  # names and shapes of the observables
    steps: tuple[OdeQuantity, ...]  # the quantities that follow the states, in order
    needed: int  # how many of them the derivatives need,
    reported: int  # and how many the observables do
    starts: Reader  # the states at the start
    derivatives: Reader  # of the states, and the observables, both as functions of all quantities
    outputs: Reader
    # sizes of the terms (``term_sizes``) behind derivatives, and behind definitions and observables
    rates: Reader
    sizes: tuple[Reader, ...]
    coupled: bool  # whether the derivatives need means
    meetings: tuple[tuple[str, ...], ...]  # what one equation or expectation combines
    begin: Lowered  # the time at which the system starts
    jumps: bool  # whether states make something jump, for which there are ramps

    @property
    def observables(self) -> tuple[str, ...]:
        return tuple(name for item in self.seen for name in member_names(*item))


def compile_ode(system: System, parameters: Sequence[Parameter]) -> OdeProgram:
    """Return the array functions of a system without memory."""
    equations = [system[name] for name in analyse_causality(system).order]
    states = [equation for equation in equations if equation.is_differential]
    definitions = [equation for equation in equations if not equation.is_differential]
    if not states:
        raise UsageError(f"model `{system.name}` has no differential equation to solve in time")
    time = states[0].time
    given = [(_given(system, equation.defined.head), equation.defined.head) for equation in states]
    starts = [(start_constant(head, value), head) for value, head in given]
    drawn = [start for (start, _), (value, _) in zip(starts, given, strict=True) if isinstance(value, Law)]
    randoms = {item.base: item for item in sorted((*system.randoms, *drawn), key=lambda item: item.name)}
    links = _Links(system, {head.base: expr for expr, head in starts}, randoms)
    builder = _OdeBuilder((*parameters, WIDTH), time)
    for key in (*randoms, *(head.base for _, head in starts)):
        builder.add(key)
    begins = builder.read([(expr, head.indices) for expr, head in starts])
    for equation in definitions:
        builder.step(builder.timed(equation.rhs), equation.defined.head.indices)
        builder.add(equation.defined.head.base)
    rights = [(builder.timed(equation.rhs), equation.defined.head.indices) for equation in states]
    derivatives, needed = builder.read(rights), len(builder.steps)
    coupled = any(step.averaged for step in builder.steps)
    observables = [(builder.timed(expr), ordered_indices(expr)) for expr in system.observables.values()]
    outputs, reported = builder.read(observables), len(builder.steps)
    moving = [pair for pair, eq in zip(rights, states, strict=True) if not isinstance(eq.head, Process)]
    functions = [eq for eq in (*states, *definitions) if not isinstance(eq.head, Process)]
    every = [eq.defined.head.base for eq in functions]
    rates = [(term_sizes(expr, builder.known_sizes(every[: len(moving)])), free) for expr, free in moving]
    sizes = [
        (term_sizes(builder.timed(eq.rhs), builder.known_sizes(every[:place])), eq.defined.head.indices)
        for place, eq in enumerate(functions[len(moving) :], len(moving))
    ]
    sizes += [(term_sizes(expr, builder.known_sizes(every)), free) for expr, free in observables]
    for expr, _ in (*rates, *sizes):
        builder.slotted(expr)  # means that they hold are steps of the program before the sizes that they are scaled by
    for name in every:
        builder.add((name, "size"))

    def described(equation: Equation) -> OdeEquation:
        doubtful, head = not_everywhere(equation.rhs), equation.defined.head
        process, place = isinstance(head, Process), builder.places[head.base]
        own = links.axes.get(head.base, {})
        constants = tuple((name, None if name in links.meeting else axes) for name, axes in own.items())
        return OdeEquation(head.base, equation.label, doubtful, process, place, counts(head.axes), constants)

    return OdeProgram(
        constants=tuple(OdeConstant(key, item.name, counts(item.axes), key in links.meeting) for key, item in randoms.items()),
        laws=tuple((item.name, compile_law(item.extra[0], parameters)) for item in drawn),
        states=tuple(map(described, states)),
        definitions=tuple(map(described, definitions)),
        seen=tuple((name, counts(free)) for name, (_, free) in zip(system.observables, observables, strict=True)),
        rates=builder.read(rates),
        sizes=tuple(builder.read([item]) for item in sizes),
        steps=tuple(builder.steps),
        needed=needed,
        reported=reported,
        starts=begins,
        derivatives=derivatives,
        outputs=outputs,
        coupled=coupled,
        meetings=links.meetings(),
        begin=lower([system.start], [], parameters),
        jumps=any(builder.timed(equation.rhs).has(WIDTH) for equation in equations),
    )


def _given(system: System, head: Head) -> Any:
    """Return the initial value of an unknown, at the indices of its equation."""
    key = next(key for key in system.init if key.base == head.base)
    return at_indices(system.init[key], dict(zip(key.indices, head.indices, strict=True)))


class _OdeBuilder:
    """Collects the quantities in the order in which they can be computed; ``places`` says where each one is."""

    def __init__(self, parameters: Sequence[Parameter], time: Time) -> None:
        self.parameters, self.time = parameters, time
        self.places: dict[Any, int] = {time: 0}
        self.slots: dict[Slot, Any] = {}
        self._known: dict[tuple[Any, tuple[Any, ...]], Slot] = {}
        self.steps: list[OdeQuantity] = []

    def add(self, key: Any) -> None:
        """Give the next place to an unknown or a constant by its name, or to an expectation."""
        self.places[key] = len(self.places)

    def timed(self, expr: Expr) -> Expr:
        """Bring every time symbol to the running one; for jumps of what moves there are ramps."""
        expr = with_steps(expr, (Value,), lambda inside: Max(-1, Min(1, inside / WIDTH)))
        return expr.xreplace(dict.fromkeys(free_times(expr), self.time))

    def step(self, expr: Expr, free: Sequence[Index], node: E | None = None) -> None:
        """Make an expression a quantity of its own, and its mean over paths one of an expectation."""
        over = () if node is None else tuple(sorted(_random_names(expr)))
        pairs = [(expr, tuple(free))] if node is None else _factors(expr, tuple(free))
        functions = tuple(self.read([pair]) for pair in pairs)
        self.steps.append(OdeQuantity(functions, tuple(counts(own) for _, own in pairs), node is not None, over))
        if node is not None:
            self.add(node)

    def slotted(self, expr: Expr) -> Expr:
        """Return an expression whose values, constants and expectations, quantities by now, are slots."""
        swaps: dict[Basic, Basic] = {}
        for node in outermost(expr, E, Value, Random):
            head = node.head if isinstance(node, Value) else node
            own = ordered_indices(node) if isinstance(node, E) else ()
            key, indices, axes = (node, own, own) if isinstance(node, E) else (head.base, head.indices, head.axes)
            if key not in self.places:
                self.step(node.argument, indices, node)
            swaps[node] = self._slot(key, str(node), indices, axes)
        return expr.xreplace(swaps)

    def known_sizes(self, names: Sequence[str]) -> Callable[[Expr], Expr | None]:
        """Return a function from a value of a named function to the slot of its size."""

        def known(expr: Expr) -> Expr | None:
            if not isinstance(expr, Value) or expr.head.base not in names:
                return None
            return self._slot((expr.head.base, "size"), str(expr), expr.head.indices, expr.head.axes)

        return known

    def _slot(self, key: Any, name: str, indices: tuple[Any, ...], axes: tuple[Any, ...]) -> Slot:
        if (key, indices) not in self._known:
            slot = self._known[key, indices] = Slot.of(name, indices, axes)
            self.slots[slot] = key
        return self._known[key, indices]

    def read(self, expressions: Sequence[tuple[Expr, Sequence[Index]]]) -> Reader:
        """Compile expressions with their free indices; expectations in them become quantities of their own."""
        bodies = [(self.slotted(expr), free) for expr, free in expressions]
        occurring = set[Basic]().union(*(expr.atoms(Slot) for expr, _ in bodies))
        reads = [slot for slot in self.slots if slot in occurring]
        tables = tables_in(*(expr for expr, _ in bodies))
        functions = lower_families(bodies, [self.time, *reads, *tables], self.parameters)
        places = (0, *(self.places[self.slots[slot]] for slot in reads))
        return Reader(functions, places, tuple(map(Constant.of, tables)))


def _factors(expr: Expr, free: tuple[Index, ...]) -> list[tuple[Expr, tuple[Index, ...]]]:
    """Return the factors of a product of a family over the first of some indices and one over the rest, or the whole."""
    for place in range(1, len(free)):
        early, late = free[:place], free[place:]
        parts = Mul.make_args(expr)
        first = [part for part in parts if free_indices(part) <= {*early}]
        rest = Mul(*(part for part in parts if part not in first))
        if free_indices(rest) == {*late} and free_indices(Mul(*first)) == {*early}:
            return [(Mul(*first), early), (rest, late)]
    return [(expr, free)]


def term_sizes(expr: Expr, known: Callable[[Expr], Expr | None]) -> Expr:
    """Return the size of what an expression averages and adds up: Σ|terms|, with E|·| for every expectation.

    An expectation that vanishes by symmetry is to be judged by this size, not by its own rounding errors. What is ``known``
    to have a size has that one.
    """
    if (size := known(expr)) is not None:
        return size
    if expr.is_Add or expr.is_Mul:
        return expr.func(*(term_sizes(part, known) for part in expr.args))
    if isinstance(expr, Sum):
        return Sum(term_sizes(expr.body, known), *expr.over)
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        return term_sizes(expr.base, known) ** expr.exp
    return E(Abs(expr.argument)) if isinstance(expr, E) else Abs(expr)


# --- Which constants a process depends on, and which of them meet.
class _Links:
    """The constants behind every process and expectation, with the axes along which they belong to the same member.

    ``meeting`` are the families whose members meet each other: under an expectation, or in an equation of a process.
    """

    def __init__(self, system: System, starts: Mapping[str, Expr], randoms: Mapping[str, Random]) -> None:
        self.randoms, self.meeting = randoms, set[str]()
        # of each process what it reads: its right-hand side, and what it starts from
        self.sources: dict[Head, list[Expr]] = {
            eq.head: [_without_means(eq.rhs), starts.get(eq.head.base, S.Zero)]
            for eq in system.equations
            if isinstance(eq.head, Process)
        }
        # by process and constant, the axes of the process in the order of those of the constant
        self.axes: dict[str, dict[str, tuple[int, ...]]] = {head.base: {} for head in self.sources}
        while True:  # what a process reads depends on constants in turn
            before = {name: dict(own) for name, own in self.axes.items()}, set(self.meeting)
            for head, sources in self.sources.items():
                mine, indices = self.axes[head.base], head.indices
                for constant, places_read in self._read(sources).items():
                    places = {tuple(map(indices.index, own)) if {*own} <= {*indices} else None for own in places_read}
                    places |= {mine[constant]} if constant in mine else set()
                    if len(places) > 1 or None in places:
                        self.meeting.add(constant)
                    mine[constant] = next((item for item in places if item is not None), ())
            if before == (self.axes, self.meeting):
                break
        expressions = [*(equation.rhs for equation in system.equations), *system.observables.values()]
        self.means = list(dict.fromkeys(node for expr in expressions for node in sorted(expr.atoms(E), key=Basic.count_ops)))
        for node in self.means:
            inner = _without_means(node.argument)
            bound = {index for item in inner.atoms(Sum) for index in item.over}
            for constant, places_read in self._read([inner]).items():
                if len(places_read) > 1 or any({*own} & bound for own in places_read):
                    self.meeting.add(constant)

    def _read(self, expressions: Iterable[Expr]) -> dict[str, set[tuple[Any, ...]]]:
        """Return the constants that expressions depend on, with the indices at which they do."""
        constants: dict[str, set[tuple[Any, ...]]] = {}
        for node in {node for expr in expressions for node in outermost(expr, Value, Random)}:
            if isinstance(node, Random):
                constants.setdefault(node.base, set()).add(node.indices)
            elif isinstance(node.head, Process):
                for constant, axes in self.axes[node.head.base].items():
                    constants.setdefault(constant, set()).add(tuple(node.head.indices[axis] for axis in axes))
        return constants

    def meetings(self) -> tuple[tuple[str, ...], ...]:
        """Return which constants and processes one process depends on, or one expectation is over."""
        meetings = [{head.base}.union(*map(_random_names, sources)) for head, sources in self.sources.items()]
        meetings += map(_random_names, self.means)
        return tuple(tuple(sorted(self._coordinates(names))) for names in meetings)

    def _coordinates(self, names: Iterable[str]) -> set[str]:
        coordinates: set[str] = set()
        for name in names:
            own = counts(self.randoms[name].axes) if name in self.meeting else ()
            coordinates |= {name, *member_names(name, own)}
        return coordinates


def _without_means(expr: Expr) -> Expr:
    return expr.xreplace({node: Dummy() for node in outermost(expr, E)})


def _random_names(expr: Basic) -> set[str]:
    """Return the names of the constants and processes in an expression."""
    heads = {value.head for value in expr.atoms(Value)}
    return {item.base for item in (*expr.atoms(Random), *(head for head in heads if isinstance(head, Process)))}
