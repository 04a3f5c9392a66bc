"""Results as notebooks show them: what was solved, how well, and the values with their errors."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from eqsolve.numerics.arrays import Array

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from eqsolve.fitting.fit import Fit
    from eqsolve.microscopic.simulate import Simulation
    from eqsolve.results.result import Result
    from eqsolve.validation.validate import Validation

_BAD = "#D55E00"


def result_html(result: Result) -> str:
    """Return a short table, the labelled arrays folded below it."""
    head, state = f"<b>{_text(result.model)}</b> ({_text(result.kind)})", _text(result.status)
    if result.status != "ok":
        state = f"<span style='color:{_BAD}'>{state}: {_text(result.message)}</span>"
    seconds = result.stats.get("seconds")
    took = f", {seconds:.3g} s" if isinstance(seconds, float) else ""
    rows = []
    for name in result.names:
        over = ", ".join(f"{dim} ({size})" for dim, size in result[name].sizes.items()) or "one number"
        errors = result.error[name].values if name in result.error else np.zeros(0)
        largest = f"{np.nanmax(errors):.2g}" if np.isfinite(errors).any() else "unknown" if errors.size else ""
        rows.append((_named(name, result.latex), _text(over), _range(result.dataset[name].values), largest))
    table = _table(("", "name", "over", "values", "largest error"), rows)
    inside = f"<details><summary>dataset</summary>{result.dataset._repr_html_()}</details>"
    settings = _settings(result.params, result.latex, result.provenance.get("meanings"))
    return f"<div>{head}: {state}{took}<br><small>{settings}</small>{table}{inside}</div>"


def simulation_html(runs: Simulation) -> str:
    """Return what was run, the last means with their standard errors, the arrays folded below."""
    rows = []
    for name in runs.names:
        error = float(runs.error[name][-1])
        shown = f" ± {error:.2g}" if np.isfinite(error) else ""
        rows.append((_named(name, runs.latex), _range(runs.values[name]), f"{float(runs.mean[name][-1]):.5g}{shown}"))
    table = _table(("", "name", "values", f"mean at t = {float(runs.t[-1]):g}"), rows)
    notes = "".join(f"<br><span style='color:{_BAD}'>{_text(note)}</span>" for note in runs.notes)
    inside = f"<details><summary>dataset</summary>{runs.dataset._repr_html_()}</details>"
    head = f"<b>{_text(runs.model)}</b> (simulation): {_text(runs._how)}{notes}"
    settings = _settings(runs.params, runs.latex, runs.stats.get("meanings"))
    return f"<div>{head}<br><small>{settings}</small>{table}{inside}</div>"


def validation_html(check: Validation) -> str:
    """Return the verdict and, for every observable, how far both sides are apart and what could be seen."""
    latex = check.result.latex
    colour = {"agrees": "#009E73", "disagrees": _BAD}.get(check.verdict, "#8a5a00")
    rows = []
    for name, pair in check.observables.items():
        place = int(np.abs(pair.z).argmax())
        when = "" if check.t is None else f" at t = {float(check.t[place]):g}"
        seen = float(pair.detectable[pair.most_sensitive])
        rows.append((
            _named(name, latex), _text(pair.verdict), f"{float(pair.z[place]):+.2f}{when}",
            f"{float(pair.theory[place]):.5g} ± {float(pair.theory_error[place]):.1g}",
            f"{float(pair.simulation[place]):.5g} ± {float(pair.standard_error[place]):.1g}",
            f"{seen:.2%}" if np.isfinite(seen) else "",
        ))  # fmt: skip
    heads = ("", "name", "verdict", "largest z", "theory there", "finite size there", "could see")
    notes = "".join(f"<br><small>{_text(note)}</small>" for note in (*check.notes, *check.warnings))
    head = f"<b>{_text(check.model)}</b> (validation): <b style='color:{colour}'>{_text(check.verdict)}</b>"
    how = f"d = {check.d}, n = {check.n}, {check.seeds} draws, {_text(check.data)}"
    settings = _settings(check.params, latex, check.result.provenance.get("meanings"))
    return f"<div>{head}, {how}{notes}<br><small>{settings}</small>{_table(heads, rows)}</div>"


def fit_html(fit: Fit) -> str:
    """Return the parameters with errors and intervals, and what else the report says."""
    rows = []
    for name, value in fit.parameters.items():
        low, high = fit.intervals[name]
        rows.append((_named(name, fit.latex), f"{value:.6g} ± {fit.errors[name]:.2g}", f"[{low:.6g}, {high:.6g}]"))
    head, *lines = fit.report().splitlines()
    rest = [line for line in lines if not line.strip().startswith(tuple(f"{name}:" for name in fit.parameters))]
    return f"<div><b>{_text(head)}</b>{_table(('', 'name', 'value', '95 %'), rows)}{'<br>'.join(map(_text, rest))}</div>"


def sections_html(head: str, sections: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Return titled lists of lines, the first open, the others folded."""
    parts = [
        f"<details{' open' if place == 0 or title == 'solver' else ''}><summary><b>{_text(title)}</b></summary>"
        f"<pre style='margin:0.2em 0 0.6em 1em'>{_text(chr(10).join(lines))}</pre></details>"
        for place, (title, lines) in enumerate(sections)
    ]
    return f"<div><b>{_text(head)}</b>{''.join(parts)}</div>"


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table whose first two cells, a name as LaTeX and as code, are left-aligned."""
    top = "".join(f"<th>{head}</th>" for head in heads)
    cells = ("".join(cell if cell.startswith("<td") else f"<td>{cell}</td>" for cell in row) for row in rows)
    return f"<table><tr>{top}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"


def _named(name: str, latex: Mapping[str, str]) -> str:
    left = "<td style='text-align:left'>"
    math = f"${html.escape(latex[name])}$" if name in latex else ""
    return f"{left}{math}</td>{left}<code>{_text(name)}</code></td>"


def _settings(params: Mapping[str, object], latex: Mapping[str, str], meanings: Mapping[str, str] | None = None) -> str:
    parts = []
    for name, value in params.items():
        relation = "=" if isinstance(value, int | float) else "∼"
        shown = f"${html.escape(latex[name])}$" if name in latex else _text(name)
        about = f" <span style='opacity:0.6'>({_text(meanings[name])})</span>" if meanings and name in meanings else ""
        parts.append(f"{shown} {relation} {f'{value:g}' if isinstance(value, float) else _text(str(value))}{about}")
    return ", ".join(parts)


def _range(values: Array) -> str:
    if values.dtype.kind not in "fiu" or not values.size:
        return ""
    if values.size == 1:
        return f"{values.item():.6g}"
    with np.errstate(all="ignore"):
        return f"{np.nanmin(values):.4g} … {np.nanmax(values):.4g}"


def _text(text: str) -> str:
    return html.escape(str(text))
