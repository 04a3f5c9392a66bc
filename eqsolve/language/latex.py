"""The LaTeX of every name of a model: declared, or made from the name."""

from __future__ import annotations

from collections.abc import Iterable

from eqsolve.language.keeping import kept_by_model
from eqsolve.language.model import Model
from eqsolve.language.symbols import Time, default_latex

__all__ = ["latex_names"]


def latex_names(models: Iterable[Model]) -> dict[str, str]:
    """Return LaTeX by name: symbols, unknowns, observables, named quantities, and under ``"t"`` the time that runs.

    Of several models, such as a rate and the fixed point behind it, the first that has a name decides.
    """
    found: dict[str, str] = {}
    for model in models:
        found = {**_names(model), **found}
    return found


@kept_by_model
def _names(model: Model) -> dict[str, str]:
    observables = {name: model.observable_latex.get(name) or default_latex(name) for name in model.observables}
    variables = {name: default_latex(name) for name in getattr(model, "variables", ())}
    symbols = {name: item.latex_name for name, item in model.names.items()}
    running = _running_time(model)
    return {**symbols, **variables, **observables, **({} if running is None else {"t": running})}


def _running_time(model: Model) -> str | None:
    """Return the time in which the model's first equation runs, written in the time before it was rescaled."""
    if model.clock is not None:
        from eqsolve.language.printing import expression_latex

        return expression_latex(model.clock)
    for equation in model.equations:
        if isinstance(equation.time, Time):
            return equation.time.latex_name
    return None
