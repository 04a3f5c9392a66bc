"""`examine`: what an installation consists of, and whether it computes rightly, in a few seconds.

The self-test declares small systems of its own whose solutions are known in closed form, one for each way the engine
solves equations, and asks that every value lie within its own error estimate.
"""

import functools
import importlib
import math
import os
import platform
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

eq: Any = importlib.import_module("eqsolve")
_NEEDED = ("sympy", "mpmath", "numpy", "scipy", "matplotlib", "xarray", "h5netcdf", "h5py")
_EXTRAS = ("cupy-cuda12x", "cupy-cuda13x", "distributed", "dask", "pandas", "pytest", "hypothesis")


@dataclass(frozen=True)
class Finding:
    """One line of the report; ``advice`` says what could be better, ``part`` the heading it stands under."""

    name: str
    value: str
    advice: str = ""
    part: str = "installation"


@dataclass(frozen=True)
class Trial:
    """One system of the self-test: the largest deviation from its closed form, in units of the error estimate."""

    name: str
    ok: bool
    detail: str
    seconds: float


def examine() -> list[Finding]:
    """Return versions, machine, linear algebra, threads, GPU and where models and caches are."""
    packages = [replace(item, part="packages") for item in _packages()]
    machine = [replace(item, part="machine") for item in (*_machine(), *_linear_algebra(), *_graphics())]
    here = Finding("eqsolve", f"{eq.__version__} in {Path(__file__).resolve().parents[1]}")
    python = Finding("Python", f"{platform.python_version()} ({platform.python_implementation()})")
    return [here, python, *_places(), *packages, *machine]


def _packages() -> Iterator[Finding]:
    for name in _NEEDED:
        version = _version(name)
        yield Finding(name, version or "missing", "" if version else f"needed: pip install {name}")
    extras = [f"{name} {version}" for name in _EXTRAS if (version := _version(name))]
    yield Finding("extras", ", ".join(extras) or "none")


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _machine() -> Iterator[Finding]:
    yield Finding("system", platform.platform())
    yield Finding("CPUs", str(os.cpu_count()))
    from eqsolve.solvers.threads import THREAD_LIMITS

    with_limit = {name: os.environ[name] for name in THREAD_LIMITS if name in os.environ}
    advice = "" if with_limit else "more than one linear-algebra thread is often slower here; try OMP_NUM_THREADS=1"
    yield Finding("threads", ", ".join(f"{k}={v}" for k, v in with_limit.items()) or "not limited", advice)


def _linear_algebra() -> Iterator[Finding]:
    import numpy as np

    try:
        found: Any = np.show_config(mode="dicts")
        blas = found["Build Dependencies"]["blas"]
        yield Finding("BLAS", f"{blas.get('name', '?')} {blas.get('version', '?')}")
    except (KeyError, TypeError, AttributeError):  # numpy built in an unusual way
        yield Finding("BLAS", "unknown")


def _graphics() -> Iterator[Finding]:
    from eqsolve.numerics.backend import card_problem, choose_backend

    driver = "a driver is installed" if shutil.which("nvidia-smi") else "no driver found"
    if problem := card_problem():
        yield Finding("GPU", f"not used: {driver}, {problem}")
        return
    card = choose_backend("gpu")
    yield Finding("GPU", f"{card.label}, {card.memory() / 1e9:.3g} GB free; taken with device='gpu' or 'auto'")


def _places() -> Iterator[Finding]:
    from eqsolve.language.loading import folders, list_models

    there = list(dict.fromkeys(str(folder) for folder in folders() if folder.is_dir()))
    count = len(list_models())
    advice = "" if count else "no model can be named; put a file into ./models or name a folder in EQSOLVE_PATH"
    yield Finding("models", f"{count} in {', '.join(there) or 'no folder'}", advice)
    import matplotlib

    own = os.environ.get("EQSOLVE_CACHE", "~/.cache/eqsolve") or "none"
    yield Finding("cache", f"{own} for compiled models; matplotlib's: {matplotlib.get_cachedir()}")


