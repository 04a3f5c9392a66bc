"""Wide networks that learn features: jointly normal constants, and means over many of them by sampled points."""

import numpy as np
import pytest
from sympy import Rational

import eqsolve
from eqsolve import (
    E,
    Eq,
    FixedPoint,
    ModelError,
    ParameterError,
    Sum,
    System,
    index,
    param,
    process,
    random,
    table,
    times,
    unknown,
)
from eqsolve.laws import Bernoulli, Normal, Uniform

t = times("t")
k, l = index("k l", 3)  # noqa: E741
K = table("K", k, l)
COVARIANCE = np.array([[2.0, 0.5, -0.3], [0.5, 1.0, 0.2], [-0.3, 0.2, 0.5]])


def moments(law, **given):
    w = random("w", law, k)
    f, g = unknown("f"), unknown("g", positive=True)
    return FixedPoint("moments", eqs=[Eq(f, E(w[0] * w[2])), Eq(g, E(w[1] ** 2))], tables={K: COVARIANCE}, **given)


def test_a_family_is_jointly_normal() -> None:
    """E w_0 w_2 = mean² + factor K_02, E w_1² likewise."""
    s = param("s", positive=True)
    found = eqsolve.solve(moments(Normal(1, s**2 * K[k, l]), defaults={s: 2}))
    assert abs(float(found["f"]) - (1 + 4 * COVARIANCE[0, 2])) < 1e-12
    assert abs(float(found["g"]) - (1 + 4 * COVARIANCE[1, 1])) < 1e-12
    slopes = eqsolve.solve(moments(Normal(0, s**2 * K[k, l]), defaults={s: 2}), derivatives=["s"])
    assert abs(float(slopes.derivative("g", "s")) - 4 * COVARIANCE[1, 1]) < 1e-9


def test_a_family_takes_another_law() -> None:
    """E w_0 w_2 = 1/9 for independent members of mean 1/3, E w_1² = 1/3; as a Python value and as a text."""
    model = moments(Normal(0, K[k, l]))
    for law in (Bernoulli(Rational(1, 3)), "Bernoulli(1/3)"):
        found = eqsolve.solve(model, w=law)
        assert abs(float(found["f"]) - 1 / 9) < 1e-12
        assert abs(float(found["g"]) - 1 / 3) < 1e-12
        assert found.params["w"].startswith("Bernoulli(")
    with pytest.raises(ParameterError, match="takes a law, got the number 3"):
        eqsolve.solve(model, w=3)


@pytest.mark.parametrize(
    ("table_given", "words"),
    [(COVARIANCE - np.eye(3), "below zero"), (COVARIANCE + np.triu(np.ones((3, 3)), 1), "must be symmetric")],
)
def test_what_is_no_covariance(table_given, words) -> None:
    with pytest.raises(ParameterError, match=words):
        eqsolve.solve(moments(Normal(0, K[k, l])), K=table_given)


def test_what_is_no_joint_law() -> None:
    for law in (Uniform(0, K[k, l]), Normal(0, 1 + K[k, l]), Normal(K[k, l], K[k, l] ** 2)):
        with pytest.raises(ModelError, match="jointly normal carries one index and has the law"):
            eqsolve.check(moments(law))


def test_means_over_many_constants() -> None:
    """x_k' = −x_k from jointly normal starts, seven of them: E (Σ x_k)² = e^{−2t} Σ K, by sampled points."""
    i, j = index("i j", 7)
    C, x = table("C", i, j), process("x", i)
    start = random("x_0", Normal(0, C[i, j]), i)
    numbers = 0.5 * np.eye(7) + 0.5
    model = System(
        "decays", eqs=[Eq(x[i](t).diff(t), -x[i](t))], init={x[i]: start[i]}, tables={C: numbers},
        observables={"square": E(Sum(x[i](t), i) ** 2)},
    )  # fmt: skip
    found = eqsolve.solve(model, t_max=0.5, rtol=3e-2)
    truth = np.exp(-2 * found["t"].values) * numbers.sum()
    assert found.status == "ok"
    assert np.all(np.abs(found["square"].values - truth) <= 2 * found.error["square"].values)


