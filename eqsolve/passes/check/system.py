"""What must hold of a `System`: one definition per unknown, causal equations, a start, laws that fit."""

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp
from sympy import Basic, Derivative, DiracDelta, Expr, Float, ImmutableMatrix, Integer, Pow, Symbol, lambdify, log

from eqsolve.errors import ModelError, did_you_mean, quoted
from eqsolve.graphs import make_graph, reached
from eqsolve.language.laws import IN_STEPS, Law
from eqsolve.language.model import Equation
from eqsolve.language.nodes import GP, E, Int, InverseValue, Resp, White, entries
from eqsolve.language.symbols import Correlation, Function, Named, Parameter, Process, Random, Response, Time, Value
from eqsolve.language.system import System, members
from eqsolve.numerics.positivity import find_negative
from eqsolve.passes.check.expressions import ExpressionCheck, Scope, first_that_holds, strangers
from eqsolve.passes.forms.causality import analyse_causality
from eqsolve.passes.forms.convolution_form import delayed_heads, has_shifts, is_sharp, why_not_convolution
from eqsolve.passes.forms.expressions import Read, free_times, outside_means, partial, reads
from eqsolve.passes.forms.kinks import SMOOTH, jumps
from eqsolve.passes.forms.path_form import expanded, mixes, unseparated
from eqsolve.passes.rewrite.constraints import constraint_label, keeps_means, reduce_constraints
from eqsolve.passes.rewrite.substitution import derive_substitutions
from eqsolve.passes.rewrite.white import driven, make_additive


# --- Where white noise may stand: in the equation of a derivative, added, with a coefficient. Products
# with processes depend on the sense in which they are integrated.
def white_problems(system: System) -> list[str]:
    """Return what is wrong with the use of white noise, the equations first."""
    problems = [f"{eq.label} {text}" for eq in system.equations for text in _rough_terms(eq, system)]
    problems += [
        f"{label} reads the white noise `{read.value}`, which has no values; it may stand in the "
        "equation of a derivative, added to the rest"
        for label, expr in _elsewhere(system)
        for read in _rough_reads(expr, system)
    ]
    problems += _rough_laws(system)
    if driven(system) and system.constraints and not keeps_means(system):
        (first, *_) = system.constraints
        problems.append(
            f"the constraint that fixes `{first.name}` ({system.location}) stands beside white noise, which is not solved yet"
        )
    if system.whites and not problems and all(item.value.head in system.init for item in driven(system)):
        try:
            make_additive(system)
        except ModelError as error:
            problems += error.problems
    return list(dict.fromkeys(problems))


def _rough_reads(expr: Basic, system: System) -> list[Read]:
    """Return where an expression reads the values of a white noise; a response to it does not."""
    return [read for read in reads(expr) if read.value.head in system.whites and read.response != "noise"]


def _rough_terms(equation: Equation, system: System) -> Iterator[str]:
    """Yield what is wrong with each white noise that an equation reads."""
    rough = _rough_reads(equation.rhs, system)
    for head in dict.fromkeys(read.value.head for read in rough):
        own = [read for read in rough if read.value.head == head]
        name, value, law = head.name, own[0].value, system.laws[head]
        weight = partial(equation.rhs, value)
        moving = isinstance(equation.head, Process) and equation.is_differential
        yield from first_that_holds({
            f"averages the white noise `{value}`, which has no values; average what it drives, or "
            f"a response, E(Resp(x(t), {name}(tp)))": any(read.expected for read in own),
            f"takes the response of the white noise `{value}`; take that of a process it drives": any(
                read.response == "output" for read in own
            ),
            f"gives values by the white noise `{value}`, which has none; it may stand in the "
            f"equation of a derivative, such as Eq(x(t).diff(t), -x(t) + {name}(t))": not moving,
            f"has the white noise `{value}` under an integral; give the integral an equation of its own, such as "
            f"Eq(y(t).diff(t), -y(t) + {name}(t))": any(read.integrals for read in own),
            f"reads the white noise at another time, `{value}`; expected `{name}({equation.time})`": any(
                read.value.moments != (equation.time,) for read in own
            ),
            f"is not linear in the white noise `{value}`; its powers and functions have no meaning": weight.has(value),
            f"multiplies the white noise `{value}` by `{weight}`, which differs between paths; say in which sense this is "
            f'integrated: laws={{{name}: White({law.strength}, sense="ito")}} or sense="stratonovich"': law.sense is None
            and any(isinstance(other.head, Process) for other in outside_means(weight)),
        })  # fmt: skip


