"""Times at which a model's coefficients jump or have a kink, as those of a pulse that is switched on: panels end there.

They are the zeros of functions of time alone in |·|, sign, Heaviside's function, max, min, floor, a remainder or a condition:
changes of sign on a grid of times, then bisection. Coefficients that are smooth, but quick for a while, as a short pulse, are
cut into stretches in which they are polynomials, so that no step passes over them.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import Add, Basic, Expr, Mod, Mul, Symbol, ceiling, floor, frac, pi, sin

from eqsolve.compile.lowering import Lowered, lower
from eqsolve.errors import logger
from eqsolve.language.nodes import E, Int
from eqsolve.language.symbols import Parameter, Time, Value
from eqsolve.language.system import System
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.grids import lagrange
from eqsolve.passes.forms.kinks import KINKS, switches

_NOW = Time("t")
_STEPS = (floor, ceiling, frac, Mod)
_BREAKING = (*KINKS, *_STEPS)
_MOST = 256  # breaks: panels of four nodes that end at more have over 1,000
# Times at which coefficients are looked at, 32 for each of the most breaks: pulses of a thousandth
# of the whole are seen as often as a panel has nodes, 8 times.
_LOOKS = 32 * _MOST
# A stretch that is shorter than a share of the whole is quick; the largest remainder of a polynomial, of the range. With an
# epidemic, a neuron and a noisy network, half and twice the first, a tenth and ten times the second keep errors as stated.
_SHORT, _ROUGH = 16, 1e-2


@dataclass(frozen=True, eq=False)
class Breaks:
    """Functions of time whose zeros are breaks, coefficients that are functions of time, and the start of time."""

    zeros: Lowered
    coefficients: Lowered
    start: Lowered


def break_times(program: Breaks, numbers: Mapping[str, float], end: float) -> tuple[float, ...]:
    """Return the times between the start and ``end``, each just before its break: a node there has the value of before."""
    zeros, coefficients = program.zeros.at(numbers), program.coefficients.at(numbers)
    begin = float(program.start.at(numbers)()[0])
    if not (span := end - begin) > 0:
        return ()
    even = np.linspace(begin, end, _LOOKS + 1)
    times = np.unique(np.concatenate([even, begin + span * np.geomspace(1e-9, 1, len(even) // 4)]))
    breaks: list[float] = []
    with np.errstate(all="ignore"):
        for place, values in enumerate(zeros(times)):
            breaks += _changes_of_sign(zeros, place, np.broadcast_to(values, times.shape), times)
        for values in coefficients(even):
            breaks += [float(even[place]) for place in _ends_of_short(np.broadcast_to(values, even.shape))]
    if len(breaks) > _MOST:
        logger.info("coefficients break more than %d times: no panels end there", _MOST)
        return ()
    apart = 8 * np.finfo(float).eps * max(abs(begin), abs(end))  # beyond rounding
    inside = [moment - apart for moment in sorted(breaks) if begin + 1e-9 * span < moment < end - 1e-9 * span]
    return tuple(b for a, b in itertools.pairwise([begin, *inside]) if b - a > 1e-9 * span)


def _changes_of_sign(functions: Callable[[Array], Any], place: int, values: Array, times: Array) -> list[float]:
    """Return where one of some functions changes its sign between given times, by bisection; many are not refined."""
    sides = np.sign(values)
    left = np.flatnonzero((sides[:-1] != sides[1:]) & np.isfinite(sides[:-1] + sides[1:]))
    low, high = times[left], times[left + 1]
    for _ in range(64 if len(left) <= _MOST else 0):
        middle = (low + high) / 2
        same = np.sign(functions(middle)[place]) == sides[left]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
    return [float(moment) for moment in high]


def _ends_of_short(values: Array) -> list[int]:
    """Return the ends of short stretches in which a function is a polynomial, but for those that grow from the start."""
    if not np.isfinite(values).all() or not (size := np.ptp(values)) > 0:
        return []
    stretches, waiting = list[tuple[int, int]](), [(0, len(values) - 1)]
    while waiting:
        low, high = waiting.pop()
        # nine Chebyshev points, moved to the grid: the polynomial through them is near the best one
        nodes = np.unique(np.round(low + (high - low) * (1 - np.cos(np.pi * np.arange(9) / 8)) / 2).astype(int))
        left = lagrange(nodes.astype(float), np.arange(low, high + 1.0)) @ values[nodes] - values[low : high + 1]
        if high - low > 8 and np.abs(left).max() > _ROUGH * size:
            waiting += [((low + high) // 2, high), (low, (low + high) // 2)]
        else:
            stretches.append((low, high))
    lengths = np.diff(stretches)[:, 0]
    falls = int(np.argmax(np.append(np.diff(lengths) < 0, True)))  # stretches before only grow
    short = np.array(stretches)[falls + 1 :][lengths[falls + 1 :] < len(values) // _SHORT]
    return [int(place) for place in np.unique(short)]


def compile_breaks(system: System, parameters: tuple[Symbol, ...]) -> Breaks:
    """Return what the breaks of a system's coefficients are found by."""
    every = [equation.rhs for equation in system.equations] + [law for law in system.laws.values() if isinstance(law, Basic)]
    every += [expr for expr in system.observables.values() if isinstance(expr, Basic)]
    zeros = dict.fromkeys(item for expr in every for item in _break_functions(expr))
    smooth = dict.fromkeys(item for equation in system.equations for item in _coefficients(equation.rhs))
    crossing, quick = [lower(list(items), [_NOW], parameters) for items in (zeros, smooth)]
    return Breaks(crossing, quick, lower([system.start], [], parameters))


def _of_time(expr: Basic) -> bool:
    """Whether an expression depends on one time and on parameters alone."""
    times = expr.atoms(Time)
    return len(times) == 1 and expr.free_symbols <= times | expr.atoms(Parameter) and not expr.has(Value, E, Int)


def _coefficients(expr: Basic) -> Iterator[Expr]:
    """Yield the smooth functions of time in an expression that are no polynomials, as large as they come."""
    if _of_time(expr):
        if not expr.has(*_BREAKING) and not expr.is_polynomial(*expr.atoms(Time)):
            yield expr.xreplace(dict.fromkeys(expr.atoms(Time), _NOW))
        return
    parts = expr.args
    if isinstance(expr, Add | Mul):
        own = expr.func(*(part for part in parts if _of_time(part)))
        parts = (*(part for part in parts if not _of_time(part)), own) if _of_time(own) else parts
    if not isinstance(expr, Value | E | Int):
        for part in parts:
            yield from _coefficients(part)


def _break_functions(expr: Basic) -> Iterator[Expr]:
    """Yield functions of time that change sign where a node of an expression jumps or has a kink."""
    steps = [Mul(*node.args[:1], *(1 / item for item in node.args[1:])) for node in expr.atoms(*_STEPS)]
    for zero in (*switches([expr]), *(sin(pi * inside) for inside in steps)):
        if _of_time(zero):
            yield zero.xreplace(dict.fromkeys(zero.atoms(Time), _NOW))
