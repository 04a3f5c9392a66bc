"""The forms of program that a plan is compiled into: one record each, which knows the program's type.

``plan.program(ODE)`` is an ``OdeProgram``. A form of one's own is a ``Form`` that names the
function which compiles it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from eqsolve.compile.breaks import Breaks
    from eqsolve.compile.convolution import ConvolutionProgram
    from eqsolve.compile.covariances import Covariances
    from eqsolve.compile.fixed_point import FamilyProgram, FixedPointProgram
    from eqsolve.compile.gaussian import GaussianProgram
    from eqsolve.compile.ode import OdeProgram
    from eqsolve.compile.relations import OperatorsProgram
    from eqsolve.compile.singularity import SingularityProgram
    from eqsolve.compile.stochastic import StochasticProgram
    from eqsolve.compile.two_time import TwoTimeProgram

Program = TypeVar("Program", covariant=True)
Source = Literal["model", "paths", "changed paths"]


@dataclass(frozen=True)
class Form(Generic[Program]):
    """How a plan is compiled for a method."""

    name: str  # by which the program is kept
    home: str  # the function that compiles, "module:function"; imported when it is first needed
    # what is compiled: the model itself, the equations of its paths, or those after changes of
    # variable, which are exact in continuous time only
    source: Source = "model"

    def compile(self, source: Any, *parameters: Any) -> Program:
        module, name = self.home.split(":")
        return getattr(importlib.import_module(module), name)(source, *parameters)


COVARIANCES: Form[Covariances] = Form("covariances", "eqsolve.compile.covariances:compile_covariances")
BREAKS: Form[Breaks] = Form("breaks", "eqsolve.compile.breaks:compile_breaks")
GAUSSIAN: Form[GaussianProgram] = Form("gaussian", "eqsolve.compile.gaussian:compile_gaussian", "changed paths")
STOCHASTIC: Form[StochasticProgram] = Form("stochastic", "eqsolve.compile.stochastic:compile_stochastic", "changed paths")
DISCRETE: Form[StochasticProgram] = Form("discrete stochastic", "eqsolve.compile.stochastic:compile_stochastic", "paths")
OPERATORS: Form[OperatorsProgram] = Form("operators", "eqsolve.compile.relations:compile_operators", "paths")
CONVOLUTION: Form[ConvolutionProgram] = Form("convolution", "eqsolve.compile.convolution:compile_convolution")
TWO_TIME: Form[TwoTimeProgram] = Form("two_time", "eqsolve.compile.two_time:compile_system")
TWO_TIME_GRADIENTS: Form[TwoTimeProgram] = Form("two_time gradients", "eqsolve.compile.two_time:compile_with_gradients")
ODE: Form[OdeProgram] = Form("ode", "eqsolve.compile.ode:compile_ode")
FIXED_POINT: Form[FixedPointProgram] = Form("fixed_point", "eqsolve.compile.fixed_point:FixedPointProgram")
FAMILIES: Form[FamilyProgram] = Form("families", "eqsolve.compile.fixed_point:compile_families")
SINGULARITY: Form[SingularityProgram] = Form("singularity", "eqsolve.compile.singularity:SingularityProgram")
