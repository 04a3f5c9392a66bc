"""Rates of decay: measured from curves with the prefactor that theory gives them, and followed along a parameter.

Measured rates are nonlinear least squares of log y (Levenberg–Marquardt: Moré 1978,
doi:10.1007/BFb0067700), with the power of t and its corrections in the fit; curves of solutions are
natural continuation, each point started from the one before.
"""

import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsolve.arguments import checked, list_of, names, number, pair, table, text, whole
from eqsolve.compile.bundles import Bundle
from eqsolve.compile.forms import FIXED_POINT, SINGULARITY
from eqsolve.compile.plan import Values, binder_of, case_of
from eqsolve.errors import SolverError, UsageError, demand_known
from eqsolve.language.binding import read_value
from eqsolve.language.laws import Law
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.printing import latex_names
from eqsolve.language.symbols import Unknown
from eqsolve.language.system import Cases, FixedPoint, Singularity
from eqsolve.laplace.implicit import Prepared, newton_pair
from eqsolve.numerics.arrays import Array, Lazy, richardson
from eqsolve.numerics.quadrature import expectations
from eqsolve.passes.check.check import check
from eqsolve.passes.forms.structure import bind_routed, models_behind
from eqsolve.results.provenance import describe
from eqsolve.results.result import Result
from eqsolve.solvers.fixed_point.newton import make_problem
from eqsolve.solvers.fixed_point.solve import FixedPointSolution, settings, solve_problem
from eqsolve.solvers.options import read_region
from eqsolve.solvers.singularity.solve import find, law_source

xr = Lazy("xarray")


@dataclass(frozen=True)
class FittedRate:
    """The rate r of y(t) − limit ≈ A t^ν (1 + c₁/t + …) e^{−rt}, measured on a window."""

    rate: float
    # from the errors of the data (or the scatter of runs), plus how far the rate moves with one
    # correction term more, and on the later half of the window
    error: float
    amplitude: float  # A
    corrections: tuple[float, ...]  # c₁, c₂, …
    exponent: float  # ν
    limit: float  # that was subtracted
    window: tuple[float, float]  # the times used
    residual: float  # root mean square of the misfit of log y
    runs: tuple[float, ...] = ()  # the rate of each run, when there were several

    def __str__(self) -> str:
        return f"rate {self.rate:.6g} ± {self.error:.2g} on [{self.window[0]:g}, {self.window[1]:g}]"


@checked(observable=text, window=pair, limit=number, terms=whole(0), points=whole(2))
def fit_rate(
    data: Any, observable: str | None = None, *, window: tuple[float, float] | None = None,
    exponent: Any = -1.5, limit: float = 0.0, terms: int = 1, points: int = 200,
) -> FittedRate:  # fmt: skip
    """Measure the exponential rate of a decaying curve, with the right power of t in front.

    A plain straight-line fit of log y overestimates the rate of t^{−3/2} e^{−rt} by 3/(2t): the
    power must be part of the fit.

    Parameters
    ----------
    data
        A result of ``solve``, finite-size runs of ``simulate``, or a tuple (t, y) or (t, y, error of y) of arrays.
    observable
        Name of the curve, for results and runs.
    window
        First and last time used; the last three quarters of the times by default.
    exponent
        ν of t^ν: −3/2 for a square-root branch point, 0 for a pole, or a result of a `Singularity`, which knows it.
    limit
        Value at infinite time, subtracted.
    terms
        Number of corrections c₁/t, c₂/t², …
    points
        Number of times taken from a solved curve, whose interpolant can be read anywhere.
    """
    power = _exponent(exponent)
    t, curves, errors = _curves(data, observable, window, points)
    first, last = window if window is not None else (t[0] + (t[-1] - t[0]) / 4, t[-1])
    if not 0 < first < last:
        raise UsageError(f"window= takes two increasing positive times, got ({first:g}, {last:g})")
    inside = (t >= first * (1 - 1e-12)) & (t <= last * (1 + 1e-12)) & (t > 0)
    if inside.sum() < 2 * (terms + 3):
        raise UsageError(
            f"{inside.sum()} times lie in the window [{first:g}, {last:g}]; a rate with {terms} corrections needs at "
            f"least {2 * (terms + 3)}: widen window=, or solve to a larger t_max"
        )
    fits = []
    for curve, error in zip(curves, errors, strict=True):
        y = curve[inside] - limit
        if np.sign(y).min() != np.sign(y).max() or not np.isfinite(y).all() or (y == 0).any():
            raise SolverError(
                f"the curve {f'`{observable}` ' if observable else ''}minus its limit {limit:g} changes sign or vanishes "
                f"in the window [{first:g}, {last:g}]; take an earlier window, or a better limit="
            )
        relative = None if error is None else error[inside] / np.abs(y)
        if relative is not None and np.median(relative) > 0.5:
            raise SolverError(
                f"in the window [{first:g}, {last:g}] the error of the curve is as large as the curve itself; take an "
                "earlier window, or solve with a smaller rtol"
            )
        fits.append(_fit(t[inside], y, relative, power, terms))
    rate, amplitude, residual, statistical, systematic, *corrections = np.mean(fits, axis=0).tolist()
    rates = [fit[0] for fit in fits] if len(fits) > 1 else []
    if rates:
        statistical = float(np.std(rates, ddof=1) / len(fits) ** 0.5)
    return FittedRate(
        rate, float(np.hypot(statistical, systematic)), amplitude, tuple(corrections), power, limit,
        (float(first), float(last)), residual, tuple(rates),
    )  # fmt: skip


