"""Result files: netCDF with values and a JSON record. Reading one never runs code."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import io
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve._version import __version__
from eqsolve.arguments import checked
from eqsolve.arguments import path as read_path
from eqsolve.errors import UsageError, logger
from eqsolve.files.atomic import atomic_path, is_damaged, seal
from eqsolve.files.checkpoint import Codec, PackingError
from eqsolve.language.loading import load
from eqsolve.language.system import Cases
from eqsolve.numerics.grids import PanelGrid
from eqsolve.numerics.rows import AgingRows, Layout, Record, RowStore, Solved, StepRows
from eqsolve.results.result import PhaseDiagram, Result, Stationary
from eqsolve.results.words import jsonable
from eqsolve.verbs import lazy_import

if TYPE_CHECKING:
    import xarray as xr

    from eqsolve.language.model import Model

TABLES = (".csv", ".json", ".parquet")

_ROWS = "_rows_"  # functions of two times as they were solved, packed
_STORE = Codec((AgingRows, Layout, Record, RowStore, Solved, StepRows), without=("ends", "times"))
_FORMATS = range(1, 3)  # that are read; files of the first hold no functions of two times
_FIELDS = ("model", "kind", "status", "message", "params", "stats", "provenance")


def save(
    result: Result, path: str | os.PathLike[str], *, also: xr.Dataset | None = None, more: dict[str, Any] | None = None
) -> None:
    """Write a netCDF file that plain xarray opens too; the file appears whole or not at all.

    ``also`` are values, and ``more`` entries of the record, of a validation that has the result.
    """
    dataset = result.dataset.copy()
    record = {key: getattr(result, key) for key in (*_FIELDS, "latex", "families")} | (more or {})
    record["grid"] = None if result.grid is None else dataclasses.asdict(result.grid)
    record["kernels"] = [name for name in result.names if dataset[name].dims == ("row", "column")]
    if result.rows is not None:
        dataset[_ROWS] = (_ROWS + "bytes", np.frombuffer(b"".join(_STORE.pack(result.rows)), np.uint8))
    write_dataset(dataset if also is None else dataset.merge(also), record, path)


def check_name(path: str | os.PathLike[str], known: tuple[str, ...] = (".nc", *TABLES)) -> None:
    """Raise for a file whose name does not end like one that can be written here."""
    end = Path(path).suffix.lower()
    if end not in known and not Path(path).is_dir():  # a folder is refused when it is written
        raise UsageError(f"a result is saved as {' or '.join(f'*{end}' for end in known)}, got {str(path)!r}")
    if end == ".parquet" and not any(map(importlib.util.find_spec, ("pyarrow", "fastparquet"))):
        instead = "(pip install pyarrow); *.csv and *.json need nothing"
        raise UsageError(f"to write {str(path)!r} pandas needs pyarrow {instead}")


def write_dataset(dataset: xr.Dataset, record: dict[str, Any], path: str | os.PathLike[str]) -> None:
    """Write values and the record that says what they are."""
    check_name(path, (".nc",))
    record = {"provenance": {"version": __version__}, "format": _FORMATS[-1], **record}
    dataset.attrs["eqsolve"] = json.dumps(record, default=lambda item: item.tolist() if hasattr(item, "tolist") else str(item))
    buffer = io.BytesIO()  # in memory first: the HDF5 library does not survive a disk that fills up
    dataset.to_netcdf(buffer, engine="h5netcdf")
    with atomic_path(path) as temporary:
        Path(temporary).write_bytes(buffer.getvalue() + seal(buffer.getvalue()))


def write_table(result: Any, path: str | os.PathLike[str], **at: Any) -> bool:
    """Write a table for other programs if the file's suffix says so; return whether it does."""
    check_name(path)
    if (suffix := Path(path).suffix.lower()) == ".nc":
        return False
    with atomic_path(path) as temporary:
        if suffix == ".json":
            text = json.dumps(jsonable(result.json_object(**at)), indent=1, allow_nan=False)
            Path(temporary).write_text(text + "\n", encoding="utf-8")
        else:
            table = result.to_dataframe(**at)
            table = table if table.index.names == [None] else table.reset_index()
            (table.to_csv if suffix == ".csv" else table.to_parquet)(temporary, index=False)
    return True


