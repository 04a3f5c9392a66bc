"""The server behind the page: on this machine only, for this page only, and it takes nothing but settings.

It listens on 127.0.0.1. Requests must name that address as their host (so that no foreign name can be pointed here) and carry
the word that stands in the page (so that no other page in the browser can ask). Of a request only the keys below are read.
A worker process for every open page: none waits for another, and a solve can be ended.
"""

import contextlib
import json
import queue
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from eqsolve.errors import UsageError
from eqsolve.explorer.describe import render
from eqsolve.progress import PAUSE
from eqsolve.sweeping.workers import Child

ADDRESS = "127.0.0.1"
KEYS = ("settings", "t_max", "rtol", "over", "d", "seeds")
STREAMED = ("describe", "neighbours", "solve", "related", "finite", "phases")
LONGEST = 65536  # bytes of a request
GRACE = 10 * PAUSE  # seconds that a cancelled job has to end by itself, before its process is ended


class Session:
    """A page's worker. A new job takes the place of the one under way."""

    program = "import sys; from eqsolve.explorer.jobs import serve; serve(sys.argv[1])"

    def __init__(self, model: str) -> None:
        self.model = model
        self._newest = 0  # the number of the job that is wanted
        self._child: Child | None = None
        self._lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._turn = threading.Lock()  # held by the job under way
        self._write = threading.Lock()

    def run(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield what a job reports, its answer last. The next job cancels it, and so does closing the generator."""
        number = self.cancel()
        with self._turn:
            if number != self._newest:
                yield {"cancelled": True}
                return
            lines = self.start()
            self._tell({**request, "id": number})
            ended = False
            try:
                for message in self._messages(number, lines):
                    ended = "progress" not in message
                    yield message
            finally:
                if not ended:  # whoever listened is gone
                    if number == self._newest:
                        self.cancel()
                    for _ in self._messages(number, lines):
                        pass

    def cancel(self) -> int:
        """Leave the job under way; return a number above those of all jobs so far."""
        with self._write:
            self._newest += 1
            self._lines.put({})  # wakes who waits
            return self._newest

    def close(self) -> None:
        """End the worker, in mid-work if need be."""
        self.cancel()
        self._kill()

    def start(self) -> queue.Queue[dict[str, Any] | None]:
        """Have the worker ready, and return the queue of what it says."""
        with self._write:
            if self._child is None or self._child.number is None:
                self._child, self._lines = Child(self.program, self.model, threads=True), queue.Queue()
                threading.Thread(target=_listen, args=(self._child, self._lines), daemon=True).start()
            return self._lines

    def _messages(self, number: int, lines: queue.Queue[dict[str, Any] | None]) -> Iterator[dict[str, Any]]:
        deadline: float | None = None
        report: dict[str, Any] = {"done": 0.0, "total": 1.0, "text": ""}
        while True:
            if deadline is None and number != self._newest:
                deadline = time.monotonic() + GRACE
                self._tell({"cancel": number})
            line: Any = {"id": number}  # a waiting page hears that its job is still under way
            with contextlib.suppress(queue.Empty):
                line = lines.get(timeout=PAUSE)
            mine = line is not None and line.get("id") == number
            if mine and "answer" in line:
                yield line["answer"]
                return
            if line is None or (deadline is not None and time.monotonic() > deadline):  # the process has ended, or has to
                self._kill()
                why = "the process that solved it died; was there enough memory?"
                yield {"cancelled": True} if deadline is not None else {"error": {"kind": "lost", "problems": [why]}}
                return
            if mine and deadline is None:
                report = line.get("progress", report)
                yield {"progress": report}

    def _tell(self, message: dict[str, Any]) -> None:
        with self._write, contextlib.suppress(OSError, ValueError):
            if self._child is not None:
                self._child.send(message)

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.end()


def _listen(child: Child, lines: queue.Queue[dict[str, Any] | None]) -> None:
    """Pass on what a process says, and None when it has ended."""
    with contextlib.suppress(EOFError, OSError, ValueError):
        while True:
            lines.put(child.receive())
    lines.put(None)


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
            session = self._open.pop(name, None)
            if session is None:
                session, self._first = self._first or Session(self.model), None
            self._open[name] = session  # the one used last comes last
            oldest = next(iter(self._open))
        if len(self._open) > self.most:
            self.close(oldest)
        return session

    def close(self, name: str) -> None:
        """End a page's worker; a page that was not closed after all gets a new one when it asks."""
        with self._lock:
            session = self._open.pop(name, None)
        if session is not None:
            session.close()

    def close_all(self) -> None:
        """End every worker."""
        for session in filter(None, [self._first, *self._open.values()]):
            session.close()


class Explorer(ThreadingHTTPServer):
    """A running explorer of one model.

    Parameters
    ----------
    model
        Its name, or the path of its file.
    begin
        What the page begins with: ``settings``, ``t_max``, ``rtol``.
    port
        0 takes any free one.
    """

    daemon_threads = True

    def __init__(self, model: str, begin: dict[str, Any] | None = None, *, port: int = 0) -> None:
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"--port: cannot listen on port {port}: {reason}; --port 0 takes a free one") from None
        self.word = secrets.token_urlsafe(24)
        self.model, self.begin = model, begin or {}
        self.sessions = Sessions(model)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{ADDRESS}:{self.port}/"

    def page(self) -> str:
        """Return the page; every page that is opened makes up a session of its own."""
        config = {"mode": "live", "word": self.word, "begin": self.begin}
        return render(config, title=f"{self.model} · eqsolve explore", connect=True)

    def server_close(self) -> None:
        super().server_close()
        if hasattr(self, "sessions"):  # not where the port was taken
            self.sessions.close_all()


