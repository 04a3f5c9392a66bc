"""What is asked of sympy while something runs, counted by function."""

import contextlib
import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from types import FrameType

import sympy

HOME = os.path.dirname(sympy.__file__)


@contextlib.contextmanager
def calls_into_sympy() -> Iterator[Counter[str]]:
    """Count the calls of functions in sympy's files."""
    found: Counter[str] = Counter()

    def look(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(HOME):
            found[f"{os.path.relpath(frame.f_code.co_filename, HOME)}:{frame.f_code.co_name}"] += 1

    gc.collect()  # else generators that sympy left behind may be ended meanwhile
    sys.setprofile(look)
    try:
        yield found
    finally:
        sys.setprofile(None)
