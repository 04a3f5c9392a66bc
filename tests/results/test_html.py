"""What notebooks show: names as LaTeX and as they are typed, and nothing of the user's that would act as HTML."""

import math

import eqsolve
from eqsolve import Eq, System, function, param, times

t = times("t")
y = function("y")
a = param("a", positive=True, latex=r"\alpha_<")


def test_a_result_names_its_values_and_settings() -> None:
    model = System("decay", eqs=[Eq(y(t).diff(t), -a * y(t))], init={y: 1}, observables={"E_test": y(t)}, defaults={a: 2})
    page = eqsolve.solve(model, t_max=1)._repr_html_()
    assert "$E_{\\mathrm{test}}$" in page
    assert "<code>E_test</code>" in page
    assert "$\\alpha_&lt;$ = 2" in page


def test_a_result_says_what_its_parameters_mean() -> None:
    page = eqsolve.solve("dln_infinite_data", at=1, alpha=0.5)._repr_html_()
    assert "= 0 <span style='opacity:0.6'>(weight decay)</span>" in page
    assert "weight decay" in eqsolve.sweep("dln_infinite_data", alpha=[0.5, 1], at=1)._repr_html_()
    assert "weight decay" in eqsolve.explain("dln_infinite_data")._repr_html_()
    assert "(weight decay)" in eqsolve.load("dln_flow").simulate(d=10, at=[1])._repr_html_()


def test_a_fit_has_its_parameters_in_a_table() -> None:
    model = System("decay", eqs=[Eq(y(t).diff(t), -a * y(t))], init={y: 1}, observables={"size": y(t)}, defaults={a: 1})
    data = {"t": [1.0, 2.0], "size": [math.exp(-2), math.exp(-4)], "size_error": [1e-3, 1e-3]}
    found = eqsolve.fit(model, data, free=["a"], progress=False)
    page = found._repr_html_()
    assert "$\\alpha_&lt;$" in page
    assert f"<td>{found.parameters['a']:.6g} ± {found.errors['a']:.2g}</td>" in page
    assert "chi-square" in page


def test_errors_tell_how_large_they_are() -> None:
    found = eqsolve.solve("dln_infinite_data", at=1)
    assert f"E_test up to {float(found.error['E_test'].max()):.2g}" in repr(found.error)


def test_an_equation_is_latex() -> None:
    assert eqsolve.load("dln_lazy")["C_w"]._repr_latex_().startswith("$\\displaystyle ")
    assert Eq(y(t).diff(t), -y(t))._repr_latex_() == r"$\displaystyle \frac{\mathrm{d}}{\mathrm{d} t} y(t) = - y(t)$"


def test_an_explanation_folds_its_parts() -> None:
    explanation = eqsolve.explain("dln")
    page = explanation._repr_html_()
    assert page.count("<details") == len(explanation.sections())
    assert "E[(w(t) - w_star)*(w(t&#x27;) - w_star)]" in page
