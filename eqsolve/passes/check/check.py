"""Everything that can be wrong with a model, found before it is solved and reported at once."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sympy import Basic, Pow, Symbol

from eqsolve.errors import ModelError, UsageError, did_you_mean, logger, quoted
from eqsolve.language.binding import ParameterDomain, read_value
from eqsolve.language.laws import Law
from eqsolve.language.model import Model, leaves, symbols_in
from eqsolve.language.nodes import E
from eqsolve.language.printing import kept_by_model
from eqsolve.language.symbols import Head, Named, Parameter, Plain, Random, Unknown, Value
from eqsolve.language.system import Cases, FixedPoint, Flow, Singularity, System
from eqsolve.options import OPTIONS
from eqsolve.passes.check.expressions import ExpressionCheck, Scope, strangers
from eqsolve.passes.forms.structure import models_behind

RESERVED = ("model", "params", *OPTIONS, "out", "plot", "json", "d", "seeds", "executor")
"""Options of solve, validate and sweep: a parameter of the same name could not be set."""


def refuse_words(verb: str, model: Model, words: Iterable[str], known: Iterable[str], more: tuple[str, ...] = ()) -> None:
    """Raise for a keyword that is nearer to an option than to a parameter; binding tells of others."""
    options = (*RESERVED, *more)
    for word in words:
        near = "" if word in (*known, *options) else did_you_mean(word, (*known, *options))
        if near and near.split("`")[1] in options:
            raise UsageError(f"{verb} has no option `{word}`, and model `{model.name}` no such parameter{near}")


def check(model: Model) -> None:
    """Raise one ModelError that lists every problem of a model; return nothing when it is sound.

    Examples
    --------
    >>> eqsolve.check(eqsolve.load("my_model"))
    """
    if not isinstance(model, Model):
        raise ModelError(f"check takes a System, FixedPoint, Singularity or Flow, got {type(model).__name__}")
    _accept(model)


def zero_divisors(model: Model, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield, in words, every division by parameters that are zero as they are set; which of several cases holds is open."""
    for part in () if isinstance(model, Cases) else (model, *models_behind(model)):
        known = {item: settings.get(item.name, part.given(item)) for item in part.parameters}
        numbers = {item: read_value(value) for item, value in known.items() if value is not None}
        places = [(equation.label, equation) for equation in part.equations]
        places += [
            (f"observable `{name}` ({part.place('observables', name)})", expr) for name, expr in part.observables.items()
        ]
        rest = [field for field in part.content[2:] if field not in ("observables", "defaults")]
        places += [(f"`{field}=` ({part.location})", getattr(part, field)) for field in rest]
        for label, place in places:
            powers = {node for leaf in leaves(place) for node in leaf.atoms(Pow) if node.exp.could_extract_minus_sign()}
            for base in sorted({node.base for node in powers if node.base.free_symbols <= set(numbers)}, key=str):
                if base.xreplace(numbers) == 0:
                    yield f"{label} divides by `{base}`, which is 0 as set"


@kept_by_model
@functools.lru_cache(maxsize=256)
def _accept(model: Model) -> None:
    """Raise when something is wrong; what is sound is remembered, so that solving a model again is quick."""
    if model.is_indexed:
        from eqsolve.passes.check.indices import by_family, index_problems
        from eqsolve.passes.rewrite.indices import representative

        _demand(model, index_problems(model))
        try:
            return _accept(representative(model).model)
        except ModelError as error:
            written_out = error.problems
        return _demand(model, [by_family(model, text) for text in written_out])
    problems: Iterable[str]
    if isinstance(model, System):
        from eqsolve.passes.check.system import SystemCheck

        problems = SystemCheck(model).problems_in_order()
    elif isinstance(model, Flow):
        from eqsolve.passes.check.flow import flow_problems

        problems = flow_problems(model)
    elif isinstance(model, FixedPoint):
        problems = (*_expression_problems(model), *_count(model))
    else:
        problems = _cases(model) if isinstance(model, Cases) else _singularity(model)  # type: ignore[arg-type]
    shared = (*_laws(model), *_names(model), *_defaults(model), *_conditions(model), *_closed_forms(model))
    _demand(model, (*problems, *shared))
    for name in _unused(model):
        logger.warning("model `%s` (%s): nothing uses the parameter `%s`", model.name, model.location, name)


