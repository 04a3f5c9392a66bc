"""`fit`: the parameters of a model that data ask for, with their error bars.

Least squares (scipy's trust region, with exact derivatives of the model) of the difference to the data in units of their
errors. With several draws the errors of the mean are those between draws; the times of one draw are correlated, so that the
error bars of the parameters come from the covariance over draws,

    cov = A Jᵀ W S W J A,   A = (Jᵀ W J)⁻¹,   S = covariance over draws / number of draws,

in which only as many combinations of times count as there are parameters (White, Econometrica 48, 817 (1980),
doi:10.2307/1912934). Intervals use Student's law with one degree of freedom less than there are draws. A prior is one more
measurement. The search ends when a step changes χ² by less than can be told.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.arguments import callback, checked, is_uncertain, list_of, names, number, table
from eqsolve.arguments import path as read_path
from eqsolve.errors import UsageError, demand_known
from eqsolve.fitting.data import Data, read_data
from eqsolve.fitting.question import Evaluation, Question, Search, SpentError, find_parameters
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.numerics.arrays import ROUNDING, Array, special
from eqsolve.numerics.grids import sample_times
from eqsolve.passes.rewrite.indices import family_axes
from eqsolve.progress import watching
from eqsolve.results.archive import write_dataset
from eqsolve.results.words import list_settings
from eqsolve.solvers.options import read_seconds
from eqsolve.verbs import method

if TYPE_CHECKING:
    import xarray as xr

_ENOUGH = 1e-3  # of a datum's variance: a step that takes less off χ², 1/30 of an error, is not taken
_INSIDE = 0.1  # a parameter that would begin at the end of its domain begins so far inside


@dataclass(frozen=True, eq=False)
class FitSet:
    """One set of data in a fit.

    Attributes
    ----------
    data, settings
        What was measured, and the values of parameters that hold for it alone.
    curves, sigmas
        The model at the data's times, and the errors of the data that were used, by observable.
    lines
        The model between the data's times: ``t`` and the observables there; empty where there is no time.
    """

    data: Data
    settings: dict[str, Any]
    curves: dict[str, Array]
    sigmas: dict[str, Array]
    lines: dict[str, Array]

    @property
    def label(self) -> str:
        return list_settings(self.settings)


@dataclass(frozen=True, eq=False)
class Fit:
    """What a fit found.

    Attributes
    ----------
    parameters, errors
        Values and standard errors of the free parameters; those that every set of data has for itself are ``name[1]``, ...
    intervals
        Of 95 %, by name.
    correlations
        Of the parameters, by pairs of names.
    chi2, reduced_chi2, freedom
        The sum of squared residuals in units of the data's errors, priors counted in; divided by the degrees of freedom;
        these. Without error bars there is no χ²: None.
    at_edge
        The parameters that ended at the end of their range.
    assumes
        What the error bars rest on, in words.
    status
        "ok", or that the budget was spent before the search came to its end.
    sets
        The sets of data with the model at their times; ``data``, ``curves``, ``sigmas`` and ``lines`` are those of the first.
    """

    model: str
    parameters: dict[str, float]
    errors: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    correlations: dict[str, dict[str, float]]
    chi2: float | None
    freedom: int
    at_edge: list[str]
    assumes: str
    solves: int
    sets: tuple[FitSet, ...]
    latex: dict[str, str]
    status: str
    _problem: _Problem | None = None

    data = property(lambda self: self.sets[0].data)
    curves = property(lambda self: self.sets[0].curves)
    sigmas = property(lambda self: self.sets[0].sigmas)
    lines = property(lambda self: self.sets[0].lines)

    @property
    def reduced_chi2(self) -> float | None:
        return self.chi2 / self.freedom if self.freedom and self.chi2 is not None else None

    def json_object(self) -> dict[str, Any]:
        """Return the fit as plain numbers and texts."""
        plain = {name: getattr(self, name) for name in _FIELDS if name != "latex"}
        plain["intervals"] = {name: list(pair) for name, pair in self.intervals.items()}
        return {**plain, "reduced_chi2": self.reduced_chi2, "value": self.chi2, "at_edge": bool(self.at_edge)}

    def report(self) -> str:
        """Return values ± errors, correlations, χ² where the data have error bars, as text."""
        parts = [_counted(item.data.draws, "draw") + (f" ({item.label})" if item.label else "") for item in self.sets]
        what = f"{len(parts)} sets of data: {'; '.join(parts)}"
        if len(parts) == 1:
            what = f"{', '.join(self.data.names)}, {_counted(self.data.draws, 'draw')}"
        lines = [f"{self.model}: fit of {what}"]
        if self.chi2 is not None:
            share = "" if self.reduced_chi2 is None else f", {self.reduced_chi2:.3g} of each"
            lines.append(f"  chi-square {self.chi2:.4g} of {_counted(self.freedom, 'degree')} of freedom{share}")
            if self.freedom and (chance := float(special.chdtrc(self.freedom, self.chi2))) < 1e-3:
                odds = f"by chance once in {1 / max(chance, 1e-99):.0e}"
                lines[-1] += f": this does not fit ({odds}), and the errors below mean little"
        else:
            off = [f"{name} {float(self.sigmas[name][0]):.2g}" for name in self.data.names]
            lines.append(f"  no chi-square, as the data have no error bars; they scatter about the fit by {', '.join(off)}")
        for name, value in self.parameters.items():
            low, high = self.intervals[name]
            share = f" ({abs(self.errors[name] / value):.2%})" if value else ""
            edge = "; at the end of its range, where it was stopped: its error is formal" * (name in self.at_edge)
            lines.append(f"  {name}: {value:.6g} ± {self.errors[name]:.2g}{share}, 95 % in [{low:.6g}, {high:.6g}]{edge}")
        pairs = [(a, b) for place, b in enumerate(self.parameters) for a in list(self.parameters)[:place]]
        lines += [f"  correlation of {a} and {b}: {self.correlations[a][b]:+.3f}" for a, b in pairs]
        return "\n".join([*lines, f"  {self.assumes}", *([f"  {self.status}"] if self.status != "ok" else [])])

    def __repr__(self) -> str:
        values = ", ".join(f"{name} = {value:.4g} ± {self.errors[name]:.2g}" for name, value in self.parameters.items())
        return f"<Fit of {self.model!r}: {values}>"

    _repr_html_ = method("fit_html")

    def profile(self, name: str, points: int = 7, reach: float = 2.0) -> tuple[Array, Array]:
        """Return values of a parameter within ``reach`` errors, and χ² there with all others fitted again.

        Without error bars in the data, χ² is in units of their scatter about the fit.
        """
        demand_known([name], self.parameters, "`{}` was not free", "free were")
        if self._problem is None:
            raise UsageError("a fit from a file holds what was found; its profiles need the model: fit again")
        values = self.parameters[name] + self.errors[name] * np.linspace(-reach, reach, points)
        begin = np.array(list(self.parameters.values()))
        place = list(self.parameters).index(name)
        return values, np.array([self._problem.held(place, float(value), begin) for value in values])

    def plot(self, *names: str, ax: Any = None, logx: bool | None = None, logy: bool | None = None) -> Any:
        """Draw data, fit and, below, the residuals in units of the errors.

        ``names`` are observables, all by default; ``ax`` a pair of axes, one below the other.
        """
        from eqsolve.plotting.validation import plot_fit

        demand_known(names, self.data.names, "`{}` was not fitted", "to draw there are")
        return plot_fit(self, names or self.data.names, ax=ax, logx=logx, logy=logy)

    @checked(path=read_path)
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a netCDF file, which ``eqsolve.open`` reads back and ``eqsolve plot`` draws."""
        # the names of a second set of data end in @2
        import xarray as xr

        variables: dict[str, Any] = {}
        for place, item in enumerate(self.sets, 1):
            end, data = f"@{place}" if place > 1 else "", item.data
            along, moment = ("place" if data.times is None else "t") + end, "moment" + end
            dims = (("draw" + end, along), along, along, along, moment)
            variables |= {along: (along, data.times), moment: (moment, item.lines.get("t"))}
            for name in data.names:
                parts = (data.values[name], data.errors.get(name), item.curves[name], item.sigmas[name], item.lines.get(name))
                entries = zip(_PARTS, dims, parts, strict=True)
                variables |= {f"{name}_{part}{end}": (dim, values) for part, dim, values in entries}
        sets = [{"names": item.data.names, "settings": item.settings} for item in self.sets]
        record = {"kind": "fit", "sets": sets, **{name: getattr(self, name) for name in _FIELDS}}
        write_dataset(xr.Dataset({key: entry for key, entry in variables.items() if entry[1] is not None}), record, path)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


