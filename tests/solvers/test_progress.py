"""The share of the work that a solver or a simulation reports goes from nothing to the end, and is spread over the work."""

import re
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


def test_the_time_of_large_ensembles_is_predicted() -> None:
    """Of so many paths, then as many more as a step allows until there are enough: a sum that can be done by hand."""
    from eqsolve.solvers.paths.ensembles import predict_seconds

    assert predict_seconds(1000, 1000, 8, 0.01, 3.0) == 13.0
    assert predict_seconds(1000, 500, 8, 0.01, 3.0) == 13.0
    assert predict_seconds(1000, 20_000, 8, 0.01, 3.0) == (10 + 3) + (80 + 3) + (200 + 3)


def test_a_long_solve_says_how_long_it_will_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine whose clock runs a thousand times as fast, as if everything took so much longer."""
    import time

    known, texts = time.perf_counter, []
    monkeypatch.setattr(time, "perf_counter", lambda: 1000 * known())
    options = {"batch": 0.5, "step": 0.2, "t_max": 2, "rtol": 0.1}
    eqsolve.solve("dln_sgd", progress=lambda done, total, text: texts.append(text), **options)
    assert any(re.fullmatch(r"8 samples of \d+ paths, about \d+ (min|h \d+ min) left", text) for text in texts)


def test_a_prediction_is_a_share_of_the_whole() -> None:
    from eqsolve.solvers.options import Options

    told = []
    options = Options.make(progress=lambda done, total, text: told.append((done / total, text)), t_max=2).begun()
    options.foresee(30.0, "samples")
    options.foresee(300.0, "samples")
    assert [text for _, text in told] == ["samples", "samples, about 5 min left"]
    assert all(0 <= share < 0.1 for share, _ in told)
