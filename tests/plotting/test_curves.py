"""Curves of a result: one rule for the axis of time, what matplotlib's users expect, and a title that fits."""

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest

import eqsolve
from eqsolve import Eq, System, function, param, times
from eqsolve.numerics.grids import PanelGrid
from eqsolve.plotting.curves import spread_times, time_axis

t = times("t")
y = function("y")


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


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
        result.plot(ax=place)
    figure.canvas.draw()
    width = figure.bbox.width / columns
    for place in axes.ravel():
        box = place.title.get_window_extent()
        assert box.width <= width
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1
        assert place.get_title().startswith("a_model_with_many_parameters\n")
        assert place.get_title().count("= 0.123456") == 8
    plt.close(figure)


@pytest.fixture(scope="module")
def decays() -> list[eqsolve.Result]:
    """Solutions exp(−at), whose internal grids differ."""
    a = param("a", positive=True, latex=r"\Gamma")
    model = System(
        "decay",
        eqs=[Eq(y(t).diff(t), -a * y(t))],
        init={y: 1},
        observables={"square": (y(t) ** 2, r"\mathcal{S}"), "E_late": y(t)},
    )
    return [eqsolve.solve(model, a=value, t_max=20) for value in (0.01, 1, 30)]


def test_time_is_logarithmic_if_change_comes_early_and_over_decades() -> None:
    moments = spread_times(PanelGrid(np.array([0.0, 10.0]), 3))
    # decades between 5 % and 95 % of a fall: 1.8 of an exponential, log10(19²) = 2.6 of 1/(1 + r t) for r t >> 1
    for rate, log in ((0.05, False), (3.0, False), (30.0, True)):  # the last is over in a hundredth of the time
        assert time_axis(moments, [np.exp(-rate * moments)]).log == log
    assert not time_axis(moments, [np.exp(-0.3 * moments) * np.cos(5 * moments)]).log
    for rate, log in ((0.05, False), (0.2, False), (30.0, True)):
        axis = time_axis(moments, [1 / (1 + rate * moments)])
        assert axis.log == log
        if log:  # begins where 0.3 % of the fall is done
            assert 1 - np.exp(-rate * axis.first) == pytest.approx(0.003, rel=0.1)
    assert not time_axis(moments, [np.cos(5 * moments)]).log
    assert not time_axis(moments, [np.ones_like(moments)]).log
    assert time_axis(moments, [np.ones_like(moments)], log=True).first == pytest.approx(0.01)
    assert not time_axis(moments - 5, [np.exp(-3 * moments)]).log  # negative times have no logarithm
    with pytest.raises(eqsolve.UsageError, match="no logarithm"):
        time_axis(moments - 20, [moments], log=True)


def test_what_is_on_the_axes_decides(decays: list[eqsolve.Result]) -> None:
    slow, middle, fast = decays
    assert slow.plot("y").get_xscale() == "linear"
    assert [item.plot("y").get_xscale() for item in (middle, fast)] == ["linear", "log"]
    for first, scale in ((slow, "linear"), (fast, "log")):
        axes = first.plot("y")
        for other in decays:
            other.plot("y", ax=axes)
            assert axes.get_xscale() == scale
    axes = fast.plot("y")
    left = axes.get_xlim()[0]
    slow.plot("y", ax=axes)
    assert axes.get_xlim()[0] == left  # the later curve asks for less
    assert slow.plot("y", logx=True).get_xscale() == "log"
    assert fast.plot("y", logx=False, logy=True).get_xscale() == "linear"
    _, given = plt.subplots()
    given.set_xscale("log")
    assert slow.plot("y", ax=given).get_xscale() == "log"


def test_a_curve_is_fine_on_every_axis(decays: list[eqsolve.Result]) -> None:
    for result, rate in zip(decays, (0.01, 1, 30), strict=True):
        for log in (True, False):
            axes = result.plot("y", logx=log)
            moments, values = axes.lines[0].get_data()
            assert np.abs(values - np.exp(-rate * moments)).max() <= 2e-3
            low, high = axes.get_xlim()
            inside = moments[(moments >= max(low, 1e-300)) & (moments <= high)]
            where = np.log(inside) if log else inside
            assert np.diff(where).max() < 0.05 * np.ptp(where)  # no straight piece
            assert inside[0] <= max(low, 1e-3 * high) * 1.1


def test_what_is_drawn_of_a_long_grid_is_as_fine() -> None:
    times = spread_times(PanelGrid(np.array([0.0, 1.0, 1000.0]), 3), until=10.0)
    assert times[-1] == 10
    assert np.diff(times).max() <= 10 / 399 + 1e-12


