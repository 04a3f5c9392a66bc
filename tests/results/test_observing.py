"""Expressions evaluated after the solve agree with declared observables and with exact relations."""

import numpy as np
import pytest

import eqsolve
from eqsolve import E, Int


@pytest.fixture(scope="module")
def lazy() -> eqsolve.Result:
    return eqsolve.solve("dln_lazy", t_max=5, rtol=1e-6)


@pytest.fixture(scope="module")
def paths() -> eqsolve.Result:
    return eqsolve.solve("dln_rich_infinite_data", t_max=5)


def test_a_declared_observable_is_found_again(lazy: eqsolve.Result) -> None:
    C_w, t, sigma2 = eqsolve.load("dln_lazy").symbols("C_w t sigma2")
    seen = lazy.observe(C_w(t, t) + sigma2)
    assert seen.dims == ("t",)
    assert np.allclose(seen, lazy["E_test"], rtol=0, atol=1e-15)
    assert (seen["error"] > 0).all()


def test_an_integral_obeys_the_balance_of_the_flow(lazy: eqsolve.Result) -> None:
    """Without noise ∂C_w(t,t)/∂t = −2 C_f(t,t), term by term in the spectrum of the closed form."""
    C_w, C_f, t, s = eqsolve.load("dln_lazy").symbols("C_w C_f t s")
    gap = lazy.observe(C_w(t, t) - C_w(0, 0) + 2 * Int(C_f(s, s), (s, 0, t)))
    assert (np.abs(gap) <= gap["error"] + 1e-15).all()
    assert float(gap["error"].max()) < 1e-6
    whole = lazy.observe(Int(C_f(s, s), (s, 0, 5)))
    assert whole.shape == ()


def test_two_times_and_given_times(lazy: eqsolve.Result) -> None:
    C_w, R_w, t, tp = eqsolve.load("dln_lazy").symbols("C_w R_w t t'")
    seen = lazy.observe(C_w(t, tp) * 2)
    assert seen.dims == ("t", "t'")
    assert np.allclose(seen, 2 * lazy["C_w"], rtol=0, atol=1e-9)
    assert lazy.observe(C_w(t, 0)).dims == ("t",)
    assert lazy.observe(R_w(1, 2)).item() == 0.0
    with pytest.raises(eqsolve.UsageError, match="outside the solved range"):
        lazy.observe(C_w(7, 0))


def test_means_over_paths(paths: eqsolve.Result) -> None:
    w, w_star, t = eqsolve.load("dln_rich_infinite_data").symbols("w w_star t")
    tp = eqsolve.times("t'")
    seen = paths.observe(E((w(t) - w_star) ** 2))
    assert np.allclose(seen, paths["E_test"], rtol=0, atol=1e-14)
    assert np.isfinite(seen["error"]).all()  # the law has atoms only
    twice = paths.observe(E(w(t) * w(tp)))
    table, weights = paths["w"].values, paths["weight"].values
    assert np.allclose(twice, np.einsum("p,pi,pj->ij", weights, table, table), rtol=0, atol=1e-14)
    assert paths.observe(E(w_star**2)).item() == pytest.approx(0.52, abs=1e-14)
    assert paths.observe(E(w(5) * w_star)).item() == pytest.approx(float(weights @ (table[:, -1] * paths["w_star"].values)))


def test_an_error_that_is_not_known_is_nan() -> None:
    res = eqsolve.solve("dln_rich_infinite_data", w_star="Uniform(0.5, 1)", t_max=1)
    w, t = eqsolve.load("dln_rich_infinite_data").symbols("w t")
    seen = res.observe(E(w(t) ** 4))
    assert np.isfinite(seen).all()
    assert np.isnan(seen["error"]).all()


def test_what_cannot_be_evaluated_is_explained(paths: eqsolve.Result, lazy: eqsolve.Result) -> None:
    w, t = eqsolve.load("dln_rich_infinite_data").symbols("w t")
    for expr, said in [
        ("__import__('os')", "not text"),
        (w(t), r"`w\(t\)` is random: write its mean"),
        (w(t).diff(t), "declare it in observables="),
        (eqsolve.function("w_x")(t), "has no `w_x`"),
        (eqsolve.param("lamb"), "no parameter `lamb`; did you mean `lam`"),
        (E(eqsolve.process("g")(t)), "keeps no paths of `g`"),
        (object(), "expression"),
    ]:
        with pytest.raises(eqsolve.UsageError, match=said):
            paths.observe(expr)


def test_tables_and_html(lazy: eqsolve.Result, paths: eqsolve.Result) -> None:
    table = lazy.to_dataframe()
    assert list(table.columns) == ["E_train", "E_train_error", "E_test", "E_test_error"]
    assert table.index.name == "t"
    html = paths._repr_html_()
    assert "dln_rich_infinite_data" in html
    assert "largest error" in html
    odd = paths.with_status("stopped <script>", "because <b>")
    assert "<script>" not in odd._repr_html_()
