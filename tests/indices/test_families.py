"""Models with indices on arrays and written out, against each other and against independent numbers."""

import time

import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from sympy import Piecewise

import eqsolve
from eqsolve import GP, E, Eq, System, function, index, times
from eqsolve.laws import Normal
from eqsolve.passes.rewrite.indices import expand, sized, table_arrays

# Percus–Yevick hard spheres on this grid (Franosch et al. 1997; solved to 1e-12 by an independent iteration)
PLATEAUS = {3: 0.5787461389, 8: 0.5804717523, 17: 0.9436550072, 18: 0.9297674938, 30: 0.7300798538, 60: 0.2492554916}


@pytest.mark.slow
def test_plateaus_of_hard_spheres() -> None:
    found = eqsolve.solve("mct_hard_spheres_plateau", eta=0.53)
    for place, value in PLATEAUS.items():
        assert abs(float(found["f"][place]) - value) < 2e-10
    assert found.stats["residual"] < 1e-12


def test_arrays_and_members_written_out_agree() -> None:
    model = sized(eqsolve.load("mct_hard_spheres"), {"wave_numbers": 4})
    arrays, _rest = table_arrays(model, {"eta": 0.5, "wave_numbers": 4})
    arrays["V"] = arrays["V"] * 200  # so few wave numbers are hardly coupled
    written = expand(model)
    plain = eqsolve.solve(written.model, t_max=1e3, rtol=1e-4, **written.settings(arrays))
    found = eqsolve.solve("mct_hard_spheres", wave_numbers=4, eta=0.5, V=arrays["V"], t_max=1e3, rtol=1e-4)
    moments = [1e-3, 0.1, 1.0, 30.0, 1e3]
    for place in range(4):
        one, other = plain.at(moments), found.at(moments)
        room = one[f"phi_{place}_error"].values + other[f"phi_{place}_error"].values
        assert np.all(np.abs(one[f"phi_{place}"].values - other[f"phi_{place}"].values) <= 3 * room + 1e-13)


@pytest.mark.slow
def test_the_glass_stays_at_its_plateau() -> None:
    """At η = 0.55 the correlators of forty wave numbers end where the fixed point says."""
    dynamics = eqsolve.solve("mct_hard_spheres", eta=0.55, wave_numbers=40, t_max=1e4, rtol=1e-4)
    plateau = eqsolve.solve("mct_hard_spheres_plateau", eta=0.55, wave_numbers=40)
    assert float(plateau["f"][17]) > 0.9
    error = dynamics.error["phi"][:, -1].values
    assert np.all(np.abs(dynamics["phi"][:, -1].values - plateau["f"].values) <= 3 * error + 1e-10)


@pytest.mark.slow
def test_a_tagged_particle_diffuses() -> None:
    """Its displacement grows as Einstein's relation says, D = 1/(1 + ∫ friction); the liquid does not feel it."""
    settings = {"eta": 0.4, "wave_numbers": 20, "t_max": 1e3, "rtol": 1e-4}
    found = eqsolve.solve("mct_tagged_particle", **settings)
    moments, friction = found["t"].values, found["friction"].values
    t, s = eqsolve.times("t s")
    whole = found.observe(eqsolve.Int(eqsolve.function("friction")(s), (s, 0, t)))[-1].item()
    late = found.at([500.0, 1000.0])["msd"].values
    assert (late[1] - late[0]) / 3000 == pytest.approx(1 / (1 + whole), rel=1e-8)
    assert friction[-1] < 1e-8 * friction[0]
    alone = eqsolve.solve("mct_hard_spheres", **settings)
    room = found.error["phi"][:, -1].values.max() + alone.error["phi"].values.max()
    there = alone.at(moments[moments > 0])["phi"].values
    assert np.abs(found["phi"].values[:, moments > 0] - there).max() <= 3 * room


def test_populations_are_those_of_two() -> None:
    """Two populations written by hand, `rnn_ei`."""
    spread, mean = np.array([[1, 1.5], [1, 1]]), np.array([[1, -1.5], [1.2, -1]])
    found = eqsolve.solve("rnn_populations", populations=2, g=spread, J=mean, h=[0.5, 0.3], t_max=2, rtol=1e-5)
    other = eqsolve.solve("rnn_ei", t_max=2, rtol=1e-5)
    for place, name in enumerate(("q_e", "q_i")):
        np.testing.assert_allclose(found["q"][place], other[name], rtol=1e-10)


