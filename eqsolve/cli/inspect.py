"""The commands that look at models without solving them: list, show, check, explain, cite."""

from __future__ import annotations

import re
import time
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eqsolve._version import YEAR, __version__
from eqsolve.cli.options import FIGURES, check_destination, command, read_options, read_settings, switch, value
from eqsolve.cli.output import complain, lay_out, paint, room, say, say_wrote, write, write_json
from eqsolve.errors import EqsolveError, MisnamedError, ModelError, UsageError, did_you_mean
from eqsolve.language.loading import folders, list_models, load

if TYPE_CHECKING:
    from eqsolve.language.model import Model

_ANSI = re.compile(r"\033\[[0-9;]*m")


@command(
    "list the models that can be named", "list", "list --names  # for scripts", model=False,
    own={
        "model": value("M", "a model: what can be set in it, and what that means", nargs="?"),
        "--names": switch("print only the names, one per line"),
    },
)  # fmt: skip
def run_list(options: Namespace) -> int:
    """List the models found in ./models, in the folders of EQSOLVE_PATH, and in the package.
    Earlier places come first: a file in ./models hides one of the same name elsewhere.
    """
    if options.model is not None:
        return _list_settings(options)
    models = list_models()
    if options.names:
        write("\n".join(item.name for item in models))
    elif options.json:
        write_json({"models": [{**vars(item), "path": str(item.path)} for item in models]})
    elif not models:
        write("no models found; searched: " + ", ".join(map(str, folders())))
    else:
        rows = [("NAME", "KIND", "SUMMARY"), *((item.name, item.kind, item.summary) for item in models)]
        head, *lines = lay_out(rows, styles=("bold cyan", "faint", ""), cut=room()).splitlines()
        write("\n".join([paint(_ANSI.sub("", head), "bold"), *lines]))
        for folder in dict.fromkeys(item.path.parent for item in models):
            count = sum(item.path.parent == folder for item in models)
            write(paint(f"{count} in {folder}", "faint"))
    return 0


def _list_settings(options: Namespace) -> int:
    from eqsolve.passes.explain.explain import describe_settings
    from eqsolve.passes.forms.structure import settable

    model = load(options.model)
    described = [] if options.names else describe_settings(model)
    if options.names:
        write("\n".join(sorted(settable(model))))
    elif options.json:
        write_json({"model": model.name, "settings": list(map(vars, described))})
    else:
        rows = [(item.name, item.default or "must be set", item.domain, item.about) for item in described]
        heads = ("NAME", "DEFAULT", "TAKES", "MEANING")
        write(lay_out([heads, *rows], styles=("bold cyan", "", "faint", ""), cut=room()))
    return 0


@command(
    "print a model's equations, as text or LaTeX",
    "show {model} --latex",
    "show {model} --set {parameter}=0.5",
    "show path/to/my_model.py",
    settings="replace parameters first",
    own={"--latex": switch("print a LaTeX align environment instead of text")},
)
def run_show(options: Namespace) -> int:
    """Print a model's equations, with the terms in the order in which they were written."""
    from eqsolve.language.binding import bind_some
    from eqsolve.passes.forms.structure import check_routed

    model, settings = load(options.model), read_settings(options.settings)
    check_routed(model, settings)
    if own := {name: text for name, text in settings.items() if name in model.settable}:
        model = model.subs(bind_some(model, own))
    shown = model.show()
    if options.json:
        write_json({"model": model.name, "kind": model.kind, "text": shown.text(), "latex": shown.latex()})
    else:
        write(shown.latex() if options.latex else shown.text())
    return 0


@command(
    "check models: definitions, times, causality, laws",
    "check {model}",
    "check path/to/my_model.py",
    "check  # every model that can be found",
    model=False,
    own={"model": value("M", "names or files of models; all that can be found, if none is given", nargs="*")},
)
def run_check(options: Namespace) -> int:
    """Check models without solving them: exit code 0 if all are sound, 2 if not."""
    names = options.model or [item.name for item in list_models()]
    if not names:
        raise UsageError("there is no model to check; `eqsolve list` shows where models are searched")
    reports = [_check(name) for name in names]
    sound = all(report["ok"] for report in reports)
    if options.json:
        write_json(reports[0] if len(options.model) == 1 else {"ok": sound, "models": reports})
        return 0 if sound else 2
    for report in reports:
        head = f"{report['model']}: " if len(reports) > 1 else ""
        if report["ok"]:
            facts = "".join(f", {fact}" for fact in report["facts"])
            write(f"{head}ok{facts.replace(', ', ': ', 1)}, checked in {report['milliseconds']:.0f} ms")
        for problem in report["problems"]:
            complain(f"{head}{problem}")
    return 0 if sound else 2


def _check(name: str) -> dict[str, Any]:
    from eqsolve.passes.check.check import check

    started, facts, problems = time.perf_counter(), list[str](), list[str]()
    try:
        model = load(name)
        check(model)
        facts = _facts(model)
    except EqsolveError as error:
        problems = list(getattr(error, "problems", [str(error)]))
        if isinstance(error, MisnamedError):  # its other problems are told too
            try:
                check(error.model)
            except EqsolveError as more:
                problems += getattr(more, "problems", [str(more)])
    milliseconds = 1000 * (time.perf_counter() - started)
    return {"model": name, "ok": not problems, "facts": facts, "problems": problems, "milliseconds": milliseconds}


