"""`validate`: compare a theory with finite-size runs of its model, and say whether they agree.

Student's test at every time, with Bonferroni's bound for all of them together; the bias of finite size is extrapolated from
half the size (Richardson), and laws by the 2-Wasserstein distance of their quantile functions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.arguments import callback, checked, names, number, numbers, one_of, table, text, whole
from eqsolve.arguments import path as read_path
from eqsolve.errors import UsageError, demand_known, logger
from eqsolve.language.binding import bind
from eqsolve.language.laws import Normal
from eqsolve.language.loading import read_model
from eqsolve.language.model import Model
from eqsolve.language.system import Cases, FixedPoint, Flow, Singularity, System
from eqsolve.microscopic.data import read_data
from eqsolve.microscopic.lowered import sides
from eqsolve.microscopic.minimisers import finite_size
from eqsolve.microscopic.simulate import decay_rates, simulate
from eqsolve.numerics.arrays import Array, special
from eqsolve.numerics.backend import read_device
from eqsolve.numerics.constants import HOW
from eqsolve.numerics.grids import DRAWN, ROWS
from eqsolve.numerics.laws import STRATA
from eqsolve.options import refuse_idle
from eqsolve.passes.forms.structure import bind_routed, bind_singularity, check_routed, select_case, settable
from eqsolve.passes.rewrite.indices import written_out
from eqsolve.progress import part_of, watching
from eqsolve.results.archive import save, write_table
from eqsolve.results.distribution import Distribution, midpoints
from eqsolve.results.result import Result
from eqsolve.results.words import TELLING, jsonable, percent
from eqsolve.solvers.fixed_point.law import FixedPointLaw
from eqsolve.solving import solve
from eqsolve.verbs import lazy_import, method

if TYPE_CHECKING:
    import xarray as xr

# --- `Comparison` and `Validation`: theory and finite-size draws, z-scores, power and verdicts.
#
# Of every observable there are theory ± its error, and a mean over independent draws ± its standard
# error s. Draws at half the size estimate the bias of finite size, b = (value(d/2) − value(d))/(2^a
# − 1) for a bias of order d^{−a}. It counts as a systematic error B, together with half of what
# exceeds its noise at other times. Both sets give s. The difference in units of √(s² + error² + B²)
# follows Student's law for that number of draws; z is the standard normal value of the same
# probability. "agrees": all |z| ≤ 3 with errors small enough to tell; "disagrees": some |z| beyond
# what that number of comparisons reaches once in a hundred validations; "not enough data" in
# between, or when the errors are too large. With the verdict comes its power: the smallest
# deviation called "disagrees" nine times in ten, as a fraction of the observable.

_ARRAYS = ("theory", "theory_error", "simulation", "standard_error", "bias", "bias_error", "z", "detectable")
AGREES, DISAGREES, UNDECIDED = "agrees", "disagrees", "not enough data"
_WITHIN = 3.0  # |z| up to which theory and runs agree
_ALARM = 0.01  # probability of a false "disagrees" among all comparisons of a validation
_MISSED = 0.1  # probability with which a deviation of the stated size goes unseen
_NEXT = 0.5  # part of the correction of order 1/d that the next order may be


@dataclass(frozen=True, eq=False)
class Comparison:
    """One observable on both sides; arrays over the times, or of length one.

    ``detectable`` is the smallest deviation that would have been seen (nine times in ten), as a fraction of the theory.
    """

    theory: Array
    theory_error: Array
    simulation: Array
    standard_error: Array
    bias: Array
    bias_error: Array
    z: Array
    detectable: Array
    verdict: str

    @property
    def relative_bias(self) -> float:
        """The largest bias beyond its noise, as a fraction of the theory."""
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.sqrt(np.maximum(self.bias**2 - self.bias_error**2, 0.0)) / np.abs(self.theory)
        return float(np.max(shares, where=np.isfinite(shares), initial=0.0))

    @property
    def most_sensitive(self) -> int:
        """The place in time at which the smallest deviation could have been seen."""
        return int(np.argmin(np.nan_to_num(self.detectable, nan=np.inf)))

    @property
    def least_sensitive(self) -> int:
        """The place in time at which a deviation had to be the largest to be seen."""
        return int(np.argmax(np.nan_to_num(self.detectable, nan=-np.inf)))

    @property
    def underpowered(self) -> Array:
        """Where the comparison would have missed a deviation by a tenth of the observable.

        Values below a hundredth of the largest are left out: a fraction of almost nothing is no measure.
        """
        size = np.abs(self.theory)
        return np.asarray(~(self.detectable <= TELLING) & (size >= 0.01 * size.max(initial=0.0)))


@dataclass(frozen=True, eq=False, repr=False)
class Validation:
    """What ``validate`` found.

    Attributes
    ----------
    verdict
        ``"agrees"``, ``"disagrees"`` or ``"not enough data"``, the weakest of the observables' verdicts.
    observables
        A ``Comparison`` per observable.
    wasserstein
        Where both sides have a law: the variables compared, the sizes, and the 2-Wasserstein distance per size and time;
        for a fixed point also that of as many independent draws of the theory's law.
    laws
        For a fixed point: the theory's law, and the empirical one of the largest size, all draws together; a file keeps only
        ``law_picture``, what a drawing shows of them.
    result
        The theory's result.

    ``power`` holds the smallest deviation that each observable's comparison could have seen, ``warnings`` what it
    was blind to.
    """

    model: str
    kind: str
    verdict: str
    observables: dict[str, Comparison]
    params: dict[str, Any]
    d: int
    n: int
    seeds: int
    data: str
    result: Result
    t: Array | None
    wasserstein: dict[str, Any] | None
    notes: tuple[str, ...]
    spread: dict[str, Array]
    stats: dict[str, Any] = field(default_factory=dict)
    laws: tuple[Distribution, Distribution] | None = None
    law_picture: dict[str, Any] | None = None

    @property
    def power(self) -> dict[str, float]:
        """The smallest deviation that could have been seen at any time, as a fraction of each observable."""
        return {name: float(item.detectable[item.most_sensitive]) for name, item in self.observables.items()}

    @property
    def low_power(self) -> bool:
        """Whether a deviation of some observable by a tenth would have been missed at all times."""
        return self.verdict != DISAGREES and not all(seen <= TELLING for seen in self.power.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What agreement does not mean: the observables, and times, at which a deviation by a tenth would have been missed."""
        blind = {name: item.underpowered for name, item in self.observables.items() if item.underpowered.any()}
        if self.verdict == DISAGREES or not blind:
            return ()
        parts = []
        for name, missed in blind.items():
            needed = self.observables[name].detectable[missed]
            least = f" (it takes {percent(float(needed.max()))})" if np.isfinite(needed).all() else ""
            times = "" if self.t is None else " at t = " + ", ".join(f"{t:g}" for t in self.t[missed])
            parts.append(f"`{name}`{times}{least}")
        word = "low power" if self.low_power else "power"
        return (
            f"{word}: a deviation by a tenth would have been missed in {', '.join(parts)}; take more draws (seeds), a "
            "larger d, or a smaller rtol where the theory's own error is the larger",
        )

    def json_object(self) -> dict[str, Any]:
        """Return everything as plain numbers and texts."""
        every: Any = 0 if self.t is None else slice(None)
        observables = {
            key: {"verdict": item.verdict, **{name: jsonable(getattr(item, name)[every]) for name in _ARRAYS}}
            for key, item in self.observables.items()
        }
        plain = {name: getattr(self, name) for name in ("model", "kind", "verdict", "params", "d", "n", "seeds", "data")}
        plain |= {"observables": observables, "power": jsonable(self.power), "warnings": list(self.warnings)}
        plain |= {"notes": list(self.notes), "stats": self.stats} | ({} if self.t is None else {"t": self.t.tolist()})
        plain |= {} if self.wasserstein is None else {"wasserstein": self.wasserstein}
        return plain | {"provenance": self.result.provenance}

    def to_dataframe(self) -> Any:
        """Return both sides as a pandas table, one row per observable and time."""
        import pandas as pd

        tables = {
            name: pd.DataFrame({part: getattr(c, part) for part in _ARRAYS}, self.t) for name, c in self.observables.items()
        }
        table = pd.concat(tables, names=["observable", "t"])
        return table if self.t is not None else table.droplevel("t")

    @checked(path=read_path)
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a netCDF file, theory and finite sizes, which ``eqsolve.open`` reads back; or ``*.csv``, ``*.json``."""
        if write_table(self, path):
            return
        # what was compared lies over ``compared``, the times of the comparison, and ``draw``
        import xarray as xr

        data: dict[str, Any] = {}
        for name, item in self.observables.items():
            data |= {f"{_MARK}{name}_{part}": ("compared", getattr(item, part)) for part in _ARRAYS}
            if name in self.spread:
                data[f"{_MARK}{name}_draws"] = (("draw", "compared"), self.spread[name])
        coordinates = {} if self.t is None else {"compared": self.t}
        record = {name: getattr(self, name) for name in _FIELDS} | {"timed": self.t is not None}
        record["observables"] = {name: item.verdict for name, item in self.observables.items()}
        save(self.result, path, also=xr.Dataset(data, coords=coordinates), more={"validation": record})

    def plot(self, *names: str, ax: Any = None, logx: bool | None = None, logy: bool | None = None, **style: Any) -> Any:
        """Draw theory as lines with error bands, finite sizes as points, z-scores below; return the matplotlib figure.

        With ``ax`` the names share these axes, without z-scores, and the axes are returned. ``style`` is that of the lines.
        """
        for name in names:
            text(name, "plot")
        return lazy_import("plot_validation")(self, names, ax=ax, logx=logx, logy=logy, **style)

    def __repr__(self) -> str:
        worst = max((float(np.abs(item.z).max()) for item in self.observables.values()), default=0.0)
        words = f"{self.verdict}{' (low power)' if self.low_power else ''}, d={self.d}, {self.seeds} seeds"
        return f"<Validation of {self.model!r}: {words}, largest |z| = {worst:.2g}>"

    _repr_html_ = method("validation_html")


def compare(
    theory: Array, error: Array, runs: Array, half: Array | None, *, count: int, order: float = 1.0, usual: float = 0.0
) -> Comparison:
    """Return both sides of one observable, z-scores and verdict; ``runs`` is (draw, time), ``half`` that at half the size.

    ``count`` is the number of comparisons of the validation, ``order`` the power of 1/d that a bias goes with, ``usual`` the
    relative bias of other observables.
    """
    freedom, mean, square = len(runs) - 1, runs.mean(axis=0), runs.var(axis=0, ddof=1)
    bias = noise = np.zeros_like(mean)
    if half is not None:
        more, at_half, scale = len(half) - 1, half.var(axis=0, ddof=1), 2.0**order - 1
        square = (freedom * square + more * at_half / 2) / (freedom + more)
        freedom += more
        bias = (half.mean(axis=0) - mean) / scale
        noise = np.sqrt(square / len(runs) + at_half / len(half)) / scale
    spread = np.sqrt(square / len(runs))
    sure = np.sqrt(np.maximum(bias**2 - noise**2, 0.0))
    # A bias is known to leading order, and the next one need not vanish with it: usual for a curve
    # is the smaller of the largest one and the largest relative one.
    height = np.abs(theory)
    with np.errstate(divide="ignore", invalid="ignore"):
        common = np.fmin(sure.max(), np.nan_to_num(sure / height, nan=0.0, posinf=np.inf).max() * height)
    extra = np.hypot(bias, _NEXT * np.maximum(common, usual * height))
    whole = np.sqrt(spread**2 + error**2 + extra**2)
    certain = np.sqrt(spread**2 + error**2 + sure**2)
    difference, size = mean - theory, max(float(height.max()), 1e-300)
    floor = 1e-12 * size
    ratio = np.abs(difference) / np.maximum(whole, floor)
    z = -np.sign(difference) * special.ndtri(np.maximum(special.stdtr(freedom, -ratio), 1e-300))
    z = np.where(np.abs(difference) <= floor, 0.0, z)
    limit = max(_WITHIN, float(-special.ndtri(_ALARM / (2 * max(count, 1)))))
    # in standard errors, what a two-sided Student test finds with probability 1 − _MISSED
    seen = special.nctdtrinc(freedom, _MISSED, -special.stdtrit(freedom, special.ndtr(-limit)))
    with np.errstate(divide="ignore", invalid="ignore"):
        detectable = np.maximum(whole, floor) * seen / height
    largest = float(np.abs(z).max()) if np.isfinite(z).all() else np.inf
    if largest > limit:
        verdict = DISAGREES
    elif largest <= _WITHIN and float(certain.max()) <= TELLING * size:
        verdict = AGREES
    else:
        verdict = UNDECIDED
    return Comparison(theory, error, mean, spread, bias, noise, z, detectable, verdict)


# --- Validations as files: the theory's result, and what finite sizes gave.
_FIELDS = ("kind", "verdict", "d", "n", "seeds", "data", "wasserstein", "notes", "stats", "law_picture")
_MARK = "finite_size_"


def read_validation(
    dataset: xr.Dataset, record: Mapping[str, Any], read_result: Callable[[xr.Dataset, Any], Result]
) -> Validation:
    """Return the validation of a file's values and record; the laws themselves are not kept, their picture is."""
    about = record["validation"]
    values = {str(key): dataset[key].values for key in dataset.variables if str(key).startswith(_MARK)}
    times = dataset["compared"].values if about["timed"] else None
    result = read_result(dataset.drop_vars([*values, *(["compared"] if about["timed"] else [])]), record)
    observables = {
        name: Comparison(verdict=verdict, **{part: values[f"{_MARK}{name}_{part}"] for part in _ARRAYS})
        for name, verdict in about["observables"].items()
    }
    spread = {name: values[f"{_MARK}{name}_draws"] for name in observables if f"{_MARK}{name}_draws" in values}
    fields = {name: about[name] for name in _FIELDS} | {"notes": tuple(about["notes"])}
    return Validation(
        model=result.model, params=result.params, observables=observables, t=times, result=result, spread=spread, **fields
    )


