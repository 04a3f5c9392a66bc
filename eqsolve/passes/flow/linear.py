"""A loss gradient linear in the fields: the fields are eliminated and the simplified mean-field system is left.

With ℓ = Σ_i A_i f_i + b and the error e = Σ_i A_i w_i, the sample process obeys ℓ = (A u_f + b) + ∫ R_e ℓ, where R_e is
the response of e. So ℓ = (I − R_e)⁻¹ (A u_f + b), and with R_w = −R_e, I − R_f = (I + R_w)⁻¹ the correlation of ℓ is
C_f = (I − R_f)(C_w + E[b bᵀ])(I − R_f)ᵀ and the drive of the gradient e − ∫ R_f e.

Noise that is drawn afresh at every step needs no sampling here. Let l be the mean of ℓ over it, and ℓ = m l + n with the
means 1 and 0 of m and n. Then ℓ = l + ε, where ε = (m − 1) l + n is uncorrelated in time, and with everything else, though
not Gaussian; its variance is D = E(m − 1)² E l² + E n². What reaches the coordinates is a sum over many samples, and only the
covariance counts: C_f = (I − R_f)(C_w + E[b bᵀ] + D)(I − R_f)ᵀ, D on the diagonal. The mean response is that without noise,
and l = ℓ − ε = (I − R_f)(u − R_w ε) gives E l² = C_l(t, t) + Σ_s R_f(t, s)² D(s), with the C_l that there is without ε.
"""

from dataclasses import dataclass
from typing import Any

from sympy import Dummy, Expr, KroneckerDelta, Poly, S

from eqsolve.errors import ModelError
from eqsolve.language.equations import Equation
from eqsolve.language.laws import Law, Resampled
from eqsolve.language.nodes import GP, E, Int, Resp
from eqsolve.language.symbols import Correlation, Function, Process, Random, Response, Time, Value
from eqsolve.language.system import System
from eqsolve.passes.flow.parts import FlowParts, mean_of
from eqsolve.passes.rewrite.starts import STEP


@dataclass(frozen=True)
class AveragedGradient:
    """A loss gradient ℓ = m l + n: its mean over fresh noise l, the variance of m, and the mean square of n.

    ``steady`` are the other noises of the samples, which add to l.
    """

    mean: Expr
    spread: Expr
    rest: Expr
    steady: tuple[Value, ...]

    @property
    def fresh(self) -> bool:
        return self.spread != 0 or self.rest != 0


def why_not(parts: FlowParts) -> str | None:
    """Return why the fields cannot be eliminated, or None when they can."""
    if len(parts.active) != 1:
        return f"{len(parts.active)} gradients act on the state; expected one"
    flow = parts.flow
    loss = flow.loss_gradient[parts.active[0]]
    for item in flow.fields:
        coefficient = loss.diff(item)
        if coefficient.free_symbols & set(flow.fields) or coefficient.atoms(Random):
            return f"the loss gradient `{loss}` is not linear in `{item}` with a deterministic coefficient"
    try:
        _average(parts)
    except ModelError as error:
        return str(error)
    for name, expr in flow.observables.items():
        for node in expr.atoms(E):
            if parts.on_samples(node) and in_losses(parts, node.argument) is None:
                return f"observable `{name}` is no quadratic function of the loss gradient"
    return None


