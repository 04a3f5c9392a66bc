"""Blocks of real data for the analyses that use them."""

import functools

from eqsolve.errors import UsageError
from eqsolve.figures.make import Unavailable
from eqsolve.microscopic.realdata import default_file, draw_block, read_matrix, whiten

N, D = 100, 200


@functools.cache
def _whitened(data):
    try:
        return whiten(read_matrix(data or default_file()))
    except UsageError as error:
        if data:
            raise
        raise Unavailable(str(error)) from None


def blocks(run):
    """Return whitened data, and a function that draws one 100 × 200 block."""
    whitened = _whitened(run.data)
    source = run.data or "the matrix inside scanpy"
    run.note(f"Data: {source}, {whitened.shape[0]} samples, {whitened.shape[1]} whitened features.")
    return whitened, lambda rng: draw_block(whitened, rng, N, D)
