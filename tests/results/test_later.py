"""Arrays that are made when somebody looks at them."""

from __future__ import annotations

import copy
import pickle

import numpy as np

from eqsolve.results.arrays import LabelledArray, LabelledArrays, LazyArray
from eqsolve.results.labelled import labelled


def test_an_array_is_made_when_it_is_read_and_has_its_shape_before() -> None:
    made: list[int] = []

    def make() -> np.ndarray:
        made.append(1)
        return np.arange(6.0).reshape(2, 3)

    table = LabelledArrays(
        {"x": LabelledArray(("path", "t"), LazyArray(make, (2, 3))), "y": LabelledArray(("t",), np.zeros(3))}
    )
    dataset = labelled(table)
    assert dataset["x"].shape == (2, 3)
    assert dataset["y"].values.sum() == 0
    assert made == []
    assert dataset["x"].isel(path=1).values.tolist() == [3, 4, 5]
    assert dataset["x"].isel(path=[1, 0], t=slice(1, None)).values.tolist() == [[4, 5], [1, 2]]
    assert made


def test_it_is_pickled_and_copied_with_its_values() -> None:
    table = LabelledArrays({"x": LabelledArray(("t",), LazyArray(lambda: np.arange(3.0), (3,)))})
    dataset = labelled(table)
    for again in (pickle.loads(pickle.dumps(dataset)), copy.deepcopy(dataset), labelled(pickle.loads(pickle.dumps(table)))):
        assert again["x"].values.tolist() == [0, 1, 2]