@checked(
    model=read_model, free=names, own=names, each=list_of, bounds=table, priors=table, observables=names, rtol=number,
    budget=read_seconds, progress=callback, params=table,
)  # fmt: skip
def fit(
    model: Model | str, data: Any, *, free: Sequence[str], own: Sequence[str] = (),
    each: Sequence[Mapping[str, Any]] | None = None, bounds: Mapping[str, Any] | None = None,
    priors: Mapping[str, Any] | None = None, at: Iterable[float] | None = None,
    observables: Iterable[str] | None = None, rtol: float = 1e-3, budget: float | str | None = None,
    progress: Any = None, params: Mapping[str, Any] | None = None, **parameters: Any,
) -> Fit:  # fmt: skip
    """Fit parameters of a model to data.

    Parameters
    ----------
    model
        A model; of a flow, its mean-field equations.
    data
        A CSV file, a DataFrame, an xarray Dataset or a ``Simulation``: columns ``t`` and the observables, error bars as
        ``NAME_error``, a column ``seed`` for several draws. Or a list of these, fitted together.
    free
        The parameters to be found; they begin at the values given, or at the model's own.
    own
        Those of them that every set of data has for itself; the others are shared.
    each
        Of a list of data: the values that hold for one set alone, ``[{"delta": 0.5}, {"delta": 2}]``.
    bounds
        Ranges of free parameters, ``{"alpha": (0.1, 1)}``; None leaves an end as the model declares it.
    priors
        What is known of free parameters beforehand: ``{"sigma2": (0.1, 0.02)}``, or ``uncertain(0.1, 0.02)``.
    at, observables
        Use these times, and these observables, of the data; all by default.
    rtol
        Tolerance of the solves.
    budget
        CPU seconds that the search may take, a number or a text such as ``"5min"``; then the best so far comes back, and
        ``status`` says so. The solve under way is finished.
    progress
        Called with (solves, infinity, text) after every solve; False keeps silent.
    params, **parameters
        Values that stay, and where the free ones begin.
    """
    assert isinstance(model, Model)
    assert not isinstance(budget, str)
    wanted = tuple(dict.fromkeys(free))
    if not wanted:
        raise UsageError("name at least one parameter to fit")
    declared = find_parameters(model, wanted)
    sources = [read_data(item) for item in (data if isinstance(data, list | tuple) else [data])]
    settings = [table(item, "each") for item in (each or [{}] * len(sources))]
    if not sources or len(settings) != len(sources):
        raise UsageError(f"there are {len(sources)} sets of data, and values for {len(settings)} of them")
    for what, known in (("own", own), ("bounds", bounds or {}), ("priors", priors or {})):
        demand_known(known, wanted, f"{what}: `{{}}` is not free", "free are")
    common = {**(params or {}), **parameters}
    begin: dict[str, float] = {}
    sets = []
    for number_of, (source, alone) in enumerate(zip(sources, settings, strict=True), 1):
        known, places = {**common, **alone}, []
        for name, item in declared.items():
            value = known.pop(name, model.defaults.get(item, item.default))
            if name in alone and name not in own:
                raise UsageError(f"`{name}` is free and the same for all data: set {number_of} cannot have a value of its own")
            key = f"{name}[{number_of}]" if name in own and len(sources) > 1 else name
            if key not in begin:
                if value is None:
                    raise UsageError(f"say where `{name}` begins: the model has no value of its own for it")
                if isinstance(value, str):  # as --set of the command line gives it
                    with contextlib.suppress(ValueError):
                        value = float(value)
                begin[key] = number(value, f"the start of `{name}`")
            places.append(list(begin).index(key))
        chosen = source.cut(at, _shared(model, source) if observables is None else observables)
        shown = {name: value for name, value in alone.items() if name not in wanted}
        if chosen.times is None and model.kind in ("System", "Flow"):
            raise UsageError(f"data: there is no column of times; a {model.kind} needs one, named `t`")
        question = Question(model, wanted, chosen.names, chosen.times, known, rtol, budget=budget)
        sets.append(_Set.of(question, chosen, shown, places))
    named = [key.partition("[")[0] for key in begin]
    ranges = np.array([_range(name, declared[name], (bounds or {}).get(name)) for name in named])
    known_before = np.array([_prior(name, (priors or {}).get(name)) for name in named])
    with watching(progress, count="solve") as report:
        search = Search(report, budget)
        problem = _Problem(sets, tuple(begin), (ranges[:, 0], ranges[:, 1]), known_before, rtol, search)
        return problem.solve(np.array(list(begin.values())))


