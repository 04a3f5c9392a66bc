"""What is asked of sympy while something runs, counted by function."""

import contextlib
import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from types import CodeType, FrameType

import sympy

HOME = os.path.dirname(sympy.__file__)


@contextlib.contextmanager
def calls_into_sympy() -> Iterator[Counter[str]]:
    """Count the calls of functions in sympy's files; they are there at the end."""
    found: Counter[str] = Counter()
    called: dict[CodeType, int] = {}

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            called[frame.f_code] = called.get(frame.f_code, 0) + 1

    gc.collect()  # else generators that sympy left behind may be ended meanwhile
    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(None)
        for code, times in called.items():
            if code.co_filename.startswith(HOME):
                found[f"{os.path.relpath(code.co_filename, HOME)}:{code.co_name}"] += times
