"""explain, with and without a picture."""

import json

import pytest

from eqsolve.cli import main


def test_text_ends_with_the_solver_and_why(folder, capsys):
    assert main(["explain", "decay"]) == 0
    out = capsys.readouterr().out
    assert "decay.py:8  dy(t)/dt = -k*y(t)" in out
    assert "\nsolver\n  ode: " in out


def test_json(folder, capsys):
    assert main(["explain", "decay", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["model"] == "decay"
    assert made["blocks"] == [["y"]]
    assert made["solver"]["name"] == "ode"
    assert made["settings"] == [{"name": "k", "domain": "number > 0", "default": "1", "about": ""}]


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_graph(suffix, start, folder, capsys, contents):
    before = contents()
    assert main(["explain", "decay", "--graph", f"graph.{suffix}"]) == 0
    assert (folder / f"graph.{suffix}").read_bytes().startswith(start)
    assert contents() == sorted([*before, f"graph.{suffix}"])
    assert f"wrote graph.{suffix}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("model", "file", "said"),
    [
        ("decay", "graph.jpeg", "expected a file name *.png or *.svg or *.pdf"),
        ("decay", "graph", "with no suffix"),
        ("decay", "nowhere/graph.png", "there is no folder 'nowhere'"),
        ("decay", "models", "with no suffix"),
        ("quadratic", "graph.png", "only a System has a dependency graph"),
    ],
)
def test_bad_graph_files_are_refused_and_nothing_is_written(model, file, said, folder, capsys, contents):
    before = contents()
    assert main(["explain", model, "--graph", file]) == 2
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True), err
    assert contents() == before


def test_a_figure_that_fails_leaves_no_file(folder, contents, monkeypatch, capsys):
    from matplotlib.figure import Figure

    def fail(self, path, **options):
        with open(path, "w") as stream:
            stream.write("half")
        raise RuntimeError("no font")

    monkeypatch.setattr(Figure, "savefig", fail)
    before = contents()
    assert main(["explain", "decay", "--graph", "graph.png"]) == 70
    assert contents() == before


def test_an_unsound_model_is_explained_with_a_warning(folder, capsys):
    assert main(["explain", "unsound"]) == 0
    assert "eqsolve check unsound" in capsys.readouterr().err


def test_other_kinds(folder, capsys):
    assert main(["explain", "quadratic"]) == 0
    out = capsys.readouterr().out
    assert "x**2 = a" in out
    assert "evaluation order at each time" not in out
