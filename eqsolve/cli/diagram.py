"""The command that draws the phase diagram of a model."""

from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import Any

from eqsolve.cli.options import (
    add_several,
    add_shared,
    destinations,
    read_number,
    read_options,
    read_settings,
)
from eqsolve.cli.output import complain, deliver, lay_out, say_wrote
from eqsolve.cli.sweep import read_grid
from eqsolve.cli.verb import Verb
from eqsolve.progress import Bar, clock

_OPTIONS = {
    "rtol": "relative tolerance of stationary states; 1e-6 by default, 0.03 of samples",
    "budget": "CPU time of each stationary state, such as 30s or 5min",
    "workers": "processes on this machine; 1 by default",
}


def run_diagram(options: Namespace) -> int:
    """Classify every point of a grid and find the boundaries; exit code 1: some points failed."""
    axes, settings = read_grid(options.grid), read_settings(options.settings)
    asked = {
        **read_options(options, _OPTIONS),
        "observable": options.observable,
        "lyapunov": options.lyapunov,
    }
    if options.tolerance is not None:
        asked["tolerance"] = read_number(options.tolerance, "--tolerance")
    data, picture = destinations(options)
    from eqsolve.language.loading import load
    from eqsolve.sweeping.diagram import phase_diagram

    model = load(options.model)
    with Bar(options.quiet, count="point") as bar:
        found = phase_diagram(model, axes, params=settings, out=data, progress=bar, **asked)
    deliver(options, found, lambda: "" if options.quiet else _text(found), None, picture)
    say_wrote(options, data)
    if found.status != "ok":
        complain(f"{found.status}; {found.message}")
    return int(found.status != "ok")


def _text(found: Any) -> str:
    """Return the classes with their points and reasons, and the boundaries."""
    told = list(zip(found.classes.values.ravel(), found["message"].values.ravel(), strict=True))
    rows = []
    for name, count in Counter(name for name, _ in told).most_common():
        reasons = Counter(text for other, text in told if other == name and text).most_common()
        more = f" (and {len(reasons) - 1} further reasons)" if len(reasons) > 1 else ""
        rows.append((name, f"{count} points", reasons[0][0] + more if reasons else ""))
    points, lines = found.boundaries, []
    for kind, count in Counter(points["kind"].values).most_common():
        part = points.isel(boundary=points["kind"].values == kind)
        places = [(dim, part[dim].values) for dim in found.classes.dims]
        ends = ", ".join(f"{dim} = {it.min():.7g} .. {it.max():.7g}" for dim, it in places)
        lines.append((kind, f"{count} points", ends, f"± {part['error'].values.max():.1g}"))
    head = f"{found.model}: {found.stats['points']} points in {clock(found.stats['seconds'])}"
    boundaries = f"boundaries\n{lay_out(lines)}" if lines else "no boundary was found"
    return f"{head}\n\n{lay_out(rows)}\n\n{boundaries}"


def _arguments(parser: ArgumentParser) -> None:
    kept, drawn = (
        "write the diagram, and go on after a crash",
        "draw the boundaries over a quantity in colours",
    )
    add_shared(parser, _OPTIONS, settings="values everywhere", out=kept, plot=drawn)
    about = "one axis or two: FIRST:LAST:COUNT[:log] such as gain=0.5:3:40, or D=0,0.1,0.5"
    add_several(parser, "--grid", "NAME=VALUES", about)
    colour = "what is shown in colours: stability, lyapunov, or another number of the long run"
    chaos = "find a stationary state and its Lyapunov exponent at each point, to tell chaos"
    near = "how near boundaries are found, relative to the distance of neighbours; 1e-6 by default"
    parser.add_argument("--observable", metavar="NAME", help=colour)
    parser.add_argument("--lyapunov", action="store_true", help=chaos)
    parser.add_argument("--tolerance", metavar="R", help=near)
    parser.add_argument("--x", metavar="NAME", help="of the picture: the axis that runs across")


DIAGRAM = Verb(
    summary="say what the long run is over two parameters, with its boundaries",
    description=(
        "Classify the long run over a grid: still, not at rest, fluctuating, chaotic,\n"
        "unbounded, or not decided, with the reason. Boundaries are roots of the stability or of\n"
        "the Lyapunov exponent. The same command goes on after a crash. Exit code 1: points failed."
    ),
    example="diagram path/to/my_model.py --grid gain=0.5:3:40 D=0:1:30 --plot phases.png",
    add_arguments=_arguments,
    run=run_diagram,
    more=("diagram path/to/my_model.py --grid gain=0.5:3:40 --lyapunov --json",),
)
