"""`optimise`: the parameters at which an observable is smallest or largest.

After a coarse scan of the ranges gradients lead on, by scipy's SLSQP (Kraft 1988). With H the second
derivatives an error δg of the gradient moves the optimum by H⁻¹ δg: that is its error bar, in which constraints that hold as
equalities count. The best time is found on every curve.
"""

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsolve.arguments import callback, checked, flag, got, list_of, number, numbers, table
from eqsolve.errors import SolverError, UsageError, demand_known, logger
from eqsolve.fitting.question import Question, Search, SpentError, find_parameters, through
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.printing import latex_names
from eqsolve.numerics.arrays import DIFFERENCE, Array, special
from eqsolve.numerics.grids import DRAWN
from eqsolve.numerics.sobol import sobol_normals
from eqsolve.progress import watching
from eqsolve.results.result import Result
from eqsolve.solvers.options import read_seconds

_SCAN = {1: 11, 2: 6}  # points along a parameter; more than two parameters get 36 in all, or more
_WIDE = 100.0  # ratio of the ends of a positive range from which on it is scanned in the logarithm


@dataclass(frozen=True)
class Range:
    """The range of a parameter, in a coordinate from 0 to 1."""

    name: str
    low: float
    high: float
    log: bool

    def value(self, place: float) -> float:
        if self.log:
            return float(self.low * (self.high / self.low) ** place)
        return self.low + (self.high - self.low) * place

    def slope(self, place: float) -> float:
        """Return d value / d place."""
        return self.value(place) * math.log(self.high / self.low) if self.log else self.high - self.low


