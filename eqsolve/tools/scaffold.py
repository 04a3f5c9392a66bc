"""Writing a new model file that varies another: one equation as Python source, ready to be changed."""

from __future__ import annotations

import ast
import keyword
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sympy
from sympy import Add, Expr, oo
from sympy.core.function import Derivative

import eqsolve
from eqsolve.errors import EqsolveError, UsageError
from eqsolve.language.equations import Equation
from eqsolve.language.fixed_point import Cases
from eqsolve.language.flow import Flow
from eqsolve.language.loading import find, folders, list_models, load
from eqsolve.language.model import Model
from eqsolve.language.nodes import E, Int, InverseValue, Resp
from eqsolve.language.printing import TextPrinter, decimal_text
from eqsolve.language.source import Order
from eqsolve.language.symbols import Head, Named, Plain, Value
from eqsolve.language.system import System

__all__ = ["expression_source", "tests_source", "variant_source", "write_variant"]

_LINE = 110


class SourcePrinter(TextPrinter):
    """Prints an expression as the Python code that makes it, terms in the order written."""

    printmethod = "_source"  # no node has it: the methods below print them all

    def __init__(self, names: Mapping[str, str], order: Order) -> None:
        super().__init__(order)
        self.names = names

    def _name(self, declared: str) -> str:
        return self.names.get(declared, declared)

    def _print_Symbol(self, expr: Named) -> str:
        return self._name(expr.name)

    def _print_Head(self, expr: Head) -> str:
        return self._name(expr.name)

    def _print_Function(self, expr: Any) -> str:
        # The language's one-time functions share this name with sympy's own.
        return self._name(expr.name) if isinstance(expr, Head) else str(super()._print_Function(expr))

    def _print_Value(self, expr: Value) -> str:
        return f"{self._name(expr.head.name)}({', '.join(self._print(moment) for moment in expr.moments)})"

    def _print_Derivative(self, expr: Derivative) -> str:
        return f"{self._print(expr.expr)}.diff({self._print(expr.variables[0])})"

    def _print_E(self, expr: E) -> str:
        return f"E({self._print(expr.argument)})"

    def _print_Resp(self, expr: Resp) -> str:
        return f"Resp({self._print(expr.output)}, {self._print(expr.noise)})"

    def _print_Int(self, expr: Int) -> str:
        limits = ", ".join(self._print(part) for part in (expr.variable, expr.low, expr.high))
        return f"Int({self._print(expr.integrand)}, ({limits}))"

    def _print_InverseValue(self, expr: InverseValue) -> str:
        low, high = expr.domain
        domain = "" if (low, high) == (-oo, oo) else f", domain=({self._print(low)}, {self._print(high)})"
        inner = f"{self._print(expr.expression)}, {self._print(expr.variable)}{domain}"
        return f"Inverse({inner})({self._print(expr.argument)})"

    def _print_Abs(self, expr: Expr) -> str:
        return f"Abs({self._print(expr.args[0])})"

    def _print_Rational(self, expr: sympy.Rational) -> str:
        return f"Rational({expr.p}, {expr.q})" if expr.q != 1 else str(expr.p)

    def _print_Exp1(self, expr: Expr) -> str:
        return "exp(1)"  # E is the expectation

    def _print_Equality(self, expr: Any) -> str:
        return f"Equality({self._print(expr.lhs)}, {self._print(expr.rhs)})"  # Eq makes an equation of a model

    def _print_Unequality(self, expr: Any) -> str:
        return f"Ne({self._print(expr.lhs)}, {self._print(expr.rhs)})"


def expression_source(expr: Expr, names: Mapping[str, str] | None = None, order: Order | None = None) -> str:
    """Return the Python code that makes an expression; ``names`` gives declared names their Python names."""
    return str(SourcePrinter(names or {}, order or {}).doprint(expr))


