"""Model files: found by name or path, loaded once, and wrong ones explained at their own line."""

import pytest

import eqsolve
from eqsolve.errors import EqsolveError, MisnamedError, ModelError, ParameterError, UsageError
from eqsolve.language.loading import list_models
from eqsolve.passes.check.check import check

SOUND = """\
'''Decay.'''
from eqsolve import Eq, System, param, process, times
t, w, a = times("t"), process("w"), param("a", positive=True)
model = System("{name}", [Eq(w(t).diff(t), -a * w(t))], init={{w: 1}})
"""

# fmt: off
FILES = {
    "no model": ("x = 1\n", ModelError, "m.py declares no `model`; end the file with `model = System(...)`"),
    "model of another name": (SOUND.format(name="m").replace("model =", "modle ="), ModelError,
        "m.py declares no `model`: its System is called `modle` (m.py:4); write `model` for `modle`"),
    "model of another type": ("model = 3\n", ModelError, "m.py: `model` must be a System", "got int"),
    "name of another file": (SOUND.format(name="other"), MisnamedError,
        "m.py: the model is named `other`; a model's name is its file's stem, `m`: "),
    "raises": ("import math\n\nmath.sqrt(-1)\n", ModelError, "m.py:3: ValueError: ", "math.sqrt(-1)"),
    "raises inside a function": ("def f():\n    return 1 / 0\n\n\nf()\n", ModelError,
        "m.py:2: ZeroDivisionError: division by zero", "return 1 / 0"),
    "opens a missing file": ("\nopen('nowhere.txt')\n", ModelError, "m.py:2: FileNotFoundError", "nowhere"),
    "unknown import": ("from eqsolve import Systen\n", ModelError, "m.py:1: `eqsolve` has no `Systen`; did you mean"),
    "unknown name": ("t = 1\nmodel = System('m')\n", ModelError, "m.py:2: the name `System` is not defined; write"),
    "syntax error": ("x = 1\ny = (2\n", ModelError, "m.py:2: '(' was never closed", "y = (2"),
    "stops the program": ("raise SystemExit(3)\n", ModelError, "m.py stops the program with exit(3)"),
    "zero bytes": ("x = '\0'\n", ModelError, "m.py"),
    "bad law": ("from eqsolve.laws import Bernoulli\n\nBernoulli(2)\n", ParameterError,
        "m.py:3: law Bernoulli(2): the probability must lie in [0, 1]"),
    "bad equation": ("from eqsolve import Eq, process\n\n\nEq(process('w'), 1)\n", ModelError,
        "m.py:4: Eq takes two expressions, got `w`; call it with its times"),
}
# fmt: on


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty working folder with an empty ``models``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("EQSOLVE_PATH", raising=False)
    (tmp_path / "models").mkdir()
    return tmp_path


@pytest.mark.parametrize("name", FILES)
def test_wrong_files_show_their_line(folder, name):
    text, kind, *says = FILES[name]
    (folder / "m.py").write_text(text)
    with pytest.raises(EqsolveError) as caught:
        eqsolve.load("m.py")
    assert type(caught.value) is kind
    for words in says:
        assert words in str(caught.value)


def test_a_file_that_is_no_text(folder):
    (folder / "m.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot read the model file"):
        eqsolve.load("m.py")


def test_a_missing_file_and_an_unknown_name(folder):
    (folder / "models" / "decay.py").write_text(SOUND.format(name="decay"))
    with pytest.raises(UsageError, match=r"there is no model file 'nowhere\.py'"):
        eqsolve.load("nowhere.py")
    with pytest.raises(UsageError, match=r"unknown model `decai`; did you mean `decay`\? \(searched "):
        eqsolve.load("decai")


def test_a_file_whose_name_no_model_can_have(folder):
    (folder / "my-model.py").write_text(SOUND.format(name="my_model"))
    with pytest.raises(ModelError, match=r"my-model\.py: .* rename the file, for example to my_model\.py"):
        eqsolve.load("my-model.py")


def test_two_models_that_load_each_other(folder):
    for name, other in (("one", "two"), ("two", "one")):
        (folder / "models" / f"{name}.py").write_text(f"import eqsolve\nmodel = eqsolve.load('{other}')\n")
    with pytest.raises(ModelError, match=r"one\.py loads itself: one\.py -> two\.py -> one\.py"):
        eqsolve.load("one")
    (folder / "models" / "two.py").write_text(SOUND.format(name="two"))
    assert eqsolve.load("two").name == "two"  # the failure leaves nothing behind


def test_loading_twice_gives_the_same_model_and_an_edit_is_seen(folder):
    path = folder / "models" / "decay.py"
    path.write_text(SOUND.format(name="decay"))
    first = eqsolve.load("decay")
    assert eqsolve.load("decay") is eqsolve.load(str(path)) is first
    assert (first.doc, first.file) == ("Decay.", str(path))
    path.write_text(SOUND.format(name="decay").replace("w: 1", "w: 2.5"))
    assert eqsolve.load("decay") != first


def test_own_folders_come_first(folder, monkeypatch):
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "dln.py").write_text(SOUND.format(name="dln"))
    monkeypatch.setenv("EQSOLVE_PATH", str(elsewhere))
    assert eqsolve.load("dln").file == str(elsewhere / "dln.py")
    assert {item.name: item.path for item in list_models()}["dln"] == elsewhere / "dln.py"


def test_listing_runs_no_file(folder):
    (folder / "models" / "bad.py").write_text("'''Not run.'''\nraise SystemExit(1)\n")
    (folder / "models" / "worse.py").write_text("(\n")
    found = {item.name: item.summary for item in list_models()}
    assert found["bad"] == "Not run."
    assert found["worse"] == "(this file cannot be read)"


def test_a_copy_is_marked_in_the_list(folder):
    (folder / "models").mkdir(exist_ok=True)
    (folder / "models" / "copied.py").write_text(SOUND.format(name="first"))
    (folder / "models" / "first.py").write_text(SOUND.format(name="first"))
    said = {item.name: item.summary for item in list_models()}
    assert said["copied"] == "(named `first` inside: see `eqsolve check copied`) Decay."
    assert said["first"] == "Decay."


LINES = """\
from eqsolve import GP, E, Eq, System, correlation, param, process, times
t, tp = times("t t'")
w, z = process("w z")
C, k = correlation("C"), param("k", positive=True)
model = System(
    "m",
    eqs=[Eq(C(t, tp), E(w(t) * w(tp))), Eq(w(t).diff(t), -k * w(t) + z(t))],
    laws={z: GP(C(t, tp))},
    init={w: 1},
    defaults={k: 1},
    observables={
        "q": C(t, t),
    },
)
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("GP(C(t, tp))", "GP(C(t, t))", r"the law of `z` \(m.py:8\)"),
        ("{k: 1}", "{k: -1}", r"the default of `k` in model `m` \(m.py:10\)"),
        ("C(t, t),\n    }", "w(t),\n    }", r"observable `q` \(m.py:12\)"),
        ("Eq(w(t).diff(t)", "Eq(w(t).diff(tp)", r"\(m.py:7\) names no unknown.*did you mean `w\(t\).diff\(t\)`"),
    ],
)
def test_a_wrong_entry_is_told_with_its_own_line(folder, old, new, said):
    (folder / "m.py").write_text(LINES.replace(old, new))
    with pytest.raises(ModelError, match=said):
        check(eqsolve.load("./m.py"))