def _shared(model: Model, source: Data) -> list[str]:
    families = [rf"{base}(_\d+){{{len(axes)}}}" for base, axes in family_axes(model).items()]
    known = {*model.names, *model.observables}
    own = [name for name in source.names if name in known or any(re.fullmatch(pattern, name) for pattern in families)]
    if not own:
        has = ", ".join([*model.observables, *map(str, getattr(model, "unknowns", ()))])
        timeless = source.times is None and model.kind in ("System", "Flow")
        raise UsageError(
            f"the data have no observable of model `{model.name}`: {', '.join(source.names)} (it has: "
            f"{has}){', nor a column of times, named `t`' if timeless else ''}"
        )
    return own


def _range(name: str, item: Any, asked: Any) -> tuple[float, float]:
    low = -math.inf if item.bounds[0] is None else float(item.bounds[0])
    high = math.inf if item.bounds[1] is None else float(item.bounds[1])
    low = max(low, 10 * ROUNDING if item.is_positive else 0.0 if item.is_nonnegative else -math.inf)
    try:
        first, last = (None, None) if asked is None else asked
        low, high = (low if first is None else max(low, float(first))), (high if last is None else min(high, float(last)))
    except (TypeError, ValueError):
        raise UsageError(f"bounds of `{name}`: expected two numbers, the lowest and the highest, got {asked!r}") from None
    if asked is not None and not low < high:
        raise UsageError(f"bounds of `{name}`: nothing lies between {low:g} and {high:g}")
    return low, high


