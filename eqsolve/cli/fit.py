"""The command that fits parameters to data."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from eqsolve.cli.options import (
    FIGURES,
    add_json,
    add_model,
    add_options,
    add_plot,
    add_set,
    check_destination,
    read_options,
    read_settings,
)  # fmt: skip
from eqsolve.cli.output import say, write, write_json
from eqsolve.cli.verb import Verb
from eqsolve.errors import UsageError


def run_fit(options: Namespace) -> int:
    """Fit parameters to data; exit code 2 says that they cannot be told."""
    kept = check_destination(options.out, "--out", (".nc",))
    picture = check_destination(options.plot, "--plot", FIGURES)
    if options.data is None:
        raise UsageError("name the data: --data runs.csv, with columns t and the observables")
    if options.free is None:
        raise UsageError("name the parameters to fit: --free alpha,sigma2")
    asked = read_options(options, ("at", "rtol", "observables"))
    settings = read_settings(options.settings)
    from eqsolve.fitting.fit import fit
    from eqsolve.language.loading import load

    free = [name.strip() for name in options.free.split(",")]
    found = fit(load(options.model), options.data, free=free, params=settings, **asked)
    if kept is not None:
        found.save(kept)
    if picture is not None:
        from eqsolve.plotting.files import figure_of, save_figure

        save_figure(figure_of(found.plot()), picture)
    if options.json:
        write_json(found.json_object())
    else:
        write(found.report())
        for path in (kept, picture):
            if path is not None and not options.quiet:
                say(f"wrote {path}")
    return 0


_OPTIONS = {
    "at": "use these times of the data only",
    "rtol": "relative tolerance of the solves; 1e-3 by default",
    "observables": "fit these only; all that the data have by default",
}


def _arguments(parser: ArgumentParser) -> None:
    add_model(parser)
    parser.add_argument("--data", metavar="F.csv", help="columns t, the observables, NAME_error, and seed for several draws")
    parser.add_argument("--free", metavar="P,Q,...", help="the parameters to be found")
    add_set(parser, "values that stay, and where the free ones begin")
    add_options(parser, _OPTIONS)
    parser.add_argument("--out", metavar="F.nc", help="keep the fit; `eqsolve plot F.nc` draws it again")
    add_plot(parser, "draw data, fit and residuals")
    add_json(parser)


FIT = Verb(
    summary="fit parameters of a model to data",
    description=(
        "Least squares with exact derivatives. Exit code 0: fitted; 2: bad input, or parameters that the data do not\n"
        "tell apart."
    ),
    example="fit {model} --data runs.csv --free {parameter}",
    add_arguments=_arguments,
    run=run_fit,
    more=("fit {model} --data runs.csv --free {parameter} --out fit.nc --plot fit.png",),
)