def _elsewhere(system: System) -> Iterator[tuple[str, Basic]]:
    """Yield what else may read a noise, with how messages name it."""
    for name, expr in system.observables.items():
        yield f"observable `{name}` ({system.place('observables', name)})", expr
    for key, law in system.laws.items():
        for part in law.args if isinstance(law, GP | White) else ():
            yield system.law_label(key), part
    for key, value in system.init.items():
        if isinstance(value, Basic):
            yield f"the initial value of `{key}` ({system.location})", value


def _rough_laws(system: System) -> Iterator[str]:
    for key, law in system.laws.items():
        label = system.law_label(key)
        if isinstance(law, GP) and law.covariance.has(DiracDelta):
            entry = next(item for item in entries(law.covariance) if item.has(DiracDelta))
            (node, *_) = entry.atoms(DiracDelta)
            how = f"laws={{{members(key)[0]}: White({entry / node})}}" if entry.coeff(node) == entry / node else "White(...)"
            yield (
                f"{label} has a Dirac function in its covariance, `{entry}`; white noise is "
                f"declared by {how}, as a process of its own"
            )
        if isinstance(law, White) and len(free_times(law.strength)) > 1:
            yield f"{label} has a strength `{law.strength}` in more than one time; expected a function of one time"


# --- Whether an expression changes when its two times are exchanged, decided by numbers put in.
_DIGITS = 2 * np.finfo(float).precision  # so that what rounding leaves is far below the tolerance


def is_asymmetric(expr: Expr, first: Expr, second: Expr, other: Expr | None = None) -> bool:
    """Return whether ``expr`` certainly differs from ``other`` (itself, unless given) with times exchanged.

    Every function value, random constant and parameter is given a number (the same to C(t, t') and C(t', t)
    for a correlation C), an expectation is the mean over two draws. A difference then proves that the two
    are not the same expression. With an integral or an inverse function in it nothing is claimed.
    """
    swapped = (expr if other is None else other).xreplace({first: second, second: first})
    if swapped == expr or expr.has(Int, InverseValue) or swapped.has(Int, InverseValue):
        return False
    try:
        left, right = (complex(_evaluate(side)) for side in (expr, swapped))
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        return False
    scale = max(abs(left), abs(right))
    return scale < float("inf") and abs(left - right) > 1e-12 * scale


def _evaluate(expr: Expr, sample: int = 0) -> Expr:
    """Return the value of an expression, processes and random constants taken from one of the samples."""
    # two draws tell the mean of a product from the product of means
    expr = expr.xreplace({
        node: (_evaluate(node.argument, 0) + _evaluate(node.argument, 1)) / 2 for node in expr.atoms(E)
    })  # fmt: skip
    for kind in (Resp, Value, Symbol):
        expr = expr.xreplace({item: _number(item, sample) for item in expr.atoms(kind)})
    return expr.evalf(_DIGITS)


def _number(item: Expr, sample: int) -> Expr:
    """Return the number of an atom, always the same for the same atom and sample."""
    if isinstance(item, Value) and isinstance(item.head, Correlation):
        item = min(item, item.head.turned(*item.moments[::-1]), key=str)
    varies = isinstance(item, Random | Resp) or (isinstance(item, Value) and isinstance(item.head, Process))
    draw = random.Random(f"{item} in sample {sample if varies else 0}")
    return Integer(draw.randint(2, 9)) if item.is_integer else Float(draw.uniform(0.3, 1.7), _DIGITS)


