"""Whatever is typed, there is a result or a clear error: no traceback, no hang, no file, no code run.

The default run tries a share of the inputs; ``-m slow`` tries two thousand five hundred.
"""

import random
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

import eqsolve
from eqsolve.cli import main
from eqsolve.cli.options import read_options, read_settings
from eqsolve.cli.sweep import read_grid
from eqsolve.errors import EqsolveError
from eqsolve.files.checkpoint import Checkpoint
from eqsolve.sweeping.run import check_settings, read_axes

from . import inputs
from .conftest import DECAY, listing, time_limit

SHARES = {  # together ten thousand
    "set": 4300, "grid": 2100, "times": 2000, "model": 1000, "file": 300, "checkpoint": 100, "command": 200,
}  # fmt: skip
QUICK = 20  # the default run tries one in so many
SEED = 20260

levels = pytest.mark.parametrize("every", [QUICK, pytest.param(4, marks=pytest.mark.slow)])


def draws(kind: str, every: int) -> list[random.Random]:
    """One generator per input, so that each can be repeated alone."""
    return [random.Random(f"{SEED} {kind} {index}") for index in range(0, SHARES[kind], every)]


def attempt(call: Callable[[], object], shown: str) -> None:
    """Run something that may raise only errors of ours, with a message, within the time limit."""
    message = "fine"
    with time_limit(shown):
        try:
            call()
        except EqsolveError as error:
            message = str(error)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__}: {error} for {shown}") from error
    assert message.strip(), shown
    assert len(message) < 2000, shown


@levels
def test_set(every: int, folder: Path) -> None:
    from eqsolve.language.binding import bind

    model, before = eqsolve.load("decay"), listing(folder)
    for rng in draws("set", every):
        words = [inputs.setting(rng) for _ in range(rng.randrange(1, 3))]
        attempt(lambda words=words: bind(model, read_settings(words)), f"--set {words!r}")
    assert listing(folder) == before


@levels
def test_grid(every: int, folder: Path) -> None:
    model, before = eqsolve.load("decay"), listing(folder)
    for rng in draws("grid", every):
        words = [f"{rng.choice(['k', 'b', 'a', 'q'])}={inputs.grid(rng)}" for _ in range(rng.randrange(1, 3))]
        fixed = [inputs.setting(rng)] if rng.random() < 0.2 else []

        def read(words: list[str] = words, fixed: list[str] = fixed) -> None:
            check_settings(model, read_axes(model, read_grid(words)), read_settings(fixed))

        attempt(read, f"--grid {words!r} --set {fixed!r}")
    assert listing(folder) == before


@levels
def test_times(every: int, folder: Path) -> None:
    before = listing(folder)
    for rng in draws("times", every):
        text = inputs.moments(rng)
        name = rng.choice(["at", "at2"])
        given = Namespace(table=[name], **{name: text})
        attempt(lambda given=given: read_options(given), f"--{name} {text!r}")
    assert listing(folder) == before


@levels
def test_model_text(every: int, folder: Path) -> None:
    file = folder / "models" / "decay.py"
    before = listing(folder)
    for rng in draws("model", every):
        text = inputs.model_text(rng, DECAY)
        file.write_text(text, encoding="utf-8", errors="replace")

        def load() -> None:
            eqsolve.check(eqsolve.load("decay"))

        attempt(load, text)
    assert listing(folder) == before


@levels
def test_result_files(every: int, folder: Path) -> None:
    eqsolve.solve("decay", t_max=1).save("good.nc")
    good = (folder / "good.nc").read_bytes()
    before = [*listing(folder), "bad.nc"]
    for number, rng in enumerate(draws("file", every)):
        made = bytearray(good)
        for _ in range(rng.choice([1, 1, 5, 50])):
            made[rng.randrange(len(made))] = rng.randrange(256)
        if rng.random() < 0.2:
            made = made[: rng.randrange(len(made))]
        (folder / "bad.nc").write_bytes(made)
        attempt(lambda: eqsolve.open("bad.nc"), f"file {number}")
    assert listing(folder) == sorted(before)


@levels
def test_checkpoint_files(every: int, folder: Path) -> None:
    """A damaged checkpoint costs steps, never the numbers."""
    options = {"t_max": 2, "rtol": 1e-2}
    exact = eqsolve.solve("integro_nonlinear", **options)["y"].values
    eqsolve.solve("integro_nonlinear", checkpoint=Checkpoint("good"), **options)
    good = (folder / "good").read_bytes()
    for number, rng in enumerate(draws("checkpoint", every)):
        made = bytearray(good)
        for _ in range(rng.choice([1, 1, 5])):
            made[rng.randrange(len(made))] = rng.randrange(256)
        if rng.random() < 0.2:
            made = made[: rng.randrange(len(made))]
        (folder / "bad").write_bytes(made)

        def resume() -> None:
            found = eqsolve.solve("integro_nonlinear", checkpoint="bad", resume=True, **options)
            assert found["y"].values.tobytes() == exact.tobytes()

        attempt(resume, f"checkpoint {number}")


@levels
def test_whole_commands(every: int, folder: Path, capsys: pytest.CaptureFixture) -> None:
    before = listing(folder)
    for rng in draws("command", every):
        words = {
            "solve": ["--set", inputs.setting(rng), f"--at={inputs.moments(rng)}", f"--rtol={inputs.text(rng)}"],
            "show": ["--set", inputs.setting(rng), inputs.setting(rng)],
            "sweep": ["--grid", f"k={inputs.grid(rng)}", "--json", f"--at={rng.choice(['1', inputs.moments(rng)])}"],
            "check": [inputs.text(rng)],
        }
        verb = rng.choice(list(words))
        command = [verb, "decay", *words[verb]]
        with time_limit(repr(command)):
            code = main(command)
        err = capsys.readouterr().err
        assert code in (0, 1, 2), (command, err)
        assert "Traceback" not in err, command
        assert code == 0 or "error: " in err, command
    assert listing(folder) == before


@pytest.mark.parametrize("text", inputs.HOSTILE)
def test_set_never_runs_code(text: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    before = listing(folder)
    assert main(["solve", "decay", "--set", f"k={text}", "--at", "1"]) == 2
    assert main(["solve", "decay", "--set", f"a={text}", "--at", "1"]) == 2
    assert main(["sweep", "decay", "--grid", f"k={text}", "--json"]) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert listing(folder) == before
    assert not Path("hacked").exists()
