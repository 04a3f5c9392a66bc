"""Verbs of models and results that a later stage carries out: ``flow.dmft()``, ``system.rescale_time(...)``, ``res.plot()``.

Data flows one way through the package, and no module imports a later stage. Users, though, ask a model for what follows
from it. So the methods stand on the model, with their signatures and docstrings, and find here the function that does
the work. This is the one place where an earlier stage reaches a later one; it does so by name, when asked.
"""

import importlib
from typing import Any

_HOMES = {
    "show": "eqsolve.language.printing:Shown",
    "equation_latex": "eqsolve.language.printing:equation_latex",
    "sections_html": "eqsolve.results.html:sections_html",
    "dmft": "eqsolve.passes.flow.dmft:derive_dmft",
    "written_out": "eqsolve.passes.rewrite.indices:written_out",
    "gradient_descent": "eqsolve.passes.flow.dmft:derive_descent",
    "infinite_data": "eqsolve.passes.flow.dmft:derive_infinite_data",
    "momentum": "eqsolve.passes.flow.dmft:add_momentum",
    "sgd": "eqsolve.passes.flow.dmft:add_batches",
    "langevin": "eqsolve.passes.flow.dmft:add_temperature",
    "label_noise": "eqsolve.passes.flow.dmft:add_label_noise",
    "rescale_time": "eqsolve.passes.rewrite.rescaling:rescale_time",
    "shift_time": "eqsolve.passes.rewrite.rescaling:shift_time",
    "rescale_unknown": "eqsolve.passes.rewrite.rescaling:rescale_unknown",
    "leading_order": "eqsolve.passes.rewrite.rescaling:leading_order",
    "tables_of": "eqsolve.language.loading:tables_of",
    "long_time": "eqsolve.passes.rewrite.long_time:derive_long_time",
    "simulate": "eqsolve.microscopic.simulate:simulate",
    "save": "eqsolve.results.archive:save",
    "write_dataset": "eqsolve.results.archive:write_dataset",
    "write_table": "eqsolve.results.archive:write_table",
    "read simulation": "eqsolve.microscopic.simulate:read_simulation",
    "read fit": "eqsolve.fitting.fit:read_fit",
    "read validation": "eqsolve.validation.validate:read_validation",
    "plot_validation": "eqsolve.plotting.validation:plot_validation",
    "plot_simulation": "eqsolve.plotting.validation:plot_simulation",
    "plot_result": "eqsolve.plotting.choose:plot_result",
    "plot_law": "eqsolve.plotting.choose:plot_law",
    "animate_law": "eqsolve.plotting.choose:animate_law",
    "slide_sweep": "eqsolve.plotting.choose:slide_sweep",
}


def later(verb: str) -> Any:
    """Return the function behind a verb."""
    module, name = _HOMES[verb].split(":")
    return getattr(importlib.import_module(module), name)