class SystemCheck(ExpressionCheck):
    """What is wrong with the parts of a system; methods yield problems in full, or report those of a place."""

    def __init__(self, system: System) -> None:
        super().__init__(system, (Parameter, Random, Time), system.start)
        self.system = system
        self.delayed = delayed_heads(system)

    def problems_in_order(self) -> list[str]:
        """Return everything that is wrong with the system, equations first."""
        system = self.system
        wrong = {equation: tuple(_left_hand_side(equation, system)) for equation in system.equations}
        lefts = [problem for problems in wrong.values() for problem in problems]
        self.add(lefts)
        self.meant = frozenset(name for eq in system.equations if wrong[eq] for name in self._meant(eq))
        for equation in system.equations:
            if equation.head is not None:
                self.visit(equation.rhs, replace(_scope(equation), any_time=bool(wrong[equation])))
                if not wrong[equation]:
                    self._symmetry(equation)
        rough = white_problems(system)
        self.add(rough)
        self._laws()
        for name, expr in system.observables.items():
            scope, times = self.observable(name), free_times(expr)
            if len(times) > 1:
                self.report(scope, f"depends on the times {quoted(times)}; expected at most one, such as `C(t, t)`")
            self.visit(expr, replace(scope, times=times))
        self._starts()
        self.add(_running_times(system))
        for name in strangers(system.start, Parameter)[:1]:
            self.add([f"the start of {system.label} uses `{name}`; expected a number, or an expression in parameters"])
        self._constraints()
        if not self.problems and has_shifts(system) and (unfit := why_not_convolution(system)):
            self.add([unfit])
        if not lefts and not rough:
            self._jumps()
            self._two_times()
            self.add((*_cycles(system), *self._substitutions(), *self._multipliers()))
        return self.gathered()

    # --- equations
    def _meant(self, equation: Equation) -> set[str]:
        """Return the unknowns that an equation with a wrong left-hand side was probably to define."""
        if equation.head is not None:
            return {equation.head.name}
        sides = ({value.head.name for value in side.atoms(Value)} for side in (equation.lhs, equation.rhs))
        return next(filter(None, (names - self.defined.keys() for names in sides)), set())

    def _symmetry(self, equation: Equation) -> None:
        target = equation.target
        if target is None or type(target.head) is not Correlation or equation.is_differential:
            return
        first, second = target.moments
        if first != second and is_asymmetric(equation.rhs, first, second):
            self.report(
                _scope(equation),
                f"gives the correlation `{target.head.name}` a right-hand side that changes when `{first}` and "
                f"`{second}` are exchanged; a correlation is symmetric: correct it, or use response()",
            )

    def _two_times(self) -> None:
        """Refuse expectations of two times that do not come apart, as `solve` would."""
        for equation in self.system.equations:
            for node in sorted(equation.rhs.atoms(E), key=str):
                times = free_times(node.argument)
                if len(times) != 2 or node.argument.has(Resp, Int):
                    continue
                one, other = ({item} for item in times)
                terms = [term for term in expanded(node.argument, one, other) if mixes(term, one, other)]
                if any(len(value.moments) == 2 for term in terms for value in term.atoms(Value)):
                    self.add([unseparated(equation.label, node)])

    def _jumps(self) -> None:
        """Refuse jumps by cases that paths cross, and jumps that respond: the mean response is a density of paths.

        For sign and Heaviside in forces there are ramps. A jump in what is only averaged is an ordinary function. So it is in
        time, in constants, and without noise.
        """
        system = self.system
        if not system.noises:
            return
        equations = {eq.head: eq for eq in system.equations if isinstance(eq.head, Process)}
        read = [(value.head, head) for head, eq in equations.items() for value in sorted(eq.rhs.atoms(Value), key=str)]
        driving = [*system.noises, *(head for head, eq in equations.items() if eq.is_differential)]
        moving = {*driving, *reached(make_graph((), read), driving)}  # what is defined by constants alone does not
        defined = {head for head, eq in equations.items() if not eq.is_differential}
        behind = make_graph((), ((reader, source) for source, reader in read if source in defined))
        looped = {head for head in defined if (head, head) in read}
        sides = [side for head, eq in equations.items() for side in (eq.rhs.atoms(Int) if head in looped else [eq.rhs])]
        ramps = {node: sp.tanh(node.args[0]) for side in sides for node in side.atoms(sp.sign, sp.Heaviside)}
        if any(eq.rhs.has(Resp) for eq in system.equations):  # of what jumps with noises alone there is no slope
            carried = looped.union(head for head, eq in equations.items() if eq.is_differential)
            ramps = {node: ramp for node, ramp in ramps.items() if any(v.head in carried for v in node.atoms(Value))}

        def crossed(expr: Expr) -> Expr | None:
            """Return a jump of an expression, or of what it integrates, that a path may cross."""
            expr = expr.xreplace(ramps)
            pieces = [expr, *(node.integrand for node in sorted(expr.atoms(Int), key=str))]
            crossings = (jumps(piece, [value for value in piece.atoms(Value) if value.head in moving]) for piece in pieces)
            return next((switch for switch in crossings if switch is not None), None)

        switch_of = {head: crossed(eq.rhs) for head, eq in equations.items()}

        def first(heads: list[Any]) -> Expr | None:
            """Return a jump of processes, their own or that of what they are defined by."""
            further = [head for head in equations if head in reached(behind, heads)]
            return next((switch_of[head] for head in (*heads, *further) if switch_of[head] is not None), None)

        for head, equation in equations.items():
            switch = first([head]) if equation.is_differential or head in looped else None
            if switch is not None:
                what = "write the jump by sign or Heaviside, outside cases, or make it smooth"
                self.report(_scope(equation), f"jumps where `{switch}` = 0: paths may get stuck there; {what}")
        for equation in system.equations:
            for node in sorted(equation.rhs.atoms(Resp), key=str):
                switch = crossed(node.output)
                if switch is None:
                    switch = first([value.head for value in node.output.atoms(Value) if value.head in defined])
                if switch is not None:
                    self.report(
                        _scope(equation),
                        f"takes the response `{node}` of what jumps where `{switch}` = 0; its mean "
                        f"is a density of paths, which is not derived; {SMOOTH}",
                    )

    def _substitutions(self) -> Iterator[str]:
        """Prove the changes of variable, unless an equation or a start they rest on is wrong already."""
        system = self.system
        labels = [equation.label for equation in system.equations if equation.head in system.substitute]
        labels += [f"the initial value of `{key}`" for key in system.init]
        if system.substitute and not any(problem.startswith(tuple(labels)) for problem in self.problems):
            try:
                derive_substitutions(system)
            except ModelError as error:
                yield from error.problems

    # --- laws
    def _laws(self) -> None:
        for key, law in self.system.laws.items():
            scope = Scope(self.system.law_label(key))
            if isinstance(law, White):
                self.visit(law.strength, replace(scope, times=free_times(law.strength)))
            elif isinstance(law, IN_STEPS):
                self.uses_only((Parameter,), law, scope, "parameters only")
            elif isinstance(law, GP):
                self._gaussian(tuple(member.name for member in members(key)), law, scope)

    def _gaussian(self, names: tuple[str, ...], law: GP, scope: Scope) -> None:
        size, covariance = len(names), law.covariance
        shape = covariance.shape if isinstance(covariance, ImmutableMatrix) else (1, 1)
        several = f"{size} process{'es' if size > 1 else ''}"
        if shape != (size, size):
            got = f"a {shape[0]} × {shape[1]} matrix" if isinstance(covariance, ImmutableMatrix) else "one kernel"
            want = f"a {size} × {size} matrix of kernels" if size > 1 else "one kernel, GP(C(t, t'))"
            self.report(scope, f"gives {several} {got} as covariance; expected {want}")
            return
        kernels = entries(covariance)
        times = free_times(*kernels)
        if len(times) == 1 or len(times) > 2:
            self.report(scope, f"has a covariance in the times {quoted(times)}; expected two, such as `C(t, t')`")
        inner = replace(scope, times=times or (Time("t"), Time("t'")))  # of a constant, any two
        for entry in kernels:
            self.visit(entry, inner)
        if len(inner.times) == 2:
            self._covariance_symmetry(kernels, size, inner)
            if not self.problems:
                self._positive(kernels, names, inner)
        parts = entries(law.mean)
        if len(parts) != size and parts != [0]:
            self.report(scope, f"gives {several} {len(parts)} means; expected one each")
        for part in parts:
            if len(free_times(part)) > 1:
                self.report(scope, f"has a mean `{part}` in more than one time; expected a function of one time")
            self.visit(part, replace(scope, times=free_times(part)))

    def _covariance_symmetry(self, kernels: list[Expr], size: int, scope: Scope) -> None:
        first, second = scope.times
        for row, column in itertools.combinations_with_replacement(range(size), 2):
            upper, lower = kernels[row * size + column], kernels[column * size + row]
            if is_asymmetric(upper, first, second, other=lower):
                left, right = ("K", "K") if size == 1 else (f"K_{row + 1}{column + 1}", f"K_{column + 1}{row + 1}")
                self.report(
                    scope,
                    f"has a covariance `{upper}` that is not symmetric: {left}({first}, {second}) "
                    f"must equal {right}({second}, {first})",
                )

    def _positive(self, kernels: list[Expr], names: tuple[str, ...], scope: Scope) -> None:
        """Refuse what is no covariance on any length of time, at the default parameters; `solve` tests the time it solves."""
        system, times, size = self.system, scope.times, len(names)
        defaults = {item: system.given(item) for entry in kernels for item in entry.atoms(Parameter)}
        known = [entry.xreplace(defaults) for entry in kernels if None not in defaults.values()]
        unknown = any(entry.free_symbols - set(times) or entry.has(Value) for entry in known)
        if not known or not system.start.is_number or unknown:
            return
        function, begin = lambdify(times, known), float(system.start)

        def blocks(first: Any, second: Any) -> Any:
            shape = (first.size, second.size)
            values = [np.broadcast_to(np.asarray(entry, float), shape) for entry in function(first, second)]
            return np.array(values).reshape(size, size, *shape)

        try:
            negative = find_negative(blocks, begin, begin + 1)
        except (ArithmeticError, ValueError, TypeError, NameError, AttributeError):  # no numbers: nothing is claimed
            return
        if negative[0] is not None and None not in negative:
            shown = kernels[0] if size == 1 else ImmutableMatrix(size, size, kernels)
            where = negative[0].describe(names)
            self.report(scope, f"has `{shown}`, which is no covariance: it is not positive semi-definite {where}")

    # --- values at the start
    def _starts(self) -> None:
        system = self.system
        equations = {equation.key: equation for equation in system.equations if equation.head is not None}
        fresh = {value.head.name for expr in system.substitute.values() for value in expr.atoms(Value)}
        given: dict[str, list[Basic]] = {}
        for key, value in system.init.items():
            head = key.head if isinstance(key, Value) else key
            scope = Scope(f"the initial value of `{key}` ({system.location})", random=isinstance(head, Process))
            given.setdefault(head.name, []).append(key)
            equation = equations.get(head.name)
            if self.is_reported(head):
                continue
            if equation is None and head.name not in fresh and head not in system.constraints:
                self.report(scope, f"belongs to no equation{did_you_mean(head.name, equations)}")
            elif equation is not None and not equation.is_differential and head not in self.delayed:
                self.report(
                    scope,
                    f"has no use: the {equation.label} gives `{head.name}` at every time; only a "
                    "differential equation needs a start",
                )
            if isinstance(key, Value):
                first, second = key.moments
                if first != second or not (isinstance(first, Time) or first == system.start):
                    self.report(
                        scope,
                        f"stands at ({first}, {second}); expected the diagonal, `{head.name}(t, "
                        f"t)`, or the start, `{head.name}({system.start}, {system.start})`",
                    )
                scope = replace(scope, times=(first,) if isinstance(first, Time) else ())
            elif head in self.delayed and isinstance(value, Expr):
                scope = replace(scope, times=free_times(value), any_time=True)
                if len(scope.times) > 1:
                    several = quoted(scope.times)
                    self.report(
                        scope, f"depends on the times {several}; expected a past in one time, the one before the start"
                    )
                if value.has(Value):
                    self.report(scope, f"is `{value}`; expected an expression in time and parameters")
            if not isinstance(value, Law):
                self.visit(value, scope)
        for name, equation in equations.items():
            if name not in self.meant:
                self.report(Scope(equation.label), *self._missing_start(equation, given.get(name, [])))

    def _missing_start(self, equation: Equation, given: list[Basic]) -> Iterator[str]:
        head, name, start = equation.head, equation.key, self.system.start
        if equation.is_differential:
            what, where = "initial value", name
            if isinstance(head, Response):
                given = [key for key in given if isinstance(key, Value) and isinstance(key.moments[0], Time)]
                what, where = "value on the diagonal", f"{name}(t, t)"
            elif isinstance(head, Correlation):
                where = f"{name}(t, t): ...}} on the diagonal or init={{{name}({start}, {start})"
            if not given:
                yield f"is differential, but `{name}` has no {what}; give it by init={{{where}: ...}}"
        elif head in self.delayed and not given:
            yield (
                f"defines `{name}`, which is read at a delay, but its past is not known; give it "
                f"by init={{{name}: ...}}, an expression in t"
            )

    # --- constraints
    def _constraints(self) -> None:
        for head, constraint in self.system.constraints.items():
            scope = Scope(constraint_label(head, constraint), free_times(constraint.lhs - constraint.rhs))
            if head in [equation.head for equation in self.system.equations]:
                self.report(scope, f"stands beside the {self.system[head].label}; keep one of them")
            for side in (constraint.lhs, constraint.rhs):
                self.visit(side, scope)

    def _multipliers(self) -> Iterator[str]:
        """Derive the multipliers' equations, unless what they rest on is wrong."""
        if not self.system.constraints or self.problems:
            return
        try:
            reduction = reduce_constraints(self.system)
        except ModelError as error:
            yield from error.problems
            return
        for label, residual in reduction.invariants:
            if residual.is_Number and abs(float(residual)) > 1e-9:
                yield f"{label} does not hold at the start: it is off by {float(residual):.6g}; change init= or the constraint"


