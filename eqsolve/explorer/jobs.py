"""What the page asks for: solve, sweep, fixed points and rates, finite sizes, a file. Texts in, plain numbers out.

Settings arrive as the texts that ``--set`` takes. They are parsed, never evaluated, and an answer holds nothing but numbers
and words, so that no page can make this machine run code. A process for each page answers (``serve``).
"""

import logging
import math
import queue
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsolve.errors import EqsolveError, ModelError, UsageError
from eqsolve.explorer import describe as about
from eqsolve.language.binding import read_value
from eqsolve.language.loading import load
from eqsolve.language.model import Model
from eqsolve.numerics.arrays import member_names
from eqsolve.numerics.grids import ROWS, sample_times
from eqsolve.passes.forms.structure import bind_routed, settable
from eqsolve.plotting.curves import time_axis
from eqsolve.progress import PAUSE
from eqsolve.results.result import Result, values_and_errors
from eqsolve.results.words import jsonable
from eqsolve.solving import solve
from eqsolve.sweeping.diagram import has_phases, phase_diagram
from eqsolve.sweeping.run import sweep
from eqsolve.sweeping.workers import attend

Progress = Callable[[float, float, str], None]
Request = Mapping[str, Any]
Answer = dict[str, Any]


@dataclass
class PageState:
    """What a page's worker keeps between questions: the model by name, and the last result."""

    model: str
    result: Result | None = None
    asked: dict[str, Any] = field(default_factory=dict)


def run_describe(state: PageState, model: Model, request: Request, progress: Progress) -> Answer:
    return about.describe(model)


def run_neighbours(state: PageState, model: Model, request: Request, progress: Progress) -> Answer:
    """Return the fixed points and rates that belong to the model, and whether it has phases."""
    related = about.find_related(model)
    told = [{"name": m.name, "kind": m.kind, "equations": about.equations(m), "labels": about.labels(m)} for m in related]
    return {"related": told, "phases": has_phases(model)}


def run_solve(state: PageState, model: Model, request: Request, progress: Progress) -> Answer:
    """Return curves with errors: over time, or else over one of the parameters."""
    result = _solve(state, model, request, progress)
    told: Answer = {"status": result.status, "message": result.message, "rtol": _rtol(request), "params": result.params}
    told |= {key: result.stats.get(key) for key in ("solver", "seconds")}
    if result.kind != "sweep":
        return told | _curves(result, model)
    try:  # the numbers at the settings themselves, or why there are none
        here = solve(model, params=_settings(request), rtol=_rtol(request))
        told["point"] = {"status": here.status, "message": here.message, **_numbers(here, model)}
    except EqsolveError as error:
        told["point"] = {"error": str(error)}
    data, [axis] = result.dataset, result.dataset["status"].dims
    return {
        **told, "x": str(axis), "t": data[axis].values, **_families(result), **values_and_errors(data, _drawn(result, model)),
        "points": [str(text) for text in data["message"].values], "failed": int(result.stats["failed"]),
    }  # fmt: skip


def _solve(state: PageState, model: Model, request: Request, progress: Progress) -> Result:
    settings, asked = _settings(request), _asked(model, request)
    if axis := asked.get("over"):
        fixed = {name: value for name, value in settings.items() if name not in axis}
        result = sweep(model, axis, params=fixed, rtol=asked["rtol"], progress=progress)
    else:
        result = solve(model, params=settings, progress=progress, **{key: asked[key] for key in asked if key != "over"})
    state.result, state.asked = result, {"settings": settings, **asked}
    return result


def _asked(model: Model, request: Request) -> dict[str, Any]:
    """Return what decides a solve but the settings: the tolerance, the last time or an axis."""
    if model.kind in about.TIMED:
        return {"t_max": _number(request.get("t_max"), "t_max"), "rtol": _rtol(request)}
    return {"over": _texts(request, "over"), "rtol": _rtol(request)}


def _curves(result: Result, model: Model) -> Answer:
    if result.grid is None:
        return _numbers(result, model)
    names = [name for name in _drawn(result, model) if result.dataset[name].dims == ("t",)]
    times = sample_times(float(result.grid.edges[0]), float(result.grid.edges[-1]))
    sampled = result.at(times)
    log = time_axis(times, [sampled[name].values for name in names if name in result.shown]).log
    told = {"x": "t", "t": times, "log": log, **_families(result)}
    return told | values_and_errors(sampled, names)


def _drawn(result: Result, model: Model) -> list[str]:
    """Return what can be drawn: what is shown by itself, and the other members of families."""
    members = (member_names(name, (*axes.values(),)) for name, axes in result.families.items())
    drawn = {*result.shown}.union(*members)
    return _ordered((name for name in result.names if name in drawn), model)


def _families(result: Result) -> Answer:
    return {"families": result.families, "shown": list(result.shown)} if result.families else {}


def _ordered(names: Iterable[str], model: Model) -> list[str]:
    known = about.observable_names(model)
    return sorted(names, key=lambda name: known.index(name) if name in known else len(known))


def _numbers(result: Result, model: Model) -> Answer:
    names = _ordered((name for name in result.names if not result.dataset[name].dims), model)
    numbers = values_and_errors(result.dataset, names)
    numbers["errors"] = dict.fromkeys(names) | numbers["errors"]
    return {"x": None, **_families(result), **numbers}


