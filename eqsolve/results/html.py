"""Results as notebooks show them: what was solved, how well, and the values with their errors."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

import numpy as np

from eqsolve.numerics.grids import Array

if TYPE_CHECKING:
    from eqsolve.results.result import Result

__all__ = ["result_html"]


def result_html(result: Result) -> str:
    """Return a short table, the labelled arrays folded below it."""
    head = f"<b>{_text(result.model)}</b> ({_text(result.kind)})"
    state = _text(result.status)
    if result.status != "ok":
        state = f"<span style='color:#D55E00'>{state}: {_text(result.message)}</span>"
    seconds = result.stats.get("seconds")
    took = f", {seconds:.3g} s" if isinstance(seconds, float) else ""
    settings = ", ".join(f"{_text(name)} = {_value(value)}" for name, value in result.params.items())
    rows = "".join(
        f"<tr><td style='text-align:left'><code>{_text(name)}</code></td><td>{_text(_shape(result, name))}</td>"
        f"<td>{_range(result.dataset[name].values)}</td><td>{_largest_error(result, name)}</td></tr>"
        for name in result.names
    )
    table = f"<table><tr><th>name</th><th>over</th><th>values</th><th>largest error</th></tr>{rows}</table>"
    inside = f"<details><summary>dataset</summary>{result.dataset._repr_html_()}</details>"
    return f"<div>{head}: {state}{took}<br><small>{settings}</small>{table}{inside}</div>"


def _shape(result: Result, name: str) -> str:
    return ", ".join(f"{dim} ({size})" for dim, size in result[name].sizes.items()) or "one number"


def _range(values: Array) -> str:
    if values.dtype.kind not in "fiu" or not values.size:
        return ""
    if values.size == 1:
        return f"{values.item():.6g}"
    with np.errstate(all="ignore"):
        return f"{np.nanmin(values):.4g} … {np.nanmax(values):.4g}"


def _largest_error(result: Result, name: str) -> str:
    if name not in result.error:
        return ""
    errors = result.error[name].values
    return f"{np.nanmax(errors):.2g}" if np.isfinite(errors).any() else "unknown"


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else _text(str(value))


def _text(text: str) -> str:
    return html.escape(str(text))
