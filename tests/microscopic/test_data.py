"""Where features and constants come from."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy import Rational

import eqsolve
from eqsolve import UsageError
from eqsolve.laws import Bernoulli, GaussBernoulli, Normal, Rademacher, StudentT, Uniform
from eqsolve.microscopic.data import read_data
from eqsolve.numerics.constants import draw_law


@pytest.mark.parametrize("given", ["gaussian", "binary", "student_t", "Uniform(0, 3)", Bernoulli(0.3), StudentT(7)])
def test_entries_have_mean_zero_and_variance_one_over_d(given: object) -> None:
    n, d = 200, 300
    matrix = read_data(given).draw(np.random.default_rng(0), n, d)
    assert matrix.shape == (n, d)
    assert matrix.flags.c_contiguous
    # n d = 60000 entries: the mean has a standard error of 0.004/√d, the variance of at most 3%
    assert abs(matrix.mean() * d**0.5) < 0.02
    assert matrix.var() * d == pytest.approx(1, abs=0.12)


def test_binary_entries_are_signs() -> None:
    matrix = read_data("binary").draw(np.random.default_rng(0), 50, 64)
    assert set(np.unique(matrix)) == {-0.125, 0.125}


def test_a_matrix_is_used_as_it_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((20, 40)) / 40**0.5
    flow = eqsolve.load("dln_flow")
    run = flow.simulate(data=matrix, at=[1.0])
    assert (run.n, run.d, run.params["delta"]) == (20, 40, 0.5)
    np.save(tmp_path / "x.npy", matrix)
    np.savetxt(tmp_path / "x.csv", matrix, delimiter=",", fmt="%.17g")
    for name in ("x.npy", "x.csv"):
        again = flow.simulate(data=str(tmp_path / name), at=[1.0])
        assert again.values["E_test"][0, 0] == run.values["E_test"][0, 0]
        assert again.data == str(tmp_path / name)
    with pytest.raises(UsageError, match="40 columns, but d = 41"):
        flow.simulate(41, data=matrix, at=[1.0])
    with pytest.raises(UsageError, match=r"20 × 40, so delta = 0\.5, but delta = 2"):
        flow.simulate(data=matrix, at=[1.0], delta=2)
    flow.simulate(data=matrix, at=[0.1], delta=Rational(1, 2))


def test_wrong_data_is_explained(tmp_path: Path) -> None:
    broken = np.ones((3, 4))
    broken[1, 2] = np.nan
    with pytest.raises(UsageError, match="row 2, column 3 holds nan"):
        read_data(broken)
    np.save(tmp_path / "nan.npy", broken)
    with pytest.raises(UsageError, match=r"nan\.npy.*row 2, column 3"):
        read_data(str(tmp_path / "nan.npy"))
    (tmp_path / "text.csv").write_text("once, upon\na, time\n")
    with pytest.raises(UsageError, match=r"text\.csv.*does not hold a matrix of numbers"):
        read_data(str(tmp_path / "text.csv"))
    (tmp_path / "ragged.csv").write_text("1 2 3\n4 5\n")
    with pytest.raises(UsageError, match="rows of equal length"):
        read_data(str(tmp_path / "ragged.csv"))
    with pytest.raises(UsageError, match=r"n × d matrix, got an array of shape \(3,\)"):
        read_data(np.ones(3))
    (tmp_path / "bad.npy").write_bytes(b"not numpy at all")
    with pytest.raises(UsageError, match="does not hold a matrix"):
        read_data(str(tmp_path / "bad.npy"))
    with pytest.raises(UsageError, match="did you mean `binary`"):
        read_data("binari")
    with pytest.raises(UsageError, match="finite positive"):
        read_data(StudentT(2))


def test_a_matrix_of_another_scale_is_remarked_on(caplog: pytest.LogCaptureFixture) -> None:
    read_data(np.random.default_rng(0).standard_normal((30, 50)))
    assert "variance 1/d" in caplog.text


@pytest.mark.parametrize("law", [Bernoulli(0.1), Rademacher(0.3), Normal(0, 2), GaussBernoulli(0.2, 3), Uniform(-1, 2)])
def test_exact_constants_have_the_moments_of_their_law(law: Any) -> None:
    numbers = law.numeric()
    values = draw_law(numbers, 1000, np.random.default_rng(0), "exact")
    nodes, weights = numbers.rule(60)
    assert len(values) == 1000
    # a quantile carries the noise of 64 draws, so a mean of 1000 has an error of 1/√64000 ≈ 0.4% at most
    assert values.mean() == pytest.approx(weights @ nodes, abs=0.02)
    assert np.mean(values**2) == pytest.approx(weights @ nodes**2, rel=0.03)
    if not numbers.has_density:
        assert np.mean(values != 0) == pytest.approx(float(law.args[0]), abs=1e-12)
    assert abs(np.corrcoef(values, np.arange(1000))[0, 1]) < 0.15  # in random order


def test_joint_samples_are_drawn_together() -> None:
    from eqsolve import E, Flow, field, gradient, param, random, state
    from eqsolve.laws import Empirical

    delta = param("delta", positive=True)
    a, b = random("a b", Empirical([[1, 2], [3, 6], [-2, -4]]))
    w, f, g = state("w"), field("f"), gradient("g")
    flow = Flow("joint", state={w: a}, weights=[w], fields=[f], loss_gradient=[f], gradients=[g], drift={w: -g * b},
                defaults={delta: 1}, observables={"gap": E((b - 2 * a)**2), "f2": E(f**2)})  # fmt: skip
    assert flow.simulate(50, at=[0.1]).values["gap"][0, 0] == 0
    assert flow.simulate(50, at=[0.1], constants="exact").values["gap"][0, 0] == 0