def _prior(name: str, asked: Any) -> tuple[float, float]:
    """Return what is known of a parameter beforehand, and its error: infinite where nothing is."""
    if asked is None:
        return 0.0, math.inf
    if is_uncertain(asked):
        asked = (asked.nominal_value, asked.std_dev)
    try:
        value, error = map(float, asked)
    except (TypeError, ValueError):
        raise UsageError(f"prior of `{name}`: expected a value and its error, got {asked!r}") from None
    if not (math.isfinite(value) and 0 < error < math.inf):
        raise UsageError(f"prior of `{name}`: expected a value and its error above 0, got {value:g} and {error:g}")
    return value, error


@dataclass(eq=False)
class _Set:
    """One set of data: the question to the model, the errors of the data, and which of all parameters it has."""

    question: Question
    data: Data
    settings: dict[str, Any]
    places: list[int]
    target: Array
    sigmas: Array
    scaled: bool
    assumes: str
    known: dict[tuple[str, ...], Evaluation] = field(default_factory=dict)

    @classmethod
    def of(cls, question: Question, data: Data, settings: dict[str, Any], places: list[int]) -> _Set:
        every = np.hstack([data.values[name] for name in data.names])
        means, scaled = every.mean(axis=0), False
        if data.draws > 1:
            sigmas = every.std(axis=0, ddof=1) / math.sqrt(data.draws)
            assumes = f"errors from the covariance over {data.draws} draws; finite-size bias is not in them"
        elif all(name in data.errors for name in data.names):
            sigmas = np.concatenate([data.errors[name] for name in data.names])
            assumes = "error bars are taken as given, and as those of independent errors at every time"
        else:
            sigmas = np.concatenate([np.full(runs.shape[1], np.abs(runs).max() or 1.0) for runs in data.values.values()])
            scaled = True
            assumes = "no error bars: errors are taken as independent and of equal size, that of the residuals"
        floor = 1e-9 * np.abs(means).max() + 1e-300  # what all draws share exactly, the start, says nothing
        return cls(question, data, settings, places, means, np.where(sigmas > floor, sigmas, np.inf), scaled, assumes)

    def at(self, point: Array) -> Evaluation:
        """Return the model's values and derivatives."""
        key = self.key(point)
        if key not in self.known:
            self.known[key] = self.question.evaluate(point[self.places])
        return self.known[key]

    def key(self, point: Array) -> tuple[str, ...]:
        return tuple(f"{value:.12g}" for value in point[self.places])  # a logarithm and back is the same point

    def meat(self, jacobian: Array) -> Array:
        """Return the covariance of Jᵀ times the data in units of their errors."""
        if self.data.draws == 1:
            return jacobian.T @ jacobian
        every = np.hstack([self.data.values[name] for name in self.data.names])
        return np.atleast_2d(np.cov((every / self.sigmas) @ jacobian, rowvar=False)) / len(every)

    def told(self, point: Array, scale: float) -> FitSet:
        model, names, times = self.at(point), self.data.names, self.data.times
        settings = {name: str(value) for name, value in self.settings.items()}
        curves, sigmas = (
            dict(zip(names, values.reshape(len(names), -1), strict=True)) for values in (model.values, scale * self.sigmas)
        )
        lines: dict[str, Array] = {}  # between the data's times, for either scale of time
        if times is not None and np.ptp(times) > 0:
            moments = np.union1d(times, sample_times(float(np.min(times)), float(np.max(times))))
            between = model.result.at(moments)
            lines = {"t": moments, **{name: between[name].values for name in names}}
        return FitSet(self.data, settings, curves, sigmas, lines)


