"""The commands that find parameters: those that fit data, and those at which an observable is best."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from eqsolve.cli.options import by_name, command, destinations, read_number, read_options, read_settings, several, value
from eqsolve.cli.output import complain, deliver, lay_out, number_with_error
from eqsolve.errors import UsageError, quote
from eqsolve.language.loading import load
from eqsolve.progress import Bar

if TYPE_CHECKING:
    from eqsolve.fitting.optimise import Optimum


@command(
    "fit parameters of a model to data",
    "fit {model} --data runs.csv --free {parameter}",
    "fit {model} --data runs.csv --free {parameter} --out fit.nc --plot fit.png",
    "fit {model} --data runs.csv --free {parameter} --bounds {parameter}=0.1:1",
    settings="values that stay, and where the free ones begin", plot="draw data, fit and residuals",
    options={
        "at": "use these times of the data only",
        "rtol": "relative tolerance of the solves; 1e-3 by default",
        "observables": "fit these only; all that the data have by default",
        "budget": "CPU time of the fit, such as 30s or 5min; then the best so far is given",
    },
    own={
        "--data": value("F.csv[,P=VALUE]", (
            "columns t, the observables, NAME_error, and seed for several draws; several files are fitted together, each with "
            "its own values after a comma, such as a.csv,delta=0.5 b.csv,delta=2"
        ), nargs="+", default=[]),
        "--free": value("P,Q,...", "the parameters to be found"),
        "--own": value("P,...", "those fitted to each file separately; the others are shared"),
        "--bounds": several("P=LOW:HIGH", "ranges, such as alpha=0.1:1 or lam=0:"),
        "--prior": several("P=VALUE,ERROR", "what is known of a free parameter beforehand, such as sigma2=0.1,0.02"),
        "--out": value("F.nc", "keep the fit; `eqsolve plot F.nc` draws it again"),
    },
)  # fmt: skip
def run_fit(options: Namespace) -> int:
    """Least squares with exact derivatives. Exit code 0: fitted; 1: the budget was spent before; 2: bad input, or
    parameters that the data do not tell apart.
    """
    data, picture = destinations(options, (".nc",))
    if not options.data:
        raise UsageError("name the data: --data runs.csv, with columns t and the observables")
    if options.free is None:
        raise UsageError("name the parameters to fit: --free alpha,sigma2")
    asked = read_options(options)
    settings = read_settings(options.settings)
    from eqsolve.fitting.fit import fit

    free, own = ([name.strip() for name in (text or "").split(",") if name.strip()] for text in (options.free, options.own))
    # FILE[,NAME=VALUE,...]: a file, and the values that hold for it alone
    files, each = zip(*((it[0], read_settings(it[1:])) for it in map(_APART.split, options.data)), strict=True)
    with Bar(options.quiet, count="solve") as bar:
        result = fit(
            load(options.model), files[0] if len(files) == 1 else files, free=free, own=own, each=each, params=settings,
            bounds=_pairs(options.bounds, "--bounds", _BOUNDS, ":"),
            priors=_pairs(options.prior, "--prior", _PRIOR, ","), progress=bar, **asked,
        )  # fmt: skip
    deliver(options, result, result.report, data, picture)
    return int(result.status != "ok")


_APART = re.compile(r",\s*(?=[A-Za-z_]\w*=)")
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


@command(
    "minimise or maximise an observable over parameters",
    "optimise {model} --minimise E_test --over {parameter}=0.01:10:log --at 20",
    settings="values that stay", plot="draw the landscape",
    options={
        "at": "the time of the observable",
        "rtol": "relative tolerance of the solves; 1e-3 by default",
        "budget": "CPU time of the search, such as 30s or 5min; then the best so far is given",
    },
    own={
        "--minimise": value("NAME", "the observable to minimise"),
        "--maximise": value("NAME", "the observable to maximise"),
        "--over": several("NAME=FIRST:LAST[:log]", (
            "the ranges, such as alpha=0.001:10:log lam=0:1; t=0:100 for the best time"
        )),
        "--where": several("NAME<=VALUE", "limits of other observables, such as 'E_train<=0.1'; also >="),
    },
)  # fmt: skip
def run_optimise(options: Namespace) -> int:
    """A coarse scan of the ranges, then exact gradients, lead to the optimum; its error bar comes from the
    solver's own errors. Exit code 0: found; 1: the budget was spent before; 2: bad input, or no optimum inside
    the ranges.
    """
    _, picture = destinations(options)
    if (options.minimise is None) == (options.maximise is None):
        raise UsageError("name what is to be best: --minimise E_test, or --maximise overlap")
    over = read_ranges(options.over)
    asked = read_options(options)
    if len(asked.get("at", [0.0])) != 1:
        raise UsageError("--at: an observable is best at one time; for the best time give its range, --over t=0:100")
    limits = read_limits(options.where)
    settings = read_settings(options.settings)
    from eqsolve.fitting.optimise import optimise

    goal, model = options.minimise or options.maximise, load(options.model)
    if model.kind in ("System", "Flow") and ("at" in asked) == ("t" in over):
        raise UsageError(f"say when `{goal}` is to be best: --at 20, or --over t=0:100 for the best time")
    if limits and "t" in over:
        raise UsageError("--where: the best time is found without constraints; give --at instead of a range of t")
    with Bar(options.quiet, count="solve") as bar:
        optimum = optimise(
            model, goal, over=over, maximise=options.maximise is not None, constraints=limits, params=settings, progress=bar,
            **asked,
        )  # fmt: skip
    deliver(options, optimum, lambda: _text(optimum), None, picture)
    if optimum.status != "ok":
        complain(optimum.status)
        return 1
    if optimum.at_edge:
        complain(f"{optimum.edge}; widen the range, or take the end as it is")
        return 2
    return 0


def read_ranges(words: Iterable[str]) -> dict[str, tuple[float | str, ...]]:
    """Return ranges FIRST:LAST[:log] by name."""
    ranges: dict[str, tuple[float | str, ...]] = {}
    takes = "NAME=FIRST:LAST[:log] such as alpha=0.001:10:log"
    for name, text in by_name(words, "--over", takes).items():
        parts = text.split(":")
        if len(parts) not in (2, 3) or parts[2:] not in ([], ["log"], ["linear"]):
            raise UsageError(f"--over takes {takes}, got {quote(f'{name}={text}')}")
        ends = [read_number(part, f"--over {name}") for part in parts[:2]]
        ranges[name] = (*ends, *parts[2:])
    if not ranges:
        raise UsageError("--over names at least one range, such as alpha=0.001:10:log")
    return ranges


def read_limits(words: Iterable[str]) -> dict[str, tuple[float | None, float | None]]:
    """Return the ranges of observables that NAME<=VALUE and NAME>=VALUE say."""
    limits: dict[str, tuple[float | None, float | None]] = {}
    for word in words:
        name, sign, text = (part.strip() for part in word.partition("<=" if "<=" in word else ">="))
        if not sign or not name:
            raise UsageError(f"--where takes NAME<=VALUE or NAME>=VALUE, in quotes for the shell, got {quote(word)}")
        value, (low, high) = read_number(text, "--where"), limits.get(name, (None, None))
        limits[name] = (low, value) if sign == "<=" else (value, high)
    return limits


def _text(optimum: Optimum) -> str:
    goal = "largest" if optimum.maximise else "smallest"
    rows = [(name, "=", number_with_error(value, optimum.errors[name])) for name, value in optimum.parameters.items()]
    rows.append((optimum.observable, "=", number_with_error(optimum.value, optimum.error)))
    active = f"\n\nheld at its limit: {', '.join(optimum.active)}" if optimum.active else ""
    return f"{optimum.model}: `{optimum.observable}` is {goal} at ({optimum.solves} solves)\n\n{lay_out(rows)}{active}"
