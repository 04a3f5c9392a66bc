"""The command line: ``main`` runs one verb, and turns errors into messages and exit codes.

Exit codes: 0 ok; 1 the solver did not reach what was asked; 2 bad input; 70 a bug of ours; 130 interrupted;
141 the reader of our output went away.
"""

import contextlib
import logging
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence

from eqsolve.cli.output import OutputClosed, close_output, complain, flush, say
from eqsolve.cli.parser import parse
from eqsolve.errors import EqsolveError
from eqsolve.language.loading import find
from eqsolve.progress import NOTE
from eqsolve.solvers.threads import THREAD_LIMITS

INTERNAL_ERROR = getattr(os, "EX_SOFTWARE", 70)
INTERRUPTED, READER_GONE = 128 + signal.SIGINT, 128 + getattr(signal, "SIGPIPE", 13)  # as shells say


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv
        The arguments after the program's name; ``sys.argv[1:]`` unless given.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    debug = "--debug" in arguments or os.environ.get("EQSOLVE_DEBUG", "0") not in ("", "0")
    # more threads of linear algebra are slower on small matrices; numpy reads this as it loads
    if "numpy" not in sys.modules and not any(name in os.environ for name in THREAD_LIMITS):
        os.environ.update(dict.fromkeys(THREAD_LIMITS, "1"))
    try:
        code = _run(arguments)
        flush()
        return code
    except EqsolveError as error:
        _trace(debug)
        complain(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _trace(debug)
        say("interrupted")
        return INTERRUPTED
    except OutputClosed:
        close_output()
        return READER_GONE
    except Exception as error:
        _trace(debug)
        complain(f"eqsolve stopped on an unexpected {type(error).__name__}: {str(error) or 'no message'}")
        say("This is a bug in eqsolve, please report it; the option --debug shows where it happened.")
        return INTERNAL_ERROR


def _run(arguments: list[str]) -> int:
    try:
        options = parse(arguments)
    except SystemExit as done:  # argparse ends this way after --help and --version
        return int(done.code or 0)
    with _logging(options.verbose, options.quiet):
        if (known := options.known(options)) is not None:
            return int(known)
        if not isinstance(getattr(options, "model", None), str):
            return int(options.run(options))
        from eqsolve.cli.plans import keep, restore  # of what was compiled

        path = None
        with contextlib.suppress(EqsolveError):  # the verb says what is wrong
            path = find(options.model)
            restore(path)
        code = int(options.run(options))
        if path is not None:
            keep(path)
        return code


def _trace(debug: bool) -> None:
    if debug:
        say(traceback.format_exc().rstrip())


@contextlib.contextmanager
def _logging(verbose: int, quiet: bool) -> Iterator[None]:
    """Send eqsolve's log to stderr while a command runs, as much of it as was asked for."""
    logger, handler = logging.getLogger("eqsolve"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
    before = logger.level
    logger.addHandler(handler)
    logging.addLevelName(NOTE, "NOTE")
    logger.setLevel(logging.ERROR if quiet else (NOTE, logging.INFO, logging.DEBUG)[min(verbose, 2)])
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
