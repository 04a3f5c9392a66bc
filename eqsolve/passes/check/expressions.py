"""What an expression may contain where it stands: defined names, known times, randomness only under E."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from sympy import Basic, Derivative, Expr, Integral, Pow, S, Symbol
from sympy.core.function import AppliedUndef

from eqsolve.errors import did_you_mean, quoted
from eqsolve.graphs import make_graph, reached
from eqsolve.language.functions import why_not_computed
from eqsolve.language.model import Model
from eqsolve.language.nodes import E, Int, InverseValue, Resp
from eqsolve.language.symbols import DRAWN, Function, Head, Named, Plain, Process, Response, Time, Value
from eqsolve.language.system import Flow, Singularity, System
from eqsolve.passes.forms.convolution_form import delay_of, is_lag


@dataclass(frozen=True)
class Scope:
    """Where an expression stands."""

    label: str  # how messages name the place, such as ``equation for `g` (file.py:32)``
    times: tuple[Expr, ...] = ()  # of the left-hand side and of the integrals around
    order: frozenset[tuple[Expr, Expr]] = frozenset()  # pairs (earlier, later) of known order
    random: bool = False  # whether processes and constants may stand here: on a path, or under E
    expected: bool = False  # whether an expectation is open
    responding: bool = False  # whether a response is
    bound: frozenset[Basic] = frozenset()  # variables bound by an inverse function or a sum around
    any_time: bool = False  # whether every time may stand here: what would say which is wrong
    integrals: tuple[Int, ...] = ()  # the integrals around, outermost first
    function: Function | None = None  # of one time, whose equation this is, if it is one

    def precedes(self, first: Expr, second: Expr) -> bool:
        """Whether ``first`` is known not to be later than ``second``."""
        return first == second or second in reached(make_graph((), self.order), [first])

    def inside(self, node: Int) -> Scope:
        """Return the scope of an integrand."""
        pairs = {(node.low, node.variable), (node.variable, node.high)}
        around = (*self.integrals, node)
        return replace(self, times=(*self.times, node.variable), order=self.order | pairs, integrals=around)


class ExpressionCheck:
    """Walks through expressions of one model and gathers what is wrong with them, in the order found.

    ``kinds`` are those of the symbols that may stand in them, ``start`` is the first time.
    """

    def __init__(self, model: Model, kinds: tuple[type[Named], ...], start: Expr = S.Zero) -> None:
        self.model, self.kinds, self.start = model, kinds, start
        self.noises: tuple[Head, ...] = model.noises if isinstance(model, System) else tuple(model.laws)
        unknowns = model.unknowns if isinstance(model, System) else self.noises
        self.defined: dict[str, Head] = {head.name: head for head in unknowns}
        self.problems: dict[str, None] = {}
        self.meant: frozenset[str] = frozenset()  # unknowns of equations whose left-hand sides are reported already
        self._undefined_at: dict[str, tuple[str, list[str]]] = {}  # first report of a name, and the further places
        self._bare: set[tuple[str, Head]] = set()  # processes already reported, by place

    def add(self, problems: Iterable[str]) -> None:
        self.problems.update(dict.fromkeys(problems))

    def report(self, scope: Scope, *texts: str) -> None:
        """Add problems of a place."""
        self.add(f"{scope.label} {text}" for text in texts)

    def observable(self, name: str) -> Scope:
        """Return the place of an observable."""
        return Scope(f"observable `{name}` ({self.model.place('observables', name)})")

    def visit(self, expr: Basic, scope: Scope) -> None:
        """Check an expression and everything in it."""
        for text in self._visit(expr, scope):
            self.report(scope, text)

    def uses_only(self, allowed: tuple[type[Named], ...], expr: Basic, scope: Scope, wanted: str) -> None:
        """Report the symbols and values of an expression that are of other kinds."""
        self.report(scope, *(f"uses `{name}`; expected {wanted}" for name in strangers(expr, *allowed)))

    def _visit(self, expr: Any, scope: Scope) -> Iterator[str]:
        """Yield what is wrong with a node itself; what it contains is visited in its turn."""
        match expr:
            case Value() | Int() | Resp() if (
                not isinstance(self.model, System) and getattr(expr, "head", 0) not in self.noises
            ):
                noises = ", and a Flow noises that have a law in laws=" if isinstance(self.model, Flow) else ""
                yield f"uses `{expr}`; only a System has functions of time{noises}"
            case Value():
                yield from self._value(expr, scope)
            case Int():
                yield from self._integral(expr, scope)
            case E():
                if scope.expected:
                    yield (
                        f"has an expectation inside an expectation, `{expr}`; give the inner one a "
                        "name of its own by a further equation"
                    )
                self.visit(expr.argument, replace(scope, expected=True, random=True))
            case Resp():
                yield from self._response(expr, scope)
            case InverseValue():
                self.visit(expr.expression, replace(scope, bound=scope.bound | {expr.variable}))
                for part in (expr.argument, *expr.domain):
                    self.visit(part, scope)
            case Derivative():
                if problem := derivative_problem(expr, self.model, scope.integrals):
                    yield problem
                elif isinstance(expr.expr, Value) and expr.expr.head.name not in self.defined:
                    self._undefined(expr.expr, scope)
            case AppliedUndef():
                yield (
                    f"uses `{expr}`, an undeclared sympy function; declare it with function(), "
                    "process(), correlation() or response()"
                )
            case Integral():
                yield f"has sympy's own integral `{expr}`; write Int(integrand, (s, {self.start}, t))"
            case Head():
                yield f"uses `{expr.name}` without its times; write `{expr.usage}`"
            case Symbol():
                yield from self._symbol(expr, scope)
            case S.ImaginaryUnit if not isinstance(self.model, Singularity):
                yield (
                    "contains the imaginary unit `I`, but a model is real; does it take a root or "
                    "a logarithm of a negative number?"
                )
            case Pow() if expr.is_number and expr.is_real is False and not isinstance(self.model, Singularity):
                yield f"contains `{expr}`, which is not real; write the real root, -cbrt(8) for cbrt(-8)"
            case S.NaN | S.ComplexInfinity:
                yield f"contains `{expr}`, which is not a number; does it divide by zero?"
            case _:
                if reason := why_not_computed(expr):
                    yield f"uses `{type(expr).__name__}` in `{expr}`, {reason}"
                inner = getattr(expr, "bound_symbols", ())
                scope = replace(scope, bound=scope.bound | set(inner)) if inner else scope
                for arg in expr.args:
                    self.visit(arg, scope)

    def _symbol(self, item: Symbol, scope: Scope) -> Iterator[str]:
        if item in scope.bound:
            return
        if not isinstance(item, Named):
            fix = did_you_mean(item.name, self.model.names) or "; declare it with param(), random() or times()"
            yield f"uses `{item}`, a plain sympy symbol that nothing defines{fix}"
        elif isinstance(item, Plain):
            yield (
                f"uses the bound variable `{item}` outside the inverse function that binds it; "
                "use a parameter, or write Inverse(f, y)(x) for the root itself"
            )
        elif not isinstance(item, self.kinds):
            names = (kind.kind_name for kind in self.kinds)
            wanted = " or ".join(f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in names)
            yield f"uses the {item.kind_name} `{item}`, which has no place here; expected {wanted}"
        elif isinstance(item, Time):
            yield from self._known_time(item, scope)
        elif isinstance(item, DRAWN) and not scope.random:
            yield f"uses the {item.kind_name} `{item}` outside an expectation; {_averaged(scope)}"

    # --- values and their times
    def _value(self, value: Value, scope: Scope) -> Iterator[str]:
        head = value.head
        if head.name not in self.defined:
            self._undefined(value, scope)
        if isinstance(head, Process) and not scope.random and (scope.label, head) not in self._bare:
            self._bare.add((scope.label, head))
            yield (
                f"uses the process `{value}` outside an expectation, which only the equation of a "
                f"process may; {_averaged(scope)}"
            )
        for moment in value.moments:
            yield from self._moment(moment, value, scope)
        if isinstance(head, Response) and value.moments[0] != value.moments[1] and scope.precedes(*value.moments):
            first, second = value.moments
            yield (
                f"reads `{value}`, which vanishes here because a response is zero before its cause "
                f"({first} < {second}); did you mean `{head.name}({second}, {first})`?"
            )

    def is_reported(self, head: Head) -> bool:
        """Whether it is said already, at its cause, that nothing defines a function."""
        return head.name in self.meant or head.name in self._undefined_at

    def gathered(self) -> list[str]:
        """Return the problems; a name that nothing defines is one problem, however many places use it."""
        elsewhere = {text: places for text, places in self._undefined_at.values() if places}
        return [text + (_several(elsewhere[text]) if text in elsewhere else "") for text in self.problems]

    def _undefined(self, value: Value, scope: Scope) -> None:
        head = value.head
        if head.name in self.meant:
            return
        if head.name in self._undefined_at:
            first, places = self._undefined_at[head.name]
            if not first.startswith(f"{scope.label} ") and scope.label not in places:
                places.append(scope.label)
            return
        same = [name for name, other in self.defined.items() if other.arity == head.arity]
        near = did_you_mean(head.name, same) or did_you_mean(head.name, self.defined)
        fix = f"add an equation for it, Eq({head.usage}, ...)"
        if isinstance(head, Process):
            fix += f", or a law if it drives the system, laws={{{head.name}: GP(...)}}"
        text = f"uses `{value}`, which nothing defines{near or '; ' + fix}"
        self.report(scope, text)
        self._undefined_at[head.name] = (f"{scope.label} {text}", [])

    def _moment(self, moment: Expr, value: Value, scope: Scope) -> Iterator[str]:
        if isinstance(moment, Time):
            yield from self._known_time(moment, scope)
        elif moment == self.start:
            from eqsolve.passes.rewrite.starts import start_of  # not at the top: a plan kept on disk needs no rewriting

            asked = isinstance(value.head, Process) and scope.expected and value.head.name in self.defined
            if asked and isinstance(self.model, System) and start_of(self.model, value.head) is None:
                yield (
                    f"reads `{value}` inside an expectation, but what it is there is not given by init= or by constants; "
                    f"give the expectation two times, C(t, t'), and read C(t, {self.start})"
                )
        elif (problem := shift_problem(value, self.model, scope.times, scope.integrals)) is not None:
            yield from filter(None, [problem])
        else:
            yield from first_that_holds({
                f"reads `{value}` at time 0, but the system starts at `{self.start}`": moment == 0,
                FUTURE.format(value): any((moment - now).is_positive for now in scope.times),
                f"reads `{value}` at `{moment}`, which is neither a time variable nor the start; "
                f"expected {self._choices(scope)}": True,
            })  # fmt: skip

    def _choices(self, scope: Scope) -> str:
        return quoted((*scope.times, self.start))

    def _known_time(self, item: Time, scope: Scope) -> Iterator[str]:
        if item not in scope.times and not scope.any_time:
            yield (
                f"uses the time `{item}`, which is neither on its left-hand side nor integrated over; "
                f"expected {self._choices(scope)}, or an integral Int(..., ({item}, {self.start}, t))"
            )

    # --- integrals and responses
    def _integral(self, node: Int, scope: Scope) -> Iterator[str]:
        variable, low, high = node.variable, node.low, node.high
        before = len(self.problems)
        yield from self._end(low, "starts", scope)
        yield from self._end(high, "ends", scope)
        yield from first_that_holds({
            f"integrates over `{variable}`, which already has a meaning there; take another time "
            "variable for the integration": variable in scope.times,
            f"has an integral from `{low}` to `{high}`, which is empty": low == high,
            f"has an integral that runs backwards, from `{low}` to `{high}`; exchange its ends": high == self.start
            or scope.precedes(high, low),
        })  # fmt: skip
        inner = scope.inside(node)
        sound = len(self.problems) == before
        self.visit(node.integrand, inner if sound else replace(inner, order=scope.order))

    def _end(self, end: Expr, verb: str, scope: Scope) -> Iterator[str]:
        if isinstance(end, Time):
            yield from self._known_time(end, scope)
        elif end != self.start:
            yield from first_that_holds({
                f"has an integral that {verb} at sympy's own symbol `{end}`; declare the time by eqsolve, "
                f'times("{end}")': str(end) in map(str, scope.times),
                f"has an integral that starts at 0, but the system starts at `{self.start}`; start it there": end == 0
                and verb == "starts",
                f"has an integral that is not causal: it ends at `{end}`, so it reads the future; "
                f"expected as upper end {quoted(scope.times)}": verb == "ends",
                f"has an integral that starts at `{end}`, which is neither a time variable nor the "
                f"start; expected {self._choices(scope)}": True,
            })  # fmt: skip

    def _response(self, node: Resp, scope: Scope) -> Iterator[str]:
        noise, output, cause = node.noise, node.output, node.noise.moments[0]
        times = [value.moments[0] for value in output.atoms(Value) if isinstance(value.head, Process)]
        wrong = {
            f"has the response `{node}` outside an expectation; write E(Resp(...))": not scope.expected,
            f"has a response inside a response, `{node}`; only first responses are derived": scope.responding,
            f"takes a response to `{noise.head.name}`, which has an equation and no law; a response is taken to a driving "
            f"process ({quoted(self.noises) or 'none has a law'})": noise.head not in self.noises
            and noise.head.name in self.defined,
            f"takes the response of `{output}`, which contains no process": not times,
            f"takes a response at `{(*times, None)[0]}` to a noise at the later `{cause}`, which vanishes; exchange the two "
            "times": times and all(time != cause and scope.precedes(time, cause) for time in times),
        }
        yield from (text for text, holds in wrong.items() if holds)
        inner = replace(scope, random=True, responding=True)
        self.visit(output, inner)
        self.visit(noise, inner)


FUTURE = "reads the future: `{}` lies later than the running time; an equation may read the present and the past only"


def first_that_holds(wrong: Mapping[str, Any]) -> list[str]:
    """Return the first of some messages whose condition holds, if one does."""
    return [text for text, holds in wrong.items() if holds][:1]


def strangers(expr: Basic, *allowed: type[Named]) -> list[str]:
    """Return the names of the symbols and values in an expression that are of none of some kinds."""
    return sorted(str(item) for item in expr.free_symbols | expr.atoms(Value) if not isinstance(item, allowed))


def _averaged(scope: Scope) -> str:
    """Return how to mend what differs between paths in a place that is the same for all."""
    if scope.function is None:
        return "write E(...) around it"
    name = scope.function.name
    return f'if `{name}` differs between paths too, declare it by {name} = process("{name}"), else write E(...) around it'


def _several(places: list[str]) -> str:
    """Return further places in words, the first few by name."""
    named = places if len(places) <= 3 else [*places[:3], f"{len(places) - 3} more"]
    listed = " and ".join([", ".join(named[:-1]), named[-1]] if len(named) > 1 else named)
    return f" (so do {listed})" if len(named) > 1 else f" (so does {listed})"


# --- Which shifted times may be read: t − s under an integral over s, and t − τ with a constant
# delay.
def shift_problem(value: Value, model: Model, times: Iterable[Expr], integrals: tuple[Int, ...]) -> str | None:
    """Return what is wrong with a function at a shifted time; nothing if it is right, None if it is no such function.

    ``times`` have a meaning where it stands, ``integrals`` are around it.
    """
    head, moment = value.head, value.moments[0]
    if not isinstance(head, Function) or not isinstance(model, System) or not moment.atoms(Time):
        return None
    name, other = head.name, _others(model)
    over, high = (integrals[-1].variable, integrals[-1].high) if integrals else (S.NaN, S.NaN)
    lagged = is_lag(moment, high, over)
    outside = [time for time in times if all(time != node.variable for node in integrals)]
    delays = {now: delay for now in outside if (delay := delay_of(moment, now)) is not None}
    now, delay = (moment, S.Zero) if lagged else next(iter(delays.items()), ((*outside, moment)[0], S.Zero))
    texts = first_that_holds({
        f"reads `{value}`, whose delay depends on the solution; which past is read, and where the "
        "solution has break points, must be known beforehand: expected a constant delay, such as "
        f"`{name}(t - tau)` with tau = param('tau')": moment.has(Value),
        f"reads `{value}` at a shifted time beside `{other}`; shifted times are read in systems of "
        "one-time functions only: write the equation with two times, or leave the other unknowns "
        "out": other,
        f"reads `{value}`, but the system starts at `{model.start}`; a convolution starts at 0: use "
        "shift_time()": lagged and model.start != 0,
        FUTURE.format(value): delay.is_negative,
        f"reads `{value}`, whose delay `{delay}` may be negative; declare its parameters positive, "
        "param('tau', positive=True)": not delay.is_nonnegative,
        f"reads `{value}` at a delay under an integral; give it a name by a further equation, "
        f"Eq(z({now}), {value}), and read z({over}) or z({high} - {over})": delays and integrals and not lagged,
        "": lagged or delays,
        f"reads `{value}` under an integral over `{over}`; expected `{name}({over})`, or "
        f"`{name}({high} - {over})` in a convolution": integrals and moment.atoms(Time) <= {*times},
        f"reads `{value}`, whose delay `{now - moment}` changes with time; expected a constant "
        f"delay of parameters, such as `{name}({now} - tau)`": moment.atoms(Time) == {now},
    })  # fmt: skip
    return texts[0] if texts else None


def derivative_problem(expr: Derivative, model: Model, integrals: tuple[Int, ...]) -> str:
    """Return what is wrong with a derivative on a right-hand side, nothing if it stands in a convolution."""
    value = expr.expr
    convolved = isinstance(model, System) and integrals and isinstance(value, Value) and isinstance(value.head, Function)
    if not convolved or _others(model):
        return (
            f"has the derivative `{expr}` outside its left-hand side; write the right-hand side "
            "of that derivative's own equation instead"
        )
    variable, high, moment, name = integrals[-1].variable, integrals[-1].high, value.moments[0], value.head.name
    if len(expr.variables) > 1:
        return f"has the derivative `{expr}` of higher order under an integral; introduce a further function for it"
    if moment == variable or is_lag(moment, high, variable):
        return ""
    return (
        f"has the derivative `{expr}` under an integral over `{variable}`; expected one of "
        f"`{name}({variable})` or `{name}({high} - {variable})`"
    )


def _others(system: Any) -> str:
    """Return the first unknown that is no function of one time."""
    return next((head.name for head in system.unknowns if not isinstance(head, Function)), "")
