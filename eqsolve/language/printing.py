"""Equations as text and as LaTeX, with the terms in the order in which they were written."""

import functools
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from sympy import Add, Expr, Float, Mul, Pow, Rational, S, Tuple, preorder_traversal
from sympy.core.function import Derivative
from sympy.printing.latex import LatexPrinter
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter

from eqsolve.language.laws import Law
from eqsolve.language.model import Equation, Model
from eqsolve.language.source import Order
from eqsolve.language.symbols import Head, Named, Parameter, Plain, Random, Time, default_latex, meanings
from eqsolve.language.system import Cases, FixedPoint, Flow, Singularity, System

# --- A cache of what is derived from a model, by identity: comparing models is symbolic work.
M = TypeVar("M")
T = TypeVar("T")
_KEPT: dict[str, dict[int, tuple[Any, Any]]] = {}


def kept_by_model(make: Callable[[M], T]) -> Callable[[M], T]:
    """Return a function that makes something of a model, and keeps the last ones."""
    table: dict[int, tuple[Any, T]] = _KEPT.setdefault(f"{make.__module__}.{make.__qualname__}", {})

    @functools.wraps(make, updated=())
    def kept(model: M) -> T:
        known = table.get(id(model))
        if known is None or known[0] is not model:
            known = table[id(model)] = (model, make(model))
            while len(table) > 128:  # texts kept at most
                del table[next(iter(table))]
        return known[1]

    return kept


def all_kept() -> dict[str, list[tuple[Any, Any]]]:
    """Return all that is kept, as pairs of a model and what was made of it, by what made it."""
    return {name: list(table.values()) for name, table in _KEPT.items()}


def take_kept(entries: dict[str, list[tuple[Any, Any]]]) -> None:
    """Keep what another process had kept."""
    for name, pairs in entries.items():
        _KEPT.setdefault(name, {}).update({id(pair[0]): pair for pair in pairs})


# --- The LaTeX of every name of a model: declared, or made from the name.
def latex_names(models: Iterable[Model]) -> dict[str, str]:
    """Return LaTeX by name: symbols, unknowns, observables, named quantities, and under ``"t"`` the time that runs.

    Of several models, such as a rate and the fixed point behind it, the first that has a name decides.
    """
    return dict(ChainMap(*map(_names, models)))


@kept_by_model
def _names(model: Model) -> dict[str, str]:
    observables = {name: model.observable_latex.get(name) or default_latex(name) for name in model.observables}
    variables = {name: default_latex(name) for name in model.variables}
    symbols = {name: item.latex_name for name, item in model.names.items()}
    symbols |= {item.base: item.own_latex or default_latex(item.base) for item in model.names.values() if item.indices}
    clocks = (eq.time.latex_name for eq in model.equations if isinstance(eq.time, Time))  # of the first equation that runs
    running = next(clocks, None) if model.clock is None else expression_latex(model.clock)
    return {**symbols, **variables, **observables, **({} if running is None else {"t": running})}


class _Written:
    """Prints sums and products in a remembered order; shared by the two printers below."""

    def __init__(self, order: Order) -> None:
        super().__init__({"full_prec": False})  # type: ignore[call-arg]
        self.order_of_terms = order

    def parts(self, expr: Expr) -> list[Expr] | None:
        found = self.order_of_terms.get(expr)
        return list(found) if found and expr not in found else None  # a sum that is written with a term that vanishes

    def bracket(self, expr: Expr, level: int) -> str:
        return str(self.parenthesize(expr, level))  # type: ignore[attr-defined]

    def _print_Add(self, expr: Add, order: Any = None) -> str:
        terms = self.parts(expr)
        if terms is None or Add(*terms) != expr:
            return str(super()._print_Add(expr, order=order))  # type: ignore[misc]
        written = ""
        for term in terms:
            negative = term.could_extract_minus_sign()
            sign = (" - " if negative else " + ") if written else "-" * negative
            written += sign + self.bracket(-term if negative else term, PRECEDENCE["Add"])
        return written

    def _print_Mul(self, expr: Mul) -> str:
        factors = self.parts(expr)
        if factors is None and (opposite := self.parts(-expr)):
            factors = [S.NegativeOne, *opposite]
        if factors is None or Mul(*factors) != expr:
            return str(super()._print_Mul(expr))  # type: ignore[misc]
        sign, above, below = 1, [], []
        for factor in factors:
            if factor == -1:
                sign = -sign
            elif isinstance(factor, Pow) and factor.exp.is_Integer and factor.exp < 0:
                below.append(factor.base**-factor.exp)
            elif factor.is_Rational and factor.p == 1 and factor.q != 1:
                below.append(S(factor.q))
            elif factor != 1:
                negative = factor.is_Mul and factor.could_extract_minus_sign()
                sign = -sign if negative else sign
                above.append(-factor if negative else factor)
        body = self.fraction(above, below)  # type: ignore[attr-defined]
        return f"-{body}" if sign < 0 else str(body)


