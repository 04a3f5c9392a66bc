"""Stochastic systems on a card: the same plan, the same points, the same values up to rounding."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sympy

import eqsolve
from eqsolve.compile.lowering import lower
from eqsolve.numerics import compiled, cuda, lanes
from eqsolve.numerics.backend import choose_backend
from eqsolve.solvers.paths import sweep
from tests.strict_arrays import COMPILER, STRICT, StrictCard, strict_card


@pytest.fixture(params=["strict", pytest.param("card", marks=pytest.mark.gpu)])
def card(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stand-in for a card, and a card where there is one; sweeps of all sizes are on it."""
    monkeypatch.setattr(sweep, "_WORTH", 0.0)
    if request.param == "card":
        choose_backend("gpu")
        yield
    elif COMPILER is None:
        pytest.skip("the kernels of a card are run as C++, and there is no compiler")
    else:
        with strict_card():
            yield


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("dln", {"t_max": 0.2, "rtol": 3e-2}),
        pytest.param("rnn", {"t_max": 3, "rtol": 1e-2, "solver": "stochastic"}, marks=pytest.mark.slow),
        pytest.param("soft_spin", {"t_max": 0.1, "rtol": 0.1, "kappa": 1}, marks=pytest.mark.slow),
        pytest.param("noisy_rnn", {"t_max": 0.5, "rtol": 0.05, "solver": "stochastic"}, marks=pytest.mark.slow),
    ],
)
def test_both_devices_agree(model: str, options: dict[str, Any]) -> None:
    one, other = eqsolve.solve(model, **options), eqsolve.solve(model, device="gpu", **options)
    assert one.status == other.status
    assert one.stats["nodes"] == other.stats["nodes"]
    assert one.stats["paths"] == other.stats["paths"]
    turned = model != "dln"
    for name in one.names:
        mine, yours = one.dataset[name].values, other.dataset[name].values
        # nearly equal modes turn by rounding (inputs that differ by 1.5e-13 gave means that differ by 1.6e-8): other points,
        # as good as these; paths kept are the same
        slack = 0.05 * one.dataset[f"{name}_error"].values.max() if turned and f"{name}_error" in one.dataset else 0.0
        near = 1e-5 if turned else 1e-7
        assert np.allclose(mine, yours, rtol=1e-6, atol=slack + near * np.abs(mine).max()), name


@pytest.mark.usefixtures("card")
@pytest.mark.slow
def test_a_linear_langevin_equation_has_its_closed_form() -> None:
    """x' = −x + ξ from 0: E x² = T (1 − exp(−2t)), without error by samples since the companion is the path itself."""
    asked = {"solver": "stochastic", "device": "gpu", "at": [0.5, 1], "rtol": 1e-2}
    found = eqsolve.solve("soft_spin", u=0, J=0, T=0.5, x0="Normal(0, 0.04)", **asked)
    values = found.at([0.5, 1.0])
    times = np.array([0.5, 1.0])
    truth = 0.5 * (1 - np.exp(-2 * times)) + 0.04 * np.exp(-2 * times)
    assert np.all(np.abs(values["q"].values - truth) <= values["q_error"].values)


