"""Plans: a model compiled once, for all values of its parameters that leave its structure as it is."""

from __future__ import annotations

from typing import Any

from eqsolve.compile.stochastic import StochasticPlan, compile_stochastic
from eqsolve.language.binding import Binding
from eqsolve.language.system import System
from eqsolve.passes.forms.path_form import derive_path_form
from eqsolve.passes.forms.structure import choosing_parameters, structural_values
from eqsolve.passes.rewrite.substitution import apply_substitutions

_PLANS: dict[Any, Any] = {}


def stochastic_plan(binding: Binding, discrete: bool) -> tuple[StochasticPlan, dict[str, Any]]:
    system = binding.model
    assert isinstance(system, System)
    put = structural_values(choosing_parameters(system), binding.values)
    key = (system, tuple(put.items()), discrete)
    if key not in _PLANS:
        changed = system if discrete else apply_substitutions(system)  # exact in continuous time only
        form = derive_path_form(changed.subs(put))
        _PLANS[key] = compile_stochastic(form, [item for item in system.parameters if item not in put]), form.laws
    plan, more = _PLANS[key]
    laws = {item.name: law for item, law in binding.laws.items()}
    laws |= {item.name: law.subs(dict(binding.values)) for item, law in more}
    return plan, laws