def run_related(state: PageState, model: Model, request: Request, progress: Progress) -> Answer:
    """Return the model's fixed points and rates at the same settings, or why one has none there.

    What a solved fixed point does not depend on has no say in where the dynamics ends.
    """
    settings = _settings(request)
    bound = bind_routed(model, settings).settings()
    others, answers, decisive = about.find_related(model), [], set(settings)
    for place, other in enumerate(others):
        progress(place, len(others), other.name)
        answer: Answer = {"name": other.name, "kind": other.kind}
        answers.append(answer)
        if strange := [key for key in about.unknown_settings(other, settings) if key in decisive]:
            away = " and ".join(f"`{name}` (here {settings[name]})" for name in strange)
            answer["error"] = f"says nothing about these settings: it has no parameter {away}"
            continue
        known = settable(other)
        try:
            params = {name: value for name, value in {**bound, **settings}.items() if name in known}
            result = solve(other, params=params, rtol=_rtol(request))
        except EqsolveError as error:
            answer["error"] = str(error)
            continue
        answer |= {"status": result.status, "message": result.message, "params": result.params, **_numbers(result, other)}
        decisive &= decisive if other.kind == "Singularity" else set(result.params)
    return {"related": answers}


def run_finite(state: PageState, model: Model, request: Request, progress: Progress) -> Answer:
    """Return finite-size runs with the theory, and whether they agree."""
    from eqsolve.validation.validate import validate

    asked: dict[str, Any] = {name: _number(request.get(name), name) for name in ("d", "seeds")}
    if model.kind in about.TIMED:
        last = _number(request.get("t_max"), "t_max")
        asked["at"] = [float(f"{last * share:.3g}") for share in np.logspace(-2, 0, ROWS)]
    progress(0.0, 1.0, "theory")
    check = validate(model, params=_settings(request), rtol=_rtol(request), workers=1, progress=progress, **asked)
    parts = {"values": "simulation", "errors": "standard_error", "z": "z"}
    sides = {key: {name: getattr(c, part) for name, c in check.observables.items()} for key, part in parts.items()}
    size = {"d": check.d, "n": check.n, "seeds": check.seeds, "t": check.t}
    return {"verdict": check.verdict, "notes": [*check.notes, *check.warnings], **size, **sides}


def run_phases(state: PageState, model: Model, request: Request, progress: Progress) -> Answer:
    """Return what the long run is over the parameters asked for, and its boundaries."""
    diagram = phase_diagram(model, _texts(request, "over"), params=_settings(request), progress=progress).json_object()
    told = {"classes": diagram["points"]["class"], "messages": diagram["points"]["message"]}
    return {**told, "axes": diagram["axes"], "boundaries": diagram["boundaries"]}


def run_save(state: PageState, model: Model, request: Request, progress: Progress) -> Answer:
    """Write the result of these settings as netCDF to the path that the server chose."""
    same = state.asked == {"settings": _settings(request), **_asked(model, request)}
    result = state.result if same and state.result is not None else _solve(state, model, request, progress)
    result.save(request["path"])
    return {"kind": result.kind}


VERBS: dict[str, Callable[[PageState, Model, Request, Progress], Answer]] = {
    run.__name__.removeprefix("run_"): run
    for run in (run_describe, run_neighbours, run_solve, run_related, run_finite, run_phases, run_save)
}


def _texts(request: Request, key: str) -> dict[str, str]:
    value = request.get(key) or {}
    if not isinstance(value, dict):
        raise UsageError(f"{key} takes texts by name, got {value!r}")
    return {str(name): str(text).strip() for name, text in value.items()}


def _settings(request: Request) -> dict[str, str]:
    return _texts(request, "settings")


def _rtol(request: Request) -> float:
    return _number(request.get("rtol", "1e-3"), "rtol")


def _number(text: Any, what: str) -> float:
    try:
        number = float(read_value(str(text), what=what))
    except TypeError:  # a law
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"{what} takes a finite number, got {text!r}")
    return number


# --- The process that solves for one page.


class CancelledError(BaseException):  # not an Exception: no solver may take it for a failure of its own and try again
    """The page does not want the answer any more."""


def serve(model: str) -> None:
    """Work through jobs, ``{"id": 3, "verb": "solve", ...}``; ``{"cancel": 3}`` asks to leave one.

    While a job runs its progress goes back, and its answer ends it. A cancelled job is left at its
    next report of progress; who cannot wait that long ends the process.
    """
    jobs: queue.Queue[dict[str, Any]] = queue.Queue()
    unwanted: set[int] = set()
    send = attend(lambda message: unwanted.add(message["cancel"]) if "cancel" in message else jobs.put(message))
    logging.getLogger("eqsolve").addHandler(logging.NullHandler())  # the page says what is to be said
    state = PageState(model)
    while True:
        job = jobs.get()
        send({"id": job["id"], "answer": jsonable(_answer(state, job, unwanted, send))})


def _answer(state: PageState, job: dict[str, Any], unwanted: set[int], send: Callable[[Any], None]) -> Answer:
    number, last = job["id"], 0.0

    def progress(done: float, total: float, text: str) -> None:
        nonlocal last
        if number in unwanted:
            raise CancelledError
        if time.monotonic() - last >= PAUSE:
            last = time.monotonic()
            send({"id": number, "progress": {"done": float(done), "total": float(total), "text": str(text)}})

    try:
        progress(0.0, 1.0, "")
        model = load(state.model)  # as its file is at this moment
        stamp = about.stamp(model)
        return {"stamp": stamp, **VERBS[job["verb"]](state, model, job, progress)}
    except CancelledError:
        return {"cancelled": True}
    except EqsolveError as error:
        problems = list(error.problems) if isinstance(error, ModelError) else [str(error)]
        return {"error": {"kind": type(error).__name__, "problems": problems}}
    except MemoryError:
        return {"error": {"kind": "MemoryError", "problems": ["there is not enough memory for this"]}}
    except Exception as error:  # a bug of ours is shown, and ends neither the worker nor the page
        text = f"eqsolve stopped on an unexpected {type(error).__name__}: {error}; this is a bug, please report it"
        return {"error": {"kind": "bug", "problems": [text]}}
