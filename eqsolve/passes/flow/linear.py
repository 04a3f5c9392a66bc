"""A loss gradient linear in the fields: the fields are eliminated and the simplified mean-field system is left.

With ℓ = Σ_i A_i f_i + b and the error e = Σ_i A_i w_i, the sample process obeys ℓ = (A u_f + b) + ∫ R_e ℓ, where R_e is
the response of e. So ℓ = (I − R_e)⁻¹ (A u_f + b), and with R_w = −R_e, I − R_f = (I + R_w)⁻¹ the correlation of ℓ is
C_f = (I − R_f)(C_w + E[b bᵀ])(I − R_f)ᵀ and the drive of the gradient e − ∫ R_f e.
"""

from __future__ import annotations

from sympy import Dummy, Expr, Poly, S

from eqsolve.language.nodes import GP, E, Int, Resp
from eqsolve.language.symbols import Correlation, Process, Random, Response, Value
from eqsolve.language.system import System
from eqsolve.passes.flow.moments import mean_of
from eqsolve.passes.flow.parts import FlowParts

__all__ = ["eliminate_fields", "in_losses", "why_not"]


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
    for name, expr in flow.observables.items():
        for node in expr.atoms(E):
            if parts.on_samples(node) and in_losses(parts, node.argument) is None:
                return f"observable `{name}` is no quadratic function of the loss gradient"
    return None


def _coefficients(parts: FlowParts) -> tuple[list[Expr], Expr]:
    """Return A and b of ℓ = Σ A_i f_i + b."""
    flow = parts.flow
    loss = flow.loss_gradient[parts.active[0]]
    return [loss.diff(item) for item in flow.fields], loss.xreplace({item: S.Zero for item in flow.fields})


def in_losses(parts: FlowParts, argument: Expr) -> tuple[Expr, Expr] | None:
    """Return (a, c) with E[argument] = a E[ℓ²] + c, or None when the argument is no such function."""
    slopes, rest = _coefficients(parts)
    place = next(place for place, value in enumerate(slopes) if value != 0)
    loss, fields = Dummy("l"), parts.flow.fields
    others = sum((slopes[i] * fields[i] for i in range(len(fields)) if i != place), S.Zero)
    written = argument.xreplace({fields[place]: (loss - rest - others) / slopes[place]}).expand()
    if written.free_symbols & (set(fields) | parts.sample_randoms) or not written.is_polynomial(loss):
        return None
    terms = dict(Poly(written, loss).terms())
    if any(powers[0] > 2 for powers in terms):
        return None
    if terms.get((1,), S.Zero) != 0 and mean_of(rest, parts.flow) != 0:
        return None
    return terms.get((2,), S.Zero), terms.get((0,), S.Zero)


def eliminate_fields(parts: FlowParts) -> System:
    """Return the simplified system; only where ``why_not`` has no objection."""
    flow, t, tp, s = parts.flow, parts.t, parts.other, parts.past
    delta = flow.ratio
    slopes, rest = _coefficients(parts)
    C_w, C_f = (parts.head(Correlation, name) for name in ("C_w", "C_f"))
    R_w, R_f = (parts.head(Response, name) for name in ("R_w", "R_f"))
    z = parts.head(Process, "z")
    error = sum((a * w for a, w in zip(slopes, parts.weights, strict=True)), S.Zero)
    moving = sum((slopes[place] * parts.weights[place] for place in parts.responsive), S.Zero)
    noise = mean_of((rest * parts.at(rest, tp)).expand(), flow)
    start = S.Zero

    def total(first: Expr, second: Expr) -> Expr:
        return C_w(first, second) + noise.xreplace({t: first, tp: second})

    gradient = parts.process(flow.gradients[parts.active[0]])
    eqs = [
        parts.equation(C_w(t, tp), E(error * parts.at(error, tp))),
        parts.equation(R_w(t, tp), -E(Resp(moving, z(tp)))),
        parts.equation(
            C_f(t, tp),
            total(t, tp) - Int(R_f(tp, s) * total(t, s), (s, start, tp)) - Int(R_w(t, s) * C_f(tp, s), (s, start, t)),
        ),
        parts.equation(R_f(t, tp), R_w(t, tp) - Int(R_w(t, s) * R_f(s, tp), (s, tp, t))),
        parts.equation(gradient, z(t) / delta + error - Int(R_f(t, s) * parts.at(error, s), (s, start, t))),
        *parts.definitions,
        *parts.state_equations(),
    ]
    observables = {name: _observable(parts, expr, C_f(t, t)) for name, expr in flow.observables.items()}
    return System(
        flow.name, eqs, laws={z: GP(delta * C_f(t, tp))}, init=dict(parts.starts()), defaults=flow.defaults,
        observables=observables, conditions=flow.conditions, substitute=parts.changes(), cite=flow.cite,
    )  # fmt: skip


def _observable(parts: FlowParts, expr: Expr, square: Value) -> Expr:
    made = {}
    for node in expr.atoms(E):
        if parts.on_samples(node):
            found = in_losses(parts, node.argument)
            assert found is not None
            made[node] = found[0] * square + mean_of(found[1], parts.flow)
        else:
            made[node] = E(parts.process(node.argument))
    return expr.xreplace(made)
