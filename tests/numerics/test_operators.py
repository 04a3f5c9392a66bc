"""Grids of nodes in time with their operators."""

import numpy as np

from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid


def test_what_is_zero_over_zero_at_the_start_has_its_limit() -> None:
    """sin(t)/t on one panel of eight nodes up to t = 1: the interpolation error at 0 is below t⁸/9! = 3e-6."""
    for panels in (PanelGrid(np.array([0.0, 1.0, 2.0]), 8), PanelGrid(np.array([0.0, 0.1]), 8)):
        grid = OperatorGrid.from_panels(panels)
        with np.errstate(invalid="ignore"):
            values = np.sin(grid.nodes) / grid.nodes
        assert abs(grid.begun(values)[0] - 1) < 3e-6
        assert np.array_equal(grid.begun(values)[1:], values[1:])
    steps = OperatorGrid.discrete(0.5, 0.0, 1.0)
    assert np.array_equal(steps.begun(np.array([np.nan, 2.0, 3.0])), [2.0, 2.0, 3.0])
    broken = np.array([np.nan, np.nan, 3.0])
    assert np.isnan(steps.begun(broken)[0])