@pytest.mark.slow
def test_four_populations_against_finite_networks() -> None:
    """Eight networks of 4 × 500 neurons by Heun's method: second moments and mean rates within 4.5 standard errors."""
    moments, step, count = [0.5, 1.0, 2.0], 0.02, 500
    found = eqsolve.solve("rnn_populations", t_max=2, rtol=1e-3, at=moments).at(moments)
    (source,) = eqsolve.load("rnn_populations").tables.values()
    spread, mean, inputs = source.source(4)
    runs = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        couplings = np.kron(spread, np.ones((count, count))) * rng.standard_normal((4 * count, 4 * count)) / np.sqrt(count)
        couplings += np.kron(mean, np.ones((count, count))) / count
        x, rows = rng.standard_normal(4 * count), []

        def slope(x, couplings=couplings):
            return -x + np.repeat(inputs, count) + couplings @ np.tanh(x)

        for number in range(1, round(moments[-1] / step) + 1):
            first = slope(x)
            x = x + step / 2 * (first + slope(x + step * first))
            if any(abs(number * step - moment) < step / 2 for moment in moments):
                rows.append([(x**2).reshape(4, -1).mean(axis=1), np.tanh(x).reshape(4, -1).mean(axis=1)])
        runs.append(rows)
    means, errors = np.mean(runs, axis=0), np.std(runs, axis=0, ddof=1) / np.sqrt(8)
    for place, name in enumerate(("q", "r")):
        apart = np.abs(found[name].values.T - means[:, place]) / np.hypot(errors[:, place], found[f"{name}_error"].values.T)
        assert apart.max() < 4.5  # of twelve, with errors from eight runs


def test_numbers_of_a_table_are_not_set_one_by_one() -> None:
    """They were taken and ignored."""
    for solve in (eqsolve.solve, eqsolve.stationary):
        with pytest.raises(eqsolve.ParameterError, match="is one number of the table `h`, which is set as a whole"):
            solve("rnn_populations", populations=2, h_1=3.0, **({"t_max": 1} if solve is eqsolve.solve else {}))


def test_paths_of_populations_are_kept_apart(tmp_path) -> None:
    """What is averaged has the index; paths of different members are not stacked; pictures, times and sweeps work."""
    found = eqsolve.solve("rnn_populations", populations=2, t_max=1, rtol=1e-2, kernels=True)
    assert found["q"].dims == ("a", "t")
    assert "x" not in found.families
    assert found.at([0.5])["q"].shape == (2, 1)
    there = found.at([0.5])
    assert {"x_0", "x_1"} <= set(there)
    both = np.corrcoef(there["x_0"].values[:, 0], there["x_1"].values[:, 0])
    assert abs(both[0, 1]) < 4 / np.sqrt(there.sizes["path"])  # four standard errors of independent ones
    assert found.at2([(1.0, 0.5)])["C"].shape == (2, 1)
    assert len(found.plot("q").lines) == 2
    swept = eqsolve.sweep("rnn_populations", gain=[0.5, 1.0], populations=2, at=[1.0], rtol=1e-2)
    assert swept["q"].dims == ("a", "gain", "t")
    np.testing.assert_allclose(swept["q"][:, 1, 0], found["q"][:, -1], rtol=1e-2)


def test_noises_joint_over_an_index() -> None:
    """u_k = a_k ξ (1 + t) with one ξ for both: z' = −z + u gives z_k = a_k ξ t, and E z_0 z_1 = a_0 a_1 t²."""
    t, tp = eqsolve.times("t t'")
    k, l = eqsolve.index("k l", 2)  # noqa: E741
    a, w = eqsolve.table("a", k), eqsolve.random("w", Normal(0, 1))
    x, u, z = eqsolve.process("x u z", k)
    C, Z = eqsolve.correlation("C Z", k, l)
    model = System(
        "joint",
        eqs=[
            Eq(x[k](t).diff(t), a[k] * w),
            Eq(C[k, l](t, tp), E(x[k](t) * x[l](tp))),
            Eq(z[k](t).diff(t), -z[k](t) + u[k](t)),
            Eq(Z[k, l](t, tp), E(z[k](t) * z[l](tp))),
        ],
        laws={u[k]: GP(C[k, l](t, tp))},
        init={x[k]: a[k] * w, z[k]: 0},
        tables={a: [1.0, -0.5]},
        observables={"across": Z[0, 1](t, t), "own": Z[1, 1](t, t)},
    )
    found = eqsolve.solve(model, t_max=2, rtol=1e-6)
    assert float(found["across"][-1]) == pytest.approx(-2.0, rel=1e-5)
    assert float(found["own"][-1]) == pytest.approx(1.0, rel=1e-5)


