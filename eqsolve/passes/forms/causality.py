"""Who needs whom: the dependency graph, its slice at one time, and the order in which a slice is computed.

At one time slice much of the full graph falls away: a derivative on the left cuts its inputs (they act a step later), values
at an integration time lie in the past, the noise of a response is not read, and an unknown may meet itself under an integral.
What remains cyclic in a slice is a block to iterate.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from eqsolve.graphs import Graph, blocks_in_order, make_graph, shortest_path, strong_parts
from eqsolve.language.model import Equation
from eqsolve.language.nodes import GP
from eqsolve.language.symbols import Random
from eqsolve.language.system import System, members
from eqsolve.passes.forms.expressions import Read, reads


@dataclass(frozen=True)
class Dependency:
    """``reader`` reads ``source``; ``kind`` says how: now, through the past, or through a derivative."""

    reader: str
    source: str
    kind: str  # "slice", "history" or "derivative"
    under_integral: bool
    expected: bool


@dataclass(frozen=True)
class Causality:
    """The dependency structure of a system."""

    dependencies: tuple[Dependency, ...]  # all reads, as edges
    blocks: tuple[tuple[str, ...], ...]  # in evaluation order; unknowns of one are solved together
    # cycles of pointwise definitions, which nothing can resolve, one for each set of unknowns that
    # depend on each other; empty in a sound model
    cycles: tuple[tuple[str, ...], ...]

    @property
    def order(self) -> tuple[str, ...]:
        """The unknowns in slice order."""
        return tuple(name for block in self.blocks for name in block)


def analyse_causality(system: System) -> Causality:
    """Return the dependency graph of a system and the order of its time slice."""
    names = [head.name for head in system.unknowns]
    known = {head.base: head.name for head in system.unknowns} | dict(zip(names, names, strict=True))  # (phi[p] is phi[k])
    edges: dict[Dependency, None] = {}
    for equation in system.equations:
        for read in reads(equation.rhs):
            if source := known.get(read.value.head.name, known.get(read.value.head.base)):
                edges[_dependency(equation, read, source)] = None
    for key, law in system.laws.items():
        if isinstance(law, GP) and not isinstance(key, Random):
            for noise in members(key):
                for read in (*reads(law.covariance), *reads(law.mean)):
                    if read.value.head.name in known:
                        edges[Dependency(noise.name, read.value.head.name, "slice", False, False)] = None
    now = [edge for edge in edges if edge.kind == "slice"]
    outside = [edge for edge in now if not (edge.under_integral and edge.reader == edge.source)]
    plain = [edge for edge in now if not edge.under_integral and not edge.expected]
    moving = {equation.key for equation in system.equations if equation.is_differential}
    rank = {name: (name not in moving, place) for place, name in enumerate(names)}  # those are known before the slice is
    blocks = blocks_in_order(make_graph(names, ((edge.source, edge.reader) for edge in outside)), rank.__getitem__)
    pointwise = make_graph((), ((edge.source, edge.reader) for edge in plain))
    return Causality(tuple(edges), tuple(map(tuple, blocks)), tuple(_shortest_cycles(pointwise, names)))


def _shortest_cycles(graph: Graph[str], names: list[str]) -> Iterator[tuple[str, ...]]:
    """Yield one shortest cycle of every part that hangs together, each reader before what it reads.

    There may be exponentially many cycles; one per part is enough to say what is wrong.
    """
    for part in strong_parts(graph):
        inside = {node: sorted(part.intersection(graph[node]), key=names.index) for node in sorted(part, key=names.index)}
        paths = [shortest_path(inside, reader, source) for source in inside for reader in inside[source]]
        if paths:
            shortest = min(paths, key=len)
            yield shortest[-1], *shortest[-2::-1]


def _dependency(equation: Equation, read: Read, source: str) -> Dependency:
    target = equation.defined
    integrated = {integral.variable for integral in read.integrals}
    if read.response == "noise":
        kind = "history"
    elif equation.is_differential:
        kind = "derivative"
    elif any(moment in target.moments for moment in read.value.moments if moment not in integrated):
        kind = "slice"  # (the second time of a function runs up to the first, so it counts as well)
    else:
        kind = "history"
    return Dependency(equation.key, source, kind, bool(read.integrals), read.expected)
