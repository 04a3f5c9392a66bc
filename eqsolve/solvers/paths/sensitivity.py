"""Derivatives of a solved stochastic system along parameters: the linearised equations of the means, at the solution.

In the enlarged system (every unknown beside its derivative) a sweep maps the means D of derivatives
affinely, D ↦ J D + b, with J the linearisation of the sweep in the means and b its explicit
derivative by the parameter. D = (1 − J)⁻¹ b is iterated like any other means: on an affine map
Anderson's method is GMRES (Walker & Ni, SIAM J. Numer. Anal. 49, 1715 (2011),
doi:10.1137/10078356X), preconditioned by the mean responses.

The means and kernels of the solution are known to the enlarged system, and stay as they are.
Errors: the changes by sets of finer points, and by panels of another order.
"""

import functools
import math
from dataclasses import dataclass, replace

import numpy as np

from eqsolve.compile.forms import DISCRETE, STOCHASTIC
from eqsolve.compile.lowering import at
from eqsolve.compile.plan import Plan, Values
from eqsolve.errors import SolverError
from eqsolve.numerics.operators import OperatorGrid
from eqsolve.results.result import Result
from eqsolve.solvers.options import Options
from eqsolve.solvers.paths.controls import PathsControls
from eqsolve.solvers.paths.ensembles import carried
from eqsolve.solvers.paths.error_control import ErrorControl, Errors
from eqsolve.solvers.paths.iterate import Correction, IterationControls, PathSolution, iterate
from eqsolve.solvers.paths.point_refinement import PointRefinement
from eqsolve.solvers.paths.sweep import Design, Engine, Kept, Means, Work, collect, sweep
from eqsolve.solvers.paths.transfer import transfer

_NOT_KEPT = np.empty((0, 0, 0))  # in place of a guess of unknowns: paths of the solution are not those of its derivatives


def add_derivatives(
    result: Result, own: Engine, solved: PathSolution, beside: tuple[Plan, Values], options: Options, control: PathsControls
) -> Result:  # fmt: skip
    """Return a result with the derivatives of all its functions of time and kernels, as the enlarged system names them.

    ``own`` is the engine of the solution.
    """
    plan, values = beside
    program = at(plan.program(STOCHASTIC if options.step is None else DISCRETE), values.numbers)
    engine = Engine(program, {**own.laws, **values.all_laws(program)}, Work(), own.accuracy, options.device, options.threads)
    # derivatives change signs: three tolerances of theirs are asked for
    solve = _SensitivitySolve(own, engine, solved, replace(options, rtol=3 * options.rtol), control)
    with np.errstate(all="ignore"):
        found, errors = solve.run()
    return _attached(result, solve.judge, found, errors)


@dataclass(frozen=True, eq=False)
class _SensitivitySolve:
    """Derivatives being looked for at a solution."""

    own: Engine
    engine: Engine  # of the enlarged system
    base: PathSolution
    options: Options
    control: PathsControls

    @property
    def tolerance(self) -> float:
        return self.control.settled * self.options.rtol

    @functools.cached_property
    def judge(self) -> ErrorControl:
        return ErrorControl(self.beside(self.base), self.options)

    def run(self) -> tuple[PathSolution, Errors]:
        """Return the solution with its derivatives, and the errors of everything."""
        base, judge = self.base, self.judge
        engine = judge.engine
        begun = {mean.name: np.zeros((base.grid.size,) * (1 if mean.kind == "one" else 2)) for mean in engine.means}
        found = self.iterate(engine, base, begun)
        by_panels = by_points = judge.zero_errors(found)
        if self.options.step is None:
            by_panels = self.panel_errors(found)
        points = PointRefinement(engine, judge, self.control, self.tolerance)
        if ways := points.ways(found):
            chosen = [base.averages[place].choice for place in self.places]
            layouts = tuple(item.layout if item.layout.kind in ("sample", "single") else None for item in chosen)
            shapes = None if base.shapes is None else tuple(base.shapes[place] for place in self.places)
            # of samples others of the same size: tangents of the enlarged system are expensive
            moved = points.move(found, Design(chosen[0].level, layouts, shapes), frozenset(ways) - {"sample"}, by_panels)
            found, by_points = moved.final, moved.errors
        return found, judge.total(found, by_panels, by_points, rounding=1e-13)

    @property
    def places(self) -> list[int]:
        """Where the paths of the solution stand that every kind of path of the enlarged system goes beyond."""
        made = []
        for plan in self.engine.ensembles:
            place = next((k for k, item in enumerate(self.own.ensembles) if {*item.unknowns} <= {*plan.unknowns}), None)
            if place is None or {*self.own.ensembles[place].constants} != {*plan.constants}:
                raise SolverError("the derivatives couple ensembles that are separate in the system")
            made.append(place)
        return made

    def beside(self, base: PathSolution) -> Engine:
        """Return the engine of the derivatives alone: the means and the kernels of the solution are known to it."""
        plan = self.engine.program
        ensembles = tuple(
            replace(item, means=tuple(mean for mean in item.means if mean.name not in base.means)) for item in plan.ensembles
        )
        return replace(self.engine, program=replace(plan, ensembles=ensembles), known=base.kernels)

    def iterate(self, engine: Engine, base: PathSolution, means: Means) -> PathSolution:
        """Solve the linearised equations of the means with the points of a solution."""
        kept = tuple(Kept(base.averages[place].choice, _NOT_KEPT) for place in self.places)
        controls = IterationControls(choose=(), far=math.inf)  # the map is affine
        return iterate(engine, base.grid, means, Design(kept[0].choice.level), self.tolerance, controls, kept=kept)

    def panel_errors(self, found: PathSolution) -> Errors:
        """Return the errors of the panels: how far panels of another order move everything.

        Modes, points and paths are carried there, so that nothing but the panels differs. The
        solution is iterated there first, up to what its points leave open, which is not the panels'.
        """
        own, base, control = self.own, self.base, self.control
        assert base.grid.panels is not None
        grid = OperatorGrid.from_panels(base.grid.panels.of_another_order(control.highest, control.check_ratio))
        design = Design(base.averages[0].choice.level)
        here = collect(sweep(own, base.grid, base.means, design, base.averages))
        left = transfer({name: value - here[name] for name, value in base.means.items()}, own.responses, base.grid, grid)
        means = transfer(base.means, own.responses, base.grid, grid)
        there = iterate(
            own, grid, means, design, control.rough * self.options.rtol, replace(base.controls, choose=()),
            Correction(carried(own, base, grid), left),
        )  # fmt: skip
        engine = self.beside(there)
        return self.judge.panel_errors(
            found, self.iterate(engine, there, transfer(found.means, engine.responses, base.grid, grid))
        )


def _attached(result: Result, judge: ErrorControl, found: PathSolution, errors: Errors) -> Result:
    """Return the result with every curve and kernel that it does not have yet."""
    curves = judge.curves(found)
    data, grid = result.dataset.copy(deep=False), result.grid
    assert grid is not None
    for name, values in curves.all.items():
        if name in data:
            continue
        if values.ndim == 1:
            data[name], data[name + "_error"] = ("t", values), ("t", errors[name])
        elif "row" in data.coords and data.sizes["row"] == len(values):
            symmetric = name not in curves.values
            data[name] = (("row", "column"), values if symmetric else np.tril(values), {"symmetric": int(symmetric)})
            data[name + "_error"] = (("row", "column"), errors[name])
    return replace(result, table=data, stats={**result.stats, "sweeps of derivatives": judge.engine.work.sweeps})
