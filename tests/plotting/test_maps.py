"""Maps of sweeps in several panels: one scale of colours for one quantity, and words that do not lie over each other."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

import eqsolve
from eqsolve import Eq, FixedPoint, param, unknown

a, b, c = param("a b c", positive=True)
x = unknown("x", nonnegative=True)
# x = c sqrt(a - b), which there is for a >= b only
MODEL = FixedPoint("root", eqs=[Eq(x**2, c**2 * (a - b))], defaults={a: 2, b: 1, c: 1}, observables={"twice": 2 * x})
AXES = {"a": "1:3:9", "b": "0.5:2:9", "c": [1.0, 2.0, 4.0]}


@pytest.fixture(scope="module")
def found():
    return eqsolve.sweep(MODEL, AXES, progress=False)


def test_panels_of_one_quantity_have_one_scale_of_colours(found):
    panels = found.plot("x", "twice", kind="map")
    limits = [axes.collections[0].get_clim() for axes in panels]
    largest = 4 * np.sqrt(2.5)  # c = 4, a = 3, b = 0.5
    np.testing.assert_allclose(limits[:3], [(0, largest)] * 3, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(limits[3:], [(0, 2 * largest)] * 3, rtol=1e-6, atol=1e-9)
    plt.close("all")


def test_points_that_were_not_solved_are_counted_and_named_once(found):
    unsolved = 3 * sum(p < q for p in np.linspace(1, 3, 9) for q in np.linspace(0.5, 2, 9))
    panels = found.plot("x", "twice", kind="map")
    figure = panels[0].figure
    assert f"({unsolved} of 243 points were not solved as asked)" in figure.get_suptitle()
    assert [axes.get_legend() for axes in panels] == [None] * 6
    [legend] = figure.legends
    figure.canvas.draw()
    box = legend.get_window_extent()
    for axes in panels:
        assert not box.overlaps(axes.xaxis.label.get_window_extent())
        assert not box.overlaps(axes.get_window_extent())
    plt.close("all")
