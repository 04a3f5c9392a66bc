"""The path equations of an ensemble as array functions: signals, their derivatives, and what is averaged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sympy import Basic, DiracDelta, Dummy, Expr, Mul, Poly, S

from eqsolve.compile.lowering import lower
from eqsolve.language.symbols import Function, Value
from eqsolve.passes.forms.path_form import Ensemble, Mean
from eqsolve.passes.forms.sectors import ROW

__all__ = ["CompiledEnsemble", "CompiledMean", "compile_ensemble"]

Lowered = Callable[..., list[Any]]


@dataclass(frozen=True, eq=False)
class CompiledMean:
    """Factors of an expectation and, for a response, the output's derivatives by the unknowns."""

    mean: Mean
    factors: Lowered
    count: int
    by_unknown: Lowered | None


@dataclass(frozen=True, eq=False)
class CompiledEnsemble:
    """An ensemble ready to run.

    ``inputs`` names, in order, the arguments of all functions: the time, unknowns, noises, constants, one-time
    functions, and derived integrals. ``slopes[k]`` gives the derivatives of signal k by every unknown;
    ``noise_slopes`` by every noise. ``targets`` are what is averaged, what responds, and what memory acts on: their mean
    responses tell how the means react to the kernels, and how much they vary which modes need points. ``degree`` is that
    of what is averaged, as a polynomial in the noises and constants, when the unknowns are affine in them; else None.
    """

    source: Ensemble
    inputs: tuple[Basic, ...]
    functions: tuple[Function, ...]
    signals: Lowered
    signal_index: tuple[int, ...]
    count: int
    slopes: Lowered
    noise_slopes: Lowered
    noise_slope_is_zero: bool
    memory_signals: Lowered
    memory_slopes: Lowered
    means: tuple[CompiledMean, ...]
    processes: Lowered
    starts: Lowered
    targets: tuple[Expr, ...]
    target_values: Lowered
    target_slopes: Lowered
    target_noise_slopes: Lowered
    degree: int | None


def partial(expr: Expr, symbol: Basic) -> Expr:
    """Return the derivative by a symbol or function value."""
    stand_in = Dummy("x", real=True)
    return expr.xreplace({symbol: stand_in}).diff(stand_in).xreplace({stand_in: symbol})


def _beside_jumps(slope: Expr) -> Expr:
    """Leave out what a jump adds to a slope that only guides the choice of points and steps."""
    return slope.replace(DiracDelta, lambda *_: S.Zero)


def compile_ensemble(ensemble: Ensemble) -> CompiledEnsemble:
    """Return an ensemble's expressions as functions of arrays, equal signals shared."""
    signals: dict[Expr, int] = {}
    index = tuple(signals.setdefault(link.signal, len(signals)) for link in ensemble.links)
    unknowns = [unknown.symbol for unknown in ensemble.unknowns]
    noises = [noise(ROW) for noise in ensemble.noises]
    everything = [*signals, *(memory.signal for memory in ensemble.memories)]
    everything += [piece for mean in ensemble.means for term in mean.terms for piece in term[1:]]
    everything += [mean.output for mean in ensemble.means] + [expr for _, expr in ensemble.processes]
    functions = sorted(
        {value.head for expr in everything for value in expr.atoms(Value) if isinstance(value.head, Function)}, key=str
    )
    inputs: list[Basic] = [ROW, *unknowns, *noises, *ensemble.randoms, *(head(ROW) for head in functions)]
    derived = [memory.symbol for memory in ensemble.memories]
    full = [*inputs, *derived]

    slopes = [partial(signal, symbol) for signal in signals for symbol in unknowns]
    by_noise = [partial(signal, symbol) for signal in signals for symbol in noises]
    memory_signals = [memory.signal for memory in ensemble.memories]
    memory_slopes = [partial(signal, symbol) for signal in memory_signals for symbol in unknowns]
    means = tuple(_mean(mean, unknowns, full) for mean in ensemble.means)
    targets = _targets(ensemble)
    target_slopes = [_beside_jumps(partial(target, symbol)) for target in targets for symbol in unknowns]
    target_noise_slopes = [_beside_jumps(partial(target, symbol)) for target in targets for symbol in noises]
    return CompiledEnsemble(
        ensemble, tuple(full), tuple(functions), lower(list(signals), inputs), index, len(signals),
        lower(slopes, inputs), lower(by_noise, inputs), all(expr == 0 for expr in by_noise),
        lower(memory_signals, inputs), lower(memory_slopes, inputs), means,
        lower([expr for _, expr in ensemble.processes], full),
        lower([unknown.start for unknown in ensemble.unknowns], list(ensemble.randoms)),
        targets, lower(list(targets), full), lower(target_slopes, full), lower(target_noise_slopes, full),
        _degree(ensemble, list(signals)),
    )  # fmt: skip


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


def _targets(ensemble: Ensemble) -> tuple[Expr, ...]:
    found: dict[Expr, None] = {}
    for mean in ensemble.means:
        found.update(dict.fromkeys(piece for term in mean.terms for piece in term[1:]))
        if mean.kind == "response":
            found[mean.output] = None
    found.update(dict.fromkeys(link.signal for link in ensemble.links if link.memory is not None))
    return tuple(found)


def _mean(mean: Mean, unknowns: list[Basic], full: list[Basic]) -> CompiledMean:
    factors = [piece for term in mean.terms for piece in term[1:]]
    if mean.kind != "response":
        return CompiledMean(mean, lower(factors, full), len(mean.terms), None)
    by_unknown = [partial(mean.output, symbol) for symbol in unknowns]
    return CompiledMean(mean, lower(factors, full), 1, lower(by_unknown, full))
