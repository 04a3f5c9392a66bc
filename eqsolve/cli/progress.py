"""One line on a terminal's stderr that says how far a long work is; silent elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
import time

__all__ = ["Bar", "Line"]


class Line:
    """A line that is written over itself, a few times per second at most."""

    def __init__(self, quiet: bool) -> None:
        self.shown = not quiet and sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self.started = self.last = time.monotonic()
        self.length = 0

    def __call__(self, done: float, total: float, text: str) -> None:
        now = time.monotonic()
        if not self.shown or now - self.last < 0.2:
            return
        self.last = now
        line = self.text(done, total, text, now - self.started)[: shutil.get_terminal_size().columns - 1]
        sys.stderr.write(f"\r{line.ljust(self.length)}")
        sys.stderr.flush()
        self.length = len(line)

    def text(self, done: float, total: float, text: str, seconds: float) -> str:
        return f"t = {done:.4g} of {total:.4g}, {seconds:.0f} s  {text}"

    def clear(self) -> None:
        if self.length:
            sys.stderr.write(f"\r{' ' * self.length}\r")
            sys.stderr.flush()


class Bar(Line):
    """A bar over a known number of points, with the expected end."""

    first: float | None = None

    def __call__(self, done: float, total: float, text: str) -> None:
        if self.first is None:
            self.first = done  # found finished, not done now
        super().__call__(done, total, text)

    def text(self, done: float, total: float, text: str, seconds: float) -> str:
        filled = int(20 * done / max(total, 1))
        now = done - (self.first or 0)
        left = f"{clock(seconds / now * (total - done))} left" if now > 0 else "starting"
        return f"[{'#' * filled}{'.' * (20 - filled)}] {done:.0f}/{total:.0f}, {clock(seconds)}, {left}  {text}"


def clock(seconds: float) -> str:
    """Return a duration in words."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
