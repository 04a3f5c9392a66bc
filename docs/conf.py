"""Sphinx: these pages and the reference made from the docstrings, built by `python3 dev.py docs`."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from make_explorer import make_explorer
from make_gallery import make_gallery, make_pictures

from eqsolve import __version__

project = "eqsolve"
author = copyright = "The eqsolve authors"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
source_suffix = {".md": "markdown"}
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 4
exclude_patterns = ["_build", "_extra", "_gallery", "notebooks/*.ipynb"]
autodoc_typehints = "none"  # the signature shows them in the source; here they would hide the words
autodoc_member_order = "bysource"
napoleon_google_docstring = False
highlight_language = "none"
html_theme = "alabaster"
html_title = f"eqsolve {__version__}"
html_static_path: list[str] = []
html_extra_path = ["_extra"]  # pages that Sphinx copies as they are, made when the build begins
(Path(__file__).resolve().parent / "_extra").mkdir(exist_ok=True)
html_theme_options = {
    "description": "Equations of dynamical mean-field theory, solved with error estimates",
    "fixed_sidebar": True,
    "page_width": "1040px",
}


def setup(app: Any) -> None:
    app.connect("builder-inited", make_pictures)
    app.connect("builder-inited", make_explorer)
    app.connect("builder-inited", make_gallery)
