"""Expressions with expectations made into functions: random parts that do not move are computed once per law."""

from collections.abc import Mapping, Sequence
from typing import Any

import mpmath
import numpy as np
from sympy import Basic, Dummy, Expr

from eqsolve.compile.lowering import Lowered, Module, as_function
from eqsolve.language.nodes import E, InverseValue
from eqsolve.language.symbols import Random
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.increasing import roots_at


class Bundle:
    """Several expressions in (R, p) with expectations, evaluated together with common parts shared."""

    def __init__(self, expressions: Sequence[Expr], points: tuple[Basic, Basic], parameters: tuple[Basic, ...]) -> None:
        self._parameters = parameters
        means = sorted(set().union(*(expr.atoms(E) for expr in expressions)), key=str)
        self._static: dict[Basic, Dummy] = {}
        dynamic = [self._shield(node.argument, set(points)) for node in means]
        self.statics = list(self._static)
        names = list(self._static.values())
        self._randoms = sorted({s for expr in self.statics for s in expr.free_symbols if isinstance(s, Random)}, key=str)
        self.randoms = tuple(item.name for item in self._randoms)
        self.count = len(dynamic)
        placeholders = [Dummy(f"m{index}") for index in range(len(means))]
        outer = [expr.xreplace(dict(zip(means, placeholders, strict=True))) for expr in expressions]
        self.inner = ([*points, *parameters, *names], dynamic)
        self._outer = ([*points, *parameters, *placeholders], outer)
        self._made: dict[str, Any] = {}

    def _shield(self, expr: Expr, points: set[Basic]) -> Expr:
        """Give each largest part that is random and does not depend on R and p a name; it is computed once."""
        static = any(isinstance(item, Random) for item in expr.free_symbols) and not expr.free_symbols & points
        if static and not (expr.is_Mul and any(a.is_number for a in expr.args)):
            return self._static.setdefault(expr, Dummy(f"x{len(self._static)}", real=True))
        if not expr.args or isinstance(expr, InverseValue):
            return expr
        if expr.is_Mul or expr.is_Add:  # keep together what is random and static, sympy has flattened it
            fixed = [a for a in expr.args if not a.free_symbols & points and not a.is_number]
            if len(fixed) > 1 and any(isinstance(s, Random) for a in fixed for s in a.free_symbols):
                rest = [a for a in expr.args if a not in fixed]
                return expr.func(self._shield(expr.func(*fixed), points), *(self._shield(a, points) for a in rest))
        return expr.func(*(self._shield(arg, points) for arg in expr.args))

    def functions(self, module: Module) -> tuple[Any, Any]:
        if module not in self._made:
            pieces = (self.inner, self._outer)
            self._made[module] = tuple(as_function(arguments, body, module, real=False) for arguments, body in pieces)
        return self._made[module]

    def static_values(self, values: Mapping[str, Array], parameters: Sequence[Any], module: Module = "numpy") -> list[Array]:
        """Return the static random parts at every value of the random variables."""
        if not self.statics:
            return []
        if "statics" not in self._made:
            self._made["statics"] = _StaticParts(self.statics, self._randoms, self._parameters)
        parts: _StaticParts = self._made["statics"]
        return parts([values[name] for name in self.randoms], parameters, module)

    def evaluate(self, R: Any, p: Any, parameters: Sequence[Any], statics: list[Array], weights: Array) -> list[Any]:
        """Return the expressions at one point, or at arrays of points; callers silence numpy's warnings."""
        inner, outer = self.functions("numpy")
        if getattr(p, "ndim", 0):
            bodies = inner(np.asarray(R)[:, None], p[:, None], *parameters, *statics)
            means = [b @ weights if np.ndim(b) == 2 and np.shape(b)[1] == weights.size
                     else np.full(np.size(p), b @ weights) if np.ndim(b) == 1  # neither R nor p in it
                     else np.broadcast_to(b, (np.size(p), 1))[:, 0] * weights.sum() for b in bodies]  # fmt: skip
            return outer(R, p, *parameters, *means)
        scalar = np.complex128 if isinstance(R, complex) or isinstance(p, complex) else np.float64
        R, p = scalar(R), scalar(p)  # numpy's scalars overflow to inf, Python's raise
        bodies = inner(R, p, *parameters, *statics)
        means = [b @ weights if getattr(b, "ndim", 0) else b * weights.sum() for b in bodies]
        return outer(R, p, *parameters, *means)

    def evaluate_precise(self, R: Any, p: Any, parameters: Sequence[Any], statics: list[Array], weights: Array) -> list[Any]:
        """Return the expressions at one point in mpmath numbers."""
        inner, outer = self.functions("mpmath")
        sums = [mpmath.mpf(0)] * self.count
        for index, weight in enumerate(weights):
            bodies = inner(R, p, *parameters, *(column[index] for column in statics))
            sums = [total + weight * body for total, body in zip(sums, bodies, strict=True)]
        return outer(R, p, *parameters, *sums)


class _StaticParts:
    """Random expressions without R and p, inverse functions included, at many points."""

    def __init__(self, expressions: Sequence[Expr], randoms: Sequence[Basic], parameters: Sequence[Basic]) -> None:
        # of each inverse function: its target and domain, f and its slope, and the same less the
        # target for mpmath
        self.inverses: list[tuple[Lowered, Lowered, Lowered]] = []
        nodes = sorted(set().union(*(expr.atoms(InverseValue) for expr in expressions)), key=lambda n: n.count_ops())
        swaps: dict[Basic, Basic] = {}
        for node in nodes:
            y, inner = node.variable, InverseValue(*(arg.xreplace(swaps) for arg in node.args))
            arguments = [*randoms, *swaps.values(), *parameters]
            value, slope, target = inner.expression, inner.expression.diff(y), inner.argument
            self.inverses.append((
                as_function(arguments, [target, *inner.domain]),
                as_function([y, *arguments], [value, slope]),
                as_function([y, *arguments], [value - target, slope], "mpmath"),
            ))  # fmt: skip
            swaps[node] = Dummy("y", real=True)
        self.arguments = [*randoms, *swaps.values(), *parameters]
        self.bodies = [expr.xreplace(swaps) for expr in expressions]
        self._made: dict[str, Any] = {}

    def __call__(self, columns: list[Array], numbers: Sequence[Any], module: Module) -> list[Array]:
        size = len(columns[0])
        for ends, pair, precise in self.inverses:
            arguments = [*(np.asarray(item, dtype=float) for item in columns), *map(float, numbers)]
            roots = roots_at(pair, arguments, size, ends(*arguments))
            if module == "mpmath":
                given = ([*(column[k] for column in columns), *numbers] for k in range(size))
                roots = np.array([_polished(precise, *item) for item in zip(roots, given, strict=True)], dtype=object)
            columns.append(roots)
        if module not in self._made:
            self._made[module] = as_function(self.arguments, self.bodies, module)
        function = self._made[module]
        if module == "numpy":
            return [np.asarray(values) * np.ones(size) for values in function(*columns, *map(float, numbers))]
        rows = [function(*(column[i] for column in columns), *numbers) for i in range(size)]
        return [np.array([row[k] for row in rows], dtype=object) for k in range(len(self.bodies))]


def _polished(function: Lowered, start: float, given: Sequence[Any]) -> Any:
    """Return a root in mpmath's present precision by Newton's method."""
    value, slope = (lambda y, k=place: function(y, *given)[k] for place in (0, 1))
    return mpmath.findroot(value, mpmath.mpf(float(start)), solver="newton", df=slope, verify=False)
