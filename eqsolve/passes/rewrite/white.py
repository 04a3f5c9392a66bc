"""White noise that is multiplied by a process, x'(t) = F + c g(x) ξ: the same law by equations in which it is added.

In Stratonovich's sense the ordinary chain rule holds, and Itô's drift is larger by S c² g g'/2, with S the strength of the
noise. So y = ∫ dx/g(x), Lamperti's variable, has the noise c ξ (Kloeden & Platen 1992, section 4.4). Where g is affine and the
drift does not vanish with it, x = v eʷ with all noise in w instead (Doss 1977), which knows no sign. A coefficient that is
random and constant along a path, ρ ξ, is that of ρ W with W' = ξ.

A noise √x ξ, as of births and deaths, brings paths to zero, where y is singular: x is put in short steps that keep it
positive (Andersen, J. Comput. Finance 11, 1 (2008), doi:10.21314/JCF.2008.189), with the mean and the variance of x' = a + f x
+ √(S x) ξ, the drift's a and f being those at the start of the step.
"""

from dataclasses import dataclass
from typing import Any

import sympy as sp
from sympy import Basic, Derivative, Dummy, Expr, KroneckerDelta, Mul, Rational, S, exp, expand, log, sqrt

from eqsolve.errors import ModelError
from eqsolve.language.equations import Equation
from eqsolve.language.model import Table
from eqsolve.language.nodes import GP, E, Int, Resp, White
from eqsolve.language.symbols import Parameter, Process, Random, Time, Value, fresh_name
from eqsolve.language.system import System, start_constant
from eqsolve.passes.forms.expressions import outside_means, partial, shielded
from eqsolve.passes.forms.sectors import sort_factors
from eqsolve.passes.rewrite.starts import STEP, put_in_steps
from eqsolve.passes.rewrite.substitution import apply_substitutions, derive_substitutions


@dataclass(frozen=True)
class _Driven:
    """A differential equation with white noise: its unknown now, its drift, and the coefficient of each noise."""

    equation: Equation
    value: Value
    drift: Expr
    weights: dict[Value, Expr]

    def rate(self, system: System, by: Value) -> Expr:
        """Return S of a noise, at the running time."""
        strength = system.laws[by.head].strength
        moved: Expr = strength.xreplace({item: self.equation.time for item in strength.free_symbols if isinstance(item, Time)})
        return moved

    @property
    def is_multiplied(self) -> bool:
        return any(differs(weight) for weight in self.weights.values())

    def refuse(self, why: str) -> ModelError:
        noise, weight = next((noise, weight) for noise, weight in self.weights.items() if differs(weight))
        return ModelError(f"{self.equation.label} multiplies the white noise `{noise}` by `{weight}`, {why}")


def differs(expr: Expr) -> bool:
    """Whether an expression differs between paths."""
    bare = expr.replace(lambda node: isinstance(node, E), lambda node: S.One)
    return bool(bare.atoms(Random)) or any(isinstance(value.head, Process) for value in outside_means(expr))


def driven(system: System) -> list[_Driven]:
    """Return the differential equations with white noise in them, which must enter linearly."""
    made = []
    for equation in system.equations:
        noises = [value for value in outside_means(equation.rhs) if value.head in system.whites]
        if noises and equation.is_differential and isinstance(equation.head, Process):
            drift = equation.rhs.xreplace(dict.fromkeys(noises, S.Zero))
            assert equation.target is not None
            weights = {noise: partial(equation.rhs, noise) for noise in noises}
            made.append(_Driven(equation, equation.target, drift, weights))
    return made


