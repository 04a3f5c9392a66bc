"""The symbols of the language: times, parameters, random variables, unknown numbers and unknown functions.

Every symbol is equal by kind, name, assumptions and printed form, never by object identity, and pickles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from traceback import walk_stack
from typing import Any, ClassVar

from sympy import Atom, Basic, Expr, Symbol, SympifyError, sympify
from sympy.core.assumptions import _assume_defined
from sympy.core.facts import InconsistentAssumptions
from sympy.core.function import Derivative
from sympy.printing.latex import latex as latex_text

from eqsolve.errors import ModelError, did_you_mean
from eqsolve.language.source import here, user_location

_NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*'*\Z")
GREEK = [
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu", "nu",
    "xi", "rho", "sigma", "tau", "phi", "chi", "psi", "omega", "Gamma", "Delta", "Theta", "Lambda", "Xi", "Pi",
    "Sigma", "Phi", "Psi", "Omega", "pi",
]  # fmt: skip
_ASSUMPTIONS = sorted({"positive", "nonnegative", "negative", "integer", *_assume_defined})
_SPELLED = {"lam": r"\lambda", "star": "*", "tilde": r"\sim"}


def default_latex(name: str) -> str:
    """Return the LaTeX form of a declared name: ``C_w`` gives ``C_{w}``, ``w_star`` gives ``w^{*}``."""
    stem, primes = name.rstrip("'"), "'" * (len(name) - len(name.rstrip("'")))
    head, *tail = stem.split("_") if not stem.startswith("_") else [stem.replace("_", r"\_")]
    digits = re.fullmatch(r"([A-Za-z]+?)(\d+)", head)
    if digits:
        head, tail = digits[1], [digits[2], *tail]
    text = _SPELLED.get(head, rf"\{head}" if head in GREEK else head)
    if len(text) > 1 and not text.startswith("\\"):
        text = rf"\mathrm{{{text}}}"
    upper = "*" if "star" in tail else ""
    if "tilde" in tail:
        text = rf"\tilde{{{text}}}"
    words = [word for word in tail if word not in ("star", "tilde")]
    lower = ",".join(
        rf"\{word}" if word in GREEK else (word if len(word) == 1 or word.isdigit() else rf"\mathrm{{{word}}}")
        for word in words
    )
    return text + (f"_{{{lower}}}" if lower else "") + (f"^{{{upper}}}" if upper else "") + primes


def _member_name(name: str, latex: str, indices: tuple[Any, ...]) -> tuple[str, str]:
    """Return name and LaTeX of a member, ``phi[k]``, φ_{k}; its indices join a subscript that is there."""
    if not indices:
        return name, latex
    subscripted = re.fullmatch(r"(.*)_\{(.*?)\}(\^.*|'*)", latex)
    head, inside, rest = subscripted.groups() if subscripted else (latex, "", "")
    subscript = ",".join(filter(None, (inside, *map(latex_text, indices))))
    return f"{name}[{', '.join(map(str, indices))}]", f"{head}_{{{subscript}}}{rest}"


def check_name(name: str, kind: str) -> None:
    """Raise unless ``name`` is a letter or underscore followed by letters, digits, underscores, then primes."""
    if not _NAME.match(name):
        raise ModelError(
            f"{here()}`{name}` is not a name for a {kind}; expected letters, digits and underscores, "
            "with primes at the end, such as `C_w` or `t'`"
        )


def as_expression(value: Any, what: str) -> Any:
    """Return a value as sympy has it. Text is refused: sympy would evaluate it as Python code."""
    try:
        return sympify(value, strict=True)
    except (SympifyError, TypeError):
        hint = "; write it with declared symbols, not as text" if isinstance(value, str) else ""
        raise ModelError(f"{here()}{what} takes an expression, got {value!r}{hint}") from None


def as_scalar(value: Any, what: str) -> Expr:
    """Return a value as an expression that stands for a number."""
    expr = as_expression(value, what)
    if not isinstance(expr, Expr):
        raise ModelError(f"{here()}{what} takes an expression, got `{value}`")
    return expr


def _refuse_index(item: Any) -> None:
    """Raise where something is differentiated by a member at an index: Σ_j f[j] by f[k] would be found to be zero.

    What sympy differentiates to tell the sign of an expression in one symbol is not.
    """
    callers = (frame.f_code.co_name for frame, _ in walk_stack(None))
    if any(not entry.is_number for entry in item.indices) and "_monotonic_sign" not in callers:
        raise ModelError(f"{here()}the derivative by `{item}`, a member of a family, is not worked out; write the derivative")


Place = tuple[tuple[Any, ...], tuple[Any, ...]]
"""The indices that the family of a member was declared with, and those it stands with."""


class Declared:
    """What symbols and functions share: the name of their kind in messages, their LaTeX, their place in a family."""

    __slots__ = ()
    kind_name: ClassVar[str]
    name: str
    latex_name: str
    own_latex: str | None
    base: str  # of a member of a family, its name
    axes: tuple[Any, ...]
    indices: tuple[Any, ...]
    extra: tuple[Any, ...]
    changed: Callable[..., Any]

    def __init_subclass__(cls, kind: str = "") -> None:
        super().__init_subclass__()
        cls.kind_name = kind or cls.__name__.lower()

    def member(self, indices: tuple[Any, ...]) -> Any:
        """Return another member of its family."""
        return self.changed(place=(self.axes, indices))

    def _latex(self, printer: Any) -> str:
        return self.latex_name


class Named(Declared, Symbol, kind="symbol"):
    """A real sympy symbol that knows its kind and its LaTeX form."""

    __slots__ = ("axes", "base", "extra", "indices", "latex_name", "own_latex")

    def __new__(
        cls, name: str, latex: str | None = None, extra: tuple[Any, ...] = (),
        member: Place = ((), ()), **assumptions: bool,
    ) -> Named:  # fmt: skip
        check_name(name, cls.kind_name)
        for word, truth in assumptions.items():
            if not isinstance(truth, bool | None):
                raise ModelError(f"{here()}`{name}`: {word}= takes True or False, got {truth!r}")
            if word not in _ASSUMPTIONS:
                raise ModelError(f"{here()}`{name}`: there is no assumption `{word}`{did_you_mean(word, _ASSUMPTIONS)}")
        assumptions.setdefault("real", True)
        cls._sanitize(assumptions, cls)
        shown, written = _member_name(name, latex or default_latex(name), member[1])
        try:
            obj: Named = Symbol.__xnew__(cls, shown, **assumptions)
        except InconsistentAssumptions:
            words = ", ".join(assumptions)
            raise ModelError(f"{here()}`{name}`: the assumptions {words} contradict each other") from None
        obj.base, obj.own_latex, obj.latex_name, obj.extra = name, latex, written, extra
        obj.axes, obj.indices = member
        return obj

    def __getnewargs_ex__(self) -> tuple[tuple[Any, ...], dict[str, bool]]:
        return ((self.base, self.own_latex, self.extra, (self.axes, self.indices)), self._assumptions_orig)

    def _hashable_content(self) -> tuple[Any, ...]:
        return (*super()._hashable_content(), self.latex_name, self.extra, self.axes)

    def changed(self, extra: tuple[Any, ...] | None = None, place: Place | None = None) -> Any:
        """Return the same with another ``extra``, or as a member at another place."""
        parts = self.extra if extra is None else extra, place or (self.axes, self.indices)
        return type(self)(self.base, self.own_latex, *parts, **self._assumptions_orig)

    @property
    def _diff_wrt(self) -> bool:
        _refuse_index(self)
        return True


# What symbols mean, by their file: no part of what they are, so that equal symbols may mean
# something else elsewhere.
MEANINGS: dict[str, dict[Named, str]] = {}
_INHERITED: set[tuple[str, str]] = set()


def tell_meanings(words: Mapping[Named, str], *, inherited: str = "") -> None:
    """Keep what symbols mean in the user's file that is running; what it says itself goes before what it inherits.

    ``inherited`` is the file that it inherits from: looked at once, since merging compares symbols.
    """
    if words and (place := user_location()) is not None and (place.file, inherited) not in _INHERITED:
        known = MEANINGS.get(place.file, {})
        MEANINGS[place.file] = {**words, **known} if inherited else {**known, **words}
        if inherited:
            _INHERITED.add((place.file, inherited))


def meanings(file: str | None) -> Mapping[Named, str]:
    """Return what the symbols of a model's file mean, in words."""
    return MEANINGS.get(file or "", {})


