"""The pictures of the pages, made whenever these are built: the gallery by running analyses with quick settings, that of the
README by the demonstration, that of the front page by the lines it shows."""

import functools
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from make_explorer import make_explorer

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


def make_all(*_: object) -> None:
    """Make what the pages show, a job on each core at a time; a file in ``images/`` is touched only if its picture changes."""
    FIGURES.mkdir(exist_ok=True)
    jobs = [_make_front, make_explorer, _make_demo, *(functools.partial(_make_figure, name) for name in CHOSEN)]
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"), _skip_pdf) as pool:
        for future in [pool.submit(job) for job in jobs]:
            future.result()
    for name in ("demo.png", "front.png"):
        kept = DOCS / "images" / name
        if not kept.exists() or _pixels(kept) != _pixels(FIGURES / name):
            shutil.copyfile(FIGURES / name, kept)
    _write_gallery()


def _pixels(path: Path) -> bytes:
    from PIL import Image

    with Image.open(path) as picture:
        return picture.convert("RGB").tobytes()


def _make_demo() -> None:
    sys.path.insert(0, str(DOCS.parent))
    from dev import DEMO

    _run("-m", "eqsolve", "validate", *DEMO, "--plot", str(FIGURES / "demo.png"), "-q")


def _make_front() -> None:
    lines = re.search(r"```python no-run\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL)
    assert lines is not None
    _run("-c", lines[1].replace('"front.png"', repr(str(FIGURES / "front.png"))))


def _run(*words: str) -> None:
    subprocess.run([sys.executable, *words], cwd=DOCS.parent, check=True, stdout=subprocess.DEVNULL)


def _skip_pdf() -> None:
    """Let this process write no PDF, which no page shows and which takes longer than the picture."""
    from eqsolve.plotting import style

    save = style.save_figure
    style.save_figure = lambda figure, path, **how: path.suffix == ".png" and save(figure, path, **how)


def _make_figure(name: str) -> None:
    """Do as `eqsolve figure NAME --quick`, if something has changed."""
    import matplotlib.pyplot as plt

    from eqsolve.figures.make import find_analysis, make

    made = make(find_analysis(name), FIGURES, quick=True)
    plt.close("all")
    if made.status != "made":
        raise RuntimeError(f"{name}: {made.status}: {made.message}")


def _write_gallery() -> None:
    """Write the text that shows the figures with their titles and captions."""
    from eqsolve.figures.make import find_analysis

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
