"""A stochastic system as a plan: its path equations as array functions, what is averaged, and the closed relations.

Symbols end here. Means, noises, constants and unknowns are known by name or place; parameters are arguments of every
function.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sympy import Abs, Add, Basic, Dummy, Expr, Float, Heaviside, Max, Min, Mul, Poly, S, sign
from sympy.core.function import Derivative, Subs

from eqsolve.compile.lowering import LawPlan, Lowered, compile_law, lower, with_parts
from eqsolve.compile.relations import Relations, in_order, start_of
from eqsolve.language.laws import Resampled
from eqsolve.language.nodes import GP, E, FollowedGP, entries
from eqsolve.language.symbols import Function, Parameter, Process, Value
from eqsolve.numerics.relations import Definition, KernelOperator, Pointwise, PointwiseSum
from eqsolve.passes.forms import path_form as form
from eqsolve.passes.forms.expressions import slope
from eqsolve.passes.forms.kinks import JUMP_WIDTH, KINKS, jumps, switches
from eqsolve.passes.forms.path_form import ROW, Mean, PathEnsemble
from eqsolve.passes.forms.structure import Derivation

WIDTH = Function("_width")(ROW)
"""How far a step moves what jumps, by a jump of one."""


@dataclass(frozen=True, eq=False)
class Link:
    """unknown += [J] diag(coefficient) [kernel] signal.

    ``target`` is the signal's place among the targets, if a kernel acts on it.
    """

    unknown: int
    signal: int
    coefficient: Pointwise | None
    kernel: KernelOperator | None
    target: int | None


@dataclass(frozen=True, eq=False)
class Drive:
    """unknown += [J] diag(coefficient) noise; of a kick the noise is white."""

    unknown: int
    noise: str
    coefficient: Pointwise | None


@dataclass(frozen=True, eq=False)
class MeanProgram:
    """An expectation.

    By kind, ``"one"``: E f(t). ``"two"``: Σ outer E f(t) g(t'), or E joint(f(t) …, g(t') …) with no outers.
    ``"response"``: outer E a(t) ∂output(t)/∂noise(t') b(t').
    """

    name: str
    kind: str
    factors: Lowered  # f, g of each term, or a, b
    outers: tuple[Pointwise | None, ...]
    targets: tuple[tuple[int, int], ...]  # places of f and g (a and b) among the targets
    output: int  # of a response: the place of its output
    noise: str
    by_unknown: Lowered | None  # derivatives of the output
    plain: bool  # whether b is a constant
    acts: bool  # whether the equations depend on it
    kinked: bool  # whether it averages a function with a kink
    reads: tuple[int, ...]  # the places of the arguments that the factors depend on
    switches: Lowered  # the expressions at whose zeros they have a kink or a jump
    output_reads: tuple[int, ...] = ()  # of the arguments of a response's output
    joint: Lowered | None = None
    sides: tuple[tuple[int, ...], ...] = ()  # places of f … and g … among the targets, of a joint mean

    def join(self, first: Sequence[Any], second: Sequence[Any]) -> Any:
        """Return the joint function of what stands at one time and at another."""
        assert self.joint is not None
        return self.joint(*first, *second)[0]


@dataclass(frozen=True, eq=False)
class EnsembleProgram:
    """Path equations that depend on each other, ready to run.

    All functions take the time, unknowns, noises, constants and one-time functions; those of ``means``, ``processes`` and
    ``targets`` also the ``memories``, integrals along the path that nothing but averages needs.
    """

    unknowns: tuple[str, ...]
    integrated: tuple[bool, ...]
    noises: tuple[str, ...]
    constants: tuple[str, ...]
    functions: tuple[str, ...]
    starts: Lowered
    signals: Lowered  # the signals, ``count`` of them, then their derivatives by the unknowns
    forces: Lowered  # the signals alone
    noise_slopes: Lowered | None  # derivatives of the signals by the noises; None if all vanish
    count: int
    links: tuple[Link, ...]
    drives: tuple[Drive, ...]
    kicks: tuple[Drive, ...]
    memories: tuple[KernelOperator, ...]
    memory_signals: Lowered
    means: tuple[MeanProgram, ...]
    processes: tuple[str, ...]
    process_values: Lowered
    # number of functions of a path that are averaged, whose response is wanted, or that a memory
    # kernel acts on: the mean and the variance of their responses are needed
    targets: int
    target_values: Lowered
    target_slopes: Lowered
    target_noise_slopes: Lowered
    start_slopes: Lowered  # derivatives by the constants: of starts,
    signal_slopes: Lowered | None  # of signals (None if all vanish),
    target_constant_slopes: Lowered  # and of targets
    sloped: tuple[bool, ...]  # of every constant, whether these are functions
    # whether slopes do not tell responses: paths cross kinks, or pairs are averaged of functions
    # that jump or are no sum of products
    kinked: bool
    degree: int | None  # of what is averaged, when unknowns are affine in noises and constants
    jumping: tuple[int, ...]  # signals with ramps in place of jumps
    held: bool  # whether paths may stay on ramps: white noise drives them off

    @property
    def driving(self) -> tuple[str, ...]:
        """All noises: those that the functions read, then white ones."""
        return (*self.noises, *dict.fromkeys(kick.noise for kick in self.kicks))


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of processes that are driven together, block by block, and their means.

    The first ``leading`` of them draw; the others follow those, so that the blocks between these do not count.
    ``cusp`` says that it may have one at equal times, as e^(−|t − t'|), and ``integrated`` that nothing depends on the
    processes but through integrals of them.
    """

    noises: tuple[str, ...]
    blocks: tuple[tuple[Pointwise, ...], ...]
    centres: tuple[Pointwise, ...]
    leading: int
    cusp: bool
    integrated: bool


