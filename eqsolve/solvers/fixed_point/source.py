"""The law of some variables of a solved fixed point, as the expectations of a transform take it: with its tails."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve.laplace.expectation import Probe, Rule
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.quadrature import Lines, Mesh, adapt

if TYPE_CHECKING:
    from eqsolve.solvers.fixed_point.law import FixedPointLaw

__all__ = ["SolutionSource"]

_OUTER = 64  # nodes across, for transforms of several variables
_LOOK = np.linspace(-38, 38, 305)  # where extremes over a law's support are looked for first
_OUTWARDS = 10.0 ** np.arange(0, 8.25, 0.25)  # of a Gaussian variable, to see whether something has a bound
_MOST = 300  # panels at once: next to a singularity rounding is all that is left to resolve
_ROUGHLY = 1e-9  # relative tolerance of the points to begin with
_CLOSER = 7  # how often the neighbourhood of an extreme is looked at again, thirty times closer each time


def _general(values: Mapping[str, Array]) -> Array:
    """What a rule for no integrand in particular must resolve."""
    v = next(iter(values.values()))
    return np.stack([np.ones_like(v), v, np.sqrt(1 + v * v)])


class _ProbeLines(Lines):
    """Evaluates the integrands of a transform instead of the fixed point's own."""

    def __init__(self, law: FixedPointLaw, probe: Probe) -> None:
        problem = law.solution.problem
        super().__init__(problem.plan, problem.parameters, law.solution.point.values[:, None])
        self.law, self.probe = law, probe

    def values(self, rows: Any, at: Array, x: Array, signs: Any) -> Array:
        columns = self.law.at(self, rows, at, x, signs)
        return self.probe(dict(zip(self.law.names, columns, strict=True)))


@dataclass(frozen=True, eq=False)
class SolutionSource:
    """The joint law of some variables of a solved fixed point, as a source of expectations; its points are not used."""

    law: FixedPointLaw
    names: tuple[str, ...]
    precise_solution: Any = None

    def rule(self, probe: Probe | None = None, digits: int | None = None) -> Rule:
        if digits is not None:
            return self._precise(probe, digits)
        return self._resolved(probe or _general, 1e-15, "first")

    def rule_beside(self, probe: Probe) -> Rule:
        """Return a rule for an integrand much like the one before: its panels are taken to begin with."""
        return self._resolved(probe, 1e-15, "last")

    def first_rule(self, probe: Probe) -> Rule:
        """Return a rule to begin with: the nodes of the fixed point itself, or some for integrands like ``probe``."""
        lines, rows = _ProbeLines(self.law, probe), self.law.solution.point.mesh.rows
        if rows.exact and not rows.turned:
            nodes = self.law.solution.point.mesh.moved(lines.kinks(rows)).nodes()
            if abs(nodes[2].sum() - 1) < 1e-10:  # else it leaves out where its own integrands vanish
                return self._at(lines, rows, nodes)
        rule = self._resolved(probe, _ROUGHLY, "first")
        self._meshes["first"] = self._meshes["last"]
        return rule

    def _resolved(self, probe: Probe, tolerance: float, begin: str) -> Rule:
        lines = _ProbeLines(self.law, probe)
        rows = self.law.rows(self.names, None if len(self.names) == 1 else _OUTER)
        known = self._meshes.get(begin, self.law.solution.point.mesh)
        like = None if known.rows.turned or rows.turned else known
        mesh = self._meshes["last"] = adapt(lines, rows, tolerance=tolerance, rounds=40, like=like, most=_MOST)
        return self._at(lines, rows, mesh.nodes())

    @functools.cached_property
    def _meshes(self) -> dict[str, Mesh]:
        """The panels of the first rule and of the last one."""
        return {}

    def _at(self, lines: Lines, rows: Any, nodes: tuple[Array, Array, Array, list[Array]]) -> Rule:
        law, (at, x, share, signs) = self.law, nodes
        values = law.at(lines, rows, at, x, signs)
        return Rule({name: values[law.names.index(name)] for name in self.names}, share)

    def extremes(self, function: Callable[[Mapping[str, Array]], list[Array]]) -> Mapping[str, Array]:
        """Return where functions of the variable are smallest and largest over its support, however improbable that is.

        Every line of the law is looked at on a grid, and again around the best place, ever closer.
        """
        if len(self.names) > 1:
            return {}
        law, rows = self.law, self.law.rows(self.names)
        lines = _ProbeLines(law, _general)

        def look(at: Array, x: Array) -> tuple[list[Array], Array]:
            values = law.at(lines, rows, at, x, None)[law.names.index(self.names[0])]
            return function({self.names[0]: values}), values

        lines_of = np.repeat(np.arange(len(rows.weight)), len(_LOOK))
        x = np.where(rows.is_point[lines_of], 0.0, np.tile(_LOOK, len(rows.weight)))
        columns, _ = look(lines_of, x)
        found = []
        for k, column in enumerate(columns):
            for sign in (1.0, -1.0):
                place = int(np.nanargmin(sign * column))
                row, centre, width = lines_of[place : place + 1], float(x[place]), _LOOK[1] - _LOOK[0]
                for _ in range(0 if rows.is_point[row[0]] else _CLOSER):
                    near = centre + width * np.linspace(-1, 1, 65)
                    tried, _ = look(np.repeat(row, 65), near)
                    centre, width = float(near[int(np.nanargmin(sign * tried[k]))]), width / 30
                found.append(look(row, np.array([centre]))[1][0])
        return {self.names[0]: np.unique(found)}

    def ladders(self) -> list[dict[str, Array]]:
        """Return values of the variables that go out along every Gaussian direction, as far as they can be computed."""
        law, rows = self.law, self.law.rows(self.names, None if len(self.names) == 1 else 2)
        going, size = np.flatnonzero(~rows.is_point), len(_OUTWARDS)
        if not len(going):
            return []
        x = np.tile(np.concatenate([_OUTWARDS, -_OUTWARDS]), len(going))
        columns = law.at(_ProbeLines(law, _general), rows, np.repeat(going, 2 * size), x, None)
        made = []
        for begin in range(0, len(x), size):
            part = columns[:, begin : begin + size]
            good = np.isfinite(part).all(axis=0)
            if good.sum() > size // 2:
                made.append({name: part[law.names.index(name)][good] for name in self.names})
        return made

    def _precise(self, probe: Probe | None, digits: int) -> Rule:
        """Return points and weights in mpmath numbers, on panels that resolve the transform's integrands too."""
        from mpmath import mp

        from eqsolve.solvers.fixed_point.precise import GUARD, Evaluator, nodes_of, orders_of

        law, precise = self.law, self.precise_solution
        with mp.workdps(digits + GUARD):
            evaluator = Evaluator(self.law.solution, digits + GUARD)
            reach = float(np.sqrt(2 * digits * np.log(10))) + 1.5
            mesh = adapt(_ProbeLines(law, probe or _general), law.rows(self.names), dropped=-1.0, reach=reach)
            function = evaluator.function("variables", *self.names)
            points, weights = [], []
            for row, x, weight, signs, near in nodes_of(evaluator, mesh, precise.unknowns, orders_of(digits)[1]):
                points.append(function(*evaluator.point(row, x, precise.unknowns, signs, near)))
                weights.append(weight)
        columns = {name: np.array([point[place] for point in points], dtype=object) for place, name in enumerate(self.names)}
        return Rule(columns, np.array(weights, dtype=object))
