"""The command that fits parameters to data."""

import re
from argparse import ArgumentParser, Namespace
from typing import Any

from eqsolve.cli.options import add_several, add_shared, by_name, destinations, read_number, read_options, read_settings
from eqsolve.cli.output import deliver
from eqsolve.cli.verb import Verb
from eqsolve.errors import UsageError, quote
from eqsolve.progress import Bar


def run_fit(options: Namespace) -> int:
    """Least squares with exact derivatives. Exit code 0: fitted; 1: the budget was spent before; 2: bad input, or
    parameters that the data do not tell apart.
    """
    kept, picture = destinations(options, (".nc",))
    if not options.data:
        raise UsageError("name the data: --data runs.csv, with columns t and the observables")
    if options.free is None:
        raise UsageError("name the parameters to fit: --free alpha,sigma2")
    asked = read_options(options, tuple(_OPTIONS))
    settings = read_settings(options.settings)
    from eqsolve.fitting.fit import fit
    from eqsolve.language.loading import load

    free, own = ([name.strip() for name in (text or "").split(",") if name.strip()] for text in (options.free, options.own))
    files, each = zip(*(_file(word) for word in options.data), strict=True)
    with Bar(options.quiet, count="solve") as bar:
        found = fit(
            load(options.model), files[0] if len(files) == 1 else files, free=free, own=own, each=each, params=settings,
            bounds=_pairs(options.bounds, "--bounds", _BOUNDS, ":"),
            priors=_pairs(options.prior, "--prior", _PRIOR, ","), progress=bar, **asked,
        )  # fmt: skip
    deliver(options, found, found.report, kept, picture)
    return int(found.status != "ok")


def _file(word: str) -> tuple[str, dict[str, str]]:
    """Return a file of data and the values that hold for it alone, of FILE[,NAME=VALUE,...]."""
    name, *settings = re.split(r",\s*(?=[A-Za-z_]\w*=)", word)
    return name, read_settings(settings)


_BOUNDS = "NAME=LOWEST:HIGHEST such as alpha=0.1:1, where either end may be empty"
_PRIOR = "NAME=VALUE,ERROR such as sigma2=0.1,0.02"


def _pairs(words: list[str], option: str, takes: str, mark: str) -> dict[str, Any]:
    """Return two numbers by name; of bounds an empty one is none."""
    made = {}
    for name, text in by_name(words, option, takes).items():
        ends = text.split(mark)
        if len(ends) != 2:
            raise UsageError(f"{option} takes {takes}, got {quote(f'{name}={text}')}")
        made[name] = tuple(read_number(end, option) if end.strip() or mark == "," else None for end in ends)
    return made


_OPTIONS = {
    "at": "use these times of the data only",
    "rtol": "relative tolerance of the solves; 1e-3 by default",
    "observables": "fit these only; all that the data have by default",
    "budget": "CPU time of the fit, such as 30s or 5min; then the best so far is given",
}


def _arguments(parser: ArgumentParser) -> None:
    add_shared(
        parser, _OPTIONS, settings="values that stay, and where the free ones begin", plot="draw data, fit and residuals"
    )
    parser.add_argument(
        "--data", nargs="+", default=[], metavar="F.csv[,P=VALUE]",
        help="columns t, the observables, NAME_error, and seed for several draws; several files are fitted together, each "
        "with its own values after a comma, such as a.csv,delta=0.5 b.csv,delta=2",
    )  # fmt: skip
    parser.add_argument("--free", metavar="P,Q,...", help="the parameters to be found")
    parser.add_argument("--own", metavar="P,...", help="those of them that every file has for itself; the others are shared")
    add_several(parser, "--bounds", "P=LOW:HIGH", "ranges, such as alpha=0.1:1 or lam=0:")
    about = "what is known of a free parameter beforehand, such as sigma2=0.1,0.02"
    add_several(parser, "--prior", "P=VALUE,ERROR", about)
    parser.add_argument("--out", metavar="F.nc", help="keep the fit; `eqsolve plot F.nc` draws it again")


FIT = Verb(
    "fit parameters of a model to data",
    _arguments,
    run_fit,
    "fit {model} --data runs.csv --free {parameter}",
    (
        "fit {model} --data runs.csv --free {parameter} --out fit.nc --plot fit.png",
        "fit {model} --data runs.csv --free {parameter} --bounds {parameter}=0.1:1",
    ),
)