class Time(Named):
    """A time variable."""


class Bounded(Named):
    """A number in an interval (``extra`` holds its lower and its upper bound, if declared)."""

    @property
    def bounds(self) -> tuple[Expr | None, Expr | None]:
        return (self.extra[0], self.extra[1]) if self.extra else (None, None)


class Parameter(Bounded):
    """A number the user sets when solving, with its domain (the third of ``extra`` is the default)."""

    @property
    def default(self) -> Expr | None:
        return self.extra[2] if self.extra else None


class Random(Named, kind="random variable"):
    """A random constant; ``law`` is its declared law, or None when the model that uses it supplies one."""

    @property
    def law(self) -> Basic | None:
        return self.extra[0] if self.extra else None

    def with_law(self, law: Basic) -> Random:
        """Return the same constant with another law."""
        return self.changed((law, *self.extra[1:]))


class Unknown(Bounded):
    """A scalar unknown of a fixed point or of a transform equation."""


class Plain(Named, kind="symbol"):
    """A bound variable, such as the ``y`` of ``Inverse(f(y), y)``."""


class State(Named):
    """One component of the microscopic state θ of a flow."""

    def diff(self, *symbols: Any, **given: Any) -> Any:
        """Return the velocity θ', a state too, or θ'' by ``diff(t, 2)``; by another symbol than time as sympy does."""
        if not symbols or not isinstance(symbols[0], Time):
            return super().diff(*symbols, **given)
        member, latex = (self.axes, self.indices), self.own_latex or default_latex(self.base)
        speed = State(f"{self.base}_velocity", rf"\dot{{{latex}}}", (), member)
        if symbols[1:] not in ((), (1,), (2,)):
            raise ModelError(f"{here()}`{self}`: a flow has first and second derivatives, diff(t) and diff(t, 2)")
        return Acceleration(f"{self.base}_acceleration", None, (self, speed), member) if symbols[1:] == (2,) else speed


