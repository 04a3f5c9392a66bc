"""Files appear whole or not at all, whatever happens meanwhile, and are recognised when they are read."""

import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import pandas as pd
import pytest
import xarray as xr

import eqsolve
from eqsolve.cli import main
from eqsolve.files.atomic import atomic_path

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(scope="module")
def result() -> eqsolve.Result:
    return eqsolve.solve("volterra_linear", t_max=1)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "x.nc"
    file.write_text("old")
    with pytest.raises(ZeroDivisionError), atomic_path(file) as temporary:
        Path(temporary).write_bytes(bytes(10 // len("")))
    assert file.read_text() == "old"
    assert [item.name for item in tmp_path.iterdir()] == ["x.nc"]


def test_tables_for_other_programs(result: eqsolve.Result, tmp_path: Path) -> None:
    result.save(tmp_path / "x.csv", at=[0.25, 1])
    frame = pd.read_csv(tmp_path / "x.csv").set_index("t")
    known = result.at([0.25, 1])
    for name in result.names:
        assert frame[name].to_numpy() == pytest.approx(known[name].values, rel=1e-15)
        assert (frame[f"{name}_error"] > 0).any()
    result.save(tmp_path / "x.json", at=[1])
    assert json.loads((tmp_path / "x.json").read_text())["t"] == [1]
    swept = eqsolve.sweep("ridge", lam=[0.1, 1], delta="0.5:2:3", sigma2=0.1, progress=False, out=tmp_path / "s.csv")
    table = pd.read_csv(tmp_path / "s.csv").set_index(["lam", "delta"])
    assert table.loc[(1.0, 2.0), "E_test"] == pytest.approx(float(swept["E_test"].sel(lam=1, delta=2)), rel=1e-15)
    assert set(table["status"]) == {"ok"}
    assert swept.params["sigma2"] == 0.1
    runs = eqsolve.load("dln_flow").simulate(d=20, seeds=2, at=[1], progress=False)
    runs.save(tmp_path / "r.json")
    runs.save(tmp_path / "r.csv")
    values = json.loads((tmp_path / "r.json").read_text())["values"]["E_test"]
    assert pd.read_csv(tmp_path / "r.csv")["E_test"].to_numpy() == pytest.approx([row[0] for row in values], rel=1e-15)
    with pytest.raises(eqsolve.UsageError, match=r"x\.csv"):
        eqsolve.open(tmp_path / "x.csv")


def test_parquet(result: eqsolve.Result, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    result.save(tmp_path / "x.parquet", at=[0.25, 1])
    frame = pd.read_parquet(tmp_path / "x.parquet").set_index("t")
    known = result.at([0.25, 1])
    for name in result.names:
        assert frame[name].to_numpy() == pytest.approx(known[name].values, rel=0)
    swept = eqsolve.sweep("ridge", lam=[0.1, 1], progress=False, out=tmp_path / "s.parquet")
    table = pd.read_parquet(tmp_path / "s.parquet").set_index("lam")
    assert table["E_test"].to_numpy() == pytest.approx(swept["E_test"].values, rel=0)


@pytest.mark.parametrize("installed", [True, False])
def test_parquet_is_written_by_pandas_where_it_can(
    installed: bool,
    result: eqsolve.Result,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without pyarrow this is said before anything is solved."""
    find = importlib.util.find_spec
    known = {"pyarrow": object() if installed else None, "fastparquet": None}
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *other: known[name] if name in known else find(name, *other))
    written: list[pd.DataFrame] = []
    monkeypatch.setattr(pd.DataFrame, "to_parquet", lambda frame, path, index: written.append(frame) or Path(path).touch())
    file = tmp_path / "x.parquet"
    if installed:
        result.save(file, at=[0.25, 1])
        assert written[0]["t"].tolist() == [0.25, 1]
        assert written[0]["y"].to_numpy() == pytest.approx(result.at([0.25, 1])["y"].values, rel=0)
        assert main(["solve", "volterra_linear", "--at", "1", "--out", str(file)]) == 0
        assert written[1]["t"].tolist() == [1]
        return
    with pytest.raises(eqsolve.UsageError, match=r"needs pyarrow \(pip install pyarrow\); \*\.csv and \*\.json need nothing"):
        result.save(file)
    monkeypatch.setattr("eqsolve.sweeping.run.solve_point", None)
    with pytest.raises(eqsolve.UsageError, match="needs pyarrow"):
        eqsolve.sweep("ridge", lam=[0.1, 1], out=file)
    assert main(["solve", "volterra_linear", "--at", "1", "--out", str(file)]) == 2
    assert "pip install pyarrow" in capsys.readouterr().err
    assert not file.exists()


def test_an_axis_given_twice(tmp_path: Path) -> None:
    with pytest.raises(eqsolve.UsageError, match="`lam` is an axis twice"):
        eqsolve.sweep("ridge", {"lam": [1, 2]}, lam=[3, 4])


def start(work: Callable[[], object]) -> int:
    """Start a copy of this process that does some work and ends; return its number."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return child


def end(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
@pytest.mark.parametrize("moment", ["chmod", "fsync", "replace"])
def test_a_save_killed_at_any_moment_leaves_the_old_file(moment: str, tmp_path: Path, result: eqsolve.Result) -> None:
    result.save(tmp_path / "x.nc")
    old = (tmp_path / "x.nc").read_bytes()

    def killed() -> None:
        setattr(os, moment, lambda *args: os.kill(os.getpid(), signal.SIGKILL))
        result.with_status("new", "").save(tmp_path / "x.nc")

    assert end(start(killed)) == -signal.SIGKILL
    assert (tmp_path / "x.nc").read_bytes() == old


@needs_fork
def test_no_space_left(tmp_path: Path) -> None:
    import resource

    (tmp_path / "x.nc").write_text("old")
    reading, writing = os.pipe()

    def limited() -> None:
        sys.stdout = sys.stderr = os.fdopen(writing, "w", buffering=1)
        os.chdir(tmp_path)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        os._exit(main(["solve", "volterra_linear", "--t-max", "1", "--out", "x.nc"]))

    child = start(limited)
    os.close(writing)
    with open(reading) as stream:
        said = stream.read()
    assert end(child) == 2, said
    assert "error: cannot write 'x.nc'" in said
    assert "no space is left" in said
    assert "Traceback" not in said
    assert "volterra_linear: ok" in said  # the numbers are not lost with the file
    assert [item.name for item in tmp_path.iterdir()] == ["x.nc"]
    assert (tmp_path / "x.nc").read_text() == "old"


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="the administrator may write anywhere")
def test_a_read_only_folder(tmp_path: Path, result: eqsolve.Result) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(eqsolve.UsageError, match="may not be written to"):
        result.save(tmp_path / "x.nc")
    tmp_path.chmod(0o700)


def test_a_read_only_disk(tmp_path: Path, result: eqsolve.Result, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **named: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    with pytest.raises(eqsolve.UsageError, match=r"may not be written to \(Read-only file system\); choose another"):
        result.save(tmp_path / "x.nc")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there(tmp_path: Path, result: eqsolve.Result) -> None:
    with pytest.raises(eqsolve.UsageError, match="there is no folder"):
        result.save(tmp_path / "no" / "x.nc")
    with pytest.raises(eqsolve.UsageError, match="it is a folder, not a file"):
        result.save(tmp_path)


@needs_fork
def test_two_processes_save_to_one_file(tmp_path: Path, result: eqsolve.Result) -> None:
    def save() -> None:
        for _ in range(4):
            result.save(tmp_path / "x.nc")
            assert eqsolve.open(tmp_path / "x.nc").names == ("y",)

    both = [start(save), start(save)]
    assert [end(child) for child in both] == [0, 0]
    assert [item.name for item in tmp_path.iterdir()] == ["x.nc"]
    assert eqsolve.open(tmp_path / "x.nc").status == "ok"


def test_a_link_keeps_pointing(tmp_path: Path, result: eqsolve.Result) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "x.nc").symlink_to(tmp_path / "far" / "y.nc")
    result.save(tmp_path / "x.nc")
    assert (tmp_path / "x.nc").is_symlink()
    assert eqsolve.open(tmp_path / "far" / "y.nc").status == "ok"


def test_everything_comes_back(tmp_path: Path) -> None:
    made = eqsolve.solve("dln_lazy", t_max=2, seed=5)
    made.save(tmp_path / "x.nc")
    back = eqsolve.open(tmp_path / "x.nc", model="dln_lazy")
    assert back.dataset.identical(made.dataset)
    assert (back.params, back.stats, back.provenance) == (made.params, made.stats, made.provenance)
    assert back.at2([(2, 0.3)])["C_w"].item() == made.at2([(2, 0.3)])["C_w"].item()
    assert {"E_test", "E_test_error", "C_w"} <= set(xr.open_dataset(tmp_path / "x.nc").data_vars)  # plain xarray
    text = Path(eqsolve.load("dln_lazy").file).read_text()
    assert back.provenance["source"] == text
    wanted = {"version", "signature", "seed", "source_sha256", "machine", "platform", "cpus", "finished", "python"}
    assert wanted <= set(back.provenance)
    assert back.provenance["seed"] == 5
    assert "source" not in made.json_object()["provenance"]


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("dln_fixed_point", {}),  # one of several models
        ("dln_rate", {}),
        ("linear_flow", {"t_max": 1}),  # a flow, of which the mean-field equations are solved
        ("dln_infinite_data", {"t_max": 1}),
        ("dln", {"t_max": 0.3, "rtol": 1e-2}),
    ],
)
def test_every_kind_is_saved_and_shown(model: str, options: dict, tmp_path: Path) -> None:
    made = eqsolve.solve(model, **options)
    made.save(tmp_path / "x.nc")
    back = eqsolve.open(tmp_path / "x.nc", model=model)
    assert back.dataset.identical(made.dataset)
    assert (back.model, back.kind, back.status, back.params) == (made.model, made.kind, made.status, made.params)
    assert set(back.error) == set(made.error)
    assert back._repr_html_().count("<tr") > 2
    assert len(back.to_dataframe()) > 0


def test_a_file_of_another_model_or_version_is_recognised(
    tmp_path: Path, result: eqsolve.Result, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "x.nc"
    result.save(file)
    with pytest.raises(eqsolve.UsageError, match="not a result of this model `dln`: it is of a model with name"):
        eqsolve.open(file, model="dln")
    other = eqsolve.load("volterra_linear")
    changed = other.replace("volterra_linear", init={other.symbols("y"): 1}, exact={other.symbols("y"): None})
    with pytest.raises(eqsolve.UsageError, match="the same name but other equations"):
        eqsolve.open(file, model=changed)
    edit(file, provenance={**result.provenance, "version": "0.0.1"})
    eqsolve.open(file)
    assert "was written by eqsolve 0.0.1" in caplog.text
    edit(file, format=99)
    with pytest.raises(eqsolve.UsageError, match=r"written by eqsolve 0\.0\.1, whose files this eqsolve .* not know"):
        eqsolve.open(file)


def edit(file: Path, **changes: object) -> None:
    with h5py.File(file, "r+") as stream:
        record = json.loads(stream.attrs["eqsolve"])
        stream.attrs["eqsolve"] = json.dumps({**record, **changes})


def test_foreign_and_damaged_files_are_refused(tmp_path: Path, result: eqsolve.Result) -> None:
    xr.Dataset({"a": 1}).to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    (tmp_path / "text.nc").write_text("hello")
    (tmp_path / "pickle.nc").write_bytes(b"cos\nsystem\n(S'touch hacked'\ntR.")
    (tmp_path / "empty.nc").write_bytes(b"")
    for name in ("foreign", "text", "pickle", "empty", "none"):
        with pytest.raises(eqsolve.UsageError, match=f"{name}.nc"):
            eqsolve.open(tmp_path / f"{name}.nc")
    with pytest.raises(eqsolve.UsageError, match="is a folder"):
        eqsolve.open(tmp_path)
    for changes in ({"grid": 3}, {"kernels": ["nothing"]}, {"grid": {"edges": ["x"], "order": 2}}):
        file = tmp_path / "damaged.nc"
        result.save(file)
        edit(file, **changes)
        with pytest.raises(eqsolve.UsageError, match="damaged result file"):
            eqsolve.open(file)
    assert not Path("hacked").exists()


def test_a_file_cut_short_is_refused(tmp_path: Path, result: eqsolve.Result) -> None:
    result.save(tmp_path / "x.nc")
    whole = (tmp_path / "x.nc").read_bytes()
    for share in (0.1, 0.5, 0.9):
        (tmp_path / "y.nc").write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(eqsolve.UsageError, match="not a readable result file"):
            eqsolve.open(tmp_path / "y.nc")
    (tmp_path / "y.csv").write_text("t,y\n0,1\n")
    with pytest.raises(eqsolve.UsageError, match="is a table, which is not read back"):
        eqsolve.open(tmp_path / "y.csv")


def test_a_changed_byte_is_noticed(tmp_path: Path, result: eqsolve.Result) -> None:
    """By the checksum, before the HDF5 library sees the file: it may hang on damaged ones."""
    result.save(tmp_path / "x.nc")
    whole = bytearray((tmp_path / "x.nc").read_bytes())
    for place in (0, 9, len(whole) // 2, len(whole) - 1, len(whole) - 70):
        changed = whole.copy()
        changed[place] ^= 1
        (tmp_path / "y.nc").write_bytes(changed)
        with pytest.raises(eqsolve.UsageError, match="checksum does not agree"):
            eqsolve.open(tmp_path / "y.nc")
