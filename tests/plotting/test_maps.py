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
AXES = {"a": "1:3:5", "b": "0.5:2:4", "c": [1.0, 2.0, 4.0]}


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
    unsolved = 3 * sum(p < q for p in np.linspace(1, 3, 5) for q in np.linspace(0.5, 2, 4))
    panels = found.plot("x", "twice", kind="map")
    figure = panels[0].figure
    assert f"({unsolved} of 60 points were not solved as asked)" in figure.get_suptitle()
    assert [axes.get_legend() for axes in panels] == [None] * 6
    [legend] = figure.legends
    figure.canvas.draw()
    box = legend.get_window_extent()
    for axes in panels:
        assert not box.overlaps(axes.xaxis.label.get_window_extent())
        assert not box.overlaps(axes.get_window_extent())
    plt.close("all")


@pytest.mark.slow
def test_a_line_that_ends_beside_another_is_drawn_on_to_it():
    """Stability is lost at sigma = √2; below, the fixed point grows without bound. A dotted line joins the two."""
    found = eqsolve.phase_diagram(
        "lotka_volterra", {"sigma": [1.2, 1.4, 1.6, 1.8], "mu": [-0.3, 0.4, 1.1, 1.8]}, progress=False
    )
    axes = found.plot()
    lines = {line.get_label(): line.get_xydata() for line in axes.lines}
    [dotted] = [line.get_xydata()[:2] for line in axes.lines if line.get_linestyle() == ":"]
    np.testing.assert_allclose(dotted[:, 0], np.sqrt(2), rtol=1e-5)
    low = np.nanmin(lines["stability lost"][:, 1])
    assert dotted[0, 1] == pytest.approx(low)
    grows = lines["grows without bound"]
    grows = grows[np.isfinite(grows).all(axis=1)]
    grows = grows[np.argsort(grows[:, 0])]
    assert dotted[1, 1] == pytest.approx(np.interp(np.sqrt(2), grows[:, 0], grows[:, 1]), abs=1e-2)
    plt.close("all")
