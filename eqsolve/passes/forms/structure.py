"""Which values of parameters change a model's structure: those are put in before it is compiled, the others stay arguments."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sympy import Add, And, Basic, Expr, Max, Min, Mul, Or, Piecewise, Pow, S, factorial
from sympy.core.relational import Relational

from eqsolve.errors import ModelError, ParameterError, UsageError
from eqsolve.language.binding import Binding, bind, bind_some, read_value, refuse_several, refuse_unknown
from eqsolve.language.laws import Empirical, Normal
from eqsolve.language.loading import load
from eqsolve.language.model import Equation, Model, Table, leaves
from eqsolve.language.nodes import E
from eqsolve.language.printing import kept_by_model
from eqsolve.language.symbols import Head, Named, Parameter, Random, Unknown
from eqsolve.language.system import Cases, FixedPoint, Singularity, System
from eqsolve.passes.forms.expressions import rebuilt
from eqsolve.passes.forms.path_form import PathForm

if TYPE_CHECKING:
    from eqsolve.passes.rewrite.constraints import Reduction
    from eqsolve.passes.rewrite.substitution import Substitution


# --- Bring a fixed point to its smallest form: branches on parameters resolved, unknowns given by others eliminated.
@dataclass(frozen=True)
class Reduced:
    """A fixed point as it is solved."""

    unknowns: tuple[Unknown, ...]
    equations: tuple[Equation, ...]  # as many
    eliminated: tuple[tuple[Unknown, Expr], ...]  # given by the others, in order of evaluation
    observables: dict[str, Expr]  # in the unknowns and standardised Gaussian variables
    variables: dict[str, Expr]
    # standard normal variables in place of those whose law contains unknowns or parameters
    gaussians: dict[str, tuple[Random, Expr]]
    mapping: dict[Basic, Basic]


@functools.lru_cache(maxsize=128)
def conditions_of(model: FixedPoint) -> list[Basic]:
    """Return the conditions of branches that involve parameters only, in a fixed order."""
    laws = tuple(item.law for item in model.randoms if item.law is not None)
    parts = (model.equations, model.observables, model.variables, laws)
    pieces = {node for leaf in leaves(parts) for node in leaf.atoms(Piecewise)}
    conditions = {c for node in pieces for _, c in node.args if c.free_symbols == c.atoms(Parameter) != set()}
    return sorted(conditions, key=str)


def _resolver(model: FixedPoint, values: Mapping[Parameter, Expr]) -> Any:
    whole = {item: value for item, value in values.items() if item.is_integer}
    truths = {c: S.true if c.subs(values) == True else S.false for c in conditions_of(model)}  # noqa: E712

    def resolve(expr: Any) -> Any:
        """Replace branches on parameters by the one taken, bottom up, then whole numbers by their values."""
        if not expr.args:
            return whole.get(expr, expr)
        if isinstance(expr, Piecewise):
            pairs = [(v, truth) for v, c in expr.args if (truth := truths.get(c, c)) != False]  # noqa: E712
            if pairs and pairs[0][1] == True:  # noqa: E712
                return resolve(pairs[0][0])
            return Piecewise(*((resolve(v), c) for v, c in pairs))
        return rebuilt(expr, resolve)

    return resolve


def reduce_fixed_point(
    model: FixedPoint, values: Mapping[Parameter, Expr], declared: frozenset[str], *, eliminate: bool = True
) -> Reduced:
    """Return the reduced system; ``declared`` names the Gaussian variables that keep the law of the model file."""
    resolve = _resolver(model, values)
    gaussians: dict[str, tuple[Random, Expr]] = {}
    mapping: dict[Basic, Basic] = {}
    for item in model.randoms:
        if isinstance(item.law, Normal) and item.name in declared:
            mean, variance = (resolve(arg) for arg in item.law.args)
            standard = Random(f"{item.name}_standard")
            gaussians[item.name] = (standard, variance)
            mapping[item] = mean + variance**S.Half * standard
    standards = {standard for standard, _ in gaussians.values()}
    swaps: list[dict[Basic, Basic]] = []  # of eliminated unknowns, in the order in which they are

    def prepare(expr: Any) -> Any:
        expr = resolve(expr).xreplace(mapping)
        expr = expr.xreplace({node: _moment(node, standards) for node in expr.atoms(E)})
        for swap in swaps:
            expr = expr.subs(swap)
        return expr

    equations = [Equation(prepare(eq.lhs), prepare(eq.rhs), eq.location, {}) for eq in model.equations]
    eliminated: list[tuple[Unknown, Expr]] = []
    while eliminate and (explicit := _explicit(equations)):
        index, item, expr = explicit
        equations.pop(index)
        swaps.append({item: expr})
        equations = [Equation(eq.lhs.subs(swaps[-1]), eq.rhs.subs(swaps[-1]), eq.location, {}) for eq in equations]
        eliminated = [(other, value.subs(swaps[-1])) for other, value in eliminated] + [(item, expr)]
    gone = {item for item, _ in eliminated}
    return Reduced(
        tuple(item for item in model.unknowns if item not in gone), tuple(equations), tuple(eliminated),
        {name: prepare(expr) for name, expr in model.observables.items()},
        {name: prepare(expr) for name, expr in model.variables.items()},
        {name: (standard, prepare(variance)) for name, (standard, variance) in gaussians.items()},
        {item: prepare(item) for item in mapping},
    )  # fmt: skip


def hold(reduced: Reduced, held: tuple[Unknown, ...], dropped: tuple[int, ...]) -> Reduced:
    """Return a system in which some unknowns are given numbers, without as many of its equations."""
    return replace(
        reduced,
        unknowns=tuple(item for item in reduced.unknowns if item not in held),
        equations=tuple(eq for place, eq in enumerate(reduced.equations) if place not in dropped),
        eliminated=(*reduced.eliminated, *((item, item) for item in held)),
    )


def _moment(node: E, standards: set[Random]) -> Expr:
    """Return the mean of a polynomial in standard normal variables, Σ f⁽²ᵏ⁾(0)/(2ᵏ k!)."""
    mean, used = node.argument, node.argument.atoms(Random)
    if not used <= standards or not mean.is_polynomial(*used):
        return node
    for item in sorted(used, key=str):
        terms: list[Expr] = []
        while mean != 0:
            terms.append(mean.xreplace({item: S.Zero}) / (2 ** len(terms) * factorial(len(terms))))
            mean = mean.diff(item, 2)
        mean = Add(*terms)
    return mean


def _explicit(equations: list[Equation]) -> tuple[int, Unknown, Expr] | None:
    """Return an equation that gives one unknown by the others without an expectation, solved for it."""
    for index, equation in enumerate(equations):
        if equation.lhs.has(E) or equation.rhs.has(E):
            continue
        for left, right in ((equation.lhs, equation.rhs), (equation.rhs, equation.lhs)):
            if isinstance(left, Unknown) and left not in right.free_symbols:
                return index, left, right
        if isinstance(item := equation.lhs, Unknown):  # u = a + b u
            gap = item - equation.rhs
            slope, rest = gap.diff(item), gap.subs(item, 0)
            lost = rest == 0 and slope.atoms(Unknown)  # where the slope vanishes
            if item not in slope.free_symbols and slope != 0 and not lost:
                return index, item, -rest / slope
    return None


# --- What a plan is compiled from: the system as its solver takes it, step by step, for reading.
@dataclass(frozen=True)
class Derivation:
    """A system as a solver takes it."""

    system: System  # in its new variables, with equations in place of constraints
    reduction: Reduction  # how its constraints became equations
    changes: tuple[Substitution, ...] = ()  # of variable, as declared
    changed: bool = False  # whether they are made
    form: PathForm | None = None  # None where a solver takes the equations as they stand

    @property
    def closed(self) -> tuple[Equation, ...]:
        """The equations between kernels and functions."""
        return self.system.equations if self.form is None else (*self.form.kernels, *self.form.functions)


# --- A stable hash of a model's content: the same on every machine and in every process.
@kept_by_model
@functools.lru_cache(maxsize=256)
def signature_of(model: Model) -> str:
    """Return 16 hexadecimal digits that change exactly when the model's content does."""
    parts = [type(model).__name__, *(f"{field}={_canonical(getattr(model, field))}" for field in model.content)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _canonical(value: Any) -> str:
    if isinstance(value, Table):
        return "{" + ",".join(f"{_canonical(k)}:{_canonical(v)}" for k, v in value.items()) + "}"
    if isinstance(value, tuple):
        return "(" + ",".join(_canonical(entry) for entry in value) + ")"
    if isinstance(value, Equation):
        return f"{_canonical(value.lhs)}=={_canonical(value.rhs)}"
    if isinstance(value, Named):
        given = ",".join(f"{key}={value.assumptions0[key]}" for key in sorted(value._assumptions_orig))
        extra = ",".join(_canonical(entry) for entry in value.extra)
        return f"{type(value).__name__}[{value.name};{given};{extra}{_canonical(value.axes) if value.axes else ''}]"
    if isinstance(value, Head):
        return f"{type(value).__name__}{value._hashable_content()[:2]}{_canonical(value.axes) if value.axes else ''}"
    if isinstance(value, Empirical):
        return f"{type(value).__name__}{value._hashable_content()}"
    if isinstance(value, Basic) and value.args:
        inner = [_canonical(arg) for arg in value.args]
        if value.is_Add or value.is_Mul or isinstance(value, And | Or):
            inner.sort()  # sympy's own order of arguments may depend on the session
        return f"{type(value).__name__}({','.join(inner)})"
    return repr(value)


# --- Which of several models a choice stands for, at given parameters.
@dataclass(frozen=True)
class Chosen:
    """The model chosen, the settings that concern it, and the reason in words."""

    model: Model
    settings: dict[str, Any]
    reason: str


def select_case(model: Cases, settings: Mapping[str, Any]) -> Chosen:
    """Return the first model whose condition holds; a setting that no case knows is an error."""
    models = {name: load(name) for _, name in model.cases}
    refuse_unknown(model, settings, sorted({*model.settable}.union(*(item.settable for item in models.values()))))
    values: dict[Parameter, Any] = {}
    for item in model.parameters:
        given = settings.get(item.name, model.given(item))
        refuse_several(model, item.name, given)
        if given is not None:
            values[item] = read_value(given, what=f"parameter `{item.name}`")
    for condition, name in model.cases:
        if condition.subs(values) == True:  # noqa: E712
            given = {**{item.name: value for item, value in values.items()}, **settings}
            own = {key: value for key, value in given.items() if key in models[name].settable}
            return Chosen(models[name], own, f"{_in_words(condition)}: solved as {name}")
    tried = "; ".join(f"{name} needs {_in_words(condition)}" for condition, name in model.cases)
    got = ", ".join(f"{item.name}={float(value):.12g}" for item, value in values.items())
    raise ParameterError(f"{model.label} has no case for {got}: {tried}")


def _in_words(condition: Any) -> str:
    return "otherwise" if condition == True else str(condition).replace("&", "and").replace("|", "or")  # noqa: E712


def choosing_parameters(model: Model) -> frozenset[Parameter]:
    """Return the parameters whose every value may make another system.

    Whole numbers, those in the conditions of branches, in exponents (a power has another derivative at zero), and the time
    and step of the start.
    """
    chosen = {item for item in model.parameters if item.is_integer}
    for leaf in leaves(tuple(getattr(model, field) for field in model.content if field not in ("defaults", "conditions"))):
        for node in leaf.atoms(Piecewise, Pow, Max, Min):
            if isinstance(node, Pow):
                chosen |= node.exp.atoms(Parameter) if not node.base.is_number else set()
            elif isinstance(node, Piecewise):
                relations = {item for _, condition in node.args for item in condition.atoms(Relational)}
                chosen = chosen.union(*map(_plain, relations))
            else:
                chosen |= _plain(node)
    return frozenset(chosen.union(*(item.atoms(Parameter) for item in leaves((model.start, model.step)))))


def _plain(node: Basic) -> set[Parameter]:
    """Return the parameters of a node that contains nothing else."""
    parameters = node.atoms(Parameter)
    return parameters if node.free_symbols <= parameters else set()


def distribute_parameters(expr: Any) -> Any:
    """Multiply parameters into sums, λ(a − b) into λa − λb, as sympy does with numbers: passes look at terms."""
    if not expr.args or not expr.atoms(Parameter):
        return expr
    expr = rebuilt(expr, distribute_parameters)
    if isinstance(expr, Mul):
        sums = [factor for factor in expr.args if isinstance(factor, Add)]
        rest = [factor for factor in expr.args if not isinstance(factor, Add)]
        if len(sums) == 1 and all(_plain(factor) or factor.is_number for factor in rest):
            return Add(*(Mul(*rest, term) for term in sums[0].args))
    return expr


# --- What may be set on a model: its own parameters and laws, and those of the models behind it.
#
# A `Singularity` draws on the fixed point that gives its law, `Cases` on the models it chooses among. Every verb that takes
# settings (`solve`, `sweep`, `validate`, `follow`, `rate_curve`) reads them here, so that all of them take the same.
def models_behind(model: Model) -> tuple[Model, ...]:
    """Return the models that settings of this one may reach."""
    laws = [source for _, source in law_models(model)] if isinstance(model, Singularity) else []
    cases = [load(name) for _, name in model.cases] if isinstance(model, Cases) else []
    return tuple(item for source in (*laws, *cases) for item in (source, *models_behind(source)))


def settable(model: Model) -> set[str]:
    """Return the names of everything that may be set."""
    return {name for part in (model, *models_behind(model)) for name in part.settable}


def check_routed(model: Model, settings: Mapping[str, Any]) -> None:
    """Raise when a setting is known to nobody, or lies outside its domain; other parameters need no values yet."""
    others = {name: value for name, value in settings.items() if name not in model.settable}
    behind = models_behind(model) if others else ()
    if behind:
        refuse_unknown(model, others, sorted(settable(model)))
    bind_some(model, {name: value for name, value in settings.items() if not (behind and name in others)})
    for name, value in others.items():  # which of the models behind it goes to is not decided yet: one must take it
        problems = []
        for source in (item for item in behind if name in item.settable):
            try:
                bind_some(source, {name: value})
                break
            except ParameterError as error:
                problems.append(error)
        else:
            raise problems[0]


def bind_routed(model: Model, settings: Mapping[str, Any]) -> Binding:
    """Return a model with all its settings bound, those of the models behind it where they belong."""
    if isinstance(model, Cases):
        chosen = select_case(model, settings)
        return bind_routed(chosen.model, chosen.settings)
    if isinstance(model, Singularity):
        return bind_singularity(model, settings)
    return bind(model, settings)


@dataclass(frozen=True)
class SingularityBinding(Binding):
    """A bound singularity, with the bound model its laws come from, if there is one."""

    law: Binding | None = None

    def settings(self) -> dict[str, float | str]:
        own = super().settings()
        if self.law is None:
            return own
        gaussian = {item.name for item in self.law.model.randoms if is_found(self.law.model, item)}
        return {**{k: v for k, v in self.law.settings().items() if k not in gaussian}, **own}


def is_found(model: Model, item: Random) -> bool:
    """Whether the law of a random variable contains an unknown or a table: it is then found, not set."""
    symbols = item.law.free_symbols if item.law is not None else ()
    return any(symbol in getattr(model, "unknowns", ()) or getattr(symbol, "indices", ()) for symbol in symbols)


def bind_singularity(model: Singularity, settings: Mapping[str, Any]) -> SingularityBinding:
    """Return a singularity with its own settings bound and the others routed to the model that gives its laws."""
    own, sources = model.settable, law_models(model)
    refuse_unknown(model, settings, sorted(settable(model)))
    binding = bind(model, {key: value for key, value in settings.items() if key in own})
    if not sources:
        return SingularityBinding(model, binding.values, binding.laws)
    chosen = next((m for condition, m in sources if condition.subs(binding.values) == True), None)  # noqa: E712
    if chosen is None:
        where = " or ".join(str(condition) for condition, _ in model.law_of)
        names = sorted({str(s) for condition, _ in model.law_of for s in condition.free_symbols})
        got = ", ".join(f"{item.name}={float(v):g}" for item, v in binding.values.items() if item.name in names)
        raise ParameterError(f"model `{model.name}` has a law for {where} only ({model.location}), got {got}")
    shared = {item.name: binding.values[item] for item in model.parameters}
    routed = {key: value for key, value in {**shared, **settings}.items() if key in chosen.settable}
    return SingularityBinding(model, binding.values, binding.laws, bind(chosen, routed))


def law_models(model: Singularity) -> list[tuple[Any, Model]]:
    """Return the models that may give the laws, each with its condition; a file beside the own one goes before others."""
    models = []
    for condition, name in model.law_of:
        neighbour = Path(model.file).parent / f"{name}.py" if model.file else None
        try:
            models.append((condition, load(str(neighbour) if neighbour is not None and neighbour.is_file() else name)))
        except UsageError as error:
            raise ModelError(f"{model.label} takes its law from `{name}`: {error}") from None
    return models
