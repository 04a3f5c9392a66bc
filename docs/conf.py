"""Sphinx: these pages and the reference made from the docstrings, built by `python3 dev.py docs`."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from make_gallery import make_all
from make_math import add_mathml

from eqsolve import __version__

project = "eqsolve"
author = copyright = "The eqsolve authors"
release = version = __version__
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx_design"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 4
exclude_patterns = ["_build", "_extra", "_gallery", "_static"]
nb_execution_mode = "off"  # notebooks are kept with their outputs; tests/docs executes them
autodoc_typehints = "none"  # the signature shows them in the source; here they would hide the words
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_ivar = True  # attributes as a list: entries of their own would double those of `:members:`
highlight_language = "none"
pygments_dark_style = "github-dark"  # the theme's own underlines every name that is imported
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True  # of a session the commands, not what they print
copybutton_line_continuation_character = "\\"
html_theme = "furo"
html_title = f"eqsolve {__version__}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_js_files = ["pages.js"]
html_math_renderer = "mathml"
html_extra_path = ["_extra"]  # pages that Sphinx copies as they are, made when the build begins
html_copy_source = False
html_show_sphinx = False
(Path(__file__).resolve().parent / "_extra").mkdir(exist_ok=True)
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b5c8f", "color-brand-content": "#0b5c8f"},
    "dark_css_variables": {"color-brand-primary": "#6db8e8", "color-brand-content": "#6db8e8"},
}
CONTENTS = {
    "Start": "installation tutorials/first_solve which_model gallery papers explorer",
    "Tutorials": "tutorial_volterra declare tutorials/results tutorials/sweeps tutorials/long_runs tutorials/notebooks",
    "Models": "microscopic training fixed_points long_run rates long_times indices spectra equations",
    "Tools": "derivatives figures gpu extending",
    "Look things up": "command_line errors glossary api numerics numerics_stochastic benchmarks comparison decisions",
}  # of the front page, which is plain Markdown for those who read it unbuilt


def add_contents(app: Any, page: str, source: list[str]) -> None:
    if page == "index":
        for caption, pages in CONTENTS.items():
            source[0] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {caption}\n", *pages.split(), "```\n"])


def setup(app: Any) -> None:
    add_mathml(app)
    app.connect("source-read", add_contents)
    app.connect("builder-inited", make_all)
