"""What a plan is compiled from: the system as its solver takes it, step by step, for reading."""

from __future__ import annotations

from dataclasses import dataclass

from eqsolve.language.equations import Equation
from eqsolve.language.system import System
from eqsolve.passes.forms.path_form import PathForm, derive_path_form
from eqsolve.passes.rewrite.constraints import Reduction
from eqsolve.passes.rewrite.substitution import Substitution, apply_substitutions, derive_substitutions


@dataclass(frozen=True)
class Derivation:
    """A system as a solver takes it."""

    # the system in its new variables, with explicit equations in place of constraints
    system: System
    reduction: Reduction  # how its constraints became equations
    # the changes of variable declared, and whether they are made
    changes: tuple[Substitution, ...] = ()
    changed: bool = False
    # path equations, means and closed relations; None where a solver takes the equations as they
    # stand
    form: PathForm | None = None

    @property
    def closed(self) -> tuple[Equation, ...]:
        """The equations between kernels and functions."""
        return self.system.equations if self.form is None else (*self.form.kernels, *self.form.functions)


def derive(system: System, reduction: Reduction, *, path: bool, change: bool) -> Derivation:
    """Return how a system is brought to path form, its declared changes of variable made first if asked for."""
    changes = derive_substitutions(system)
    system = apply_substitutions(system, changes) if change else system
    return Derivation(system, reduction, changes, change, derive_path_form(system) if path else None)
