"""Kernels of the engine of paths for NVIDIA cards, in CUDA C: Newton's method on all paths, and their mean tangents.

The counterparts of ``compiled.newton_block`` and ``compiled.mean_tangents``: the same equations,
points and order of blocks, one thread per path, or per path and time of the noise. The functions of
a model are written into the text, which the card's own compiler translates at run time, once per
model and size of the blocks.
"""

import ast
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import SHARE, Backend
from eqsolve.numerics.lanes import COMPARE, LIBRARY, UnknownFunctionError, Walker, constant_of

_SYMBOLS = {
    **COMPARE, "logical_and": "&&", "logical_or": "||", "add": "+", "subtract": "-", "multiply": "*", "divide": "/",
}  # fmt: skip
_PLAIN = {
    **LIBRARY, "exp": "exp", "expm1": "expm1", "tanh": "tanh", "sinh": "sinh", "cosh": "cosh", "sqrt": "sqrt", "abs": "fabs",
    "absolute": "fabs", "sech2": "sech2", "expit": "expit", "sign": "sign", "heaviside": "heaviside", "minimum": "minimum",
    "maximum": "maximum", "choose": "choose", "negative": "-",
}  # fmt: skip
_FUNCTIONS = """
#ifndef INFINITY
#define INFINITY __longlong_as_double(0x7ff0000000000000LL)
#define NAN __longlong_as_double(0x7ff8000000000000LL)
#endif
__device__ inline double choose(double x, double yes, double no) { return x > 0.0 ? yes : no; }
__device__ inline double expit(double x) { return 1.0 / (1.0 + exp(-x)); }
__device__ inline double sech2(double x) { double s = exp(-2.0 * fabs(x)); return 4.0 * s / ((1.0 + s) * (1.0 + s)); }
__device__ inline double sign(double x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x; }
__device__ inline double heaviside(double x, double middle) { return x > 0.0 ? 1.0 : x < 0.0 ? 0.0 : middle; }
__device__ inline double minimum(double x, double y) { return x >= y ? y : x; }
__device__ inline double maximum(double x, double y) { return x <= y ? y : x; }
__device__ inline double whole(double x, int n) {
    double made = 1.0;
    for (; n; n >>= 1, x *= x) if (n & 1) made *= x;
    return made;
}
"""
_THREADS = 32  # of a group in `newton`: a warp, so that a thousand paths already keep 32 processors busy
_GROUPS = 1024  # of threads in `tangents`: several for each of a card's hundred processors


class _Printer(Walker):
    """Writes the text of a lowered function in C."""

    def number(self, value: float) -> str:
        return "NAN" if value != value else f"({value!r})"

    def power(self, base: str, exponent: ast.expr) -> str:
        value = constant_of(exponent)
        if value is not None and value == int(value) and abs(value) <= 16:
            made = f"whole({base}, {abs(int(value))})"
            return made if value >= 0 else f"(1.0 / {made})"
        if value == 0.5:
            return f"sqrt({base})"
        return f"pow({base}, {self.value(exponent)})"

    def function(self, name: str, *values: str) -> str:
        if len(values) == 2 and name in _SYMBOLS:
            return f"({values[0]} {_SYMBOLS[name]} {values[1]})"
        if name == "where":
            return "({} ? {} : {})".format(*values)
        if name not in _PLAIN:
            raise UnknownFunctionError(name)
        return f"{_PLAIN[name]}({', '.join(values)})"


@functools.lru_cache(maxsize=512)
def print_function(text: str, kinds: str) -> str | None:
    """Return a lowered function in C, None where something in it has no name there; ``kinds`` as in ``lanes.translate``."""
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    printer, lines, counts = _Printer(), [], dict.fromkeys("ptuzc", 0)
    for argument, kind in zip(function.args.args, kinds, strict=True):
        lines.append(f"double {argument.arg} = {kind}[{counts[kind]}];")
        counts[kind] += 1
    try:
        for statement in function.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    lines.append(f"auto {name} = {printer.value(value)};")
                case ast.Return(value=ast.List(elts=items)):
                    lines += [f"out[{place}] = {printer.value(item)};" for place, item in enumerate(items)]
                case _:
                    return None
    except UnknownFunctionError:
        return None
    return _evaluate(lines)


def _evaluate(lines: Sequence[str]) -> str:
    """Return the function `evaluate` that the kernels call, of the lines of its body."""
    given = "const double* u, const double* z, const double* c, const double* t, const double* p, double* out"
    return "__device__ inline void evaluate({}) {{\n{}\n}}\n".format(given, "\n".join(lines))


