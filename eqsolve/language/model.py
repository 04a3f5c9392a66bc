"""What all kinds of model share: immutable content, access by left-hand side, replacing, binding by name."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import methodcaller
from typing import Any, ClassVar, Self, TypeVar

import sympy
from sympy import Basic, Expr, S, Symbol, SympifyError, sympify
from sympy.core.function import AppliedUndef, Derivative
from sympy.core.relational import Relational

from eqsolve.errors import ModelError, did_you_mean
from eqsolve.language.indices import read_tables
from eqsolve.language.laws import IN_STEPS, exact_start, exact_value
from eqsolve.language.source import Location, Order, user_location, written_order
from eqsolve.language.symbols import Head, Named, Parameter, Random, Time, Value, as_expression
from eqsolve.verbs import lazy_import

N = TypeVar("N", bound=Named)


@dataclasses.dataclass(frozen=True, repr=False)
class Equation:
    """Two sides that are equal. The left-hand side is its identity; where it was written is not part of its content."""

    lhs: Expr
    rhs: Expr
    location: Location | None = dataclasses.field(default=None, compare=False)
    order: Order = dataclasses.field(default_factory=dict, compare=False)

    def __repr__(self) -> str:
        return f"Eq({self.lhs}, {self.rhs})"

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {lazy_import('equation_latex')(self).replace(' &= ', ' = ')}$"

    @property
    def target(self) -> Value | None:
        """The function value on the left, such as w(t) in both ``w(t)`` and ``dw(t)/dt``."""
        inner = self.lhs.expr if isinstance(self.lhs, Derivative) else self.lhs
        return inner if isinstance(inner, Value) else None

    @property
    def defined(self) -> Value:
        """The same, of an equation that is known to have one."""
        assert self.target is not None
        return self.target

    def at(self, *moments: Expr) -> Expr:
        """Return the right-hand side with other times in place of those on the left."""
        return self.rhs.xreplace(dict(zip(self.defined.moments, moments, strict=False)))

    @property
    def head(self) -> Head | None:
        """The unknown function this equation defines, if the left-hand side names one."""
        return self.target.head if self.target is not None else None

    @property
    def key(self) -> str:
        """The name the equation is found by: the unknown on its left, or the left-hand side's text."""
        if self.head is not None:
            return self.head.name
        return self.lhs.name if isinstance(self.lhs, Named) else str(self.lhs)

    @property
    def is_differential(self) -> bool:
        return isinstance(self.lhs, Derivative)

    @property
    def time(self) -> Any:
        """The time that runs: the first argument on the left, or the variable of a derivative, or None."""
        if isinstance(self.lhs, Derivative):
            return self.lhs.variables[0]
        return self.target.moments[0] if self.target is not None else None

    @property
    def label(self) -> str:
        """``equation for `g` (my_model.py:32)``, as error messages name it."""
        where = f" ({self.location})" if self.location else ""
        return f"equation for `{self.key}`{where}"

    def changed(self, change: Callable[[Any], Any]) -> Equation:
        """Return the equation with everything in it changed, keeping its place and the written order of its terms."""
        order = {change(whole): tuple(map(change, parts)) for whole, parts in self.order.items()}
        return Equation(change(self.lhs), change(self.rhs), self.location, order)

    def map(self, mapping: Mapping[Basic, Basic]) -> Equation:
        """Return the equation with symbols exchanged."""
        return self.changed(lambda item: item.xreplace(mapping)) if mapping else self


def _unquoted(side: Any) -> str:
    if isinstance(side, str):
        return "; write it with declared symbols, not as text"
    if getattr(side, "shape", ()) != () or isinstance(side, list | tuple):
        return "; write one equation for each entry"
    return "; write what it computes" if callable(side) else ""


def is_second_order(equation: Any) -> bool:
    """Whether an equation gives a second derivative."""
    return isinstance(equation, Equation) and isinstance(equation.lhs, Derivative) and len(equation.lhs.variables) == 2


