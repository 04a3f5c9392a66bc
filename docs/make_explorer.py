"""The page of the front page: the network of the paper, over a sweep; made with the pages, when something has changed."""

import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
EXTRA = DOCS / "_extra"  # not kept in the repository; copied beside the pages
COMMAND = "dln --grid alpha=0.1:1:7:log delta=0.3:0.7:5 --t-max 20 --rtol 1e-2 --observables E_train,E_test --workers 1 -q"


def make_explorer() -> None:
    """Write the page, unless it is newer than everything it is made of."""
    page = EXTRA / "explore_dln.html"
    folder = DOCS.parent
    sources = [folder / "models" / "dln.py", Path(__file__), *(folder / "eqsolve").rglob("*.*")]
    newest = max(path.stat().st_mtime for path in sources if "__pycache__" not in path.parts)
    if page.exists() and page.stat().st_mtime > newest:
        return
    EXTRA.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "eqsolve", "explore", *COMMAND.split(), "--export", str(page)]
    subprocess.run(command, cwd=folder, check=True)  # in the checkout, whose eqsolve it finds
