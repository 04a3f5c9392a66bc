"""The options of a solve, declared once: their docstrings, the flags of the command line, and what they have no use for.

``Options`` (``eqsolve.solvers.options``) is made of these at the edge, by ``solve`` and ``sweep``,
and goes to the solver.
"""

import re
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from eqsolve.errors import UsageError

F = TypeVar("F", bound=Callable[..., Any])
Takes = Literal["number", "whole", "times", "pairs", "names", "values", "region", "seconds", "text", ""]


@dataclass(frozen=True)
class Option:
    """One option."""

    doc: str  # what it means, in docstrings
    takes: Takes = ""  # how the text after its flag is read; nothing for one without a flag
    metavar: str = ""  # on the command line
    help: str = ""  # there too
    kinds: tuple[str, ...] = ()  # the kinds of model that it has a meaning for; any by default

    @property
    def about(self) -> str:
        return self.help or self.doc[:1].lower() + self.doc[1:].rstrip(".")


_IN_TIME = ("System", "Flow")
_TIMELESS = ("FixedPoint", "Singularity", "Cases")

OPTIONS = {
    "t_max": Option("Last time; the largest time asked for by default.", "number", "T", kinds=_IN_TIME),
    "rtol": Option(
        "Relative tolerance on every observable (and on the kernels, if asked for).",
        "number", "R", "relative tolerance on the observables; 1e-3 by default",
    ),
    "atol": Option("Absolute tolerance; by default relative to the largest value.", "number", "A"),
    "at": Option(
        "Times at which values are wanted. Solver `ode`, and with white noise `gaussian` and "
        "`stochastic`, make them nodes of their grids; elsewhere values between nodes come from "
        "the collocation polynomial.",
        "times", "T,T,...", "times to report, such as 0.1,1,10 or a range 0:10:21", _IN_TIME,
    ),
    "at2": Option(
        "Pairs of times at which kernels are wanted, like ``at``.",
        "pairs", "T,T';...", 'pairs of times to report, such as "1,0.5;2,2"', _IN_TIME,
    ),
    "kernels": Option(
        "Whether the two-time functions themselves must meet the tolerance; true when ``at2`` is "
        "given. False says that they are not wanted at all: for suitable equations the number "
        "of nodes then grows only like log t."
    ),
    "order": Option("Nodes per panel; chosen from the tolerance by default.", "whole", "M"),
    "step": Option(
        "Solve the discrete-time system with this step exactly (gradient descent instead of "
        "gradient flow), not the continuous one; the model's own step by default.",
        "number", "H", "solve the discrete-time system with this step (gradient descent)", _IN_TIME,
    ),
    "seed": Option("Seed of everything random.", "whole", "N", "seed of everything random; 0 by default"),
    "solver": Option(
        "Name of a solver, to override the choice, or a solver of one's own (see "
        "``eqsolve.Solver``).",
        "text", "NAME", "use this solver instead of the one chosen",
    ),
    "precision": Option(
        "Decimal digits, for a fixed point beyond double precision; its values and laws then "
        "carry mpmath's numbers.",
        kinds=_TIMELESS,
    ),
    "observables": Option(
        "Names of the observables to compute; these must meet the tolerance, or the status is "
        '"tolerance not met". All by default.',
        "names", "A,B,...",
        "compute these only; for a flow, `all` includes the functions derived for its mean field",
    ),
    "derivatives": Option(
        "Names of parameters, those of laws among them: the derivatives of everything with "
        "respect to them are computed too, to the same tolerance, and read by "
        "``result.derivative(name, parameter)``.",
        "names", "P,Q,...", "also compute the derivatives with respect to these parameters",
    ),
    "start": Option(
        "A result of the same model at other parameters, to begin with: a stochastic system "
        "iterates from its means, on its panels; a fixed point looks near its values first; other "
        "solvers have no use for it. The errors are those of the new solution. Or values by name: "
        "of a fixed point's unknowns, near which to look first; of a `Singularity`, the value of "
        "the transform far to the right, when several are bounded there.",
        "values", "U=X,V=Y,...", "of a fixed point: an initial guess of its unknowns",
    ),
    "region": Option(
        "(LOW, HEIGHT): where a `Singularity` is searched, ``Re p ≥ LOW`` and ``|Im p| ≤ "
        "HEIGHT``. By default a region scaled to the transform.",
        "region", "LOW,HEIGHT",
        "of a Singularity: search Re p >= LOW, |Im p| <= HEIGHT; by default scaled to the transform", ("Singularity",),
    ),
    "device": Option(
        '``"gpu"``: paths are followed on the graphics card, to the same numbers up to rounding; '
        '``"auto"``: where there is a card, the solver can use it, and the work is worth it. '
        "Needs the extra ``gpu``.",
        "text", "WHERE", "solve on the cpu (default), the gpu, or auto: the card where it is worth it",
    ),
    "budget": Option(
        'CPU seconds that a solve may take, a number or a text such as ``"30s"``, ``"5min"`` or '
        '``"2h"``. Solvers stop refining in time and return the best so far, with its errors and '
        'the status "tolerance not met". The first solution that has an error estimate is always '
        "finished. As long as it takes by default.",
        "seconds", "TIME", "CPU time to spend, such as 30s or 5min; then the best so far is given",
    ),
    "progress": Option(
        "Called with (done, total, text) while solving. By default a bar is shown if somebody is "
        "looking, on a terminal or in a notebook, and the solve takes more than a second; False "
        "keeps silent."
    ),
    "checkpoint": Option(
        "A file that keeps the finished steps, for runs that may be killed. It is removed at the "
        "end. There must be no such file yet, unless ``resume`` says that it is meant."
    ),
    "resume": Option("Go on from what the checkpoint holds, to the same numbers as without the interruption."),
    "threads": Option(
        "How many to use for paths: all cores where there is enough work by default, or what "
        "EQSOLVE_THREADS says, one in the workers of a sweep. The numbers do not depend on it.",
        "whole", "N", "threads for paths; all cores where there is enough work by default",
    ),
    "scheduler": Option(
        "Address of a dask scheduler, such as ``tcp://host:8786``: independent sets of paths are "
        "followed by its workers, to the same numbers. Needs the extra ``distributed``.",
        "text", "ADDRESS", "a dask scheduler, such as tcp://host:8786, to follow paths",
    ),
}  # fmt: skip


