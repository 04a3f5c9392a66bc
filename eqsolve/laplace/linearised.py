"""A linearised stationary `System` turned into its transform equations, and those into one closed equation."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sympy import Basic, Derivative, Dummy, Expr, S, Symbol, cancel, factor, fraction, together
from sympy import solve as solve_symbolically

from eqsolve.errors import ModelError, did_you_mean
from eqsolve.language.equations import Equation
from eqsolve.language.fixed_point import Singularity
from eqsolve.language.nodes import E
from eqsolve.language.symbols import Correlation, Head, Random, Response, Time, Unknown, Value
from eqsolve.language.system import System
from eqsolve.laplace.transform import Rules, Transform
from eqsolve.passes.forms.tangents import Tangent, derive_tangents


@dataclass(frozen=True)
class TransformedSystem:
    """The Laplace transforms of a system's equations."""

    system: System
    variable: Symbol
    second: Symbol
    # one equation per response function and per tangent process, in p
    responses: tuple[Equation, ...]
    functions: tuple[Equation, ...]  # one equation per process and per function of one time, in p
    correlations: tuple[Equation, ...]  # one equation per correlation, in p and q

    @property
    def equations(self) -> tuple[Equation, ...]:
        return (*self.responses, *self.functions, *self.correlations)

    def bar(self, name: str, *variables: Any) -> Value:
        """Return the transform of the function of that name, at p unless variables are given."""
        found = {equation.head.of.name: equation.head for equation in self.equations if equation.head is not None}
        if name not in found:
            raise ModelError(f"model `{self.system.name}` has no transform of `{name}`{did_you_mean(name, found)}")
        return found[name](*(variables or (self.variable,)))

    def closed(self, name: str) -> Equation:
        """Return the equation of one response after everything else that is linear has been eliminated."""
        target = self.bar(name)
        known = self._eliminated(target)
        equation = next(item for item in self.responses if item.lhs == target)
        return Equation(target, _tidy(equation.rhs.xreplace(known), self.variable), equation.location)

    def solved(self, name: str, given: str | None = None) -> Expr:
        """Return the transform of ``name`` (a response, or a correlation in p and q) in terms of that of ``given``."""
        keep = self.bar(given) if given else None
        if any(item.head is not None and item.head.of.name == name for item in self.correlations):
            return self._correlation(name, keep)
        return _factored(self._eliminated(keep)[self.bar(name)])

    def _correlation(self, name: str, keep: Value | None) -> Expr:
        target = self.bar(name, self.variable, self.second)
        known: dict[Basic, Basic] = {}
        for variable in (self.variable, self.second):
            known |= {
                key.xreplace({self.variable: variable}): value.xreplace({self.variable: variable})
                for key, value in self._eliminated(keep).items()
            }
        equation = next(item for item in self.correlations if item.lhs == target)
        return _factored(_solve_linear([target], [target - equation.rhs.xreplace(known)])[target])

    def rate_model(
        self, model_name: str, unknown: str, *, factor_out: bool = False, law_of: Any = (), **parts: Any
    ) -> Singularity:
        """Return the `Singularity` that gives the rate of a response.

        ``factor_out=True`` takes p times the transform as the unknown, which removes the pole of a response that does
        not decay to zero.
        """
        closed = self.closed(unknown)
        p, bar = Unknown("p"), Unknown(f"{unknown}_bar", closed.lhs.head.latex_name)
        inner = bar / p if factor_out else bar
        mapping = {closed.lhs: inner, self.variable: p}
        right = _tidy(closed.rhs.xreplace({closed.lhs: mapping[closed.lhs]}).xreplace({self.variable: p}), p)
        right = _tidy(p * right, p) if factor_out else right
        defaults = {**self.system.defaults, **parts.pop("defaults", {})}
        observables = {"gamma": -p, **parts.pop("observables", {})}
        return Singularity(
            model_name, transform=Equation(bar, right, closed.location), variable=p, unknown=bar, law_of=law_of,
            defaults=defaults, observables=observables, cite=self.system.cite, **parts,
        )  # fmt: skip

    def _eliminated(self, keep: Value | None) -> dict[Basic, Basic]:
        """Solve for the tangents path by path, then for the responses that enter linearly, all but ``keep``."""
        tangents = [item for item in self.responses if isinstance(item.head.of, Tangent)]  # type: ignore[union-attr]
        made = _solve_linear([item.lhs for item in tangents], [item.lhs - item.rhs for item in tangents])
        rest = [item for item in self.responses if item not in tangents and item.lhs != keep and not item.rhs.has(E)]
        made_rest = _solve_linear([item.lhs for item in rest], [item.lhs - item.rhs for item in rest])
        return {**{key: value.xreplace(made_rest) for key, value in made.items()}, **made_rest}


