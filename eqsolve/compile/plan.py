"""Plans: a model compiled once, for all values of its parameters that leave its structure as it is.

``Plan.facts`` is what decides which solver fits; ``Plan.program(form)`` the functions and operators that a solver of this
form runs, made when first asked for. A plan is kept with its model, by what selects the structure: values of whole-number
parameters, of those in branches and exponents, which parameters vanish or are infinite, and the kinds of the laws.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from sympy import Add, Basic, Expr, KroneckerDelta, expand
from sympy.core.relational import Relational

from eqsolve.compile.forms import GAUSSIAN, Form
from eqsolve.compile.lowering import compile_law, lower
from eqsolve.compile.members import write_members
from eqsolve.errors import EqsolveError, UsageError, did_you_mean
from eqsolve.language.binding import Binding, ParameterDomain, bind, bind_some, read_value
from eqsolve.language.indices import counts
from eqsolve.language.laws import IN_STEPS, Telegraph
from eqsolve.language.loading import load
from eqsolve.language.model import Equation, Model, Table
from eqsolve.language.nodes import GP, E, Int
from eqsolve.language.printing import kept_by_model
from eqsolve.language.symbols import Correlation, CrossCorrelation, Function, Parameter, Response, Time, Value
from eqsolve.language.system import Cases, Flow, Singularity, System, members
from eqsolve.numerics.arrays import member_names
from eqsolve.numerics.laws import NumericLaw
from eqsolve.passes.forms.structure import (
    Chosen,
    Derivation,
    SingularityBinding,
    bind_routed,
    choosing_parameters,
    distribute_parameters,
    is_found,
    select_case,
    signature_of,
)

if TYPE_CHECKING:
    from eqsolve.passes.rewrite.constraints import Reduction
    from eqsolve.passes.rewrite.sensitivity import NamedDerivative, Sensitivity

Program = TypeVar("Program")


@dataclass(frozen=True)
class Facts:
    """Structural properties of a model, by which a solver is selected."""

    kind: str  # "System", "FixedPoint" or "Singularity"
    processes: tuple[str, ...] = ()  # unknowns along paths
    noises: tuple[str, ...] = ()  # driving processes
    kernels: tuple[str, ...] = ()  # functions of two times
    pairs: tuple[str, ...] = ()  # those of them that are correlations of two different members
    functions: tuple[str, ...] = ()  # functions of one time; of a fixed point, its unknowns
    memory: bool = False  # whether integrals over the past occur
    implicit: bool = False  # whether an unknown stands in its own definition
    composition: bool = False  # whether kernels enter linearly or composed with one other
    white_noises: tuple[str, ...] = ()  # those of the driving processes that are white noise
    shifted_times: bool = False  # whether functions stand at shifted times, t − s or t − τ
    step_noises: tuple[str, ...] = ()  # noises with a part that is independent from step to step
    has_families: bool = False  # whether unknowns are families, on arrays
    ode_families: bool = False  # whether these are integrated by an adaptive method
    needs_step_limit: bool = False  # whether the limit of short time steps is meant

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
            program = form.compile(source, *parameters)
            self._programs[form.name] = write_members(program) if self.model.generic else program
        return self._programs[form.name]

    def derivation(self, form: Form[Any] | None) -> Derivation:
        """Return the equations that the program of this form is compiled from, derived once."""
        source = "model" if form is None else form.source
        if source not in self._derivations:
            from eqsolve.passes.forms.path_form import derive_path_form
            from eqsolve.passes.rewrite.substitution import apply_substitutions, derive_substitutions

            system, change = self.model, source == "changed paths"
            assert isinstance(system, System)
            changes = derive_substitutions(system)
            system = apply_substitutions(system, changes) if change else system
            form_of_paths = derive_path_form(system) if source != "model" else None
            self._derivations[source] = Derivation(system, _reduce(self.declared), changes, change, form_of_paths)
        return self._derivations[source]

    @functools.cached_property
    def why_not_gaussian(self) -> str:
        """Why the law of the paths is not known to be Gaussian; nothing when it is."""
        from eqsolve.compile.gaussian import why_not_gaussian

        form = self.derivation(GAUSSIAN).form
        assert form is not None
        return why_not_gaussian(form)

    @functools.cached_property
    def why_not_convolution(self) -> str:
        """Why the system is none of one-time functions with memory; nothing when it is."""
        from eqsolve.passes.forms.convolution_form import why_not_convolution

        assert isinstance(self.model, System)
        return why_not_convolution(self.model)


def find_facts(model: Model) -> Facts:
    """Return what a model is made of."""
    if not isinstance(model, System):
        families = {item.base: item.axes for item in getattr(model, "unknowns", ())}
        shapes = {base: counts(axes) for base, axes in families.items() if all(axis.size.is_Integer for axis in axes)}
        names = tuple(name for base in families for name in member_names(base, shapes.get(base, ())))
        return Facts(model.kind, functions=names, has_families=model.is_indexed)
    from eqsolve.passes.forms.convolution_form import has_shifts
    from eqsolve.passes.rewrite.indices import is_ode_family
    from eqsolve.passes.rewrite.steps import STEP

    equations = model.equations
    sides = [*(eq.rhs for eq in equations), *model.observables.values()]
    return Facts(
        kind=model.kind,
        processes=tuple(item.name for item in model.processes),
        noises=tuple(item.name for item in model.noises),
        kernels=tuple(item.name for item in model.kernels),
        pairs=tuple(item.name for item in model.kernels if isinstance(item, CrossCorrelation)),
        functions=tuple(eq.key for eq in equations if isinstance(eq.head, Function)),
        memory=any(expr.has(Int) for expr in sides),
        implicit=any(eq.rhs.has(eq.target) for eq in equations if not eq.is_differential and eq.target is not None),
        composition=not model.processes and _is_composition(model),
        white_noises=tuple(item.name for item in model.whites),
        shifted_times=has_shifts(model),
        step_noises=_fresh(model),
        has_families=model.is_indexed,
        ode_families=is_ode_family(model),
        needs_step_limit=model.step is None and STEP in model.parameters,
    )


def _is_composition(system: System) -> bool:
    """Whether kernels enter linearly or through integrals of at most one other, so that they can be matrices on few nodes."""
    marker = Time("i")
    for equation in system.equations:
        head = equation.head
        given = [key.moments for key in system.init if isinstance(key, Value) and key.head == head]
        if isinstance(head, Correlation) and any(isinstance(times[0], Time) and len({*times}) == 1 for times in given):
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


def _fresh(model: System) -> tuple[str, ...]:
    """Return the noises that have a part without memory in discrete time: as many modes as there are steps."""
    apart = {eq.head for eq in model.equations if eq.rhs.has(KroneckerDelta)}

    def rough(law: Any) -> bool:
        return law.has(KroneckerDelta) or any(value.head in apart for value in law.atoms(Value))

    fresh = [key for key, law in model.laws.items() if isinstance(law, IN_STEPS) or (isinstance(law, GP) and rough(law))]
    return tuple(item.name for key in fresh for item in members(key))


def _reduce(declared: Model) -> Reduction:
    """Return how the constraints of a system become equations."""
    from eqsolve.passes.rewrite.constraints import reduce_constraints
    from eqsolve.passes.rewrite.means import name_means
    from eqsolve.passes.rewrite.starts import put_starts

    assert isinstance(declared, System)
    return reduce_constraints(name_means(put_starts(declared)))


def make_plan(declared: Model, put: Mapping[Parameter, Any]) -> Plan:
    """Return the plan of a model with some values put in."""
    model = _reduce(declared).system if isinstance(declared, System) else declared
    arguments = tuple(item for item in model.parameters if item not in put)
    model = model.subs(dict(put)) if put else model
    if not isinstance(model, System):
        return Plan(model, arguments, find_facts(model), declared)
    equations = tuple(Equation(eq.lhs, distribute_parameters(eq.rhs), eq.location, eq.order) for eq in model.equations)
    model = model._mapped(distribute_parameters, "observables")._with(equations=equations)
    return Plan(model, arguments, find_facts(model), declared)


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
        sides = self._sides.at(numbers)() if self._relations else []
        signs = []
        for place, (left, right) in enumerate(zip(sides[::2], sides[1::2], strict=True)):
            sign = (left > right) - (left < right)
            # sides of a condition that are nearer than this are compared exactly
            if sign and abs(left - right) <= 1e-12 * (abs(left) + abs(right)) and not math.isinf(left):
                relation = self._relations[place]
                gap = (relation.lhs - relation.rhs).subs(exact())
                sign = int(gap > 0) - int(gap < 0)
            signs.append(int(sign))
        return (tuple(numbers[name] for name in self._whole), tuple(signs))


# --- Parameter values, and the plan that they select.
#
# ``Binder`` knows once and for all what a model's parameters may be. Plain numbers bypass sympy;
# text, laws and whatever is wrong go through ``eqsolve.language.binding``, which reads exactly and
# words the errors.


@dataclass(frozen=True, eq=False)
class Values:
    """Numbers of the parameters and laws of the random constants, by name."""

    numbers: Mapping[str, float]
    laws: Mapping[str, NumericLaw]
    settings: Mapping[str, float | str]  # what results record
    exact: Callable[[], Binding]  # the same as exact numbers, for more digits than floats have
    given: frozenset[str] = frozenset()  # constants whose declared law was replaced
    behind: tuple[Plan, Values] | None = None  # the fixed point that gives a singularity its laws
    tables: Mapping[str, Any] = field(default_factory=dict)

    def precise_law(self, name: str, digits: int) -> NumericLaw:
        """Return the law of a random constant in numbers of mpmath."""
        return next(law for item, law in self.exact().laws.items() if item.name == name).numeric(digits)

    def all_laws(self, program: Any) -> dict[str, Any]:
        """Return the laws of constants, with those of initial values in a program."""
        return dict(self.laws) | {name: law.at(self.numbers, self.laws) for name, law in program.laws}


class Binder:
    """Reads settings of one model and finds the plan for them."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.choosing = choosing_parameters(model) if isinstance(model, System) else frozenset()
        self._names = {item.name: item for item in model.parameters}
        self._domains = {item.name: ParameterDomain(item) for item in model.parameters}
        self._free = frozenset(item.name for item in model.parameters if item not in self.choosing)
        self._conditions = lower(list(model.conditions), [], model.parameters)
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
        """Return the values that a binding of settings gives."""
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
        if not all(self._conditions.at(numbers)()):
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
        return replace(
            own,
            settings={**there.settings, **own.settings},
            exact=functools.partial(bind_routed, self.model, dict(settings)),
            behind=(binder.plan(there), there),
        )

    def _prepare(self, settings: Mapping[str, Any]) -> None:
        """Keep what does not change with plain numbers: the laws."""
        try:
            self._base = self.take(bind(self.model, settings))
        except EqsolveError:  # whoever reads exactly says why
            return
        laws = [(item, law) for item in self.model.randoms if (law := self.model.given(item)) is not None]
        derived = {item.name for item, _ in laws if is_found(self.model, item)}
        moving = {item.name: law for item, law in laws if item.name not in derived and law.free_symbols}
        self._fixed = not any(law.parts or law.has(E) for law in moving.values())
        known = self.model.parameters
        plain = moving if self._fixed else {}
        self._moving = {name: (type(law).__name__, compile_law(law, known)) for name, law in plain.items()}
        self._texts = {item.name: self._base.settings[item.name] for item, _ in laws if item.name not in derived}

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
                concerned = {name: value for name, value in {**numbers, **plain}.items() if name in own}
                return Chosen(chosen.model, concerned, chosen.reason)
        return select_case(self.model, settings)

    # --- plans
    def plan(self, values: Values) -> Plan:
        """Return the plan for the structure that these values select; models without time choose in their programs."""
        key: tuple[Any, Any] = ((), ())
        if isinstance(self.model, System):
            own = ((name, value) for name, value in values.numbers.items() if name in self._names)
            put = tuple((name, number) for name, number in own if name not in self._free or number == 0 or math.isinf(number))
            key = (put, tuple((name, type(law).__name__) for name, law in values.laws.items()))
        if key not in self._plans:
            exact: Mapping[Parameter, Expr] = values.exact().values
            self._plans[key] = make_plan(self.model, {self._names[name]: exact[self._names[name]] for name, _ in key[0]})
        return self._plans[key]


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


