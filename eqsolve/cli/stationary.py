"""The command that finds the stationary state of a model."""

import functools
from argparse import ArgumentParser, Namespace
from typing import Any

from eqsolve.cli.options import add_shared, destinations, read_options, read_settings
from eqsolve.cli.output import complain, deliver, lay_out, list_settings, number_with_error
from eqsolve.cli.solve import tables
from eqsolve.cli.verb import Verb
from eqsolve.errors import UsageError
from eqsolve.progress import Bar

_OPTIONS = {
    "rtol": "relative tolerance; 1e-6 by default, 0.03 where paths are sampled",
    "atol": "", "step": "", "observables": "", "budget": "",
    "at": "lags to report, such as 0,1,10",
}  # fmt: skip


def run_stationary(options: Namespace) -> int:
    """Find the stationary state of a system of paths in Gaussian noise: correlations over the lag, means, the largest
    Lyapunov exponent. The status says whether it is still, fluctuating or aging. Exit code 1: none was found, with
    the reason, or the tolerance was not met.
    """
    data, picture = destinations(options)
    settings, given = read_settings(options.settings), read_options(options, _OPTIONS)
    lags = given.pop("at", None)
    if lags is not None and min(lags) < 0:
        raise UsageError(f"--at: a lag is not negative, got {min(lags):g}")
    from eqsolve.curves.stationary import stationary
    from eqsolve.language.loading import load

    with Bar(options.quiet) as progress:
        found = stationary(load(options.model), params=settings, progress=progress, **given)
        exponent = found.lyapunov() if options.lyapunov and found.grid is not None else None
    shown = lags
    if lags is None and found.grid is not None:
        every = [float(lag) for lag in found.grid.edges if lag <= found.settled]
        shown = every[:: 1 + len(every) // 30]
    told, files = {"at": lags, "lyapunov": exponent}, (None, None) if found.grid is None else (data, picture)
    text = functools.partial(found.json_object, at=shown, lyapunov=exponent)
    deliver(options, found, lambda: _text(text()), *files, save={"at": lags}, json_object=told)
    if found.message:
        complain(found.message)
    return 0 if found.status in ("still", "fluctuating") else 1


def _text(made: dict[str, Any]) -> str:
    """Return the state for a terminal: a head line, numbers, and a table over lags."""
    numbers = {name: (value, made["number_errors"][name]) for name, value in made.get("numbers", {}).items()}
    numbers |= {"lyapunov": (made["lyapunov"], made["lyapunov_error"])} if "lyapunov" in made else {}
    blocks = [f"{made['model']}: {made['status']}"]
    if made["params"]:
        blocks.append(list_settings(made["params"]))
    if numbers:
        blocks.append(lay_out([(name, "=", number_with_error(*pair)) for name, pair in numbers.items()]))
    if "tau" in made:
        blocks += tables([("tau", [f"{lag:.6g}" for lag in made["tau"]])], made)
        said = {"tau": "the lag, the time between two moments"}
        for name, values in made["values"].items():
            if f"tau_{name}" in numbers:
                area = f"the area under {name}(tau) - {name}(inf), over its height at tau = 0"
                swings = min(values) < values[-1] - 0.01 * (values[0] - values[-1])
                said[f"tau_{name}"] = f"the correlation time: {area}{', in which swings cancel' * swings}"
        if "lyapunov" in numbers:
            said["lyapunov"] = "the rate at which two copies near each other come apart; positive in chaos"
        blocks.append("\n".join(f"{name}: {text}" for name, text in said.items()))
    return "\n\n".join(blocks)


def _arguments(parser: ArgumentParser) -> None:
    drawn = "draw correlations over the lag"
    add_shared(parser, _OPTIONS, settings="values of parameters", out="write the state", plot=drawn)
    parser.add_argument("--lyapunov", action="store_true", help="find the largest Lyapunov exponent too")


STATIONARY = Verb(
    "find the state that a noisy or chaotic system ends in",
    _arguments,
    run_stationary,
    "stationary path/to/my_model.py --lyapunov",
    ("stationary path/to/my_model.py --at 0,1,10 --plot C.png", "stationary path/to/my_model.py --json"),
)
