"""The house: data flows one way through the rooms, without circles; numerics and solvers know no symbols; files are short."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).resolve().parents[1]
ORDER = [  # a room may import itself, its neighbours in the row, and earlier rows
    ["errors", "_version", "verbs", "arguments", "progress", "deviations"],  # `verbs` names later stages: see its docstring
    ["numerics", "spectra", "files"],
    ["language", "laws"],
    ["passes"],
    ["compile"],
    ["laplace", "results"],  # a result is what every solver fills in
    ["solvers"],
    ["microscopic", "plotting", "curves", "phases"],
    ["solving", "explaining"],
    ["sweeping", "validation", "fitting"],
    ["eqsolve"],  # the public names
    ["figures", "tools", "explorer"],
    ["cli", "__main__"],
]
RANK = {room: place for place, row in enumerate(ORDER) for room in row}
SYMBOLIC = ("sympy", "eqsolve.language", "eqsolve.passes")
KNOWN: set[str] = set()


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {_name(path): path for path in sorted((ROOT / "eqsolve").rglob("*.py"))}


def _imports(node: ast.AST) -> Iterator[str]:
    """Yield the modules that a piece of code imports, at once or later, but not those for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from (item.name for item in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.module, "imports are absolute"
            full = [f"{child.module}.{item.name}" for item in child.names]
            yield from (name if name in FILES else child.module for name in full)
        yield from _imports(child)


@functools.cache
def _trees() -> dict[str, ast.Module]:
    return {name: ast.parse(path.read_text()) for name, path in FILES.items()}


@functools.cache
def _imported() -> dict[str, set[str]]:
    return {name: set(_imports(tree)) for name, tree in _trees().items()}


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else "eqsolve"


def test_there_are_no_circles() -> None:
    graph = nx.DiGraph((name, other) for name, found in _imported().items() for other in found if other in FILES)
    assert [sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 1] == []


def test_no_module_imports_a_later_stage() -> None:
    broken = {}
    for name in FILES:
        pure = _room(name) in ("numerics", "solvers")
        broken[name] = sorted(
            other
            for other in _imported()[name]
            if (other in FILES and RANK[_room(other)] > RANK[_room(name)]) or (pure and other.startswith(SYMBOLIC))
        )
    assert {name: found for name, found in broken.items() if found and name not in KNOWN} == {}
    assert [name for name in sorted(KNOWN) if not broken.get(name)] == [], "these are mended: take them out of KNOWN"


def test_files_are_short() -> None:
    assert {name: path for name, path in FILES.items() if len(path.read_text().splitlines()) > 500} == {}


def test_the_engine_names_no_model() -> None:
    models = {path.stem for path in (ROOT / "models").glob("*.py")}
    named = {
        (name, node.value)
        for name, tree in _trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in models
    }
    assert named == set()