def in_ito_sense(system: System) -> System:
    """Return the system with noises in Itô's sense: those in Stratonovich's add the drift S/2 Σ g_j ∂g/∂x_j."""
    meant = {key for key in system.whites if system.laws[key].sense == "stratonovich"}
    if not meant:
        return system
    items, more = driven(system), {}
    for item in items:
        for noise, weight in item.weights.items():
            for other in items if noise.head in meant else ():
                slope = other.weights.get(noise, S.Zero) * partial(weight, other.value)
                more[item.equation] = more.get(item.equation, S.Zero) + item.rate(system, noise) / 2 * slope
    laws = {key: White(law.strength, "ito") if key in meant else law for key, law in system.laws.items()}
    return system._with(
        equations=_exchanged(system, {eq: [_added(eq, extra)] for eq, extra in more.items()}), laws=Table(laws)
    )


def _added(equation: Equation, extra: Expr) -> Equation:
    return Equation(equation.lhs, equation.rhs + extra, equation.location, equation.order)


def _exchanged(system: System, made: dict[Equation, list[Equation]]) -> tuple[Equation, ...]:
    return tuple(new for old in system.equations for new in made.get(old, [old]))


def make_additive(system: System) -> System:
    """Return a system with the same solution whose white noise is added, or which is in steps of the length ``STEP``.

    One without such products is returned as it is. Raise, naming the product, where no such system is known.
    """
    items = driven(system)
    if not any(item.is_multiplied or item.value.head in system.substitute for item in items):
        return system
    system = in_ito_sense(system)
    if any(item.value.head in system.substitute for item in driven(system)):
        system = _change(system)
    roots = [item for item in driven(system) if _is_root(item)]
    if roots:
        return _put_in_positive_steps(system, roots)
    for item in driven(system):
        if item.is_multiplied and any(isinstance(v.head, Process) for w in item.weights.values() for v in outside_means(w)):
            system = _lamperti(system, item)
    for item in driven(system):
        if item.is_multiplied:
            system = _split_constants(system, item)
    return system


def _change(system: System) -> System:
    """Return the system in the variables it declares, by the ordinary chain rule in Stratonovich's sense."""
    made = {}
    for item in driven(system):
        if item.value.head in system.substitute:
            own = [item.rate(system, noise) / 2 * w * partial(w, item.value) for noise, w in item.weights.items()]
            made[item.equation] = [_added(item.equation, -sum(own))]
    changed = system._with(equations=_exchanged(system, made))
    changed = apply_substitutions(changed, derive_substitutions(changed))
    new = {value.head for expr in system.substitute.values() for value in expr.atoms(Value)}
    for item in driven(changed):
        if item.value.head in new and item.is_multiplied:
            raise item.refuse("after the declared change of variable; declare one that leaves the noise added to the rest")
    return changed


def _coefficients(item: _Driven) -> tuple[Expr, dict[Value, Expr]]:
    """Return g(x), common to all noises, and what else each is multiplied by."""
    value, common, rest = item.value, None, {}

    def group(factor: Expr) -> str:
        heads = {found for found in outside_means(factor) if isinstance(found.head, Process)}
        if heads - {value}:
            raise item.refuse(
                "which holds another process; products of white noise with functions of the unknown itself are solved, and "
                "no others yet"
            )
        return "state" if heads else "rest"

    for noise, weight in item.weights.items():
        groups = sort_factors(sp.expand_power_base(sp.factor_terms(weight), force=True), group)
        state, rest[noise] = Mul(*groups["state"]), Mul(*groups["rest"])
        common = state if common is None else common
        if state != common or any(not isinstance(part, Parameter) for part in state.xreplace({value: S.One}).free_symbols):
            raise item.refuse(
                "which is no product of a function of the unknown, the same for all noises, and one of time; split it into "
                "such factors"
            )
    assert common is not None
    return common, rest


def _start(system: System, item: _Driven) -> Expr:
    return start_constant(item.value.head, system.init[item.value.head])


def _terms_over(drift: Expr, value: Value, u: Dummy, shift: Expr) -> Expr:
    """Return drift/(value + shift), term by term, u standing for value + shift."""
    bare, back = shielded(drift, E, Int, Resp)
    terms = expand(bare.xreplace({value: u - shift})).as_ordered_terms()
    made: Expr = sp.Add(*(term / u for term in terms)).xreplace(back)
    return made


