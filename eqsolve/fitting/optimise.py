"""`optimise`: the parameters at which an observable is smallest or largest.

A coarse scan of the whole range finds where to begin, then gradients lead on: along one parameter the zero of the derivative
between the neighbours of the best point (Brent's method), along several L-BFGS-B (Byrd, Lu, Nocedal & Zhu 1995,
doi:10.1137/0916069), both scipy's. With H the second derivatives, from differences of the exact first ones, an error δg of the
gradient moves the optimum by H⁻¹ δg: that is its error bar. Time may be one of the parameters: its optimum is found on every
curve, and moves with the others without changing their derivatives (the envelope theorem).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsolve.arguments import checked, flag, number, table, text
from eqsolve.errors import EqsolveError, SolverError, UsageError
from eqsolve.fitting.evaluating import Question, find_parameters
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.printing import latex_names
from eqsolve.numerics.arrays import Array

_SCAN = {1: 11, 2: 6}  # points along each parameter; more parameters get _MANY points in all
_MANY = 64
_WIDE = 100.0  # ratio of the ends of a positive range from which on it is scanned in the logarithm
_ROUGH = 1e-2  # tolerance of the scan
_CLOSE = 1e-7  # of the range: how near an end counts as the end
_STEP = 1e-3  # of the range: over which first derivatives are differenced
_TIMES = 401  # of a curve, to find its best time between


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
    ranges: tuple[Range, ...] = field(repr=False)
    solves: int = 0
    latex: dict[str, str] = field(repr=False, default_factory=dict)

    def json_object(self) -> dict[str, Any]:
        """Return the optimum as plain numbers and texts."""
        made = {"model": self.model, "observable": self.observable, "goal": "maximise" if self.maximise else "minimise"}
        numbers = {"parameters": self.parameters, "errors": self.errors, "value": self.value, "value_error": self.error}
        return {**made, **numbers, "at_edge": self.at_edge, "message": self.edge, "solves": self.solves}

    def plot(self, *, ax: Any = None) -> Any:
        """Draw the landscape: the scan along one parameter, or as a map over two, and the optimum in it."""
        from eqsolve.plotting.landscapes import plot_landscape

        names = [item.name for item in self.ranges]
        best = ([self.parameters[name] for name in names], self.value, [self.errors[name] for name in names])
        return plot_landscape(names, self.scan, best, [item.log for item in self.ranges], self.observable, self.latex, ax)


@checked(model=read_model, observable=text, over=table, maximise=flag, rtol=number, params=table)
def optimise(
    model: Model | str,
    observable: str,
    *,
    over: Mapping[str, Any],
    at: float | None = None,
    maximise: bool = False,
    rtol: float = 1e-3,
    params: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> Optimum:
    """Return the parameters at which an observable is smallest.

    Parameters
    ----------
    model, observable
        A model, and one of its observables or unknowns: of a dynamics, a fixed point or a rate.
    over
        Ranges by name, ``{"alpha": (1e-3, 10), "lam": (0, 1)}``; a third entry ``"log"`` or ``"linear"`` says how a range is
        scanned. ``"t"`` is the time, for early stopping.
    at
        The time, of a dynamics.
    maximise
        Look for the largest value instead.
    rtol
        Tolerance of the solves.
    params, **parameters
        Values that stay.

    Examples
    --------
    >>> eqsolve.optimise("dln_fixed_point_min_norm", "E_test", over={"alpha": (0.01, 10)}, delta=0.5, sigma2=0.05)
    """
    assert isinstance(model, Model)
    ranges = tuple(_range(str(name), entry) for name, entry in over.items())
    if not ranges:
        raise UsageError("over= names at least one range, such as {'alpha': (0.001, 10)}")
    own = tuple(item for item in ranges if item.name != "t")
    find_parameters(model, [item.name for item in own])
    timed = next((item for item in ranges if item.name == "t"), None)
    timeless = model.kind in ("FixedPoint", "Singularity", "Cases")
    if timeless and (at is not None or timed is not None):
        raise UsageError(f"model `{model.name}` is a {model.kind} and has no time; leave out at= and the range of t")
    if not timeless and (at is None) == (timed is None):
        raise UsageError(f"say when `{observable}` is to be best: at=20, or over={{'t': (0, 100), ...}} for the best time")
    times = None if timeless else np.array([number(at, "at")]) if timed is None else np.linspace(timed.low, timed.high, _TIMES)
    settings = {**(params or {}), **parameters}
    question = Question(model, tuple(item.name for item in own), (observable,), times, settings, rtol)
    return _Search(question, own, timed, -1.0 if maximise else 1.0).run(maximise)


def _range(name: str, entry: Any) -> Range:
    try:
        low, high, *how = entry
        low, high = float(low), float(high)
    except (TypeError, ValueError):
        raise UsageError(f"over=: the range of `{name}` is (FIRST, LAST), got {entry!r}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"over=: the range of `{name}` goes from a smaller to a larger number, got {low:g} to {high:g}")
    if how and how[0] not in ("log", "linear"):
        raise UsageError(f"over=: the range of `{name}` is scanned 'log' or 'linear', got {how[0]!r}")
    log = how[0] == "log" if how else low > 0 and high / low >= _WIDE
    if log and low <= 0:
        raise UsageError(f"over=: a logarithmic range of `{name}` begins above 0, got {low:g}")
    return Range(name, low, high, log)


@dataclass(eq=False)
class _Search:
    """One search: its question, its ranges, and what was solved so far."""

    question: Question
    ranges: tuple[Range, ...]
    timed: Range | None
    sign: float
    solves: int = 0
    _known: dict[tuple[float, ...], tuple[float, Array, float, Array, float]] = field(default_factory=dict)

    def run(self, maximise: bool) -> Optimum:
        points, values = self._scan()
        start = points[int(np.argmin(values))]
        best = self._descend(points, values, start) if self.ranges else np.empty(0)
        value, gradient, error, gradient_error, moment = self.at(best)
        edges = [bool(place <= _CLOSE or place >= 1 - _CLOSE) for place in best]
        errors = self._errors(best, gradient, gradient_error, edges)
        found = {item.name: float(item.value(float(place))) for item, place in zip(self.ranges, best, strict=True)}
        spread = {item.name: float(entry) for item, entry in zip(self.ranges, errors, strict=True)}
        where = [f"{item.name} = {found[item.name]:g}" for item, edge in zip(self.ranges, edges, strict=True) if edge]
        if self.timed is not None:
            found["t"], spread["t"] = moment, (self.timed.high - self.timed.low) / (_TIMES - 1)
            if min(moment - self.timed.low, self.timed.high - moment) < 1e-9 * (self.timed.high - self.timed.low):
                where.append(f"t = {moment:g}")
        goal = "largest" if maximise else "smallest"
        name = self.question.observables[0]
        edge = f"`{name}` is {goal} at an end of the range, {', '.join(where)}: there is no optimum inside" if where else ""
        table = np.array([[item.value(place) for item, place in zip(self.ranges, point, strict=True)] for point in points])
        return Optimum(
            self.question.model.name, name, maximise, found, spread, self.sign * value, error, bool(where), edge,
            (table, self.sign * values), self.ranges, self.solves, latex_names((self.question.model,)),
        )  # fmt: skip

    def at(self, place: Array, *, slopes: bool = True) -> tuple[float, Array, float, Array, float]:
        """Return value, gradient in the coordinates, their errors, and the best time."""
        key = (*map(float, place), float(slopes))
        if key not in self._known:
            point = [item.value(min(max(float(x), 0.0), 1.0)) for item, x in zip(self.ranges, place, strict=True)]
            rough = None if slopes else max(_ROUGH, self.question.rtol)
            found = self.question.evaluate(point, slopes=slopes and bool(self.ranges), rtol=rough)
            self.solves += 1
            curve = self.sign * found.values[0]
            index = int(np.argmin(curve))
            moment = float("nan") if self.question.times is None else float(self.question.times[index])
            scale = np.array([item.slope(float(x)) for item, x in zip(self.ranges, place, strict=True)])
            gradient = self.sign * found.slopes[:, 0, index] * scale if slopes and self.ranges else np.zeros(len(self.ranges))
            unsure = found.slope_errors[:, 0, index] * scale if slopes and self.ranges else np.zeros(len(self.ranges))
            self._known[key] = (float(curve[index]), gradient, float(found.errors[0, index]), np.abs(unsure), moment)
        return self._known[key]

    def _scan(self) -> tuple[list[Array], Array]:
        """Return points all over the ranges, and the values there; a point that cannot be solved counts as bad."""
        count = len(self.ranges)
        if count <= 2:
            grid = np.linspace(0, 1, _SCAN.get(count, 1))
            points = [np.array(entry) for entry in itertools.product(grid, repeat=count)]
        else:
            from scipy.stats import qmc

            points = [*qmc.Sobol(count, seed=0).random(_MANY)]
        values, reasons = [], []
        for point in points:
            try:
                values.append(self.at(point, slopes=False)[0])
            except SolverError as reason:
                values.append(math.inf)
                reasons.append(str(reason))
        if not np.isfinite(values).any():
            raise SolverError(f"no point of the ranges can be solved: {reasons[0]}")
        known = np.array(values)[np.isfinite(values)]
        if count and float(np.ptp(known)) <= 1e-12 * max(float(np.abs(known).max()), 1e-300):
            names = ", ".join(f"`{item.name}`" for item in self.ranges)
            raise UsageError(f"`{self.question.observables[0]}` does not depend on {names}: there is no optimum to be found")
        return points, np.array(values)

    def _descend(self, points: list[Array], values: Array, start: Array) -> Array:
        """Return the optimum near the best point of the scan."""
        from scipy.optimize import brentq, minimize

        if len(self.ranges) == 1:
            grid = np.array([float(point[0]) for point in points])
            place = int(np.argmin(values))
            low, high = grid[max(place - 1, 0)], grid[min(place + 1, len(grid) - 1)]
            slope: Callable[[float], float] = lambda x: float(self.at(np.array([x]))[1][0])  # noqa: E731
            if slope(low) < 0 < slope(high):
                return np.array([brentq(slope, low, high, xtol=1e-7, rtol=1e-10)])
            if slope(low) >= 0 and low == 0.0:
                return np.array([low])
            if slope(high) <= 0 and high == 1.0:
                return np.array([high])
        found = minimize(
            lambda x: self.at(x)[:2], start, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(self.ranges),
            options={"maxiter": 40, "ftol": 1e-14, "gtol": 1e-10},
        )  # fmt: skip
        return np.asarray(found.x)

    def _errors(self, best: Array, gradient: Array, unsure: Array, edges: list[bool]) -> Array:
        """Return the error bars of the parameters: what the error of the gradient is to the optimum."""
        count = len(best)
        made = np.full(count, math.inf)
        inside = [place for place in range(count) if not edges[place]]
        for place in range(count):
            if edges[place]:
                made[place] = 0.0
        if not inside:
            return made
        hessian = np.zeros((len(inside), len(inside)))
        for row, place in enumerate(inside):
            step = min(_STEP, best[place], 1 - best[place]) or _STEP
            ends = []
            for side in (-1.0, 1.0):
                moved = best.copy()
                moved[place] += side * step
                ends.append(self.at(moved)[1])
            hessian[row] = ((ends[1] - ends[0]) / (2 * step))[inside]
        hessian = (hessian + hessian.T) / 2
        try:
            if np.linalg.eigvalsh(hessian)[0] <= 0:
                return made
            spread = np.abs(np.linalg.inv(hessian)) @ (unsure + np.abs(gradient))[inside]
        except (np.linalg.LinAlgError, EqsolveError):
            return made
        for row, place in enumerate(inside):
            made[place] = spread[row] * self.ranges[place].slope(float(best[place]))
        return made
