"""Convergence rates: the rightmost singularity of a declared transform, its observables, and their derivatives.

Chosen for every `Singularity`. The fixed point that gives the law is solved first; the search is that of
`eqsolve.laplace.rightmost_singularity`. Errors: rounding in the singular point, plus what the fixed point's own error
does to it. Cost: some ten milliseconds once compiled, most of it for the certificate that nothing lies further right.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sympy import Basic, Dummy, Expr

from eqsolve.errors import ParameterError, SolverError, UsageError, did_you_mean
from eqsolve.language.fixed_point import Singularity
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Parameter
from eqsolve.laplace.bundle import Bundle
from eqsolve.laplace.implicit import ImplicitTransform, Prepared, precise_number
from eqsolve.laplace.singularity import SingularPoint, find_singularity
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options
from eqsolve.solvers.singularity.law import SingularityBinding, bind_singularity, law_source

__all__ = ["SingularitySolution", "bind_singularity", "solve_singularity"]


@dataclass(frozen=True)
class Compiled:
    """A transform and its observables, compiled once for all values of the parameters that are not integers."""

    transform: ImplicitTransform
    observables: Bundle
    names: tuple[str, ...]
    expressions: tuple[Expr, ...]


@functools.lru_cache(maxsize=64)
def compile_singularity(model: Singularity, whole: tuple[tuple[Parameter, Any], ...]) -> Compiled:
    """Return a model with its integers put in, and branches on them resolved."""
    (equation,) = model.equations
    fixed = dict(whole)
    parameters = tuple(item for item in model.parameters if item not in fixed)
    expr = (equation.lhs - equation.rhs).subs(fixed)
    transform = ImplicitTransform(expr, model.unknown, model.variable, parameters)
    points = (model.unknown, model.variable)
    made = tuple(value.subs(fixed) for value in model.observables.values())
    slopes = [value.diff(item) for value in made for item in points]
    return Compiled(transform, Bundle([*made, *slopes], points, parameters), tuple(model.observables), made)


@dataclass(frozen=True, eq=False)
class SingularitySolution:
    """A singular point with everything needed to ask more of it."""

    binding: SingularityBinding
    compiled: Compiled
    prepared: Prepared
    point: SingularPoint
    fixed_point: Any
    values: dict[str, Any]
    errors: dict[str, float]

    def law(self, name: str) -> Any:
        """Return the law of a variable of the fixed point behind the transform."""
        if self.fixed_point is None:
            raise UsageError(f"the laws of model `{self.binding.model.name}` are declared; there is none to ask for")
        return self.fixed_point.law(name)

    def derivative(self, what: str, parameter: str, fixed_law: bool = False) -> float:
        """Return the derivative of an observable, p or R along a parameter.

        With h = 0 and h_R = 0 the point moves as dp = −dh/h_p, dR = −(h_Rp dp + dh_R)/h_RR. The total derivative lets
        the law move too, by implicit differentiation of the fixed point; ``fixed_law=True`` keeps it.
        """
        model, point = self.binding.model, self.point
        assert isinstance(model, Singularity)
        if point.kind != "branch point" or self.compiled.transform.is_linear or not np.isfinite(complex(point.R)):
            what = point.kind if point.kind != "branch point" else "branch point of the equation's own coefficients"
            raise UsageError(f"derivatives are known where h = 0 and dh/dR = 0, and this singularity is a {what}")
        symbol = next((item for item in self.compiled.transform.parameters if item.name == parameter), None)
        if symbol is None and fixed_law is False and self._law_has(parameter):
            symbol = Parameter(parameter)  # a parameter of the fixed point only
        if symbol is None:
            names = [item.name for item in self.compiled.transform.parameters]
            raise ParameterError(f"there is no derivative along `{parameter}`{did_you_mean(parameter, names)}")
        R, p = model.unknown, model.variable
        expr = self.compiled.transform.expression
        d = self.prepared(float(point.R), float(point.p))
        dp = -self._along(expr, symbol, fixed_law) / d.h_p
        dR = -(d.h_Rp * dp + self._along(expr.diff(R), symbol, fixed_law)) / d.h_RR
        if what == p.name:
            return float(dp)
        if what == R.name:
            return float(dR)
        if what not in self.compiled.names:
            raise UsageError(f"there is no observable `{what}`{did_you_mean(what, self.compiled.names)}")
        place = self.compiled.names.index(what)
        value = self.compiled.expressions[place]
        slopes = self._evaluate([value.diff(R), value.diff(p)])
        return float(self._along(value, symbol, fixed_law) + slopes[0] * dR + slopes[1] * dp)

    def _law_has(self, parameter: str) -> bool:
        return self.binding.law is not None and any(item.name == parameter for item in self.binding.law.model.parameters)

    @np.errstate(all="ignore")
    def _evaluate(self, expressions: list[Expr]) -> list[float]:
        transform, model = self.compiled.transform, self.binding.model
        bundle = Bundle(expressions, (model.unknown, model.variable), transform.parameters)  # type: ignore[attr-defined]
        statics = bundle.static_values(self.prepared.rule, self.prepared.named, "numpy")
        found = bundle.evaluate(
            float(self.point.R), float(self.point.p), self.prepared.floats, statics, self.prepared.rule.weights
        )
        return [float(entry) for entry in found]

    def _along(self, expr: Expr, symbol: Parameter, fixed_law: bool) -> float:
        """Return the derivative of an expression with expectations along a parameter, R and p held."""
        if fixed_law or self.fixed_point is None or not self._law_has(symbol.name):
            if not fixed_law and any(symbol in law.free_symbols for law in self._declared_laws()):
                raise UsageError(f"a declared law depends on `{symbol.name}`; only fixed_law=True is known")
            return self._evaluate([expr.diff(symbol)])[0]
        means = sorted(expr.atoms(E), key=str)
        stand_ins = [Dummy(f"m{index}") for index in range(len(means))]
        outer = expr.xreplace(dict(zip(means, stand_ins, strict=True)))
        back: dict[Basic, Basic] = dict(zip(stand_ins, means, strict=True))
        weights = self._evaluate([outer.diff(item).xreplace(back) for item in (symbol, *stand_ins)])
        moved = [self._mean_derivative(node, symbol.name) for node in means]
        return weights[0] + float(np.dot(weights[1:], moved))

    def _declared_laws(self) -> list[Basic]:
        return [item.law for item in self.binding.model.randoms if item.law is not None]

    def _mean_derivative(self, node: E, parameter: str) -> float:
        model = self.binding.model
        assert isinstance(model, Singularity)
        assert self.binding.law is not None
        known = {item.name for item in self.binding.law.model.parameters}
        given = {
            item.name: value
            for item, value in zip(self.compiled.transform.parameters, self.prepared.floats, strict=True)
            if item.name not in known
        }
        given |= {model.unknown.name: float(self.point.R), model.variable.name: float(self.point.p)}
        return float(self.fixed_point.derivative(node, parameter, **given))


def solve_singularity(binding: SingularityBinding, options: Options, certify: bool = True) -> Result:
    """Find the rightmost singularity of a bound model and report its observables with their errors."""
    return to_result(find(binding, options.precision, certify, options.start, region=options.region), options.precision)


def find(
    binding: SingularityBinding,
    precision: int | None = None,
    certify: bool = True,
    start: Mapping[str, float] | None = None,
    near: SingularPoint | None = None,
    region: tuple[float, float] | None = None,
) -> SingularitySolution:
    """Return the singular point of a bound model.

    ``start`` are values of the fixed point's unknowns nearby, and of the transform far to the right, ``near`` the singular
    point of a neighbouring problem, ``region`` where to search.
    """
    model = binding.model
    assert isinstance(model, Singularity)
    whole = tuple((item, value) for item, value in binding.values.items() if item.is_integer)
    compiled = compile_singularity(model, whole)
    names = tuple(item.name for item in compiled.transform.randoms)
    given = dict(start or {})
    guess = given.pop(model.unknown.name, None)
    source, fixed_point = law_source(binding, names, precision, given or None)
    prepared = compiled.transform.prepare(source, binding.values)
    try:
        point = find_singularity(prepared, region=region, start=guess, precision=precision, certify=certify, near=near)
    except SolverError as error:
        raise SolverError(f"model `{model.name}`: {model.equations[0].label}: {error}") from None
    values, errors = _observables(compiled, prepared, point, fixed_point, precision)
    return SingularitySolution(binding, compiled, prepared, point, fixed_point, values, errors)


@np.errstate(all="ignore")
def _observables(
    compiled: Compiled, prepared: Prepared, point: SingularPoint, fixed_point: Any, precision: int | None
) -> tuple[dict[str, Any], dict[str, float]]:
    count = len(compiled.names)
    R, p = point.R, point.p
    if point.kind == "pole":  # observables that need R have no value there
        R = float("inf")
    noise = 0.0
    if fixed_point is not None and precision is None:
        known = fixed_point.values
        noise = max((abs(error / known[name]) for name, error in fixed_point.errors.items() if known[name]), default=0.0)
    if precision is not None and point.kind == "branch point":
        import mpmath

        with mpmath.workdps(precision + 15):
            named = {item: precise_number(prepared.values[item]) for item in compiled.transform.parameters}
            rule = prepared.precise_rule(precision)
            statics = compiled.observables.static_values(rule, named, "mpmath")
            found = compiled.observables.evaluate_precise(R, p, list(named.values()), statics, rule.weights)
        values = {name: +found[k] for k, name in enumerate(compiled.names)}
        return values, {name: float(abs(values[name])) * 10.0**-precision for name in values}
    statics = compiled.observables.static_values(prepared.rule, prepared.named, "numpy")
    found = compiled.observables.evaluate(_plain(R), _plain(p), prepared.floats, statics, prepared.rule.weights)
    values, errors = {}, {}
    p_error = point.error + 4 * noise * abs(p)
    R_error = point.R_error + 4 * noise * abs(R) if np.isfinite(R) else 0.0
    for k, name in enumerate(compiled.names):
        value = found[k]
        slopes = np.abs(np.nan_to_num(np.array(found[count + 2 * k : count + 2 * k + 2], dtype=complex)))
        values[name] = float(np.real(value))
        errors[name] = float(slopes[0] * R_error + slopes[1] * p_error + (4e-16 + 2 * noise) * abs(value))
    return values, errors


def _plain(value: Any) -> Any:
    return value if isinstance(value, complex) else float(value)


def to_result(solution: SingularitySolution, precision: int | None = None) -> Result:
    """Return a singular point as a result with scalar values."""
    import xarray as xr

    point = solution.point
    data: dict[str, Any] = {}
    for name, value in solution.values.items():
        data[name] = ((), float(value))
        data[f"{name}_error"] = ((), solution.errors[name])
    stats: dict[str, Any] = {
        "singularity": point.kind, "p": _pair(point.p), "decay": point.decay, "certified": point.certified,
        "residual": point.residual, "nodes": int(solution.prepared.rule.weights.size),
    }  # fmt: skip
    if point.exponent is not None:
        stats["exponent"] = point.exponent
    if precision is not None:
        from mpmath import nstr

        stats["digits"] = {name: nstr(value, precision) for name, value in solution.values.items()}
    if point.ties:
        stats["equal_real_part"] = [_pair(item.p) for item in point.ties]
    if solution.binding.law is not None:
        stats["law_of"] = solution.binding.law.model.name
    return Result(
        xr.Dataset(data), model=solution.binding.model.name, kind="singularity",
        params=solution.binding.settings(), stats=stats, source=solution,
    )  # fmt: skip


def _pair(value: Any) -> Any:
    number = complex(value)
    return number.real if number.imag == 0 else [number.real, number.imag]
