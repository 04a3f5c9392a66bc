"""The command that draws a saved result again, without solving."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from eqsolve.cli.options import FIGURES, add_scales, add_shared, add_sweep_drawing, check_destination, command, read_drawing
from eqsolve.cli.output import say_wrote, write_json


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE.nc", help="a file written by --out or save(): a solve, sweep, validation, simulation, fit"
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="what to draw, by default what the result is about; further files, to compare"
    )
    add_scales(parser)
    add_sweep_drawing(parser)
    parser.add_argument("--at", metavar="T", type=float, help="of a sweep: at this time; at the last by default")
    parser.add_argument("--out", metavar="F.png", help="the picture (*.png, *.svg or *.pdf); FILE.png here by default")
    add_shared(parser, model=False)


@command(
    _arguments,
    "draw a saved result again, without solving",
    "plot result.nc  # what `solve {model} --out result.nc` wrote, as result.png",
    "plot result.nc --logy --out curves.pdf",
    "plot sweep.nc E_test --no-logx",
    "plot one.nc other.nc E_test",
)
def run_plot(options: Namespace) -> int:
    """Draw what `solve`, `sweep`, `validate` or `fit` wrote by --out, or Python by save(): curves with error bands, maps,
    theory over finite sizes, data with their fit. Nothing is solved. Several files are drawn over each other,
    labelled by what differs between them.
    """
    files = [options.file, *(word for word in options.names if word.endswith(".nc"))]
    names = [word for word in options.names if word not in files]
    default = str(Path(options.file).with_suffix(".png").name)
    picture = check_destination(options.out or default, "--out", FIGURES)
    assert picture is not None
    from eqsolve.plotting.choose import plot_together
    from eqsolve.plotting.style import figure_of, save_figure
    from eqsolve.results.archive import open as open_result

    found = {file.removesuffix(".nc"): open_result(file) for file in files}
    first, ways = next(iter(found.values())), read_drawing(options)
    ways |= {} if options.at is None else {"at": options.at}
    drawn = plot_together(found, names, **ways) if len(found) > 1 else first.plot(*names, **ways)
    save_figure(figure_of(drawn), picture)
    if options.json:
        one = {"file": options.file, "model": first.model} if len(found) == 1 else {"files": files}
        write_json({**one, "names": names, "wrote": str(picture)})
    say_wrote(options, picture)
    return 0
