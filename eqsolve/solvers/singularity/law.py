"""Where the laws of a `Singularity` come from: its own, or those of the fixed point its ``law_of`` names.

Settings that the singularity does not know but the named model does are routed there, so that a rate is asked for with
everything its fixed point takes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eqsolve.errors import ModelError, ParameterError, UsageError, did_you_mean
from eqsolve.language.binding import Binding, bind
from eqsolve.language.fixed_point import FixedPoint, Singularity
from eqsolve.language.model import Model
from eqsolve.laplace.expectation import LawSource, Probe, Rule, Source
from eqsolve.numerics.arrays import Array
from eqsolve.numerics.quadrature import Lines, Mesh, adapt
from eqsolve.solvers.fixed_point.law import FixedPointLaw

__all__ = ["SingularityBinding", "SolutionSource", "bind_singularity", "law_models", "law_source"]

_OUTER = 64  # nodes across, for transforms of several variables
_LOOK = np.linspace(-38, 38, 305)  # where extremes over a law's support are looked for first
_OUTWARDS = 10.0 ** np.arange(0, 8.25, 0.25)  # of a Gaussian variable, to see whether something has a bound
_MOST = 300  # panels at once: next to a singularity rounding is all that is left to resolve
_ROUGHLY = 1e-9  # relative tolerance of the points to begin with
_CLOSER = 7  # how often the neighbourhood of an extreme is looked at again, thirty times closer each time


@dataclass(frozen=True)
class SingularityBinding(Binding):
    """A bound singularity, with the bound model its laws come from, if there is one."""

    law: Binding | None = None

    def settings(self) -> dict[str, float | str]:
        own = super().settings()
        if self.law is None:
            return own
        gaussian = {item.name for item in self.law.model.randoms if item.law is not None and _moves(self.law.model, item)}
        return {**{k: v for k, v in self.law.settings().items() if k not in gaussian}, **own}


def _moves(model: Model, item: Any) -> bool:
    """Whether the law of a random variable contains an unknown: it is then found, not set."""
    return any(symbol in getattr(model, "unknowns", ()) for symbol in item.law.free_symbols)


def bind_singularity(model: Singularity, settings: Mapping[str, Any]) -> SingularityBinding:
    """Return a singularity with its own settings bound and the others routed to the model that gives its laws."""
    own = {item.name for item in (*model.parameters, *model.randoms)}
    sources = law_models(model)
    known = own.union(*({item.name for item in (*m.parameters, *m.randoms)} for _, m in sources)) if sources else own
    for name in settings:
        if name not in known:
            raise ParameterError(
                f"model `{model.name}` has no parameter `{name}`{did_you_mean(name, known)} "
                f"(it has: {', '.join(sorted(known))})"
            )
    binding = bind(model, {key: value for key, value in settings.items() if key in own})
    if not sources:
        return SingularityBinding(model, binding.values, binding.laws)
    chosen = next((m for condition, m in sources if condition.subs(binding.values) == True), None)  # noqa: E712
    if chosen is None:
        where = " or ".join(str(condition) for condition, _ in model.law_of)
        names = sorted({str(s) for condition, _ in model.law_of for s in condition.free_symbols})
        got = ", ".join(f"{item.name}={float(v):g}" for item, v in binding.values.items() if item.name in names)
        raise ParameterError(f"model `{model.name}` has a law for {where} only ({model.location}), got {got}")
    shared = {item.name: binding.values[item] for item in model.parameters}
    wanted = {item.name for item in (*chosen.parameters, *chosen.randoms)}
    routed = {key: value for key, value in {**shared, **settings}.items() if key in wanted}
    return SingularityBinding(model, binding.values, binding.laws, bind(chosen, routed))


def law_models(model: Singularity) -> list[tuple[Any, Model]]:
    """Return the models that may give the laws, each with its condition."""
    return [(condition, _load(model, name)) for condition, name in model.law_of]


def _load(model: Singularity, name: str) -> Model:
    from eqsolve.language.loading import load

    beside = Path(model.file).parent / f"{name}.py" if model.file else None
    if beside is not None and beside.is_file():
        return _loaded(str(beside), beside.stat().st_mtime_ns)
    try:
        return load(name)
    except UsageError as error:
        raise ModelError(f"model `{model.name}` ({model.location}) takes its law from `{name}`: {error}") from None


@functools.lru_cache(maxsize=32)
def _loaded(path: str, stamp: int) -> Model:
    from eqsolve.language.loading import load

    return load(path)


def _general(values: Mapping[str, Array]) -> Array:
    """What a rule for no integrand in particular must resolve."""
    v = next(iter(values.values()))
    return np.stack([np.ones_like(v), v, np.sqrt(1 + v * v)])


class _ProbeLines(Lines):
    """Evaluates the integrands of a transform instead of the fixed point's own."""

    def __init__(self, law: Any, probe: Probe) -> None:
        problem = law.solution.problem
        super().__init__(problem.plan, problem.parameters, law.solution.point.values[:, None])
        self.law, self.probe = law, probe

    def values(self, rows: Any, at: Array, x: Array, signs: Any) -> Array:
        columns = self.law.at(self, rows, at, x, signs)
        return self.probe(dict(zip(self.law.names, columns, strict=True)))


