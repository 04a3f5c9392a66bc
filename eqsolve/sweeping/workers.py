"""Worker processes for a sweep on one machine: each a fresh Python with one linear-algebra thread.

Unlike a process pool they do not import the user's script again (no ``if __name__ == "__main__"`` is needed), and when
one dies, exactly the point it was working on is known; the others go on.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

from eqsolve.solvers.threads import LIMIT, THREAD_LIMITS

_ROOT = str(Path(__file__).resolve().parents[2])


class WorkerLostError(RuntimeError):
    """A worker process died while it worked."""


class Workers(Executor):
    """A few worker processes behind the interface of ``concurrent.futures``."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="eqsolve-worker")
        self._local = threading.local()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._closing = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._threads.submit(self._call, pickle.dumps((fn, args, kwargs)))

    def _call(self, request: bytes) -> Any:
        process = getattr(self._local, "process", None)
        if process is None or process.poll() is not None:
            process = self._local.process = self._start()
        try:
            _send(process.stdin, request)
            fine, value = pickle.loads(_receive(process.stdout))
        except (OSError, EOFError):
            code = process.wait()
            self._discard(process)
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise WorkerLostError(f"the worker process died ({how}; out of memory?)") from None
        if not fine:
            raise value
        return value

    def _start(self) -> subprocess.Popen[bytes]:
        if self._closing:
            raise WorkerLostError("the workers are being stopped")
        env = dict(os.environ)
        for name in THREAD_LIMITS:
            env.setdefault(name, "1")  # more are slower: the workers share the cores
        env.setdefault(LIMIT, "1")
        env["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([_ROOT, *filter(None, sys.path)]))  # what this process sees
        command = [sys.executable, "-c", "from eqsolve.sweeping.workers import serve; serve()"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        self._processes.add(process)
        return process

    @property
    def numbers(self) -> list[int]:
        """The process numbers of the workers that run."""
        return [process.pid for process in self._processes if process.poll() is None]

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closing = True
        if cancel_futures:  # stop at once, in the middle of a point
            for process in list(self._processes):
                process.kill()
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        for process in list(self._processes):
            with contextlib.suppress(OSError):
                process.kill()  # idle by now
            process.wait()
            self._discard(process)

    def _discard(self, process: subprocess.Popen[bytes]) -> None:
        self._processes.discard(process)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def _send(stream: IO[bytes] | None, body: bytes) -> None:
    assert stream is not None
    stream.write(struct.pack(">Q", len(body)) + body)
    stream.flush()


def _receive(stream: IO[bytes] | None) -> bytes:
    assert stream is not None
    head = stream.read(8)
    if len(head) < 8:
        raise EOFError
    body = stream.read(struct.unpack(">Q", head)[0])
    if len(body) < struct.unpack(">Q", head)[0]:
        raise EOFError
    return body


def serve() -> None:
    """Work through the requests on stdin until it closes; the parent's end is the worker's end, even in mid-work."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not get between the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    requests: queue.Queue[bytes] = queue.Queue()

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                requests.put(_receive(sys.stdin.buffer))
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        function, args, kwargs = pickle.loads(requests.get())
        try:
            answer: tuple[bool, Any] = (True, function(*args, **kwargs))
        except Exception as error:
            answer = (False, error)
        try:
            body = pickle.dumps(answer)
        except Exception as error:
            body = pickle.dumps((False, RuntimeError(f"an answer that cannot be sent: {error}")))
        _send(answers, body)
