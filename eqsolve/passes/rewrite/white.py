"""White noise that is multiplied by a process, x'(t) = F + c g(x) ξ: the same law by equations in which it is added.

In Stratonovich's sense the ordinary chain rule holds, and Itô's drift is larger by S c² g g'/2, with S the strength of the
noise. So y = ∫ dx/g(x), Lamperti's variable, has the noise c ξ (Kloeden & Platen 1992, section 4.4). Where g is affine and the
drift does not vanish with it, x = v eʷ with all noise in w (Doss 1977). A random coefficient, ρ ξ, is that of ρ W with W' = ξ.

A noise √x ξ, of births and deaths, brings paths to zero, where y is singular: see ``eqsolve.numerics.births``.
"""

import contextlib
from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy import Add, Derivative, Dummy, Expr, KroneckerDelta, Rational, S, exp, expand, log

from eqsolve.errors import ModelError
from eqsolve.language.model import Equation, Table
from eqsolve.language.nodes import GP, E, Int, Resp, White
from eqsolve.language.symbols import Parameter, Process, Time, Value, fresh_name
from eqsolve.language.system import System, start_constant
from eqsolve.passes.forms.expressions import outside_means, partial, shielded
from eqsolve.passes.forms.path_form import is_random, products
from eqsolve.passes.rewrite.steps import STEP, put_in_steps
from eqsolve.passes.rewrite.substitution import apply_substitutions, derive_substitutions


@dataclass(frozen=True)
class _Driven:
    """A differential equation with white noise: its unknown now, its drift, the coefficient of each noise, time and start."""

    system: System
    equation: Equation
    value: Value
    drift: Expr
    weights: dict[Value, Expr]
    now: Any
    start: Any

    def spread(self, rest: dict[Value, Expr]) -> Expr:
        """Return Σ S c² at the running time, with S the strengths of noises and c what they are multiplied by."""
        total = Add(*(self.system.laws[noise.head].strength * weight**2 for noise, weight in rest.items()))
        return total.xreplace({item: self.now for item in total.free_symbols if isinstance(item, Time)})

    def new(self, name: str) -> Process:
        return Process(fresh_name(f"{self.value.head.name}_{name}", {*self.system.names}))

    def rewritten(self, rates: dict[Process, tuple[Expr, Expr]], image: Expr) -> System:
        """Return the system with the unknown as a function of others, given by their rates and starts."""
        sides = [(Derivative(head(self.now), self.now, evaluate=False), right) for head, (right, _) in rates.items()]
        equations = [Equation(left, right, self.equation.location) for left, right in (*sides, (self.value, image))]
        init = {key: entry for key, entry in self.system.init.items() if key != self.value.head}
        init |= {head: start for head, (_, start) in rates.items()}
        return self.system._with(equations=_exchanged(self.system, {self.equation: equations}), init=Table(init))

    def refuse(self, why: str) -> ModelError:
        noise, weight = max(self.weights.items(), key=lambda pair: differs(pair[1]))
        return ModelError(f"{self.equation.label} multiplies the white noise `{noise}` by `{weight}`, {why}")


def differs(*expressions: Expr) -> bool:
    """Whether one of some expressions differs between paths."""
    return any(map(is_random, expressions))


def _reads_paths(expr: Expr) -> bool:
    return any(isinstance(value.head, Process) for value in outside_means(expr))


def driven(system: System) -> list[_Driven]:
    """Return the differential equations with white noise in them, which must enter linearly."""
    items = []
    for equation in system.equations:
        noises = [value for value in outside_means(equation.rhs) if value.head in system.whites]
        if noises and equation.is_differential and isinstance(equation.head, Process):
            drift = equation.rhs.xreplace(dict.fromkeys(noises, S.Zero))
            weights = {noise: partial(equation.rhs, noise) for noise in noises}
            start = start_constant(equation.head, system.init.get(equation.head))
            items.append(_Driven(system, equation, equation.head(equation.time), drift, weights, equation.time, start))
    return items


def _exchanged(system: System, replaced: dict[Equation, list[Equation]]) -> tuple[Equation, ...]:
    return tuple(new for old in system.equations for new in replaced.get(old, [old]))


def _add_drifts(system: System, sign: int, chosen: set[Process]) -> System:
    """Return the system with sign × S/2 Σ g_j ∂g/∂x_j added to drifts, for some of the noises."""
    replaced, items = {}, driven(system)
    for item in items:
        weights, eq = {noise: g for noise, g in item.weights.items() if noise.head in chosen}, item.equation
        pairs = [(noise, g, other) for noise, g in weights.items() for other in items if noise in other.weights]
        drift = Add(*(item.spread({n: S.One}) * o.weights[n] * partial(g, o.value) for n, g, o in pairs)) * sign / 2
        replaced[eq] = [Equation(eq.lhs, eq.rhs + drift, eq.location, eq.order)]
    return system._with(equations=_exchanged(system, replaced))


