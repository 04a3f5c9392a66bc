"""The commands that solve a model on a grid of parameters, and draw its phase diagram."""

from __future__ import annotations

import contextlib
import hashlib
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsolve._version import __version__
from eqsolve.cli.options import SWEEP_DRAWING, by_name, command, read_shared, several, switch, value
from eqsolve.cli.output import deliver, exit_code, lay_out, number_with_error, say, say_wrote, write
from eqsolve.errors import UsageError
from eqsolve.language.loading import find, load, loaded_files
from eqsolve.progress import Bar, clock

if TYPE_CHECKING:
    from eqsolve.results.result import PhaseDiagram, Result

_TOOK = "<took>"  # stands in a file for how long it took


def _told(options: Namespace) -> int | None:
    """Tell what a file holds that this very command wrote, without loading models; else return None."""
    from eqsolve.files.atomic import read_record

    data = Path(options.out or "")
    record = {} if options.plot or options.json else read_record(data)
    known = record.get("provenance", {}).get("command", {})
    if known.get("asked") != _asked(options) or data.with_name(data.name + ".journal").exists():
        return None
    if record.get("stats", {}).get("failed"):  # they are solved again
        return None
    files = known["files"]
    if str(find(options.model)) not in files or any(_digest(path) != digest for path, digest in files.items()):
        return None
    if not options.quiet:
        say(f"{data} holds this sweep already, nothing is solved; remove it to solve again")
        write(known["text"].replace(_TOOK, f"read from {data}", 1))
    return exit_code(record["status"], record["message"])


_GRID: dict[str, Any] = {
    "settings": "values that are the same everywhere", "out": "write the result, and go on after a crash",
    "own": {"--grid": several("NAME=VALUES", (
        "the axes: values such as delta=0.3,0.5,2, or ranges FIRST:LAST:COUNT[:log] such as alpha=0.01:10:40:log"
    ))},
}  # fmt: skip
_WORKERS = "processes on this machine; 1 by default"


@command(
    "solve a model on a grid of parameters",
    "sweep {model} --grid {parameter}=0.1:10:20:log --out sweep.nc --workers 2",
    "sweep {model} --grid {parameter}=0.1,0.3,1 --at 1,5 --out sweep.nc --plot sweep.png",
    "plot sweep.nc --logy  # draws it again",
    known=_told, plot="draw lines or a map",
    options={
        "at": "times to report; 25 up to --t-max by default",
        "t_max": "last time; 10 by default",
        "rtol": "relative tolerance at every point; 1e-3 by default",
        "atol": "absolute tolerance at every point",
        "seed": "", "device": "", "region": "", "solver": "", "observables": "",
        "derivatives": "also compute derivatives with respect to these axes, to interpolate between points",
        "step": "solve in discrete time with this step",
        "budget": "CPU time of each point, such as 30s or 5min; then its best so far is given",
        "workers": _WORKERS,
    },
    **_GRID | {"own": _GRID["own"] | SWEEP_DRAWING | {
        "--scheduler": value("ADDRESS", "a dask scheduler, such as tcp://host:8786"),
    }},
)  # fmt: skip
def run_sweep(options: Namespace) -> int:
    """Solve a model at every point of a grid. Points that fail are recorded and do not stop the others.
    A sweep that was interrupted or killed goes on when the same command is given again. Exit code 0: all
    points are solved; 1: some were not solved as asked, the file tells which and why; 2: bad input.
    """
    axes = read_grid(options.grid)
    if options.workers is not None and options.scheduler is not None:
        raise UsageError("--workers starts processes here, --scheduler uses those of a cluster; give one of them")
    data, picture, settings, asked = read_shared(options)
    from eqsolve.solvers.cluster import connect
    from eqsolve.sweeping.run import check_settings, read_axes, sweep

    model = load(options.model)
    if data is None and picture is None and not options.json:
        check_settings(model, read_axes(model, axes), settings)
        raise UsageError("name a file for the result: --out sweep.nc")
    bar = Bar(options.quiet, count="point")
    with _kept(data), bar, connect(options.scheduler) as client:
        asked["executor"] = client and client.get_executor(pure=False)
        result = sweep(model, axes, params=settings, progress=bar, out=data, **asked)
    if options.observables == "all":
        result.provenance.pop("derived", None)
    if was_read := "command" in result.provenance:
        took = f"read from {data}"
    else:
        took = f"in {clock(result.stats['seconds'])}"
        _keep(options, result, data)
    deliver(options, result, lambda: "" if options.quiet else _text(result, took), None, picture)
    say_wrote(options, None if was_read else data)
    return exit_code(result.status, result.message)


