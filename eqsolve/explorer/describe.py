"""The page as one file, and what it shows before anything is solved: equations, what can be set, neighbours."""

import base64
import contextlib
import functools
import hashlib
import html
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sympy import Rational

from eqsolve._version import __version__
from eqsolve.errors import EqsolveError, MissingExtraError
from eqsolve.language.binding import read_value, spoken_name
from eqsolve.language.laws import Law, law_names
from eqsolve.language.loading import list_models, load
from eqsolve.language.model import Model
from eqsolve.language.printing import Shown, decimal_text, expression_latex, latex_names
from eqsolve.language.symbols import Parameter, meanings
from eqsolve.language.system import Cases, FixedPoint, Flow, Singularity
from eqsolve.passes.check.check import zero_divisors
from eqsolve.passes.explain.explain import describe_domain
from eqsolve.passes.forms.structure import is_found, models_behind, settable
from eqsolve.passes.rewrite.indices import family_axes


# --- Equations as MathML, which browsers draw without fonts, scripts or pictures from elsewhere.
def demand_extra() -> None:
    """Raise unless what the page needs is installed."""
    try:
        import latex2mathml.converter  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            "the explorer needs latex2mathml, to show the equations; install it with `pip install 'eqsolve[explore]'`"
        ) from None


@functools.cache
def to_mathml(latex: str, display: str = "inline") -> str:
    """Return one formula as a ``<math>`` element."""
    demand_extra()
    from latex2mathml.converter import convert

    return str(convert(latex, display=display))


def labels(model: Model) -> dict[str, str]:
    """Return how every name of a model, and of those behind it, is written."""
    return {name: to_mathml(latex) for name, latex in latex_names((model, *models_behind(model))).items()}


def equations(model: Model) -> list[dict[str, str]]:
    """Return the lines of a model as it is shown in LaTeX, and its observables: the two sides of each, and its source."""
    body = Shown(model).latex().removeprefix("\\begin{align}\n").removesuffix("\n\\end{align}")
    names = latex_names((model,))
    observables = [f"{names[name]} &= {expression_latex(value)}" for name, value in model.observables.items()]
    rows = (row.strip().partition("&") for row in (*body.split(" \\\\\n"), *observables))
    return [
        {"left": to_mathml(left, "block"), "right": to_mathml(right, "block"), "latex": f"{left.strip()} {right.strip()}"}
        for left, _, right in rows
    ]


# --- What can be set on the page: a slider or box for every parameter, a law for what is random.
EXAMPLES = {  # what a law's name puts into its box, to be changed there
    text.partition("(")[0]: text
    for text in (
        "Point(1)", "Bernoulli(0.1)", "Rademacher(0.1)", "Discrete([-1, 1], [0.5, 0.5])", "Normal(0, 1)", "Uniform(-1, 1)",
        "Laplace(1)", "StudentT(5)", "GaussBernoulli(0.1, 1)",
    )
}  # fmt: skip


@dataclass(frozen=True)
class Control:
    """One thing to set. A slider runs over [low, high]; the box beside it takes any text that ``--set`` takes."""

    name: str
    label: str  # MathML
    kind: str  # "number" or "law"
    value: str  # as typed; a law declared in other symbols is shown, not set
    low: float | None = None
    high: float | None = None
    scale: str = "lin"  # of the slider: "lin" or "log"
    whole: bool = False
    domain: str = ""
    about: str = ""


def list_controls(model: Model) -> list[Control]:
    """Return the controls of a model and of those behind it: numbers first, each kind by name."""
    controls: dict[str, Control] = {}
    for whole in (model, *models_behind(model)):
        exact = getattr(whole, "exact", None)  # what only closed forms read moves nothing
        part = whole._with(exact=type(exact)()) if exact else whole
        for parameter in part.parameters:
            if parameter.name not in controls:
                controls[parameter.name] = _number(part, parameter)
        about = {key.name.partition("[")[0]: text for key, text in meanings(part.file).items()}
        for item in part.randoms:
            law = part.laws.get(item, part.defaults.get(item, item.law))
            name = item.name.partition("[")[0]  # a family has one law
            if name not in controls and isinstance(law, Law) and not is_found(part, item) and law.dimension == 1:
                label, text = to_mathml(item.latex_name), decimal_text(law)
                controls[name] = Control(name, label, "law", text, about=about.get(name, ""))
    return sorted(controls.values(), key=lambda control: (control.kind == "law", control.name))


def _number(model: Model, item: Parameter) -> Control:
    given = model.defaults.get(item, item.default)
    default = None if given is None else float(given)
    low, high, scale = slider_range(item, default)
    if low == 0 != default and high and not item.is_integer and any(zero_divisors(model, {item.name: 0})):
        low = high / 50
    if default is None and low is not None and high is not None:
        default = 1.0 if low <= 1.0 <= high else (low + high) / 2
    text = decimal_text(given) if isinstance(given, Rational) else "" if default is None else f"{default:.12g}"
    return Control(
        item.name, to_mathml(item.latex_name), "number", text, low, high, scale, bool(item.is_integer),
        describe_domain(item).removeprefix("number").strip(), meanings(model.file).get(item, ""),
    )  # fmt: skip


