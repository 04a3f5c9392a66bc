"""The solver of long two-time horizons against closed forms, known values and the other solver."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

import eqsolve
from eqsolve import Eq, Int, System, correlation, function, param, response, times
from eqsolve.errors import UsageError
from eqsolve.numerics.grids import lagrange, radau
from eqsolve.solvers.aging.solve import LEVELS, Resolution
from tests.solvers.exact import two_spin


def spread_pairs(t_max: float, count: int = 600) -> np.ndarray:
    """Pairs at all scales of t, of t' / t and of the lag."""
    rng = np.random.default_rng(0)
    t = 10 ** rng.uniform(0, np.log10(t_max), count)
    by_ratio, by_lag = t * rng.random(count), np.maximum(0, t - 10 ** rng.uniform(-2, np.log10(t_max), count))
    return np.stack([t, np.where(rng.random(count) < 0.5, by_ratio, by_lag)], axis=1)


@pytest.mark.parametrize("level", LEVELS)
def test_a_resolution_knows_how_well_it_interpolates(level: Resolution) -> None:
    """By the function 1/t, between t = 1 and the ratio of a panel's ends."""
    off, places = 0.0, np.linspace(0, 1, 401)
    for ratio, count in ((2.0, level.nodes), (level.growth, level.rows)):
        nodes = radau(count).with_start
        exact = 1 / (1 + (ratio - 1) * places)
        off += float(np.abs(lagrange(nodes, places) @ (1 / (1 + (ratio - 1) * nodes)) - exact).max())
    assert off / 2 < level.error < 2 * off


def check_two_spin(t_max: float, rtol: float) -> eqsolve.Result:
    """p = 2 at zero temperature ages for ever: C(t, t') = f(t + t') / √(f(2t) f(2t')), f Bessel's."""
    case = two_spin()
    result = eqsolve.solve(case.model(), t_max=t_max, rtol=rtol, solver="aging", kernels=True, params=case.settings)
    assert (result.status, result.stats["solver"]) == ("ok", "aging")
    assert result.stats["row panels that grow"] >= 3
    for name, form in case.curves.items():
        true = np.abs(result[name].values - form(result.grid.nodes))
        assert (true <= 3 * result.error[name].values).all(), name
        assert true.max() < rtol
    pairs = spread_pairs(t_max)
    found = result.at2(pairs)
    for name, form in case.kernels.items():
        true = np.abs(found[name].values - form(pairs[:, 0], pairs[:, 1]))
        assert (true <= 3 * found[f"{name}_error"].values).all(), name
        assert true.max() < rtol
    return result


def test_closed_form_and_what_is_saved(tmp_path: Path) -> None:
    result = check_two_spin(60, 1e-2)
    result.save(tmp_path / "aged.nc")
    again = eqsolve.open(tmp_path / "aged.nc")
    pairs = [(60, 0), (60, 30), (50, 49.5), (3, 1)]
    for name in ("C", "R"):
        assert (again.at2(pairs)[name].values == result.at2(pairs)[name].values).all()


@pytest.mark.slow
def test_closed_form_over_decades() -> None:
    check_two_spin(3e2, 1e-3)


def mixed() -> System:
    """A mixture of p = 2 and p = 3 in a field."""
    t, tp, s = times("t t' s")
    T, h = param("T"), param("h")
    mu, C, R = function("mu"), correlation("C"), response("R")
    memory = C(t, s) * (1 + 3 * C(t, s) / 2)
    slope = 1 + 3 * C(t, s)
    return System(
        "mixed",
        eqs=[
            Eq(mu(t), T + h**2 * Int(R(t, s), (s, 0, t)) + Int((memory + slope * C(t, s)) * R(t, s), (s, 0, t))),
            Eq(R(t, tp).diff(t), -mu(t) * R(t, tp) + Int(slope * R(t, s) * R(s, tp), (s, tp, t))),
            Eq(
                C(t, tp).diff(t),
                -mu(t) * C(t, tp) + Int(slope * R(t, s) * C(s, tp), (s, 0, t)) + Int((memory + h**2) * R(tp, s), (s, 0, tp)),
            ),
        ],
        init={C(t, t): 1, R(t, t): 1},
        defaults={T: 0.4, h: 0.2},
        observables={"magnetization": h * Int(R(t, s), (s, 0, t))},
    )


@pytest.mark.slow
def test_agrees_with_the_other_solver_in_a_field() -> None:
    model = mixed()
    pairs = [(60.0, t) for t in (0.0, 1.0, 10.0, 30.0, 50.0, 59.0, 59.9)]
    near = eqsolve.solve(model, t_max=60, rtol=1e-5, solver="two_time", at2=pairs)
    far = eqsolve.solve(model, t_max=60, rtol=1e-2, solver="aging", at2=pairs)
    truth, found = near.at2(pairs), far.at2(pairs)
    for name in ("C", "R"):
        assert (np.abs(found[name] - truth[name]) <= 3 * found[f"{name}_error"] + truth[f"{name}_error"]).all()
    last = [item["magnetization"].values[-1] for item in (near, far)]
    assert abs(last[0] - last[1]) <= 3 * far.error["magnetization"].values[-1]


def test_the_horizon_chooses() -> None:
    """Found by a look at the first panels: nothing is solved here."""
    from eqsolve.compile.plan import make_task
    from eqsolve.solvers.options import Options
    from eqsolve.solvers.registry import find_solver

    task = make_task(eqsolve.load("pspin"), {})
    for t_max, chosen in ((30, None), (1e5, "aging")):
        options = Options.make(t_max=t_max, rtol=1e-3, atol=None)
        better = find_solver("two_time").instead(task.plan, task.values, options)
        assert (None if better is None else better.solver) == chosen


def test_a_short_horizon_is_left_to_the_other_solver(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "eqsolve"):
        result = eqsolve.solve("pspin", t_max=2, rtol=1e-2, solver="aging")
    assert result.status == "ok"
    assert "the horizon is short" in caplog.text


def test_refuses_with_a_reason() -> None:
    with pytest.raises(UsageError, match="`aging` cannot solve model `volterra_linear`: it has no function of two times"):
        eqsolve.solve("volterra_linear", t_max=1e5, solver="aging")