class TextPrinter(_Written, StrPrinter):
    """sympy's text, with the terms in the order in which they were written."""

    def fraction(self, above: list[Expr], below: list[Expr]) -> str:
        level = PRECEDENCE["Mul"]
        top = "*".join(self.bracket(item, level) for item in above) or "1"
        bottom = "*".join(str(self.parenthesize(item, level, strict=True)) for item in below)
        if not bottom:
            return top
        return f"{top}/({bottom})" if len(below) > 1 else f"{top}/{bottom}"

    def _print_Derivative(self, expr: Derivative) -> str:
        mark = "d" if len(expr.expr.args) <= 2 else "∂"
        inner = self._print(expr.expr)
        if not isinstance(expr.expr, Expr) or expr.expr.is_Add or expr.expr.is_Mul:
            inner = f"({inner})"
        return f"{mark}{inner}/{mark}{self._print(expr.variables[0])}"

    def _print_Abs(self, expr: Expr) -> str:
        return f"|{self._print(expr.args[0])}|"


class _Latex(_Written, LatexPrinter):
    # A symbol needs no brackets. sympy goes by the class's name, and takes a flow's Gradient for
    # its vector operator.
    def parenthesize(self, item: Any, level: int, is_neg: bool = False, strict: bool = False) -> str:
        if isinstance(item, Named):
            return str(self._print(item))
        return str(super().parenthesize(item, level, is_neg=is_neg, strict=strict))

    def _needs_mul_brackets(self, expr: Expr, first: bool = False, last: bool = False) -> bool:
        return not isinstance(expr, Named) and bool(super()._needs_mul_brackets(expr, first=first, last=last))

    def fraction(self, above: list[Expr], below: list[Expr]) -> str:
        level = PRECEDENCE["Mul"]

        def product(items: list[Expr]) -> str:
            return " ".join(self.bracket(item, level) for item in items) or "1"

        if not below:
            return product(above)
        top, bottom = (self._print(items[0]) if len(items) == 1 else product(items) for items in (above, below))
        return rf"\frac{{{top}}}{{{bottom}}}"

    def _print_Derivative(self, expr: Derivative) -> str:
        mark = r"\mathrm{d}" if len(expr.expr.args) <= 2 else r"\partial"
        return rf"\frac{{{mark}}}{{{mark} {self._print(expr.variables[0])}}} {self._print(expr.expr)}"


def expression_text(expr: Any, order: Order | None = None) -> str:
    """Return an expression as text, terms in the given order."""
    return str(TextPrinter(order or {}).doprint(expr))


def expression_latex(expr: Any, order: Order | None = None) -> str:
    """Return an expression as LaTeX, terms in the given order."""
    return str(_Latex(order or {}).doprint(expr))


def equation_text(equation: Equation) -> tuple[str, str]:
    """Return the two sides of an equation as text."""
    return expression_text(equation.lhs, equation.order), expression_text(equation.rhs, equation.order)


def equation_latex(equation: Equation) -> str:
    """Return an equation as one aligned LaTeX line."""
    return f"{expression_latex(equation.lhs, equation.order)} &= {expression_latex(equation.rhs, equation.order)}"


