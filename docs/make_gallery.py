"""The figures of the gallery page, made by running analyses with quick settings whenever the pages are built."""

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
FIGURES = DOCS / "_gallery"  # not kept in the repository
CHOSEN = (
    "dmft_curves", "two_time_maps", "fixed_points_alpha", "box_ridgeless", "convergence_gaussian",
    "rates_alpha", "tradeoff", "depth", "limit_search", "activation_times", "two_time_order",
)  # fmt: skip


def make_gallery(*_: object) -> None:
    """Make the figures that have changed, and a text that shows them with their titles and captions."""
    from eqsolve.figures.make import find_analysis

    command = [sys.executable, "-m", "eqsolve", "figure", *CHOSEN, "--quick", "--out", str(FIGURES), "--workers", "2", "-q"]
    subprocess.run(command, cwd=DOCS.parent, check=True)  # in the checkout, whose eqsolve it finds
    parts = []
    for name in CHOSEN:
        analysis = find_analysis(name)
        text = (FIGURES / f"{name}.txt").read_text(encoding="utf-8")
        caption = text.removeprefix(analysis.title).lstrip(". ")
        parts.append(
            f"## {analysis.title.rstrip('.')}\n\n![{analysis.title}](_gallery/{name}.png)\n\n{_escaped(caption)}\n\n"
            f"Made by `eqsolve figure {name} --quick` from `analyses/{name}.py`.\n"
        )
    target = FIGURES / "figures.md"
    made = "\n".join(parts)
    if not target.exists() or target.read_text(encoding="utf-8") != made:
        target.write_text(made, encoding="utf-8")


def _escaped(text: str) -> str:
    """Return plain text so that Markdown leaves it alone."""
    return "".join("\\" + letter if letter in "\\`*_{}[]<>#|$" else letter for letter in text)
