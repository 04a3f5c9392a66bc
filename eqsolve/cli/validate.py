"""The command that compares a model's solution with finite-size simulations."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from eqsolve.cli.options import command, read_shared
from eqsolve.cli.output import deliver, lay_out, number_with_error
from eqsolve.language.loading import load
from eqsolve.options import cli_flag, refuse_idle
from eqsolve.progress import Bar
from eqsolve.results.words import percent

if TYPE_CHECKING:
    from eqsolve.validation.validate import Comparison, Validation


_BOTH = "theory and finite sizes"


@command(
    "compare a model's solution with finite-size simulations",
    "validate {finite} --d 1000 --seeds 8 --at 0.3,1,3",
    "validate {finite} --data binary --d 500 --plot validation.png",
    "validate {finite} --set {finite_parameter}=0.5 --out validation.nc  # eqsolve plot validation.nc draws it",
    settings="values of parameters",
    out=f"write {_BOTH}",
    plot=f"draw {_BOTH}",
    options={
        "d": "number of coordinates; 2000 by default, 400 for a rate",
        "seeds": "number of independent draws; 8 by default",
        "seed": "seed of everything random; 0 by default",
        "at": "times to compare at, such as 0.3,1,3,10",
        "t_max": "last time; for a fixed point, the length of the runs",
        "data": 'features: gaussian, binary, student_t, a law such as "StudentT(5)", or a file',
        "constants": "random constants: balanced (default), exact (quantiles) or sampled",
        "step": "gradient descent with this step on both sides",
        "rtol": "relative tolerance of the theory; 1e-3 by default",
        "observables": "compare these only",
        "flow": "the microscopic model, instead of the one the model names",
        "region": "of a Singularity: search Re p >= LOW, |Im p| <= HEIGHT; by default scaled to the transform",
        "device": "run the finite sizes on the cpu (default), the gpu, or auto: the card where it is worth it",
        "workers": "draws run at once; one per core by default",
    },
)
def run_validate(options: Namespace) -> int:
    """Solve a model, run the microscopic model it describes at finite size, and compare, with the errors
    of both sides. Exit code 0: they agree; 1: they disagree, or there is not enough data; 2: bad input.
    """
    data, picture, settings, asked = read_shared(options)
    from eqsolve.validation.validate import validate

    model = load(options.model)
    if model.kind != "Cases":  # the case decides
        refuse_idle(model.name, model.kind, [name for name in asked if name != "t_max"], cli_flag)
    with Bar(options.quiet) as progress:
        validation = validate(model, params=settings, progress=progress, **asked)
    deliver(options, validation, lambda: _text(validation), data, picture)
    return 0 if validation.verdict == "agrees" else 1


def _text(validation: Validation) -> str:
    size = f"n = {validation.n}, d = {validation.d}, {validation.seeds} draws, {validation.data}"
    lines = [f"{validation.model}: {validation.verdict}; {size}", ""]
    for name, item in validation.observables.items():
        lines += [f"{name}: {item.verdict}", _table(validation, item), ""]
    if validation.wasserstein is not None:
        law = validation.wasserstein
        lines.append(f"Wasserstein-2 distance of the law of ({', '.join(law['variables'])})")
        times = ["finite size"] if validation.t is None else [f"{t:g}" for t in validation.t]
        heads = ["" if validation.t is None else "t", *(f"d={d}" for d in law["d"])]
        rows = [[text, *(f"{row[k]:.3g}" for row in law["values"])] for k, text in enumerate(times)]
        if "independent_draws" in law:
            rows.append(["independent draws", *(f"{row[0]:.3g}" for row in law["independent_draws"])])
        lines += [lay_out([heads, *rows], right=True, indent="  "), ""]
    lines += [f"note: {note}" for note in validation.notes]
    lines += [
        "theory, finite size: value ± its error; bias: how far a finite d shifts the runs, from runs of half the size;",
        "z: their difference in units of all errors together, a disagreement beyond about 3; the bias counts as one of these",
        "errors and is not subtracted, so a large bias makes z small; could see: the smallest deviation, in percent of",
        "the theory, that would have been called a disagreement nine times in ten",
        "",
        *(f"{name}: a deviation of {_power(validation, name)} would have been detected" for name in validation.observables),
    ]
    lines.append(f"verdict: {validation.verdict}{' (low power)' if validation.low_power else ''}")
    return "\n".join(lines)


def _power(validation: Validation, name: str) -> str:
    """Return the smallest deviations that would have been detected, at the best time and at the worst."""
    item = validation.observables[name]
    places = [item.most_sensitive, item.least_sensitive]
    places = places[:1] if validation.t is None or len(item.detectable) == 1 else places
    when = [""] * len(places) if validation.t is None else [f" (t = {validation.t[k]:g})" for k in places]
    return " to ".join(percent(float(item.detectable[k])) + text for k, text in zip(places, when, strict=True))


def _table(validation: Validation, item: Comparison) -> str:
    heads = ["theory", "finite size", "bias", "z", "could see"]
    columns = [
        map(number_with_error, item.theory.tolist(), item.theory_error.tolist()),
        map(number_with_error, item.simulation.tolist(), item.standard_error.tolist()),
        map("{:+.1e} ± {:.1e}".format, item.bias.tolist(), item.bias_error.tolist()),
        map("{:+.2f}".format, item.z.tolist()),
        map(percent, item.detectable.tolist()),
    ]
    rows = [list(row) for row in zip(*columns, strict=True)]
    if validation.t is not None:
        heads = ["t", *heads]
        rows = [[f"{t:g}", *row] for t, row in zip(validation.t.tolist(), rows, strict=True)]
    return lay_out([heads, *rows], right=True, indent="  ")
