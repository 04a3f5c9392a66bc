"""eqsolve: declare a mean-field model as equations; check, solve, validate and plot it, with error bars."""

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsolve._version import __version__

# Of what type checkers see below, the text says where a name is found when it is first used.
_IMPORTS = re.findall(r"^    from (\S+) import ([\w, ]+|\([^)]+)", Path(__file__).read_text("utf-8"), re.MULTILINE)
_WHERE = {name: module for module, names in _IMPORTS for name in re.findall(r"\w+", names)}
_MODULES = ("compile", "errors", "laplace", "laws", "phases", "solver_kit", "spectra")
__all__ = sorted(_WHERE)

if TYPE_CHECKING:
    from eqsolve.arguments import Uncertain, uncertain
    from eqsolve.compile.plan import Plan
    from eqsolve.curves.rates import fit_rate, follow, iterate, path_rates, rate_curve
    from eqsolve.curves.stationary import stationary
    from eqsolve.errors import EqsolveError, ModelError, ParameterError, SolverError, UsageError
    from eqsolve.explaining import explain
    from eqsolve.fitting.fit import Fit, fit
    from eqsolve.fitting.optimise import Optimum, optimise
    from eqsolve.language.declare import (
        correlation,
        field,
        function,
        gradient,
        index,
        normal,
        param,
        process,
        random,
        response,
        state,
        symbol,
        table,
        times,
        unknown,
    )
    from eqsolve.language.indices import Sum
    from eqsolve.language.laws import Resampled, Telegraph
    from eqsolve.language.loading import load
    from eqsolve.language.model import Eq, Equation
    from eqsolve.language.nodes import GP, E, Int, Inverse, Resp, White, proximal
    from eqsolve.language.system import Cases, FixedPoint, Flow, Minimiser, Singularity, System
    from eqsolve.microscopic.minimisers import message_passing
    from eqsolve.microscopic.simulate import Simulation
    from eqsolve.passes.check.check import check
    from eqsolve.results.archive import open
    from eqsolve.results.result import PhaseDiagram, Result, Stationary
    from eqsolve.solvers.contract import Solver
    from eqsolve.solvers.registry import register
    from eqsolve.solving import solve
    from eqsolve.sweeping.diagram import phase_diagram
    from eqsolve.sweeping.run import sweep
    from eqsolve.validation.validate import Validation, validate


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that ``import eqsolve`` stays cheap."""
    if name in _WHERE:
        value = getattr(importlib.import_module(_WHERE[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"eqsolve.{name}")
    raise AttributeError(f"module 'eqsolve' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__", *_MODULES]
