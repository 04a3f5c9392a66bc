"""Writing figures: whole or not at all."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from eqsolve.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_of(drawn: Any) -> Figure:
    """Return the figure of what a drawing returned: axes, several of them, or the figure itself."""
    import numpy as np

    found: Figure = drawn if hasattr(drawn, "savefig") else np.ravel(np.asarray(drawn, dtype=object))[0].figure
    return found


def save_figure(figure: Figure, path: str | os.PathLike[str], *, dpi: int = 200) -> None:
    """Write a figure in the format of the file's suffix, and close it."""
    from eqsolve.files.atomic import atomic_path

    suffix = os.path.splitext(path)[1].lower().removeprefix(".")
    known = figure.canvas.get_supported_filetypes()
    if suffix not in known:
        named = ", ".join(f".{name}" for name in sorted(known))
        raise UsageError(f"cannot draw {str(path)!r}: expected a file name ending in one of {named}")
    try:
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=dpi, format=suffix)
    finally:
        if pyplot := sys.modules.get("matplotlib.pyplot"):
            pyplot.close(figure)