def slider_range(item: Parameter, default: float | None) -> tuple[float | None, float | None, str]:
    """Return the ends and the scale of a slider, from the parameter's domain and its default.

    A positive parameter gets a quarter of its default to four times it, rounded outwards, on a logarithmic slider. What may
    be zero gets four times its default, at least 1, and what may be negative as much on both sides. Bounds cut all of them.
    An infinite value has no slider.
    """
    ends = zip(item.bounds, (-math.inf, math.inf), strict=True)
    lower, upper = (infinite if bound is None else float(bound) for bound, infinite in ends)
    centre, scale = 1.0 if default is None else default, "lin"
    if not math.isfinite(centre):
        return None, None, scale
    if item.is_integer:
        least = 1.0 if item.is_positive else 0.0 if item.is_nonnegative else centre - 5
        low = lower if math.isfinite(lower) else least
        high = max(low, centre) + 6
    elif item.is_positive:
        low, high, scale = 1 / _round_up(4 / centre), _round_up(4 * centre), "log"
    elif math.isfinite(lower) and math.isfinite(upper):
        low, high = lower, upper
    else:
        reach = _round_up(max(4 * abs(centre), 1.0))
        low, high = 0.0 if item.is_nonnegative else -reach, -reach * 1e-3 if item.is_negative else reach
    low, high = max(low, lower), min(high, upper)
    return low, max(low, high), scale if low > 0 else "lin"


def _round_up(value: float) -> float:
    """Return the next of 1, 2, 5, 10, 20, ... that is not below a value."""
    decade = 10.0 ** math.floor(math.log10(value))
    return next(step * decade for step in (1, 2, 5, 10) if step * decade >= value * (1 - 1e-12))


# --- Where a model goes and how fast: fixed points and rates of the same microscopic model.
KINDS = ("FixedPoint", "Cases", "Singularity", "variant")  # as files are listed


def flow_names(model: Model) -> set[str]:
    """Return the names of the microscopic models that a model, or its cases, describe."""
    if isinstance(model, Flow):
        return {model.name}
    named = {part.flow for part in (model, *models_behind(model))}
    return {item if isinstance(item, str) else item.name for item in named if item is not None}


def find_related(model: Model) -> list[Model]:
    """Return the fixed points, then the rates, that describe the same microscopic model as a dynamics does.

    A choice among fixed points stands for all of them. Files that cannot be loaded are passed over.
    """
    flows = flow_names(model)
    if not flows or isinstance(model, Singularity):
        return []
    related: dict[type[Model], list[Model]] = {Cases: [], FixedPoint: [], Singularity: []}
    for file in list_models():
        if file.kind in KINDS:
            with contextlib.suppress(EqsolveError):
                other = load(str(file.path))
                related.get(type(other), []).extend([other] if other.name != model.name and flow_names(other) & flows else [])
    rates = related[Singularity]
    return rates if isinstance(model, FixedPoint | Cases) else [*(related[Cases] or related[FixedPoint]), *rates]


def unknown_settings(other: Model, settings: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings that another model does not know, unless they are switched off.

    A parameter is switched off at 0 and at infinity: there the term it belongs to is gone.
    """
    known = settable(other)
    return [name for name, value in settings.items() if name not in known and not _is_off(value)]


def _is_off(value: Any) -> bool:
    try:
        number = float(read_value(value))
    except (EqsolveError, TypeError):
        return False
    return number == 0 or math.isinf(number)


TIMED = ("System", "Flow")


def describe(model: Model) -> dict[str, Any]:
    """Return a model in plain texts and numbers: its equations, what can be set."""
    title, _, rest = (model.doc or "").strip().partition("\n")
    known = law_names()
    return {
        "version": __version__, "name": model.name, "spoken": spoken_name(model), "kind": model.kind,
        "title": title, "doc": rest.strip(), "timed": model.kind in TIMED, "equations": equations(model),
        "labels": labels(model), "controls": [asdict(control) for control in list_controls(model)],
        "laws": {name: {"text": text, "usage": known[name].usage} for name, text in EXAMPLES.items() if name in known},
        "observables": observable_names(model),
        "indices": sorted({str(axis) for axes in family_axes(model).values() for axis in axes}),
        "finite": bool(flow_names(model)) or getattr(model, "minimises", None) is not None,
    }  # fmt: skip


def observable_names(model: Model) -> list[str]:
    """Return the observables of a model, or of those it chooses among."""
    parts = models_behind(model) if isinstance(model, Cases) else (model,)
    return list(dict.fromkeys(name for part in parts for name in part.observables))


def stamp(model: Model) -> str:
    """Return what changes when the model's file is written anew."""
    with contextlib.suppress(OSError):
        return "" if model.file is None else str(os.stat(model.file).st_mtime_ns)
    return "gone"


# --- The page: style, script and data inside it, nothing to be fetched.
PARTS = Path(__file__).resolve().parent / "page"
SCRIPTS = ("words", "chart", "interpolate", "controls", "files", "phases", "explorer")


def render(config: dict[str, Any], *, title: str, connect: bool) -> str:
    """Return the page; ``connect`` says whether it may talk to the server it came from, and to no other.

    The page's own rules (Content-Security-Policy) let exactly this script run, and nothing be loaded from anywhere.
    """
    script = "\n".join((PARTS / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    script = f"(() => {{\n'use strict';\n{script}}})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
        f"connect-src '{'self' if connect else 'none'}'; script-src 'sha256-{digest}'"
    )
    data = json.dumps(config, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    page, style = ((PARTS / name).read_text(encoding="utf-8") for name in ("page.html", "page.css"))
    parts = {"RULES": html.escape(rules), "TITLE": html.escape(title), "STYLE": style, "CONFIG": data, "SCRIPT": script}
    for name, text in parts.items():
        page = page.replace(f"<!--{name}-->", text, 1)
    return page
