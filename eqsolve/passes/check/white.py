"""Where white noise may stand: in the equation of a derivative, added, with a coefficient that is the same for all paths.

White noise has no values, only integrals over time. A product of it with a process, and a change of variable, depend on the
sense in which they are integrated.
"""

from collections.abc import Iterator

from sympy import Basic, DiracDelta, ImmutableMatrix, Tuple

from eqsolve.language.equations import Equation
from eqsolve.language.nodes import GP, White
from eqsolve.language.symbols import Process, Random, Value
from eqsolve.language.system import System
from eqsolve.passes.forms.derivatives import partial
from eqsolve.passes.forms.reads import free_times, reads


def white_problems(system: System) -> list[str]:
    """Return what is wrong with the use of white noise, the equations first."""
    found = [problem for equation in system.equations for problem in _equation(equation, system)]
    found += [problem for label, expr in _elsewhere(system) for problem in _read(label, expr, system)]
    found += [*_law_words(system), *_changes(system)]
    return list(dict.fromkeys(found))


def _equation(equation: Equation, system: System) -> Iterator[str]:
    """Yield what is wrong with an equation that reads white noise."""
    rough = [item for item in reads(equation.rhs) if item.value.head in system.whites and item.response != "noise"]
    for name in dict.fromkeys(item.value.head.name for item in rough):
        mine = [item for item in rough if item.value.head.name == name]
        value, label = mine[0].value, equation.label
        if any(item.expected for item in mine):
            yield (
                f"{label} averages the white noise `{value}`, which has no values; average what it drives, or a response, "
                f"E(Resp(x(t), {name}(tp)))"
            )
        elif any(item.response == "output" for item in mine):
            yield f"{label} takes the response of the white noise `{value}`; take that of a process it drives"
        elif not (isinstance(equation.head, Process) and equation.is_differential):
            yield (
                f"{label} gives values by the white noise `{value}`, which has none; it may stand in the equation of a "
                f"derivative, such as Eq(x(t).diff(t), -x(t) + {name}(t))"
            )
        elif any(item.integrals for item in mine):
            yield (
                f"{label} has the white noise `{value}` under an integral; give the integral an equation of its own, such as "
                f"Eq(y(t).diff(t), -y(t) + {name}(t))"
            )
        elif any(item.value.moments != (equation.time,) for item in mine):
            yield f"{label} reads the white noise at another time, `{value}`; expected `{name}({equation.time})`"
        else:
            yield from _coefficient(equation, value, system)


def _coefficient(equation: Equation, value: Value, system: System) -> Iterator[str]:
    weight, name = partial(equation.rhs, value), value.head.name
    if weight.has(value):
        yield f"{equation.label} is not linear in the white noise `{value}`; its powers and functions have no meaning"
    elif weight.atoms(Random) or any(isinstance(item.head, Process) for item in weight.atoms(Value)):
        sense = f" in the sense of {told.capitalize()}" if (told := system.laws[value.head].sense) else ""
        yield (
            f"{equation.label} multiplies the white noise `{value}` by `{weight}`, which differs between paths; no solver "
            f"integrates such a product yet{sense}: write the equation of a variable whose noise is additive, such as log(x) "
            f"for a noise x(t)*{name}(t)"
        )


def _elsewhere(system: System) -> Iterator[tuple[str, Basic]]:
    """Yield what else may read a noise, with how messages name it."""
    for name, expr in system.observables.items():
        yield f"observable `{name}` ({system.location})", expr
    for key, law in system.laws.items():
        label = (
            f"the law of {', '.join(f'`{item}`' for item in (key if isinstance(key, Tuple) else (key,)))} ({system.location})"
        )
        for part in law.args if isinstance(law, GP | White) else ():
            yield label, part
    for key, value in system.init.items():
        if isinstance(value, Basic):
            yield f"the initial value of `{key}` ({system.location})", value


def _read(label: str, expr: Basic, system: System) -> Iterator[str]:
    for item in reads(expr):
        if item.value.head in system.whites and item.response != "noise":
            yield (
                f"{label} reads the white noise `{item.value}`, which has no values; it may stand in the equation of a "
                "derivative, added to the rest"
            )


def _law_words(system: System) -> Iterator[str]:
    for key, law in system.laws.items():
        members = list(key) if isinstance(key, Tuple) else [key]
        label = f"the law of {', '.join(f'`{item.name}`' for item in members)} ({system.location})"
        if isinstance(law, GP) and law.covariance.has(DiracDelta):
            entries = law.covariance if isinstance(law.covariance, ImmutableMatrix) else [law.covariance]
            entry = next(item for item in entries if item.has(DiracDelta))
            (node, *_) = entry.atoms(DiracDelta)
            how = f"laws={{{members[0].name}: White({entry / node})}}" if entry.coeff(node) == entry / node else "White(...)"
            yield (
                f"{label} has a Dirac function in its covariance, `{entry}`; white noise is declared by {how}, as a process "
                "of its own"
            )
        if isinstance(law, White) and len(free_times(law.strength)) > 1:
            yield f"{label} has a strength `{law.strength}` in more than one time; expected a function of one time"


def _changes(system: System) -> Iterator[str]:
    """White noise under a change of variable, or beside a constraint: both rest on the ordinary chain rule."""
    driven = {eq.head: eq for eq in system.equations if any(value.head in system.whites for value in eq.rhs.atoms(Value))}
    for head in system.substitute:
        if head in driven:
            yield (
                f"{driven[head].label} is driven by white noise, for which the change of variable `{head.name} = "
                f"{system.substitute[head]}` does not obey the ordinary chain rule; leave it out of substitute="
            )
    if driven and system.constraints:
        (first, *_) = system.constraints
        where = f"the constraint that fixes `{first.name}` ({system.location})"
        yield f"{where} stands beside white noise, which is not solved yet"
