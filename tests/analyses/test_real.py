"""Real matrices: files read, whitened, cut; what is missing or wrong is said."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from eqsolve.errors import UsageError

PLACE = Path(__file__).resolve().parents[2] / "analyses" / "_real.py"
SPEC = importlib.util.spec_from_file_location("real_data", PLACE)
assert SPEC is not None
assert SPEC.loader is not None
realdata = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(realdata)
draw_block, read_matrix, whiten = realdata.draw_block, realdata.read_matrix, realdata.whiten


def test_files_hold_the_same_matrix(tmp_path: Path) -> None:
    matrix = np.random.default_rng(0).poisson(1.0, (12, 5)).astype(float)
    np.save(tmp_path / "a.npy", matrix)
    rows = [f"s{k}," + ",".join(map(str, row)) for k, row in enumerate(matrix)]
    (tmp_path / "a.csv").write_text("\n".join(["name,a,b,c,d,e", *rows]))
    with h5py.File(tmp_path / "a.h5ad", "w") as file:
        sparse, group = csr_matrix(matrix), file.create_group("X")
        group.attrs["encoding-type"], group.attrs["shape"] = "csr_matrix", matrix.shape
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(sparse, part)
    for suffix in (".npy", ".csv", ".h5ad"):
        np.testing.assert_array_equal(read_matrix(tmp_path / f"a{suffix}"), matrix)


def test_whitened_features_are_uncorrelated() -> None:
    rng = np.random.default_rng(1)
    for shape in ((200, 40), (60, 200)):
        mixed = rng.standard_normal(shape) @ rng.standard_normal((shape[1], shape[1]))
        white = whiten(mixed)
        covariance = white.T @ white / len(white)
        np.testing.assert_allclose(covariance, np.eye(white.shape[1]), atol=1e-8)  # rounding of a singular value decomposition
    block = draw_block(white, rng, 30, 50)
    np.testing.assert_allclose(block.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(block.var(axis=0), 1 / 50, rtol=1e-10)


def test_what_is_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1,x\n")
    with pytest.raises(UsageError, match="does not hold a matrix of numbers"):
        read_matrix(tmp_path / "bad.csv")
    with pytest.raises(UsageError, match="expected one that ends in"):
        read_matrix(__file__)
    with pytest.raises(UsageError, match="cannot draw 30 × 2"):
        draw_block(np.ones((5, 5)), np.random.default_rng(0), 30, 2)
    monkeypatch.setattr(realdata, "_PACKAGE", "no_such_package")
    with pytest.raises(UsageError, match="extra `realdata`"):
        realdata.default_file()