def _is_regular(ratio: Expr, u: Dummy) -> bool:
    bare, _ = shielded(ratio, E, Int, Resp)
    return bool(bare.xreplace({u: S.Zero}).is_finite is not False) and not bare.xreplace({u: S.Zero}).has(
        sp.zoo, sp.nan, sp.oo
    )


def _lamperti(system: System, item: _Driven) -> System:
    """Return the system with one unknown in variables whose noise is added."""
    g, rest = _coefficients(item)
    value, now, begin = item.value, item.equation.time, _start(system, item)
    assert isinstance(now, Time)
    names, u = {head.name for head in system.unknowns} | {key.name for key in system.parameters}, Dummy("u", real=True)
    noise = sum((weight * key for key, weight in rest.items()), S.Zero)
    spread = sum((item.rate(system, key) * weight**2 for key, weight in rest.items()), S.Zero)
    first = Process(fresh_name(f"{value.head.name}_scaled", names))
    plain = g.xreplace({value: u})
    init: dict[Basic, Any] = {key: entry for key, entry in system.init.items() if key != value.head}

    def rate(head: Process, right: Expr) -> Equation:
        return Equation(Derivative(head(now), now, evaluate=False), right, item.equation.location)

    if plain.is_polynomial(u) and sp.degree(plain, u) == 1:
        slope = plain.coeff(u, 1)
        shift = plain.coeff(u, 0) / slope
        ratio = _terms_over(item.drift, value, u, shift)
        if _is_regular(ratio, u):
            made = [rate(first, ratio.xreplace({u: value + shift}) - slope**2 * spread / 2 + slope * noise)]
            image, init[first] = (begin + shift) * exp(first(now)) - shift, S.Zero
        else:
            second = Process(fresh_name(f"{value.head.name}_noise", names))
            made = [rate(first, item.drift * exp(-second(now))), rate(second, slope * noise - slope**2 * spread / 2)]
            image, init[first], init[second] = first(now) * exp(second(now)) - shift, begin + shift, S.Zero
    else:
        forward, image = _scale(system, item, plain, u, begin)
        image = image.xreplace({u: first(now)})
        made = [rate(first, item.drift / g - partial(g, value) * spread / 2 + noise)]
        init[first] = forward.xreplace({u: begin})
    made.append(Equation(value, image, item.equation.location))
    return system._with(equations=_exchanged(system, {item.equation: made}), init=Table(init))


def _scale(system: System, item: _Driven, g: Expr, u: Dummy, begin: Expr) -> tuple[Expr, Expr]:
    """Return ∫ du/g and its inverse, both in u, on the side of the zeros of g on which paths start."""
    numbers: dict[Basic, Any] = {key: system.given(key) for key in system.parameters if system.given(key) is not None}
    near = {entry: Rational(37, 100) for entry in (begin.free_symbols | g.free_symbols) - {u} - set(numbers)}
    at = begin.xreplace(near).subs(numbers)
    forward = sp.integrate(1 / g, u)

    def positive(node: Expr) -> Expr:
        inside = node.args[0]
        there = inside.subs({u: at}).xreplace(near).subs(numbers)
        return log(-inside) if there.is_negative else log(inside)

    forward = forward.replace(log, lambda inside: positive(log(inside, evaluate=False)))
    y = Dummy("y", real=True)
    try:
        found = [] if forward.has(sp.Integral) else sp.solve(forward - y, u)
    except NotImplementedError:
        found = []
    for image in found:
        back = image.xreplace({y: forward}).subs({u: at}).xreplace(near).subs(numbers)
        if not back.has(u) and abs(complex(sp.N(back - at))) < 1e-9:
            return forward, image.xreplace({y: u})
    raise item.refuse(
        "for which no variable with added noise is found in closed form; declare one, substitute={x: f(y(t))}, with f' "
        "proportional to the coefficient"
    )


