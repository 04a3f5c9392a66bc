"""Other units for a system: exact under the solver, and the limits of the full network by machine."""

from __future__ import annotations

import numpy as np
import pytest
from sympy import Dummy, S, exp, expand, log, oo, sqrt, together

import eqsolve
from eqsolve.errors import ModelError
from eqsolve.passes.rewrite.rescaling import leading_order, rescale_time, rescale_unknown, shift_time


def test_rescaled_time_is_the_same_curve() -> None:
    model = eqsolve.load("dln_infinite_data")
    faster = rescale_time(model, 4)
    plain = eqsolve.solve(model, t_max=5, rtol=1e-8).at([1.0, 5.0])["E_test"].values
    scaled = eqsolve.solve(faster, t_max=20, rtol=1e-8).at([4.0, 20.0])["E_test"].values
    np.testing.assert_allclose(scaled, plain, rtol=1e-6)  # both to 1e-8, with the margin of two error estimates


def test_rescaled_unknown_and_kernels_are_the_same() -> None:
    model = eqsolve.load("dln_lazy")
    R_w, R_f = model.symbols("R_w R_f")
    other = rescale_unknown(rescale_time(model, 3), {R_w: 3, R_f: 3})
    plain = eqsolve.solve(model, t_max=2, rtol=1e-7).at([2.0])["E_train"].values
    scaled = eqsolve.solve(other, t_max=6, rtol=1e-7).at([6.0])["E_train"].values
    np.testing.assert_allclose(scaled, plain, rtol=1e-5)


def test_shift_gives_the_rich_system() -> None:
    dln = eqsolve.load("dln")
    alpha, lam, t, w = dln.symbols("alpha lam t w")
    found = shift_time(dln, 2 * log(alpha) / lam)["w"].rhs
    g = dln.symbols("g")
    expected = -sqrt(w(t) ** 2 + exp(-2 * lam * t)) * g(t) - lam * w(t)
    # α⁴ e^{−2λ(t + 2 log(α)/λ)} = e^{−2λt}: put numbers in, sympy does not join logarithms by itself
    assert abs(found.subs({alpha: 3, lam: 0.5, t: 1.5, w(1.5): 0.7, g(1.5): -0.4})
               - expected.subs({alpha: 3, lam: 0.5, t: 1.5, w(1.5): 0.7, g(1.5): -0.4})) < 1e-14  # fmt: skip


def test_lazy_limit_of_the_network() -> None:
    dln = eqsolve.load("dln")
    alpha, t, g, R_w, R_f = dln.symbols("alpha t g R_w R_f")
    lazy = leading_order(rescale_unknown(rescale_time(dln, alpha**2), {R_w: alpha**2, R_f: alpha**2}), alpha, oo)
    assert lazy["w"].rhs == -g(t)
    for name in ("C_w", "C_f", "R_w", "R_f", "g"):
        assert expand(lazy[name].rhs - dln[name].rhs) == 0
    # dln_lazy's algebraic equations are these
    reference = eqsolve.load("dln_lazy")
    for name in ("C_f", "R_f"):
        assert str(lazy[name].rhs) == str(reference[name].rhs)


def test_search_limit_of_the_network() -> None:
    dln = eqsolve.load("dln")
    alpha, delta, sigma2, t, w, g, z, w_star = dln.symbols("alpha delta sigma2 t w g z w_star")
    search = leading_order(rescale_unknown(dln, {w: alpha**2}), alpha, 0)
    assert "R_w" not in search
    assert "R_f" not in search
    assert expand(search["g"].rhs - z(t) / delta + w_star) == 0
    drift = search["w"].rhs.xreplace({g(t): search["g"].rhs})
    reference = eqsolve.load("dln_search")
    W, z0, mine = reference.symbols("W z0 w_star")
    theirs = reference["W"].rhs.xreplace({W(t): w(t), z0: z(t), mine: w_star})
    lam, q, W0 = reference.symbols("lam"), Dummy("q", positive=True), Dummy("W", real=True)  # q = e^{λt}

    def plain(expr):  # one form for √(w² + e^{−2λt})
        small = expr.replace(exp, lambda power: q ** (power / (lam * t))).xreplace({w(t): W0})
        return small.replace(lambda e: e.is_Pow and e.exp == S.Half, lambda e: sqrt(together(e.base)))

    assert expand(plain(drift) - plain(theirs)) == 0
    assert search["C_w"].rhs == eqsolve.E(w_star**2)
    assert expand(search["C_f"].rhs - dln.symbols("C_w")(t, dln.symbols("t'")) - sigma2) == 0


def test_methods_of_a_system() -> None:
    dln = eqsolve.load("dln")
    alpha, t, g, R_w, R_f = dln.symbols("alpha t g R_w R_f")
    lazy = dln.rescale_time(alpha**2).rescale_unknown({R_w: alpha**2, R_f: alpha**2}).leading_order(alpha, oo)
    assert lazy["w"].rhs == -g(t)
    assert dln.shift_time(1).start == -1


def test_what_has_no_limit_is_said() -> None:
    dln = eqsolve.load("dln")
    with pytest.raises(ModelError, match=r"no finite limit.*rescale time or unknowns"):
        leading_order(dln, "alpha", oo)
    with pytest.raises(ModelError, match="is not an unknown"):
        rescale_unknown(dln, {dln.symbols("alpha"): 2})
