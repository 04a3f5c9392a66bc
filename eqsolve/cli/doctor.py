"""The commands that examine the installation, and start a new model file from an existing model."""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import keyword
import math
import operator
import os
import platform
import shutil
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsolve.cli.options import command, value
from eqsolve.cli.output import lay_out, paint, write, write_json
from eqsolve.errors import EqsolveError, UsageError
from eqsolve.language.loading import find, folders, list_models, load
from eqsolve.solvers.threads import THREAD_LIMITS

if TYPE_CHECKING:
    from eqsolve.language.model import Model


@command("examine the installation and test it", "doctor", "doctor --json", model=False)
def run_doctor(options: Namespace) -> int:
    """Report versions, linear algebra, threads, GPU, models and caches, and solve a few small systems whose
    solutions are known. Exit code 0: all is well; 1: a value lies outside its error estimate.
    """
    findings, began = list(examine()), time.perf_counter()
    trials = list(run_trials())
    seconds = time.perf_counter() - began
    sound = all(trial["ok"] for trial in trials)
    advice = {name: text for _, name, _, text in findings if text}
    if options.json:
        found = {name: value for _, name, value, _ in findings}
        write_json({"ok": sound, "found": found, "advice": advice, "self_test": trials, "seconds": seconds})
        return 0 if sound else 1
    for title, lines in itertools.groupby(findings, key=operator.itemgetter(0)):
        write(paint(title, "bold"))
        write(lay_out([line[1:3] for line in lines], indent="  ", styles=("cyan", "")) + "\n")
    write(paint("self-test against closed forms", "bold"))
    width = max(len(t["name"]) for t in trials)
    for t in trials:
        mark = paint("ok    ", "green") if t["ok"] else paint("FAILED", "bold red")
        took = paint(f"{t['seconds']:.1f} s", "faint")
        write(f"  {paint(t['name'].ljust(width), 'cyan')}  {mark}  {t['detail']}  {took}")
    write("")
    for name, text in advice.items():
        write(f"{paint('note:', 'yellow')} {name}: {text}")
    verdict = "all is well" if sound else "this installation does not compute rightly; please report the lines above"
    write(f"{paint(verdict, 'bold green' if sound else 'bold red')} ({seconds:.1f} s)")
    return 0 if sound else 1


@command(
    "start a new model from an existing one",
    "new my_variant --from {model}",
    model=False, json=False,
    own={
        "name": value("NAME", "the new model's name, such as my_variant"),
        "--from": value("M", "the model to start from: a name, or a file's path", dest="source", required=True),
    },
)  # fmt: skip
def run_new(options: Namespace) -> int:
    """Write ./models/NAME.py: the file of the model M under a new name, without closed forms. The new
    file passes `eqsolve check` as it stands. Its tests, ./tests/test_NAME.py, are written too.
    Existing files are left alone.
    """
    path, tests = write_variant(options.name, options.source)
    write(f"wrote {os.path.relpath(path)}: a variant of {options.source}, ready to be changed")
    write(f"wrote {os.path.relpath(tests)}: its tests, run by pytest")
    write(f"next: edit the model, then `eqsolve check {options.name}` and `eqsolve show {options.name}`")
    return 0


# --- `examine`: what an installation consists of, and whether it computes rightly.
#
# The self-test declares small systems of its own whose solutions are known in closed form, one for
# each way the engine solves equations, and asks that every value lie within its own error estimate.

eq: Any = importlib.import_module("eqsolve")
_NEEDED = ("sympy", "mpmath", "numpy", "scipy", "matplotlib", "xarray", "h5netcdf", "h5py")
_EXTRAS = ("cupy-cuda12x", "cupy-cuda13x", "distributed", "dask", "pandas", "pytest", "hypothesis")


Finding = tuple[str, str, str, str]
"""The heading, the name and the value of a line of the report, and what could be better."""


