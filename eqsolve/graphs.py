"""Small directed graphs as tables, node -> the nodes after it: parts, order, paths.

The graphs of equations have a hundred nodes at most; a library takes longer to import than all of
this takes to run.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

N = TypeVar("N", bound=Hashable)
Graph = Mapping[N, Iterable[N]]


def make_graph(nodes: Iterable[N], edges: Iterable[tuple[N, N]]) -> dict[N, dict[N, None]]:
    """Return a graph, nodes in the order in which they are first named."""
    graph: dict[N, dict[N, None]] = {node: {} for node in nodes}
    for first, second in edges:
        graph.setdefault(first, {})[second] = None
        graph.setdefault(second, {})
    return graph


def shortest_path(graph: Graph[N], start: N, end: N) -> list[N]:
    """Return the nodes of a shortest path, both ends included; nothing where there is none."""
    paths = {start: [start]}
    pending = deque([start])
    while pending and end not in paths:
        node = pending.popleft()
        for later in graph.get(node, ()):
            if later not in paths:
                paths[later] = [*paths[node], later]
                pending.append(later)
    return paths.get(end, [])


def reached(graph: Graph[N], starts: Iterable[N]) -> set[N]:
    """Return the nodes after some, and those after these; the first ones only where a path leads back to them."""
    after: set[N] = set()
    pending = list(starts)
    while pending:
        new = set(graph.get(pending.pop(), ())) - after
        after |= new
        pending.extend(new)
    return after


def strong_parts(graph: Graph[N]) -> list[set[N]]:
    """Return the sets of nodes that can all reach each other, in the order of their first nodes."""
    after = {node: reached(graph, [node]) for node in graph}
    parts: list[set[N]] = []
    done: set[N] = set()
    for node in graph:
        if node not in done:
            parts.append({node} | {other for other in after[node] if node in after[other]})
            done |= parts[-1]
    return parts


def connected_parts(edges: Graph[N]) -> list[set[N]]:
    """Return the sets of nodes that hang together, whatever the direction."""
    both = make_graph(
        edges, ((a, b) for first, later in edges.items() for second in later for a, b in ((first, second), (second, first)))
    )
    return strong_parts(both)


def blocks_in_order(graph: Graph[N], key: Callable[[N], Any]) -> list[list[N]]:
    """Return the strong parts in an order in which each comes after what leads to it, those with the least key first."""
    parts = strong_parts(graph)
    owner = {node: place for place, part in enumerate(parts) for node in part}
    before: dict[int, set[int]] = {place: set() for place in range(len(parts))}
    for first, second in ((owner[a], owner[b]) for a, later in graph.items() for b in later if owner[a] != owner[b]):
        before[second].add(first)
    blocks = []
    while before:
        ready = [place for place, needed in before.items() if needed.isdisjoint(before)]
        place = min(ready, key=lambda place: min(map(key, parts[place])))
        blocks.append(sorted(parts[place], key=key))
        del before[place]
    return blocks
