"""`fit`: the parameters of a model that data ask for, with their error bars.

Least squares (scipy's trust region, with exact derivatives of the model) of the difference to the data in units of their
errors. With several draws the errors of the mean are those between draws; the times of one draw are correlated, so that the
error bars of the parameters come from the covariance over draws,

    cov = A Jᵀ W S W J A,   A = (Jᵀ W J)⁻¹,   S = covariance over draws / number of draws,

in which only as many combinations of times count as there are parameters (White, Econometrica 48, 817 (1980),
doi:10.2307/1912934). Intervals use Student's law with one degree of freedom less than there are draws.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsolve.arguments import checked, names, number, table
from eqsolve.arguments import path as read_path
from eqsolve.errors import UsageError, did_you_mean
from eqsolve.fitting.data import Data, read_data
from eqsolve.fitting.evaluating import Question, find_parameters
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.numerics.arrays import Array
from eqsolve.results.result import Result
from eqsolve.verbs import later

_SMALL = 1e-12  # of a parameter's size: the least value of one that must be positive
_ROUNDS = 50
_DRAWN, _FIRST = 100, 1e-3  # points of a line that is drawn; where it begins on a logarithmic axis, of its end
_INSIDE = 0.1  # a parameter that would begin at the end of its domain begins so far inside


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit found.

    Attributes
    ----------
    parameters, errors
        Values and standard errors of the free parameters.
    intervals
        Of 95 %, by name.
    correlations
        Of the parameters, by pairs of names.
    chi2, reduced_chi2, freedom
        The sum of squared residuals in units of the data's errors; divided by the degrees of freedom; these.
    assumes
        What the error bars rest on, in words.
    curves, sigmas
        The model at the data's times, and the errors of the data that were used, by observable.
    lines
        The model between the data's times: ``t`` and the observables there; empty where there is no time.
    """

    model: str
    parameters: dict[str, float]
    errors: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    correlations: dict[str, dict[str, float]]
    chi2: float
    freedom: int
    assumes: str
    solves: int
    data: Data = field(repr=False)
    curves: dict[str, Array] = field(repr=False)
    sigmas: dict[str, Array] = field(repr=False)
    lines: dict[str, Array] = field(repr=False, default_factory=dict)
    latex: dict[str, str] = field(repr=False, default_factory=dict)
    _problem: _Problem | None = field(repr=False, default=None)

    @property
    def reduced_chi2(self) -> float:
        return self.chi2 / self.freedom if self.freedom else math.nan

    def json_object(self) -> dict[str, Any]:
        """Return the fit as plain numbers and texts."""
        return {
            "model": self.model, "parameters": self.parameters, "errors": self.errors,
            "intervals": {name: list(pair) for name, pair in self.intervals.items()},
            "correlations": self.correlations, "chi2": self.chi2, "reduced_chi2": self.reduced_chi2,
            "freedom": self.freedom, "value": self.chi2, "at_edge": False, "assumes": self.assumes, "solves": self.solves,
        }  # fmt: skip

    def report(self) -> str:
        """Return the fit as text: values ± errors, correlations, χ²."""
        lines = [f"{self.model}: fit of {', '.join(self.data.names)}, {self.data.draws} draw(s)"]
        lines.append(f"  chi-square {self.chi2:.4g}, reduced {self.reduced_chi2:.4g} ({self.freedom} degrees of freedom)")
        for name, value in self.parameters.items():
            low, high = self.intervals[name]
            share = f" ({abs(self.errors[name] / value):.2%})" if value else ""
            lines.append(f"  {name}: {value:.6g} +/- {self.errors[name]:.2g}{share}, 95 % in [{low:.6g}, {high:.6g}]")
        pairs = [(a, b) for place, a in enumerate(self.parameters) for b in list(self.parameters)[:place]]
        lines += [f"  C({a}, {b}) = {self.correlations[a][b]:+.3f}" for a, b in pairs]
        return "\n".join([*lines, f"  {self.assumes}"])

    def __repr__(self) -> str:
        values = ", ".join(f"{name} = {value:.4g} ± {self.errors[name]:.2g}" for name, value in self.parameters.items())
        return f"<Fit of {self.model!r}: {values}>"

    def profile(self, name: str, points: int = 7, reach: float = 2.0) -> tuple[Array, Array]:
        """Return values of a parameter within ``reach`` errors, and χ² there with all others fitted again."""
        if name not in self.parameters:
            raise UsageError(f"`{name}` was not free; free were: {', '.join(self.parameters)}")
        if self._problem is None:
            raise UsageError("a fit from a file holds what was found; its profiles need the model: fit again")
        values = self.parameters[name] + self.errors[name] * np.linspace(-reach, reach, points)
        return values, np.array([self._problem.held(name, float(value), self.parameters) for value in values])

    def plot(self, *names: str, ax: Any = None, logx: bool | None = None, logy: bool | None = None) -> Any:
        """Draw data, fit and, below, the residuals in units of the errors.

        ``names`` are observables, all by default; ``ax`` a pair of axes, one below the other.
        """
        from eqsolve.plotting.fits import plot_fit

        for name in names:
            if name not in self.data.names:
                has = ", ".join(self.data.names)
                raise UsageError(f"`{name}` was not fitted{did_you_mean(name, self.data.names)} (to draw there are: {has})")
        return plot_fit(self, names or self.data.names, ax=ax, logx=logx, logy=logy)

    @checked(path=read_path)
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a netCDF file, which ``eqsolve.open`` reads back and ``eqsolve plot`` draws."""
        later("save_fit")(self, path)


@checked(model=read_model, free=names, observables=names, rtol=number, params=table)
def fit(
    model: Model | str,
    data: Any,
    *,
    free: Sequence[str],
    at: Iterable[float] | None = None,
    observables: Iterable[str] | None = None,
    rtol: float = 1e-3,
    params: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> Fit:
    """Fit parameters of a model to data.

    Parameters
    ----------
    model
        A model; of a flow, its mean-field equations.
    data
        A CSV file, a DataFrame, an xarray Dataset or a ``Simulation``: columns ``t`` and the observables, error bars as
        ``NAME_error``, a column ``seed`` for several draws.
    free
        The parameters to be found; they begin at the values given, or at the model's own.
    at, observables
        Use these times, and these observables, of the data; all by default.
    rtol
        Tolerance of the solves.
    params, **parameters
        Values that stay, and where the free ones begin.
    """
    assert isinstance(model, Model)
    wanted = tuple(dict.fromkeys(free))
    if not wanted:
        raise UsageError("free= names at least one parameter to fit")
    found = find_parameters(model, wanted)
    known = {**(params or {}), **parameters}
    source = read_data(data)
    if observables is None:
        own = [name for name in source.names if name in model.names or name in model.observables]
        if not own:
            has = ", ".join(model.observables)
            raise UsageError(f"the data have no observable of model `{model.name}`: {', '.join(source.names)} (it has: {has})")
        observables = own
    chosen = source.cut(at, observables)
    begin = []
    for name, item in found.items():
        value = known.pop(name, model.defaults.get(item, item.default))
        if value is None:
            raise UsageError(f"say where `{name}` begins: {name}=...; the model has no value of its own for it")
        begin.append(float(value))
    problem = _Problem.of(model, wanted, found, chosen, known, rtol)
    return problem.solve(np.array(begin))


@dataclass(eq=False)
class _Problem:
    """Residuals of data in units of their errors, and how these change with the parameters."""

    question: Question
    data: Data
    target: Array
    sigmas: Array
    assumes: str
    scaled: bool
    bounds: tuple[Array, Array]
    solves: int = 0
    _known: dict[tuple[float, ...], tuple[Array, Array, float]] = field(default_factory=dict)
    _results: dict[tuple[float, ...], Result] = field(default_factory=dict)

    @classmethod
    def of(
        cls, model: Model, free: tuple[str, ...], found: Any, data: Data, known: Mapping[str, Any], rtol: float
    ) -> _Problem:
        means = np.concatenate([data.values[name].mean(axis=0) for name in data.names])
        scaled = False
        if data.draws > 1:
            sigmas = np.concatenate([data.values[name].std(axis=0, ddof=1) for name in data.names]) / math.sqrt(data.draws)
            assumes = f"errors from the covariance over {data.draws} draws; finite-size bias is not in them"
        elif all(name in data.errors for name in data.names):
            sigmas = np.concatenate([data.errors[name] for name in data.names])
            assumes = "one draw with error bars: they are taken as independent from time to time, and as they are"
        else:
            sigmas = np.concatenate(
                [np.full(data.values[n].shape[1], np.abs(data.values[n]).max() or 1.0) for n in data.names]
            )
            scaled = True
            assumes = "one draw without error bars: errors are taken as independent and equal, from the residuals themselves"
        floor = 1e-9 * np.abs(means).max() + 1e-300  # what all draws share exactly, the start, says nothing
        live = sigmas > floor
        sigmas = np.where(live, sigmas, np.inf)
        low = np.array([_lowest(item) for item in found.values()])
        high = np.array([math.inf if item.bounds[1] is None else float(item.bounds[1]) for item in found.values()])
        question = Question(model, free, data.names, data.times, known, rtol)
        return cls(question, data, means, sigmas, assumes, scaled, (low, high))

    def at(self, point: Array) -> tuple[Array, Array, float]:
        """Return the model's values, their derivatives, and how well these are known, relatively."""
        key = tuple(map(float, point))
        if key not in self._known:
            found = self.question.evaluate(point)
            self.solves += 1
            size = float(np.abs(found.slopes).max(initial=0.0))
            unsure = float(found.slope_errors.max(initial=0.0)) / size if size else 0.0
            slopes = found.slopes.reshape(len(point), -1).T
            self._known[key] = (found.values.ravel(), slopes, unsure)
            self._results[key] = found.result
        return self._known[key]

    def solve(self, begin: Array) -> Fit:
        from scipy.optimize import least_squares
        from scipy.special import stdtrit

        low, high = self.bounds
        inside = np.where((begin <= low) & (low > -np.inf), np.maximum(low, 0.0) + _INSIDE, begin)
        begin = np.where(inside < high, inside, (low + high) / 2)
        free = self.question.names
        usable = int(np.isfinite(self.sigmas).sum())
        if usable < len(free):
            raise UsageError(f"{usable} data points that vary cannot tell {len(free)} parameters; free fewer, or add times")
        self._demand_identifiable(begin)
        logs = low >= _SMALL  # positive ones move by factors

        def back(u: Array) -> Array:
            return np.where(logs, np.exp(np.where(logs, u, 0.0)), u)

        def there(x: Array) -> Array:
            return np.where(logs, np.log(np.where(logs, np.maximum(x, 1e-300), 1.0)), x)

        found = least_squares(
            lambda u: (self.at(back(u))[0] - self.target) / self.sigmas, there(begin),
            jac=lambda u: self.at(back(u))[1] * np.where(logs, back(u), 1.0) / self.sigmas[:, None],
            bounds=(there(low), there(high)), x_scale=np.where(logs, 1.0, np.maximum(np.abs(begin), _INSIDE)),
            max_nfev=_ROUNDS, xtol=1e-8, ftol=1e-10, gtol=1e-10,
        )  # fmt: skip
        best = back(np.asarray(found.x))
        self._demand_identifiable(best)
        values, slopes, _ = self.at(best)
        jacobian = slopes / self.sigmas[:, None]
        inverse = np.linalg.inv(jacobian.T @ jacobian)
        freedom = usable - len(free)
        chi2 = float(((values - self.target) / self.sigmas) @ ((values - self.target) / self.sigmas))
        quantile = 1.96
        if self.data.draws > 1:
            every = np.hstack([self.data.values[name] for name in self.data.names])
            off = ((every - every.mean(axis=0)) / self.sigmas) @ jacobian
            covariance = inverse @ (off.T @ off / (len(off) - 1) / len(off)) @ inverse
            quantile = float(stdtrit(len(off) - 1, 0.975))
        else:
            covariance = inverse * (chi2 / max(freedom, 1) if self.scaled else 1.0)
            quantile = float(stdtrit(max(freedom, 1), 0.975)) if self.scaled else quantile
        errors = np.sqrt(np.diagonal(covariance))
        unit = covariance / np.multiply.outer(errors, errors)
        count = len(self.data.names)
        return Fit(
            self.question.model.name, dict(zip(free, best.tolist(), strict=True)),
            dict(zip(free, errors.tolist(), strict=True)),
            {name: (float(x - quantile * e), float(x + quantile * e)) for name, x, e in zip(free, best, errors, strict=True)},
            {name: dict(zip(free, row.tolist(), strict=True)) for name, row in zip(free, unit, strict=True)},
            chi2, freedom, self.assumes, self.solves, self.data,
            dict(zip(self.data.names, values.reshape(count, -1), strict=True)),
            dict(zip(self.data.names, self.sigmas.reshape(count, -1), strict=True)),
            *self._drawn(self._results[tuple(map(float, best))]), self,
        )  # fmt: skip

    def _drawn(self, result: Result) -> tuple[dict[str, Array], dict[str, str]]:
        """Return the model between the data's times, for either scale of time, and the LaTeX of its names."""
        times = self.data.times
        if times is None or not float(np.min(times)) < float(np.max(times)):
            return {}, result.latex
        low, high = float(np.min(times)), float(np.max(times))
        first = low if low > 0 else _FIRST * high
        moments = np.unique(np.concatenate([times, np.linspace(low, high, _DRAWN), np.geomspace(first, high, _DRAWN)]))
        moments = moments[(moments >= low) & (moments <= high)]
        found = result.at(moments)
        return {"t": moments, **{name: np.asarray(found[name].values) for name in self.data.names}}, result.latex

    def held(self, name: str, value: float, begin: Mapping[str, float]) -> float:
        """Return χ² with one parameter held and the others fitted."""
        from scipy.optimize import least_squares

        place = self.question.names.index(name)

        def whole(x: Array) -> Array:
            return np.insert(x, place, value)

        def residual(x: Array) -> Array:
            return np.asarray((self.at(whole(x))[0] - self.target) / self.sigmas)

        others = np.array([entry for key, entry in begin.items() if key != name])
        if not len(others):
            return float(residual(others) @ residual(others))
        low, high = (np.delete(end, place) for end in self.bounds)
        found = least_squares(
            residual, others, jac=lambda x: np.delete(self.at(whole(x))[1], place, axis=1) / self.sigmas[:, None],
            bounds=(low, high), x_scale="jac", max_nfev=_ROUNDS,
        )  # fmt: skip
        return float(2 * found.cost)

    def _demand_identifiable(self, point: Array) -> None:
        """Raise where the data do not tell all parameters apart: a direction along which nothing changes.

        Derivatives are known to a relative error; a direction that changes the data by less, compared with the one that
        changes them most, may as well not change them at all.
        """
        _, slopes, unsure = self.at(point)
        scales = np.maximum(np.abs(point), 1e-3)
        jacobian = slopes * scales / self.sigmas[:, None]
        _, sizes, directions = np.linalg.svd(jacobian, full_matrices=False)
        least = max(unsure, 1e-9) * max(float(sizes[0]), 1e-300)
        if sizes[0] == 0 or sizes[-1] <= least:
            weights = directions[-1] / np.abs(directions[-1]).max()
            parts = [f"`{name}`" for name, part in zip(self.question.names, weights, strict=True) if abs(part) > 0.1]
            moved = " and ".join(parts)
            how = "changing it" if len(parts) == 1 else "changing them together"
            raise UsageError(
                f"{moved} cannot be identified from these data: {how} leaves {', '.join(self.data.names)} as they are at "
                f"all times given; hold one of them fixed, or add observables or times that depend on it"
            )


def _lowest(item: Any) -> float:
    low = -math.inf if item.bounds[0] is None else float(item.bounds[0])
    if item.is_positive:
        return max(low, _SMALL)
    return max(low, 0.0) if item.is_nonnegative else low