def Eq(lhs: Any, rhs: Any) -> Equation:
    """Declare that two sides are equal: ``Eq(w(t).diff(t), -w(t))``.

    In a ``System`` the left-hand side names the unknown the equation defines: a function at its times, or its
    derivative. In a ``FixedPoint`` any balance of two sides may stand.
    """
    location = user_location()
    sides = []
    for side in (lhs, rhs):
        try:
            sides.append(sympify(side, strict=True))  # text would be evaluated as Python code
        except (sympy.SympifyError, TypeError):
            raise ModelError(f"{location}: Eq takes two expressions, got {side!r}{_unquoted(side)}") from None
        if not isinstance(sides[-1], Expr):
            hint = "; call it with its times" if isinstance(sides[-1], Head) else ""
            raise ModelError(f"{location}: Eq takes two expressions, got `{side}`{hint}")
    if isinstance(sides[0], Derivative):
        by, inside = sides[0].variables, sides[0].expr
        if not isinstance(by[0], Time):
            name = inside.func if isinstance(inside, AppliedUndef) else inside
            raise ModelError(
                f"{location}: the left-hand side `{sides[0]}` is a derivative of sympy's own symbols; "
                f'declare them by eqsolve: {by[0]} = times("{by[0]}"), {name} = function("{name}")'
            )
        if len(by) > 2 or len(set(by)) > 1:
            raise ModelError(
                f"{location}: the left-hand side `{sides[0]}` is no first or second derivative in a time; "
                "introduce further functions for higher derivatives"
            )
    order = {**written_order(0, sides[0]), **written_order(1, sides[1])}
    return Equation(sides[0], sides[1], location, order)


class Table(dict[Any, Any]):
    """An immutable, ordered, hashable, picklable mapping; equal to one with the same entries in the same order."""

    __slots__ = ()

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("this table is immutable; use replace() on the model")

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("this table is immutable; use replace() on the model")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and list(self.items()) == list(other.items())

    def __ne__(self, other: object) -> bool:  # (that of a dictionary goes by its own rule)
        return not self == other

    def __reduce__(self) -> Any:
        return (Table, (list(self.items()),))


