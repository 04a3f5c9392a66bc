"""How names and settings are written in a drawing: as the model's LaTeX, where matplotlib can set it."""

import functools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from eqsolve.language.symbols import default_latex

TITLE_SIZE = 8


def written(name: str, latex: Mapping[str, str], times: str = "") -> str:
    """Return a name as mathematics for matplotlib, ``times`` after it; plain, if matplotlib cannot set its LaTeX."""
    text = f"${latex.get(name) or default_latex(name)}{times}$"
    return text if _can_be_set(text) else f"{name}{times}"


@functools.lru_cache(maxsize=1024)
def _can_be_set(text: str) -> bool:
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(text)
    except (ValueError, RuntimeError):  # matplotlib knows a part of LaTeX only
        return False
    return True


def setting(name: str, value: Any, latex: Mapping[str, str]) -> str:
    """Return what a parameter was set to: a value, or the law of a random constant."""
    math = written(name, latex)
    if isinstance(value, int | float):
        return f"{math[:-1]} = {value:g}$" if math.startswith("$") else f"{math} = {value:g}"
    return f"{math[:-1]} \\sim$ {value}" if math.startswith("$") else f"{math} ~ {value}"


def differences(results: Sequence[Any]) -> list[str]:
    """Return of each result what it does not share with all others: its model, its settings; empty where they are alike."""
    models = {result.model for result in results}
    names = dict.fromkeys(name for result in results for name in result.params)
    if len(models) > 1:  # what only some of the models have does not compare
        names = {name: None for name in names if all(name in result.params for result in results)}
    differ = [name for name in names if len({str(result.params.get(name)) for result in results}) > 1]
    return [
        ", ".join(
            [result.model] * (len(models) > 1)
            + [setting(name, result.params[name], result.latex) for name in differ if name in result.params]
        )
        for result in results
    ]


def tell_apart(axes: Any, result: Any, lines: Sequence[tuple[Any, str]]) -> bool:
    """Remember the lines of a result, by the names of what they show; label those of several results by what differs.

    Return whether that was needed.
    """
    held = axes.__dict__.setdefault("_eqsolve_lines", [])
    held.append((result, lines))
    words = differences([item for item, _ in held])
    if not any(words):
        return False
    shown = {name for _, those in held for _, name in those}
    for (item, those), text in zip(held, words, strict=True):
        for line, name in those:
            line.set_label(text if len(shown) == 1 else f"{written(name, item.latex)}, {text}")
    axes.set_title(shared_title(axes, [item for item, _ in held]), fontsize=TITLE_SIZE)
    add_legend(axes, beside=sum(len(those) for _, those in held) > 3)
    return True


def add_legend(axes: Any, *, beside: bool) -> None:
    """Add a legend without a frame: where there is room, or beside the axes."""
    axes.legend(frameon=False, **({"loc": "center left", "bbox_to_anchor": (1.0, 0.5)} if beside else {}))


def shared_title(axes: Any, results: Sequence[Any]) -> str:
    """Return the model of results beside other lines, and the settings that they share."""
    first, *others = results
    if any(other.model != first.model for other in others):
        return ""
    same = dict(first.params)
    for other in others:
        same = {key: value for key, value in same.items() if other.params.get(key) == value}
    inches = axes.get_position().width * axes.figure.get_figwidth()
    return settings_title(first.model, same if others else {}, first.latex, inches)


def settings_title(model: str, params: Mapping[str, Any], latex: Mapping[str, str], inches: float) -> str:
    """Return the model's name and its settings, broken into lines of a given width."""
    longest = max(24, int(inches * 72 / (0.55 * TITLE_SIZE)))  # a letter is about 0.55 of its size wide
    lines, length = [model], longest
    for name, value in params.items():
        words = f"{name} = {value:g}" if isinstance(value, int | float) else f"{name} ~ {value}"
        shown = setting(name, value, latex)
        if len(words) > longest and not isinstance(value, int | float):  # a law with many entries
            pieces = textwrap.wrap(words, longest)
            lines += pieces
            length = len(pieces[-1])
        elif length + 2 + len(words) <= longest:
            lines[-1] += f", {shown}"
            length += 2 + len(words)
        else:
            lines.append(shown)
            length = len(words)
    return "\n".join(lines)
