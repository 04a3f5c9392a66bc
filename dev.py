"""Everything a developer runs, with nothing but Python and git: python3 dev.py VERB

  demo    solve a model, run it at finite size, and draw both (out/demo.png, out/demo.nc)
  test    the default tests; further arguments go to pytest, e.g. `python3 dev.py test -k laws`
  quick   the tests of everything that solves nothing, within a minute: for a change of words
  slow    the tests marked slow; further arguments go to pytest
  docs    the pages of docs/ as html (into out/docs), no warning allowed; their code blocks and notebooks
  lint    ruff: rules and format
  types   mypy
  wheel   build sdist and wheel (into dist/), check their metadata, try the wheel in a fresh environment
  publish write the address (Homepage in pyproject.toml), the version and the date into README, pages, CITATION.cff, conda
  ci      lint, types and wheel, test, docs, slow; stops at the first failure
  house   counts of the package: lines, characters, tunables, repeated names, circles, comments, import time
  cover   the default tests, and the lines of each file that they do not run

The environment is made in .venv on first use, and brought up to date when pyproject.toml changes.
"""

import sys

if sys.version_info < (3, 11):
    sys.exit(print("eqsolve needs Python 3.11 or newer; this is Python " + sys.version.split()[0]) or 2)

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

DEMO = ["dln", "--observables", "E_train,E_test", "--d", "500", "--seeds", "10", "--at", "0.03,0.1,0.3,1,2,4,8,20"]

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
STAMP = VENV / "eqsolve-stamp.json"
WORKERS = ["-n", "auto", "--dist", "worksteal"]  # of pytest: each begins with its share, and takes from the others at the end

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # more are slower on a solve's small matrices
ENV = dict.fromkeys(THREADS, "1") | os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
ENV.pop("PYTHONDONTWRITEBYTECODE", None)  # else every process, and every worker of pytest, translates all it imports again
INSTALL = ["-m", "pip", "install", "--quiet", "--no-compile"]  # what is imported is translated then: a third of the files


class StepError(Exception):
    """A command that had to succeed did not."""


def run(*command, cwd=ROOT, env=ENV):
    """Show and run a command; return its exit code."""
    print("$ " + shlex.join(map(str, command)), flush=True)
    return subprocess.run(command, cwd=cwd, env=env).returncode


def need(*command, cwd=ROOT, env=ENV, why):
    """Run a command whose failure ends the step, for the reason given."""
    if run(*command, cwd=cwd, env=env):
        raise StepError(why)


def tool(folder, name):
    return folder / f"Scripts/{name}.exe" if os.name == "nt" else folder / "bin" / name


def make_venv(folder):
    """A new, empty environment; returns its Python."""
    why = f"cannot create {folder}: this Python has no venv or ensurepip (on Debian: install python3-venv)"
    need(sys.executable, "-m", "venv", "--clear", folder, why=why)
    return tool(folder, "python")


def is_usable(python, stamp):
    """Whether .venv runs a new enough Python and was not made for a checkout elsewhere."""
    if not python.exists() or stamp.get("root", str(ROOT)) != str(ROOT):
        return False
    check = "import sys, pip; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([python, "-c", check], env=ENV, stderr=subprocess.DEVNULL).returncode == 0


