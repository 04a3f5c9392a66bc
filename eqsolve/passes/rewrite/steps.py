"""Discrete time: noises without memory become Gaussian processes uncorrelated from step to step.

With steps of length h, white noise of strength S, held during a step, has the variance S/h.
"""

from typing import Any

from sympy import KroneckerDelta

from eqsolve.language.laws import Normal, Resampled
from eqsolve.language.model import Table
from eqsolve.language.nodes import GP, White
from eqsolve.language.symbols import Parameter, Time
from eqsolve.language.system import System

STEP = Parameter("step", positive=True)
"""The length of a step, which the option of the same name sets."""


def put_in_steps(system: System) -> System:
    """Return a system for discrete time; its step is ``STEP`` unless it has one of its own."""
    length: Any = STEP if system.step is None else system.step
    times = sorted(system.time_symbols, key=lambda item: (len(item.name), item.name))
    running = [eq.time for eq in system.equations if eq.time is not None]
    t = running[0] if running else Time("t")
    other = next((item for item in times if item != t and item.name == f"{t.name}'"), Time("t'" if t.name != "t'" else "t1"))
    apart = KroneckerDelta(t, other)
    laws: dict[Any, Any] = {}
    for noise, law in system.laws.items():
        match law:
            case White():
                clocks = {item: t for item in law.strength.free_symbols if isinstance(item, Time)}
                laws[noise] = GP(law.strength.xreplace(clocks) / length * apart)
            case Resampled(law=Normal(args=(mean, variance))):
                laws[noise] = GP(variance * apart, mean)
            case _:
                laws[noise] = law
    return system if laws == dict(system.laws) else system._with(laws=Table(laws), step=length)