# --- What is solved when a user names a model, settings and observables: a plan and its numbers.
#
# Cases are chosen, a flow gives its mean-field system, constraints become equations, observables
# that are not wanted are left out. Each of these is done once for a model and kept, so that other
# numbers of the same model need no symbols.

# --- Which observables of a model are wanted.
AnyModel = TypeVar("AnyModel", bound=Model)


def select_observables(model: AnyModel, names: Iterable[str] | str | None) -> AnyModel:
    """Return a model with the named observables only, in its own order; all of them without names."""
    if names is None:
        return model
    wanted = [names] if isinstance(names, str) else list(names)
    declared = model.observables
    for name in wanted:
        if name not in declared:
            has = f"it has: {', '.join(declared)}" if declared else "it declares none"
            known = "; unknowns are always computed" if name in model.names else ""
            raise UsageError(f"model `{model.name}` has no observable `{name}`{did_you_mean(name, declared)} ({has}{known})")
    if not wanted:
        raise UsageError(f"observables: name at least one of {', '.join(declared) or 'none'}, or leave it out")
    return model._with(observables=Table((name, value) for name, value in declared.items() if name in wanted))


@dataclass(frozen=True, eq=False)
class Task:
    """A plan, its numbers, and how it came from what was asked for."""

    declared: Model  # or the case chosen
    plan: Plan
    values: Values
    step: float | None  # the model's own step in time
    observables: tuple[str, ...]
    signature: str
    case: str = ""  # its name,
    reason: str = ""  # and why it was chosen
    # With derivatives along parameters, the plan is that of the system enlarged by them; ``base`` is
    # that of the system alone, with its values.
    companions: tuple[NamedDerivative, ...] = ()
    base: tuple[Plan, Values] | None = None
    switches: System | None = None  # observes the arguments of non-smooth functions