@dataclass(frozen=True, eq=False)
class Optimum:
    """Where an observable is best.

    Attributes
    ----------
    parameters, errors
        The best values, and their error bars from the solver's own errors; infinite where the observable is flat.
    value, error
        The observable there.
    at_edge
        Whether it is best at an end of a range; ``edge`` says where, in words.
    active
        The constraints that hold as equalities there.
    status
        "ok", or that the budget was spent before the end of the search; the errors of the parameters are then not known.
    scan
        The coarse scan: a table of points (point, parameter), and the values there.
    """

    model: str
    observable: str
    maximise: bool
    parameters: dict[str, float]
    errors: dict[str, float]
    value: float
    error: float
    at_edge: bool
    edge: str
    scan: tuple[Array, Array]
    ranges: tuple[Range, ...]
    solves: int
    latex: dict[str, str]
    active: tuple[str, ...]
    status: str
    settings: dict[str, Any]  # that stay, the time among them

    def __repr__(self) -> str:
        places = ", ".join(f"{name} = {value:.4g} ± {self.errors[name]:.2g}" for name, value in self.parameters.items())
        return f"<Optimum of {self.model!r}: {self.observable} = {self.value:.4g} ± {self.error:.2g} at {places}>"

    def json_object(self) -> dict[str, Any]:
        """Return the optimum as plain numbers and texts."""
        plain = {"model": self.model, "observable": self.observable, "goal": "maximise" if self.maximise else "minimise"}
        plain |= {key: getattr(self, key) for key in ("parameters", "errors", "value", "at_edge", "solves", "status")}
        return {**plain, "value_error": self.error, "message": self.edge, "active": [*self.active]}

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the scan along one parameter, or as a map over two, and the optimum in it."""
        from eqsolve.plotting.validation import plot_landscape

        return plot_landscape(self, ax)


Function = Callable[[Result], Any]


def _goal(value: Any, what: str) -> str | Function:
    if not isinstance(value, str) and not callable(value):
        raise UsageError(f"{what} is the name of an observable, or a function of the result, got {got(value)}")
    return value


@checked(
    model=read_model, observable=_goal, over=table, at=numbers, maximise=flag, rtol=number, budget=read_seconds,
    progress=callback, params=table,
)  # fmt: skip
def optimise(
    model: Model | str, observable: str | Function, *, over: Mapping[str, Any],
    at: float | Iterable[float] | None = None, maximise: bool = False,
    constraints: Mapping[str, Any] | Iterable[Function] = (), rtol: float = 1e-3,
    budget: float | str | None = None, progress: Any = None,
    params: Mapping[str, Any] | None = None, **parameters: Any,
) -> Optimum:  # fmt: skip
    """Return the parameters at which an observable is smallest.

    Parameters
    ----------
    model, observable
        A model, and one of its observables or unknowns: of a dynamics, a fixed point or a rate. Or a function of its result,
        ``lambda res: res["E_test"][-1] + 0.1 * res["l1"][-1]``; derivatives are led through it.
    over
        Ranges by name, ``{"alpha": (1e-3, 10), "lam": (0, 1)}``; a third entry ``"log"`` or ``"linear"`` says how a range is
        scanned. ``"t"`` is the time, for early stopping.
    at
        The time, of a dynamics; for a function of the result there may be several, which the solves meet.
    maximise
        Look for the largest value instead.
    constraints
        Ranges of observables, ``{"E_train": (None, 0.1)}``, or functions of the result that are not to be negative.
    rtol
        Tolerance of the solves.
    budget, progress
        As in ``fit``: the CPU seconds that the search may take, and what is told of every solve.
    params, **parameters
        Values that stay.

    Examples
    --------
    >>> eqsolve.optimise("dln_fixed_point_min_norm", "E_test", over={"alpha": (0.01, 10)}, delta=0.5, sigma2=0.05)
    """
    assert isinstance(model, Model)
    assert at is None or isinstance(at, list)
    assert not isinstance(budget, str)
    ranges = tuple(_range(str(name), entry) for name, entry in over.items())
    if not ranges:
        raise UsageError("over= names at least one range, such as {'alpha': (0.001, 10)}")
    own = tuple(item for item in ranges if item.name != "t")
    find_parameters(model, [item.name for item in own])
    timed = next((item for item in ranges if item.name == "t"), None)
    timeless = model.kind in ("FixedPoint", "Singularity", "Cases")
    limits = _limits(constraints)
    plain = isinstance(observable, str) and not limits
    if timeless and (at is not None or timed is not None):
        raise UsageError(f"model `{model.name}` is a {model.kind} and has no time; leave out at= and the range of t")
    if not timeless and (at is None) == (timed is None):
        raise UsageError(
            f"say when `{_name(observable)}` is to be best: at=20, or over={{'t': (0, 100), ...}} for the best time"
        )
    if timed is not None and not plain:
        raise UsageError("the best time is found for an observable by its name, and without constraints; give at= instead")
    if isinstance(observable, str) and at is not None and len(at) != 1:
        raise UsageError(
            f"`{observable}` is best at one time, got {len(at)}; for the best time give that of t in over= (--over)"
        )
    times = None if timeless else np.array(at) if timed is None else np.linspace(timed.low, timed.high, 2 * DRAWN + 1)
    settings = {**(params or {}), **parameters}
    names = (observable,) if isinstance(observable, str) else ()
    question = Question(model, tuple(item.name for item in own), names if plain else (), times, settings, rtol, budget=budget)
    sign, name = -1.0 if maximise else 1.0, _name(observable)
    goal = _read(observable, None if timed is None else times, sign) if isinstance(observable, str) else observable
    with watching(progress, count="solve") as report:
        search = Search(report, budget)
        return _OptimumSearch(question, own, timed, sign, name, goal, limits, search).run()


def _name(goal: str | Function) -> str:
    named = goal if isinstance(goal, str) else getattr(goal, "__name__", "")
    return named if named.isidentifier() else "goal"


def _read(name: str, times: Array | None = None, sign: float = 1.0) -> Function:
    """Return an observable at its only or last place, or the best of it at given times."""

    def read(result: Result) -> Any:
        demand_known([name], result.names, f"model `{result.model}` has no `{{}}`")
        return result[name].values.flat[-1] if times is None else sign * (sign * result.at(times)[name].values).min()

    return read


def _limit(read: Function, sign: float, end: float) -> Function:
    return lambda res: sign * (read(res) - end)


def _limits(constraints: Any) -> tuple[tuple[str, Function], ...]:
    """Return the constraints by their texts, as functions that are not to be negative."""
    if not isinstance(constraints, Mapping):
        functions = list_of(constraints, "constraints")
        if wrong := [entry for entry in functions if not callable(entry)]:
            raise UsageError(f"constraints= takes ranges by name, or functions of the result, got {got(wrong[0])}")
        return tuple((f"constraint {place}", entry) for place, entry in enumerate(functions, 1))
    limits: list[tuple[str, Function]] = []
    for name, entry in constraints.items():
        try:
            low, high = (None if end is None else float(end) for end in entry)
        except (TypeError, ValueError):
            raise UsageError(f"the range of `{name}` in the constraints is (LOWEST, HIGHEST), got {entry!r}") from None
        read = _read(str(name))
        limits += [] if low is None else [(f"{name} >= {low:g}", _limit(read, 1.0, low))]
        limits += [] if high is None else [(f"{name} <= {high:g}", _limit(read, -1.0, high))]
    return tuple(limits)


def _range(name: str, entry: Any) -> Range:
    try:
        low, high, *how = entry
        low, high = float(low), float(high)
    except (TypeError, ValueError):
        raise UsageError(f"the range of `{name}` is (FIRST, LAST), got {entry!r}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"the range of `{name}` goes from a smaller to a larger number, got {low:g} to {high:g}")
    if how and how[0] not in ("log", "linear"):
        raise UsageError(f"the range of `{name}` is scanned 'log' or 'linear', got {how[0]!r}")
    log = how[0] == "log" if how else low > 0 and high / low >= _WIDE
    if log and low <= 0:
        raise UsageError(f"a logarithmic range of `{name}` begins above 0, got {low:g}")
    return Range(name, low, high, log)


@dataclass(frozen=True, eq=False)
class _Seen:
    """One point of a search: goal and constraints, their gradients in the coordinates, and the errors of these."""

    value: float
    error: float
    gradient: Array
    unsure: Array
    moment: float
    limits: Array
    limit_errors: Array
    limit_slopes: Array


@dataclass(eq=False)
class _OptimumSearch:
    """A scan of the ranges, in coordinates from 0 to 1, then quasi-Newton descent from the best point; solves are kept."""

    question: Question
    ranges: tuple[Range, ...]
    timed: Range | None
    sign: float
    name: str
    goal: Function
    limits: tuple[tuple[str, Function], ...]
    search: Search
    _known: dict[tuple[float, ...], _Seen] = field(default_factory=dict)

    def point(self, place: Array) -> dict[str, float]:
        """Return the parameters at a place, in coordinates from 0 to 1."""
        ends = np.clip(place, 0.0, 1.0).tolist()
        return {item.name: item.value(x) for item, x in zip(self.ranges, ends, strict=True)}

    def slopes(self, place: Array) -> Array:
        """Return the derivatives of the parameters along the coordinates."""
        return np.array([item.slope(float(x)) for item, x in zip(self.ranges, place, strict=True)])

    def run(self) -> Optimum:
        points, values = self._scan()
        best, status = points[int(np.argmin(values))], "ok"
        try:
            self.search.demand(self.question.solves)
            if self.ranges:
                best = self._descend(best, float(np.ptp(values[np.isfinite(values)])) or 1.0)
            here = self.at(best)
        except SpentError as reason:
            status, known = str(reason), self._known.items()
            (*place, _), here = min(known, key=lambda item: (-np.minimum(item[1].limits, 0.0).sum(), item[1].value))
            best = np.array(place)
        edges = np.isclose(best, 0.0) | np.isclose(1 - best, 0.0)
        optimum: dict[str, float] = self.point(best)
        allowed = np.maximum(here.limit_errors, 1e-6 * np.maximum(1.0, np.abs(here.limits)))
        if (here.limits < -allowed).any():
            worst, at = int(np.argmin(here.limits)), ", ".join(f"{name}={value:.4g}" for name, value in optimum.items())
            raise UsageError(
                f"no point of the ranges was found where {self.limits[worst][0]} holds; the nearest, {at}, misses it by "
                f"{-here.limits[worst]:.3g}: widen the ranges, or ask for less"
            )
        active = here.limits <= allowed
        errors, error = np.where(edges, 0.0, math.inf), here.error
        try:
            errors = self._errors(best, here, edges, active) if status == "ok" else errors
        except SpentError as reason:
            status = str(reason)
        if active.any() and len(here.gradient):  # the value changes to first order with what the constraints hold
            error += float(np.abs(np.where(here.gradient == 0, 0.0, errors / self.slopes(best)) * here.gradient).sum())
        spread: dict[str, float] = dict(zip(optimum, errors.tolist(), strict=True))
        where = [f"{name} = {value:g}" for (name, value), edge in zip(optimum.items(), edges, strict=True) if edge]
        if self.timed is not None:
            optimum["t"], spread["t"] = here.moment, (self.timed.high - self.timed.low) / (2 * DRAWN)
            if min(here.moment - self.timed.low, self.timed.high - here.moment) < 1e-9 * (self.timed.high - self.timed.low):
                where.append(f"t = {here.moment:g}")
        last, times = self.question.last, self.question.times
        stay = dict(last.params) if last else {}
        stay |= {"t": float(times[0])} if times is not None and len(times) == 1 else {}
        goal = f"`{self.name}` is {'largest' if self.sign < 0 else 'smallest'}"
        edge = f"{goal} at an end of the range, {', '.join(where)}: there is no optimum inside" if where else ""
        table = np.array([[*self.point(place).values()] for place in points])
        return Optimum(
            self.question.model.name, self.name, self.sign < 0, optimum, spread, self.sign * here.value, error, bool(where),
            edge, (table, self.sign * values), self.ranges, self.question.solves, latex_names((self.question.model,)),
            tuple(text for (text, _), held in zip(self.limits, active, strict=True) if held), status,
            {key: value for key, value in stay.items() if key not in optimum},
        )  # fmt: skip

    def at(self, place: Array, *, slopes: bool = True) -> _Seen:
        """Return what is seen at a point."""
        key = (*map(float, place), float(slopes))
        if key not in self._known:
            point = self.point(place)
            rough = None if slopes else self.question.rtol ** (2 / 3)  # a scan needs fewer digits
            along = self.question.names if slopes else ()
            scale = self.slopes(place)[: len(along)]
            result = self.question.solve([*point.values()], slopes=bool(along), rtol=rough)
            value, error, gradient, unsure = through(self.goal, result, along)
            limits = [through(limit, result, along)[:3] for _, limit in self.limits]
            values, errors, slopes_of_limits = zip(*limits, strict=True) if limits else ((), (), np.empty((0, len(scale))))
            times, moment = self.question.times, math.nan
            if self.timed is not None and times is not None:
                moment = float(times[np.argmin(self.sign * result.at(times)[self.name].values)])
            self._known[key] = _Seen(
                self.sign * value, error, self.sign * gradient * scale, np.abs(unsure * scale), moment, np.array(values),
                np.array(errors), np.array(slopes_of_limits) * scale,
            )  # fmt: skip
            self.search.tell(self.question.solves, point, f"{self.name} {value:.4g}", result)
        return self._known[key]

    def _scan(self) -> tuple[list[Array], Array]:
        """Return points all over the ranges, and the values there, infinite where it cannot be solved."""
        count = len(self.ranges)
        if count <= 2:
            grid = np.linspace(0, 1, _SCAN.get(count, 1))
            points = [np.array(entry) for entry in itertools.product(grid, repeat=count)]
        else:
            points = [*special.ndtr(sobol_normals(1 << math.ceil(math.log2(_SCAN[2] ** 2)), count, 0)).T]
        values, off, reasons = np.full(len(points), math.inf), np.full(len(points), math.inf), []
        for place, point in enumerate(points):
            try:
                with contextlib.suppress(SpentError):
                    self.at(point, slopes=False)
                seen = self.at(point, slopes=False)  # known by now
                values[place], off[place] = seen.value, -np.minimum(seen.limits, 0.0).sum()
            except SolverError as reason:
                reasons.append(str(reason))
            if time.process_time() > self.search.until:
                points, values, off = points[: place + 1], values[: place + 1], off[: place + 1]
                break
        known = values[np.isfinite(values)]
        if not len(known):
            raise SolverError(f"no point of the ranges can be solved: {reasons[0]}")
        if count and len(known) > 1 and float(np.ptp(known)) <= 1e-12 * max(float(np.abs(known).max()), 1e-300):
            names = ", ".join(f"`{item.name}`" for item in self.ranges)
            raise UsageError(f"`{self.name}` does not depend on {names}: there is no optimum to be found")
        # where no point keeps the constraints, those count that break them least
        return points, np.where(off <= off.min(), values, math.inf) if self.limits else values

    def _descend(self, start: Array, size: float) -> Array:
        """Return the optimum that gradients lead to from a start, which need not keep the constraints.

        ``size`` is by how much the goal changes over the ranges.
        """
        from scipy.optimize import minimize

        if (self.at(start, slopes=False).limits < 0).any():  # and so everywhere in the scan
            logger.warning("no point of the scan keeps %s; looking for one", " and ".join(text for text, _ in self.limits))
        constraint = {"type": "ineq", "fun": lambda x: self.at(x).limits, "jac": lambda x: self.at(x).limit_slopes}
        optimum = minimize(
            lambda x: (self.at(x).value / size, self.at(x).gradient / size), start, jac=True, method="SLSQP",
            constraints=[constraint] if self.limits else (), bounds=[(0.0, 1.0)] * len(self.ranges),
            options={"maxiter": 40, "ftol": 1e-13},
        )  # fmt: skip
        return np.clip(np.asarray(optimum.x), 0.0, 1.0)

    def _errors(self, best: Array, here: _Seen, edges: Array, active: Array) -> Array:
        """Return the error bars of the parameters: what errors of gradient and constraints are to the optimum.

        Constraints that hold as equalities are Lagrange's, with the multipliers of least squares.
        """
        errors = np.where(edges, 0.0, math.inf)
        inside = np.flatnonzero(~edges)
        if not len(inside):
            return errors
        held = here.limit_slopes[active][:, inside]
        multipliers = np.linalg.lstsq(held.T, here.gradient[inside], rcond=None)[0]

        def lagrangian(seen: _Seen) -> Array:
            return np.asarray(seen.gradient[inside] - multipliers @ seen.limit_slopes[active][:, inside])

        hessian = np.zeros((len(inside), len(inside)))
        for row, place in enumerate(inside):
            step = min(DIFFERENCE, best[place], 1 - best[place]) or DIFFERENCE
            moved = step * (np.arange(len(best)) == place)
            hessian[row] = (lagrangian(self.at(best + moved)) - lagrangian(self.at(best - moved))) / (2 * step)
        hessian = (hessian + hessian.T) / 2
        whole = np.block([[hessian, held.T], [held, np.zeros((len(held), len(held)))]])
        off = np.append(here.unsure[inside] + np.abs(lagrangian(here)), (here.limit_errors + np.abs(here.limits))[active])
        with contextlib.suppress(np.linalg.LinAlgError):
            if len(held) or np.linalg.eigvalsh(hessian)[0] > 0:
                spread = np.abs(np.linalg.inv(whole)) @ off
                errors[inside] = spread[: len(inside)] * self.slopes(best)[inside]
        return errors