@dataclass(frozen=True, eq=False)
class StochasticProgram:
    """Everything a stochastic solver runs.

    ``kinked`` names the observables with a kink under an expectation; ``laws`` are those of starts that are drawn,
    ``whites`` the strengths of white noises. ``drawn`` are noises that are drawn step by step: with the law of every draw, or
    with b and τ of a telegraph signal.
    """

    name: str
    ensembles: tuple[EnsembleProgram, ...]
    covariances: tuple[Covariance, ...]
    whites: tuple[tuple[str, Pointwise], ...]
    definitions: tuple[Definition, ...]
    observables: tuple[tuple[str, PointwiseSum], ...]
    kinked: frozenset[str]
    laws: tuple[tuple[str, LawPlan], ...]
    start: Lowered
    drawn: tuple[tuple[str, LawPlan | Lowered], ...] = ()


def compile_stochastic(derivation: Derivation, parameters: Sequence[Parameter]) -> StochasticProgram:
    """Return the plan of a system in path form, its parameters being arguments."""
    made = derivation.form
    assert made is not None
    every = [mean for ensemble in made.ensembles for mean in ensemble.means]
    # names of expectations: their texts, so that systems that share one know it by the same name
    texts = [str(mean.node) for mean in every]
    names = {
        mean.node: text if texts.count(text) == 1 else f"{text} ({place})"
        for place, (mean, text) in enumerate(zip(every, texts, strict=True))
    }
    relations = Relations(parameters, names, (mean.node for mean in every if mean.kind == "response"))
    # the expectations that the equations depend on; the others are only reported
    closed: list[Basic] = [equation.rhs for equation in (*made.kernels, *made.functions)]
    closed += [part for _, law in made.covariances for part in (law.covariance, law.mean)]
    closed += [strength for _, strength in made.whites]
    closed += [link.signal for ensemble in made.ensembles for link in ensemble.links]
    needed = frozenset(node for expr in closed for node in expr.atoms(E))
    return StochasticProgram(
        made.name,
        tuple(_ensemble(item, relations, names, needed) for item in made.ensembles),
        tuple(_covariance(members, law, relations, made) for members, law in made.covariances),
        tuple((noise.name, relations.pointwise(strength)) for noise, strength in made.whites),
        tuple(
            relations.definition(equation, start_of(derivation.system, equation))
            for equation in in_order([*made.kernels, *made.functions])
        ),
        tuple((name, relations.sum(expr)) for name, expr in made.observables),
        frozenset(name for name, expr in made.observables if any(node.has(*KINKS) for node in expr.atoms(E))),
        tuple((item.name, compile_law(law, parameters)) for item, law in made.laws),
        lower([made.start], [], parameters),
        tuple(
            (item.name, compile_law(law.law, parameters) if isinstance(law, Resampled) else lower([*law.args], [], parameters))
            for item, law in made.drawn
        ),
    )