def _solve_linear(unknowns: list[Expr], residuals: list[Expr]) -> dict[Basic, Basic]:
    if not unknowns:
        return {}
    everything = sorted(set(unknowns).union(*(item.atoms(Value, E) for item in residuals)), key=str)
    stand_ins = {item: Dummy(f"f{index}") for index, item in enumerate(everything)}
    wanted = [stand_ins[item] for item in unknowns]
    answers = solve_symbolically([item.xreplace(stand_ins) for item in residuals], wanted, dict=True)
    if len(answers) != 1 or len(answers[0]) != len(unknowns):
        names = ", ".join(str(item) for item in unknowns)
        raise ModelError(f"the transform equations do not determine {names} linearly; is the system linearised?")
    back = {name: item for item, name in stand_ins.items()}
    return {item: answers[0][stand_ins[item]].xreplace(back) for item in unknowns}


def _factored(expr: Expr) -> Expr:
    """Return an expression in transforms as one factored fraction."""
    stand_ins = {item: Dummy(f"f{index}") for index, item in enumerate(sorted(expr.atoms(Value, E), key=str))}
    return factor(expr.xreplace(stand_ins)).xreplace({name: item for item, name in stand_ins.items()})


def _tidy(expr: Expr, variable: Symbol) -> Expr:
    """Bring each expectation to one fraction, with factors that are not random in front."""
    return _factored(expr.xreplace({node: _tidy_mean(node, variable) for node in expr.atoms(E)}))


def _tidy_mean(node: E, variable: Symbol) -> Expr:
    whole: dict[Basic, Basic] = {}
    plain: dict[Basic, Basic] = {}

    def shield(part: Expr) -> Expr:
        """Give the random quantities that do not depend on p a name, so that the algebra stays rational."""
        if part.has(Random) and not part.has(variable, Value) and not part.is_Mul and not part.is_Add:
            return whole.setdefault(part, Dummy(f"x{len(whole)}", positive=True))
        if isinstance(part, Value):
            return plain.setdefault(part, Dummy(f"f{len(plain)}"))
        return part.func(*(shield(arg) for arg in part.args)) if part.args else part

    shielded = shield(node.argument)
    top, bottom = (factor(part) for part in fraction(cancel(together(shielded))))
    outer, inner = (top / bottom).as_independent(*whole.values(), as_Add=False)
    back = {name: item for item, name in (*whole.items(), *plain.items())}
    return outer.xreplace(back) * E(inner.xreplace(back))


def transform_system(system: System, *, variable: Symbol | None = None, second: Symbol | None = None) -> TransformedSystem:
    """Return the Laplace transforms of a linearised system whose responses depend on time differences only.

    Parameters
    ----------
    system
        A system linear in its processes. Anything else is refused with the term and the line it stands in.
    variable, second
        The transform variables; p and q unless given.
    """
    p, q = variable or Symbol("p"), second or Symbol("q")
    initial = {key: value for key, value in system.init.items() if isinstance(key, Head)}
    diagonal = {
        key.head: value
        for key, value in system.init.items()
        if isinstance(key, Value) and len(set(key.moments)) == 1 and isinstance(key.moments[0], Time)
    }
    responses: list[Equation] = []
    functions: list[Equation] = []
    correlations: list[Equation] = []
    tangents = derive_tangents(system)
    starts: dict[Any, Expr] = {item.equation.head: item.initial for item in tangents if item.initial is not None}
    for equation in (*system.equations, *(item.equation for item in tangents)):
        head = equation.head
        assert head is not None
        assert equation.target is not None
        moments: Any = equation.target.moments
        if isinstance(head, Response | Tangent):
            stationary = Rules(moments[0], p, {**diagonal, **starts}, equation.label, moments[1])
            responses.append(_transformed(equation, (stationary,), Transform(head)(p)))
            continue
        pairs = list(zip(moments, (p, q), strict=False))
        rules = [Rules(time, name, initial, equation.label, system.start) for time, name in pairs]
        made = correlations if isinstance(head, Correlation) else functions
        made.append(_transformed(equation, rules, Transform(head)(*(name for _, name in pairs))))
    return TransformedSystem(system, p, q, tuple(responses), tuple(functions), tuple(correlations))


def _transformed(equation: Equation, rules: Sequence[Rules], bar: Value) -> Equation:
    left, right = (functools.reduce(lambda made, rule: rule(made), rules, side) for side in (equation.lhs, equation.rhs))
    if isinstance(equation.lhs, Derivative):  # p f̄ − f(0) = F̄, written as f̄ = (f(0) + F̄)/p
        right = (right - left.xreplace({bar: S.Zero})) / rules[0].variable
    return Equation(bar, right, equation.location)
