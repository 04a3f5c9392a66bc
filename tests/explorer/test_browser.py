"""The page as a person has it, in headless Chromium: what is moved, typed and clicked, and what is then shown.

Chromium is looked for on the path, or under the name in CHROMIUM; where there is none, these tests are skipped. Their
screenshots are kept in EQSOLVE_SCREENSHOTS, if that names a folder.
"""

import csv
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsolve
from eqsolve.cli import main
from eqsolve.explorer.server import Explorer


def _beside(name: str) -> Any:
    """Return a module that stands beside this one; tests are no package."""
    spec = spec_from_file_location(f"explorer_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


browsing, serving = _beside("browser"), _beside("conftest")
CHROMIUM = browsing.find_chromium()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium on the path (Debian: apt-get install chromium), CHROMIUM names none"
    ),
]
FINE = (
    "explorer.answer && explorer.answer.kind === 'fine' && explorer.job === null"
    " && !document.querySelector('#curves').classList.contains('stale')"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    found = browsing.Browser(CHROMIUM, tmp_path_factory.mktemp("browser"))
    yield found
    found.close()


def keep(page: Any, name: str) -> None:
    """Keep a screenshot for people to look at."""
    if folder := os.environ.get("EQSOLVE_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(Path(folder) / f"{name}.png", whole=True)


def curve(page: Any, name: str = "height") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what is drawn: times, values, errors."""
    t, values, errors = page.js(f"[explorer.answer.t, explorer.answer.values.{name}, explorer.answer.errors.{name}]")
    return np.array(t), np.array(values, dtype=float), np.array(errors, dtype=float)


def test_a_slider_moves_the_curve(browser: Any, explorer: Explorer, slowed: Path) -> None:
    page = browser.open(explorer.address)
    page.wait(FINE)
    assert page.text("#name") == "slowed"
    solves = "performance.getEntriesByType('resource').filter((item) => item.name.endsWith('/api/solve')).length"
    assert page.js(solves) == 2  # a first look, and its refinement
    assert page.js("getComputedStyle(document.querySelector('#tabs')).display") == "none"  # no fixed point, so no second tab
    assert page.js("document.querySelectorAll('#lines math').length") >= 4
    before = page.js("document.querySelector('path.curve').getAttribute('d')")
    page.drag("[data-slider=a]", 0.55, 0.6, 0.65, 0.7, 0.75)
    page.wait(FINE)
    a = float(page.js("document.querySelector('#set-a').value"))
    assert a > 2
    assert page.js("document.querySelector('path.curve').getAttribute('d')") != before
    times, heights, errors = curve(page)
    assert np.all(np.abs(heights - a / (1 + a * times)) <= 3 * errors + 1e-14)
    solved = eqsolve.solve(str(slowed), a=a, t_max=5, rtol=1e-4).at(times)["height"].values
    assert np.allclose(heights, solved, rtol=1e-12)
    shown = page.text("#readout [data-value=height]")
    assert float(shown.split("±")[0]) == pytest.approx(a / (1 + 5 * a), rel=1e-3)
    axis = "explorer.options.logx.checked"
    chosen = page.js(axis)
    page.js(f"{axis} = {str(not chosen).lower()}")  # another axis than the one that the answers ask for
    slider = "document.querySelector('[data-slider=a]')"
    page.js(f"{slider}.dispatchEvent(new PointerEvent('pointerdown', {{ bubbles: true }}))")
    page.js(f"{slider}.value = Number({slider}.value) - 20, {slider}.dispatchEvent(new Event('input'))")
    page.wait(f"explorer.later !== undefined && {FINE}")
    assert page.js(axis) != chosen  # it stays while the slider is held
    page.js("dispatchEvent(new PointerEvent('pointerup'))")
    assert page.js(axis) == chosen
    assert page.problems() == []
    keep(page, "slider")
    page.close()


def test_a_bad_value_shows_the_message_and_a_good_one_takes_it_away(browser: Any, explorer: Explorer) -> None:
    page = browser.open(explorer.address)
    page.wait(FINE)
    page.type("#set-a", "-1")
    page.wait("!document.querySelector('#message').hidden")
    assert "parameter `a` of model `slowed` must be positive, got -1" in page.text("#message")
    assert page.js("document.querySelector('#set-a').getAttribute('aria-invalid')") == "true"
    offered = "['#netcdf', '#csv', '[data-copy=python]'].filter((item) => !document.querySelector(item).disabled).length"
    assert page.js(offered) == 0  # neither files nor code of what is refused
    keep(page, "bad_value")
    page.type("#set-a", "1/3")
    page.wait(FINE)
    assert page.js(offered) == 3
    assert page.js("document.querySelector('#message').hidden")
    times, heights, errors = curve(page)
    assert np.all(np.abs(heights - 1 / (3 + times)) <= 3 * errors + 1e-14)
    page.close()


def test_a_link_restores_the_state_and_tabs_are_apart(browser: Any, explorer: Explorer) -> None:
    first = browser.open(explorer.address)
    first.wait(FINE)
    first.type("#set-a", "3")
    first.type("#option-t_max", "2")
    first.click("#option-logy")
    first.click("[data-show=area]")
    first.wait(f"{FINE} && explorer.answer.asked.settings.a === '3' && explorer.answer.t.at(-1) === 2")
    first.wait("location.hash.includes('t_max=2')")
    second = browser.open(first.js("location.href"))
    second.wait(FINE)
    boxes = "document.querySelector('#set-a').value, document.querySelector('#option-t_max').value"
    state = f"[{boxes}, explorer.shown, explorer.answer.t.at(-1)]"
    assert second.js(state) == first.js(state) == ["3", "2", ["height"], 2]
    assert second.js("document.querySelector('#option-logy').checked")
    second.type("#set-a", "0.5")
    second.wait(f"{FINE} && explorer.answer.asked.settings.a === '0.5'")
    assert first.js("explorer.answer.asked.settings.a") == "3"
    assert first.js("explorer.session") != second.js("explorer.session")
    first.close()
    second.type("#set-a", "0.7")  # the other tab's end is not this one's
    second.wait(f"{FINE} && explorer.answer.asked.settings.a === '0.7'")
    second.close()


def test_files_and_recipes(
    browser: Any, explorer: Explorer, slowed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = browser.open(explorer.address)
    page.wait(FINE)
    page.type("#set-a", "2")
    page.wait(f"{FINE} && explorer.answer.asked.settings.a === '2'")
    for button in ("png", "csv", "netcdf"):
        page.click(f"#{button}")
    picture = page.downloaded("slowed.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    lines = [line for line in page.downloaded("slowed.csv").read_text().splitlines() if not line.startswith("#")]
    table = {key: np.array([float(row[key]) for row in csv.DictReader(lines)]) for key in ("t", "height", "height_error")}
    assert np.all(np.abs(table["height"] - 2 / (1 + 2 * table["t"])) <= 3 * table["height_error"] + 1e-14)
    saved = eqsolve.open(page.downloaded("slowed.nc"), model=str(slowed))
    assert np.allclose(saved.at(table["t"])["height"], table["height"], rtol=1e-12)
    values: dict[str, Any] = {}
    monkeypatch.chdir(tmp_path)
    exec(page.text("#python"), values)
    assert (tmp_path / "slowed.png").is_file()
    (tmp_path / "slowed.png").unlink()
    assert np.allclose(values["res"].at(table["t"])["height"], table["height"], rtol=1e-12)
    command = page.text("#command").replace("eqsolve ", f"{sys.executable} -m eqsolve ", 1) + " --json"
    run = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert json.loads(run.stdout)["params"] == {"a": 2}
    assert (tmp_path / "slowed.png").is_file()
    page.close()


SLOW = "1e-11"  # a tolerance that keeps the solver busy


def test_a_slow_solve_is_stopped(browser: Any, explorer: Explorer) -> None:
    page = browser.open(explorer.address)
    page.wait(FINE)
    page.type("#option-rtol", SLOW)
    page.type("#option-t_max", "30000")
    page.wait("explorer.job?.kind === 'fine'")
    page.click("#stop")
    page.wait("document.querySelector('#status').innerText === 'stopped'")
    page.type("#option-rtol", "1e-3")
    page.type("#option-t_max", "4")
    page.wait(f"{FINE} && explorer.answer.t.at(-1) === 4")
    page.close()


def test_the_file_is_followed(browser: Any, explorer: Explorer, slowed: Path) -> None:
    page = browser.open(explorer.address)
    page.wait(FINE)
    text = slowed.read_text()
    slowed.write_text(text.replace("-y(t) * (a", "-yy(t) * (a"))
    page.js("dispatchEvent(new Event('focus'))")
    page.wait("!document.querySelector('#message').hidden")
    assert "slowed.py:11" in page.text("#message")
    assert "yy" in page.text("#message")
    keep(page, "broken_file")
    slowed.write_text(text.replace("defaults={a: 1}", "defaults={a: 4}"))
    page.js("dispatchEvent(new Event('focus'))")
    page.wait(f"{FINE} && explorer.answer.asked.settings.a === '4'")
    assert page.js("document.querySelector('#message').hidden")
    page.close()


def test_fixed_point_rate_and_finite_size(browser: Any) -> None:
    server = serving.serve("dln", settings={"delta": "0.6"}, t_max=3, rtol=1e-3)
    try:
        page = browser.open(server.address, 1300, 1000, dark=True)
        page.wait(f"{FINE} && !document.querySelector('#tabs').hidden")
        assert page.js("document.querySelector('#option-logx').checked") is False  # no decades of change by t = 3
        assert "overlap" in page.text("#lines").replace("\n", "")  # what is drawn is defined
        page.js("document.querySelector('#d').value = '60'")
        page.click("#run-finite")
        page.wait("explorer.runs.size && explorer.job === null")
        assert page.js("document.querySelectorAll('circle.point').length") == 16
        assert "d = 60" in page.text("#verdict")
        keep(page, "finite_size")
        page.click("#tab-rest")
        page.wait("explorer.rest && explorer.job === null")
        for name, value in (("dln_fixed_point", "E_test"), ("dln_rate", "gamma")):
            shown = float(page.text(f"[data-related={name}] [data-value={value}]").split("±")[0])
            known = eqsolve.solve(name, alpha=0.3, delta=0.6)
            assert shown == pytest.approx(float(known[value]), rel=1e-6)
        keep(page, "fixed_point")
        page.type("#set-lam", "0.1")
        page.wait("explorer.job === null && explorer.rest.asked.settings.lam === '0.1'")
        assert "it has no parameter `lam` (here 0.1)" in page.text("[data-related=dln_rate]")
        assert not page.js("document.querySelector('#recipe').offsetHeight")  # which is that of the curves
        page.click("#tab-curves")
        page.type("#set-alpha", "0.81")
        time.sleep(0.9)  # in the middle of the solve
        page.click("#run-finite")
        keep(page, "run_ordered_while_solving")
        page.wait(f"{FINE} && explorer.runs.size === 2")
        shown = float(page.text("#readout [data-value=E_test]").split("±")[0])
        solved = eqsolve.solve("dln", alpha=0.81, delta=0.6, lam=0.1, t_max=3)
        assert shown == pytest.approx(solved.at([3.0])["E_test"].item(), rel=1e-3)
        assert page.js("[...explorer.runs.values()][1].asked.settings.alpha") == "0.81"
        page.type("#set-alpha", "0.5")
        keep(page, "other_settings")
        assert "for alpha = 0.81" in page.text("#verdict .found.stale")
        assert page.problems() == []
        page.close()
    finally:
        server.shutdown()
        server.server_close()


def test_a_click_on_the_map_of_phases_sets_two_sliders(browser: Any) -> None:
    server = serving.serve("lotka_volterra", settings={}, t_max=0.5, rtol=0.05)
    try:
        page = browser.open(server.address, 1300, 1000)
        page.wait("!document.querySelector('#tabs').hidden")
        assert page.js("document.querySelector('#tab-rest').hidden")  # no fixed point is declared for it
        page.click("#tab-phases")
        page.choose("#across", "sigma")
        page.choose("#up", "mu")
        page.click("#run-map")
        page.wait("explorer.map && explorer.job === null", 240)
        kinds, sigma = page.js("[explorer.map.boundaries.kind, explorer.map.boundaries.sigma]")
        lost = [place for kind, place in zip(kinds, sigma, strict=True) if kind == "stability"]
        assert lost
        assert min(abs(np.array(lost) - 2**0.5)) < 1e-5
        assert page.js("document.querySelectorAll('#map .cell').length") == 192
        assert {"still", "not at rest", "unbounded"} <= set(page.js("explorer.map.classes.flat()"))
        assert page.js("document.querySelectorAll('#map .boundary[data-kind=stability]').length") > 3
        keep(page, "phases")
        page.click("#map svg")  # its middle
        page.wait(f"explorer.answer.asked.settings.sigma !== '0.5' && {FINE}")
        chosen = "['sigma', 'mu'].map((name) => explorer.controls.find((item) => item.name === name))"
        low, high = page.js(f"{chosen}.map((item) => Number(item.text))")
        ends = page.js(f"{chosen}.map((item) => [item.spec.low, item.spec.high])")
        width, height = page.js(
            "(({ width, height }) => [width, height])(document.querySelector('#map svg').getBoundingClientRect())"
        )
        across, up = (width / 2 - 66) / (width - 66 - 18), (height / 2 - 48) / (height - 12 - 48)  # the edges around the map
        assert low == pytest.approx(ends[0][0] + across * (ends[0][1] - ends[0][0]), rel=1e-2)
        assert high == pytest.approx(ends[1][0] + up * (ends[1][1] - ends[1][0]), rel=2e-2, abs=0.05)
        assert page.problems() == []
        page.close()
    finally:
        server.shutdown()
        server.server_close()


def test_a_model_without_time_is_drawn_over_a_parameter(browser: Any) -> None:
    server = serving.serve("ridge", settings={"lam": "0.3"}, rtol=1e-3)
    try:
        page = browser.open(server.address)
        page.wait(FINE)
        assert page.js("explorer.answer.x") == "delta"
        deltas, values, _ = curve(page, "E_test")
        place = 20
        assert values[place] == pytest.approx(float(eqsolve.solve("ridge", lam=0.3, delta=deltas[place])["E_test"]), rel=1e-9)
        here = float(page.text("#readout [data-value=E_test]").split("±")[0])
        assert here == pytest.approx(float(eqsolve.solve("ridge", lam=0.3)["E_test"]), rel=1e-6)
        page.choose("[data-law=w_star]", "Normal")
        page.wait(f"{FINE} && explorer.answer.asked.settings.w_star === 'Normal(0, 1)'")
        here = float(page.text("#readout [data-value=E_test]").split("±")[0])
        assert here == pytest.approx(float(eqsolve.solve("ridge", lam=0.3, w_star="Normal(0, 1)")["E_test"]), rel=1e-6)
        assert "eqsolve sweep ridge --grid delta=" in page.text("#command")
        keep(page, "fixed_point_model")
        page.close()
    finally:
        server.shutdown()
        server.server_close()


DECAYS = '''"""Decays at the rates a (k + 1), and all products of two of them."""

from sympy import exp

from eqsolve import Eq, System, function, index, param, times

t = times("t")
a = param("a", positive=True)
k, l = index("k l", 12)
y = function("y", k)
model = System(
    "decays", eqs=[Eq(y[k](t).diff(t), -a * (k + 1) * y[k](t))], init={y[k]: 1}, defaults={a: 1},
    observables={"pair": y[k](t) * y[l](t), "first": y[0](t)},
)
'''


def test_members_are_chosen_by_their_index(browser: Any, tmp_path: Path) -> None:
    (path := tmp_path / "decays.py").write_text(DECAYS)
    server = serving.serve(str(path), settings={}, t_max=1, rtol=1e-4)
    try:
        page = browser.open(server.address)
        page.wait(FINE)
        boxes = "[...document.querySelectorAll('#names input')].map((item) => item.dataset.show)"
        some = page.js(boxes)
        assert len([name for name in some if name.startswith("y_")]) == 7
        assert "first" in some
        page.js("explorer.shown = ['first', 'y_0']")
        page.type("#option-index-k", "3, 9-10")
        assert [name for name in page.js(boxes) if name.startswith("y_")] == ["y_3", "y_9", "y_10"]
        assert page.js("explorer.shown") == ["first", "y_3", "y_9", "y_10"]
        assert page.js("document.querySelectorAll('path.curve').length") == 4
        for place in (3, 9, 10):
            times, values, errors = curve(page, f"y_{place}")
            assert np.all(np.abs(values - np.exp(-(place + 1) * times)) <= 3 * errors + 1e-12)
            shown = float(page.text(f"#readout [data-value=y_{place}]").split("±")[0])
            assert shown == pytest.approx(np.exp(-place - 1), rel=1e-3)
        assert 'res.plot("first", "y_3", "y_9", "y_10"' in page.text("#python")
        page.type("#option-index-l", "5")
        assert [name for name in page.js(boxes) if name.startswith("pair")] == ["pair_3_5", "pair_9_5", "pair_10_5"]
        times, values, _ = curve(page, "pair_3_5")
        np.testing.assert_allclose(values, np.exp(-10 * times), rtol=1e-3, atol=1e-5)
        keep(page, "members")
        again = browser.open(page.js("location.href"))
        again.wait(FINE)
        assert again.js(boxes) == page.js(boxes)
        assert again.js("explorer.shown") == page.js("explorer.shown")
        again.close()
        invalid = "document.querySelector('#option-index-k').getAttribute('aria-invalid')"
        for wrong in ("12", "k"):
            page.type("#option-index-k", wrong)
            assert page.js(invalid) == "true"
        page.type("#option-index-l", "")
        page.type("#option-index-k", "")
        assert page.js(invalid) == "false"
        assert page.js(boxes) == some
        solves = "performance.getEntriesByType('resource').filter((item) => item.name.endsWith('/api/solve')).length"
        assert page.js(solves) == 2  # a first look, and its refinement
        assert page.problems() == []
        page.close()
    finally:
        server.shutdown()
        server.server_close()


INVERSE = '''"""The larger root of x**2 + h*x = b, which is infinite over b where b is 0."""

from eqsolve import Eq, FixedPoint, param, unknown

b, h = param("b", nonnegative=True), param("h", nonnegative=True)
x = unknown("x", nonnegative=True)
model = FixedPoint("inverse", eqs=[Eq(x**2 + h * x, b)], defaults={b: 2, h: 1}, observables={"share": x / b})
'''


def test_where_a_model_divides_by_zero_no_slider_begins(browser: Any, tmp_path: Path) -> None:
    (path := tmp_path / "inverse.py").write_text(INVERSE)
    server = serving.serve(str(path), settings={}, rtol=1e-3)
    try:
        page = browser.open(server.address)
        page.wait(FINE)
        values, shares, _ = curve(page, "share")
        assert values[0] == 0.2
        np.testing.assert_allclose(shares, (np.sqrt(1 + 4 * values) - 1) / 2 / values, rtol=1e-6)
        page.type("#set-b", "-3")  # the curve over b is right all the same
        page.wait("!document.querySelector('#message').hidden && explorer.job === null")
        assert "parameter `b` of model `inverse` must be nonnegative, got -3" in page.text("#message")
        assert page.js("document.querySelector('#set-b').getAttribute('aria-invalid')") == "true"
        assert page.text("#readout") == ""
        keep(page, "bad_value_on_a_curve")
        page.type("#set-b", "6")
        page.wait(f"{FINE} && explorer.answer.asked.settings.b === '6'")
        assert float(page.text("#readout [data-value=share]").split("±")[0]) == pytest.approx(1 / 3, rel=1e-6)
        page.wait("!document.querySelector('#tab-phases').hidden")
        page.click("#tab-phases")
        assert "How many fixed points there are over two parameters" in page.text("#phases")
        keep(page, "phases_of_a_fixed_point")
        page.close()
    finally:
        server.shutdown()
        server.server_close()


def test_an_exported_page(browser: Any, slowed: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    words = ["--grid", "a=0.2:5:9:log", "--t-max", "4", "--rtol", "1e-5", "-q"]
    assert main(["explore", str(slowed), "--export", str(target), *words]) == 0
    page = browser.open(target.as_uri(), 900, 800)
    for share in (0.13, 0.4, 0.5, 0.77, 0.98):
        page.drag("[data-slider=a]", share)
        a = float(page.js("document.querySelector('#set-a').value"))
        times, heights, errors = curve(page)
        miss = np.abs(heights - a / (1 + a * times))
        assert np.all(miss <= 3 * errors + 1e-6 * heights)
        assert np.all(errors <= 0.02 * heights)
    page.type("#set-a", "7")
    page.wait("!document.querySelector('#message').hidden")
    assert "`a` runs from 0.2 to 5 on this page, got 7" in page.text("#message")
    assert page.js("document.querySelector('#curves').classList.contains('stale')")
    assert page.text("#whose").startswith("Not of these settings: solved for a = ")
    keep(page, "exported_out_of_range")
    page.type("#set-a", "1/2")
    page.wait("document.querySelector('#message').hidden")
    page.click("#netcdf")
    assert eqsolve.open(page.downloaded("slowed_sweep.nc"))["height"].shape == (9, len(times))
    assert re.search(r"eqsolve solve slowed.py --set a=1/2 --t-max 4", page.text("#command"))
    assert page.problems() == []
    keep(page, "exported")
    page.close()


def test_a_page_over_few_points_says_how_many_would_do(browser: Any, slowed: Path, tmp_path: Path) -> None:
    """tanh(8 (y − 1/2)) between four values of a: no cubic follows it, and the page says so beside its bands."""
    model = tmp_path / "steep.py"
    text = slowed.read_text().replace("y(t)**2", "tanh(8*(y(t) - 1/2))").replace('slowed"', 'steep"')
    model.write_text(text.replace("from eqsolve", "from sympy import tanh\nfrom eqsolve"))
    words = ["--grid", "a=0.2:5:4:log", "--t-max", "4", "-q"]
    assert main(["explore", str(model), "--export", str(tmp_path / "page.html"), *words]) == 0
    page = browser.open((tmp_path / "page.html").as_uri(), 900, 800)
    said = page.text("#status")
    assert re.search(r"interpolation is uncertain by up to \d+% of a curve's height \(a: 4 values\)", said)
    assert "--grid" in said
    keep(page, "exported_few_points")
    page.close()


def test_the_slider_of_a_sweep_chooses_its_time(browser: Any, tmp_path: Path) -> None:
    swept = eqsolve.sweep("dln_infinite_data", alpha=[0.1, 0.3, 1, 3], lam=[0, 0.1, 0.3], at=[0.5, 1, 2, 4])
    swept.slider("E_test", kind="map").save(tmp_path / "times.html")
    page = browser.open((tmp_path / "times.html").as_uri())
    shown = (
        "[...document.querySelectorAll('figure')].filter(each => each.offsetHeight > 100).map(each => each.innerText.trim())"
    )
    assert page.js(shown) == ["t = 4"]
    for place, when in ((1, "t = 1"), (0, "t = 0.5")):
        page.js(f"(e => {{ e.value = {place}; e.dispatchEvent(new Event('input')); }})(document.querySelector('input'))")
        assert page.js(shown) == [when]
    assert page.problems() == []
    keep(page, "times")
    page.close()