# --- The two-layer network.
def width(samples: int, gamma: float, moments: list[float], count: int = 4000, runs: int = 8) -> dict[str, np.ndarray]:
    """Train networks of a finite width by gradient flow (Runge–Kutta steps of 0.02); values per run and moment."""
    (source,) = eqsolve.load("two_layer_features").tables.values()
    gram, target = source.source(samples)
    root = np.linalg.cholesky(gram)
    made: dict[str, list] = {"loss": [], "f": [], "Phi": []}
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        h, z = root @ rng.standard_normal((samples, count)), rng.standard_normal(count)

        def output(h, z):
            return np.tanh(h) @ z / (gamma * count)

        def slope(h, z):
            away = (target - output(h, z))[:, None]
            phi = np.tanh(h)
            return gamma * gram @ (away * (1 - phi**2) * z), gamma * (away * phi).sum(axis=0)

        rows, now = [], 0.0
        for moment in moments:
            steps = round((moment - now) / 0.02)
            for _ in range(steps):
                a = slope(h, z)
                b = slope(h + 0.01 * a[0], z + 0.01 * a[1])
                c = slope(h + 0.01 * b[0], z + 0.01 * b[1])
                d = slope(h + 0.02 * c[0], z + 0.02 * c[1])
                h = h + 0.02 / 6 * (a[0] + 2 * b[0] + 2 * c[0] + d[0])
                z = z + 0.02 / 6 * (a[1] + 2 * b[1] + 2 * c[1] + d[1])
            now = moment
            f = output(h, z)
            rows.append((((target - f) ** 2).mean() / 2, f, np.tanh(h) @ np.tanh(h).T / count))
        for place, name in enumerate(made):
            made[name].append([row[place] for row in rows])
    return {name: np.array(values) for name, values in made.items()}


@pytest.mark.slow
def test_two_layers_against_a_finite_width() -> None:
    """Eight samples, eight networks of width 4,000: outputs, loss and feature kernel within errors."""
    times = [0.2, 0.5, 1.0]
    found = eqsolve.solve("two_layer_features", t_max=1, rtol=4e-2, atol=2e-3, at=times)
    there, runs = found.at(times), width(8, 1.0, times)
    for name in ("loss", "f", "Phi"):
        values = np.moveaxis(runs[name], 1, -1)  # the moments last, as in a result
        spread = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        apart = np.abs(there[name].values - values.mean(axis=0)) / np.sqrt(spread**2 + there[f"{name}_error"].values ** 2)
        assert np.mean(apart**2) < 2
        assert apart.max() < 4.5  # of 9, 24 and 192 numbers with errors from eight runs


@pytest.mark.slow
def test_without_features_it_is_kernel_regression() -> None:
    """γ → 0: f = (1 − e^{−Θt}) y with the kernel Θ at the start; its means by Gauss–Hermite products of two constants."""
    found = eqsolve.solve("two_layer_features", samples=2, gamma=0, t_max=1, rtol=3e-4)
    (source,) = eqsolve.load("two_layer_features").tables.values()
    gram, target = source.source(2)
    x, mass = np.polynomial.hermite_e.hermegauss(120)
    mass = mass / mass.sum()
    first, second = np.einsum("ij,jab->iab", np.linalg.cholesky(gram), np.array(np.meshgrid(x, x, indexing="ij")))
    phi = np.tanh(np.array([first, second]))
    means = [np.einsum("iab,jab,a,b->ij", one, one, mass, mass) for one in (phi, 1 - phi**2)]
    values, vectors = np.linalg.eigh(means[0] + gram * means[1])
    moments = found["t"].values
    truth = target[:, None] - vectors @ (np.exp(-np.outer(values, moments)) * (vectors.T @ target)[:, None])
    assert np.all(np.abs(found["f"].values - truth) <= 3 * found.error["f"].values + 1e-12)
    np.testing.assert_allclose(found["f"].values, truth, atol=2e-4)