class _Handler(BaseHTTPRequestHandler):
    server: Explorer

    def do_GET(self) -> None:
        if not self._is_local():
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers to its own address only")
        elif self.path.split("?")[0] != "/":
            self._refuse(HTTPStatus.NOT_FOUND, "there is one page here: /")
        else:
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page().encode())

    def do_POST(self) -> None:
        request = self._request()
        if request is None:
            return
        verb, name = self.path.removeprefix("/api/"), str(request.get("session"))
        asked = {key: request[key] for key in KEYS if key in request}
        try:
            if verb in STREAMED:
                self._stream({"verb": verb, **asked}, name)
            elif verb == "save":
                self._save(asked, name)
            elif verb in ("cancel", "close"):
                sessions = self.server.sessions
                sessions.get(name).cancel() if verb == "cancel" else sessions.close(name)
                self._head(HTTPStatus.NO_CONTENT, "text/plain", 0)
            else:
                self._refuse(HTTPStatus.NOT_FOUND, f"there is no question {verb!r}")
        except (BrokenPipeError, ConnectionError):
            pass  # the page is gone; its job was cancelled on the way here

    def _stream(self, job: dict[str, Any], name: str) -> None:
        self._head(HTTPStatus.OK, "application/x-ndjson; charset=utf-8")
        messages = self.server.sessions.get(name).run(job)
        try:
            for message in messages:
                self.wfile.write(json.dumps(message).encode() + b"\n")
                self.wfile.flush()
        finally:
            messages.close()  # type: ignore[attr-defined]  # so that the job ends with its page

    def _save(self, asked: dict[str, Any], name: str) -> None:
        with tempfile.TemporaryDirectory(prefix="eqsolve-explore-") as folder:
            path = Path(folder, "result.nc")
            *_, last = self.server.sessions.get(name).run({"verb": "save", **asked, "path": str(path)})
            if not path.is_file():
                return self._refuse(HTTPStatus.UNPROCESSABLE_ENTITY, json.dumps(last))
            self._send(HTTPStatus.OK, "application/x-netcdf", path.read_bytes())

    def _request(self) -> dict[str, Any] | None:
        """Return what was asked; None if it was refused."""
        if not self._is_local():
            self._refuse(HTTPStatus.FORBIDDEN, "this server answers to its own address only")
            return None
        try:
            length = int(self.headers.get("Content-Length", ""))
            if not 0 <= length <= LONGEST:
                raise ValueError
            request = json.loads(self.rfile.read(length))
            word = str(request.get("word", ""))
        except (ValueError, AttributeError, RecursionError):
            self._refuse(HTTPStatus.BAD_REQUEST, f"a question is a JSON object of at most {LONGEST} bytes")
            return None
        if not secrets.compare_digest(word.encode(), self.server.word.encode()):
            self._refuse(HTTPStatus.FORBIDDEN, "this page belongs to an explorer that has ended; reload it")
            return None
        return dict(request)

    def _is_local(self) -> bool:
        hosts = {f"{name}:{self.server.port}" for name in (ADDRESS, "localhost")}
        origin = self.headers.get("Origin")
        return self.headers.get("Host") in hosts and (origin is None or origin.removeprefix("http://") in hosts)

    def _head(self, status: HTTPStatus, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for line in (
            "Cache-Control: no-store", "X-Content-Type-Options: nosniff", "X-Frame-Options: DENY",
            "Cross-Origin-Resource-Policy: same-origin", "Referrer-Policy: no-referrer",
        ):  # fmt: skip
            self.send_header(*line.split(": "))
        self.end_headers()

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self._head(status, kind, len(body))
        self.wfile.write(body)

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self._send(status, "text/plain; charset=utf-8", why.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the terminal is for messages to the user."""
