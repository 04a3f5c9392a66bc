"""Benchmarks: works name models that there are, corners are those that results speak of, papers are judged by their truths."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import eqsolve

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))


def test_named_works_are_of_models_and_observables_that_there_are(benchmarks: None, tmp_path: Path) -> None:
    import paths

    for lines in paths.LINES.values():
        for _, name, options in lines:
            if name == "sweep":
                continue
            if "import" in name:
                called = re.search(r'(?:System|Flow)[(]\s*"(\w+)"', name)
                assert called is not None
                file = tmp_path / f"{called[1]}.py"
                file.write_text(name)
                name = str(file)
            assert set(options.get("observables", ())) <= set(eqsolve.load(name).observables), name
    assert set(paths.BY_HAND) <= set(paths.LINES)


def test_corners_are_drawn_once_and_for_all_and_others_by_a_seed(benchmarks: None) -> None:
    """One of the sixty is the one that a test of late times solves too."""
    import corners

    sixty = corners.corners()
    assert len(sixty) == 60
    assert any((item.alpha, item.delta, item.lam, item.t_max) == (0.909, 0.871, 0.17, 302.0) for item in sixty)
    others = corners.corners(7, 40)
    assert others == corners.corners(7, 40)
    assert not {str(item) for item in others} & {str(item) for item in sixty}


def test_every_part_explains_itself() -> None:
    done = subprocess.run([sys.executable, "benchmarks/paths.py", "fresh", "--help"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--against" in done.stdout


@pytest.mark.slow
def test_models_of_papers_are_judged_by_their_truths(benchmarks: None) -> None:
    import unseen

    assert len(unseen.MODELS) >= 40
    names = ["sk_field", "renewal", "singular_start"]
    done = subprocess.run([sys.executable, "benchmarks/unseen.py", *names], cwd=ROOT, capture_output=True, text=True)
    last = done.stdout.splitlines()[-1]
    assert last == "2 solved, 1 refused rightly, 0 refused, 0 stuck, 0 wrong", done.stdout + done.stderr