def _exponent(given: Any) -> float:
    if isinstance(given, int | float):
        return number(given, "exponent")
    known = getattr(given, "exponent", None)
    if known is None:
        known = getattr(given, "stats", {}).get("exponent")
    if known is None:
        raise UsageError("exponent= takes a number, or a result whose singularity has a known power of t; got neither")
    return float(known)


def _curves(data: Any, name: str | None, window: Any, points: int) -> tuple[Array, list[Array], list[Array | None]]:
    if isinstance(data, tuple | list):
        if len(data) not in (2, 3):
            raise UsageError(f"a curve is a tuple (t, y) or (t, y, error of y) of arrays, got {len(data)} parts")
        try:
            t, y, *rest = (np.asarray(part, dtype=float) for part in data)
        except (TypeError, ValueError):
            raise UsageError(f"a curve is a tuple (t, y) of arrays of numbers, got {data!r:.80}") from None
        if t.ndim != 1 or y.shape != t.shape:
            raise UsageError(f"a curve is a tuple (t, y) of two arrays of one length, got shapes {t.shape} and {y.shape}")
        return t, [y], [rest[0] * np.ones_like(t) if rest else None]
    if name is None:
        raise UsageError("fit_rate takes the name of an observable: fit_rate(result, 'E_train')")
    values = getattr(data, "values", None)
    if isinstance(values, dict) and hasattr(data, "t"):  # finite-size runs
        demand_known([name], values, "the runs have no `{}`", "they have")
        runs = np.atleast_2d(values[name])
        return np.asarray(data.t, dtype=float), list(runs), [None] * len(runs)
    if not hasattr(data, "at") or getattr(data, "grid", None) is None:
        raise UsageError(f"fit_rate takes a solved dynamics, finite-size runs or (t, y), got {type(data).__name__}")
    end = float(data.grid.edges[-1])
    first, last = window if window is not None else (end / 4, end)
    t = np.linspace(max(first, 1e-12), min(last, end), points)
    sampled = data.at(t)
    curves = [str(key) for key in sampled if not str(key).endswith("_error")]
    demand_known([name], curves, "the result has no curve `{}`")
    error = sampled[f"{name}_error"].values if f"{name}_error" in sampled else None
    return t, [sampled[name].values], [error]


def _fit(t: Array, y: Array, relative: Array | None, power: float, terms: int) -> list[float]:
    """Return rate, amplitude, misfit, the statistical and the systematic error of the rate, and the corrections."""
    main, covariance, residual = _least_squares(t, y, relative, power, terms)
    more, _, _ = _least_squares(t, y, relative, power, terms + 1)
    late = t >= (t[0] + t[-1]) / 2
    later = main
    if late.sum() >= terms + 3:
        later, _, _ = _least_squares(t[late], y[late], None if relative is None else relative[late], power, terms)
    systematic = max(abs(more[1] - main[1]), abs(later[1] - main[1]))
    corrections = main[2:] * t[-1] ** np.arange(1, terms + 1)
    return [-main[1], np.sign(y[0]) * np.exp(main[0]), residual, covariance, systematic, *corrections]


