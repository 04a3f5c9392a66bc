"""The command that draws the phase diagram of a model."""

from __future__ import annotations

import collections
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from eqsolve.cli.options import add_several, add_shared, destinations, read_number, read_options, read_settings
from eqsolve.cli.output import complain, deliver, lay_out, say, say_wrote
from eqsolve.cli.sweep import read_grid
from eqsolve.cli.verb import Verb
from eqsolve.progress import Bar, clock

if TYPE_CHECKING:
    from eqsolve.results.diagram import PhaseDiagram

_OPTIONS = {
    "rtol": "relative tolerance of stationary states; 1e-6 by default, 0.03 where paths are sampled",
    "budget": "CPU time of each stationary state, such as 30s or 5min",
    "workers": "processes on this machine; 1 by default",
}


def run_diagram(options: Namespace) -> int:
    """Classify every point of a grid and find the boundaries; exit code 1 says that some points failed."""
    axes, asked, settings = read_grid(options.grid), read_options(options, _OPTIONS), read_settings(options.settings)
    if options.tolerance is not None:
        asked["tolerance"] = read_number(options.tolerance, "--tolerance")
    data, picture = destinations(options)
    from eqsolve.language.loading import load
    from eqsolve.sweeping.diagram import phase_diagram

    model = load(options.model)
    bar = Bar(options.quiet, count="point")
    try:
        found = phase_diagram(
            model,
            axes,
            observable=options.observable,
            lyapunov=options.lyapunov,
            params=settings,
            out=data,
            progress=bar,
            **asked,
        )
    except KeyboardInterrupt:
        bar.clear()
        if data is not None:
            say(f"the finished points are kept in {data}.journal; the same command goes on from there")
        raise
    finally:
        bar.close()
    deliver(options, found, lambda: "" if options.quiet else _text(found), None, picture)
    say_wrote(options, data)
    if found.status != "ok":
        complain(f"{found.status}; {found.message}")
        return 1
    return 0


def _text(found: PhaseDiagram) -> str:
    """Return the classes with their points, the reason of what is not decided, and the boundaries."""
    took = clock(found.stats["seconds"])
    classes, messages = found.classes.values.ravel(), found["message"].values.ravel()
    counts = collections.Counter(classes)
    rows = []
    for name, count in counts.most_common():
        reasons = dict.fromkeys(text for text, kind in zip(messages, classes, strict=True) if kind == name and text)
        more = f" (and {len(reasons) - 1} other reasons)" if len(reasons) > 1 else ""
        rows.append((name, f"{count} points", next(iter(reasons), "") + more))
    blocks = [f"{found.model}: {found.stats['points']} points in {took}", lay_out(rows)]
    points = found.boundaries
    dims = [str(dim) for dim in found.classes.dims]
    lines = []
    for kind, count in collections.Counter(points["kind"].values).most_common():
        part = points.isel(boundary=points["kind"].values == kind)
        ranges = [f"{dim} = {part[dim].values.min():.7g} .. {part[dim].values.max():.7g}" for dim in dims]
        lines.append((kind, f"{count} points", ", ".join(ranges), f"± {part['error'].values.max():.1g}"))
    blocks.append(f"boundaries\n{lay_out(lines)}" if lines else "no boundary was found")
    return "\n\n".join(blocks)


def _arguments(parser: ArgumentParser) -> None:
    kept = "write the diagram, and go on after a crash"
    drawn = "draw the boundaries over one quantity in colours"
    add_shared(parser, _OPTIONS, settings="values that are the same everywhere", out=kept, plot=drawn)
    about = "one axis or two: ranges FIRST:LAST:COUNT[:log] such as gain=0.5:3:40, or values such as D=0,0.1,0.5"
    add_several(parser, "--grid", "NAME=VALUES", about)
    colours = "what is shown in colours: stability, lyapunov, or another number of the long run"
    parser.add_argument("--observable", metavar="NAME", help=colours)
    chaos = "find a stationary state and its Lyapunov exponent at each point, to tell chaos"
    parser.add_argument("--lyapunov", action="store_true", help=chaos)
    near = "how near boundaries are found, relative to the distance of neighbours; 1e-6 by default"
    parser.add_argument("--tolerance", metavar="R", help=near)
    parser.add_argument("--x", metavar="NAME", help="of the picture: the axis that runs across")


DIAGRAM = Verb(
    summary="say what the long run is over two parameters, with its boundaries",
    description=(
        "Classify the long run at every point of a grid: still, not at rest, fluctuating, chaotic, unbounded, or not\n"
        "decided, with the reason. Boundaries are roots of the stability or the Lyapunov exponent between neighbours.\n"
        "A diagram that was interrupted goes on when the same command is given again. Exit code 1: points failed."
    ),
    example="diagram path/to/my_model.py --grid gain=0.5:3:40 D=0:1:30 --out phases.nc --plot phases.png",
    add_arguments=_arguments,
    run=run_diagram,
    more=("diagram path/to/my_model.py --grid gain=0.5:3:40 --lyapunov --json",),
)
