"""What the engine makes of a model: equations, dependencies, their order, derived equations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from sympy import Add, Basic, Dummy, Expr, Mul, S, Symbol, expand, sign
from sympy.core.function import Derivative

from eqsolve.errors import EqsolveError
from eqsolve.language.laws import Normal
from eqsolve.language.model import Equation, Model
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.printing import equation_text, expression_text
from eqsolve.language.symbols import Parameter, Process, Response, Unknown, Value, meanings
from eqsolve.language.system import FixedPoint, Flow, Singularity, System
from eqsolve.passes.forms.causality import Causality, analyse_causality
from eqsolve.passes.forms.convolution_form import delay_of, delayed_heads, has_shifts, shifted_values
from eqsolve.passes.forms.expressions import free_times
from eqsolve.passes.forms.kinks import Switch, take_apart
from eqsolve.passes.forms.path_form import COLUMN, MIDDLE, ROW, PathEnsemble, PathForm, as_written, sort_factors
from eqsolve.passes.forms.structure import Derivation, models_behind, reduce_fixed_point, signature_of
from eqsolve.passes.forms.tangents import TangentEquation, linearise
from eqsolve.verbs import lazy_import

Section = tuple[str, tuple[str, ...]]
"""A title, and the lines under it."""


# --- Of a fixed point what remains to be solved: unknowns given by others, and the kinks at which expectations are split.
def describe_reduction(model: FixedPoint) -> tuple[Section, ...]:
    """Return titles and lines: what is eliminated, what is solved for, where expectations are split; at the defaults."""
    values: dict[Parameter, Expr] = {item: S(value) for item in model.parameters if (value := model.given(item)) is not None}
    declared = frozenset(item.name for item in model.randoms if isinstance(item.law, Normal))
    try:
        reduced = reduce_fixed_point(model, values, declared)
        sides = [side for equation in reduced.equations for side in (equation.lhs, equation.rhs)]
        nodes = {node for expr in (*sides, *reduced.observables.values()) for node in expr.atoms(E)}
        randoms: frozenset[Basic] = frozenset((*model.randoms, *(xi for xi, _ in reduced.gaussians.values())))
        _, stages = take_apart([node.argument for node in sorted(nodes, key=str)], randoms)
    except (EqsolveError, TypeError):  # a model with problems is explained as far as it goes
        return ()
    kinks: list[Expr] = []
    known: dict[Basic, Basic] = {}
    for stage in (item for item in stages if isinstance(item, Switch)):
        kinks.append(stage.expression.xreplace(known))
        known[stage.symbol] = sign(kinks[-1])
    return (
        ("eliminated (given by the others)", tuple(f"{u.name} = {expression_text(e)}" for u, e in reduced.eliminated)),
        ("solved for", (", ".join(_called(reduced.unknowns)) or "nothing: all is explicit",)),
        ("kinks (expectations are split where these vanish)", tuple(expression_text(expr) for expr in kinks)),
    )


# --- Shifted times in words: which integrals join s and t − s, and which delays there are. How these are solved, the
# solver says itself.
def describe_shifts(system: System) -> tuple[Section, ...]:
    """Return titles and lines about the shifted times of a system; nothing where there are none."""
    if not has_shifts(system):
        return ()
    shifted = shifted_values(system)
    convolutions = []
    for equation, node in ((eq, node) for eq in system.equations for node in sorted(eq.rhs.atoms(Int), key=str)):
        inside = sorted({expression_text(value, equation.order) for value in shifted if node.has(value)})
        how = f"joins {', '.join(inside)} with what stands at {node.variable}" if inside else "no shifted time"
        convolutions.append(f"in the equation for {equation.key}: {expression_text(node, equation.order)} ({how})")
    moments = [value.moments[0] for value in shifted if len(free_times(value.moments[0])) == 1]
    lags = (delay_of(moment, *free_times(moment)) for moment in moments)
    delays = ", ".join(dict.fromkeys(expression_text(lag) for lag in lags if lag is not None))
    names = ", ".join(sorted(head.name for head in delayed_heads(system)))
    past = f"{names} at the delays {delays}: the past before t = {system.start} is the one given as start"
    return ("memory integrals", tuple(convolutions)), ("delays", (past,) if delays else ())


# --- The tangent equations of a path form, written out in the times that a user knows.
def write_tangents(form: PathForm) -> Iterator[TangentEquation]:
    """Yield the linearised equations of the unknowns that respond to a noise named in a ``Resp``."""
    for ensemble in form.ensembles:
        noises = {mean.noise for mean in ensemble.means if mean.noise is not None}
        paths = _path_equations(ensemble, form.start) if noises else []
        for noise in sorted(noises, key=lambda item: item.name):
            for item in linearise(paths, noise, ROW, COLUMN):
                initial = None if item.initial is None else as_written(item.initial)
                equation, jump = item.equation.changed(as_written), as_written(item.instantaneous)
                yield replace(item, equation=equation, instantaneous=jump, initial=initial)


def write_memories(form: PathForm) -> Iterator[str]:
    """Yield the integrals over the past that are unknowns of their own, since their weight differs between paths."""
    for ensemble in form.ensembles:
        for unknown, equation in zip(ensemble.unknowns, _path_equations(ensemble, form.start), strict=True):
            if isinstance(unknown.symbol, Dummy):
                yield " = ".join(equation_text(equation.changed(as_written)))


def _path_equations(ensemble: PathEnsemble, start: Expr) -> list[Equation]:
    """Return the equation of every unknown along a path, definitions put in; integrals are functions of time."""
    memories = [item for item in ensemble.unknowns if isinstance(item.symbol, Dummy)]
    shown = {item.symbol: Process(item.name.removeprefix("memory "))(ROW) for item in memories}
    rights: list[Expr] = [S.Zero] * len(ensemble.unknowns)
    for link in ensemble.links:
        signal = link.signal
        if link.memory is not None:
            signal = Int(link.memory.kernel * signal.xreplace(shown).xreplace({ROW: MIDDLE}), (MIDDLE, start, ROW))
        rights[link.unknown] += link.coefficient * signal
    for forcing in (*ensemble.drives, *ensemble.kicks):
        rights[forcing.unknown] += forcing.coefficient * forcing.noise(ROW)
    lefts = [shown.get(item.symbol, item.symbol) for item in ensemble.unknowns]
    return [
        Equation(Derivative(left, ROW, evaluate=False) if unknown.integrated else left, right.xreplace(shown))
        for unknown, left, right in zip(ensemble.unknowns, lefts, rights, strict=True)
    ]


# --- Closed equations written as compositions of operators, for reading: ∫ A(t, s) B(s, t') ds is A∘B.
#
# A kernel K(t, t') is an operator, K(t', t) its transpose, J the integration from the start; products are pointwise; 1 is the
# constant function, and ``[K]₊`` the part of K with s < t where a range of integration cuts it. An unknown that enters its own
# equation only as L∘X is solved for: X = (I − L)⁻¹ of the rest.
@dataclass(frozen=True)
class OperatorForm:
    """One equation in operators, and the solve it leads to if its unknown enters linearly."""

    text: str
    solved: str = ""

    def lines(self) -> list[str]:
        return [self.text, f"    so that {self.solved}"] if self.solved else [self.text]


def write_operators(equations: Iterable[Equation]) -> tuple[OperatorForm, ...]:
    """Return the equations between kernels and functions as compositions; nothing if no integral stands in them."""
    closed = [eq for eq in equations if not isinstance(eq.head, Process | None) and not eq.rhs.has(E, Resp)]
    return tuple(_form(equation) for equation in closed) if any(eq.rhs.has(Int) for eq in closed) else ()


def _form(equation: Equation) -> OperatorForm:
    target, right = equation.defined, equation.rhs
    mapping: dict[Expr, Expr] = {value: Symbol(_value_text(value, target)) for value in right.atoms(Value)}
    for node in right.atoms(Int):
        text = _composition(node, target)
        alone = any((term / node).is_number for term in Add.make_args(right) if term.has(node))  # a term of the sum by itself
        mapping[node] = Symbol(text if alone else f"({text})")
    left = ("∂" if equation.is_differential else "") + target.head.name
    text = f"{left} = {expression_text(right.xreplace(mapping), equation.map(mapping).order)}"
    return OperatorForm(text, _solved(equation, mapping))


def _value_text(value: Value, target: Value) -> str:
    """Return how a value is written in the equation of a target: by its head, transposed or on the diagonal."""
    head, moments, own = value.head.name, value.moments, target.moments
    if moments in (own, own[:1]):
        return head
    if len(own) == 2 and moments == own[::-1]:
        return head if not isinstance(value.head, Response) else f"{head}ᵀ"
    return f"diag({head})" if moments == (own[0], own[0]) else str(as_written(value))


def _composition(node: Int, target: Value) -> str:
    """Return an integral as a composition, or as it stands if it is none."""
    row, column = (*target.moments, None)[:2]
    s = node.variable
    terms = Add.make_args(expand(node.integrand))
    if len(terms) > 1:
        parts = [_composition(Int(term, (s, node.low, node.high)), target) for term in terms]
        return "(" + " + ".join(parts).replace("+ -", "- ") + ")"

    def side(factor: Expr) -> str:
        if s not in factor.free_symbols:
            return "outside"
        if row not in factor.free_symbols:
            return "right"
        return "left" if column is None or column not in factor.free_symbols else "joint"

    sides = sort_factors(node.integrand, side)
    if sides["joint"]:
        return f"[{expression_text(as_written(node))}]"
    left, right = sides["left"], sides["right"]
    if column is not None and not any(column in item.free_symbols for item in right) and (left or not right):
        left, right = [*left, *right], []
    first = _kernel(left, row, s, causal_end=node.high == row or column is None)
    second = _kernel(right, s, column, causal_end=False) if right else "1"
    if column is not None and node.high == column and not _is_causal(right, column, s):
        second = f"[{second}]₊ᵀ"
    scale = expression_text(Mul(*sides["outside"])) + "*" if sides["outside"] else ""
    return f"{scale}{first}∘{second}"


def _is_causal(factors: list[Expr], later: Expr, earlier: Expr | None) -> bool:
    """Whether a product is zero when the second time exceeds the first."""
    values = {value for factor in factors for value in factor.atoms(Value)}
    return any(isinstance(value.head, Response) and value.moments == (later, earlier) for value in values)


def _kernel(factors: list[Expr], first: Expr, second: Expr | None, causal_end: bool) -> str:
    """Return a product of factors of (first, second) as one operator."""
    if not factors:
        return "J" if causal_end else "1"
    product = Mul(*factors)

    def name(value: Value) -> Symbol:
        turned = value.moments == (second, first) and isinstance(value.head, Response)
        return Symbol(value.head.name + "ᵀ" * turned)

    text = expression_text(product.xreplace({value: name(value) for value in product.atoms(Value)}))
    if causal_end and not _is_causal(factors, first, second):
        return f"[{text}]₊"
    return text if isinstance(product, Value) else f"({text})"


def _solved(equation: Equation, mapping: dict[Expr, Expr]) -> str:
    """Return the triangular solve of an unknown that enters its own definition only as L∘X, else nothing."""
    head, row = equation.defined.head, equation.defined.moments[0]
    terms = Add.make_args(expand(equation.rhs, deep=False))
    own = [term for term in terms if term.has(head)]
    rest = Add(*(term for term in terms if not term.has(head)))
    lefts = []
    for term in own:
        coefficient, node = term.as_independent(Int)
        factors = list(Mul.make_args(node.integrand)) if isinstance(node, Int) else []
        inner = [item for item in factors if item.has(head)]
        if len(inner) != 1 or not isinstance(inner[0], Value) or node.variable not in inner[0].moments or inner[0].has(row):
            return ""
        kernel = _kernel([item for item in factors if item != inner[0]], row, node.variable, causal_end=True)
        negative = coefficient.could_extract_minus_sign()
        size = -coefficient if negative else coefficient
        scale = "" if size == 1 else f"{expression_text(size.xreplace(mapping))}*"
        lefts.append(f"{'+' if negative else '-'} {scale}{kernel}")
    right = expression_text(rest.xreplace(mapping))
    right = f"({right})" if rest.is_Add else right
    return f"{head.name} = (I {' '.join(lefts)})⁻¹∘{right}" if lefts and not equation.is_differential else ""


@dataclass(frozen=True)
class Statement:
    """One equation as text, and where it was written."""

    key: str
    text: str
    location: str


@dataclass(frozen=True)
class Reads:
    """What one unknown is computed from: values of the slice, of the past, inputs of its derivative."""

    unknown: str
    now: tuple[str, ...]
    past: tuple[str, ...]
    derivative: tuple[str, ...]

    @property
    def text(self) -> str:
        parts = (("now", self.now), ("from the past", self.past), ("in its derivative", self.derivative))
        named = ((how, ", ".join("itself" if name == self.unknown else name for name in names)) for how, names in parts)
        return "; ".join(f"{how}: {names}" for how, names in named if names) or "nothing"


@dataclass(frozen=True)
class Derived:
    """A tangent equation: its text, the weight of its δ(t − t') part, and its value at t = t'."""

    text: str
    instantaneous: str
    initial: str | None

    def lines(self) -> list[str]:
        at_once = [f"    and at once, at t = t': {self.instantaneous} × δ(t − t')"] if self.instantaneous != "0" else []
        return [self.text, *at_once, *([] if self.initial is None else [f"    from, at t = t': {self.initial}"])]


@dataclass(frozen=True)
class Changed:
    """An exact change of variable: the map, the new variable's equation, its start, and whether the solver works with it."""

    map: str
    equation: str
    initial: str
    made: bool

    def lines(self) -> list[str]:
        unused = "" if self.made else "; this solver works with the old variable"
        return [self.map, f"    so that {self.equation}, from {self.initial}{unused}"]


@dataclass(frozen=True)
class Setting:
    """A parameter or a random constant: what it may be, and what it is by default."""

    name: str
    domain: str
    default: str | None
    about: str = ""

    @property
    def text(self) -> str:
        value = f"default {self.default}" if self.default is not None else "must be set"
        return f"{self.domain}, {value}{f': {self.about}' if self.about else ''}"


@dataclass(frozen=True)
class ChosenSolver:
    """The solver that ``solve`` runs and why, and what speaks against each of the others; no name where it refuses."""

    name: str
    reason: str
    others: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What each stage made of a model. Parts that do not apply to the model's kind are empty.

    Attributes
    ----------
    equations
        Every equation with its place in the model file.
    unknowns
        Names of the unknowns by kind, the kinds in the order declared.
    reads, blocks
        Dependencies, and the order in which a time slice is computed; several names in a block are
        solved together.
    multipliers
        Equations derived for unknowns that are fixed by constraints.
    operators
        Equations as compositions of operators, and what is solved for.
    substitutions
        Exact changes of variable, with the equations they lead to, and whether they are made.
    memories, tangents
        Integrals over the past that are unknowns of their own, and the linearised equations behind the responses, in the
        variables that are solved for.
    settings
        Parameters and random constants with domains and defaults.
    statements
        What else the model declares, as lines under a title: laws, starts, observables, conditions.
    signature
        Hash of the content.
    mean_field
        Of a flow, the same for the equations that are derived from it; these are what is solved.
    solver
        What ``solve`` will run.
    """

    name: str
    kind: str
    file: str | None
    equations: tuple[Statement, ...]
    unknowns: tuple[tuple[str, tuple[str, ...]], ...]
    reads: tuple[Reads, ...] = ()
    blocks: tuple[tuple[str, ...], ...] = ()
    multipliers: tuple[str, ...] = ()
    operators: tuple[OperatorForm, ...] = ()
    substitutions: tuple[Changed, ...] = ()
    memories: tuple[str, ...] = ()
    tangents: tuple[Derived, ...] = ()
    settings: tuple[Setting, ...]
    statements: tuple[tuple[str, tuple[str, ...]], ...]
    signature: str
    mean_field: Explanation | None = None
    solver: ChosenSolver | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain dictionaries, lists and texts."""
        plain = asdict(self)
        plain = {"model": plain.pop("name"), **plain}
        plain |= {part: {title: list(lines) for title, lines in plain[part]} for part in ("unknowns", "statements")}
        del plain["mean_field"], plain["solver"]
        if self.mean_field is not None:
            plain["mean_field"] = self.mean_field.to_dict()
        if self.solver is not None:
            plain["solver"] = {"name": self.solver.name, "reason": self.solver.reason, "others": dict(self.solver.others)}
        return plain

    def sections(self) -> list[tuple[str, list[str]]]:
        """Return titles and lines, in the order in which they are read."""
        order = [block[0] if len(block) == 1 else f"[{', '.join(block)} together]" for block in self.blocks]

        def lines(items: Iterable[Any]) -> list[str]:
            return [line for item in items for line in item.lines()]

        every = [
            ("equations", _columns((item.location, item.text) for item in self.equations)),
            ("unknowns", _columns((kind, ", ".join(names)) for kind, names in self.unknowns)),
            ("dependencies", _columns((item.unknown, item.text) for item in self.reads)),
            ("evaluation order at each time", [" → ".join(order)] if order else []),
            ("multipliers (derived from the constraints)", list(self.multipliers)),
            ("operator form (∘ composes, ᵀ transposes, J integrates, * is pointwise)", lines(self.operators)),
            ("exact change of variables (derived)", lines(self.substitutions)),
            ("integrals along a path that are unknowns of their own", list(self.memories)),
            ("tangent equations (derived; definitions put in)", lines(self.tangents)),
            *((title, list(lines)) for title, lines in self.statements),
            ("parameters", _columns((item.name, item.text) for item in self.settings)),
            ("signature", [self.signature]),
            (
                "mean-field equations (derived; these are solved)",
                self.mean_field.text().split("\n") if self.mean_field else [],
            ),
            ("solver", [f"{self.solver.name}: {self.solver.reason}".removeprefix(": ")] if self.solver else []),
            ("other solvers", _columns(self.solver.others) if self.solver else []),
        ]
        return [(title, lines) for title, lines in every if lines]

    def text(self) -> str:
        """Return the explanation for a terminal."""
        where = f", {self.file}" if self.file else ""
        out = [f"{self.name} ({self.kind}{where})"]
        for title, lines in self.sections():
            out += ["", title, *(f"  {line}".rstrip() for line in lines)]
        return "\n".join(out)

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return str(lazy_import("sections_html")(f"{self.name} ({self.kind})", self.sections()))


def explain(model: Model, derivation: Derivation | None = None, mean_field: Explanation | None = None) -> Explanation:
    """Return what the engine makes of a model; nothing is solved.

    ``derivation`` is what the plan of a system was compiled from, ``mean_field`` the explanation of a flow's equations;
    without them a model is explained as far as it goes.
    """
    (_, equations), *others = model.show().sections()
    system = model if isinstance(model, System) and all(eq.head is not None for eq in model.equations) else None
    shifts = describe_shifts(system) if system is not None else ()
    parts: dict[str, Any] = {}
    if system is not None:
        causality = analyse_causality(system if derivation is None else derivation.reduction.system)
        parts |= {"reads": tuple(_readers(causality)), "blocks": causality.blocks}
    if derivation is not None:
        reduction, form = derivation.reduction, derivation.form
        parts["multipliers"] = tuple(
            " = ".join(equation_text(eq)) + ", by Newton's method" * (eq.key in reduction.implicit)
            for eq in reduction.multipliers
        )
        parts["operators"] = () if shifts else write_operators(derivation.closed)
        parts["substitutions"] = tuple(_substitutions(derivation))
        if form is not None:
            parts["memories"] = tuple(write_memories(form))
            parts["tangents"] = tuple(_tangents(form))
    detailed = ("defaults", *(("exact change of variables",) if derivation is not None else ()))  # in other sections
    declared = ((title, tuple(map(" ".join, lines))) for title, lines in others if title not in detailed)
    reduced = describe_reduction(model) if isinstance(model, FixedPoint) else ()
    return Explanation(
        name=model.name,
        kind=model.kind,
        file=model.file,
        equations=tuple(
            Statement(equation.key, f"{left} = {right}", str(equation.location or "?"))
            for equation, (left, _, right) in zip(model.equations, equations, strict=True)
        ),
        unknowns=_unknowns(model),
        settings=tuple(_settings(model)),
        statements=tuple((title, lines) for title, lines in (*declared, *reduced, *shifts) if lines),
        signature=signature_of(model),
        mean_field=mean_field,
        **parts,
    )


def _unknowns(model: Model) -> tuple[tuple[str, tuple[str, ...]], ...]:
    kinds: dict[str, list[str]] = {}
    if isinstance(model, System):
        for head in model.unknowns:
            noise = "white noise" if head in model.whites else "driving process"
            kinds.setdefault(noise if head in model.noises else head.kind_name, []).append(head.name)
    elif isinstance(model, FixedPoint):
        kinds["number"] = _called(model.unknowns)
    elif isinstance(model, Singularity):
        kinds = {"transform": [model.unknown.name], "transform variable": [model.variable.name]}
    elif isinstance(model, Flow):
        kinds = {"state": [item.name for item in model.state]}
    return tuple((kind, tuple(names)) for kind, names in kinds.items())


def _called(items: Iterable[Unknown]) -> list[str]:
    """Return the names of unknowns, of families that of one member."""
    return [*{item.base: item.name for item in (*items,)[::-1]}.values()][::-1]


def _readers(causality: Causality) -> Iterator[Reads]:
    for name in causality.order:
        sources: dict[str, set[str]] = {"slice": set(), "history": set(), "derivative": set()}
        for edge in causality.dependencies:
            if edge.reader == name:
                volterra = edge.source == name and edge.under_integral and edge.kind == "slice"
                sources["history" if volterra else edge.kind].add(edge.source)
        yield Reads(name, *(tuple(sorted(names, key=causality.order.index)) for names in sources.values()))


def _tangents(form: PathForm) -> Iterator[Derived]:
    for item in write_tangents(form):
        left, right = item.equation.lhs, expression_text(item.equation.rhs)
        partly = isinstance(left, Derivative)
        named = f"∂/∂{left.variables[0]} {expression_text(left.expr)}" if partly else expression_text(left)
        initial = None if item.initial is None else expression_text(item.initial)
        yield Derived(f"{named} = {right}", expression_text(item.instantaneous), initial)


def _substitutions(derivation: Derivation) -> Iterator[Changed]:
    for change in derivation.changes:
        now = change.equation.time
        left, right = equation_text(change.equation)
        old, new = expression_text(change.old(now)), expression_text(change.new(derivation.system.start))
        begin = f"{new} = {expression_text(change.initial)}"
        yield Changed(f"{old} = {expression_text(change.map)}", f"{left} = {right}", begin, derivation.changed)


def describe_settings(model: Model) -> tuple[Setting, ...]:
    """Return everything that can be set in a model, what belongs to the models behind it included."""
    settings: dict[str, Setting] = {}
    for part in (model, *models_behind(model)):
        settings = {item.name: item for item in _settings(part)} | settings
    return tuple(sorted(settings.values(), key=lambda item: (item.domain == "a law", item.name)))


def _settings(model: Model) -> Iterator[Setting]:
    about = meanings(model.file)
    laws = {left: law for _, lines in model.show().sections() for left, how, law in lines if how == "~"}
    for item in model.parameters:
        default = model.given(item)
        text = None if default is None else f"{float(default):g}"
        yield Setting(item.name, describe_domain(item), text, about.get(item, ""))
    for random in model.randoms:
        given = isinstance(model, Singularity) and random.law is None and bool(model.law_of)
        law = "as solved for" if given else laws.get(random.name)
        yield Setting(random.name, "a law", law, about.get(random, ""))


def describe_domain(item: Parameter) -> str:
    """Return what values a parameter may take, in words."""
    low, high = item.bounds
    words = (
        ("whole number" if item.is_integer else "number", True),
        (f"from {low} to {high}", None not in (low, high)),
        (f">= {low}", low is not None and high is None),
        (f"<= {high}", low is None and high is not None),
        ("> 0", item.is_positive and not (low is not None and low > 0)),
        ("< 0", item.is_negative and not (high is not None and high < 0)),
        (">= 0", item.is_nonnegative and not item.is_positive and low is None),
    )
    return " ".join(word for word, holds in words if holds)


def _columns(rows: Iterable[tuple[str, str]]) -> list[str]:
    pairs = list(rows)
    width = max((len(left) for left, _ in pairs), default=0)
    return [f"{left:<{width}}  {right}" for left, right in pairs]
