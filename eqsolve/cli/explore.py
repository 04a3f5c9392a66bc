"""The command that opens a page with sliders for a model's parameters, or writes one over a sweep."""

from argparse import Namespace
from typing import Any

from eqsolve.cli.options import check_destination, command, read_options, read_settings, several, switch, value
from eqsolve.cli.output import exit_code, say
from eqsolve.cli.sweep import read_grid
from eqsolve.errors import UsageError
from eqsolve.language.loading import load
from eqsolve.options import cli_flag, refuse_idle
from eqsolve.progress import Bar, clock


@command(
    "open a page with a slider for every parameter",
    "explore {model}",
    settings="values to begin with", json=False,
    options={
        "t_max": "last time to begin with; 10 by default",
        "rtol": "relative tolerance of the refined curves; 1e-3 by default",
        "observables": "with --export: compute these only",
        "workers": "with --export: processes on this machine; 1 by default",
    },
    own={
        "--port": value("P", "port of the page, for links that last; any free one by default"),
        "--no-browser": switch("say the address, open no browser"),
        "--export": value("F.html", "write a page that needs no server, over a sweep solved beforehand"),
        "--grid": several("NAME=VALUES", (
            "with --export: what its sliders run over, such as alpha=0.05:2:9:log; two parameters by default"
        )),
    },
)  # fmt: skip
def run_explore(options: Namespace) -> int:
    """Open a page in the browser on this machine: the equations, a slider or a box for every parameter, curves with
    error bands that follow them, finite-size points on demand, fixed point and rate where the model has them.
    With --export, write such a page into one file, over a sweep that is solved beforehand, for a website.
    """
    from eqsolve.explorer.describe import demand_extra

    target = check_destination(options.export, "--export", (".html",))
    settings = read_settings(options.settings)
    asked = read_options(options)
    _refuse_idle(options, asked, exporting=target is not None)
    demand_extra()
    from eqsolve.passes.check.check import check
    from eqsolve.passes.forms.structure import check_routed

    model = load(options.model)
    check(model)
    check_routed(model, settings)
    refuse_idle(model.name, model.kind, asked, cli_flag)
    if target is None:
        return _serve(options, settings, asked)
    from eqsolve.explorer.export import export_page

    grid = read_grid(options.grid) if options.grid else None
    with Bar(options.quiet) as bar:
        result = export_page(model, target, grid=grid, settings=settings, progress=bar, **asked)
    if not options.quiet:
        size = target.stat().st_size / 1e6
        say(f"wrote {target} ({size:.1f} MB, {result.stats['points']} points in {clock(result.stats['seconds'])})")
    return exit_code(result.status, result.message)


def _refuse_idle(options: Namespace, asked: dict[str, Any], *, exporting: bool) -> None:
    given = {"--grid": options.grid, "--workers": asked.get("workers"), "--observables": asked.get("observables")}
    what = "is for a page that is written; name its file: --export page.html"
    if exporting:
        given = {"--port": options.port, "--no-browser": options.no_browser}
        what = "is for the page that is served; with --export none is"
    if idle := [flag for flag, value in given.items() if value]:
        raise UsageError(f"{idle[0]} {what}")


def _serve(options: Namespace, settings: dict[str, str], asked: dict[str, Any]) -> int:
    import webbrowser

    from eqsolve.explorer.server import Explorer

    port = 0 if options.port is None else int(options.port) if options.port.isdecimal() else -1
    if not 0 <= port <= 65535:
        raise UsageError(f"--port takes a whole number from 0 (any free one) to 65535, got {options.port!r}")
    with Explorer(options.model, {"settings": settings, **asked}, port=port) as server:
        say(f"exploring `{options.model}` at {server.address} (Ctrl-C ends it)")
        if not options.no_browser and not webbrowser.open(server.address):
            say("no browser could be opened; open the address above")
        try:
            server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            say("the explorer has ended")
    return 0
