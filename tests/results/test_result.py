"""Access to a result: values, times and random constants by name."""

import numpy as np
import pytest

import eqsolve


@pytest.fixture(scope="module")
def result() -> eqsolve.Result:
    return eqsolve.solve("dln_rich_infinite_data", t_max=5, at=[1, 2])


def test_times_and_random_constants_go_by_their_names(result: eqsolve.Result) -> None:
    assert np.array_equal(result["t"].values, result["E_test"]["t"].values)
    assert {1.0, 2.0, 5.0} <= set(result["t"].values.tolist())
    assert result["w_star"].values.tolist() == [-1.0, 0.2, 1.0]
    assert result["weight"].values.sum() == pytest.approx(1)
    assert "t" in result
    assert "row" not in result


def test_two_time_results_have_their_times_too() -> None:
    res = eqsolve.solve("volterra_linear", t_max=1)
    assert res["t"].values[-1] == 1.0


def test_a_wrong_name_is_answered_with_the_right_one(result: eqsolve.Result) -> None:
    with pytest.raises(KeyError, match=r"no `E_tset`; did you mean `E_test`\? \(it has: E_test, l1, w, t, "):
        result["E_tset"]


def test_wrong_names_are_answered_elsewhere_too(result: eqsolve.Result) -> None:
    with pytest.raises(KeyError, match="no error of `E_tset`; did you mean `E_test`"):
        result.error["E_tset"]
    with pytest.raises(eqsolve.UsageError, match="`E_tset` is not in the result; did you mean `E_test`"):
        result.plot("E_tset")
    with pytest.raises(eqsolve.UsageError, match="`E_test` is a function of time, `w` is a random process"):
        result.plot("E_test", "w")
    with pytest.raises(eqsolve.UsageError, match=r"no option `tmax`, .*; did you mean `t_max`"):
        eqsolve.solve("dln_rich_infinite_data", tmax=5)


def test_one_time_needs_no_list(result: eqsolve.Result) -> None:
    assert result.at(1)["E_test"].item() == result.at([1.0])["E_test"].item()
    assert 3.0 in eqsolve.solve("dln_rich_infinite_data", at=3)["t"].values


def test_the_error_between_nodes_is_the_panels(result: eqsolve.Result) -> None:
    nodes, errors = result["t"].values, result.error["E_test"].values
    between = (nodes[8:16] + nodes[9:17]) / 2
    assert (result.at(between)["E_test_error"].values >= errors[9:17] * (1 - 1e-12)).all()


def test_a_result_is_frozen() -> None:
    found = eqsolve.solve("volterra_linear", t_max=1)
    for name in ("dataset", "status", "anything"):
        with pytest.raises(AttributeError, match="cannot assign"):
            setattr(found, name, None)
