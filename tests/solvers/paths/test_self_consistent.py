"""The start by a self-consistent ensemble, where few points have none: against the closed form of the lazy limit."""

from __future__ import annotations

import numpy as np
import pytest

import eqsolve
from eqsolve.errors import SolverError
from eqsolve.spectra import MarchenkoPastur


def test_lazy_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large α: E_test = E w*² ∫ e^{−2xα²t} dμ(x) over the Marchenko–Pastur law, right to α⁻⁴."""

    def fails(*_: object) -> None:
        raise SolverError("not with few points")

    monkeypatch.setattr("eqsolve.solvers.paths.solve.start", fails)
    alpha, delta = 200.0, 0.5
    end = 3.0 / alpha**2
    result = eqsolve.solve(
        "dln", alpha=alpha, delta=delta, w_star="Normal(0, 1)", t_max=end, rtol=1e-2, observables=["E_test"]
    )
    times = np.linspace(0.1, 1.0, 7) * end
    eigenvalues, weights = MarchenkoPastur(delta).quadrature(400)
    truth = np.exp(-2 * np.multiply.outer(times, eigenvalues) * alpha**2) @ weights
    found = result.at(times)
    assert result.status == "ok"
    assert (np.abs(found["E_test"].values - truth) <= np.minimum(3 * found["E_test_error"].values, 1e-2 * truth)).all()
