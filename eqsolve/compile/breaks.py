"""Times at which a model's coefficients jump or have a kink, as those of a pulse that is switched on: panels end there.

They are the zeros of functions of time alone in |·|, sign, Heaviside's function, max, min, floor, a remainder or a condition:
changes of sign on a grid of times, then bisection.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping

import numpy as np
from sympy import Abs, Basic, Expr, Heaviside, Max, Min, Mod, Piecewise, ceiling, floor, frac, pi, sign, sin
from sympy.core.relational import Relational

from eqsolve.compile.lowering import Lowered, lower
from eqsolve.errors import logger
from eqsolve.language.symbols import Parameter, Time
from eqsolve.language.system import System

_NOW = Time("t")
_LOOKED = 8_193  # times: pulses of a thousandth of the whole time are seen several times
_MOST = 256  # breaks: more take more panels than error control does without them


def break_times(model: System, numbers: Mapping[str, float], end: float) -> tuple[float, ...]:
    """Return the times between the start and ``end``, each just before its break: a node there has the value of before."""
    functions, start = _functions(model)
    if functions is None:
        return ()
    begin = float(start.at(numbers)()[0])
    call, span = functions.at(numbers), end - begin
    if not span > 0:
        return ()
    times = np.unique(np.concatenate([np.linspace(begin, end, _LOOKED), begin + span * np.geomspace(1e-9, 1, _LOOKED // 4)]))
    found: set[float] = set()
    with np.errstate(all="ignore"):
        for place, values in enumerate(call(times)):
            sides = np.sign(np.broadcast_to(values, times.shape))
            for left in np.flatnonzero((sides[:-1] != sides[1:]) & np.isfinite(sides[:-1] + sides[1:])):
                low, high = times[left], times[left + 1]
                while (middle := (low + high) / 2) not in (low, high):
                    low, high = (middle, high) if np.sign(call(middle)[place]) == sides[left] else (low, middle)
                found.add(float(high))
                if len(found) > _MOST:
                    logger.info("coefficients switch more than %d times: no panels end there", _MOST)
                    return ()
    apart = 8 * np.finfo(float).eps * max(abs(begin), abs(end))
    inside = [float(moment - apart) for moment in sorted(found) if begin + 1e-9 * span < moment < end - 1e-9 * span]
    return tuple(b for a, b in itertools.pairwise([begin, *inside]) if b - a > 1e-9 * span)


@functools.lru_cache(maxsize=64)
def _functions(model: System) -> tuple[Lowered | None, Lowered]:
    """Return the functions of time whose zeros are breaks, and the start of time."""
    every = [equation.rhs for equation in model.equations] + [law for law in model.laws.values() if isinstance(law, Basic)]
    every += [expr for expr in model.observables.values() if isinstance(expr, Basic)]
    made = dict.fromkeys(item for expr in every for item in _arguments(expr))
    functions = lower(list(made), [_NOW], model.parameters) if made else None
    return functions, lower([model.start], [], model.parameters)


def _arguments(expr: Basic) -> Iterator[Expr]:
    for node in expr.atoms(Abs, sign, Heaviside, Max, Min, Piecewise, floor, ceiling, frac, Mod):
        match node:
            case Max() | Min():
                zeros = [a - b for a, b in itertools.combinations(node.args, 2)]
            case Piecewise():
                zeros = [item.lhs - item.rhs for _, condition in node.args for item in condition.atoms(Relational)]
            case Mod():
                zeros = [sin(pi * node.args[0] / node.args[1])]
            case floor() | ceiling() | frac():
                zeros = [sin(pi * node.args[0])]
            case _:
                zeros = [node.args[0]]
        for zero in zeros:
            times = zero.atoms(Time)
            if len(times) == 1 and zero.free_symbols <= times | zero.atoms(Parameter):
                yield zero.xreplace(dict.fromkeys(times, _NOW))
