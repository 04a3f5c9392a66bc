"""The command that prints what to cite when a model is used."""

from argparse import Namespace

from eqsolve.cli.options import add_shared
from eqsolve.cli.output import say, write, write_json
from eqsolve.cli.verb import Verb


def run_cite(options: Namespace) -> int:
    """Print the BibTeX entry of the paper behind a model, and that of eqsolve itself."""
    from eqsolve.language.loading import load
    from eqsolve.tools.citing import find_entry, software_entry

    model = load(options.model)
    entry = find_entry(model) if model.cite else None
    software = software_entry()
    if options.json:
        write_json({"model": model.name, "key": model.cite, "bibtex": entry, "software": software})
        return 0
    if entry is None:
        say(f"model `{model.name}` names no paper (its file has no cite=...); please cite eqsolve:")
    else:
        write(f"{entry}\n")
    write(software)
    return 0


CITE = Verb("print the BibTeX entries to cite", add_shared, run_cite, "cite {model}", ("cite {model} --json",))
