"""solve: what is read, what is printed, what is written, and when nothing is."""

import json
import math
from pathlib import Path

import pytest

import eqsolve
from eqsolve.cli import main
from eqsolve.cli.output import number_with_error
from eqsolve.errors import SolverError

SOLVERS = Path(eqsolve.__file__).parent / "solvers"


def test_json_holds_the_contract_and_the_truth(folder, capsys):
    assert main(["solve", "decay", "--set", "k=1/2", "--at", "2,1/4,0", "--rtol", "1e-6", "--json"]) == 0
    out, err = capsys.readouterr()
    made = json.loads(out)
    assert err == ""
    assert (made["model"], made["kind"], made["status"]) == ("decay", "dynamics", "ok")
    assert made["params"] == {"k": 0.5}
    assert made["t"] == [2, 0.25, 0]  # in the order asked for
    for moment, value, error in zip(made["t"], made["values"]["size"], made["errors"]["size"], strict=True):
        assert abs(value - math.exp(-moment)) <= max(error, 1e-6)
    assert set(made["values"]) == {"size", "y"}
    assert made["provenance"]["seed"] == 0
    assert made["stats"]["seconds"] > 0


def test_text_is_a_table_with_errors(folder, capsys):
    assert main(["solve", "decay", "--at", "0,1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("decay: ok, by ode in ")
    assert "k=1" in lines
    header = next(line for line in lines if line.split()[:1] == ["t"])
    assert header.split() == ["t", "size", "y"]
    row = next(line for line in lines if line.split()[:1] == ["1"])
    assert row.split()[1].startswith("0.1353")
    assert row.count(" ± ") == 2


def test_without_times_a_few_are_chosen(folder, capsys):
    assert main(["solve", "decay", "--t-max", "20"]) == 0
    table = capsys.readouterr().out.split("\n\n")[-1].splitlines()
    assert [table[1].split()[0], table[-1].split()[0], len(table)] == ["0", "20", 9]


def test_files_are_written_whole(folder, capsys, contents):
    before = contents()
    assert main(["solve", "decay", "--t-max", "1", "--out", "x.nc", "--plot", "x.png", "--json"]) == 0
    json.loads(capsys.readouterr().out)
    assert contents() == sorted([*before, "x.nc", "x.png"])
    saved = eqsolve.open("x.nc")
    assert saved["y"].values[-1] == pytest.approx(math.exp(-1), rel=1e-3)
    assert (folder / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--at", "1,x"], "--at: cannot read 'x' as a number; expected times separated by commas"),
        (["--at", ""], "--at: cannot read ''"),
        (["--at", "0:1:x"], "--at: the COUNT in '0:1:x' must be a whole number"),
        (["--at", "0:1:3:log"], "--at: a logarithmic range needs ends of one sign"),
        (["--budget", "5x"], "--budget: expected seconds, such as 60"),
        (["--at", "-1"], "--at: time starts at 0, got -1"),
        (["--at", "1,inf"], "--at: expected a finite number, got 'inf'"),
        (["--at", "Normal(0,1)"], "--at: cannot read"),
        (["--at", "3", "--t-max", "2"], "--at asks for the time 3, but --t-max is 2"),
        (["--at2", "1,1"], "--at2: model `decay` has no function of two times"),
        (["--at2", "1"], "--at2: cannot read '1' as a pair of times"),
        (["--t-max", "0"], "--t-max: time starts at 0"),
        (["--t-max", "soon"], "--t-max: cannot read 'soon' as a number"),
        (["--rtol", "0"], "rtol must lie between"),
        (["--rtol", "small"], "--rtol: cannot read 'small'"),
        (["--atol", "-1"], "atol must not be negative"),
        (["--seed", "1.5"], "--seed: expected a whole number, got '1.5'"),
        (["--order", "many"], "--order: expected a whole number"),
        (["--solver", "odee"], "there is no solver `odee`; did you mean `ode`?"),
        (["--out", "x.txt"], "--out: expected a file name *.nc or *.csv or *.parquet or *.json, got 'x.txt'"),
        (["--out", "nowhere/x.nc"], "there is no folder 'nowhere'"),
        (["--plot", "x.pgn"], "did you mean `.png`?"),
        (["--set", "k"], "without blanks around the =, got 'k'; did you mean k=...?"),
        (["--set", "k=1", "k=2"], "--set gives `k` twice: '1' and '2'"),
        (["--set", "k=0"], "must be positive"),
    ],
)
def test_bad_input_is_explained_and_writes_nothing(arguments, said, folder, capsys, contents, request):
    files = [] if {"--out", "--plot"} & set(arguments) else ["--out", "result.nc", "--plot", "result.png"]
    before = contents()
    assert main(["solve", "decay", "--json", *files, *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert contents() == before


def test_a_folder_is_no_file(folder, capsys):
    (folder / "x.nc").mkdir()
    assert main(["solve", "decay", "--out", "x.nc"]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_a_range_of_times(folder, capsys):
    assert main(["solve", "decay", "--at", "0:1:3,2,1:100:3:log", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["t"] == pytest.approx([0, 0.5, 1, 2, 1, 10, 100])


@pytest.mark.parametrize("option", [["--at", "1"], ["--t-max", "1"]])
def test_a_fixed_point_has_no_time(option, folder, capsys):
    assert main(["solve", "quadratic", *option]) == 2
    assert f"{option[0]}: model `quadratic` is a FixedPoint and has no time" in capsys.readouterr().err


def test_the_choice_of_solver_is_logged_when_asked_for(folder, capsys):
    assert main(["solve", "decay", "--at", "1", "--json"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["solve", "decay", "--at", "1", "--json", "-v"]) == 0
    out, err = capsys.readouterr()
    json.loads(out)
    assert err.startswith("INFO: decay: solver ode (")


@pytest.fixture
def failing(monkeypatch):
    """A solver that stops half way, with or without what it has so far."""
    solve = eqsolve.solve

    def install(*, partial: bool):
        def fail(model, *, at=None, **options):
            error = SolverError("equation for `y` (decay.py:8): `y` blows up at t = 0.5")
            error.partial = solve(model, t_max=0.5) if partial else None
            raise error

        monkeypatch.setattr("eqsolve.solving.solve", fail)

    return install


def test_a_failed_solve_gives_the_result_so_far_and_the_reason(folder, capsys, failing):
    failing(partial=True)
    assert main(["solve", "decay", "--at", "0.25,1", "--json", "--out", "x.nc"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["t"] == [0.25]
    assert err == "error: equation for `y` (decay.py:8): `y` blows up at t = 0.5\n"
    assert eqsolve.open("x.nc")["y"].t.values[-1] == 0.5


def test_a_failed_solve_without_a_result(folder, capsys, failing, contents):
    failing(partial=False)
    before = contents()
    assert main(["solve", "decay", "--at", "1", "--out", "x.nc"]) == 1
    out, err = capsys.readouterr()
    assert (out, "blows up" in err) == ("", True)
    assert contents() == before
    assert main(["solve", "decay", "--at", "1", "--json"]) == 1
    made = json.loads(capsys.readouterr().out)
    assert made == {"model": "decay", "status": "failed", "message": made["message"]}


def test_a_tolerance_that_was_not_met(folder, capsys, monkeypatch):
    solve = eqsolve.solve

    def stop_early(model, **options):
        result = solve(model, t_max=1)
        result.__dict__.update(status="tolerance not met", message="E_test is known to 1e-2 only")
        return result

    monkeypatch.setattr("eqsolve.solving.solve", stop_early)
    assert main(["solve", "decay"]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("decay: tolerance not met")
    assert err.startswith(
        "error: E_test is known to 1e-2 only\n± are error estimates, in tests at most 3 times too small; a larger --rtol"
    )


def test_a_missed_tolerance_is_said_once(folder, capsys, caplog):
    """In Python by a warning, on the command line by its error; a fit and a sweep say it in their own way."""
    asked = {"t_max": 3, "rtol": 1e-14}
    assert eqsolve.solve("decay", **asked).status == "tolerance not met"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "decay: tolerance not met: the error estimate is" in caplog.text
    caplog.clear()
    assert eqsolve.solve("decay", t_max=3).status == "ok"
    assert not caplog.records
    assert main(["solve", "decay", "--t-max", "3", "--rtol", "1e-14"]) == 1
    assert capsys.readouterr().err.count("times the tolerance") == 1
    caplog.clear()
    moments = [0.5, 1.0, 2.0]
    data = {"t": moments, "size": [math.exp(-moment) for moment in moments], "size_error": [1e-3] * 3}
    eqsolve.fit("decay", data, free=["k"], rtol=1e-14, progress=False)
    assert not caplog.records


def test_derivatives_are_printed(folder, capsys):
    """size = exp(-2 k t), and x = sqrt(a)."""
    assert main(["solve", "decay", "--at", "0,1", "--derivatives", "k"]) == 0
    table = capsys.readouterr().out.split("\n\n")[-1].splitlines()
    assert table[0].split() == ["t", "dsize/dk", "dy/dk"]
    assert float(table[2].split()[1]) == pytest.approx(-2 * math.exp(-2), rel=1e-3)
    assert main(["solve", "quadratic", "--derivatives", "a"]) == 0
    name, equals, value, *_ = capsys.readouterr().out.splitlines()[-1].split()
    assert (name, equals) == ("dx/da", "=")
    assert float(value) == pytest.approx(0.5 / math.sqrt(2), rel=1e-9)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            """from eqsolve import Eq, FixedPoint, param, unknown
a = param("a", nonnegative=True)
x = unknown("x", nonnegative=True)
model = FixedPoint("divided", eqs=[Eq(x, a + 1)], defaults={a: 2}, observables={"share": x / a})
""",
            "error: model `divided`: observable `share` (divided.py:4) divides by `a`, which is 0 as set\n",
        ),
        (
            """from eqsolve import Eq, System, function, param, times
t = times("t")
a = param("a")
y = function("y")
model = System("divided", eqs=[Eq(y(t).diff(t), -y(t) / (a**2 - a))], init={y: 1}, defaults={a: 2})
""",
            "error: model `divided`: equation for `y` (divided.py:5) divides by `a**2 - a`, which is 0 as set\n",
        ),
    ],
)
def test_what_divides_by_a_parameter_that_is_zero_is_named(model, said, folder, capsys):
    (folder / "models" / "divided.py").write_text(model)
    assert main(["solve", "divided", "--set", "a=0"]) == 2
    assert capsys.readouterr().err == said
    assert main(["solve", "divided", "--set", "a=2"]) == 0


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (0.0983123, 1.2e-6, "0.0983123 ± 1.2e-06"),
        (1234.5678, 0.5, "1234.57 ± 0.5"),
        (-2.0, 0.0, "-2 ± 0"),
        (0.0, 1e-9, "0 ± 1e-09"),
        (1.0, math.nan, "1 ± ?"),
        (math.inf, 1.0, "inf"),
        (1e-9, 1.0, "1e-09 ± 1"),
    ],
)
def test_numbers_show_the_digits_that_are_known(value, error, text):
    assert number_with_error(value, error) == text


def test_a_fixed_point_is_drawn(folder, capsys):
    assert main(["solve", "quadratic", "--plot", "x.png"]) == 0
    assert (folder / "x.png").stat().st_size > 1000


# --- checkpoints --------------------------------------------------------------------------------------------------------
def test_a_checkpoint_is_removed_at_the_end(folder, contents, capsys):
    before = contents()
    assert main(["solve", "volterra_linear", "--t-max", "1", "--checkpoint", "f", "--out", "r.nc"]) == 0
    assert contents() == sorted([*before, "r.nc"])


def test_an_interrupted_solve_says_how_to_go_on(folder, capsys, monkeypatch):
    arguments = ["solve", "volterra_linear", "--t-max", "1", "--checkpoint", "f"]

    def interrupt(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("eqsolve.progress.Bar.__call__", interrupt)
        assert main(arguments) == 130
    assert "kept in f; the same command with --resume goes on from there" in capsys.readouterr().err
    assert main(arguments) == 2
    assert "go on from it with --resume" in capsys.readouterr().err
    assert main([*arguments, "--resume"]) == 0
    assert not (folder / "f").exists()


def test_a_result_that_cannot_be_saved_leaves_the_checkpoint(folder, capsys, monkeypatch):
    def fail(*args, **more):
        raise eqsolve.UsageError("cannot write")

    arguments = ["solve", "volterra_linear", "--t-max", "1", "--checkpoint", "f", "--out", "r.nc"]
    with monkeypatch.context() as patched:
        patched.setattr("eqsolve.results.result.Result.save", fail)
        assert main(arguments) == 2
    assert main([*arguments, "--resume"]) == 0
    assert eqsolve.open(folder / "r.nc").status == "ok"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--resume"], "--resume goes on from a checkpoint; name its file: --checkpoint F"),
        (["--checkpoint", "models"], "is a folder"),
        (["--checkpoint", "x.nc", "--out", "./x.nc"], "--checkpoint and --out name the same file"),
        (["--checkpoint", "no/f"], "cannot write"),
        (["--checkpoint", "models/decay.py", "--resume"], "is not a checkpoint"),
    ],
)
def test_checkpoints_that_cannot_be(arguments, said, folder, capsys, contents):
    before = contents()
    assert main(["solve", "decay", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert contents() == before


DELAYED = """
from sympy import exp
from eqsolve import Eq, Singularity, param, unknown
p, R = unknown("p R")
a = param("a")
model = Singularity("delayed", transform=Eq(R, 1 / (p + a * exp(-p))), variable=p, unknown=R, defaults={a: 1},
                    observables={"gamma": -p})
"""


def test_the_region_of_a_singularity_is_an_option(folder, capsys):
    (folder / "models" / "delayed.py").write_text(DELAYED)
    for words in (["--region", "-3,20"], ["--region=-3,20"]):  # a minus does not make it an option of its own
        assert main(["solve", "delayed", *words, "--json"]) == 0
        made = json.loads(capsys.readouterr().out)
        assert made["values"]["gamma"] == pytest.approx(0.31813150520476413, abs=1e-13)  # −Re W(−1)
    assert main(["solve", "delayed", "--region", "2,1"]) == 1
    assert "--region LOW,HEIGHT" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--region", "-3"], "--region: cannot read '-3'; expected LOW,HEIGHT such as -3,20"),
        (["--region", "-3,-1"], "--region: HEIGHT must be positive, got -1"),
        (["--region", "-3,x"], "--region: cannot read 'x' as a number"),
    ],
)
def test_a_region_that_is_none(folder, capsys, words, said):
    (folder / "models" / "delayed.py").write_text(DELAYED)
    assert main(["solve", "delayed", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_region_without_a_singularity(folder, capsys):
    assert main(["solve", "decay", "--region", "-3,20"]) == 2
    assert "--region is where a Singularity is searched, and model `decay` is a System" in capsys.readouterr().err


def test_the_log_speaks_plainly(folder, capsys):
    assert main(["solve", "decay", "--at", "1", "-v"]) == 0
    said = capsys.readouterr().err
    assert "compared with a rougher solution the error is " in said
    assert " times the tolerance" in said
    texts = [line for path in SOLVERS.rglob("*.py") for line in path.read_text().splitlines() if "logger.info(" in line]
    for word in ("panels:", "points:", "residual %.2g of", "sweep %d", "level %d", " beside "):
        assert [line for line in texts if word in line] == []


@pytest.mark.slow
def test_of_a_flow_its_own_observables_are_shown(folder, capsys):
    (folder / "models" / "bounded.py").write_text(
        "from eqsolve import E, Flow, field, gradient, param, random, state\n"
        "from eqsolve.laws import Normal\n"
        "from sympy import tanh\n"
        "w, w_star = state('w'), random('w_star', Normal(0, 1))\n"
        "f, f_star = field('f f_star')\n"
        "g, g_star = gradient('g g_star')\n"
        "delta = param('delta', positive=True)\n"
        "model = Flow('bounded', state={w: 0}, weights=[w, w_star], fields=[f, f_star], loss_gradient=[tanh(f - f_star), 0],\n"
        "             gradients=[g, g_star], drift={w: -g}, defaults={delta: 2}, observables={'gen': E((w - w_star)**2)})\n"
    )
    command = ["solve", "bounded", "--at", "0.1", "--rtol", "0.05", "--out", "r.nc"]
    assert main([*command, "--plot", "r.png"]) == 0
    out = capsys.readouterr().out
    assert "gen" in out
    assert "Gamma_f" not in out
    found = eqsolve.open("r.nc")
    assert [line.get_label() for line in found.plot().lines] == [r"$\mathrm{gen}$"]
    start = float(found["Gamma_f"][0])  # E[1 - tanh(z)²], z normal
    assert abs(start - 0.6057055) < 3 * float(found.error["Gamma_f"][0]) + 1e-7
    assert main([*command, "--observables", "all"]) == 0
    assert "Gamma_f" in capsys.readouterr().out
