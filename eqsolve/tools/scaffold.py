"""Starting a new model file from another: a copy under a new name, without what belongs to the original only."""

import ast
import keyword
import tempfile
from pathlib import Path

from eqsolve.errors import EqsolveError, UsageError
from eqsolve.language.loading import find, list_models, load
from eqsolve.language.model import Model
from eqsolve.language.printing import decimal_text
from eqsolve.language.system import Cases, System

_DROPPED = {
    "exact": "the closed forms belong to the original equations",
    "flow": "the name of your own microscopic model; `eqsolve validate` needs one",
}

_TESTS = '''"""Tests of the model {name}; run them with: pytest tests/test_{name}.py"""

from pathlib import Path

import eqsolve

MODEL = eqsolve.load(str(Path(__file__).parents[1] / "models" / "{name}.py"))


def test_the_equations_are_sound() -> None:
    eqsolve.check(MODEL)
'''
_TESTS_IN_TIME = """

def test_a_short_solve_meets_its_tolerance() -> None:
    res = eqsolve.solve(MODEL, t_max={last}, rtol=1e-3)
    assert res.status == "ok", res.message


def test_a_finer_solve_agrees_within_the_errors() -> None:
    rough, fine = (eqsolve.solve(MODEL, t_max={last}, rtol=rtol).at({last}) for rtol in (1e-3, 1e-5))
    for name in MODEL.observables:
        allowed = rough[f"{{name}}_error"] + fine[f"{{name}}_error"]
        assert abs(rough[name] - fine[name]).item() <= allowed.item(), name


# What do you know of the solution? A limit, a conserved quantity, a closed form: test it here.
"""


def variant_source(name: str, model: Model, text: str) -> str:
    """Return the text of a model file under another name, with a line for what is different.

    Closed forms and the name of the microscopic model are left out: they belong to the original equations.
    """
    if isinstance(model, Cases):
        names = ", ".join(case for _, case in model.cases)
        raise UsageError(f"model `{model.name}` chooses among other models by its parameters; start from one of: {names}")
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    called = next((call for call in calls for arg in call.args if getattr(arg, "value", None) == model.name), None)
    if called is None:
        raise UsageError(f"cannot write a variant of `{model.name}`: its file does not name it in its last call")
    changes: list[tuple[ast.expr, str]] = []
    for arg in called.args:
        if isinstance(arg, ast.Constant) and arg.value == model.name:
            changes.append((arg, f'"{name}"'))
    dropped = [item for item in called.keywords if item.arg in _DROPPED]
    changes += [(item.value, f"None,  # {_DROPPED[str(item.arg)]}") for item in dropped]
    for node, new in sorted(changes, key=lambda change: (-change[0].lineno, -change[0].col_offset)):
        text = _exchange(text, node, new)
    doc = f'"""Variant of {model.name}: say here in one line what is different.\n\n'
    return text.replace('"""', doc, 1) if ast.get_docstring(ast.parse(text)) else f'{doc.rstrip()}\n"""\n\n{text}'


def _exchange(text: str, node: ast.expr, new: str) -> str:
    """Return a text with the code of a node exchanged; a comma behind the node gives way to one in ``new``."""
    lines = text.encode().splitlines(keepends=True)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    before = b"".join(lines[:first]) + lines[first][: node.col_offset]
    after = lines[last][node.end_col_offset :] + b"".join(lines[last + 1 :])
    if "," in new:
        rest = after.lstrip(b",")
        after = rest if rest.startswith(b"\n") else b"\n    " + rest.lstrip()
    return (before + new.encode() + after).decode()


def write_variant(name: str, source: str) -> tuple[Path, Path]:
    """Write ``models/NAME.py`` in the current folder, a variant of another model, and its tests; never overwrite.

    Parameters
    ----------
    name
        The new model's name.
    source
        The name of the model it varies, or the path of its file.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_") or name in ("base", "model"):
        raise UsageError(
            f"{name!r} cannot name a model: expected letters, digits and underscores, a letter first, such as my_variant"
        )
    path, tests = Path.cwd() / "models" / f"{name}.py", Path.cwd() / "tests" / f"test_{name}.py"
    for file in (path, tests):
        if file.exists():
            raise UsageError(f"{file} exists already; choose another name, or remove the file first")
    other = next((item for item in list_models() if item.name == name), None)
    if other is not None:
        raise UsageError(f"there is a model `{name}` already ({other.path}); choose another name")
    model = load(source)
    text = variant_source(name, model, find(source).read_text(encoding="utf-8"))
    _try_out(name, text, model)
    checks = _TESTS.format(name=name)
    if isinstance(model, System):
        checks += _TESTS_IN_TIME.format(last=decimal_text(model.start + 1))
    for file, content in ((path, text), (tests, checks)):
        try:
            file.parent.mkdir(exist_ok=True)
            with open(file, "x", encoding="utf-8") as stream:
                stream.write(content)
        except OSError as error:
            raise UsageError(f"cannot write {file}: {error.strerror or error}") from None
    return path, tests


def _try_out(name: str, text: str, original: Model) -> None:
    """Load and check the new file elsewhere before it is written: it must say what the original says."""
    from eqsolve.passes.check.check import check

    with tempfile.TemporaryDirectory(prefix="eqsolve-new-") as folder:
        trial = Path(folder) / f"{name}.py"
        trial.write_text(text, encoding="utf-8")
        try:
            made = load(str(trial))
            check(made)
        except EqsolveError as error:
            raise UsageError(f"cannot write a variant of `{original.name}`: {error}") from None
    if any(getattr(made, part, None) != getattr(original, part, None) for part in ("equations", "drift")):
        raise UsageError(f"cannot write a variant of `{original.name}`: its file depends on its name or place")