@pytest.mark.usefixtures("card")
def test_mean_tangents_are_those_of_the_processor() -> None:
    """Two unknowns, three signals, blocks of unequal size, a noise inside signals, factors of both times."""
    rng, backend = np.random.default_rng(1), choose_backend("gpu")
    starts, unknowns, signals, paths, jobs = np.array([0, 3, 8, 10]), 2, 3, 37, 2
    nodes = int(starts[-1])
    block = np.repeat(np.arange(3), np.diff(starts))
    causal = block[:, None] <= block[None, :]  # of transposed operators: from signal to unknown
    order_u, order_k = (np.concatenate([np.tile(np.arange(a, b), m) for a, b in itertools.pairwise(starts)]) for m in (2, 3))
    operators = 0.2 * rng.normal(size=(signals * nodes, unknowns * nodes)) * causal[np.ix_(order_k, order_u)]
    slopes, source = rng.normal(size=(signals, unknowns, nodes, paths)), rng.normal(size=(unknowns * nodes, nodes))
    source *= causal.T[np.ix_(order_u, np.arange(nodes))]
    direct = rng.normal(size=(signals, nodes, paths))
    left, right = rng.normal(size=(jobs, unknowns, nodes, paths)), rng.normal(size=(jobs, nodes, paths))
    put = backend.put
    for entering, other in ((None, None), (direct, right)):
        given = [np.zeros((0, 0, 0)) if item is None else item for item in (entering, other)]
        shared = starts, unknowns, signals
        truth = compiled.mean_tangents(operators, *shared, slopes, source, given[0], left, given[1], 0, paths)
        placed = [None if item is None else put(item) for item in (entering, other)]
        found = cuda.mean_tangents(backend, put(operators), *shared, put(slopes), put(source), placed[0], put(left), placed[1])
        lower_half = causal.T[None]
        assert np.allclose(found * lower_half, truth * lower_half, rtol=1e-11, atol=1e-11 * np.abs(truth).max())


@pytest.mark.usefixtures("card")
def test_functions_of_a_model_are_those_of_numpy() -> None:
    """Every function that kernels know, in C, beside the same text on arrays."""
    x, y = sympy.symbols("x y", real=True)
    every = [
        sympy.tanh(x) * sympy.exp(-(y**2)), sympy.sqrt(1 + x**2) ** 3, sympy.Abs(x - y) + sympy.sign(x), sympy.erf(x / 2),
        sympy.Piecewise((x, x > y), (y**3, sympy.And(x > -1, y > 0)), (0, True)), sympy.Max(x, y, 0) + sympy.Min(x, 1),
        1 / (1 + sympy.exp(-x)), sympy.log(1 + x**2) + sympy.atan(y),
        sympy.sinh(3 * x) * sympy.exp(-y), sympy.Heaviside(x), sympy.cosh(y) - sympy.sin(x) / 3,
    ]  # fmt: skip
    zeros = [sympy.S.Zero] * len(every)  # in the places of slopes
    function, backend = lower([*every, *zeros], [x, y]), choose_backend("gpu")
    text = cuda.print_function(function.text, "uz")
    assert text is not None
    values = np.random.default_rng(3).normal(size=(2, 1, 50))
    put, none = backend.put, backend.put(np.zeros((0, 0)))
    # one unknown on one node with operators that vanish: it is where it starts, and the signals are the functions
    given = none, none, put(values[1:]), none, put(np.zeros((len(every), 1))), put(values[:1]), None
    _, found, _, _, failed = cuda.newton(backend, text, np.array([0, 1]), *given, len(every), 1e-3, 20, 0.2, 1e-8)
    truth = np.array([np.broadcast_to(item, 50) for item in function(values[0, 0], values[1, 0])[: len(every)]])
    assert failed < 0
    assert np.allclose(backend.get(found)[:, 0], truth, rtol=1e-13, atol=1e-14)
    assert lanes.translate(function.text, "uz", compiled.GROUP)  # what the card knows the processor knows too


def test_a_card_whose_memory_is_full_leaves_its_paths_to_the_processor(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(StrictCard):
        def kernel(self, text: str, name: str) -> Any:
            raise MemoryError

    monkeypatch.setattr(sweep, "_WORTH", 0.0)
    asked = {"t_max": 0.5, "rtol": 0.1, "solver": "stochastic"}
    truth = eqsolve.solve("rnn", **asked)
    with strict_card(Full("gpu", "a full card", STRICT.arrays)):
        found = eqsolve.solve("rnn", device="gpu", **asked)
    assert "the card's memory is full" in caplog.text
    assert np.allclose(found["q"].values, truth["q"].values, rtol=1e-12)
