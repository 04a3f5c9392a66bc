"""The command that makes figures from analysis files."""

import functools
import os
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from eqsolve.cli.options import command, read_options, switch, value
from eqsolve.cli.output import complain, lay_out, room, say, write, write_json
from eqsolve.errors import UsageError
from eqsolve.progress import Bar, clock


@command(
    "make the figures of analysis files",
    "figure all --quick --out figures",
    "figure  # what there is",
    "figure fixed_points_alpha --out figures",
    model=False, options={"workers": "figures made at once; one per core by default"},
    own={
        "names": value("NAME", "figures, or `all`; without a name, list what there is", nargs="*"),
        "--out": value("DIR", "folder for figures, data and captions (figures)", default="figures"),
        "--quick": switch("small sizes, few draws and loose tolerances"),
        "--data": value("FILE", "a real data matrix (*.csv, *.npy, *.h5ad), samples in rows"),
        "--fresh": switch("compute again even if nothing has changed"),
    },
)  # fmt: skip
def run_figure(options: Namespace) -> int:
    """Make figures (PNG and PDF), the numbers behind them (netCDF) and captions from analysis files, found in ./analyses
    and packaged, and a self-contained index.html of all figures of the folder, with a table of agreement.
    What has not changed is not computed again. Exit code 1: some figures failed, all others are there.
    """
    from eqsolve.figures.make import find_analysis, list_analyses, write_page

    known = list_analyses()
    if not options.names:
        rows = [(item.name, item.paper, item.title) for item in known if not item.field]
        write(lay_out([("NAME", "PAPER", "TITLE"), *rows], styles=("bold cyan", "faint", ""), cut=room()))
        for name in sorted({item.field for item in known if item.field}):
            papers = [(item.name, item.paper) for item in known if item.field == name]
            write("\n" + lay_out([(name.upper(), ""), *papers], styles=("bold cyan", ""), cut=room()))
        return 0
    chosen = known if "all" in options.names else [find_analysis(name) for name in dict.fromkeys(options.names)]
    out = Path(options.out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {options.out!r}: {error.strerror}") from None
    if options.data is not None and not Path(options.data).is_file():
        raise UsageError(f"--data: there is no file {options.data!r}")
    made = _make_all(chosen, out, options, read_options(options).get("workers"))
    page = write_page(made, out)
    if not options.quiet and not options.json:
        say(f"wrote {page}")
    return _report(made, options, out)


def _make_all(chosen: list[Any], out: Path, options: Namespace, workers: int | None) -> list[Any]:
    from eqsolve.figures.make import make

    job = functools.partial(make, out=out, quick=options.quick, data=options.data, fresh=options.fresh)
    finished, at_once = {}, min(len(chosen), workers or os.cpu_count() or 1)
    with Bar(options.quiet or options.json, count=True) as bar:
        bar(0, len(chosen), "")
        for figure in map(job, chosen) if at_once == 1 else _in_processes(job, chosen, at_once):
            finished[figure.name] = figure
            bar.clear()
            _tell(figure, options)
            bar(len(finished), len(chosen), figure.name)
    return [finished[item.name] for item in chosen]


def _in_processes(job: Callable[[Any], Any], chosen: list[Any], workers: int) -> Iterator[Any]:
    """Yield figures as they are finished; those of a group, which share computations, one by one."""
    from concurrent.futures import as_completed

    from eqsolve.figures.make import Made
    from eqsolve.sweeping.workers import WorkerLostError, Workers

    groups: dict[str, list[Any]] = {}
    for item in chosen:
        groups.setdefault(item.group or f"only {item.name}", []).append(item)
    with Workers(workers) as pool:
        largest_first = sorted(groups.values(), key=len, reverse=True)
        futures = {pool.submit(_in_turn, job, items): items for items in largest_first}
        for future in as_completed(futures):
            try:
                yield from future.result()
            except WorkerLostError as error:
                yield from (Made(item.name, item.title, "failed", message=str(error)) for item in futures[future])


def _in_turn(job: Callable[[Any], Any], items: list[Any]) -> list[Any]:
    return [job(item) for item in items]


def _tell(made: Any, options: Namespace) -> None:
    if options.quiet or options.json:
        return
    if made.status != "made":
        complain(f"{made.name}: {made.status}: {made.message}")
        return
    worst = max((item.z for item in made.agreements), default=None)
    agreement = "" if worst is None else f", largest |z| = {worst:.1f}"
    say(f"{made.name}: {'from the cache' if made.cached else clock(made.seconds)}{agreement}")


def _report(made: list[Any], options: Namespace, out: Path) -> int:
    failed = [item for item in made if item.status == "failed"]
    misses = [f"{item.name} ({a.what})" for item in made for a in item.agreements if not a.explained]
    if options.json:
        about = {"out": str(out), "quick": options.quick, "status": "failed" if failed else "ok", "unexplained": misses}
        figures = [{**vars(item), "agreements": [vars(found) for found in item.agreements]} for item in made]
        write_json({**about, "figures": figures})
    if misses:
        complain(f"theory and simulation differ by more than 4 standard errors in {', '.join(misses)}")
    return 1 if failed else 0
