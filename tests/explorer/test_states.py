"""What the page shows belongs to its settings, or says that it does not, whatever is clicked and when.

A worker with a known solution answers at random speeds; random sequences of clicks are played on the page in Chromium. All
the time, numbers that are not faded are those of the settings on the left; at rest, they are there, or the page says why
not; and every run at finite size that was ordered has been done.
"""

import json
import os
import random
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from eqsolve.explorer.server import Session


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
pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on the path (Debian: apt-get install chromium), CHROMIUM names none"
)

WORKER = """
import random, sys, time
from eqsolve.explorer import jobs

chance = random.Random(1)

def number(request, name):
    value = jobs._number(request["settings"][name], name)
    if value <= 0:
        raise jobs.UsageError(f"parameter `{name}` of model `slowed` must be positive, got {value:g}")
    return value

def work(progress, longest):
    end = time.monotonic() + chance.random() * longest
    while time.monotonic() < end:
        progress(0.5, 1.0, "")
        time.sleep(0.002)

def describe(state, model, request, progress):
    return {**jobs.run_describe(state, model, request, progress), "finite": True}

def solve(state, model, request, progress):
    work(progress, 0.04)
    a, last = number(request, "a"), jobs._number(request["t_max"], "t_max")
    t = [last * k / 8 for k in range(9)]
    values = {"height": [a / (1 + a * moment) for moment in t], "area": [(a / (1 + a * moment)) ** 2 for moment in t]}
    errors = {name: [1e-9] * 9 for name in values}
    about = {"status": "ok", "message": "", "solver": "stub", "seconds": 0.01}
    return {**about, "rtol": request["rtol"], "params": {}, "x": "t", "t": t, "values": values, "errors": errors}

def neighbours(state, model, request, progress):
    return {"related": [{"name": "end", "kind": "FixedPoint", "equations": []}]}

def related(state, model, request, progress):
    work(progress, 0.04)
    item = {"name": "end", "kind": "FixedPoint", "status": "ok", "message": "", "values": {"slope": number(request, "a") ** 2}}
    return {"related": [{**item, "errors": {"slope": 1e-9}}]}

def finite(state, model, request, progress):
    work(progress, 0.15)
    a, last = number(request, "a"), jobs._number(request["t_max"], "t_max")
    numbers = {"height": [a / (1 + a * last)]}
    about = {"d": int(request["d"]), "n": 7, "notes": []}
    about["seeds"] = int(request["seeds"])
    found = {"t": [last], "values": numbers, "errors": {"height": [1e-3]}, "z": {"height": [0.1]}}
    return {**about, **found, "verdict": f"agree at a = {a:g} to t = {last:g}"}

jobs.VERBS.update(describe=describe, solve=solve, neighbours=neighbours, related=related, finite=finite)
jobs.PAUSE = 0.005
jobs.serve(sys.argv[1])
"""

