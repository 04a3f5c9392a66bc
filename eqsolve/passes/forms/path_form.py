"""Stochastic systems in the form a solver runs: path equations, means over paths, and deterministic closures.

Along one path every unknown U_a (a state, a self-referring definition, or an integral that enters nonlinearly)
satisfies

    U_a = start_a + Σ_k O_ak φ_k(t, U, z, constants) + Σ_z P_az z + Σ_ξ ∫ c_aξ ξ,

where the operators O and P act in time and are the same for all paths, and the signals φ_k are pointwise. Integrals
that enter linearly are composed into the operators; noises that enter linearly become drives; white noise, which enters
derivatives only, becomes kicks. Everything else a system says is a mean over paths (a function of one time, of two
times, or a response) or a closed relation between kernels.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sympy import Add, Basic, Dummy, Expr, Mul, S, exp, expand

from eqsolve.errors import ModelError
from eqsolve.graphs import connected_parts, make_graph, reached
from eqsolve.language.laws import Law, Resampled, Telegraph
from eqsolve.language.model import Equation
from eqsolve.language.nodes import GP, E, Int, Resp, White, entries
from eqsolve.language.symbols import Function, Process, Random, Time, Value
from eqsolve.language.system import System, members, start_constant
from eqsolve.passes.forms.expressions import free_times, outermost, partial, rebuilt

# --- The times of a system in its standard form, ROW and COLUMN of a table, MIDDLE of an integral;
# products sorted by them.

ROW, COLUMN, MIDDLE = Time("row"), Time("column"), Time("middle")


def as_written(expr: Basic) -> Basic:
    """Return an expression with the times that messages know: t and t' instead of rows and columns."""
    return expr.xreplace({ROW: Time("t"), COLUMN: Time("t'"), MIDDLE: Time("s")})


def at_row(expr: Basic) -> Any:
    """Return an expression of one time, in ROW."""
    return expr.xreplace(dict.fromkeys(free_times(expr), ROW))


def initial_values(system: System, equation: Equation) -> tuple[Expr | None, Expr | None]:
    """Return what is given of an unknown at the start, and on the diagonal in ROW."""
    head = equation.head
    if isinstance(head, Function):
        return system.init.get(head), None
    start = diagonal = None
    for key, value in system.init.items():
        if isinstance(key, Value) and key.head == head:
            first, second = key.moments
            if isinstance(first, Time) and first == second:
                diagonal = value.xreplace({first: ROW})
            else:
                start = value
    return start, diagonal


def sort_factors(term: Expr, group: Callable[[Expr], str]) -> defaultdict[str, list[Expr]]:
    """Sort the factors of a product into named groups."""
    groups: defaultdict[str, list[Expr]] = defaultdict(list)
    for factor in Mul.make_args(term):
        groups[group(factor)].append(factor)
    return groups


def products(term: Expr, group: Callable[[Expr], str], *names: str) -> tuple[Expr, ...]:
    """Return the products of the factors in some of these groups."""
    groups = sort_factors(term, group)
    return tuple(Mul(*groups[name]) for name in names)


def separate_times(term: Expr) -> tuple[Expr, Expr, Expr, Expr]:
    """Return a product as (outer, left, right, joint): factors without MIDDLE, without COLUMN, without ROW, with all three."""

    def group(factor: Expr) -> str:
        if MIDDLE not in factor.free_symbols:
            return "outer"
        if COLUMN not in factor.free_symbols:
            return "left"
        return "right" if ROW not in factor.free_symbols else "joint"

    outer, left, right, joint = products(term, group, "outer", "left", "right", "joint")
    return outer, left, right, joint


def multiply_out(expr: Expr) -> Expr:
    """Return an expression as a sum, exponentials of one time left whole: factors of them may overflow."""
    whole = {node: Dummy() for node in expr.atoms(exp) if len(node.atoms(Time)) == 1 and not node.has(Value, E)}
    return expand(expr.xreplace(whole)).xreplace({mark: node for node, mark in whole.items()})


