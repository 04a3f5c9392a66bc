"""The process that solves for one page: JSON lines in, JSON lines out, one job at a time.

A line ``{"id": 3, "verb": "solve", ...}`` is a job, ``{"cancel": 3}`` asks to leave it. While a job runs, lines with its
progress go back; one with its answer ends it. A cancelled job is left at its next report of progress; who cannot wait that
long ends the process.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import signal
import sys
import threading
import time
from typing import IO, Any

from eqsolve.errors import EqsolveError, ModelError

PAUSE = 0.1  # seconds between two lines of progress at least


class CancelledError(BaseException):  # not an Exception: no solver may take it for a failure of its own and try again
    """The page does not want the answer any more."""


def serve(model: str) -> None:
    """Work through the jobs on stdin until it closes."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints must not get between the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    jobs: queue.Queue[dict[str, Any]] = queue.Queue()
    unwanted: set[int] = set()

    def listen() -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "cancel" in message:
                unwanted.add(message["cancel"])
            else:
                jobs.put(message)
        os._exit(0)  # the parent is gone, so nobody waits for what is being solved

    threading.Thread(target=listen, daemon=True).start()
    logging.getLogger("eqsolve").addHandler(logging.NullHandler())  # what is to be said is said on the page
    from eqsolve.explorer.jobs import Desk

    desk = Desk(model)
    while True:
        job = jobs.get()
        _send(answers, {"id": job["id"], "answer": _answer(desk, job, unwanted, answers)})


def _answer(desk: Any, job: dict[str, Any], unwanted: set[int], answers: IO[str]) -> dict[str, Any]:
    from eqsolve.explorer.jobs import VERBS

    number, last = job["id"], 0.0

    def progress(done: float, total: float, text: str) -> None:
        nonlocal last
        if number in unwanted:
            raise CancelledError
        if time.monotonic() - last >= PAUSE:
            last = time.monotonic()
            _send(answers, {"id": number, "progress": {"done": float(done), "total": float(total), "text": str(text)}})

    try:
        progress(0.0, 1.0, "")
        return VERBS[job["verb"]](desk, job, progress)
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


def _send(stream: IO[str], message: dict[str, Any]) -> None:
    stream.write(json.dumps(message, allow_nan=False) + "\n")
    stream.flush()
