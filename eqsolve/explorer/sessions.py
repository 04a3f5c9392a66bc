"""A worker process for every open page: none waits for another, and a solve can be ended."""

import contextlib
import itertools
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

from eqsolve.progress import PAUSE
from eqsolve.sweeping.workers import Child

GRACE = 2.0  # seconds that a cancelled job has to end by itself, before its process is ended


class Session:
    """A page's worker. A new job takes the place of the one under way."""

    program = "import sys; from eqsolve.explorer.jobs import serve; serve(sys.argv[1])"

    def __init__(self, model: str) -> None:
        self.model = model
        self.used = time.monotonic()
        self._numbers = itertools.count(1)
        self._newest = 0
        self._child: Child | None = None
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._turn = threading.Lock()  # held by the job under way
        self._write = threading.Lock()

    def run(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield what a job reports, its answer last. The next job cancels it, and so does closing the generator."""
        with self._write:
            number = self._newest = next(self._numbers)
            self._lines.put({})
        self.used = time.monotonic()
        with self._turn:
            if number != self._newest:
                yield {"cancelled": True}
                return
            with self._write:
                self._ensure()
                lines = self._lines
            self._tell({**request, "id": number})
            ended = False
            try:
                for message in self._messages(number, lines):
                    ended = "progress" not in message
                    yield message
            finally:
                if not ended:  # whoever listened is gone
                    self._newest = next(self._numbers)
                    for _ in self._messages(number, lines):
                        pass
                self.used = time.monotonic()

    def cancel(self) -> None:
        """Leave the job under way."""
        with self._write:
            self._newest = next(self._numbers)
            self._lines.put({})  # wakes who waits

    def close(self) -> None:
        """End the worker, in mid-work if need be."""
        self.cancel()
        self._kill()

    def start(self) -> None:
        """Have the worker ready before it is needed."""
        with self._write:
            self._ensure()

    def _messages(self, number: int, lines: queue.Queue[dict[str, Any] | None]) -> Iterator[dict[str, Any]]:
        deadline: float | None = None
        report: dict[str, Any] = {"done": 0.0, "total": 1.0, "text": ""}
        while True:
            if deadline is None and number != self._newest:
                deadline = time.monotonic() + GRACE
                self._tell({"cancel": number})
            try:
                line = lines.get(timeout=PAUSE)
            except queue.Empty:  # a waiting page hears that its job is still under way
                if deadline is None:
                    yield {"progress": report}
                elif time.monotonic() > deadline:
                    self._kill()
                    yield {"cancelled": True}
                    return
                continue
            if line is None:  # the process has ended
                self._kill()
                why = "the process that solved it died; was there enough memory?"
                yield {"cancelled": True} if deadline is not None else {"error": {"kind": "lost", "problems": [why]}}
                return
            if line.get("id") != number:
                continue
            if "answer" in line:
                yield line["answer"]
                return
            report = line["progress"]
            if deadline is None:
                yield {"progress": report}

    def _tell(self, message: dict[str, Any]) -> None:
        with self._write, contextlib.suppress(OSError, ValueError):
            if self._child is not None:
                self._child.send(message)

    def _ensure(self) -> Child:
        if self._child is not None and self._child.number is not None:
            return self._child
        child = Child(self.program, self.model, threads=True)
        lines: queue.Queue[dict[str, Any] | None] = queue.Queue()

        def listen() -> None:
            with contextlib.suppress(EOFError, OSError, ValueError):
                while True:
                    lines.put(child.receive())
            lines.put(None)

        threading.Thread(target=listen, daemon=True).start()
        self._child, self._lines = child, lines
        return child

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


class Sessions:
    """The pages that are open, by their own names; a worker waits for the first one."""

    def __init__(self, model: str, most: int = 8) -> None:
        self.model, self.most = model, most
        self._open: dict[str, Session] = {}
        self._lock = threading.Lock()
        self._first: Session | None = Session(model)
        self._first.start()

    def get(self, name: str) -> Session:
        """Return the session of a page; of too many, the one unused longest is closed."""
        with self._lock:
            if name not in self._open:
                self._open[name], self._first = self._first or Session(self.model), None
            self._open[name].used = time.monotonic()
            oldest = min(self._open, key=lambda key: self._open[key].used) if len(self._open) > self.most else None
            extra = self._open.pop(oldest) if oldest is not None else None
            found = self._open[name]
        if extra is not None:
            extra.close()
        return found

    def close(self, name: str) -> None:
        """End a page's worker; a page that was not closed after all gets a new one when it asks."""
        with self._lock:
            session = self._open.pop(name, None)
        if session is not None:
            session.close()

    def close_all(self) -> None:
        """End every worker."""
        for name in list(self._open):
            self.close(name)
        if self._first is not None:
            self._first.close()