# --- Expectations of two times as sums of products of one time each.
def expanded(argument: Expr, one: set[Time], other: set[Time]) -> tuple[Expr, ...]:
    """Return an expression as terms that are products of factors of one time each, as far as known identities do that."""
    total = multiply_out(argument)
    if any(mixes(term, one, other) for term in Add.make_args(total)):
        total = expand(total, trig=True)
    return Add.make_args(total)


def mixes(term: Expr, one: set[Time], other: set[Time]) -> bool:
    """Whether a random factor of a product holds both times."""
    return any(is_random(item) and item.free_symbols & one and item.free_symbols & other for item in Mul.make_args(term))


def unseparated(label: str, node: E) -> str:
    """Return what is wrong with an expectation in which a function of two times meets paths, and what to do."""
    return (
        f"{label}: `{as_written(node)}` mixes paths at two times with a function of both; write "
        "what is averaged as a sum of products f(t)*g(t'), with that function outside"
    )


def is_random(expr: Expr) -> bool:
    """Whether an expression differs between paths: what is averaged does not."""
    return any(isinstance(getattr(node, "head", node), Process | Random) for node in outermost(expr, Value, Random, but=E))


@dataclass(frozen=True)
class Memory:
    """∫ kernel(t, s) signal(s) ds along a path; the kernel in (ROW, MIDDLE), the signal in ROW."""

    symbol: Dummy
    kernel: Expr
    signal: Expr


@dataclass(frozen=True)
class PathUnknown:
    """An unknown along a path: ``symbol`` stands for its value now; ``integrated`` if its equation is for the
    derivative."""

    name: str
    symbol: Basic
    integrated: bool
    start: Expr


@dataclass(frozen=True)
class Coupling:
    """unknown += [J] diag(coefficient) [kernel operator] signal; ``memory`` is None for a plain signal."""

    unknown: int
    coefficient: Expr
    memory: Memory | None
    signal: Expr


@dataclass(frozen=True)
class Forcing:
    """unknown += [J] diag(coefficient) noise."""

    unknown: int
    coefficient: Expr
    noise: Process


@dataclass(frozen=True)
class Mean:
    """An expectation."""

    node: E  # the expectation in (ROW) or (ROW, COLUMN)
    kind: str  # ``"one"``, ``"two"`` or ``"response"``
    # for "one": (1, f, 1). For "two": (outer, f(ROW), g(ROW) standing for the column's time). For
    # "response": (outer, a(ROW), b(ROW)) around the response of ``output`` to ``noise``.
    terms: tuple[tuple[Expr, Expr, Expr], ...]
    output: Expr = S.Zero
    noise: Process | None = None
    # of "two" without terms, what is no sum of products: a function of symbols, and what these
    # stand for at the row's time and at the column's, in ROW
    joint: Expr = S.Zero
    sides: tuple[tuple[tuple[Expr, Dummy], ...], ...] = ()

    @property
    def pieces(self) -> list[Expr]:
        """What it averages, factor by factor, and the output of a response."""
        factors = [piece for term in self.terms for piece in term[1:]] + [piece for side in self.sides for piece, _ in side]
        return [*factors, *([self.output] if self.kind == "response" else [])]


@dataclass(frozen=True)
class PathEnsemble:
    """Processes, noises and constants that depend on each other, and the means over them."""

    unknowns: tuple[PathUnknown, ...]
    links: tuple[Coupling, ...]
    drives: tuple[Forcing, ...]
    kicks: tuple[Forcing, ...]
    memories: tuple[Memory, ...]
    noises: tuple[Process, ...]
    randoms: tuple[Random, ...]
    means: tuple[Mean, ...]
    processes: tuple[tuple[Process, Expr], ...]

    @property
    def signals(self) -> list[Expr]:
        """Those of the links, each once."""
        return list(dict.fromkeys(link.signal for link in self.links))


