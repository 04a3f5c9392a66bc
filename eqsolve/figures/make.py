"""Figures: one analysis file each, found like models are; numbers cached by content, with captions.

An analysis file defines

- a docstring: its first line is the figure's title, the rest its caption;
- ``compute(run)``: all that takes time; returns an ``xarray.Dataset``, tells agreement by ``run.agree``;
- ``draw(data)``: the matplotlib figure made from that dataset alone;
- ``PAPER = "Figure 3(b)"``, if it is one of the paper; with ``FIELD = "glasses"`` the name of another paper.

`make` writes ``NAME`` with .png, .pdf, .nc, .txt and .tex (the caption). The dataset carries a
key made of the analysis, its neighbours whose names start with ``_``, all models and the engine: what has not changed is
not computed again.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import logging
import os
import re
import subprocess
import sys
import time
import traceback
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from string import Template
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsolve._version import __version__
from eqsolve.errors import EqsolveError, MissingExtraError, ModelError, UsageError, demand_known
from eqsolve.files.atomic import atomic_path
from eqsolve.language.loading import find_files, list_models

if TYPE_CHECKING:
    import xarray as xr

_PACKAGE = Path(__file__).resolve().parents[1]
_LIMIT = 4.0  # standard errors beyond which an explanation is due
_OUTSIDE = ("cli", "plotting", "_models", "_analyses")  # no number depends on these


class Unavailable(EqsolveError):
    """A figure that cannot be made here: an extra is missing."""


@dataclass(frozen=True)
class Agreement:
    """Theory against simulation for a family of points: the largest |z|, and the reason for a miss.

    ``plain`` is |z| from standard errors alone, ``z`` counts the measured bias of finite size too.
    """

    what: str
    points: int
    z: float
    plain: float
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.z <= _LIMIT

    @property
    def explained(self) -> bool:
        return self.ok or bool(self.note)


@dataclass
class Run:
    """What an analysis is given: whether to be quick, where to report, a place for agreement."""

    quick: bool = False
    progress: Callable[[float, float, str], None] | None = None
    data: str | None = None
    agreements: list[Agreement] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def pick(self, quick: Any, full: Any) -> Any:
        """Return the first when quick, else the second."""
        return quick if self.quick else full

    def report(self, done: float, total: float, text: str = "") -> None:
        if self.progress is not None:
            self.progress(done, total, text)

    def agree(self, what: str, theory: Any, error: Any, runs: Any, half: Any = None, note: str = "") -> None:
        """Compare simulated draws, shaped (draw, point), with theory; ``half`` are draws at half the size."""
        from eqsolve.validation.validate import compare

        values = np.atleast_1d(np.asarray(theory, dtype=float))
        errors = np.broadcast_to(np.asarray(error, dtype=float), values.shape)
        draws = np.asarray(runs, dtype=float).reshape(-1, values.size)
        small = None if half is None else np.asarray(half, dtype=float).reshape(-1, values.size)
        both = (compare(values, errors, draws, part, count=values.size) for part in (small, None))
        largest, bare = (float(np.abs(item.z).max()) for item in both)
        self.agreements.append(Agreement(what, values.size, largest, bare, note if largest > _LIMIT else ""))

    def note(self, text: str) -> None:
        """Add a sentence to the caption."""
        self.notes.append(text)


@dataclass(frozen=True)
class Analysis:
    """An analysis file, described without running it."""

    name: str
    path: Path
    title: str
    caption: str
    group: str = ""  # figures of one group share work and are made in one process
    paper: str = ""  # the figure or table of the paper that this one is
    field: str = ""  # the field of another paper, whose name is then `paper`

    @property
    def origin(self) -> str:
        return f"{self.paper} of the paper" if self.paper and not self.field else self.paper


@dataclass(frozen=True)
class Made:
    """What became of one figure: ``status`` is "made", "unavailable" or "failed"."""

    name: str
    title: str
    status: str
    seconds: float = 0.0
    cached: bool = False
    caption: str = ""
    message: str = ""
    agreements: tuple[Agreement, ...] = ()
    paper: str = ""
    quick: bool = False


def folders() -> Iterator[Path]:
    """Yield the folders searched for analyses, in order of precedence."""
    for folder in (Path.cwd() / "analyses", _PACKAGE / "_analyses", _PACKAGE.parent / "analyses"):
        yield from (folder, folder / "papers")


def list_analyses() -> list[Analysis]:
    """Return every figure that can be named, by ``ORDER`` of its file, then by field and name."""
    described = [_describe(path) for _, path in sorted(find_files(folders()).items())]
    return [item for _, item in sorted(described, key=lambda pair: (pair[0], pair[1].field))]


def _describe(path: Path) -> tuple[float, Analysis]:
    said: dict[str, Any] = {"ORDER": 1e9, "GROUP": "", "PAPER": "", "FIELD": ""}
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return said["ORDER"], Analysis(path.stem, path, "(this file cannot be read)", "")
    for node in tree.body:
        if isinstance(node, ast.Assign) and (name := ast.unparse(node.targets[0])) in said:
            said[name] = ast.literal_eval(node.value)
    title, _, rest = (ast.get_docstring(tree) or path.stem).partition("\n")
    order, *about = said.values()
    return float(order), Analysis(path.stem, path, title.strip().rstrip("."), " ".join(rest.split()), *about)


def find_analysis(name: str) -> Analysis:
    """Return the analysis of that name, or of a file given by its path."""
    if name.endswith(".py") or os.sep in name:
        path = Path(name)
        if not path.is_file():
            raise UsageError(f"there is no analysis file {name!r}")
        return _describe(path.resolve())[1]
    known = {item.name: item for item in list_analyses()}
    demand_known([name], known, "there is no figure `{}`", "there are")
    return known[name]


def load_module(analysis: Analysis) -> ModuleType:
    """Run an analysis file; it can import its neighbours."""
    module = ModuleType(analysis.name)
    module.__file__ = str(analysis.path)
    folder = str(analysis.path.parent)
    sys.path.insert(0, folder)
    try:
        exec(compile(analysis.path.read_text(encoding="utf-8"), str(analysis.path), "exec"), module.__dict__)
    except EqsolveError:
        raise
    except Exception as error:
        raise ModelError(f"{analysis.path.name} cannot be loaded: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(folder)
    for part in ("compute", "draw"):
        if not callable(getattr(module, part, None)):
            raise ModelError(
                f"{analysis.path.name} defines no function `{part}`; an analysis defines compute(run), which returns an "
                "xarray.Dataset, and draw(data), which returns a figure"
            )
    return module


def content_key(analysis: Analysis, quick: bool, data: str | None) -> str:
    """Return a digest of everything the numbers of a figure depend on."""
    files = [analysis.path, *sorted(analysis.path.parent.glob("_*.py")), *(item.path for item in list_models())]
    files += [p for p in sorted(_PACKAGE.rglob("*.py")) if p.relative_to(_PACKAGE).parts[0] not in _OUTSIDE]
    digest = hashlib.sha256(f"{quick} {data}".encode())
    if data is not None and Path(data).is_file():
        digest.update(Path(data).read_bytes())
    for path in files:
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def make(analysis: Analysis, out: Path, *, quick: bool = False, data: str | None = None, fresh: bool = False) -> Made:
    """Compute (or take from the cache) and draw one figure; failures are told in the result."""
    started, status = time.perf_counter(), "failed"
    try:
        return _make(analysis, out, quick, data, fresh, started)
    except EqsolveError as error:
        message = str(error)
        status = "unavailable" if isinstance(error, Unavailable | MissingExtraError) else status
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(analysis.path)]
        where = f"{analysis.path.name}:{frames[-1].lineno}: " if frames else ""
        message = f"{where}{type(error).__name__}: {error}"
    seconds = time.perf_counter() - started
    return Made(analysis.name, analysis.title, status, seconds, message=message, paper=analysis.origin)


def _make(analysis: Analysis, out: Path, quick: bool, data: str | None, fresh: bool, started: float) -> Made:
    import matplotlib as mpl

    from eqsolve.plotting.paper import RC
    from eqsolve.plotting.style import save_figure

    module = load_module(analysis)
    key = content_key(analysis, quick, data)
    table = None if fresh else _stored(out / f"{analysis.name}.nc", key)
    cached = table is not None
    if table is None:
        run = Run(quick, data=data)
        table = module.compute(run)
        about = {"key": key, "commit": commit(analysis.path.parent), "quick": quick, "notes": run.notes}
        about |= {"seconds": round(time.perf_counter() - started, 1), "agreements": [vars(item) for item in run.agreements]}
        plain = {k: v if isinstance(v, str | int | float) else json.dumps(v) for k, v in table.attrs.items()}
        table.attrs = {**plain, "figure": json.dumps(about)}
        with atomic_path(out / f"{analysis.name}.nc") as temporary:
            table.to_netcdf(temporary, engine="h5netcdf")
    logging.getLogger("fontTools").setLevel(logging.ERROR)  # it warns of the dates inside fonts
    with mpl.rc_context(RC):
        for suffix in (".pdf", ".png"):
            save_figure(module.draw(table), out / f"{analysis.name}{suffix}", dpi=220)
    made = _made(analysis, json.loads(table.attrs["figure"]), cached)
    for suffix, text in ((".txt", f"{made.caption}\n"), (".tex", latex_caption(made.caption, analysis.name))):
        with atomic_path(out / f"{analysis.name}{suffix}") as temporary:
            Path(temporary).write_text(text, encoding="utf-8")
    return made


def _made(analysis: Analysis, about: dict[str, Any], cached: bool) -> Made:
    agreements = tuple(Agreement(**item) for item in about["agreements"])
    caption, paper = _caption(analysis, about, agreements), analysis.origin
    return Made(
        analysis.name, analysis.title, "made", about["seconds"], cached, caption, "", agreements, paper, about["quick"]
    )  # fmt: skip


def made_before(out: Path) -> list[Made]:
    """Return the figures whose pictures and numbers lie in a folder, ordered as the analyses."""
    drawn = [analysis for analysis in list_analyses() if (out / f"{analysis.name}.png").is_file()]
    tables = [(analysis, _stored(out / f"{analysis.name}.nc")) for analysis in drawn]
    return [_made(analysis, json.loads(table.attrs["figure"]), True) for analysis, table in tables if table is not None]


def _stored(path: Path, key: str | None = None) -> xr.Dataset | None:
    import xarray as xr

    try:
        with xr.open_dataset(path, engine="h5netcdf") as stored:
            about = json.loads(stored.attrs["figure"])
            return stored.load() if key in (None, about["key"]) else None
    except Exception:  # no file, a damaged one, or one of something else
        return None


def _caption(analysis: Analysis, about: dict[str, Any], agreements: tuple[Agreement, ...]) -> str:
    parts = [f"{analysis.title}.", f"({analysis.origin}.)" * bool(analysis.paper), analysis.caption, *about["notes"]]
    for item in agreements:
        bare = f" ({item.plain:.1f} before the measured bias of finite size)" if item.plain > item.z + 0.05 else ""
        why = f" {item.note}" if item.note else ""
        parts.append(f"{item.what}: {item.points} points, largest |z| = {item.z:.1f}{bare}.{why}")
    mode = "quick settings, " if about["quick"] else ""
    parts.append(f"[{mode}commit {about['commit']}, {about['seconds']:.0f} s]")
    return " ".join(part for part in parts if part)


def commit(folder: Path) -> str:
    """Return the commit of a checkout, or the version of an installed package."""
    try:
        words = ["git", "-C", str(folder), "rev-parse", "--short", "HEAD"]
        return subprocess.check_output(words, text=True, timeout=5, stderr=subprocess.DEVNULL).strip()
    except (OSError, subprocess.SubprocessError):
        return f"version {__version__}"


# --- Captions as LaTeX: names and symbols as mathematics, everything else as text.

_WORDS = {
    "ε": "varepsilon", "∞": "infty", "≤": "le", "≥": "ge", "≈": "approx", "×": "times", "·": "cdot", "±": "pm", "∫": "int",
    "→": "to", "√": "surd", "∂": "partial", "ℓ": "ell", "∼": "sim", "′": "prime",
}  # fmt: skip
_GREEK = {g: unicodedata.name(g).rpartition(" ")[2].lower().replace("lamda", "lambda") for g in "αβγδζηθκλμνξπρστφχψω"}
_GREEK |= {"Δ": "Delta", "Σ": "Sigma"}
_SMALL = {sign: unicodedata.normalize("NFKC", sign).replace("−", "-") for sign in "⁰¹²³⁴⁵⁶⁷⁸⁹⁻₀₁₂₃₄₅₆₇₈₉ₖ"} | {"ᵀ": r"\top"}
_FORMULA = {sign: rf"\{word} " for sign, word in (_GREEK | _WORDS).items()}
_FORMULA |= {sign: f"{'_' if '<sub>' in unicodedata.decomposition(sign) else '^'}{{{said}}}" for sign, said in _SMALL.items()}
_ESCAPED = {sign: rf"\{sign}" for sign in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
_NAME = re.compile(r"(?<![A-Za-z_])([A-Za-z]|[α-ω])_([A-Za-z0-9]+|\*)(?![A-Za-z0-9_])")
_POWER = re.compile(r"\^\(([^()]*)\)|\^(-?[A-Za-z0-9]+)")
_MARK = "\x00"


def latex_caption(caption: str, name: str) -> str:
    """Return ``\\caption{...}`` and ``\\label{fig:NAME}`` for a plain text."""
    return f"\\caption{{{_latex(caption)}}}\n\\label{{fig:{name}}}\n"


def _latex(text: str) -> str:
    formulas: list[str] = []

    def keep(math: str) -> str:
        formulas.append(f"${math}$")
        return f"{_MARK}{len(formulas) - 1}{_MARK}"

    def name(match: re.Match[str]) -> str:
        below = match[2] if len(match[2]) == 1 else rf"\mathrm{{{match[2]}}}"
        return keep(f"{_symbols(match[1])}_{{{below}}}")

    text = _NAME.sub(name, text)
    text = _POWER.sub(lambda found: keep(f"^{{{_symbols((found[1] or found[2]).replace('−', '-'))}}}"), text)
    alone = _ESCAPED | {"−": "$-$", "^": r"\textasciicircum{}"} | {key: f"${said.rstrip()}$" for key, said in _FORMULA.items()}
    spelled = "".join(alone.get(letter, letter) for letter in text)
    whole = re.sub(_MARK + r"(\d+)" + _MARK, lambda found: formulas[int(found[1])], spelled)
    return whole.replace("$$", "")  # symbols side by side are one formula


def _symbols(text: str) -> str:
    """Return the inside of a formula: Greek letters by name, powers, and nothing that LaTeX would take amiss."""
    return "".join((_ESCAPED | _FORMULA).get(letter, letter) for letter in text)


# --- The page of all figures, `page.html`: self-contained, with captions and agreement.


def write_page(figures: Sequence[Made], out: Path) -> Path:
    """Write ``index.html``, pictures inside: what was made, and every other figure of the folder."""
    every = {item.name: item for item in (*made_before(out), *figures)}
    order = {item.name: place for place, item in enumerate(list_analyses())}
    figures = sorted(every.values(), key=lambda item: order.get(item.name, len(order)))
    quick = [item.quick for item in figures if item.status == "made"]
    mode = "Some figures have quick settings, as their captions say." if any(quick) else "Full settings."
    mode = "Quick settings: few draws, small sizes, loose tolerances." if quick and all(quick) else mode
    text = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8")).substitute(
        mode=mode, figures="\n".join(_figure(item, out) for item in figures), rows="".join(map(_rows, figures)),
        contents="".join(f'<li><a href="#{item.name}">{escape(item.title)}</a>{_origin(item)}</li>' for item in figures),
    )  # fmt: skip
    with atomic_path(page := out / "index.html") as temporary:
        Path(temporary).write_text(text, encoding="utf-8")
    return page


def _figure(item: Made, out: Path) -> str:
    head = f'<figure id="{item.name}"><h2>{escape(item.title)}{_origin(item)}</h2>'
    if item.status != "made":
        return f'{head}<p class="why">Not made ({item.status}): {escape(item.message)}</p></figure>'
    picture = base64.b64encode((out / f"{item.name}.png").read_bytes()).decode()
    files = " · ".join(f'<a href="{item.name}{suffix}">{suffix[1:]}</a>' for suffix in (".pdf", ".png", ".nc", ".tex"))
    return (
        f'{head}<img src="data:image/png;base64,{picture}" alt="{escape(item.title)}">'
        f"<figcaption>{escape(item.caption)} ({files})</figcaption></figure>"
    )


def _origin(item: Made) -> str:
    return f' <small class="from">{escape(item.paper)}</small>' if item.paper else ""


def _rows(item: Made) -> str:
    """Return the rows of a figure in the table of agreement."""
    rows = []
    for family in item.agreements:
        verdict, kind = ("explained", ' class="why"') if family.explained else ("MISS", ' class="miss"')
        verdict, kind = ("agrees", "") if family.ok else (verdict, kind)
        numbers = (str(family.points), f"{family.z:.2f}", f"{family.plain:.2f}")
        cells = "".join(f'<td class="n">{number}</td>' for number in numbers)
        why = f": {escape(family.note)}" if family.note else ""
        head = f'<td><a href="#{item.name}">{item.name}</a></td><td>{escape(family.what)}</td>'
        rows.append(f"<tr>{head}{cells}<td{kind}>{verdict}{why}</td></tr>")
    return "".join(rows)
