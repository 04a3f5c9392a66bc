"""`Comparison` and `Validation`: theory beside finite-size draws, z-scores, power and verdicts.

Of every observable there are theory ± its error, and a mean over independent draws ± its standard error s. Draws at half
the size estimate the bias of finite size, b = (value(d/2) − value(d))/(2^a − 1) for a bias of order d^{−a}. It counts as a
systematic error B, together with half of what exceeds its noise at other times. Both sets give s. The difference in units of
√(s² + error² + B²) follows Student's law for so many draws; z is the standard normal value of the same probability.
"agrees": all |z| ≤ 3 with errors small enough to tell; "disagrees": some |z| beyond what so many comparisons reach once in a
hundred validations; "not enough data" in between, or when the errors are too large. The power stands beside the verdict: the
smallest deviation that would have been called "disagrees" nine times in ten, as a fraction of the observable.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.arguments import checked, text
from eqsolve.arguments import path as read_path
from eqsolve.numerics.arrays import Array
from eqsolve.results.archive import save
from eqsolve.results.distribution import Distribution
from eqsolve.results.result import Result
from eqsolve.results.words import jsonable, percent
from eqsolve.verbs import later

if TYPE_CHECKING:
    import xarray as xr

_ARRAYS = ("theory", "theory_error", "simulation", "standard_error", "bias", "bias_error", "z", "detectable")
AGREES, DISAGREES, UNDECIDED = "agrees", "disagrees", "not enough data"
_WITHIN = 3.0
_ALARM = 0.01
_TELLING = 0.1
_MISSED = 0.1
_NEXT = 0.5


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
            found = np.sqrt(np.maximum(self.bias**2 - self.bias_error**2, 0.0)) / np.abs(self.theory)
        return float(np.max(found, where=np.isfinite(found), initial=0.0))

    @property
    def keenest(self) -> int:
        """The place in time at which the smallest deviation could have been seen."""
        return int(np.argmin(np.nan_to_num(self.detectable, nan=np.inf)))

    @property
    def dullest(self) -> int:
        """The place in time at which a deviation had to be the largest to be seen."""
        return int(np.argmax(np.nan_to_num(self.detectable, nan=-np.inf)))

    @property
    def blind(self) -> Array:
        """Where the comparison would have missed a deviation by a tenth of the observable.

        Values below a hundredth of the largest are left out: a fraction of almost nothing is no measure.
        """
        size = np.abs(self.theory)
        return np.asarray(~(self.detectable <= _TELLING) & (size >= 0.01 * size.max(initial=0.0)))


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
    t: Array | None = None
    wasserstein: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    stats: dict[str, Any] = field(default_factory=dict)
    result: Result | None = None
    spread: dict[str, Array] = field(default_factory=dict)
    laws: tuple[Distribution, Distribution] | None = None
    law_picture: dict[str, Any] | None = None

    @property
    def power(self) -> dict[str, float]:
        """The smallest deviation that could have been seen at any time, as a fraction of each observable."""
        return {name: float(item.detectable[item.keenest]) for name, item in self.observables.items()}

    @property
    def low_power(self) -> bool:
        """Whether a deviation of some observable by a tenth would have been missed at all times."""
        return self.verdict != DISAGREES and not all(seen <= _TELLING for seen in self.power.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What agreement does not mean: the observables, and times, at which a deviation by a tenth would have been missed."""
        blind = {name: item.blind for name, item in self.observables.items() if item.blind.any()}
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
        made: dict[str, Any] = {"model": self.model, "kind": self.kind, "verdict": self.verdict, "params": self.params}
        made |= {"d": self.d, "n": self.n, "seeds": self.seeds, "data": self.data}
        every: Any = 0 if self.t is None else slice(None)
        if self.t is not None:
            made["t"] = self.t.tolist()
        made["observables"] = {
            key: {"verdict": item.verdict, **{name: jsonable(getattr(item, name)[every]) for name in _ARRAYS}}
            for key, item in self.observables.items()
        }
        made["power"] = jsonable(self.power)
        if self.wasserstein is not None:
            made["wasserstein"] = self.wasserstein
        made |= {"warnings": list(self.warnings), "notes": list(self.notes), "stats": self.stats}
        if self.result is not None:
            made["provenance"] = self.result.provenance
        return made

    def to_dataframe(self) -> Any:
        """Return both sides as a pandas table, one row per observable and time."""
        import pandas as pd

        rows = []
        for name, item in self.observables.items():
            for place in range(len(item.z)):
                when = {} if self.t is None else {"t": float(self.t[place])}
                rows.append({"observable": name, **when, **{part: float(getattr(item, part)[place]) for part in _ARRAYS}})
        return pd.DataFrame(rows).set_index(["observable"] if self.t is None else ["observable", "t"])

    @checked(path=read_path)
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a netCDF file, theory and finite sizes, which ``eqsolve.open`` reads back; or ``*.csv``, ``*.json``."""
        if not later("write_table")(self, path):
            save_validation(self, path)

    def plot(self, *names: str, ax: Any = None, logx: bool | None = None, logy: bool | None = None, **style: Any) -> Any:
        """Draw theory as lines with error bands, finite sizes as points, z-scores below; return the matplotlib figure.

        With ``ax`` the names share these axes, without z-scores, and the axes are returned. ``style`` is that of the lines.
        """
        for name in names:
            text(name, "plot")
        return later("plot_validation")(self, names, ax=ax, logx=logx, logy=logy, **style)

    def __repr__(self) -> str:
        worst = max((float(np.abs(item.z).max()) for item in self.observables.values()), default=0.0)
        words = f"{self.verdict}{' (low power)' if self.low_power else ''}, d={self.d}, {self.seeds} seeds"
        return f"<Validation of {self.model!r}: {words}, largest |z| = {worst:.2g}>"

    def _repr_html_(self) -> str:
        from eqsolve.results.html import validation_html

        return validation_html(self)


def compare(
    theory: Array, error: Array, runs: Array, half: Array | None, *, count: int, order: float = 1.0, usual: float = 0.0
) -> Comparison:
    """Return both sides of one observable, z-scores and verdict; ``runs`` is (draw, time), ``half`` that at half the size.

    ``count`` is the number of comparisons of the validation, ``order`` the power of 1/d that a bias goes with, ``usual`` the
    relative bias of other observables.
    """
    from scipy.special import ndtr, ndtri, stdtr

    draws, freedom = len(runs), len(runs) - 1
    mean, square = runs.mean(axis=0), runs.var(axis=0, ddof=1)
    if half is not None:
        more = len(half) - 1
        square = (freedom * square + more * half.var(axis=0, ddof=1) / 2) / (freedom + more)
        freedom += more
    spread = np.sqrt(square / draws)
    if half is None:
        bias = noise = np.zeros_like(mean)
    else:
        scale = 2.0**order - 1
        bias = (half.mean(axis=0) - mean) / scale
        noise = np.hypot(spread, half.std(axis=0, ddof=1) / len(half) ** 0.5) / scale
    sure = np.sqrt(np.maximum(bias**2 - noise**2, 0.0))
    extra = np.hypot(bias, _NEXT * np.maximum(_usual(sure, np.abs(theory)), usual * np.abs(theory)))
    whole = np.sqrt(spread**2 + error**2 + extra**2)
    certain = np.sqrt(spread**2 + error**2 + sure**2)
    difference = mean - theory
    floor = 1e-12 * max(float(np.abs(theory).max()), 1e-300)
    ratio = np.abs(difference) / np.maximum(whole, floor)
    z = -np.sign(difference) * ndtri(np.maximum(stdtr(freedom, -ratio), 1e-300))
    z = np.where(np.abs(difference) <= floor, 0.0, z)
    limit = max(_WITHIN, float(-ndtri(_ALARM / (2 * max(count, 1)))))
    with np.errstate(divide="ignore", invalid="ignore"):
        detectable = np.maximum(whole, floor) * _seen(freedom, float(ndtr(-limit))) / np.abs(theory)
    size = float(np.abs(theory).max())
    largest = float(np.abs(z).max()) if np.isfinite(z).all() else np.inf
    if largest > limit:
        verdict = DISAGREES
    elif largest <= _WITHIN and float(certain.max()) <= _TELLING * max(size, 1e-300):
        verdict = AGREES
    else:
        verdict = UNDECIDED
    return Comparison(theory, error, mean, spread, bias, noise, z, detectable, verdict)


def _usual(bias: Array, size: Array) -> Array:
    """Return the bias that is usual for a curve: the smaller of the largest one and the largest relative one.

    A bias is known to its leading order only, and nothing says that the next one passes through zero with it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.nan_to_num(bias / size, nan=0.0, posinf=np.inf).max() * size
    return np.asarray(np.fmin(bias.max(), relative))


