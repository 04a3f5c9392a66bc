"""Phase diagrams: classes and boundaries against closed forms, cavity equations and a Schrödinger equation."""

from __future__ import annotations

import functools
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import brentq

import eqsolve
from eqsolve.cli import main
from eqsolve.sweeping.diagram import LongRun, _end_of, _root
from tests.curves.test_stationary import adaptive, rate_at_rest


def of_kind(diagram: eqsolve.PhaseDiagram, kind: str, along: str) -> tuple[np.ndarray, ...]:
    """Return places and errors of boundary points of one kind, looked for along one axis."""
    found = diagram.boundaries
    part = found.isel(boundary=(found["kind"].values == kind) & (found["along"].values == along))
    return *(part[dim].values for dim in diagram.classes.dims), part["error"].values


@functools.cache
def divergence(sigma: float) -> float:
    """Return the mean interaction at which the mean abundance of Bunin (2017) diverges, at γ = 0, by quadrature.

    With N = (1 − μm + σ√q z)₊: w = (1 − μm)/(σ√q) obeys 1 = σ²⟨(w + z)₊²⟩, and m(μ + w/⟨(w + z)₊⟩) = 1.
    """

    def moment(power: int, w: float) -> float:
        return quad(lambda z: (w + z) ** power * math.exp(-(z**2) / 2), -w, max(-w, 0) + 12)[0] / math.sqrt(2 * math.pi)

    w = brentq(lambda w: sigma**2 * moment(2, w) - 1, -6, 12, xtol=1e-13)
    return -w / moment(1, w)


@pytest.fixture(scope="module")
def abundances() -> eqsolve.PhaseDiagram:
    return eqsolve.phase_diagram("lotka_volterra", sigma="0.6:2:5", mu="-1.6:3:5", progress=False)


@pytest.mark.slow
def test_lotka_volterra_loses_stability_at_the_root_of_two(abundances: eqsolve.PhaseDiagram) -> None:
    sigma, _, error = of_kind(abundances, "stability", "sigma")
    assert len(sigma) >= 2
    assert np.abs(sigma - 2**0.5).max() <= error.max() < 1e-6


def test_lotka_volterra_with_memory_loses_stability_earlier() -> None:
    line = eqsolve.phase_diagram("lotka_volterra", sigma="0.5:1.5:4", gamma=0.5, mu=4, progress=False)
    (place, error) = of_kind(line, "stability", "sigma")
    assert abs(place[0] - 2**0.5 / 1.5) <= error[0]


def test_growth_is_unbounded_beyond_the_divergence_of_the_mean(abundances: eqsolve.PhaseDiagram) -> None:
    sigma, mu, error = of_kind(abundances, "grows", "mu")
    assert len(mu) == 5
    assert (np.abs(mu - [divergence(value) for value in sigma]) <= error + 1e-9).all()
    for value, row in zip(abundances["sigma"].values, abundances.classes.values, strict=True):
        at = divergence(value)
        expected = ["unbounded" if m < at else "still" if value < 2**0.5 else "not at rest" for m in abundances["mu"].values]
        assert row.tolist() == expected


def test_colours_and_tables(abundances: eqsolve.PhaseDiagram, tmp_path: Path) -> None:
    abundances.save(tmp_path / "d.nc")
    again = eqsolve.open(tmp_path / "d.nc")
    assert isinstance(again, eqsolve.PhaseDiagram)
    assert (again.classes.values == abundances.classes.values).all()
    assert again.boundaries.equals(abundances.boundaries)
    single = eqsolve.solve(eqsolve.load("lotka_volterra").long_time(), sigma=0.6, mu=3)
    assert float(again["m"].sel(sigma=0.6, mu=3)) == pytest.approx(float(single["m"]), rel=1e-12)
    assert list(again.to_dataframe().query("sigma == 0.6")["class"]) == again.classes.values[0].tolist()
    axes = again.plot("m")
    assert {text.get_text() for text in axes.texts} == {"still", "not at rest", "unbounded"}
    assert {line.get_label() for line in axes.lines} >= {"stability lost", "grows without bound"}


def test_a_network_leaves_its_fixed_point_at_gain_one() -> None:
    line = eqsolve.phase_diagram("rnn", gain="0.5:2:6", progress=False)
    assert line.classes.values.tolist() == ["still", "still", "not at rest", "not at rest", "not at rest", "not at rest"]
    (place,) = line.boundaries["gain"].values
    assert abs(place - 1) <= float(line.boundaries["error"][0]) < 1e-5


@pytest.mark.slow
def test_chaos_of_a_network_is_told_where_asked_for() -> None:
    line = eqsolve.phase_diagram("rnn", gain=[0.5, 2], lyapunov=True, progress=False)
    assert line.classes.values.tolist() == ["still", "chaotic"]
    assert float(line["lyapunov"][0]) == pytest.approx(-0.5, abs=1e-6)


