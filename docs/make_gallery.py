"""The pictures of the pages, made whenever these are built: the gallery by running analyses with quick settings, that of the
README by the demonstration, that of the front page by the lines it shows."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
FIGURES = DOCS / "_gallery"  # not kept in the repository
CHOSEN = (
    "dmft_curves", "two_time_maps", "fixed_points_alpha", "box_ridgeless", "convergence_gaussian",
    "rates_alpha", "tradeoff", "depth", "limit_search", "activation_times", "two_time_order",
)  # fmt: skip


def make_pictures(*_: object) -> None:
    """Make the pictures in ``images/``; a file is touched only if its picture changes."""
    sys.path.insert(0, str(DOCS.parent))
    from dev import DEMO

    FIGURES.mkdir(exist_ok=True)
    subprocess.run([sys.executable, "-m", "eqsolve", "validate", *DEMO, "--plot", str(FIGURES / "demo.png"), "-q"],
                   cwd=DOCS.parent, check=True, stdout=subprocess.DEVNULL)  # fmt: skip
    lines = re.search(r"```python\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    assert lines is not None
    script = lines[1].replace('"front.png"', repr(str(FIGURES / "front.png")))
    subprocess.run([sys.executable, "-c", script], cwd=DOCS.parent, check=True, stdout=subprocess.DEVNULL)
    for name in ("demo.png", "front.png"):
        kept = DOCS / "images" / name
        if not kept.exists() or _pixels(kept) != _pixels(FIGURES / name):
            shutil.copyfile(FIGURES / name, kept)


def _pixels(path: Path) -> bytes:
    from PIL import Image

    with Image.open(path) as picture:
        return picture.convert("RGB").tobytes()


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