def examine() -> Iterator[Finding]:
    """Yield versions, machine, linear algebra, threads, GPU and where models and caches are."""
    from importlib import metadata  # takes long to import

    import matplotlib
    import numpy as np

    from eqsolve.numerics.backend import card_problem, choose_backend

    yield "installation", "eqsolve", f"{eq.__version__} in {Path(__file__).resolve().parents[1]}", ""
    yield "installation", "Python", f"{platform.python_version()} ({platform.python_implementation()})", ""
    there = list(dict.fromkeys(str(folder) for folder in folders() if folder.is_dir()))
    count = len(list_models())
    advice = "" if count else "no model can be named; put a file into ./models or name a folder in EQSOLVE_PATH"
    yield "installation", "models", f"{count} in {', '.join(there) or 'no folder'}", advice
    own = os.environ.get("EQSOLVE_CACHE", "~/.cache/eqsolve") or "none"
    yield "installation", "cache", f"{own} for compiled models; matplotlib's: {matplotlib.get_cachedir()}", ""
    # of two installations of a package the first is the one that is imported
    installed = {(item.name or "").lower(): item.version for item in reversed([*metadata.distributions()])}
    for name in _NEEDED:
        yield "packages", name, installed.get(name, "missing"), "" if name in installed else f"needed: pip install {name}"
    extras = [f"{name} {installed[name]}" for name in _EXTRAS if name in installed]
    yield "packages", "extras", ", ".join(extras) or "none", ""
    yield "machine", "system", platform.platform(), ""
    yield "machine", "CPUs", str(os.cpu_count()), ""
    limits = [f"{name}={os.environ[name]}" for name in THREAD_LIMITS if name in os.environ]
    advice = "" if limits else "more than one linear-algebra thread is often slower here; try OMP_NUM_THREADS=1"
    yield "machine", "threads", ", ".join(limits) or "not limited", advice
    built: Any = np.show_config(mode="dicts")
    blas = built.get("Build Dependencies", {}).get("blas", {})
    yield "machine", "BLAS", f"{blas.get('name', 'unknown')} {blas.get('version', '')}".rstrip(), ""
    driver = "a driver is installed" if shutil.which("nvidia-smi") else "no driver found"
    if problem := card_problem():
        card = f"not used: {driver}, {problem}"
    else:
        gpu = choose_backend("gpu")
        card = f"{gpu.label}, {gpu.memory() / 1e9:.3g} GB free; taken with device='gpu' or 'auto'"
    yield "machine", "GPU", card, ""


# --- self-test
def run_trials() -> Iterator[dict[str, Any]]:
    """Solve each small system and compare it with its closed form; one of them on the graphics card, if there is one."""
    from eqsolve.numerics.backend import card_problem

    trials = dict(_TRIALS)
    if not card_problem():
        trials["graphics card"] = functools.partial(_noise, device="gpu", solver="stochastic")
    for name, build in trials.items():
        began = time.perf_counter()
        try:
            gap, error = build()
            ok = bool(gap <= error and error < 1e-2)
            detail = f"off by {gap:.1e}, error estimate {error:.1e}"
        except Exception as problem:  # whatever is wrong with an installation shows here
            ok, detail = False, f"{type(problem).__name__}: {problem}"
        yield {"name": name, "ok": ok, "detail": detail, "seconds": time.perf_counter() - began}


def _compare(
    eqs: list[Any], init: dict[Any, int], shown: Any, exact: Callable[[float], float], laws: Any = None, **options: Any
) -> tuple[float, float]:
    """Return how far an observable of a system is from its closed form, and its error estimate."""
    model = eq.System("self_test", eqs=eqs, init=init, observables={"m": shown}, laws=laws or {})
    solution = eq.solve(model, at=[0.5, 1.0], **options).at([0.5, 1.0])
    values, errors = solution["m"].values, solution["m_error"].values
    return max(abs(value - exact(moment)) for value, moment in zip(values, (0.5, 1.0), strict=True)), float(max(errors))


def _decay() -> tuple[float, float]:
    """y' = −y."""
    t, y = eq.times("t"), eq.function("y")
    return _compare([eq.Eq(y(t).diff(t), -y(t))], {y: 1}, y(t), lambda moment: math.exp(-moment))