def in_ito_sense(system: System) -> System:
    """Return the system with all noises in Itô's sense."""
    meant = {key for key in system.whites if system.laws[key].sense == "stratonovich"}
    laws = {key: White(law.strength, "ito") if key in meant else law for key, law in system.laws.items()}
    return _add_drifts(system, 1, meant)._with(laws=Table(laws)) if meant else system


def make_additive(system: System) -> System:
    """Return a system with the same solution whose white noise is added, or which is in steps of the length ``STEP``.

    One without such products is returned as it is. Raise, naming the product, where no such system is known.
    """
    if not any(differs(*item.weights.values()) or item.value.head in system.substitute for item in driven(system)):
        return system
    system = in_ito_sense(system)
    if system.constraints:
        first = max(driven(system), key=lambda item: differs(*item.weights.values()))
        raise first.refuse("beside a constraint, which is not solved yet")
    if any(item.value.head in system.substitute for item in driven(system)):
        system = _change(system)
    if roots := [item for item in driven(system) if _root(item) is not None]:
        return _put_in_positive_steps(system, roots)
    for rewrite, concerns in ((_lamperti, _reads_paths), (_split_constants, differs)):
        for name in [item.equation.key for item in driven(system) if any(map(concerns, item.weights.values()))]:
            system = rewrite(next(item for item in driven(system) if item.equation.key == name))
    return system


def _change(system: System) -> System:
    """Return the system in the variables it declares, by the ordinary chain rule in Stratonovich's sense."""
    changed = _add_drifts(system, -1, set(system.whites))
    changed = apply_substitutions(changed, derive_substitutions(changed))
    new = {value.head for expr in system.substitute.values() for value in expr.atoms(Value)}
    for item in driven(changed):
        if item.value.head in new and differs(*item.weights.values()):
            raise item.refuse("after the declared change of variable; declare one that leaves the noise added to the rest")
    old = {item.equation.key: item.equation for item in driven(system)}  # others stay in Itô's sense
    return changed._with(equations=tuple(old.get(eq.key, eq) if eq.is_differential else eq for eq in changed.equations))


def _coefficients(item: _Driven) -> tuple[Expr, dict[Value, Expr]]:
    """Return g(x), common to all noises, and what else each is multiplied by."""
    others: dict[Value, Expr] = {}
    common: Any = None
    for noise, weight in item.weights.items():
        product = sp.expand_power_base(sp.factor_terms(weight), force=True)
        state, others[noise] = products(product, lambda factor: "state" if _reads_paths(factor) else "rest", "state", "rest")
        if {value for value in outside_means(state) if isinstance(value.head, Process)} - {item.value}:
            raise item.refuse("which holds another process; functions of the unknown itself are solved, and no others yet")
        common = state if common is None else common
        if state != common or not all(
            isinstance(part, Parameter) for part in state.xreplace({item.value: S.One}).free_symbols
        ):
            raise item.refuse("which is no product of a function of the unknown, the same for all noises, and one of time")
    return common, others


def _over(item: _Driven, drift: Expr, shift: Expr) -> Expr | None:
    """Return drift/(x + shift), term by term; None where that is not finite at x = −shift."""
    u, (bare, back) = Dummy("u", real=True), shielded(drift, E, Int, Resp)
    ratio = Add(*(term / u for term in expand(bare.xreplace({item.value: u - shift})).as_ordered_terms()))
    if ratio.xreplace({u: S.Zero}).has(sp.zoo, sp.nan, sp.oo):
        return None
    return ratio.xreplace(back).xreplace({u: item.value + shift})


def _lamperti(item: _Driven) -> System:
    """Return the system with one unknown in variables whose noise is added."""
    g, rest = _coefficients(item)
    u, first = Dummy("u", real=True), item.new("scaled")
    noise, spread = Add(*(weight * key for key, weight in rest.items())), item.spread(rest)
    plain = g.xreplace({item.value: u})
    if not (plain.is_polynomial(u) and sp.degree(plain, u) == 1):
        forward, image = _scale(item, plain, u)
        right = item.drift / g - partial(g, item.value) * spread / 2 + noise
        return item.rewritten({first: (right, forward.xreplace({u: item.start}))}, image.xreplace({u: first(item.now)}))
    slope = plain.coeff(u, 1)
    shift = plain.coeff(u, 0) / slope
    rough, ratio = slope * noise - slope**2 * spread / 2, _over(item, item.drift, shift)
    if ratio is not None:
        return item.rewritten({first: (ratio + rough, S.Zero)}, (item.start + shift) * exp(first(item.now)) - shift)
    second = item.new("noise")
    rates = {first: (item.drift * exp(-second(item.now)), item.start + shift), second: (rough, S.Zero)}
    return item.rewritten(rates, first(item.now) * exp(second(item.now)) - shift)