@kept_by_model
def _made(model: Model) -> dict[Any, Any]:
    """Return what was made of one model so far."""
    return {}


def _once(model: Model, what: Any, laws: Mapping[str, Any], make: Callable[[Any], Any]) -> Any:
    """Return what is made of a model with some laws put in: moments are taken of them, and they are differentiated too."""
    known, key = _made(model), (what, *((name, str(law)) for name, law in laws.items()))
    if key not in known:
        known[key] = make(model.subs(bind_some(model, laws)) if laws else model)
    return known[key]


def _mean_field(flow: Any) -> Model:
    from eqsolve.passes.flow.dmft import derive_dmft, without_jumps

    return derive_dmft(without_jumps(flow))


@kept_by_model
def _in_steps(model: System) -> tuple[Model, bool]:
    """Return the system in discrete time, and whether the length of a step is a parameter of it."""
    from eqsolve.passes.rewrite.steps import STEP, put_in_steps
    from eqsolve.passes.rewrite.white import in_ito_sense

    stepped = put_in_steps(in_ito_sense(model))
    return stepped, stepped.step == STEP


@kept_by_model
def _additive(model: System) -> tuple[Model, bool]:
    """Return the system with its white noise added to the rest, and whether it is in steps whose length goes to zero."""
    from eqsolve.passes.rewrite.means import follow_memories
    from eqsolve.passes.rewrite.steps import STEP
    from eqsolve.passes.rewrite.white import make_additive

    additive = make_additive(model) if model.whites else follow_memories(model)
    return additive, additive.step is None and STEP in additive.parameters


