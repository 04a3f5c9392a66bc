"""Small graphs against networkx."""

import itertools

import networkx as nx
import numpy as np
import pytest

from eqsolve.graphs import blocks_in_order, connected_parts, make_graph, reached, shortest_path, strong_parts


@pytest.mark.parametrize("seed", range(40))
def test_parts_order_and_paths(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(1, 15))
    edges = [tuple(map(int, pair)) for pair in rng.integers(0, count, (int(rng.integers(0, 3 * count)), 2))]
    graph, other = make_graph(range(count), edges), nx.DiGraph(edges)
    other.add_nodes_from(range(count))
    assert sorted(map(sorted, strong_parts(graph))) == sorted(map(sorted, nx.strongly_connected_components(other)))
    assert sorted(map(sorted, connected_parts(graph))) == sorted(map(sorted, nx.weakly_connected_components(other)))
    rank = {node: int(place) for node, place in enumerate(rng.permutation(count))}
    condensed = nx.condensation(other)
    members = condensed.nodes(data="members")
    order = nx.lexicographical_topological_sort(condensed, key=lambda part: min(rank[node] for node in members[part]))
    assert blocks_in_order(graph, rank.__getitem__) == [sorted(members[part], key=rank.__getitem__) for part in order]
    for node in range(count):
        assert reached(graph, [node]) - {node} == nx.descendants(other, node)
        for end in range(count):
            path = shortest_path(graph, node, end)
            assert len(path) == (nx.shortest_path_length(other, node, end) + 1 if nx.has_path(other, node, end) else 0)
            assert all(second in graph[first] for first, second in itertools.pairwise(path))
