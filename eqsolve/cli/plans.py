"""Compiled plans on disk: the next command on a model does no symbolic work.

A record is a pickle of all that ``kept_by_model`` keeps of the models loaded. It holds for one
state of their files, of eqsolve and of the libraries. Pickles can run code: one is read where only
this user can have written it. ``EQSOLVE_CACHE`` names another folder than the user's
cache, or none if it is empty; the folder may be deleted at any time.
"""

import contextlib
import functools
import hashlib
import io
import os
import pickle
import stat
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import eqsolve


def folder() -> Path | None:
    """Return the folder of the plans, this user's alone, made if there is none; or nothing."""
    named = os.environ.get("EQSOLVE_CACHE")
    if named == "" or os.name == "nt":  # Windows does not say by its modes who can write
        return None
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        path = Path(named or Path(home, "eqsolve")).expanduser()
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path if _is_own(path) else None
    except (OSError, RuntimeError):
        return None


def _is_own(path: Path) -> bool:
    """Whether nobody else can have written to a place."""
    state = path.lstat()
    writable = state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return state.st_uid == os.getuid() and not writable and not stat.S_ISLNK(state.st_mode)


def _state_of(files: list[str]) -> list[tuple[str, int, int]]:
    return [(file, (state := os.stat(file)).st_mtime_ns, state.st_size) for file in files]


@functools.cache
def _own_state() -> list[tuple[str, int, int]]:
    return _state_of(sorted(map(str, Path(eqsolve.__file__).parent.rglob("*.py"))))


def _record(path: Path) -> Path | None:
    where = folder()
    if where is None:
        return None
    import numpy
    import sympy

    state = repr((sys.version, numpy.__version__, sympy.__version__, _own_state()))
    return where / "-".join(hashlib.sha256(part.encode()).hexdigest()[:16] for part in (str(path), state))


def restore(path: Path) -> None:
    """Put what is kept of a model file where loading and compiling it would put it, if it holds."""
    from eqsolve.language.loading import LOADED
    from eqsolve.language.printing import take_kept
    from eqsolve.language.symbols import MEANINGS

    try:
        record = _record(path)
        if record is None or not _is_own(record):
            return
        files, body = pickle.loads(record.read_bytes())
        if _state_of([file for file, *_ in files]) != files:
            return
        loaded, meanings, kept = pickle.loads(body)
    except Exception:  # whatever is wrong with it: the model is loaded and compiled again
        return
    LOADED.update(loaded)
    MEANINGS.update(meanings)
    take_kept(kept)


class _Pickler(pickle.Pickler):
    """Keeps expressions as they are: sympy's own pickles work them out again, which takes a tenth of a second."""

    def reducer_override(self, item: Any) -> Any:
        from sympy import Add, Mul, Pow
        from sympy.core.function import Application
        from sympy.core.relational import Relational

        kind = type(item)
        known = isinstance(item, Add | Mul | Pow | Relational | Application) and kind.__module__.startswith("sympy.")
        return (_as_it_is, (kind, item.args)) if known else NotImplemented


def _as_it_is(kind: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return kind(*arguments, evaluate=False)


def keep(path: Path) -> None:
    """Keep what was made of a model file and those it needed; records of other states go."""
    from eqsolve.language.loading import LOADED, loaded_files
    from eqsolve.language.printing import all_kept
    from eqsolve.language.symbols import MEANINGS
    from eqsolve.solvers.registry import REGISTERED

    if not LOADED or REGISTERED:  # a file that registers a solver has to run
        return
    with contextlib.suppress(Exception):  # some models hold functions that do not pickle
        record = _record(path)
        if record is None:
            return
        meanings = {file: MEANINGS[file] for file, *_ in LOADED if file in MEANINGS}
        body = io.BytesIO()
        _Pickler(body).dump((LOADED, meanings, all_kept()))
        whole = pickle.dumps((_state_of(loaded_files()), body.getvalue()))
        if record.exists() and record.read_bytes() == whole:
            return
        handle, temporary = tempfile.mkstemp(dir=record.parent)  # for this user alone
        with os.fdopen(handle, "wb") as stream:
            stream.write(whole)
        os.replace(temporary, record)
        for file in record.parent.glob(f"{record.name.split('-')[0]}-*"):
            if file != record:
                file.unlink(missing_ok=True)
