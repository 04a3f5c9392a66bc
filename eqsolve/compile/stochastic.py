"""A stochastic system as a plan: its path equations as array functions, what is averaged, and the closed relations.

Symbols end here. Means, noises, constants and unknowns are known by name or place; parameters are arguments of every
function.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from sympy import Abs, Basic, Dummy, Expr, Heaviside, MatrixBase, Max, Min, Mul, Piecewise, Poly, default_sort_key, sign
from sympy.core.relational import Relational

from eqsolve.compile.laws import LawPlan, compile_law
from eqsolve.compile.lowering import Lowered, lower
from eqsolve.compile.relations import Relations, in_order
from eqsolve.language.nodes import GP, E
from eqsolve.language.symbols import Function, Parameter, Process, Value
from eqsolve.numerics.relations import Definition, KernelOperator, Pointwise, Sum
from eqsolve.passes.forms import path_form as form
from eqsolve.passes.forms.derivation import Derivation
from eqsolve.passes.forms.derivatives import partial, slope
from eqsolve.passes.forms.path_form import Ensemble, Mean, PathForm
from eqsolve.passes.forms.sectors import ROW

__all__ = ["Covariance", "Drive", "EnsemblePlan", "Link", "MeanPlan", "StochasticPlan", "compile_stochastic"]

KINKS = (Abs, Heaviside, Max, Min, Piecewise, sign)  # averaged with their own, larger error


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
    """unknown += [J] diag(coefficient) noise."""

    unknown: int
    noise: str
    coefficient: Pointwise | None


@dataclass(frozen=True, eq=False)
class MeanPlan:
    """An expectation.

    Attributes
    ----------
    name, kind
        ``"one"``: E f(t). ``"two"``: Σ outer E f(t) g(t'). ``"response"``: outer E a(t) ∂output(t)/∂noise(t') b(t').
    factors
        f, g of each term, or a, b.
    outers, targets
        Of each term: the factor in front, and the places of f and g (a and b) among the targets.
    output, noise, by_unknown, plain
        Of a response: the place of the output, the noise, the output's derivatives, whether b is a constant.
    acts, bent
        Whether the mean acts back on the paths, and whether it averages a function with a kink.
    reads, switches
        The places of the arguments that the factors depend on, and the expressions at whose zeros they bend or jump.
    """

    name: str
    kind: str
    factors: Lowered
    outers: tuple[Pointwise | None, ...]
    targets: tuple[tuple[int, int], ...]
    output: int
    noise: str
    by_unknown: Lowered | None
    plain: bool
    acts: bool
    bent: bool
    reads: tuple[int, ...]
    switches: Lowered


@dataclass(frozen=True, eq=False)
class EnsemblePlan:
    """Path equations that depend on each other, ready to run.

    All functions take the time, unknowns, noises, constants and one-time functions; those of ``means``, ``processes`` and
    ``targets`` also the ``memories``, integrals along the path that nothing but averages needs.

    Attributes
    ----------
    signals, count
        The signals, ``count`` of them, then their derivatives by the unknowns.
    noise_slopes
        Derivatives of the signals by the noises; None if all vanish.
    targets
        How many things are averaged, respond, or are acted on by memory: their mean responses tell how the means react to
        the kernels, and how much they vary which modes need points.
    degree
        That of what is averaged, as a polynomial in the noises and constants, when the unknowns are affine in them.
    """

    unknowns: tuple[str, ...]
    integrated: tuple[bool, ...]
    noises: tuple[str, ...]
    constants: tuple[str, ...]
    functions: tuple[str, ...]
    starts: Lowered
    signals: Lowered
    noise_slopes: Lowered | None
    count: int
    links: tuple[Link, ...]
    drives: tuple[Drive, ...]
    memories: tuple[KernelOperator, ...]
    memory_signals: Lowered
    means: tuple[MeanPlan, ...]
    processes: tuple[str, ...]
    process_values: Lowered
    targets: int
    target_values: Lowered
    target_slopes: Lowered
    target_noise_slopes: Lowered
    degree: int | None


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of processes that are driven together, block by block, and their means."""

    noises: tuple[str, ...]
    blocks: tuple[tuple[Pointwise, ...], ...]
    centres: tuple[Pointwise, ...]


@dataclass(frozen=True, eq=False)
class StochasticPlan:
    """Everything a stochastic solver runs.

    ``bent`` names the observables with a kink under an expectation; ``laws`` are those of starts that are drawn.
    """

    name: str
    ensembles: tuple[EnsemblePlan, ...]
    covariances: tuple[Covariance, ...]
    definitions: tuple[Definition, ...]
    observables: tuple[tuple[str, Sum], ...]
    bent: frozenset[str]
    laws: tuple[tuple[str, LawPlan], ...]
    start: Lowered


def compile_stochastic(derivation: Derivation, parameters: Sequence[Parameter]) -> StochasticPlan:
    """Return the plan of a system in path form, its parameters being arguments."""
    made = derivation.form
    assert made is not None
    every = [mean for ensemble in made.ensembles for mean in ensemble.means]
    names = {mean.node: f"E{place}" for place, mean in enumerate(every)}
    relations = Relations(parameters, names, (mean.node for mean in every if mean.kind == "response"))
    fed = _fed(made)
    return StochasticPlan(
        made.name,
        tuple(_ensemble(item, relations, names, fed) for item in made.ensembles),
        tuple(_covariance(members, law, relations) for members, law in made.covariances),
        tuple(relations.definition(equation) for equation in in_order([*made.kernels, *made.functions])),
        tuple((name, relations.sum(expr)) for name, expr in made.observables),
        frozenset(name for name, expr in made.observables if any(node.has(*KINKS) for node in expr.atoms(E))),
        tuple((item.name, compile_law(law, parameters)) for item, law in made.laws),
        lower([made.start], [], parameters),
    )


def _fed(form: PathForm) -> frozenset[E]:
    """Return the expectations that act back; the others are only reported."""
    closed: list[Basic] = [equation.rhs for equation in (*form.kernels, *form.functions)]
    for _, law in form.covariances:
        closed += [law.covariance, law.mean]
    closed += [link.signal for ensemble in form.ensembles for link in ensemble.links]
    return frozenset(node for expr in closed for node in expr.atoms(E))


def _covariance(members: Sequence[Process], law: GP, relations: Relations) -> Covariance:
    kernel, mean = law.covariance, law.mean
    count = range(len(members))
    entries = [[kernel[i, j] if isinstance(kernel, MatrixBase) else kernel for j in count] for i in count]
    centres = list(mean) if isinstance(mean, MatrixBase) else [mean] * len(members)
    return Covariance(
        tuple(noise.name for noise in members),
        tuple(tuple(relations.pointwise(entry) for entry in row) for row in entries),
        tuple(relations.pointwise(centre) for centre in centres),
    )


def _ensemble(ensemble: Ensemble, relations: Relations, names: dict[E, str], fed: frozenset[E]) -> EnsemblePlan:
    signals = {signal: place for place, signal in enumerate(ensemble.signals)}
    targets = _targets(ensemble)
    unknowns = [unknown.symbol for unknown in ensemble.unknowns]
    noises = [noise(ROW) for noise in ensemble.noises]
    everything = [*signals, *targets, *(memory.signal for memory in ensemble.memories)]
    everything += [expr for _, expr in ensemble.processes]
    read = {value.head for expr in everything for value in expr.atoms(Value) if isinstance(value.head, Function)}
    functions = sorted(read, key=str)
    inputs: list[Basic] = [ROW, *unknowns, *noises, *ensemble.randoms, *(head(ROW) for head in functions)]
    full = [*inputs, *(memory.symbol for memory in ensemble.memories)]

    def make(expressions: Sequence[Expr], arguments: Sequence[Basic]) -> Lowered:
        return lower(expressions, arguments, relations.parameters)

    def beside(expressions: Sequence[Expr], along: Sequence[Basic]) -> list[Expr]:
        """Slopes that only guide the choice of points and steps: jumps are left out."""
        return [slope(expr, symbol) for expr in expressions for symbol in along]

    by_noise = [slope for row in ensemble.noise_slopes for slope in row]

    def memory(link: form.Link) -> tuple[KernelOperator | None, int | None]:
        return (None, None) if link.memory is None else (relations.kernel(link.memory.kernel), targets[link.signal])

    def mean(item: Mean) -> MeanPlan:
        respond = item.kind == "response"
        factors = [piece for term in item.terms for piece in term[1:]]
        return MeanPlan(
            names[item.node], item.kind, make(factors, full),
            tuple(relations.factor(outer) for outer, _, _ in item.terms),
            tuple((targets[left], targets[right]) for _, left, right in item.terms),
            targets[item.output] if respond else -1, item.noise.name if item.noise is not None else "",
            make([partial(item.output, symbol) for symbol in unknowns], full) if respond else None,
            not item.terms[0][2].free_symbols, item.node in fed, item.node.has(*KINKS),
            tuple(place for place, entry in enumerate(full) if any(piece.has(entry) for piece in factors)),
            make(_switches(factors), full),
        )  # fmt: skip

    return EnsemblePlan(
        unknowns=tuple(unknown.name for unknown in ensemble.unknowns),
        integrated=tuple(unknown.integrated for unknown in ensemble.unknowns),
        noises=tuple(noise.name for noise in ensemble.noises),
        constants=tuple(item.name for item in ensemble.randoms),
        functions=tuple(head.name for head in functions),
        starts=make([unknown.start for unknown in ensemble.unknowns], list(ensemble.randoms)),
        signals=make([*signals, *(slope for row in ensemble.slopes for slope in row)], inputs),
        noise_slopes=make(by_noise, inputs) if any(expr != 0 for expr in by_noise) else None,
        count=len(signals),
        links=tuple(
            Link(item.unknown, signals[item.signal], relations.factor(item.coefficient), *memory(item))
            for item in ensemble.links
        ),
        drives=tuple(Drive(item.unknown, item.noise.name, relations.factor(item.coefficient)) for item in ensemble.drives),
        memories=tuple(relations.kernel(memory.kernel) for memory in ensemble.memories),
        memory_signals=make([memory.signal for memory in ensemble.memories], inputs),
        means=tuple(mean(item) for item in ensemble.means),
        processes=tuple(head.name for head, _ in ensemble.processes),
        process_values=make([expr for _, expr in ensemble.processes], full),
        targets=len(targets),
        target_values=make(list(targets), full),
        target_slopes=make(beside(list(targets), unknowns), full),
        target_noise_slopes=make(beside(list(targets), noises), full),
        degree=_degree(ensemble, list(signals)),
    )


def _switches(expressions: Sequence[Expr]) -> list[Expr]:
    """Return the expressions at whose zeros others bend or jump."""
    found: dict[Expr, None] = {}
    for node in sorted({node for expr in expressions for node in expr.atoms(*KINKS)}, key=default_sort_key):
        match node:
            case Max() | Min():
                found.update(dict.fromkeys(first - other for first, other in itertools.pairwise(node.args)))
            case Piecewise():
                gaps = {item for _, condition in node.args for item in condition.atoms(Relational)}
                found.update(dict.fromkeys(item.lhs - item.rhs for item in sorted(gaps, key=default_sort_key)))
            case _:
                found[node.args[0]] = None
    return list(found)


def _targets(ensemble: Ensemble) -> dict[Expr, int]:
    found: dict[Expr, None] = {}
    for mean in ensemble.means:
        found.update(dict.fromkeys(piece for term in mean.terms for piece in term[1:]))
        if mean.kind == "response":
            found[mean.output] = None
    found.update(dict.fromkeys(link.signal for link in ensemble.links if link.memory is not None))
    return {expr: place for place, expr in enumerate(found)}


def _degree(ensemble: Ensemble, signals: list[Expr]) -> int | None:
    """Return the degree of what is averaged in the noises and constants, or None if unknowns are not affine in them."""
    moving = [unknown.symbol for unknown in ensemble.unknowns] + [noise(ROW) for noise in ensemble.noises]
    moving += [*ensemble.randoms, *(memory.symbol for memory in ensemble.memories)]
    stand_ins = {item: Dummy(f"x{place}") for place, item in enumerate(moving)}

    def degree(expr: Expr) -> int | None:
        plain = expr.xreplace(stand_ins)
        present = [item for item in stand_ins.values() if plain.has(item)]
        if not present:
            return 0
        return int(Poly(plain, *present).total_degree()) if plain.is_polynomial(*present) else None

    linear = [*signals, *(memory.signal for memory in ensemble.memories), *(unknown.start for unknown in ensemble.unknowns)]
    if any(order is None or order > 1 for order in map(degree, linear)):
        return None
    orders = [
        degree(Mul(*term[1:])) if mean.kind != "response" else 2 * (degree(mean.output) or 2)
        for mean in ensemble.means
        for term in mean.terms
    ]
    return None if None in orders else max((order for order in orders if order is not None), default=0)
