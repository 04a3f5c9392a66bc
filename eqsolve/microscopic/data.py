"""Where a finite-size run takes its n × d feature matrix from: a law of entries, an array, or a file."""

import functools
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eqsolve.errors import UsageError, did_you_mean, logger
from eqsolve.language.binding import read_value
from eqsolve.language.laws import Law, Normal, Rademacher, StudentT, read_numbers
from eqsolve.microscopic.lowered import FlowSample
from eqsolve.numerics.arrays import Array, chunk, special
from eqsolve.numerics.backend import CPU, Backend
from eqsolve.solvers.tolerance import FLOOR

# Draws of a flow with little scatter. Most of the scatter between finite-size runs comes from the
# fields of the teacher and of the start, and the gradients and fields that follow from them. For
# Gaussian features these can be drawn one at a time: given X on some directions of the coordinates
# and Xᵀ on some of the samples, X on one more direction is a known vector plus a Gaussian one. A
# balanced draw is stratified: the entries of the latter are the quantiles of the Gaussian law,
# ordered by a quasi-random lattice; the rest of X is drawn as usual. For n, d → ∞ nothing changes.
# Cost: another run of the flow, at low accuracy. Memory: three matrices of the size of X. E.
# Bolthausen, Commun. Math. Phys. 325 (2014) 333; Y. M. Lu, "Householder Dice", arXiv:2101.07464; I.
# H. Sloan, S. Joe, Lattice Methods for Multiple Integration, 1994.


_MOST = 8  # vectors placed on either side, and one at most for as many entries