def _covariance(members: Sequence[Process], law: GP, relations: Relations, made: form.PathForm) -> Covariance:
    count = len(members)
    kernels, centres = ([*map(relations.pointwise, entries(part))] for part in (law.covariance, law.mean))
    return Covariance(
        tuple(noise.name for noise in members),
        tuple(tuple(kernels[begin : begin + count]) for begin in range(0, count**2, count)),
        tuple(centres * count if len(centres) == 1 else centres),
        law.leading if isinstance(law, FollowedGP) else count,
        _has_cusp(law.covariance, {value.head: item for item in made.kernels for value in item.lhs.atoms(Value)}),
        all(_is_integrated(noise, ensemble) for noise in members for ensemble in made.ensembles),
    )


def _has_cusp(covariance: Basic, kernels: dict[Any, Any]) -> bool:
    """Whether a covariance, or a kernel in it, is written with a function that has a kink; those of equations in time may."""
    outside = covariance.xreplace(dict.fromkeys(covariance.atoms(E), S.Zero))
    read = [kernels[value.head] for value in outside.atoms(Value) if value.head in kernels]
    rest = {head: equation for head, equation in kernels.items() if equation not in read}
    return outside.has(*KINKS) or any(bool(item.lhs.atoms(Derivative)) or _has_cusp(item.rhs, rest) for item in read)


def _is_integrated(noise: Process, ensemble: PathEnsemble) -> bool:
    """Whether paths depend on a noise through integrals of it alone."""
    read = [*ensemble.signals, *(piece for mean in ensemble.means for piece in mean.pieces)]
    read += [*(link.signal for link in ensemble.links), *(memory.signal for memory in ensemble.memories)]
    drives = [ensemble.unknowns[drive.unknown].integrated for drive in ensemble.drives if drive.noise == noise]
    return all(drives) and not any(expr.has(noise(ROW)) for expr in read)


