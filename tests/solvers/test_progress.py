"""The share of the work that a solver or a simulation reports goes from nothing to the end, and is spread over the work."""

from collections.abc import Callable

import numpy as np
import pytest

import eqsolve


def _solve(model: str, **options: object) -> Callable[[object], object]:
    return lambda report: eqsolve.solve(model, progress=report, **options)


WORKS = {
    "ode": _solve("dln_infinite_data", t_max=5),
    "two_time": _solve("pspin", t_max=10),
    "gaussian": _solve("rnn", t_max=10),
    "stochastic": _solve("dln", t_max=5, rtol=1e-2),
    "operators": _solve("dln_lazy", t_max=50, kernels=False),
    "simulation": lambda report: eqsolve.load("linear_flow").simulate(50, seeds=2, t_max=3, progress=report),
    "validation": lambda report: eqsolve.validate("linear_flow", d=40, seeds=3, at=[1.0, 2.0], progress=report),
}


@pytest.mark.parametrize("work", WORKS)
def test_every_work_goes_from_nothing_to_the_end(work: str) -> None:
    shares: list[float] = []
    WORKS[work](lambda done, total, text: shares.append(done / total))
    assert min(shares) >= 0
    assert max(shares) <= 1 + 1e-9
    assert max(shares) >= 0.75
    if len(shares) > 20:  # spread over the work, not all at its end
        assert np.median(np.maximum.accumulate(shares)) < 0.95
