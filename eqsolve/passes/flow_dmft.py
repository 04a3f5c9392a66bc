"""From a flow to its mean-field equations (eq. dmft_general): Γ, responses, correlations, fields and gradients.

    θ' = p_t(g, θ),    g = u_g/δ + Γ w + ∫ R_ℓ w,    f = u_f + ∫ R_w ℓ(f; ξ),
    R_w = E[∂w/∂u_g],  R_ℓ = E[∂ℓ/∂u_f],  Γ = E[∂ℓ/∂f],  u_g ~ GP(0, δ E[ℓ ℓᵀ]),  u_f ~ GP(0, E[w wᵀ]),

all of them k × k, with the rows and columns that vanish left out: a weight that does not depend on the state has no
response, its field is its own noise; a gradient that acts on nothing has no noise.
"""

from __future__ import annotations

from typing import Any

from sympy import Expr

from eqsolve.errors import ModelError
from eqsolve.language.equations import Equation
from eqsolve.language.flow import Flow
from eqsolve.language.nodes import GP, E, Int, Resp
from eqsolve.language.symbols import Correlation, Function, Process, Response, as_expression
from eqsolve.language.system import System
from eqsolve.passes.flow_linear import eliminate_fields, why_not
from eqsolve.passes.flow_parts import FlowParts, slope, take_apart

__all__ = ["derive_descent", "derive_dmft"]


def derive_dmft(flow: Flow, eliminate: bool | None = None) -> System:
    """Return the mean-field system of a flow; fields are eliminated where the loss gradient is linear in them."""
    parts = take_apart(flow)
    if not parts.active:
        raise ModelError(f"flow `{flow.name}` ({flow.location}): no gradient acts on the state, so there is nothing to learn")
    reason = why_not(parts)
    if eliminate and reason is not None:
        raise ModelError(f"flow `{flow.name}` ({flow.location}): the fields cannot be eliminated: {reason}")
    if reason is None and eliminate is not False:
        return eliminate_fields(parts)
    return _General(parts).system()


def derive_descent(flow: Flow, eta: Any) -> System:
    """Return the mean-field system of gradient descent: the same equations in discrete time."""
    step = as_expression(eta, "gradient_descent")
    if step.is_number and not step.is_positive:
        raise ModelError(f"flow `{flow.name}`: gradient_descent takes a positive step, got {eta}")
    return derive_dmft(flow).replace(f"{flow.name}_descent", step=eta)


