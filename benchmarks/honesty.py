"""Are the error bars true? Solves of many kinds against references that do not come from the engine.

    python benchmarks/honesty.py [--models dln,rnn] [--rtol 1e-2,1e-3] [--limit 120] [--json]      (under 20 minutes)
    python benchmarks/honesty.py --seed 7 [...]                       (other parameters, whose references are made on the way)
    python benchmarks/honesty.py --references [--models dln,rnn]                                   (makes the references)

References lie in honesty.json beside this file: closed forms, or solutions by other methods (honesty_truths.py) with an error of
their own. The run only solves. A value counts if its reference is good to a third of the stated error; then its ratio is
|value − reference| / stated error. The ratio of a quantity in a solve is the largest over its times. Goals: no ratio above 3, a
median over quantities between 0.05 and 1 (estimates that are far too wide would be of no use either). Half of the cases ask for their times
beforehand, as the command line's --at and --at2 do; the others evaluate the result there afterwards. A solve that takes longer
than the limit is stopped and counted as not solved.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np

FILE = Path(__file__).with_name("honesty.json")
LARGEST = 3.0  # of the ratios
MEDIAN = 0.05, 1.0
GOOD = 3.0  # a reference counts if it is this many times better than the stated error
KINDS = ("observables", "unknowns", "correlations", "responses")


# --- one solve -------------------------------------------------------------------------------------------------------------
def kind_of(model, name):
    """Return which of KINDS a value is, by the model's own declarations."""
    if name in model.observables:
        return "observables"
    symbol = model.symbols(name)
    return {"Correlation": "correlations", "Response": "responses"}.get(type(symbol).__name__, "unknowns")


def solve_case(case, rtol):
    """Solve a case and return its values with errors, as flat lists of (name, place, value, stated)."""
    import eqsolve

    model = eqsolve.load(case["model"])
    options = dict(case["options"], rtol=rtol, params=case["settings"])
    at, pairs = case["at"], [tuple(pair) for pair in case["pairs"]]
    if at:
        options["t_max"] = max(at)
        if case["asked"]:
            options |= {"at": at} | ({"at2": pairs} if pairs else {})
    result = eqsolve.solve(model, **options)
    found = []
    if not at:
        for name in case["values"]:
            found.append((name, None, float(result[name]), float(result.error[name])))
        return {"status": result.status, "found": found}
    curves = result.at(at)
    for name in case["values"]:
        for place, value, stated in zip(at, curves[name].values, curves[name + "_error"].values, strict=True):
            found.append((name, place, float(value), float(stated)))
    if pairs:
        kernels = result.at2(pairs)
        for name in case["kernels"]:
            for place, value, stated in zip(pairs, kernels[name].values, kernels[name + "_error"].values, strict=True):
                found.append((name, place, float(value), float(stated)))
    return {"status": result.status, "found": found}


def measure(case, found):
    """Return one row per value: name, kind, place, value, stated error, reference, its error, and the ratio or None."""
    import eqsolve

    model = eqsolve.load(case["model"])
    if hasattr(model, "dmft"):
        model = model.dmft()
    known = {}
    for group, places in (("values", case["at"] or [None]), ("kernels", [tuple(pair) for pair in case["pairs"]])):
        for name, values in case[group].items():
            errors = case["errors" if group == "values" else "kernel_errors"][name]
            for place, value, error in zip(places, values, errors, strict=True):
                known[name, place] = value, error
    rows = []
    for name, place, value, stated in found:
        truth, own = known[name, place]
        off = abs(value - truth)
        if stated > 0 and own <= stated / GOOD:
            ratio = off / stated
        elif stated == 0 and off > 10 * own + 1e-14 * abs(truth):
            ratio = float("inf")  # said to be exact, and is not
        else:
            ratio = None
        try:
            kind = kind_of(model, name)
        except Exception:  # a case's own model has it: the unknown of a fixed point
            kind = "unknowns"
        rows.append([name, kind, place, value, stated, truth, own, ratio])
    return rows


# --- solves with a limit -----------------------------------------------------------------------------------------------------
def work(pipe):
    import logging

    logging.getLogger("eqsolve").setLevel(logging.ERROR)
    while (job := pipe.recv()) is not None:
        case, rtol = job
        try:
            made = solve_case(case, rtol)
            made["rows"] = measure(case, made.pop("found"))
        except Exception as error:  # a refusal is an honest answer
            made = {"status": f"{type(error).__name__}: {error}".splitlines()[0][:160], "rows": []}
        pipe.send(made)


