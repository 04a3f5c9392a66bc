"""What is solved when a user names a model, settings and observables: a plan and its numbers.

Cases are chosen, a flow gives its mean-field system, constraints become equations, observables that are not wanted are left
out. Each of these is done once for a model and kept, so that other numbers of the same model need no symbols.
"""

import functools
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from eqsolve.compile.plan import Plan, Values, binder_of, make_plan
from eqsolve.errors import UsageError, did_you_mean
from eqsolve.language.binding import Binding, bind, bind_some, read_value
from eqsolve.language.fixed_point import Cases
from eqsolve.language.flow import Flow
from eqsolve.language.laws import IN_STEPS, Telegraph
from eqsolve.language.loading import load
from eqsolve.language.model import Model, Table
from eqsolve.language.printing import kept_by_model
from eqsolve.language.symbols import Parameter
from eqsolve.language.system import System
from eqsolve.passes.forms.structure import sign
from eqsolve.passes.rewrite.sensitivity import NamedDerivative, Sensitivity
from eqsolve.verbs import later

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
    """A plan, its numbers, and how it came from what was asked for.

    ``declared`` is the model, or the case chosen; ``step`` is the model's own step in time, ``reason`` why this case,
    ``case`` its name. With ``companions``, derivatives along parameters, the plan is that of the system enlarged by them, and
    ``base`` that of the system alone, with its values; ``switches`` is the system with arguments of non-smooth functions as
    observables, if there are any.
    """

    declared: Model
    plan: Plan
    values: Values
    step: float | None
    observables: tuple[str, ...]
    signature: str
    case: str = ""
    reason: str = ""
    companions: tuple[NamedDerivative, ...] = ()
    base: tuple[Plan, Values] | None = None
    switches: System | None = None


class _Known:
    """What was made of one model so far."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._made: dict[Any, Any] = {}

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _with_laws(self, laws: Mapping[str, Any]) -> Model:
        """Return the model with some laws put in: moments are taken of them, and they are differentiated too."""
        return self.model.subs(bind_some(self.model, laws)) if laws else self.model

    def select(self, names: Iterable[str] | str | None) -> Model:
        """Return the model with some of its observables."""
        key = names if names is None or isinstance(names, str) else tuple(names)
        return self._once(("select", key), lambda: select_observables(self.model, key))

    def mean_field(self, laws: Mapping[str, Any]) -> Model:
        """Return the mean-field system of a flow."""
        key = tuple((name, str(law)) for name, law in laws.items())
        return self._once(("mean field", key), lambda: later("dmft")(self._with_laws(laws), None))

    def settling(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings that make a noise of a flow certain, as a batch of all samples does: they go in first."""
        laws = getattr(self.model, "laws", {}).values()
        found = {item for law in laws for item in law.free_symbols if isinstance(item, Parameter)}
        known = {item.name: settings.get(item.name, self.model.given(item)) for item in found}
        return {name: value for name, value in known.items() if value is not None and read_value(value) in (0, 1)}

    @functools.cached_property
    def in_steps(self) -> tuple[Model, bool]:
        """The system in discrete time, and whether the length of a step is a parameter of it."""
        from eqsolve.passes.rewrite.starts import STEP, put_in_steps
        from eqsolve.passes.rewrite.white import in_ito_sense

        assert isinstance(self.model, System)
        made = put_in_steps(in_ito_sense(self.model))
        return made, made.step == STEP

    @functools.cached_property
    def additive(self) -> tuple[Model, bool]:
        """The system with its white noise added to the rest, and whether it is in steps whose length goes to zero."""
        from eqsolve.passes.rewrite.starts import STEP
        from eqsolve.passes.rewrite.white import make_additive

        made = make_additive(self.model) if isinstance(self.model, System) and self.model.whites else self.model
        return made, isinstance(made, System) and made.step is None and STEP in made.parameters

    @functools.cached_property
    def only_in_steps(self) -> str:
        """Why a system has no continuous time, in words that follow the name of the noise; nothing if it has."""
        from eqsolve.passes.rewrite.starts import STEP

        assert isinstance(self.model, System)
        if not self.model.stepped and self.model.step != STEP:
            return ""
        persistent = [item for item in self.model.stepped if isinstance(self.model.laws[item], Telegraph)]
        return "is followed in discrete time so far" if persistent else "is drawn afresh at every step"

    def sensitive(self, names: tuple[str, ...], laws: Mapping[str, Any], change: bool) -> Sensitivity:
        """Return the system beside its derivatives along parameters."""

        def make() -> Sensitivity:
            from eqsolve.passes.rewrite.sensitivity import derive_sensitivity

            return derive_sensitivity(self._with_laws(laws), names, change=change)  # type: ignore[arg-type]

        key = (names, change, tuple((name, str(law)) for name, law in laws.items()))
        return self._once(key, make)

    @functools.cached_property
    def plan(self) -> Plan:
        """The plan for values of the parameters that leave the structure as it is."""
        return make_plan(self.model, self.model.infinite)


_known = kept_by_model(_Known)


def solved_model(model: Model, settings: Mapping[str, Any]) -> tuple[Model, Mapping[str, Any]]:
    """Return the equations that are solved for a model, its flow's mean field among them, and the settings left for them."""
    if not isinstance(model, Flow):
        return model, settings
    names = {item.name for item in model.randoms}
    laws = {name: value for name, value in settings.items() if name in names} | _known(model).settling(settings)
    return _known(model).mean_field(laws), {name: value for name, value in settings.items() if name not in laws}


def refuse_continuous(declared: Model, model: Model, step: Any) -> None:
    """Raise for noise that has a meaning, or a solver, in discrete time only, where no step is given."""
    if step is not None or not isinstance(model, System) or not (why := _known(model).only_in_steps):
        return
    laws = {item.name: law for item, law in getattr(declared, "laws", {}).items() if isinstance(law, IN_STEPS)}
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
        solved = (_known(solved).in_steps if steps else _known(solved).additive)[0]
    return _known(solved).plan


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
        model, named = _known(model).additive if step is None else _known(model).in_steps
        settings = {**settings, "step": 1.0 if step is None else step} if named else settings
        refined = named and step is None
    if observables is not None:  # a parameter of those left out may still be set
        own = _known(model).select(observables)
        kept = own.settable
        bind_some(model, {name: value for name, value in settings.items() if name not in kept})
        model, settings = own, {name: value for name, value in settings.items() if name in kept}
    wanted = tuple(derivatives)
    companions: tuple[NamedDerivative, ...] = ()
    base: tuple[Plan, Values] | None = None
    switches: System | None = None
    declares = [name for name in model.settable if not (refined and name == "step")]
    if wanted and isinstance(model, System):
        bind(model, settings)  # what is wrong is said of the model as it was given
        names = {item.name for item in model.randoms}
        laws = {name: value for name, value in settings.items() if name in names}
        steps = step is not None or model.step is not None
        made = _known(model).sensitive(wanted, laws, not steps)
        model, companions, switches = made.system, made.companions, made.switches
        settings = {name: value for name, value in settings.items() if name not in names and model.knows(name)}
        if made.base.noises:
            binder = binder_of(made.base)
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
    length: float | None = None
    if isinstance(model, System) and model.step is not None:
        length = values.exact().number(model.step)
    return Task(
        declared, plan, values, length, tuple(model.observables), sign(declared), case, reason, companions, base, switches
    )