def python_names(model: Model) -> dict[str, str]:
    """Return a Python name for every declared name; ``t'`` becomes ``tp``, nothing hides an import."""
    taken = {*eqsolve.__all__, "eqsolve", "base", "model", *keyword.kwlist, "True", "False", "None"}
    names: dict[str, str] = {}
    for declared in model.names:
        name = declared.replace("'", "p")
        while name in taken or (name != declared and name in model.names) or (hasattr(sympy, name) and len(name) > 2):
            name += "_"
        taken.add(name)
        names[declared] = name
    return names


@dataclass(frozen=True)
class _Part:
    """What the variant spells out: an argument of ``replace`` as lines of code."""

    lines: tuple[str, ...]
    what: str


class _Writer:
    """Writes the parts of one model in the names that the new file gives them."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.names = python_names(model)
        named = {name: value for name, value in getattr(model, "variables", {}).items() if value.args}
        # A model's named quantities are written by their names, the largest first.
        self.variables = {
            name: value
            for name, value in sorted(named.items(), key=lambda item: -item[1].count_ops())
            if name not in model.names and name.isidentifier() and not keyword.iskeyword(name)
        }

    def short(self, expr: Expr) -> Expr:
        for name, value in self.variables.items():
            expr = expr.subs(value, Plain(name))
        return expr

    def source(self, expr: Expr, order: Order | None = None) -> str:
        shortened = {self.short(whole): tuple(self.short(part) for part in parts) for whole, parts in (order or {}).items()}
        return expression_source(self.short(expr), self.names, shortened)

    def equation(self, equation: Equation) -> list[str]:
        left, right = self.source(equation.lhs, equation.order), self.source(equation.rhs, equation.order)
        line = f"        Eq({left}, {right}),"
        if len(line) <= _LINE or not isinstance(self.short(equation.rhs), Add):
            return [line]
        terms = [self.source(term, equation.order) for term in equation.order.get(equation.rhs, equation.rhs.args)]
        first, *others = terms
        joined = [f"           {'- ' + term[1:] if term.startswith('-') else '+ ' + term}" for term in others]
        lines = [f"        Eq({left},", f"           {first}", *joined]
        return [*lines[:-1], f"{lines[-1]}),"]

    def part(self) -> _Part:
        model = self.model
        if isinstance(model, Flow):
            entries = [f"        {self.names[key.name]}: {self.source(value)}," for key, value in model.drift.items()]
            return _Part(("    drift={", *entries, "    },"), "the drift")
        if isinstance(model, Cases):
            names = ", ".join(name for _, name in model.cases)
            raise UsageError(f"model `{model.name}` chooses among other models by its parameters; start from one of: {names}")
        if not model.equations:
            raise UsageError(f"model `{model.name}` has no equation that a variant could replace")
        chosen = ([item for item in model.equations if item.is_differential] or list(model.equations))[-1]
        return _Part(("    eqs=[", *self.equation(chosen), "    ],"), f"the equation for `{chosen.key}`")

    def inherited(self) -> list[str]:
        """Return what the variant must not inherit: it belongs to the original equations."""
        lines = []
        exact = getattr(self.model, "exact", {})
        if exact:
            keys = [repr(key) if isinstance(key, str) else self.source(key) for key in exact]
            entries = ", ".join(f"{key}: None" for key in keys)
            lines.append(f"    exact={{{entries}}},  # the closed forms belong to the original equations")
        if getattr(self.model, "flow", None):
            lines.append("    flow=None,  # the name of your own microscopic model, if there is one")
        return lines


def variant_source(name: str, model: Model, loaded_as: str) -> str:
    """Return the text of a model file that loads another and replaces one of its equations by itself."""
    writer = _Writer(model)
    part = writer.part()
    call = ["model = base.replace(", f'    "{name}",', *part.lines, *writer.inherited(), ")"]
    used = _names_in("\n".join(call))
    declared = [item for item, python in writer.names.items() if python in used]
    variables = [item for item in writer.variables if item in used]
    rest = used - {writer.names[item] for item in declared} - set(variables) - {"base", "model", "None", "True"}
    from_eqsolve = sorted((item for item in rest if item in eqsolve.__all__), key=_import_order)
    from_sympy = sorted((item for item in rest if item not in eqsolve.__all__), key=_import_order)
    missing = [item for item in from_sympy if not hasattr(sympy, item)]
    if missing:
        raise UsageError(f"model `{model.name}` uses `{missing[0]}`, which cannot be written into a model file")
    lines = [
        f'"""Variant of {model.name}: say here in one line what is different.',
        "",
        f"Everything is that of {model.name}; {part.what} is written out below, to be changed.",
        '"""',
        "",
    ]
    lines += [f"from sympy import {', '.join(from_sympy)}", ""] if from_sympy else []
    lines += ["import eqsolve"]
    lines += [f"from eqsolve import {', '.join(from_eqsolve)}"] if from_eqsolve else []
    lines += ["", f"base = eqsolve.load({loaded_as!r})".replace("'", '"')]
    if declared:
        names = ", ".join(writer.names[item] for item in declared)
        lines += [f'{names} = base.symbols("{" ".join(declared)}")']
    lines += [f'{item} = base.variables["{item}"]' for item in variables]
    return "\n".join([*lines, "", *call, ""])


