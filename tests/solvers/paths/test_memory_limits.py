"""What would not fit into the machine's memory is not begun: an error names the size, or the last solution is returned."""

import builtins
import operator
import os
from pathlib import Path

import pytest

import eqsolve
from eqsolve.compile.stochastic import EnsembleProgram
from eqsolve.numerics import backend
from eqsolve.solvers.paths import follow as stochastic_paths


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

    def look(plan: EnsembleProgram, paths: int, nodes: int) -> None:
        counts.append(paths)
        known(plan, paths, nodes)

    def on_a_small_machine(plan: EnsembleProgram, paths: int, nodes: int) -> None:
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


@pytest.mark.slow
def test_steps_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, 1e6)
    with pytest.raises(eqsolve.SolverError, match=r"1024 paths over 11 steps would need about .* GB .*larger rtol"):
        eqsolve.solve("dln_sgd", batch=0.5, step=0.2, t_max=2)


@pytest.mark.slow
def test_the_memory_of_a_sample_in_steps_is_not_underestimated(monkeypatch: pytest.MonkeyPatch) -> None:
    import tracemalloc

    from eqsolve.solvers.paths.steps import solve as steps

    known, stated, seen = steps.draw_sample, [], []

    def watched(*given):  # type: ignore[no-untyped-def]
        tracemalloc.start()
        made = known(*given)
        seen.append(tracemalloc.get_traced_memory())
        tracemalloc.stop()
        return made

    monkeypatch.setattr(steps, "draw_sample", watched)
    monkeypatch.setattr(steps, "demand_memory", lambda needed, what: stated.append(needed))
    eqsolve.solve("dln_sgd", batch=0.5, step=0.1, t_max=2, rtol=0.2, threads=1)
    stays, peak = seen[-2]  # the last keeps some of its paths
    assert peak < stated[-1] < 3 * peak
    assert stays < 0.1 * peak


def test_two_time_functions_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    shrink(monkeypatch, 1e5)
    with pytest.raises(
        eqsolve.SolverError, match=r"two-time functions would need about .* GB of the .* GB that are free; .*shorter time"
    ):
        eqsolve.solve("pspin", t_max=20)


@pytest.mark.slow
def test_what_fits_is_not_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels grow with time: what is needed goes by their number, not by the time that is left."""
    result = eqsolve.solve("pspin", t_max=30, rtol=1e-2)
    shrink(monkeypatch, 3 * result.rows.nbytes)  # of which half may be used
    assert eqsolve.solve("pspin", t_max=30, rtol=1e-2).status == "ok"


def test_a_batch_job_has_what_its_control_group_leaves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Files as the system shows them: the limit of an outer group counts, of either version; the memory of files is free."""
    files = {
        "/proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n",
        "/proc/self/cgroup": "4:memory:/batch/job_7\n1:cpu:/\n0::/batch/job_7\n",
        "/sys/fs/cgroup/batch/job_7/memory.max": "max\n",
        "/sys/fs/cgroup/batch/memory.max": "5000000\n",
        "/sys/fs/cgroup/batch/memory.stat": "anon 1000000\nfile 3500000\n",
        "/sys/fs/cgroup/memory/batch/job_7/memory.limit_in_bytes": "7000000\n",
        "/sys/fs/cgroup/memory/batch/job_7/memory.stat": "rss 5\ntotal_rss 500000\n",
    }
    for name, text in files.items():
        target = tmp_path / name[1:]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    known = builtins.open
    monkeypatch.setattr(builtins, "open", lambda name, *rest, **more: known(f"{tmp_path}{name}", *rest, **more))
    monkeypatch.setattr(Path, "read_text", lambda path, **_: known(f"{tmp_path}{path}").read())
    monkeypatch.setattr(backend, "_installed", lambda: 9e6)
    backend._free.cache_clear()
    assert backend.memory() == 4e6  # of 5 MB, one is taken
    (tmp_path / "sys/fs/cgroup/batch/memory.max").write_text("max\n")
    backend._free.cache_clear()
    assert backend.memory() == 6.5e6
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    backend._free.cache_clear()
    assert backend.memory() == 8000 * 1024
    (tmp_path / "proc/meminfo").unlink()
    backend._free.cache_clear()
    assert backend.memory() == 9e6
    backend._free.cache_clear()


@pytest.mark.slow
def test_large_ensembles_need_room_for_few_paths_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are followed some at a time: with room for few of them the tolerance is met all the same, and none is refused."""
    options = {"t_max": 4, "rtol": 1e-2, "at": [1, 2, 4]}
    whole = eqsolve.solve("soft_spin", **options)
    asked: dict[str, float] = {}
    known = stochastic_paths.demand_memory
    record = lambda needed, what: asked.update({what: needed}) or known(needed, what)  # noqa: E731
    monkeypatch.setattr(stochastic_paths, "demand_memory", record)
    shrink(monkeypatch, 26e6)  # 9 kB a path: all at once would not fit, nor the sample that results keep
    small = eqsolve.solve("soft_spin", **options)
    assert small.status == "ok"
    assert max(needed for what, needed in asked.items() if not what.startswith("4096 paths")) < 0.5 * backend.memory()
    names = [name for name in whole.names if whole[name].dims == ("t",)]
    found, truth = small.at(options["at"]), whole.at(options["at"])
    for name in names:
        gap = abs(found[name].values - truth[name].values)
        assert (gap <= found[f"{name}_error"].values + truth[f"{name}_error"].values).all(), name


@pytest.mark.slow
def test_the_memory_of_a_path_is_not_underestimated() -> None:
    """What a large set takes at most, by the allocator's own count."""
    import tracemalloc

    from eqsolve.solvers.paths import ensembles

    known, seen = ensembles.sweep_set, []

    def watched(engine, levels, design, before=None):  # type: ignore[no-untyped-def]
        tracemalloc.start()
        made = known(engine, levels, design, before)
        nodes, counts = levels[0][0].size, [item.unknowns.shape[-1] for item in made[1]]
        sizes = [stochastic_paths.bytes_of(plan, nodes) for plan in engine.program.ensembles]
        seen.append((sum(map(operator.mul, sizes, counts)), *tracemalloc.get_traced_memory()))
        tracemalloc.stop()
        return made

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ensembles, "sweep_set", watched)
        eqsolve.solve("relu_student", t_max=2, rtol=2e-2)
    stated, stays, peak = max(seen)
    assert peak < stated < 3 * peak
    assert stays < 0.25 * peak  # for the next sweep of the same points; the rest is given back
