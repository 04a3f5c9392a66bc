"""The commands that examine the installation, and start a new model file from an existing model."""

import functools
import os
import time
from argparse import ArgumentParser, Namespace

from eqsolve.cli.options import Verb, add_shared
from eqsolve.cli.output import lay_out, paint, write, write_json


def run_doctor(options: Namespace) -> int:
    """Report versions, linear algebra, threads, GPU, models and caches, and solve a few small systems whose
    solutions are known. Exit code 0: all is well; 1: a value lies outside its error estimate.
    """
    from eqsolve.tools.doctor import examine, run_trials

    findings = examine()
    began = time.perf_counter()
    trials = list(run_trials())
    seconds = time.perf_counter() - began
    sound = all(trial.ok for trial in trials)
    if options.json:
        found = {item.name: item.value for item in findings}
        advice = {item.name: item.advice for item in findings if item.advice}
        tried = [{"name": t.name, "ok": t.ok, "detail": t.detail, "seconds": t.seconds} for t in trials]
        write_json({"ok": sound, "found": found, "advice": advice, "self_test": tried, "seconds": seconds})
        return 0 if sound else 1
    for title in dict.fromkeys(item.part for item in findings):
        write(paint(title, "bold"))
        rows = [(item.name, item.value) for item in findings if item.part == title]
        write(lay_out(rows, indent="  ", styles=("cyan", "")) + "\n")
    write(paint("self-test against closed forms", "bold"))
    width = max(len(t.name) for t in trials)
    for t in trials:
        mark = paint("ok    ", "green") if t.ok else paint("FAILED", "bold red")
        write(f"  {paint(t.name.ljust(width), 'cyan')}  {mark}  {t.detail}  {paint(f'{t.seconds:.1f} s', 'faint')}")
    write("")
    for item in findings:
        if item.advice:
            write(f"{paint('note:', 'yellow')} {item.name}: {item.advice}")
    verdict = "all is well" if sound else "this installation does not compute rightly; please report the lines above"
    write(f"{paint(verdict, 'bold green' if sound else 'bold red')} ({seconds:.1f} s)")
    return 0 if sound else 1


DOCTOR = Verb(
    "examine the installation and test it",
    functools.partial(add_shared, model=False),
    run_doctor,
    "doctor",
    ("doctor --json",),
)


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


def _new_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the new model's name, such as my_variant")
    parser.add_argument(
        "--from", metavar="M", dest="source", required=True, help="the model to start from: a name, or a file's path"
    )


NEW = Verb("start a new model from an existing one", _new_arguments, run_new, "new my_variant --from {model}")
