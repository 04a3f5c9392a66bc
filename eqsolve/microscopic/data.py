"""Where a finite-size run takes its n × d feature matrix from: a law of entries, an array, or a file."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eqsolve.errors import UsageError, did_you_mean
from eqsolve.language.laws import Law, Normal, Rademacher, StudentT
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.backend import CPU, Backend

logger = logging.getLogger("eqsolve")

_BLOCK = 1 << 20  # entries that come from one stream of random numbers; so few megabytes are reused, not asked for anew
_NAMED = {"gaussian": Normal(0, 1), "binary": Rademacher(1), "student_t": StudentT(5)}


@dataclass(frozen=True, eq=False)
class Features:
    """A source of feature matrices with entries of mean 0 and variance 1/d."""

    label: str  # what the user asked for, in words
    # the law of the entries before they are standardised, or None for a fixed matrix
    law: Law | None = None
    matrix: Array | None = None  # the fixed matrix, or None

    @property
    def shape(self) -> tuple[int, int] | None:
        """Return (n, d) of a fixed matrix."""
        return None if self.matrix is None else (self.matrix.shape[0], self.matrix.shape[1])

    def draw(self, rng: np.random.Generator, n: int, d: int, backend: Backend = CPU, threads: int = 1) -> Any:
        """Return an n × d matrix on a backend; the numbers are the same for any backend and any number of threads."""
        if self.matrix is not None:
            return backend.put(self.matrix)
        return draw_rows(functools.partial(self._rows, d=d), rng, n, d, backend, threads)

    def _rows(self, rng: np.random.Generator, n: int, d: int) -> Array:
        assert self.law is not None
        if isinstance(self.law, Normal):
            entries = rng.standard_normal((n, d))
            entries *= d**-0.5
            return entries
        if self.law == _NAMED["binary"]:
            signs = rng.integers(0, 2, size=(n, d), dtype=np.int8).astype(float)
            signs *= 2.0
            signs -= 1.0
            signs *= d**-0.5
            return signs
        mean, variance = self.law.numeric().moments()
        entries = self.law.sample(rng, n * d).reshape(n, d)
        entries -= mean
        entries *= (variance * d) ** -0.5
        return entries


def draw_rows(
    draw: Callable[[np.random.Generator, int], Array], rng: np.random.Generator, n: int, d: int, backend: Backend, threads: int
) -> Any:
    """Return an n × d matrix, made of blocks of rows that each come from a stream of their own and go to the backend at once.

    The streams depend on n and d alone: the matrix is the same for any number of threads. The first is ``rng`` itself.
    """
    rows = max(1, _BLOCK // d)
    parts = [slice(low, min(low + rows, n)) for low in range(0, n, rows)]
    if len(parts) == 1:
        return backend.put(draw(rng, n))
    made = backend.arrays.empty((n, d))

    def fill(part: slice, stream: np.random.Generator) -> None:
        made[part] = backend.put(draw(stream, part.stop - part.start))

    with ThreadPoolExecutor(max(1, threads)) as pool:
        list(pool.map(fill, parts, [rng, *rng.spawn(len(parts) - 1)]))
    return made


def read_data(given: Any) -> Features:
    """Return a source of features from a name, a law, an array, or the name of a file."""
    if isinstance(given, Features):
        return given
    if isinstance(given, Law):
        return _from_law(given, str(given))
    if isinstance(given, str) and given in _NAMED:
        return Features(given, law=_NAMED[given])
    if isinstance(given, str | Path):
        return _from_text(str(given))
    return Features("a matrix", matrix=_checked(given, "data="))


def _from_law(law: Law, label: str) -> Features:
    mean, variance = law.numeric().moments()
    if not (np.isfinite(mean) and np.isfinite(variance) and variance > 0):
        raise UsageError(f"data: entries with the law {law} have variance {variance:g}; expected a finite positive one")
    return Features(label, law=law)


def _from_text(text: str) -> Features:
    if "(" in text and not Path(text).exists():
        from eqsolve.language.binding import read_value

        value = read_value(text, what="data")
        if isinstance(value, Law):
            return _from_law(value, text)
    path = Path(text)
    if not path.is_file():
        near = did_you_mean(text, _NAMED)
        raise UsageError(
            f"data: there is no file {text!r}{near}; expected {', '.join(_NAMED)}, a law such as StudentT(5), "
            "or a file (*.npy, *.csv, *.txt) that holds an n × d matrix"
        )
    return Features(text, matrix=_checked(_read(path), f"data file {text!r}"))


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        rows = [line.replace(",", " ").split() for line in path.read_text().splitlines() if line.strip()]
        return [[float(entry) for entry in row] for row in rows]
    except (ValueError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"data file {str(path)!r} does not hold a matrix of numbers: {error}") from None


def _checked(given: Any, what: str) -> Array:
    try:
        matrix = np.ascontiguousarray(given, dtype=float)
    except (TypeError, ValueError):
        raise UsageError(f"{what}: expected an n × d matrix of numbers with rows of equal length") from None
    if matrix.ndim != 2 or matrix.shape[0] < 1 or matrix.shape[1] < 2:
        raise UsageError(f"{what}: expected an n × d matrix, got an array of shape {matrix.shape}")
    bad = np.argwhere(~np.isfinite(matrix))
    if len(bad):
        row, column = (int(entry) + 1 for entry in bad[0])
        raise UsageError(
            f"{what}: row {row}, column {column} holds {matrix[row - 1, column - 1]}; expected finite numbers "
            f"({len(bad)} of {matrix.size} entries are not)"
        )
    size = float(np.mean(matrix**2)) * matrix.shape[1]
    if not 0.5 < size < 2:
        logger.warning(
            "%s: d times the mean square of the entries is %.3g; the theory is for entries of variance 1/d, so divide by %.6g",
            what,
            size,
            size**0.5,
        )
    return matrix
