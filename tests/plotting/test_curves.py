"""Curves of a result: the title stays inside the picture however many settings there are."""

import matplotlib.pyplot as plt
import pytest

import eqsolve
from eqsolve import Eq, System, function, param, times

t = times("t")
y = function("y")


@pytest.fixture(scope="module")
def result() -> eqsolve.Result:
    rates = param(" ".join(f"a_rather_long_name_{index}" for index in range(8)), positive=True)
    model = System(
        "a_model_with_many_parameters",
        eqs=[Eq(y(t).diff(t), -sum(rates) * y(t))],
        init={y: 1},
        defaults={rate: 0.123456 for rate in rates},
    )
    return eqsolve.solve(model, t_max=1)


@pytest.mark.parametrize("columns", [1, 2])
def test_the_title_fits(result: eqsolve.Result, columns: int) -> None:
    figure, axes = plt.subplots(1, columns, figsize=(5.2, 3.6), layout="constrained", squeeze=False)
    for place in axes.ravel():
        result.plot(axes=place)
    figure.canvas.draw()
    width = figure.bbox.width / columns
    for place in axes.ravel():
        box = place.title.get_window_extent()
        assert box.width <= width
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1
        assert place.get_title().startswith("a_model_with_many_parameters\n")
        assert place.get_title().count("=0.123456") == 8
    plt.close(figure)