def _names_in(code: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


def _import_order(name: str) -> tuple[int, str]:
    """Order names as import sorters do: constants, classes, functions."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2, name)


def tests_source(name: str, model: Model) -> str:
    """Return the text of a file of tests for a new model: sound, and solved within its error estimates."""
    lines = [
        f'"""Tests of the model {name}; run them with: pytest tests/test_{name}.py"""',
        "",
        "from pathlib import Path",
        "",
        "import eqsolve",
        "",
        f'MODEL = eqsolve.load(str(Path(__file__).parents[1] / "models" / "{name}.py"))',
        "",
        "",
        "def test_the_equations_are_sound() -> None:",
        "    eqsolve.check(MODEL)",
    ]
    if isinstance(model, System):
        last = decimal_text(model.start + 1)
        lines += [
            "",
            "",
            "def test_a_short_solve_meets_its_tolerance() -> None:",
            f"    res = eqsolve.solve(MODEL, t_max={last}, rtol=1e-3)",
            '    assert res.status == "ok", res.message',
            "",
            "",
            "def test_a_finer_solve_agrees_within_the_errors() -> None:",
            f"    rough, fine = (eqsolve.solve(MODEL, t_max={last}, rtol=rtol).at({last}) for rtol in (1e-3, 1e-5))",
            "    for name in MODEL.observables:",
            '        allowed = rough[f"{name}_error"] + fine[f"{name}_error"]',
            "        assert abs(rough[name] - fine[name]).item() <= allowed.item(), name",
            "",
            "",
            "# What do you know of the solution? A limit, a conserved quantity, a closed form: test it here.",
        ]
    return "\n".join([*lines, ""])


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
    path = Path.cwd() / "models" / f"{name}.py"
    if path.exists():
        raise UsageError(f"{path} exists already; choose another name, or remove the file first")
    other = next((item for item in list_models() if item.name == name), None)
    if other is not None:
        raise UsageError(f"there is a model `{name}` already ({other.path}); choose another name")
    model = load(source)
    file = find(source)
    by_name = any((folder / f"{model.name}.py").resolve() == file.resolve() for folder in folders())
    text = variant_source(name, model, model.name if by_name and find(model.name) == file else str(file))
    _try_out(name, text, model)
    tests = Path.cwd() / "tests" / f"test_{name}.py"
    if tests.exists():
        raise UsageError(f"{tests} exists already; choose another name, or remove the file first")
    for file, content in ((path, text), (tests, tests_source(name, model))):
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
    parts = ("equations", "drift")
    if any(getattr(made, part, None) != getattr(original, part, None) for part in parts):
        raise UsageError(f"cannot write a variant of `{original.name}`: its equation has no faithful Python source")
