"""The reference and `dir(eqsolve)` agree: every public name has its entry, and stands in an example that runs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import eqsolve

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
ENTRIES = set(re.findall(r"\.\. auto\w+:: eqsolve\.(\w+)\n", PAGE))
MODULES = {"compile", "errors", "laplace", "laws", "phases", "solver_kit", "spectra"}
ERRORS = {name for name in eqsolve.__all__ if name.endswith("Error")}


def test_every_name_has_an_entry() -> None:
    names = set(dir(eqsolve)) - {"__version__"}
    assert names - ENTRIES - ERRORS == MODULES - {"errors"}
    assert ENTRIES - {"errors"} <= names
    listed = re.search(r":members: (.*EqsolveError.*)", PAGE)
    assert listed is not None
    assert set(listed[1].split(", ")) == ERRORS


def test_every_name_has_an_example() -> None:
    missing = [name for name in dir(eqsolve) if not re.search(rf"\b{name}\b", EXAMPLES)]
    assert missing == []


def test_every_name_can_be_had_and_says_what_it_is() -> None:
    for name in dir(eqsolve):
        assert getattr(eqsolve, name) is not None
        if name != "__version__":
            assert (getattr(eqsolve, name).__doc__ or "").strip(), name


def test_names_are_there_without_importing_them_first() -> None:
    code = "import eqsolve; [getattr(eqsolve, name) for name in dir(eqsolve)]; print(len(dir(eqsolve)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == len(dir(eqsolve))


def test_every_model_stands_on_the_page_of_equations() -> None:
    page = (ROOT / "docs" / "equations.md").read_text(encoding="utf-8")
    assert [path.stem for path in sorted((ROOT / "models").glob("*.py")) if f"`{path.stem}`" not in page] == []


def test_every_page_is_listed_once() -> None:
    """A page in two lists stands twice in the menu, one in none is not found."""
    contents = re.search(
        r"^CONTENTS = (\{.*?\n\})", (ROOT / "docs" / "conf.py").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert contents is not None
    listed = [page for pages in ast.literal_eval(contents[1]).values() for page in pages.split()]
    for page in (ROOT / "docs").rglob("*.md"):
        for block in re.findall(r"```\{toctree\}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            names = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed += [(page.parent / name).resolve().relative_to(ROOT / "docs").as_posix() for name in names]
    pages = [path.relative_to(ROOT / "docs") for end in ("md", "ipynb") for path in (ROOT / "docs").rglob(f"*.{end}")]
    there = [path.with_suffix("").as_posix() for path in pages if not path.parts[0].startswith("_")]
    assert sorted(listed) == sorted(set(there) - {"index"})
