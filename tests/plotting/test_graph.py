"""The picture of a dependency graph: what it contains, and that no arrow touches a name."""

import itertools

import numpy as np
import pytest
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from eqsolve import (
    Eq,
    FixedPoint,
    Int,
    System,
    UsageError,
    correlation,
    function,
    param,
    response,
    times,
    unknown,
)
from eqsolve.language.loading import list_models, load
from eqsolve.passes.forms.causality import analyse_causality
from eqsolve.plotting.graph import draw_dependencies
from eqsolve.plotting.style import save_figure

NAMES = [item.name for item in list_models()]


def boxes_and_arrows(figure):
    patches = figure.axes[0].patches
    boxes = [patch for patch in patches if isinstance(patch, FancyBboxPatch) and patch.get_zorder() == 3]
    arrows = [patch for patch in patches if isinstance(patch, FancyArrowPatch) and patch.get_zorder() == 1]
    return boxes, arrows


@pytest.mark.parametrize("name", NAMES)
def test_arrows_run_outside_the_boxes(name):
    model = load(name)
    if not isinstance(model, System):
        return
    figure = draw_dependencies(model)
    boxes, arrows = boxes_and_arrows(figure)
    assert len(boxes) == len(model.unknowns)
    corners = [(b.get_x(), b.get_x() + b.get_width(), b.get_y(), b.get_y() + b.get_height()) for b in boxes]
    for arrow in arrows:
        curve = arrow._path_original.interpolated(1).to_polygons(closed_only=False)[0]
        points = np.concatenate([np.linspace(p, q, 20) for p, q in itertools.pairwise(curve)])
        for left, right, low, high in corners:
            slack = 1e-6
            inside = (
                (points[:, 0] > left + slack)
                & (points[:, 0] < right - slack)
                & (points[:, 1] > low + slack)
                & (points[:, 1] < high - slack)
            )
            assert not inside.any()


def test_names_are_typeset_and_stand_in_slice_order():
    t, tp, s = times("t t' s")
    C = correlation("C_w")
    R = response("R_w")
    mu = function("mu")
    model = System(
        "m",
        eqs=[
            Eq(mu(t), Int(C(t, s) * R(t, s), (s, 0, t))),
            Eq(R(t, tp).diff(t), -mu(t) * R(t, tp)),
            Eq(C(t, tp).diff(t), -mu(t) * C(t, tp)),
        ],
        init={C(t, t): 1, R(t, t): 1},
    )
    figure = draw_dependencies(model)
    texts = sorted(figure.axes[0].texts, key=lambda text: text.get_position()[0])
    latex = {"C_w": "$C_{w}$", "R_w": "$R_{w}$", "mu": r"$\mu$"}
    assert [text.get_text() for text in texts] == [latex[name] for name in analyse_causality(model).order]
    words = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert words == [
        "response",
        "correlation",
        "one-time function",
        "read in the same time slice",
        "enters the derivative",
    ]


def test_unknowns_solved_together_are_framed():
    t, s = times("t s")
    a = param("a")
    x, y = function("x y")
    model = System("m", eqs=[Eq(x(t), 1 + Int(y(s) * x(t), (s, 0, t)) + a * y(t)), Eq(y(t), Int(x(s) * x(t), (s, 0, t)))])
    causality = analyse_causality(model)
    assert len(causality.blocks) == 1
    frames = [p for p in draw_dependencies(model).axes[0].patches if isinstance(p, FancyBboxPatch)]
    assert len(frames) == 3


def test_a_name_matplotlib_cannot_set_is_shown_plain():
    t = times("t")
    x = function("x", latex=r"\undefinedmacro{x}")
    model = System("m", eqs=[Eq(x(t).diff(t), -x(t))], init={x: 1})
    assert [text.get_text() for text in draw_dependencies(model).axes[0].texts] == ["x"]


def test_other_kinds_and_unknown_formats_are_refused(tmp_path):
    u = unknown("u")
    with pytest.raises(UsageError, match="only a System has a dependency graph"):
        draw_dependencies(FixedPoint("m", eqs=[Eq(u, 1)]))
    t = times("t")
    x = function("x")
    figure = draw_dependencies(System("m", eqs=[Eq(x(t).diff(t), -x(t))], init={x: 1}))
    with pytest.raises(UsageError, match="expected a file name ending in one of"):
        save_figure(figure, tmp_path / "graph.doc")
    assert list(tmp_path.iterdir()) == []
