"""Plans: a model compiled once, for all values of its parameters that leave its structure as it is.

``Plan.facts`` is what decides which solver fits; ``Plan.program(form)`` the functions and operators that a solver of this
form runs, made when first asked for. A plan is kept with its model, by what selects the structure: values of whole-number
parameters, of those in branches and exponents, which parameters vanish or are infinite, and the kinds of the laws.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from sympy import Add, Basic, Expr, KroneckerDelta, expand
from sympy.core.relational import Relational

from eqsolve.compile.forms import GAUSSIAN, Form
from eqsolve.compile.lowering import compile_law, lower
from eqsolve.errors import EqsolveError
from eqsolve.language.binding import Binding, ParameterDomain, bind, read_value
from eqsolve.language.fixed_point import Cases, Singularity
from eqsolve.language.laws import IN_STEPS
from eqsolve.language.loading import load
from eqsolve.language.model import Equation, Model
from eqsolve.language.nodes import GP, E, Int
from eqsolve.language.printing import kept_by_model
from eqsolve.language.symbols import Correlation, Function, Head, Parameter, Response, Time, Value
from eqsolve.language.system import System, members
from eqsolve.numerics.laws import NumericLaw
from eqsolve.passes.forms.structure import Chosen, Derivation, choosing_parameters, select_case
from eqsolve.passes.rewrite.constraints import Reduction
from eqsolve.passes.routing import SingularityBinding, bind_routed, is_found

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
            self._programs[form.name] = form.compile(source, *parameters)
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


# --- Numbers for a plan: what the user sets, read without symbols where numbers are given, and the
# plan they belong to.
#
# ``Binder`` knows once and for all what a model's parameters may be. Plain numbers go through it as
# they are; text, laws and whatever is wrong go through ``eqsolve.language.binding``, which reads
# exactly and words the errors.


# --- Which branches numbers of the parameters select: compared as floats, and exactly where these
# are too close to tell.


def is_plain(value: Any) -> bool:
    """Whether a value is a finite number as it is; numpy's floats are."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class Branches:
    """On which side of every condition on parameters some numbers lie, and the whole numbers among them."""

    def __init__(self, model: Model, conditions: Sequence[Basic]) -> None:
        relations = sorted({item for condition in conditions for item in condition.atoms(Relational)}, key=str)
        self._whole = tuple(item.name for item in model.parameters if item.is_integer)
        self._relations = relations
        self._sides = lower([side for item in relations for side in (item.lhs, item.rhs)], [], model.parameters)

    def key(self, numbers: Mapping[str, float], exact: Callable[[], Mapping[Parameter, Expr]]) -> tuple[Any, ...]:
        """Return what selects a plan; the numbers are asked for exactly where two sides are close."""
        found = self._sides.at(numbers)() if self._relations else []
        signs = []
        for place, (left, right) in enumerate(zip(found[::2], found[1::2], strict=True)):
            sign = (left > right) - (left < right)
            # sides of a condition that are nearer than this are compared exactly
            if sign and abs(left - right) <= 1e-12 * (abs(left) + abs(right)) and not math.isinf(left):
                relation = self._relations[place]
                gap = (relation.lhs - relation.rhs).subs(exact())
                sign = int(gap > 0) - int(gap < 0)
            signs.append(int(sign))
        return (tuple(numbers[name] for name in self._whole), tuple(signs))


@dataclass(frozen=True, eq=False)
class Values:
    """Numbers of the parameters and laws of the random constants, by name.

    ``settings`` is what results record; ``exact`` gives the same as exact numbers, for more digits than floats have.
    ``given`` names the constants whose declared law was replaced, ``behind`` is the fixed point that gives a singularity its
    laws.
    """

    numbers: Mapping[str, float]
    laws: Mapping[str, NumericLaw]
    settings: Mapping[str, float | str]
    exact: Callable[[], Binding]
    given: frozenset[str] = frozenset()
    behind: tuple[Plan, Values] | None = None
    tables: Mapping[str, Any] = field(default_factory=dict)