def _least_squares(t: Array, y: Array, relative: Array | None, power: float, terms: int) -> tuple[Array, float, float]:
    """Fit log|y| = a + b t + ν log t + log(1 + Σ c_k (T/t)^k); return it, the error of b, the misfit."""
    from scipy.optimize import least_squares

    target = np.log(np.abs(y)) - power * np.log(t)
    ratios = np.stack([(t[-1] / t) ** (k + 1) for k in range(terms)], axis=1) if terms else np.empty((len(t), 0))
    plain = np.stack([np.ones_like(t), t], axis=1)
    weight = np.ones_like(t) if relative is None else 1 / np.maximum(relative, 1e-3 * np.median(relative) + 1e-300)
    first = np.append(np.linalg.lstsq(plain * weight[:, None], target * weight, rcond=None)[0], np.zeros(terms))

    def misses(x: Array) -> Array:  # beyond a vanishing sum of corrections far away
        return weight * (plain @ x[:2] + np.log(np.maximum(1 + ratios @ x[2:], 1e-300)) - target)

    def slopes(x: Array) -> Array:
        return weight[:, None] * np.concatenate([plain, ratios / np.maximum(1 + ratios @ x[2:], 1e-300)[:, None]], axis=1)

    x = least_squares(misses, first, slopes, method="lm", xtol=1e-14, ftol=1e-14, gtol=1e-14).x
    gap = target - plain @ x[:2] - np.log(1 + ratios @ x[2:])
    misfit = float(np.sqrt(np.mean(gap**2)))
    inverse = np.linalg.pinv(slopes(x).T @ slopes(x))
    noise = 1.0 if relative is not None else np.mean(gap**2) * len(t) / max(len(t) - len(x), 1)
    # errors of neighbouring times of a solved curve are not independent: as if there were one per
    # correction term
    share = len(t) / (len(x) + 1) if relative is not None else 1.0
    return x, float(np.sqrt(inverse[1, 1] * noise * share)), misfit


@dataclass(frozen=True)
class RateCurve:
    """Observables of a `Singularity` along one parameter."""

    parameter: str  # what is varied
    at: Array  # its values
    values: dict[str, Array]  # of every observable there
    errors: dict[str, Array]
    slopes: dict[str, Array]  # total derivatives along the parameter, when asked for
    certified: Array  # where no singularity lies further right

    def __getitem__(self, name: str) -> Array:
        demand_known([name], self.values, "the curve has no `{}`")
        return self.values[name]


@checked(model=read_model, parameter=text, at=list_of, derivatives=names, params=table)
def rate_curve(
    model: Any, parameter: str, at: Iterable[Any], *, derivatives: Sequence[str] = (),
    region: tuple[float, float] | None = None,
    params: Mapping[str, Any] | None = None, **parameters: Any,
) -> RateCurve:  # fmt: skip
    """Solve a `Singularity` along a parameter, each point started from the one before.

    Parameters
    ----------
    model
        A ``Singularity`` (or ``Cases`` of them), its name, or its file.
    parameter, at
        What is varied, and its values: a parameter of the model, or of the one its law comes from.
    derivatives
        Observables whose total derivatives along the parameter are wanted.
    region
        As in ``solve``.
    params, **parameters
        The other parameters and laws, as in ``solve``.
    """
    if not isinstance(model, Singularity | Cases):
        raise UsageError(f"rate_curve takes a Singularity, got the {model.kind} `{model.name}`")
    check(model)
    settings = {**(params or {}), **parameters}
    given_values, places = read_path("rate_curve", parameter, at, settings)
    rows, errors, slopes, certified = [], [], [], []
    start, law_of = None, None
    for value in given_values:
        target, given = case_of(model, {**settings, parameter: value})
        if not isinstance(target, Singularity):
            raise UsageError(f"rate_curve takes a Singularity, got the {target.kind} `{target.name}`")
        values, program = _bound(target, given, SINGULARITY)
        if values.behind is not None and values.behind[0] is not law_of:  # a start is good for the same equations only
            start, law_of = None, values.behind[0]
        solution = find(program, values, start=start, region=read_region(region))
        start = dict(solution.fixed_point.values) if solution.fixed_point is not None else None
        rows.append(solution.values)
        errors.append(solution.errors)
        slopes.append({name: solution.derivative(name, parameter) for name in derivatives})
        certified.append(solution.point.certified)

    def columns(entries: list[dict[str, Any]]) -> dict[str, Array]:
        return {name: np.array([float(entry[name]) for entry in entries]) for name in (entries[0] if entries else {})}

    return RateCurve(parameter, np.array(places), columns(rows), columns(errors), columns(slopes), np.array(certified))