def _left_hand_side(equation: Equation, system: System) -> Iterator[str]:
    target, lhs = equation.target, equation.lhs
    if target is None:
        if isinstance(lhs, Named):
            yield (
                f"{equation.label} defines the {lhs.kind_name} `{lhs}`, which is not an unknown "
                "function; the left-hand side must be a function at its times, such as `w(t)`"
            )
        else:
            zero = "; sympy makes 0 of a derivative along another time, `w(t).diff(t')`: did you mean `w(t).diff(t)`?"
            yield (
                f"{equation.label} names no unknown: the left-hand side must be a function at its times, such as `w(t)`, "
                f"or its derivative, such as `w(t).diff(t)`; got `{lhs}`{zero if lhs == 0 else _solved_for(equation, system)}"
            )
        return
    moments, usage = target.moments, target.head.usage
    wrong = {
        f"has `{target}` on its left; expected time variables there, `{usage}`; a value at the "
        "start belongs into init=": not all(isinstance(moment, Time) for moment in moments),
        f"has the same time twice on its left, `{target}`; expected two times, `{usage}`; a value "
        "on the diagonal belongs into init=": len(set(moments)) < len(moments),
        f"is a derivative in the second time `{equation.time}`; expected one in the first, "
        f"`{target}.diff({moments[0]})`": equation.time != moments[0],
    }
    yield from (f"{equation.label} {text}" for text in first_that_holds(wrong))
    if target.head in system.noises:
        yield (
            f"{equation.label} defines `{target.head.name}`, which also has a law in laws=; "
            "a process has either an equation or a law: remove one of them"
        )


