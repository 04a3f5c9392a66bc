"""cite: the paper behind a model, and eqsolve itself."""

import json
import re
from pathlib import Path

import pytest

import eqsolve
from eqsolve.cli import main
from eqsolve.cli.inspect import find_entry, read_entries
from eqsolve.language.loading import list_models, load


def test_prints_both_entries(folder, capsys):
    assert main(["cite", "decay"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("@article{someone2000,\n  title = {On {Decay}},\n}\n")
    assert f"version = {{{eqsolve.__version__}}}" in out
    assert set(read_entries(out)) == {"someone2000", "eqsolve"}
    known = (Path(__file__).parents[2] / "CITATION.cff").read_text()
    released = re.search(r"date-released: (\d{4})", known)
    assert released
    assert f"year    = {{{released[1]}}}" in out
    assert f"version: {eqsolve.__version__}\n" in known


def test_json(folder, capsys):
    assert main(["cite", "decay", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["key"] == "someone2000"
    assert made["bibtex"].startswith("@article")


def test_a_model_without_a_paper(folder, capsys):
    assert main(["cite", "quadratic"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("@software{eqsolve")
    assert "names no paper" in err


def test_a_key_that_is_not_there(folder, capsys):
    (folder / "models" / "references.bib").write_text("@article{someone2001, title={On Decay}}")
    assert main(["cite", "decay"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "cites `someone2000`" in err
    assert "references.bib" in err
    assert "did you mean `someone2001`?" in err


def test_reads_entries_as_they_stand():
    text = "@string{a = {b}}\n@Article{x1,\n title = {A {B} \\{ C}}\n@misc{ y-2 , note={z}} @book{cut, title = {"
    assert read_entries(text) == {
        "x1": "@Article{x1,\n title = {A {B} \\{ C}}",
        "y-2": "@misc{ y-2 , note={z}}",
    }


@pytest.mark.parametrize("name", [item.name for item in list_models()])
def test_every_key_of_the_models_has_an_entry(name):
    model = load(name)
    if model.cite:
        assert find_entry(model).startswith("@")