class Acceleration(State, kind="second derivative"):
    """The second derivative of a state, which a drift may be given for; ``extra`` holds the state and its velocity."""


class Field(Named):
    """One field f = X w(θ) of a flow."""


class Gradient(Named):
    """One gradient g = Xᵀℓ/δ of a flow."""


DRAWN = (Random, State, Field, Gradient)
"""Symbols that differ between draws, coordinates or samples: they are averaged over."""


class Head(Declared, Atom, kind="function"):
    """The name of an unknown function of time; calling it with times gives its value there.

    It is an atom: sympy takes expressions apart down to their atoms and puts them together again.
    """

    times: ClassVar[tuple[str, ...]] = ("t",)
    arity = property(lambda self: len(self.times))
    extra = ()

    def __new__(cls, name: str, latex: str | None = None, member: Place = ((), ())) -> Head:
        check_name(name, cls.kind_name)
        obj: Head = Basic.__new__(cls)
        obj.base, obj.own_latex = name, latex
        obj.axes, obj.indices = member
        obj.name, obj.latex_name = _member_name(name, latex or default_latex(name), obj.indices)
        return obj

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.base, self.own_latex, (self.axes, self.indices))

    def _hashable_content(self) -> tuple[Any, ...]:
        return (self.name, self.latex_name, self.axes)

    def changed(self, extra: tuple[Any, ...] = (), place: Place | None = None) -> Any:
        """Return the same as a member at another place."""
        return type(self)(self.base, self.own_latex, place or (self.axes, self.indices))

    def __call__(self, *moments: Any) -> Value:
        if len(moments) != self.arity:
            raise ModelError(
                f"{here()}`{self.name}` is a {self.kind_name} and takes {self.arity} "
                f"time{'s' if self.arity > 1 else ''}, got {len(moments)}; write `{self.usage}`"
            )
        return Value(self, *(as_expression(moment, f"`{self.name}`") for moment in moments))

    @property
    def usage(self) -> str:
        """How it is written at its times, such as ``C(t, t')``."""
        return f"{self.name}({', '.join(self.times)})"

    @property
    def uncalled(self) -> str:
        """What is wrong where it stands by itself, and what to do."""
        return f"the {self.kind_name} `{self.name}` stands without its times; write `{self.usage}`"

    def _uncalled(self, *_: Any) -> Any:
        raise ModelError(f"{here()}{self.uncalled}")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _uncalled
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __neg__ = diff = _uncalled

    def _sympystr(self, printer: Any) -> str:
        return self.name

    @property
    def free_symbols(self) -> set[Basic]:
        return set()

    def sort_key(self, order: Any = None) -> Any:
        return self.class_key(), (1, (self.name,)), sympify(1).sort_key(), sympify(1)