def _average(parts: FlowParts) -> AveragedGradient:
    """Return a loss gradient that is linear in the fields as m l + n; raise when it has another form."""
    flow = parts.flow
    loss = flow.loss_gradient[parts.active[0]]
    noises = {item: flow.laws[item.head] for item in loss.atoms(Value)}
    if not noises:
        return AveragedGradient(loss, S.Zero, S.Zero, ())
    fresh = {item: _draw(item, law.law) for item, law in noises.items() if isinstance(law, Resampled)}
    steady = tuple(sorted((item for item in noises if item not in fresh), key=str))
    drawn = loss.xreplace(fresh).expand()
    mean = _mean(drawn, parts, fresh).expand()
    slopes = [(drawn.diff(item), mean.diff(item)) for item in flow.fields]
    factors = {(value / base).cancel() for value, base in slopes if base != 0}
    if len(factors) != 1 or any(base == 0 and value != 0 for value, base in slopes):
        raise ModelError(f"the noise in `{loss}` does not multiply all fields alike")
    (factor,) = factors
    for item in steady:
        if mean.diff(item).free_symbols & {*flow.fields} or mean.diff(item).has(item) or drawn.diff(item).atoms(Random):
            raise ModelError(f"the noise `{item}` is not added to the fields in `{loss}`")
        if not isinstance(noises[item], GP) or noises[item].mean != 0:
            raise ModelError(f"the noise `{item}` is no centred Gaussian process")
    rest = (drawn - factor * mean).expand()
    if rest.free_symbols & {*flow.fields, *steady} or _mean(((factor - 1) * rest).expand(), parts, fresh) != 0:
        raise ModelError(f"the noise in `{loss}` acts on the fields and beside them together")
    spread = _mean(((factor - 1) ** 2).expand(), parts, fresh)
    square = mean_of((rest**2).expand(), flow)
    if any(item.has(E) for item in (mean, spread, square)):
        raise ModelError(f"moments of the noise in `{loss}` have no closed form here")
    return AveragedGradient(mean, spread, square, steady)


def _draw(item: Value, law: Law) -> Random:
    """Return a random constant that stands for one draw of a noise."""
    return Random(f"{item.head.name}_draw", None, (law,))


def _mean(expr: Expr, parts: FlowParts, fresh: dict[Value, Random]) -> Expr:
    """Return the mean over fresh noise alone."""
    others = {item: Dummy(item.name, real=True) for item in expr.atoms(Random) if item not in fresh.values()}
    back = {placeholder: item for item, placeholder in others.items()}
    return mean_of(expr.xreplace(others), parts.flow).xreplace(back)


def _coefficients(parts: FlowParts) -> tuple[list[Expr], Expr]:
    """Return A and b of l = Σ A_i f_i + b, the mean of ℓ over fresh noise."""
    flow, loss = parts.flow, _average(parts).mean
    return [loss.diff(item) for item in flow.fields], loss.xreplace({item: S.Zero for item in flow.fields})


def in_losses(parts: FlowParts, argument: Expr) -> tuple[Expr, Expr] | None:
    """Return (a, c) with E[argument] = a E[l²] + c, or None when the argument is no such function."""
    slopes, rest = _coefficients(parts)
    place = next(place for place, value in enumerate(slopes) if value != 0)
    loss, fields = Dummy("l"), parts.flow.fields
    others = sum((slopes[i] * fields[i] for i in range(len(fields)) if i != place), S.Zero)
    written = argument.xreplace({fields[place]: (loss - rest - others) / slopes[place]}).expand()
    if written.free_symbols & (set(fields) | parts.sample_randoms) or not written.is_polynomial(loss) or written.atoms(Value):
        return None
    terms = dict(Poly(written, loss).terms())
    if any(powers[0] > 2 for powers in terms):
        return None
    if terms.get((1,), S.Zero) != 0 and mean_of(rest, parts.flow) != 0:
        return None
    return terms.get((2,), S.Zero), terms.get((0,), S.Zero)


