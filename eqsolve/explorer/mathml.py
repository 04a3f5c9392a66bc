"""Equations as MathML, which browsers draw without fonts, scripts or pictures from elsewhere."""

from __future__ import annotations

import functools

from eqsolve.errors import MissingExtraError
from eqsolve.language.model import Model
from eqsolve.language.printing import Shown


def demand_extra() -> None:
    """Raise unless what the page needs is installed."""
    try:
        import latex2mathml.converter  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "the explorer needs latex2mathml, to show the equations; install it with `pip install 'eqsolve[explore]'`"
        ) from None


@functools.cache
def to_mathml(latex: str, display: str = "inline") -> str:
    """Return one formula as a ``<math>`` element."""
    demand_extra()
    from latex2mathml.converter import convert

    return str(convert(latex, display=display))


def equations(model: Model) -> list[dict[str, str]]:
    """Return the lines of a model as it is shown in LaTeX: the two sides of each, and its source."""
    body = Shown(model).latex().removeprefix("\\begin{align}\n").removesuffix("\n\\end{align}")
    rows = []
    for row in body.split(" \\\\\n"):
        left, _, right = row.strip().partition("&")
        rows.append(
            {"left": to_mathml(left, "block"), "right": to_mathml(right, "block"), "latex": f"{left.strip()} {right.strip()}"}
        )
    return rows