# --- self-test
def run_trials() -> Iterator[Trial]:
    """Solve each small system and compare it with its closed form; one of them on the graphics card, if there is one."""
    from eqsolve.numerics.backend import card_problem

    trials = dict(_TRIALS)
    if not card_problem():
        trials["graphics card"] = functools.partial(_noise, device="gpu", solver="stochastic")
    for name, build in trials.items():
        began = time.perf_counter()
        try:
            gap, error = build()
            ok = gap <= error and error < 1e-2
            detail = f"off by {gap:.1e}, error estimate {error:.1e}"
        except Exception as problem:  # whatever is wrong with an installation shows here
            ok, detail = False, f"{type(problem).__name__}: {problem}"
        yield Trial(name, ok, detail, time.perf_counter() - began)


def _compare(model: Any, name: str, exact: Callable[[float], float], **options: Any) -> tuple[float, float]:
    from eqsolve.solving import solve

    found = solve(model, at=[0.5, 1.0], **options).at([0.5, 1.0])
    values, errors = found[name].values, found[f"{name}_error"].values
    return max(abs(value - exact(moment)) for value, moment in zip(values, (0.5, 1.0), strict=True)), float(max(errors))


def _decay() -> tuple[float, float]:
    """y' = −y."""
    t, y = eq.times("t"), eq.function("y")
    model = eq.System("self_test_decay", eqs=[eq.Eq(y(t).diff(t), -y(t))], init={y: 1})
    return _compare(model, "y", lambda moment: math.exp(-moment))


def _average() -> tuple[float, float]:
    """E exp(−kt) with k uniform on [0, 1]."""
    from eqsolve.laws import Uniform

    t, w, k = eq.times("t"), eq.process("w"), eq.random("k", Uniform(0, 1))
    decay = eq.Eq(w(t).diff(t), -k * w(t))
    model = eq.System("self_test_average", eqs=[decay], init={w: 1}, observables={"m": eq.E(w(t))})
    return _compare(model, "m", lambda moment: -math.expm1(-moment) / moment)


def _memory() -> tuple[float, float]:
    """y' = −∫y, solved by the cosine."""
    t, s = eq.times("t s")
    y = eq.function("y")
    model = eq.System("self_test_memory", eqs=[eq.Eq(y(t).diff(t), -eq.Int(y(s), (s, 0, t)))], init={y: 1})
    return _compare(model, "y", math.cos)


def _noise(**options: Any) -> tuple[float, float]:
    """x' = −x + z with a noise whose covariance is that of x: E x² = exp(−2t) I₀(2t), with a Bessel function."""
    import numpy as np

    t, other = eq.times("t t'")
    x, z = eq.process("x z")
    C = eq.correlation("C")
    model = eq.System(
        "self_test_noise",
        eqs=[eq.Eq(C(t, other), eq.E(x(t) * x(other))), eq.Eq(x(t).diff(t), z(t) - x(t))],
        init={x: 1},
        laws={z: eq.GP(C(t, other))},
        observables={"m": C(t, t)},
    )
    return _compare(model, "m", lambda moment: float(np.exp(-2 * moment) * np.i0(2 * moment)), rtol=1e-4, **options)


def _fixed_point() -> tuple[float, float]:
    """v = E[(a + z √v / 2)²] with a standard normal z: v = 4a²/3."""
    from sympy import Rational

    a, v, z = eq.param("a", positive=True), eq.unknown("v", positive=True), eq.normal("z")
    equation = eq.Eq(v, eq.E((a + z * v ** Rational(1, 2) / 2) ** 2))
    found = eq.solve(eq.FixedPoint("self_test_fixed_point", eqs=[equation], defaults={a: 1}))
    return abs(found["v"].item() - 4 / 3), found.error["v"].item()


_TRIALS: dict[str, Callable[[], tuple[float, float]]] = {
    "differential equation": _decay,
    "random constant": _average,
    "memory": _memory,
    "Gaussian noise": _noise,
    "fixed point": _fixed_point,
}
