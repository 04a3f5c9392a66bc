"""`FixedPoint`: scalar unknowns, expectations, implicit functions. `Singularity`: an implicit transform equation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from eqsolve.errors import ModelError
from eqsolve.language.equations import Equation
from eqsolve.language.law import exact_value
from eqsolve.language.model import Model, Table, expressions, parameter_values, relations
from eqsolve.language.source import user_location
from eqsolve.language.symbols import Unknown, as_expression

__all__ = ["FixedPoint", "Singularity"]


class FixedPoint(Model):
    """A self-consistent system of scalar equations.

    Parameters
    ----------
    name, eqs, defaults, observables, conditions, cite
        As in ``System``; an equation may be any balance of two sides.
    variables
        Random quantities of interest, by name, whose law ``res.law(name)`` reports.
    exact
        Closed forms known for unknowns.
    """

    kind: ClassVar[str] = "FixedPoint"
    content: ClassVar[tuple[str, ...]] = (
        "name", "equations", "defaults", "observables", "variables", "exact", "conditions", "flow", "cite",
    )  # fmt: skip
    variables: Table
    exact: Table
    flow: str | None

    def __init__(
        self,
        name: str,
        eqs: Iterable[Equation],
        *,
        defaults: Mapping[Any, Any] | None = None,
        observables: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        exact: Mapping[Any, Any] | None = None,
        conditions: Iterable[Any] = (),
        flow: str | None = None,
        cite: str | None = None,
    ) -> None:
        self._declare(
            name, eqs, defaults=defaults, observables=observables, variables=variables, exact=exact,
            conditions=conditions, flow=flow, cite=cite,
        )  # fmt: skip

    def _normalise(self, field: str, value: Any) -> Any:
        return normalise_scalar(field, value)

    @property
    def unknowns(self) -> tuple[Unknown, ...]:
        """The scalar unknowns in order of their names."""
        return tuple(item for _, item in sorted(self.names.items()) if isinstance(item, Unknown))


class Singularity(Model):
    """An implicit transform equation h(R, p) = 0 whose rightmost singularity gives a convergence rate.

    Parameters
    ----------
    transform
        The equation that defines the transform R(p).
    variable, unknown
        The transform variable p and the transform R.
    law_of
        Where the law of the random variables comes from: a model's name, or pairs (condition, name).
    variables
        Named random quantities, as in ``FixedPoint``.
    """

    kind: ClassVar[str] = "Singularity"
    content: ClassVar[tuple[str, ...]] = (
        "name", "equations", "variable", "unknown", "law_of", "defaults", "observables", "variables", "conditions",
        "cite",
    )  # fmt: skip
    variable: Unknown
    unknown: Unknown
    law_of: tuple[tuple[Any, str], ...]
    variables: Table

    def __init__(
        self,
        name: str,
        *,
        transform: Equation,
        variable: Any,
        unknown: Any,
        law_of: Any = (),
        defaults: Mapping[Any, Any] | None = None,
        observables: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        conditions: Iterable[Any] = (),
        cite: str | None = None,
    ) -> None:
        for role, item in (("variable", variable), ("unknown", unknown)):
            if not isinstance(item, Unknown):
                raise ModelError(f"{user_location()}: {role}= takes a symbol made by unknown(), got `{item}`")
        self._declare(
            name, [transform], variable=variable, unknown=unknown, law_of=law_of, defaults=defaults,
            observables=observables, variables=variables, conditions=conditions, cite=cite,
        )  # fmt: skip
        for role, item in (("variable", variable), ("unknown", unknown)):
            if item not in (transform.lhs - transform.rhs).free_symbols:
                raise ModelError(f"{transform.label}: the {role} `{item}` does not appear in the transform equation")

    def _normalise(self, field: str, value: Any) -> Any:
        return normalise_scalar(field, value)


def normalise_scalar(field: str, value: Any) -> Any:
    """Bring one part of a scalar model to its stored form."""
    where = user_location()
    match field:
        case "observables" | "variables":
            return expressions(value, where, field)
        case "exact":
            return Table({k: None if v is None else exact_value(v) for k, v in (value or {}).items()})
        case "defaults":
            return parameter_values(value, where)
        case "conditions":
            return relations(value, where)
        case "law_of":
            pairs = [(True, value)] if isinstance(value, str) else list(value)
            for pair in pairs:
                if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], str)):
                    raise ModelError(
                        f"{where}: law_of= takes a model's name or pairs (condition, name), got {pair!r}"
                    )
            return tuple((as_expression(condition, "law_of="), name) for condition, name in pairs)
    return value


