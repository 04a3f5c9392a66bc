"""Verbs of models and results that a later stage carries out: ``flow.dmft()``, ``system.rescale_time(...)``, ``res.plot()``.

Data flows one way through the package, and no module imports a later stage. Users, though, ask a model for what follows
from it. So the methods stand on the model, with their signatures and docstrings, and find here the function that does
the work. This is the one place where an earlier stage reaches a later one; it does so by name, when asked.
"""

import importlib
from typing import Any

_HOMES = {
    "language.loading": "tables_of",
    "language.printing": "Shown equation_latex",
    "passes.flow.dmft": "derive_dmft derive_descent derive_infinite_data add_momentum add_batches add_temperature "
    "add_label_noise",
    "passes.rewrite.indices": "written_out",
    "passes.rewrite.long_time": "derive_long_time",
    "passes.rewrite.rescaling": "rescale_time shift_time rescale_unknown leading_order",
    "microscopic.simulate": "simulate read_simulation",
    "results.archive": "save write_dataset write_table",
    "results.html": "sections_html result_html simulation_html validation_html fit_html",
    "plotting.choose": "plot_result",
    "plotting.laws": "plot_law animate_law",
    "plotting.sweeps": "slide_sweep",
    "plotting.validation": "plot_validation plot_simulation",
    "fitting.fit": "read_fit",
    "validation.validate": "read_validation",
}
_WHERE = {name: module for module, names in _HOMES.items() for name in names.split()}


def lazy_import(name: str) -> Any:
    """Import a function of a later layer by its name, and return it."""
    return getattr(importlib.import_module(f"eqsolve.{_WHERE[name]}"), name)


def method(name: str) -> Any:
    """Return a method without arguments that a function of a later layer carries out."""
    return lambda self: lazy_import(name)(self)
