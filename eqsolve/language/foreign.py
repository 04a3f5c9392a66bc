"""What Python, numpy and sympy say to a mistake in a model file, told in the language of models, with the fix."""

import ast
import builtins
import difflib
import inspect
import linecache
import re
import sys
from pathlib import Path
from types import FrameType, ModuleType, TracebackType
from typing import Any

import sympy
from sympy import Basic

from eqsolve.errors import did_you_mean
from eqsolve.language.source import node_at
from eqsolve.language.symbols import Head

_NUMERIC = ("numpy", "math", "cmath", "scipy", "mpmath", "builtins", "statistics", "torch", "jax")
_NAMES = {
    "arctan": "atan", "arcsin": "asin", "arccos": "acos", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2", "maximum": "Max", "fmax": "Max", "max": "Max", "minimum": "Min", "fmin": "Min", "min": "Min",
    "absolute": "Abs", "fabs": "Abs", "abs": "Abs", "power": "Pow", "pow": "Pow", "heaviside": "Heaviside", "jv": "besselj",
    "yv": "bessely", "iv": "besseli", "kv": "besselk", "lambertw": "LambertW", "gammaln": "loggamma", "lgamma": "loggamma",
    "psi": "digamma", "ceil": "ceiling", "j0": "besselj", "i0": "besseli",
}  # fmt: skip
_FORMULAS = {
    "log1p": "{s}log(1 + {x})", "expm1": "{s}exp({x}) - 1", "log2": "{s}log({x}, 2)", "log10": "{s}log({x}, 10)",
    "exp2": "2**({x})", "cbrt": "{s}cbrt({x})", "expit": "1/(1 + {s}exp(-({x})))", "square": "({x})**2",
    "logit": "{s}log({x}) - {s}log(1 - {x})", "ndtr": "(1 + {s}erf(({x})/{s}sqrt(2)))/2",
    "_norm_cdf": "(1 + {s}erf(({x})/{s}sqrt(2)))/2", "_norm_pdf": "{s}exp(-({x})**2/2)/{s}sqrt(2*{s}pi)",
    "erfcx": "{s}exp(({x})**2)*{s}erfc({x})", "where": "{s}Piecewise((a, condition), (b, True))",
    "clip": "{s}Min({s}Max({x}, low), high)", "j0": "{s}besselj(0, {x})", "i0": "{s}besseli(0, {x})",
    "hypot": "{s}sqrt(a**2 + b**2)", "float": "{x}", "interp": "{s}Piecewise((a, condition), (b, True))",
    "reciprocal": "1/({x})", "sigmoid": "1/(1 + {s}exp(-({x})))",
}  # fmt: skip
_OF_EXPRESSIONS = re.compile(r"ufunc|truth value|[Cc]annot (convert|create|round)|has no len|not iterable|no attribute")


def describe_exception(path: Path, error: BaseException) -> str:
    """Describe an exception at the innermost line of the user's file, not at ours."""
    entry = error.__traceback__
    own: TracebackType | None = None
    while entry is not None:
        if entry.tb_frame.f_code.co_filename == str(path):
            own = entry
        entry = entry.tb_next
    if own is None:
        return f"{path.name}: {type(error).__name__}: {error}"
    linecache.checkcache(str(path))
    line = linecache.getline(str(path), own.tb_lineno).strip()
    explanation = _explained(own, error) or f"{type(error).__name__}: {error}"
    return f"{path.name}:{own.tb_lineno}: {explanation}" + (f"\n    {line}" if line else "")


def _explained(place: TracebackType, error: BaseException) -> str | None:
    frame = place.tb_frame
    node = node_at(frame, place.tb_lasti)
    if isinstance(error, NameError):
        return _unknown_name(getattr(error, "name", None), frame)
    if isinstance(error, ImportError):
        return _bad_import(error)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
        return f"`^` is no power in Python; write `{ast.unparse(ast.BinOp(node.left, ast.Pow(), node.right))}`"
    if isinstance(node, ast.Subscript) and isinstance(head := _value(node.value, frame), Head):
        return head.uncalled
    if "'Family' object is not iterable" in str(error):
        return "a name with an index is no list of members; write `x[0]` for one of them, `Sum(x[k](t), k)` for their sum"
    if isinstance(node, ast.Call):
        return _bad_call(node, frame, error)
    return _no_truth(error, frame)


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return what a name, or a name with dots, stands for in the user's file; nothing is called."""
    if isinstance(node, ast.Name):
        return frame.f_locals.get(node.id, frame.f_globals.get(node.id, getattr(builtins, node.id, None)))
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, frame), node.attr, None)
    return None


def _home(function: Any) -> str:
    """Return the library a function comes from."""
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):  # a method, such as norm.cdf
        return type(owner).__module__.split(".")[0]
    known = getattr(function, "__module__", None) or getattr(owner, "__name__", None)
    if known is None and type(function).__name__ == "ufunc":
        import numpy

        known = "numpy" if getattr(numpy, function.__name__, None) is function else "scipy"
    return str(known or type(function).__module__).split(".")[0]


def _bad_call(node: ast.Call, frame: FrameType, error: BaseException) -> str | None:
    function, written = _value(node.func, frame), ast.unparse(node.func)
    for argument in node.args:
        if isinstance(head := _value(argument, frame), Head):
            return head.uncalled
    home = _home(function) if function is not None else ""
    if home == "eqsolve" and isinstance(error, TypeError):
        return _bad_signature(function, written, str(error))
    if home in _NUMERIC and isinstance(error, TypeError | AttributeError) and _OF_EXPRESSIONS.search(str(error)):
        library = "Python" if home == "builtins" else home
        fix = _written_with_sympy(node, function, frame)
        if fix is not None:
            return f"`{written}` is {library}'s and takes numbers, not expressions; write {fix}"
    return _no_truth(error, frame)