class Process(Head):
    """A stochastic process x(t)."""


class Function(Head, kind="one-time function"):
    """A deterministic function of one time."""


class TwoTime(Head):
    """A function of two times."""

    times = ("t", "t'")


class Correlation(TwoTime):
    """A symmetric function of two times, C(t, t') = C(t', t)."""

    @property
    def turned(self) -> Correlation:
        """What it is with its times exchanged."""
        return self


class CrossCorrelation(Correlation, kind="cross-correlation"):
    """The correlation of two members of a family, C_kl(t, t') = C_lk(t', t): not symmetric in its times alone.

    ``other`` is the name of C_lk, with its LaTeX.
    """

    other: tuple[str, str]

    def __new__(cls, name: str, latex: str, other: tuple[str, str]) -> CrossCorrelation:
        correlation: CrossCorrelation = super().__new__(cls, name, latex)
        correlation.other = other
        return correlation

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (self.name, self.latex_name, self.other)

    @property
    def turned(self) -> CrossCorrelation:
        name, latex = self.other
        return CrossCorrelation(name, latex, (self.name, self.latex_name))


class Response(TwoTime):
    """A causal function of two times, R(t, t') = 0 for t < t'."""


def part(place: int, inner: int | None = None) -> Any:
    """Return a property that reads one of a node's arguments, or an entry of one."""
    if inner is None:
        return property(lambda node: node.args[place])
    return property(lambda node: node.args[place].args[inner])


class Written(Expr):
    """Base of nodes with a printed form of their own, commutative and real; ``text`` and ``latex`` take the parts."""

    is_commutative = True
    is_real = True
    bracketed: ClassVar[bool] = False  # whether a power of it needs brackets
    text: ClassVar[str]
    latex: ClassVar[str]

    def _sympystr(self, printer: Any) -> str:
        return self.text.format(*map(printer._print, self.args))

    def _body(self, printer: Any) -> str:
        return self.latex.format(*map(printer._print, self.args))

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        body: str = self._body(printer)
        if exp is None:
            return body
        return rf"\left({body}\right)^{{{exp}}}" if self.bracketed else rf"{body}^{{{exp}}}"


class Value(Written):
    """An unknown function at given times, ``head(t, ...)``."""

    is_finite = True

    @property
    def _diff_wrt(self) -> bool:
        _refuse_index(self.head)
        return True

    def __new__(cls, head: Head, *moments: Expr) -> Value:
        return Expr.__new__(cls, head, *moments)

    @property
    def head(self) -> Head:
        return self.args[0]

    @property
    def moments(self) -> tuple[Expr, ...]:
        return self.args[1:]

    def diff(self, *symbols: Any, **assumptions: Any) -> Any:
        """Return the derivative, as sympy does; in equations it is one in a time, ``w(t).diff(t)``."""
        if not symbols or not all(isinstance(item, Basic | int | tuple) for item in symbols) or isinstance(symbols[0], int):
            got = ", ".join(map(repr, symbols)) or "nothing"
            raise ModelError(f"{here()}`{self}` is differentiated in a time, `{self}.diff({self.moments[0]})`; got {got}")
        return super().diff(*symbols, **assumptions)

    def _eval_derivative(self, variable: Expr) -> Expr:
        if any(variable in moment.free_symbols for moment in self.moments):
            return Derivative(self, variable, evaluate=False)
        return sympify(0)

    def _sympystr(self, printer: Any) -> str:
        return f"{self.head.name}({', '.join(printer._print(moment) for moment in self.moments)})"

    def _body(self, printer: Any) -> str:
        return f"{self.head.latex_name}({','.join(printer._print(moment) for moment in self.moments)})"


def fresh_name(wanted: str, taken: Container[str]) -> str:
    """Return a name that is not taken: the one wanted, or it with underscores."""
    while wanted in taken:
        wanted += "_"
    return wanted