class Worker:
    """One process that solves; it is stopped and replaced when a solve takes too long."""

    def __init__(self):
        self.context, self.process = multiprocessing.get_context("spawn"), None

    def run(self, case, rtol, limit):
        if self.process is None:
            self.pipe, other = self.context.Pipe()
            self.process = self.context.Process(target=work, args=(other,), daemon=True)
            self.process.start()
            other.close()
        begin = time.perf_counter()
        self.pipe.send((case, rtol))
        made = {"status": f"not solved in {limit:g} s", "rows": []}
        if self.pipe.poll(limit):
            try:
                made = self.pipe.recv()
            except EOFError:
                made["status"] = "the process ended"
                self.stop()
        else:
            self.stop()
        return {**made, "seconds": time.perf_counter() - begin}

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.process = None


# --- report -------------------------------------------------------------------------------------------------------------------
def describe(runs):
    """Return what the ratios of some runs are like; a quantity is one name in one run, its ratio the largest of its values."""
    rows = [row for run in runs for row in run["rows"]]
    ratios = np.array([row[-1] for row in rows if row[-1] is not None])
    quantities = {}
    for number, run in enumerate(runs):
        for row in run["rows"]:
            if row[-1] is not None:
                quantities[number, row[0]] = max(row[-1], quantities.get((number, row[0]), 0.0))
    about = {"values": len(rows), "counted": len(ratios)}
    about |= dict.fromkeys(("median_value", "median", "nine", "largest"))
    if len(ratios):
        ordered = np.sort(list(quantities.values()))
        about |= {
            "median_value": float(np.median(ratios)),
            "median": float(np.median(ordered)),
            "nine": float(ordered[int(np.ceil(0.9 * (len(ordered) - 1)))]),
            "largest": float(ratios.max()),
        }
    for kind in KINDS:
        of_kind = [row[-1] for row in rows if row[1] == kind and row[-1] is not None]
        about[kind] = max(of_kind) if of_kind else None
    return about


def text(value):
    return "" if value is None else f"{value:.2g}" if isinstance(value, float) else str(value)


def table(runs):
    heads = [
        "model",
        "rtol",
        "solves",
        "solved",
        "values",
        "counted",
        "median of values",
        "median",
        "9 in 10",
        "largest",
        *KINDS,
        "s",
    ]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    groups = list(dict.fromkeys((run["model"], run["rtol"]) for run in runs))
    for model, rtol in [*groups, *((None, rtol) for rtol in dict.fromkeys(run["rtol"] for run in runs)), (None, None)]:
        some = [run for run in runs if model in (None, run["model"]) and rtol in (None, run["rtol"])]
        about = describe(some)
        cells = [model or "all", f"{rtol:g}" if rtol else "all", len(some), sum(bool(run["rows"]) for run in some)]
        cells += [about[key] for key in ("values", "counted", "median_value", "median", "nine", "largest", *KINDS)]
        lines.append("| " + " | ".join(text(cell) for cell in [*cells, float(sum(run["seconds"] for run in some))]) + " |")
    return "\n".join(lines)


def command(case, rtol):
    """Return a line that solves a case again."""
    settings = ", ".join(f"{key}={value!r}" for key, value in case["settings"].items())
    options = "".join(f", {key}={value!r}" for key, value in case["options"].items())
    at = ""
    if case["at"]:
        at = f", t_max={max(case['at'])!r}"
        if case["asked"]:
            at += f", at={case['at']}" + (f", at2={[tuple(p) for p in case['pairs']]}" if case["pairs"] else "")
    return f"eqsolve.solve({case['model']!r}{at}, rtol={rtol:g}{options}, {settings})"


def worst(run):
    """Return the values of a run above the limit, worst first, at most one per name."""
    bad = sorted((row for row in run["rows"] if row[-1] is not None and row[-1] > LARGEST), key=lambda row: -row[-1])
    seen = set()
    return [row for row in bad if not (row[0] in seen or seen.add(row[0]))]


# --- references ---------------------------------------------------------------------------------------------------------------
def short(values, digits=17):
    return [float(f"{x:.{digits}g}") for x in np.atleast_1d(values).tolist()]