# In the page: what a person does, what is on it, and a watch that looks every few milliseconds.
HELPERS = """
window.by = (selector) => document.querySelector(selector);
window.put = (selector, text) => { by(selector).value = text; by(selector).dispatchEvent(new Event('input', { bubbles: true })); };
window.sleep = (ms) => new Promise((done) => setTimeout(done, ms));
window.read = (text) => { const parts = text.split('/').map(Number); return parts.length === 2 ? parts[0] / parts[1] : parts[0]; };
window.broken = [];
window.orders = [];
window.close_to = (text, value) => Math.abs(parseFloat(text) - value) <= 1e-4 * value;
window.look = () => {
  const [a, last] = [read(by('#set-a').value), read(by('#option-t_max').value)];
  const where = `a = ${by('#set-a').value}, t_max = ${by('#option-t_max').value}, rtol = ${by('#option-rtol').value}`;
  const height = by('#readout [data-value=height]')?.innerText;
  const faded = by('#curves').classList.contains('stale');
  if (!by('#curves').hidden && height && !faded && !close_to(height, a / (1 + a * last))) broken.push(`${where}: shows ${height}`);
  if (!by('#curves').hidden && height && faded && by('#whose').hidden) broken.push(`${where}: faded without a word`);
  const slope = by('#rest [data-value=slope]')?.innerText;
  if (!by('#rest').hidden && slope && !by('#rest').classList.contains('stale') && !close_to(slope, a * a)) broken.push(`${where}: rest ${slope}`);
  const found = by('#verdict .found');
  if (found && !found.classList.contains('stale') && !/no runs/.test(found.innerText) && !found.innerText.includes(`agree at a = ${a} to t = ${last} `)) broken.push(`${where}: verdict ${found.innerText}`);
};
window.steps = {
  type: (text) => put('#set-a', text),
  slide: (text) => put('[data-slider=a]', text),
  last: (text) => put('#option-t_max', text),
  rtol: (text) => put('#option-rtol', text),
  finite: (text) => {
    put('#d', text);
    if (!(read(by('#set-a').value) > 0)) return;
    by('#run-finite').click();
    orders.push(`agree at a = ${read(by('#set-a').value)} to t = ${read(by('#option-t_max').value)}`);
  },
  stop: () => { if (!by('#stop').hidden) { by('#stop').click(); orders.length = 0; } },
  tab: (name) => by(`#tab-${name}`).click(),
  reset: () => by('#reset').click(),
  focus: () => dispatchEvent(new Event('focus')),
  log: () => by('#option-logy').click(),
};
window.play = async (sequence) => {
  orders.length = 0;
  const watch = setInterval(look, 4);
  for (const [step, text, pause] of sequence) { steps[step](text); look(); await sleep(pause); }
  for (let quiet = 0; quiet < 3;) { await sleep(15); quiet = explorer.job === null && performance.now() > explorer.restsAt ? quiet + 1 : 0; }
  clearInterval(watch);
  look();
  const done = [...explorer.runs.values()].map((item) => item.verdict);
  const state = { status: by('#status').innerText, message: by('#message').hidden ? '' : by('#message').innerText, stale: by('#curves').classList.contains('stale') };
  return { ...state, a: by('#set-a').value, rest: by('#rest').classList.contains('stale'), tab: explorer.tab, lost: orders.filter((item) => !done.includes(item)), broken: broken.splice(0) };
};
explorer.pause = { slider: 25, typing: 45 };
"""  # noqa: E501


def sequence(chance: random.Random) -> list[tuple[str, str, int]]:
    """Return what one person does: steps with their texts, and the milliseconds until the next."""
    choices = {
        "type": lambda: chance.choice(["0.3", "0.81", "1/2", "2", "-1", "4"]),
        "slide": lambda: str(chance.randrange(0, 1001)),
        "last": lambda: chance.choice(["2", "5", "10"]),
        "rtol": lambda: chance.choice(["1e-3", "1e-4", "0.1"]),
        "finite": lambda: chance.choice(["100", "400"]),
        "stop": lambda: "",
        "tab": lambda: chance.choice(["curves", "rest"]),
        "reset": lambda: "",
        "focus": lambda: "",
        "log": lambda: "",
    }
    weights = [6, 6, 3, 2, 8, 2, 3, 1, 1, 1]
    steps = chance.choices(list(choices), weights, k=chance.randint(2, 8))
    return [(step, choices[step](), chance.choice([0, 1, 5, 20, 40, 60, 90])) for step in steps]


@pytest.fixture
def page(slowed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(Session, "program", WORKER)
    server = serving.serve(str(slowed), settings={}, t_max=5, rtol=1e-4)
    browser = browsing.Browser(CHROMIUM, tmp_path / "browser")
    try:
        found = browser.open(server.address)
        found.wait("explorer.answer?.kind === 'fine' && !document.querySelector('#tabs').hidden")
        found.js(HELPERS)
        yield found
    finally:
        browser.close()
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("count", [4, pytest.param(int(os.environ.get("EQSOLVE_CLICKS", 40)), marks=pytest.mark.slow)])
def test_random_clicks(page: Any, count: int) -> None:
    """So many sequences; EQSOLVE_CLICKS=500 is for a change of the page."""
    chance = random.Random(count)
    for _ in range(count):
        played = sequence(chance)
        found = page.js(f"play({json.dumps(played)})")
        assert found["broken"] == [], played
        assert found["lost"] == [], played
        said = "stopped" in found["status"] or (found["message"] and "not solved" in found["status"])
        assert said or not found["stale"], (played, found)
        assert said or found["tab"] == "curves" or not found["rest"], (played, found)
        if found["a"] == "-1" and not said:
            assert "must be positive" in found["message"], (played, found)
    assert page.problems() == []
