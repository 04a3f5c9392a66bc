"""The page over a sweep: what it holds, and that the error of interpolation is never understated by more than a factor 3."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsolve
from eqsolve.cli import main
from eqsolve.explorer.export import advise, default_grid, interpolation_errors
from eqsolve.language.loading import load


def config(page: Path) -> dict[str, Any]:
    found = re.search(r'id="config">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    return dict(json.loads(found[1]))


def cubic(nodes: np.ndarray, values: np.ndarray, place: float) -> float:
    """Interpolate as the page does: through the four nodes around a place."""
    cell = min(max(int(np.searchsorted(nodes, place)) - 1, 0), len(nodes) - 2)
    near = min(max(cell - 1, 0), len(nodes) - 4) + np.arange(4)
    weights = [np.prod([(place - nodes[m]) / (nodes[k] - nodes[m]) for m in near if m != k]) for k in near]
    return float(np.dot(weights, values[near]))


@pytest.mark.parametrize(
    "function", [np.exp, np.sin, lambda x: 1 / (1 + 4 * x**2), lambda x: abs(x - 0.37), lambda x: np.tanh(5 * x), np.sign],
    ids=["exp", "sin", "Runge", "kink", "layer", "jump"],
)  # fmt: skip
@pytest.mark.parametrize("count", [5, 9, 14, 33])
def test_interpolation_errors_are_honest(function: Any, count: int) -> None:
    nodes = np.linspace(-2, 2, count)
    values = function(nodes)
    stated = interpolation_errors(values, [list(nodes)])
    for place in np.linspace(-2, 2, 401):
        cell = min(max(int(np.searchsorted(nodes, place)) - 1, 0), count - 2)
        around = max(stated[cell], stated[cell + 1])
        assert abs(cubic(nodes, values, place) - function(place)) <= 2 * around + 1e-12


def test_axes_add_up_and_choices_do_not_count() -> None:
    x, y = np.linspace(0, 1, 5), np.linspace(0, 1, 7)
    grid = np.exp(x)[:, None] + np.sin(3 * y)[None, :]
    both = interpolation_errors(grid, [list(x), list(y)])
    assert np.allclose(both, interpolation_errors(grid, [list(x), None]) + interpolation_errors(grid, [None, list(y)]))
    assert np.all(interpolation_errors(grid, [None, None]) == 0)


def test_a_written_page(slowed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    command = ["explore", str(slowed), "--export", str(page), "--grid", "a=0.5:2:5:log", "--t-max", "4", "--rtol", "1e-5"]
    assert main(command) == 0
    assert "5 points" in capsys.readouterr().err
    text = page.read_text(encoding="utf-8")
    assert "http" not in re.sub(r"http-equiv|http://www\.w3\.org/[\w/]+", "", text)  # nothing from elsewhere
    assert "default-src 'none'" in text.replace("&#x27;", "'")
    data = config(page)["data"]
    [axis] = data["axes"]
    assert (axis["kind"], axis["scale"]) == ("number", "log")
    assert np.allclose(np.exp(axis["nodes"]), [0.5, 0.5 * 2**0.5, 1, 2**0.5, 2])
    item, times = data["quantities"]["height"], np.array(data["t"])
    heights = np.array(item["values"]).reshape(5, -1)
    a = np.exp(np.array(axis["nodes"]))[:, None]
    assert item["log"]
    assert np.allclose(heights, a / (1 + a * times), rtol=1e-5)
    (tmp_path / "sweep.nc").write_bytes(base64.b64decode(config(page)["netcdf"]))
    assert np.allclose(eqsolve.open(tmp_path / "sweep.nc")["height"].values, heights, rtol=1e-6)


@pytest.mark.slow
def test_few_points_come_with_advice(slowed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tmp_path / "steep.py"
    text = slowed.read_text().replace("y(t)**2", "tanh(8*(y(t) - 1/2))").replace('slowed"', 'steep"')
    model.write_text(text.replace("from eqsolve", "from sympy import tanh\nfrom eqsolve"))
    for count, advised in ((4, True), (40, False)):
        page = tmp_path / f"page{count}.html"
        assert main(["explore", str(model), "--export", str(page), "--grid", f"a=0.2:5:{count}:log", "--t-max", "4"]) == 0
        said = config(page)["advice"]
        assert bool(said) == advised == ("interpolation is uncertain" in capsys.readouterr().err)
        assert not advised or "a: 4 values" in said


def test_the_grid_that_is_left_open() -> None:
    assert default_grid(load("dln"), {"alpha": "0.3"}) == {"delta": "0.125:2:9:log", "lam": "0:1:9:lin"}


def test_the_number_of_values_that_is_advised_does() -> None:
    """Of sin 3x on [-3, 3], by a cubic between equal nodes: as many as advised have narrow bands, the first had not."""

    def data(count: int) -> dict[str, Any]:
        nodes = np.linspace(-3, 3, count)
        values = np.sin(3 * nodes)
        between = interpolation_errors(values, [nodes.tolist()])
        quantity = {"values": values.tolist(), "between": between.tolist(), "log": False}
        return {"axes": [{"name": "x", "kind": "number", "nodes": nodes.tolist()}], "quantities": {"y": quantity}}

    said = advise(data(15))
    count = int(re.search(r"about (\d+) values of x", said)[1])
    assert 15 < count < 60
    assert advise(data(count)) == ""


def test_tiny_values_are_not_uncertain_by_more_than_all_there_is() -> None:
    """A jump in the logarithm of values from 1 to e⁻⁶⁰ is missed by many decades."""
    nodes = np.linspace(0, 1, 5)
    logarithm = -60 * nodes + 40 * (nodes > 0.4)
    between = interpolation_errors(logarithm, [nodes.tolist()])
    quantity = {"values": np.exp(logarithm).tolist(), "between": between.tolist(), "log": True}
    said = advise(
        {"axes": [{"name": "x", "kind": "number", "nodes": nodes.tolist()}], "t": None, "quantities": {"y": quantity}}
    )
    assert int(re.search(r"uncertain by up to (\d+)%", said)[1]) <= 100


def test_times_follow_early_and_late_change(slowed: Path, tmp_path: Path) -> None:
    assert (
        main(["explore", str(slowed), "--export", str(tmp_path / "page.html"), "--grid", "a=1:2:3", "--t-max", "4", "-q"]) == 0
    )
    times = np.array(config(tmp_path / "page.html")["data"]["t"])
    assert np.diff(times).max() <= 4 / 80 + 1e-3  # no polygon on a linear axis
    assert (times[2:] / times[1:-1]).max() <= 10 ** (4 / 39) * 1.01  # nor on a logarithmic one


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--export", "page.html", "--grid", "a=1:2:2"], "at least 3 values"),
        (["--export", "page.png"], "--export"),
        (["--export", "page.html", "--port", "80"], "--port is for the page that is served"),
        (["--grid", "a=1:2:5"], "--grid is for a page that is written"),
        (["--port", "many"], "--port takes a whole number"),
        (["--set", "a=-1"], "must be positive"),
        (["--set", "b=1"], "no parameter `b`"),
    ],
)
def test_what_cannot_be_meant(
    words: list[str], said: str, slowed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(slowed.parent)
    monkeypatch.setattr("eqsolve.explorer.export.sweep", None)  # before anything is solved
    assert main(["explore", str(slowed), *words]) == 2
    assert said in capsys.readouterr().err


def test_without_the_extra(slowed: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "latex2mathml.converter", None)
    assert main(["explore", str(slowed)]) == 2
    assert "pip install 'eqsolve[explore]'" in capsys.readouterr().err
    assert main(["explore", "--help"]) == 0