@kept_by_model
def _why_in_steps(model: System) -> str:
    """Return why a system has no continuous time, in words that follow the name of the noise; nothing if it has."""
    from eqsolve.passes.rewrite.steps import STEP

    if not model.stepped and model.step != STEP:
        return ""
    persistent = any(isinstance(model.laws[item], Telegraph) for item in model.stepped)
    return "is followed in discrete time so far" if persistent else "is drawn afresh at every step"


@kept_by_model
def _plan_of(model: Model) -> Plan:
    """Return the plan for values of the parameters that leave the structure as it is."""
    return make_plan(model, model.infinite)


def solved_model(model: Model, settings: Mapping[str, Any]) -> tuple[Model, Mapping[str, Any]]:
    """Return the equations that are solved for a model, its flow's mean field among them, and the settings left for them."""
    if not isinstance(model, Flow):
        return model, settings
    names = {item.name for item in model.randoms}
    laws = {name: value for name, value in settings.items() if name in names}
    # a value that makes a noise certain, as a batch of all samples does, goes in first
    moving = {item for law in model.laws.values() for item in law.free_symbols if isinstance(item, Parameter)}
    known = {item.name: settings.get(item.name, model.given(item)) for item in moving}
    laws |= {name: value for name, value in known.items() if value is not None and read_value(value) in (0, 1)}
    return _once(model, "mean field", laws, _mean_field), {name: value for name, value in settings.items() if name not in laws}


