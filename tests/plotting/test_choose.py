"""Each kind of result gets its drawing, and the numbers drawn are those of the result."""

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import eqsolve
from eqsolve.plotting.curves import quantiles
from eqsolve.plotting.style import edges_between
from eqsolve.results.derivatives import is_geometric


@pytest.fixture(autouse=True)
def _close() -> Iterator[None]:
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def lazy() -> eqsolve.Result:
    return eqsolve.solve("dln_lazy", t_max=10, rtol=1e-2)


@pytest.fixture(scope="module")
def paths() -> eqsolve.Result:
    return eqsolve.solve("dln_infinite_data", t_max=5, w_star="Uniform(0, 1)")


def test_curves(lazy: eqsolve.Result) -> None:
    axes = lazy.plot()
    assert [line.get_label() for line in axes.lines] == [r"$E_{\mathrm{train}}$", r"$E_{\mathrm{test}}$"]
    assert axes.get_xscale() == "log"
    times, values = axes.lines[1].get_data()
    assert np.allclose(values, lazy.at(times)["E_test"])
    assert len(axes.collections) == 2  # the error bands


def test_a_correlation_is_a_map_with_its_diagonal(lazy: eqsolve.Result) -> None:
    axes = lazy.plot("C_w")
    (mesh,) = axes.collections
    values = mesh.get_array()
    assert np.allclose(values, values.T)
    assert np.array_equal(*axes.lines[0].get_data())
    causal = lazy.plot("R_w").collections[0].get_array()
    assert np.ma.getmaskarray(np.ma.masked_invalid(causal))[np.triu_indices_from(causal, 1)].all()


def test_a_process_is_drawn_by_its_quantiles(paths: eqsolve.Result) -> None:
    axes = paths.plot("w")
    times, mean = axes.lines[-1].get_data()
    assert np.allclose(mean, paths.at(times)["w_mean"], atol=1e-6)
    assert len(axes.collections) == 2
    few = eqsolve.solve("dln_infinite_data", t_max=5).plot("w")
    assert len(few.lines) == 3  # two atoms and the mean


def test_quantiles_of_weighted_paths() -> None:
    values = np.array([[3.0], [1.0], [2.0]])
    weights = np.array([0.5, 0.25, 0.25])
    assert quantiles(values, weights, np.array([0.1, 0.25, 0.4, 0.5, 0.9])).ravel().tolist() == [1, 1, 2, 2, 3]


def sweep_result(sizes: dict[str, list], *, failed: bool = False) -> eqsolve.Result:
    """A made-up sweep: the value is the sum of the axes' places."""
    shape = tuple(map(len, sizes.values()))
    values = np.indices(shape).sum(axis=0).astype(float)
    status = np.full(shape, "ok", dtype=object)
    if failed:
        status.flat[0], values.flat[0] = "failed", np.nan
    dims = tuple(sizes)
    data = {"a": (dims, values), "a_error": (dims, 0.1 * values), "b": (dims, -values), "b_error": (dims, 0 * values)}
    return eqsolve.Result(xr.Dataset(data, coords={**sizes, "status": (dims, status)}), model="m", kind="sweep")


def test_sweeps() -> None:
    one, other = sweep_result({"x": [0.1, 1.0, 10.0, 100.0]}).plot()
    assert [axes.get_ylabel() for axes in (one, other)] == ["$a$", "$b$"]
    assert np.array_equal(other.lines[0].get_ydata(), [0, -1, -2, -3])
    assert one.get_xscale() == "log"
    _, axes = plt.subplots()
    together = sweep_result({"x": [0.1, 1.0, 10.0, 100.0]}).plot(ax=axes, logx=False)
    assert [line.get_label() for line in together.lines] == ["$a$", "$b$"]
    assert together.get_xscale() == "linear"
    family = sweep_result({"x": list(np.linspace(0, 1, 9)), "law": ["Point(1)", "Point(2)"]}).plot("a")
    assert [line.get_label() for line in family.lines] == [
        r"$\mathrm{law} \sim$ Point(1)",
        r"$\mathrm{law} \sim$ Point(2)",
    ]
    assert (family.get_xlabel(), family.get_xscale()) == ("$x$", "linear")
    table, beside = sweep_result({"x": list(np.geomspace(0.1, 10, 9)), "y": list(range(8))}, failed=True).plot()
    assert (table.get_xlabel(), table.get_ylabel(), table.get_xscale()) == ("$x$", "$y$", "log")
    assert np.array_equal(beside.collections[0].get_array().ravel()[1:], -table.collections[0].get_array().ravel()[1:])
    assert table.collections[0].get_array().shape == (8, 9)
    assert table.lines[0].get_label() == "not solved as asked"
    texts = sweep_result({"law": ["Point(1)", "Point(2)", "Point(3)"]}).plot("a")
    assert [label.get_text() for label in texts.get_xticklabels()] == ["Point(1)", "Point(2)", "Point(3)"]
    with pytest.raises(eqsolve.UsageError, match="the sweep has too many"):
        sweep_result({"x": [1, 2], "y": [1, 2], "z": [1, 2], "u": [1, 2]}).plot()
    with pytest.raises(eqsolve.UsageError, match="one name at a time"):
        sweep_result({"x": [1, 2], "y": [1, 2]}).plot("a", "b", ax=axes)


def test_numbers() -> None:
    data = xr.Dataset({"q": 1.5, "q_error": 0.1, "r": -2.0})
    axes = eqsolve.Result(data, model="m", kind="fixed point").plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["$q$", "$r$"]


def test_the_law_of_a_fixed_point() -> None:
    res = eqsolve.solve("dln_fixed_point_min_norm")
    axes = res.plot("w")
    where, density = axes.lines[0].get_data()
    assert np.trapezoid(density, where) == pytest.approx(1, abs=0.02)
    with pytest.raises(eqsolve.UsageError, match="no random variable `nothing`"):
        res.plot("nothing")


def test_what_cannot_be_drawn_is_explained(lazy: eqsolve.Result) -> None:
    with pytest.raises(eqsolve.UsageError, match="one drawing shows one kind of thing"):
        lazy.plot("E_test", "C_w")
    with pytest.raises(eqsolve.UsageError, match=r"a function of two times at a time; choose one, such as C_w, of C_w, C_f"):
        lazy.plot("C_w", "C_f")
    with pytest.raises(eqsolve.UsageError, match="nothing to draw"):
        eqsolve.Result(xr.Dataset(), model="m", kind="fixed point").plot()


def test_axes_given_are_used_and_shared(lazy: eqsolve.Result) -> None:
    _, axes = plt.subplots()
    assert lazy.plot("E_test", ax=axes, label="one") is axes
    lazy.plot("E_test", ax=axes, label="two")
    assert [line.get_label() for line in axes.lines] == ["one", "two"]
    assert len({line.get_color() for line in axes.lines}) == 2
    assert axes.get_title() == lazy.plot("E_test").get_title()  # all settings are shared
    eqsolve.solve("dln_lazy", t_max=1, delta=2).plot("E_test", ax=axes, label="three")
    assert axes.get_title().startswith("dln_lazy")
    assert r"\delta" not in axes.get_title()  # not the settings of the last


def test_scales() -> None:
    assert is_geometric(np.geomspace(0.1, 10, 5))
    assert not is_geometric(np.linspace(0.1, 10, 5))
    assert not is_geometric(np.array([0.0, 1, 2]))
    assert np.allclose(edges_between(np.array([1.0, 2, 4]), log=True), [2**-0.5, 2**0.5, 2**1.5, 2**2.5])
    assert edges_between(np.array([3.0]), log=False).tolist() == [2.5, 3.5]
