"""A sweep between its points, by derivatives: against solves there, with the error it states."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pytest

import eqsolve
from eqsolve import Eq, System, UsageError, function, param, times

matplotlib.use("Agg")


@pytest.fixture(scope="module")
def swept() -> eqsolve.Result:
    axes = {"alpha": "0.1:3:8:log", "sigma2": [0.0, 0.05]}
    return eqsolve.sweep("dln_fixed_point", axes, derivatives=["alpha"])


@pytest.mark.parametrize("alpha", [0.12, 0.345, 1.1])
def test_a_fixed_point_between(swept: eqsolve.Result, alpha: float) -> None:
    found = swept.between(alpha=alpha)
    for place, sigma2 in enumerate((0.0, 0.05)):
        known = eqsolve.solve("dln_fixed_point", alpha=alpha, sigma2=sigma2)
        gap = abs(float(found["E_test"][place]) - float(known["E_test"]))
        assert gap <= 3 * float(found["E_test_error"][place])
        assert gap < 1e-3 * float(known["E_test"])


def test_curves_between() -> None:
    """Damped oscillations, x'' + 2 k x' + x = 0."""
    k, t, (x, v) = param("k"), times("t"), function("x v")
    eqs = [Eq(x(t).diff(t), v(t)), Eq(v(t).diff(t), -x(t) - 2 * k * v(t))]
    at, damping = np.array([1.0, 5.0]), np.array([0.2, 0.35])
    found = eqsolve.sweep(System("damped", eqs, init={x: 1, v: 0}), {"k": [0.1, 0.3, 0.5, 0.7]}, at=at, derivatives=["k"])
    here = found.between(k=damping)
    assert here["x"].dims == ("k", "t")
    turn = np.sqrt(1 - damping**2)[:, None]
    exact = np.exp(-damping[:, None] * at) * (np.cos(turn * at) + damping[:, None] / turn * np.sin(turn * at))
    gap = np.abs(here["x"].values - exact)
    assert (gap <= 3 * here["x_error"].values).all()
    assert gap.max() < 1e-2


def test_at_a_point_it_is_the_point(swept: eqsolve.Result) -> None:
    alpha = float(swept.dataset["alpha"][3])
    np.testing.assert_allclose(swept.between(alpha=alpha)["E_test"], swept["E_test"][3], rtol=1e-12)


def test_it_is_kept_drawn_and_written(swept: eqsolve.Result, tmp_path: Path) -> None:
    swept.save(tmp_path / "s.nc")
    again = eqsolve.open(tmp_path / "s.nc")
    np.testing.assert_array_equal(again.between(alpha=0.3)["E_test"], swept.between(alpha=0.3)["E_test"])
    axes = swept.plot("E_test")
    assert max(len(line.get_xdata()) for line in axes.lines) > 8
    assert np.shape(swept.json_object()["derivatives"]["alpha"]["E_test"]) == (8, 2)


def test_refusals(swept: eqsolve.Result) -> None:
    with pytest.raises(UsageError, match=r"lies outside the sweep, which goes from 0\.1 to 3"):
        swept.between(alpha=4)
    with pytest.raises(UsageError, match=r"no derivatives along `sigma2`: sweep with derivatives=\['sigma2'\]"):
        swept.between(sigma2=0.01)
    with pytest.raises(UsageError, match="no axis `alpa`; did you mean `alpha`"):
        swept.between(alpa=1)
    with pytest.raises(UsageError, match="one axis"):
        swept.between(alpha=1, sigma2=0)
    with pytest.raises(UsageError, match="`delta` is no axis of the sweep"):
        eqsolve.sweep("dln_fixed_point", {"alpha": [1, 2]}, derivatives=["delta"])
    with pytest.raises(UsageError, match=r"between\(\) is for sweeps"):
        eqsolve.solve("dln_fixed_point").between(alpha=1)
