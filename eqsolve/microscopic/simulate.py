"""`simulate`: run a flow at finite d, several independent draws at once, and report its observables."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sympy import Rational

from eqsolve.arguments import callback, checked, flag, number, numbers, offers, one_of, table, text, whole
from eqsolve.arguments import path as read_path
from eqsolve.compile.lowering import lower
from eqsolve.errors import SolverError, UsageError, demand_known, logger
from eqsolve.language.binding import bind, read_value
from eqsolve.language.laws import Law, Normal
from eqsolve.language.loading import read_model
from eqsolve.language.printing import latex_names
from eqsolve.language.system import Flow
from eqsolve.microscopic.data import Features, GaussianMatrix, Placement, read_data
from eqsolve.microscopic.lowered import FlowSample, LoweredFlow, descend, flow_through, follow_noisy, refuse_continuous
from eqsolve.numerics.arrays import EPSILON, Array
from eqsolve.numerics.backend import CPU, Backend, choose_backend, demand_memory, memory, read_device
from eqsolve.numerics.constants import HOW, draw_constants, draw_law
from eqsolve.progress import watching
from eqsolve.results.provenance import meanings_of
from eqsolve.verbs import lazy_import, method

if TYPE_CHECKING:
    import xarray as xr

# --- `Simulation`: what finite-size runs of a flow gave, labelled like every other result.

_KEPT = "coordinates_"
_FIELDS = ("model", "n", "d", "params", "data", "step", "seed", "notes", "stats", "latex")


@dataclass(frozen=True, eq=False, repr=False)
class Simulation:
    """Finite-size runs of a flow.

    Attributes
    ----------
    t
        The times reported.
    values
        Each observable on (draw, time).
    snapshots
        With ``keep=True``: states, variables and constants by name, on (draw, time, coordinate).
    n, d, params, data, step, seed
        What was run.
    notes
        What the user should know, such as a step beyond the stability limit.
    stats
        Seconds, evaluations of the drift, bytes held.
    latex
        How names are written in pictures and notebooks.

    Examples
    --------
    >>> import eqsolve
    >>> runs = eqsolve.load("dln_flow").simulate(d=40, delta=0.5, seeds=3, at=[1, 3], alpha=0.3)
    >>> runs["E_test"].dims
    ('draw', 't')
    >>> bool(runs.error["E_test"].sel(t=1) < runs.mean["E_test"].sel(t=1))
    True
    """

    model: str
    t: Array
    values: dict[str, Array]
    n: int
    d: int
    params: dict[str, Any]
    data: str
    step: float | None
    seed: int
    snapshots: dict[str, Array] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    stats: dict[str, Any] = field(default_factory=dict)
    latex: dict[str, str] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        """How many independent draws there are."""
        return len(next(iter(self.values.values()), np.empty(0)))

    @property
    def names(self) -> tuple[str, ...]:
        """Every observable there is."""
        return tuple(self.values)

    @property
    def dataset(self) -> xr.Dataset:
        """All observables over draws and times."""
        import xarray as xr

        data = {name: (("draw", "t"), values) for name, values in self.values.items()}
        return xr.Dataset(data, coords={"draw": np.arange(self.seeds), "t": self.t})

    def __getitem__(self, name: str) -> xr.DataArray:
        demand_known([name], self.values, "the simulation has no `{}`", error=KeyError)
        return self.dataset[name]

    def __contains__(self, name: object) -> bool:
        return name in self.values

    @property
    def mean(self) -> Mapping[str, xr.DataArray]:
        """Each observable over time, averaged over the draws."""
        return {name: self[name].mean("draw") for name in self.values}

    @property
    def error(self) -> Mapping[str, xr.DataArray]:
        """The standard error of each mean; infinite for a single draw."""
        if self.seeds < 2:
            return {name: self[name].isel(draw=0, drop=True) * 0 + np.inf for name in self.values}
        return {name: self[name].std("draw", ddof=1) / self.seeds**0.5 for name in self.values}

    def coordinates(self, name: str, time: float) -> Array:
        """Return the values of a state, variable or constant on (draw, coordinate) at a reported time."""
        if not self.snapshots:
            raise UsageError("the run kept no coordinates; simulate with keep=True")
        place = int(np.argmin(np.abs(self.t - time)))
        if abs(self.t[place] - time) > 1e-9 * max(1.0, abs(time)):
            raise UsageError(f"the run has no time {time:g}; it reports {', '.join(f'{t:g}' for t in self.t)}")
        demand_known([name], self.snapshots, "the run has no `{}`")
        return np.asarray(self.snapshots[name][:, place])

    def to_dataframe(self) -> Any:
        """Return the observables as a pandas table, one row per draw and time."""
        return self.dataset.to_dataframe()

    def json_object(self) -> dict[str, Any]:
        """Return the runs as plain numbers and texts: of every observable its values over (draw, t)."""
        values = {name: np.asarray(item).tolist() for name, item in self.values.items()}
        return {**{name: getattr(self, name) for name in _FIELDS}, "t": self.t.tolist(), "values": values}

    def plot(
        self, *names: str, ax: Any = None, logx: bool | None = None, logy: bool | None = None,
        label: str | None = None, **style: Any,
    ) -> Any:  # fmt: skip
        """Draw means over the draws as points with bars of one standard error; on the axes of a solve, over its curves.

        Parameters are those of ``Result.plot``; without names, every observable is drawn.
        """
        for name in names:
            text(name, "plot")
        return lazy_import("plot_simulation")(self, names, ax=ax, logx=logx, logy=logy, label=label, **style)

    @checked(path=read_path)
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a netCDF file, which ``eqsolve.open`` reads back; or ``*.csv``, ``*.parquet`` or ``*.json``."""
        if lazy_import("write_table")(self, path):
            return
        snapshots = {_KEPT + name: (("draw", "t", "coordinate"), values) for name, values in self.snapshots.items()}
        dataset = self.dataset.assign(snapshots)
        lazy_import("write_dataset")(dataset, {"kind": "simulation", **{name: getattr(self, name) for name in _FIELDS}}, path)

    @property
    def _how(self) -> str:
        how = "gradient flow" if self.step is None else f"step {self.step:g}"
        return f"n={self.n}, d={self.d}, {self.seeds} draw{'s' if self.seeds > 1 else ''}, {how}, {self.data}"

    def __repr__(self) -> str:
        return f"<Simulation of {self.model!r}: {self._how}: {', '.join(self.values)}>"

    _repr_html_ = method("simulation_html")