def environment(*extras):
    """The Python of .venv, with eqsolve installed editable, with what the explorer needs and at least these extras."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        stamp = {}
    python = tool(VENV, "python")
    if not is_usable(python, stamp):
        stamp = {}
        make_venv(VENV)
    wanted = sorted({"explore", *extras, *stamp.get("extras", [])})
    if "dev" in wanted:
        wanted = ["dev"]  # which brings the others
    if stamp.get("pyproject") != digest or stamp.get("extras") != wanted:
        STAMP.unlink(missing_ok=True)  # so that an interrupted installation is taken up again
        target = f".[{','.join(wanted)}]"
        why = "the installation failed; pip's message is above (no network?)"
        need(python, *INSTALL, "--editable", target, why=why)
        STAMP.write_text(json.dumps({"root": str(ROOT), "pyproject": digest, "extras": wanted}))
    return python


def demo():
    environment()
    (ROOT / "out").mkdir(exist_ok=True)
    picture, data = Path("out", "demo.png"), Path("out", "demo.nc")
    code = run(tool(VENV, "eqsolve"), "validate", *DEMO, "--plot", picture, "--out", data)
    if code == 0:
        print(f"\nThe picture is {ROOT / picture}\nThe numbers are {ROOT / data}; `eqsolve plot {data}` draws them again")
    return code


def test(*arguments):
    """On all cores, unless pytest is told how many workers to have."""
    told = any(word.startswith("-n") or word == "--pdb" for word in arguments)
    return run(environment("test"), "-m", "pytest", *([] if told else WORKERS), *arguments)


def slow(*arguments):
    return test("-m", "slow", *arguments)


def quick(*arguments):
    return test("-m", "quick", *arguments)


def cover(*arguments):
    return test("--cov=eqsolve", "--cov-report=term-missing:skip-covered", *arguments)


def docs():
    """Build the pages, on one core, beside the tests of their code."""
    python = environment("test", "docs")
    pages = [python, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "out/docs"]
    with ThreadPoolExecutor(1) as beside:
        built = beside.submit(need, *pages, why="the pages do not build")
        tested = run(python, "-m", "pytest", *WORKERS, "-m", "docs", "tests/docs")
        built.result()
    print(f"the pages are {ROOT / 'out' / 'docs' / 'index.html'}")
    return tested


def lint():
    ruff = [environment("dev"), "-m", "ruff"]
    return run(*ruff, "check", ".") or run(*ruff, "format", "--check", ".")


def types():
    return run(environment("dev"), "-m", "mypy")


def wheel():
    """The wheel is built from the sdist, so both are tried, and run where the checkout cannot be found."""
    python = environment("dev")
    env = {name: value for name, value in ENV.items() if name not in ("PYTHONPATH", "EQSOLVE_PATH")}
    with tempfile.TemporaryDirectory(prefix="eqsolve-wheel-") as folder:
        fresh, elsewhere, built = (Path(folder, name) for name in ("env", "elsewhere", "built"))
        elsewhere.mkdir()
        need(python, "-m", "build", "--no-isolation", "--outdir", built, ROOT, why="the build failed")
        [file] = built.glob("*.whl")
        need(python, "-m", "twine", "check", "--strict", *built.iterdir(), why="the metadata would be refused on publishing")
        need(make_venv(fresh), *INSTALL, file, env=env, why="the wheel does not install")
        command = tool(fresh, "eqsolve")
        for words in (["list"], ["doctor"], ["validate", *DEMO, "--plot", "demo.png"]):
            need(command, *words, cwd=elsewhere, env=env, why=f"`eqsolve {words[0]}` fails from the wheel")
        print("built", shutil.copytree(built, ROOT / "dist", dirs_exist_ok=True))
    return 0


def publish(root=ROOT):
    """The address that stood everywhere before is that of CITATION.cff."""
    import re
    import tomllib

    address = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Homepage"]
    version = re.search('__version__ = "(.*)"', (root / "eqsolve" / "_version.py").read_text(encoding="utf-8"))[1]
    citation = root / "CITATION.cff"
    text = citation.read_text(encoding="utf-8")
    before = re.search("^repository-code: (.*)$", text, re.MULTILINE)[1]
    if f"\nversion: {version}\n" not in text:
        text = re.sub("(?m)^version: .*$", f"version: {version}", text)
        text = re.sub("(?m)^date-released: .*$", f"date-released: {time.strftime('%Y-%m-%d')}", text)
        citation.write_text(text, encoding="utf-8")
    recipe = root / "conda" / "meta.yaml"
    recipe.write_text(
        re.sub(r"(?m)^(\s*version: ).*$", rf'\g<1>"{version}"', recipe.read_text(encoding="utf-8")), encoding="utf-8"
    )
    names = ("README.md", "CITATION.cff", "pyproject.toml", "conda/meta.yaml")
    for path in [*(root / name for name in names), *sorted((root / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        if before != address and before in text:
            path.write_text(text.replace(before, address), encoding="utf-8")
            print("wrote", path.relative_to(root))
    return 0


def house():
    """Counted by the code that tests/test_house.py holds the package with."""
    sys.path.insert(0, str(ROOT))
    from tests.house import counts

    seconds = []
    for statement in ("import sympy, numpy, scipy.linalg", "import eqsolve"):
        start = time.monotonic()
        subprocess.run([environment(), "-c", statement], cwd=ROOT, env=ENV, check=True)
        seconds.append(round(time.monotonic() - start, 2))
    found = counts() | {"seconds to import eqsolve": seconds[1], "seconds to import sympy, numpy, scipy.linalg": seconds[0]}
    for what, value in found.items():
        print(f"{what:44} {value:>12,}")
    return 0


def ci():
    """Steps that keep one core busy run two at a time."""
    summary, code = [], 0
    for steps in (lint,), (types, wheel), (test,), (docs,), (slow,):
        print("\n=== " + ", ".join(step.__name__ for step in steps), flush=True)
        with ThreadPoolExecutor() as pool:
            for step, failed, seconds in pool.map(timed, steps):
                summary.append(f"{step.__name__:7} {'FAILED' if failed else 'ok'}, {seconds:.0f} s")
                code = code or failed
        if code:
            break
    print("\n=== summary", *summary, sep="\n")
    return code


def timed(step):
    """The step, its exit code, and the seconds that it took."""
    start = time.monotonic()
    return step, attempt(step), time.monotonic() - start


def attempt(step, *arguments):
    """The step's exit code; a command that had to succeed and did not is reported in one line."""
    try:
        return step(*arguments)
    except StepError as error:
        print(f"dev.py {step.__name__}: {error}", file=sys.stderr)
        return 1


VERBS = {step.__name__: step for step in (demo, test, quick, slow, docs, lint, types, wheel, publish, ci, house, cover)}


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(__doc__)
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in VERBS:
        print(f"dev.py: no verb {name!r}; there are {', '.join(VERBS)}", file=sys.stderr)
        return 2
    if rest and name not in ("test", "quick", "slow", "cover"):
        print(f"dev.py {name} takes no arguments, got {shlex.join(rest)}", file=sys.stderr)
        return 2
    return attempt(VERBS[name], *rest)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