class Placement:
    """Permutations of quantiles over the coordinates, or the samples, evenly spread jointly: those of a rank-1 lattice.

    It is the best of a few random ones, shifted and reflected at random.
    """

    def __init__(self, size: int, rng: np.random.Generator) -> None:
        self.size, self.rng = size, rng
        self.placed = [np.ones(size)]
        self._orders = self._lattice(2 * _MOST)

    def order(self) -> Any:
        """Return a permutation."""
        return next(self._orders)

    def normal(self, known: Array) -> Array:
        """Return a vector of normal quantiles, orthogonal to known directions and to those before, of the mean length."""
        values = special.ndtri((np.arange(self.size) + 0.5) / self.size)[self.order()]
        # vectors correlated by chance are what makes finite draws scatter
        before = np.linalg.qr(np.column_stack([known, *self.placed]))[0]
        for _ in range(2):  # the second projection removes the rounding error of the first
            values -= before @ (values @ before)
        values *= math.sqrt((self.size - known.shape[1]) / (values @ values))
        self.placed.append(values)
        return np.asarray(values)

    def _lattice(self, columns: int) -> Iterator[Any]:
        rows = np.arange(self.size)
        steps = np.array([step for step in range(1, self.size // 2 + 1) if math.gcd(step, self.size) == 1])
        lattices = [self.rng.permutation(steps)[:columns] for _ in range(24)]  # the best is taken
        for step in min(lattices, key=self._error):
            order = (rows * step + self.rng.integers(self.size)) % self.size
            yield order if self.rng.random() < 0.5 else self.size - 1 - order
        while True:
            yield self.rng.permutation(self.size)

    def _error(self, steps: Any) -> float:
        """Return the lattice's worst-case error for smooth functions of a few of the first columns (P₂, falling weights)."""
        product = np.ones(self.size)
        for place, step in enumerate(steps):
            x = (np.arange(self.size) * step % self.size) / self.size
            product *= 1 + 2 * math.pi**2 * (x * (x - 1) + 1 / 6) / (1 + place) ** 2
        return float(product.mean())


class GaussianMatrix:
    """A Gaussian matrix X, n × d with variance 1/d, as far as it is known.

    ``along`` are orthonormal directions, of the coordinates and of the samples; ``images`` are X on the first and Xᵀ on the
    second. What is n × d lives on the backend.
    """

    def __init__(self, on_samples: Placement, on_coordinates: Placement, backend: Backend = CPU) -> None:
        self.sides, self.backend = (on_samples, on_coordinates), backend
        n, d = on_samples.size, on_coordinates.size
        self.scale = d**-0.5
        self.most = min(_MOST, n // _MOST, d // _MOST)
        self.along, self.images = [np.empty((d, 0)), np.empty((n, 0))], [np.empty((n, 0)), np.empty((d, 0))]

    def learn(self, vector: Array, side: int = 0) -> None:
        """Make X known on a vector of the coordinates; with ``side=1``, Xᵀ on a vector of the samples."""
        direction = _outside(vector, self.along[side], self.most)
        if direction is not None:
            other, images = self.along[1 - side], self.images[1 - side]
            # in the span of the other side it is known from Xᵀ there, the rest is normal
            image = other @ (direction @ images) + self.scale * self.sides[side].normal(other)
            self.along[side] = np.column_stack([self.along[side], direction])
            self.images[side] = np.column_stack([self.images[side], image])

    def visit(self, sample: FlowSample, time: float, state: Array) -> None:
        """Make X known on the weights of a state of a flow, and Xᵀ on its loss gradients."""
        if np.isfinite(state).all():
            weights = sample.weights(time, sample.state(state))
            for weight in weights:
                self.learn(self.backend.get(weight))
            known = self.known()
            for loss in sample.losses(time, [known @ weight for weight in weights]):
                self.learn(self.backend.get(loss), 1)

    def known(self) -> Any:
        """Return X where it is known, 0 elsewhere."""
        put, (ahead, back), (images, transposed) = self.backend.put, self.along, self.images
        return put(back) @ put(transposed.T) + put(images - back @ (back.T @ images)) @ put(ahead.T)

    def complete(self, rng: np.random.Generator, threads: int = 1) -> Any:
        """Return a draw of X."""
        ahead, back = map(self.backend.put, self.along)
        n, d = len(back), len(ahead)
        drawn = draw_rows(lambda stream, rows: stream.standard_normal((rows, d)), rng, n, d, self.backend, threads)
        drawn *= self.scale
        # given what is known, X is random only between the complements of both spans
        drawn -= back @ (back.T @ drawn)
        drawn -= (drawn @ ahead) @ ahead.T
        drawn += self.known()
        return drawn


def _outside(vector: Array, known: Array, most: int) -> Array | None:
    """Return the normalised part of a vector outside known directions; None if small, or there are enough."""
    length = float(np.linalg.norm(vector))
    if known.shape[1] >= most or not np.isfinite(length):
        return None
    rest = vector - known @ (vector @ known)
    rest -= known @ (rest @ known)
    left = float(np.linalg.norm(rest))
    return rest / left if left > FLOOR * length else None


def balance_regression(
    target: Array, noise: Array, on_samples: Placement, on_coordinates: Placement, rng: np.random.Generator
) -> Array:
    """Return features balanced for regression on y = X w* + ξ: along w*, y, Xᵀy, XXᵀy and so on.

    An estimator is a function of these, at least in part: that of least squares of nothing else.
    """
    matrix = GaussianMatrix(on_samples, on_coordinates)
    on_coordinates.placed.append(target)
    on_samples.placed.append(noise)
    matrix.learn(target)
    loss = matrix.known() @ target + noise
    for _ in range(matrix.most):
        matrix.learn(loss, 1)
        weight = matrix.known().T @ loss
        matrix.learn(weight)
        loss = matrix.known() @ weight
    return np.asarray(matrix.complete(rng))


_NAMED = {"gaussian": Normal(0, 1), "binary": Rademacher(1), "student_t": StudentT(5)}


@dataclass(frozen=True, eq=False)
class Features:
    """A source of feature matrices with entries of mean 0 and variance 1/d."""

    label: str  # what the user asked for, in words
    # the law of the entries before they are standardised, or None for a fixed matrix
    law: Law | None = None
    matrix: Array | None = None  # the fixed matrix, or None

    def draw(self, rng: np.random.Generator, n: int, d: int, backend: Backend = CPU, threads: int = 1) -> Any:
        """Return an n × d matrix on a backend; the numbers are the same for any backend and any number of threads."""
        if self.matrix is not None:
            return backend.put(self.matrix)
        return draw_rows(functools.partial(self._rows, d=d), rng, n, d, backend, threads)

    def _rows(self, rng: np.random.Generator, n: int, d: int) -> Array:
        assert self.law is not None
        variance = 1.0
        if isinstance(self.law, Normal):
            entries = rng.standard_normal((n, d))
        elif self.law == _NAMED["binary"]:
            entries = rng.integers(0, 2, size=(n, d), dtype=np.int8).astype(float)
            entries *= 2.0
            entries -= 1.0
        else:
            mean, variance = self.law.numeric().moments()
            entries = self.law.numeric().sample(rng, n * d).reshape(n, d)
            entries -= mean
        entries *= (variance * d) ** -0.5
        return entries


def draw_rows(
    draw: Callable[[np.random.Generator, int], Array], rng: np.random.Generator, n: int, d: int, backend: Backend, threads: int
) -> Any:
    """Return an n × d matrix, made of blocks of rows that each come from a stream of their own and go to the backend at once.

    The streams depend on n and d alone: the matrix is the same for any number of threads. The first is ``rng`` itself.
    """
    rows = chunk(d)
    parts = [slice(low, min(low + rows, n)) for low in range(0, n, rows)]
    if len(parts) == 1:
        return backend.put(draw(rng, n))
    matrix = backend.arrays.empty((n, d))

    def fill(part: slice, stream: np.random.Generator) -> None:
        matrix[part] = backend.put(draw(stream, part.stop - part.start))

    with ThreadPoolExecutor(max(1, threads)) as pool:
        list(pool.map(fill, parts, [rng, *rng.spawn(len(parts) - 1)]))
    return matrix


def read_data(given: Any) -> Features:
    """Return a source of features from a name, a law, an array, or the name of a file."""
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
    try:
        given = read_numbers(path)
    except (ValueError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"data file {text!r} does not hold a matrix of numbers: {error}") from None
    return Features(text, matrix=_checked(given, f"data file {text!r}"))


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
        text = "%s: d times the mean square of the entries is %.3g; the theory is for variance 1/d, so divide by %.6g"
        logger.warning(text, what, size, size**0.5)
    return matrix