@pytest.mark.slow
def test_noise_suppresses_chaos_where_a_ground_state_says() -> None:
    """The exponent is zero where −∂² − g²⟨φ'φ'⟩(τ) has the ground state −1; C'' = C − g²⟨φφ⟩ is solved here by itself."""
    gain = 1.6
    line = eqsolve.phase_diagram("noisy_rnn", D=[0.18, 0.22], gain=gain, lyapunov=True, tolerance=1e-3, progress=False)
    assert line.classes.values.tolist() == ["chaotic", "fluctuating"]
    (place, error) = of_kind(line, "lyapunov", "D")
    x, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()

    def mean(function, start: float, c: float) -> float:  # of f(x(t + τ)) f(x(t))
        slope, rest = c / np.sqrt(start), np.sqrt(max(start - c * c / start, 0.0))
        outer = function(np.sqrt(start) * x)
        return float(weights @ (outer * (function(slope * x[:, None] + rest * x) @ weights)))

    def exponent(noise: float) -> float:
        energy = lambda s: s * s / 2 - gain**2 * (mean(LOG_COSH, s, s) - mean(LOG_COSH, s, 0.0)) - noise**2 / 2  # noqa: E731
        start = brentq(energy, 0.3, 4)  # the orbit that ends in C = 0
        path = solve_ivp(
            lambda _, y: [y[1], y[0] - gain**2 * mean(np.tanh, start, y[0])], (0, 14), [start, -noise], rtol=1e-10, atol=1e-12,
            dense_output=True, events=SMALL,
        )  # fmt: skip
        step = 0.02
        lags = np.arange(-40, 40 + step / 2, step)
        last = path.t[-1]
        c = np.where(np.abs(lags) < last, path.sol(np.minimum(np.abs(lags), last))[0], 0.0)
        table = np.linspace(-1e-3, start, 400)
        well = np.interp(c, table, [mean(lambda u: np.cosh(u) ** -2.0, start, value) for value in table])
        ground = eigh_tridiagonal(
            2 / step**2 - gain**2 * well, np.full(len(lags) - 1, -1 / step**2), select="i", select_range=(0, 0)
        )
        return -1 + float(np.sqrt(-ground[0][0]))

    assert brentq(exponent, 0.18, 0.22, xtol=1e-5) == pytest.approx(place[0], abs=1e-3)
    assert error[0] < 1e-3


def LOG_COSH(u: np.ndarray) -> np.ndarray:
    return np.logaddexp(u, -u) - np.log(2)


def SMALL(_: float, y: np.ndarray) -> float:
    return float(y[0] - 1e-3)


SMALL.terminal = True  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_network_of_two_populations_loses_stability_where_an_eigenvalue_is_one() -> None:
    x, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()

    def radius(h: float) -> float:
        spreads, couplings = np.array([[1.0, 1.5], [1.0, 1.0]]) ** 2, np.array([[1.0, -1.5], [1.2, -1.0]])
        rates, squares = np.zeros(2), np.full(2, 0.3)
        for _ in range(400):
            inputs = (couplings @ rates + [h, 0.3])[:, None] + np.sqrt(spreads @ squares)[:, None] * x
            rates, squares = (rates + np.tanh(inputs) @ weights) / 2, (squares + np.tanh(inputs) ** 2 @ weights) / 2
        return float(np.abs(np.linalg.eigvals(spreads * (np.cosh(inputs) ** -4.0 @ weights))).max()) - 1

    line = eqsolve.phase_diagram("rnn_ei", h_e=[0.5, 2.5], progress=False)
    (place, error) = of_kind(line, "stability", "h_e")
    assert abs(place[0] - brentq(radius, 0.5, 2.5, xtol=1e-10)) <= error[0] + 1e-8


@pytest.mark.slow
def test_a_network_with_adaptation_leaves_rest_at_a_frequency_of_its_own() -> None:
    line = eqsolve.phase_diagram(adaptive(), g=[1.2, 1.42], params={"gamma": 0.5, "beta": 2}, progress=False)
    (place, error) = of_kind(line, "stability", "g")
    assert abs(place[0] - brentq(lambda g: rate_at_rest(g, 0.5, 2.0), 0.9, 2, xtol=1e-10)) <= error[0] < 1e-6
    assert line.classes.values[0] == "still"
    assert line.classes.values[1] in ("fluctuating", "not at rest")


@pytest.mark.parametrize(("power", "how"), [(-1.0, "grows"), (-2.5, "grows"), (1.0, "vanishes")])
def test_the_end_of_a_power_law(power: float, how: str) -> None:
    """A fixed point x = (p* − p)^k ends at p*."""

    def solve(place: float, start: dict[str, float] | None) -> dict[str, float]:
        if place >= 0.7:
            raise eqsolve.SolverError("none")
        return {"x": (0.7 - place) ** power}

    place, error, found = _end_of(solve, 0.0, solve(0.0, None), 1.0, 1e-7)
    assert found == how
    assert abs(place - 0.7) <= max(error, 1e-7)


def test_the_end_at_a_fold_is_at_finite_numbers() -> None:
    def solve(place: float, start: dict[str, float] | None) -> dict[str, float]:
        if place >= 0.7:
            raise eqsolve.SolverError("none")
        return {"x": 1 + (0.7 - place) ** 0.5}

    place, error, found = _end_of(solve, 0.0, solve(0.0, None), 1.0, 1e-7)
    assert found == "ends"
    assert abs(place - 0.7) <= error <= 1e-7