def _seen(freedom: int, tail: float) -> float:
    """Return the deviation, in standard errors, that a two-sided test by Student's law finds with probability 1 − _MISSED."""
    from scipy.special import nctdtrinc, stdtrit

    return float(nctdtrinc(freedom, _MISSED, -stdtrit(freedom, tail)))


# --- Validations as files: the theory's result, and beside it what finite sizes gave.
_FIELDS = ("kind", "verdict", "d", "n", "seeds", "data", "wasserstein", "notes", "stats", "law_picture")
_MARK = "finite_size_"


def save_validation(found: Validation, path: str | os.PathLike[str]) -> None:
    """Write a netCDF file; what was compared lies over ``compared``, the times of the comparison, and ``draw``."""
    import xarray as xr

    assert found.result is not None
    data: dict[str, Any] = {}
    for name, item in found.observables.items():
        data |= {f"{_MARK}{name}_{part}": ("compared", getattr(item, part)) for part in _ARRAYS}
        if name in found.spread:
            data[f"{_MARK}{name}_draws"] = (("draw", "compared"), found.spread[name])
    coordinates = {} if found.t is None else {"compared": found.t}
    record = {
        "observables": {name: item.verdict for name, item in found.observables.items()},
        "timed": found.t is not None,
        **{name: getattr(found, name) for name in _FIELDS},
    }
    save(found.result, path, beside=xr.Dataset(data, coords=coordinates), more={"validation": record})


def read_validation(
    dataset: xr.Dataset, record: Mapping[str, Any], read_result: Callable[[xr.Dataset, Any], Result]
) -> Validation:
    """Return the validation of a file's values and record; the laws themselves are not kept, their picture is."""
    about = record["validation"]
    beside = [str(key) for key in dataset.variables if str(key).startswith(_MARK)]
    values = {key: dataset[key].values for key in beside}
    times = dataset["compared"].values if about["timed"] else None
    alone = dataset.drop_vars([*beside, *(["compared"] if about["timed"] else [])])
    result = read_result(alone, record)
    observables = {
        name: Comparison(verdict=verdict, **{part: values[f"{_MARK}{name}_{part}"] for part in _ARRAYS})
        for name, verdict in about["observables"].items()
    }
    spread = {name: values[f"{_MARK}{name}_draws"] for name in observables if f"{_MARK}{name}_draws" in values}
    fields = {name: about[name] for name in _FIELDS}
    fields["notes"] = tuple(fields["notes"])
    return Validation(
        model=result.model, params=result.params, observables=observables, t=times, result=result, spread=spread, **fields
    )