def _demand(model: Model, messages: Iterable[str]) -> None:
    """Raise one error that lists all problems, if there are any."""
    problems = tuple(dict.fromkeys(messages))
    if len(problems) == 1:
        named = "" if (name := f"model `{model.name}`") in problems[0] else f"{name}: "
        raise ModelError(named + problems[0], problems)
    if problems:
        lines = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, 1))
        raise ModelError(f"model `{model.name}` has {len(problems)} problems:\n{lines}", problems)


def _unused(model: Model) -> list[str]:
    """Return the parameters that stand in defaults= only."""
    if isinstance(model, Cases | Singularity):  # the models behind them use them
        return []
    parts = tuple(getattr(model, part) for part in model.content if part != "defaults")
    laws = tuple(law for law in model.defaults.values() if isinstance(law, Law))
    used = {item.name for leaf in leaves((*parts, *laws)) for item in symbols_in(leaf)}
    used |= {name for sources in model.tables.values() for name in sources.arguments}
    return sorted(item.name for item in model.defaults if isinstance(item, Parameter) and item.name not in used)


def _laws(model: Model) -> Iterator[str]:
    """Every random variable has a law, in parameters (and unknowns of a fixed point), moments included."""
    elsewhere = isinstance(model, Singularity) and bool(model.law_of)
    allowed = (Parameter, Unknown) if isinstance(model, FixedPoint) else (Parameter,)
    for item in model.randoms:
        law = model.given(item)
        if law is None and not elsewhere:
            yield (
                f"random variable `{item}` of {model.label} has no law; "
                f"declare it as random('{item}', Normal(0, 1)) or another law"
            )
        if law is not None:
            yield from _law_symbols(model, f"the law {law} of `{item}` ({model.location})", law, allowed)
    starts = {**model.init, **model.state}
    for key, law in starts.items():
        if isinstance(law, Law):
            yield from _law_symbols(model, f"the initial law {law} of `{key}` ({model.location})", law, (Parameter,))


def _law_symbols(model: Model, label: str, law: Basic, allowed: tuple[type[Named], ...]) -> Iterator[str]:
    means = {node: Symbol("E") for node in law.atoms(E)}
    outside = {*strangers(law.xreplace(means), *allowed)} - {"E"}
    for name in sorted(outside.union(*(strangers(node, *allowed, Random) for node in means))):
        near = did_you_mean(name, model.names)
        yield f"{label} uses `{name}`; expected parameters, and random variables only inside E(...){near}"


def _names(model: Model) -> Iterator[str]:
    for item in (*model.parameters, *model.randoms):
        if item.name in RESERVED and item != model.step:
            yield f"{model.label} has a {item.kind_name} named `{item.name}`, an option of solve or simulate; rename it"
    for part, clash in (("observable", (Named, Head)), ("variable", (Parameter, Unknown))):
        for name in getattr(model, f"{part}s"):
            other = model.names.get(name)
            if part == "observable" and name in model.variables:
                yield f"{model.label} has an observable and a variable named `{name}`; give them different names"
            if isinstance(other, clash) and not isinstance(other, Plain):
                yield f"{model.label} has {part} `{name}`, named like the {other.kind_name} `{name}`; rename it"


def _defaults(model: Model) -> Iterator[str]:
    """Every default lies in its parameter's domain."""
    for item in model.parameters:
        value = model.given(item)
        if value is None:
            continue
        place = model.place("defaults", item.name)
        where = f"the default of `{item}` in model `{model.name}` ({place})"
        if isinstance(value, Law):
            yield f"{where} is the law {value}; expected a number"
        elif not value.is_number or not value.is_extended_real:
            yield f"{where} is `{value}`; expected a number"
        elif problem := ParameterDomain(item).problem(float(value)):
            yield f"{where} is {value}; expected a number that is {problem}"


def _conditions(model: Model) -> Iterator[str]:
    for condition in model.conditions:
        yield from _beyond_parameters(condition, f"the condition `{condition}` of {model.label}")


def _beyond_parameters(condition: Basic, label: str) -> list[str]:
    return [f"{label} uses `{name}`; expected parameters only" for name in strangers(condition, Parameter)[:1]]