class _General:
    """Names the unknowns of the general system and writes its equations down."""

    def __init__(self, parts: FlowParts) -> None:
        self.parts, self.flow = parts, parts.flow
        single = len(parts.active) == 1
        gradients, fields = self.flow.gradients, self.flow.fields
        self.noise_g = {a: parts.head(Process, f"z_{gradients[a].name}") for a in parts.active}
        self.noise_f: dict[int, Any] = {}
        for i in parts.needed:  # the field of a weight that does not respond is its noise
            own = Process(fields[i].name, fields[i].latex_name)
            self.noise_f[i] = parts.head(Process, f"z_{fields[i].name}") if i in parts.responsive else own
        self.losses = {a: parts.process(self.flow.loss_gradient[a]) for a in parts.active}
        self.slopes = {
            (a, i): slope(self.flow, self.flow.loss_gradient[a], fields[i], f"the loss gradient of `{gradients[a]}`")
            for a in parts.active
            for i in parts.needed
        }
        read = {i for (_, i), value in self.slopes.items() if value != 0}
        with_memory = {a for a in parts.active if any(self.slopes[a, i] != 0 for i in parts.responsive if i in parts.needed)}
        names = parts.weight_names
        self.response_w = {
            (i, a): parts.head(Response, f"R_{names[i]}" if single else f"R_{names[i]}_{gradients[a].name}")
            for i in parts.responsive if i in parts.needed
            for a in parts.active
        }  # fmt: skip
        self.response_l = {
            (a, i): parts.head(Response, f"R_l_{fields[i].name}" if single else f"R_{gradients[a].name}_{fields[i].name}")
            for a in parts.active if a in with_memory
            for i in parts.needed if i in read
        }  # fmt: skip
        self.gamma = {
            key: parts.head(Function, f"Gamma_{fields[i].name}" if single else f"Gamma_{gradients[a].name}_{fields[i].name}")
            for key, value in self.slopes.items()
            for a, i in [key]
            if value.free_symbols & {*fields, *parts.sample_randoms}
        }
        self.correlation_l = {
            a: parts.head(Correlation, "C_l" if single else f"C_l_{gradients[a].name}") for a in parts.active
        }
        self.correlation_w = {i: parts.head(Correlation, f"C_{names[i]}") for i in parts.responsive if i in parts.needed}

    def system(self) -> System:
        parts, flow, t, tp = self.parts, self.flow, self.parts.t, self.parts.other
        eqs: list[Equation] = []
        for i, head in self.correlation_w.items():
            eqs.append(parts.equation(head(t, tp), E(parts.weights[i] * parts.at(parts.weights[i], tp))))
        for (i, a), head in self.response_w.items():
            eqs.append(parts.equation(head(t, tp), E(Resp(parts.weights[i], self.noise_g[a](tp)))))
        for a, head in self.correlation_l.items():
            eqs.append(parts.equation(head(t, tp), E(self.losses[a] * parts.at(self.losses[a], tp))))
        for (a, i), head in self.response_l.items():
            eqs.append(parts.equation(head(t, tp), E(Resp(self.losses[a], self.noise_f[i](tp)))))
        for key, head in self.gamma.items():
            eqs.append(parts.equation(head(t), E(parts.process(self.slopes[key]))))
        eqs += [parts.equation(parts.process(flow.gradients[a]), self._gradient(a)) for a in parts.active]
        eqs += [
            parts.equation(parts.process(flow.fields[i]), self._field(i)) for i in parts.needed if i in parts.responsive
        ]
        eqs += [*parts.definitions, *parts.state_equations()]
        laws: dict[Any, GP] = {}
        laws |= self._law([self.noise_g[a] for a in parts.active], list(parts.active), self._loss_covariance)
        laws |= self._law([self.noise_f[i] for i in parts.needed], list(parts.needed), self._weight_covariance)
        observables = {
            name: expr.xreplace({node: E(parts.process(node.argument)) for node in expr.atoms(E)})
            for name, expr in flow.observables.items()
        }
        return System(
            flow.name, eqs, laws=laws, init=dict(parts.starts()), defaults=flow.defaults, observables=observables,
            conditions=flow.conditions, cite=flow.cite,
        )  # fmt: skip

    def _gradient(self, a: int) -> Expr:
        """Return g_a = u_a/δ + Σ_i Γ_ai w_i + Σ_i ∫ R_ai w_i."""
        parts, t, s = self.parts, self.parts.t, self.parts.past
        total = self.noise_g[a](t) / self.flow.ratio
        for i in parts.needed:
            instant = self.gamma[a, i](t) if (a, i) in self.gamma else self.slopes[a, i]
            total += instant * parts.weights[i]
            if (a, i) in self.response_l:
                total += Int(self.response_l[a, i](t, s) * parts.at(parts.weights[i], s), (s, 0, t))
        return total

    def _field(self, i: int) -> Expr:
        """Return f_i = u_i + Σ_a ∫ R_ia ℓ_a."""
        t, s = self.parts.t, self.parts.past
        total = self.noise_f[i](t)
        for a in self.parts.active:
            total += Int(self.response_w[i, a](t, s) * self.parts.at(self.losses[a], s), (s, 0, t))
        return total

    # --- covariances ------------------------------------------------------------------------------------------------
    def _law(self, noises: list[Any], places: list[int], covariance: Any) -> dict[Any, GP]:
        if len(noises) == 1:
            return {noises[0]: GP(covariance(places[0], places[0]))}
        return {tuple(noises): GP([[covariance(first, second) for second in places] for first in places])}

    def _loss_covariance(self, first: int, second: int) -> Expr:
        parts, delta = self.parts, self.flow.ratio
        if first == second:
            return delta * self.correlation_l[first](parts.t, parts.other)
        return delta * E(self.losses[first] * parts.at(self.losses[second], parts.other))

    def _weight_covariance(self, first: int, second: int) -> Expr:
        parts = self.parts
        if first == second and first in self.correlation_w:
            return self.correlation_w[first](parts.t, parts.other)
        return E(parts.weights[first] * parts.at(parts.weights[second], parts.other))
