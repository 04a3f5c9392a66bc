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


def extrapolate(values: Sequence[Any], orders: int | None = None, ratio: int = 2) -> tuple[Any, Any]:
    """Return the limit of a smooth function f(h) at h = 0 from f(h), f(h/r), f(h/r²), ..., and its last change.

    The term in h^k is removed by f_k(h/r) = (r^k f_{k−1}(h/r) − f_{k−1}(h)) / (r^k − 1), for ``orders`` powers k; all that
    the values allow by default. With r = 4 it is Romberg's extrapolation of a function of h² at steps that halve.
    """
    table, before = list(values), values[-1]
    for order in range(1, (len(values) if orders is None else orders + 1)):
        before = table[-1]
        table = [(ratio**order * fine - coarse) / (ratio**order - 1) for coarse, fine in pairwise(table)]
    return table[-1], abs(table[-1] - before)