def _split_constants(system: System, item: _Driven) -> System:
    """Return the system with ρ ξ, ρ random and constant along a path, as ρ W with W' = ξ."""
    value, now, equation = item.value, item.equation.time, item.equation
    names = {head.name for head in system.unknowns} | {key.name for key in system.parameters}
    smooth = Process(fresh_name(f"{value.head.name}_smooth", names))
    init: dict[Basic, Any] = {key: entry for key, entry in system.init.items() if key != value.head}
    init[smooth], right, image, made = _start(system, item), item.drift, smooth(now), []
    for noise, weight in item.weights.items():
        groups = sort_factors(weight, lambda factor: "random" if differs(factor) else "shared")
        if not groups["random"]:
            right += weight * noise
            continue
        part = Process(fresh_name(f"{value.head.name}_{noise.head.name}", names))
        made.append(Equation(Derivative(part(now), now, evaluate=False), Mul(*groups["shared"]) * noise, equation.location))
        init[part], image = S.Zero, image + Mul(*groups["random"]) * part(now)
    made.append(Equation(Derivative(smooth(now), now, evaluate=False), right, equation.location))
    made.append(Equation(value, image, equation.location))
    return system._with(equations=_exchanged(system, {equation: made}), init=Table(init))


# --- Noise of births and deaths, √x ξ: steps that keep x positive.
class positive_step(sp.Function):
    """The value after a step, or its derivative: ``eqsolve.numerics.births.positive_step``."""

    is_real = True

    def fdiff(self, argindex: int = 1) -> Expr:
        if self.args[0] != 0:
            raise ModelError("second derivatives of a step with the noise of births and deaths are not known")
        return positive_step(argindex - 1, *self.args[1:])


def _is_root(item: _Driven) -> bool:
    if not item.is_multiplied:
        return False
    pair = [node for weight in item.weights.values() for node in weight.atoms(sp.Pow) if node.base.has(item.value)]
    return any(node.exp == S.Half for node in pair) and _coefficients(item)[0] == sqrt(item.value)


def _put_in_positive_steps(system: System, roots: list[_Driven]) -> System:
    """Return the system in steps of the length ``STEP``, in which some unknowns stay positive."""
    made: dict[Equation, list[Equation]] = {}
    laws: dict[Any, Any] = dict(system.laws)
    names = {head.name for head in system.unknowns}
    for item in roots:
        value, now, u = item.value, item.equation.time, Dummy("u", real=True)
        assert isinstance(now, Time)
        others = [other for other in driven(system) if other is not item and other.equation != item.equation]
        if any(noise in other.weights for other in others for noise in item.weights):
            raise item.refuse("and drives another process too; give each process a noise of its own")
        bare, back = shielded(item.drift, E, Int, Resp)
        inflow = bare.xreplace({value: S.Zero}).xreplace(back)
        growth = _terms_over(item.drift - inflow, value, u, S.Zero).xreplace({u: value})
        spread = sum((item.rate(system, key) * weight**2 for key, weight in _coefficients(item)[1].items()), S.Zero)
        if (
            inflow.is_negative
            or not _is_regular(_terms_over(item.drift - inflow, value, u, S.Zero), u)
            or inflow.has(sp.zoo, sp.nan)
        ):
            raise item.refuse(f"beside a drift that is `{inflow}` at zero: it must not be negative there, and finite")
        drawn = Process(fresh_name(f"{value.head.name}_noise", names))
        other_time = Time("t'" if now.name != "t'" else "t1")
        laws = {key: law for key, law in laws.items() if key not in {noise.head for noise in item.weights}}
        laws[drawn] = GP(KroneckerDelta(now, other_time))
        step = positive_step(0, value, growth * STEP, inflow * STEP, spread * STEP, drawn(now))
        made[item.equation] = [Equation(item.equation.lhs, (step - value) / STEP, item.equation.location)]
    changed = system._with(equations=_exchanged(system, made), laws=Table(laws))
    return put_in_steps(changed)._with(step=None)
