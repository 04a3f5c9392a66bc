"""`FixedPoint`: scalar unknowns, expectations, implicit functions. `Singularity`: an implicit transform equation.

`Cases`: one name for several models, chosen by conditions on the parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sympy import Basic, Expr, S, Tuple
from sympy.core.symbol import Str

from eqsolve.errors import ModelError
from eqsolve.language.model import Equation, Model, Table
from eqsolve.language.source import user_location
from eqsolve.language.symbols import Plain, Random, Unknown, as_expression, part

MEASURES = ("error", "prediction error", "residual", "zeros")


class Minimiser(Basic):
    """The regression estimator that a fixed point describes, at finite size.

    ``argmin (1/2δ)|y − Xw|² + strength Σ J(w)`` over n = δd observations y = Xw* + ξ, where X has independent entries of
    variance 1/d; with strength 0, the limit of a vanishing one: the interpolator of least Σ J(w) for δ < 1, least squares
    for δ > 1.

    Parameters
    ----------
    variable
        A ``symbol()`` that stands for one weight.
    penalty
        J as an expression in the variable.
    inverse_slope
        Instead of J: the weight as a function of J'(w), written in the same variable.
    strength, ratio, noise
        λ, δ and the variance of ξ, expressions in the parameters.
    target
        The random constant w*.
    measures
        What the values of the fixed point are at finite size, by name: ``"error"`` is ``|w − w*|²/d``, ``"prediction error"``
        adds the noise, ``"residual"`` is ``|y − Xw|²/n``, ``"zeros"`` the fraction of zero weights.
    """

    variable: Plain = part(0)
    target: Random = part(1)
    ratio: Expr = part(2)
    noise: Expr = part(3)
    strength: Expr = part(4)

    def __new__(
        cls,
        variable: Any,
        *,
        target: Any,
        ratio: Any,
        noise: Any = 0,
        strength: Any = 0,
        penalty: Any = None,
        inverse_slope: Any = None,
        measures: Mapping[str, str] | None = None,
    ) -> Minimiser:
        where = user_location()
        if (penalty is None) == (inverse_slope is None):
            raise ModelError(f"{where}: Minimiser takes one of penalty= and inverse_slope=")
        if not isinstance(variable, Plain):
            raise ModelError(f"{where}: Minimiser needs a symbol() for one weight, got `{variable}`")
        if not isinstance(target, Random):
            raise ModelError(f"{where}: target= takes the random constant that is estimated, got `{target}`")
        for name, kind in (measures or {}).items():
            if kind not in MEASURES:
                raise ModelError(f"{where}: measures= maps `{name}` to {kind!r}; expected one of {', '.join(MEASURES)}")
        parts = [as_expression(part, "Minimiser") for part in (ratio, noise, strength)]
        parts += [S.NaN if part is None else as_expression(part, "Minimiser") for part in (penalty, inverse_slope)]
        table = Tuple(*(Tuple(Str(name), Str(kind)) for name, kind in (measures or {}).items()))
        return Basic.__new__(cls, variable, target, *parts, table)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (_restore_minimiser, tuple(self.args))

    @property
    def func(self) -> Any:
        return _restore_minimiser

    @property
    def penalty(self) -> Expr | None:
        return None if self.args[5] is S.NaN else self.args[5]

    @property
    def inverse_slope(self) -> Expr | None:
        return None if self.args[6] is S.NaN else self.args[6]

    @property
    def measures(self) -> dict[str, str]:
        return {str(name): str(kind) for name, kind in self.args[7]}


def _restore_minimiser(*args: Any) -> Minimiser:
    return Basic.__new__(Minimiser, *args)


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
    tables
        Numbers of the tables, as in ``System``.
    minimises
        A ``Minimiser``: the estimator at finite size whose limit this is, so that it can be validated.
    """

    variables: Table
    exact: Table
    tables: Table
    flow: str | None
    minimises: Minimiser | None

    def __init__(
        self,
        name: str,
        eqs: Iterable[Equation],
        *,
        defaults: Mapping[Any, Any] | None = None,
        observables: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        exact: Mapping[Any, Any] | None = None,
        tables: Mapping[Any, Any] | None = None,
        conditions: Iterable[Any] = (),
        flow: str | None = None,
        minimises: Minimiser | None = None,
        cite: str | None = None,
    ) -> None:
        self._declare(name, eqs, locals())

    def _normalise(self, field: str, value: Any) -> Any:
        if field == "minimises" and value is not None and not isinstance(value, Minimiser):
            raise ModelError(f"{user_location()}: minimises= takes a Minimiser(...), got {value!r}")
        return super()._normalise(field, value)

    @property
    def unknowns(self) -> tuple[Unknown, ...]:
        """The scalar unknowns in order of their names."""
        return tuple(item for _, item in sorted(self.names.items()) if isinstance(item, Unknown))


class Cases(Model):
    """One name for several models: the first whose condition on the parameters holds is solved.

    Parameters
    ----------
    cases
        Pairs (condition, model's name); conditions are inequalities between parameters, joined by ``&`` or ``|``.
    defaults
        Values of parameters, handed on to the model that is chosen.
    """

    cases: tuple[tuple[Any, str], ...]

    def __init__(
        self,
        name: str,
        *,
        cases: Any,
        defaults: Mapping[Any, Any] | None = None,
        conditions: Iterable[Any] = (),
        cite: str | None = None,
    ) -> None:
        self._declare(name, (), locals())

    def _normalise(self, field: str, value: Any) -> Any:
        return _choices(field, value) if field == "cases" else super()._normalise(field, value)

    @property
    def observables(self) -> Table:  # type: ignore[override]
        return Table()


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
        self._declare(name, [transform], locals())
        for role, item in (("variable", variable), ("unknown", unknown)):
            if item not in (transform.lhs - transform.rhs).free_symbols:
                raise ModelError(f"{transform.label}: the {role} `{item}` does not appear in the transform equation")

    def _normalise(self, field: str, value: Any) -> Any:
        return _choices(field, value) if field == "law_of" else super()._normalise(field, value)


def _choices(field: str, value: Any) -> tuple[tuple[Any, str], ...]:
    """Return pairs of a condition and a model's name."""
    where = user_location()
    if not isinstance(value, Iterable):
        raise ModelError(f"{where}: {field}= takes a model's name or pairs (condition, name), got {value!r}")
    pairs = [(True, value)] if isinstance(value, str) else list(value)
    for pair in pairs:
        if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], str)):
            raise ModelError(f"{where}: {field}= takes a model's name or pairs (condition, name), got {pair!r}")
    return tuple((as_expression(condition, f"{field}="), name) for condition, name in pairs)
