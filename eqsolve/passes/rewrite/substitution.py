"""Declared changes of variable: the new variable's equation, derived and proved before anything uses it.

A process w with w'(t) = F is written as w(t) = φ(θ(t), t). The chain rule gives

    θ'(t) = (F|_{w = φ} − ∂φ/∂t) / (∂φ/∂θ),        φ(θ(t₀), t₀) = w(t₀),

and w becomes a pointwise function of θ. Nothing is approximated: where ∂φ/∂θ does not vanish both systems
have the same solution.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import Any

import sympy as sp
from sympy import Basic, Derivative, Dummy, Expr, Integer, PolynomialError, Pow, Rational, S, Symbol, exp, expand
from sympy.functions.elementary.hyperbolic import HyperbolicFunction

from eqsolve.errors import ModelError, quoted
from eqsolve.language.laws import Law
from eqsolve.language.model import Equation, Table, mapper
from eqsolve.language.nodes import E, Int, InverseValue, Node, Resp
from eqsolve.language.symbols import Parameter, Process, Random, State, Time, Value
from eqsolve.language.system import Flow, System
from eqsolve.passes.forms.expressions import outermost, reads, rebuilt
from eqsolve.passes.forms.kinks import KINKS


# --- Cancelling in expressions made of exponentials and hyperbolic functions, without the slow
# ``simplify``.
def cancel_exponentials(expr: Expr) -> Expr:
    """Return an equal expression in which common factors have cancelled; zero when it is seen to vanish.

    Hyperbolic functions become exponentials, every independent exponential a positive symbol, and squares
    come out of roots: then cosh²x − sinh²x = 1 is an identity between rational functions.
    """
    opaque = {node: Dummy("v", real=True) for node in outermost(expr, Value, Node)}
    plain = expr.xreplace(opaque)
    plain = plain.replace(lambda node: isinstance(node, HyperbolicFunction), lambda node: node.rewrite(exp))
    symbols = _exponentials(plain)
    bare = plain.xreplace({node: _power(node, symbols) for node in outermost(plain, exp)})  # not those in exponents
    is_root = lambda node: isinstance(node, Pow) and node.exp.is_Rational and not node.exp.is_Integer  # noqa: E731
    bare = bare.replace(is_root, lambda node: Pow(sp.factor(sp.together(node.base)), node.exp))
    try:
        result = sp.cancel(sp.together(bare))
    except PolynomialError:  # a Piecewise: nothing is claimed
        return expr
    if not sp.fraction(result)[1].is_Add:
        result = expand(result)
        for base, (symbol, unit) in symbols.items():
            result = _fold(result, symbol, unit * base)
    back = {symbol: exp(unit * base) for base, (symbol, unit) in symbols.items()}
    return result.xreplace(back).xreplace({dummy: node for node, dummy in opaque.items()})


def _terms(node: Expr) -> list[tuple[Rational, Expr]]:
    """Return the exponent of an exponential as rational multiples of monomials."""
    return [term.as_coeff_Mul(rational=True) for term in expand(node.exp).as_ordered_terms()]


def _exponentials(expr: Expr) -> dict[Expr, tuple[Dummy, Rational]]:
    """Return, for each monomial m in an exponent, a symbol and the unit with symbol = exp(unit m)."""
    multiples: dict[Expr, list[Rational]] = {}
    for node in sorted(outermost(expr, exp), key=str):
        for number, monomial in _terms(node):
            multiples.setdefault(monomial, []).append(number)
    return {item: (Dummy("Y", positive=True), reduce(Rational.gcd, numbers)) for item, numbers in multiples.items()}


def _power(node: Expr, symbols: dict[Expr, tuple[Dummy, Rational]]) -> Expr:
    result: Expr = S.One
    for number, monomial in _terms(node):
        symbol, unit = symbols[monomial]
        result *= symbol ** Integer(number / unit)
    return result


def _fold(expr: Expr, symbol: Dummy, exponent: Expr) -> Expr:
    """Write a sum of powers of Y = exp(x) in sinh and cosh where every Y^k has its Y^{-k}; else leave it."""
    parts = sp.collect(expr, symbol, evaluate=False)
    powers = {part.as_base_exp()[1]: value for part, value in parts.items() if part != 1}
    rest = parts.get(S.One, S.Zero)
    if any(not power.is_Integer for power in powers) or rest.has(symbol):
        return expr
    for power in sorted(map(abs, powers)):
        above, below = powers.get(power), powers.get(-power)
        if above is None or below not in (above, -above):
            return expr
        rest += above * (sp.cosh if below == above else sp.sinh)(power * exponent)  # of each of the two
    return rest


@dataclass(frozen=True)
class Substitution:
    """One exact change of variable."""

    old: Process  # that is replaced
    new: Process  # that takes its place
    map: Expr  # the old one in the new one, the time, parameters and random constants
    equation: Equation  # the new process's differential equation
    initial: Expr  # its value at the start


def apply_substitutions(system: System, changes: tuple[Substitution, ...]) -> System:
    """Return the system in its new variables; old processes stay as functions of the new ones."""
    if not changes:
        return system
    old = {change.old.name: change for change in changes}
    replaced = {change.new.name for change in changes}
    equations: list[Equation] = []
    for equation in system.equations:
        if equation.key in old:
            change = old[equation.key]
            equations += [change.equation, Equation(change.old(equation.time), change.map, equation.location)]
        elif equation.key not in replaced:
            equations.append(equation)
    others = {key: value for key, value in system.init.items() if getattr(key, "name", None) not in {*old, *replaced}}
    init = Table({**others, **{change.new: change.initial for change in changes}})
    return system._with(equations=tuple(equations), init=init, substitute=Table())


def derive_substitutions(system: System) -> tuple[Substitution, ...]:
    """Return the declared changes of variable with their derived equations; raise when one is not exact."""
    changes = tuple(_derive(system, old, expr) for old, expr in system.substitute.items())
    for other, change in combinations(changes, 2):
        if other.new == change.new:
            raise ModelError(
                f"{_label(system, change.old)} uses `{change.new.name}`, as does the one for "
                f"`{other.old.name}`; each change of variable needs a process of its own"
            )
    return changes


def _label(system: System, old: Process) -> str:
    return f"the substitution for `{old.name}` ({system.location})"


def _derive(system: System, old: Process, expr: Expr) -> Substitution:
    label = _label(system, old)
    equation = next((item for item in system.equations if item.head == old), None)
    if equation is None or not equation.is_differential:
        what = f"the {equation.label} is pointwise" if equation else f"no equation defines `{old.name}`"
        raise ModelError(f"{label} cannot be used: {what}; expected a differential equation, Eq({old.name}(t).diff(t), ...)")
    now = equation.time
    new = _new_process(system, old, expr, now, label)
    placeholder = Dummy(new.name, real=True)
    mapped = expr.xreplace({new(now): placeholder})
    slope = mapped.diff(placeholder)
    if _vanishes(slope):
        raise ModelError(f"{label} does not depend on `{new(now)}`: its derivative in it is zero")
    right = _present(equation.rhs, {old(now): mapped, new(now): placeholder})
    derived = cancel_exponentials((right - mapped.diff(now)) / slope).xreplace({placeholder: new(now)})
    _compare(system, new, now, derived, {old(now): expr}, label)
    changed = Equation(Derivative(new(now), now, evaluate=False), derived, equation.location)
    return Substitution(old, new, expr, changed, _initial(system, old, new, mapped, placeholder, now, label))


def _new_process(system: System, old: Process, expr: Expr, now: Time, label: str) -> Process:
    """Return the one process the map is written in, once it is sure that it stands there as θ(t) only."""
    values = list(reads(expr))
    heads = list(dict.fromkeys(read.value.head for read in values))
    if not heads:
        raise ModelError(f"{label} contains no new process; expected an expression in one, such as `theta({now})`")
    if old in heads:
        raise ModelError(f"{label} contains `{old.name}` itself; expected an expression in a new process")
    if len(heads) > 1:
        raise ModelError(f"{label} contains {len(heads)} functions, {quoted(heads)}; expected one new process at time `{now}`")
    new = heads[0]
    if not isinstance(new, Process):
        raise ModelError(f"{label} is written in the {new.kind_name} `{new.name}`; expected a new process")
    equation = next((item for item in system.equations if item.head == new), None)
    if new in system.noises or (equation is not None and not equation.is_differential):
        raise ModelError(f"{label} is written in `{new.name}`, which is defined otherwise; expected a new process")
    for read in values:
        if read.integrals or read.expected or read.response:
            raise ModelError(
                f"{label} reads `{read.value}` under an integral, expectation or response; expected `{new(now)}` itself"
            )
        if read.value.moments != (now,):
            raise ModelError(f"{label} reads `{read.value}` at another time; expected `{new(now)}`")
    for node in expr.atoms(*KINKS, sp.floor, sp.ceiling):
        if node.has(new(now)):
            raise ModelError(f"{label} is not differentiable in `{new(now)}`: it contains `{node}`")
    odd = [item for item in expr.free_symbols if item != now and not isinstance(item, Parameter | Random)]
    if odd or expr.has(Int, E, Resp):
        item = f"`{sorted(odd, key=str)[0]}`" if odd else "an integral, expectation or response"
        raise ModelError(f"{label} uses {item}; expected `{new(now)}`, `{now}`, parameters and random constants only")
    return new


def _present(expr: Expr, mapping: dict[Expr, Expr]) -> Expr:
    """Exchange values at the running time outside integrals and expectations, where w stays as it is."""
    if expr in mapping:
        return mapping[expr]
    if isinstance(expr, Value) or (isinstance(expr, Node) and not isinstance(expr, InverseValue)):
        return expr
    return rebuilt(expr, lambda arg: _present(arg, mapping))


def _compare(system: System, new: Process, now: Time, derived: Expr, mapping: dict[Expr, Expr], label: str) -> None:
    """Compare the derived equation with a declared one, if there is one."""
    declared = next((item for item in system.equations if item.head == new), None)
    if declared is None or declared.time is None:
        return
    difference = cancel_exponentials(derived - _present(declared.rhs.xreplace({declared.time: now}), mapping))
    if difference != 0:
        raise ModelError(
            f"{label} is not exact: {declared.lhs} should be {derived}, but the {declared.label} "
            f"declares {declared.rhs} (difference {difference})"
        )


# --- the start
def _initial(system: System, old: Process, new: Process, mapped: Expr, placeholder: Symbol, now: Time, label: str) -> Expr:
    """Return θ(t₀) with φ(θ(t₀), t₀) = w(t₀), and ∂φ/∂θ not zero there."""
    begin = system.init.get(old)
    if begin is None:
        raise ModelError(f"{label} needs the initial value of `{old.name}`; give it by init={{{old.name}: ...}}")
    if isinstance(begin, Law):
        raise ModelError(
            f"{label} cannot be used: `{old.name}` starts from the law {begin}; declare a random "
            f"constant with that law and give it as initial value, init={{{old.name}: x0}}"
        )
    at_start = mapped.subs(now, system.start)
    given = system.init.get(new)
    for value in _candidates(at_start, placeholder, begin) if given is None else [given]:
        if not _vanishes(at_start.subs(placeholder, value) - begin):
            continue
        if at_start.diff(placeholder).subs(placeholder, value) == 0:
            raise ModelError(
                f"{label} cannot be used: its derivative in `{new.name}` vanishes at the start, `{new.name}` = {value}"
            )
        return value
    if given is not None:
        raise ModelError(
            f"{label} does not fit its start: with `{new.name}` = {given} it gives "
            f"{at_start.subs(placeholder, given)}, expected the initial value {begin} of `{old.name}`"
        )
    raise ModelError(
        f"{label} does not reach the initial value {begin} of `{old.name}`: no real "
        f"`{new.name}({system.start})` is found that gives it; correct the map or the start, or "
        f"give init={{{new.name}: ...}}"
    )


def _candidates(at_start: Expr, placeholder: Symbol, begin: Expr) -> Iterator[Expr]:
    """Yield values that may solve φ = w(t₀): zero, the inverse read off the map, and what sympy finds."""
    yield S.Zero
    if (peeled := _peel(at_start, placeholder, begin)) is not None:
        yield peeled
    if at_start.count_ops() <= 40:  # beyond, sympy takes minutes
        try:
            roots = [item for item in sp.solve(at_start - begin, placeholder) if item.is_real]
            yield from sorted(roots, key=lambda item: bool(item.is_negative))
        except (NotImplementedError, TypeError, ValueError, RecursionError):
            return


def _peel(expr: Expr, placeholder: Symbol, value: Expr) -> Expr | None:
    """Solve expr = value where the unknown stands once, under functions that sympy can invert."""
    while expr != placeholder:
        holding = [arg for arg in expr.args if arg.has(placeholder)]
        if len(holding) != 1:
            return None
        (inner,) = holding
        if expr.is_Add:
            value = value - (expr - inner)
        elif expr.is_Mul:
            value = value / (expr / inner)
        elif expr.is_Pow and expr.exp.is_odd:
            value = value ** (1 / expr.exp)
        elif len(expr.args) == 1 and hasattr(expr, "inverse"):
            value = expr.inverse()(value)
        else:
            return None
        expr = inner
    return value if value.is_real else None


def _vanishes(expr: Expr) -> bool:
    return bool(expr == 0 or cancel_exponentials(expr) == 0)


# --- A flow in the variables it declares, by the same rule: the run at finite size is then exactly the same flow, in
# variables that an integrator follows with longer steps.
def new_states(flow: Flow) -> tuple[State, ...]:
    """Return the states that only changes of variable use."""
    states = {item for expr in flow.substitute.values() for item in expr.free_symbols if isinstance(item, State)}
    return tuple(sorted(states - set(flow.state), key=str))


def change_states(flow: Flow) -> Flow:
    """Return the flow in its new variables; the old ones become named variables."""
    if not flow.substitute:
        return flow
    t = flow.running_time
    items = (*flow.state, *new_states(flow), *flow.gradients)
    ahead: dict[Basic, Any] = {item: Process(item.name, item.latex_name)(t) for item in items}
    back = {value: item for item, value in ahead.items()}
    system = System(
        flow.name,
        [Equation(Derivative(ahead[item], t), flow.drift[item].xreplace(ahead), flow.location) for item in flow.state],
        init={ahead[item].head: value for item, value in flow.state.items()},
        substitute={ahead[item].head: expr.xreplace(ahead) for item, expr in flow.substitute.items()},
    )
    maps: dict[Basic, Basic] = {}
    state, drift = dict(flow.state), dict(flow.drift)
    for change in derive_substitutions(system):
        old, new = back[change.old(t)], back[change.new(t)]
        maps[old] = change.map.xreplace(back)
        del state[old], drift[old]
        state[new], drift[new] = change.initial, change.equation.rhs.xreplace(back)
    put = mapper(maps)
    averages = {node: E(put(node.argument)) for expr in flow.observables.values() for node in expr.atoms(E)}
    changed = flow._with(state=Table(state), drift=Table(drift), substitute=Table())
    changed = changed._mapped(put, "drift", "weights", "variables")._mapped(mapper(averages), "observables")
    return changed._with(variables=Table({**changed.variables, **{str(item): expr for item, expr in maps.items()}}))