def _average() -> tuple[float, float]:
    """E exp(−kt) with k uniform on [0, 1]."""
    from eqsolve.laws import Uniform

    t, w, k = eq.times("t"), eq.process("w"), eq.random("k", Uniform(0, 1))
    decay = eq.Eq(w(t).diff(t), -k * w(t))
    return _compare([decay], {w: 1}, eq.E(w(t)), lambda moment: -math.expm1(-moment) / moment)


def _memory() -> tuple[float, float]:
    """y' = −∫y, solved by the cosine."""
    (t, s), y = eq.times("t s"), eq.function("y")
    return _compare([eq.Eq(y(t).diff(t), -eq.Int(y(s), (s, 0, t)))], {y: 1}, y(t), math.cos)


def _noise(**options: Any) -> tuple[float, float]:
    """x' = −x + z with a noise whose covariance is that of x: E x² = exp(−2t) I₀(2t), with a Bessel function."""
    import numpy as np

    (t, other), (x, z), C = eq.times("t t'"), eq.process("x z"), eq.correlation("C")
    equations = [eq.Eq(C(t, other), eq.E(x(t) * x(other))), eq.Eq(x(t).diff(t), z(t) - x(t))]
    laws, given = {z: eq.GP(C(t, other))}, {"rtol": 1e-4, **options}
    return _compare(equations, {x: 1}, C(t, t), lambda moment: np.exp(-2 * moment) * np.i0(2 * moment), laws, **given)


def _fixed_point() -> tuple[float, float]:
    """v = E[(a + z √v / 2)²] with a standard normal z: v = 4a²/3."""
    from sympy import Rational

    a, v, z = eq.param("a", positive=True), eq.unknown("v", positive=True), eq.normal("z")
    equation = eq.Eq(v, eq.E((a + z * v ** Rational(1, 2) / 2) ** 2))
    solution = eq.solve(eq.FixedPoint("self_test_fixed_point", eqs=[equation], defaults={a: 1}))
    return abs(solution["v"].item() - 4 / 3), solution.error["v"].item()


_TRIALS: dict[str, Callable[[], tuple[float, float]]] = {
    "differential equation": _decay,
    "random constant": _average,
    "memory": _memory,
    "Gaussian noise": _noise,
    "fixed point": _fixed_point,
}


# --- Starting a new model file from another: a copy, without what belongs to the original only.

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

    It is without closed forms and the name of the microscopic model.
    """
    from eqsolve.language.system import Cases

    if isinstance(model, Cases):
        names = ", ".join(case for _, case in model.cases)
        raise UsageError(f"model `{model.name}` chooses among other models by its parameters; start from one of: {names}")
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    named = [(call, arg) for call in calls for arg in call.args if getattr(arg, "value", None) == model.name]
    if not named:
        raise UsageError(f"cannot write a variant of `{model.name}`: its file does not name it in its last call")
    call, argument = named[0]
    changes: dict[Any, str] = {item.value: "None" for item in call.keywords if item.arg in ("exact", "flow")}
    changes[argument] = f'"{name}"'
    content = text.encode()  # of which syntax trees count the bytes
    starts = [0, *itertools.accumulate(map(len, content.splitlines(keepends=True)))]
    for node in sorted(changes, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        first, last = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
        content = content[:first] + changes[node].encode() + content[last:]
    text = content.decode()
    doc = f'''"""Variant of {model.name}: say here in one line what is different.

Closed forms (exact=) and the microscopic model (flow=, which `eqsolve validate` needs) are left
out: they belong to the original equations.

'''
    return text.replace('"""', doc, 1) if ast.get_docstring(ast.parse(text)) else f'{doc.rstrip()}\n"""\n\n{text}'


def write_variant(name: str, source: str) -> tuple[Path, Path]:
    """Write ``models/NAME.py`` here, a variant of another model, and its tests; never overwrite."""
    from eqsolve.language.printing import decimal_text
    from eqsolve.language.system import System

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
            variant = load(str(trial))
            check(variant)
        except EqsolveError as error:
            raise UsageError(f"cannot write a variant of `{original.name}`: {error}") from None
    if any(getattr(variant, part, None) != getattr(original, part, None) for part in ("equations", "drift")):
        raise UsageError(f"cannot write a variant of `{original.name}`: its file depends on its name or place")
