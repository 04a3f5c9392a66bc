"""The reference and `dir(eqsolve)` agree: every public name has its entry, and stands in an example that runs."""

import re
import subprocess
import sys
from pathlib import Path

import eqsolve

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLES = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
ENTRIES = set(re.findall(r"\.\. auto\w+:: eqsolve\.(\w+)\n", PAGE))
MODULES = {"compile", "errors", "laplace", "laws", "phases", "spectra"}
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