def refuse_continuous(declared: Model, model: Model, step: Any) -> None:
    """Raise for noise that has a meaning, or a solver, in discrete time only, where no step is given."""
    if step is not None or not isinstance(model, System) or not (why := _why_in_steps(model)):
        return
    laws = {item.name: law for item, law in declared.laws.items() if isinstance(law, IN_STEPS)}
    name, law = next(iter((laws or {item.name: model.laws[item] for item in model.stepped}).items()))
    raise UsageError(
        f"model `{declared.name}`: the noise `{name}` ~ {law} {why}; say how long a step is: step=0.1, on the command "
        "line --step 0.1"
    )


def compile(model: Model | str, *, steps: bool = False) -> Plan:
    """Return the plan of a model, as ``solve`` runs it for values of its parameters that leave its structure as it is.

    Of a flow, this is the plan of its mean-field equations; with ``steps``, in discrete time. What is infinite by default is
    infinite in it. It is made once for a model.

    Examples
    --------
    >>> plan = eqsolve.compile("dln")
    >>> plan.facts.noises
    ('z',)
    """
    solved = solved_model(load(model) if isinstance(model, str) else model, {})[0]
    if isinstance(solved, System):
        solved = (_in_steps(solved) if steps else _additive(solved))[0]
    return _plan_of(solved)


def _shown(values: Values, names: Container[str]) -> Values:
    """Return values that record the settings of these names alone: starts and supports may be constants of our own."""
    return replace(values, settings={name: value for name, value in values.settings.items() if name in names})


def make_task(
    model: Model, settings: Mapping[str, Any], observables: Iterable[str] | str | None = None,
    derivatives: Iterable[str] = (), *, step: Any = None,
) -> Task:  # fmt: skip
    """Return what is to be solved; settings are read, and errors name what is wrong with them.

    A system is solved beside its ``derivatives`` along parameters; with a ``step``, in discrete time and its own variables.
    """
    case = reason = ""
    refined = False
    if isinstance(model, Cases):
        chosen = binder_of(model).choose(settings)
        model, settings, case, reason = chosen.model, chosen.settings, chosen.model.name, chosen.reason
    declared = model
    model, settings = solved_model(model, settings)
    if isinstance(model, System):
        refuse_continuous(declared, model, step)
        model, named = _additive(model) if step is None else _in_steps(model)
        settings = {**settings, "step": 1.0 if step is None else step} if named else settings
        refined = named and step is None
    if observables is not None:  # a parameter of those left out may still be set
        shown = observables if isinstance(observables, str) else tuple(observables)
        own: Model = _once(model, shown, {}, functools.partial(select_observables, names=shown))
        settable = own.settable
        bind_some(model, {name: value for name, value in settings.items() if name not in settable})
        model, settings = own, {name: value for name, value in settings.items() if name in settable}
    wanted = tuple(derivatives)
    companions: tuple[NamedDerivative, ...] = ()
    base: tuple[Plan, Values] | None = None
    switches: System | None = None
    declares = [name for name in model.settable if not (refined and name == "step")]
    if wanted and isinstance(model, System):
        from eqsolve.passes.rewrite.sensitivity import derive_sensitivity

        bind(model, settings)  # what is wrong is said of the model as it was given
        names = {item.name for item in model.randoms}
        laws = {name: value for name, value in settings.items() if name in names}
        steps = step is not None or model.step is not None
        derive = functools.partial(derive_sensitivity, names=wanted, change=not steps)
        sensitivity: Sensitivity = _once(model, (wanted, steps), laws, derive)
        model, companions, switches = sensitivity.system, sensitivity.companions, sensitivity.switches
        settings = {name: value for name, value in settings.items() if name not in names and model.knows(name)}
        if sensitivity.base.noises:
            binder = binder_of(sensitivity.base)
            alone = _shown(binder.read(settings), declares)
            base = (binder.plan(alone), alone)
    binder = binder_of(model)
    if isinstance(model, System) and model.constraints:
        from eqsolve.passes.rewrite.constraints import without_constraints

        binding: Binding = without_constraints(bind(model, settings))
        binder = binder_of(binding.model)
        values = binder.take(binding)
    else:
        values = binder.read(settings)
    values = _shown(values, declares) if companions or refined else values
    plan = binder.plan(values)
    length = None if model.step is None else values.exact().number(model.step)
    seen, signature = tuple(model.observables), signature_of(declared)
    return Task(declared, plan, values, length, seen, signature, case, reason, companions, base, switches)