def _solved_for(equation: Equation, system: System) -> str:
    """Return how to write an equation whose left-hand side is a balance, where that can be told."""
    if equation.lhs.has(Int) or equation.rhs.has(Int):
        name = min((value.head.name for side in (equation.lhs, equation.rhs) for value in side.atoms(Value)), default="y")
        return f"; an equation of the first kind is a constraint that fixes its unknown, constraints={{{name}: Eq(...)}}"
    inner = equation.rhs.expr if isinstance(equation.rhs, Derivative) else equation.rhs
    if isinstance(inner, Value) and inner.head not in system.unknowns:
        return "; exchange its two sides"
    candidates = equation.lhs.atoms(Derivative) or equation.lhs.atoms(Value)
    if len(candidates) != 1:
        return ""
    (shown,) = (f"{it.expr}.diff({it.variables[0]})" if isinstance(it, Derivative) else str(it) for it in candidates)
    return f"; solve it for `{shown}` and write Eq({shown}, ...)"


def _scope(equation: Equation) -> Scope:
    """Return the scope of a right-hand side; of a response only t' <= t is asked for."""
    target = equation.defined
    ordered = isinstance(target.head, Response) and len(set(target.moments)) == 2
    order = frozenset({(target.moments[1], target.moments[0])} if ordered else ())
    function = target.head if isinstance(target.head, Function) else None
    return Scope(equation.label, tuple(target.moments), order, random=isinstance(target.head, Process), function=function)


