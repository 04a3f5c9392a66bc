"""`explain`: what the engine makes of a model, and what `solve` will do with it."""

import contextlib
from dataclasses import replace
from typing import Any

from eqsolve.arguments import checked, flag, number, text
from eqsolve.compile.plan import Plan, compile, refuse_continuous, solved_model
from eqsolve.errors import EqsolveError, ModelError
from eqsolve.language.loading import load, read_model
from eqsolve.language.model import Model
from eqsolve.language.system import Cases, Flow
from eqsolve.passes.check.check import check
from eqsolve.passes.explain.explain import ChosenSolver, Explanation
from eqsolve.passes.explain.explain import explain as explain_equations
from eqsolve.passes.rewrite.indices import for_reading
from eqsolve.solvers.contract import Solver, Wanted
from eqsolve.solvers.registry import choose_solver, find_solver, solver_names, why_unfit


@checked(model=read_model, kernels=flag, step=number, solver=text)
def explain(
    model: Model | str, *, kernels: bool | None = None, step: float | None = None, solver: str | None = None
) -> Explanation:
    """Return what the engine makes of a model and what ``solve`` will do; nothing is solved.

    Parameters
    ----------
    model
        A model, its name, or the path of its file.
    kernels, step, solver
        As ``solve`` takes them.
    """
    assert isinstance(model, Model)
    if (read := for_reading(model)) is not model:
        own = explain_equations(model)
        explanation = explain(read, kernels=kernels, step=step, solver=solver)
        return replace(explanation, equations=own.equations, signature=own.signature, settings=own.settings)
    chosen = foresee(model, kernels, step, solver)
    derivation, mean_field = None, None
    with contextlib.suppress(EqsolveError):  # of a model with problems
        if chosen.name and model.kind in ("System", "Flow"):  # what the plan that runs was compiled from
            plan = compile(model, steps=step is not None)
            discrete = step is not None or plan.model.step is not None
            derivation = plan.derivation(find_solver(chosen.name).form(discrete))
    if isinstance(model, Flow) and derivation is not None:
        mean_field, derivation = explain_equations(solved_model(model, {})[0], derivation), None
    return replace(explain_equations(model, derivation, mean_field), solver=chosen)


def foresee(model: Model, kernels: bool | None = None, step: Any = None, solver: str | Solver | None = None) -> ChosenSolver:
    """Return the choice that ``solve`` makes, with the reasons against the other solvers."""
    if isinstance(model, Cases):
        return _by_case(model, kernels, step, solver)
    try:
        check(model)
        model = for_reading(model)
        refuse_continuous(model, solved_model(model, {})[0], step)
        plan = compile(model, steps=step is not None)
        discrete = step is not None or plan.model.step is not None
        choice = choose_solver(plan, Wanted(kernels, discrete), solver)
    except EqsolveError as error:
        count = len(error.problems) if isinstance(error, ModelError) else 1
        return ChosenSolver("", f"solve refuses this: {error if count == 1 else f'it has {count} problems'}")
    derived = "the mean-field equations derived from the flow: " if isinstance(model, Flow) else ""
    others = tuple((name, _against(find_solver(name), plan, discrete)) for name in solver_names() if name != choice.name)
    return ChosenSolver(choice.name, f"{derived}{choice.reason}", others)


def _against(solver: Solver, plan: Plan, discrete: bool) -> str:
    if discrete and not solver.discrete:
        return "no: it has no discrete step"
    if not discrete and solver.only_discrete:
        return "no: it follows discrete time, step= (--step)"
    if unfit := why_unfit(solver, plan):
        return f"no: {unfit}"
    return f"also applicable: select it by solver={solver.name!r} (--solver {solver.name})"


def _by_case(model: Cases, kernels: bool | None, step: float | None, solver: str | Solver | None) -> ChosenSolver:
    choices = {}
    for condition, name in model.cases:
        try:
            choices[name, str(condition)] = foresee(load(name), kernels, step, solver)
        except EqsolveError as error:
            choices[name, str(condition)] = ChosenSolver("", f"solve refuses this: {error}")
    text = "; ".join(
        f"{name} if {condition}, by {chosen.name}" if chosen.name else f"{name} if {condition}: {chosen.reason}"
        for (name, condition), chosen in choices.items()
    )
    names = dict.fromkeys(chosen.name for chosen in choices.values() if chosen.name)
    return ChosenSolver(" or ".join(names), f"the first of its cases whose condition holds: {text}")
