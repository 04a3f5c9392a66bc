"""Means continued in time by one node: what an iteration at the new node begins with."""

from collections.abc import Mapping

from eqsolve.numerics.arrays import Array


def continue_means(means: Mapping[str, Array], node: int, responses: frozenset[str]) -> None:
    """Continue the means to a new node along lines; responses are causal."""
    if node == 0:
        return
    for name, value in means.items():
        if value.ndim == 1:
            value[node] = 2 * value[node - 1] - value[node - 2] if node > 1 else value[0]
            continue
        past = slice(0, node)
        if node > 2:
            value[node, : node - 1] = 2 * value[node - 1, : node - 1] - value[node - 2, : node - 1]
            value[: node - 1, node] = 2 * value[: node - 1, node - 1] - value[: node - 1, node - 2]
            value[node, node - 1] = 2 * value[node - 1, node - 2] - value[node - 2, node - 3]
            value[node - 1, node] = 2 * value[node - 2, node - 1] - value[node - 3, node - 2]
            value[node, node] = 2 * value[node - 1, node - 1] - value[node - 2, node - 2]
        else:
            value[node, past], value[past, node] = value[node - 1, past], value[past, node - 1]
            value[node, node] = value[node - 1, node - 1]
        if name in responses:
            value[:node, node] = 0.0