def eliminate_fields(parts: FlowParts) -> System:
    """Return the simplified system: responses and correlations of the error, and its drive."""
    flow, t, tp, s = parts.flow, parts.t, parts.other, parts.past
    delta, averaged = flow.ratio, _average(parts)
    slopes, rest = _coefficients(parts)
    C_w, C_f = (parts.head(Correlation, name) for name in ("C_w", "C_f"))
    R_w, R_f = (parts.head(Response, name) for name in ("R_w", "R_f"))
    z = parts.head(Process, "z")
    error = sum((a * w for a, w in zip(slopes, parts.weights, strict=True)), S.Zero)
    moving = sum((slopes[place] * parts.weights[place] for place in parts.responsive), S.Zero)
    noise = _covariance(parts, rest, averaged.steady)
    start = S.Zero
    gradient = parts.process(flow.gradients[parts.active[0]])

    def correlation(head: Any, beside: Expr) -> Equation:
        """Return the equation of (I − R_f)(C_w + E[b bᵀ] + beside)(I − R_f)ᵀ."""

        def total(first: Expr, second: Expr) -> Expr:
            return C_w(first, second) + (noise + beside).xreplace({t: first, tp: second})

        return parts.equation(
            head(t, tp),
            total(t, tp) - Int(R_f(tp, s) * total(t, s), (s, start, tp)) - Int(R_w(t, s) * head(tp, s), (s, start, t)),
        )

    eqs = [
        parts.equation(C_w(t, tp), E(error * parts.at(error, tp))),
        parts.equation(R_w(t, tp), -E(Resp(moving, z(tp)))),
    ]
    square: Expr = C_f(t, t)
    if averaged.fresh:
        C_l, D = parts.head(Correlation, "C_l"), parts.head(Function, "D")
        spread = STEP * Int(R_f(t, s) ** 2 * D(s), (s, start, t))
        eqs += [
            correlation(C_l, S.Zero),
            parts.equation(D(t), averaged.spread * C_l(t, t) + averaged.spread * spread + averaged.rest),
            correlation(C_f, D(t) * KroneckerDelta(t, tp)),
        ]
        square = C_l(t, t) + spread
    else:
        eqs.append(correlation(C_f, S.Zero))
    eqs += [
        parts.equation(R_f(t, tp), R_w(t, tp) - Int(R_w(t, s) * R_f(s, tp), (s, tp, t))),
        parts.equation(gradient, z(t) / delta + error - Int(R_f(t, s) * parts.at(error, s), (s, start, t))),
        *parts.definitions,
        *parts.state_equations(),
    ]
    observables = {name: observable(parts, expr, square) for name, expr in flow.observables.items()}
    laws = {z: GP(delta * C_f(t, tp)), **{item: flow.laws[item] for item in flow.reads("drift")}}
    stepped = averaged.fresh or any(isinstance(law, Resampled) for law in laws.values())
    return System(
        flow.name, eqs, laws=laws, init=dict(parts.starts()), defaults=flow.defaults,
        observables=observables, conditions=flow.conditions, substitute=parts.changes(), cite=flow.cite,
        step=STEP if stepped else None,
    )  # fmt: skip


def _covariance(parts: FlowParts, rest: Expr, steady: tuple[Value, ...]) -> Expr:
    """Return E[b(t) b(t')], noises with memory included, which are independent of everything else."""
    flow, t, tp = parts.flow, parts.t, parts.other
    still = rest.xreplace({item: S.Zero for item in steady})
    total = mean_of((still * parts.at(still, tp)).expand(), flow)
    for item in steady:
        law, weight = flow.laws[item.head], rest.diff(item)
        found = sorted(law.covariance.atoms(Time), key=lambda time: (time != t, str(time)))
        first, second = found if len(found) == 2 else (t, t)
        total += weight * parts.at(weight, tp) * law.covariance.xreplace({first: t, second: tp})
    return total


def observable(parts: FlowParts, expr: Expr, square: Expr) -> Expr:
    """Return an observable of a flow whose fields are eliminated; ``square`` is E[l²]."""
    made = {}
    for node in expr.atoms(E):
        if parts.on_samples(node):
            found = in_losses(parts, node.argument)
            assert found is not None
            made[node] = found[0] * square + mean_of(found[1], parts.flow)
        else:
            made[node] = E(parts.process(node.argument))
    return expr.xreplace(made)
