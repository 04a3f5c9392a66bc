"""Arrays that are made when somebody looks at them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import xarray as xr

from eqsolve.results.later import later


def test_an_array_is_made_when_it_is_read_and_has_its_shape_before() -> None:
    made: list[int] = []

    def make() -> np.ndarray:
        made.append(1)
        return np.arange(6.0).reshape(2, 3)

    dataset = xr.Dataset({"x": (("path", "t"), later(make, (2, 3))), "y": ("t", np.zeros(3))})
    assert dataset["x"].shape == (2, 3)
    assert dataset["y"].values.sum() == 0
    assert made == []
    assert dataset["x"].isel(path=1).values.tolist() == [3, 4, 5]
    assert dataset["x"].isel(path=[1, 0], t=slice(1, None)).values.tolist() == [[4, 5], [1, 2]]
    assert made


def test_it_is_pickled_and_copied_with_its_values() -> None:
    dataset = xr.Dataset({"x": ("t", later(lambda: np.arange(3.0), (3,)))})
    for again in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset)):
        assert again["x"].values.tolist() == [0, 1, 2]