def read_simulation(dataset: xr.Dataset, record: Mapping[str, Any]) -> Simulation:
    """Return the simulation of a file's values and record."""
    values = {str(key): array.values for key, array in dataset.data_vars.items()}
    snapshots = {name.removeprefix(_KEPT): values.pop(name) for name in list(values) if name.startswith(_KEPT)}
    fields = {name: record[name] for name in _FIELDS}
    fields["notes"] = tuple(fields["notes"])
    return Simulation(t=dataset["t"].values, values=values, snapshots=snapshots, **fields)


# The linearised finite-size flow: products with its Jacobian, its largest eigenvalue, its slowest
# relevant one.


def linearise(sample: FlowSample, time: float, flat: Array) -> Any:
    """Return the Jacobian of a flow at one state: products with changes of the flat state, by central differences."""
    from scipy.sparse.linalg import LinearOperator

    # where truncation of central differences, step², and rounding, epsilon/step, are alike
    reach = EPSILON ** (1 / 3) * max(1.0, float(np.abs(flat).max()))

    def apply(change: Array) -> Array:
        size = float(np.abs(change).max())
        step = reach * change.ravel() / max(size, 1e-300)
        gap = sample.drift(time, flat + step) - sample.drift(time, flat - step)
        return np.asarray(gap * (size / (2 * reach)))

    return LinearOperator((flat.size, flat.size), matvec=apply, dtype=float)


def fastest(sample: FlowSample, time: float, flat: Array) -> float:
    """Return the largest modulus of an eigenvalue of the Jacobian, to about 1%."""
    from scipy.sparse.linalg import eigs

    jacobian, start = linearise(sample, time, flat), np.random.default_rng(0).standard_normal(flat.size)
    if flat.size < 20:
        return float(np.abs(np.linalg.eigvals(jacobian @ np.eye(flat.size))).max())
    found = eigs(jacobian, k=1, v0=start, ncv=min(24, flat.size), tol=5e-3, return_eigenvectors=False)
    return float(np.abs(found).max())