def linear_function(unknowns: int, signals: int) -> str:
    """Return signals Σ slope × unknown in C, whose slopes are noises (signal, unknown)."""
    lines = []
    for k in range(signals):
        terms = [f"z[{k * unknowns + b}] * u[{b}]" for b in range(unknowns)]
        lines.append(f"out[{k}] = {' + '.join(terms)};")
        lines += [f"out[{signals + k * unknowns + b}] = z[{k * unknowns + b}];" for b in range(unknowns)]
    return _evaluate(lines)


def _kernel(backend: Backend, name: str, evaluate: str, **sizes: int) -> Any:
    defined = "".join(f"#define {key} {value}\n" for key, value in sizes.items())
    return backend.kernel(defined + _FUNCTIONS + evaluate + _text(), name)


@functools.cache
def _text() -> str:
    return Path(__file__).with_name("paths.cu").read_text()


def newton(
    backend: Backend, evaluate: str, starts: Array, parameters: Any, shared: Any, noises: Any, constants: Any, operators: Any,
    base: Any, guess: Any, signals: int, enough: float, most: int, shorter: float, shortest: float,
) -> tuple[Any, Any, Any, float, int]:  # fmt: skip
    """Solve x = base + O signals(x) for every path and all blocks; return x, signals, slopes, the last step, a failed block.

    ``operators`` is O transposed, by block; ``noises`` (entry, node, path), ``constants`` (entry,
    path), ``shared`` (entry, node); the step is the largest relative one of Newton's method of all
    paths, and the block −1 where none failed.
    """
    arrays, (count, nodes, paths) = backend.arrays, base.shape
    wide = int(np.diff(starts).max())
    sizes = {"COUNT": count, "MANY": signals, "WIDE": wide, "HIGH": count * wide, "NOISES": len(noises)}
    run = _kernel(backend, "newton", evaluate, **sizes, CONSTANTS=len(constants), SHARED=len(shared))
    unknowns = arrays.zeros(base.shape) if guess is None else arrays.ascontiguousarray(guess).copy()
    made, slopes = arrays.empty((signals, nodes, paths)), arrays.empty((signals, count, nodes, paths))
    changes = arrays.empty(paths)
    run((-(-paths // _THREADS),), (_THREADS,), (
        np.int32(nodes), np.int32(len(starts) - 1), np.int64(paths), arrays.asarray(starts, dtype=np.int32), parameters,
        shared, noises, constants, operators, base, np.int32(guess is not None), np.float64(enough), np.int32(most),
        np.float64(shorter), np.float64(shortest), unknowns, made, slopes, changes,
    ))  # fmt: skip
    return unknowns, made, slopes, -float(changes.min()), int(changes.max()) - 1


def mean_tangents(
    backend: Backend, operators: Any, starts: Array, unknowns: int, signals: int, slopes: Any, source: Any, direct: Any,
    left: Any, right: Any,
) -> Array:  # fmt: skip
    """Return what ``compiled.mean_tangents`` does, of all paths."""
    arrays, (nodes, paths), jobs = backend.arrays, slopes.shape[2:], len(left)
    wide, blocks = int(np.diff(starts).max()), len(starts) - 1
    sizes = {"COUNT": unknowns, "MANY": signals, "HIGH": unknowns * wide}
    invert, tangents = (_kernel(backend, name, "", **sizes) for name in ("invert", "tangents"))
    each = blocks * sizes["HIGH"] ** 2
    step = min(paths, max(1, int(SHARE * backend.memory() / (8 * each))))
    groups, inverses = min(step, _GROUPS), arrays.empty(step * each)
    effects, sums = arrays.empty((groups, signals, nodes, nodes)), arrays.zeros((groups, jobs, nodes, nodes))
    shape, placed = (np.int32(nodes), np.int32(blocks), np.int64(paths)), arrays.asarray(starts, dtype=np.int32)
    for begin in range(0, paths, step):
        end = min(begin + step, paths)
        first = (*shape, np.int64(begin), np.int64(end), placed, operators, slopes)
        invert((-(-(end - begin) * blocks // _THREADS),), (_THREADS,), (*first, inverses))
        tangents((groups,), (min(1024, 32 * -(-nodes // 32)),), (
            *first, inverses, source, np.int32(direct is not None), slopes if direct is None else direct, np.int32(jobs), left,
            np.int32(right is not None), slopes if right is None else right, effects, sums,
        ))  # fmt: skip
    return backend.get(sums.sum(axis=0))
