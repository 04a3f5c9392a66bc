"""Counts of the package: `python3 dev.py house` prints them, `tests/test_house.py` holds them. Needs nothing but Python."""

import ast
import collections
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIDE = 100  # columns
TARGET = 44_000  # lines

Number = int | float | complex


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {module_name(path): path for path in sorted((ROOT / "eqsolve").rglob("*.py"))}


@functools.cache
def texts() -> dict[str, str]:
    return {name: path.read_text(encoding="utf-8") for name, path in FILES.items()}


@functools.cache
def trees() -> dict[str, ast.Module]:
    return {name: ast.parse(text) for name, text in texts().items()}


def imports_of(node: ast.AST) -> Iterator[str]:
    """Yield the modules that a piece of code imports, at once or later, but not those for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr) or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test)):
            continue  # an expression imports nothing
        if isinstance(child, ast.Import):
            yield from (item.name for item in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.module, "imports are absolute"
            full = [f"{child.module}.{item.name}" for item in child.names]
            yield from (name if name in FILES else child.module for name in full)
        yield from imports_of(child)


@functools.cache
def imported() -> dict[str, set[str]]:
    return {name: set(imports_of(tree)) for name, tree in trees().items()}


@functools.cache
def circles() -> list[list[str]]:
    """Return the groups of modules that import each other (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in imported()[name] & FILES.keys():
            if other not in index:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == index[name]:
            place = stack.index(name)
            if len(stack) - place > 1:
                found.append(sorted(stack[place:]))
            del stack[place:]

    for name in FILES:
        if name not in index:
            visit(name)
    return found


def is_number(node: ast.AST | None) -> bool:
    """Whether an expression is written in numbers only: 3, -1e-3, 1 << 20, (2, 4, 8)."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, Number) and not isinstance(node.value, bool)
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Tuple) and bool(node.elts) and all(map(is_number, node.elts))


def tunables() -> list[str]:
    """Return the numbers that have a name in a module or stand as a default in a class, 0 and 1 apart: `module:name`."""
    found = []
    for module, tree in trees().items():
        for block in (tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))):
            for node in block.body:
                targets = (
                    node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
                )
                value = getattr(node, "value", None)
                plain = isinstance(value, ast.Constant) and value.value in (0, 1)
                if targets and is_number(value) and not plain:
                    found += [f"{module}:{ast.unparse(target)}" for target in targets]
    return found


def repeated_classes() -> dict[str, list[str]]:
    homes = collections.defaultdict(list)
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(module)
    return {name: found for name, found in sorted(homes.items()) if len(found) > 1}


def loaded(statement: str = "import eqsolve") -> set[str]:
    """Return the modules that a statement loads in a fresh Python."""
    code = f"import sys; {statement}; print(*sys.modules)"
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(made.stdout.split())


@functools.cache
def counts() -> dict[str, float]:
    kernels = [path.read_text(encoding="utf-8") for path in (ROOT / "eqsolve").rglob("*.cu")]
    whole = [*texts().values(), *kernels]
    lines = [line for text in whole for line in text.splitlines()]
    comments = sum(line.lstrip().startswith("#") for line in lines)
    return {
        "files": len(FILES),
        "lines": len(lines),
        "characters": sum(map(len, whole)),
        f"lines beyond {WIDE} columns": sum(len(line) > WIDE for line in lines),
        "numeric tunables": len(tunables()),
        "repeated class names": len(repeated_classes()),
        "circles": len(circles()),
        "comment lines, per mille": round(1000 * comments / len(lines)),
    }