def _ensemble(ensemble: PathEnsemble, relations: Relations, names: dict[E, str], needed: frozenset[E]) -> EnsembleProgram:
    """Compile one kind of path: its signals with slopes, what is averaged over it and how that responds to its noises.

    ``names`` are those of the means, ``needed`` the means that act back on paths.
    """
    ensemble = with_ramps(ensemble)
    signals = {signal: place for place, signal in enumerate(ensemble.signals)}
    # what is averaged, responds, or is acted on by memory
    found = [piece for mean in ensemble.means for piece in mean.pieces]
    found += [link.signal for link in ensemble.links if link.memory is not None]
    targets = {expr: place for place, expr in enumerate(dict.fromkeys(found))}
    unknowns, constants = [unknown.symbol for unknown in ensemble.unknowns], ensemble.randoms
    noises = [noise(ROW) for noise in ensemble.noises]
    inner = [memory.signal for memory in ensemble.memories]
    shown = [expr for _, expr in ensemble.processes]
    read = {value.head for expr in (*signals, *targets, *inner, *shown) for value in expr.atoms(Value)}
    functions = sorted((head for head in read if isinstance(head, Function)), key=str)
    inputs: list[Basic] = [ROW, *unknowns, *noises, *constants, *(head(ROW) for head in functions)]
    full = [*inputs, *(memory.symbol for memory in ensemble.memories)]
    starts = [unknown.start for unknown in ensemble.unknowns]
    # constants along which slopes are not written in functions, or with which paths jump
    moving = [*starts, *signals]
    rough = {
        item
        for item in constants
        if any(slope(expr, item).atoms(Derivative, Subs) for expr in (*moving, *targets))
        or any(jumps(expr, [item]) is not None for expr in moving)
    }

    def make(expressions: Iterable[Expr], arguments: Sequence[Basic]) -> Lowered:
        return lower(list(expressions), arguments, relations.parameters)

    def slopes(expressions: Iterable[Expr], along: Sequence[Basic]) -> list[Expr]:
        """Slopes by regions, so that jumps are left out; none by a constant that has no slope."""
        return [S.Zero if item in rough else slope(expr, item) for expr in expressions for item in along]

    def unless_zero(expressions: list[Expr]) -> Lowered | None:
        return make(expressions, inputs) if any(expr != 0 for expr in expressions) else None

    def memory(link: form.Coupling) -> tuple[KernelOperator | None, int | None]:
        return (None, None) if link.memory is None else (relations.kernel(link.memory.kernel), targets[link.signal])

    def drive(item: form.Forcing) -> Drive:
        return Drive(item.unknown, item.noise.name, relations.factor(item.coefficient))

    def mean(item: Mean) -> MeanProgram:
        respond = item.kind == "response"
        factors = item.pieces[: -1 if respond else None]
        symbols = [symbol for side in item.sides for _, symbol in side]
        return MeanProgram(
            name=names[item.node], kind=item.kind, factors=make(factors, full),
            outers=tuple(relations.factor(outer) for outer, _, _ in item.terms),
            targets=tuple((targets[left], targets[right]) for _, left, right in item.terms),
            output=targets[item.output] if respond else -1,
            noise=item.noise.name if item.noise is not None else "",
            by_unknown=make(slopes([item.output], unknowns), full) if respond else None,
            plain=respond and not item.terms[0][2].free_symbols,
            acts=item.node in needed, kinked=item.node.has(*KINKS),
            reads=tuple(k for k, entry in enumerate(full) if any(part.has(entry) for part in factors)),
            switches=make(switches(factors), full),
            output_reads=tuple(k for k, entry in enumerate(full) if item.output.has(entry)),
            joint=make([item.joint], symbols) if item.sides else None,
            sides=tuple(tuple(targets[piece] for piece, _ in side) for side in item.sides),
        )  # fmt: skip

    return EnsembleProgram(
        unknowns=tuple(unknown.name for unknown in ensemble.unknowns),
        integrated=tuple(unknown.integrated for unknown in ensemble.unknowns),
        noises=tuple(noise.name for noise in ensemble.noises),
        constants=tuple(item.name for item in constants),
        functions=tuple(head.name for head in functions),
        starts=make(starts, constants),
        signals=make([*signals, *slopes(signals, unknowns)], inputs),
        forces=make(signals, inputs),
        noise_slopes=unless_zero(slopes(signals, noises)),
        count=len(signals),
        links=tuple(
            Link(item.unknown, signals[item.signal], relations.factor(item.coefficient), *memory(item))
            for item in ensemble.links
        ),
        drives=tuple(map(drive, ensemble.drives)),
        kicks=tuple(map(drive, ensemble.kicks)),
        memories=tuple(relations.kernel(memory.kernel) for memory in ensemble.memories),
        memory_signals=make(inner, inputs),
        means=tuple(mean(item) for item in ensemble.means),
        processes=tuple(head.name for head, _ in ensemble.processes),
        process_values=make(shown, full),
        targets=len(targets),
        target_values=make(targets, full),
        target_slopes=make(slopes(targets, unknowns), full),
        target_noise_slopes=make(slopes(targets, noises), full),
        start_slopes=make(slopes(starts, constants), constants),
        signal_slopes=unless_zero(slopes(signals, constants)),
        target_constant_slopes=make(slopes(targets, constants), full),
        sloped=tuple(item not in rough for item in constants),
        kinked=_is_kinked(ensemble, [*unknowns, *noises]),
        degree=_degree(ensemble, list(signals)),
        jumping=tuple(place for signal, place in signals.items() if signal.has(WIDTH)),
        held=any(
            not node.has(*(unknowns[kick.unknown] for kick in ensemble.kicks))
            for signal in signals
            for node in signal.atoms(Min)
            if node.has(WIDTH)
        ),
    )


