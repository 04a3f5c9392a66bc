"""Formulas of the pages as MathML, which browsers draw by themselves: nothing is fetched from elsewhere."""

import re
from typing import Any

from docutils import nodes

from eqsolve.explorer.describe import to_mathml


def add_mathml(app: Any) -> None:
    """Make ``html_math_renderer = "mathml"`` known to Sphinx."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))


def _inline(translator: Any, node: nodes.Element) -> None:
    translator.body.append(to_mathml(node.astext()))
    raise nodes.SkipNode


def _display(translator: Any, node: nodes.Element) -> None:
    latex = re.sub(r"\\(begin|end)\{align(ed)?\}", r"\\\1{align*}", node.astext().strip())  # the one it knows, unnumbered
    translator.body.append(f'<div class="formula">{to_mathml(latex, "block")}</div>\n')
    raise nodes.SkipNode
