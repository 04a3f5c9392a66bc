"""One bar that says how far a long work is: what is done of the work predicted, and about how long the rest takes.

It is shown on a terminal or in a notebook, after a second, and leaves nothing behind. In the log of a command
or of a batch job (SLURM) it is a line for every finished point of a sweep, fewer where they come quickly, and
one every half minute. A bar inside another, such as that of a solve inside a sweep, keeps silent.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

NOTE = (logging.INFO + logging.WARNING) // 2  # the level of good news
Report = Callable[[float, float, str], None]
PAUSE = 0.2  # seconds between two drawings
_PATIENCE = 1.0  # seconds before a bar appears
_LOGGED = 30.0  # seconds between two lines in a log, at most


class Bar:
    """A line that is written over itself: call it with (done, total, text), close it at the end.

    The share shown falls only where ``expect`` knows better. With ``count``, or the word for one of
    them, done and total are numbers of things, which may become more; those done before the first
    call are no work of ours.
    """

    _shown_by: Bar | None = None
    _lock = threading.Lock()

    def __init__(self, quiet: bool = False, *, count: bool | str = False, log: bool = True) -> None:
        self.count, self.share, self.first = count, 0.0, None if count else 0.0
        self.started = self.last = self.moved = time.monotonic()  # last: of the last drawing; moved: of the share
        self.end = 0.0  # when the work is predicted to end
        self.length, self.text = 0, ""
        self.done, self.total = 0.0, math.inf
        self.screen: Any = None
        self.drawing, self.ended = threading.Lock(), threading.Event()
        with Bar._lock:
            self.outermost = Bar._shown_by is None
            if self.outermost:
                Bar._shown_by = self
        self.where = "" if quiet or not self.outermost else _somebody_looks() or ("log" if log else "")
        if self.where:
            threading.Thread(target=self._tick, daemon=True).start()
        logging.getLogger("eqsolve").addFilter(self._make_room)

    def __call__(self, done: float, total: float, text: str) -> None:
        now = time.monotonic()
        share = min(max(done / total if total > 0 else 0.0, 0.0), 1.0)
        if now < self.end:
            share = (now - self.started) / (self.end - self.started)
        if self.first is None:
            self.first = share
        if share > self.share or (self.count and done > self.done):
            self.moved = now
        self.share = share if self.count else max(self.share, share)
        self.done, self.total = done, total
        early = now - self.started < _PATIENCE or now - self.last < self._pause(now)
        if not self.where or early or (self.where == "log" and not text):
            return
        self.last = now
        if self.where == "log":
            self._log(text, now)
            return
        head = f"{done:.0f}{f' of {total:.0f}' if math.isfinite(total) else ''}, " if self.count else ""
        self.text = f"{head}{text}" if text else head.rstrip(", ") or " "
        with self.drawing:
            self._draw(self.line(now - self.started, self.text))

    def expect(self, seconds: float) -> None:
        """Note how long the rest will take; a log is told at once if that is more than a minute."""
        if self.where == "log" and not self.end and seconds > 60:
            self.last = -math.inf  # a line is due
        now = time.monotonic()
        self.end, self.share = now + seconds, (now - self.started) / (now - self.started + seconds)

    def _log(self, text: str, now: float) -> None:
        self.last, unit = now, f"{self.count} " if isinstance(self.count, str) else ""
        whole = f"/{self.total:.0f}" if math.isfinite(self.total) else ""  # nobody knows that of a search
        head = f"{unit}{self.done:.0f}{whole}" if self.count else f"{self.share:.0%} done"
        left = f", {self._left(now - self.started)}" if whole or not self.count else ""
        print(f"{head}: {text} ({clock(now - self.started)}{left})", file=sys.stderr, flush=True)

    def _tick(self) -> None:
        """Let the clock go on where a long piece of work, such as a large ensemble, tells nothing of itself."""
        while not self.ended.wait(1.0):  # seconds
            now = time.monotonic()
            with self.drawing:
                if self.where == "log" and now - self.last >= _LOGGED:
                    self._log("the next is under way" if self.count else "at work", now)
                elif self.length:
                    self._draw(self.line(now - self.started, self.text))

    def _pause(self, now: float) -> float:
        """Return the seconds until the next drawing; in a log they grow with the time that has passed."""
        if self.where != "log":
            return PAUSE
        return min(_LOGGED, (now - self.started) / 20) if self.count else _LOGGED

    def line(self, seconds: float, text: str) -> str:
        """Return what the bar says some seconds after its start."""
        width = 3 * shutil.get_terminal_size().columns // 10
        filled = int(width * self.share)
        return f"[{'#' * filled}{'.' * (width - filled)}] {self.share:4.0%}, {clock(seconds)}, {self._left(seconds)}  {text}"

    def _left(self, seconds: float) -> str:
        """Return how long the rest takes as predicted, or if it goes on as it went."""
        if (left := self.end - self.started - seconds) > 0:
            return f"about {roughly(left)} left"
        gain = self.share - (self.first or 0.0)
        if gain < 0.02 and self.share < 1:  # share of the work from which on the time left is told
            return "starting"
        took = self.moved - self.started
        left = took / max(gain, 1e-9) * (1 - self.share) - (seconds - took)
        return f"about {roughly(left)} left" if left > 0 else "longer than foreseen" if self.share < 1 else "ending"

    def _draw(self, line: str) -> None:
        if self.where == "notebook":
            self._show(f"<pre style='margin:0'>{line.replace('<', '&lt;')}</pre>")
            return
        line = line[: shutil.get_terminal_size().columns - 1]
        print(f"\r{line.ljust(self.length)}", end="", file=sys.stderr, flush=True)
        self.length = len(line)

    def _show(self, text: str) -> None:
        shown: Any = importlib.import_module("IPython.display")
        if self.screen is None:
            self.screen = shown.display(shown.HTML(text), display_id=True)
        else:
            self.screen.update(shown.HTML(text))

    def clear(self) -> None:
        """Take the line away, as before something else is written; the next call brings it back."""
        with self.drawing:
            if self.length:
                print(f"\r{' ' * self.length}\r", end="", file=sys.stderr, flush=True)
                self.length = 0
        if self.screen is not None:
            self._show("")

    def _make_room(self, record: logging.LogRecord) -> bool:
        self.clear()  # a message begins a line of its own
        return True

    def close(self) -> None:
        """Take the line away for good."""
        self.ended.set()
        logging.getLogger("eqsolve").removeFilter(self._make_room)
        self.clear()
        self.where = ""
        with Bar._lock:
            if Bar._shown_by is self:
                Bar._shown_by = None

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _somebody_looks() -> str:
    """Return "notebook" in a kernel, "terminal" if stderr is one, and nothing where only a log would be written."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None and getattr(shell, "kernel", None) is not None:
        return "notebook"
    terminal = sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return "terminal" if terminal else ""


@contextlib.contextmanager
def watching(progress: Report | bool | None, *, count: bool | str = False) -> Iterator[Report | None]:
    """Yield what is told of progress: the function given; nothing for False; a bar or a batch job's log for None."""
    if progress is False or callable(progress):
        yield progress or None
        return
    with Bar(count=count, log="SLURM_JOB_ID" in os.environ) as bar:
        yield bar if bar.where else None


def part_of(report: Report | None, low: float, high: float) -> Report | None:
    """Return what a part of a work reports to: its share, between two shares of the whole."""
    if report is None:
        return None

    def tell(done: float, total: float, text: str) -> None:
        report(low + (high - low) * min(max(done / max(total, 1e-300), 0.0), 1.0), 1.0, text)

    return tell


def roughly(seconds: float) -> str:
    """Return a duration in words, without seconds where there are minutes."""
    return f"{seconds / 60:.0f} min" if 100 <= seconds < 3570 else clock(seconds)


def clock(seconds: float) -> str:
    """Return a duration in words."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
