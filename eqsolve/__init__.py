"""eqsolve: declare a mean-field model as equations; check, solve, validate and plot it, with error bars."""

import importlib
from typing import Any

from eqsolve._version import __version__

# Modules and the public names in them, imported on first use, so that ``import eqsolve`` stays
# cheap. Type checkers read `__init__.pyi`.
_NAMES = {
    "arguments": "Uncertain uncertain",
    "compile.plan": "Plan",
    "curves.rates": "fit_rate follow iterate path_rates rate_curve",
    "curves.stationary": "stationary",
    "errors": "EqsolveError ModelError ParameterError SolverError UsageError",
    "explaining": "explain",
    "fitting.fit": "Fit fit",
    "fitting.optimise": "Optimum optimise",
    "language.declare": "correlation field function gradient index normal param process random response "
    "state symbol table times unknown",
    "language.indices": "Sum",
    "language.laws": "Resampled Telegraph",
    "language.loading": "load",
    "language.model": "Eq Equation",
    "language.nodes": "GP E Int Inverse Resp White proximal",
    "language.system": "Cases FixedPoint Flow Minimiser Singularity System",
    "microscopic.minimisers": "message_passing",
    "microscopic.simulate": "Simulation",
    "passes.check.check": "check",
    "results.archive": "open",
    "results.result": "PhaseDiagram Result Stationary",
    "solvers.contract": "Solver",
    "solvers.registry": "register",
    "solving": "solve",
    "sweeping.diagram": "phase_diagram",
    "sweeping.run": "sweep",
    "validation.validate": "Validation validate",
}
_WHERE = {name: f"eqsolve.{module}" for module, names in _NAMES.items() for name in names.split()}
_MODULES = ("compile", "errors", "laplace", "laws", "phases", "solver_kit", "spectra")
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    """Import a public name, or a public module, on first use."""
    if name in _WHERE:
        globals()[name] = value = getattr(importlib.import_module(_WHERE[name]), name)
        return value
    if name in _MODULES:
        return importlib.import_module(f"eqsolve.{name}")
    raise AttributeError(f"module 'eqsolve' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__", *_MODULES]
