"""Richardson's two uses: the error of the finer of two solutions, and the limit of values at steps that halve."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

SAFETY = 1.5  # of error estimates: the next order of the step is not small where a tolerance is just met


def error_share(ratio: Any, order: int) -> Any:
    """Return which share of the distance between two solutions is the error of the finer one.

    If an error falls like h^order, and the coarse steps are ``ratio`` times as long,
    |coarse − fine| = (ratio^order − 1) |fine − exact|; the share is SAFETY / (ratio^order − 1).
    """
    return SAFETY / (ratio**order - 1)


def extrapolate(values: Sequence[Any], orders: int | None = None) -> tuple[Any, Any]:
    """Return the limit of a smooth function f(h) at h = 0 from f(h), f(h/2), f(h/4), ..., and its last change.

    The term in h^k is removed by f_k(h/2) = (2^k f_{k−1}(h/2) − f_{k−1}(h)) / (2^k − 1), for ``orders`` powers k; all that
    the values allow by default.
    """
    table, before = list(values), values[-1]
    for order in range(1, (len(values) if orders is None else orders + 1)):
        before = table[-1]
        table = [(2**order * fine - coarse) / (2**order - 1) for coarse, fine in pairwise(table)]
    return table[-1], abs(table[-1] - before)
