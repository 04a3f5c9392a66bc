"""Solving models with indices: on arrays where the solver takes families, else with every member written out."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace
from typing import Any

from eqsolve.errors import UsageError
from eqsolve.language.fixed_point import FixedPoint
from eqsolve.language.indices import member_names
from eqsolve.language.model import Model
from eqsolve.language.printing import kept_by_model
from eqsolve.language.system import System
from eqsolve.passes.rewrite.indices import expand, family_axes, representative, sized, table_arrays
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options


@kept_by_model
def why_written_out(model: Model) -> str:
    """Return why a model is not solved on arrays but with its members written out; nothing where it is."""
    if isinstance(model, FixedPoint):
        from eqsolve.solvers.fixed_point.families import why_not_on_arrays

        return why_not_on_arrays(model)
    if not isinstance(model, System):
        return f"a {model.kind} is solved with its members written out"
    from eqsolve.passes.forms.convolution_form import why_not_convolution

    if model.processes or model.randoms or model.step is not None:
        return "it follows paths, or steps"
    return why_not_convolution(model)


def for_reading(model: Model) -> Model:
    """Return a model with indices as it is solved at its defaults; where members are written out, with few of them."""
    model = sized(model, {})
    return representative(model).model if why_written_out(model) else model


def solve_indexed(model: Model, settings: Mapping[str, Any], options: Options, solve: Callable[..., Result]) -> Result:
    """Solve a model with indices by ``solve``, which takes a model, settings and options."""
    model = sized(model, settings)
    arrays, rest = table_arrays(model, settings)
    axes = family_axes(model)
    if not why_written_out(model):
        if options.derivatives or options.precision is not None:
            raise UsageError(
                f"model `{model.name}` has indices and is solved on arrays: derivatives= and precision= are not there for it yet; "
                "difference two solves"
            )
        result = solve(model, rest, options, tables=arrays)
    else:
        made = expand(model)
        for name in options.derivatives:
            if name not in made.model.settable:
                raise UsageError(f"model `{model.name}`: the derivative along `{name}`, which makes tables, is not known")
        wanted = options.observables
        if wanted is not None:
            shapes = {name: tuple(axis.count for axis in axes.get(name, ())) for name in wanted}
            wanted = tuple(member for name in wanted for member in member_names(name, shapes[name]))
        known = {name: value for name, value in rest.items() if name in made.model.settable or name not in model.settable}
        result = solve(made.model, {**known, **made.settings(arrays)}, replace(options, observables=wanted))
        given = {item.name: model.given(item) for item in model.parameters}
        shown = {**given, **rest}
        params = {name: value for name, value in result.params.items() if name in model.settable}
        params |= {name: float(shown[name]) for name in given if name not in params and shown[name] is not None}
        result = replace(result, params=params)
    return replace(result, families=families_in(result.names, model, settings))


def families_in(names: Container[str], model: Model, settings: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return the axes of the families whose members are among some names, with their sizes."""
    if not model.is_indexed:
        return {}
    axes = family_axes(sized(model, settings))
    families = {name: {str(axis): axis.count for axis in own} for name, own in axes.items()}
    return {name: own for name, own in families.items() if member_names(name, tuple(own.values()))[0] in names}
