"""The pictures of the pages, made whenever these are built: the gallery by running analyses with quick settings, that of the
README by the demonstration, that of the front page by the lines it shows."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
FIGURES = DOCS / "_gallery"  # not kept in the repository
TOPICS = {
    "Learning curves": ("dmft_curves", "two_time_maps", "depth"),
    "Phases and times of learning": ("limit_search", "activation_times"),
    "Where learning ends": ("fixed_points_alpha", "box_ridgeless"),
    "How fast it gets there": ("convergence_gaussian", "rates_alpha", "tradeoff"),
    "Training as it is done": ("early_stopping", "momentum_speed", "sgd_bias", "label_noise_bias", "batch_phase"),
    "Phases": ("phase_lotka_volterra", "phase_noisy_rnn", "phase_rnn_ei", "phase_logistic"),
    "Glasses, and the solver itself": ("aging_pspin", "hard_spheres", "two_step_relaxation", "two_time_order"),
}
CHOSEN = tuple(name for names in TOPICS.values() for name in names)


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
    titles = {name: find_analysis(name).title.rstrip(".") for name in CHOSEN}
    parts = []
    for topic, names in TOPICS.items():
        cards = "".join(_card(name, titles[name]) for name in names)
        parts.append(f"## {topic}\n\n::::{{grid}} 2 2 3 3\n:gutter: 2\n:class-container: gallery\n\n{cards}::::\n")
    parts.append("## The figures\n")
    parts += [_entry(name, titles[name]) for name in CHOSEN]
    target = FIGURES / "figures.md"
    made = "\n".join(parts)
    if not target.exists() or target.read_text(encoding="utf-8") != made:
        target.write_text(made, encoding="utf-8")


def _card(name: str, title: str) -> str:
    """Return a thumbnail with its title, a link to the figure below."""
    head = f":::{{grid-item-card}}\n:img-top: _gallery/{name}.png\n:img-alt: {title}\n:link: figure-{name}\n:link-type: ref\n"
    return f"{head}\n{_escaped(title)}\n:::\n\n"


def _entry(name: str, title: str) -> str:
    from eqsolve.figures.make import find_analysis

    path = find_analysis(name).path.relative_to(DOCS.parent).as_posix()
    text = (FIGURES / f"{name}.txt").read_text(encoding="utf-8")
    caption = text.removeprefix(title).lstrip(". ")
    return (
        f"(figure-{name})=\n### {_escaped(title)}\n\n![{title}](_gallery/{name}.png)\n\n{_escaped(caption)}\n\n"
        f"Made by `eqsolve figure {name} --quick` from `{path}`.\n"
    )


def _escaped(text: str) -> str:
    """Return plain text so that Markdown leaves it alone."""
    return "".join("\\" + letter if letter in "\\`*_{}[]<>#|$" else letter for letter in text)