def test_a_process_that_is_a_formula() -> None:
    """u = ξ (1 + t), whose covariance comes from a process without a differential equation: E z² = t²."""
    t, tp = eqsolve.times("t t'")
    w = eqsolve.random("w", Normal(0, 1))
    x, u, z = eqsolve.process("x u z")
    C = eqsolve.correlation("C")
    model = System(
        "formula",
        eqs=[Eq(x(t), w * (1 + t)), Eq(C(t, tp), E(x(t) * x(tp))), Eq(z(t).diff(t), -z(t) + u(t))],
        laws={u: GP(C(t, tp))},
        init={z: 0},
        observables={"square": E(z(t) ** 2)},
    )
    assert float(eqsolve.solve(model, t_max=2, rtol=1e-6)["square"][-1]) == pytest.approx(4.0, rel=1e-5)


def test_the_scaling_law_of_data() -> None:
    losses = [float(eqsolve.solve("scaling_law_data", P=samples)["loss"]) for samples in (100, 200, 400)]
    exponents = np.diff(np.log(losses)) / np.log(2)
    assert np.all(np.abs(exponents + 1) < 0.02)


def test_symbolic_work_does_not_grow_with_the_size() -> None:
    """The compiled program of 4 and of 200 members: the same text, in about the same time."""
    from eqsolve.compile.convolution import compile_convolution

    spent = {}
    for count in (4, 200, 4, 200):
        model = sized(eqsolve.load("mct_hard_spheres"), {"wave_numbers": count})
        begun = time.process_time()
        compile_convolution(model, model.parameters)
        spent[count] = time.process_time() - begun
    assert spent[200] < 1.5 * spent[4] + 0.05


def test_neighbours_on_both_sides_with_cases_at_both_ends() -> None:
    """Diffusion on nine sites between walls at 1 and 0: the last site is named by its number. Truth: a matrix exponential."""
    k = index("k", 9)
    q, t = function("q", k), times("t")
    left = Piecewise((1, sympy.Eq(k, 0)), (q[k - 1](t), True))
    right = Piecewise((0, sympy.Eq(k, 8)), (q[k + 1](t), True))
    model = System("sites", eqs=[Eq(q[k](t).diff(t), left - 2 * q[k](t) + right)], init={q[k]: 0})
    found = eqsolve.solve(model, t_max=2).at([2.0])
    matrix = np.diag(np.full(9, -2.0)) + np.diag(np.ones(8), 1) + np.diag(np.ones(8), -1)
    truth = np.linalg.solve(matrix, (expm(2 * matrix) - np.eye(9)) @ np.eye(9)[0])
    assert np.all(np.abs(found["q"].values[:, 0] - truth) <= 3 * found["q_error"].values[:, 0] + 1e-12)


@pytest.mark.slow
def test_members_that_start_like_very_high_powers_of_time() -> None:
    """The shorter of two queues (Mitzenmacher 1996): member k starts like t^(2^(k + 1) − 1), the last one like t^4095."""
    t, places, k = times("t"), 12, index("k", 12)
    q = function("q", k)
    left = Piecewise((1, sympy.Eq(k, 0)), (q[k - 1](t), True))
    right = Piecewise((0, sympy.Eq(k, places - 1)), (q[k + 1](t), True))
    model = System("queues", [Eq(q[k](t).diff(t), 0.9 * (left**2 - q[k](t) ** 2) - (q[k](t) - right))], init={q[k]: 0})
    found = eqsolve.solve(model, t_max=8, rtol=1e-6)

    def force(_: float, state: np.ndarray) -> np.ndarray:
        return 0.9 * (np.append(1, state[:-1]) ** 2 - state**2) - (state - np.append(state[1:], 0))

    exact = solve_ivp(force, (0, 8), np.zeros(places), method="DOP853", rtol=1e-13, max_step=0.01).y[:, -1]
    last = found.at([8.0])["q"].values.ravel()
    assert found.status == "ok"
    assert np.all(np.abs(last - exact)[:8] <= 1e-6 * exact[:8])
