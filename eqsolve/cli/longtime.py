"""The command that derives and solves the limit of long times of a model."""

from argparse import ArgumentParser, Namespace

from eqsolve.cli.options import add_shared, destinations, read_options, read_settings
from eqsolve.cli.output import complain, say, write
from eqsolve.cli.solve import report
from eqsolve.cli.verb import Verb
from eqsolve.errors import UsageError
from eqsolve.progress import Bar

_OPTIONS = dict.fromkeys(("rtol", "atol", "observables", "derivatives"), "")
_OPTIONS["budget"] = "CPU time of the search for a solution, such as 5min; 60s by default"


def run_longtime(options: Namespace) -> int:
    """Derive the limit of long times of a system, or of the mean field of a flow, that comes to rest: a fixed point.
    Its observable `stability` is positive where the state is stable, and zero where that is lost. Exit code 1:
    the tolerance was not met.
    """
    data, picture = destinations(options)
    settings, given = read_settings(options.settings), read_options(options, _OPTIONS)
    from eqsolve.language.flow import Flow
    from eqsolve.language.loading import load
    from eqsolve.language.system import System

    model = load(options.model)
    if not isinstance(model, System | Flow):
        raise UsageError(f"model `{model.name}` is a {model.kind} and has no time; `eqsolve solve {model.name}` solves it")
    limit = model.long_time()
    values = {**{item.name: value for item, value in model.defaults.items()}, **settings}
    names = {item.name for condition in limit.conditions for item in condition.free_symbols}
    zeros = [name for name in names if str(values.get(name)) in ("0", "0.0")]
    if zeros or options.integrated:
        limit = model.subs(dict.fromkeys(zeros, 0)).long_time(integrated=options.integrated)
    for name in [name for name in settings if name in model.settable and name not in limit.settable]:
        del settings[name]
        if name not in zeros:
            say(f"the limit does not depend on {name}")
    if options.show:
        write(limit.show().text())
        return 0
    from eqsolve.solving import solve

    with Bar(options.quiet) as progress:
        result = solve(limit, params=settings, progress=progress, **{"budget": "60s", **given})
    report(options, limit, result, {}, data, picture)
    if "stability" in result.names and float(result.variables["stability"].values) < 0:
        say("the stability is negative: the system does not come to rest in this state")
    elif "stability" in result.names and not options.quiet and not options.json:
        say("stability: positive where small disturbances of this state die out; at zero it is lost")
    if result.status != "ok":
        complain(result.message or result.status)
    return int(result.status != "ok")


def _arguments(parser: ArgumentParser) -> None:
    add_shared(parser, _OPTIONS, settings="values of parameters", out="write the result", plot="draw the numbers")
    bias = "of many states at rest, the one told by a declared integral of the force"
    parser.add_argument("--integrated", action="store_true", help=bias)
    parser.add_argument("--show", action="store_true", help="show the equations that were derived, and solve nothing")


LONGTIME = Verb(
    "derive the fixed point that a system comes to rest in, and solve it",
    _arguments,
    run_longtime,
    "longtime path/to/my_model.py",
    ("longtime path/to/my_model.py --show  # the equations",),
)