@dataclass(eq=False)
class _Problem:
    """Residuals of all data in units of their errors, and how these change with the parameters."""

    sets: list[_Set]
    keys: tuple[str, ...]
    bounds: tuple[Array, Array]
    priors: Array
    rtol: float
    search: Search
    scale: float = 1.0
    best: tuple[float, Array] | None = None  # of all points so far: χ² and the point

    def __post_init__(self) -> None:
        self.scaled = self.sets[0].scaled
        self.prior = np.isfinite(self.priors[:, 1])
        if any(item.scaled != self.scaled for item in self.sets):
            raise UsageError("some sets of data have error bars and some have none: what each is worth cannot be told")
        if self.scaled and self.prior.any():
            raise UsageError(
                "priors need data with error bars, NAME_error, or several draws: else what they are worth is not known"
            )

    @property
    def solves(self) -> int:
        return sum(item.question.solves for item in self.sets)

    def at(self, point: Array) -> tuple[Array, Array]:
        """Return the residuals in units of the errors, priors among them, and their derivatives."""
        residuals, rows = [], []
        fresh = any(item.key(point) not in item.known for item in self.sets)
        for item in self.sets:
            model = item.at(point)
            residuals.append((model.values.ravel() - item.target) / item.sigmas)
            rows.append(np.zeros((len(item.target), len(point))))
            rows[-1][:, item.places] = model.slopes.reshape(len(item.places), -1).T / item.sigmas[:, None]
        residuals.append(((point - self.priors[:, 0]) / self.priors[:, 1])[self.prior])
        rows.append(np.diag(1 / self.priors[:, 1])[self.prior])
        off = np.concatenate(residuals)
        size = float(off @ off)
        if self.best is None or size < self.best[0]:
            self.best = (size, point.copy())
        if fresh:
            told = f"{'sum of squares' if self.scaled else 'chi2'} {size:.4g}"
            self.search.tell(self.solves, dict(zip(self.keys, point, strict=True)), told, model.result)
        return off, np.vstack(rows)

    def descend(self, begin: Array, held: int | None = None) -> tuple[Array, Array]:
        """Return the best point and which parameters ended at a bound; one may be held."""
        from scipy.optimize import least_squares

        low, high = self.bounds
        moves = np.arange(len(begin)) != (-1 if held is None else held)
        if not moves.any():
            return begin, np.zeros(len(begin), dtype=bool)
        logs = (low >= 10 * ROUNDING) & (begin > 0) & moves  # positive ones move by factors
        floor = self.rtol if self.scaled else 1.0  # a residual that stays, so that the end is told by an absolute change

        def back(u: Array) -> Array:
            whole = begin.copy()
            whole[moves] = u
            return np.exp(whole, out=whole, where=logs)

        def there(x: Array) -> Array:
            return np.log(np.maximum(x, 1e-300), out=x.copy(), where=logs)[moves]

        def slopes(u: Array) -> Array:
            point = back(u)
            residuals, jacobian = self.at(point)
            scaled = (jacobian * np.where(logs, point, 1.0))[:, moves]
            gain = scaled @ np.linalg.lstsq(scaled, residuals, rcond=None)[0]  # what the next step would take off
            free = max(len(residuals) - scaled.shape[1], 1)
            enough = gain @ gain <= _ENOUGH * max(residuals @ residuals / free if self.scaled else 1.0, (0.1 * floor) ** 2)
            return np.vstack([0.0 * scaled if enough else scaled, np.zeros(scaled.shape[1])])

        minimum = least_squares(
            lambda u: np.append(self.at(back(u))[0], floor), there(begin), jac=slopes, bounds=(there(low), there(high)),
            x_scale=np.where(logs, 1.0, np.maximum(np.abs(begin), _INSIDE))[moves],
            xtol=min(1e-4, 0.1 * self.rtol), ftol=1e-5, gtol=1e-10,
        )  # fmt: skip
        edges = np.zeros(len(begin), dtype=bool)
        edges[moves] = minimum.active_mask != 0
        return back(np.asarray(minimum.x)), edges

    def solve(self, begin: Array) -> Fit:
        """Return the least-squares fit from a start that is moved inside the bounds, its covariance by the slopes there."""
        low, high = self.bounds
        bounded = low > -np.inf
        inside = np.where((begin <= low) & bounded, np.maximum(low, 0.0) + _INSIDE, begin)
        begin = np.where(inside < high, inside, np.where(bounded, (np.where(bounded, low, 0.0) + high) / 2, high - _INSIDE))
        usable = int(sum(np.isfinite(item.sigmas).sum() for item in self.sets) + self.prior.sum())
        if usable < len(self.keys):
            raise UsageError(
                f"{usable} data points that vary cannot tell {len(self.keys)} parameters; free fewer, or add times"
            )
        try:
            self._demand_identifiable(begin, last=False)
            (best, edges), status = self.descend(begin), "ok"
        except SpentError as reason:
            assert self.best is not None
            best, edges, status = self.best[1], np.zeros(len(begin), dtype=bool), str(reason)
        self.search.until = math.inf  # profiles are asked for later
        self._demand_identifiable(best, last=True)
        residuals, jacobian = self.at(best)
        inverse = np.linalg.inv(jacobian.T @ jacobian)
        freedom = usable - len(self.keys)
        chi2 = float(residuals @ residuals)
        meat = np.diag(np.where(self.prior, self.priors[:, 1], np.inf) ** -2.0)
        rows = np.split(jacobian, np.cumsum([len(item.target) for item in self.sets]))  # the last ones are the priors'
        covariance = inverse @ (meat + sum(item.meat(own) for item, own in zip(self.sets, rows, strict=False))) @ inverse
        quantile = 1.96
        if self.scaled:
            self.scale = math.sqrt(chi2 / max(freedom, 1))
            covariance, quantile = covariance * self.scale**2, float(special.stdtrit(max(freedom, 1), 0.975))
        elif draws := [item.data.draws for item in self.sets if item.data.draws > 1]:
            quantile = float(special.stdtrit(min(draws) - 1, 0.975))
        errors = np.sqrt(np.diagonal(covariance))
        unit = covariance / np.maximum(np.multiply.outer(errors, errors), 1e-300)
        width = quantile * errors

        def named(values: Iterable[Any]) -> dict[str, Any]:
            return dict(zip(self.keys, values, strict=True))

        return Fit(
            self.sets[0].question.model.name, named(best.tolist()), named(errors.tolist()),
            named(map(tuple, np.clip([best - width, best + width], low, high).T.tolist())),
            named(named(row.tolist()) for row in unit), None if self.scaled else chi2, freedom,
            [key for key, edge in named(edges).items() if edge],
            "; ".join(dict.fromkeys(item.assumes for item in self.sets)), self.solves,
            tuple(item.told(best, self.scale) for item in self.sets), self.sets[0].at(best).result.latex, status, self,
        )  # fmt: skip

    def held(self, place: int, value: float, begin: Array) -> float:
        """Return χ² with one parameter held and the others fitted."""
        begin = np.where(np.arange(len(begin)) == place, value, begin)
        residuals, _ = self.at(self.descend(begin, place)[0])
        return float(residuals @ residuals) / (self.scale**2 or 1.0)

    def _demand_identifiable(self, point: Array, *, last: bool) -> None:
        """Raise where the data do not tell all parameters apart: a direction along which nothing changes.

        A datum tells of it what the error of its derivatives, three times that stated, leaves. Where nothing is left because
        the derivatives are poor, a search may go on to where they are better; its last point may not be such.
        """
        _, slopes = self.at(point)
        sizes = np.maximum(np.abs(point), 1e-3)
        _, changes, directions = np.linalg.svd(slopes * sizes, full_matrices=False)
        step = sizes * directions[-1]
        doubts = [
            3 * np.abs(step[item.places]) @ item.at(point).slope_errors.reshape(len(item.places), -1) / item.sigmas
            for item in self.sets
        ]
        doubt = np.append(np.concatenate(doubts), np.zeros(int(self.prior.sum())))  # priors are exact
        seen = float(np.linalg.norm(np.maximum(np.abs(slopes @ step) - doubt, 0.0)))
        if changes[0] > 0 and seen > max(1e-3 * self.rtol, 1e-9) * changes[0]:
            return
        weights = directions[-1] / np.abs(directions[-1]).max()
        parts = [f"`{name}`" for name, part in zip(self.keys, weights, strict=True) if abs(part) > 0.1]
        moved, names = " and ".join(parts), ", ".join(dict.fromkeys(name for item in self.sets for name in item.data.names))
        near = ", ".join(f"{name}={value:.4g}" for name, value in zip(self.keys, point, strict=True))
        poor = float(np.linalg.norm(doubt)) / max(float(changes[0]), 1e-300)
        if poor <= 10 * self.rtol:
            how = "changing it" if len(parts) == 1 else "changing them together"
            raise UsageError(
                f"{moved} cannot be identified from these data: {how} leaves {names} as they are at all times given, near "
                f"{near}; hold one of them fixed, begin elsewhere, or add observables or times that depend on it"
            )
        if last:
            raise UsageError(
                f"whether these data tell {moved} is not known: near {near} the solves give the derivatives of {names} only "
                f"to {poor:.1g} of the largest; take a smaller rtol (--rtol), hold one of them fixed, or add a prior"
            )


