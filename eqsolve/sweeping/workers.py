"""Worker processes: each a fresh Python with one linear-algebra thread; messages are pickles.

Unlike a process pool they do not import the user's script again (no ``if __name__ == "__main__"`` is needed), and when
one dies, exactly the piece of work it had is known; the others go on.
"""

import contextlib
import functools
import io
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from eqsolve.language.model import Model
from eqsolve.solvers.threads import LIMIT, THREAD_LIMITS

_ROOT = str(Path(__file__).resolve().parents[2])


class _ModelsApart(pickle.Pickler):
    """Pickles models on their own, so that a worker knows one that it has had."""

    def persistent_id(self, item: Any) -> bytes | None:
        return _packed(item) if isinstance(item, Model) else None


class _ModelsKept(pickle.Unpickler):
    def persistent_load(self, packed: Any) -> Any:
        return _unpacked(packed)


_packed, _unpacked = functools.lru_cache(16)(pickle.dumps), functools.lru_cache(16)(pickle.loads)


class WorkerLostError(RuntimeError):
    """A worker process died while it worked."""


class Child:
    """A fresh Python that runs a program; ``threads`` says whether paths may use several."""

    def __init__(self, program: str, *arguments: str, threads: bool = False) -> None:
        env = dict(os.environ)
        for name in THREAD_LIMITS if threads else (*THREAD_LIMITS, LIMIT):
            env.setdefault(name, "1")  # more are slower: the workers share the cores
        env["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([_ROOT, *filter(None, sys.path)]))  # what this process sees
        command = [sys.executable, "-c", program, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)

    @property
    def number(self) -> int | None:
        """The number of the process, while it runs."""
        return self.process.pid if self.process.poll() is None else None

    def send(self, message: Any) -> None:
        assert self.process.stdin is not None
        pickle.dump(message, self.process.stdin)
        self.process.stdin.flush()

    def receive(self) -> Any:
        """Return the next message; an EOFError says that the process has ended."""
        assert self.process.stdout is not None
        try:
            return pickle.load(self.process.stdout)
        except pickle.UnpicklingError:  # cut short
            raise EOFError from None

    def end(self) -> None:
        """End the process, in mid-work if need be."""
        with contextlib.suppress(OSError):
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


def attend(take: Callable[[Any], None]) -> Callable[[Any], None]:
    """In a child: hand every message of the parent to a function; return what sends one back.

    The parent's end is the child's end, even in mid-work.
    """
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not get between the answers
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError, pickle.UnpicklingError):
            while True:
                take(pickle.load(sys.stdin.buffer))
        os._exit(0)

    def send(message: Any) -> None:
        pickle.dump(message, answers)
        answers.flush()

    threading.Thread(target=listen, daemon=True).start()
    return send


class Workers(Executor):
    """A few worker processes behind the interface of ``concurrent.futures``."""

    def __init__(self, count: int) -> None:
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="eqsolve-worker")
        self._local = threading.local()
        self._children: set[Child] = set()
        self._closing = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        request = io.BytesIO()
        _ModelsApart(request).dump((fn, args, kwargs))
        return self._threads.submit(self._call, request.getvalue())

    def _call(self, request: bytes) -> Any:
        child: Child | None = getattr(self._local, "child", None)
        if child is None or child.number is None:
            if self._closing:
                raise WorkerLostError("the workers are being stopped")
            child = self._local.child = Child("from eqsolve.sweeping.workers import serve; serve()")
            self._children.add(child)
        try:
            child.send(request)
            fine, value = pickle.loads(child.receive())
        except (OSError, EOFError):
            code = child.process.wait()
            self._discard(child)
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise WorkerLostError(f"the worker process died ({how}; out of memory?)") from None
        if not fine:
            raise value
        return value

    @property
    def numbers(self) -> list[int]:
        """The process numbers of the workers that run."""
        return [child.number for child in self._children if child.number is not None]

    def __exit__(self, *error: Any) -> None:
        self.shutdown(cancel_futures=error[0] is not None)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._closing = True
        if cancel_futures:  # stop at once, in the middle of a point
            for child in list(self._children):
                child.process.kill()
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        for child in list(self._children):  # idle by now
            self._discard(child)

    def _discard(self, child: Child) -> None:
        self._children.discard(child)
        child.end()


def serve() -> None:
    """In a worker: call the functions that the parent asks for, one after the other."""
    requests: queue.Queue[bytes] = queue.Queue()
    send = attend(requests.put)
    while True:
        try:
            function, args, kwargs = _ModelsKept(io.BytesIO(requests.get())).load()
            answer: tuple[bool, Any] = (True, function(*args, **kwargs))
        except Exception as error:
            answer = (False, error)
        try:
            body = pickle.dumps(answer)
        except Exception as error:
            body = pickle.dumps((False, RuntimeError(f"an answer that cannot be sent: {error}")))
        send(body)