class Binder:
    """Reads settings of one model and finds the plan for them."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.choosing = choosing_parameters(model) if isinstance(model, System) else frozenset()
        self._names = {item.name: item for item in model.parameters}
        self._domains = {item.name: ParameterDomain.of(item) for item in model.parameters}
        self._free = frozenset(item.name for item in model.parameters if item not in self.choosing)
        self._conditions = [(item.rel_op, lower([item.lhs, item.rhs], [], model.parameters)) for item in model.conditions]
        self._base: Values | None = None
        self._plans: dict[Any, Plan] = {}
        known = {item.name: model.given(item) for item in model.parameters}
        self._needed = frozenset(name for name, value in known.items() if value is None)
        self._defaults = {name: float(read_value(value)) for name, value in known.items() if value is not None}
        choices = model.law_of if isinstance(model, Singularity) else model.cases if isinstance(model, Cases) else ()
        self._choices = Branches(model, [condition for condition, _ in choices if isinstance(condition, Basic)])
        self._chosen: dict[Any, Chosen] = {}

    # --- reading
    def read(self, settings: Mapping[str, Any]) -> Values:
        """Return the numbers for given settings; errors name the parameter, its domain and the nearest name."""
        quickly = self._quickly_routed if getattr(self.model, "law_of", ()) else self._quickly
        return quickly(settings) or self.take(bind_routed(self.model, settings))

    def take(self, binding: Binding) -> Values:
        """Return the numbers of a binding."""
        numbers = {item.name: float(value) for item, value in binding.values.items()}
        laws = {item.name: law.numeric() for item, law in binding.laws.items() if not law.free_symbols}
        known = {item: item.law and item.law.xreplace(dict(binding.values)) for item in binding.laws}
        given = frozenset(item.name for item, law in binding.laws.items() if law not in (item.law, known[item]))
        behind = None
        if isinstance(binding, SingularityBinding) and binding.law is not None:
            binder = binder_of(binding.law.model)
            there = binder.take(binding.law)
            behind = (binder.plan(there), there)
        return Values(numbers, laws, binding.settings(), functools.partial(_itself, binding), given, behind)

    def _quickly(self, settings: Mapping[str, Any]) -> Values | None:
        """Return the numbers where all settings are plain ones inside their domains, and laws depend on them plainly."""
        if any(name not in self._free or not is_plain(value) for name, value in settings.items()):
            return None
        if self._base is None:
            self._prepare(settings)
        if self._base is None or not self._fixed or not self._needed <= settings.keys():
            return None
        given = {name: float(value) for name, value in settings.items()}
        if any(self._domains[name].problem(value) for name, value in given.items()):
            return None
        numbers = {name: given.get(name, self._defaults.get(name, math.nan)) for name in self._names}
        if any(not _HOLDS[kind](*sides.at(numbers)()) for kind, sides in self._conditions):
            return None
        chosen = dict(settings)
        laws, shown = dict(self._base.laws), {**numbers, **self._texts}
        for name, (kind, law) in self._moving.items():
            laws[name] = law.at(numbers)
            shown[name] = f"{kind}({', '.join(f'{float(item):.15g}' for item in law.numbers.at(numbers)())})"
        return Values(numbers, laws, shown, functools.partial(bind, self.model, chosen), self._base.given)

    def _quickly_routed(self, settings: Mapping[str, Any]) -> Values | None:
        """Return the numbers of a singularity and of the fixed point behind it, where those of both are plain."""
        own = self._quickly({name: value for name, value in settings.items() if name in self._names})
        if own is None:
            return None
        key = self._choices.key(own.numbers, lambda: own.exact().values)
        if key not in self._chosen:
            behind = bind_routed(self.model, settings).law  # type: ignore[attr-defined]
            self._chosen[key] = Chosen(behind.model, {}, "")
        binder = binder_of(self._chosen[key].model)
        routed = {name: value for name, value in {**own.numbers, **settings}.items() if name in binder._names}
        if not settings.keys() <= self._names.keys() | routed.keys():
            return None
        there = binder._quickly(routed)
        if there is None:
            return None
        chosen = dict(settings)
        return replace(
            own,
            settings={**there.settings, **own.settings},
            exact=functools.partial(bind_routed, self.model, chosen),
            behind=(binder.plan(there), there),
        )

    def _prepare(self, settings: Mapping[str, Any]) -> None:
        """Keep what does not change with plain numbers: the laws."""
        try:
            self._base = self.take(bind(self.model, settings))
        except EqsolveError:  # whoever reads exactly says why
            return
        laws = [(item, law) for item in self.model.randoms if (law := self.model.given(item)) is not None]
        found = {item.name for item, _ in laws if is_found(self.model, item)}
        moving = {item.name: law for item, law in laws if item.name not in found and law.free_symbols}
        self._fixed = not any(law.parts or law.has(E) for law in moving.values())
        known = self.model.parameters
        plain = moving if self._fixed else {}
        self._moving = {name: (type(law).__name__, compile_law(law, known)) for name, law in plain.items()}
        self._texts = {item.name: self._base.settings[item.name] for item, _ in laws if item.name not in found}

    def choose(self, settings: Mapping[str, Any]) -> Chosen:
        """Return which of several cases settings choose; told from plain numbers without symbols."""
        assert isinstance(self.model, Cases)
        plain = {name: float(value) for name, value in settings.items() if is_plain(value)}
        numbers = {**self._defaults, **{name: value for name, value in plain.items() if name in self._names}}
        if len(plain) == len(settings) and numbers.keys() == self._names.keys():
            exact = lambda: {self._names[name]: read_value(value) for name, value in numbers.items()}  # noqa: E731
            key = self._choices.key(numbers, exact)
            if key not in self._chosen:
                self._chosen[key] = select_case(self.model, settings)
            chosen = self._chosen[key]
            own = binder_of(chosen.model)._names
            if load(chosen.model.name) is chosen.model and plain.keys() <= own.keys() | self._names.keys():
                kept = {name: value for name, value in {**numbers, **plain}.items() if name in own}
                return Chosen(chosen.model, kept, chosen.reason)
        return select_case(self.model, settings)

    # --- plans
    def plan(self, values: Values) -> Plan:
        """Return the plan for the structure that these values select; models without time choose in their programs."""
        put: dict[str, float] = {}
        kinds: tuple[tuple[str, str], ...] = ()
        if isinstance(self.model, System):
            put = {
                name: value
                for name, value in values.numbers.items()
                if name not in self._free or value == 0 or math.isinf(value)
            }
            kinds = tuple((name, type(law).__name__) for name, law in values.laws.items())
        key = (tuple(put.items()), kinds)
        if key not in self._plans:
            exact: Mapping[Parameter, Expr] = values.exact().values
            self._plans[key] = make_plan(self.model, {self._names[name]: exact[self._names[name]] for name in put})
        return self._plans[key]


_HOLDS = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne}


def _itself(binding: Binding) -> Binding:
    return binding


binder_of = kept_by_model(Binder)
"""Return the binder of a model, kept."""


def case_of(model: Model, settings: Mapping[str, Any]) -> tuple[Model, Mapping[str, Any]]:
    """Return the model that is solved, chosen where there are cases, and those of the settings that concern it."""
    while isinstance(model, Cases):
        chosen = binder_of(model).choose(settings)
        model, settings = chosen.model, chosen.settings
    return model, settings
