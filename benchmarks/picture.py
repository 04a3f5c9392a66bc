"""Draw the tables of docs/benchmarks.md that have errors and CPU seconds: eqsolve, and what one would use instead.

python benchmarks/picture.py [docs/images/benchmarks.png]
"""

import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
PANELS = {  # the heading of a table's first column; its title; the columns of CPU seconds and of the error
    "method | error | CPU s": ("p-spin glass to t = 20", 2, 1),
    "Mackey–Glass to t = 100": ("a delay equation to t = 100", 1, 2),
    "F12 model": ("mode coupling, near its transition", 4, 5),
}


def number(text):
    found = re.search(r"\d[\d.,]*(e-?\d+)?", text)
    return float(found[0].replace(",", "")) if found else None


def read_tables(text):
    """Return, for every panel, points (CPU seconds, error) by method: the first word of a row."""
    found = {}
    for start, (title, seconds, error) in PANELS.items():
        lines = text[text.index(f"| {start}") :].split("\n\n")[0].splitlines()[2:]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        points = found.setdefault(title, {})
        for row in rows:
            points.setdefault(re.match(r"\w+", row[0])[0], []).append((number(row[seconds]), number(row[error])))
    return found


def draw(path):
    import matplotlib.pyplot as plt

    tables = read_tables((DOCS / "benchmarks.md").read_text(encoding="utf-8"))
    figure, axes = plt.subplots(1, len(tables), figsize=(10.5, 3.3), layout="constrained")
    for panel, (title, methods) in zip(axes, tables.items(), strict=True):
        for place, (name, points) in enumerate(methods.items()):
            ours = name == "eqsolve"
            panel.loglog(
                *zip(*points, strict=True), "o-" if ours else "s--", color=f"C{place}", lw=2 if ours else 1.2, ms=5, label=name
            )
        panel.set(xlabel="CPU seconds")
        panel.set_title(title, fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False)
    axes[0].set_ylabel("error")
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    draw(sys.argv[1] if len(sys.argv) > 1 else DOCS / "images" / "benchmarks.png")
