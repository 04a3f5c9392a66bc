"""Plans: a model compiled once, for all values of its parameters that leave its structure as it is.

``Plan.facts`` is what decides which solver fits; ``Plan.program(form)`` the functions and operators that a solver of this
form runs, made when first asked for. A plan is kept with its model, by what selects the structure: values of whole-number
parameters, of those in branches and exponents, which parameters vanish or are infinite, and the kinds of the laws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from eqsolve.language.equations import Equation
from eqsolve.language.fixed_point import FixedPoint, Singularity
from eqsolve.language.model import Model, transform
from eqsolve.language.nodes import Int
from eqsolve.language.symbols import Function, Parameter
from eqsolve.language.system import System
from eqsolve.passes.forms.composition import is_composition
from eqsolve.passes.forms.structure import distribute_parameters

__all__ = ["Facts", "Plan", "compile", "make_plan"]


@dataclass(frozen=True)
class Facts:
    """What a model is made of, by name.

    Attributes
    ----------
    kind
        "System", "FixedPoint" or "Singularity".
    processes, noises, kernels, functions
        Unknowns along paths, driving processes, functions of two times and of one; of a fixed point, its unknowns.
    memory
        Whether integrals over the past occur.
    implicit
        Whether an unknown stands in its own definition.
    composition
        Whether every kernel enters linearly or through integrals of at most one other kernel.
    """

    kind: str
    processes: tuple[str, ...] = ()
    noises: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    memory: bool = False
    implicit: bool = False
    composition: bool = False


@dataclass(frozen=True, eq=False)
class Plan:
    """A compiled model.

    Attributes
    ----------
    model
        The model with the values that decide its structure put in; its constraints have become equations.
    parameters
        Those that are arguments of the plan's functions.
    """

    model: Model
    parameters: tuple[Parameter, ...]
    facts: Facts
    _programs: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return self.model.name

    def program(self, form: str) -> Any:
        """Return what a solver of this form runs; see ``FORMS``."""
        if form not in self._programs:
            self._programs[form] = FORMS[form](self)
        return self._programs[form]


def find_facts(model: Model) -> Facts:
    """Return what a model is made of."""
    if not isinstance(model, System):
        return Facts(model.kind, functions=tuple(item.name for item in getattr(model, "unknowns", ())))
    equations = model.equations
    return Facts(
        model.kind,
        tuple(item.name for item in model.processes),
        tuple(item.name for item in model.noises),
        tuple(item.name for item in model.kernels),
        tuple(eq.key for eq in equations if isinstance(eq.head, Function)),
        any(equation.rhs.has(Int) for equation in equations),
        any(eq.rhs.has(eq.target) for eq in equations if not eq.is_differential and eq.target is not None),
        not model.processes and is_composition(model),
    )


def make_plan(model: Model, put: Mapping[Parameter, Any]) -> Plan:
    """Return the plan of a model with some values put in."""
    if isinstance(model, System) and model.constraints:
        from eqsolve.passes.rewrite.constraints import reduce_constraints

        model = reduce_constraints(model).system
    arguments = tuple(item for item in model.parameters if item not in put)
    model = model.subs(dict(put)) if put else model
    if isinstance(model, System):

        def change(item: Any) -> Any:
            if isinstance(item, Equation):
                return Equation(item.lhs, distribute_parameters(item.rhs), item.location)
            return distribute_parameters(item)

        parts = {name: transform(getattr(model, name), change) for name in ("equations", "observables")}
        model = model._with(**parts)
    return Plan(model, arguments, find_facts(model))


def compile(model: Model | str) -> Plan:
    """Return the plan of a model, as ``solve`` runs it for values of its parameters that leave its structure as it is.

    Examples
    --------
    >>> plan = eqsolve.compile("dln")
    >>> plan.facts.noises
    ('z',)
    """
    from eqsolve.language.loading import load

    return make_plan(load(model) if isinstance(model, str) else model, {})


def _stochastic(plan: Plan) -> Any:
    from eqsolve.compile.stochastic import compile_stochastic
    from eqsolve.passes.rewrite.substitution import apply_substitutions

    assert isinstance(plan.model, System)
    return compile_stochastic(apply_substitutions(plan.model), plan.parameters)


def _discrete_stochastic(plan: Plan) -> Any:
    """Changes of variable are exact in continuous time only."""
    from eqsolve.compile.stochastic import compile_stochastic

    assert isinstance(plan.model, System)
    return compile_stochastic(plan.model, plan.parameters)


def _operators(plan: Plan) -> Any:
    from eqsolve.compile.operators import compile_operators

    assert isinstance(plan.model, System)
    return compile_operators(plan.model, plan.parameters)


def _two_time(plan: Plan) -> Any:
    from eqsolve.compile.two_time import compile_system

    assert isinstance(plan.model, System)
    return compile_system(plan.model, plan.parameters)


def _ode(plan: Plan) -> Any:
    from eqsolve.compile.ode import compile_ode

    assert isinstance(plan.model, System)
    return compile_ode(plan.model, plan.parameters)


def _fixed_point(plan: Plan) -> Any:
    from eqsolve.compile.fixed_point_program import FixedPointProgram

    assert isinstance(plan.model, FixedPoint)
    return FixedPointProgram(plan.model)


def _singularity(plan: Plan) -> Any:
    from eqsolve.compile.singularity import SingularityProgram

    assert isinstance(plan.model, Singularity)
    return SingularityProgram(plan.model)


FORMS: dict[str, Callable[[Plan], Any]] = {
    "stochastic": _stochastic,
    "discrete stochastic": _discrete_stochastic,
    "operators": _operators,
    "two_time": _two_time,
    "ode": _ode,
    "fixed_point": _fixed_point,
    "singularity": _singularity,
}
"""How a plan is compiled for each form of solver."""
