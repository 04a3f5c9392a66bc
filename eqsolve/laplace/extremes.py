"""The whole support of a law: sequences that go out to its ends, and where functions are smallest and largest on it.

A rule has points where a law has weight. A transform is singular wherever a random denominator vanishes on the support,
however improbable that is.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from eqsolve.laplace.densities import Part, density_parts
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.laws import Law

__all__ = ["law_extremes", "law_ladders"]

_STEPS = 10.0 ** np.arange(-1, 150.5, 0.5)  # outwards to an infinite end, or, one over it, towards a point
_LOOK = 305  # points of a density looked at first
_CLOSER = 7  # how often the neighbourhood of the best is looked at again, thirty times closer each time


def law_ladders(law: Law) -> list[Array]:
    """Return sequences of values that go out to the infinite ends of a law's support, and to 0 and finite ends from inside."""
    made = []
    for part in density_parts(law):
        low, high = (float(end) for end in part.support)
        for end, sign in ((low, -1.0), (high, 1.0)):
            made.append(sign * _STEPS if np.isinf(end) else end - sign / _STEPS)
        made += [sign / _STEPS for sign in (1.0, -1.0)]
        made = [ladder[(ladder >= low) & (ladder <= high)] for ladder in made[-4:]] + made[:-4]
    return [ladder for ladder in made if len(ladder) > 20]


def law_extremes(laws: Mapping[str, Law], function: Callable[[Mapping[str, Array]], list[Array]]) -> dict[str, Array]:
    """Return where functions of independent variables are smallest and largest over the support of their laws.

    One of them may have a density; it is looked at on a grid, and again around the best places, ever closer.
    """
    smooth = [name for name, law in laws.items() if density_parts(law)]
    atoms = {name: np.array([float(value) for value, _ in law.atoms_of()]) for name, law in laws.items()}
    if len(smooth) != 1:
        return {}
    (name,) = smooth
    others = [key for key in laws if key != name]
    fixed = [dict(zip(others, values, strict=True)) for values in itertools.product(*(atoms[key] for key in others))]
    found: dict[str, list[float]] = {key: [] for key in laws}
    for given in fixed:
        for point, places in _lines(laws[name]):

            def look(y: Array, point: Any = point, given: Mapping[str, float] = given) -> tuple[list[Array], Array]:
                x = point(y) * np.ones_like(y)
                return function({name: x, **{key: np.full(len(x), value) for key, value in given.items()}}), x

            for value in _best(look, places):
                for key in laws:
                    found[key].append(value if key == name else given[key])
    return {key: np.array(column) for key, column in found.items()}


def _at(part: Part, y: Array) -> Array:
    return np.asarray(part.point(y, np))


def _lines(law: Law) -> Iterator[tuple[Any, Array]]:
    for part in density_parts(law):
        yield functools.partial(_at, part), np.linspace(float(part.low), float(part.high), _LOOK)
    for ladder in law_ladders(law):
        yield np.asarray, np.sort(ladder)


@np.errstate(all="ignore")
def _best(look: Callable[[Array], tuple[list[Array], Array]], places: Array) -> list[float]:
    """Return the values at which each column is smallest, and largest."""
    made = []
    for k, column in enumerate(look(places)[0]):
        for sign in (1.0, -1.0):
            score = np.where(np.isfinite(column), sign * column, np.inf)
            place = int(np.argmin(score))
            low, high = places[max(place - 1, 0)], places[min(place + 1, len(places) - 1)]
            centre = places[place]
            for _ in range(_CLOSER):
                near = np.append(np.linspace(low, high, 65), centre)
                tried = look(near)[0][k]
                centre = near[int(np.argmin(np.where(np.isfinite(tried), sign * tried, np.inf)))]
                width = (high - low) / 30
                low, high = max(centre - width, places[0]), min(centre + width, places[-1])
            made.append(float(look(np.array([centre]))[1][0]))
    return made