class Label(NamedTuple):
    """A left-hand side that is no expression, in its two forms."""

    text: str
    latex: str


Line = tuple[Any, str, Any]


def _shortener(model: Model) -> Callable[..., Any]:
    """Return a function that writes a model's named quantities by their names, the largest first."""
    named = [(value, Plain(name)) for name, value in model.variables.items() if value.args]
    named.sort(key=lambda pair: -sum(1 for _ in preorder_traversal(pair[0])))

    def shorten(item: Expr, keep: Expr | None = None) -> Expr:
        for value, name in named:
            item = item if value == keep else item.subs(value, name)
        return item

    return shorten


def _lines(model: Model) -> tuple[list[Equation], list[tuple[str, list[Line]]]]:
    """Return a model's equations and its further statements, as (title, [(left, relation, right)]).

    A parameter that is infinite by default has taken something out of the equations: they are shown without it.
    """
    sections: list[tuple[str, list[Line]]] = []
    defaults = {**{p: p.default for p in model.parameters if p.default is not None}, **model.defaults}
    if infinite := model.infinite:
        model = model.subs(infinite)
    shorten = _shortener(model)
    equations = [equation.changed(shorten) for equation in model.equations]
    variables = model.variables
    named = {name: value for name, value in variables.items() if not (infinite and value.is_number)}
    drawn: list[Line] = [(item, "~", item.law) for item in model.randoms if item.law is not None]
    where: list[Line] = [(Plain(name), "=", shorten(value, keep=value)) for name, value in named.items()]
    if isinstance(model, System):
        laws: list[Line] = [(key, "~", law) for key, law in model.laws.items()]
        sections.append(("where", laws + [line for line in drawn if line[0] not in model.laws]))
        for head, constraint in model.constraints.items():
            sections.append((f"{head.name} is such that", [(constraint.lhs, "=", constraint.rhs)]))
        begin: list[Line] = []
        past: list[Line] = []  # of a function that is read at a delay
        for key, value in model.init.items():
            if isinstance(key, Expr) or not value.has(Time):
                left = key if isinstance(key, Expr) else key(model.start)
                begin.append((left, "=" if isinstance(value, Expr) else "~", value))
            else:
                past.append((key(min(value.atoms(Time), key=str)), "=", value))
        changes = [(key, "=", value) for key, value in model.substitute.items()]
        sections += [("start", begin), ("past, up to the start", past), ("exact change of variables", changes)]
        sections.append(("closed form", list(_closed(model))))
    elif isinstance(model, FixedPoint):
        sections += [("where", where), ("law", drawn), ("closed form", list(_closed(model)))]
    elif isinstance(model, Cases):
        sections.append(("cases", [(name, "if", condition) for condition, name in model.cases]))
    elif isinstance(model, Singularity):
        sections.append(("where", where))
        sections.append(("law of the random variables", [(name, "if", condition) for condition, name in model.law_of]))
    elif isinstance(model, Flow):
        rate, matrix = r"\frac{\mathrm{d}}{\mathrm{d} t} ", f"= (1/{model.ratio.name}) Xᵀ"
        starts = [(Label(f"{k.name}(0)", f"{k.latex_name}(0)"), v) for k, v in model.state.items()]
        sections += [
            ("weights and fields", [(f, "= X", shorten(w)) for f, w in zip(model.fields, model.weights, strict=True)]),
            ("gradients", [(g, matrix, loss) for g, loss in zip(model.gradients, model.loss_gradient, strict=True)]),
            ("drift", [(Label(f"d{k.name}/dt", rate + k.latex_name), "=", shorten(v)) for k, v in model.drift.items()]),
            ("where", where),
            ("start", [(label, "=" if isinstance(value, Expr) else "~", value) for label, value in starts]),
            ("law", [*((key, "~", law) for key, law in model.laws.items()), *drawn]),
        ]
    sections.append(("observables", [(name, "=", shorten(value)) for name, value in model.observables.items()]))
    sections.append(("conditions", [(item.lhs, item.rel_op, item.rhs) for item in model.conditions]))
    sections.append(("defaults", [(key, "=", value) for key, value in defaults.items()]))
    return equations, [(title, lines) for title, lines in sections if lines]