def _scale(item: _Driven, g: Expr, u: Dummy) -> tuple[Expr, Expr]:
    """Return ∫ du/g and its inverse, both in u, on the side of the zeros of g on which paths start."""
    numbers = {key: value for key in item.system.parameters if (value := item.system.given(key)) is not None}
    free = (item.start.free_symbols | g.free_symbols) - {u} - set(numbers)
    numbers |= dict.fromkeys(free, Rational(37, 100))  # constants that are not known may be any
    for node in g.subs(numbers).atoms(sp.Pow):
        if (
            node.has(u)
            and not node.exp.is_integer
            and node.exp < 1
            and not (node.base.is_polynomial(u) and not sp.real_roots(node.base))
        ):
            raise item.refuse(
                "which paths may bring to zero in a finite time; of such coefficients √x and √(x (1 − x)) are solved"
            )
    start, images = item.start.subs(numbers), []
    forward = sp.integrate(1 / g, u)
    forward = forward.replace(log, lambda arg: log(-arg) if arg.subs({u: start, **numbers}).is_negative else log(arg))
    side = forward.subs({u: start, **numbers}).is_positive
    tries = [(u, Dummy("y", real=True)), (Dummy("u", positive=True), Dummy("y", positive=side, negative=not side))]
    for v, y in [] if forward.has(sp.Integral) else tries[: 2 if start.is_positive else 1]:
        with contextlib.suppress(NotImplementedError):
            images += [image.xreplace({y: u}) for image in sp.solve(forward.xreplace({u: v}) - y, v)]
    for image in images:
        if abs(complex(sp.N(image.xreplace({u: forward}).subs({u: start, **numbers}) - start))) < 1e-9:
            return forward, image
    raise item.refuse("for which no variable with added noise is found in closed form; declare one, substitute={x: f(y(t))}")


def _split_constants(item: _Driven) -> System:
    """Return the system with ρ ξ, ρ random and constant along a path, as ρ W with W' = ξ."""
    smooth, rates = item.new("smooth"), {}
    right, image = item.drift, smooth(item.now)
    for noise, weight in item.weights.items():
        shared, random = products(weight, lambda factor: "random" if differs(factor) else "shared", "shared", "random")
        if random == 1:
            right += weight * noise
            continue
        part = item.new(noise.head.name)
        rates[part] = (shared * noise, S.Zero)
        image += random * part(item.now)
    return item.rewritten({**rates, smooth: (right, item.start)}, image)


# --- Noise of births and deaths, √x ξ: steps that keep x positive.
class positive_step(sp.Function):
    """The value after a step, or its derivative: ``eqsolve.numerics.births.positive_step``."""

    is_real = True

    def fdiff(self, argindex: int = 1) -> Expr:
        if self.args[0] != 0:
            raise ModelError("second derivatives of a step with the noise of births and deaths are not known")
        return positive_step(argindex - 1, *self.args[1:])


def _root(item: _Driven) -> Expr | None:
    """Return x or x (1 − x), of which the coefficient of the noise is the root; None of another coefficient."""
    powers = [node for weight in item.weights.values() for node in weight.atoms(sp.Pow) if node.base.has(item.value)]
    if not any(node.exp == S.Half for node in powers):
        return None
    square = expand(_coefficients(item)[0] ** 2)
    return next((root for root in (item.value, item.value * (1 - item.value)) if expand(root) == square), None)


def _put_in_positive_steps(system: System, roots: list[_Driven]) -> System:
    """Return the system in steps of the length ``STEP``, in which some unknowns stay positive.

    With the noise √(x (1 − x)) ξ of genetic drift, the nearer end, 0 or 1, is the one that steps keep x from.
    """
    replaced: dict[Equation, list[Equation]] = {}
    laws: dict[Any, Any] = dict(system.laws)
    for item in roots:
        others = [other.weights for other in driven(system) if other.equation != item.equation]
        if any(noise in weights for weights in others for noise in item.weights):
            raise item.refuse("and drives another process too; give each process a noise of its own")
        (bare, back), x, root = shielded(item.drift, E, Int, Resp), item.value, _root(item)
        drawn, spread = item.new("noise"), item.spread(_coefficients(item)[1])
        made_of = []
        for end, away in ((S.Zero, S.One), (S.One, S.NegativeOne))[: 1 if root == x else 2]:
            inflow = away * bare.xreplace({x: end}).xreplace(back)
            finite = not (inflow.is_negative or inflow.has(sp.zoo, sp.nan))
            growth = _over(item, item.drift - away * inflow, -end) if finite else None
            if growth is None:
                raise item.refuse(f"beside a drift that is `{away * inflow}` at {end}: it must be finite, and lead inside")
            scale = spread if root == x else spread * (1 - away * (x - end))
            step = positive_step(0, away * (x - end), growth * STEP, inflow * STEP, scale * STEP, away * drawn(item.now))
            made_of.append(step if root == x else end + away * sp.Min(1, step))
        laws = {key: law for key, law in laws.items() if key not in {noise.head for noise in item.weights}}
        laws[drawn] = GP(KroneckerDelta(item.now, Time("t'" if item.now.name != "t'" else "t1")))
        step = made_of[0] if root == x else sp.Piecewise((made_of[0], 2 * x < 1), (made_of[1], True))
        replaced[item.equation] = [Equation(item.equation.lhs, (step - x) / STEP, item.equation.location)]
    return put_in_steps(system._with(equations=_exchanged(system, replaced), laws=Table(laws)))._with(step=None)
