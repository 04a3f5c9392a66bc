"""The command that draws a saved result again, without solving."""

from argparse import Namespace
from pathlib import Path

from eqsolve.cli.options import FIGURES, SCALES, SWEEP_DRAWING, check_destination, command, read_drawing, value
from eqsolve.cli.output import say_wrote, write_json


@command(
    "draw a saved result again, without solving",
    "plot result.nc  # what `solve {model} --out result.nc` wrote, as result.png",
    "plot result.nc --logy --out curves.pdf",
    "plot sweep.nc E_test --no-logx",
    "plot one.nc other.nc E_test",
    model=False,
    own={
        "file": value("FILE.nc", "a file written by --out or save(): a solve, sweep, validation, simulation, fit"),
        "names": value("NAME", "what to draw, by default what the result is about; further files, to compare", nargs="*"),
        **SCALES,
        **SWEEP_DRAWING,
        "--at": value("T", "of a sweep: at this time; at the last by default", type=float),
        "--out": value("F.png", "the picture (*.png, *.svg or *.pdf); FILE.png here by default"),
    },
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

    results = {file.removesuffix(".nc"): open_result(file) for file in files}
    first, ways = next(iter(results.values())), read_drawing(options)
    ways |= {} if options.at is None else {"at": options.at}
    axes = plot_together(results, names, **ways) if len(results) > 1 else first.plot(*names, **ways)
    save_figure(figure_of(axes), picture)
    if options.json:
        one = {"file": options.file, "model": first.model} if len(results) == 1 else {"files": files}
        write_json({**one, "names": names, "wrote": str(picture)})
    say_wrote(options, picture)
    return 0