def _closed(model: System | FixedPoint) -> Iterator[Line]:
    """Yield the declared closed forms, a function at the times of its own equation."""
    for key, value in model.exact.items():
        target = model[key].target if isinstance(key, Head) and key.name in model else None
        yield (target if target is not None else key, "=", value)


class Shown:
    """A model laid out for reading: text in a terminal, LaTeX in Jupyter."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def sections(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """Return titles and, under each, lines as (left, relation, right); the equations come first."""
        equations, sections = _lines(self.model)
        pairs = [equation_text(equation) for equation in equations]
        rows = [(f"{self.model.name} ({self.model.kind})", [(left, "=", right) for left, right in pairs])]
        rows += [(title, [(_side(left), rel, _right(right, rel)) for left, rel, right in lines]) for title, lines in sections]
        return rows

    def text(self) -> str:
        """Return the equations aligned at their equality signs."""
        sections = self.sections()
        width = max((len(left) for _, lines in sections for left, _, _ in lines), default=0)
        text = []
        told = meanings(self.model.file).items()
        known = {item.name: words for item, words in told if isinstance(item, Parameter | Random)}
        for title, lines in sections:
            text.append(title)
            notes = known if title in ("defaults", "where") else {}
            room = max((len(right) for left, _, right in lines if left in notes), default=0)
            for left, relation, right in lines:
                end = f"{right:<{room}}  ({notes[left]})" if left in notes else right
                text.append(f"  {left:>{width}} {relation} {end}")
        return "\n".join(text)

    def latex(self) -> str:
        """Return an ``align`` environment with the equations, then what else the model states."""
        equations, sections = _lines(self.model)
        rows = [equation_latex(equation) for equation in equations]
        for title, lines in sections:
            if title in ("defaults", "observables", "conditions", "exact change of variables", "closed form"):
                continue
            rows += [f"{_side(left, True)} &{_relation(rel)} {_right(right, rel, True)}" for left, rel, right in lines]
        return "\\begin{align}\n" + " \\\\\n".join(f"    {row}" for row in rows) + "\n\\end{align}"

    def __repr__(self) -> str:
        return self.text()

    def _repr_latex_(self) -> str:
        return "$$" + self.latex().replace("{align}", "{aligned}") + "$$"


def decimal_text(item: Law | Rational) -> str:
    """Format a law or a number in user syntax: Bernoulli(0.1) for Bernoulli(1/10)."""
    return expression_text(_decimals(item))


def _decimals(item: Any) -> Any:
    """Show 1/10 as 0.1 where the user wrote a decimal: exact values are kept, only their print changes."""
    decimals = [n for n in item.atoms(Rational) if n.q != 1 and 10**12 % n.q == 0]
    return item.xreplace({n: Float(str(float(n))) for n in (*decimals, *item.atoms(Float))})


def _side(item: Any, latex: bool = False) -> str:
    """Return one side of a statement as text or as LaTeX."""
    if isinstance(item, Label):
        return item.latex if latex else item.text
    if isinstance(item, Tuple):
        return ", ".join(_side(entry, latex) for entry in item)
    if isinstance(item, str):
        return rf"\mathtt{{{item.replace('_', chr(92) + '_')}}}" if latex else item
    shown = _decimals(item) if isinstance(item, Law | Rational) else item
    return expression_latex(shown) if latex else expression_text(shown)


def _right(item: Any, relation: str, latex: bool = False) -> str:
    """Return a right-hand side, in brackets where a matrix acts on a sum or on what is negative."""
    text, (opening, closing) = _side(item, latex), (r"\left(", r"\right)") if latex else "()"
    return f"{opening}{text}{closing}" if "X" in relation and (isinstance(item, Add) or text.startswith("-")) else text


def _relation(relation: str) -> str:
    if relation.startswith("= (1/"):
        return rf"= \frac{{1}}{{{default_latex(relation[5:-4])}}} X^\top"
    return {"~": r"\sim", "if": r"\quad\text{if }"}.get(relation, relation)