@checked(path=read_path)
def open(path: str | os.PathLike[str], *, model: Model | str | None = None) -> Any:
    """Read what was saved: a `Result` (of a solve or a sweep), a `Validation`, a `Simulation` or a `Fit`.

    Parameters
    ----------
    path
        A file written by ``save`` or ``--out``. It is data only: reading it never runs code.
    model
        The model the result should be of; if its equations are others than those that were solved, that is an error.

    Examples
    --------
    >>> import eqsolve
    >>> eqsolve.solve("ridge").save("ridge.nc")
    >>> eqsolve.open("ridge.nc").model
    'ridge'
    """
    dataset, record = _read(path)
    about = record.get("provenance")
    version = about.get("version") if isinstance(about, dict) else None
    if record.get("format", 1) not in _FORMATS:
        raise UsageError(
            f"{str(path)!r} was written by eqsolve {version}, whose files this eqsolve {__version__} does not know; "
            "install that version, or read the file with xarray"
        )
    if version != __version__:
        logger.warning("%s was written by eqsolve %s, this is %s", path, version, __version__)
    try:
        if (kind := record["kind"]) in ("simulation", "fit"):
            if model is not None:
                raise UsageError(f"{str(path)!r} holds a {kind}, not a result of a model; leave model= out")
            return lazy_import(f"read_{kind}")(dataset, record)
        if model is not None:
            _check_model(str(path), record, model)
        if "validation" in record:
            return lazy_import("read_validation")(dataset, record, read_result)
        return read_result(dataset, record)
    except (KeyError, TypeError, ValueError, IndexError, PackingError) as error:
        raise UsageError(f"{str(path)!r} is a damaged result file: {type(error).__name__} {error}") from None


def read_result(dataset: xr.Dataset, record: dict[str, Any]) -> Result:
    """Return the result of a file's values and record."""
    fields = {name: record[name] for name in _FIELDS} | {name: record.get(name) or {} for name in ("latex", "families")}
    grid = rows = None
    if (panels := record["grid"]) is not None:
        edges, breaks = np.array(panels["edges"], dtype=float), tuple(panels.get("breaks", ()))
        grid = PanelGrid(**{**panels, "edges": edges, "breaks": breaks})
    if record["kernels"] and grid is not None:
        if record.get("format", 1) == 1:
            raise UsageError(
                f"this result of `{record['model']}` was saved by an earlier eqsolve, whose functions of two times "
                "are not read any more; solve again, or read the file with xarray"
            )
        rows = _STORE.unpack(dataset[_ROWS].values.tobytes())
    kind = {"stationary": Stationary, "diagram": PhaseDiagram}.get(record["kind"], Result)
    return kind(dataset.drop_vars(_ROWS, errors="ignore"), grid=grid, rows=rows, **fields)


def _read(path: str | os.PathLike[str]) -> tuple[xr.Dataset, dict[str, Any]]:
    import xarray as xr

    name = str(path)
    if not Path(path).is_file():
        raise UsageError(f"{name!r} is a folder, not a file" if Path(path).is_dir() else f"there is no file {name!r}")
    try:
        damaged = is_damaged(Path(path))
    except OSError as error:
        raise UsageError(f"cannot read {name!r}: {error.strerror or error}") from None
    if damaged:
        raise UsageError(f"{name!r} is damaged and not a readable result file: its checksum does not agree")
    problem, hook = "", sys.unraisablehook
    sys.unraisablehook = lambda _: None  # it would tell of half-opened files
    try:
        dataset = xr.load_dataset(path, engine="h5netcdf", decode_times=False)
    except Exception as error:  # whatever the reading library makes of a damaged or foreign file
        problem = str(error) or type(error).__name__
    finally:
        sys.unraisablehook = hook
    foreign = (dict.fromkeys(TABLES, "a table") | {".py": "Python code"}).get(Path(path).suffix)
    if problem and foreign:
        raise UsageError(f"{name!r} is {foreign}, which is not read back; results are kept whole in files `.nc` (--out x.nc)")
    if problem:
        said = "it was not written by save() or --out" if "signature not found" in problem else problem
        raise UsageError(f"{name!r} is not a readable result file: {said}")
    with contextlib.suppress(KeyError, TypeError, ValueError, RecursionError):
        if isinstance(record := json.loads(dataset.attrs.pop("eqsolve")), dict):
            return dataset, record
    raise UsageError(f"{name!r} is a netCDF file, but not a result of eqsolve")


def _check_model(name: str, record: dict[str, Any], model: Model | str) -> None:
    from eqsolve.passes.forms.structure import signature_of

    wanted = load(model) if isinstance(model, str) else model
    either = [load(name) for _, name in wanted.cases] if isinstance(wanted, Cases) else [wanted]  # a case is solved
    if record["provenance"].get("signature") not in [signature_of(item) for item in either]:
        other = "the same name but other equations" if record["model"] == wanted.name else f"name `{record['model']}`"
        raise UsageError(
            f"{name!r} is not a result of this model `{wanted.name}`: it is of a model with {other}; "
            'its text is result.provenance["source"]'
        )
