"""Equations as MathML, which browsers draw without fonts, scripts or pictures from elsewhere."""

import functools

from eqsolve.errors import MissingExtraError
from eqsolve.language.model import Model
from eqsolve.language.printing import Shown, expression_latex, latex_names
from eqsolve.passes.forms.structure import models_behind


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


def labels(model: Model) -> dict[str, str]:
    """Return how every name of a model, and of those behind it, is written."""
    return {name: to_mathml(latex) for name, latex in latex_names((model, *models_behind(model))).items()}


def equations(model: Model) -> list[dict[str, str]]:
    """Return the lines of a model as it is shown in LaTeX, and its observables: the two sides of each, and its source."""
    body = Shown(model).latex().removeprefix("\\begin{align}\n").removesuffix("\n\\end{align}")
    names = latex_names((model,))
    observables = [f"{names[name]} &= {expression_latex(value)}" for name, value in model.observables.items()]
    rows = (row.strip().partition("&") for row in (*body.split(" \\\\\n"), *observables))
    return [
        {"left": to_mathml(left, "block"), "right": to_mathml(right, "block"), "latex": f"{left.strip()} {right.strip()}"}
        for left, _, right in rows
    ]