@contextlib.contextmanager
def _kept(data: Path | None) -> Iterator[None]:
    """Say where the points are that were finished before Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        if data is not None:
            say(f"finished points are kept in {data}.journal; the same command goes on from there")
        raise


def _asked(options: Namespace) -> dict[str, Any]:
    names = [name for name in ("model", "grid", "settings", *options.table) if name != "workers"]
    return {"version": __version__, **{name: getattr(options, name) for name in names}}


def _keep(options: Namespace, result: Result, data: Path | None) -> None:
    """Write into a finished file which command, and which files of models, it comes from."""
    if data is not None and data.suffix == ".nc":
        files = {path: _digest(path) for path in loaded_files()}
        text = _text(result, _TOOK)
        result.provenance["command"] = {"asked": _asked(options), "files": files, "text": text}
        result.save(data)


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


def read_grid(words: Iterable[str]) -> dict[str, str]:
    """Return the text of every axis by its name."""
    axes = by_name(words, "--grid", "NAME=VALUES such as alpha=0.01:10:40:log or delta=0.3,0.5,2")
    if not axes:
        raise UsageError("--grid names at least one axis, such as alpha=0.01:10:40:log")
    return axes


def _text(result: Result, took: str) -> str:
    from eqsolve.numerics.grids import ROWS

    stats, dims = result.stats, result.dataset["status"].dims
    head = f"{result.model}: {stats['points']} points {took}, {result.status}"
    flat = result.dataset.isel(t=-1) if "t" in result.dataset.dims else result.dataset
    flat = flat.stack(point=dims) if len(dims) > 1 else flat.rename({dims[0]: "point"})
    names = list(result.shown)
    rows = [(*map(str, dims), *names)]
    for index in range(shown := min(2 * ROWS, stats["points"])):
        one = flat.isel(point=index)
        place = one["point"].item()
        cells = place if isinstance(place, tuple) else (place,)
        values = [number_with_error(float(one[name]), float(one[name + "_error"])) for name in names]
        rows.append((*(f"{cell:.6g}" if isinstance(cell, float) else str(cell) for cell in cells), *values))
    times: Any = result.dataset["t"].values if "t" in result.dataset.dims else ()
    when = f" at t = {times[-1]:g}{f', the last of {len(times)} times' * (len(times) > 1)}" if len(times) else ""
    more = f"\n... and {stats['points'] - shown} more" if stats["points"] > shown else ""
    return f"{head}\n\nvalues{when}\n{lay_out(rows, right=True)}{more}"


@command(
    "classify the long-time behaviour over one or two parameters, with boundaries",
    "diagram path/to/my_model.py --grid gain=0.5:3:40 D=0:1:30 --plot phases.png",
    "diagram path/to/my_model.py --grid gain=0.5:3:40 --lyapunov --json",
    plot="draw the boundaries over a quantity in colours",
    options={
        "observable": "shown in colours: stability, lyapunov, or another number of the long run",
        "tolerance": "of boundaries, relative to the distance of neighbours; 1e-6 by default",
        "rtol": "relative tolerance of stationary states; 1e-6 by default, 0.03 of samples",
        "budget": "CPU time of each stationary state, such as 30s or 5min",
        "workers": _WORKERS,
    },
    **_GRID | {"own": _GRID["own"] | {
        "--lyapunov": switch("find a stationary state and its Lyapunov exponent at each point, to tell chaos"),
        "--x": value("NAME", "the parameter on the x axis of the plot"),
    }},
)  # fmt: skip
def run_diagram(options: Namespace) -> int:
    """Classify the long-time behaviour on a grid: still (a stable fixed point), not at rest (an unstable
    one), fluctuating, chaotic, aging, unbounded, or not decided, with the reason. Boundaries are
    roots of the stability or of the Lyapunov exponent. The same command goes on after a crash. Exit code 1: points failed.
    """
    axes = read_grid(options.grid)
    data, picture, settings, asked = read_shared(options)
    from eqsolve.sweeping.diagram import phase_diagram

    with _kept(data), Bar(options.quiet, count="point") as bar:
        asked |= {"out": data, "progress": bar, "lyapunov": options.lyapunov}
        found = phase_diagram(options.model, axes, params=settings, **asked)
    deliver(options, found, lambda: "" if options.quiet else _phases(found), None, picture)
    say_wrote(options, data)
    return exit_code(found.status, found.message)


def _phases(diagram: PhaseDiagram) -> str:
    points = list(zip(diagram.classes.values.ravel(), diagram["message"].values.ravel(), strict=True))
    rows, lines = [], []
    for name, count in Counter(name for name, _ in points).most_common():
        reasons = Counter(text for other, text in points if other == name and text).most_common()
        more = f" (and {len(reasons) - 1} further reasons)" if len(reasons) > 1 else ""
        rows.append((name, f"{count} points", reasons[0][0] + more if reasons else ""))
    drawn = diagram.boundaries
    for kind, part in drawn.groupby("kind") if drawn.sizes["boundary"] else ():
        places = [(dim, part[dim].values) for dim in diagram.classes.dims]
        ends = ", ".join(f"{dim} = {values.min():.7g} .. {values.max():.7g}" for dim, values in places)
        many = f"{part.sizes['boundary']} points"
        lines.append((str(kind), many, ends, f"± {part['error'].values.max():.1g}"))
    head = f"{diagram.model}: {diagram.stats['points']} points in {clock(diagram.stats['seconds'])}"
    boundaries = f"boundaries\n{lay_out(lines)}" if lines else "no boundary was found"
    return f"{head}\n\n{lay_out(rows)}\n\n{boundaries}"
