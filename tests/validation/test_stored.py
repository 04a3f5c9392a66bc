"""A validation is the same after it was saved and read, and is shown as a table."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

import eqsolve


@pytest.fixture(scope="module")
def over_time() -> eqsolve.Validation:
    return eqsolve.validate("linear_flow", d=40, seeds=3, at=[0.1, 1.0], rtol=1e-2)


@pytest.fixture(scope="module")
def at_rest() -> eqsolve.Validation:
    return eqsolve.validate("dln_fixed_point_min_norm", d=60, seeds=3)


@pytest.mark.parametrize("which", ["over_time", pytest.param("at_rest", marks=pytest.mark.slow)])
def test_a_file_holds_all(which: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(which)
    found.save(tmp_path / "v.nc")
    again = eqsolve.open(tmp_path / "v.nc")
    assert isinstance(again, eqsolve.Validation)
    for ours, theirs in ((found.json_object(), again.json_object()), (found.law_picture, again.law_picture)):
        assert json.dumps(theirs) == json.dumps(ours)
    assert all(np.array_equal(again.spread[name], found.spread[name]) for name in found.spread)
    figures = [item.plot() for item in (found, again)]
    shown = [[[line.get_ydata() for line in axes.lines] for axes in figure.axes] for figure in figures]
    assert all(np.array_equal(a, b) for one, two in zip(*shown, strict=True) for a, b in zip(one, two, strict=True))
    plt.close("all")
    with pytest.raises(eqsolve.UsageError, match="is not a result of this model"):
        eqsolve.open(tmp_path / "v.nc", model="pspin")


def test_a_picture_shows_theory_and_points(over_time: eqsolve.Validation) -> None:
    figure = over_time.plot("E_test")
    above, below = figure.axes
    item = over_time.observables["E_test"]
    moments, values = above.lines[0].get_data()
    assert np.allclose(values, over_time.result.at(moments)["E_test"])
    assert any(np.array_equal(line.get_ydata(), item.simulation) for line in above.lines)
    assert np.array_equal(below.lines[-1].get_ydata(), item.z)
    assert above.get_ylabel() == r"$E_{\mathrm{test}}$"
    _, axes = plt.subplots()
    assert over_time.plot("E_train", "E_test", ax=axes, logy=True) is axes
    assert (axes.get_yscale(), len(axes.get_legend().get_texts())) == ("log", 4)
    plt.close("all")


def test_a_table_and_a_notebook_show_both_sides(over_time: eqsolve.Validation, at_rest: eqsolve.Validation) -> None:
    table = over_time.to_dataframe()
    item = over_time.observables["E_test"]
    assert table.loc[("E_test", 1.0), "simulation"] == item.simulation[1]
    assert list(at_rest.to_dataframe().index) == list(at_rest.observables)
    for found in (over_time, at_rest):
        page = found._repr_html_()
        assert found.verdict in page
        assert all(f"<code>{name}</code>" in page for name in found.observables)
        assert "$E_{\\mathrm{test}}$" in page
