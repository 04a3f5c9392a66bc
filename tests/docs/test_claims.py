"""What the pages say is taken and is not taken, asked of `check` and `explain` themselves."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from sympy import I, Piecewise, exp, sign

import eqsolve
from eqsolve import GP, E, Eq, Resampled, Resp, System, Telegraph, correlation, function, param, process, response, times
from eqsolve.cli import main
from eqsolve.language.model import Model
from eqsolve.laws import Bernoulli

ROOT = Path(__file__).resolve().parents[2]
t, tp = times("t tp")
x, z, C, y = process("x"), process("z"), correlation("C"), function("y")


def driven(name: str, force: object, mean: object = None, **given: object) -> System:
    """Return a process in a force, driven by noise whose covariance is a mean over it."""
    closed = [Eq(C(t, tp), E(x(t) * x(tp)) if mean is None else mean)]
    return System(name, eqs=[Eq(x(t).diff(t), force + z(t)), *closed], init={x: 1}, laws={z: GP(C(t, tp))}, **given)  # type: ignore[arg-type,operator]


def masked(law: object) -> System:
    observed = {"mean": E(x(t))}
    return System("masked", eqs=[Eq(x(t).diff(t), -x(t) + z(t))], init={x: 1}, laws={z: law}, observables=observed)  # type: ignore[arg-type]


def two_times_beside() -> System:
    closed = [Eq(C(t, tp).diff(t), -(C(t, tp) ** 2) + E(x(t) * x(tp)))]
    return System("beside", eqs=[Eq(x(t).diff(t), -x(t) + z(t)), *closed], init={x: 1, C(t, t): 1}, laws={z: GP(C(t, tp))})


def responding() -> System:
    R = response("R")
    eqs = [Eq(x(t).diff(t), -x(t) + z(t)), Eq(R(t, tp), E(Resp(sign(x(t)), z(tp))))]
    return System("signs", eqs, init={x: 1}, laws={z: GP(1 + t * tp)})


def constrained() -> System:
    mu = function("mu")
    return driven("constrained", -mu(t) * x(t), constraints={mu: Eq(C(t, t), 1)})


# By the words of the page: a model, and what `check`, or the choice of a solver, says of it.
NOT_TAKEN: dict[str, tuple[Callable[[], Model], str]] = {
    "differential equations of two times beside stochastic processes in which the unknown": (
        two_times_beside,
        "enters its own",
    ),
    "complex unknowns": (lambda: System("wave", eqs=[Eq(y(t).diff(t), I * y(t))], init={y: 1}), "a model is real"),
    "unknowns over a continuum of space or wave numbers": (
        lambda: System("field", eqs=[Eq(y(t, param("q")).diff(t), 0)], init={y: 1}),
        "takes 1 time, got 2",
    ),
    "jumps of forces that are given by cases": (
        lambda: driven("stuck", Piecewise((-1, x(t) > 0), (1, True))),
        "jumps where",
    ),
    "responses of what jumps itself": (responding, "takes the response"),
    "delays that depend on the solution": (
        lambda: System("late", eqs=[Eq(y(t).diff(t), -y(t - y(t)))], init={y: 1}),
        "delay depends on the solution",
    ),
    "masks are taken in steps": (lambda: masked(Telegraph(0.5, 1)), "in discrete time"),
    "with another function of both inside": (
        lambda: driven("mixed", -(x(t) ** 3), E(exp(C(t, tp) * x(t) * x(tp)))),
        "mixes paths at two times",
    ),
    "constraints beside processes on anything but means": (constrained, "constraints on means are taken"),
}
TAKEN: dict[str, Callable[[], Model]] = {
    "`Telegraph`": lambda: masked(Telegraph(0.5, 1)),
    "`Resampled`": lambda: masked(Resampled(Bernoulli(0.5))),
    "is averaged pair by pair": lambda: driven("pairs", -(x(t) ** 3), E(exp(-((x(t) - x(tp)) ** 2)))),
    "sign and Heaviside in a force are taken": lambda: driven("held", -sign(x(t))),
    "a jump of what is only averaged": lambda: driven("averaged", -x(t), E(sign(x(t)) * sign(x(tp)))),
}


def section(page: str, title: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    return text[text.index(f"\n## {title}") :].split("\n## ")[1]


@pytest.mark.parametrize("words", NOT_TAKEN)
def test_what_is_not_taken(words: str) -> None:
    assert words in " ".join(section("docs/which_model.md", "What is not taken").split())
    declare, said = NOT_TAKEN[words]
    with pytest.raises(eqsolve.EqsolveError, match=re.escape(said)):
        eqsolve.solve(declare(), t_max=1, rtol=0.1)


def test_every_line_of_what_is_not_taken_was_asked() -> None:
    lines = re.split(r"\n- ", section("docs/which_model.md", "What is not taken"))[1:]
    for line in lines:
        assert any(words in " ".join(line.split()) for words in NOT_TAKEN), line


@pytest.mark.parametrize("words", TAKEN)
def test_exceptions_are_taken(words: str) -> None:
    assert words in " ".join(section("docs/which_model.md", "What is not taken").split())
    model = TAKEN[words]()
    eqsolve.check(model)
    assert eqsolve.explain(model, step=0.1 if model.name == "masked" else None).solver.name


@pytest.mark.slow
def test_what_the_readme_lists_has_a_solver() -> None:
    rows = re.findall(r"^\|.*\| ((?:`\w+`(?:, )?)+) \|$", section("README.md", "What works"), re.MULTILINE)
    names = [name for row in rows for name in re.findall(r"\w+", row)]
    assert len(rows) >= 10
    for name in names:
        assert eqsolve.explain(name).solver.name or eqsolve.explain(name, step=0.1).solver.name, name


PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "docs").rglob("*.ipynb"))]
PUBLIC = {"compile", "errors", "laplace", "laws", "phases", "solver_kit", "spectra", "plotting.paper"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_public_names_and_link_to_what_is_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for module, names in re.findall(r"from eqsolve(?:\.([\w.]+))? import ([^\n]*)", text):
        assert not module or module in PUBLIC
        assert not re.search(r"\b_", names)
    text = re.sub(r"(?s)```.*?```|`[^`\n]*`", "", text)  # y[k](t) is no link
    # pictures of the gallery are drawn when the pages are built
    links = [link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if not re.match("https?:|mailto:|_gallery/", link)]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_first_page_reads_well_unbuilt_and_a_newcomer_finds_the_tutorial() -> None:
    first, readme = (path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "index.md", ROOT / "README.md"))
    assert re.findall(r"^(?:`{3,}\{|:::)", first, re.MULTILINE) == []  # no directive of the pages' builder
    for text in (first, readme):
        assert "tutorials/first_solve.md" in text
    assert "(glossary.md)" in first


def test_what_new_says_is_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["new", "my_variant", "--from", "dln"]) == 0
    page = (ROOT / "docs" / "declare.md").read_text(encoding="utf-8")
    assert f"$ eqsolve new my_variant --from dln\n{capsys.readouterr().out}" in page


def test_the_benchmarks_open_with_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five lines and a picture, drawn from the tables of the page, which are of the present engine."""
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.picture import read_tables

    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    opening = page.split("\n## ")[0]
    assert len([line for line in opening.splitlines() if line.startswith("- **")]) == 5
    assert (ROOT / "docs" / "images" / "benchmarks.png").is_file()
    assert "(images/benchmarks.png)" in opening
    assert "commit" not in page
    tables = read_tables(page)
    assert [sorted(methods) for methods in tables.values()] == [
        ["eqsolve", "trapezoid"], ["ddeint", "eqsolve", "jitcdde"], ["doubling", "eqsolve"],
    ]  # fmt: skip
    glass, delay, _ = tables.values()
    assert delay["jitcdde"][2][0] / delay["eqsolve"][1][0] == pytest.approx(24, abs=0.5)  # "24 times as long", to 1e-10
    assert delay["eqsolve"][1][1] < delay["jitcdde"][2][1]
    assert min(error for _, error in glass["eqsolve"]) < min(error for _, error in glass["trapezoid"])
