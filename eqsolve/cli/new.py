"""The command that starts a new model file from an existing model."""

import os
from argparse import ArgumentParser, Namespace

from eqsolve.cli.output import write
from eqsolve.cli.verb import Verb


def run_new(options: Namespace) -> int:
    """Write ./models/NAME.py: it loads the model M and replaces one of its equations, which is spelled
    out to be changed. The new file passes `eqsolve check` as it stands. Its tests, ./tests/test_NAME.py, are
    written too. Existing files are left alone.
    """
    from eqsolve.tools.scaffold import write_variant

    path, tests = write_variant(options.name, options.source)
    write(f"wrote {os.path.relpath(path)}: a variant of {options.source}, ready to be changed")
    write(f"wrote {os.path.relpath(tests)}: its tests, run by pytest")
    write(f"next: edit the model, then `eqsolve check {options.name}` and `eqsolve show {options.name}`")
    return 0


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the new model's name, such as my_variant")
    parser.add_argument(
        "--from", metavar="M", dest="source", required=True, help="the model to start from: a name, or a file's path"
    )


NEW = Verb("start a new model from an existing one", _arguments, run_new, "new my_variant --from {model}")