def _closed_forms(model: Model) -> Iterator[str]:
    """``exact=`` names unknowns or observables, in declared symbols."""
    known = {item.name for item in getattr(model, "unknowns", ())} | set(model.observables)
    for key, expr in model.exact.items():
        name = key.head.name if isinstance(key, Value) else key if isinstance(key, str) else getattr(key, "name", str(key))
        label = f"the closed form of `{name}` ({model.location})"
        if name not in known:
            yield f"{label} belongs to no unknown or observable{did_you_mean(name, known)}"
        for item in sorted(getattr(expr, "free_symbols", ()), key=str):
            if not isinstance(item, Named | Head):
                near = did_you_mean(item.name, model.names)
                yield f"{label} uses `{item}`, a plain sympy symbol that nothing defines{near}"


# --- What must hold of a `FixedPoint` and of a `Singularity`: equations for the unknowns,
# randomness under E.
def _expression_problems(model: FixedPoint | Singularity) -> list[str]:

    check = ExpressionCheck(model, (Parameter, Unknown, Random))
    for equation in model.equations:
        for side in (equation.lhs, equation.rhs):
            check.visit(side, Scope(equation.label))
    for name, expr in model.variables.items():
        check.visit(expr, Scope(f"variable `{name}` ({model.location})", random=True))
    for name, expr in model.observables.items():
        check.visit(expr, check.observable(name))
    return list(check.problems)


def _count(model: FixedPoint) -> Iterator[str]:
    """Compare equations with unknowns, and say which unknowns no equation mentions."""
    symbols = {item for side in leaves(model.equations) for item in symbols_in(side)}
    used = [item for item in model.unknowns if item in symbols]
    for item in model.unknowns:
        if item not in used:
            yield f"{model.label} has the unknown `{item}`, which appears in no equation; add one, or use param()"
    equations, unknowns = len(model.equations), len(used)
    if equations != unknowns:
        lines = ", ".join(str(equation.location) for equation in model.equations if equation.location)
        yield (
            f"{model.label} has {equations} equation{'s' if equations != 1 else ''} ({lines}) for {unknowns} "
            f"unknown{'s' if unknowns != 1 else ''} ({quoted(used) or 'none'}); expected as many equations as unknowns"
        )


def _singularity(model: Singularity) -> Iterator[str]:
    """Yield what is wrong with a transform equation and its observables."""
    yield from _expression_problems(model)
    if len(model.equations) != 1:
        yield f"{model.label} has {len(model.equations)} transform equations; expected one"
    for equation in model.equations:
        symbols = equation.lhs.free_symbols | equation.rhs.free_symbols
        for role, item in (("transform", model.unknown), ("variable", model.variable)):
            if item not in symbols:
                yield f"{equation.label} does not contain the {role} `{item}`, which it should define"
    if model.variable == model.unknown:
        yield f"{model.label} has `{model.variable}` as its variable and as its unknown; expected two symbols"
    for _, item in sorted(model.names.items()):
        if isinstance(item, Unknown) and item not in (model.variable, model.unknown):
            yield (
                f"{model.label} uses the unknown `{item}`, which is neither its variable "
                f"`{model.variable}` nor its transform `{model.unknown}`; declare it with param()"
            )
    yield from _chosen(model, model.law_of, "law_of=")
    if model.law_of and not model.randoms:
        yield f"{model.label}: law_of= gives a law, but no random variable appears; declare one with random()"


def _cases(model: Cases) -> Iterator[str]:
    """Yield what is wrong with a choice of models; the models themselves are looked at when one is chosen."""
    if not model.cases:
        yield f"{model.label} has no cases; expected pairs (condition, model's name)"
    yield from _chosen(model, model.cases, "cases=")


def _chosen(model: Model, pairs: Iterable[tuple[Any, str]], where: str) -> Iterator[str]:
    """Yield what is wrong with conditions and the models' names that go with them."""
    for condition, name in pairs:
        if not name.isidentifier():
            yield f"{model.label}: {where} names the model {name!r}; expected a model's name, such as `fixed_point`"
        yield from _beyond_parameters(condition, f"{model.label}: the condition `{condition}` in {where}")