@dataclass(frozen=True)
class PathForm:
    """A whole stochastic system: ensembles of paths, covariances, kernels, functions and observables.

    ``kernels``, ``functions`` and ``observables`` are in the times (ROW, COLUMN); expectations in them are ``Mean``
    nodes. ``whites`` are white noises with their strengths, ``drawn`` those that are drawn step by step, with their laws;
    ``start`` is the first time.
    """

    name: str
    ensembles: tuple[PathEnsemble, ...]
    covariances: tuple[tuple[tuple[Process, ...], GP], ...]
    whites: tuple[tuple[Process, Expr], ...]
    kernels: tuple[Equation, ...]
    functions: tuple[Equation, ...]
    observables: tuple[tuple[str, Expr], ...]
    laws: tuple[tuple[Random, Law], ...]
    start: Expr
    drawn: tuple[tuple[Process, Resampled | Telegraph], ...] = ()


class _Builder:
    """Inlines definitions, names integrals, splits right-hand sides, collects means; one per system."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.fresh = itertools.count()
        self.laws: dict[Random, Law] = {}
        self.states = [eq for eq in system.equations if isinstance(eq.head, Process) and eq.is_differential]
        pointwise = [eq for eq in system.equations if isinstance(eq.head, Process) and not eq.is_differential]
        heads = [eq.head for eq in pointwise]
        edges = [(value.head, eq.head) for eq in pointwise for value in eq.rhs.atoms(Value) if value.head in heads]
        graph = make_graph(heads, edges)
        looped = {node for node in graph if node in reached(graph, [node])}
        # one unknown in place of one for each of its integrals
        several = [eq.head for eq in pointwise if len(eq.rhs.atoms(Int)) > 1]
        looped |= {head for head in several if self._enters_nonlinearly(head)}
        self.loops = [eq for eq in pointwise if eq.head in looped]
        self.definitions = {eq.head: eq for eq in pointwise if eq.head not in looped}
        self.memories: dict[tuple[Expr, Expr], Memory] = {}
        self.means: dict[E, Mean] = {}

    def _enters_nonlinearly(self, head: Any) -> bool:
        """Whether a process multiplies what differs between paths: it, not its integrals, is unknown."""
        paths = [equation.rhs for equation in self.system.equations if isinstance(equation.head, Process)]
        read = ((right, value) for right in paths for value in outermost(right, Value, but=(Int, E)) if value.head == head)
        return any(is_random(partial(right, value)) for right, value in read)

    # --- inlining
    def inline(self, expr: Any) -> Any:
        """Replace defined processes by their definitions, integrals inside them with fresh variables."""
        if not any(value.head in self.definitions for value in expr.atoms(Value)):
            return expr
        if isinstance(expr, Value):
            equation = self.definitions[expr.head]
            body = self.freshen(equation.rhs)
            return self.inline(body.xreplace({equation.time: expr.moments[0]}))
        return rebuilt(expr, self.inline)  # conditions of a Piecewise included

    def freshen(self, expr: Any) -> Any:
        if isinstance(expr, Int):
            variable = Time(f"s{next(self.fresh)}")
            inner = self.freshen(expr.integrand).xreplace({expr.variable: variable})
            return Int(inner, (variable, expr.low, expr.high))
        return expr if isinstance(expr, Value) else rebuilt(expr, self.freshen)

    # --- integrals along a path
    def local(self, expr: Any, label: str) -> Any:
        """Return an expression at ROW with every integral over the past replaced by memory symbols."""
        if isinstance(expr, Int):
            return self.memory(expr, label)
        return expr if isinstance(expr, Value | E) else rebuilt(expr, lambda arg: self.local(arg, label))

    def memory(self, node: Int, label: str) -> Expr:
        if node.low != self.system.start or node.high != ROW:
            raise ModelError(f"{label}: the integral `{node}` along a path must run from the start to the running time")
        integrand = node.integrand.xreplace({node.variable: MIDDLE})
        whole = self.factors(integrand)
        terms = [whole] if whole is not None else [self.factors(term) for term in Add.make_args(multiply_out(integrand))]
        total = S.Zero
        for parts in terms:
            if parts is None:
                raise ModelError(f"{label}: `{node}` mixes a process with the kernel of its integral; separate them")
            outer, kernel, signal = parts
            self.collect(kernel.xreplace({MIDDLE: COLUMN}), label)
            key = (kernel, self.local(signal.xreplace({MIDDLE: ROW}), label))
            if key not in self.memories:
                self.memories[key] = Memory(Dummy(f"M{len(self.memories)}", real=True), *key)
            total += outer * self.memories[key].symbol
        return total

    def factors(self, term: Expr) -> tuple[Expr, ...] | None:
        """Return a product as (outside, kernel in (ROW, MIDDLE), signal in MIDDLE), or None if a factor mixes them."""

        def group(factor: Expr) -> str:
            now, then = ROW in factor.free_symbols, MIDDLE in factor.free_symbols
            if not is_random(factor):
                return "kernel" if then else "outer"
            moving = any(isinstance(value.head, Process) for value in factor.atoms(Value))
            return "signal" if not now else "outer" if moving and not then else "mixed"

        mixed, *parts = products(term, group, "mixed", "outer", "kernel", "signal")
        return tuple(parts) if mixed == 1 else None

    def at_row(self, expr: Expr, time: Basic, label: str) -> Expr:
        return self.local(self.inline(self.freshen(expr).xreplace({time: ROW})), label)

    # --- expectations, brought to separated form
    def collect(self, expr: Expr, label: str) -> Expr:
        for node in expr.atoms(E):
            if node not in self.means:
                self.means[node] = self.separate(node, label)
        return expr

    def separate(self, node: E, label: str) -> Mean:
        argument = self.inline(self.freshen(node.argument))
        responses = argument.atoms(Resp)
        if responses:
            return self.response(node, argument, responses, label)
        moments = argument.free_symbols & {ROW, COLUMN}
        if COLUMN not in moments:
            return Mean(node, "one", ((S.One, self.local(argument, label), S.One),))
        if ROW not in moments:
            moved = self.local(argument.xreplace({COLUMN: ROW}), label)
            return Mean(node, "two", ((S.One, S.One, moved),))
        terms = [self.split(term, label) for term in Add.make_args(argument)]
        if None in terms:
            terms = [self.split(term, label) for term in expanded(argument, {ROW}, {COLUMN})]
        if None in terms:
            return self.join(node, argument, label)
        return Mean(node, "two", tuple(terms))  # type: ignore[arg-type]

    def join(self, node: E, argument: Expr, label: str) -> Mean:
        """Return a mean over pairs of values: a function of what there is at each time alone."""
        sides: tuple[dict[Expr, Dummy], ...] = ({}, {})

        def mark(expr: Any) -> Any:
            now, then = ROW in expr.free_symbols, COLUMN in expr.free_symbols
            if now and then:
                if isinstance(expr, Value | E | Int):
                    raise ModelError(unseparated(label, node))
                return rebuilt(expr, mark)
            if not (now or then or is_random(expr)):
                return expr
            piece = self.local(expr.xreplace({COLUMN: ROW}), label)
            return sides[then].setdefault(piece, Dummy("piece", real=True))

        return Mean(node, "two", (), joint=mark(argument), sides=tuple(tuple(side.items()) for side in sides))

    def split(self, term: Expr, label: str) -> tuple[Expr, Expr, Expr] | None:
        """Return a product as (deterministic, random at ROW, random at COLUMN), or None if a factor mixes the times."""

        def group(factor: Expr) -> str:
            if not is_random(factor):
                return "outer"
            if COLUMN not in factor.free_symbols:
                return "first"
            return "second" if ROW not in factor.free_symbols else "mixed"

        mixed, outer, first, second = products(term, group, "mixed", "outer", "first", "second")
        return (outer, self.local(first, label), self.local(second.xreplace({COLUMN: ROW}), label)) if mixed == 1 else None

    def response(self, node: E, argument: Expr, responses: set[Resp], label: str) -> Mean:
        marks = {item: Dummy("response", real=True) for item in responses}
        terms = Add.make_args(multiply_out(argument.xreplace(marks)))  # without changing what a response is of
        if len(responses) != 1 or len(terms) != 1:
            raise ModelError(
                f"{label}: an expectation holds one response; write the sum of expectations instead of `{as_written(node)}`"
            )
        (inner,) = responses
        if inner.output.free_symbols & {COLUMN} or inner.noise.moments[0] != COLUMN:
            raise ModelError(f"{label}: a response is taken at the first time to a noise at the second, got `{inner}`")
        rest = terms[0] / marks[inner]
        if rest.has(marks[inner]):
            raise ModelError(f"{label}: the response `{inner}` must enter linearly")
        around = self.split(rest, label)
        if around is None:
            raise ModelError(unseparated(label, node))
        output = self.local(self.inline(self.freshen(inner.output)), label)
        return Mean(node, "response", (around,), output, inner.noise.head)


def derive_path_form(system: System) -> PathForm:
    """Return the path equations, means and closures of a system whose parameters are bound."""
    builder = _Builder(system)
    kernels: list[Equation] = []
    functions: list[Equation] = []
    for equation in system.equations:
        if isinstance(equation.head, Process):
            continue
        target = equation.defined
        moved = equation.map(dict(zip(target.moments, (ROW, COLUMN), strict=False)))
        builder.collect(moved.rhs, equation.label)
        (kernels if target.head.arity == 2 else functions).append(moved)
    observables = [(name, builder.collect(at_row(expr), f"observable `{name}`")) for name, expr in system.observables.items()]
    running = {eq.time for eq in system.equations if isinstance(eq.head, Process)}  # a covariance's first time
    covariances = []
    for key, law in system.laws.items():
        if isinstance(law, GP):
            moments = sorted(free_times(law.covariance), key=lambda item: item not in running)
            places = dict(zip(moments, (ROW, COLUMN), strict=False))
            label = f"law of `{members(key)[0]}`"
            kernel, centre = law.covariance.xreplace(places), at_row(law.mean)
            for entry in (*entries(kernel), *entries(centre)):
                builder.collect(entry, label)
            covariances.append((members(key), law.func(kernel, centre, *law.args[2:])))
    strengths = {key: law.strength for key, law in system.laws.items() if isinstance(law, White)}
    whites = [(key, builder.collect(at_row(value), f"law of `{key.name}`")) for key, value in strengths.items()]
    ensembles = _ensembles(builder)
    return PathForm(
        system.name, ensembles, tuple(covariances), tuple(whites), tuple(kernels), tuple(functions), tuple(observables),
        tuple(builder.laws.items()), system.start, tuple((noise, system.laws[noise]) for noise in system.stepped),
    )  # fmt: skip


def _ensembles(builder: _Builder) -> tuple[PathEnsemble, ...]:
    """Write down the path equations and cut the system into parts that share nothing random."""
    rights: dict[Any, tuple[PathUnknown, Expr]] = {}
    for equation in (*builder.states, *builder.loops):
        head, integrated, start = equation.defined.head, equation.is_differential, S.Zero
        right = builder.at_row(equation.rhs, equation.time, equation.label)
        if integrated:
            given = builder.system.init[head]
            start = start_constant(head, given)
            if isinstance(given, Law):
                builder.laws[start] = given
        rights[head] = (PathUnknown(equation.key, head(ROW), integrated, start), right)
    memories = {memory.symbol: memory for memory in builder.memories.values()}
    graph: dict[object, dict[object, None]] = {}

    def touch(owner: object, *expressions: Basic) -> None:
        for expr in expressions:
            graph.setdefault(owner, {}).update(dict.fromkeys(_sources(expr, memories)))

    for head, (unknown, right) in rights.items():
        touch(head, right, unknown.start)
    for mean in builder.means.values():
        touch(mean, *mean.pieces)
        if mean.noise is not None:
            graph[mean][mean.noise] = None
    for key in builder.system.laws:
        for member in members(key):
            graph.setdefault(member, {})[members(key)[0]] = None
    ensembles = (_ensemble(builder, part, rights, memories) for part in connected_parts(graph))
    return tuple(item for item in ensembles if item.unknowns or item.means)


def _sources(expr: Basic, memories: dict[Dummy, Memory]) -> set[Basic]:
    """Return the processes and random constants an expression depends on, through integrals too."""
    direct = {value.head for value in expr.atoms(Value) if isinstance(value.head, Process)} | expr.atoms(Random)
    return direct.union(*(_sources(memories[item].signal, memories) for item in expr.atoms(Dummy) if item in memories))


def _ensemble(
    builder: _Builder, part: set[Any], rights: dict[Any, tuple[PathUnknown, Expr]], memories: dict[Dummy, Memory]
) -> PathEnsemble:
    mine = {head: entry for head, entry in rights.items() if head in part}
    unknowns = [unknown for unknown, _ in mine.values()]
    driving = [noise for noise in builder.system.noises if noise in part]
    whites = builder.system.whites
    links: list[Coupling] = []
    drives: list[Forcing] = []
    kicks: list[Forcing] = []

    def symbols(expr: Basic) -> list[Dummy]:
        return [item for item in sorted(expr.atoms(Dummy), key=str) if item in memories]

    pending: list[Dummy] = []  # integrals that become unknowns, since they enter nonlinearly
    for index, (_, right) in enumerate(mine.values()):
        rest = right
        for symbol in symbols(right):
            weight = _path_free(right.diff(symbol))
            if weight is None:
                pending.append(symbol)
                continue
            rest = rest - weight * symbol
            links.append(_link(index, weight, memories[symbol], memories[symbol].signal))
        for noise in driving:
            weight = _path_free(partial(rest, noise(ROW)))
            if weight is not None and weight != 0:
                rest = rest - weight * noise(ROW)
                (kicks if noise in whites else drives).append(Forcing(index, weight, noise))
        rest = multiply_out(rest) if rest != right else rest
        if rest != 0:
            links.append(_link(index, S.One, None, rest))
    chosen = tuple(mean for mean in builder.means.values() if mean in part)
    for piece in [*(link.signal for link in links), *(piece for mean in chosen for piece in mean.pieces)]:
        pending += symbols(piece)
    for symbol in pending:  # (which grows)
        memory = memories[symbol]
        if all(unknown.symbol != symbol for unknown in unknowns):
            links.append(_link(len(unknowns), S.One, memory, memory.signal))
            unknowns.append(PathUnknown(f"memory {symbol.name}", symbol, False, S.Zero))
            pending += symbols(memory.signal)
    own = [item for item in memories.values() if item.symbol not in pending and _sources(item.signal, memories) & part]
    known = {memory.symbol for memory in own} | {*pending}
    shown = [(head, head(ROW)) for head in mine]
    for head, equation in builder.definitions.items():
        inlined = builder.at_row(equation.rhs, equation.time, equation.label)
        if _sources(inlined, memories) & part and inlined.atoms(Dummy) <= known:
            shown.append((head, inlined))
    return PathEnsemble(
        tuple(unknowns), tuple(links), tuple(drives), tuple(kicks), tuple(own),
        noises=tuple(noise for noise in driving if noise not in whites),
        randoms=tuple(sorted((item for item in part if isinstance(item, Random)), key=lambda item: item.name)),
        means=chosen, processes=tuple(shown),
    )  # fmt: skip


def _link(unknown: int, weight: Expr, memory: Memory | None, signal: Expr) -> Coupling:
    """Return a link whose signal has a canonical sign, so that equal signals are recognised."""
    sign = -1 if signal.could_extract_minus_sign() else 1
    return Coupling(unknown, sign * weight, memory, sign * signal)


def _path_free(weight: Expr) -> Expr | None:
    """Return a coefficient if it is the same for all paths, else None."""
    return None if is_random(weight) or weight.atoms(Dummy) else weight