def transform(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply ``change`` to every sympy object inside nested tuples, tables and equations."""
    if isinstance(value, Table):
        return Table((transform(key, change), transform(entry, change)) for key, entry in value.items())
    if isinstance(value, tuple):
        return tuple(transform(entry, change) for entry in value)
    if isinstance(value, Equation):
        return value.changed(change)
    return change(value) if isinstance(value, Basic) else value


def leaves(value: Any) -> Iterator[Basic]:
    """Yield every sympy object inside nested tuples, tables and equations."""
    if isinstance(value, Basic):
        yield value
    elif isinstance(value, Table | tuple | Equation):
        parts = (value.lhs, value.rhs) if isinstance(value, Equation) else value
        for part in value.items() if isinstance(value, Table) else parts:
            yield from leaves(part)


def symbols_in(leaf: Basic) -> Iterator[Named | Head]:
    """Yield every symbol and function of an expression, those in the laws of its random constants included."""
    for item in sorted(leaf.atoms(Named, Head), key=lambda entry: entry.name):
        yield item
        if isinstance(item, Random) and item.law is not None:
            yield from symbols_in(item.law)


def through_laws(mapping: Mapping[Basic, Basic], randoms: Iterable[Random]) -> dict[Basic, Basic]:
    """Extend an exchange of symbols to the random constants whose laws contain them."""
    full = dict(mapping)
    pending = [item for item in randoms if item.law is not None and item not in full]
    for _ in pending:  # a law may contain another random constant, whose law changes
        for item in pending:
            law = item.law.subs(full)  # type: ignore[union-attr]
            if law != item.law:
                full[item] = item.with_law(law)
    return full


class Model(Mapping[str, Equation]):
    """Base of the four kinds of model. A model is a value: equal by content, hashable, picklable, never changed."""

    kind: ClassVar[str] = "model"  # the name of the class
    content: ClassVar[tuple[str, ...]] = ()
    name: str
    equations: tuple[Equation, ...]
    defaults: Table
    observables: Table
    conditions: tuple[Relational, ...]
    cite: str | None
    doc: str | None  # of the model file, when it was loaded from one
    file: str | None  # its path
    location: Location | None  # where the model was declared
    laws = init = constraints = substitute = exact = tables = variables = state = drift = Table()
    start: Expr = S.Zero
    step: Expr | None = None
    flow: Any = None
    observable_latex: Table = Table()  # (this and the next are no content: how a number is written does not change it)
    clock: Expr | None = None  # the time that runs, in terms of the one before it was rescaled or shifted
    _named: dict[str, Named | Head]
    generic: bool = False  # whether each unknown stands for a family; see ``eqsolve.compile.members``

    def __init_subclass__(cls) -> None:
        """Take the arguments by name as a kind's parts; a transform is its equation."""
        parts = [item.name for item in inspect.signature(cls.__init__).parameters.values() if item.kind is item.KEYWORD_ONLY]
        cls.kind, cls.content = cls.__name__, ("name", "equations", *(part for part in parts if part != "transform"))

    def _declare(self, name: Any, eqs: Any, given: Mapping[str, Any]) -> None:
        """Fill a new model: every part is brought to its stored form, then the names are collected."""
        parts, where = self.__dict__, user_location()
        parts.update(location=where, doc=None, file=None, name=_identifier(name, where))
        parts["equations"] = self._checked(eqs, where)
        parts["observable_latex"] = Table(_latex_of(given.get("observables"), where))
        for field in sorted(self.content[2:], key=lambda part: part != "start"):  # which other parts are read by
            _shaped(field, given[field], where)
            part = self._normalise(field, given[field])
            if isinstance(part, Table):  # None removes an entry, here as in replace()
                part = Table((key, entry) for key, entry in part.items() if entry is not None)
            parts[field] = part
        parts["_named"] = self._collect_names()

    def _checked(self, equations: Any, location: Location | None) -> tuple[Equation, ...]:
        if not isinstance(equations, Iterable):
            raise ModelError(f"{location}: eqs= takes a list of equations made by Eq(lhs, rhs), got {equations!r}")
        equations = tuple(equations)
        seen: dict[str, Equation] = {}
        for equation in equations:
            if isinstance(equation, Relational):
                raise ModelError(
                    f"{self.location}: model `{self.name}` holds sympy's own Eq `{equation}`; "
                    "write `from eqsolve import Eq` and do not import Eq from sympy"
                )
            if not isinstance(equation, Equation):
                hint = "; == compares two expressions, Eq makes an equation of them" if equation in (True, False) else ""
                raise ModelError(f"{self.location}: eqs= takes equations made by Eq(lhs, rhs), got {equation!r}{hint}")
            if is_second_order(equation):
                raise ModelError(
                    f"{equation.label}: second derivatives are taken where a System is declared; here write two equations, "
                    f"of first order"
                )
            if equation.key in seen and self.kind == "System":
                both = (seen[equation.key], equation)
                fix = "keep one, or give them different left-hand sides"
                if any(item.target is not None and not item.target.has(Time) for item in both):
                    fix = f"a value at the start belongs into init={{{equation.key}: ...}}, not into an equation"
                raise ModelError(f"two equations for `{equation.key}`: {both[0].location} and {both[1].location}; {fix}")
            seen[equation.key] = equation
        return equations

    def _collect_names(self) -> dict[str, Named | Head]:
        names: dict[str, Named | Head] = {}
        for leaf in leaves(tuple(getattr(self, field) for field in self.content)):
            for item in symbols_in(leaf):
                if (other := names.setdefault(item.name, item)) != item:
                    if type(other) is type(item) and isinstance(item, Named):
                        what, fix = "declared twice in different ways", "declare it once, with one domain and one law"
                    else:
                        what, fix = f"both a {other.kind_name} and a {item.kind_name}", "give them different names"
                    raise ModelError(f"{self.location}: `{item.name}` is {what} in model `{self.name}`; {fix}")
        return names

    # --- a value
    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"model `{self.name}` is immutable; use replace()")

    def _key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field) for field in self.content)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self).__name__, self._key()))

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}: {len(self.equations)} equations>"

    # --- access
    def __getitem__(self, key: Any) -> Equation:
        name = key if isinstance(key, str) else Equation(key, S.Zero).key if isinstance(key, Expr) else key.name
        for equation in self.equations:
            if equation.key == name:
                return equation
        raise KeyError(f"model `{self.name}` has no equation for `{name}`{did_you_mean(name, self)}")

    def __iter__(self) -> Iterator[str]:
        return iter(equation.key for equation in self.equations)

    def __len__(self) -> int:
        return len(self.equations)

    @property
    def names(self) -> Mapping[str, Named | Head]:
        """Every symbol and function of the model by name."""
        return Table(self._named)

    def knows(self, name: str) -> bool:
        """Whether a symbol or function of that name stands in the model."""
        return name in self._named

    def symbols(self, names: str) -> Any:
        """Return the model's symbols by name: ``w, t = model.symbols("w t")``."""
        if not isinstance(names, str):
            raise ModelError(f"{user_location()}: symbols takes names in a text, such as 'w t'; got {names!r}")
        parts = names.replace(",", " ").split()
        for part in parts:
            if part not in self.names:
                raise ModelError(f"model `{self.name}` has no symbol `{part}`{did_you_mean(part, self.names)}")
        chosen = tuple(self.names[part] for part in parts)
        return chosen[0] if len(chosen) == 1 else chosen

    def of_kind(self, kind: type[N]) -> tuple[N, ...]:
        """Return the symbols and functions of a kind in order of their names."""
        return tuple(item for _, item in sorted(self._named.items()) if isinstance(item, kind))

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters in order of their names."""
        return tuple(item for item in self.of_kind(Parameter) if not item.indices)

    @property
    def is_indexed(self) -> bool:
        """Whether something in it carries an index."""
        return any(item.indices for item in self._named.values())

    def given(self, item: Parameter | Random) -> Any:
        """Return the default of a parameter, or the law of a random constant; None where the model has none."""
        own = item.law if isinstance(item, Random) else item.default
        return self.laws.get(item, self.defaults.get(item, own))

    @property
    def infinite(self) -> dict[Parameter, Expr]:
        """The parameters that are infinite by default, which takes something out of the equations."""
        return {item: value for item in self.parameters if (value := self.given(item)) in (S.Infinity, S.NegativeInfinity)}

    @property
    def randoms(self) -> tuple[Random, ...]:
        """The random constants in order of their names."""
        return self.of_kind(Random)

    @property
    def settable(self) -> dict[str, Parameter | Random]:
        """What can be set, by name: parameters, then random constants, families by their own name."""
        return {item.base: item for item in (*self.parameters, *self.randoms)}

    @property
    def stepped(self) -> tuple[Any, ...]:
        """Noises that are followed in discrete time only, in the order declared."""
        return tuple(key for key, law in self.laws.items() if isinstance(law, IN_STEPS))

    @property
    def time_symbols(self) -> tuple[Time, ...]:
        return self.of_kind(Time)

    @property
    def label(self) -> str:
        """``model `name` (file.py:12)``, as error messages name it."""
        return f"{'flow' if self.kind == 'Flow' else 'model'} `{self.name}` ({self.location})"

    # --- derived models
    def place(self, part: str, name: str) -> Location | None:
        """Return where an entry of one of its tables, such as ``defaults``, was written."""
        return self.location.entry(part, name) if self.location is not None else None

    def _with(self, **changes: Any) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update({**self.__dict__, **changes})
        new.__dict__["_named"] = new._collect_names()
        return new

    def _mapped(self, change: Callable[[Any], Any], *fields: str) -> Self:
        """Return the model with a change made to everything in some of its parts."""
        return self._with(**{field: transform(getattr(self, field), change) for field in fields})

    def replace(self, name: str | None = None, *, eqs: Iterable[Equation] = (), **changes: Any) -> Self:
        """Return a variant: equations replaced by left-hand side (new ones added), tables updated entry by entry.

        Symbols declared again are bound by name to this model's. ``None`` as a table entry removes it. Closed forms
        are those of the equations as they were, and so is the flow: a variant keeps only what is given with it. Observables
        stay as they are written: give one anew whose expression held for the old equations only.
        """
        location = user_location()
        unknown = sorted(set(changes) - set(self.content) - {"doc"})
        if unknown:
            raise ModelError(
                f"{location}: a {self.kind} has no part `{unknown[0]}`{did_you_mean(unknown[0], ['eqs', *self.content])}"
            )
        own = self.name if name is None else _identifier(name, location)
        for field, value in changes.items():
            _shaped(field, value, location)
        fresh = self._checked(eqs, location)
        normal = {key: self._normalise(key, value) for key, value in changes.items()}
        mine, theirs = self._bind_by_name(fresh, normal)
        content = {field: transform(getattr(self, field), mapper(mine)) for field in self.content}
        equations = {equation.key: equation for equation in content["equations"]}
        equations.update({eq.key: eq for eq in (equation.map(theirs) for equation in fresh)})
        content["equations"] = tuple(equations.values())
        if fresh or {"init", "laws", "start"} & set(normal):
            content |= {field: empty for field, empty in (("exact", Table()), ("flow", None)) if field in content}
        for key, value in normal.items():
            value = transform(value, mapper(theirs))
            if isinstance(value, Table):
                merged = {**content[key], **value}
                value = Table((k, v) for k, v in merged.items() if v is not None)
            content[key] = value
        content["name"] = own
        latex = {**self.observable_latex, **_latex_of(changes.get("observables"), location)}
        return self._with(**content, location=location, observable_latex=Table(latex))

    def _normalise(self, field: str, value: Any) -> Any:
        """Return one part of a model in its stored form; kinds of model add the parts of their own."""
        where = user_location()
        match field:
            case "observables" | "variables":
                return expressions(value, where, field)
            case "exact":
                return Table({k: None if v is None else exact_value(v) for k, v in (value or {}).items()})
            case "defaults":
                for key in value or ():
                    if not isinstance(key, Parameter | Random):
                        expected = "defaults= maps parameters to values"
                        raise ModelError(f"{where}: {expected}, got the key `{key}`; use the symbol itself")
                return Table({key: exact_start(entry) for key, entry in (value or {}).items()})
            case "tables":
                return Table(read_tables(value))
            case "conditions":
                for item in (conditions := tuple(value)):
                    if not isinstance(item, Relational):
                        raise ModelError(f"{where}: conditions= takes inequalities such as `delta > 1`, got {item!r}")
                return conditions
            case "cases" | "law_of":  # a name alone is taken whatever the parameters are
                pairs = [(True, value)] if isinstance(value, str) else value if isinstance(value, Iterable) else [value]
                for pair in (pairs := list(pairs)):
                    if not (isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[1], str)):
                        raise ModelError(f"{where}: {field}= takes a model's name or pairs (condition, name), got {pair!r}")
                return tuple((as_expression(condition, f"{field}="), model) for condition, model in pairs)
        return value

    def _bind_by_name(
        self, equations: tuple[Equation, ...], changes: Mapping[str, Any]
    ) -> tuple[dict[Basic, Basic], dict[Basic, Basic]]:
        mine: dict[Basic, Basic] = {}
        theirs: dict[Basic, Basic] = {}
        fresh = [item for leaf in leaves((equations, tuple(changes.values()))) for item in symbols_in(leaf)]
        for item in fresh:
            known = self.names.get(item.name)
            if known is None or known == item:
                continue
            if isinstance(item, Random) and isinstance(known, Random) and item.law is not None:
                mine[known] = item
            elif type(item) is type(known) or type(item) is Symbol:
                theirs[item] = known
        theirs = through_laws(theirs, [item for item in fresh if isinstance(item, Random)])
        mine = through_laws({known: theirs.get(item, item) for known, item in mine.items()}, self.randoms)
        return mine, {**mine, **{item: mine.get(known, known) for item, known in theirs.items()}}

    def subs(self, values: Mapping[Any, Any] | None = None, **by_name: Any) -> Self:
        """Return the model with symbols replaced by expressions or numbers, by symbol or by name."""
        if not isinstance(values, Mapping | None):
            raise ModelError(f"{user_location()}: subs takes values by symbol or name, such as {{alpha: 0.3}}; got {values!r}")
        given = {**(values or {}), **by_name}.items()
        mapping = {(self.symbols(key) if isinstance(key, str) else key): exact_value(value) for key, value in given}
        mapping = through_laws(mapping, self.randoms)
        # one by one takes minutes where many numbers of tables vanish
        change = methodcaller("xreplace" if len(mapping) > len(self.equations) + 20 else "subs", mapping)
        content = {field: transform(getattr(self, field), change) for field in self.content if field != "defaults"}
        content["defaults"] = Table((k, v) for k, v in self.defaults.items() if k not in mapping)
        content["clock"] = None if self.clock is None else self.clock.subs(mapping)
        for condition, value in zip(self.conditions, content["conditions"], strict=True):
            if value == False:  # noqa: E712  (sympy's truth value)
                raise ModelError(f"model `{self.name}` holds for {condition} only ({self.location})")
        content["conditions"] = tuple(item for item in content["conditions"] if item != True)  # noqa: E712
        return self._with(**content)

    # --- display
    def show(self) -> Any:
        """Return the equations for display: LaTeX in a notebook, text at a prompt; in a script, ``print(model.show())``."""
        return lazy_import("Shown")(self)

    def _repr_latex_(self) -> str:
        return str(self.show()._repr_latex_())


_TABLES = {
    "laws": "processes to laws, {z: GP(...)} or {xi: White(...)}",
    "init": "functions to their values at the start, {w: 0}",
    "defaults": "parameters to values, {alpha: 0.3}",
    "observables": "names to expressions, {'loss': C(t, t)}, or with LaTeX of one's own, {'loss': (C(t, t), r'\\ell')}",
    "variables": "names to expressions, {'w': w}",
    "constraints": "functions to equations, {mu: Eq(C(t, t), 1)}",
    "substitute": "unknowns to expressions, {w: sinh(theta(t))}",
    "tables": "tables to arrays or to a function of the parameters, {(Omega, V): hard_spheres}",
    "exact": "unknowns to closed forms, {y(t): exp(-t)}",
    "state": "states to their values at the start, {u: 1}",
    "drift": "states to expressions, {u: -g}",
}
_LISTS = ("conditions", "weights", "fields", "loss_gradient", "gradients")


def _shaped(field: str, value: Any, location: Location | None) -> None:
    """Raise unless a table is given where one belongs, a list where one belongs, and a text where one belongs."""
    if field in _TABLES and not isinstance(value, Mapping) and (value is not None or field in ("state", "drift")):
        raise ModelError(f"{location}: {field}= maps {_TABLES[field]}; got {value!r}")
    if field in _LISTS and (isinstance(value, str | Basic) or not isinstance(value, Iterable)):
        raise ModelError(f"{location}: {field}= takes a list, [...]; got {value!r}")
    if field in ("flow", "cite") and not (isinstance(value, str | None) or (field == "flow" and isinstance(value, Model))):
        raise ModelError(f"{location}: {field}= takes a name, a text; got {value!r}")


def _identifier(name: Any, location: Location | None) -> str:
    if not isinstance(name, str) or not name.isidentifier():
        raise ModelError(f"{location}: a model's name must be a Python identifier, got {name!r}")
    return name


def mapper(mapping: Mapping[Basic, Basic]) -> Callable[[Any], Any]:
    """Return the change that exchanges symbols, for ``transform``."""
    return methodcaller("xreplace", dict(mapping))


def _latex_of(observables: Any, location: Location | None) -> dict[str, str]:
    """Return the LaTeX names given with the expressions of observables."""
    pairs = observables.items() if isinstance(observables, Mapping) else ()
    texts = {key: value[1] for key, value in pairs if isinstance(value, tuple) and len(value) == 2}
    for key, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise ModelError(
                f"{location}: observable `{key}`: beside the expression stands its LaTeX, a text such as "
                f"r'E_\\mathrm{{test}}'; got {text!r}"
            )
    return {str(key): text.strip().strip("$") for key, text in texts.items()}


def expressions(values: Mapping[Any, Any] | None, location: Location | None, what: str) -> Table:
    """Return a table name → expression, with a clear error for what is not an expression."""
    table: dict[str, Expr] = {}
    for key, value in (values or {}).items():
        if not isinstance(key, str) or not key.isidentifier():
            raise ModelError(f"{location}: {what} are named by identifiers, got {key!r}")
        if what == "observables" and isinstance(value, tuple) and len(value) == 2:  # with LaTeX of its own
            value = value[0]
        try:
            item = None if value is None else sympify(value, strict=True)
        except (SympifyError, TypeError):
            item = value
        if item is not None and not isinstance(item, Expr):
            raise ModelError(f"{location}: {what} `{key}` must be an expression, got {value!r}")
        table[key] = item
    return Table(table)