def with_ramps(ensemble: PathEnsemble) -> PathEnsemble:
    """Return an ensemble with ramps in place of sign(a) and Heaviside(a), where a moves with unknowns.

    In a step of length h a jump by b moves a by b ``WIDTH``, times the slopes of a: over as much the ramp rises, so that a
    path that is held at a = 0 finds its place on it. For vanishing steps this is Filippov's solution.
    """
    unknowns = [unknown.symbol for unknown in ensemble.unknowns]
    ramps: dict[Basic, Basic] = {}
    for node in sorted({node for signal in ensemble.signals for node in signal.atoms(sign, Heaviside)}, key=str):
        inside, jump = node.args[0], Dummy("jump")
        slopes = {item: Abs(slope(inside, item)) for item in unknowns}
        pushed = Add(*(slopes[unknowns[link.unknown]] for link in ensemble.links if link.signal.has(node)))
        reach = WIDTH * (pushed if pushed != 0 else Add(*slopes.values()))
        size = Add(*(Abs(slope(signal.xreplace({node: jump}), jump)) for signal in ensemble.signals))
        if reach != 0:
            ramp = Max(-1, Min(1, inside / (reach * size.xreplace({jump: S.One}) + Float(1e-300))))
            ramps[node] = ramp if isinstance(node, sign) else (1 + ramp) / 2

    def put(item: Any) -> Any:  # (a mean is known by its node)
        return item.xreplace(ramps) if isinstance(item, Expr) and not isinstance(item, E) else with_parts(item, put)

    return put(ensemble) if ramps else ensemble


def _is_kinked(ensemble: PathEnsemble, moving: list[Basic]) -> bool:
    """Whether a signal has a kink, or one of a pair that is averaged a jump, in what moves; or a pair is joint."""
    bends = [node for signal in ensemble.signals for node in signal.atoms(*KINKS, Parameter) if node.has(*moving, JUMP_WIDTH)]
    if bends:
        return True
    pairs = [piece for mean in ensemble.means if mean.kind == "two" for piece in mean.pieces]
    return any(mean.sides for mean in ensemble.means) or any(jumps(piece, moving) is not None for piece in pairs)


def _degree(ensemble: PathEnsemble, signals: list[Expr]) -> int | None:
    """Return the degree of what is averaged in the noises and constants, or None if unknowns are not affine in them."""
    moving = [unknown.symbol for unknown in ensemble.unknowns] + [noise(ROW) for noise in ensemble.noises]
    moving += [*ensemble.randoms, *(memory.symbol for memory in ensemble.memories)]
    symbols = {item: Dummy(f"x{place}") for place, item in enumerate(moving)}

    def degree(expr: Expr) -> int | None:
        plain = expr.xreplace(symbols)
        present = [item for item in symbols.values() if plain.has(item)]
        if not present:
            return 0
        return int(Poly(plain, *present).total_degree()) if plain.is_polynomial(*present) else None

    linear = [*signals, *(memory.signal for memory in ensemble.memories), *(unknown.start for unknown in ensemble.unknowns)]
    if any(order is None or order > 1 for order in map(degree, linear)) or any(mean.sides for mean in ensemble.means):
        return None
    orders = [
        degree(Mul(*term[1:])) if mean.kind != "response" else 2 * (degree(mean.output) or 2)
        for mean in ensemble.means
        for term in mean.terms
    ]
    return None if None in orders else max((order for order in orders if order is not None), default=0)