# --- 2-Wasserstein distances between a theory's law of (w, constants) and that of finite-size runs, at times or at rest.

Parts = list[tuple[Array, Array]]
"""Values of the constants (none: the law of the variable alone), and its quantiles given these."""


def distances(theory: Result, large: Any, half: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the distance per size and time, averaged over the draws; ``names`` are the variable and the constants.

    With constants of few values the joint law is compared: quantiles of the variable given the constants. Otherwise it is
    the law of the variable alone.
    """
    laws = [theory.law(names[0], float(moment)) for moment in large.t]
    given = np.array([laws[0][name] for name in names[1:]]).reshape(len(names) - 1, -1)
    few = len(given) > 0 and np.unique(given, axis=1).shape[1] <= STRATA
    seen = [large.coordinates(name, float(large.t[0])) for name in names[1:] if few]
    if not (few and all(map(_few_values, given, seen))):
        names, given = names[:1], np.empty((0, len(laws[0].weights)))
    parts = [given_constants(law[names[0]], law.weights, given) for law in laws]
    sizes = [run for run in (half, large) if run is not None]
    table = [
        [_averaged(part, [run.coordinates(name, float(t)) for name in names]) for part, t in zip(parts, run.t, strict=True)]
        for run in sizes
    ]
    return _table(names, [run.d for run in sizes], table)


def _table(names: tuple[str, ...], sizes: list[int], table: list[list[float]], **more: Any) -> dict[str, Any]:
    falls = [float(a / b) if b > 0 else None for a, b in zip(table[0], table[-1], strict=True)]
    return {"variables": list(names), "d": sizes, "values": table, "falls_by": falls, **more}


def _few_values(known: Array, seen: Array) -> bool:
    """Whether a constant takes few values, the same on both sides; nodes of a density are few, too."""
    keys, values = np.unique(known), np.unique(seen)
    return len(values) <= len(keys) and bool(np.isclose(values[:, None], keys).any(axis=1).all())


def distances_at_rest(law: FixedPointLaw, runs: list[Distribution], seeds: int) -> dict[str, Any]:
    """Return the distance per size, averaged over the draws, and what as many independent draws of the law would have.

    ``runs`` hold the variable and the constants of all draws of a size, one draw after the other. As for times, the joint
    law is compared where the constants have few values, else that of the variable alone.
    """
    parts = [(values, part) for values, _, part in law.given_constants(len(midpoints()), STRATA) or ()]
    names = law.names if parts else law.names[:1]
    parts = parts or [(np.empty(0), law.quantile(midpoints()))]
    sizes = [run.weights.size // seeds for run in runs]
    random = [law.sample(run.weights.size, seed=d) for run, d in zip(runs, sizes, strict=True)]
    table, independent = (
        [[_averaged(parts, np.reshape(points[: len(names)], (len(names), seeds, -1)))] for points in samples]
        for samples in ([run.values for run in runs], random)
    )
    return _table(names, sizes, table, independent_draws=independent)


def _averaged(parts: Parts, seen: Any) -> float:
    """Return the mean distance over draws; ``seen`` is (variable and constants, draw, coordinate)."""
    return float(np.mean([distance(parts, draw[0], draw[1:]) for draw in np.swapaxes(seen, 0, 1)]))


def distance(parts: Parts, samples: Array, labels: Array) -> float:
    """Return W₂ of a law and a sample, matched within each value of its constants, ``labels``."""
    squares, counts = [], []
    for constants, quantiles in parts:
        sample = np.sort(samples[np.isclose(labels, constants[:, None]).all(axis=0)])
        if len(sample):
            squares.append(np.mean((quantiles - sample[(midpoints() * len(sample)).astype(int)]) ** 2))
            counts.append(len(sample))
    return float(np.sqrt(np.average(squares, weights=counts))) if counts else float("nan")


def given_constants(values: Array, weights: Array, constants: Array) -> Parts:
    """Return the parts of a weighted law, its quantiles interpolated in normal scores."""
    parts, scores = [], special.ndtri(midpoints())
    for key in np.unique(constants, axis=1).T if len(constants) else np.empty((1, 0)):
        own = (constants == key[:, None]).all(axis=0)
        order = np.argsort(values[own], kind="stable")
        mass = weights[own][order] / weights[own].sum()
        places = special.ndtri(np.clip(np.cumsum(mass) - mass / 2, 1e-300, 1 - 1e-16))
        parts.append((key, np.interp(scores, places, values[own][order])))
    return parts


# --- What a picture of two laws shows: the theory's density, a histogram, and the atoms.


def picture_laws(law: Distribution, seen: Distribution) -> dict[str, Any]:
    """Return density and histogram of the law's first variable, and (place, mass, share at finite size) of its atoms."""
    variable = law.names[0]
    atoms = [(value, mass) for value, mass in law.atoms(variable) if mass > 1e-3]
    values = seen[variable]
    on_atom = np.isclose(values[:, None], [value for value, _ in atoms], rtol=0, atol=1e-12).any(axis=1)
    low, high = (float(law.quantile(level, variable)) for level in (1e-3, 1 - 1e-3))
    low, high = min(low, *np.quantile(values, [1e-3])), max(high, *np.quantile(values, [1 - 1e-3]))
    edges = np.histogram_bin_edges(values[~on_atom], "auto", (low, high))
    counts = np.histogram(values[~on_atom], bins=edges)[0]
    where = np.linspace(low, high, 6 * DRAWN + 1)
    return {
        "variable": variable, "edges": edges.tolist(), "heights": (counts / (len(values) * np.diff(edges))).tolist(),
        "least": 0.3 / (len(values) * float(np.diff(edges)[0])), "where": where.tolist(),
        "density": np.asarray(law.density(where, variable), dtype=float).tolist(),
        "atoms": [(at, mass, float(np.isclose(values, at, rtol=0, atol=1e-12).mean())) for at, mass in atoms[:ROWS]],
    }  # fmt: skip


@checked(
    model=read_model, d=whole(2), seeds=whole(1), seed=whole(0), at=numbers, t_max=number, constants=one_of(*HOW), step=number,
    observables=names, device=read_device, workers=whole(1), progress=callback, params=table,
)  # fmt: skip
def validate(
    model: Model | str, *, d: int | None = None, seeds: int = 8, seed: int = 0,
    at: float | Iterable[float] | None = None, t_max: float | None = None, rtol: float = 1e-3,
    data: Any = "gaussian", constants: str | None = None, step: float | None = None,
    flow: Flow | str | None = None, region: tuple[float, float] | None = None,
    observables: Iterable[str] | None = None, device: str = "cpu", workers: int | None = None,
    progress: Any = None, params: Mapping[str, Any] | None = None, **parameters: Any,
) -> Validation:  # fmt: skip
    """Compare a model's solution with finite-size runs of its flow.

    Parameters
    ----------
    model
        A ``System`` or ``FixedPoint`` that names its flow, a ``Singularity`` whose law comes from one, or a ``Flow``, whose
        derived mean-field equations are then put to the test.
    d, seeds
        Size (2000 by default; 400 for rates) and number of draws; as many are run at half the size, twice as many in time.
    at, t_max
        Times to compare at; for a fixed point, ``t_max`` is the length of the runs.
    rtol
        Tolerance of the theory's solve.
    data, step, device, workers
        As in ``simulate``.
    constants
        ``"balanced"`` (for Gaussian features, by default), ``"exact"`` (for others) or ``"sampled"``, as in ``simulate``: the
        less the draws scatter, the smaller the deviations that are seen.
    flow
        The microscopic model, instead of the one that ``model`` names.
    region
        Where the transform of a ``Singularity`` is searched, as in ``solve``.
    observables
        Compare these only; all that both sides have by default.
    progress
        As in ``solve``: a function of (done, total, text), False for silence, a bar by default.
    params, **parameters
        Values of parameters and laws of random constants, by name.
    """
    started = time.perf_counter()
    assert isinstance(model, Model)
    settings = {**(params or {}), **parameters}
    if isinstance(model, Flow) or model.flow is not None:
        model, settings = written_out(model, settings)
    if isinstance(model, Cases):
        chosen = select_case(model, settings)
        model, settings = chosen.model, dict(chosen.settings)
    if seeds < 2:
        raise UsageError(f"seeds= takes at least 2 draws, so that there is a standard error; got {seeds}")
    if region is not None and not isinstance(model, Singularity):
        refuse_idle(model.name, model.kind, ["region"])
    wanted = None if observables is None else tuple(observables)
    declared = isinstance(model, FixedPoint) and model.minimises is not None and set(settings) <= settable(model)
    estimator = declared and flow is None and t_max is None and isinstance(data, str) and data == "gaussian"
    if constants is None:
        constants = "balanced" if isinstance(read_data(data).law, Normal) else "exact"
    below: Any = None if estimator else _flow_of(model, flow, settings)
    with watching(progress) as report:
        runs = {"seed": seed, "data": data, "constants": constants, "step": step, "device": device, "workers": workers}
        task = _Task(model, below, settings, d, seeds, rtol, runs, report, wanted, region)
        if isinstance(model, System | Flow):
            validation = task.dynamics(at, t_max)
        elif isinstance(model, FixedPoint):
            validation = task.estimator() if estimator else task.fixed_point(t_max)
        else:
            validation = task.rate()
    validation.stats["seconds"] = time.perf_counter() - started
    for warning in validation.warnings:
        logger.warning("%s: %s", model.name, warning)
    return validation


def _flow_of(model: Model, given: Flow | str | None, settings: Mapping[str, Any]) -> Flow:
    if given is None and isinstance(model, Flow):
        return model
    name: Any = given if given is not None else model.flow
    if name is None and isinstance(model, Singularity):
        known = settable(model)
        law = bind_singularity(model, {key: value for key, value in settings.items() if key in known}).law
        name = law.model.flow if law is not None else None
    if name is None:
        raise UsageError(
            f"model `{model.name}` names no microscopic model to compare it with; declare it with flow='its_flow', "
            "or give flow= (--flow); docs/microscopic.md says how a Flow is written, `eqsolve list` shows those there are"
        )
    flow = read_model(name, "flow")
    if not isinstance(flow, Flow):
        raise UsageError(f"model `{model.name}` names `{flow.name}` as its flow, which is a {flow.kind}; expected a Flow")
    return flow


@dataclass(frozen=True, eq=False)
class _Task:
    """One comparison: theory and simulations at the same settings and times, their differences over their errors."""

    model: Model
    flow: Flow
    settings: dict[str, Any]
    d: int | None
    seeds: int
    rtol: float
    runs: dict[str, Any]  # how flows are run: seed, data, constants, step, device, workers
    progress: Any
    wanted: tuple[str, ...] | None
    region: tuple[float, float] | None

    def _shared(self) -> dict[str, Any]:
        """Return the settings of the flow: those of the theory, so that defaults cannot differ."""
        if self.model is self.flow:
            return self.settings
        takes = settable(self.model)
        odd = [name for name in self.settings if name not in self.flow.names and name not in takes]
        if odd:
            check_routed(self.model, {odd[0]: self.settings[odd[0]]})  # raises with the nearest name
        binding = bind_routed(self.model, self._own())
        known: dict[str, Any] = {}
        for part in filter(None, (getattr(binding, "law", None), binding)):  # the model behind a rate, then the model itself
            known |= {item.name: value for item, value in (*part.values.items(), *part.laws.items())}
        named = {item.name for item in (*self.flow.randoms, *self.flow.parameters)}
        return {name: value for name, value in {**self.settings, **known}.items() if name in named}

    def _own(self) -> dict[str, Any]:
        takes = settable(self.model)
        return {key: value for key, value in self.settings.items() if key in takes}

    def _names(self, theory: Collection[Any]) -> list[str]:
        both = [name for name in self.flow.observables if name in theory]
        if self.wanted is not None:
            demand_known(self.wanted, both, "`{}` is not an observable of both sides", "both have")
            return list(self.wanted)
        if not both:
            raise UsageError(f"model `{self.model.name}` and flow `{self.flow.name}` have no observable of the same name")
        return both

    def _two_sizes(self, at: list[float], keep: bool, more: int = 1) -> tuple[Any, Any]:
        """Return runs at size d, and ``more`` times as many at half of it."""
        shared, fixed = self._shared(), read_data(self.runs["data"]).matrix is not None

        def run(d: int | None, seeds: int, *share: float) -> Any:
            inner = part_of(self.progress, *share)
            report = False if inner is None else lambda done, total, _: inner(done, total, f"finite size, d = {d}")
            return simulate(self.flow, d=d, seeds=seeds, at=at, keep=keep, progress=report, params=shared, **self.runs)

        large = run(self.d or (None if fixed else 2000), self.seeds, 0.2, 0.7)
        return large, None if fixed else run(max(2, large.d // 2), more * self.seeds, 0.7, 1.0)

    def dynamics(self, at: Any, t_max: float | None) -> Validation:
        if (step := self.runs["step"]) is not None and step <= 0:
            raise UsageError(f"step= takes a positive number, got {step:g}")
        last = 10.0 if t_max is None else float(t_max)
        times = sorted(at) if at is not None else [0.03 * last, 0.1 * last, 0.3 * last, last]
        times = times if step is None else sorted({round(item / step) * step for item in times})
        how = {"step": step, "seed": self.runs["seed"], "progress": part_of(self.progress, 0.0, 0.2) or False}
        theory = solve(self.model, at=times, rtol=self.rtol, params=self._own(), **how)
        variables = _lawful(theory, self.flow)
        large, half = self._two_sizes(times, bool(variables), more=2)
        sampled = theory.at(large.t)
        compared = {}
        names = self._names([*sampled.data_vars])
        notes = [*large.notes, *(() if theory.status == "ok" else (f"theory: {theory.message}",))]
        begin = _undefined_start(large, names, notes)
        for name in names:
            half_values = None if half is None else half.values[name][:, begin:]
            known = (sampled[name].values[begin:], sampled[f"{name}_error"].values[begin:])
            compared[name] = (*known, large.values[name][:, begin:], half_values)
        distance = distances(theory, large, half, variables) if variables else None
        return self._package(compared, (large.d, large.n, large.data), notes, theory, large.t[begin:], distance)

    def fixed_point(self, t_max: float | None) -> Validation:
        theory = solve(self.model, rtol=min(self.rtol, 1e-4), params=self._own())
        last = t_max or 200.0
        moving_names = (*self.flow.variables, *(item.name for item in self.flow.state))
        variable = next((name for name in moving_names if name in self.model.variables), None)
        large, half = self._two_sizes([last / 2, last], variable is not None)
        values = {name: float(theory[name]) for name in theory.names if theory[name].ndim == 0}
        compared, notes = {}, list(large.notes)
        for name in self._names(values):
            runs = large.values[name]
            moving = float(abs(runs[:, 1].mean() - runs[:, 0].mean()))
            if moving > 0.01 * abs(values[name]):
                span = f"between t = {last / 2:g} and {last:g}"
                notes.append(f"`{name}` still changes by {moving:.2g} {span}; take a larger t_max")
            small = None if half is None else half.values[name][:, 1]
            compared[name] = _number(theory, name, moving, runs[:, 1], small)
        validation = self._package(compared, (large.d, large.n, large.data), notes, theory)
        names = () if variable is None else theory.law(variable).names
        if not names or not large.snapshots.keys() >= {*names}:
            return validation
        sizes = [large] if half is None else [half, large]
        samples = [Distribution.of_sample(names, [run.coordinates(name, last).ravel() for name in names]) for run in sizes]
        return self._with_law(validation, theory, samples)

    def _with_law(self, made: Validation, theory: Result, runs: list[Distribution]) -> Validation:
        """Return a validation with the law of a variable on both sides; the largest size comes last."""
        law: Any = theory.law(runs[0].names[0])
        distance = distances_at_rest(law, runs, self.seeds)
        return replace(made, wasserstein=distance, laws=(law, runs[-1]), law_picture=picture_laws(law, runs[-1]))

    def estimator(self) -> Validation:
        """Compare a fixed point with the estimator it describes, which it declares by ``minimises=``."""
        theory = solve(self.model, params=self.settings)
        binding = bind(self.model, self.settings)
        d = self.d or 2000
        how: dict[str, Any] = {"seeds": self.seeds, "seed": self.runs["seed"], "exact": self.runs["constants"] != "sampled"}
        (large, law), (half, rough) = (finite_size(binding, d=size, **how) for size in (d, d // 2))
        names = self.wanted or tuple(large)
        demand_known(names, large, f"`{{}}` is no measure of the estimator of `{self.model.name}`")
        compared = {name: _number(theory, name, 0.0, large[name], half[name]) for name in names}
        spec = self.model.minimises  # type: ignore[attr-defined]
        sizes = (d, round(binding.number(spec.ratio) * d), str(self.runs["data"]))
        made = self._package(compared, sizes, [], theory)
        return self._with_law(made, theory, [rough, law]) if law.names[0] in self.model.variables else made

    def rate(self) -> Validation:
        theory = solve(self.model, region=self.region, params=self._own())
        name = (self.wanted or ("gamma",))[0]
        demand_known([name], theory.names, f"model `{self.model.name}` has no decay rate `{{}}` to compare")
        d = self.d or 400
        shared, seed, data = self._shared(), self.runs["seed"], self.runs["data"]
        rates = [decay_rates(self.flow, size, self.seeds, seed, shared, data) for size in (d, d // 2)]
        compared = {name: _number(theory, name, 0.0, *rates)}
        n = round(float(bind(self.flow, shared).values[self.flow.ratio]) * d)
        return self._package(compared, (d, n, str(data)), [], theory, order=2 / 3)

    def _package(
        self, compared: dict[str, Any], size: tuple[int, int, str], notes: list[str], theory: Result,
        times: Array | None = None, distance: dict[str, Any] | None = None, order: float = 1.0,
    ) -> Validation:  # fmt: skip
        count = sum(values[0].size for values in compared.values())
        comparisons = {name: compare(*values, count=count, order=order) for name, values in compared.items()}
        if times is None:  # no other times to say how large a bias is usual: other observables do
            usual = max((item.relative_bias for item in comparisons.values()), default=0.0)
            comparisons = {name: compare(*values, count=count, order=order, usual=usual) for name, values in compared.items()}
        verdicts = [item.verdict for item in comparisons.values()]
        verdict = next((word for word in (DISAGREES, UNDECIDED) if word in verdicts), AGREES)
        spread = {name: values[2] for name, values in compared.items()}
        d, n, data = size
        return Validation(
            self.model.name, theory.kind, verdict, comparisons, dict(theory.params), d, n, self.seeds, data, theory, times,
            distance, tuple(dict.fromkeys(notes)), spread,
        )  # fmt: skip


def _number(theory: Result, name: str, moving: float, runs: Array, half: Array | None) -> tuple[Any, ...]:
    """Return a number of the theory, its error, what still moves counted in, and the draws at both sizes."""
    error = np.hypot(float(theory.error[name]) if name in theory.error else 0.0, moving)
    return np.array([float(theory[name])]), np.array([error]), runs[:, None], None if half is None else half[:, None]


def _undefined_start(runs: Any, names: Iterable[str], notes: list[str]) -> int:
    """Return 1 where runs have no value at their start, as 0/0, which is then left out, and a note says so; else 0."""
    if runs.t[0] != 0:
        return 0
    for name in names:
        if np.isnan(runs.values[name][:, 0]).all() and not np.isnan(runs.values[name][:, 1:]).any():
            notes.append(f"t = 0 is left out: `{name}` has no value there in runs at finite size")
            return 1
    return 0


def _lawful(theory: Result, flow: Flow) -> tuple[str, ...]:
    """Return the variable, and the constants, whose joint law both sides have: those of the same paths.

    Samples have paths, weights and constants of their own, which are those of no coordinate.
    """
    data = theory.dataset
    moving = [name for name in (*flow.variables, *(item.name for item in flow.state)) if name in theory.names]
    for name in moving:
        if data[name].ndim == 2 and data[name].dims[1] == "t":
            paths = data[name].dims[:1]
            constants = [item.name for item in sides(flow)[0] if item.name in data.coords]
            return (name, *(key for key in constants if data[key].dims == paths))
    return ()