@dataclass(frozen=True, eq=False)
class SolutionSource:
    """The joint law of some variables of a solved fixed point, as a source of expectations."""

    solution: Any
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
        lines, rows = _ProbeLines(self._law, probe), self.solution.point.mesh.rows
        if rows.exact and not rows.turned:
            nodes = self.solution.point.mesh.moved(lines.kinks(rows)).nodes()
            if abs(nodes[2].sum() - 1) < 1e-10:  # else it leaves out where its own integrands vanish
                return self._at(lines, rows, nodes)
        rule = self._resolved(probe, _ROUGHLY, "first")
        self._meshes["first"] = self._meshes["last"]
        return rule

    def _resolved(self, probe: Probe, tolerance: float, begin: str) -> Rule:
        lines = _ProbeLines(self._law, probe)
        rows = self._law.rows(self.names, None if len(self.names) == 1 else _OUTER)
        known = self._meshes.get(begin, self.solution.point.mesh)
        like = None if known.rows.turned or rows.turned else known
        mesh = self._meshes["last"] = adapt(lines, rows, tolerance=tolerance, rounds=40, like=like, most=_MOST)
        return self._at(lines, rows, mesh.nodes())

    @functools.cached_property
    def _meshes(self) -> dict[str, Mesh]:
        """The panels of the first rule and of the last one."""
        return {}

    def _at(self, lines: Lines, rows: Any, nodes: tuple[Array, Array, Array, list[Array]]) -> Rule:
        law, (at, x, share, signs) = self._law, nodes
        values = law.at(lines, rows, at, x, signs)
        return Rule({name: values[law.names.index(name)] for name in self.names}, share)

    def extremes(self, function: Callable[[Mapping[str, Array]], list[Array]]) -> Mapping[str, Array]:
        """Return where functions of the variable are smallest and largest over its support, however improbable that is.

        Every line of the law is looked at on a grid, and again around the best place, ever closer.
        """
        if len(self.names) > 1:
            return {}
        law, rows = self._law, self._law.rows(self.names)
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
        law, rows = self._law, self._law.rows(self.names, None if len(self.names) == 1 else 2)
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

    @functools.cached_property
    def _law(self) -> FixedPointLaw:
        return FixedPointLaw.without_points(self.solution, self.names[0])

    def _precise(self, probe: Probe | None, digits: int) -> Rule:
        """Return points and weights in mpmath numbers, on panels that resolve the transform's integrands too."""
        from mpmath import mp

        from eqsolve.solvers.fixed_point.precise import _GUARD, _Evaluator, _nodes, _orders

        law, precise = self._law, self.precise_solution
        with mp.workdps(digits + _GUARD):
            evaluator = _Evaluator(self.solution, digits + _GUARD)
            reach = float(np.sqrt(2 * digits * np.log(10))) + 1.5
            mesh = adapt(_ProbeLines(law, probe or _general), law.rows(self.names), dropped=-1.0, reach=reach)
            plan = evaluator.plan
            function = evaluator.function("law", lambda: [plan.variable(name) for name in self.names], plan.arguments)
            points, weights = [], []
            for row, x, weight, signs, near in _nodes(evaluator, mesh, precise.unknowns, _orders(digits)[1]):
                points.append(function(*evaluator.point(row, x, precise.unknowns, signs, near)))
                weights.append(weight)
        columns = {
            name: np.array([point[place] for point in points], dtype=object) for place, name in enumerate(self.names)
        }
        return Rule(columns, np.array(weights, dtype=object))


def law_source(
    binding: SingularityBinding,
    names: tuple[str, ...],
    precision: int | None = None,
    start: Mapping[str, float] | None = None,
) -> tuple[Source, Any]:
    """Return the source of the expectations, and the solved fixed point behind it (None for declared laws)."""
    own = {item.name: law for item, law in binding.laws.items() if item.name in names}
    if binding.law is None or set(names) <= set(own):
        return LawSource(own), None
    model = binding.law.model
    if not isinstance(model, FixedPoint):
        raise ModelError(
            f"model `{binding.model.name}` takes its law from `{model.name}`, which is a {model.kind}; "
            "expected a FixedPoint"
        )
    from eqsolve.solvers.fixed_point.solve import solve_problem, to_result

    solution = solve_problem(binding.law, start)
    missing = [name for name in names if name not in model.variables and name not in {r.name for r in model.randoms}]
    if missing:
        raise ModelError(
            f"model `{binding.model.name}` needs the law of `{missing[0]}`, which `{model.name}` does not declare among "
            f"its variables{did_you_mean(missing[0], model.variables)} (it has: {', '.join(model.variables)})"
        )
    if len(names) > 1:
        outside = [name for name in names[1:] if name not in {item.name for item in model.randoms}]
        if outside:
            raise ModelError(
                f"model `{binding.model.name}` uses `{names[0]}` and `{outside[0]}` together; a singularity takes one "
                "variable of a fixed point, and its random constants"
            )
    precise = None
    if precision is not None:
        from eqsolve.solvers.fixed_point.precise import refine

        precise = refine(solution, to_result(solution), precision).source
    return SolutionSource(solution, names, precise), solution