# --- Fits in files: the data, the model at their times and between, and what was found.
_FIELDS = (
    "model", "parameters", "errors", "intervals", "correlations", "chi2", "freedom", "at_edge", "assumes", "solves", "latex",
    "status",
)  # fmt: skip
_PARTS = ("data", "bar", "fit", "sigma", "line")  # of an observable: what was measured, its bars, the model, what was used


def read_fit(dataset: xr.Dataset, record: Mapping[str, Any]) -> Fit:
    """Return the fit of a file's values and record."""
    sets = []
    for place, entry in enumerate(record["sets"], 1):
        end = f"@{place}" if place > 1 else ""
        values, bars, fits, sigmas, lines = (
            {name: dataset[key].values for name in entry["names"] if (key := f"{name}_{part}{end}") in dataset}
            for part in _PARTS
        )
        data = Data(dataset["t" + end].values if "t" + end in dataset else None, values, bars)
        drawn = {"t": dataset["moment" + end].values, **lines} if lines else {}
        sets.append(FitSet(data, entry["settings"], fits, sigmas, drawn))
    fields = {name: record[name] for name in _FIELDS if name in record}
    fields["intervals"] = {name: tuple(pair) for name, pair in record["intervals"].items()}
    return Fit(sets=tuple(sets), **fields)
