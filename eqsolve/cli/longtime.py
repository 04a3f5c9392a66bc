"""The commands of long times: the fixed point that a model comes to rest in, and its stationary state."""

import functools
from argparse import Namespace
from typing import Any

from eqsolve.cli.options import command, read_shared, switch
from eqsolve.cli.output import complain, deliver, lay_out, number_with_error, say, write
from eqsolve.cli.solve import report, tables
from eqsolve.errors import UsageError
from eqsolve.language.loading import load
from eqsolve.progress import Bar
from eqsolve.results.words import list_settings


@command(
    "derive the fixed point that a system comes to rest in, and solve it",
    "longtime path/to/my_model.py",
    "longtime path/to/my_model.py --show  # the equations",
    options={
        **dict.fromkeys(("rtol", "atol", "observables", "derivatives"), ""),
        "budget": "CPU time of the search for a solution, such as 5min; 60s by default",
    },
    settings="values of parameters", out="write the result", plot="draw the numbers",
    own={
        "--integrated": switch(
            "if the fixed points form a continuum, take the one reached from the start, using the "
            "integral of the force that the model declares"
        ),
        "--show": switch("show the equations that were derived, and solve nothing"),
    },
)  # fmt: skip
def run_longtime(options: Namespace) -> int:
    """Derive the limit of long times of a system, or of the mean field of a flow, that comes to rest: a fixed point.
    Its observable `stability` is positive where the state is stable, and zero where that is lost. Exit code 1:
    the tolerance was not met.
    """
    data, picture, settings, given = read_shared(options)
    from eqsolve.language.system import Flow, System
    from eqsolve.passes.rewrite.indices import written_out

    model: Any = load(options.model)
    if not isinstance(model, System | Flow):
        raise UsageError(f"model `{model.name}` is a {model.kind} and has no time; `eqsolve solve {model.name}` solves it")
    model, settings = written_out(model, settings)  # with the tables that the settings make
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


@command(
    "find the state that a noisy or chaotic system ends in",
    "stationary path/to/my_model.py --lyapunov",
    "stationary path/to/my_model.py --at 0,1,10 --plot C.png",
    "stationary path/to/my_model.py --json",
    options={
        "rtol": "relative tolerance; 1e-6 by default, 0.03 where paths are sampled",
        "atol": "", "step": "", "observables": "", "budget": "",
        "at": "lags to report, such as 0,1,10",
    },
    settings="values of parameters", out="write the state", plot="draw correlations over the lag",
    own={"--lyapunov": switch("find the largest Lyapunov exponent too")},
)  # fmt: skip
def run_stationary(options: Namespace) -> int:
    """Find the stationary state of a system of paths in Gaussian noise: correlations over the lag, means, the largest
    Lyapunov exponent. The status says whether it is still, fluctuating or aging. Exit code 1: none was found, with
    the reason, or the tolerance was not met.
    """
    data, picture, settings, given = read_shared(options)
    lags = given.pop("at", None)
    if lags is not None and min(lags) < 0:
        raise UsageError(f"--at: a lag is not negative, got {min(lags):g}")
    from eqsolve.curves.stationary import stationary

    with Bar(options.quiet) as progress:
        state = stationary(load(options.model), params=settings, progress=progress, **given)
        exponent = state.lyapunov() if options.lyapunov and state.grid is not None else None
    shown = lags
    if lags is None and state.grid is not None:
        nodes = [float(lag) for lag in state.grid.edges if lag <= state.settled]
        shown = nodes[:: 1 + len(nodes) // 30]
    given_with = {"at": lags, "lyapunov": exponent}
    files = (None, None) if state.grid is None else (data, picture)
    text = functools.partial(state.json_object, at=shown, lyapunov=exponent)
    deliver(options, state, lambda: _text(text()), *files, save={"at": lags}, json_object=given_with)
    if state.message:
        complain(state.message)
    return 0 if state.status in ("still", "fluctuating") else 1


def _text(state: dict[str, Any]) -> str:
    numbers = {name: (value, state["number_errors"][name]) for name, value in state.get("numbers", {}).items()}
    numbers |= {"lyapunov": (state["lyapunov"], state["lyapunov_error"])} if "lyapunov" in state else {}
    blocks = [f"{state['model']}: {state['status']}", list_settings(state["params"])]
    if numbers:
        blocks.append(lay_out([(name, "=", number_with_error(*pair)) for name, pair in numbers.items()]))
    if "tau" in state:
        blocks += tables([("tau", [f"{lag:.6g}" for lag in state["tau"]])], state)
        legend = {"tau": "the lag, the time between two moments"}
        for name, values in state["values"].items():
            if f"tau_{name}" in numbers:
                area = f"the area under {name}(tau) - {name}(inf), over its height at tau = 0"
                swings = min(values) < values[-1] - 0.01 * (values[0] - values[-1])
                legend[f"tau_{name}"] = f"the correlation time: {area}{', in which swings cancel' * swings}"
        if "lyapunov" in numbers:
            legend["lyapunov"] = "the rate at which two copies near each other come apart; positive in chaos"
        blocks.append("\n".join(f"{name}: {text}" for name, text in legend.items()))
    return "\n\n".join(filter(None, blocks))
