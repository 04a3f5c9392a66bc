"""The command that examines the installation."""

import functools
import time
from argparse import Namespace

from eqsolve.cli.options import add_shared
from eqsolve.cli.output import lay_out, paint, write, write_json
from eqsolve.cli.verb import Verb


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