def _bound(model: Model, settings: Mapping[str, Any], form: Any) -> tuple[Values, Any]:
    binder = binder_of(model)
    values = binder.read(settings)
    return values, binder.plan(values).program(form)


def read_path(verb: str, parameter: str, values: Iterable[Any], fixed: Mapping[str, Any]) -> tuple[list[Any], list[float]]:
    """Return the values of a parameter along a path, as given (plain numbers are read without symbols) and as floats."""
    given = list(values)
    path = [read_value(value, what=f"parameter `{parameter}`") for value in given]
    if parameter in fixed:
        way = "curve" if verb == "rate_curve" else "path"
        raise UsageError(f"`{parameter}` varies along the {way} and cannot be fixed too")
    if law := next((value for value in path if isinstance(value, Law)), None):
        raise UsageError(f"{verb} goes along the numbers of a parameter, got the law {law} for `{parameter}`; use sweep")
    return given, [float(value) for value in path]


# --- A law of rates: when every path relaxes at its own rate, down to none, observables decay slower than exponentially.
#
# A `Singularity` of this kind names in ``variables`` the expression that vanishes at the
# singularity of one path (`pole`), and the fixed point behind it names the rate of the paths that
# come to rest at zero (`rest_rate`).

_OFFSETS = np.array([0.16, 0.08, 0.04, 0.02])


@dataclass(frozen=True)
class PathRates:
    """The law of the rates of single paths."""

    sizes: Array  # |variable| of paths that end away from zero
    rates: Array  # −Re p of these
    errors: Array  # of the rates
    moving: Any  # the law of the variable
    resting: Any  # the law of the rate of paths that end at zero

    def slower(self, rate: float) -> float:
        """Return the fraction of paths whose rate is below a given one."""
        if rate <= 0:
            return 0.0
        rates, mass = self._table
        low = min(rate / self.rates[0], 1.0) * self.sizes[0]  # below the first size, rates are proportional to it
        atom = sum(mass for value, mass in self.moving.atoms() if value == 0)
        near = float(self.moving.cdf(low) - self.moving.cdf(-low)) - atom
        still = float(self.resting.cdf(rate) - self.resting.cdf(0.0))
        return float(mass[rates < rate].sum()) + max(near, 0.0) + max(still, 0.0)

    @functools.cached_property
    def _table(self) -> tuple[Array, Array]:
        """Rates and probabilities of thin slices of the sizes above the first."""
        edges = np.geomspace(self.sizes[0], self.sizes[-1], 1500)
        middle = np.sqrt(edges[1:] * edges[:-1])
        below = self.moving.cdf(edges) - self.moving.cdf(-edges)
        return np.interp(middle, self.sizes, self.rates), np.diff(below)

    def decay(self, t: Any, power: float = 2.0) -> Any:
        """Return E[e^{−power·rate·t}]: how a sum over paths that all start alike decays; like 1/t at late times."""
        moments = np.atleast_1d(np.asarray(t, dtype=float))
        levels = np.concatenate([[0.0], np.geomspace(1e-8, 1.0, 400) * self.rates.max()])
        share = np.array([self.slower(float(level)) for level in levels])
        decays = np.exp(-power * np.outer(moments, (levels[1:] + levels[:-1]) / 2)) @ np.diff(share)
        return float(decays[0]) if np.ndim(t) == 0 else decays


@checked(model=read_model, pole=text, resting=text, points=whole(2), largest=number)
def path_rates(
    model: Any, *, pole: str = "pole", resting: str = "rest_rate", points: int = 24,
    largest: float | None = None, **settings: Any,
) -> PathRates:  # fmt: skip
    """Return the law of the rates of single paths of a `Singularity` with an edge.

    Parameters
    ----------
    model
        The singularity, or its name.
    pole
        Name of the variable of the model that vanishes at the singularity of one path.
    resting
        Name of the variable of the fixed point that is the rate of paths that end at zero.
    points, largest
        Number of sizes of the path variable at which the rate is computed, and the largest of them.
    **settings
        Parameters and laws, as for ``solve``.
    """
    if largest is not None and largest <= 0:
        raise UsageError(f"largest= takes a positive number, got {largest:g}")
    if not isinstance(model, Singularity) or pole not in model.variables:
        raise UsageError(f"path_rates takes a Singularity with a variable `{pole}`, got `{getattr(model, 'name', model)}`")
    values, program = _bound(model, settings, SINGULARITY)
    plan = program.plan(values)
    (random,) = plan.transform.randoms
    source, solution = law_source(program, values, (random,))
    if solution is None:
        raise UsageError(f"model `{model.name}` declares its law; path_rates needs one from a fixed point")
    prepared = Prepared(plan.transform, source, values.numbers)
    moving = solution.law(random)
    top = largest if largest is not None else float(max(abs(moving.quantile(0.999)), abs(moving.quantile(0.001))))
    bundle = plan.pole(pole, random)
    sizes = np.geomspace(1e-3 * top, top, points)
    guess = (-0.5 * sizes[0] + 0j, -0.5 * sizes[0] + 0j)
    rates, errors = np.empty(points), np.empty(points)
    with np.errstate(all="ignore"):
        for place, size in enumerate(sizes):
            table = []
            for offset in _OFFSETS:  # the pole lies on the cut: come to it from above
                guess = _solve(prepared, bundle, guess, complex(size * (1 - 1j * offset)), float(size))
                table.append(-guess[1].real)
            rates[place], errors[place] = richardson(table)
            if place + 1 < points:
                guess = tuple(value * sizes[place + 1] / size for value in guess)
    return PathRates(sizes, rates, errors, moving, solution.law(resting))