def _facts(model: Model) -> list[str]:
    words = {
        "equations": "equation{}", "constraints": "constraint{}", "unknowns": "unknown{}", "parameters": "parameter{}",
        "randoms": "random constant{}", "observables": "observable{}", "substitute": "change{} of variable",
    }  # fmt: skip
    counts = {part: len(getattr(model, part, ())) for part in words}
    counts["equations"] += len(model.drift)
    return [f"{count} {words[part].format('s' * (count > 1))}" for part, count in counts.items() if count]


@command(
    "say what the engine makes of a model, and draw its graph",
    "explain {model} --graph graph.png",
    "explain {model} --solver two_time  # what another solver would do, or why it cannot",
    options={"step": "say what `solve --step H` does", "solver": "say what `solve --solver NAME` does"},
    own={"--graph": value("FILE", "draw the dependency graph (*.png, *.svg or *.pdf)")},
)
def run_explain(options: Namespace) -> int:
    """Say how a model would be solved, without solving it: its equations with the lines they stand in, which unknown
    needs which, in what order they are computed at each time, how the equations are rewritten for the solver (changes
    of variable, equations of derivatives), the parameters and what they mean, and which solver is taken, with the
    reasons against the others. Of a flow: the same for the mean-field equations that follow from it.
    """
    picture = check_destination(options.graph, "--graph", FIGURES)
    from eqsolve.explaining import explain
    from eqsolve.passes.check.check import check

    model = load(options.model)
    explanation = explain(model, **read_options(options))
    if picture is not None:
        from eqsolve.plotting.graph import draw_dependencies
        from eqsolve.plotting.style import save_figure

        save_figure(draw_dependencies(model), picture)
    if options.json:
        graph = {} if picture is None else {"graph": str(picture)}
        write_json({**explanation.to_dict(), **graph})
    else:
        write(explanation.text())
    say_wrote(options, picture)
    try:
        check(model)
    except ModelError:
        say(f"warning: the model has problems; `eqsolve check {options.model}` lists them")
    return 0


@command("print the BibTeX entries to cite", "cite {model}", "cite {model} --json")
def run_cite(options: Namespace) -> int:
    """Print the BibTeX entry of the paper behind a model, and that of eqsolve itself."""
    model = load(options.model)
    entry = find_entry(model) if model.cite else None
    software = software_entry()
    if options.json:
        write_json({"model": model.name, "key": model.cite, "bibtex": entry, "software": software})
        return 0
    if entry is None:
        say(f"model `{model.name}` names no paper (its file has no cite=...); please cite eqsolve:")
    else:
        write(f"{entry}\n")
    write(software)
    return 0


# --- What to cite: the BibTeX entry behind a model's ``cite`` key, and eqsolve's own.

FILE = "references.bib"
_START = re.compile(r"@\s*(?P<kind>\w+)\s*\{\s*(?P<key>[^\s,{}]+)\s*,")
_OTHER = ("comment", "preamble", "string")


def read_entries(text: str) -> dict[str, str]:
    """Return the entries of a BibTeX file by key, each as it stands there.

    An entry ends where its braces balance; a brace escaped as ``\\{`` counts as text.
    """
    entries: dict[str, str] = {}
    position = 0
    while start := _START.search(text, position):
        position = start.end()
        if start["kind"].lower() in _OTHER:
            continue
        depth = 1
        for brace in re.finditer(r"(?<!\\)[{}]", text[position:]):
            depth += 1 if brace[0] == "{" else -1
            if not depth:
                break
        if depth:
            break  # the file ends inside this entry
        position += brace.end()
        entries[start["key"]] = text[start.start() : position]
    return entries


def find_entry(model: Model) -> str:
    """Return the BibTeX entry for a model's ``cite`` key, from ``references.bib`` with its file.

    The folder of the model's own file is searched first, then every folder that models are found in.
    """
    key = model.cite
    if key is None:
        raise UsageError(f'model `{model.name}` names no paper; give it one by cite="key"')
    entries: dict[str, str] = {}
    own_folder = [Path(model.file).parent] if model.file else []
    files = [path for folder in dict.fromkeys([*own_folder, *folders()]) if (path := folder / FILE).is_file()]
    for path in files:
        try:
            entries = {**read_entries(path.read_text(encoding="utf-8")), **entries}
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None
        if key in entries:
            return entries[key]
    has = "has" if len(files) == 1 else "have"
    where = f"{', '.join(map(str, files))} {has} no such entry" if files else "there is none"
    raise UsageError(
        f"model `{model.name}` cites `{key}`, to be found in {FILE} beside its file, but {where}{did_you_mean(key, entries)}"
    )


def software_entry() -> str:
    """Return the BibTeX entry for this version of eqsolve."""
    title = "eqsolve: a symbolic-numeric solver framework for dynamical mean-field theory"
    fields = {"author": "{The eqsolve authors}", "title": title, "version": __version__, "year": YEAR}
    return "\n".join(["@software{eqsolve,", *(f"  {name:7} = {{{text}}}," for name, text in fields.items()), "}"])