def test_lines_are_drawn_as_matplotlib_is_told(decays: list[eqsolve.Result]) -> None:
    axes = decays[1].plot("y", color="crimson", ls="--", lw=3, alpha=0.5, marker="x", logy=True, label="mine")
    (line,) = axes.lines
    assert (line.get_color(), line.get_linestyle(), line.get_linewidth()) == ("crimson", "--", 3)
    assert (line.get_alpha(), line.get_marker(), line.get_label(), axes.get_yscale()) == (0.5, "x", "mine", "log")
    assert axes.get_legend() is not None
    with pytest.raises(eqsolve.UsageError, match="cannot draw a line with"):
        decays[1].plot("y", colour="red")
    with pytest.raises(eqsolve.UsageError, match="given by ax="):
        decays[1].plot("y", axes=axes)
    with pytest.raises(eqsolve.UsageError, match="logx= takes True or False"):
        decays[1].plot("y", logx="yes")


def test_names_are_written_as_declared(decays: list[eqsolve.Result], tmp_path) -> None:
    result = decays[1]
    axes = result.plot("square", "E_late")
    assert [line.get_label() for line in axes.lines] == [r"$\mathcal{S}$", r"$E_{\mathrm{late}}$"]
    assert r"$\Gamma = 1$" in axes.get_title()
    assert (axes.get_xlabel(), result.plot("square").get_ylabel()) == ("$t$", r"$\mathcal{S}$")
    result.save(tmp_path / "decay.nc")
    again = eqsolve.open(tmp_path / "decay.nc")
    assert again.latex == result.latex
    assert again.plot("square").get_ylabel() == r"$\mathcal{S}$"


def test_the_time_is_named_in_its_units() -> None:
    a = param("a", positive=True)
    tau = times("tau")
    model = System("decay", eqs=[Eq(y(tau).diff(tau), -a * y(tau))], init={y: 1}, defaults={a: 2})
    assert eqsolve.solve(model, t_max=1).plot().get_xlabel() == r"$\tau$"
    rescaled = model.rescale_time(a).shift_time(-3)
    assert eqsolve.solve(rescaled, t_max=5).plot().get_xlabel() == r"$a \tau + 3$"
    assert eqsolve.solve(rescaled.subs(a=2), t_max=5).plot().get_xlabel() == r"$2 \tau + 3$"


def test_latex_that_matplotlib_cannot_set_is_left_out() -> None:
    model = System(
        "decay", eqs=[Eq(y(t).diff(t), -y(t))], init={y: 1}, observables={"E": (y(t), r"\underbrace{E}_{\text{loss}}")}
    )
    assert eqsolve.solve(model, t_max=1).plot("E").get_ylabel() == "E"
    with pytest.raises(eqsolve.ModelError, match="beside the expression stands its LaTeX"):
        System("decay", eqs=[Eq(y(t).diff(t), -y(t))], init={y: 1}, observables={"E": (y(t), 3)})


def test_variants_keep_the_latex_of_observables() -> None:
    model = System("decay", eqs=[Eq(y(t).diff(t), -y(t))], init={y: 1}, observables={"E": (y(t), "L")})
    plain = System("decay", eqs=[Eq(y(t).diff(t), -y(t))], init={y: 1}, observables={"E": y(t)})
    assert plain == model
    variant = model.replace("other", observables={"F": (y(t) ** 2, "Q")})
    assert eqsolve.solve(variant, t_max=1).latex.items() >= {"E": "L", "F": "Q"}.items()


def test_a_short_logarithmic_axis_has_plain_numbers() -> None:
    import matplotlib.pyplot as plt

    from eqsolve.plotting.style import set_scales

    _, axes = plt.subplots()
    axes.plot([0.1, 0.8], [1e-9, 1.0])
    set_scales(axes, log_x=True, log_y=True)
    axes.figure.draw_without_rendering()
    across = [label.get_text() for label in axes.xaxis.get_ticklabels(which="both") if label.get_text()]
    assert {"0.1", "0.2", "0.5"} <= set(across)
    assert not any("times" in text for text in across)
    up = [label.get_text() for label in axes.yaxis.get_ticklabels(which="both") if label.get_text()]
    assert up
    assert all(text.startswith("$\\mathdefault{10^{") for text in up)
    plt.close(axes.figure)


def test_time_is_linear_where_a_curve_swings_late() -> None:
    moments = np.linspace(0, 20, 2001)
    rise = 1 - np.exp(-20 * moments) + 0.5 * np.log1p(1e3 * moments) / np.log1p(2e4)
    assert time_axis(moments, [rise]).log
    late = 0.05 * np.sin(moments) * (moments > 6)
    assert not time_axis(moments, [rise + late]).log
    assert not time_axis(moments, [rise, rise + late]).log
    assert time_axis(moments, [rise + 0.001 * late]).log  # too small to be seen
    assert time_axis(moments, [rise + late], True).log
