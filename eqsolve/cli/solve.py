"""The command that solves a model and reports values with their errors."""

from __future__ import annotations

import math
import os
import shutil
from argparse import Namespace
from typing import TYPE_CHECKING, Any

from eqsolve.cli.options import command, read_shared, switch, value
from eqsolve.cli.output import complain, deliver, lay_out, number_with_error, say, write_json
from eqsolve.errors import SolverError, UsageError
from eqsolve.language.loading import load
from eqsolve.options import cli_flag, refuse_idle
from eqsolve.progress import Bar
from eqsolve.results.words import list_settings

if TYPE_CHECKING:
    from pathlib import Path

    from eqsolve.files.checkpoint import Checkpoint
    from eqsolve.language.model import Model
    from eqsolve.results.result import Result


@command(
    "solve a model and report values with their errors",
    "solve {model} --at 0.1,1,10 --plot curves.png",
    "solve {model} --set {parameter}=0.5 --t-max 20 --out result.nc  # eqsolve plot result.nc draws it",
    "solve {model} --t-max 1000 --checkpoint run.ckpt  # after Ctrl-C: the same with --resume",
    "solve {model} --at 1 --json  # for other programs",
    options=dict.fromkeys((
        "t_max", "at", "at2", "rtol", "atol", "seed", "step", "order", "start", "region", "threads", "solver", "observables",
        "device", "derivatives", "budget", "scheduler",
    ), ""),
    settings="values of parameters", out="write the result", plot="draw the observables",
    own={
        "--checkpoint": value("F", "keep finished steps in this file; it is removed at the end"),
        "--resume": switch("go on from the checkpoint, if there is one"),
    },
)  # fmt: skip
def run_solve(options: Namespace) -> int:
    """Solve a model to the tolerance asked for. Exit code 0: solved; 1: the tolerance was not met,
    and the result so far and the reason are given; 2: bad input. A long run with --checkpoint F that was
    interrupted or killed goes on, to the same numbers, when the same command is given with --resume.
    """
    data, picture, settings, asked = read_shared(options)
    checkpoint = _checkpoint(options)
    from eqsolve.solving import solve

    model = load(options.model)
    _check(model, asked)

    try:
        with Bar(options.quiet) as progress:
            result = solve(model, params=settings, progress=progress, checkpoint=checkpoint, **asked)
    except SolverError as error:
        if error.partial is not None:
            report(options, model, error.partial, asked, data, picture)
        elif options.json:
            write_json({"model": model.name, "status": "failed", "message": str(error)})
        _settle(checkpoint, finished=True)
        raise
    except KeyboardInterrupt:
        _settle(checkpoint, finished=False)
        raise
    report(options, model, result, asked, data, picture)
    _settle(checkpoint, result.is_finished)
    if result.status == "ok":
        return 0
    complain(f"{result.message or result.status}")
    if result.status == "tolerance not met":
        say("± are error estimates, in tests at most 3 times too small; a larger --rtol accepts them (see docs/errors.md)")
    return 1


def _checkpoint(options: Namespace) -> Checkpoint | None:
    if options.checkpoint is None:
        if options.resume:
            raise UsageError("--resume goes on from a checkpoint; name its file: --checkpoint F")
        return None
    for option, other in (("--out", options.out), ("--plot", options.plot)):
        if other is not None and os.path.realpath(other) == os.path.realpath(options.checkpoint):
            raise UsageError(f"--checkpoint and {option} name the same file {other!r}; the checkpoint is removed at the end")
    from eqsolve.files.checkpoint import Checkpoint

    return Checkpoint(options.checkpoint, resume=options.resume)


def _settle(checkpoint: Checkpoint | None, finished: bool) -> None:
    """Remove the checkpoint of a run that came to its end; else say how to go on."""
    if checkpoint is not None and finished:
        checkpoint.close(remove=True)
    elif checkpoint is not None and checkpoint.path.exists():
        say(f"the finished steps are kept in {checkpoint.path}; the same command with --resume goes on from there")


