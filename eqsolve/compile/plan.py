"""Plans: a model compiled once, for all values of its parameters that leave its structure as it is.

``Plan.facts`` is what decides which solver fits; ``Plan.program(form)`` the functions and operators that a solver of this
form runs, made when first asked for. A plan is kept with its model, by what selects the structure: values of whole-number
parameters, of those in branches and exponents, which parameters vanish or are infinite, and the kinds of the laws.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from sympy import Add, KroneckerDelta, expand

from eqsolve.compile.forms import GAUSSIAN, MEMBERS, Form
from eqsolve.language.equations import Equation
from eqsolve.language.laws import IN_STEPS
from eqsolve.language.model import Model
from eqsolve.language.nodes import GP, Int
from eqsolve.language.symbols import Correlation, Function, Head, Parameter, Response, Time, Value
from eqsolve.language.system import System, members

# The passes are imported where a model is compiled: a plan that is kept needs none of them.
if TYPE_CHECKING:
    from eqsolve.passes.forms.structure import Derivation
    from eqsolve.passes.rewrite.constraints import Reduction

Program = TypeVar("Program")


@dataclass(frozen=True)
class Facts:
    """What a model is made of, by name."""

    kind: str  # "System", "FixedPoint" or "Singularity"
    processes: tuple[str, ...] = ()  # unknowns along paths
    noises: tuple[str, ...] = ()  # driving processes
    kernels: tuple[str, ...] = ()  # functions of two times
    functions: tuple[str, ...] = ()  # functions of one time; of a fixed point, its unknowns
    memory: bool = False  # whether integrals over the past occur
    implicit: bool = False  # whether an unknown stands in its own definition
    composition: bool = False  # whether kernels enter linearly or composed with one other
    whites: tuple[str, ...] = ()  # those of the driving processes that are white noise
    shifted: bool = False  # whether functions stand at shifted times, t − s or t − τ
    fresh: tuple[str, ...] = ()  # those that are drawn in every step, wholly or in part
    indexed: bool = False  # whether unknowns are families, on arrays
    refined: bool = False  # whether it is in steps whose length is to go to zero

    @property
    def driven(self) -> bool:
        """Whether there is noise, or memory of paths."""
        return bool(self.noises or (self.processes and (self.memory or self.kernels)))


@dataclass(frozen=True, eq=False)
class Plan:
    """A compiled model."""

    model: Model  # the values that decide its structure put in, constraints as equations
    parameters: tuple[Parameter, ...]  # those that are arguments of the plan's functions
    facts: Facts
    declared: Model  # as it was given
    _programs: dict[str, Any] = field(default_factory=dict, repr=False)
    _derivations: dict[str, Derivation] = field(default_factory=dict, repr=False)
    _objections: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        return self.model.name

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_derivations": {}}  # what is compiled needs them no more

    def program(self, form: Form[Program]) -> Program:
        """Return what a solver of this form runs, compiled when first asked for; see ``eqsolve.compile.forms``."""
        if form.name not in self._programs:
            source = self.model if form.source == "model" else self.derivation(form)
            parameters = (self.parameters,) if isinstance(self.model, System) else ()
            made = form.compile(source, *parameters)
            self._programs[form.name] = MEMBERS.compile(made) if self.model.generic else made
        return self._programs[form.name]

    def derivation(self, form: Form[Any] | None) -> Derivation:
        """Return the equations that the program of this form is compiled from, derived once."""
        source = "model" if form is None else form.source
        if source not in self._derivations:
            from eqsolve.passes.forms.structure import derive

            assert isinstance(self.model, System)
            path, change = source != "model", source == "changed paths"
            self._derivations[source] = derive(self.model, _reduce(self.declared), path=path, change=change)
        return self._derivations[source]

    def why_not_gaussian(self) -> str:
        """Return why the law of the paths is not known to be Gaussian; nothing when it is."""
        if "gaussian" not in self._objections:
            from eqsolve.compile.gaussian import why_not_gaussian

            made = self.derivation(GAUSSIAN).form
            assert made is not None
            self._objections["gaussian"] = why_not_gaussian(made)
        return self._objections["gaussian"]

    def why_not_convolution(self) -> str:
        """Return why the system is none of one-time functions with memory; nothing when it is."""
        if "convolution" not in self._objections:
            from eqsolve.passes.forms.convolution_form import why_not_convolution

            assert isinstance(self.model, System)
            self._objections["convolution"] = why_not_convolution(self.model)
        return self._objections["convolution"]


def find_facts(model: Model) -> Facts:
    """Return what a model is made of."""
    if not isinstance(model, System):
        names = tuple(item.name for item in getattr(model, "unknowns", ()))
        return Facts(model.kind, functions=names, indexed=model.is_indexed)
    from eqsolve.passes.forms.convolution_form import has_shifts
    from eqsolve.passes.rewrite.starts import STEP

    equations = model.equations
    return Facts(
        model.kind,
        tuple(item.name for item in model.processes),
        tuple(item.name for item in model.noises),
        tuple(item.name for item in model.kernels),
        tuple(eq.key for eq in equations if isinstance(eq.head, Function)),
        any(equation.rhs.has(Int) for equation in equations),
        any(eq.rhs.has(eq.target) for eq in equations if not eq.is_differential and eq.target is not None),
        not model.processes and _is_composition(model),
        tuple(item.name for item in model.whites),
        has_shifts(model),
        _fresh(model),
        model.is_indexed,
        model.step is None and STEP in model.parameters,
    )


def _is_composition(system: System) -> bool:
    """Whether kernels enter linearly or through integrals of at most one other, so that they can be matrices on few nodes."""
    marker = Time("i")
    for equation in system.equations:
        head = equation.head
        if isinstance(head, Correlation) and any(_on_diagonal(key, head) for key in system.init):
            return False  # a value on the diagonal means a cusp there
        for node in equation.rhs.atoms(Int):
            kernels = [value for value in node.integrand.atoms(Value) if value.head.arity == 2]
            if len(kernels) > 2 or not any(isinstance(value.head, Response) for value in kernels):
                return False
            if any(node.integrand.diff(value).has(value) for value in kernels):
                return False
        outside = equation.rhs.replace(lambda item: isinstance(item, Int), lambda item: marker)
        values = [value for value in outside.atoms(Value) if value.head.arity == 2]
        if any(outside.diff(value).atoms(Value) & set(values) for value in values):
            return False
        responses = {value for value in values if isinstance(value.head, Response)}
        if isinstance(head, Correlation) and responses:
            return False  # white noise: a cusp again
        if isinstance(head, Response) and not all(
            term.atoms(Value) & responses or marker in term.free_symbols for term in Add.make_args(expand(outside))
        ):
            return False  # a given kernel, which is no composition of others
    return bool(system.kernels)


def _on_diagonal(key: Any, head: Head) -> bool:
    return isinstance(key, Value) and key.head == head and isinstance(key.moments[0], Time) and len({*key.moments}) == 1


def _fresh(model: System) -> tuple[str, ...]:
    """Return the noises that have a part without memory in discrete time: as many modes as there are steps."""
    apart = {eq.head for eq in model.equations if eq.rhs.has(KroneckerDelta)}

    def rough(law: Any) -> bool:
        return law.has(KroneckerDelta) or any(value.head in apart for value in law.atoms(Value))

    found = [key for key, law in model.laws.items() if isinstance(law, IN_STEPS) or (isinstance(law, GP) and rough(law))]
    return tuple(item.name for key in found for item in members(key))


def _reduce(declared: Model) -> Reduction:
    """Return how the constraints of a system become equations."""
    from eqsolve.passes.rewrite.constraints import reduce_constraints
    from eqsolve.passes.rewrite.starts import put_starts

    assert isinstance(declared, System)
    return reduce_constraints(put_starts(declared))


def make_plan(declared: Model, put: Mapping[Parameter, Any]) -> Plan:
    """Return the plan of a model with some values put in."""
    model = _reduce(declared).system if isinstance(declared, System) else declared
    arguments = tuple(item for item in model.parameters if item not in put)
    model = model.subs(dict(put)) if put else model
    if not isinstance(model, System):
        return Plan(model, arguments, find_facts(model), declared)
    from eqsolve.passes.forms.structure import distribute_parameters

    equations = tuple(Equation(eq.lhs, distribute_parameters(eq.rhs), eq.location, eq.order) for eq in model.equations)
    model = model._mapped(distribute_parameters, "observables")._with(equations=equations)
    return Plan(model, arguments, find_facts(model), declared)
