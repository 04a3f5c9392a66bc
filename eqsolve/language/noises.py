"""Laws of driving processes beside `GP` and `White`: a telegraph signal, and a fresh draw at every step."""

from __future__ import annotations

from typing import Any

from sympy import Basic, Expr

from eqsolve.errors import ModelError
from eqsolve.language.laws import Law
from eqsolve.language.nodes import NoiseLaw
from eqsolve.language.source import here
from eqsolve.language.symbols import Process, as_expression, part


class Telegraph(NoiseLaw):
    """Law of a signal that is 0 or 1: ``Telegraph(b, tau)`` is 1 with probability b.

    Its covariance is ``b (1 − b) exp(−|t − t'|/tau)``.

    A sample whose signal is 1 is in the batch; it stays there for a time tau/(1 − b) on average.
    """

    share: Expr = part(0)
    time: Expr = part(1)

    def __new__(cls, b: Any, tau: Any) -> Telegraph:
        share, time = as_expression(b, "Telegraph"), as_expression(tau, "Telegraph")
        if share.is_number and not (share.is_real and 0 <= share <= 1):
            raise ModelError(f"{here()}Telegraph(b, tau) takes a probability b from 0 to 1, got `{share}`")
        if time.is_number and not (time.is_real and time.is_finite and time > 0):
            raise ModelError(f"{here()}Telegraph(b, tau) takes a positive time tau, got `{time}`")
        obj: Telegraph = Basic.__new__(cls, share, time)
        return obj


class Resampled(NoiseLaw):
    """Law of a noise that is drawn afresh at every step of discrete time: ``Resampled(Bernoulli(b))``.

    It has a meaning with the option ``step=`` only.
    """

    law: Law = part(0)

    def __new__(cls, law: Any) -> Resampled:
        if not isinstance(law, Law) or law.dimension != 1:
            raise ModelError(
                f"{here()}Resampled takes the law of one draw, such as Bernoulli(0.2) or Normal(0, 1); got {law!r}"
            )
        obj: Resampled = Basic.__new__(cls, law)
        return obj


IN_STEPS = (Resampled, Telegraph)
"""Laws of noises that are followed in discrete time only."""


def shown_key(key: Any) -> str:
    """Return a key that is not what was expected, with the way out where it is the name of something."""
    return f"{key!r}, a text; use what is declared, {key}, without quotes" if isinstance(key, str) else f"`{key}`"


def read_noise_law(member: Any, law: Any, where: Any) -> Any:
    """Return the law of one process; raise when it is none."""
    if not isinstance(member, Process):
        raise ModelError(
            f"{where}: laws= maps processes to GP(...) or White(...), in discrete time also to Telegraph(...) or "
            f"Resampled(...); got the key {shown_key(member)}"
        )
    if not (law is None or isinstance(law, NoiseLaw)):
        raise ModelError(
            f"{where}: the law of the process `{member}` must be GP(covariance) or White(strength), in discrete time also "
            f"Telegraph(b, tau) or Resampled(law), got `{law}`; a random constant is declared by random()"
        )
    return law
