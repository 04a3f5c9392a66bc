"""What would not fit into the machine's memory is not begun: an error names the size, or the last solution is returned."""

import os

import pytest

import eqsolve
from eqsolve.compile.stochastic import EnsemblePlan
from eqsolve.solvers.paths import paths as stochastic_paths


def shrink(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    """Make the machine believe that it has so many bytes of memory."""
    known = os.sysconf
    monkeypatch.setattr(
        os, "sysconf", lambda name: 1 if name == "SC_PAGE_SIZE" else int(size) if name == "SC_PHYS_PAGES" else known(name)
    )


def test_paths_that_do_not_fit_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, 1e4)
    with pytest.raises(eqsolve.SolverError, match=r"paths on .* nodes would need about .* GB .*larger rtol"):
        eqsolve.solve("dln", t_max=2)


def test_more_paths_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points that there is no room for: the solution with fewer, and its error."""
    known, counts = stochastic_paths.check_memory, []

    def look(plan: EnsemblePlan, paths: int, nodes: int) -> None:
        counts.append(paths)
        known(plan, paths, nodes)

    def on_a_small_machine(plan: EnsemblePlan, paths: int, nodes: int) -> None:
        with monkeypatch.context() as patched:
            if paths in largest:
                shrink(patched, 1e4)
            known(plan, paths, nodes)

    moments = [0.5, 1, 2]
    with monkeypatch.context() as patched:
        patched.setattr(stochastic_paths, "check_memory", look)
        exact = eqsolve.solve("dln", t_max=2, rtol=3e-4, observables=["E_test"]).at(moments)
    largest = set(sorted({count for count in counts if count < 4096})[-2:])  # the kept paths, 4096, may be had
    monkeypatch.setattr(stochastic_paths, "check_memory", on_a_small_machine)
    result = eqsolve.solve("dln", t_max=2, rtol=3e-4, observables=["E_test"])
    found = result.at(moments)
    gap = abs(found["E_test"].values - exact["E_test"].values)
    assert (gap <= found["E_test_error"].values + exact["E_test_error"].values).all()
    assert (found["E_test_error"].values >= exact["E_test_error"].values).all()


def test_two_time_functions_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, 1e5)
    monkeypatch.setattr("eqsolve.solvers.two_time.solve._LOOK", 5)
    with pytest.raises(
        eqsolve.SolverError, match=r"two-time functions would need about .* GB of the machine's .* GB; .*shorter time"
    ):
        eqsolve.solve("pspin", t_max=20)


@pytest.mark.slow
def test_what_fits_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels grow with time: what is needed goes by their number, not by the time that is left."""
    result = eqsolve.solve("pspin", t_max=30, rtol=1e-2)
    shrink(monkeypatch, 3 * result.rows.nbytes)  # of which half may be used
    monkeypatch.setattr("eqsolve.solvers.two_time.solve._LOOK", 5)
    assert eqsolve.solve("pspin", t_max=30, rtol=1e-2).status == "ok"
