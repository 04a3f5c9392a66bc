"""Roots of increasing functions at many points at once."""

from __future__ import annotations

import numpy as np
import pytest

from eqsolve.numerics.increasing import increasing_roots


@pytest.mark.parametrize("rough", [False, True])
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1.0, 30.0])
def test_roots_over_thirty_decades(scale: float, rough: bool) -> None:
    """scale² sinh y + r y = target for several r at once, over thirty decades of targets."""
    r = np.array([1e-6, 1.0, 1e4])
    y = np.concatenate([-np.geomspace(1e-12, 25, 60), [0.0], np.geomspace(1e-12, 25, 60)])
    which = np.repeat(np.arange(3), len(y))
    y = np.tile(y, 3)

    def pair(at, ratio):
        return scale**2 * np.sinh(at) + ratio * at, scale**2 * np.cosh(at) + ratio

    target = pair(y, r[which])[0]
    found = increasing_roots(
        lambda at, places: pair(at, r[which][places]), target, np.array(-np.inf), np.array(np.inf), rough=rough
    )
    # the target is rounded, so that y is known to 1e-16 of target/slope
    assert (np.abs(found - y) <= (3e-4 if rough else 4e-15) * np.abs(y)).all()