def _solve(
    prepared: Any, bundle: Bundle, guess: tuple[complex, complex], size: complex, real: float
) -> tuple[complex, complex]:
    """Solve h = 0 and the path's pole equation for (R, p), with the expectations resolved on the way."""
    R, p = guess
    outer = bundle.functions("numpy")[1]

    def equations(R: Any, p: Any) -> tuple[Any, ...]:
        d = prepared(R, p)
        return d.h, d.h_R, d.h_p, *outer(R, p, *prepared.floats, size)

    for _ in range(4):
        prepared.resolve(R, p)
        before, solved = p, newton_pair(equations, R, p, 1e-12)
        if solved is None:
            raise SolverError(f"the rate of paths of size {real:.6g} was not found")
        R, p, _ = solved
        if abs(p - before) <= 1e-6 * abs(p):
            break
    return complex(R), complex(p)


# --- Follow a solution along a parameter, every point from its neighbour; iterate a
# fixed point's equations.
@checked(model=read_model, parameter=text, values=list_of, params=table)
def follow(
    model: Model | str, parameter: str, values: Iterable[Any], *, params: Mapping[str, Any] | None = None, **parameters: Any
) -> Result:
    """Solve a fixed point, or the rate of a `Singularity`, along a path of one parameter, in one call.

    Parameters
    ----------
    model
        A ``FixedPoint``, a ``Singularity`` (or ``Cases`` of them), its name, or its file.
    parameter, values
        The parameter that varies, and its values in the order in which they are to be followed.
    params, **parameters
        The other parameters and laws, as in ``solve``.

    Returns
    -------
    Result
        Every unknown and observable over the parameter, with errors: ``res["C_w"]``, ``res.error["C_w"]``.
    """
    began = time.perf_counter()
    assert isinstance(model, Model)
    check(model)
    fixed = {**(params or {}), **parameters}
    given_values, path = read_path("follow", parameter, values, fixed)
    if not path:
        raise UsageError("follow needs at least one value to go through")
    if isinstance(_target(model, {**fixed, parameter: path[0]})[0], Singularity):
        curve = rate_curve(model, parameter, given_values, params=fixed)
        bound = bind_routed(model, {**fixed, parameter: given_values[0]}).settings()
        stats = {"solver": "singularity", "certified": bool(curve.certified.all())}
        return _result(model, parameter, path, curve.values, curve.errors, bound, stats, began)
    solutions: list[FixedPointSolution] = []
    searches = 0
    for value, place in zip(given_values, path, strict=True):
        target, given = _target(model, {**fixed, parameter: value})
        if not isinstance(target, FixedPoint):
            raise UsageError(
                f"follow takes a FixedPoint or a Singularity all along, and at {parameter} = {place:.6g} "
                f"model `{model.name}` is the {target.kind} `{target.name}`"
            )
        at, program = _bound(target, given, FIXED_POINT)
        last = solutions[-1] if solutions and solutions[-1].program is program else None
        start = None if last is None else {item.name: last.values[item.name] for item in last.problem.plan.unknowns}
        try:
            solution = solve_problem(program, at, start)
        except SolverError as error:
            raise SolverError(f"at {parameter} = {place:.6g}: {error}") from None
        searches += start is None
        solutions.append(solution)
    names = [name for name in solutions[0].values if all(name in s.values for s in solutions)]
    values_of, errors = ({name: [part[name] for part in parts] for name in names}
                     for parts in ([s.values for s in solutions], [s.errors for s in solutions]))  # fmt: skip
    bound = settings(solutions[0].at, solutions[0].problem.plan)
    stats = {"solver": "fixed_point", "searches": searches}
    return _result(model, parameter, path, values_of, errors, bound, stats, began)


