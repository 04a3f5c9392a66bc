"""What to cite: the BibTeX entry behind a model's ``cite`` key, and eqsolve's own."""

import re
from pathlib import Path

from eqsolve._version import YEAR, __version__
from eqsolve.errors import UsageError, did_you_mean
from eqsolve.language.loading import folders
from eqsolve.language.model import Model

FILE = "references.bib"
_START = re.compile(r"@\s*(?P<kind>\w+)\s*\{\s*(?P<key>[^\s,{}]+)\s*,")
_OTHER = ("comment", "preamble", "string")


def read_entries(text: str) -> dict[str, str]:
    """Return the entries of a BibTeX file by key, each as it stands there.

    An entry ends where its braces balance; a brace escaped as ``\\{`` counts as text.
    """
    entries: dict[str, str] = {}
    position = 0
    while found := _START.search(text, position):
        position = found.end()
        if found["kind"].lower() in _OTHER:
            continue
        depth = 1
        while depth and position < len(text):
            character = text[position]
            if character in "{}" and text[position - 1] != "\\":
                depth += 1 if character == "{" else -1
            position += 1
        if depth:
            break  # the file ends inside this entry
        entries[found["key"]] = text[found.start() : position]
    return entries


def find_entry(model: Model) -> str:
    """Return the BibTeX entry for a model's ``cite`` key, from ``references.bib`` beside a model file.

    The folder of the model's own file is searched first, then every folder that models are found in.
    """
    key = model.cite
    if key is None:
        raise UsageError(f'model `{model.name}` names no paper; give it one by cite="key"')
    searched: list[str] = []
    known: list[str] = []
    beside = [Path(model.file).parent] if model.file else []
    for path in (folder / FILE for folder in dict.fromkeys([*beside, *folders()])):
        if not path.is_file():
            continue
        try:
            entries = read_entries(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"cannot read {path}: {error}") from None
        if key in entries:
            return entries[key]
        searched.append(str(path))
        known.extend(entries)
    where = f"{', '.join(searched)} {'has' if len(searched) == 1 else 'have'} no such entry" if searched else "there is none"
    raise UsageError(
        f"model `{model.name}` cites `{key}`, to be found in {FILE} beside its file, but {where}{did_you_mean(key, known)}"
    )


def software_entry() -> str:
    """Return the BibTeX entry for this version of eqsolve."""
    return (
        "@software{eqsolve,\n"
        "  author  = {{The eqsolve authors}},\n"
        "  title   = {eqsolve: a symbolic-numeric solver framework for dynamical mean-field theory},\n"
        f"  version = {{{__version__}}},\n"
        f"  year    = {{{YEAR}}},\n"
        "}"
    )