def _written_with_sympy(node: ast.Call, function: Any, frame: FrameType) -> str | None:
    alias = next((name for name, value in frame.f_globals.items() if value is sympy), None)
    prefix, after = f"{alias or 'sympy'}.", "" if alias else ", after `import sympy`"
    own, called = str(getattr(function, "__name__", "")), ast.unparse(node.func).rpartition(".")[2]
    name = own if own in _FORMULAS or own in _NAMES or hasattr(sympy, own) else called
    owner = getattr(function, "__self__", None)
    if name in ("pdf", "cdf") and "norm" in type(owner).__name__:
        name = f"_norm_{name}"
    arguments = [ast.unparse(item) for item in node.args]
    if name == "where" and len(arguments) == 3:
        condition, one, other = arguments
        return f"`{prefix}Piecewise(({one}, {condition}), ({other}, True))`{after}"
    if name == "clip" and len(arguments) == 3:
        return f"`{prefix}Min({prefix}Max({arguments[0]}, {arguments[1]}), {arguments[2]})`{after}"
    if name in _FORMULAS:
        return f"`{_FORMULAS[name].format(s=prefix, x=arguments[0] if arguments else 'x')}`{after}"
    name = _NAMES.get(name, name)
    counterpart = getattr(sympy, name, None)
    is_class = isinstance(counterpart, type) and issubclass(counterpart, Basic)
    if is_class or name in ("sqrt", "cbrt", "Pow"):
        return f"`{prefix}{name}({', '.join(arguments)})`{after}"
    symbolic = any(isinstance(_value(item, frame), Basic) or isinstance(item, ast.Call | ast.BinOp) for item in node.args)
    return f"it with sympy's functions, such as {prefix}tanh, {prefix}Max or {prefix}Piecewise{after}" if symbolic else None


def _no_truth(error: BaseException, frame: FrameType) -> str | None:
    if isinstance(error, TypeError) and re.search(r"[Cc]annot (convert|create)|loop of ufunc|ufunc '", str(error)):
        return "an expression stands where a number is needed; write functions of expressions with sympy's, such as sympy.tanh"
    if "truth value" not in str(error) or not isinstance(error, TypeError):
        return None
    condition = str(error).partition(": ")[2] or "a condition"
    alias = next((name for name, value in frame.f_globals.items() if value is sympy), "sympy")
    return (
        f"`{condition}` is an expression, neither true nor false while a model is written; in place of if, and, or, max "
        f"write `{alias}.Piecewise((a, {condition}), (b, True))` or `{alias}.Max(a, b)`"
    )


def _bad_signature(function: Any, written: str, message: str) -> str | None:
    """Tell of an argument that a function of eqsolve does not take, or lacks."""
    try:
        taken = [name for name in inspect.signature(function).parameters if name != "self"]
    except (TypeError, ValueError):
        return None
    strange = re.search(r"unexpected keyword argument '(\w+)'", message)
    if strange:
        near = did_you_mean(strange[1], taken)
        return f"{written} takes no `{strange[1]}=`{near} (it takes: {', '.join(taken)})"
    lacking = re.findall(r"'(\w+)'", message) if "missing" in message else []
    if lacking:
        return f"{written} needs {', '.join(f'{name}=...' for name in lacking)} (it takes: {', '.join(taken)})"
    if "positional argument" in message:
        return f"{written}: {message.partition('() ')[2]}; the others are given by name, such as {taken[-1]}=..."
    return None


def _unknown_name(name: str | None, frame: FrameType) -> str | None:
    if name is None:
        return None
    problem = f"the name `{name}` is not defined"
    if home := _home_of_name(name):
        return f"{problem}; write `from {home} import {name}`"
    declared = [item for item, value in {**frame.f_globals, **frame.f_locals}.items() if isinstance(value, Basic)]
    if near := did_you_mean(name, declared):
        return problem + near
    common = ("exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "sinh", "cosh", "sign", "Abs", "Max", "Min", "erf", "pi")
    known = {word.lower(): word for word in (*_public("eqsolve.language"), *common)}
    if close := difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.8):
        word = known[close[0]]
        return f"{problem}; did you mean `{word}`? (`from {_home_of_name(word)} import {word}`)"
    return f"{problem}; declare it, for example by param({name!r})"


def _public(start: str = "") -> list[str]:
    """Return the public names, those that models are written with alone where their modules start so."""
    return [name for name, module in sorted(sys.modules["eqsolve"]._WHERE.items()) if module.startswith(start)]


def _home_of_name(name: str) -> str | None:
    import eqsolve.laws

    if name in _public():
        return "eqsolve"
    if name in eqsolve.laws.__all__:
        return "eqsolve.laws"
    symbol = getattr(sympy, name, None)
    return "sympy" if isinstance(symbol, Basic | type) or name in ("sqrt", "cbrt") else None


def _bad_import(error: ImportError) -> str | None:
    if isinstance(error, ModuleNotFoundError):
        return f"there is no module `{error.name}` here; a model file imports eqsolve and sympy only"
    found = re.search(r"cannot import name '(\w+)'", str(error))
    if found is None:
        return None
    name, module = found[1], error.name or "?"
    home = _home_of_name(name)
    if home is not None and home != module:
        return f"`{module}` has no `{name}`; write `from {home} import {name}`"
    known = _public() if module == "eqsolve" else dir(sys.modules.get(module, sympy))
    return f"`{module}` has no `{name}`{did_you_mean(name, known)}"
