"""Shifted times in words: which integrals join s and t − s, which delays there are, and where break points lie."""

from __future__ import annotations

from eqsolve.language.nodes import Int
from eqsolve.language.printing import expression_text
from eqsolve.language.symbols import Time
from eqsolve.language.system import System
from eqsolve.passes.forms.shifts import delay_of, delayed_heads, has_shifts, shifted_values

__all__ = ["describe_shifts"]


def describe_shifts(system: System) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return titles and lines about the shifted times of a system; nothing where there are none."""
    if not has_shifts(system):
        return ()
    shifted = shifted_values(system)
    convolutions = []
    for equation in system.equations:
        for node in sorted(equation.rhs.atoms(Int), key=str):
            inside = sorted({expression_text(value, equation.order) for value in shifted if node.has(value)})
            how = f"joins {', '.join(inside)} with what stands at {node.variable}" if inside else "no shifted time"
            convolutions.append(f"in the equation for {equation.key}: {expression_text(node, equation.order)} ({how})")
    delays: dict[str, None] = {}
    for value in shifted:
        times = value.moments[0].atoms(Time)
        found = delay_of(value.moments[0], next(iter(times))) if len(times) == 1 else None
        if found is not None:
            delays[expression_text(found)] = None
    lines = []
    if delays:
        names = ", ".join(sorted(head.name for head in delayed_heads(system)))
        lines = [
            f"{names} at the delays {', '.join(delays)}: the past before t = {system.start} is the one given as start",
            "break points at the sums of delays; a derivative more is continuous after each delay, and panels end at them",
        ]
    folded = "each is folded at t/2, and done by Gauss rules between the edges of the panels and t minus these"
    made = (("memory integrals", (*convolutions, *((folded,) if convolutions else ()))), ("delays", tuple(lines)))
    return tuple((title, text) for title, text in made if text)
