"""Finding and loading model files: by path, in ./models, in folders of EQSOLVE_PATH, and packaged."""

from __future__ import annotations

import ast
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from eqsolve.arguments import got
from eqsolve.errors import EqsolveError, MisnamedError, ModelError, UsageError, did_you_mean

if TYPE_CHECKING:
    from eqsolve.language.model import Model

_PACKAGE = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class ModelFile:
    """A model file found on disk, described without running it."""

    name: str
    path: Path
    summary: str
    kind: str


def folders() -> Iterator[Path]:
    """Yield the folders searched for models, in order of precedence."""
    yield Path.cwd() / "models"
    for entry in os.environ.get("EQSOLVE_PATH", "").split(os.pathsep):
        if entry:
            yield Path(entry)
    yield _PACKAGE / "_models"  # an installed wheel
    yield _PACKAGE.parent / "models"  # a checkout or editable install


def find_files(places: Iterable[Path]) -> dict[str, Path]:
    """Return the files in folders that can be named, by name; of the same one twice, the first."""
    files: dict[str, Path] = {}
    for folder in places:
        if folder.is_dir():
            for path in sorted(folder.glob("*.py")):
                if path.stem.isidentifier() and not path.stem.startswith("_"):
                    files.setdefault(path.stem, path)
    return files


def list_models() -> list[ModelFile]:
    """Return every model that can be named, with the first line of its docstring; no file is run."""
    return [_describe(name, path) for name, path in sorted(find_files(folders()).items())]


def _describe(name: str, path: Path) -> ModelFile:
    kind, summary = "?", ""
    try:
        with warnings.catch_warnings(action="ignore"):  # of the file's own
            tree = ast.parse(path.read_text(encoding="utf-8"))
        summary = (ast.get_docstring(tree) or "").split("\n")[0]
        for node in tree.body:
            if isinstance(node, ast.Assign) and any(isinstance(x, ast.Name) and x.id == "model" for x in node.targets):
                call = node.value.func if isinstance(node.value, ast.Call) else None
                kind = call.id if isinstance(call, ast.Name) else "variant"
                inside = [getattr(x, "value", name) for x in getattr(node.value, "args", ())]
                if kind != "variant" and inside and inside[0] != name:
                    summary = f"(named `{inside[0]}` inside: see `eqsolve check {name}`) {summary}"
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: nested too deeply
        summary = "(this file cannot be read)"
    return ModelFile(name, path, summary, kind)


def find(name: str) -> Path:
    """Return the file of a model given by name or path."""
    if name.endswith(".py") or os.sep in name:
        path = Path(name)
        if not path.is_file():
            raise UsageError(f"there is no model file {name!r}")
        return path.resolve()
    files = find_files(folders())
    if name not in files:
        if Path(name).is_file():
            raise UsageError(f"{name!r} is no model file; a model file is written in Python and ends in .py")
        searched = ", ".join(dict.fromkeys(str(one) for one in folders() if one.is_dir())) or "no folder"
        raise UsageError(
            f"unknown model `{name}`{did_you_mean(name, files)} (searched {searched}; `eqsolve list` shows what there is)"
        )
    return files[name]


LOADED: dict[tuple[str, int, int], Model] = {}
_LOADING: list[str] = []


def load(name: str | os.PathLike[str]) -> Model:
    """Return the model of that name, or of a file given by its path.

    A model file is Python code and runs when it is loaded: load only files you trust.
    """
    if not isinstance(name, str | os.PathLike):
        raise UsageError(f"load takes a model's name or the path of its file, got {name!r}")
    path = find(str(name))
    state = path.stat()
    key = (str(path), state.st_mtime_ns, state.st_size)
    if key not in LOADED:
        if str(path) in _LOADING:
            raise ModelError(f"{path.name} loads itself: {' -> '.join(Path(p).name for p in _LOADING)} -> {path.name}")
        _LOADING.append(str(path))
        try:
            LOADED[key] = _run(path)
        finally:
            _LOADING.pop()
    from eqsolve.language.symbols import meanings, tell_meanings

    tell_meanings(meanings(str(path)), inherited=str(path))  # a file that goes on from this model has its symbols
    return LOADED[key]


def tables_of(file: str, names: tuple[str, ...]) -> Any:
    """Return where the tables of some names in a model file come from."""
    sources = {source.names: source for source in load(file).tables.values()}
    return sources[names]


def loaded_files() -> list[str]:
    """Return the model files that have run, and what they import from their folders."""
    files = {path for path, *_ in LOADED}
    own = {str(Path(path).parent) for path in files}
    modules = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    return sorted(files | {path for path in modules if str(Path(path).parent) in own})


def read_model(value: Any, what: str) -> Model:
    """Return a model, loaded if it is given by its name or its file; ``what`` is the argument it was given as."""
    from eqsolve.language.model import Model

    if isinstance(value, str | os.PathLike):
        return load(os.fspath(value))
    if not isinstance(value, Model):
        raise UsageError(f"{what}= takes a model, its name or the path of its file, got {got(value)}")
    return value


def _run(path: Path) -> Model:
    from eqsolve.language.model import Model

    module = ModuleType(path.stem)
    module.__file__ = str(path)
    try:
        source = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the model file {str(path)!r}: {error}") from None
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except EqsolveError:
        raise
    except SyntaxError as error:
        name = Path(error.filename).name if error.filename else path.name
        raise ModelError(f"{name}:{error.lineno}: {error.msg}\n    {(error.text or '').strip()}") from None
    except Exception as error:
        from eqsolve.language.foreign import describe_exception

        raise ModelError(describe_exception(path, error)) from error
    except SystemExit as error:
        raise ModelError(f"{path.name} stops the program with exit({error.code!r}); a model file only declares") from None
    model = getattr(module, "model", None)
    others = {name: item for name, item in vars(module).items() if isinstance(item, Model)}
    if model is None and others:
        name, other = list(others.items())[-1]
        where = f" ({other.location})" if other.location else ""
        called = f"its {other.kind} is called `{name}`{where}"
        raise ModelError(f"{path.name} declares no `model`: {called}; write `model` for `{name}`")
    if model is None:
        raise ModelError(f"{path.name} declares no `model`; end the file with `model = System(...)` or another kind")
    if not isinstance(model, Model):
        raise ModelError(f"{path.name}: `model` must be a System, FixedPoint, Singularity or Flow, got {type(model).__name__}")
    if not path.stem.isidentifier():
        raise ModelError(
            f"{path.name}: a model is named by its file's stem, which must be a Python identifier; rename the file, "
            f"for example to {model.name}.py"
        )
    if model.name != path.stem:
        where = f"in {model.location}, " if model.location else ""
        raise MisnamedError(
            f"{path.name}: the model is named `{model.name}`; a model's name is its file's stem, `{path.stem}`: {where}write "
            f'"{path.stem}" for "{model.name}"', model,
        )  # fmt: skip
    return model._with(doc=module.__doc__, file=str(path))