def _cycles(system: System) -> Iterator[str]:
    """Name the circles of definitions, shortest first, one for each group of unknowns caught in them."""
    place = {equation.key: equation.location for equation in system.equations}
    declared = {head.name: position for position, head in enumerate(system.unknowns)}
    named: set[str] = set()
    for cycle in sorted(analyse_causality(system).cycles, key=len):
        if named.intersection(cycle):
            continue
        named.update(cycle)
        begin = min(range(len(cycle)), key=lambda index: declared[cycle[index]])
        names = [*cycle[begin:], *cycle[:begin]]
        chain = " -> ".join([*names, names[0]])
        where = ", ".join(str(place[name]) for name in names if place.get(name))
        yield (
            f"equation for `{names[0]}` ({where}) needs its own value at the same time: {chain}; "
            "a definition may meet itself only under an integral, an expectation or a derivative in time"
        )


def _running_times(system: System) -> Iterator[str]:
    """All processes run in one time: their paths are advanced together."""
    running = [eq for eq in system.equations if isinstance(eq.head, Process) and isinstance(eq.time, Time)]
    for first, equation in ((running[0], other) for other in running if other.time != running[0].time):
        yield (
            f"{equation.label} runs in the time `{equation.time}`, but the {first.label} in "
            f"`{first.time}`; write the equations of all processes in one time"
        )


# --- Coefficients singular at the start, such as 3/t: named when a solve fails, as some cancel.
def singular_terms(system: System) -> Iterator[str]:
    """Yield, in words, each power and logarithm of time in an equation that has no finite value at the start."""
    for equation in system.equations:
        for node in sorted(equation.rhs.atoms(Pow, log), key=str):
            inner = node.args[0]
            if node.has(Value) or not inner.atoms(Time) or not _vanishes(inner, system.start):
                continue
            if len(inner.atoms(Time)) == 2 and (system.processes or system.kernels) and is_sharp(node):
                yield f"{equation.label} has `{node}`: such a kernel is taken where all unknowns are functions of one time"
            elif isinstance(node, log) or node.exp.could_extract_minus_sign():
                yield f"{equation.label} has `{node}`, which is singular at the start, t = {system.start}"


def _vanishes(expr: Expr, start: Expr) -> bool:
    others = (item for item in expr.free_symbols if not isinstance(item, Time))
    plain = expr.xreplace({item: Symbol(f"_{item.name}", positive=True) for item in others})
    return plain.subs({item: start for item in plain.atoms(Time)}) == 0