def make_references(models, seed=None):
    """Yield the cases of a seed with their references, and their keys in the order of the file."""
    from honesty_cases import SEED, draw
    from honesty_truths import TRUTHS

    cases = draw(SEED if seed is None else seed)
    order = [key_of(case.model, case.settings, case.at) for case in cases]
    for index, case in enumerate(cases):
        if models is not None and case.model not in models:
            continue
        begin = time.perf_counter()
        try:
            found = TRUTHS[case.model]({**case.settings, **case.more}, list(case.at), list(case.pairs))
        except RuntimeError as reason:
            print(f"{case.name}: no reference ({reason})", file=sys.stderr, flush=True)
            continue
        values, kernels, errors, kernel_errors = found
        relative = [np.max(errors[name]) / max(np.max(np.abs(values[name])), 1e-300) for name in values]
        relative += [np.max(kernel_errors[name]) / max(np.max(np.abs(kernels[name])), 1e-300) for name in kernels]
        print(f"{case.name}: {max(relative):.1e}, {time.perf_counter() - begin:.1f} s", file=sys.stderr, flush=True)
        yield (
            order,
            {
                "model": case.model,
                "settings": case.settings,
                "at": list(case.at),
                "pairs": [list(pair) for pair in case.pairs],
                "options": case.options,
                "asked": index % 2 == 0,
                "values": {name: short(value) for name, value in values.items()},
                "errors": {name: short(value, 2) for name, value in errors.items()},
                "kernels": {name: short(value) for name, value in kernels.items()},
                "kernel_errors": {name: short(value, 2) for name, value in kernel_errors.items()},
            },
        )


def key_of(model, settings, at):
    return json.dumps([model, settings, list(at)])


def write_references(models):
    known = json.loads(FILE.read_text())["cases"] if FILE.exists() else []
    known = {key_of(case["model"], case["settings"], case["at"]): case for case in known}
    for order, case in make_references(models):
        known[key_of(case["model"], case["settings"], case["at"])] = case
        lines = ",\n".join(json.dumps(known[item], separators=(",", ":")) for item in order if item in known)
        FILE.write_text('{"cases":[\n' + lines + "\n]}\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="only these, separated by commas")
    parser.add_argument("--rtol", default="1e-2,1e-3", help="tolerances, separated by commas")
    parser.add_argument("--limit", type=float, default=120, help="seconds per solve")
    parser.add_argument("--json", action="store_true", help="print one object: every value of every solve")
    parser.add_argument("--references", action="store_true", help="make the references instead")
    parser.add_argument("--seed", type=int, help="other parameters, drawn by this seed; their references are made on the way")
    arguments = parser.parse_args()
    models = arguments.models.split(",") if arguments.models else None
    if arguments.references:
        write_references(models)
        return 0
    if arguments.seed is not None:
        cases = (case for _, case in make_references(models, arguments.seed))
    else:
        cases = [case for case in json.loads(FILE.read_text())["cases"] if models is None or case["model"] in models]
    worker, runs = Worker(), []
    for case in cases:
        for rtol in map(float, arguments.rtol.split(",")):
            run = {"model": case["model"], "settings": case["settings"], "rtol": rtol, "command": command(case, rtol)}
            runs.append(run | worker.run(case, rtol, arguments.limit))
            about, run = describe(runs[-1:]), runs[-1]
            print(
                f"{case['model']} {case['settings']} rtol {rtol:g}: {run['status']}, {run['seconds']:.1f} s, "
                f"median {text(about['median'])}, largest {text(about['largest'])}",
                file=sys.stderr,
                flush=True,
            )
    worker.stop()
    everything = describe(runs)
    good = bool(everything["counted"]) and everything["largest"] <= LARGEST and MEDIAN[0] <= everything["median"] <= MEDIAN[1]
    if arguments.json:
        print(json.dumps({"goals_met": good, "all": everything, "runs": runs}))
        return int(not good)
    print(table(runs))
    for run in runs:
        if bad := worst(run):
            print(f"\n{run['command']}")
            for name, _, place, value, stated, truth, own, ratio in bad:
                print(
                    f"    {name} at {place}: {value:.10g} ± {stated:.2g}, reference {truth:.10g} ± {own:.1g}: {ratio:.3g} times"
                )
    for run in runs:
        if run["status"] != "ok":
            print(f"\n{run['status']}: {run['command']}")
    print(
        f"\nratios above {LARGEST:g}: {sum(len([r for r in run['rows'] if r[-1] is not None and r[-1] > LARGEST]) for run in runs)}; "
        f"goals {'met' if good else 'not met'}"
    )
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
