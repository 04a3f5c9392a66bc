"""Elimination: unknowns given explicitly are put in, and processes that are linear leave closed equations for their kernels.

1. A function given without other unknowns, and a process given pointwise by others, are put in where they are read.
2. A Gaussian process whose covariance does not depend on time is a random constant.
3. A process x with x' affine in processes, noises and random constants, with deterministic coefficients, is known by its
   moments. With x'(t) = A(t) and y a process or a constant,

       ∂_t E[x(t) y(t')] = E[A(t) y(t')],    ∂_t E[∂x(t)/∂z(t')] = E[∂A(t)/∂z(t')],    E[∂x(t⁺)/∂z(t)] = ∂A/∂z(t),

   and for a centred Gaussian noise E[z(t) x(t')] = ∫ Cov(z(t), z(s)) E[∂x(t')/∂z(s)] ds (Stein's lemma). A correlation
   written with x − c is kept as it is: x counts from the random constant c.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from sympy import Basic, Dummy, Expr, S

from eqsolve.errors import ModelError
from eqsolve.language.equations import Equation
from eqsolve.language.laws import Law, Normal
from eqsolve.language.nodes import GP, E, Int, Resp
from eqsolve.language.symbols import Process, Random, Time, Value, fresh_name
from eqsolve.language.system import System
from eqsolve.passes.rewrite.linear_moments import LinearMoments
from eqsolve.passes.rewrite.putting_in import put_in

__all__ = ["eliminate"]

logger = logging.getLogger("eqsolve")


def eliminate(system: System, *names: Any, name: str | None = None) -> System:
    """Return the system without what can be eliminated; processes named must be among it."""
    if system.step is not None:
        raise ModelError(f"`{system.name}` runs in discrete time; processes are eliminated in continuous time only")
    wanted = [_process(system, item) for item in names]
    made = _explicit(system)
    states = [eq for eq in made.equations if isinstance(eq.head, Process)]
    reasons = {eq.head: why for eq in states if (why := _why_not(made, eq))}
    told = "; ".join(reasons.values()) or "it has no processes, and no unknown is given explicitly"
    chosen = _closed(made, {eq.head for eq in states} - set(reasons))
    for head in wanted:
        if head not in chosen and head in made.processes:
            why = reasons.get(head, f"it depends on, or acts on, a process that stays: {told}")
            raise ModelError(f"`{head.name}` cannot be eliminated: {why}")
    if chosen:
        made = LinearMoments(made, chosen).close()
    elif made.equations == system.equations:
        raise ModelError(f"there is nothing to eliminate in `{system.name}`: {told}")
    return made._with(name=name or f"{system.name}_eliminated")


def _process(system: System, item: Any) -> Process:
    head = system.names.get(item) if isinstance(item, str) else item
    if head not in system.processes:
        has = ", ".join(head.name for head in system.processes)
        raise ModelError(f"`{item}` is not a process of `{system.name}` (it has: {has or 'none'})")
    return head


# --- explicit unknowns, constant noises ------------------------------------------------------------------------------
def _explicit(system: System) -> System:
    """Put in explicit unknowns and noises that are constants, until there are none."""
    while True:
        found = next((eq for eq in system.equations if _is_explicit(eq)), None)
        if found is not None:
            system = _without_equation(system, found)
            continue
        noise = next((key for key, law in system.laws.items() if _is_constant(key, law)), None)
        if noise is None:
            return system
        system = _without_noise(system, noise)


def _is_explicit(eq: Equation) -> bool:
    if eq.is_differential or eq.head is None or eq.rhs.has(Int, Resp):
        return False
    heads = {value.head for value in eq.rhs.atoms(Value)}
    if not isinstance(eq.head, Process):
        return not heads
    return bool(heads) and eq.head not in heads and all(isinstance(head, Process) for head in heads)


def _without_equation(system: System, eq: Equation) -> System:
    assert eq.target is not None
    head, moments, body = eq.target.head, eq.target.moments, eq.rhs

    def change(expr: Any) -> Any:
        return put_in(expr, head, moments, body)

    return _changed(system, change, [other for other in system.equations if other is not eq], head)


def _is_constant(key: Basic, law: Any) -> bool:
    return isinstance(key, Process) and isinstance(law, GP) and not law.covariance.atoms(Time) and not law.mean.atoms(Time)


def _without_noise(system: System, noise: Process) -> System:
    law = system.laws[noise]
    if any(node.noise.head == noise for eq in system.equations for node in eq.rhs.atoms(Resp)):
        raise ModelError(f"`{noise.name}` is constant in time, and there is no response to a value of it at one time")
    title = f"{noise.latex_name}({system.start})"
    constant = Random(fresh_name(f"{noise.name}0", system.names), title, (Normal(law.mean, law.covariance),))

    def change(expr: Any) -> Any:
        return expr.replace(lambda e: isinstance(e, Value) and e.head == noise, lambda e: constant)

    made = _changed(system, change, list(system.equations), noise)
    return made._with(laws=type(system.laws)({key: value for key, value in made.laws.items() if key != noise}))


def _changed(system: System, change: Any, equations: Iterable[Equation], gone: Any) -> System:
    table = type(system.laws)
    init = {k: v for k, v in system.init.items() if (k.head if isinstance(k, Value) else k) != gone}
    return system._with(
        equations=tuple(Equation(eq.lhs, change(eq.rhs), eq.location, {}) for eq in equations),
        laws=table({k: law.func(*map(change, law.args)) if isinstance(law, GP) else law for k, law in system.laws.items()}),
        observables=table({key: change(expr) for key, expr in system.observables.items()}),
        init=table(init),
        substitute=table(),
        exact=table(),
        flow=None,
    )


# --- which processes are linear --------------------------------------------------------------------------------------
def _why_not(system: System, eq: Equation) -> str | None:
    """Return why the equation of a process is not linear, or None."""
    if eq.rhs.has(Resp):
        return f"{eq.label} holds a response of one path"
    if rough := [value.head.name for value in eq.rhs.atoms(Value) if value.head in system.whites]:
        return f"{eq.label} is driven by the white noise `{rough[0]}`, of which no closed equations are derived yet"
    if not eq.is_differential and eq.head in {value.head for value in eq.rhs.atoms(Value)}:
        return f"{eq.label} reads its own past without a derivative"
    found = _nonlinear(eq.rhs)
    if found is not None:
        return (
            f"{eq.label} is not linear in `{found[0]}` with a deterministic coefficient: its slope is `{found[1]}`; take the "
            "leading order first"
        )
    law = system.init.get(eq.head, S.Zero)
    if isinstance(law, Law) and law.dimension > 1:
        return f"`{eq.head}` starts from a joint law"
    return None


def _nonlinear(expr: Expr) -> tuple[Expr, Expr] | None:
    """Return a process, or an integral over one, and its slope where this is not deterministic; integrands on their own."""
    names: dict[Basic, Dummy] = {}
    moving: dict[Dummy, Expr] = {}

    def replace(item: Any) -> Any:
        if isinstance(item, E | Int | Value):
            name = names.setdefault(item, Dummy(real=True))
            if not isinstance(item, E) and any(isinstance(value.head, Process) for value in item.atoms(Value)):
                moving[name] = item
            return name
        return item if not item.args else item.func(*(replace(arg) for arg in item.args))

    plain = replace(expr)
    back = {name: item for item, name in names.items()}
    for name, item in moving.items():
        slope = plain.diff(name)
        if slope.has(Random, *moving):
            return item, slope.xreplace(back)
        inner = _nonlinear(item.integrand) if isinstance(item, Int) else None
        if inner is not None:
            return inner
    return None


def _closed(system: System, linear: set[Any]) -> set[Any]:
    """Return the linear processes that neither read nor are read by the others."""
    reads = {eq.head: {v.head for v in eq.rhs.atoms(Value)} for eq in system.equations if isinstance(eq.head, Process)}
    pairs = [(head, other) for head, others in reads.items() for other in others if other in reads]
    while mixed := {item for pair in pairs for item in pair if item in linear and not linear.issuperset(pair)}:
        linear = linear - mixed
    return linear
