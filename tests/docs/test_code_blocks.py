"""Runs the fenced code blocks of README.md and docs/: what a page shows must work.

A page's blocks run in order, in one temporary folder. ``python`` blocks share one namespace. In a ``console`` block the lines
after ``$ `` run as one bash script that stops at the first failure (a line ending in a backslash continues on the next); where
they are nothing but commands of eqsolve, they run in this process, which need not import everything again. All other lines are
output, shown to the reader, not compared. Words after the language: ``no-run`` skips the block, ``exit=N`` is the
exit code that is expected of a console block if not 0.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
import types
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

from eqsolve.cli import main

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^ *(?P<ticks>`{3,})(?P<info>[^`]*)$")
PLAIN = re.compile(r"""eqsolve( ([^'"|&;<>$*?~`#]|'[^']*'|"[^"$]*")*)?( #.*)?""")  # a command in which a shell changes nothing
TIMEOUT_SECONDS = 600


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the words after it, its text, the number of its first line."""

    language: str
    words: tuple[str, ...]
    text: str
    line: int

    @property
    def exit_code(self) -> int:
        return next((int(word[5:]) for word in self.words if word.startswith("exit=")), 0)

    @property
    def commands(self) -> list[str]:
        commands: list[str] = []
        continued = False
        for line in self.text.splitlines():
            if continued or line.startswith("$ "):
                commands.append(line if continued else line[2:])
                continued = line.endswith("\\")
        return commands


def read_blocks(markdown: str, name: str = "page") -> list[Block]:
    """The blocks of a page that are to be run, in order."""
    blocks: list[Block] = []
    ticks, info, start, body = "", "", 0, []
    for number, line in enumerate(markdown.splitlines(), start=1):
        fence = FENCE.match(line)
        if not ticks and fence:
            ticks, info, start, body = fence["ticks"], fence["info"], number + 1, []
        elif ticks and fence and fence["ticks"].startswith(ticks) and not fence["info"].strip():
            language, *words = info.split() or [""]
            if language in ("python", "console") and "no-run" not in words:
                blocks.append(Block(language, tuple(words), textwrap.dedent("\n".join(body)), start))
            ticks = ""
        elif ticks:
            body.append(line)
    if ticks:
        raise ValueError(f"{name}:{start - 1}: this code block is never closed")
    return blocks


def run_python(block: Block, page: Path, module: types.ModuleType) -> None:
    # The empty lines give errors the line numbers of the page.
    code = compile("\n" * (block.line - 1) + block.text, str(page), "exec")
    exec(code, module.__dict__)


def run_console(block: Block, page: Path) -> None:
    # Not resolved: a virtual environment's python is a link, and its commands lie beside the link.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    script = "\n".join(block.commands)
    lines = [line for line in script.replace("\\\n", " ").splitlines() if line.strip()]
    if all(PLAIN.fullmatch(line) for line in lines):
        code = next(filter(None, (main(shlex.split(line, comments=True)[1:]) for line in lines)), 0)
        assert code == block.exit_code, f"{page.name}:{block.line}: exit code {code}, expected {block.exit_code}"
        return
    if shutil.which("eqsolve", path=path) is None:  # run from a checkout that is on the path but not installed
        script = f'eqsolve() {{ "{sys.executable}" -m eqsolve "$@"; }}\n{script}'
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        env=os.environ | {"PATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == block.exit_code, (
        f"{page.name}:{block.line}: exit code {done.returncode}, expected {block.exit_code}\n"
        + "\n".join(f"$ {command}" for command in block.commands)
        + f"\n{done.stdout}{done.stderr}"
    )


def find_pages() -> list:
    """README.md and the pages under docs/."""
    pages = [path for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))] if path.exists()]
    return [
        pytest.param(page, id=page.relative_to(ROOT).as_posix(), marks=pytest.mark.docs)
        for page in pages
        if read_blocks(page.read_text(encoding="utf-8"), page.name)
    ]


@pytest.mark.parametrize("page", find_pages())
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("__main__")  # as in a script, so that what a page defines can be pickled
    monkeypatch.setitem(sys.modules, "__main__", module)
    for block in read_blocks(page.read_text(encoding="utf-8")):
        if block.language == "python":
            run_python(block, page, module)
        else:
            run_console(block, page)
    plt.close("all")


def test_reads_blocks_as_documented() -> None:
    page = "\n".join(
        [
            "```python",
            "x = 1",
            "```",
            "1. indented, with a continued command and an exit code",
            "   ```console exit=2",
            "   $ echo a \\",
            "       b",
            "   a b",
            "   $ false",
            "   ```",
            "````markdown",
            "```python",
            "not_run()",
            "```",
            "````",
            "```console no-run",
            "$ rm -r somewhere",
            "```",
        ]
    )
    first, second = read_blocks(page)
    assert first == Block("python", (), "x = 1", 2)
    assert (second.language, second.exit_code, second.line) == ("console", 2, 6)
    assert second.commands == ["echo a \\", "    b", "false"]
