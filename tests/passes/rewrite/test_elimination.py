"""Linear processes leave closed equations: the lazy and search systems by machine, and linear systems with closed forms."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from sympy import Abs, Expr, S, cos, expand, oo, tanh

import eqsolve
from eqsolve import GP, E, Eq, Int, Resp, System, correlation, param, process, random, response, times
from eqsolve.errors import ModelError
from eqsolve.language.symbols import Correlation, Value
from eqsolve.laws import Normal, Rademacher

t, tp, s = times("t t' s")


def ordered(expr: Expr) -> Expr:
    """Return an expression with the times of symmetric kernels in one order."""
    turned = {
        value: value.head(*sorted(value.moments, key=str))
        for value in expr.atoms(Value)
        if isinstance(value.head, Correlation)
    }
    return expr.xreplace(turned)


def lazy_limit() -> System:
    dln = eqsolve.load("dln")
    alpha, R_w, R_f = dln.symbols("alpha R_w R_f")
    return dln.rescale_time(alpha**2).rescale_unknown({R_w: alpha**2, R_f: alpha**2}).leading_order(alpha, oo).eliminate()


def test_lazy_system_by_machine() -> None:
    found, reference = lazy_limit(), eqsolve.load("dln_lazy")
    rho2, square = reference.symbols("rho2"), E(found.symbols("w_star") ** 2)
    assert set(reference) <= set(found)
    for name in reference:
        assert found[name].lhs == reference[name].lhs
        assert expand(ordered(found[name].rhs) - ordered(reference[name].rhs)) == 0
    for key, value in reference.init.items():
        assert found.init[key].xreplace({square: rho2}) == value
    for name in ("E_train", "E_test"):
        assert found.observables[name] == reference.observables[name]
    assert not found.processes
    assert not found.laws


def test_lazy_system_solved() -> None:
    """The eliminated system and the file agree; the overlap E[w w*] has the closed form ρ² (1 − ∫ e^{−xt} dμ(x))."""
    at = np.array([0.5, 2.0])
    found = eqsolve.solve(lazy_limit(), delta=0.5, sigma2=0.1, t_max=2, rtol=1e-7).at(at)
    expected = eqsolve.solve("dln_lazy", delta=0.5, sigma2=0.1, rho2=0.1, t_max=2, rtol=1e-7).at(at)
    for name in ("E_train", "E_test"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-6)  # two solutions to 1e-7
    overlap = 0.1 * (1 - eqsolve.spectra.MarchenkoPastur(0.5).laplace(at))
    np.testing.assert_allclose(found["overlap"], overlap, rtol=1e-6)


def test_search_system_by_machine() -> None:
    dln, reference = eqsolve.load("dln"), eqsolve.load("dln_search")
    alpha, w = dln.symbols("alpha w")
    found = dln.rescale_unknown({w: alpha**2}).leading_order(alpha, 0).eliminate()
    (equation,) = found.equations
    W, z0, w_star = reference.symbols("W z0 w_star")
    theirs = {found.symbols("z0"): z0, found.symbols("w_star"): w_star, w(t): W(t)}
    assert expand(equation.rhs.xreplace(theirs) - reference["W"].rhs) == 0
    mine = found.symbols("z0").law
    assert expand(mine.args[1] - z0.law.args[1]) == 0
    assert mine.args[0] == z0.law.args[0] == 0
    assert found.init[w] == reference.init[W] == 0


def linear_network() -> System:
    gain = param("gain", positive=True)
    x, eta = process("x eta")
    C = correlation("C")
    return System("linear_network", eqs=[Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), eta(t) - x(t))],
                  laws={eta: GP(gain**2 * C(t, tp))}, init={x: Normal(0, 1)}, defaults={gain: 0.8},
                  observables={"size": E(Abs(x(t))), "square": E(x(t) ** 2)})  # fmt: skip


def test_linear_random_network(caplog: pytest.LogCaptureFixture) -> None:
    """x' = −x + η, η ~ GP(g² C): (∂_t + 1)(∂_t' + 1) C = g² C, so that C = e^{−t−t'} I₀(2g√(t t'))."""
    with caplog.at_level(logging.INFO, logger="eqsolve"):
        found = linear_network().eliminate("x")
    assert "left out: observable `size`" in caplog.text
    assert list(found.observables) == ["square"]
    solved = eqsolve.solve(found, t_max=3, rtol=1e-7)
    pairs = np.array([(1.0, 0.5), (2.0, 2.0), (3.0, 1.0)])
    exact = np.exp(-pairs.sum(axis=1)) * np.i0(1.6 * np.sqrt(pairs.prod(axis=1)))
    np.testing.assert_allclose(solved.at2(pairs)["C"], exact, rtol=1e-6)


def test_constants_in_the_drift_and_noises_with_a_mean() -> None:
    """x' = −x + a + z, E[z] = 1, Cov = cos(t − t'): E[x] = 1 − e^{−t} = m, E[x x'] = (E[a²] + 1) m m' + Re φ φ'*."""
    a = random("a", Rademacher(0.5))
    x, z = process("x z")
    C = correlation("C")
    found = System(
        "driven",
        eqs=[Eq(C(t, tp), E(x(t) * x(tp))), Eq(x(t).diff(t), a + z(t) - x(t))],
        laws={z: GP(cos(t - tp), 1)},
        init={x: 0},
        observables={"mean": E(x(t)), "with_a": E(a * x(t))},
    ).eliminate()
    at, reached = np.array([0.5, 2.0]), 1 - np.exp(-np.array([0.5, 2.0]))
    solved = eqsolve.solve(found, t_max=2, rtol=1e-8)
    np.testing.assert_allclose(solved.at(at)["mean"], reached, rtol=1e-7)
    np.testing.assert_allclose(solved.at(at)["with_a"], 0.5 * reached, rtol=1e-7)
    wave = (np.exp(1j * at) - np.exp(-at)) / (1 + 1j)  # φ(t) = ∫ e^{−(t−s) + is} ds
    expected = 1.5 * reached.prod() + (wave[0] * wave[1].conj()).real
    np.testing.assert_allclose(solved.at2([(2.0, 0.5)])["C"], expected, rtol=1e-7)


def test_memory_against_the_paths() -> None:
    """x' = −x − ∫ x + z, z ~ GP(cos(t − t')): closed equations against the solver of paths and the closed form of R."""
    x, z, y = process("x z y")
    C, R = correlation("C"), response("R")
    system = System("memory", laws={z: GP(cos(t - tp))}, init={x: 1}, observables={"mean": E(x(t))}, eqs=[
        Eq(C(t, tp), E(x(t) * x(tp))), Eq(R(t, tp), 2 * E(Resp(x(t), z(tp)))),
        Eq(y(t), z(t) - Int(x(s), (s, 0, t))), Eq(x(t).diff(t), y(t) - x(t))])  # fmt: skip
    found = eqsolve.solve(system.eliminate(), t_max=2, rtol=1e-7)
    paths = eqsolve.solve(system, t_max=2, rtol=1e-5)
    pairs = [(2.0, 1.0), (2.0, 2.0), (1.5, 0.25)]
    for name in ("C", "R"):
        np.testing.assert_allclose(found.at2(pairs)[name], paths.at2(pairs)[name], rtol=1e-4)  # rtol is that of observables
    # R'' + R' + R = 0 in t − t' with R = 2, R' = −2 at the start
    rate = np.sqrt(0.75)
    exact = 2 * np.exp(-0.5) * (np.cos(rate) - 0.5 / rate * np.sin(rate))
    np.testing.assert_allclose(found.at2([(2.0, 1.0)])["R"], exact, rtol=1e-6)


def test_what_cannot_be_eliminated_is_said() -> None:
    dln = eqsolve.load("dln")
    with pytest.raises(ModelError, match=r"in `dln`: equation for `w` \(dln.py:\d+\) is not linear in `w\(t\)`"):
        dln.eliminate()
    with pytest.raises(ModelError, match="`g` cannot be eliminated: it depends on, or acts on, a process that stays"):
        dln.eliminate("g")
    with pytest.raises(ModelError, match="`C_w` is not a process"):
        dln.eliminate("C_w")
    with pytest.raises(ModelError, match="with a deterministic coefficient"):
        eqsolve.load("dln_linearized").eliminate()
    x, y, z = process("x y z")
    C = correlation("C")
    pair = [Eq(x(t).diff(t), y(t)), Eq(y(t).diff(t), -x(t) + z(t))]
    law = {z: GP(C(t, tp))}
    coupled = System("coupled", eqs=[Eq(C(t, tp), E(x(t) * x(tp))), *pair], laws=law, init={x: 1, y: 0})
    with pytest.raises(ModelError, match="neither symmetric nor causal"):
        coupled.eliminate()
    higher = linear_network().replace("higher", eqs=[Eq(correlation("C")(t, tp), E(tanh(x(t)) * tanh(x(tp))))])
    with pytest.raises(ModelError, match="not of second order"):
        higher.eliminate()
    with pytest.raises(ModelError, match="discrete time"):
        linear_network()._with(step=S.Half).eliminate()
