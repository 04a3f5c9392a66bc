"""The kernels of linear processes by their own equations: moments of two processes and responses, closed by Stein's lemma."""

from __future__ import annotations

import logging
from typing import Any

import networkx as nx
from sympy import Add, Expr, Mul, Pow, S, Tuple, expand

from eqsolve.errors import ModelError
from eqsolve.language.equations import Equation
from eqsolve.language.laws import Law
from eqsolve.language.nodes import E, Int, Resp
from eqsolve.language.symbols import Correlation, Function, Head, Process, Random, Response, Time, Value, fresh_name
from eqsolve.language.system import System
from eqsolve.passes.rewrite.putting_in import put_in, renamed, unused_time

__all__ = ["LinearMoments"]

logger = logging.getLogger("eqsolve")


def _members(key: Any) -> tuple[Any, ...]:
    return tuple(key) if isinstance(key, Tuple) else (key,)


class _NotQuadraticError(Exception):
    """A mean that is not of second order in the processes."""


class LinearMoments:
    """Closes a system whose processes ``chosen`` are linear; the others and what they read stay."""

    def __init__(self, system: System, chosen: set[Any]) -> None:
        self.system = system
        self.names = set(system.names)
        definitions = [eq for eq in system.equations if eq.head in chosen and not eq.is_differential]
        states = [eq for eq in system.equations if eq.head in chosen and eq.is_differential]
        self.definitions: dict[Any, Equation] = {eq.head: eq for eq in definitions}
        self.t = states[0].time if states else system.equations[0].time
        self.tp = self._other_time()
        self.chosen = chosen
        self.states: set[Any] = {eq.head for eq in states}
        self.starts = {head: self._start(head) for head in self.states}
        self.origins = {head: S.Zero for head in self.states}
        self.origins = {head: self._origin(head) for head in self.states}
        self.drifts = {eq.head: self.rewritten(eq.rhs.xreplace({eq.time: self.t})) for eq in states}
        self.known: dict[tuple[Any, ...], tuple[Head, Expr]] = {}  # moment → function and the factor it has
        self.pending: list[tuple[Any, ...]] = []

    # --- preparation ------------------------------------------------------------------------------------------------
    def _other_time(self) -> Time:
        for eq in self.system.equations:
            if eq.target is not None and len(eq.target.moments) == 2:
                return next((item for item in eq.target.moments if item != self.t), eq.target.moments[1])
        return next((item for item in self.system.time_symbols if item.name == "t'"), Time("t'"))

    def _start(self, head: Process) -> Expr:
        value = self.system.init.get(head, S.Zero)
        return Random(self._fresh(f"{head.name}0"), None, (value,)) if isinstance(value, Law) else value

    def _fresh(self, name: str) -> str:
        name = fresh_name(name, self.names)
        self.names.add(name)
        return name

    def _origin(self, head: Process) -> Expr:
        """Return the random constant c if correlations are written with x − c."""
        for eq in self.system.equations:
            for node in eq.rhs.atoms(E):
                for factor in Mul.make_args(self.inlined(node.argument)):
                    base = factor.base if isinstance(factor, Pow) else factor
                    values = [value for value in base.atoms(Value) if value.head == head]
                    if base.is_Add and len(values) == 1 and base.coeff(values[0]) == 1:
                        rest = base - values[0]
                        if rest.has(Random) and not rest.has(Value):
                            return -rest
        return S.Zero

    def inlined(self, expr: Any) -> Any:
        """Return an expression with defined processes put in."""
        while found := next((v.head for v in expr.atoms(Value) if v.head in self.definitions), None):
            eq = self.definitions[found]
            expr = put_in(expr, found, (eq.time,), eq.rhs)
        return expr

    def rewritten(self, expr: Any) -> Any:
        """Return an expression in the states counted from their origins."""
        moved = {
            value: value + self.origins[value.head]
            for value in self.inlined(expr).atoms(Value)
            if value.head in self.states and self.origins[value.head] != 0
        }
        return self.inlined(expr).xreplace(moved)

    # --- the closed system ------------------------------------------------------------------------------------------
    def close(self) -> System:
        """Return the system in which the chosen processes are gone."""
        system = self.system
        equations: list[Equation] = []
        init = {key: value for key, value in system.init.items() if key not in self.chosen}
        primary = {eq.head: key for eq in system.equations if (key := self._match(eq)) is not None}
        for eq in system.equations:
            if eq.head in primary:
                made, start = self._equation(primary[eq.head], eq.location)
                equations.append(made)
                init |= start
            elif eq.head not in self.chosen:
                equations.append(Equation(eq.lhs, self._means(eq.rhs, eq.label), eq.location, {}))
        observables = self._observables()
        while self.pending:
            made, start = self._equation(self.pending.pop(0), None)
            equations.append(made)
            init |= start
        read = {v.head for expr in (*(eq.rhs for eq in equations), *observables.values()) for v in expr.atoms(Value)}
        laws = {key: law for key, law in system.laws.items() if read & set(_members(key))}
        table = type(system.laws)
        return system._with(
            equations=tuple(equations), laws=table(laws), init=table(init), observables=table(observables),
            substitute=table(), exact=table(), flow=None,
        )  # fmt: skip

    def _observables(self) -> dict[str, Expr]:
        kept = {}
        for key, expr in self.system.observables.items():
            try:
                kept[key] = self._means(expr, f"observable `{key}`")
            except ModelError as error:
                logger.info("left out: %s", error)
        return kept

    def _means(self, expr: Expr, label: str) -> Expr:
        """Return an expression with means over the chosen processes written in kernels."""
        made = {}
        for node in expr.atoms(E):
            heads = {v.head for v in node.atoms(Value) if isinstance(v.head, Process)}
            acted = {head for head in heads if head in self.chosen}
            if not acted and not (heads and heads <= set(self.system.noises)):
                continue
            if heads - self.chosen - set(self.system.noises):
                raise ModelError(f"{label}: `{node}` is a mean over processes of which one is linear and one is not")
            try:
                made[node] = self.mean(self.rewritten(node.argument))
            except _NotQuadraticError:
                raise ModelError(
                    f"{label}: `{node}` is not of second order in the processes; once they are eliminated, only their "
                    "correlations and responses are known"
                ) from None
        return expr.xreplace(made)

    def _match(self, eq: Equation) -> tuple[Any, ...] | None:
        """Return the moment that a kernel is, up to a factor: ("two", x) or ("response", x, z)."""
        nodes = [factor for factor in Mul.make_args(eq.rhs) if isinstance(factor, E)]
        if len(nodes) != 1 or eq.target is None or len(eq.target.moments) != 2:
            return None
        factor, (first, second) = eq.rhs / nodes[0], eq.target.moments
        argument = expand(self.rewritten(nodes[0].argument))
        key: tuple[Any, ...] | None = None
        if isinstance(nodes[0].argument, Resp):
            output, noise = nodes[0].argument.args
            output = expand(self.rewritten(output))
            for head in self.states:
                scale = output.coeff(head(first))
                if scale != 0 and not (output - scale * head(first)).has(Value, Int) and noise.moments == (second,):
                    key, factor = ("response", head, noise.head), factor * scale
        else:
            for head in self.states:
                scale = argument.coeff(head(first) * head(second))
                if scale != 0 and expand(argument - scale * head(first) * head(second)) == 0:
                    key, factor = ("two", head), factor * scale
        if key is None or key in self.known or factor.has(Value, E, Int, Random, Time):
            return None
        self.known[key] = (eq.target.head, factor)
        return key

    def _equation(self, key: tuple[Any, ...], location: Any) -> tuple[Equation, dict[Any, Expr]]:
        """Return the equation of a moment and its start."""
        (kind, head, *more), (function, factor), t, tp = key, self.known[key], self.t, self.tp
        drift, begin = self.drifts[head], self.starts[head] - self.origins[head]
        if kind == "response":
            jump = expand(drift).coeff(more[0](t))
            right, at, value = self.response(drift, more[0], tp), function(t, t), jump
        elif kind == "two":
            right, at, value = self.mean(drift * head(tp)), function(self.system.start, self.system.start), self.mean(begin**2)
        else:
            right, at, value = self.mean(drift * more[0]), function, self.mean(begin * more[0])
        left = function(t) if kind == "one" else function(t, tp)
        return Equation(left.diff(t), expand(factor * right), location, {}), {at: factor * value}

    # --- moments ----------------------------------------------------------------------------------------------------
    def mean(self, expr: Expr) -> Expr:
        """Return the mean of an expression of second order in the processes."""
        answers = {}
        for node in expr.atoms(Resp):
            answers[node] = self.response(self.rewritten(node.output), node.noise.head, node.noise.moments[0])
        return Add(*(self._term(term) for term in Add.make_args(expand(expr.xreplace(answers)))))

    def _term(self, term: Expr) -> Expr:
        outside, constants, moving = [], [], []
        for factor in Mul.make_args(term):
            power = factor.exp if isinstance(factor, Pow) and factor.exp == 2 else S.One
            base = factor.base if power == 2 else factor
            if self._moves(base):
                moving += [base] * int(power)
            elif base.has(Random) and not isinstance(base, E):
                constants.append(factor)
            else:
                outside.append(factor)
        for place, item in enumerate(moving):
            if isinstance(item, Int):
                rest = Mul(*outside, *constants, *moving[:place], *moving[place + 1 :])
                safe = renamed(item, rest.free_symbols)
                return self._integral(self.mean(safe.integrand * rest), safe.variable, safe.low, safe.high)
        if any(not isinstance(item, Value) for item in moving) or len(moving) > 2 or (len(moving) == 2 and constants):
            raise _NotQuadraticError
        constant = Mul(*constants)
        if not moving:
            return Mul(*outside) * (E(constant) if constant != 1 else S.One)
        return Mul(*outside) * (self._one(moving[0], constant) if len(moving) == 1 else self._two(*moving))

    def _moves(self, expr: Expr) -> bool:
        return not isinstance(expr, E) and any(isinstance(v.head, Process) for v in expr.atoms(Value))

    def _integral(self, integrand: Expr, variable: Time, low: Expr, high: Expr) -> Expr:
        total = S.Zero
        for term in Add.make_args(expand(integrand)):
            inside = [f for f in Mul.make_args(term) if variable in f.free_symbols]
            outside = [f for f in Mul.make_args(term) if f not in inside]
            if term != 0:
                total += Mul(*outside) * Int(Mul(*inside), (variable, low, high))
        return total

    def _noise(self, head: Process) -> tuple[tuple[Process, ...], int, Any]:
        for key, law in self.system.laws.items():
            members = _members(key)
            if head in members:
                return members, members.index(head), law
        raise ModelError(f"`{head.name}` is neither a linear process nor a noise with a law")

    def _covariance(self, entry: Any, one: Expr, two: Expr) -> Expr:
        times = [item for item in entry.free_symbols if isinstance(item, Time)]
        times.sort(key=lambda item: (item != self.t, item.name))
        moments = dict(zip(times, (one, two), strict=False))
        return renamed(entry, {s for m in (one, two) for s in m.free_symbols}).xreplace(moments)

    def _centre(self, law: Any, place: int, moment: Expr) -> Expr:
        mean = law.mean if not hasattr(law.mean, "shape") else law.mean[place]
        return mean.xreplace({self.t: moment}) if isinstance(mean, Expr) else S.Zero

    def _one(self, value: Value, constant: Expr) -> Expr:
        """Return E[x(t) ρ] for a process or a noise and a product ρ of random constants."""
        if value.head not in self.states:
            _, place, law = self._noise(value.head)
            return self._centre(law, place, value.moments[0]) * (E(constant) if constant != 1 else S.One)
        suffix = "" if constant == 1 else f"_{constant.name}" if isinstance(constant, Random) else "_constants"
        function, factor = self._look_up(("one", value.head, constant), Function, f"m_{value.head.name}{suffix}")
        return function(*value.moments) / factor

    def _two(self, first: Value, second: Value) -> Expr:
        """Return E[x(t) y(t')]."""
        if first.head not in self.states and second.head in self.states:
            return self._stein(first, second)
        if second.head not in self.states and first.head in self.states:
            return self._stein(second, first)
        (one,), (two,) = first.moments, second.moments
        if first.head in self.states:
            if first.head != second.head:
                raise ModelError(
                    f"the correlation of `{first.head.name}` with `{second.head.name}` at another time is needed; it is "
                    "neither symmetric nor causal, and there are no such functions of two times"
                )
            function, factor = self._look_up(("two", first.head), Correlation, f"C_{first.head.name}")
            return function(one, two) / factor
        members, place, law = self._noise(first.head)
        product = self._centre(law, place, one) * self._one(second, S.One)
        if second.head not in members:
            return product
        return product + self._covariance(self._entry(law, members, place, members.index(second.head)), one, two)

    def _entry(self, law: Any, members: tuple[Process, ...], row: int, column: int) -> Any:
        return law.covariance if len(members) == 1 else law.covariance[row, column]

    def _stein(self, noise: Value, state: Value) -> Expr:
        (one,), (two,) = noise.moments, state.moments
        members, place, law = self._noise(noise.head)
        centre = self._centre(law, place, one)
        total = centre * self._one(state, S.One) if centre != 0 else S.Zero
        s = unused_time(one.free_symbols | two.free_symbols)
        for column, other in enumerate(members):
            kernel = self._covariance(self._entry(law, members, place, column), one, s)
            total += self._integral(kernel * self._answer(state.head, other, two, s), s, self.system.start, two)
        return total

    # --- responses --------------------------------------------------------------------------------------------------
    def _answer(self, head: Process, noise: Process, one: Expr, two: Expr) -> Expr:
        if not self._driven(head, noise):
            return S.Zero
        key = ("response", head, noise)
        function, factor = self._look_up(key, Response, f"R_{head.name}_{noise.name}")
        return function(one, two) / factor

    def _driven(self, head: Process, noise: Process) -> bool:
        """Return whether a noise reaches a state, through others if need be."""
        graph = nx.DiGraph((item, value.head) for item, drift in self.drifts.items() for value in drift.atoms(Value))
        return head in graph and noise in graph and nx.has_path(graph, head, noise)

    def response(self, expr: Expr, noise: Process, moment: Expr) -> Expr:
        """Return the regular part of the response of a linear expression to a noise at an earlier time."""
        total = S.Zero
        for term in Add.make_args(expand(expr)):
            moving = [factor for factor in Mul.make_args(term) if self._moves(factor)]
            if not moving:
                continue
            outside = Mul(*(factor for factor in Mul.make_args(term) if factor not in moving))
            item = moving[0]
            if len(moving) > 1 or not isinstance(item, Value | Int):
                raise _NotQuadraticError
            if isinstance(item, Int):
                total += outside * self._past(renamed(item, moment.free_symbols), noise, moment)
            elif item.head in self.states:
                total += outside * self._answer(item.head, noise, item.moments[0], moment)
        return total

    def _past(self, node: Int, noise: Process, moment: Expr) -> Expr:
        if node.low != self.system.start:
            raise ModelError(f"the integral `{node}` must run from the start, {self.system.start}")
        direct = S.Zero
        for term in Add.make_args(expand(node.integrand)):
            value = noise(node.variable)
            direct += term.coeff(value).xreplace({node.variable: moment})
        return direct + self._integral(self.response(node.integrand, noise, moment), node.variable, moment, node.high)

    def _look_up(self, key: tuple[Any, ...], kind: type[Head], name: str) -> tuple[Head, Expr]:
        if key not in self.known:
            self.known[key] = (kind(self._fresh(name)), S.One)
            self.pending.append(key)
        return self.known[key]
