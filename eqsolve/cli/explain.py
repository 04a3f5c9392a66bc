"""The command that says what the engine makes of a model, and draws its dependency graph."""

from argparse import ArgumentParser, Namespace

from eqsolve.cli.options import FIGURES, add_shared, check_destination, read_options
from eqsolve.cli.output import say, say_wrote, write, write_json
from eqsolve.cli.verb import Verb
from eqsolve.errors import ModelError


def run_explain(options: Namespace) -> int:
    """Say how a model would be solved, without solving it: its equations with the lines they stand in, which unknown
    needs which, in what order they are computed at each time, how the equations are rewritten for the solver (changes
    of variable, equations of derivatives), the parameters and what they mean, and which solver is taken, with the
    reasons against the others. Of a flow: the same for the mean-field equations that follow from it.
    """
    picture = check_destination(options.graph, "--graph", FIGURES)
    from eqsolve.explaining import explain
    from eqsolve.language.loading import load
    from eqsolve.passes.check.check import check

    model = load(options.model)
    explanation = explain(model, **read_options(options, _OPTIONS))
    if picture is not None:
        from eqsolve.plotting.graph import draw_dependencies
        from eqsolve.plotting.style import save_figure

        save_figure(draw_dependencies(model), picture)
    if options.json:
        graph = {} if picture is None else {"graph": str(picture)}
        write_json({**explanation.to_dict(), **graph})
    else:
        write(explanation.text())
    say_wrote(options, picture)
    try:
        check(model)
    except ModelError:
        say(f"warning: the model has problems; `eqsolve check {options.model}` lists them")
    return 0


_OPTIONS = {"step": "say what `solve --step H` does", "solver": "say what `solve --solver NAME` does"}


def _arguments(parser: ArgumentParser) -> None:
    add_shared(parser, _OPTIONS)
    parser.add_argument("--graph", metavar="FILE", help="draw the dependency graph (*.png, *.svg or *.pdf)")


EXPLAIN = Verb(
    "say what the engine makes of a model, and draw its graph",
    _arguments,
    run_explain,
    "explain {model} --graph graph.png",
    ("explain {model} --solver two_time  # what another solver would do, or why it cannot",),
)
