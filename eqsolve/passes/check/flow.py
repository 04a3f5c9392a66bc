"""What must hold of a `Flow`: coordinates and samples kept apart, θ → w → f → ℓ → g → θ' in this order."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sympy import Basic, Expr

from eqsolve.errors import ModelError, did_you_mean, quoted
from eqsolve.language.laws import Law
from eqsolve.language.nodes import GP, E, White
from eqsolve.language.symbols import Field, Gradient, Parameter, Process, Random, State, Time, Value
from eqsolve.language.system import Flow
from eqsolve.passes.check.expressions import ExpressionCheck, Scope
from eqsolve.passes.forms.kinks import SMOOTH, jumps, with_steps
from eqsolve.passes.rewrite.substitution import change_states, new_states

_REASONS = {
    ("weight", Field): "a field is made of the weights, f = X w(θ), so a weight depends on the state only",
    ("weight", Gradient): "a gradient is made of the weights' fields, so a weight depends on the state only",
    ("loss gradient", State): "it acts sample by sample, so it depends on the fields only",
    ("loss gradient", Gradient): "a gradient is made of it, g = Xᵀℓ/δ, so it depends on the fields only",
    ("drift", Field): "a drift acts coordinate by coordinate; fields reach it through the gradients",
    ("initial value", Field): "a start depends on parameters and random constants only",
    ("initial value", Gradient): "a start depends on parameters and random constants only",
    ("initial value", State): "a start depends on parameters and random constants only",
}


def flow_problems(model: Flow) -> list[str]:
    """Return everything that is wrong with a flow: weights, losses, drift, start, then observables."""
    check = ExpressionCheck(model, (Parameter, Random, Time, State, Field, Gradient))
    times = model.time_symbols
    moving = model.student_fields
    crossed = {"weight": tuple(model.state), "loss gradient": moving, "drift": (*model.state, *model.gradients)}
    jumping: list[str] = []
    for role, name, expr in _parts(model):
        scope = Scope(f"the {role} of `{name}` ({model.location})", times=times, random=True)
        check.visit(expr, scope)
        for item in sorted(expr.free_symbols, key=str):
            if reason := _REASONS.get((role, type(item))):
                check.report(scope, f"depends on the {item.kind_name} `{item}`; {reason}")
        for node in sorted(expr.atoms(E), key=str):
            check.report(scope, f"contains the expectation `{node}`; expected an expression of one coordinate or sample")
        switch = jumps(with_steps(expr, moving) if role == "loss gradient" else expr, crossed.get(role, ()))
        if switch is not None:  # its mean response is a density of paths, and paths may get stuck on it
            where = min((item for item in crossed[role] if switch.has(item)), key=str)
            jumping.append(
                f"{scope.label} jumps where `{switch}` = 0, so that it has no derivative in "
                f"`{where}` that is a function, but the mean-field equations need one; {SMOOTH}"
            )
    check.add(jumping)
    for noise, law in model.laws.items():
        _noise(check, model, noise, law)
    elsewhere = {"weight": model.weights, "observable": model.observables.values(), "variable": model.variables.values()}
    for role, expressions in elsewhere.items():
        values = {value for expr in expressions for value in expr.atoms(Value) if value.head in model.laws}
        where = (f"the {role} `{value}` ({model.location})" for value in sorted(values, key=str))
        check.add(f"{label} reads a noise; only loss gradients and drifts do" for label in where)
    for name, expr in model.variables.items():
        check.visit(expr, Scope(f"variable `{name}` ({model.location})", times=times, random=True))
    for name, expr in model.observables.items():
        scope = replace(check.observable(name), times=times)
        check.visit(expr, scope)
        check.report(scope, *_mixed(model, expr))
    problems = [*_undeclared(model), *_unused(model), *_two_sided(model)]
    if len(times) > 1:
        problems.append(f"{model.label} uses {len(times)} times, {quoted(times)}; expected one, the running time")
    if not isinstance(model.ratio, Parameter):
        problems.append(f"{model.label}: ratio= takes a parameter, got `{model.ratio}`")
    for item in model.substitute:
        if item not in model.state:
            problems.append(f"{model.label}: substitute= names `{item}`, which is no state of it")
    if not check.problems and not problems:
        try:
            change_states(model)
        except ModelError as error:
            problems.append(str(error))
    return [*check.problems, *problems]


def _parts(model: Flow) -> Iterator[tuple[str, str, Expr]]:
    for role, names, expressions in (
        ("weight", model.fields, model.weights),
        ("loss gradient", model.gradients, model.loss_gradient),
        ("drift", model.drift, model.drift.values()),
        ("initial value", model.state, model.state.values()),
    ):
        for item, expr in zip(names, expressions, strict=True):
            if not isinstance(expr, Law):
                yield role, item.name, expr


def _noise(check: ExpressionCheck, model: Flow, noise: Process, law: Any) -> None:
    """Check where a noise stands, on one side, and what its law is written in."""
    on_samples, on_coordinates = (noise in model.reads(part) for part in ("loss_gradient", "drift"))
    scope = Scope(f"the law of `{noise.name}` ({model.place('laws', noise.name)})", times=tuple(law.atoms(Time)))
    for part in law.args:
        check.uses_only((Parameter, Time), part, scope, "parameters, and times in a covariance")
    one_time, kernel = isinstance(law, GP) and len(law.covariance.atoms(Time)) not in (0, 2), getattr(law, "covariance", 0)
    wrong = {
        f"has a covariance `{kernel}`; expected a function of two times, such as exp(-abs(t - tp))": one_time,
        "belongs to a noise that a loss gradient reads (per sample) and a drift too (per coordinate); take two": on_samples
        and on_coordinates,
        "belongs to a noise that no loss gradient and no drift reads; use it there, or remove it": not on_samples
        and not on_coordinates,
        "is white, which has no values, and a loss gradient reads it; noise of a sample is GP(...), Telegraph(...) or, with "
        "a step, Resampled(...)": on_samples and isinstance(law, White),
    }
    check.report(scope, *(text for text, holds in wrong.items() if holds))
    for state, drift in model.drift.items() if isinstance(law, White) else ():
        for value in (item for item in drift.atoms(Value) if item.head == noise):
            weight = drift.diff(value)
            if weight.has(value) or weight.free_symbols - {*model.time_symbols} - {*model.parameters}:
                check.report(
                    Scope(f"the drift of `{state.name}` ({model.location})"),
                    f"multiplies the white noise `{value}` by `{weight}`; expected a factor that "
                    "is the same for all coordinates: change to a variable whose noise is additive",
                )


def _undeclared(model: Flow) -> Iterator[str]:
    """Find components used but not listed, and components listed twice."""
    substituted = new_states(model) if model.substitute else ()
    for kind, part in ((State, "state"), (Field, "fields"), (Gradient, "gradients")):
        names = [item.name for item in getattr(model, part)]
        for name, item in sorted(model.names.items()):
            if type(item) is kind and name not in names and item not in substituted:
                near = did_you_mean(name, names) or f"; add it to {part}="
                yield f"{model.label} uses the {item.kind_name} `{name}`, which {part}= does not list{near}"
        for name in sorted({name for name in names if names.count(name) > 1}):
            yield f"{model.label} lists `{name}` twice in {part}="


def _unused(model: Flow) -> Iterator[str]:
    losses: set[Basic] = set().union(*(loss.free_symbols for loss in model.loss_gradient))
    seen: set[Basic] = losses.union(*(expr.free_symbols for expr in model.observables.values()))
    for field in model.fields:
        if field not in seen:
            yield (
                f"{model.label} has the field `{field}`, which no loss gradient and no observable "
                "uses; use it, or remove it with its weight"
            )
    drifts: set[Basic] = set().union(*(drift.free_symbols for drift in model.drift.values()))
    for gradient, loss in zip(model.gradients, model.loss_gradient, strict=True):
        if gradient in drifts and loss == 0:
            yield (
                f"{model.label} has the gradient `{gradient}` in a drift, but its loss gradient is "
                "0; give it one, or leave it out of the drift"
            )


# --- coordinates (θ, w, g) and samples (f, ξ)
def _sides(model: Flow) -> tuple[set[Basic], set[Basic]]:
    """Return the random constants drawn per coordinate and those drawn per sample."""
    starts = [start for start in model.state.values() if not isinstance(start, Law)]
    groups = ((*model.weights, *model.drift.values(), *starts), model.loss_gradient)
    coordinates, samples = ({item for expr in group for item in expr.atoms(Random)} for group in groups)
    return coordinates, samples


def _two_sided(model: Flow) -> Iterator[str]:
    coordinates, samples = _sides(model)
    for item in sorted(coordinates & samples, key=str):
        yield (
            f"{model.label} uses `{item}` per coordinate (weights, drift or start) and per sample "
            "(loss gradient); a teacher enters the loss through its field, noise through a random "
            "variable of its own"
        )


def _mixed(model: Flow, expr: Expr) -> Iterator[str]:
    coordinates, samples = _sides(model)
    for node in sorted(expr.atoms(E), key=str):
        inner = sorted(node.argument.free_symbols, key=str)
        first = [x for x in inner if isinstance(x, State | Gradient) or x in coordinates - samples]
        second = [x for x in inner if isinstance(x, Field) or x in samples - coordinates]
        if first and second:
            yield (
                f"mixes `{first[0]}`, which lives on the d coordinates, and `{second[0]}`, which lives on "
                f"the n samples, in one expectation `{node}`; expected one kind in each E(...)"
            )