def _target(model: Model, given: Mapping[str, Any]) -> tuple[FixedPoint | Singularity, dict[str, Any]]:
    model, given = case_of(model, given)
    if not isinstance(model, FixedPoint | Singularity):
        raise UsageError(f"follow takes a FixedPoint or a Singularity, and model `{model.name}` is a {model.kind}")
    return model, dict(given)


def _result(
    model: Model, parameter: str, path: list[float], values: Mapping[str, Any],
    errors: Mapping[str, Any], params: Mapping[str, Any], stats: dict[str, Any], began: float,
) -> Result:  # fmt: skip
    columns = {name: part for key in values for name, part in ((key, values[key]), (f"{key}_error", errors[key]))}
    dataset = xr.Dataset({name: ((parameter,), column) for name, column in columns.items()}, coords={parameter: path})
    return Result(
        dataset, model=model.name, kind="sweep", params={k: v for k, v in params.items() if k != parameter},
        stats={**stats, "seconds": time.perf_counter() - began, "points": len(path)}, provenance=describe(model, 0),
        latex=latex_names((model, *models_behind(model))),
    )  # fmt: skip


@checked(model=read_model, steps=whole(0), start=table, params=table)
def iterate(
    model: Model | str, steps: int, *, start: Mapping[str, float], params: Mapping[str, Any] | None = None, **parameters: Any
) -> Result:
    """Apply the equations of a fixed point again and again, each giving the unknown on its left.

    Parameters
    ----------
    model
        A ``FixedPoint`` whose equations all have an unknown on the left, its name, or its file.
    steps
        How often. In a step the equations are applied in order; each reads the values of the step before, except that
        an equation without an expectation reads those just computed. So a state evolution (b, σ², t) becomes
        b_k and σ²_{k+1} from (σ_k, t_k), then t_{k+1} = λ + b_k t_k.
    start
        The unknowns before the first step.
    params, **parameters
        Parameters and laws.

    Returns
    -------
    Result
        Every unknown and observable over ``step``, the start first.
    """
    assert isinstance(model, Model)
    if not isinstance(model, FixedPoint):
        raise UsageError(f"iterate takes a FixedPoint, and model `{model.name}` is a {model.kind}")
    check(model)
    for equation in model.equations:
        if not isinstance(equation.lhs, Unknown):
            raise UsageError(f"{equation.label}: its left side is no unknown, so it cannot be iterated")
    at, program = _bound(model, {**(params or {}), **parameters}, FIXED_POINT)
    problem = make_problem(program, at, eliminate=False)
    plan = problem.plan
    missing = [item.name for item in plan.unknowns if item.name not in start]
    if missing:
        raise UsageError(f"start= gives no value for `{missing[0]}`; expected {', '.join(u.name for u in plan.unknowns)}")
    names = [item.name for item in plan.unknowns]
    targets, averaged = [names.index(left) for left in plan.lefts if left is not None], plan.averaged
    values = np.array([number(start[item.name], f"start of `{item.name}`") for item in plan.unknowns])
    rows: list[dict[str, float]] = []
    for count in range(steps + 1):
        means = expectations(problem.integrands(values), problem.adapted(values))[:, 0]
        with np.errstate(all="ignore"):  # an observable may not exist yet at the start
            outputs = plan.piece("outputs")(*problem.parameters, *(np.float64(value) for value in values), *means)
        rows.append({**dict(zip(names, values.tolist(), strict=True)), **dict(zip(plan.outputs, outputs, strict=True))})
        if count == steps:
            break
        new, given = values.copy(), values
        for with_means in (True, False):  # the others read the new values of those given by expectations
            right = plan.piece("sides")(*problem.parameters, *given, *means)[len(plan.lefts) :]
            for target, side, average in zip(targets, right, averaged, strict=True):
                if average == with_means:
                    new[target] = float(side)
            given = new.copy()
        values = new
    data = {name: (("step",), [float(row[name]) for row in rows]) for name in rows[0]}
    dataset = xr.Dataset(data, coords={"step": np.arange(len(rows))})
    return Result(dataset, model=model.name, kind="iteration", params=settings(at, plan))
