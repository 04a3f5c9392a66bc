"""Systems much faster than the time asked for: nearly linear ones whose start, transient and end are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import fsolve
from scipy.special import ndtr

import eqsolve
from eqsolve import GP, E, Eq, Int, Resp, System, correlation, param, process, random, response, times
from eqsolve.laws import Normal, Uniform
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.solvers.paths.transfer import extend, transfer
from eqsolve.spectra import MarchenkoPastur

Array = np.ndarray


# --- the diagonal network from a large start: linear regression in the time α²t ---------------------------------------
def check_lazy(alpha: float, delta: float, rtol: float) -> None:
    tau = np.geomspace(0.1, 10, 9)
    result = eqsolve.solve("dln", alpha=alpha, delta=delta, lam=0, t_max=10, rtol=rtol, observables=["E_test", "E_train"])
    assert result.status == "ok"
    law, found = MarchenkoPastur(delta), result.at(np.append(tau / alpha**2, 10.0))
    late = 0.1 * max(0.0, 1 - delta)  # what the data do not reach
    test, train = np.append(0.1 * law.laplace(2 * tau), late), np.append(0.1 * law.laplace(2 * tau, 1), 0.0)
    for name, exact in (("E_test", test), ("E_train", train)):
        off = np.abs(found[name].values - exact)
        assert off.max() <= rtol * exact.max()
        assert np.all(off <= 3 * found[name + "_error"].values + 1e-9), name


@pytest.mark.slow
def test_large_start_of_the_network() -> None:
    check_lazy(1e2, 0.5, 1e-2)


@pytest.mark.slow
def test_large_start_of_the_network_to_three_digits() -> None:
    check_lazy(1e4, 0.5, 1e-3)


# --- a network of neurons with symmetric random couplings, fast and driven ---------------------------------------------
def fast_network() -> System:
    """x' = k (−x + A x + b), A symmetric of variance g²/N: A x is noise and a reaction to the past."""
    t, tp, s = times("t t' s")
    k, g = param("k g", positive=True)
    b = random("b", Normal(0, 1))
    x, z = process("x z")
    C, R = correlation("C"), response("R")
    return System(
        "fast_network",
        eqs=[
            Eq(C(t, tp), E(x(t) * x(tp))),
            Eq(R(t, tp), E(Resp(x(t), z(tp)))),
            Eq(x(t).diff(t), k * (z(t) - x(t) + b + g**2 * Int(R(t, s) * x(s), (s, 0, t)))),
        ],
        laws={z: GP(g**2 * C(t, tp))},
        init={x: 0},
        defaults={k: 1, g: 0.4},
        observables={"size": C(t, t)},
    )


def driven(gain: float, tau: Array) -> Array:
    """E[x²] at kt = τ: the mean over the semicircle law of ((1 − e^{−(1−λ)τ})/(1 − λ))², by Gauss–Chebyshev points."""
    angles = np.arange(1, 400) * np.pi / 400
    weights, rates = np.sin(angles) ** 2 * 2 / 400, 1 - 2 * gain * np.cos(angles)
    return np.asarray(((1 - np.exp(-np.multiply.outer(tau, rates))) / rates) ** 2 @ weights)


@pytest.mark.parametrize("rate", [1.0, 1e3, pytest.param(1e5, marks=pytest.mark.slow)])
def test_fast_symmetric_network(rate: float) -> None:
    tau = np.append(np.geomspace(0.1, 10, 9), [100.0] if rate == 1 else [100.0, 10 * rate])
    result = eqsolve.solve(fast_network(), k=rate, t_max=tau[-1] / rate, rtol=1e-3)
    assert result.status == "ok"
    found, exact = result.at(tau / rate), driven(0.4, tau)
    off = np.abs(found["size"].values - exact)
    assert np.all(off <= 1e-3 * np.maximum(exact, 0.1 * exact[-1]))
    assert np.all(off <= 3 * found["size_error"].values)


# --- responses on longer windows and other grids -----------------------------------------------------------------------
def memory(grid: OperatorGrid, rate: float) -> Array:
    """The operator of R(t, s) = e^{−rate (t − s)} + 1: (1 + rate J)⁻¹ J + J."""
    J = grid.integration
    return np.asarray(np.linalg.solve(np.eye(grid.size) + rate * J, J) + J)


@pytest.mark.parametrize("gain", [1.0, 100.0])
@pytest.mark.parametrize("rate", [0.3, 30.0])
def test_responses_keep_their_jump_and_their_age(rate: float, gain: float) -> None:
    """Also where panels are much longer than the response's time, what a feedback through it leaves is right in every entry.

    (1 + gain R)⁻¹ has entries up to 1. Where a response vanishes on signals between the nodes of another grid, it is off by
    more than that.
    """
    edges = np.append(0.0, np.cumsum(0.5 * 2.0 ** np.arange(7)))
    whole = OperatorGrid.from_panels(PanelGrid(edges, 5))
    dense = OperatorGrid.from_panels(PanelGrid(np.interp(np.linspace(0, 7, 11), np.arange(8), edges), 5))
    window, names = whole.head(6), frozenset({"R"})
    longer = extend({"R": memory(window, rate)}, names, window, whole)["R"]
    moved = transfer({"R": memory(whole, rate)}, names, whole, dense)["R"]
    for found, grid in ((longer, whole), (moved, dense)):
        exact, unit, smooth = memory(grid, rate), np.eye(grid.size), np.cos(grid.nodes / grid.nodes[-1])
        assert np.abs(np.linalg.inv(unit + gain * found) - np.linalg.inv(unit + gain * exact)).max() <= 0.2
        assert np.abs((found - exact) @ smooth).max() <= 0.02 * np.abs(exact @ smooth).max()


# --- species that start near zero, and grow late -----------------------------------------------------------------------
@pytest.mark.slow
def test_a_community_from_a_start_that_holds_rare_species() -> None:
    """x' = x (1 − x − 4 m + z): on long panels paths from x near zero cannot be followed; its rest is that of Bunin (2017)."""
    t, tp = times("t t'")
    m, (x, z), C = eqsolve.function("m"), process("x z"), correlation("C")
    eqs = [Eq(m(t), E(x(t))), Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), x(t) * (1 - x(t) - 4 * m(t) + z(t)))]
    model = System("community", eqs, laws={z: GP(C(t, tp) / 4)}, init={x: Uniform(0, 1)}, observables={"q": C(t, t)})
    found = eqsolve.solve(model, t_max=60, rtol=1e-3)

    def off(a: Array) -> list[float]:
        w = np.sqrt(a[1]) / 2
        k = (1 - 4 * a[0]) / w
        top, share = np.exp(-(k**2) / 2) / np.sqrt(2 * np.pi), ndtr(k)
        return [w * (k * share + top) - a[0], w**2 * ((1 + k**2) * share + k * top) - a[1]]

    rest = fsolve(off, [0.2, 0.05], xtol=1e-13)
    last = found.at([60.0])
    assert found.status == "ok"
    for name, exact in zip(("m", "q"), rest, strict=True):  # at rest as far as species that vanish like 1/t let it be
        assert abs(float(last[name].values[0]) - exact) <= 0.01 * exact
        assert float(last[f"{name}_error"].values[0]) <= 1e-3 * exact