def cli_flag(name: str) -> str:
    """Return how an option is written on the command line."""
    return f"--{name.replace('_', '-')}"


def documented(function: F) -> F:
    """Put what the options mean into a docstring, where a line ``{options: a, b, ...}`` stands."""

    def entries(line: re.Match[str]) -> str:
        deep = f"{line[1]}    "
        texts = {name: textwrap.fill(OPTIONS[name].doc, 120, initial_indent=deep, subsequent_indent=deep)
                 for name in re.findall(r"\w+", line[2])}  # fmt: skip
        return "\n".join(f"{line[1]}{name}\n{text}" for name, text in texts.items())

    function.__doc__ = re.sub(r"(?m)^( *)\{options: (.*)\}$", entries, function.__doc__ or "")
    return function


def refuse_idle(model: str, kind: str, given: Iterable[str], spell: Callable[[str], str] = "{}=".format) -> None:
    """Raise for an option that means nothing to a kind of model: times of a fixed point, digits of a dynamics."""
    for name in given:
        kinds = OPTIONS[name].kinds if name in OPTIONS else ()
        if not kinds or kind in kinds:
            continue
        if kinds == ("Singularity",):
            raise UsageError(
                f"{spell(name)} is where a Singularity is searched, and model `{model}` is a {kind}; leave it out"
            )
        why = "has no time" if kinds == _IN_TIME else f"takes no {name}, which is for fixed points and rates"
        raise UsageError(f"{spell(name)}: model `{model}` is a {kind} and {why}; leave it out")
