"""The tangent equations of a path form, written out: its signals' slopes are those that the plan is compiled from.

With U_a = start_a + Σ_k O_ak φ_k(t, U, z) + Σ_z P_az z the response ∂U_a(t)/∂z(t') is an instantaneous part a_a(t) δ(t − t')
and a regular part D_a(t, t'). A link c φ that acts at once gives c Σ_b ∂φ/∂U_b D_b to D_a and c (∂φ/∂z + Σ_b ∂φ/∂U_b a_b) to
a_a, or to the start of D_a where U_a is integrated; one with memory, c ∫K φ, gives

    c ∫_{t'}^t K(t, s) Σ_b ∂φ/∂U_b(s) D_b(s, t') ds + c K(t, t') (∂φ/∂z + Σ_b ∂φ/∂U_b a_b)(t')      to D_a.
"""

from __future__ import annotations

import networkx as nx
from sympy import Basic, Dummy, Expr, S
from sympy.core.function import Derivative

from eqsolve.language.equations import Equation
from eqsolve.language.nodes import Int
from eqsolve.language.symbols import Process, Time
from eqsolve.passes.forms.path_form import Ensemble, Link, PathForm, Unknown
from eqsolve.passes.forms.sectors import COLUMN, MIDDLE, ROW
from eqsolve.passes.forms.tangents import Tangent, TangentEquation

__all__ = ["write_memories", "write_tangents"]

_WRITTEN = {ROW: Time("t"), COLUMN: Time("t'"), MIDDLE: Time("s")}


def write_tangents(form: PathForm) -> tuple[TangentEquation, ...]:
    """Return the linearised equation of every unknown that responds to a noise named in a ``Resp``."""
    made: list[TangentEquation] = []
    for ensemble in form.ensembles:
        noises = {mean.noise for mean in ensemble.means if mean.noise is not None}
        for noise in sorted(noises, key=lambda item: item.name):
            made += _for_noise(ensemble, noise)
    return tuple(made)


def write_memories(form: PathForm) -> tuple[Equation, ...]:
    """Return the integrals over the past that are unknowns of their own, since their weight differs between paths."""
    made = []
    for ensemble in form.ensembles:
        shown = _shown(ensemble)
        for link in ensemble.links:
            unknown = ensemble.unknowns[link.unknown]
            if isinstance(unknown.symbol, Dummy) and link.memory is not None:
                body = link.coefficient * link.memory.kernel * link.signal.xreplace(shown).xreplace({ROW: MIDDLE})
                left = _process(unknown)(ROW)
                made.append(Equation(left, Int(body, (MIDDLE, form.start, ROW))).map(_WRITTEN))
    return tuple(made)


def _process(unknown: Unknown) -> Process:
    return Process(unknown.name.removeprefix("memory "))


def _shown(ensemble: Ensemble) -> dict[Basic, Basic]:
    """Return how the stand-ins of integrals are written: as functions of time."""
    return {item.symbol: _process(item)(ROW) for item in ensemble.unknowns if isinstance(item.symbol, Dummy)}


def _for_noise(ensemble: Ensemble, noise: Process) -> list[TangentEquation]:
    count = range(len(ensemble.unknowns))
    place = ensemble.noises.index(noise) if noise in ensemble.noises else None  # white noise is in no signal
    rank = {signal: index for index, signal in enumerate(ensemble.signals)}
    weights: list[Expr] = [S.Zero] * len(ensemble.unknowns)

    def jump(link: Link) -> Expr:
        """What an impulse adds at once to a signal."""
        index = rank[link.signal]
        own = S.Zero if place is None else ensemble.noise_slopes[index][place]
        return sum((ensemble.slopes[index][b] * weights[b] for b in count), own)

    def at_once(unknown: int) -> Expr:
        links = [link for link in ensemble.links if link.unknown == unknown and link.memory is None]
        drives = [item for item in (*ensemble.drives, *ensemble.kicks) if item.unknown == unknown and item.noise == noise]
        return sum((link.coefficient * jump(link) for link in links), sum((item.coefficient for item in drives), S.Zero))

    pending = [unknown for unknown in count if not ensemble.unknowns[unknown].integrated]
    for _ in pending:  # definitions in terms of each other
        for unknown in pending:
            weights[unknown] = at_once(unknown)
    starts = [at_once(unknown) for unknown in count]
    driven = {unknown for unknown in count if starts[unknown] != 0}
    driven |= {link.unknown for link in ensemble.links if jump(link) != 0}
    read = ((b, link.unknown) for link in ensemble.links for b in count if ensemble.slopes[rank[link.signal]][b] != 0)
    graph = nx.DiGraph(read)
    driven = driven.union(*(nx.descendants(graph, item) for item in driven if item in graph))

    shown, made = _shown(ensemble), []
    tangents = [Tangent(_process(unknown), noise)(ROW, COLUMN) for unknown in ensemble.unknowns]
    for unknown in sorted(driven):
        body: Expr = S.Zero
        for link in (link for link in ensemble.links if link.unknown == unknown):
            slopes = ensemble.slopes[rank[link.signal]]
            regular = sum((slopes[b] * tangents[b] for b in count if b in driven), S.Zero)
            if link.memory is None:
                body += link.coefficient * regular
            else:
                sign = -1 if regular.could_extract_minus_sign() else 1
                past = link.memory.kernel * (sign * regular).xreplace({ROW: MIDDLE})
                body += sign * link.coefficient * Int(past, (MIDDLE, COLUMN, ROW)) if past != 0 else 0
                body += link.coefficient * link.memory.kernel.xreplace({MIDDLE: COLUMN}) * jump(link).xreplace({ROW: COLUMN})
        item, left = ensemble.unknowns[unknown], tangents[unknown]
        start = starts[unknown].xreplace(shown)
        made.append(
            TangentEquation(
                _process(item),
                noise,
                Equation(Derivative(left, ROW, evaluate=False) if item.integrated else left, body.xreplace(shown)).map(
                    _WRITTEN
                ),
                S.Zero if item.integrated else start.xreplace(_WRITTEN),
                start.xreplace({ROW: COLUMN}).xreplace(_WRITTEN) if item.integrated else None,
            )
        )
    return made
