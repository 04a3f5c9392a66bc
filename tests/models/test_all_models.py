"""What must hold for every file in models/: adding a file there adds it to these tests."""

import ast
import functools
import pickle
from pathlib import Path

import pytest

import eqsolve
from eqsolve.errors import ParameterError
from eqsolve.language.binding import bind
from eqsolve.language.loading import list_models
from eqsolve.passes.forms.structure import signature_of

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "models").glob("*.py"))
load = functools.cache(lambda path: eqsolve.load(str(path)))  # none of these tests changes a model
MANY_UNITS = ("soft_committee", "deep_features", "dln_flow_random_start")  # whose check takes longest
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@every_file
def test_loads_by_path_and_by_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = eqsolve.load(str(path))
    monkeypatch.chdir(ROOT)
    assert model == eqsolve.load(path.stem)
    assert model.name == path.stem
    assert model.file == str(path)


@every_file
def test_docstring_opens_with_one_sentence(path: Path) -> None:
    doc = load(path).doc
    assert doc is not None
    summary, blank, *rest = doc.splitlines()
    assert summary.endswith(".")
    assert len(summary) <= 107
    assert blank == ""
    assert rest


@every_file
def test_imports_public_names_only(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):  # numpy makes tables
            assert [(alias.name, alias.asname) for alias in node.names] == [("numpy", "np")], "import names, not modules"
        if isinstance(node, ast.ImportFrom):
            assert node.module in ("sympy", "eqsolve", "eqsolve.laws")
            names = {alias.name for alias in node.names}
            assert "*" not in names
            if node.module == "eqsolve":
                assert names <= set(eqsolve.__all__)


@every_file
def test_shows_text_and_latex(path: Path) -> None:
    model = load(path)
    text, latex = model.show().text(), model.show().latex()
    assert text.startswith(f"{path.stem} ({model.kind})\n")
    assert latex.startswith("\\begin{align}")
    assert latex.count("{") == latex.count("}")
    assert model._repr_latex_().startswith("$$")
    for equation in model.equations:
        assert f"  {equation.key}" in text.replace("∂", "").replace("d" + equation.key, equation.key)
    for name in model.observables:
        assert f" {name} = " in text


@every_file
def test_is_a_value(path: Path) -> None:
    model = load(path)
    copy = pickle.loads(pickle.dumps(model))
    assert copy == model
    assert hash(copy) == hash(model)
    assert copy.doc == model.doc
    assert signature_of(copy) == signature_of(model)
    other = model.replace("another_name")
    assert other != model
    assert signature_of(other) != signature_of(model)
    assert other.replace(model.name) == model


@every_file
def test_binds_with_its_defaults(path: Path) -> None:
    model = load(path)
    binding = bind(model, {})
    assert {item.name for item in binding.values} == {item.name for item in model.parameters}
    for equation in model.equations:
        assert not binding.apply(equation.rhs).free_symbols & set(model.parameters)


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in MANY_UNITS)) for path in FILES]
)
def test_passes_its_check(path: Path) -> None:
    pytest.importorskip("eqsolve.passes.check.check")
    eqsolve.check(load(path))


def test_signatures_differ() -> None:
    signatures = {signature_of(load(path)) for path in FILES}
    assert len(signatures) == len(FILES)


def test_files_are_listed_with_kind_and_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    listed = {entry.name: entry for entry in list_models()}
    for path in FILES:
        model = load(path)
        assert listed[path.stem].kind in (model.kind, "variant")
        assert listed[path.stem].summary == (model.doc or "").splitlines()[0]


def test_models_named_by_other_models_exist() -> None:
    names = {path.stem for path in FILES}
    for path in FILES:
        model = load(path)
        wanted = {name for _, name in getattr(model, "law_of", ())} | {getattr(model, "flow", None)} - {None}
        assert wanted <= names


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("dln_descent", {"alpha": 1.5}, "alpha < 1"),
        ("dln_fixed_point_l1", {"lam": 0}, "lam > 0"),
        ("dln_fixed_point_ridgeless", {"delta": 0.5}, "delta > 1"),
        ("dln_fixed_point_min_norm", {"delta": 2}, "delta < 1"),
        ("dln_fixed_point_min_norm", {"L": 2.5}, "an integer"),
        ("dln_flow", {"L": 1}, "at least 2"),
        ("dln_rich", {"tau0": 1}, "negative"),
        ("pspin", {"p": 1}, "at least 2"),
    ],
)
def test_refuses_parameters_outside_its_range(name: str, settings: dict, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        bind(eqsolve.load(str(ROOT / "models" / f"{name}.py")), settings)


VARIANT = '''"""Diagonal network with a constant preconditioner: linear in w."""

from eqsolve import Eq, load

dln = load("dln")
w, g, t, alpha, lam = dln.symbols("w g t alpha lam")
model = dln.replace("my_variant", eqs=[Eq(w(t).diff(t), -alpha**2 * g(t) - lam * w(t))], substitute={w: None})
'''


def test_a_variant_takes_a_few_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(VARIANT.splitlines()) < 10
    monkeypatch.chdir(ROOT)
    file = tmp_path / "my_variant.py"
    file.write_text(VARIANT, encoding="utf-8")
    variant, dln = eqsolve.load(str(file)), eqsolve.load("dln")
    w, g, t, alpha, lam = dln.symbols("w g t alpha lam")
    assert variant["w"].rhs == -(alpha**2) * g(t) - lam * w(t)
    assert variant["w"].location.file == str(file)
    assert list(variant) == list(dln)
    assert [variant[key] == dln[key] for key in dln] == [key != "w" for key in dln]
    assert variant.observables == dln.observables
    assert len(variant.substitute) == 0
    assert "-alpha**2*g(t) - lam*w(t)" in variant.show().text()


def test_a_variant_keeps_no_closed_form_of_other_equations() -> None:
    search = eqsolve.load(str(ROOT / "models" / "dln_search.py"))
    W, t, w_star = search.symbols("W t w_star")
    assert search.replace("same").exact == search.exact
    assert len(search.replace("other", eqs=[eqsolve.Eq(W(t).diff(t), w_star)]).exact) == 0
    given = search.replace("other", eqs=[eqsolve.Eq(W(t).diff(t), w_star)], exact={W: w_star * t})
    assert dict(given.exact) == {W: w_star * t}


def test_parameters_that_stand_only_in_a_law_are_parameters() -> None:
    search = eqsolve.load(str(ROOT / "models" / "dln_search.py"))
    assert "sigma2" in {item.name for item in search.parameters}
    z0 = search.symbols("z0")
    binding = bind(search, {"delta": 2, "sigma2": 0.3, "w_star": "Point(2)"})
    assert float(binding.laws[z0].args[1]) == pytest.approx(2 * (4 + 0.3), rel=1e-15)


def test_a_law_that_names_another_random_constant_follows_it_into_a_variant() -> None:
    search = eqsolve.load(str(ROOT / "models" / "dln_search.py"))
    w_star = eqsolve.random("w_star", eqsolve.laws.Point(3), latex="w^*")
    W, t, z0 = search.symbols("W t z0")
    variant = search.replace("other", eqs=[eqsolve.Eq(W(t).diff(t), w_star - z0)])
    assert variant.symbols("z0").law == z0.law.xreplace({search.symbols("w_star"): w_star})
    assert float(bind(variant, {"delta": 1}).laws[variant.symbols("z0")].args[1]) == 9
    fixed = search.subs(delta=3)
    assert float(bind(fixed, {}).laws[fixed.symbols("z0")].args[1]) == pytest.approx(0.3)
