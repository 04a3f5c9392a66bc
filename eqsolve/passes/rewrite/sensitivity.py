"""The sensitivity system: a system and the derivatives of its unknowns by parameters, exactly.

With D the total derivative along a parameter p, every unknown X gets its derivative DX, and every equation X = F its
linearisation

    DX = ∂F/∂p + Σ_Y ∂F/∂Y DY,

integrals and expectations being differentiated under their signs; a law of a random constant that moves with p adds its
score (see ``scores``). Differential equations, starts and constraints alike. The derivative of a noise z ~ GP(m, C) is the
Gaussian process with mean Dm that follows z, its covariance with it DC/2: then z + ε Dz has the covariance C + ε DC to
first order, and nothing else of its law matters. The derivative of a response E[∂x/∂z] is E[∂Dx/∂z]. The system with its
derivatives is solved like any other, to the same tolerance.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sympy import Add, Basic, DiracDelta, Dummy, Expr, ImmutableMatrix, Piecewise, S, Tuple, expand_mul, sqrt, zeros
from sympy.core.function import Derivative, Subs

from eqsolve.errors import UsageError, demand_known, quoted
from eqsolve.graphs import make_graph, reached
from eqsolve.language.binding import bind_some
from eqsolve.language.laws import Law, Point, Uniform
from eqsolve.language.model import Equation, Model, Table, mapper
from eqsolve.language.nodes import GP, E, FollowedGP, Int, Resp, White, entries
from eqsolve.language.symbols import CrossCorrelation, Head, Parameter, Process, Random, Value, fresh_name
from eqsolve.language.system import System, members, start_constant
from eqsolve.passes.forms.expressions import chain, outermost, shielded
from eqsolve.passes.forms.kinks import KINKS, jumps, switches
from eqsolve.passes.rewrite.substitution import apply_substitutions, derive_substitutions


# --- Numbers in laws as parameters: ``w_star.p`` is the probability of ``w_star ~ Bernoulli(0.1)``.
def name_law_numbers(
    model: Model, settings: Mapping[str, Any], names: Iterable[str]
) -> tuple[Model, dict[str, Any], dict[str, str]]:
    """Return a model in which the numbers ``constant.argument`` are parameters, settings with their values, and their names.

    Names without a point are left alone.
    """
    wanted: dict[str, list[str]] = {}
    for name in names:
        constant, point, argument = name.partition(".")
        if point:
            wanted.setdefault(constant, []).append(argument)
    left = dict(settings)
    if not wanted:
        return model, left, {}
    called: dict[str, str] = {}
    taken = {*model.names}
    randoms = {item.name: item for item in model.randoms}
    changed: dict[Any, Any] = {}
    for constant, arguments in wanted.items():
        demand_known([constant], randoms, f"model `{model.name}` has no random constant `{{}}`")
        item = randoms[constant]
        if constant in left:
            item = bind_some(model, {constant: left.pop(constant)})[item]
        called |= {f"{constant}.{argument}": fresh_name(f"{constant}_{argument}", taken) for argument in arguments}
        law, values = _opened(model, item, arguments, called)
        changed[randoms[constant]] = item.with_law(law)
        left |= values
    return model.subs(changed), left, called


def _opened(model: Model, item: Random, arguments: list[str], called: Mapping[str, str]) -> tuple[Law, dict[str, float]]:
    """Return a law with some of its numbers as parameters, and their values."""
    law = item.law
    if not isinstance(law, Law):
        raise UsageError(
            f"the law of `{item.name}` in model `{model.name}` comes from elsewhere: it has no numbers of its own"
        )
    plain = {
        entry.name: place
        for place, entry in enumerate(inspect.signature(type(law)).parameters.values())
        if entry.kind is entry.POSITIONAL_OR_KEYWORD and place < len(law.args) and isinstance(law.args[place], Expr)
    }
    parts, values = list(law.args), {}
    for argument in arguments:
        if argument not in plain:
            has = ", ".join(f"{item.name}.{name}" for name in plain) or "none that can be named"
            raise UsageError(f"`{item.name}.{argument}`: the law {law} has no such number (it has: {has})")
        value = parts[plain[argument]]
        if not value.is_number:
            inside = quoted(sorted(value.free_symbols, key=str))
            raise UsageError(f"`{item.name}.{argument}` is `{value}` in the law {law}: differentiate along {inside}")
        name = called[f"{item.name}.{argument}"]
        parts[plain[argument]] = Parameter(name, None, (), real=True)
        values[name] = float(value)
    return type(law)(*parts), values


# --- How the laws of random constants move with a parameter.
#
# Of a law with density (or probabilities) ρ(x; p), d/dp E[f] = E[f ∂log ρ/∂p]: the score is one
# more factor. Where the support moves with p, the constant is a function of one whose law does not.
def fix_supports(system: System, parameters: tuple[Parameter, ...]) -> System:
    """Return the system with every constant whose values move with a parameter written in one whose values do not."""
    mapping: dict[Basic, Basic] = {}
    laws = {item: law for item in system.randoms if (law := system.given(item)) is not None}
    for item, law in laws.items():
        match law if law.free_symbols & {*parameters} else None:
            case Point(args=(value,)):
                mapping[item] = value
            case Uniform(args=(low, high)):
                standard = Random(fresh_name(f"{item.name}_standard", system.names), None, (Uniform(0, 1),))
                mapping[item] = low + (high - low) * standard
    if not mapping:
        return system
    declared = Table((key, law) for key, law in system.laws.items() if key not in mapping)
    return system._mapped(mapper(mapping), "equations", "init", "observables", "substitute")._with(laws=declared)


def score_of(system: System, item: Random, parameter: Parameter) -> Expr:
    """Return ∂log ρ/∂p of the law of a random constant, zero where it does not depend on the parameter."""
    law = system.given(item)
    if law is None or parameter not in law.free_symbols:
        return S.Zero
    score = law.score(item, parameter) if isinstance(law, Law) else None
    if score is None:
        raise UsageError(
            f"`{item.name}` has the law {law}, and there is no derivative along `{parameter.name}` "
            "in it: laws whose parameters can be differentiated are Bernoulli, Rademacher, Normal, "
            "Uniform, Laplace, StudentT, GaussBernoulli, Point, and the probabilities of Discrete"
        )
    return score


@dataclass(frozen=True)
class NamedDerivative:
    """What a name in the enlarged system is: the derivative of something along a parameter.

    ``of`` is an unknown or an observable.
    """

    name: str
    of: str
    parameter: str


@dataclass(frozen=True)
class Sensitivity:
    """A system with the derivatives of its unknowns and observables.

    ``base`` is the same without them. ``switches`` is the base with arguments of non-smooth functions in its observables in
    place of these, by names of the observables: where one vanishes there is no derivative. None if there are none.
    """

    base: System
    system: System
    companions: tuple[NamedDerivative, ...]
    switches: System | None = None


def derive_sensitivity(system: System, names: Iterable[str], *, change: bool = True) -> Sensitivity:
    """Return a system beside its derivatives along the named parameters.

    ``change`` makes the declared changes of variable first: derivatives are then those of the new variables.
    """
    parameters = tuple(_parameter(system, name) for name in names)
    system = system._with(init=Table((key, start_constant(key, value)) for key, value in system.init.items()))
    if change and system.substitute:
        system = apply_substitutions(system, derive_substitutions(system))
    system = _scale_whites(system, parameters)
    system = fix_supports(system._with(exact=Table(), flow=None, substitute=Table()), parameters)
    derivatives = [_Derivative(system, parameter) for parameter in parameters]
    equations, init, observables = [*system.equations], {**system.init}, {**system.observables}
    constraints: dict[Any, Any] = {**system.constraints}
    companions: list[NamedDerivative] = []
    for item in derivatives:
        equations += [item.equation(equation) for equation in system.equations]
        init |= {item.key(key): item.total(value, f"the start of `{key}`") for key, value in system.init.items()}
        constraints |= {item.heads[head]: item.equation(eq) for head, eq in system.constraints.items()}
        companions += [NamedDerivative(new.name, old.name, item.parameter.name) for old, new in item.heads.items()]
        for name, expr in system.observables.items():
            derivative = fresh_name(f"{name}_d_{item.parameter.name}", {*system.names, *observables})
            observables[derivative] = item.total(expr, f"observable `{name}` ({system.location})")
            companions.append(NamedDerivative(derivative, name, item.parameter.name))
    laws = _laws(system, derivatives)
    fields = {"equations": tuple(equations), "init": Table(init), "observables": Table(observables), "laws": laws}
    nonsmooth = {
        f"{name} ({place})": kink for name, expr in system.observables.items() for place, kink in enumerate(_kinks(expr))
    }
    switches = system._with(observables=Table(nonsmooth)) if nonsmooth else None
    return Sensitivity(system, system._with(constraints=Table(constraints), **fields), tuple(companions), switches)


def _parameter(system: System, name: str) -> Parameter:
    parameters = {item.name: item for item in system.parameters}
    demand_known([name], parameters, f"model `{system.name}` has no parameter `{{}}` to differentiate along")
    if parameters[name].is_integer:
        raise UsageError(f"`{name}` of model `{system.name}` is a whole number: there is no derivative along it")
    sides = [*(eq.rhs for eq in system.equations), *system.observables.values()]
    for read in sorted({value for side in sides for value in side.atoms(Value)}, key=str):
        if any(parameters[name] in moment.free_symbols for moment in read.moments):
            raise UsageError(
                f"model `{system.name}` reads `{read}`, a time that moves with `{name}`: there is no derivative along a delay"
            )
    for what, value in (("start", system.start), ("step", system.step)):
        if value is not None and parameters[name] in value.free_symbols:
            raise UsageError(f"the {what} of model `{system.name}` is {value}: there is no derivative along `{name}`")
    return parameters[name]


def _scale_whites(system: System, parameters: tuple[Parameter, ...]) -> System:
    """Return the system with every white noise whose strength moves written as one of strength 1 times its root."""
    strengths = {noise: system.laws[noise].strength for noise in system.whites}
    moving = {noise: it for noise, it in strengths.items() if it.free_symbols & {*parameters}}
    if not moving:
        return system
    laws = {noise: White(1, law.sense) if noise in moving else law for noise, law in system.laws.items()}

    def scaled(equation: Equation) -> Equation:
        answers = {node: Dummy("response") for node in equation.rhs.atoms(Resp) if node.noise.head in moving}
        rhs = equation.rhs.xreplace(answers)
        rhs = rhs.xreplace({value: sqrt(moving[value.head]) * value for value in rhs.atoms(Value) if value.head in moving})
        scaled_responses = {placeholder: node / sqrt(moving[node.noise.head]) for node, placeholder in answers.items()}
        return Equation(equation.lhs, rhs.xreplace(scaled_responses), equation.location)

    return system._with(equations=tuple(map(scaled, system.equations)), laws=Table(laws))


def _laws(system: System, derivatives: list[_Derivative]) -> Table:
    """Return the laws of the noises together with those that follow them."""
    laws: dict[Any, Any] = {}
    for key, law in system.laws.items():
        if not isinstance(law, GP):
            laws[key] = law
            continue
        driven = members(key)
        count, label = len(driven), system.law_label(driven[0])
        kernel = ImmutableMatrix(count, count, entries(law.covariance))
        mean = entries(law.mean) if isinstance(law.mean, ImmutableMatrix) else [law.mean] * count
        moved = [ImmutableMatrix(count, count, [item.total(entry, label) / 2 for entry in kernel]) for item in derivatives]
        # the covariance of the followers with themselves does not enter the first order
        rows = [[kernel, *moved], *([block, *[zeros(count)] * len(moved)] for block in moved)]
        whole = ImmutableMatrix.vstack(*(ImmutableMatrix.hstack(*row) for row in rows))
        followers = [item.heads[member] for item in derivatives for member in driven]
        centres = [*mean, *(item.total(entry, label) for item in derivatives for entry in mean)]
        laws[Tuple(*driven, *followers)] = FollowedGP(whole, centres, count)
    return Table(laws)


class _Derivative:
    """Total derivatives of a system's expressions along one parameter."""

    def __init__(self, system: System, parameter: Parameter) -> None:
        self.system, self.parameter = system, parameter
        taken = {*system.names, *system.observables}
        called: dict[Head, tuple[str, str]] = {}  # name and LaTeX
        for head in system.unknowns:
            if head not in system.whites:  # of a given strength: they do not move
                name = fresh_name(f"{head.name.rstrip(chr(39))}_d_{parameter.name}", taken)
                called[head] = name, rf"\partial_{{{parameter.latex_name}}} {head.latex_name}"
                taken.add(name)
        others = {head: (called[head.turned],) for head in called if isinstance(head, CrossCorrelation)}
        self.heads: dict[Head, Any] = {head: type(head)(*new, *others.get(head, ())) for head, new in called.items()}
        pieces = [(eq.head, eq.rhs) for eq in system.equations if isinstance(eq.head, Process)] + [*system.init.items()]
        edges = [(head, node) for head, piece in pieces for node in outermost(piece, Value, Random, but=E)]
        self.behind = make_graph((), ((head, node.head if isinstance(node, Value) else node) for head, node in edges))
        self.scores = {item: score_of(system, item, parameter) for item in system.randoms}

    def key(self, key: Any) -> Any:
        """Return the key of a start for the derivative."""
        return self.heads[key] if isinstance(key, Head) else self.heads[key.head](*key.moments)

    def equation(self, equation: Equation) -> Equation:
        """Return the linearised equation."""
        left, right = (self.total(side, equation.label) for side in (equation.lhs, equation.rhs))
        return Equation(left, right, equation.location)

    def total(self, expr: Any, label: str) -> Expr:
        """Return the total derivative of an expression."""
        derivative = self._total(expr, label)
        if derivative.has(DiracDelta):
            raise UsageError(
                f"{label} jumps, and has no derivative along `{self.parameter.name}`: where a function jumps an arbitrarily "
                "small change of the parameter changes it; leave it out (observables=), or write it without the jump"
            )
        return derivative

    def _total(self, expr: Any, label: str) -> Expr:
        match expr:
            case Value():
                return self.heads[expr.head](*expr.moments) if expr.head in self.heads else S.Zero
            case E():
                inner = expr.argument
                moved = self._total(inner, label)
                moved += inner * sum((self.scores[x] for x in self._constants(inner)), S.Zero)
                terms = Add.make_args(expand_mul(moved)) if moved.has(Resp) else (moved,)  # one response in each expectation
                return Add(*(E(term) for term in terms if term != 0))
            case Int():
                if self.parameter in expr.low.free_symbols | expr.high.free_symbols:
                    why = f"move with `{self.parameter.name}`: there is no derivative along it"
                    raise UsageError(f"{label}: the ends of `{expr}` {why}")
                moved = expand_mul(self._total(expr.integrand, label))
                # products of one kernel each, as solvers compose them
                return Add(*(Int(term, expr.args[1]) for term in Add.make_args(moved) if term != 0))
            case Resp():
                moved = self._total(expr.output, label)
                return Resp(moved, expr.noise) if moved != 0 else S.Zero
            case Derivative():  # of a value, under a convolution
                moved = self._total(expr.expr, label)
                return Derivative(moved, *expr.variables, evaluate=False) if moved != 0 else S.Zero
        nodes = (Value, Int, E, Resp, Derivative)
        bare, back = shielded(expr, *nodes)
        for node in bare.atoms(Piecewise):
            if (switch := jumps(node, [*back, self.parameter])) is not None:
                raise UsageError(
                    f"{label} is given by cases, and jumps where `{switch.xreplace(back)}` = 0: it "
                    "has no derivative there; leave it out (observables=), or write it otherwise"
                )
        total = chain(expr, nodes, lambda node: self._total(node, label), self.parameter)
        if any(not isinstance(item.expr, Value) for item in total.atoms(Derivative)) or total.has(Subs):
            raise UsageError(f"{label} has no derivative along `{self.parameter.name}` that is a function")
        return total

    def _constants(self, inner: Expr) -> list[Random]:
        """Return the random constants that an expectation is over: those written in it, and those behind its processes."""
        own = [*inner.atoms(Random), *(value.head for value in inner.atoms(Value))]
        sources = {*own, *reached(self.behind, own)}
        return sorted((item for item in sources if isinstance(item, Random)), key=lambda item: item.name)


def _kinks(expr: Expr) -> list[Expr]:
    """Return the expressions at whose zeros an observable is non-smooth, outside expectations, where it has no derivative."""
    bare, back = shielded(expr, Value, E, Int)
    nodes = [node for node in bare.atoms(*KINKS) if node.free_symbols & back.keys()]
    return [item.xreplace(back) for item in switches(nodes)]
