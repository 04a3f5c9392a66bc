"""The server behind the page: on this machine only, for this page only, and it takes nothing but settings.

It listens on 127.0.0.1. Requests must name that address as their host (so that no foreign name can be pointed here) and carry
the word that stands in the page (so that no other page in the browser can ask). Of a request only the keys below are read.
"""

import json
import secrets
import tempfile
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from eqsolve.errors import UsageError
from eqsolve.explorer.html import render
from eqsolve.explorer.sessions import Sessions

ADDRESS = "127.0.0.1"
KEYS = ("settings", "t_max", "rtol", "over", "d", "seeds")
STREAMED = ("describe", "neighbours", "solve", "related", "finite", "phases")
LONGEST = 65536  # bytes of a request


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
            return self._refuse(HTTPStatus.FORBIDDEN, "this server answers to its own address only")
        if self.path.split("?")[0] != "/":
            return self._refuse(HTTPStatus.NOT_FOUND, "there is one page here: /")
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page().encode())

    def do_POST(self) -> None:
        request = self._request()
        if request is None:
            return
        verb, name = self.path.removeprefix("/api/"), str(request.get("session"))
        kept = {key: request[key] for key in KEYS if key in request}
        try:
            if verb in STREAMED:
                self._stream({"verb": verb, **kept}, name)
            elif verb == "save":
                self._save(kept, name)
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

    def _save(self, kept: dict[str, Any], name: str) -> None:
        with tempfile.TemporaryDirectory(prefix="eqsolve-explore-") as folder:
            path = Path(folder, "result.nc")
            *_, last = self.server.sessions.get(name).run({"verb": "save", **kept, "path": str(path)})
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
