"""Numbers in the laws of random constants as parameters: ``w_star.p`` is the probability of ``w_star ~ Bernoulli(0.1)``.

They are called as in the law's declaration (``Normal(mean, variance)``: ``w_star.mean``, ``w_star.variance``), so that one can
differentiate along what a model, or a user, has written as a number.
"""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

from sympy import Expr

from eqsolve.errors import UsageError, did_you_mean, quoted
from eqsolve.language.binding import bind_some
from eqsolve.language.laws import Law
from eqsolve.language.model import Model
from eqsolve.language.symbols import Parameter, Random, fresh_name


def name_law_numbers(
    model: Model, settings: Mapping[str, Any], names: Iterable[str]
) -> tuple[Model, dict[str, Any], dict[str, str]]:
    """Return a model in which the numbers ``constant.argument`` are parameters, settings with their values, and their names.

    Names without a point are left alone.
    """
    wanted: dict[str, list[str]] = {}
    for name in names:
        constant, point, argument = name.partition(".")
        if point:
            wanted.setdefault(constant, []).append(argument)
    left = dict(settings)
    if not wanted:
        return model, left, {}
    called: dict[str, str] = {}
    taken = {*model.names}
    randoms = {item.name: item for item in model.randoms}
    changed: dict[Any, Any] = {}
    for constant, arguments in wanted.items():
        if constant not in randoms:
            near, has = did_you_mean(constant, randoms), ", ".join(randoms) or "none"
            raise UsageError(f"model `{model.name}` has no random constant `{constant}`{near} (it has: {has})")
        item = randoms[constant]
        if constant in left:
            item = bind_some(model, {constant: left.pop(constant)})[item]
        called |= {f"{constant}.{argument}": fresh_name(f"{constant}_{argument}", taken) for argument in arguments}
        law, values = _opened(model, item, arguments, called)
        changed[randoms[constant]] = item.with_law(law)
        left |= values
    return model.subs(changed), left, called


def _opened(model: Model, item: Random, arguments: list[str], called: Mapping[str, str]) -> tuple[Law, dict[str, float]]:
    """Return a law with some of its numbers as parameters, and their values."""
    law = item.law
    if not isinstance(law, Law):
        raise UsageError(
            f"the law of `{item.name}` in model `{model.name}` comes from elsewhere: it has no numbers of its own"
        )
    known = [entry for entry in inspect.signature(type(law).__new__).parameters.values() if entry.name != "cls"]
    plain = {
        entry.name: place
        for place, entry in enumerate(known)
        if entry.kind is entry.POSITIONAL_OR_KEYWORD and place < len(law.args) and isinstance(law.args[place], Expr)
    }
    parts, values = list(law.args), {}
    for argument in arguments:
        if argument not in plain:
            has = ", ".join(f"{item.name}.{name}" for name in plain) or "none that can be named"
            raise UsageError(f"`{item.name}.{argument}`: the law {law} has no such number (it has: {has})")
        value = parts[plain[argument]]
        if not value.is_number:
            inside = quoted(sorted(value.free_symbols, key=str))
            raise UsageError(f"`{item.name}.{argument}` is `{value}` in the law {law}: differentiate along {inside}")
        name = called[f"{item.name}.{argument}"]
        parts[plain[argument]] = Parameter(name, None, (), real=True)
        values[name] = float(value)
    return type(law)(*parts), values