def slowest(sample: FlowSample, time: float, flat: Array, floor: float = 1e-7) -> float:
    """Return the smallest decay rate of the linearised flow among the directions that move at all.

    Directions along which nothing moves (conserved quantities, weights that the samples do not see) have an
    eigenvalue of 0; what is below ``floor`` times the largest counts as 0. A negative rate says that the state is
    no stable rest point.
    """
    demand_memory(64.0 * flat.size**2, f"the rates of a flow in {flat.size} directions; take a smaller d")
    values = np.linalg.eigvals(linearise(sample, time, flat) @ np.eye(flat.size))
    size = np.abs(values)
    return float(np.min(-values[size > floor * size.max()].real))


@checked(
    flow=read_model, d=whole(2), t_max=number, at=numbers, seed=whole(0), seeds=whole(1), constants=one_of(*HOW), step=number,
    rtol=number, keep=flag, device=read_device,
    workers=whole(1), executor=offers("map", "a concurrent.futures executor"), progress=callback,
    params=table,
)  # fmt: skip
def simulate(
    flow: Flow, *, d: int | None = None, t_max: float | None = None,
    at: float | Iterable[float] | None = None, seed: int | None = None, seeds: int = 1,
    data: Any = "gaussian", constants: str = "sampled", step: float | None = None, rtol: float = 1e-6,
    keep: bool = False, device: str = "cpu", workers: int | None = None,
    executor: Executor | None = None, progress: Any = None,
    params: Mapping[str, Any] | None = None, **parameters: Any,
) -> Simulation:  # fmt: skip
    """Run a flow at finite size; ``Flow.simulate`` says what the parameters are."""
    from eqsolve.passes.check.check import check, refuse_words
    from eqsolve.passes.rewrite.indices import written_out
    from eqsolve.passes.rewrite.substitution import change_states

    started = time.perf_counter()
    check(flow)
    flow, parameters = written_out(flow, {**(params or {}), **parameters})  # type: ignore[assignment]
    if not isinstance(flow, Flow):
        raise UsageError(f"simulate takes a Flow, and model `{flow.name}` is a {flow.kind}")
    refuse_words("simulate", flow, parameters, flow.names)
    latex, meanings = latex_names((flow,)), meanings_of(flow)
    if step is None:  # descent is no flow: a change of variables would change it
        refuse_continuous(flow)
        flow = change_states(flow)
    features = read_data(data)
    n, d, settings = _sizes(flow, features, d, parameters)
    binding = bind(flow, settings)
    if n is None:
        ideal = float(binding.values[flow.ratio]) * d
        n = round(ideal)
        if n < 1:
            raise UsageError(f"n = {flow.ratio} d = {ideal:g} leaves no sample; take a larger d")
    if seed is None:  # one that belongs to these values
        described = json.dumps(sorted((name, str(value)) for name, value in binding.settings().items()))
        seed = int.from_bytes(hashlib.sha256(described.encode()).digest()[:4], "big")
    if not 1e-13 <= rtol < 1:
        raise UsageError(f"rtol= takes a number from 1e-13 to 1, got {rtol:g}")
    if constants == "balanced" and not isinstance(features.law, Normal):
        raise UsageError(f"constants='balanced' needs Gaussian features, got data {features.label!r}; take 'exact'")
    times = _times(t_max, at, step)
    cores = workers or os.cpu_count() or 1
    at_once, each = min(seeds, cores), 3 if constants == "balanced" else 1
    work = 300 * 4.0 * n * d * seeds  # some 300 drifts in one run
    backend, size, remarks = choose_backend(device, work), 8.0 * n * d * each, list[str]()
    if backend is not CPU and (room := int(0.9 * backend.memory() / (size + 1))):
        at_once = min(at_once, room)
    elif backend is not CPU:
        remarks = [f"the features take {size / 1e9:.3g} GB, more than is free on {backend.label}: these runs are on the CPU"]
        backend = CPU
    matrices = 1 if features.matrix is not None else at_once * each if backend is CPU else 0
    held = _memory(n, d, len(flow.state), at_once, matrices, len(times) * seeds if keep else 0)
    lowered = LoweredFlow(binding)
    with watching(progress) as report:
        done, lock = np.zeros(seeds), threading.Lock()

        def tell(index: int, moment: float) -> None:
            with lock:  # draws report from threads
                done[index] = min(moment, times[-1])
                if report is not None:
                    report(float(done.mean()), times[-1], f"{seeds} draws")

        ensemble = FlowEnsemble(lowered, features, n, d, seed, constants, backend, max(1, cores // at_once))
        run = _Runner(ensemble, times, step, rtol, keep, tell)
        if executor is not None:
            outcomes = list(executor.map(run, range(seeds)))
        elif at_once == 1:
            outcomes = [run(index) for index in range(seeds)]
        else:
            with ThreadPoolExecutor(at_once) as pool:
                outcomes = list(pool.map(run, range(seeds)))
    notes = (*remarks, *_notes(outcomes, step))
    for note in notes:
        logger.warning("%s: %s", flow.name, note)
    first = outcomes[0].snapshots[0] if keep else {}
    snapshots = {name: np.array([[moment[name] for moment in outcome.snapshots] for outcome in outcomes]) for name in first}
    table = np.array([outcome.values for outcome in outcomes]).reshape(seeds, len(times), -1)
    stats = {
        "seconds": time.perf_counter() - started,
        "evaluations": sum(o.evaluations for o in outcomes),
        "bytes": held,
        "workers": at_once,
        "device": backend.label,
        "meanings": meanings,
    }
    return Simulation(
        flow.name, times, {name: table[:, :, place] for place, name in enumerate(flow.observables)}, n, d,
        binding.settings(), features.label, step, seed, snapshots, notes, stats, latex,
    )  # fmt: skip


def _sizes(flow: Flow, features: Features, d: int | None, settings: dict[str, Any]) -> tuple[int | None, int, dict[str, Any]]:
    """Return n (None if it follows from the ratio), d, and the settings, the ratio of a given matrix among them."""
    if features.matrix is None:
        if d is None:
            raise UsageError("d= takes a whole number of coordinates of at least 2, got None")
        return None, d, settings
    rows, columns = features.matrix.shape
    if d is not None and d != columns:
        raise UsageError(f"data: the matrix has {columns} columns, but d = {d}; leave d out, or give a matrix that fits")
    name = flow.ratio.name
    if name in settings:
        asked = float(read_value(settings[name], what=f"parameter `{name}`"))
        if abs(asked - rows / columns) > 0.5 / columns:
            raise UsageError(
                f"data: the matrix is {rows} × {columns}, so {name} = {rows / columns:.6g}, but {name} = {asked:g} is set; "
                "leave it out"
            )
    return rows, columns, {**settings, name: Rational(rows, columns)}


def _times(t_max: float | None, at: Any, step: float | None) -> Array:
    if step is not None and step <= 0:
        raise UsageError(f"step= takes a positive number, got {step}")
    if at is None:
        if t_max is None:
            raise UsageError("say how far to run: t_max=, or at= with the times to report")
        grid = np.linspace(0.0, t_max, 25) if t_max <= 1 else np.r_[0.0, np.geomspace(0.02, t_max, 24)]
    else:
        grid = np.array(sorted(at))
    if t_max is not None and t_max <= 0:
        raise UsageError(f"t_max= takes a positive time, got {t_max}")
    if not len(grid) or grid[0] < 0:
        raise UsageError(f"at= takes times of at least 0, got {at}")
    if t_max is not None and grid[-1] > t_max * (1 + 1e-12):
        raise UsageError(f"at= asks for the time {grid[-1]:g}, but t_max is {t_max:g}")
    return np.unique(np.rint(grid / step) * step) if step is not None else grid


def _memory(n: int, d: int, states: int, at_once: int, matrices: int, kept: int) -> int:
    """Return the bytes a run holds; say them, and refuse what the machine cannot hold."""
    needed = 8 * (n * d * matrices + at_once * 20 * states * max(n, d) + kept * 4 * states * d)
    logger.info("n = %d, d = %d, %d at once: about %.3g GB", n, d, at_once, needed / 1e9)
    if needed > 0.9 * (free := memory()):
        raise UsageError(
            f"{at_once} runs with n = {n}, d = {d} take {needed / 1e9:.3g} GB, the machine has {free / 1e9:.3g} GB; "
            "take a smaller d, or fewer workers"
        )
    return needed


@dataclass(frozen=True)
class _Outcome:
    """What one draw gave; ``speed`` is the largest eigenvalue at the start, ``diverged`` when it was not finite."""

    values: list[list[float]]
    snapshots: tuple[dict[str, Array], ...]
    evaluations: int
    speed: float
    diverged: float


def _notes(outcomes: list[_Outcome], step: float | None) -> tuple[str, ...]:
    """Say when a step is too long, and when a run diverged."""
    if step is None:
        return ()
    notes = []
    speed = max(outcome.speed for outcome in outcomes)
    if step * speed > 2:
        notes.append(
            f"the step {step:g} lies beyond the stability limit {2 / speed:.4g}: the Jacobian's largest eigenvalue at the "
            f"start is {speed:.4g}, and {step:g} × {speed:.4g} > 2; the iteration will not follow the flow, take a "
            "smaller step"
        )
    times = [outcome.diverged for outcome in outcomes if np.isfinite(outcome.diverged)]
    if times:
        notes.append(
            f"gradient descent with the step {step:g} diverged in {len(times)} of {len(outcomes)} draws, "
            f"first before t = {min(times):g}; take a smaller step"
        )
    return tuple(notes)


@dataclass(frozen=True, eq=False)
class FlowEnsemble:
    """Independent draws of a flow; balanced ones have an n and features of their own.

    Draw i is the same however many there are: what is random comes from streams of its own.
    """

    lowered: LoweredFlow
    features: Features
    n: int
    d: int
    seed: int
    constants: str = "sampled"
    backend: Backend = CPU
    threads: int = 1

    def draw(self, index: int) -> FlowSample:
        """Return draw number ``index``: its features, constants and start."""
        for_matrix, *streams = self._streams(index)
        values, start = self._constants(self.n, streams)
        features = self.features.draw(for_matrix, self.n, self.d, self.backend, self.threads)
        return FlowSample(self.lowered, features, values, start, self.backend, (self.seed, index, 1))

    def draw_balanced(self, index: int, visits: Array, run: Callable[[FlowSample, Array], Iterator[Array]]) -> FlowSample:
        """Return draw number ``index``, of constants, start and Gaussian features that are balanced.

        n is δ d on average. ``visits`` are times at which directions are taken, besides the start;
        ``run`` returns the states at given times.
        """
        for_matrix, *streams = self._streams(index)
        n = max(1, int(np.floor(self.lowered.ratio * self.d + 1e-9 + for_matrix.random() * (1 - 2e-9))))
        on_coordinates, on_samples = Placement(self.d, for_matrix), Placement(n, for_matrix)
        values, start = self._constants(n, streams, on_coordinates.order, on_samples.order)

        def sample_with(features: Any) -> FlowSample:
            return FlowSample(self.lowered, features, values, start, self.backend, (self.seed, index, 1))

        matrix = GaussianMatrix(on_samples, on_coordinates, self.backend)
        if matrix.most > 0:
            sample = sample_with(self.backend.arrays.zeros((n, self.d)))
            on_coordinates.placed += [*map(self.backend.get, sample.coordinate_constants), *start]
            on_samples.placed += map(self.backend.get, sample.sample_constants)
            matrix.visit(sample, 0.0, start)
            sample = sample_with(matrix.known())  # the fields of weights at rest are kept in it
            try:
                for moment, flat in zip(visits, run(sample, visits) if len(visits) else (), strict=True):
                    matrix.visit(sample, float(moment), flat.reshape(-1, self.d))
                    sample.features[:] = matrix.known()
            except SolverError:
                pass  # with features known in part the flow cannot be followed: the rest stays random
        return sample_with(matrix.complete(for_matrix, self.threads))

    def _streams(self, index: int) -> list[np.random.Generator]:
        """Return the random numbers of one draw: for features, coordinates, samples and start."""
        seeds = np.random.SeedSequence(self.seed, spawn_key=(index,)).spawn(4)
        return [np.random.default_rng(seed) for seed in seeds]

    def _constants(
        self, n: int, streams: list[np.random.Generator], on_coordinates: Any = None, on_samples: Any = None
    ) -> tuple[dict[Any, Array], Array]:
        """Return the constants and the start of one draw, in given orders if balanced."""
        for_coordinates, for_samples, for_start = streams
        flow, binding, how = self.lowered.flow, self.lowered.binding, self.constants
        values: dict[Any, Array] = {}
        for items, size, rng, order in (
            (self.lowered.coordinate_randoms, self.d, for_coordinates, on_coordinates),
            (self.lowered.sample_randoms, n, for_samples, on_samples),
        ):
            laws = {item.name: binding.laws[item].numeric() for item in items}
            values |= zip(items, draw_constants(laws, size, rng, how, order).values(), strict=True)
        start = np.empty((len(flow.state), self.d))
        for row, (item, given) in zip(start, flow.state.items(), strict=True):
            if isinstance(given, Law):
                row[:] = draw_law(binding.apply(given).numeric(), self.d, for_start, how, on_coordinates)
            else:
                row[:] = lower([binding.apply(given)], list(values))(*values.values())[0]
                if not np.isfinite(row).all():
                    raise SolverError(f"the start of `{item.name}` is not finite for these parameters")
        return values, start


@dataclass(frozen=True, eq=False)
class _Runner:
    """Runs one draw of an ensemble and observes it at the times to report."""

    ensemble: FlowEnsemble
    times: Array
    step: float | None
    rtol: float
    keep: bool
    tell: Callable[[int, float], None] | None  # how far a draw is

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "tell": None}  # another process reports nothing

    def __call__(self, index: int) -> _Outcome:
        balanced = self.ensemble.constants == "balanced"
        sample = self._balanced(index) if balanced else self.ensemble.draw(index)
        speed = 0.0 if self.step is None else fastest(sample, 0.0, sample.start.ravel())
        report = functools.partial(self.tell, index) if self.tell else lambda _: None
        states = self._follow(sample, self.times, self.rtol, report)
        diverged, values, snapshots = np.inf, [], []
        for moment, flat in zip(self.times, states, strict=True):
            if not np.isfinite(flat).all() or np.abs(flat).max() > 1e100:
                diverged = min(diverged, float(moment))
                flat = np.full_like(flat, np.nan)
            with np.errstate(all="ignore"):
                values.append(sample.observe(moment, flat))
            if self.keep:
                snapshots.append(sample.snapshot(moment, flat))
        return _Outcome(values, tuple(snapshots), sample.evaluations, speed, diverged)

    def _follow(self, sample: FlowSample, times: Array, rtol: float, report: Callable[[float], None]) -> Iterator[Array]:
        if self.step is not None:
            return descend(sample, np.rint(times / self.step).astype(int), self.step, report)
        if sample.noises is not None:
            return follow_noisy(sample, times, fastest(sample, 0.0, sample.start.ravel()), report)
        return flow_through(sample, times, rtol, report)

    def _balanced(self, index: int) -> FlowSample:
        last = float(self.times[-1])
        first = min(float(self.times[self.times > 0].min(initial=np.inf)), last / 10)
        visits = np.geomspace(first, last, 6) if last > 0 else np.empty(0)
        if self.step is not None:
            visits = np.unique(np.rint(visits / self.step)) * self.step
        # directions need no more accuracy
        run = functools.partial(self._follow, rtol=1e-3, report=lambda _: None)
        return self.ensemble.draw_balanced(index, visits, run)


# --- Where a finite-size flow comes to rest, and how fast: long runs, and the linearised flow at
# their end.
_MOST = 4000.0  # longest run, in units of the flow's time
_REST = 1e-6  # a flow that moves slower is at rest; what an explicit integrator leaves is below it


def decay_rates(flow: Flow, d: int, seeds: int, seed: int, settings: Mapping[str, Any], data: Any = "gaussian") -> Array:
    """Return, per draw, the smallest decay rate of the flow linearised where it has come to rest."""
    lowered = LoweredFlow(bind(flow, dict(settings)))
    ensemble = FlowEnsemble(lowered, read_data(data), round(lowered.ratio * d), d, seed, "exact")
    rates = []
    for index in range(seeds):
        sample = ensemble.draw(index)
        flat, horizon = sample.start.ravel(), 50.0
        while True:
            sample.start = flat.reshape(len(lowered.flow.state), d)
            (flat,) = flow_through(sample, np.array([horizon]), 1e-10, lambda _: None)
            speed = float(np.abs(sample.drift(0.0, flat)).max())
            if speed < _REST * max(1.0, float(np.abs(flat).max())):
                break
            horizon *= 2
            if horizon > _MOST:
                raise UsageError(
                    f"flow `{flow.name}` does not come to rest by t = {_MOST:g} at d = {d} (it still moves at {speed:.2g}); "
                    "its rate cannot be read from the linearised flow for these parameters"
                )
        rates.append(slowest(sample, 0.0, flat, floor=10 * _REST))
    return np.array(rates)