def test_a_root_that_cannot_be_reached_is_bracketed() -> None:
    def value(place: float) -> tuple[float, float]:
        if abs(place - 0.3) < 0.05:
            raise eqsolve.SolverError("not found")
        return place - 0.3, 1e-9

    place, error = _root(value, 0.0, 1.0, 1e-8)
    assert abs(place - 0.3) <= error <= 0.5


@pytest.mark.slow
def test_a_glass_ages_below_its_transition() -> None:
    """T_d = √(p (p − 2)^(p − 2) / (2 (p − 1)^(p − 1))) = 0.6124 for p = 3 (Crisanti, Horner and Sommers 1993)."""
    critical = (3 / 8) ** 0.5
    line = eqsolve.phase_diagram("pspin", T=np.array([0.8, 1.16]) * critical, progress=False)
    assert line.classes.values.tolist() == ["aging", "fluctuating"]
    assert "at tw = 200" in str(line["message"].values[0])


def test_several_fixed_points() -> None:
    """x = ⟨tanh(a x + b + z s)⟩ with s → 0: for a = 2 and b = 0.05, three solutions; for a = 0.5 one."""
    a, b = eqsolve.param("a b")
    z, x = eqsolve.normal("z"), eqsolve.unknown("x")
    from sympy import tanh

    model = eqsolve.FixedPoint("bistable", [eqsolve.Eq(x, eqsolve.E(tanh(a * x + b + z / 10)))], defaults={a: 2, b: 0.05})
    line = eqsolve.phase_diagram(model, a=[0.5, 2], progress=False)
    assert line.classes.values.tolist() == ["fixed point", "several fixed points"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lotka_volterra", "--grid", "sigam=0.5:1:3"], "sigma"),
        (["lotka_volterra", "--grid", "sigma=0.5:1"], "FIRST:LAST:COUNT"),
        (["lotka_volterra"], "--grid"),
        (["lotka_volterra", "--grid", "sigma=0.5:1:3", "--observable", "stabilty"], "stability"),
        (["lotka_volterra", "--grid", "sigma=0.5:1:3", "mu=1,2", "gamma=0,1"], "one axis or two"),
        (["mackey_glass", "--grid", "n=5:10:3"], "no phase diagram"),
        (["logistic_fixed_point", "--grid", "delta=3,4", "--lyapunov"], "no Lyapunov exponent"),
        (["lotka_volterra", "--grid", "sigma=0.5:1:3", "--tolerance", "2"], "tolerance"),
    ],
)  # fmt: skip
def test_bad_input_is_told(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagram", *words]) == 2
    assert said in capsys.readouterr().err


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, picture = tmp_path / "d.nc", tmp_path / "d.png"
    words = [
        "diagram",
        "lotka_volterra",
        "--grid",
        "sigma=1:1.8:3",
        "--set",
        "mu=4",
        "--out",
        str(out),
        "--plot",
        str(picture),
    ]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "still" in told
    assert "1.414214" in told
    assert picture.stat().st_size > 5000
    assert main([*words, "--json"]) == 0  # read from the file
    made = json.loads(capsys.readouterr().out)
    assert made["points"]["class"] == ["still", "still", "not at rest"]
    assert made["boundaries"]["sigma"] == pytest.approx([2**0.5], abs=1e-6)


@pytest.mark.slow
def test_a_killed_diagram_goes_on(tmp_path: Path) -> None:
    out = tmp_path / "d.nc"
    given = f"sigma='0.5:2:12', mu=4, out={str(out)!r}, progress=False"
    code = f"import eqsolve; eqsolve.phase_diagram('lotka_volterra', {given})"
    child = subprocess.Popen([sys.executable, "-c", code], cwd=Path(eqsolve.__file__).parents[1])
    journal = tmp_path / "d.nc.journal"
    while not (journal.exists() and journal.read_bytes().count(b'"seconds"') > 4):
        assert child.poll() is None
        time.sleep(0.02)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    kept = journal.read_bytes().count(b'"seconds"')
    worked = []
    whole = LongRun.at_point

    def counted(self: LongRun, *given: object) -> object:
        if len(given) == 3:  # not those tried again from a neighbour
            worked.append(given)
        return whole(self, *given)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LongRun, "at_point", counted)
        found = eqsolve.phase_diagram("lotka_volterra", sigma="0.5:2:12", mu=4, out=out, progress=False)
    assert len(worked) == 12 - kept
    assert not list(tmp_path.glob("*.journal"))
    assert of_kind(found, "stability", "sigma")[0] == pytest.approx([2**0.5], abs=1e-6)


@pytest.mark.parametrize("gains", ["0.7:1.5:3", "0.6:1.5:4", [0.5, 2]])
def test_a_network_leaves_rest_at_gain_one_on_every_grid(gains: Any) -> None:
    found = eqsolve.phase_diagram("rnn", gain=gains).boundaries
    assert found["gain"].values == pytest.approx([1.0], abs=1e-6)
    assert list(found["kind"].values) == ["stability"]
