"""Huge, tiny and impossible numbers; the same bits twice; other thread counts within the error bars."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import eqsolve
from eqsolve.cli import main

from .conftest import listing, time_limit

ROOT = Path(eqsolve.__file__).resolve().parents[1]
VALUES = ["nan", "inf", "-inf", "0", "-1", "1e-320", "1e-300", "1e-12", "1e6", "1e150", "1e300", "1e308"]


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", ["k", "b"])
def test_extreme_parameters(name: str, value: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    before = listing(folder)
    with time_limit(f"{name}={value}"):
        code = main(["solve", "decay", "--set", f"{name}={value}", "--at", "0.5,1", "--json"])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    assert listing(folder) == before
    if value in ("nan", "inf", "-inf", "-1") or (value, name) == ("0", "k"):
        assert code == 2
        return
    assert code in (0, 1)
    if code == 0 and name == "k":  # E w² = E a² exp(−2kt)
        made = json.loads(out)
        for moment, size, error in zip(made["t"], made["values"]["size"], made["errors"]["size"], strict=True):
            assert abs(size - 0.25 * math.exp(-2 * float(value) * moment)) <= error + 1e-300


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e-400", "1e400", "x", ""])
@pytest.mark.parametrize("option", ["--t-max", "--rtol"])
def test_extreme_options(option: str, text: str, folder: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["solve", "decay", f"{option}={text}"]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_same_seed_same_bits(folder: Path) -> None:
    first, second = (eqsolve.solve("decay", t_max=2, b=0.3, seed=7) for _ in range(2))
    assert first.dataset.identical(second.dataset)


CODE = """
import sys, eqsolve
res = eqsolve.solve("dln", t_max=1, seed=3, rtol=1e-2)
res.save(sys.argv[1])
"""


@pytest.mark.slow
def test_a_stochastic_solve_gives_the_same_bits_and_other_threads_agree(tmp_path: Path) -> None:
    made = []
    for number, threads in enumerate(("1", "1", "2")):
        limits = {name: threads for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
        env = os.environ | {"PYTHONPATH": str(ROOT), **limits}
        subprocess.run([sys.executable, "-c", CODE, str(tmp_path / f"{number}.nc")], check=True, env=env, timeout=300)
        made.append(eqsolve.open(tmp_path / f"{number}.nc"))
    one, again, two = made
    assert one.dataset.identical(again.dataset)
    moments = np.linspace(0, 1, 20)
    left, right = one.at(moments), two.at(moments)
    for name in ("E_test", "E_train"):
        allowed = left[f"{name}_error"] + right[f"{name}_error"]
        assert (np.abs(left[name] - right[name]) <= allowed).all()
