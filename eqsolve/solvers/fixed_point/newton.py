"""Newton's method on a reduced fixed point: residuals, their derivatives, meshes that follow the solution.

Unknowns that are positive are searched in their logarithms, and an equation whose left side is positive is solved as
log(right/left) = 0, so that power laws are straight lines. The Jacobian is symbolic under the expectations; jumps
that move with the unknowns contribute their own terms.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsolve.compile.fixed_point import FixedPointPlan, FixedPointProgram
from eqsolve.compile.plan import Values
from eqsolve.errors import UsageError, did_you_mean
from eqsolve.numerics import quadrature
from eqsolve.numerics.arrays import EPSILON, ROUNDING, Array
from eqsolve.numerics.domains import Domain
from eqsolve.numerics.quadrature import RULE, Evaluator, LawBranch, LineSet, PanelMesh, branches
from eqsolve.numerics.secants import linear_solver

_FEW = RULE // 4  # nodes across while a solution is looked for
ROUGHLY = tuple(ROUNDING ** (quarter / 4) for quarter in (1, 2, 3))  # tolerances of its meshes, by quarters of all digits
NEARLY = 0.05  # relative residuals left near a solution, and its distance from Picard's iterate
_STAGNANT = 2  # steps of ordinary length in which the residuals need not halve
_FARTHEST = math.log(sys.float_info.max) / 2  # of a search variable: squares overflow beyond


class Sought:
    """Equations at given numbers, whose unknowns are searched for in variables of their own."""

    domains: Sequence[Domain]
    adapted: Any  # a mesh at some unknowns
    linearise: Any  # residuals and their derivatives at some unknowns, on a mesh

    def values(self, points: Array) -> Array:
        """Return unknowns from the variables searched in."""
        values = np.empty(np.shape(points))
        for domain in dict.fromkeys(self.domains):  # members of a family have one
            rows = [place for place, other in enumerate(self.domains) if other is domain]
            values[rows] = domain.value(points[rows])
        return values

    def points(self, values: Sequence[float]) -> Array:
        """Return the variables searched in from unknowns."""
        with np.errstate(all="ignore"):
            return np.array([domain.point(value) for domain, value in zip(self.domains, values, strict=True)])


@dataclass(frozen=True)
class Problem(Sought):
    """A plan at given numbers."""

    plan: FixedPointPlan
    parameters: tuple[float, ...]
    parts: tuple[LawBranch, ...]
    outer: int = RULE  # nodes across
    held: tuple[tuple[str, float], ...] = ()  # unknowns on the edges of their domains; the last parameters
    dropped: tuple[int, ...] = ()  # the equations that these fulfil
    deadline: float = np.inf  # CPU time at which a search ends

    def integrands(self, unknowns: Array) -> Evaluator:
        table = unknowns if unknowns.ndim == 2 else unknowns[:, None]
        return Evaluator(self.plan, self.parameters, table)

    @property
    def domains(self) -> Sequence[Domain]:  # type: ignore[override]
        return self.plan.unknowns

    def lines(self, values: Array, outer: int | None = None) -> LineSet:
        """Return the lines along which expectations are integrals, for sets of unknowns (columns)."""
        return quadrature.make_lines(
            self.plan, self.parts, self.parameters, self.integrands(values).unknowns, outer or self.outer
        )

    def adapted(self, values: Array, *, outer: int | None = None, **how: Any) -> PanelMesh:
        return quadrature.adapt(self.integrands(values), self.lines(values, outer), **how)

    def means(self, values: Array, mesh: PanelMesh) -> Array:
        """Return the expectations on a mesh that follows their kinks."""
        integrands = self.integrands(values)
        return quadrature.expectations(integrands, mesh.moved(integrands.kinks(mesh.lines)))

    def linearise(self, values: Array, mesh: PanelMesh, along: tuple[str, ...] | None = None) -> Linearisation:
        """Return residuals and their derivatives along the unknowns (or other names) on a mesh that follows its kinks."""
        plan = self.plan
        names = tuple(item.name for item in plan.unknowns) if along is None else along
        integrands = self.integrands(values)
        mesh = mesh.moved(integrands.kinks(mesh.lines))
        means, slopes, sizes = gradients(integrands, mesh, names)
        count, wide = len(plan.lefts), len(names) + len(means)
        scalars = (*self.parameters, *values, *means)
        with np.errstate(all="ignore"):
            sides = np.array([float(side) for side in plan.piece("sides")(*scalars)]).reshape(2, count)
            partial = np.array([float(entry) for entry in plan.piece("side slopes", *names)(*scalars)]).reshape(2, count, wide)
            left, right = sides
            log = np.array(plan.logarithmic, dtype=bool)
            residual = np.where(log, np.log(right / left), right - left)
            scale_left, scale_right = np.where(log, 1 / left, 1.0), np.where(log, 1 / right, 1.0)
            change = partial[1] * scale_right[:, None] - partial[0] * scale_left[:, None]
            through = change[:, len(names) :]
            jacobian = change[:, : len(names)] + through @ slopes
            rounding = EPSILON * (np.abs(through) @ sizes + np.where(log, 1.0, np.abs(left) + np.abs(right)))
        return Linearisation(residual, jacobian, means, slopes, rounding)


@dataclass(frozen=True)
class Linearisation:
    """Residuals at a point, their derivatives along the unknowns, and how large rounding in them may be."""

    residual: Array
    jacobian: Array
    means: Array
    mean_slopes: Array
    rounding: Array


@dataclass(frozen=True)
class Iterate:
    """A solution found: unknowns, the mesh it was found on, and the linearised equations there."""

    values: Array
    mesh: PanelMesh
    linear: Linearisation
    steps: int
    converged: bool
    first: float = 0.0  # how many longest steps away the first one said the solution is


def sides(problem: Problem, values: Array, means: Array) -> tuple[Array, Array]:
    """Return the left and the right sides of the equations for several sets of unknowns (columns)."""
    columns, count = problem.plan.piece("sides")(*problem.parameters, *values, *means), len(problem.plan.lefts)
    table = np.stack([np.broadcast_to(np.asarray(side, dtype=float), (values.shape[1],)) for side in columns])
    return table[:count], table[count:]


def residuals(problem: Problem, values: Array, means: Array) -> Array:
    """Return the residuals for several sets of unknowns (columns)."""
    with np.errstate(all="ignore"):
        left, right = sides(problem, values, means)
        return np.where(np.array(problem.plan.logarithmic)[:, None], np.log(right / left), right - left)


def newton(
    problem: Sought, start: Array, mesh: PanelMesh | None, *, rounds: int = 40, stop: float = 1e-8,
    box: list[tuple[float, float]] | None = None, leash: float = np.inf,
) -> Iterate:  # fmt: skip
    """Newton's method with limited steps; on ``mesh`` if given, else on rough ones, made anew when it no longer gets on.

    A search that leaves ``box`` is given up, and one whose first step would be ``leash`` times the longest one; so is one
    whose residuals no longer shrink: the mesh is then too coarse to converge on.
    """
    point, last = problem.points(list(start)), np.inf
    values, last_sound = np.array(start, dtype=float), None
    step, halvings = np.zeros_like(point), 0
    least, stagnant, first = np.inf, 0, np.inf
    here, left = mesh, list(ROUGHLY if mesh is None else ())
    for count in range(1, rounds + 1):
        if here is None:
            here = problem.adapted(values, outer=_FEW, tolerance=left.pop(0))
        linear = problem.linearise(values, here)
        size = float(np.max(np.abs(linear.residual), initial=0.0))
        sound = np.isfinite(size) and np.isfinite(linear.jacobian).all()
        if (not sound or (size > 1.5 * last and size > 1e-6)) and halvings < 6 and np.isfinite(last):
            halvings, stagnant = halvings + 1, stagnant + 1  # the last step led astray: half of it
            step = step / 2
            point = point - step
            values = problem.values(point[:, None])[:, 0]
            continue
        if not sound or (box is not None and not all(low <= x <= high for x, (low, high) in zip(point, box, strict=True))):
            break
        halvings = 0
        last_sound = Iterate(values, here, linear, count, False)
        scales = [item.scale(value) for item, value in zip(problem.domains, values, strict=True)]
        scaled = linear.jacobian * scales
        try:
            step = -linear_solver(scaled.copy, scaled.__matmul__, len(scaled), scaled.size or 1)(linear.residual)
        except (np.linalg.LinAlgError, RuntimeWarning):
            break
        # steps at most: a factor e², or the size of the search variable
        reach = [2.0 if item.is_bounded else 1 + abs(x) for item, x in zip(problem.domains, point, strict=True)]
        longest = float(np.max(np.abs(step) / reach, initial=0.0))
        first = longest if count == 1 else first
        step_norm = float(np.max(np.abs(step) / (1 + np.abs(point)), initial=0.0))
        if step_norm < stop or (step_norm < 1e-9 and size >= last * 0.5):  # the error after this step is that of its square
            values = problem.values((point + step)[:, None])[:, 0] if len(point) else values
            return Iterate(values, here, linear, count, True)
        last = size
        least, stagnant = (size, 0) if size < 0.5 * least else (least, stagnant + (longest <= 1))
        if stagnant > _STAGNANT and left:  # the mesh does not suit the place the search has come to
            here, last, least, stagnant = None, np.inf, np.inf, 0
        if stagnant > _STAGNANT or (count == 1 and longest > leash):
            break
        if longest > 1:
            step = step / longest
        point = point + step
        values = problem.values(point[:, None])[:, 0]
    if last_sound is None:
        nan, none = np.full(len(point), np.nan), np.zeros((0, len(point)))
        nothing = Linearisation(nan, np.outer(nan, nan), none[:, 0], none, nan)
        last_sound = Iterate(values, here or problem.adapted(values), nothing, 0, False)
    return replace(last_sound, first=first)


def polish(problem: Problem, start: Array, *, box: list[tuple[float, float]] | None = None) -> Iterate:
    """Return the solution near a start to rounding: meshes adapted until they no longer need to change.

    A search that leaves ``box`` is given up.
    """
    values = np.array(start, dtype=float)
    steps = 0
    for _ in range(6):
        before = values
        solution = newton(problem, values, problem.adapted(values), box=box or [(-_FARTHEST, _FARTHEST)] * len(values))
        steps += solution.steps
        values = solution.values
        moved = np.max(np.abs(problem.points(list(values)) - problem.points(list(before))), initial=0.0)
        if solution.converged and moved < (1e-8 if solution.mesh.lines.turned else 0.02):
            return Iterate(values, solution.mesh, solution.linear, steps, True)
        if not np.isfinite(values).all() or (moved == 0 and not solution.converged):
            break
    return Iterate(values, solution.mesh, solution.linear, steps, False)


# --- A fixed point at numbers: its plan, and the numbers and laws it is to be solved at.


def make_problem(
    program: FixedPointProgram, values: Values, *, eliminate: bool = True,
    held: tuple[tuple[str, float], ...] = (), dropped: tuple[int, ...] = (),
    deadline: float = np.inf,
) -> Problem:  # fmt: skip
    """Return a model in compiled form, with the numbers it is to be solved at.

    Unknowns that are ``held`` have the numbers given, and the equations ``dropped`` are left out.
    """
    plan = program.plan(values, eliminate=eliminate, held=tuple(name for name, _ in held), dropped=dropped)
    plan.rootless = ""  # plans are kept: that was of another solve
    return replace(problem_at(plan, values, (), held, dropped), deadline=deadline)


def problem_at(
    plan: FixedPointPlan, values: Values, more: tuple[float, ...],
    held: tuple[tuple[str, float], ...], dropped: tuple[int, ...],
) -> Problem:  # fmt: skip
    laws = {name: values.laws[name] for name in plan.constants}
    for name, law in laws.items():
        quadrature.demand_second_moment(name, law)
    own = len(plan.parameters) - len(more) - len(held)
    numbers = (*(values.numbers[name] for name in plan.parameters[:own]), *more, *(end for _, end in held))
    return Problem(plan, numbers, tuple(branches(tuple(laws), laws, RULE)), held=held, dropped=dropped)


def finer_rules(at: Values, problem: Problem, values: Array, mesh: PanelMesh) -> Iterator[tuple[Problem, PanelMesh]]:
    """Yield the same problem with a finer quadrature: every panel cut in two; rules with more nodes, twice.

    Across a kink the errors of two rules may agree by chance.
    """
    if mesh.lines.exact:
        yield problem, mesh.moved(problem.integrands(values).kinks(mesh.lines)).halved()
        return
    laws = {name: at.laws[name] for name in problem.plan.constants}
    for more in (1.2, 1.5):
        parts = tuple(branches(tuple(laws), laws, int(RULE * more)))
        finer = replace(problem, parts=parts, outer=int(problem.outer * more))
        yield finer, finer.adapted(values)


# --- How a solved fixed point answers to its parameters: implicit differentiation with the symbolic
# Jacobian.
#
# With F(u, p) = 0 the unknowns move as du/dp = −F_u⁻¹ F_p; an expectation or an observable moves
# with them.


def sensitivity(problem: Problem, point: Iterate, parameter: str) -> dict[str, float]:
    """Return the derivatives of all unknowns and observables with respect to a parameter."""
    along = find_parameter(problem, parameter)
    moved = unknown_slopes(problem, point, along)
    plan, whole, integrands = problem.plan, (*names_of(problem), along), problem.integrands(point.values)
    means, slopes, _ = gradients(integrands, point.mesh.moved(integrands.kinks(point.mesh.lines)), whole)
    partial, through = np.split(output_slopes(problem, point.values, means, whole), [len(whole)], axis=1)
    total = (partial + through @ slopes) @ np.append(moved, 1.0)
    return dict(zip((*names_of(problem), *plan.outputs), (*moved.tolist(), *total.tolist()), strict=True))


def find_parameter(problem: Problem, name: str) -> str:
    names = problem.plan.smooth
    for known in (name, f"{name}_given"):
        if known in names:
            return known
    raise UsageError(f"there is no derivative along `{name}`{did_you_mean(name, names)} (parameters: {', '.join(names)})")


def names_of(problem: Problem) -> tuple[str, ...]:
    return tuple(item.name for item in problem.plan.unknowns)


def gradients(*given: Any) -> list[Array]:
    """Return means, their derivatives and sizes for one set of unknowns."""
    return [part[..., 0] for part in quadrature.gradients(*given)]


def unknown_slopes(problem: Problem, point: Iterate, parameter: str) -> Array:
    """Return the derivatives of the remaining unknowns.

    Raise where a Gaussian of variance zero gains variance: the derivative under the mean is 0/0.
    """
    plan, along = problem.plan, (*names_of(problem), parameter)
    moved = np.zeros(0)
    if plan.unknowns:
        linear = problem.linearise(point.values, point.mesh, along)
        moved = np.asarray(-np.linalg.solve(linear.jacobian[:, :-1], linear.jacobian[:, -1]))
    scalars = (*problem.parameters, *point.values)
    for place, (name, variance) in enumerate(zip(plan.spreads, plan.piece("variances")(*scalars), strict=True)):
        if variance == 0:
            slopes = np.array(plan.piece("variance slopes", *along)(*scalars), dtype=float).reshape(-1, len(along))
            if slopes[place] @ np.append(moved, 1.0) != 0:
                raise UsageError(
                    f"`{name}` has variance 0 here, and gains variance with `{parameter}`: the derivative of a mean is not "
                    f"known at such a point; take a small positive value of `{parameter}`"
                )
    return moved


def output_slopes(problem: Problem, values: Array, means: Array, along: tuple[str, ...]) -> Array:
    """Return the derivatives of the outputs, a row each, along names and then along means."""
    with np.errstate(all="ignore"):
        entries = problem.plan.piece("output slopes", *along)(*problem.parameters, *values, *means)
    table = np.array([float(entry) for entry in entries])
    return table.reshape(len(problem.plan.outputs), len(along) + len(means))