def _check(model: Model, given: dict[str, Any]) -> None:
    """Raise for what means nothing to the model, and for times that it does not have."""
    at, at2, t_max = (given.get(name) for name in ("at", "at2", "t_max"))
    if model.kind != "Cases":  # the case decides
        refuse_idle(model.name, model.kind, given, cli_flag)
    if at2 is not None and not getattr(model, "kernels", ()):
        raise UsageError(f"--at2: model `{model.name}` has no function of two times")
    moments = [("--at", moment) for moment in at or []] + [("--at2", moment) for pair in at2 or [] for moment in pair]
    starts_at_zero = model.start == 0
    for option, moment in moments:
        if starts_at_zero and moment < 0:
            raise UsageError(f"{option}: time starts at 0, got {moment:g}")
        if t_max is not None and moment > t_max:
            raise UsageError(f"{option} asks for the time {moment:g}, but --t-max is {t_max:g}")
    if t_max is not None and starts_at_zero and t_max <= 0:
        raise UsageError(f"--t-max: time starts at 0, so the last time must be positive, got {t_max:g}")


def report(
    options: Namespace, model: Model, result: Result, asked: dict[str, Any], data: Path | None, picture: Path | None
) -> None:
    """Give the numbers and write the files that were asked for."""
    if options.observables == "all":
        result.provenance.pop("derived", None)
    at = {"at": asked.get("at")}
    pairs = {**at, "at2": asked.get("at2")}
    deliver(options, result, lambda: _text(model, result, asked), data, picture, save=at, json_object=pairs)


def _text(model: Model, result: Result, asked: dict[str, Any]) -> str:
    content = result.json_object(at=_moments(result, asked), at2=asked.get("at2"), nested=False)
    names = sorted(
        (name for name in content["values"] if name in result.shown), key=lambda name: name not in model.observables
    )
    content["values"] = {name: content["values"][name] for name in names}
    seconds = result.stats.get("seconds")
    took = f" in {seconds:.{2 if seconds < 99 else 4}g} s" if isinstance(seconds, float) else ""
    solver = f", by {result.stats['solver']}" if "solver" in result.stats else ""
    case = f" ({result.message})" if "case" in result.stats else ""
    blocks = [f"{result.model}: {result.status}{solver}{took}{case}", list_settings(content["params"])]
    if "t" in content and not content["values"]:
        blocks.append("nothing to report: the model has no functions of one time; give it observables={...}")
    elif "t" in content:
        moments = [("t", [f"{moment:.6g}" for moment in content["t"]])]
        blocks += tables(moments, content)
        blocks += [block for part in _derivatives(content) for block in tables(moments, part)]
    else:
        rows = [
            (name, "=", number_with_error(value, part["errors"].get(name, math.nan)))
            for part in (content, *_derivatives(content))
            for name, value in part["values"].items()
        ]
        blocks.append(lay_out(rows) if rows else "(no values)")
    if "two_time" in content:
        pairs = content["two_time"]["at"]
        first = [(name, [f"{pair[place]:.6g}" for pair in pairs]) for place, name in enumerate(("t", "t'"))]
        blocks += tables(first, content["two_time"])
    return "\n\n".join(filter(None, blocks))


def _derivatives(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the derivatives of the values shown along each parameter, and their errors, named dNAME/dPARAMETER."""
    parts = {"values": "derivatives", "errors": "derivative_errors"}
    return [
        {key: {f"d{name}/d{one}": content[part][one][name] for name in content["values"]} for key, part in parts.items()}
        for one in content.get("derivatives", {})
    ]


def _moments(result: Result, asked: dict[str, Any]) -> list[float] | None:
    """Return the times of the table: those asked for, or a few spread logarithmically."""
    if "at" in asked or result.grid is None:
        return asked.get("at")
    import numpy as np

    from eqsolve.numerics.grids import ROWS

    first, last = float(result.grid.edges[0]), float(result.grid.edges[-1])
    inner = np.geomspace(1e-3, 1, ROWS - 1)[:-1]
    return [first, *(float(f"{first + (last - first) * share:.3g}") for share in inner), last]


def tables(first: list[tuple[str, list[str]]], content: dict[str, Any]) -> list[str]:
    """Return the values as aligned tables, as many columns in each as the terminal is wide."""
    columns = []
    for name, values in content["values"].items():
        errors = content["errors"].get(name, [math.nan] * len(values))
        columns.append((name, [number_with_error(v, e) for v, e in zip(values, errors, strict=True)]))
    room = max(shutil.get_terminal_size().columns, 60)
    tables = [list(first)]
    for column in columns:
        width = sum(2 + max(map(len, [name, *cells])) for name, cells in [*tables[-1], column])
        if width > room and len(tables[-1]) > len(first):
            tables.append(list(first))
        tables[-1].append(column)
    return [lay_out(zip(*([name, *cells] for name, cells in table), strict=True), right=True) for table in tables]
