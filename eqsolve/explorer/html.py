"""The page as one file: style, script and data inside it, nothing to be fetched."""

import base64
import hashlib
import html
import json
from pathlib import Path
from typing import Any

PARTS = Path(__file__).resolve().parent / "page"
SCRIPTS = ("words", "chart", "interpolate", "controls", "files", "phases", "explorer")


def render(config: dict[str, Any], *, title: str, connect: bool) -> str:
    """Return the page; ``connect`` says whether it may talk to the server it came from, and to no other.

    The page's own rules (Content-Security-Policy) let exactly this script run, and nothing be loaded from anywhere.
    """
    script = "\n".join((PARTS / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    script = f"(() => {{\n'use strict';\n{script}}})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'; "
        f"connect-src '{'self' if connect else 'none'}'; script-src 'sha256-{digest}'"
    )
    data = json.dumps(config, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    parts = {
        "RULES": html.escape(rules),
        "TITLE": html.escape(title),
        "STYLE": (PARTS / "page.css").read_text(encoding="utf-8"),
        "CONFIG": data,
        "SCRIPT": script,
    }
    page = (PARTS / "page.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace(f"<!--{name}-->", text, 1)
    return page
